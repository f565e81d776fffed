/* SPDX-License-Identifier: BSD-3-Clause */
/* The grammar of forwarding rules, a row a spec. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nat/rules.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct rule_context both = {.proto = IPPROTO_TCP,
					 .family_on = {true, true},
					 .auto_allowed = true,
					 .ephemeral_first = 32768,
					 .ephemeral_last = 60999};

/* All rules of the table as text, "; " between them. */
static void table_text(const struct rule_table *t, char *buf, size_t room)
{
	size_t at = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < t->count; i++) {
		char text[RULE_TEXT_MAX];

		at += (size_t)snprintf(buf + at, room - at, "%s%s", i ? "; " : "",
				       rule_format(&t->rules[i], text));
		assert_true(at < room);
	}
}

static void assert_spec(const struct rule_context *ctx, const char *spec, const char *want)
{
	static char text[RULES_MAX * RULE_TEXT_MAX];
	struct rule_table t = {.count = 0};
	char error[RULE_ERROR_MAX] = "";
	int r = rules_parse(spec, ctx, &t, error);

	if (r < 0)
		print_message("%s: %s\n", spec, error);
	assert_int_equal(r, 0);
	table_text(&t, text, sizeof(text));
	assert_string_equal(text, want);
}

static void test_good(void **state)
{
	static const struct {
		const char *spec, *want;
	} rows[] = {
	    {"80", "TCP [*]:80-80  =>  80-80"},
	    {"80:8080", "TCP [*]:80-80  =>  8080-8080"},
	    {"22-25:2022-2025", "TCP [*]:22-25  =>  2022-2025"},
	    {"22-25:2022", "TCP [*]:22-25  =>  2022-2025"},
	    {"80,443", "TCP [*]:80-80  =>  80-80; TCP [*]:443-443  =>  443-443"},
	    {"10-20,~12-14", "TCP [*]:10-11  =>  10-11; TCP [*]:15-20  =>  15-20"},
	    {"~12-14,10-20:110-120", "TCP [*]:10-11  =>  110-111; TCP [*]:15-20  =>  115-120"},
	    {"127.0.0.1/80", "TCP [127.0.0.1]:80-80  =>  80-80"},
	    {"::1/80", "TCP [::1]:80-80  =>  80-80"},
	    {"[2001:db8::1]/80", "TCP [2001:db8::1]:80-80  =>  80-80"},
	    {"2001:db8::1/80", "TCP [2001:db8::1]:80-80  =>  80-80"},
	    {"::/80", "TCP [::]:80-80  =>  80-80"},
	    {"0.0.0.0/80", "TCP [0.0.0.0]:80-80  =>  80-80"},
	    {"*/80", "TCP [*]:80-80  =>  80-80"},
	    {"*%eth0/80", "TCP [*]%eth0:80-80  =>  80-80"},
	    {"%eth0/80", "TCP [*]%eth0:80-80  =>  80-80"},
	    {"192.0.2.1%eth0/80", "TCP [192.0.2.1]%eth0:80-80  =>  80-80"},
	    {"0.0.0.0/5000:192.0.2.5/6000", "TCP [0.0.0.0]:5000-5000  =>  [192.0.2.5]:6000-6000"},
	    {"0.0.0.0/5000:192.0.2.5", "TCP [0.0.0.0]:5000-5000  =>  [192.0.2.5]:5000-5000"},
	    {"::/5000-5001:2001:db8::5/60-61", "TCP [::]:5000-5001  =>  [2001:db8::5]:60-61"},
	    {"8000-8010,auto", "TCP [*]:8000-8010  =>  8000-8010 (auto-scan)"},
	    {"auto", "TCP [*]:1-32767  =>  1-32767 (best effort) (auto-scan); "
		     "TCP [*]:61000-65535  =>  61000-65535 (best effort) (auto-scan)"},
	    {"all", "TCP [*]:1-32767  =>  1-32767 (best effort); TCP [*]:61000-65535  =>  "
		    "61000-65535 (best effort)"},
	    {"~1-65000", "TCP [*]:65001-65535  =>  65001-65535 (best effort)"},
	    {"127.0.0.2/~1-65530,auto",
	     "TCP [127.0.0.2]:65531-65535  =>  65531-65535 (best effort) (auto-scan)"},
	    {"0.0.0.0/all:192.0.2.5,~1-65534",
	     "TCP [0.0.0.0]:65535-65535  =>  [192.0.2.5]:65535-65535 (best effort)"},
	    {"1", "TCP [*]:1-1  =>  1-1"},
	    {"65535", "TCP [*]:65535-65535  =>  65535-65535"},
	    {"1-65535", "TCP [*]:1-65535  =>  1-65535"},
	    {"00080", "TCP [*]:80-80  =>  80-80"},
	    {"80-80", "TCP [*]:80-80  =>  80-80"},
	    {"80:65535", "TCP [*]:80-80  =>  65535-65535"},
	    {"65534-65535:1-2", "TCP [*]:65534-65535  =>  1-2"},
	    {"1-2:65534", "TCP [*]:1-2  =>  65534-65535"},
	    {"80,81,82",
	     "TCP [*]:80-80  =>  80-80; TCP [*]:81-81  =>  81-81; TCP [*]:82-82  =>  82-82"},
	    {"80:81,81:80", "TCP [*]:80-80  =>  81-81; TCP [*]:81-81  =>  80-80"},
	    {"443:80,22:22", "TCP [*]:443-443  =>  80-80; TCP [*]:22-22  =>  22-22"},
	    {"10-20,~10", "TCP [*]:11-20  =>  11-20"},
	    {"10-20,~20", "TCP [*]:10-19  =>  10-19"},
	    {"10-20,~1-9,~21-30", "TCP [*]:10-20  =>  10-20"},
	    {"10-20,~11,~13",
	     "TCP [*]:10-10  =>  10-10; TCP [*]:12-12  =>  12-12; TCP [*]:14-20  =>  14-20"},
	    {"10-20,~11-12,~12-13", "TCP [*]:10-10  =>  10-10; TCP [*]:14-20  =>  14-20"},
	    {"10-20,~10-20", ""},
	    {"10,~10", ""},
	    {"~15,10-20:30", "TCP [*]:10-14  =>  30-34; TCP [*]:16-20  =>  36-40"},
	    {"65530-65535,~65535", "TCP [*]:65530-65534  =>  65530-65534"},
	    {"127.0.0.1/80,443",
	     "TCP [127.0.0.1]:80-80  =>  80-80; TCP [127.0.0.1]:443-443  =>  443-443"},
	    {"[127.0.0.1]/80", "TCP [127.0.0.1]:80-80  =>  80-80"},
	    {"::ffff:192.0.2.1/80", "TCP [192.0.2.1]:80-80  =>  80-80"},
	    {"[::ffff:192.0.2.1]/80", "TCP [192.0.2.1]:80-80  =>  80-80"},
	    {"[::]/80", "TCP [::]:80-80  =>  80-80"},
	    {"[::1]%lo/80:81", "TCP [::1]%lo:80-80  =>  81-81"},
	    {"fe80::1%eth0/80", "TCP [fe80::1]%eth0:80-80  =>  80-80"},
	    {"::%eth0/1-2", "TCP [::]%eth0:1-2  =>  1-2"},
	    {"0.0.0.0%lo/80", "TCP [0.0.0.0]%lo:80-80  =>  80-80"},
	    {"%fifteen-letters/80", "TCP [*]%fifteen-letters:80-80  =>  80-80"},
	    {"%a.b/80", "TCP [*]%a.b:80-80  =>  80-80"},
	    {"%.../80", "TCP [*]%...:80-80  =>  80-80"},
	    {"/80", "TCP [*]:80-80  =>  80-80"},
	    {"/80:81", "TCP [*]:80-80  =>  81-81"},
	    {"0.0.0.0/80:[192.0.2.5]/81", "TCP [0.0.0.0]:80-80  =>  [192.0.2.5]:81-81"},
	    {"0.0.0.0/80-82:192.0.2.5/90-92", "TCP [0.0.0.0]:80-82  =>  [192.0.2.5]:90-92"},
	    {"0.0.0.0/80-82:192.0.2.5/90", "TCP [0.0.0.0]:80-82  =>  [192.0.2.5]:90-92"},
	    {"0.0.0.0/80-82:192.0.2.5,~81", "TCP [0.0.0.0]:80-80  =>  [192.0.2.5]:80-80; TCP "
					    "[0.0.0.0]:82-82  =>  [192.0.2.5]:82-82"},
	    {"127.0.0.1/80:127.0.0.1", "TCP [127.0.0.1]:80-80  =>  [127.0.0.1]:80-80"},
	    {"::1/80:2001:db8::5", "TCP [::1]:80-80  =>  [2001:db8::5]:80-80"},
	    {"::/80:[2001:db8::5]/443", "TCP [::]:80-80  =>  [2001:db8::5]:443-443"},
	    {"auto,~1-32767", "TCP [*]:61000-65535  =>  61000-65535 (best effort) (auto-scan)"},
	    {"~61000-65535,auto", "TCP [*]:1-32767  =>  1-32767 (best effort) (auto-scan)"},
	    {"auto,80", "TCP [*]:80-80  =>  80-80 (auto-scan)"},
	    {"80,auto,~80", ""},
	    {"auto,auto,80", "TCP [*]:80-80  =>  80-80 (auto-scan)"},
	    {"all,~2-65534", "TCP [*]:1-1  =>  1-1 (best effort); TCP [*]:65535-65535  =>  "
			     "65535-65535 (best effort)"},
	    {"all,80", "TCP [*]:80-80  =>  80-80"},
	    {"~1-32767,~61000-65535", ""},
	    {"%eth0/auto,~1-65534",
	     "TCP [*]%eth0:65535-65535  =>  65535-65535 (best effort) (auto-scan)"},
	    {"*%lo/auto,~1-65534",
	     "TCP [*]%lo:65535-65535  =>  65535-65535 (best effort) (auto-scan)"},
	    {"none", ""},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_spec(&both, rows[i].spec, rows[i].want);
}

static void test_bad(void **state)
{
	static const struct {
		const char *spec, *piece;
	} rows[] = {
	    {"", "''"},
	    {"0", "'0'"},
	    {"65536", "'65536'"},
	    {"80-70", "'80-70'"},
	    {"80:", "''"},
	    {"80:0", "'0'"},
	    {"80,", "''"},
	    {"80-90:100-105", "many"},
	    {"65530-65535:65531", "65535"},
	    {"x", "'x'"},
	    {"80x", "'80x'"},
	    {"~", "'~'"},
	    {"127.0.0.300/80", "300"},
	    {"%/80", "''"},
	    {"%a b/80", "'a b'"},
	    {"%../80", "'..'"},
	    {"%sixteen-letters-x/80", "sixteen"},
	    {"5000:192.0.2.5/6000", "listen"},
	    {"::/5000:192.0.2.5", "family"},
	    {"0.0.0.0/5000:224.0.0.1", "target"},
	    {"224.0.0.1/80", "224.0.0.1"},
	    {"80,80", "already"},
	    {"80-90,85", "already"},
	    {"00", "'00'"},
	    {"000080", "'000080'"},
	    {"99999", "'99999'"},
	    {"+80", "'+80'"},
	    {" 80", "' 80'"},
	    {"0x50", "'0x50'"},
	    {"80.5", "'80.5'"},
	    {"80--90", "'80--90'"},
	    {"80-90-95", "'80-90-95'"},
	    {"80-", "'80-'"},
	    {"0-5", "'0-5'"},
	    {"1-65536", "'1-65536'"},
	    {"-", "'-'"},
	    {",", "''"},
	    {",80", "''"},
	    {"80,,81", "''"},
	    {"80:81:82", "'81:82'"},
	    {"80:x", "'x'"},
	    {"80:65536", "'65536'"},
	    {"80-81:90-92", "many"},
	    {"80-82:90-91", "many"},
	    {"80:90-91", "many"},
	    {"65535-65535:0", "'0'"},
	    {"1-65535:2", "65535"},
	    {"~0", "'~0'"},
	    {"~65536", "'~65536'"},
	    {"~90-80", "'~90-80'"},
	    {"~x,80", "'~x'"},
	    {"~80:81", "'~80:81'"},
	    {"~~80", "'~~80'"},
	    {"all:", "''"},
	    {"all:80", "'80'"},
	    {"all:192.0.2.5", "listen"},
	    {"all80", "'all80'"},
	    {"ALL", "'ALL'"},
	    {"autox", "'autox'"},
	    {"auto:80", "'auto'"},
	    {"none,80", "'none'"},
	    {"80,none", "'none'"},
	    {"1.2.3/80", "'1.2.3'"},
	    {"1.2.3.4.5/80", "'1.2.3.4.5'"},
	    {"[127.0.0.1/80", "'[127.0.0.1'"},
	    {"[::1/80", "'[::1'"},
	    {"[]/80", "'[]'"},
	    {"[x]/80", "'[x]'"},
	    {"ff02::1/80", "'ff02::1'"},
	    {"127.0.0.1/", "''"},
	    {"127.0.0.1//80", "'/80'"},
	    {"127.0.0.1/80/81", "'80/81'"},
	    {"%./80", "'.'"},
	    {"*%/80", "''"},
	    {"**/80", "'**'"},
	    {"127.0.0.1%eth0%eth1/x", "'x'"},
	    {"0.0.0.0/80:0.0.0.0", "'0.0.0.0'"},
	    {"0.0.0.0/80:2001:db8::1", "family"},
	    {"::/80:192.0.2.5/81", "family"},
	    {"0.0.0.0/80:192.0.2.5/", "''"},
	    {"0.0.0.0/80:192.0.2.5/0", "'0'"},
	    {"0.0.0.0/80:192.0.2.5/81/82", "'81/82'"},
	    {"0.0.0.0/80:/81", "'/81'"},
	    {"80-90,~1,90-95", "already"},
	    {"80,443,80:81", "already"},
	    {"Auto", "'Auto'"},
	    {"1 ", "'1 '"},
	    {"-5", "'-5'"},
	    {"5-", "'5-'"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rule_table t = {.count = 0};
		char error[RULE_ERROR_MAX] = "";

		if (!rules_parse(rows[i].spec, &both, &t, error))
			fail_msg("accepted: '%s'", rows[i].spec);
		if (!strstr(error, rows[i].piece))
			fail_msg("'%s': '%s' lacks '%s'", rows[i].spec, error, rows[i].piece);
		assert_int_equal(t.count, 0);
	}
}

static void test_context(void **state)
{
	struct rule_context v4 = both, v6 = both, ns = both;
	struct rule_table t = {.count = 0};
	char error[RULE_ERROR_MAX];

	(void)state;
	v4.family_on[IP_V6] = false;
	v6.family_on[IP_V4] = false;
	ns.loopback_only = true;
	assert_spec(&v4, "80", "TCP [0.0.0.0]:80-80  =>  80-80");
	assert_spec(&v6, "80", "TCP [::]:80-80  =>  80-80");
	assert_spec(&ns, "80", "TCP [*]%lo:80-80  =>  80-80");
	assert_int_not_equal(rules_parse("::/80", &v4, &t, error), 0);
	assert_int_not_equal(rules_parse("127.0.0.1/80", &ns, &t, error), 0);
	v4.auto_allowed = false;
	assert_int_not_equal(rules_parse("auto", &v4, &t, error), 0);
}

/* Specs add up in one table; what clashes with an earlier one is refused and leaves the table as it
 * was. */
static void test_table(void **state)
{
	static const struct {
		const char *first, *second;
		bool clash;
	} rows[] = {
	    {"5000", "5000", true},
	    {"5000", "5001", false},
	    {"0.0.0.0/5000", "::/5000", false},
	    {"127.0.0.1/5000", "5000", true},
	    {"127.0.0.1/5000", "127.0.0.2/5000", false},
	    {"127.0.0.1/5000", "0.0.0.0/5000", true},
	    {"127.0.0.1/5000", "::/5000", false},
	    {"%eth0/5000", "%eth1/5000", true},
	    {"5000", "none", true},
	    {"none", "5000", false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rule_table t = {.count = 0};
		char error[RULE_ERROR_MAX];
		unsigned before;

		assert_int_equal(rules_parse(rows[i].first, &both, &t, error), 0);
		before = t.count;
		if (!rules_parse(rows[i].second, &both, &t, error) == rows[i].clash)
			fail_msg("'%s' then '%s'", rows[i].first, rows[i].second);
		if (rows[i].clash)
			assert_int_equal(t.count, before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad),
					   cmocka_unit_test(test_context),
					   cmocka_unit_test(test_table)};

	return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
