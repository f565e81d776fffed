/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour discovery and router advertisements towards the guest (RFC 4861, RFC 8106). */
#ifndef TAP_NDP_H
#define TAP_NDP_H

#include "nat/translate.h"
#include "tap/tap.h"

#define NDP_DNS_MAX    3
#define NDP_SEARCH_MAX 6

struct ndp_config {
	const struct nat_guest *guest; /* never answered for, nor is prefix; may be NULL */
	bool ra_on;                    /* answer router solicitations */
	bool managed; /* there is a DHCPv6 server: advertisements send guests to it */
	struct ip_addr our_link_local; /* source of all we send */
	struct ip_addr prefix; /* guest's address; the /64 of it is advertised; unspecified: no
				  prefix option */
	uint32_t mtu;          /* 0: no MTU option */
	struct ip_addr dns[NDP_DNS_MAX]; /* RDNSS (RFC 8106 5.1) */
	unsigned dns_count;
	const char *search[NDP_SEARCH_MAX]; /* DNSSL (RFC 8106 5.2) */
	unsigned search_count;
};

/* Handles ICMPv6 types 133 to 137; true if the packet was one of them (handled or dropped). */
bool ndp_input(struct tap *t, const struct ndp_config *cfg, const struct packet *p);

/* A guest that takes an address probes for others who have it first (RFC 4862 5.4.2): true for such a
 * probe of an address that a host may have, with that in *address. Not every guest sends from its
 * address before something is sent to it. */
bool ndp_probed(const struct packet *p, struct ip_addr *address);

/* Sends a router advertisement to all nodes (ff02::1). */
void ndp_advertise(struct tap *t, const struct ndp_config *cfg);

/* Neighbour solicitation for target, sent to target itself. 0 or negative errno. */
int ndp_solicit(struct tap *t, const struct ndp_config *cfg,
		const struct ip_addr *target) must_check;

#endif
