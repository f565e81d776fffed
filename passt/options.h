/* SPDX-License-Identifier: BSD-3-Clause */
/* The options as rows, and what their handlers work on; for the files of config.h only. */
#ifndef PASST_OPTIONS_H
#define PASST_OPTIONS_H

#include "passt/config.h"

enum option_where { WHERE_BOTH, WHERE_PASTA, WHERE_PASST };

/* Addresses that make no sense as an argument, per option. */
enum option_refuse {
	REFUSE_UNSPECIFIED = 1,
	REFUSE_LOOPBACK_V4 = 2,
	REFUSE_LOOPBACK_V6 = 4,
	REFUSE_LOOPBACK = REFUSE_LOOPBACK_V4 | REFUSE_LOOPBACK_V6,
	REFUSE_GROUP = 8,   /* multicast and broadcast */
	REFUSE_MAPPED = 16, /* IPv4 written as IPv6 */
};

struct option_row;

/* A command line on its way to a struct config. */
struct option_parse {
	struct config *cfg;
	char *error;         /* CONFIG_ERROR_MAX bytes */
	const char *used;    /* the option at hand as the user knows it: -m or --mtu */
	const char *value;   /* its argument, or NULL */
	bool netmask_given;  /* -n */
	bool address_prefix; /* the IPv4 -a had a /L */
	const struct config_input *in;
	bool ports_turn; /* the second pass over the options: those of ports, now that the families
			    are known */
	bool ports_given[FORWARD_SIDES][2]; /* -t and -T, -u and -U */
	bool find_vhost_user;               /* the very first pass, for that option alone */
	const char *vhost_only; /* the last option for which there must be --vhost-user, or NULL */
	const char *no_copy;    /* the last of --no-copy-routes, --no-copy-addrs, or NULL */
	int positional_count;   /* arguments behind the options */
	char **positional;
};

typedef int (*option_handler)(struct option_parse *p, const struct option_row *row);

struct option_row {
	char letter;      /* or 0 */
	const char *name; /* of the long form */
	const char *arg;  /* its argument in help and manual, or NULL if it takes none */
	enum option_where where;
	option_handler handle;
	const char *help; /* lines */
	size_t member;  /* offset in struct config, or in its config_family, of what handle sets */
	unsigned param; /* value, bound or option_refuse bits, as handle has it */
};

extern const struct option_row option_rows[];
extern const unsigned option_count;
#define OPTION_COUNT_MAX 80

/* Writes one line to p->error and returns -EINVAL: the option, its value and the reason. */
int option_fail(struct option_parse *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Writes one line of any wording; bytes that aren't printable become question marks. -EINVAL. */
int option_error(char error[CONFIG_ERROR_MAX], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The whole of text as a number without sign, base as for strtoul(3), at most max. 0 or -EINVAL. */
int option_number(const char *text, int base, unsigned long long max,
		  unsigned long long *out) must_check;

/* What pasta forwards where no option says anything: all that listens. */
int option_ports_default(struct option_parse *p) must_check;

/* The rules between options, and what some imply for others. 0 or -EINVAL. */
int config_check(struct option_parse *p) must_check;

/* Handlers. */
int option_flag(struct option_parse *p, const struct option_row *row);
int option_path(struct option_parse *p, const struct option_row *row);
int option_name(struct option_parse *p, const struct option_row *row);
int option_ifname(struct option_parse *p, const struct option_row *row);
int option_outbound_if(struct option_parse *p, const struct option_row *row);
int option_address(struct option_parse *p, const struct option_row *row);
int option_address_once(struct option_parse *p, const struct option_row *row);
int option_map(struct option_parse *p, const struct option_row *row);
int option_guest_address(struct option_parse *p, const struct option_row *row);
int option_netmask(struct option_parse *p, const struct option_row *row);
int option_gateway(struct option_parse *p, const struct option_row *row);
int option_dns(struct option_parse *p, const struct option_row *row);
int option_search(struct option_parse *p, const struct option_row *row);
int option_fqdn(struct option_parse *p, const struct option_row *row);
int option_our_mac(struct option_parse *p, const struct option_row *row);
int option_ns_mac(struct option_parse *p, const struct option_row *row);
int option_mtu(struct option_parse *p, const struct option_row *row);
int option_log_size(struct option_parse *p, const struct option_row *row);
int option_level(struct option_parse *p, const struct option_row *row);
int option_only_family(struct option_parse *p, const struct option_row *row);
int option_ports(struct option_parse *p, const struct option_row *row);
int option_userns(struct option_parse *p, const struct option_row *row);
int option_netns_only(struct option_parse *p, const struct option_row *row);
int option_action(struct option_parse *p, const struct option_row *row);
int option_stats(struct option_parse *p, const struct option_row *row);
int option_fd(struct option_parse *p, const struct option_row *row);
int option_vhost_user(struct option_parse *p, const struct option_row *row);
int option_repair_path(struct option_parse *p, const struct option_row *row);
int option_migrate(struct option_parse *p, const struct option_row *row);
int option_no_effect(struct option_parse *p, const struct option_row *row);
int option_deprecated(struct option_parse *p, const struct option_row *row);
int option_no_copy(struct option_parse *p, const struct option_row *row);

#endif
