/* SPDX-License-Identifier: BSD-3-Clause */
/* A host namespace is made with ip(8), looked at, and copied into a guest namespace with a tap of
 * the same name: then `ip route` and `ip address` must say the same in both. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_tun.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "core/log.h"
#include "host/netlink.h"
#include "pasta/netconf.h"
#include "test/unit/netns.h"

#define ROUTES                                                                                     \
	"(ip -o -4 route show; echo; ip -o -6 route show) | sed -E 's/ (linkdown|expires "         \
	"[0-9]+sec)//g'"
/* Without what is the device's own: link-local addresses, life times, and how IPv6 was checked. */
#define ADDRESSES                                                                                  \
	"ip -o address show dev eth0 | grep -v ' fe80::' | "                                       \
	"sed -E 's/^[0-9]+: //; s/ (nodad|noprefixroute)//g; s/ eth0\\\\.*//'"
#define DUAL_STACK                                                                                 \
	"link set lo up\nlink add eth0 type veth peer name eth0p\nlink set eth0p up addrgenmode "  \
	"none\n"                                                                                   \
	"link set eth0 up addrgenmode none\naddr add fe80::2/64 dev eth0 nodad\n"                  \
	"addr add 192.0.2.2/24 broadcast + dev eth0\naddr add 2001:db8::2/64 dev eth0 nodad\n"

static bool bare_nexthops; /* of the next host: see test_bare_nexthop_objects() */

struct guest {
	struct netconf nc;
	struct netconf_result result;
	struct host_view *view;
	int tap;
	char *routes, *addresses; /* of the host */
};

static void make_tap(struct guest *g)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};

	g->tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	assert_true(g->tap >= 0);
	memcpy(ifr.ifr_name, "eth0", 5);
	assert_int_equal(ioctl(g->tap, TUNSETIFF, &ifr), 0);
}

static void set_family(struct guest *g, enum ip_family family)
{
	const struct host_family *h = host_view_family(g->view, family);

	g->nc.family[family] = (struct netconf_family){
	    .on = true,
	    .copy_addresses = h->found,
	    .copy_routes = h->found,
	    .address = h->address,
	    .gateway = h->gateway,
	    .prefix_len = h->prefix_len,
	};
}

/* Makes the host and then, in a namespace of its own, the guest; nothing is set up yet. */
static void make_host(struct guest *g, const char *ip_commands)
{
	const struct host_request req = {.family_on = {true, true}};
	const char *culprit;

	memset(g, 0, sizeof(*g));
	netns_new();
	if (bare_nexthops)
		netns_write("/proc/sys/net/ipv4/nexthop_compat_mode", "0");
	netns_ip(ip_commands);
	assert_int_equal(host_view_new(&req, &g->view, &culprit), 0);
	g->routes = netns_output(ROUTES);
	g->addresses = netns_output(ADDRESSES);
	netns_new();
	make_tap(g);
	g->nc =
	    (struct netconf){.ifname = "eth0", .configure = true, .mtu = 65520, .host = g->view};
	set_family(g, IP_V4);
	set_family(g, IP_V6);
}

static void apply(struct guest *g)
{
	const char *step = "";
	int err = netconf_apply(&g->nc, &g->result, &step);

	if (err)
		print_message("step %s: %s\n", step, strerror(-err));
	assert_int_equal(err, 0);
}

static void free_guest(struct guest *g)
{
	close(g->tap);
	host_view_free(g->view);
	free(g->routes);
	free(g->addresses);
}

static void expect_output(const char *command, const char *want)
{
	char *text = netns_output(command);

	assert_string_equal(text, want);
	free(text);
}

static void expect_same(struct guest *g)
{
	expect_output(ROUTES, g->routes);
	expect_output(ADDRESSES, g->addresses);
	expect_output("ip -o address show tentative", "");
}

static void copy_and_compare(const char *ip_commands)
{
	struct guest g;

	make_host(&g, ip_commands);
	apply(&g);
	expect_same(&g);
	free_guest(&g);
}

