/* SPDX-License-Identifier: BSD-3-Clause */
/* Which interface, address and gateway are taken of hosts of many kinds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "host/host.h"
#include "host/netlink.h"
#include "test/unit/netns.h"

#define TWO_LINKS                                                                                  \
	"link set lo up\n"                                                                         \
	"link add eth0 type veth peer name eth0p\nlink set eth0 up\nlink set eth0p up\n"           \
	"link add eth1 type veth peer name eth1p\nlink set eth1 up\nlink set eth1p up\n"

static struct host_view *view_by(const char *interface, const char *out4)
{
	const struct host_request req = {
	    .family_on = {true, true},
	    .interface = interface,
	    .outbound_if = {out4, NULL},
	};
	const char *culprit = NULL;
	struct host_view *v = NULL;

	assert_int_equal(host_view_new(&req, &v, &culprit), 0);
	return v;
}

static struct host_view *view_of(const char *ip_commands)
{
	netns_new();
	netns_ip(ip_commands);
	return view_by(NULL, NULL);
}

static void expect(const struct host_view *v, enum ip_family family, const char *ifname,
		   const char *address, const char *gateway)
{
	const struct host_family *f = host_view_family(v, family);
	char text[IP_TEXT_MAX + 4], gw[IP_TEXT_MAX];

	assert_true(f->found);
	assert_string_equal(f->ifname, ifname);
	assert_int_equal(f->ifindex, if_nametoindex(ifname));
	ip_format(&f->address, text);
	sprintf(text + strlen(text), "/%u", f->prefix_len);
	assert_string_equal(text, address);
	assert_string_equal(ip_format(&f->gateway, gw), gateway);
}

static void expect_nothing(const struct host_view *v, enum ip_family family)
{
	const struct host_family *f = host_view_family(v, family);

	assert_false(f->found);
	assert_int_equal(f->ifindex, 0);
	assert_true(ip_equal(&f->address, &ip_any[family]));
	assert_true(ip_equal(&f->gateway, &ip_any[family]));
	assert_int_equal(host_view_routes(v, family)->len, 0);
	assert_int_equal(host_view_addresses(v, family)->len, 0);
}

static unsigned count(const struct netlink_list *list)
{
	unsigned n = 0;

	netlink_foreach (msg, list)
		n++;
	return n;
}

static void test_dual_stack(void **state)
{
	struct host_view *v = view_of(TWO_LINKS "addr add 192.0.2.2/24 dev eth0\n"
						"addr add 2001:db8::2/64 dev eth0 nodad\n"
						"route add default via 192.0.2.1\n"
						"route add default via 2001:db8::1\n"
						"addr add 198.51.100.2/24 dev eth1\n");

	(void)state;
	expect(v, IP_V4, "eth0", "192.0.2.2/24", "192.0.2.1");
	expect(v, IP_V6, "eth0", "2001:db8::2/64", "2001:db8::1");
	assert_int_equal(host_view_family(v, IP_V4)->default_routes, 1);
	assert_true(ip_is_link_local(&host_view_family(v, IP_V6)->link_local));
	assert_int_equal(count(host_view_routes(v, IP_V4)), 2); /* not that of eth1 */
	assert_int_equal(count(host_view_addresses(v, IP_V4)), 1);
	host_view_free(v);

	v = view_by("eth1", NULL);
	expect(v, IP_V4, "eth1", "198.51.100.2/24", "0.0.0.0");
	expect_nothing(v, IP_V6);
	host_view_free(v);
	v = view_by(NULL, "eth1");
	expect(v, IP_V4, "eth1", "198.51.100.2/24", "0.0.0.0");
	expect(v, IP_V6, "eth0", "2001:db8::2/64", "2001:db8::1");
	host_view_free(v);
	v = view_by("eth0", "eth1");
	expect(v, IP_V4, "eth0", "192.0.2.2/24", "192.0.2.1");
	host_view_free(v);
}

static void test_families_off(void **state)
{
	const struct host_request req = {.family_on = {false, true}};
	struct host_view *v = view_of(TWO_LINKS "addr add 192.0.2.2/24 dev eth0\n"
						"addr add 2001:db8::2/64 dev eth0 nodad\n");
	const char *culprit;

	(void)state;
	host_view_free(v);
	assert_int_equal(host_view_new(&req, &v, &culprit), 0);
	expect_nothing(v, IP_V4);
	expect(v, IP_V6, "eth0", "2001:db8::2/64", "::");
	host_view_free(v);
}

