/* SPDX-License-Identifier: BSD-3-Clause */
/* Every option's good and bad values, with the exact line. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "options_bed.h"

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
#define PATH_107                                                                                   \
	"/23456789012345678901234567890123456789012345678901234567890123456789012345678901234567"  \
	"89012345678901234567"
#define LONG_PATH "the path is longer than 107 bytes"
#define NOT_STATS "not a number of seconds from 1 to 86400"
#define NOT_FD    "not a number from 3 to 2147483647"

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
    {"socket", {"/tmp/x", "x", PATH_107}, {"", NO_PATH, PATH_107 "8", LONG_PATH}},
    {"socket-path", {"/tmp/x", "x", PATH_107}, {"", NO_PATH, PATH_107 "8", LONG_PATH}},
    {"fd",
     {"3", "0x10", "010"},
     {"2", NOT_FD, "0", NOT_FD, "-1", NOT_FD, "3x", NOT_FD, "", NOT_FD, "2147483648", NOT_FD}},
    {"stats",
     {"1", "0x10", "86400"},
     {"0", NOT_STATS, "86401", NOT_STATS, "-1", NOT_STATS, "x", NOT_STATS}},
    {"conf-path", {"/tmp/x", PATH_107}, {"", NO_PATH, PATH_107 "8", LONG_PATH}},
    {"repair-path", {"none"}, {NULL}},
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

/* What is for one program is an error in the other. */
static void one_program_only(void **state)
{
	(void)state;
	for (unsigned i = 0; i < option_count; i++) {
		const struct option_row *row = &option_rows[i];
		const char *own = row->where == WHERE_PASTA ? "pasta" : "passt";
		char line[256], expected[512];

		if (row->where == WHERE_BOTH)
			continue;
		snprintf(line, sizeof(line), "%s --%s%s%s",
			 row->where == WHERE_PASTA ? "passt" : "pasta", row->name,
			 row->arg ? " " : "", row->arg ? sample_of(row->name)->good[0] : "");
		snprintf(expected, sizeof(expected), "%s: for %s only", line + 6, own);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values_are_checked),
	    cmocka_unit_test(arguments_are_required),
	    cmocka_unit_test(one_program_only),
	    cmocka_unit_test(too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
