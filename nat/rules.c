/* SPDX-License-Identifier: BSD-3-Clause */
/* The grammar:
 *
 *   spec  := "none" | [ addr-part "/" ] chunk { "," chunk }
 *   addr-part := [ ADDR | "*" ] [ "%" IFNAME ]
 *   chunk := "all" [ ":" ADDR ] | "auto" | "~" range | range [ ":" target ]
 *   target := [ ADDR "/" ] range | ADDR
 *   range := N [ "-" N ]
 *
 * Exclusions and "auto" hold for the whole spec wherever they stand, so it is read twice: what is
 * included is noted chunk by chunk, what is excluded in one set of ports, and rules come out at the
 * end. */
#include "nat/rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define PORTS 65536

struct port_range {
	uint16_t first, last;
};

struct include {
	struct port_range from;
	struct ip_addr target; /* unspecified: none */
	uint16_t target_first;
};

struct parser {
	const struct rule_context *ctx;
	const char *spec;
	char *error;
	struct rule base; /* address part */
	struct include includes[RULES_MAX];
	unsigned include_count;
	uint8_t excluded[PORTS / 8];
	bool all, scan;
	struct ip_addr all_target;
};

static int __attribute__((format(printf, 2, 3))) fail(struct parser *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->error, RULE_ERROR_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* Digits of at most five, 1 to 65535, of len characters. 0 or -EINVAL. */
static int parse_port(const char *s, size_t len, uint16_t *out)
{
	unsigned v = 0;

	if (!len || len > 5)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	if (!v || v >= PORTS)
		return -EINVAL;
	*out = (uint16_t)v;
	return 0;
}

static int parse_range(const char *s, size_t len, struct port_range *out)
{
	const char *dash = memchr(s, '-', len);
	size_t head = dash ? (size_t)(dash - s) : len;
	struct port_range r;

	if (parse_port(s, head, &r.first))
		return -EINVAL;
	r.last = r.first;
	if (dash && (parse_port(dash + 1, len - head - 1, &r.last) || r.last < r.first))
		return -EINVAL;
	*out = r;
	return 0;
}

static int parse_addr_part(const char *s, size_t len, struct ip_addr *out)
{
	char text[IP_TEXT_MAX + 2];

	if (len >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, len);
	text[len] = '\0';
	return ip_parse(text, out);
}

static bool ifname_valid(const char *s, size_t len)
{
	if (!len || len >= IF_NAMESIZE || (len == 1 && s[0] == '.') ||
	    (len == 2 && !memcmp(s, "..", 2)))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '/' || s[i] == ' ' || (s[i] >= '\t' && s[i] <= '\r'))
			return false;
	}
	return true;
}

/* What stands before the "/": where to listen. */
static int parse_listen(struct parser *p, const char *s, size_t len)
{
	const char *percent = memchr(s, '%', len);
	size_t addr_len = percent ? (size_t)(percent - s) : len;
	struct rule *base = &p->base;

	if (p->ctx->loopback_only)
		return fail(p, "'%.99s': no address or interface can be given here", p->spec);
	if (percent) {
		size_t name_len = len - addr_len - 1;

		if (!ifname_valid(percent + 1, name_len))
			return fail(p, "'%.99s': bad interface name '%.*s'", p->spec, (int)name_len,
				    percent + 1);
		memcpy(base->ifname, percent + 1, name_len);
	}
	if (!addr_len || (addr_len == 1 && s[0] == '*'))
		return 0;
	if (parse_addr_part(s, addr_len, &base->addr) || ip_is_multicast(&base->addr))
		return fail(p, "'%.99s': bad address '%.*s'", p->spec, (int)addr_len, s);
	if (!p->ctx->family_on[ip_family(&base->addr)])
		return fail(p, "'%.99s': the family of '%.*s' is off", p->spec, (int)addr_len, s);
	base->dual_stack = false;
	return 0;
}

static int check_target(struct parser *p, const struct ip_addr *target, const char *s, size_t len)
{
	if (ip_is_multicast(target) || ip_is_unspecified(target))
		return fail(p, "'%.99s': '%.*s' can't be a target address", p->spec, (int)len, s);
	if (p->base.dual_stack)
		return fail(p, "'%.99s': target address '%.*s' needs an address to listen on",
			    p->spec, (int)len, s);
	if (ip_family(target) != ip_family(&p->base.addr))
		return fail(p, "'%.99s': target address '%.*s' is of another family", p->spec,
			    (int)len, s);
	return 0;
}

