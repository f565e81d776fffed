/* SPDX-License-Identifier: BSD-3-Clause */
/* Address translation, a row a rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nat/translate.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct ip_addr ip(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_parse(text, &a), 0);
	return a;
}

static struct nat_config config(void)
{
	struct nat_config c = {.our_link_local = ip("fe80::1")};

	c.family[IP_V4] = (struct nat_family){.on = true,
					      .guest_assigned = ip("192.0.2.2"),
					      .gateway = ip("192.0.2.1"),
					      .map_host_loopback = ip("192.0.2.1"),
					      .map_guest_addr = ip("169.254.1.2"),
					      .dns_forward = ip("169.254.1.1"),
					      .dns_host = ip("127.0.0.53")};
	c.family[IP_V6] = (struct nat_family){.on = true,
					      .guest_assigned = ip("2001:db8::2"),
					      .gateway = ip("fe80::9"),
					      .map_host_loopback = ip("fe80::9"),
					      .map_guest_addr = ip("2001:db8::99"),
					      .dns_forward = ip("2001:db8::53"),
					      .dns_host = ip("::1")};
	return c;
}

static void assert_ip(const struct ip_addr *got, const char *want)
{
	char buf[IP_TEXT_MAX];

	assert_string_equal(ip_format(got, buf), want);
}

static void test_to_host(void **state)
{
	static const struct {
		uint8_t proto;
		const char *dst;
		uint16_t port;
		const char *want;
	} rows[] = {
	    {IPPROTO_TCP, "198.51.100.7", 80, "198.51.100.7"},
	    {IPPROTO_TCP, "192.0.2.1", 80, "127.0.0.1"},
	    {IPPROTO_UDP, "192.0.2.1", 53, "127.0.0.1"},
	    {IPPROTO_ICMP, "192.0.2.1", 0, "127.0.0.1"},
	    {IPPROTO_TCP, "169.254.1.1", 53, "127.0.0.53"},
	    {IPPROTO_UDP, "169.254.1.1", 53, "127.0.0.53"},
	    {IPPROTO_TCP, "169.254.1.1", 853, "127.0.0.53"},
	    {IPPROTO_TCP, "169.254.1.1", 80, "169.254.1.1"},
	    {IPPROTO_ICMP, "169.254.1.1", 53, "169.254.1.1"},
	    {IPPROTO_TCP, "169.254.1.2", 8080, "192.0.2.2"},
	    {IPPROTO_TCP, "fe80::9", 80, "::1"},
	    {IPPROTO_UDP, "2001:db8::53", 53, "::1"},
	    {IPPROTO_TCP, "2001:db8::53", 54, "2001:db8::53"},
	    {IPPROTO_TCP, "2001:db8::99", 1, "2001:db8::2"},
	    {IPPROTO_TCP, "2001:db8:1::1", 1, "2001:db8:1::1"},
	};
	struct nat_config c = config();

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct endpoint dst = {ip(rows[i].dst), rows[i].port};
		struct ip_addr got = nat_to_host(&c, rows[i].proto, &dst);

		assert_ip(&got, rows[i].want);
	}
}

/* With nothing mapped, every destination goes out unchanged. */
static void test_to_host_unmapped(void **state)
{
	static const char *const addrs[] = {"192.0.2.1", "169.254.1.1", "fe80::9", "2001:db8::53"};
	struct nat_config c = config();

	(void)state;
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct nat_family *nf = &c.family[f];

		nf->map_host_loopback = nf->map_guest_addr = nf->dns_forward = ip_any[f];
	}
	for (size_t i = 0; i < COUNT(addrs); i++) {
		struct endpoint dst = {ip(addrs[i]), 53};
		struct ip_addr got = nat_to_host(&c, IPPROTO_UDP, &dst);

		assert_ip(&got, addrs[i]);
	}
}

static void test_source_for_guest(void **state)
{
	static const struct {
		const char *src, *want;
	} rows[] = {
	    {"198.51.100.7", "198.51.100.7"},
	    {"127.0.0.1", "192.0.2.1"},
	    {"127.0.0.2", "192.0.2.1"},
	    {"192.0.2.2", "169.254.1.2"},
	    {"192.0.2.77", "192.0.2.1"},
	    {"2001:db8:1::7", "2001:db8:1::7"},
	    {"::1", "fe80::9"},
	    {"2001:db8::2", "2001:db8::99"},
	};
	struct nat_config c = config();
	struct nat_guest g;
	struct ip_addr seen = ip("192.0.2.77");

	(void)state;
	nat_guest_init(&g, &c);
	nat_guest_learn(&g, &c, &seen);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ip_addr src = ip(rows[i].src), got = nat_source_for_guest(&c, &g, &src);

		assert_ip(&got, rows[i].want);
	}
	c.family[IP_V4].gateway = c.family[IP_V4].map_host_loopback = ip_any[IP_V4];
	seen = nat_source_for_guest(&c, &g, &ip_loopback[IP_V4]);
	assert_true(ip_is_unspecified(&seen));
}

static void test_guest_learn(void **state)
{
	struct nat_config c = config();
	struct nat_guest g;
	struct ip_addr a;

	(void)state;
	nat_guest_init(&g, &c);
	assert_ip(&g.seen[IP_V4], "192.0.2.2");
	a = ip("fe80::5");
	nat_guest_learn(&g, &c, &a);
	assert_ip(&g.link_local_seen, "fe80::5");
	assert_ip(&g.seen[IP_V6], "2001:db8::2");
	a = ip("2001:db8::7");
	nat_guest_learn(&g, &c, &a);
	assert_ip(&g.seen[IP_V6], "2001:db8::7");
	c.family[IP_V4].address_fixed = true;
	a = ip("192.0.2.9");
	nat_guest_learn(&g, &c, &a);
	assert_ip(&g.seen[IP_V4], "192.0.2.2");
	nat_guest_learn(&g, &c, &ip_any[IP_V4]);
	assert_ip(&g.seen[IP_V4], "192.0.2.2");
	c.family[IP_V6].guest_assigned = ip_any[IP_V6];
	nat_guest_init(&g, &c);
	a = ip("fe80::5"); /* fills the seen address only while that is empty */
	nat_guest_learn(&g, &c, &a);
	assert_ip(&g.seen[IP_V6], "fe80::5");
}

/* Who says that there is no way. */
static void test_router(void **state)
{
	struct nat_config c = config();
	struct ip_addr v4 = ip("203.0.113.9"), v6 = ip("2001:db8:1::9"), r;

	(void)state;
	r = nat_router_for_guest(&c, &v4);
	assert_ip(&r, "192.0.2.1");
	r = nat_router_for_guest(&c, &v6);
	assert_ip(&r, "fe80::1");
	c.family[IP_V4].gateway = ip_any[IP_V4];
	c.our_link_local = ip_any[IP_V6];
	r = nat_router_for_guest(&c, &v4);
	assert_ip(&r, "203.0.113.9");
	r = nat_router_for_guest(&c, &v6);
	assert_ip(&r, "2001:db8:1::9");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_to_host),          cmocka_unit_test(test_to_host_unmapped),
	    cmocka_unit_test(test_source_for_guest), cmocka_unit_test(test_guest_learn),
	    cmocka_unit_test(test_router),
	};

	return cmocka_run_group_tests_name("translate", tests, NULL, NULL);
}
