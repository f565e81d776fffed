/* SPDX-License-Identifier: BSD-3-Clause */
/* `auto`: ports are open while something listens on the other side. */
#include <errno.h>
#include <stdlib.h>

#include "core/log.h"
#include "passt/forward_state.h"

/* A listener is to be reachable within 300 ms; what it costs, see host/ports.h. Servers are likely
 * to come up soon after the start. */
#define TICK         (250 * USEC_MSEC)
#define TICK_EARLY   (25 * USEC_MSEC)
#define EARLY_TICKS  12
#define FULL_EVERY   8 /* ticks, between looks that the counters don't ask for */
/* What comes and goes once does so again: after a change a look at every tick for two seconds,
 * since the counters miss a server that goes as the next one comes. */
#define LIVELY_TICKS 8
/* On a busy host the counters ask for a look every time: a few are given at once, but only one in
 * so many ticks on average. */
#define HOST_CREDIT  8
#define HOST_EVERY   2

static uint16_t target_of(const struct forward_rule *r, unsigned port)
{
	return (uint16_t)(r->rule.target_first + (port - r->rule.first));
}

/* What listens on a side and isn't ours. 0 or negative errno of the look. */
static int look(const struct forward *f, enum forward_side side, struct port_sight *out)
{
	bool udp = f->scans[forward_other(side)][1];
	int r = ports_look(f->views[side], IPPROTO_TCP, &out->tcp);

	if (!r && udp)
		r = ports_look(f->views[side], IPPROTO_UDP, &out->udp);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < f->rule_count; i++) {
		const struct forward_rule *rule = &f->rules[i];
		struct port_set *s = rule->rule.proto == IPPROTO_TCP ? &out->tcp : &out->udp;

		if (rule->side != side)
			continue;
		list_foreach (n, &rule->ports) {
			uint16_t port = container_of(n, struct open_port, node)->port.port;

			s->bits[port / 64] &= ~((uint64_t)1 << (port % 64));
		}
	}
	for (int i = 0; udp && i < PORT_SET_WORDS; i++)
		out->udp.bits[i] |= out->tcp.bits[i];
	return 0;
}

static void close_gone(struct forward *f, struct forward_rule *r, const struct port_set *wanted)
{
	list_foreach_safe (n, &r->ports) {
		struct open_port *p = container_of(n, struct open_port, node);

		if (port_set_has(wanted, target_of(r, p->port.port)))
			continue;
		log_debug("%s port %u is forwarded no more",
			  r->rule.proto == IPPROTO_TCP ? "TCP" : "UDP", p->port.port);
		forward_close_port(f, p);
	}
}

static void note_failures(struct forward_rule *r, const struct port_failures *failures,
			  unsigned from)
{
	for (unsigned i = from; i < failures->count; i++) {
		const struct port_failure *e = &failures->items[i];

		for (unsigned port = e->first; port <= e->last; port++)
			port_set_add(r->failed, (uint16_t)port);
		r->any_failed = true;
		log_debug("%s ports %u-%u can't be forwarded: %s",
			  r->rule.proto == IPPROTO_TCP ? "TCP" : "UDP", e->first, e->last,
			  strerror(-e->err));
	}
}

static int open_new(struct forward *f, struct forward_rule *r, const struct port_set *wanted,
		    struct port_failures *failures)
{
	struct port_set skip = *r->failed;
	unsigned from = failures->count;
	int err = 0;

	list_foreach (n, &r->ports)
		port_set_add(&skip, container_of(n, struct open_port, node)->port.port);
	for (unsigned port = r->rule.first; !err && port <= r->rule.last; port++) {
		unsigned end = port;

		while (end <= r->rule.last && port_set_has(wanted, target_of(r, end)) &&
		       !port_set_has(&skip, (uint16_t)end))
			end++;
		if (end == port)
			continue;
		err = forward_open_range(f, r, (uint16_t)port, (uint16_t)(end - 1), failures);
		port = end;
	}
	if (!err)
		note_failures(r, failures, from);
	return err;
}

/* Brings the rules of a side in line with what listens on the other one. */
static int update(struct forward *f, enum forward_side side, struct port_failures *failures)
{
	const struct port_sight *sight = f->sights[forward_other(side)];
	int err = 0;

	for (unsigned i = 0; !err && i < f->rule_count; i++) {
		struct forward_rule *r = &f->rules[i];
		const struct port_set *wanted =
		    r->rule.proto == IPPROTO_TCP ? &sight->tcp : &sight->udp;

		if (r->side != side || !r->rule.scan)
			continue;
		close_gone(f, r, wanted);
		err = open_new(f, r, wanted, failures);
	}
	return err;
}