/* What stands behind the ":": address, address and ports, or ports. */
static int parse_target(struct parser *p, const char *s, size_t len, struct include *inc)
{
	const char *slash = memchr(s, '/', len);
	const char *ports = slash ? slash + 1 : s;
	size_t ports_len = len - (size_t)(ports - s);
	size_t addr_len = slash ? (size_t)(slash - s) : len;
	struct port_range to;

	if (slash || parse_range(s, len, &to)) {
		if (parse_addr_part(s, addr_len, &inc->target))
			return fail(p, "'%.99s': bad target '%.*s'", p->spec, (int)len, s);
		if (check_target(p, &inc->target, s, addr_len))
			return -EINVAL;
		if (!slash)
			return 0;
		if (parse_range(ports, ports_len, &to))
			return fail(p, "'%.99s': bad target ports '%.*s'", p->spec, (int)ports_len,
				    ports);
	}
	if (to.last != to.first && to.last - to.first != inc->from.last - inc->from.first)
		return fail(p, "'%.99s': target ports '%.*s' are not as many", p->spec,
			    (int)ports_len, ports);
	if (to.first + (inc->from.last - inc->from.first) >= PORTS)
		return fail(p, "'%.99s': target ports from '%.*s' on run past 65535", p->spec,
			    (int)ports_len, ports);
	inc->target_first = to.first;
	return 0;
}

static int parse_include(struct parser *p, const char *s, size_t len)
{
	const char *colon = memchr(s, ':', len);
	size_t head = colon ? (size_t)(colon - s) : len;
	struct include inc = {.target = ip_any[IP_V6]};

	if (p->include_count == RULES_MAX)
		return fail(p, "'%.99s': more than %d ranges", p->spec, RULES_MAX);
	if (parse_range(s, head, &inc.from))
		return fail(p, "'%.99s': bad ports '%.*s'", p->spec, (int)head, s);
	inc.target_first = inc.from.first;
	if (colon && parse_target(p, colon + 1, len - head - 1, &inc))
		return -EINVAL;
	p->includes[p->include_count++] = inc;
	return 0;
}

static int parse_chunk(struct parser *p, const char *s, size_t len)
{
	struct port_range r;

	if (len == 4 && !memcmp(s, "auto", 4)) {
		p->scan = true;
		return p->ctx->auto_allowed ? 0
					    : fail(p, "'%.99s': 'auto' is for pasta only", p->spec);
	}
	if (len == 3 && !memcmp(s, "all", 3)) {
		p->all = true;
		return 0;
	}
	if (len >= 4 && !memcmp(s, "all:", 4)) {
		p->all = true;
		if (parse_addr_part(s + 4, len - 4, &p->all_target))
			return fail(p, "'%.99s': bad target '%.*s'", p->spec, (int)(len - 4),
				    s + 4);
		return check_target(p, &p->all_target, s + 4, len - 4);
	}
	if (len && s[0] == '~') {
		if (parse_range(s + 1, len - 1, &r))
			return fail(p, "'%.99s': bad ports '%.*s'", p->spec, (int)len, s);
		for (unsigned port = r.first; port <= r.last; port++)
			p->excluded[port / 8] |= (uint8_t)(1U << port % 8);
		return 0;
	}
	return parse_include(p, s, len);
}

static int parse_chunks(struct parser *p, const char *s)
{
	for (;;) {
		size_t len = strcspn(s, ",");
		int r = parse_chunk(p, s, len);

		if (r < 0)
			return r;
		if (!s[len])
			return 0;
		s += len + 1;
	}
}

/* true if both would listen on the same address and port. Interfaces don't tell rules apart. */
static bool rules_clash(const struct rule *a, const struct rule *b)
{
	if (a->proto != b->proto || a->last < b->first || b->last < a->first)
		return false;
	if (a->dual_stack || b->dual_stack)
		return true;
	if (ip_family(&a->addr) != ip_family(&b->addr))
		return false;
	return ip_equal(&a->addr, &b->addr) || ip_is_unspecified(&a->addr) ||
	       ip_is_unspecified(&b->addr);
}

static int add_rule(struct parser *p, struct rule_table *table, const struct rule *r)
{
	for (unsigned i = 0; i < table->count; i++) {
		if (rules_clash(&table->rules[i], r))
			return fail(p, "'%.99s': ports %u-%u are forwarded already", p->spec,
				    r->first, r->last);
	}
	if (table->count == RULES_MAX) {
		fail(p, "'%.99s': more than %d rules", p->spec, RULES_MAX);
		return -E2BIG;
	}
	table->rules[table->count++] = *r;
	return 0;
}