static void test_missing_interface(void **state)
{
	struct host_request req = {.family_on = {true, true}, .interface = "none0"};
	const char *culprit = NULL;
	struct host_view *v = NULL;

	(void)state;
	netns_new();
	assert_int_equal(host_view_new(&req, &v, &culprit), -ENODEV);
	assert_string_equal(culprit, "none0");
	req.interface = NULL;
	req.outbound_if[IP_V6] = "none6";
	assert_int_equal(host_view_new(&req, &v, &culprit), -ENODEV);
	assert_string_equal(culprit, "none6");
	assert_null(v);
}

static void test_lowest_metric(void **state)
{
	struct host_view *v =
	    view_of(TWO_LINKS "addr add 192.0.2.2/24 dev eth0\naddr add 198.51.100.2/24 dev eth1\n"
			      "route add default via 192.0.2.1 metric 300\n"
			      "route add default via 198.51.100.1 metric 200\n"
			      "route add default via 192.0.2.3 metric 400\n");

	(void)state;
	expect(v, IP_V4, "eth1", "198.51.100.2/24", "198.51.100.1");
	assert_int_equal(host_view_family(v, IP_V4)->default_routes, 2);
	host_view_free(v);
}

static void test_multipath(void **state)
{
	struct host_view *v = view_of(
	    TWO_LINKS
	    "addr add 192.0.2.2/24 dev eth0\naddr add 198.51.100.2/24 dev eth1\n"
	    "addr add 2001:db8::2/64 dev eth0 nodad\n"
	    "route add default nexthop via 192.0.2.3 weight 2 nexthop via 192.0.2.4 weight 5 "
	    "nexthop via 192.0.2.5 weight 5 nexthop via 198.51.100.1 weight 9\n"
	    "route add default nexthop via 2001:db8::3 nexthop via 2001:db8::4\n");

	(void)state;
	expect(v, IP_V4, "eth0", "192.0.2.2/24", "192.0.2.4");
	expect(v, IP_V6, "eth0", "2001:db8::2/64", "2001:db8::3");
	host_view_free(v);
}

static void test_nexthop_objects(void **state)
{
	struct host_view *v;

	(void)state;
	netns_new();
	netns_ip(TWO_LINKS
		 "addr add 192.0.2.2/24 dev eth0\naddr add 2001:db8::2/64 dev eth0 nodad\n"
		 "nexthop add id 1 via 192.0.2.1 dev eth0\n"
		 "nexthop add id 2 via 192.0.2.9 dev eth0\nnexthop add id 3 group 1,3/2\n"
		 "nexthop add id 6 via fe80::1 dev eth0\n"
		 "route add default nhid 3\nroute add 10.0.0.0/8 nhid 1\n"
		 "route add 10.6.0.0/16 nhid 6\nroute add ::/0 nhid 6\n");
	v = view_by(NULL, NULL);
	expect(v, IP_V4, "eth0", "192.0.2.2/24", "192.0.2.1");
	expect(v, IP_V6, "eth0", "2001:db8::2/64", "fe80::1");
	assert_int_equal(count(host_view_routes(v, IP_V4)), 4);
	host_view_free(v);
}

static void test_gateway_of_other_family(void **state)
{
	struct host_view *v = view_of(TWO_LINKS "addr add 192.0.2.2/32 dev eth0\n"
						"route add 0.0.0.0/0 via inet6 fe80::1 dev eth0\n");

	(void)state;
	expect(v, IP_V4, "eth0", "192.0.2.2/32", "0.0.0.0");
	host_view_free(v);
}

static void test_addresses(void **state)
{
	struct host_view *v =
	    view_of(TWO_LINKS "addr add 192.0.2.2/24 dev eth0\naddr add 192.0.2.3/28 dev eth0\n"
			      "addr add 192.0.2.4/28 dev eth0\n"
			      "addr add 192.0.2.5/32 dev eth0 preferred_lft 0\n"
			      "addr add 2001:db8::2/64 dev eth0 nodad\n"
			      "addr add 2001:db8::3/128 dev eth0 nodad\n"
			      "addr add fe80::3/128 dev eth0 nodad\n");

	(void)state;
	expect(v, IP_V4, "eth0", "192.0.2.3/28", "0.0.0.0");
	expect(v, IP_V6, "eth0", "2001:db8::3/128", "::");
	assert_int_equal(host_view_family(v, IP_V4)->default_routes, 0);
	host_view_free(v);
}

