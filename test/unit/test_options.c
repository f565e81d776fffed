/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: rules between options, forms and order. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "options_bed.h"

/* ---- getopt ---- */

static void unknown(void **state)
{
	(void)state;
	bad_usage("pasta --foo", "pasta: unrecognized option '--foo'");
	bad_usage("/usr/bin/pasta --foo=bar ls", "/usr/bin/pasta: unrecognized option '--foo=bar'");
	bad_usage("pasta --map-guest-addrs 192.0.2.1",
		  "pasta: unrecognized option '--map-guest-addrs'");
	bad_usage("pasta -Z", "pasta: invalid option -- 'Z'");
	bad_usage("pasta -fZ", "pasta: invalid option -- 'Z'");
	bad_usage("pasta -f:", "pasta: invalid option -- ':'");
	bad_usage("pasta -f\x07", "pasta: invalid option -- '?'");
	bad_usage("pasta -\xc3\xa9", "pasta: invalid option -- '?'");
	bad_usage("passt -Z", "passt: invalid option -- 'Z'");
	assert_int_equal(cfg.program, PROGRAM_PASST);
	for (int i = 0; i < 3; i++) { /* nothing stays behind in getopt */
		bad_usage("pasta -qfZ --help", "pasta: invalid option -- 'Z'");
		good("pasta -qf");
		bad_usage("pasta --f", "pasta: option '--f' is ambiguous; possibilities: "
				       "'--foreground' '--fqdn' '--freebind' '--fd'");
	}
}

static void abbreviations(void **state)
{
	(void)state;
	assert_true(good("pasta --fore 1")->foreground);
	assert_string_equal(good("pasta --fq a.b")->fqdn, "a.b");
	assert_int_equal(good("pasta --mt=1400")->mtu, 1400);
	good("pasta --dns 192.0.2.1 --netns x"); /* whole names that others begin with */
	assert_true(good("pasta --netns- 5")->netns_only);
	bad_usage("pasta --outbound-if eth0", "pasta: option '--outbound-if' is ambiguous; "
					      "possibilities: '--outbound-if4' '--outbound-if6'");
}

static void attached(void **state)
{
	(void)state;
	assert_string_equal(good("pasta -P/tmp/Foo.pid")->pid_file, "/tmp/Foo.pid");
	assert_string_equal(good("pasta -P=x")->pid_file, "=x");
	assert_int_equal(good("pasta -fqm1400")->mtu, 1400);
	assert_string_equal(good("pasta --pid=--foo")->pid_file, "--foo");
	assert_string_equal(good("pasta --pid --foo")->pid_file, "--foo");
}

/* ---- what follows the options ---- */

static void command(void **state)
{
	(void)state;
	assert_null(good("pasta")->command);
	assert_true(cfg.foreground && !cfg.target_pid && !cfg.netns_only);
	assert_string_equal(good("pasta sh -c ls_-l -F 99 -m x")->command[0], "sh");
	assert_string_equal(cfg.command[2], "ls -l");
	assert_string_equal(cfg.command[4], "99");
	assert_null(cfg.command[7]);
	assert_int_equal(cfg.mtu, 65520);
	assert_string_equal(good("pasta -4 -- ls -4 -6")->command[1], "-4");
	assert_true(cfg.family[IP_V4].on && !cfg.family[IP_V6].on);
	assert_string_equal(good("pasta -- -x")->command[0], "-x");
	assert_string_equal(good("pasta 123 x")->command[0], "123");
	assert_int_equal(cfg.target_pid, 0);
	assert_string_equal(good("pasta 123x")->command[0], "123x");
	assert_string_equal(good("pasta -- -1")->command[0], "-1");
	assert_string_equal(good("pasta -")->command[0], "-");
}

static void pid(void **state)
{
	(void)state;
	assert_int_equal(good("pasta 123")->target_pid, 123);
	assert_null(cfg.command);
	assert_false(cfg.foreground);
	assert_int_equal(good("pasta -- 123")->target_pid, 123);
	assert_int_equal(good("pasta -q 2147483647")->target_pid, INT_MAX);
	assert_true(good("pasta -f 123")->foreground);
	bad("pasta 2147483648", "PID 2147483648: not a number from 1 to 2147483647");
	bad("pasta 99999999999999999999999",
	    "PID 99999999999999999999999: not a number from 1 to 2147483647");
	bad("pasta 0", "PID 0: not a number from 1 to 2147483647");
	bad("passt 123", "123: passt takes options only");
	bad("passt -- ls", "ls: passt takes options only");
}

