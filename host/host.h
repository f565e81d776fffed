/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host looks like: template interface, addresses, routes, gateway (rtnetlink by libnl),
 * name servers (resolv.conf). Looked at once, at start, in the host's network namespace, before any
 * namespace or identity changes. */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include <net/if.h>

#include "wire/addr.h"

struct netlink_list;

struct host_request {
	bool family_on[IP_FAMILIES];
	const char *interface;                /* -i, or NULL */
	const char *outbound_if[IP_FAMILIES]; /* --outbound-if4/6, or NULL */
};

/* What was found for one family. Without a usable template found is false and the rest unset: local
 * mode. */
struct host_family {
	bool found;
	char ifname[IF_NAMESIZE];
	unsigned ifindex;
	struct ip_addr gateway; /* unspecified: none (point-to-point) */
	struct ip_addr address;
	unsigned prefix_len;
	struct ip_addr link_local; /* IPv6: the interface's own, or unspecified (WireGuard, say) */
	unsigned default_routes;   /* how many interfaces had one: more than one is worth a note */
};

/* Addresses and main-table unicast routes of the template interfaces as netlink messages, in the
 * kernel's order, for the agent to copy; it inherits them by fork. */
struct host_view;

/* -ENODEV: an interface asked for does not exist (*culprit its name); other negative errno: netlink
 * failed. Odd things on the host are never an error. */
int host_view_new(const struct host_request *req, struct host_view **out,
		  const char **culprit) must_check;
void host_view_free(struct host_view *v);
const struct host_family *host_view_family(const struct host_view *v, enum ip_family family);
/* RTM_NEWADDR and RTM_NEWROUTE messages (host/netlink.h); empty without a template. */
const struct netlink_list *host_view_addresses(const struct host_view *v, enum ip_family family);
const struct netlink_list *host_view_routes(const struct host_view *v, enum ip_family family);

/* resolv.conf(5): nameserver, search and domain lines; tabs, comments and zone identifiers (%eth0)
 * understood; the last search line holds. Pure: parses text of len bytes. */
#define RESOLVER_DNS_MAX    3 /* a family */
#define RESOLVER_SEARCH_MAX 6
#define RESOLVER_NAME_MAX   254
struct resolver {
	struct ip_addr dns[IP_FAMILIES][RESOLVER_DNS_MAX];
	unsigned dns_count[IP_FAMILIES];
	char search[RESOLVER_SEARCH_MAX][RESOLVER_NAME_MAX];
	unsigned search_count;
};
void resolver_parse(const char *text, size_t len, struct resolver *out);

/* Reads a file of at most 64 KiB. 0 or negative errno. */
int resolver_read(const char *path, struct resolver *out) must_check;

#endif
