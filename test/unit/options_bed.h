/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines for the tests of options. */
#ifndef TEST_OPTIONS_BED_H
#define TEST_OPTIONS_BED_H

#include "passt/options.h"

/* What the latest parse() gave. */
extern struct config cfg;
extern char error[CONFIG_ERROR_MAX];
extern bool usage;

int parse_args(int argc, char **argv);

/* Parses a command line split at spaces, _ standing for a space inside an argument. argv[0] is the
 * first word. */
int parse(const char *line);

const struct config *good(const char *line);
void bad(const char *line, const char *expected);
void bad_usage(const char *line, const char *expected);
void is_address(const struct ip_addr *a, const char *expected);

#endif