static void empty_command(void **state)
{
	char *argv[] = {(char *)"pasta", (char *)"", NULL};

	(void)state;
	assert_int_equal(parse_args(2, argv), 0);
	assert_ptr_equal(cfg.command, argv + 1);
}

static void program_name(void **state)
{
	static const struct {
		const char *argv0;
		enum program program;
	} names[] = {{"pasta", PROGRAM_PASTA},
		     {"/usr/bin/passt", PROGRAM_PASST},
		     {"my-pasta.2", PROGRAM_PASTA},
		     {"/pasta/passt.avx2", PROGRAM_PASST},
		     {"passtpasta", PROGRAM_PASTA}};
	char *none[] = {NULL};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(good(names[i].argv0)->program, names[i].program);
	bad("/usr/pasta/foo", "/usr/pasta/foo: not called passt or pasta, so which is meant?");
	assert_int_equal(parse_args(0, none), -EINVAL);
	assert_string_equal(error, "Started without a program name");
}

static void actions(void **state)
{
	(void)state;
	assert_int_equal(good("pasta --help --foo -m x")->action, ACTION_HELP);
	assert_int_equal(good("pasta -fh")->action, ACTION_HELP);
	assert_int_equal(good("passt --version")->action, ACTION_VERSION);
	assert_int_equal(good("pasta ls --help")->action, ACTION_RUN);
	bad_usage("pasta --foo --help", "pasta: unrecognized option '--foo'");
}

/* ---- order and rules ---- */

