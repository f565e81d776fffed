/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows from a command line and a host. The host is made up: host_view_family() stands here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "passt/plan.h"

struct host_view {
	struct host_family family[IP_FAMILIES];
};

const struct host_family *host_view_family(const struct host_view *v, enum ip_family family)
{
	return &v->family[family];
}

static struct ip_addr ip(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_parse(text, &a), 0);
	return a;
}

static struct host_view host(void)
{
	return (struct host_view){.family = {{.found = true,
					      .ifname = "eth0",
					      .ifindex = 7,
					      .gateway = ip("192.0.2.1"),
					      .address = ip("192.0.2.2"),
					      .prefix_len = 24},
					     {.found = true,
					      .ifname = "wlan0",
					      .ifindex = 8,
					      .gateway = ip("fe80::9"),
					      .address = ip("2001:db8::2"),
					      .prefix_len = 64,
					      .link_local = ip("fe80::2")}}};
}

/* Parses a command line (separated by single spaces) and plans. */
static void make_in_place(const char *program_and_args, const struct host_view *h,
			  const char *resolv, struct plan *out)
{
	static char line[512];
	static struct config cfg;
	char *argv[32], error[CONFIG_ERROR_MAX];
	struct config_input in = {.argv = argv, .ephemeral_first = 32768, .ephemeral_last = 60999};
	struct resolver r = {0};
	bool usage;

	snprintf(line, sizeof(line), "%s", program_and_args);
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		argv[in.argc++] = word;
	if (config_parse(&in, &cfg, error, &usage))
		fail_msg("%s", error);
	resolver_parse(resolv, strlen(resolv), &r);
	plan_make(&cfg, h, &r, out);
}

/* The same of pasta; but for the lists of search domains, which point into the original. */
static struct plan make(const char *args, const struct host_view *h, const char *resolv)
{
	char line[512];
	struct plan p;

	snprintf(line, sizeof(line), "pasta %s", args);
	make_in_place(line, h, resolv, &p);
	return p;
}

static void assert_ip(const struct ip_addr *got, const char *want)
{
	char buf[IP_TEXT_MAX];

	assert_string_equal(ip_format(got, buf), want);
}

static void host_is_copied(void **state)
{
	struct host_view h = host();
	struct plan p = make("--config-net", &h, "");

	(void)state;
	for (int f = 0; f < IP_FAMILIES; f++) {
		assert_true(p.net.family[f].on && p.net.family[f].copy_addresses &&
			    p.net.family[f].copy_routes);
		assert_false(p.local_mode[f]);
		assert_false(p.nat.family[f].address_fixed);
		assert_int_equal(p.nat.family[f].template_index, 7 + f);
	}
	assert_string_equal(p.net.ifname, "eth0");
	assert_ip(&p.nat.family[IP_V4].guest_assigned, "192.0.2.2");
	assert_ip(&p.nat.family[IP_V4].map_host_loopback, "192.0.2.1");
	assert_ip(&p.nat.family[IP_V6].map_host_loopback, "fe80::9");
	assert_ip(&p.nat.our_link_local, "fe80::9");
	assert_false(p.ndp.ra_on);
}

static void names(void **state)
{
	struct host_view h = host();

	(void)state;
	assert_string_equal(make("-I other", &h, "").net.ifname, "other");
	assert_string_equal(make("-6", &h, "").net.ifname, "wlan0");
	h.family[IP_V4].found = h.family[IP_V6].found = false;
	assert_string_equal(make("", &h, "").net.ifname, "tap0");
}

