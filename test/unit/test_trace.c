/* SPDX-License-Identifier: BSD-3-Clause */
/* --trace: what is said of frames, sound or not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/log.h"
#include "tap/trace.h"

static char said[512];

/* Traces hexadecimal digits (blanks between them don't count), given in pieces of piece bytes. */
static const char *trace(const char *hex, size_t piece)
{
	int out = memfd_create("stderr", MFD_CLOEXEC), real = dup(STDERR_FILENO);
	uint8_t bytes[256];
	struct iovec iov[256];
	size_t len = 0;
	ssize_t n;
	int count = 0;

	for (; *hex; hex += strspn(hex, " ")) {
		char pair[3] = {hex[0], hex[1], 0};

		assert_true(len < sizeof(bytes));
		bytes[len++] = (uint8_t)strtoul(pair, NULL, 16);
		hex += 2;
	}
	for (size_t at = 0; at < len; at += piece)
		iov[count++] = (struct iovec){bytes + at, len - at < piece ? len - at : piece};
	log_set_threshold(LOG_LEVEL_TRACE);
	assert_return_code(dup2(out, STDERR_FILENO), errno);
	trace_frame("From the guest", iov, count);
	assert_return_code(dup2(real, STDERR_FILENO), errno);
	n = pread(out, said, sizeof(said) - 1, 0);
	assert_return_code(n, errno);
	said[n] = '\0';
	close(out);
	close(real);
	return said;
}

#define ETH(type)       "ffffffffffff 020000000001 " type " "
#define V4(frag, proto) ETH("0800") "4500 002c 0001 " frag " 40 " proto " 0000 c0000202 c0000207 "
#define V6(next)                                                                                   \
	ETH("86dd")                                                                                \
	"60000000 0018 " next " 40 "                                                               \
	"20010db8000900000000000000000002 20010db8000900000000000000000007 "

static void frames(void **state)
{
	static const struct {
		const char *hex, *line;
	} rows[] = {
	    {V4("0000", "06") "1f90 0050",
	     "38 bytes: TCP (6) 192.0.2.2 to 192.0.2.7, port 8080 to 80"},
	    {ETH("0800") "4600 0030 0001 2000 40 11 0000 c0000202 c0000207 01010101 0035 d431",
	     "42 bytes: UDP (17) 192.0.2.2 to 192.0.2.7, port 53 to 54321"},
	    {V4("0010", "11") "1f90 0050", "38 bytes: UDP (17) 192.0.2.2 to 192.0.2.7"},
	    {V4("0000", "01"), "34 bytes: ICMP (1) 192.0.2.2 to 192.0.2.7"},
	    {V6("06") "1f90 0050",
	     "58 bytes: TCP (6) 2001:db8:9::2 to 2001:db8:9::7, port 8080 to 80"},
	    {V6("3a"), "54 bytes: ICMPv6 (58) 2001:db8:9::2 to 2001:db8:9::7"},
	    {V6("00"), "54 bytes: IP (0) 2001:db8:9::2 to 2001:db8:9::7"},
	    {V4("0000", "06") "1f90 00", "37 bytes: cut short"},
	    {ETH("86dd") "60", "15 bytes: cut short"},
	    {ETH("0806"), "14 bytes: ARP 0806"},
	    {ETH("88cc"), "14 bytes: type 88cc"},
	    {"ff", "1 bytes: type 0000"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[256];

		snprintf(line, sizeof(line), "From the guest: %s\n", rows[i].line);
		assert_string_equal(trace(rows[i].hex, 256), line);
		assert_string_equal(trace(rows[i].hex, 1), line);
		assert_string_equal(trace(rows[i].hex, 13), line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(frames)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
