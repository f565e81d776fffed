/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"

/* Parses a copy without terminator, so that a sanitizer sees any byte read past its end. */
static struct resolver parse(const char *text, size_t len)
{
	char *copy = malloc(len ? len : 1);
	struct resolver r;

	assert_non_null(copy);
	memcpy(copy, text, len);
	memset(&r, 0xa5, sizeof(r));
	resolver_parse(copy, len, &r);
	free(copy);
	return r;
}
#define PARSE(literal) parse(literal, sizeof(literal) - 1)

static void expect_dns(const struct resolver *r, enum ip_family family, unsigned i,
		       const char *text)
{
	char buf[IP_TEXT_MAX];

	assert_true(i < r->dns_count[family]);
	assert_string_equal(ip_format(&r->dns[family][i], buf), text);
}

static void test_ordinary(void **state)
{
	struct resolver r =
	    PARSE("# comment\n; other comment\n\nnameserver 192.0.2.1\n"
		  "nameserver 2001:db8::1\nsearch a.example b.example\noptions edns0\n");

	(void)state;
	assert_int_equal(r.dns_count[IP_V4], 1);
	assert_int_equal(r.dns_count[IP_V6], 1);
	expect_dns(&r, IP_V4, 0, "192.0.2.1");
	expect_dns(&r, IP_V6, 0, "2001:db8::1");
	assert_int_equal(r.search_count, 2);
	assert_string_equal(r.search[0], "a.example");
	assert_string_equal(r.search[1], "b.example");
}

static void test_white_space_and_line_ends(void **state)
{
	struct resolver r = PARSE("nameserver\t 192.0.2.1 \t\r\n  nameserver 192.0.2.2#x\r\n"
				  "nameserver 192.0.2.3 # x\nsearch\ta.example \t b.example\t;c\r\n"
				  "nameserver 2001:db8::2");

	(void)state;
	assert_int_equal(r.dns_count[IP_V4], 2);
	expect_dns(&r, IP_V4, 0, "192.0.2.1");
	expect_dns(&r, IP_V4, 1, "192.0.2.3");
	expect_dns(&r, IP_V6, 0, "2001:db8::2");
	assert_int_equal(r.search_count, 2);
	assert_string_equal(r.search[1], "b.example");
}

static void test_servers(void **state)
{
	struct resolver r =
	    PARSE("nameserver fe80::1%eth0\nnameserver [2001:db8::1]\nnameserver 0.0.0.0\n"
		  "nameserver 224.0.0.1\nnameserver 192.0.2.1\nnameserver 192.0.2.2\n"
		  "nameserver 192.0.2.3\nnameserver ::\nnameserver 2001:db8::9\n");

	(void)state;
	assert_int_equal(r.dns_count[IP_V4], 3);
	expect_dns(&r, IP_V4, 0, "127.0.0.1");
	expect_dns(&r, IP_V4, 2, "192.0.2.2");
	assert_int_equal(r.dns_count[IP_V6], 3);
	expect_dns(&r, IP_V6, 0, "fe80::1");
	expect_dns(&r, IP_V6, 1, "2001:db8::1");
	expect_dns(&r, IP_V6, 2, "::1");
}

static void test_last_search_holds(void **state)
{
	struct resolver r = PARSE("search a b c\ndomain d.example ignored\n");

	(void)state;
	assert_int_equal(r.search_count, 1);
	assert_string_equal(r.search[0], "d.example");
	r = PARSE("domain d.example\nsearch a. b\nsearch\nsearch # nothing\n");
	assert_int_equal(r.search_count, 2);
	assert_string_equal(r.search[0], "a");
	r = PARSE("search a\nsearch .\n");
	assert_int_equal(r.search_count, 0);
	r = PARSE("search 1 2 3 4 5 6 7 8\n");
	assert_int_equal(r.search_count, RESOLVER_SEARCH_MAX);
	assert_string_equal(r.search[5], "6");
}

static void test_garbage(void **state)
{
	struct resolver r = PARSE("");

	(void)state;
	assert_int_equal(r.dns_count[IP_V4] + r.dns_count[IP_V6] + r.search_count, 0);
	r = PARSE(
	    "nameserver\nnameserver  \nnameserver 300.0.0.1\nnameserver x\nnameserver %eth0\n"
	    "nameserver1 192.0.2.1\nnameserve 192.0.2.1\nsearchx a\nNAMESERVER 192.0.2.1\n"
	    "nameserver 192.0.2.1\0.5\nnameserver 2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff:1:2:3:4\n"
	    "\0\xff\xfe\n%\n#\n;\nsearch \x01 b\x80");
	assert_int_equal(r.dns_count[IP_V4] + r.dns_count[IP_V6] + r.search_count, 0);
}

static void test_long_names(void **state)
{
	char text[600];
	struct resolver r;

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "search ", 7);
	text[7 + 253] = ' ';
	r = parse(text, sizeof(text));
	assert_int_equal(r.search_count, 1);
	assert_int_equal(strlen(r.search[0]), 253);
}

static void test_read(void **state)
{
	char path[] = "/tmp/test_resolver.XXXXXX";
	int fd = mkstemp(path);
	static const char line[] = "nameserver 192.0.2.7\n";
	struct resolver r;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, line, sizeof(line) - 1), (ssize_t)sizeof(line) - 1);
	for (int i = 0; i < 4000; i++)
		assert_int_equal(write(fd, "# a comment of 21 ch\n", 21), 21);
	close(fd);
	assert_int_equal(resolver_read(path, &r), 0);
	expect_dns(&r, IP_V4, 0, "192.0.2.7");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(resolver_read(path, &r), -ENOENT);
	assert_int_equal(resolver_read("/", &r), -EISDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ordinary), cmocka_unit_test(test_white_space_and_line_ends),
	    cmocka_unit_test(test_servers),  cmocka_unit_test(test_last_search_holds),
	    cmocka_unit_test(test_garbage),  cmocka_unit_test(test_long_names),
	    cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