static void nothing_on_the_host(void **state)
{
	struct host_view h = {0};
	struct plan p;

	(void)state;
	h.family[IP_V4].address = h.family[IP_V4].gateway = ip_any[IP_V4];
	p = make("--config-net", &h, "");
	assert_true(p.local_mode[IP_V4] && p.local_mode[IP_V6]);
	assert_ip(&p.net.family[IP_V4].address, "169.254.2.1");
	assert_int_equal(p.net.family[IP_V4].prefix_len, 16);
	assert_ip(&p.net.family[IP_V4].gateway, "169.254.2.2");
	assert_ip(&p.net.family[IP_V6].address, "::");
	assert_ip(&p.net.family[IP_V6].gateway, "fe80::1");
	assert_ip(&p.nat.our_link_local, "fe80::1");
	assert_false(p.net.family[IP_V4].copy_addresses || p.net.family[IP_V4].copy_routes);
	/* What was asked for wins over local mode. */
	p = make("--config-net -a 10.1.2.3/20 -g 10.1.2.1", &h, "");
	assert_ip(&p.net.family[IP_V4].address, "10.1.2.3");
	assert_int_equal(p.net.family[IP_V4].prefix_len, 20);
	assert_ip(&p.nat.family[IP_V4].map_host_loopback, "10.1.2.1");
}

static void addresses_given(void **state)
{
	static const struct {
		const char *args;
		unsigned prefix;
	} rows[] = {{"-a 10.0.0.5", 8},
		    {"-a 172.16.0.5", 16},
		    {"-a 192.168.0.5", 24},
		    {"-a 10.0.0.5/30", 30},
		    {"-a 10.0.0.5 -n 255.255.0.0", 16},
		    {"-n 20 -a 10.0.0.5", 20}};
	struct host_view h = host();
	struct plan p;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		p = make(rows[i].args, &h, "");
		assert_int_equal(p.net.family[IP_V4].prefix_len, rows[i].prefix);
		assert_true(p.nat.family[IP_V4].address_fixed);
		assert_false(p.net.family[IP_V4].copy_addresses);
		assert_true(p.net.family[IP_V4].copy_routes && p.net.family[IP_V6].copy_addresses);
	}
	p = make("-a 2001:db8::77 -g 2001:db8::1", &h, "");
	assert_int_equal(p.net.family[IP_V6].prefix_len, 64);
	assert_false(p.net.family[IP_V6].copy_routes);
	assert_ip(&p.nat.our_link_local, "fe80::2"); /* the gateway is none, so the host's own */
}

static void mappings(void **state)
{
	struct host_view h = host();
	struct plan p = make("--no-map-gw", &h, "");

	(void)state;
	assert_ip(&p.nat.family[IP_V4].map_host_loopback, "0.0.0.0");
	assert_ip(&p.nat.family[IP_V6].map_host_loopback, "::");
	p = make("--no-map-gw --map-host-loopback 192.0.2.99", &h, "");
	assert_ip(&p.nat.family[IP_V4].map_host_loopback, "192.0.2.99");
	assert_ip(&p.nat.family[IP_V6].map_host_loopback, "::");
	p = make("--map-host-loopback none --map-guest-addr 169.254.1.2", &h, "");
	assert_ip(&p.nat.family[IP_V4].map_host_loopback, "0.0.0.0");
	assert_ip(&p.nat.family[IP_V4].map_guest_addr, "169.254.1.2");
}

static void name_servers(void **state)
{
	static const char stub[] =
	    "nameserver 127.0.0.53\nnameserver 198.51.100.1\nsearch a.example b.example\n";
	struct host_view h = host();
	struct plan p = make("", &h, stub);

	(void)state;
	/* One on loopback is reached by the host's alias, which then stands for it. */
	assert_int_equal(p.resolver.dns_count[IP_V4], 2);
	assert_ip(&p.resolver.dns[IP_V4][0], "192.0.2.1");
	assert_ip(&p.resolver.dns[IP_V4][1], "198.51.100.1");
	assert_ip(&p.nat.family[IP_V4].dns_forward, "192.0.2.1");
	assert_ip(&p.nat.family[IP_V4].dns_host, "127.0.0.53");
	assert_int_equal(p.resolver.search_count, 2);
	p = make("--dns-forward 169.254.1.1 --no-map-gw", &h, stub);
	assert_ip(&p.resolver.dns[IP_V4][0], "169.254.1.1");
	assert_ip(&p.nat.family[IP_V4].dns_host, "127.0.0.53");
	p = make("--no-map-gw", &h, stub); /* no way to it */
	assert_int_equal(p.resolver.dns_count[IP_V4], 1);
	assert_int_equal(p.dns_left_out, 1);
	p = make("-D 203.0.113.5 --dns-host 198.51.100.9 --dns-forward 169.254.1.1 -S c.example",
		 &h, stub);
	assert_int_equal(p.resolver.dns_count[IP_V4], 1);
	assert_ip(&p.resolver.dns[IP_V4][0], "203.0.113.5");
	assert_ip(&p.nat.family[IP_V4].dns_host, "198.51.100.9");
	assert_string_equal(p.resolver.search[0], "c.example");
	p = make("-D none -S none", &h, stub);
	assert_int_equal(p.resolver.dns_count[IP_V4] + p.resolver.search_count, 0);
	assert_ip(&p.nat.family[IP_V4].dns_host, "0.0.0.0");
}

