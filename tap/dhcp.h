/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest's DHCP and BOOTP server (RFC 2131, RFC 951, RFC 1534). There is one address and no
 * lease that ends, hence no state: every client is told the same. */
#ifndef TAP_DHCP_H
#define TAP_DHCP_H

#include "tap/tap.h"

#define DHCP_SERVER_PORT 67
#define DHCP_DNS_MAX     3
#define DHCP_SEARCH_MAX  6

/* What clients are told; IPv4 addresses. Strings and list entries that are unset (NULL, count 0)
 * are not sent. */
struct dhcp_config {
	struct ip_addr address; /* the guest's */
	unsigned prefix_len;
	struct ip_addr gateway; /* router, and the address that the server has */
	uint32_t mtu;           /* 0: not told */
	struct ip_addr dns[DHCP_DNS_MAX];
	unsigned dns_count;
	const char *search[DHCP_SEARCH_MAX];
	unsigned search_count;
	const char *hostname, *fqdn; /* at most 253 bytes each */
};

/* Handles a UDP packet to port 67, whatever its destination. What kind of answer was sent, in a
 * word or two for the log, or NULL if none: to clients that need none, that speak to another
 * server, or to what is no request (counted as DHCP). */
const char *dhcp_input(struct tap *t, const struct dhcp_config *cfg, const struct packet *p);

#endif