static void last_wins(void **state)
{
	(void)state;
	assert_int_equal(good("pasta -d -q")->log_level, LOG_LEVEL_WARN);
	assert_int_equal(good("pasta -q -d")->log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(good("pasta --trace -q")->log_level, LOG_LEVEL_WARN);
	assert_int_equal(good("pasta --trace -d")->log_level, LOG_LEVEL_TRACE);
	assert_int_equal(good("pasta -q --trace -d -q -d")->log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(good("pasta")->log_level, LOG_LEVEL_INFO);
	assert_int_equal(good("pasta -m 1400 -m 1500")->mtu, 1500);
	assert_string_equal(good("pasta -P x -P y -l a -l b")->pid_file, "y");
	assert_string_equal(cfg.log_file, "b");
	good("pasta -4 -6");
	assert_true(!cfg.family[IP_V4].on && cfg.family[IP_V6].on);
	good("pasta -6 -4");
	assert_true(cfg.family[IP_V4].on && !cfg.family[IP_V6].on);
	is_address(&good("pasta -o 192.0.2.1 -o 192.0.2.2")->family[IP_V4].outbound, "192.0.2.2");
}

static void once_a_family(void **state)
{
	static const char *const options[] = {"-a", "-g", "--dns-forward", "--map-host-loopback",
					      "--map-guest-addr"};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		char line[256], expected[512];
		const char *o = options[i];

		snprintf(line, sizeof(line), "pasta %s 192.0.2.1 %s 2001:db8::1", o, o);
		good(line);
		snprintf(line, sizeof(line), "pasta %s 192.0.2.1 %s 192.0.2.2", o, o);
		snprintf(expected, sizeof(expected),
			 "%s 192.0.2.2: an IPv4 address was given before", o);
		bad(line, expected);
		snprintf(line, sizeof(line), "pasta %s 2001:db8::1 %s 2001:db8::2", o, o);
		snprintf(expected, sizeof(expected),
			 "%s 2001:db8::2: an IPv6 address was given before", o);
		bad(line, expected);
	}
}

static void address_and_mask(void **state)
{
	const struct config_family *v4 = &cfg.family[IP_V4], *v6 = &cfg.family[IP_V6];

	(void)state;
	good("pasta -a 192.0.2.1/25 -a 2001:db8::1/80 -g fe80::1");
	is_address(&v4->address, "192.0.2.1");
	is_address(&v6->address, "2001:db8::1");
	is_address(&v6->gateway, "fe80::1");
	assert_true(v4->address_set && v4->prefix_set && v6->address_set && !v6->prefix_set);
	assert_true(v6->gateway_set && !v4->gateway_set);
	assert_int_equal(v4->prefix_len, 25);
	assert_int_equal(good("pasta -n 255.255.254.0")->family[IP_V4].prefix_len, 23);
	assert_true(v4->prefix_set && !v4->address_set);
	assert_int_equal(good("pasta -n 255.255.255.255")->family[IP_V4].prefix_len, 32);
	assert_false(good("pasta -a 192.0.2.1")->family[IP_V4].prefix_set);
	good("pasta -a 192.0.2.1 -n 24 -a 2001:db8::1/64");
	bad("pasta -a 192.0.2.1/24 -n 24", "--netmask and the prefix length in --address (/24) "
					   "can't both be given");
	assert_int_equal(parse("pasta -n 25 -a 192.0.2.1/24"), -EINVAL);
}

static void name_servers(void **state)
{
	const struct config_family *v4 = &cfg.family[IP_V4], *v6 = &cfg.family[IP_V6];

	(void)state;
	assert_true(!good("pasta")->dns_off && !v4->dns_count && !v6->dns_count);
	good("pasta -D 192.0.2.1 -D 2001:db8::1 -D 192.0.2.2 -D 192.0.2.3 -D 192.0.2.4");
	assert_false(cfg.dns_off);
	assert_int_equal(v4->dns_count, 3);
	assert_int_equal(v6->dns_count, 1);
	is_address(&v4->dns[2], "192.0.2.3");
	good("pasta -D 192.0.2.1 --dns-forward 192.0.2.9 --dns-host 2001:db8::9 -D none");
	assert_true(cfg.dns_off && !v4->dns_count);
	assert_true(ip_is_unspecified(&v4->dns_forward) && ip_is_unspecified(&v6->dns_host));
	good("pasta -D none -D 192.0.2.7");
	assert_false(cfg.dns_off);
	is_address(&v4->dns[0], "192.0.2.7");
	good("pasta -D none --dns-forward 192.0.2.9");
	is_address(&v4->dns_forward, "192.0.2.9");
}

static void search_list(void **state)
{
	(void)state;
	assert_false(good("pasta")->search_given);
	assert_int_equal(good("pasta -S a.b_c -S __d.e_")->search_count, 3);
	assert_true(cfg.search_given && !cfg.search_off);
	assert_string_equal(cfg.search[0], "a.b");
	assert_string_equal(cfg.search[2], "d.e");
	assert_true(good("pasta -S a -S none")->search_off);
	assert_int_equal(cfg.search_count, 0);
	assert_false(good("pasta -S none -S b")->search_off);
	assert_string_equal(cfg.search[0], "b");
	bad("pasta -S a_b_c -S d_e_f_g", "-S d e f g: more than 6 search domains");
}

static void mapping(void **state)
{
	(void)state;
	assert_true(good("pasta")->map_gw && !cfg.map_host_loopback_none);
	assert_false(good("pasta --no-map-gw")->map_gw);
	good("pasta --map-host-loopback 192.0.2.1 --map-host-loopback none");
	assert_true(!cfg.map_gw && cfg.map_host_loopback_none);
	assert_true(ip_is_unspecified(&cfg.family[IP_V4].map_host_loopback));
	good("pasta --map-host-loopback none --map-host-loopback 192.0.2.1");
	assert_true(!cfg.map_gw && !cfg.map_host_loopback_none);
	is_address(&cfg.family[IP_V4].map_host_loopback, "192.0.2.1");
	good("pasta --map-guest-addr 192.0.2.1 --map-guest-addr none --map-guest-addr 192.0.2.2");
	assert_true(cfg.map_gw);
	is_address(&cfg.family[IP_V4].map_guest_addr, "192.0.2.2");
}

static void implied(void **state)
{
	(void)state;
	good("pasta");
	assert_true(cfg.tcp_on && cfg.udp_on && cfg.icmp_on && cfg.ndp_on && cfg.ra_on);
	assert_true(cfg.dhcp_on && cfg.dhcpv6_on);
	assert_true(cfg.netns_quit && cfg.copy_routes && cfg.copy_addresses && !cfg.config_net);
	good("pasta -4");
	assert_true(cfg.dhcp_on && !cfg.dhcpv6_on && !cfg.ndp_on && !cfg.ra_on);
	good("pasta -6");
	assert_true(!cfg.dhcp_on && cfg.dhcpv6_on && cfg.ndp_on);
	good("pasta --no-icmp");
	assert_true(!cfg.icmp_on && !cfg.ndp_on && !cfg.ra_on && cfg.tcp_on);
	good("pasta --config-net");
	assert_true(cfg.config_net && cfg.ndp_on && !cfg.ra_on);
	good("pasta --no-tcp --no-udp --no-ra --no-dhcp --no-dhcpv6 --no-ndp --no-netns-quit");
	assert_false(cfg.tcp_on || cfg.udp_on || cfg.ra_on || cfg.dhcp_on || cfg.dhcpv6_on);
	assert_false(cfg.ndp_on || cfg.netns_quit);
	assert_false(good("passt")->foreground);
	assert_true(good("passt -f")->foreground);
}

/* Whether DHCP and the like tell of resolver and search list: yes for a virtual machine, no for a
 * namespace. */
static void dhcp_names(void **state)
{
	(void)state;
	good("passt");
	assert_true(cfg.dhcp_dns && cfg.dhcp_search);
	good("passt --no-dhcp-dns");
	assert_true(!cfg.dhcp_dns && cfg.dhcp_search && cfg.dhcp_on);
	good("passt --no-dhcp-search");
	assert_true(cfg.dhcp_dns && !cfg.dhcp_search);
	good("pasta");
	assert_false(cfg.dhcp_dns || cfg.dhcp_search);
	good("pasta --dhcp-dns");
	assert_true(cfg.dhcp_dns && !cfg.dhcp_search);
	good("pasta --dhcp-search");
	assert_true(!cfg.dhcp_dns && cfg.dhcp_search);
	bad("passt --dhcp-dns", "--dhcp-dns: for pasta only");
	bad("passt --dhcp-search", "--dhcp-search: for pasta only");
	bad("pasta --no-dhcp-dns", "--no-dhcp-dns: for passt only");
	bad("pasta --no-dhcp-search", "--no-dhcp-search: for passt only");
}

static void namespaces(void **state)
{
	(void)state;
	assert_true(good("pasta --netns x")->netns_only);
	assert_string_equal(cfg.netns, "x");
	assert_false(cfg.foreground);
	assert_false(good("pasta --netns x --userns /u")->netns_only);
	assert_string_equal(cfg.userns, "/u");
	assert_true(good("pasta --userns /u --netns-only 5")->netns_only);
	assert_null(cfg.userns);
	assert_false(good("pasta --netns-only --userns /u 5")->netns_only);
	bad("pasta --netns x ls -l", "--netns x and command ls can't both be given");
	bad("pasta --netns x 5", "--netns x and PID 5 can't both be given");
	bad("pasta --no-copy-routes", "--no-copy-routes: only with --config-net");
	bad("pasta --no-copy-addrs", "--no-copy-addrs: only with --config-net");
	good("pasta --no-copy-routes --config-net");
	assert_true(!cfg.copy_routes && cfg.copy_addresses);
}

/* ---- ports ---- */

/* The rules of both tables, a line each. */
static void rules_are(const char *line, const char *expected)
{
	char all[2048] = "", buf[RULE_TEXT_MAX];

	good(line);
	for (int side = 0; side < FORWARD_SIDES; side++) {
		for (unsigned i = 0; i < cfg.ports[side].count; i++) {
			snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s\n",
				 side == FORWARD_NS ? "ns " : "",
				 rule_format(&cfg.ports[side].rules[i], buf));
		}
	}
	assert_string_equal(all, expected);
}