/* What the guest is told by DHCP, and whether there is a server at all. */
static void dhcp(void **state)
{
	static const char resolv[] = "nameserver 127.0.0.53\nnameserver 198.51.100.1\n"
				     "nameserver 2001:db8::53\nsearch a.example b.example\n";
	struct host_view h = host();
	struct plan p;

	(void)state;
	make_in_place("passt -H guest --fqdn guest.example", &h, resolv, &p);
	assert_true(p.dhcp_on);
	assert_ip(&p.dhcp.address, "192.0.2.2");
	assert_ip(&p.dhcp.gateway, "192.0.2.1");
	assert_int_equal(p.dhcp.prefix_len, 24);
	assert_int_equal(p.dhcp.mtu, 65520);
	assert_string_equal(p.dhcp.hostname, "guest");
	assert_string_equal(p.dhcp.fqdn, "guest.example");
	assert_int_equal(p.dhcp.dns_count, 2);
	assert_ip(&p.dhcp.dns[0], "192.0.2.1"); /* as the guest reaches it */
	assert_ip(&p.dhcp.dns[1], "198.51.100.1");
	assert_int_equal(p.dhcp.search_count, 2);
	assert_string_equal(p.dhcp.search[0], "a.example");
	assert_string_equal(p.dhcp.search[1], "b.example");

	make_in_place("passt --no-dhcp-dns -a 192.0.2.9/32 -g 203.0.113.1 -m 0", &h, resolv, &p);
	assert_ip(&p.dhcp.address, "192.0.2.9");
	assert_ip(&p.dhcp.gateway, "203.0.113.1");
	assert_int_equal(p.dhcp.prefix_len, 32);
	assert_int_equal(p.dhcp.mtu + p.dhcp.dns_count, 0);
	assert_int_equal(p.dhcp.search_count, 2);
	make_in_place("passt --no-dhcp-search", &h, resolv, &p);
	assert_int_equal(p.dhcp.dns_count, 2);
	assert_int_equal(p.dhcp.search_count, 0);

	make_in_place("pasta", &h, resolv, &p); /* of names nothing, unless asked */
	assert_true(p.dhcp_on);
	assert_int_equal(p.dhcp.dns_count + p.dhcp.search_count, 0);
	assert_null(p.dhcp.hostname);
	make_in_place("pasta --dhcp-dns --dhcp-search -D 198.51.100.9 -S c.example", &h, resolv,
		      &p);
	assert_int_equal(p.dhcp.dns_count, 1);
	assert_ip(&p.dhcp.dns[0], "198.51.100.9");
	assert_int_equal(p.dhcp.search_count, 1);
	assert_string_equal(p.dhcp.search[0], "c.example");
	assert_true(make("--config-net", &h, "").dhcp_on);
	assert_false(make("--no-dhcp", &h, "").dhcp_on);
	assert_false(make("-6", &h, "").dhcp_on);
	assert_false(make("--splice-only", &h, "").dhcp_on);
	h.family[IP_V4].gateway = ip_any[IP_V4];
	assert_false(make("", &h, "").dhcp_on);
	assert_true(make("-g 192.0.2.1", &h, "").dhcp_on);
	h.family[IP_V4].found = false; /* local mode */
	make_in_place("passt", &h, "", &p);
	assert_true(p.dhcp_on);
	assert_ip(&p.dhcp.address, "169.254.2.1");
	assert_ip(&p.dhcp.gateway, "169.254.2.2");
	assert_int_equal(p.dhcp.prefix_len, 16);
}

