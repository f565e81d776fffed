/* SPDX-License-Identifier: BSD-3-Clause */
/* The template interface and what is on it. */
#include <errno.h>
#include <linux/if_addr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/fd.h"
#include "host/host.h"
#include "host/netlink.h"
#include "host/nexthop.h"

#define DEFAULT_INTERFACES_MAX 16 /* counted apart for the note to the user */

struct host_view {
	struct host_family family[IP_FAMILIES];
	struct netlink_list addresses[IP_FAMILIES], routes[IP_FAMILIES];
};

struct search {
	struct nl_sock *sk;
	int ioctl_fd;
	enum ip_family family;
	unsigned ifindex;
};

/* A kernel that checks strictly has filtered already; others have not, and without IPv6 the kernel
 * answers for all families. */
static bool keep_route(struct nlmsghdr *msg, void *arg)
{
	const struct search *s = arg;
	const struct rtmsg *rtm = nlmsg_data(msg);
	struct nlattr *table;

	if (msg->nlmsg_type != RTM_NEWROUTE || msg->nlmsg_len < NLMSG_LENGTH(sizeof(*rtm)))
		return false;
	table = nlmsg_find_attr(msg, sizeof(*rtm), RTA_TABLE);
	return rtm->rtm_family == netlink_af(s->family) && rtm->rtm_type == RTN_UNICAST &&
	       !(rtm->rtm_flags & RTM_F_CLONED) &&
	       (table ? netlink_u32(table) : rtm->rtm_table) == RT_TABLE_MAIN;
}

static bool keep_address(struct nlmsghdr *msg, void *arg)
{
	const struct search *s = arg;
	const struct ifaddrmsg *ifa = nlmsg_data(msg);

	return msg->nlmsg_type == RTM_NEWADDR && msg->nlmsg_len >= NLMSG_LENGTH(sizeof(*ifa)) &&
	       ifa->ifa_family == netlink_af(s->family) && ifa->ifa_index == s->ifindex;
}

static int dump_routes(struct search *s, struct netlink_list *out)
{
	struct rtmsg rtm = {
	    .rtm_family = netlink_af(s->family),
	    .rtm_table = RT_TABLE_MAIN,
	    .rtm_type = RTN_UNICAST,
	};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETROUTE, 0);

	if (!msg || nlmsg_append(msg, &rtm, sizeof(rtm), NLMSG_ALIGNTO) < 0) {
		nlmsg_free(msg);
		return -ENOMEM;
	}
	return netlink_dump(s->sk, msg, keep_route, s, out);
}

static int dump_addresses(struct search *s, struct netlink_list *out)
{
	struct ifaddrmsg ifa = {.ifa_family = netlink_af(s->family), .ifa_index = s->ifindex};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETADDR, 0);

	if (!msg || nlmsg_append(msg, &ifa, sizeof(ifa), NLMSG_ALIGNTO) < 0) {
		nlmsg_free(msg);
		return -ENOMEM;
	}
	return netlink_dump(s->sk, msg, keep_address, s, out);
}

/* lo by its flag: index and name can be others. An interface that is gone meanwhile does not count
 * either. */
static bool is_usable(const struct search *s, unsigned ifindex)
{
	struct ifreq ifr = {.ifr_ifindex = (int)ifindex};

	if (!ifindex || ioctl(s->ioctl_fd, SIOCGIFNAME, &ifr) < 0 ||
	    ioctl(s->ioctl_fd, SIOCGIFFLAGS, &ifr) < 0)
		return false;
	return !(ifr.ifr_flags & IFF_LOOPBACK);
}

/* 169.254.0.0/16 or fe80::/10, or a part of them. */
static bool is_link_local_route(struct netlink_hops *hops, const struct rtmsg *rtm)
{
	struct ip_addr dst = netlink_addr(hops->tb[RTA_DST], hops->family);

	return rtm->rtm_dst_len >= (hops->family == IP_V4 ? 16 : 10) && ip_is_link_local(&dst);
}