/* An included range becomes as many rules as its exclusions leave pieces. */
static int add_range(struct parser *p, struct rule_table *table, const struct include *inc)
{
	struct rule r = p->base;

	r.target = inc->target;
	r.scan = p->scan;
	for (unsigned port = inc->from.first; port <= inc->from.last; port++) {
		unsigned end = port;
		int err;

		if (p->excluded[port / 8] & 1U << port % 8)
			continue;
		while (end < inc->from.last && !(p->excluded[(end + 1) / 8] & 1U << (end + 1) % 8))
			end++;
		r.first = (uint16_t)port;
		r.last = (uint16_t)end;
		r.target_first = (uint16_t)(inc->target_first + (port - inc->from.first));
		err = add_rule(p, table, &r);
		if (err < 0)
			return err;
		port = end;
	}
	return 0;
}

static int add_all(struct parser *p, struct rule_table *table)
{
	const struct include all = {
	    .from = {1, PORTS - 1}, .target = p->all_target, .target_first = 1};

	for (unsigned port = p->ctx->ephemeral_first; port <= p->ctx->ephemeral_last && port;
	     port++)
		p->excluded[port / 8] |= (uint8_t)(1U << port % 8);
	p->base.weak = true;
	return add_range(p, table, &all);
}

static void init_base(struct parser *p)
{
	const struct rule_context *ctx = p->ctx;

	p->base.proto = ctx->proto;
	p->base.dual_stack = ctx->family_on[IP_V4] && ctx->family_on[IP_V6];
	p->base.addr = ip_any[ctx->family_on[IP_V4] ? IP_V4 : IP_V6];
	if (ctx->loopback_only)
		memcpy(p->base.ifname, "lo", sizeof("lo"));
}

/* true if the len characters before the first "/" say where to listen. They don't if they are the
 * head of a chunk with a target address, as in 5000:192.0.2.5/6000; where both readings are
 * possible, as in 2001:db8::1/80, an address it is. */
static bool is_listen_part(const char *s, size_t len)
{
	const char *percent = memchr(s, '%', len);
	size_t addr_len = percent ? (size_t)(percent - s) : len;
	struct ip_addr a;

	if (memchr(s, ',', len))
		return false;
	return s[0] == '[' || !memchr(s, ':', addr_len) || !parse_addr_part(s, addr_len, &a);
}

static int parse_spec(struct parser *p, struct rule_table *table)
{
	const char *slash = strchr(p->spec, '/');
	const char *ports = p->spec;
	int r = 0;

	if (slash && is_listen_part(p->spec, (size_t)(slash - p->spec))) {
		r = parse_listen(p, p->spec, (size_t)(slash - p->spec));
		ports = slash + 1;
	}
	if (!r)
		r = parse_chunks(p, ports);
	for (unsigned i = 0; !r && i < p->include_count; i++)
		r = add_range(p, table, &p->includes[i]);
	if (!r && !p->include_count)
		r = add_all(p, table);
	return r;
}

static int parse_none(struct parser *p, const struct rule_table *table)
{
	for (unsigned i = 0; i < table->count; i++) {
		if (table->rules[i].proto == p->ctx->proto)
			return fail(p, "'none' after other ports");
	}
	return 0;
}

int rules_parse(const char *spec, const struct rule_context *ctx, struct rule_table *table,
		char error[RULE_ERROR_MAX])
{
	struct parser p = {.ctx = ctx, .spec = spec, .error = error, .all_target = ip_any[IP_V6]};
	unsigned count = table->count;
	int r;

	if (!strcmp(spec, "none"))
		return parse_none(&p, table);
	init_base(&p);
	r = parse_spec(&p, table);
	if (r < 0)
		table->count = count; /* rules are only ever added at the end */
	return r;
}

const char *rule_format(const struct rule *r, char buf[RULE_TEXT_MAX])
{
	char addr[IP_TEXT_MAX] = "*", target[IP_TEXT_MAX + 3] = "", text[IP_TEXT_MAX];
	unsigned target_last = r->target_first + (unsigned)(r->last - r->first);

	if (!r->dual_stack)
		ip_format(&r->addr, addr);
	if (!ip_is_unspecified(&r->target))
		snprintf(target, sizeof(target), "[%s]:", ip_format(&r->target, text));
	snprintf(buf, RULE_TEXT_MAX, "%s [%s]%s%s:%u-%u  =>  %s%u-%u%s%s",
		 r->proto == IPPROTO_TCP ? "TCP" : "UDP", addr, r->ifname[0] ? "%" : "", r->ifname,
		 r->first, r->last, target, r->target_first, target_last,
		 r->weak ? " (best effort)" : "", r->scan ? " (auto-scan)" : "");
	return buf;
}