/* Router advertisements tell the resolver as DHCP does. */
static void advertisements(void **state)
{
	static const char resolv[] = "nameserver 198.51.100.1\nnameserver 2001:db8::53\n"
				     "search a.example\n";
	struct host_view h = host();
	struct plan p;

	(void)state;
	make_in_place("passt", &h, resolv, &p);
	assert_int_equal(p.ndp.dns_count, 1);
	assert_ip(&p.ndp.dns[0], "2001:db8::53");
	assert_int_equal(p.ndp.search_count, 1);
	assert_string_equal(p.ndp.search[0], "a.example");
	make_in_place("passt --no-dhcp-dns", &h, resolv, &p);
	assert_int_equal(p.ndp.dns_count, 0);
	make_in_place("passt --no-dhcp-search", &h, resolv, &p);
	assert_int_equal(p.ndp.search_count, 0);
	make_in_place("pasta", &h, resolv, &p);
	assert_int_equal(p.ndp.dns_count + p.ndp.search_count, 0);
	assert_true(p.ndp.ra_on && p.ndp.managed);
	make_in_place("pasta --no-dhcpv6", &h, resolv, &p);
	assert_true(p.ndp.ra_on && !p.ndp.managed);
}

/* One address to give, or no server. */
static void dhcpv6(void **state)
{
	static const char resolv[] = "nameserver 198.51.100.1\nnameserver 2001:db8::53\n"
				     "search a.example\n";
	struct host_view h = host();
	struct plan p;

	(void)state;
	make_in_place("passt --fqdn vm.example", &h, resolv, &p);
	assert_true(p.dhcpv6_on);
	assert_ip(&p.dhcpv6.address, "2001:db8::2");
	assert_ip(&p.dhcpv6.our_link_local, "fe80::9");
	assert_int_equal(p.dhcpv6.dns_count, 1);
	assert_ip(&p.dhcpv6.dns[0], "2001:db8::53");
	assert_int_equal(p.dhcpv6.search_count, 1);
	assert_string_equal(p.dhcpv6.search[0], "a.example");
	assert_string_equal(p.dhcpv6.fqdn, "vm.example");
	make_in_place("passt --no-dhcp-dns --no-dhcp-search", &h, resolv, &p);
	assert_int_equal(p.dhcpv6.dns_count + p.dhcpv6.search_count, 0);
	make_in_place("pasta", &h, resolv, &p);
	assert_true(p.dhcpv6_on);
	assert_int_equal(p.dhcpv6.dns_count + p.dhcpv6.search_count, 0);
	assert_false(make("--no-dhcpv6", &h, "").dhcpv6_on);
	assert_false(make("-4", &h, "").dhcpv6_on);
	assert_false(make("--splice-only", &h, "").dhcpv6_on);
	h.family[IP_V6].found = false; /* local mode: there is none to give */
	assert_false(make("", &h, "").dhcpv6_on);
	make_in_place("pasta -a 2001:db8::7", &h, "", &p);
	assert_true(p.dhcpv6_on);
	assert_ip(&p.dhcpv6.address, "2001:db8::7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(host_is_copied),
	    cmocka_unit_test(names),
	    cmocka_unit_test(nothing_on_the_host),
	    cmocka_unit_test(addresses_given),
	    cmocka_unit_test(mappings),
	    cmocka_unit_test(name_servers),
	    cmocka_unit_test(dhcp),
	    cmocka_unit_test(advertisements),
	    cmocka_unit_test(dhcpv6),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