/* Interface of the first default route, else of the first route at all; and on how many interfaces
 * default routes are. */
static unsigned choose_interface(const struct search *s, const struct netlink_list *routes,
				 unsigned *defaults)
{
	unsigned seen[DEFAULT_INTERFACES_MAX], count = 0, other = 0, rejected = 0;
	netlink_foreach (msg, routes) {
		const struct rtmsg *rtm = nlmsg_data(msg);
		struct netlink_hops hops;
		struct netlink_hop hop;
		unsigned i;

		if (rtm->rtm_dst_len && other)
			continue;
		netlink_hops_init(&hops, msg);
		if (!netlink_hops_next(&hops, &hop) || hop.ifindex == rejected ||
		    is_link_local_route(&hops, rtm))
			continue;
		if (!is_usable(s, hop.ifindex)) {
			rejected = hop.ifindex;
			continue;
		}
		if (rtm->rtm_dst_len) {
			other = hop.ifindex;
			continue;
		}
		for (i = 0; i < count && seen[i] != hop.ifindex; i++)
			;
		if (i == count && count < DEFAULT_INTERFACES_MAX)
			seen[count++] = hop.ifindex;
	}
	*defaults = count;
	return count ? seen[0] : other;
}

/* Gateway of the first default route that has one on this interface: of the next hop there with the
 * greatest weight, the first among equals. */
static struct ip_addr find_gateway(const struct search *s, const struct netlink_list *routes)
{
	netlink_foreach (msg, routes) {
		struct ip_addr best = ip_any[s->family];
		struct netlink_hops hops;
		struct netlink_hop hop;
		unsigned weight = 0;

		if (((const struct rtmsg *)nlmsg_data(msg))->rtm_dst_len)
			continue;
		netlink_hops_init(&hops, msg);
		while (netlink_hops_next(&hops, &hop)) {
			if (hop.ifindex != s->ifindex || hop.weight <= weight ||
			    ip_is_unspecified(&hop.gateway))
				continue;
			best = hop.gateway;
			weight = hop.weight;
		}
		if (weight)
			return best;
	}
	return ip_any[s->family];
}

static uint32_t address_flags(struct nlmsghdr *msg)
{
	const struct ifaddrmsg *ifa = nlmsg_data(msg);
	struct nlattr *flags = nlmsg_find_attr(msg, sizeof(*ifa), IFA_FLAGS);

	return flags ? netlink_u32(flags) : ifa->ifa_flags;
}

/* The address with the longest prefix, and IPv6's link-local one. */
static void find_address(const struct netlink_list *addresses, enum ip_family family,
			 struct host_family *out)
{
	netlink_foreach (msg, addresses) {
		const struct ifaddrmsg *ifa = nlmsg_data(msg);
		struct nlattr *attr = nlmsg_find_attr(msg, sizeof(*ifa), IFA_LOCAL);
		uint32_t flags = address_flags(msg);
		struct ip_addr a;

		if (!attr) /* IPv6 without a peer */
			attr = nlmsg_find_attr(msg, sizeof(*ifa), IFA_ADDRESS);
		a = netlink_addr(attr, family);
		if (!ip_is_unicast(&a) || ip_is_loopback(&a) || (flags & IFA_F_DADFAILED))
			continue;
		if (family == IP_V6 && ifa->ifa_scope >= RT_SCOPE_LINK) {
			if (ip_is_unspecified(&out->link_local) && ip_is_link_local(&a))
				out->link_local = a;
			continue;
		}
		if ((flags & IFA_F_DEPRECATED) ||
		    (out->found && ifa->ifa_prefixlen <= out->prefix_len))
			continue;
		out->found = true;
		out->address = a;
		out->prefix_len = ifa->ifa_prefixlen;
	}
}

