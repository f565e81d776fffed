/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "passt/options.h"

#define LONG_BASE        256 /* getopt's value of a long option: this and the row's number */
#define MTU_DEFAULT      65520
#define LOG_SIZE_DEFAULT (1 << 20)

/* What getopt_long(3) is told, from the rows. */
struct getopt_tables {
	struct option longs[OPTION_COUNT_MAX + 1];
	char shorts[2 * OPTION_COUNT_MAX + 3];
};

static void set_defaults(struct config *cfg)
{
	*cfg = (struct config){
	    .log_level = LOG_LEVEL_INFO,
	    .log_size = LOG_SIZE_DEFAULT,
	    .mtu = MTU_DEFAULT,
	    .our_mac = {{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}},
	    .map_gw = true,
	    .tcp_on = true,
	    .udp_on = true,
	    .icmp_on = true,
	    .ndp_on = true,
	    .ra_on = true,
	    .dhcp_on = true,
	    .dhcpv6_on = true,
	    .copy_routes = true,
	    .copy_addresses = true,
	    .splice_on = true,
	    .netns_quit = true,
	    .fd = -1,
	};
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct config_family *cf = &cfg->family[f];

		cf->on = true;
		cf->address = cf->gateway = cf->outbound = ip_any[f];
		cf->dns_forward = cf->dns_host = ip_any[f];
		cf->map_host_loopback = cf->map_guest_addr = ip_any[f];
	}
}

/* By the last part of the name only: a folder called pasta says nothing. */
static int program_of(const char *argv0, struct config *cfg, char *error)
{
	const char *slash = strrchr(argv0, '/'), *base = slash ? slash + 1 : argv0;

	if (strstr(base, "pasta"))
		cfg->program = PROGRAM_PASTA;
	else if (strstr(base, "passt"))
		cfg->program = PROGRAM_PASST;
	else
		return option_error(error, "%s: not called passt or pasta, so which is meant?",
				    argv0);
	return 0;
}

/* + stops at the first argument that is no option; : reports a missing argument apart. */
static void fill_tables(struct getopt_tables *t)
{
	char *s = t->shorts;

	*s++ = '+';
	*s++ = ':';
	for (unsigned i = 0; i < option_count; i++) {
		const struct option_row *row = &option_rows[i];

		t->longs[i] = (struct option){row->name, row->arg ? required_argument : no_argument,
					      NULL, LONG_BASE + (int)i};
		if (!row->letter)
			continue;
		*s++ = row->letter;
		if (row->arg)
			*s++ = ':';
	}
	*s = '\0';
	t->longs[option_count] = (struct option){0};
}

/* The row for getopt's value, or NULL. as: how the user called it, 3 bytes at least. */
static const struct option_row *row_of(int value, char *as, size_t room)
{
	if (value >= LONG_BASE) {
		snprintf(as, room, "--%s", option_rows[value - LONG_BASE].name);
		return &option_rows[value - LONG_BASE];
	}
	for (unsigned i = 0; i < option_count; i++) {
		if (option_rows[i].letter && option_rows[i].letter == value) {
			snprintf(as, room, "-%c", value);
			return &option_rows[i];
		}
	}
	return NULL;
}

/* A long option that is either none or the beginning of several. */
static int fail_unknown_long(const char *argv0, const char *arg, char *error)
{
	size_t len = strcspn(arg + 2, "="), used;
	unsigned matches = 0;

	option_error(error, "%.200s: option '%.100s' is ambiguous; possibilities:", argv0, arg);
	used = strlen(error);
	for (unsigned i = 0; i < option_count; i++) {
		if (strncmp(option_rows[i].name, arg + 2, len))
			continue;
		matches++;
		if (used < CONFIG_ERROR_MAX)
			used += (size_t)snprintf(error + used, CONFIG_ERROR_MAX - used, " '--%s'",
						 option_rows[i].name);
	}
	if (matches > 1)
		return -EINVAL;
	return option_error(error, "%.200s: unrecognized option '%s'", argv0, arg);
}

/* getopt's own complaints in its own words, which callers look for: podman tries again without an
 * option that is "unrecognized". */
