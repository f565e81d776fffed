/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "options_bed.h"

#define ARGS_MAX 32

struct config cfg;
char error[CONFIG_ERROR_MAX];
bool usage;
static char text[4096]; /* what argv points into */
static char *args[ARGS_MAX + 1];

int parse_args(int argc, char **argv)
{
	const struct config_input in = {argc, argv, 32768, 60999};

	return config_parse(&in, &cfg, error, &usage);
}

int parse(const char *line)
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

const struct config *good(const char *line)
{
	if (parse(line))
		fail_msg("%s: %s", line, error);
	assert_string_equal(error, "");
	return &cfg;
}

void bad(const char *line, const char *expected)
{
	assert_int_equal(parse(line), -EINVAL);
	assert_string_equal(error, expected);
	assert_false(usage);
}

void bad_usage(const char *line, const char *expected)
{
	assert_int_equal(parse(line), -EINVAL);
	assert_string_equal(error, expected);
	assert_true(usage);
}

void is_address(const struct ip_addr *a, const char *expected)
{
	char buf[IP_TEXT_MAX];

	assert_string_equal(ip_format(a, buf), expected);
}