static void test_dual_stack(void **state)
{
	struct guest g;
	struct mac_addr mac;
	char *text;

	(void)state;
	make_host(&g, DUAL_STACK
		  "route add default via 192.0.2.1 proto dhcp metric 100\n"
		  "route add default via fe80::1 dev eth0 proto ra metric 1024 pref high\n");
	apply(&g);
	expect_same(&g);
	text = netns_output("ip -br link show eth0 | awk '{printf \"%s\", $3}'");
	assert_int_equal(mac_parse(text, &mac), 0);
	assert_true(mac_equal(&mac, &g.result.mac));
	expect_output("ip -o link show eth0 | grep -o 'mtu [0-9]*'", "mtu 65520\n");
	free(text);
	assert_true(ip_is_link_local(&g.result.link_local));
	assert_int_equal(g.result.link_local.b[15], mac.b[5]);
	assert_false(g.result.family_unsupported[IP_V4] || g.result.family_unsupported[IP_V6]);
	expect_output("ip -o link show lo | grep -c LOOPBACK,UP", "1\n");
	expect_output("ip -d -o link show eth0 | grep -o 'addrgenmode [a-z0-9]*'",
		      "addrgenmode eui64\n");
	free_guest(&g);
}

static int bound_socket(const struct ip_addr *addr, struct sockaddr_storage *sa)
{
	const struct endpoint e = {.addr = *addr, .port = 7777};
	int s = socket(ip_is_v4(addr) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = endpoint_to_sockaddr(&e, if_nametoindex("eth0"), sa);

	assert_true(s >= 0);
	assert_int_equal(bind(s, (struct sockaddr *)sa, len), 0);
	return s;
}

/* Bound, and sent to, the moment the set-up returns. */
static void test_usable_at_once(void **state)
{
	static const char *const own[] = {"192.0.2.2", "2001:db8::2", "2001:db8::3", NULL};

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct guest g;

		make_host(&g, DUAL_STACK "addr add 2001:db8::3/64 dev eth0 nodad\n"
					 "route add default via fe80::1 dev eth0\n");
		apply(&g);
		for (int j = 0; j < 4; j++) {
			struct sockaddr_storage sa;
			struct ip_addr a = g.result.link_local;
			char c;
			int s;

			if (own[j])
				assert_int_equal(ip_parse(own[j], &a), 0);
			s = bound_socket(&a, &sa);
			assert_int_equal(sendto(s, "x", 1, 0, (struct sockaddr *)&sa,
						sizeof(struct sockaddr_in6)),
					 1);
			assert_int_equal(recv(s, &c, 1, MSG_DONTWAIT), 1);
			close(s);
		}
		free_guest(&g);
	}
}

static void test_multipath(void **state)
{
	(void)state;
	copy_and_compare(
	    DUAL_STACK
	    "route add default nexthop via 192.0.2.3 weight 2 nexthop via 192.0.2.4 weight 5\n"
	    "route add ::/0 nexthop via 2001:db8::3 weight 3 nexthop via 2001:db8::4\n"
	    "route add 10.0.0.0/8 nexthop via 172.16.0.1 dev eth0 onlink nexthop via 192.0.2.9\n");
}

static void test_multipath_elsewhere(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g, DUAL_STACK
		  "link add eth1 type veth peer name eth1p\nlink set eth1p up addrgenmode "
		  "none\nlink set eth1 up addrgenmode none\n"
		  "addr add 198.51.100.2/24 dev eth1\n"
		  "route add default nexthop via 192.0.2.3 nexthop via 198.51.100.1\n"
		  "route add 10.0.0.0/8 nexthop via 198.51.100.1 nexthop via 192.0.2.4 nexthop via "
		  "192.0.2.5\n"
		  "route add 10.1.0.0/16 via 198.51.100.1\n");
	apply(&g);
	expect_output("ip -o -4 route show | sed 's/[ \\t\\\\]*$//; s/\\\\//g'",
		      "default via 192.0.2.3 dev eth0\n"
		      "10.0.0.0/8 \tnexthop via 192.0.2.4 dev eth0 weight 1 \tnexthop via "
		      "192.0.2.5 dev eth0 weight 1\n"
		      "192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2\n");
	free_guest(&g);
}