static void test_point_to_point(void **state)
{
	struct host_view *v = view_of("tuntap add tun0 mode tun\nlink set tun0 up\n"
				      "addr add 10.1.0.2 peer 10.1.0.1 dev tun0\n"
				      "route add default dev tun0\n");

	(void)state;
	expect(v, IP_V4, "tun0", "10.1.0.2/32", "0.0.0.0");
	assert_int_equal(host_view_family(v, IP_V4)->default_routes, 1);
	host_view_free(v);
}

/* Without a default route the first other one counts, but not one for link-local destinations, and
 * never lo's. */
static void test_no_default_route(void **state)
{
	struct host_view *v = view_of(TWO_LINKS "addr add 169.254.7.7/16 dev eth0\n"
						"addr add 198.51.100.2/24 dev eth1\n"
						"route add 10.0.0.0/8 dev lo\n");

	(void)state;
	expect(v, IP_V4, "eth1", "198.51.100.2/24", "0.0.0.0");
	expect_nothing(v, IP_V6);
	host_view_free(v);
}

static void test_default_route_by_loopback(void **state)
{
	struct host_view *v = view_of(TWO_LINKS "route add default dev lo\n"
						"addr add 198.51.100.2/24 dev eth1\n"
						"route add default via 198.51.100.1 metric 7\n");

	(void)state;
	expect(v, IP_V4, "eth1", "198.51.100.2/24", "198.51.100.1");
	host_view_free(v);
}

static void test_nothing(void **state)
{
	struct host_view *v;

	(void)state;
	netns_new();
	v = view_by(NULL, NULL); /* lo is down, no table was ever made */
	expect_nothing(v, IP_V4);
	expect_nothing(v, IP_V6);
	host_view_free(v);
	netns_ip("link set lo up\n");
	v = view_by("lo", NULL);
	expect_nothing(v, IP_V4);
	expect_nothing(v, IP_V6);
	host_view_free(v);
	/* A default route by an interface without address. */
	v = view_of(TWO_LINKS "route add default dev eth0\n");
	expect_nothing(v, IP_V4);
	host_view_free(v);
}

static void test_ipv6_off(void **state)
{
	struct host_view *v;

	(void)state;
	netns_new();
	netns_write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
	netns_ip(TWO_LINKS "addr add 192.0.2.2/24 dev eth0\nroute add default via 192.0.2.1\n");
	v = view_by(NULL, NULL);
	expect(v, IP_V4, "eth0", "192.0.2.2/24", "192.0.2.1");
	expect_nothing(v, IP_V6);
	host_view_free(v);
}

static void test_many_routes(void **state)
{
	struct host_view *v;
	FILE *f;

	(void)state;
	netns_new();
	netns_ip(TWO_LINKS
		 "addr add 192.0.2.2/24 dev eth0\naddr add 2001:db8::2/64 dev eth0 nodad\n"
		 "route add default via 192.0.2.1\n");
	f = popen("ip -batch -", "w");
	assert_non_null(f);
	for (unsigned i = 0; i < 5000; i++) {
		fprintf(f, "route add 10.%u.%u.0/24 via 192.0.2.%u\n", i / 256, i % 256,
			i % 200 + 3);
		fprintf(f, "route add 2001:db8:1:%x::/64 via 2001:db8::1\n", i);
	}
	assert_int_equal(pclose(f), 0);
	v = view_by(NULL, NULL);
	expect(v, IP_V4, "eth0", "192.0.2.2/24", "192.0.2.1");
	assert_int_equal(count(host_view_routes(v, IP_V4)), 5002);
	assert_int_equal(count(host_view_routes(v, IP_V6)),
			 5002); /* with the prefix and fe80::/64 */
	host_view_free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_dual_stack),
	    cmocka_unit_test(test_families_off),
	    cmocka_unit_test(test_missing_interface),
	    cmocka_unit_test(test_lowest_metric),
	    cmocka_unit_test(test_multipath),
	    cmocka_unit_test(test_nexthop_objects),
	    cmocka_unit_test(test_gateway_of_other_family),
	    cmocka_unit_test(test_addresses),
	    cmocka_unit_test(test_point_to_point),
	    cmocka_unit_test(test_no_default_route),
	    cmocka_unit_test(test_default_route_by_loopback),
	    cmocka_unit_test(test_nothing),
	    cmocka_unit_test(test_ipv6_off),
	    cmocka_unit_test(test_many_routes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
