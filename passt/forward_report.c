/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user hears of ports that can't be had. */
#include <errno.h>
#include <stdio.h>

#include "core/log.h"
#include "passt/forward_state.h"

#define LINES_MAX 20

static const char *const places[FORWARD_SIDES] = {"the host", "the namespace"};

static const char *hint_of(int err)
{
	switch (err) {
	case -EACCES:
		return ": ports below net.ipv4.ip_unprivileged_port_start need "
		       "CAP_NET_BIND_SERVICE";
	case -EADDRNOTAVAIL:
		return ": no such address there (see --freebind)";
	default:
		return "";
	}
}

static void say_failure(const struct port_failure *e)
{
	const struct rule *r = &e->rule->rule;
	char ports[24], at[IP_TEXT_MAX + 4] = "", addr[IP_TEXT_MAX];

	snprintf(ports, sizeof(ports), e->first == e->last ? " %u" : "s %u-%u", e->first, e->last);
	if (!r->dual_stack)
		snprintf(at, sizeof(at), " at %s", ip_format(&r->addr, addr));
	log_err("Can't listen on %s port%s of %s%s%s%s: %s%s",
		r->proto == IPPROTO_TCP ? "TCP" : "UDP", ports, places[e->rule->side], at,
		r->ifname[0] ? " on " : "", r->ifname, strerror(-e->err), hint_of(e->err));
}

static unsigned length_of(const struct port_failure *e)
{
	return e->last - e->first + 1U;
}

/* The weak ones of a side and protocol in one line, at a level that --quiet hides: what is taken is
 * as it should be. */
static void say_skipped(const struct port_failures *failures, enum forward_side side, uint8_t proto)
{
	unsigned in_use = 0, not_permitted = 0, other = 0;

	for (unsigned i = 0; i < failures->count; i++) {
		const struct port_failure *e = &failures->items[i];

		if (e->rule->side != side || e->rule->rule.proto != proto || !e->rule->rule.weak ||
		    e->rule->rule.scan)
			continue;
		*(e->err == -EADDRINUSE ? &in_use
		  : e->err == -EACCES   ? &not_permitted
					: &other) += length_of(e);
	}
	if (in_use || not_permitted || other)
		log_info("%s ports of %s that are left out: %u in use, %u not permitted, %u for "
			 "other reasons",
			 proto == IPPROTO_TCP ? "TCP" : "UDP", places[side], in_use, not_permitted,
			 other);
}

/* true if both are pieces of one spec, between whose exclusions they lie. */
static bool same_wish(const struct forward_rule *a, const struct forward_rule *b)
{
	return a->side == b->side && a->rule.proto == b->rule.proto && b->rule.weak &&
	       !b->rule.scan && a->rule.dual_stack == b->rule.dual_stack &&
	       (a->rule.dual_stack || ip_equal(&a->rule.addr, &b->rule.addr)) &&
	       !strcmp(a->rule.ifname, b->rule.ifname);
}

static bool got_something(const struct forward *f, const struct forward_rule *rule)
{
	for (unsigned i = 0; i < f->rule_count; i++) {
		if (f->rules[i].count && same_wish(rule, &f->rules[i]))
			return true;
	}
	return false;
}

/* Who wants whatever can be had has got nothing. */
static int say_empty(const struct forward *f)
{
	char buf[RULE_TEXT_MAX];
	int r = 0;

	for (unsigned i = 0; i < f->rule_count; i++) {
		const struct forward_rule *rule = &f->rules[i];

		if (!rule->rule.weak || rule->rule.scan || got_something(f, rule))
			continue;
		log_err("Can't listen on any port of %s that the rule asks for: %s",
			places[rule->side], rule_format(&rule->rule, buf));
		r = -EADDRINUSE;
	}
	return r;
}

int forward_report_failures(const struct forward *f, const struct port_failures *failures)
{
	unsigned lines = 0, more = 0;
	int r = 0;

	for (unsigned i = 0; i < failures->count; i++) {
		const struct port_failure *e = &failures->items[i];

		if (e->rule->rule.weak)
			continue;
		r = r ? r : e->err;
		if (lines < LINES_MAX) {
			say_failure(e);
			lines++;
		} else {
			more += length_of(e);
		}
	}
	if (more)
		log_err("Nor on %u more ports", more);
	for (int side = 0; side < FORWARD_SIDES; side++) {
		say_skipped(failures, (enum forward_side)side, IPPROTO_TCP);
		say_skipped(failures, (enum forward_side)side, IPPROTO_UDP);
	}
	return r ? r : say_empty(f);
}