#define NEXTHOPS                                                                                   \
	DUAL_STACK                                                                                 \
	"nexthop add id 1 via 192.0.2.1 dev eth0\nnexthop add id 2 via 192.0.2.9 dev eth0\n"       \
	"nexthop add id 3 group 1,3/2\nnexthop add id 4 via 172.16.0.1 dev eth0 onlink\n"          \
	"nexthop add id 6 via fe80::1 dev eth0\nnexthop add id 7 via fe80::7 dev eth0\n"           \
	"nexthop add id 8 group 6/7\nnexthop add id 9 group 1/6\n"                                 \
	"route add default nhid 3\nroute add 10.0.0.0/8 nhid 1\nroute add 10.6.0.0/16 nhid 6\n"    \
	"route add 10.7.0.0/16 nhid 9\nroute add 10.8.0.0/16 nhid 4\n"                             \
	"route add ::/0 nhid 6\nroute add 2001:db8:5::/48 nhid 8\n"

static void make_nexthop_host(struct guest *g, const char *commands)
{
	char *p;

	make_host(g, commands);
	/* The same but for the numbers of the objects, which stay the host's. */
	while ((p = strstr(g->routes, "nhid ")))
		memmove(p, p + 7, strlen(p + 7) + 1);
}

static void test_nexthop_objects(void **state)
{
	struct guest g;

	(void)state;
	make_nexthop_host(&g, NEXTHOPS);
	apply(&g);
	expect_same(&g);
	free_guest(&g);
}

/* A kernel that reports the numbers of the objects alone. */
static void test_bare_nexthop_objects(void **state)
{
	struct guest with, without;

	(void)state;
	make_nexthop_host(&with, NEXTHOPS);
	bare_nexthops = true;
	make_nexthop_host(&without, NEXTHOPS);
	bare_nexthops = false;
	assert_string_not_equal(with.routes, without.routes);
	apply(&without);
	expect_output(ROUTES, with.routes);
	free_guest(&with);
	free_guest(&without);
}

static void test_gateways(void **state)
{
	(void)state;
	/* Off every prefix; by a route to it alone; of the other family; chained, against the order
	 * of the dump. */
	copy_and_compare(
	    "link set lo up\nlink add eth0 type veth peer name eth0p\nlink set eth0p up "
	    "addrgenmode none\n"
	    "link set eth0 up addrgenmode none\naddr add fe80::2/64 dev eth0 nodad\n"
	    "addr add 192.0.2.2/32 dev eth0\naddr add 2001:db8::2/128 dev eth0 nodad\n"
	    "route add 172.16.0.1 dev eth0 scope link\nroute add default via 172.16.0.1 src "
	    "192.0.2.2\n"
	    "route add 10.0.0.0/8 via 172.16.9.9 dev eth0 onlink\n"
	    "route add 10.1.0.0/16 via inet6 fe80::1 dev eth0\n"
	    "route add 2001:db8:1::1 dev eth0\nroute add ::/0 via 2001:db8:1::1 dev eth0 src "
	    "2001:db8::2\n"
	    "route add 2001:db8:9::/48 via 2001:db8:7::1 dev eth0 onlink\n");
}

static void test_attributes(void **state)
{
	(void)state;
	copy_and_compare(
	    DUAL_STACK
	    "route add 10.0.0.0/8 via 192.0.2.1 metric 5 mtu 1400 advmss 1300 proto static\n"
	    "route add 10.0.0.0/8 via 192.0.2.3 metric 6\n"
	    "route append 10.0.0.0/8 via 192.0.2.4 metric 6\n"
	    "route add 10.0.0.0/8 via 192.0.2.5 tos 0x10\n"
	    "route add 2001:db8:1::/48 via 2001:db8::1 metric 5 mtu lock 1400 proto static\n"
	    "route add 2001:db8:1::/48 via 2001:db8::9 metric 7 expires 3600\n");
}