/* Keeps of routes only those with a next hop on the interface. */
static int select_routes(unsigned ifindex, const struct netlink_list *routes,
			 struct netlink_list *out)
{
	int err = 0;

	netlink_foreach (msg, routes) {
		struct netlink_hops hops;
		struct netlink_hop hop;

		netlink_hops_init(&hops, msg);
		while (netlink_hops_next(&hops, &hop)) {
			if (hop.ifindex != ifindex)
				continue;
			err = netlink_list_append(out, msg);
			break;
		}
		if (err)
			return err;
	}
	return 0;
}

static void unset(struct host_family *f, enum ip_family family)
{
	*f = (struct host_family){
	    .gateway = ip_any[family],
	    .address = ip_any[family],
	    .link_local = ip_any[IP_V6],
	};
}

static int view_family(struct search *s, unsigned ifindex, struct host_view *v)
{
	struct host_family *f = &v->family[s->family];
	struct netlink_list routes = {0};
	unsigned defaults;
	int err;

	err = dump_routes(s, &routes);
	if (!err)
		err = nexthop_resolve(s->sk, &routes);
	if (err)
		goto out;
	s->ifindex = choose_interface(s, &routes, &defaults);
	if (ifindex)
		s->ifindex = ifindex;
	if (!s->ifindex || !if_indextoname(s->ifindex, f->ifname))
		goto out;
	err = dump_addresses(s, &v->addresses[s->family]);
	if (err)
		goto out;
	find_address(&v->addresses[s->family], s->family, f);
	if (!f->found)
		goto out;
	f->ifindex = s->ifindex;
	f->default_routes = defaults;
	f->gateway = find_gateway(s, &routes);
	err = select_routes(s->ifindex, &routes, &v->routes[s->family]);
out:
	netlink_list_free(&routes);
	if (err || !f->found) {
		unset(f, s->family);
		netlink_list_free(&v->addresses[s->family]);
	}
	return err;
}

/* Indices of the interfaces that were asked for, 0 where none was. */
static int find_requested(const struct host_request *req, unsigned index[IP_FAMILIES],
			  const char **culprit)
{
	for (int f = 0; f < IP_FAMILIES; f++) {
		const char *names[] = {req->outbound_if[f], req->interface}; /* the last one wins */

		index[f] = 0;
		for (int i = 0; i < 2; i++) {
			if (!names[i])
				continue;
			index[f] = if_nametoindex(names[i]);
			if (!index[f]) {
				*culprit = names[i];
				return -ENODEV;
			}
		}
	}
	return 0;
}

int host_view_new(const struct host_request *req, struct host_view **out, const char **culprit)
{
	cleanup_fd int ioctl_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct search s = {.ioctl_fd = ioctl_fd};
	unsigned requested[IP_FAMILIES];
	struct host_view *v;
	int err;

	if (ioctl_fd < 0)
		return -errno;
	err = find_requested(req, requested, culprit);
	if (err)
		return err;
	v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	err = netlink_open(&s.sk);
	for (int f = 0; f < IP_FAMILIES && !err; f++) {
		s.family = (enum ip_family)f;
		unset(&v->family[f], s.family);
		if (req->family_on[f])
			err = view_family(&s, requested[f], v);
	}
	nl_socket_free(s.sk);
	if (err)
		host_view_free(v);
	else
		*out = v;
	return err;
}

void host_view_free(struct host_view *v)
{
	if (!v)
		return;
	for (int f = 0; f < IP_FAMILIES; f++) {
		netlink_list_free(&v->addresses[f]);
		netlink_list_free(&v->routes[f]);
	}
	free(v);
}

const struct host_family *host_view_family(const struct host_view *v, enum ip_family family)
{
	return &v->family[family];
}

const struct netlink_list *host_view_addresses(const struct host_view *v, enum ip_family family)
{
	return &v->addresses[family];
}

const struct netlink_list *host_view_routes(const struct host_view *v, enum ip_family family)
{
	return &v->routes[family];
}
