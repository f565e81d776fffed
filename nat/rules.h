/* SPDX-License-Identifier: BSD-3-Clause */
/* Forwarding rules and their grammar (-t -u -T -U). A table is a value: parsed without side
 * effects, checked as a whole. */
#ifndef NAT_RULES_H
#define NAT_RULES_H

#include <net/if.h>

#include "wire/addr.h"

#define RULES_MAX      255
#define RULE_ERROR_MAX 256

/* One rule: listen on ports first..last, forward to target_first and on. */
struct rule {
	uint8_t proto;            /* IPPROTO_TCP or IPPROTO_UDP */
	bool dual_stack;          /* wildcard of both families; addr means nothing then */
	struct ip_addr addr;      /* to listen on; unspecified: wildcard of that one family */
	char ifname[IF_NAMESIZE]; /* to listen on, "" for any */
	uint16_t first, last;
	struct ip_addr target; /* unspecified: none, the flow decides */
	uint16_t target_first;
	bool weak; /* ports that can't be had are skipped */
	bool scan; /* listens only while the target side does */
};

struct rule_table {
	struct rule rules[RULES_MAX];
	unsigned count;
};

/* What a spec is read against. */
struct rule_context {
	uint8_t proto;
	bool family_on[IP_FAMILIES];
	bool auto_allowed;  /* pasta */
	bool loopback_only; /* -T, -U: no address or interface part, device lo */
	uint16_t ephemeral_first, ephemeral_last; /* of the host: left out of "all" */
};

/* Adds the rules of one spec to table. "none" adds nothing and is refused if the table has rules of
 * this protocol. 0, or -EINVAL, -E2BIG with one line in error that names the piece at fault, as a
 * rule behind 99 bytes of the spec in quotes and a colon; table
 * is then unchanged. */
int rules_parse(const char *spec, const struct rule_context *ctx, struct rule_table *table,
		char error[RULE_ERROR_MAX]) must_check;

/* The rule as text: `TCP [addr]%dev:first-last  =>  [target:]first-last` and its flags. */
#define RULE_TEXT_MAX 192
const char *rule_format(const struct rule *r, char buf[RULE_TEXT_MAX]);

#endif
