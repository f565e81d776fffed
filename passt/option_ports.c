/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that forward ports. What is wrong with a spec, nat/rules.c says. */
#include <errno.h>
#include <stdio.h>

#include "passt/options.h"

static struct rule_context context_of(const struct option_parse *p, enum forward_side side,
				      uint8_t proto)
{
	return (struct rule_context){
	    .proto = proto,
	    .family_on = {p->cfg->family[IP_V4].on, p->cfg->family[IP_V6].on},
	    .auto_allowed = p->cfg->program == PROGRAM_PASTA,
	    .loopback_only = side == FORWARD_NS,
	    .ephemeral_first = p->in->ephemeral_first,
	    .ephemeral_last = p->in->ephemeral_last,
	};
}

int option_ports(struct option_parse *p, const struct option_row *row)
{
	struct rule_table *table = (void *)((char *)p->cfg + row->member);
	enum forward_side side = table == &p->cfg->ports[FORWARD_NS] ? FORWARD_NS : FORWARD_HOST;
	uint8_t proto = (uint8_t)row->param;
	bool tcp = proto == IPPROTO_TCP;
	struct rule_context ctx = context_of(p, side, proto);
	char why[RULE_ERROR_MAX], quoted[RULE_ERROR_MAX];
	size_t len;

	if (!(tcp ? p->cfg->tcp_on : p->cfg->udp_on))
		return option_fail(p, "not together with --no-%s", tcp ? "tcp" : "udp");
	p->ports_given[side][!tcp] = true;
	if (!rules_parse(p->value, &ctx, table, why))
		return 0;
	/* Our own line begins with the spec. */
	len = (size_t)snprintf(quoted, sizeof(quoted), "'%.99s': ", p->value);
	return option_fail(p, "%s", why + (strncmp(why, quoted, len) ? 0 : len));
}

int option_ports_default(struct option_parse *p)
{
	struct config *cfg = p->cfg;
	char why[RULE_ERROR_MAX];

	for (int side = 0; side < FORWARD_SIDES; side++) {
		for (int udp = 0; udp < 2; udp++) {
			struct rule_context ctx =
			    context_of(p, (enum forward_side)side, udp ? IPPROTO_UDP : IPPROTO_TCP);

			if (p->ports_given[side][udp] || !(udp ? cfg->udp_on : cfg->tcp_on))
				continue;
			if (rules_parse("auto", &ctx, &cfg->ports[side], why) < 0)
				return option_error(p->error,
						    "No room to forward what listens on %s too: %s",
						    udp ? "UDP" : "TCP", why);
		}
	}
	return 0;
}
