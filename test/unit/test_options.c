/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: every option's good and bad values with the exact line, rules between options,
 * forms and order. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passt/options.h"

#define ARGS_MAX 32

static struct config cfg;
static char error[CONFIG_ERROR_MAX];
static bool usage;
static char text[4096]; /* what argv points into */
static char *args[ARGS_MAX + 1];

static int parse_args(int argc, char **argv)
{
	const struct config_input in = {argc, argv, 32768, 60999};

	return config_parse(&in, &cfg, error, &usage);
}

/* Parses a command line split at spaces, _ standing for a space inside an argument. argv[0] is the
 * first word. */
static int parse(const char *line)
{
	char before[ARGS_MAX][256];
	int n = 0, r;

	assert_true(strlen(line) < sizeof(text));
	strcpy(text, line);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
		assert_true(n < ARGS_MAX && strlen(word) < sizeof(before[0]));
		for (char *c = word; *c; c++)
			*c = *c == '_' ? ' ' : *c;
		strcpy(before[n], word);
		args[n++] = word;
	}
	args[n] = NULL;
	r = parse_args(n, args);
	for (int i = 0; i < n; i++) /* the command line is the caller's */
		assert_string_equal(args[i], before[i]);
	return r;
}

static const struct config *good(const char *line)
{
	if (parse(line))
		fail_msg("%s: %s", line, error);
	assert_string_equal(error, "");
	return &cfg;
}

static void bad(const char *line, const char *expected)
{
	assert_int_equal(parse(line), -EINVAL);
	assert_string_equal(error, expected);
	assert_false(usage);
}

static void bad_usage(const char *line, const char *expected)
{
	assert_int_equal(parse(line), -EINVAL);
	assert_string_equal(error, expected);
	assert_true(usage);
}

static void is_address(const struct ip_addr *a, const char *expected)
{
	char buf[IP_TEXT_MAX];

	assert_string_equal(ip_format(a, buf), expected);
}

/* ---- values, a row an option ---- */

#define NAME_253                                                                                   \
	"123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789."         \
	"123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789."         \
	"123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789."         \
	"123456789.123"
#define LABEL_64  "1234567890123456789012345678901234567890123456789012345678901234"
#define NOT_ADDR  "not an IPv4 or IPv6 address"
#define UNSPEC    "an unspecified address is of no use here"
#define LOOPBACK  "a loopback address is of no use here"
#define GROUP     "a multicast or broadcast address is of no use here"
#define NOT_MAC   "not a MAC address: six pairs of hexadecimal digits with colons between them"
#define GROUP_MAC "not the MAC address of an interface"
#define NOT_MTU   "not a number from 0 to 65521"
#define NOT_SIZE  "not a number of bytes, 40960 at least"
#define NOT_MASK  "neither a dotted IPv4 mask nor a number from 0 to 32"
#define NOT_IF    "not a name of an interface"
#define LONG_IF   "the name is longer than 15 bytes"
#define NO_NAME   "the name is empty"
#define NO_PATH   "the path is empty"

