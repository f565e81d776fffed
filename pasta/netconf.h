/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest namespace's network, set up by the agent inside it: lo up, and with --config-net the
 * tap's MTU, addresses and routes, by libnl-route. What can't be copied is a warning,
 * never a failed start. */
#ifndef PASTA_NETCONF_H
#define PASTA_NETCONF_H

#include "host/host.h"

struct netconf_family {
	bool on;
	bool copy_addresses; /* all of the template's, else only address/prefix_len */
	bool copy_routes;    /* all of the template's, else a default route by gateway */
	struct ip_addr address, gateway; /* unspecified: none */
	unsigned prefix_len;
};

struct netconf {
	char ifname[IF_NAMESIZE];
	bool configure; /* --config-net */
	bool lo_only;   /* --splice-only: there is no tap, and nothing to configure but lo */
	bool untouched; /* --fd: the caller has a tap device of its own, and sets up everything */
	unsigned mtu;   /* 0: leave alone */
	bool mac_set;
	struct mac_addr mac;
	struct netconf_family family[IP_FAMILIES];
	const struct host_view *host;
};

/* What came of it. */
struct netconf_result {
	struct mac_addr mac;                  /* of the tap inside */
	struct ip_addr link_local;            /* IPv6, unspecified if none */
	bool family_unsupported[IP_FAMILIES]; /* the guest's kernel has it off: warned, the family
						 is to be switched off */
};

/* Brings lo up (always) and sets up the tap device, which exists already. 0, or negative errno with
 * the failed step in *step. */
int netconf_apply(const struct netconf *nc, struct netconf_result *result,
		  const char **step) must_check;

#endif