static void test_connected_routes(void **state)
{
	(void)state;
	/* Metric of an address's route; one without; one deleted; several addresses of one prefix.
	 */
	copy_and_compare(
	    DUAL_STACK
	    "addr add 198.51.100.2/24 dev eth0 metric 300\n"
	    "addr add 198.51.100.3/24 dev eth0\n"
	    "addr add 203.0.113.2/24 dev eth0 noprefixroute\n"
	    "addr add 10.9.0.2/16 dev eth0\nroute del 10.9.0.0/16 dev eth0\n"
	    "addr add 2001:db8:3::2/64 dev eth0 nodad metric 300\n"
	    "addr add 2001:db8:4::2/64 dev eth0 nodad noprefixroute\n"
	    "addr add 2001:db8:5::2/64 dev eth0 nodad\nroute del 2001:db8:5::/64 dev eth0\n"
	    "route add 2001:db8:5::/64 dev eth0 proto ra metric 1024\n"
	    "route del fe80::/64 dev eth0\nroute add fe80::/64 dev eth0 proto kernel metric "
	    "1024\n");
}

static void test_point_to_point(void **state)
{
	(void)state;
	copy_and_compare(
	    "link set lo up\ntuntap add eth0 mode tun\nlink set eth0 addrgenmode none up\n"
	    "addr add 10.1.0.2 peer 10.1.0.1 dev eth0\naddr add 10.2.0.2 peer 10.2.0.0/16 dev "
	    "eth0\n"
	    "addr add 2001:db8::2 peer 2001:db8::1 dev eth0 nodad\naddr add fe80::2/64 dev eth0 "
	    "nodad\n"
	    "route add default dev eth0 scope link\nroute add 10.5.0.0/16 via 10.1.0.1\n"
	    "route add ::/0 dev eth0\n");
}

static void test_address_kinds(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g, DUAL_STACK
		  "addr add 192.0.2.3/24 dev eth0 preferred_lft 0\n"
		  "addr add 169.254.1.1/16 scope link dev eth0\n"
		  "addr add 192.0.2.4/24 dev eth0 valid_lft 1000 preferred_lft 500\n"
		  "addr add 2001:db8::3/64 dev eth0 nodad preferred_lft 0\n"
		  "addr add 2001:db8::4/64 dev eth0 nodad valid_lft 1000 preferred_lft 500\n");
	apply(&g);
	expect_output("ip -o address show dev eth0 | grep -v fe80 | awk '{print $4}'",
		      "192.0.2.2/24\n192.0.2.4/24\n2001:db8::4/64\n2001:db8::2/64\n");
	expect_output("ip -o address show dev eth0 | grep -vc 'valid_lft forever preferred_lft "
		      "forever'; true",
		      "0\n");
	free_guest(&g);
}

static char *many_routes(unsigned n)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	fputs(DUAL_STACK "route add default via 192.0.2.1\n", f);
	for (unsigned i = 0; i < n; i++) {
		fprintf(f, "route add 10.%u.%u.0/24 via 192.0.2.%u\n", i / 256, i % 256,
			i % 200 + 3);
		fprintf(f, "route add 2001:db8:1:%x::/64 via 2001:db8::1\n", i);
	}
	fclose(f);
	return text;
}

static void test_many_routes(void **state)
{
	char *commands = many_routes(2000);

	(void)state;
	copy_and_compare(commands);
	free(commands);
}