#define NONE   "-t none -u none -T none -U none"
#define WEAK   " (best effort) (auto-scan)\n"
#define AUTO_T "TCP [*]:1-32767  =>  1-32767" WEAK "TCP [*]:61000-65535  =>  61000-65535" WEAK
#define AUTO_U "UDP [*]:1-32767  =>  1-32767" WEAK "UDP [*]:61000-65535  =>  61000-65535" WEAK
#define NS_T                                                                                       \
	"ns TCP [*]%lo:1-32767  =>  1-32767" WEAK "ns TCP [*]%lo:61000-65535  =>  "                \
	"61000-65535" WEAK
#define NS_U                                                                                       \
	"ns UDP [*]%lo:1-32767  =>  1-32767" WEAK "ns UDP [*]%lo:61000-65535  =>  "                \
	"61000-65535" WEAK

static void ports(void **state)
{
	(void)state;
	rules_are("passt", "");
	rules_are("pasta", AUTO_T AUTO_U NS_T NS_U);
	rules_are("pasta " NONE, "");
	rules_are("pasta -U none -t 80", "TCP [*]:80-80  =>  80-80\n" AUTO_U NS_T);
	rules_are("pasta -u none -t none -U 5353", "ns UDP [*]%lo:5353-5353  =>  5353-5353\n" NS_T);
	rules_are("pasta " NONE " -t 80 -t 81-82:91 -T 5432 -u 53 ls -t 99",
		  "TCP [*]:80-80  =>  80-80\nTCP [*]:81-82  =>  91-92\nUDP [*]:53-53  =>  53-53\n"
		  "ns TCP [*]%lo:5432-5432  =>  5432-5432\n");
	/* What a wildcard means is known only when all is read, and so is what is off. */
	rules_are("passt -t 80 -4", "TCP [0.0.0.0]:80-80  =>  80-80\n");
	rules_are("passt -t 80 -6", "TCP [::]:80-80  =>  80-80\n");
	rules_are("pasta --no-tcp --no-udp", "");
	bad("pasta -t 80 --no-tcp", "-t 80: not together with --no-tcp");
	bad("pasta --no-udp --udp-ns none", "--udp-ns none: not together with --no-udp");
	bad("passt -4 -t ::1/80", "-t ::1/80: the family of '::1' is off");
	bad("passt -t auto", "-t auto: 'auto' is for pasta only");
	bad("passt -T 80", "-T 80: for pasta only");
	/* Over all options. */
	rules_are("passt -u none -u none -u 80 -t none", "UDP [*]:80-80  =>  80-80\n");
	bad("pasta -t 80 -u none -t none", "-t none: 'none' after other ports");
	bad("pasta -t 80-90 --tcp-ports 85", "--tcp-ports 85: ports 85-85 are forwarded already");
	rules_are("pasta " NONE " -t 80 -u 80 -T 80",
		  "TCP [*]:80-80  =>  80-80\nUDP [*]:80-80  =>  80-80\n"
		  "ns TCP [*]%lo:80-80  =>  80-80\n");
	assert_int_equal(good("pasta -t bad --help")->action, ACTION_HELP);
	assert_int_equal(good("pasta --version -t bad")->action, ACTION_VERSION);
}

