/* SPDX-License-Identifier: BSD-3-Clause */
/* Address translation as a pure function: what came in, the configuration, what is known of the
 * guest -> what goes out. No system call, no state of its own. */
#ifndef NAT_TRANSLATE_H
#define NAT_TRANSLATE_H

#include "wire/addr.h"

/* Per family; an unspecified address (ip_any) means "not set". */
struct nat_family {
	bool on;
	struct ip_addr guest_assigned; /* address given to the guest: the host's own, as a rule */
	struct ip_addr gateway;        /* the guest's gateway */
	struct ip_addr map_host_loopback; /* guest's name for the host's loopback */
	struct ip_addr map_guest_addr;    /* guest's name for the host's guest_assigned */
	struct ip_addr dns_forward;       /* guest's name for dns_host, ports 53 and 853 */
	struct ip_addr dns_host;
	struct ip_addr outbound; /* source of outbound sockets */
	bool address_fixed;      /* -a was given: what the tap shows does not change guest_seen */
	char outbound_if[16];    /* SO_BINDTODEVICE of outbound sockets, "" for none */
	/* Host interface index: scope of link-local destinations; 0 for none */
	unsigned template_index;
};

struct nat_config {
	struct nat_family family[IP_FAMILIES];
	struct ip_addr our_link_local; /* IPv6, on the tap */
	/* Of flows that come in by forwarding rules: */
	bool splice_on;        /* pasta without --no-splice */
	bool splice_only;      /* --splice-only: there is no tap */
	bool host_lo_to_ns_lo; /* --host-lo-to-ns-lo */
};

/* What was learnt of the guest from its packets. */
struct nat_guest {
	struct ip_addr seen[IP_FAMILIES]; /* unspecified before the first packet */
	struct ip_addr link_local_seen;
};

void nat_guest_init(struct nat_guest *g, const struct nat_config *cfg);

/* Notes the source address of an IP packet from the guest. */
void nat_guest_learn(struct nat_guest *g, const struct nat_config *cfg, const struct ip_addr *src);

/* Guest -> host: where a new flow to dst really goes. proto IPPROTO_TCP, _UDP,
 * _ICMP or _ICMPV6. */
struct ip_addr nat_to_host(const struct nat_config *cfg, uint8_t proto, const struct endpoint *dst);

/* Host -> guest: what address the guest sees for src, e.g. an ICMP error's sender or a reply from
 * another address. Unspecified if it can't be shown to the guest. */
struct ip_addr nat_source_for_guest(const struct nat_config *cfg, const struct nat_guest *g,
				    const struct ip_addr *src);

/* Who tells the guest that there is no way to dst (as the guest names it): its router, which is the
 * gateway or our link-local address; dst itself if there is none. */
struct ip_addr nat_router_for_guest(const struct nat_config *cfg, const struct ip_addr *dst);

#endif