static void test_local_mode(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g, "link set lo up\n");
	assert_false(host_view_family(g.nc.host, IP_V4)->found ||
		     host_view_family(g.nc.host, IP_V6)->found);
	assert_int_equal(ip_parse("169.254.2.1", &g.nc.family[IP_V4].address), 0);
	assert_int_equal(ip_parse("169.254.2.2", &g.nc.family[IP_V4].gateway), 0);
	assert_int_equal(ip_parse("fe80::1", &g.nc.family[IP_V6].gateway), 0);
	g.nc.family[IP_V4].prefix_len = 16;
	apply(&g);
	expect_output(ROUTES, "default via 169.254.2.2 dev eth0 \n"
			      "169.254.0.0/16 dev eth0 proto kernel scope link src 169.254.2.1 \n\n"
			      "fe80::/64 dev eth0 proto kernel metric 256 pref medium\n"
			      "default via fe80::1 dev eth0 metric 1024 pref medium\n");
	expect_output("ip -o -4 address show dev eth0 | awk '{print $4}'", "169.254.2.1/16\n");
	free_guest(&g);
}

/* -a and -g: one address, one route; the gateway may be off its prefix. */
static void test_given(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g,
		  DUAL_STACK "route add default via 192.0.2.1\nroute add ::/0 via 2001:db8::1\n");
	for (int f = 0; f < IP_FAMILIES; f++)
		g.nc.family[f].copy_addresses = g.nc.family[f].copy_routes = false;
	assert_int_equal(ip_parse("10.0.0.5", &g.nc.family[IP_V4].address), 0);
	assert_int_equal(ip_parse("10.9.0.1", &g.nc.family[IP_V4].gateway), 0);
	assert_int_equal(ip_parse("2001:db8:1::5", &g.nc.family[IP_V6].address), 0);
	assert_int_equal(ip_parse("2001:db8:2::1", &g.nc.family[IP_V6].gateway), 0);
	g.nc.family[IP_V6].prefix_len = 64;
	apply(&g);
	expect_output(ROUTES,
		      "default via 10.9.0.1 dev eth0 onlink \n"
		      "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.5 \n\n"
		      "2001:db8:1::/64 dev eth0 proto kernel metric 256 pref medium\n"
		      "fe80::/64 dev eth0 proto kernel metric 256 pref medium\n"
		      "default via 2001:db8:2::1 dev eth0 metric 1024 onlink pref medium\n");
	expect_output("ip -o address show tentative", "");
	free_guest(&g);
}

/* -a alone: the host's routes, its prefix not twice. */
static void test_given_address(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g, DUAL_STACK "route add default via 192.0.2.1 src 192.0.2.2\n");
	g.nc.family[IP_V4].copy_addresses = false;
	assert_int_equal(ip_parse("192.0.2.77", &g.nc.family[IP_V4].address), 0);
	apply(&g);
	expect_output("ip -o -4 route show",
		      "default via 192.0.2.1 dev eth0 \n"
		      "192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.77 \n");
	expect_output("ip -o -6 route show default", "");
	free_guest(&g);
}

/* -g alone, with addresses whose prefixes have no route of their own. */
static void test_given_gateway(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g, DUAL_STACK
		  "addr add 10.0.0.2/24 dev eth0 noprefixroute\nroute add default via 192.0.2.1\n");
	g.nc.family[IP_V4].copy_routes = false;
	assert_int_equal(ip_parse("10.0.0.9", &g.nc.family[IP_V4].gateway), 0);
	apply(&g);
	expect_output("ip -o -4 route show",
		      "default via 10.0.0.9 dev eth0 \n"
		      "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.2 \n"
		      "192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2 \n");
	free_guest(&g);
}

static void test_not_configured(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g, DUAL_STACK);
	g.nc.configure = false;
	g.nc.mac_set = true;
	g.nc.mac = (struct mac_addr){{0x02, 1, 2, 3, 4, 5}};
	apply(&g);
	expect_output("ip -o address show dev eth0", "");
	expect_output(ROUTES, "\n");
	expect_output("ip -br link show eth0 | awk '{print $3, $4}'",
		      "02:01:02:03:04:05 <BROADCAST,MULTICAST>\n");
	expect_output("ip -o link show eth0 | grep -o 'mtu [0-9]*'", "mtu 1500\n");
	expect_output("ip -o link show lo | grep -c LOOPBACK,UP", "1\n");
	assert_true(mac_equal(&g.result.mac, &g.nc.mac));
	free_guest(&g);
}