static const struct sample {
	const char *name;
	const char *good[8];
	const char *bad[16]; /* value, reason, value, reason ... */
} samples[] = {
    {"log-file", {"/tmp/x", "x"}, {"", NO_PATH}},
    {"log-size",
     {"40960", "0xa000", "0120000", "1099511627776"},
     {"40959", NOT_SIZE, "0", NOT_SIZE, "1M", NOT_SIZE, "-50000", NOT_SIZE, "99999999999999999999",
      NOT_SIZE, "", NOT_SIZE}},
    {"runas", {"1000", "1000:1000", "login:group"}, {"", NO_NAME}},
    {"pcap", {"/tmp/x", "x"}, {"", NO_PATH}},
    {"pid", {"/tmp/x", "x"}, {"", NO_PATH}},
    {"mtu",
     {"0", "65521", "0x500", "02400"},
     {"65522", NOT_MTU, "-1", NOT_MTU, "+5", NOT_MTU, "1500x", NOT_MTU, "08", NOT_MTU,
      "18446744073709551616", NOT_MTU, "", NOT_MTU}},
    {"address",
     {"192.0.2.1", "192.0.2.1/24", "2001:db8::1", "[2001:db8::1]", "2001:db8::1/128",
      "[2001:db8::1]/64"},
     {"192.0.2", NOT_ADDR, "192.0.2.1/33", "the prefix length is not a number from 0 to 32",
      "2001:db8::1/129", "the prefix length is not a number from 0 to 128", "192.0.2.1/",
      "the prefix length is not a number from 0 to 32", "127.0.0.1", LOOPBACK, "::", UNSPEC,
      "224.0.0.1", GROUP, "/24", NOT_ADDR}},
    {"netmask",
     {"255.255.255.0", "24", "0", "32", "0x10"},
     {"33", NOT_MASK, "255.255.0.255", "not an IPv4 mask", "255.0", "not an IPv4 mask", "x",
      NOT_MASK, "", NOT_MASK}},
    {"mac-addr",
     {"02:00:00:00:00:01", "9A:55:9a:55:9a:55"},
     {"02:00:00:00:00", NOT_MAC, "02-00-00-00-00-01", NOT_MAC, "2:0:0:0:0:1", NOT_MAC,
      "02:00:00:00:00:01:", NOT_MAC, "01:00:5e:00:00:01", GROUP_MAC, "00:00:00:00:00:00", GROUP_MAC,
      "", NOT_MAC}},
    {"gateway",
     {"192.0.2.1", "fe80::1", "[2001:db8::1]"},
     {"300.0.0.1", NOT_ADDR, "::", UNSPEC, "0.0.0.0", UNSPEC, "::1", LOOPBACK, "127.9.9.9",
      LOOPBACK, "255.255.255.255", GROUP, "ff02::1", GROUP}},
    {"interface",
     {"eth0", "veth@x", "123456789012345"},
     {"1234567890123456", LONG_IF, "", NO_NAME, "a/b", NOT_IF, ".", NOT_IF, "..", NOT_IF, "a_b",
      "not a name"}},
    {"outbound",
     {"192.0.2.1", "127.0.0.5", "2001:db8::1"},
     {"0.0.0.0", UNSPEC, "255.255.255.255", GROUP, "239.1.1.1", GROUP, "::", UNSPEC, "::1",
      LOOPBACK, "ff02::1", GROUP, "::ffff:192.0.2.1",
      "an IPv4 address in IPv6 form is of no use here", "::192.0.2.1",
      "an IPv4 address in IPv6 form is of no use here"}},
    {"outbound-if4", {"eth0", "123456789012345"}, {"1234567890123456", LONG_IF, "", NO_NAME}},
    {"outbound-if6", {"eth0", "123456789012345"}, {"1234567890123456", LONG_IF, "", NO_NAME}},
    {"dns",
     {"192.0.2.1", "127.0.0.53", "2001:db8::1", "none"},
     {"no", NOT_ADDR, "0.0.0.0", UNSPEC, "ff02::fb", GROUP, "", NOT_ADDR}},
    {"dns-forward",
     {"169.254.1.1", "2001:db8::1"},
     {"::", UNSPEC, "::1", LOOPBACK, "0.0.0.0", UNSPEC, "255.255.255.255", GROUP, "127.0.0.1",
      LOOPBACK, "none", NOT_ADDR}},
    {"dns-host",
     {"192.0.2.1", "127.0.0.1", "::1"},
     {"::", UNSPEC, "0.0.0.0", UNSPEC, "255.255.255.255", GROUP, "x", NOT_ADDR}},
    {"search",
     {"example.org", "none", "none.", "a_b__c_", NAME_253},
     {"", "the list is empty", "_", "the list is empty", "a..b", "a..b is not a domain name", ".",
      ". is not a domain name", LABEL_64, LABEL_64 " is not a domain name", "a_b_c_d_e_f_g",
      "more than 6 search domains"}},
    {"hostname",
     {"guest", "guest.example.org", NAME_253},
     {"", NO_NAME, "a_b", "not a name", NAME_253 "4", "the name is longer than 253 bytes"}},
    {"fqdn",
     {"guest.example.org", "guest.example.org.", NAME_253},
     {"", "not a domain name", "a..b", "not a domain name", LABEL_64, "not a domain name",
      NAME_253 "4", "not a domain name"}},
    {"map-host-loopback",
     {"192.0.2.1", "2001:db8::1", "none"},
     {"127.0.0.1", LOOPBACK, "::1", LOOPBACK, "::", UNSPEC, "0.0.0.0", UNSPEC, "224.0.0.1", GROUP,
      "nope", NOT_ADDR}},
    {"map-guest-addr",
     {"169.254.1.2", "2001:db8::1", "none"},
     {"127.0.0.1", LOOPBACK, "::1", LOOPBACK, "::", UNSPEC, "0.0.0.0", UNSPEC, "224.0.0.1", GROUP,
      "nope", NOT_ADDR}},
    {"tcp-ports",
     {"none", "auto", "8080", "127.0.0.1/8080-8081:80", "%eth0/all", "[::1]/22,~23,24-30"},
     {"x", "bad ports 'x'", "", "bad ports ''", "80,0", "bad ports '0'", "80:90-91",
      "target ports '90-91' are not as many", "192.0.2/80", "bad address '192.0.2'"}},
    {"udp-ports", {"none", "8080:53", "*/53"}, {"", "bad ports ''"}},
    {"tcp-ns",
     {"none", "auto", "5432"},
     {"127.0.0.1/80", "no address or interface can be given here"}},
    {"udp-ns", {"none", "8080"}, {"65536", "bad ports '65536'"}},
    {"ns-ifname",
     {"tap0", "123456789012345"},
     {"1234567890123456", LONG_IF, "", NO_NAME, "a/b", NOT_IF, "tap%d", NOT_IF, "a:b", NOT_IF, "..",
      NOT_IF}},
    {"ns-mac-addr", {"02:00:00:00:00:01"}, {"x", NOT_MAC, "ff:ff:ff:ff:ff:ff", GROUP_MAC}},
    {"userns", {"/proc/1/ns/user"}, {"", NO_PATH}},
    {"netns", {"/run/netns/x", "x"}, {"", NO_PATH}},
    {"socket", {"/tmp/x", "x"}, {"", NO_PATH}},
};

