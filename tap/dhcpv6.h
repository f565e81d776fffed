/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest's DHCPv6 server (RFC 8415). There is one address and no lease that ends, hence no
 * state: every client is told the same. */
#ifndef TAP_DHCPV6_H
#define TAP_DHCPV6_H

#include "tap/tap.h"

#define DHCPV6_SERVER_PORT 547
#define DHCPV6_DNS_MAX     3
#define DHCPV6_SEARCH_MAX  6

/* What clients are told; IPv6 addresses. Strings and list entries that are unset (NULL, count 0)
 * are not sent. */
struct dhcpv6_config {
	struct ip_addr address;        /* the guest's; unspecified: there is none to give */
	struct ip_addr our_link_local; /* the server's */
	uint32_t duid_time;            /* seconds since 2000-01-01, of the server's DUID (11.2) */
	struct ip_addr dns[DHCPV6_DNS_MAX]; /* RFC 3646 3 */
	unsigned dns_count;
	const char *search[DHCPV6_SEARCH_MAX]; /* RFC 3646 4 */
	unsigned search_count;
	const char *fqdn; /* RFC 4704; at most 253 bytes */
};

/* Handles a UDP packet to port 547. What kind of answer was sent, in a word or two for the log, or
 * NULL if none: to clients that speak to another server, or to what RFC 8415 16 has servers discard
 * (counted as DHCP). *gave: the answer assigns the address. */
const char *dhcpv6_input(struct tap *t, const struct dhcpv6_config *cfg, const struct packet *p,
			 bool *gave);

#endif
