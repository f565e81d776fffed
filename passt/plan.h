/* SPDX-License-Identifier: BSD-3-Clause */
/* From what the command line says and what the host looks like to what every module is told. Pure:
 * no system call. */
#ifndef PASST_PLAN_H
#define PASST_PLAN_H

#include "nat/translate.h"
#include "passt/config.h"
#include "pasta/netconf.h"
#include "tap/dhcp.h"
#include "tap/dhcpv6.h"
#include "tap/ndp.h"

struct plan {
	struct nat_config nat;
	struct netconf net;
	struct ndp_config ndp;
	struct dhcp_config
	    dhcp; /* the lists of this, the next and ndp are those of resolver below */
	struct dhcpv6_config dhcpv6; /* but for its duid_time */
	bool dhcp_on, dhcpv6_on;
	bool local_mode[IP_FAMILIES]; /* on, and the host has no template for it */
	struct resolver
	    resolver; /* what the guest is told: servers as it can reach them, search list */
	unsigned dns_left_out; /* servers on a loopback address that the guest has no way to */
};

/* host outlives the plan; host_dns is what resolv.conf says. */
void plan_make(const struct config *cfg, const struct host_view *host,
	       const struct resolver *host_dns, struct plan *out);

#endif