static const struct sample *sample_of(const char *name)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		if (!strcmp(samples[i].name, name))
			return &samples[i];
	}
	fail_msg("--%s has no samples in this test", name);
	return NULL;
}

/* Which program has the option, which may be joined with its value. */
static const char *program_with(const char *option)
{
	for (unsigned i = 0; i < option_count; i++) {
		const struct option_row *row = &option_rows[i];
		size_t len = strlen(row->name);
		bool is_long = !strncmp(option, "--", 2) && !strncmp(option + 2, row->name, len) &&
			       (!option[2 + len] || option[2 + len] == '=');

		if (is_long || (option[1] != '-' && option[1] == row->letter))
			return row->where == WHERE_PASST ? "passt" : "pasta";
	}
	return "pasta";
}

/* The value as a word of parse()'s line would look to the program. */
static int parse_two(const char *option, const char *value)
{
	char *argv[4] = {(char *)program_with(option), (char *)option, (char *)value, NULL};
	static char copy[512];

	if (value) {
		strcpy(copy, value);
		for (char *c = copy; *c; c++)
			*c = *c == '_' ? ' ' : *c;
		argv[2] = copy;
	}
	return parse_args(value ? 3 : 2, argv);
}

static void values_are_checked(void **state)
{
	(void)state;
	for (unsigned i = 0; i < option_count; i++) {
		const struct option_row *row = &option_rows[i];
		char l[64], s[3] = {'-', row->letter, 0}, joined[512], expected[1024];
		const struct sample *sample = row->arg ? sample_of(row->name) : NULL;

		snprintf(l, sizeof(l), "--%s", row->name);
		for (int k = 0; sample && k < 8 && sample->good[k]; k++) {
			assert_int_equal(parse_two(l, sample->good[k]), 0);
			snprintf(joined, sizeof(joined), "%s=%s", l, sample->good[k]);
			for (char *c = joined; *c; c++)
				*c = *c == '_' ? ' ' : *c;
			assert_int_equal(parse_two(joined, NULL), 0);
			if (row->letter)
				assert_int_equal(parse_two(s, sample->good[k]), 0);
		}
		for (int k = 0; sample && k < 16 && sample->bad[k]; k += 2) {
			char shown[300];

			snprintf(shown, sizeof(shown), "%s", sample->bad[k]);
			for (char *c = shown; *c; c++)
				*c = *c == '_' ? ' ' : *c;
			assert_int_equal(parse_two(l, sample->bad[k]), -EINVAL);
			snprintf(expected, sizeof(expected), "%s %s: %s", l, shown,
				 sample->bad[k + 1]);
			assert_string_equal(error, expected);
			assert_false(usage);
			if (!row->letter)
				continue;
			assert_int_equal(parse_two(s, sample->bad[k]), -EINVAL);
			snprintf(expected, sizeof(expected), "%s %s: %s", s, shown,
				 sample->bad[k + 1]);
			assert_string_equal(error, expected);
		}
	}
}