static int fail_getopt(int c, char **argv, char *error)
{
	const char *argv0 = argv[0];
	char as[64];

	if (optopt == 0)
		return fail_unknown_long(argv0, argv[optind - 1], error);
	if (c == ':' && optopt >= LONG_BASE)
		return option_error(error, "%.200s: option '--%s' requires an argument", argv0,
				    option_rows[optopt - LONG_BASE].name);
	if (c == ':')
		return option_error(error, "%.200s: option requires an argument -- '%c'", argv0,
				    optopt);
	if (optopt >= LONG_BASE && row_of(optopt, as, sizeof(as)))
		return option_error(error, "%.200s: option '%s' doesn't allow an argument", argv0,
				    as);
	return option_error(error, "%.200s: invalid option -- '%c'", argv0,
			    isascii(optopt) ? optopt : '?');
}

static int handle_option(struct option_parse *p, int c)
{
	enum program program = p->cfg->program;
	const struct option_row *row;
	char as[64];

	row = row_of(c, as, sizeof(as));
	if (!row) /* getopt gives back what it was told of, or ? and : */
		return option_error(p->error, "-%c: not an option", isascii(c) ? c : '?');
	if (p->find_vhost_user)
		return row->handle == option_vhost_user ? row->handle(p, row) : 0;
	if (p->ports_turn != (row->handle == option_ports))
		return 0;
	p->used = as;
	p->value = row->arg ? optarg : NULL;
	if ((row->where == WHERE_PASTA && program != PROGRAM_PASTA) ||
	    (row->where == WHERE_PASST && program != PROGRAM_PASST))
		return option_fail(p, "for %s only", program == PROGRAM_PASTA ? "passt" : "pasta");
	return row->handle(p, row);
}

static int parse_options(struct option_parse *p, bool *usage)
{
	int argc = p->in->argc, c, r;
	char **argv = p->in->argv;
	struct getopt_tables t;

	fill_tables(&t);
	opterr = 0;
	optind = 0; /* getopt(3) NOTES: starts afresh, whatever an earlier scan left behind */
	while (p->cfg->action == ACTION_RUN &&
	       (c = getopt_long(argc, argv, t.shorts, t.longs, NULL)) != -1) {
		if (c == '?' || c == ':') {
			*usage = true;
			return fail_getopt(c, argv, p->error);
		}
		r = handle_option(p, c);
		if (r < 0)
			return r;
	}
	p->positional = argv + optind;
	p->positional_count = argc - optind;
	return 0;
}

/* What stands behind the options: a PID to join if it is one number, else a command. */
static int parse_positional(struct option_parse *p)
{
	struct config *cfg = p->cfg;
	const char *first = p->positional[0];
	unsigned long long pid;

	if (!p->positional_count)
		return 0;
	if (cfg->program == PROGRAM_PASST)
		return option_error(p->error, "%s: passt takes options only", first);
	if (p->positional_count > 1 || !*first || first[strspn(first, "0123456789")]) {
		cfg->command = p->positional;
		return 0;
	}
	if (option_number(first, 10, INT_MAX, &pid) < 0 || !pid)
		return option_error(p->error, "PID %s: not a number from 1 to %d", first, INT_MAX);
	cfg->target_pid = (pid_t)pid;
	return 0;
}

/* Ports come last: what a wildcard means depends on the families, whether an option of a protocol
 * is allowed at all on other options, wherever they stand. */
static int parse_ports(struct option_parse *p, bool *usage)
{
	int r;

	p->ports_turn = true;
	r = parse_options(p, usage);
	if (!r && p->cfg->program == PROGRAM_PASTA)
		r = option_ports_default(p);
	return r;
}

int config_parse(const struct config_input *in, struct config *out, char error[CONFIG_ERROR_MAX],
		 bool *usage)
{
	struct option_parse p = {.cfg = out, .error = error, .in = in};
	int r;

	*usage = false;
	error[0] = '\0';
	set_defaults(out);
	if (in->argc < 1)
		return option_error(error, "Started without a program name");
	r = program_of(in->argv[0], out, error);
	if (r < 0)
		return r;
	/* Which program it is decides on other options, wherever they stand. */
	p.find_vhost_user = true;
	r = parse_options(&p, usage);
	p.find_vhost_user = false;
	if (r < 0) { /* to be found again, in its place */
		*usage = false;
		error[0] = '\0';
	}
	/* A virtual machine has no other way to learn of them; a namespace has the resolv.conf of
	 * its file system. */
	out->dhcp_dns = out->dhcp_search = out->program == PROGRAM_PASST;
	r = parse_options(&p, usage);
	if (r < 0 || out->action != ACTION_RUN)
		return r;
	r = parse_positional(&p);
	if (r < 0)
		return r;
	r = config_check(&p);
	return r < 0 ? r : parse_ports(&p, usage);
}