static void test_one_family(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g,
		  DUAL_STACK "route add default via 192.0.2.1\nroute add ::/0 via 2001:db8::1\n");
	g.nc.family[IP_V6].on = false;
	apply(&g);
	expect_output("ip -o -6 address show dev eth0; ip -o -6 route show", "");
	expect_output("ip -o -4 route show default", "default via 192.0.2.1 dev eth0 \n");
	assert_true(ip_is_unspecified(&g.result.link_local));
	free_guest(&g);

	make_host(&g,
		  DUAL_STACK "route add default via 192.0.2.1\nroute add ::/0 via 2001:db8::1\n");
	g.nc.family[IP_V4].on = false;
	g.nc.mac_set = true;
	g.nc.mac = (struct mac_addr){{0x02, 1, 2, 3, 4, 5}};
	apply(&g);
	expect_output("ip -o -4 address show dev eth0; ip -o -4 route show", "");
	expect_output("ip -o -6 address show dev eth0 scope link | awk '{print $4}'",
		      "fe80::1:2ff:fe03:405/64\n");
	expect_output("ip -o -6 route show default",
		      "default via 2001:db8::1 dev eth0 metric 1024 pref medium\n");
	free_guest(&g);
}

static void test_guest_without_ipv6(void **state)
{
	struct guest g;

	(void)state;
	make_host(&g,
		  DUAL_STACK "route add default via 192.0.2.1\nroute add ::/0 via 2001:db8::1\n");
	netns_write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
	apply(&g);
	assert_true(g.result.family_unsupported[IP_V6]);
	assert_true(ip_is_unspecified(&g.result.link_local));
	expect_output("ip -o -4 route show default", "default via 192.0.2.1 dev eth0 \n");
	free_guest(&g);

	/* Too small an MTU for it. */
	make_host(&g, DUAL_STACK "route add default via 192.0.2.1\n");
	g.nc.mtu = 1000;
	apply(&g);
	assert_true(g.result.family_unsupported[IP_V6]);
	assert_false(g.result.family_unsupported[IP_V4]);
	free_guest(&g);
}

static void test_missing_interface(void **state)
{
	struct netconf_result result;
	const char *step = NULL;
	struct guest g;

	(void)state;
	make_host(&g, DUAL_STACK);
	memcpy(g.nc.ifname, "eth7", 5);
	assert_int_equal(netconf_apply(&g.nc, &result, &step), -ENODEV);
	assert_string_equal(step, "look up the interface");
	memcpy(g.nc.ifname, "eth0", 5);
	g.nc.mtu = 1000000;
	assert_int_equal(netconf_apply(&g.nc, &result, &step), -EINVAL);
	assert_string_equal(step, "set the MTU");
	free_guest(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_dual_stack),         cmocka_unit_test(test_usable_at_once),
	    cmocka_unit_test(test_multipath),          cmocka_unit_test(test_multipath_elsewhere),
	    cmocka_unit_test(test_nexthop_objects),    cmocka_unit_test(test_bare_nexthop_objects),
	    cmocka_unit_test(test_gateways),           cmocka_unit_test(test_attributes),
	    cmocka_unit_test(test_connected_routes),   cmocka_unit_test(test_point_to_point),
	    cmocka_unit_test(test_address_kinds),      cmocka_unit_test(test_many_routes),
	    cmocka_unit_test(test_local_mode),         cmocka_unit_test(test_given),
	    cmocka_unit_test(test_given_address),      cmocka_unit_test(test_given_gateway),
	    cmocka_unit_test(test_not_configured),     cmocka_unit_test(test_one_family),
	    cmocka_unit_test(test_guest_without_ipv6), cmocka_unit_test(test_missing_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