/* getopt's own wording, for every option in both forms. */
static void arguments_are_required(void **state)
{
	(void)state;
	for (unsigned i = 0; i < option_count; i++) {
		const struct option_row *row = &option_rows[i];
		char line[64], expected[128];

		snprintf(line, sizeof(line), row->arg ? "pasta --%s" : "pasta --%s=1", row->name);
		snprintf(expected, sizeof(expected),
			 row->arg ? "pasta: option '--%s' requires an argument"
				  : "pasta: option '--%s' doesn't allow an argument",
			 row->name);
		bad_usage(line, expected);
		if (!row->letter || !row->arg)
			continue;
		snprintf(line, sizeof(line), "pasta -%c", row->letter);
		snprintf(expected, sizeof(expected), "pasta: option requires an argument -- '%c'",
			 row->letter);
		bad_usage(line, expected);
	}
}

static void pasta_only(void **state)
{
	(void)state;
	for (unsigned i = 0; i < option_count; i++) {
		const struct option_row *row = &option_rows[i];
		char line[256], expected[512];

		if (row->where != WHERE_PASTA)
			continue;
		snprintf(line, sizeof(line), "passt --%s%s%s", row->name, row->arg ? " " : "",
			 row->arg ? sample_of(row->name)->good[0] : "");
		snprintf(expected, sizeof(expected), "%s: for pasta only", line + 6);
		bad(line, expected);
	}
}

static void too_long(void **state)
{
	char path[PATH_MAX + 1], *argv[] = {(char *)"pasta", (char *)"-p", path, NULL};

	(void)state;
	memset(path, 'x', sizeof(path));
	path[PATH_MAX] = '\0';
	assert_int_equal(parse_args(3, argv), -EINVAL);
	assert_memory_equal(error, "-p xxx", 6);
	assert_string_equal(error + strlen("-p ") + 300, ": the path is longer than 4095 bytes");
	path[PATH_MAX - 1] = '\0';
	assert_int_equal(parse_args(3, argv), 0);
	assert_ptr_equal(cfg.pcap, path);
}

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
				       "'--foreground' '--fqdn' '--freebind'");
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
	    cmocka_unit_test(values_are_checked),
	    cmocka_unit_test(arguments_are_required),
	    cmocka_unit_test(pasta_only),
	    cmocka_unit_test(too_long),
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
	    cmocka_unit_test(deprecated),
	    cmocka_unit_test(podman),
	    cmocka_unit_test(one_line),
	    cmocka_unit_test(help_has_every_option),
	    cmocka_unit_test(version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
