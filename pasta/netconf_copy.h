/* SPDX-License-Identifier: BSD-3-Clause */
/* What the guest gets of the host's addresses and routes, as netlink requests. No system call. */
#ifndef PASTA_NETCONF_COPY_H
#define PASTA_NETCONF_COPY_H

#include "host/netlink.h"
#include "pasta/netconf.h"

/* An address to be given to the guest. */
struct guest_addr {
	struct ip_addr local, peer; /* the same if there is no peer */
	struct ip_addr broadcast;   /* unspecified: none */
	unsigned prefix_len;        /* of peer */
	uint8_t scope;
	uint32_t flags;  /* IFA_F_* */
	uint32_t metric; /* of its connected route, 0: the kernel's choice */
};
struct guest_addrs {
	struct guest_addr *list;
	unsigned count;
};

/* The addresses of a family by nc: the template's, or the one given. 0 or -ENOMEM. */
int guest_addrs_make(const struct netconf *nc, enum ip_family family,
		     struct guest_addrs *out) must_check;
void guest_addrs_free(struct guest_addrs *addrs);

/* The link-local address that the kernel would make from a MAC (RFC 4291 appendix A). */
struct guest_addr guest_addr_link_local(const struct netconf *nc, const struct mac_addr *mac);

/* RTM_NEWADDR for interface ifindex, or NULL without memory. */
struct nl_msg *guest_addr_message(const struct guest_addr *a, unsigned ifindex);

/* The guest's version of a route of the host: RTM_NEWROUTE by way of interface ifindex. NULL
 * without memory. *hops_left_out grows by the number of its next hops on interfaces other than the
 * template. */
struct nl_msg *guest_route_message(struct nlmsghdr *route, unsigned template_ifindex,
				   unsigned ifindex, const struct guest_addrs *addrs,
				   unsigned *hops_left_out);

/* RTM_NEWROUTE for a default route by gateway. NULL without memory. */
struct nl_msg *guest_default_route_message(const struct ip_addr *gateway, unsigned ifindex);

/* true if route goes straight to its destinations, without a gateway: gateways may depend on it. */
bool guest_route_is_direct(struct nlmsghdr *route);

/* true if route is the host's connected route of a prefix for which one of addrs has the guest's
 * kernel make its own, so that the guest would have it twice. */
bool guest_route_is_superfluous(struct nlmsghdr *route, const struct guest_addrs *addrs);

/* Allows the gateway of a RTM_NEWROUTE request with one next hop to be off every connected prefix;
 * false if it has no gateway, or several next hops, or was set so before. */
bool guest_route_set_onlink(struct nlmsghdr *route);

#endif
