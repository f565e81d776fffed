/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a forwarded flow goes, a row a rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nat/forward.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
	LO2LO = 1,
	NO_SPLICE = 2,
	SPLICE_ONLY = 4,
	NO_MAP = 8,
	MAP_GUEST = 16,
	NO_GW = 32,
	NO_V6 = 64,
	LL_SEEN = 128
};

static struct ip_addr ip(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_parse(text, &a), 0);
	return a;
}

static struct nat_config config(unsigned how)
{
	struct nat_config c = {.our_link_local = ip("fe80::1"),
			       .splice_on = !(how & NO_SPLICE),
			       .splice_only = how & SPLICE_ONLY,
			       .host_lo_to_ns_lo = how & (LO2LO | SPLICE_ONLY)};

	c.family[IP_V4] =
	    (struct nat_family){.guest_assigned = ip("192.0.2.2"),
				.gateway = ip(how & NO_GW ? "0.0.0.0" : "192.0.2.1"),
				.map_host_loopback = ip(how & NO_MAP ? "0.0.0.0" : "192.0.2.1"),
				.map_guest_addr = ip(how & MAP_GUEST ? "169.254.1.2" : "0.0.0.0")};
	c.family[IP_V6] =
	    (struct nat_family){.guest_assigned = ip(how & NO_V6 ? "::" : "2001:db8::2"),
				.gateway = ip("2001:db8::1"),
				.map_host_loopback = ip(how & NO_MAP ? "::" : "2001:db8::1"),
				.map_guest_addr = ip(how & MAP_GUEST ? "2001:db8::99" : "::")};
	return c;
}

struct row {
	unsigned how;
	enum forward_side side;
	uint8_t proto;
	const char *target, *peer, *local; /* of port 1000 */
	const char *want;                  /* "splice DST", "tap SRC DST" or "refuse" */
};

static void decision_text(const struct forward_decision *d, char *buf, size_t room)
{
	char src[IP_TEXT_MAX], dst[IP_TEXT_MAX];

	ip_format(&d->src.addr, src);
	ip_format(&d->dst.addr, dst);
	if (d->verdict == FORWARD_REFUSE)
		snprintf(buf, room, "refuse");
	else if (d->verdict == FORWARD_SPLICE)
		snprintf(buf, room, "splice %s", dst);
	else
		snprintf(buf, room, "tap %s %s", src, dst);
}

static void check(const struct row *row)
{
	struct rule rule = {.proto = row->proto, .first = 8000, .last = 8010, .target_first = 80};
	struct forward_port port = {.rule = &rule, .port = 8005, .side = row->side};
	struct nat_config cfg = config(row->how);
	struct nat_guest guest;
	struct forward_ends ends = {{ip(row->peer), 1000}, {ip(row->local), 8005}};
	struct forward_decision d;
	char text[2 * IP_TEXT_MAX + 16];

	nat_guest_init(&guest, &cfg);
	if (row->how & LL_SEEN)
		guest.link_local_seen = ip("fe80::7");
	rule.target = row->target ? ip(row->target) : ip_any[IP_V6];
	forward_decide(&cfg, &guest, &port, &ends, &d);
	decision_text(&d, text, sizeof(text));
	if (strcmp(text, row->want) != 0)
		fail_msg("%s -> %s (how %u): got '%s', want '%s'", row->peer, row->local, row->how,
			 text, row->want);
	if (d.verdict == FORWARD_REFUSE) {
		assert_non_null(d.why);
		return;
	}
	assert_int_equal(d.dst.port, 85);
	assert_int_equal(d.src.port,
			 d.verdict == FORWARD_SPLICE && row->proto == IPPROTO_TCP ? 0 : 1000);
}

