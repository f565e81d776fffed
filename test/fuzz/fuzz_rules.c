/* SPDX-License-Identifier: BSD-3-Clause */
/* A forwarding spec of any content: it is refused with a line, or its rules are within their
 * bounds, don't clash, and say in words what they are. */
#include <stdlib.h>

#include "nat/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rule(const struct rule *r)
{
	char text[RULE_TEXT_MAX];

	if (!r->first || r->last < r->first || !r->target_first ||
	    r->target_first + (r->last - r->first) > UINT16_MAX)
		abort();
	if (!ip_is_unspecified(&r->target) &&
	    (r->dual_stack || ip_family(&r->target) != ip_family(&r->addr)))
		abort();
	if (strnlen(r->ifname, sizeof(r->ifname)) == sizeof(r->ifname) || !rule_format(r, text)[0])
		abort();
}

/* The first byte chooses what the spec is read against. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rule_table t;
	struct rule_context ctx = {
	    .proto = IPPROTO_UDP, .ephemeral_first = 32768, .ephemeral_last = 60999};
	char spec[4096], error[RULE_ERROR_MAX] = "";

	if (!size || size > sizeof(spec))
		return 0;
	ctx.family_on[IP_V4] = data[0] & 1 || !(data[0] & 2);
	ctx.family_on[IP_V6] = data[0] & 2;
	ctx.auto_allowed = data[0] & 4;
	ctx.loopback_only = data[0] & 8;
	memcpy(spec, data + 1, size - 1);
	spec[size - 1] = '\0';
	t.count = 0;
	if (rules_parse(spec, &ctx, &t, error) < 0) {
		if (!error[0] || strnlen(error, sizeof(error)) == sizeof(error) || t.count)
			abort();
		return 0;
	}
	for (unsigned i = 0; i < t.count; i++)
		check_rule(&t.rules[i]);
	return 0;
}