/* The reason is said, however long the spec. */
static void long_spec(void **state)
{
	char spec[4096] = "", *argv[] = {(char *)"pasta", (char *)"-t", spec, NULL};

	(void)state;
	for (int i = 1; i < 500; i++)
		sprintf(spec + strlen(spec), "%d,", i);
	assert_int_equal(parse_args(3, argv), -EINVAL);
	assert_non_null(strstr(error, ": more than 255 ranges"));
}

/* More rules than one table holds, and not even room for what is forwarded by default. */
static void many_ports(void **state)
{
	static char specs[RULES_MAX + 1][8];
	char *argv[2 * RULES_MAX + 10] = {(char *)"pasta"};
	int n = 1;

	(void)state;
	for (int i = 0; i <= RULES_MAX; i++) {
		snprintf(specs[i], sizeof(specs[i]), "%d", 1000 + i);
		argv[n++] = (char *)"-t";
		argv[n++] = specs[i];
	}
	assert_int_equal(parse_args(n, argv), -EINVAL);
	assert_string_equal(error, "-t 1255: more than 255 rules");
	n -= 2;
	assert_int_equal(parse_args(n, argv), -EINVAL);
	assert_string_equal(error, "No room to forward what listens on UDP too: 'auto': more than "
				   "255 rules");
	argv[n++] = (char *)"-u";
	argv[n++] = (char *)"none";
	assert_int_equal(parse_args(n, argv), 0);
	assert_int_equal(cfg.ports[FORWARD_HOST].count, 255);
}