static void test_from_host(void **state)
{
	static const struct row rows[] = {
	    /* Loopback clients are spliced to the guest's address, so that what listens on its
	       loopback only stays private. */
	    {0, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.1", "splice 192.0.2.2"},
	    {0, FORWARD_HOST, IPPROTO_UDP, NULL, "127.0.0.5", "127.0.0.1", "splice 192.0.2.2"},
	    {0, FORWARD_HOST, IPPROTO_TCP, NULL, "::1", "::1", "splice 2001:db8::2"},
	    {NO_V6, FORWARD_HOST, IPPROTO_TCP, NULL, "::1", "::1", "refuse"},
	    {LO2LO, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.1", "splice 127.0.0.1"},
	    {LO2LO, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.9", "splice 127.0.0.9"},
	    {LO2LO, FORWARD_HOST, IPPROTO_TCP, NULL, "::1", "::1", "splice ::1"},
	    {LO2LO, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.1", "192.0.2.2", "splice 192.0.2.2"},
	    /* The host's own address is no loopback: over the tap, as the gateway. */
	    {0, FORWARD_HOST, IPPROTO_TCP, NULL, "192.0.2.2", "192.0.2.2",
	     "tap 192.0.2.1 192.0.2.2"},
	    {MAP_GUEST, FORWARD_HOST, IPPROTO_TCP, NULL, "192.0.2.2", "192.0.2.2",
	     "tap 169.254.1.2 192.0.2.2"},
	    {NO_GW, FORWARD_HOST, IPPROTO_TCP, NULL, "192.0.2.2", "192.0.2.2", "refuse"},
	    {0, FORWARD_HOST, IPPROTO_TCP, NULL, "2001:db8::2", "2001:db8::2",
	     "tap fe80::1 2001:db8::2"},
	    {LL_SEEN, FORWARD_HOST, IPPROTO_TCP, NULL, "2001:db8::2", "2001:db8::2",
	     "tap fe80::1 fe80::7"},
	    /* Others keep their address. */
	    {0, FORWARD_HOST, IPPROTO_TCP, NULL, "198.51.100.7", "192.0.2.2",
	     "tap 198.51.100.7 192.0.2.2"},
	    {0, FORWARD_HOST, IPPROTO_UDP, NULL, "2001:db8:1::7", "2001:db8::2",
	     "tap 2001:db8:1::7 2001:db8::2"},
	    {NO_V6, FORWARD_HOST, IPPROTO_UDP, NULL, "2001:db8:1::7", "2001:db8::2", "refuse"},
	    {LO2LO, FORWARD_HOST, IPPROTO_TCP, NULL, "198.51.100.7", "192.0.2.2",
	     "tap 198.51.100.7 192.0.2.2"},
	    /* Without splicing, loopback has the alias's name, and no way in without an alias. */
	    {NO_SPLICE, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.1",
	     "tap 192.0.2.1 192.0.2.2"},
	    {NO_SPLICE, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.2", "127.0.0.1",
	     "tap 192.0.2.1 192.0.2.2"},
	    {NO_SPLICE, FORWARD_HOST, IPPROTO_TCP, NULL, "::1", "::1",
	     "tap 2001:db8::1 2001:db8::2"},
	    {NO_SPLICE | NO_MAP, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.1",
	     "refuse"},
	    {NO_SPLICE | NO_MAP, FORWARD_HOST, IPPROTO_TCP, NULL, "::1", "::1", "refuse"},
	    {NO_MAP, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.1", "splice 192.0.2.2"},
	    {NO_MAP, FORWARD_HOST, IPPROTO_TCP, NULL, "192.0.2.2", "192.0.2.2",
	     "tap 192.0.2.1 192.0.2.2"},
	    /* A target address: over the tap, to it. */
	    {0, FORWARD_HOST, IPPROTO_TCP, "192.0.2.9", "127.0.0.1", "127.0.0.1",
	     "tap 192.0.2.1 192.0.2.9"},
	    {0, FORWARD_HOST, IPPROTO_TCP, "192.0.2.9", "198.51.100.7", "192.0.2.2",
	     "tap 198.51.100.7 192.0.2.9"},
	    {SPLICE_ONLY, FORWARD_HOST, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.1",
	     "splice 127.0.0.1"},
	    {SPLICE_ONLY, FORWARD_HOST, IPPROTO_TCP, NULL, "198.51.100.7", "192.0.2.2", "refuse"},
	    {SPLICE_ONLY, FORWARD_HOST, IPPROTO_TCP, "192.0.2.9", "127.0.0.1", "127.0.0.1",
	     "refuse"},
	    /* Multicast keeps its group. */
	    {0, FORWARD_HOST, IPPROTO_UDP, NULL, "198.51.100.7", "224.0.0.251",
	     "tap 198.51.100.7 224.0.0.251"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		check(&rows[i]);
}

static void test_from_ns(void **state)
{
	static const struct row rows[] = {
	    {0, FORWARD_NS, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.1", "splice 127.0.0.1"},
	    {0, FORWARD_NS, IPPROTO_UDP, NULL, "::1", "::1", "splice ::1"},
	    {NO_MAP | NO_SPLICE, FORWARD_NS, IPPROTO_TCP, NULL, "127.0.0.1", "127.0.0.3",
	     "splice 127.0.0.3"},
	    {0, FORWARD_NS, IPPROTO_TCP, NULL, "192.0.2.2", "127.0.0.1", "refuse"},
	    {0, FORWARD_NS, IPPROTO_TCP, NULL, "127.0.0.1", "192.0.2.2", "refuse"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		check(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_from_host),
					   cmocka_unit_test(test_from_ns)};

	return cmocka_run_group_tests_name("forward", tests, NULL, NULL);
}