/* Ports that could not be had may be tried again. true if there are any. */
static bool forget_failed(struct forward *f, enum forward_side side)
{
	bool any = false;

	for (unsigned i = 0; i < f->rule_count; i++) {
		struct forward_rule *r = &f->rules[i];

		if (r->side != side || !r->any_failed)
			continue;
		memset(r->failed, 0, sizeof(*r->failed));
		r->any_failed = false;
		any = true;
	}
	return any;
}

static bool may_look(struct forward *f, enum forward_side at)
{
	if (at == FORWARD_NS || f->ticks < EARLY_TICKS)
		return true;
	if (!f->host_credit)
		return false;
	f->host_credit--;
	return true;
}

/* One look at what the rules of a side depend on, and what follows from it. full: whatever the
 * counters say. */
static int scan(struct forward *f, enum forward_side side, bool full,
		struct port_failures *failures)
{
	enum forward_side from = forward_other(side);
	struct port_sight now = {0};
	int r;

	if (!f->views[from] || !(f->scans[side][0] || f->scans[side][1]))
		return 0;
	f->stale[from] |= ports_may_have_changed(f->views[from], &f->counters[from]);
	if (f->lively[from]) {
		f->lively[from]--;
		f->stale[from] = true;
	}
	if (!full && (!f->stale[from] || !may_look(f, from)))
		return 0;
	f->stale[from] = false;
	r = look(f, from, &now);
	if (r < 0) {
		log_debug("Can't see who listens %s: %s",
			  from == FORWARD_NS ? "in the namespace" : "on the host", strerror(-r));
		return 0;
	}
	full = full && forget_failed(f, side);
	if (!full && !memcmp(&now, f->sights[from], sizeof(now)))
		return 0;
	*f->sights[from] = now;
	f->lively[from] = LIVELY_TICKS;
	return update(f, side, failures);
}

static void tick(struct timer *t, usec_t now)
{
	struct forward *f = container_of(t, struct forward, timer);
	bool full = ++f->ticks % FULL_EVERY == 0;
	struct port_failures failures = {0};
	int r = 0;

	if (f->ticks % HOST_EVERY == 0 && f->host_credit < HOST_CREDIT)
		f->host_credit++;
	for (int side = 0; !r && side < FORWARD_SIDES; side++)
		r = scan(f, (enum forward_side)side, full, &failures);
	free(failures.items);
	if (!r)
		r = timer_set(loop_timers(f->loop), t,
			      now + (f->ticks < EARLY_TICKS ? TICK_EARLY : TICK));
	if (r < 0)
		log_warn("Ports are no longer forwarded automatically: %s", strerror(-r));
}

/* What can't be looked at is no reason to fail. */
static void open_views(struct forward *f)
{
	bool host = f->scans[FORWARD_NS][0] || f->scans[FORWARD_NS][1];
	bool ns = f->scans[FORWARD_HOST][0] || f->scans[FORWARD_HOST][1];

	f->views[FORWARD_NS] = f->ops.ns_ports;
	if (host && ports_view_open(&f->host_ports) == 0)
		f->views[FORWARD_HOST] = &f->host_ports;
	if ((host && !f->views[FORWARD_HOST]) || (ns && !f->views[FORWARD_NS]))
		log_warn("Can't see who listens %s: nothing is forwarded automatically from there",
			 ns && !f->views[FORWARD_NS] ? "in the namespace" : "on the host");
}

int forward_scan_start(struct forward *f, struct port_failures *failures)
{
	int r = 0;

	for (unsigned i = 0; i < f->rule_count; i++) {
		struct forward_rule *rule = &f->rules[i];

		if (!rule->rule.scan)
			continue;
		f->scans[rule->side][rule->rule.proto == IPPROTO_UDP] = true;
		rule->failed = calloc(1, sizeof(*rule->failed));
		if (!rule->failed)
			return -ENOMEM;
	}
	open_views(f);
	for (int side = 0; !r && side < FORWARD_SIDES; side++) {
		if (!f->scans[side][0] && !f->scans[side][1])
			continue;
		f->sights[!side] = calloc(1, sizeof(*f->sights[0]));
		r = f->sights[!side] ? scan(f, (enum forward_side)side, true, failures) : -ENOMEM;
	}
	return r;
}

int forward_scan_serve(struct forward *f)
{
	bool any = false;

	for (int side = 0; side < FORWARD_SIDES; side++)
		any |= f->views[side] && f->sights[side];
	timer_init(&f->timer, tick);
	return any ? timer_set(loop_timers(f->loop), &f->timer, 0) : 0;
}

void forward_scan_stop(struct forward *f)
{
	if (f->timer.expire)
		timer_drop(loop_timers(f->loop), &f->timer);
	ports_view_close(&f->host_ports);
	for (int side = 0; side < FORWARD_SIDES; side++)
		free(f->sights[side]);
	for (unsigned i = 0; i < f->rule_count; i++)
		free(f->rules[i].failed);
}