static void splice(void **state)
{
	(void)state;
	good("pasta");
	assert_true(cfg.splice_on && !cfg.splice_only && !cfg.host_lo_to_ns_lo && !cfg.freebind);
	good("pasta --no-splice --freebind");
	assert_true(!cfg.splice_on && cfg.freebind);
	assert_true(good("pasta --host-lo-to-ns-lo")->host_lo_to_ns_lo);
	good("pasta --splice-only");
	assert_true(cfg.splice_on && cfg.splice_only && cfg.host_lo_to_ns_lo && cfg.dns_off);
	assert_false(cfg.icmp_on || cfg.ndp_on || cfg.ra_on || cfg.dhcp_on || cfg.dhcpv6_on);
	bad("pasta --host-lo-to-ns-lo --no-splice",
	    "--no-splice and --host-lo-to-ns-lo can't both be given");
	bad("pasta --no-splice --splice-only", "--no-splice and --splice-only can't both be given");
}

static void virtual_machine(void **state)
{
	(void)state;
	good("passt");
	assert_int_equal(cfg.fd, -1);
	assert_false(cfg.vhost_user || cfg.one_off);
	good("passt -1 -s /tmp/a --socket-path /tmp/b");
	assert_true(cfg.one_off);
	assert_string_equal(cfg.socket_path, "/tmp/b");
	good("passt --fd 7");
	assert_int_equal(cfg.fd, 7);
	bad("passt -F 7 -s x", "--socket x and --fd 7 can't both be given");
	bad("passt -s x -F7", "--socket x and --fd 7 can't both be given");
	/* Wherever it stands, and whatever the program is called. */
	good("pasta -s /tmp/x --vhost-user");
	assert_int_equal(cfg.program, PROGRAM_PASST);
	assert_true(cfg.vhost_user && cfg.dhcp_dns);
	bad("pasta --config-net --vhost-user", "--config-net: for pasta only");
	good("pasta sh --vhost-user");
	assert_int_equal(cfg.program, PROGRAM_PASTA);
	good("passt --vhost-user --migrate-exit --migrate-no-linger --repair-path /x");
	assert_int_equal(cfg.deprecated_count, 2);
	bad("passt --migrate-exit", "--migrate-exit: only with --vhost-user");
	bad("passt --repair-path /x", "--repair-path: only with --vhost-user");
	good("passt --repair-path none");
	good("passt --print-capabilities --bogus");
	assert_int_equal(cfg.action, ACTION_CAPABILITIES);
	bad("passt --stats 1", "--stats: only with --foreground");
	bad("pasta --stats 1 123", "--stats: only with --foreground");
	good("passt --stats 1 -f");
	assert_int_equal(cfg.stats_seconds, 1);
	good("pasta --stats 2 sh"); /* stays with its command */
	bad("pasta -s x", "-s x: for passt only");
	bad("passt -T 1", "-T 1: for pasta only");
	bad("passt -u 80,auto", "-u 80,auto: 'auto' is for pasta only");
	bad("passt --vhost-user sh", "sh: passt takes options only");
	/* Not taken for options of ours: what belongs to another option, or to the command. */
	good("pasta -P/tmp/Foo.pid");
	assert_string_equal(cfg.pid_file, "/tmp/Foo.pid");
	assert_int_equal(cfg.fd, -1);
	good("pasta sh -F 99");
	assert_int_equal(cfg.fd, -1);
}

static void deprecated(void **state)
{
	(void)state;
	assert_int_equal(good("pasta")->deprecated_count, 0);
	assert_int_equal(
	    good("pasta -e -e --config-net --no-copy-addrs --no-copy-routes")->deprecated_count, 3);
	assert_string_equal(cfg.deprecated[0], "stderr");
	assert_string_equal(cfg.deprecated[2], "no-copy-routes");
}

/* What podman starts. */
static void podman(void **state)
{
	(void)state;
	good(
	    "/usr/bin/pasta --config-net --dns-forward 169.254.1.1 -t none -u none -T none -U none "
	    "--no-map-gw --quiet --netns /run/user/1000/netns/netns-1 --map-guest-addr "
	    "169.254.1.2");
	assert_true(cfg.config_net && cfg.netns_only && !cfg.map_gw && !cfg.foreground);
	assert_int_equal(cfg.log_level, LOG_LEVEL_WARN);
	is_address(&cfg.family[IP_V4].dns_forward, "169.254.1.1");
	is_address(&cfg.family[IP_V4].map_guest_addr, "169.254.1.2");
}

static void one_line(void **state)
{
	char *argv[] = {(char *)"pasta", (char *)"-m", (char *)"1\n2\x1b[m", NULL};

	(void)state;
	assert_int_equal(parse_args(3, argv), -EINVAL);
	assert_string_equal(error, "-m 1?2?[m: not a number from 0 to 65521");
}

/* ---- texts ---- */

static void print_to(char *buf, size_t room, void (*print)(FILE *f))
{
	FILE *f = fmemopen(buf, room, "w");

	assert_non_null(f);
	print(f);
	assert_int_equal(fclose(f), 0);
}

static void print_help(FILE *f)
{
	config_print_help(&cfg, "pasta", f);
}

static void print_version(FILE *f)
{
	config_print_version(&cfg, f);
}

static void help_has_every_option(void **state)
{
	static char help[16384];

	(void)state;
	for (int p = 0; p < 2; p++) {
		good(p ? "pasta" : "passt");
		print_to(help, sizeof(help), print_help);
		assert_memory_equal(help, "Usage: ", 7);
		for (unsigned i = 0; i < option_count; i++) {
			const struct option_row *row = &option_rows[i];
			char form[128];

			snprintf(form, sizeof(form), "%s--%s%s%s", row->letter ? ", " : "\n  ",
				 row->name, row->arg ? " " : "", row->arg ? row->arg : "");
			assert_int_equal(strstr(help, form) != NULL,
					 row->where != (p ? WHERE_PASST : WHERE_PASTA));
		}
		for (char *line = strtok(help, "\n"); line; line = strtok(NULL, "\n"))
			assert_true(strlen(line) < 100);
	}
}

static void version(void **state)
{
	char out[1024];

	(void)state;
	good("pasta --version");
	print_to(out, sizeof(out), print_version);
	assert_memory_equal(out, "pasta " VERSION "\n", strlen("pasta " VERSION "\n"));
	assert_non_null(strstr(out, "BSD-3-Clause"));
	good("passt --version");
	print_to(out, sizeof(out), print_version);
	assert_memory_equal(out, "passt " VERSION "\n", strlen("passt " VERSION "\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unknown),
	    cmocka_unit_test(abbreviations),
	    cmocka_unit_test(attached),
	    cmocka_unit_test(command),
	    cmocka_unit_test(pid),
	    cmocka_unit_test(empty_command),
	    cmocka_unit_test(program_name),
	    cmocka_unit_test(actions),
	    cmocka_unit_test(last_wins),
	    cmocka_unit_test(once_a_family),
	    cmocka_unit_test(address_and_mask),
	    cmocka_unit_test(name_servers),
	    cmocka_unit_test(search_list),
	    cmocka_unit_test(mapping),
	    cmocka_unit_test(implied),
	    cmocka_unit_test(dhcp_names),
	    cmocka_unit_test(namespaces),
	    cmocka_unit_test(ports),
	    cmocka_unit_test(long_spec),
	    cmocka_unit_test(many_ports),
	    cmocka_unit_test(splice),
	    cmocka_unit_test(virtual_machine),
	    cmocka_unit_test(deprecated),
	    cmocka_unit_test(podman),
	    cmocka_unit_test(one_line),
	    cmocka_unit_test(help_has_every_option),
	    cmocka_unit_test(version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
