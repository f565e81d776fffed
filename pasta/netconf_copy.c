/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/netconf_copy.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <netlink/attr.h>
#include <stdlib.h>
#include <string.h>

/* Of IPv6's connected routes, unless the address says otherwise (IP6_RT_PRIO_ADDRCONF). */
#define METRIC_CONNECTED_V6 256

/* What the flags mean for the guest: temporary, deprecated and tentative ones are the host's own
 * business. */
#define ADDRESS_FLAGS_KEPT (IFA_F_NOPREFIXROUTE | IFA_F_HOMEADDRESS | IFA_F_MCAUTOJOIN)

/* ---- addresses */

/* The host's address in plain values; its flags are as the host has them. */
static void read_address(struct nlmsghdr *msg, struct guest_addr *out)
{
	const struct ifaddrmsg *ifa = nlmsg_data(msg);
	enum ip_family family = netlink_family(ifa->ifa_family);
	struct nlattr *tb[IFA_MAX + 1] = {0};

	if (nlmsg_parse(msg, sizeof(*ifa), tb, IFA_MAX, NULL) < 0)
		memset(tb, 0, sizeof(tb));
	*out = (struct guest_addr){
	    .peer = netlink_addr(tb[IFA_ADDRESS], family),
	    .broadcast = netlink_addr(tb[IFA_BROADCAST], family),
	    .prefix_len = ifa->ifa_prefixlen,
	    .scope = ifa->ifa_scope,
	    .flags = tb[IFA_FLAGS] ? netlink_u32(tb[IFA_FLAGS]) : ifa->ifa_flags,
	    .metric = netlink_u32(tb[IFA_RT_PRIORITY]),
	};
	out->local = tb[IFA_LOCAL] ? netlink_addr(tb[IFA_LOCAL], family) : out->peer;
	if (!tb[IFA_ADDRESS])
		out->peer = out->local;
}

/* Whether route is the one that the kernel makes for the prefix of a, but for its metric. */
static bool is_prefix_route(struct netlink_hops *hops, const struct rtmsg *rtm,
			    const struct guest_addr *a)
{
	struct ip_addr dst = netlink_addr(hops->tb[RTA_DST], hops->family);

	return ip_family(&a->peer) == hops->family && rtm->rtm_dst_len == a->prefix_len &&
	       !hops->tb[RTA_GATEWAY] && !hops->tb[RTA_VIA] && !hops->tb[RTA_MULTIPATH] &&
	       ip_same_prefix(&dst, &a->peer, a->prefix_len);
}

enum connected { CONNECTED_NONE, CONNECTED_OTHER, CONNECTED_SAME };

/* Whether the host has, for the prefix of a, the route that the guest's kernel would make, another
 * one, or none. */
static enum connected find_connected(const struct netlink_list *routes, const struct guest_addr *a)
{
	uint32_t metric = a->metric;
	enum connected found = CONNECTED_NONE;

	if (!metric && ip_family(&a->local) == IP_V6)
		metric = METRIC_CONNECTED_V6;
	netlink_foreach (msg, routes) {
		const struct rtmsg *rtm = nlmsg_data(msg);
		struct netlink_hops hops;

		if (rtm->rtm_dst_len != a->prefix_len)
			continue;
		netlink_hops_init(&hops, msg);
		if (!is_prefix_route(&hops, rtm, a))
			continue;
		if (rtm->rtm_protocol == RTPROT_KERNEL &&
		    netlink_u32(hops.tb[RTA_PRIORITY]) == metric)
			return CONNECTED_SAME;
		found = CONNECTED_OTHER;
	}
	return found;
}

/* Whether the kernel makes a route for the prefix: for IPv4 not if it is the address alone
 * (fib_frontend.c). */
static bool makes_connected(const struct guest_addr *a)
{
	return !(a->flags & IFA_F_NOPREFIXROUTE) &&
	       (ip_family(&a->local) == IP_V6 || a->prefix_len < 32 ||
		!ip_equal(&a->local, &a->peer));
}

static bool is_wanted(const struct guest_addr *a, const struct host_family *host)
{
	/* An IPv4 link-local address (RFC 3927) may be all there is. */
	if (ip_equal(&a->local, &host->address))
		return true;
	return a->scope < RT_SCOPE_LINK && !(a->flags & (IFA_F_DEPRECATED | IFA_F_DADFAILED));
}

static int copy_addresses(const struct netconf *nc, enum ip_family family, struct guest_addrs *out)
{
	const struct netlink_list *from = host_view_addresses(nc->host, family);
	const struct netlink_list *routes = host_view_routes(nc->host, family);
	bool copy_routes = nc->family[family].copy_routes;
	unsigned n = 0;

	netlink_foreach (msg, from)
		n++;
	if (!n)
		return 0;
	out->list = calloc(n, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	netlink_foreach (msg, from) {
		struct guest_addr *a = &out->list[out->count];

		read_address(msg, a);
		if (!is_wanted(a, host_view_family(nc->host, family)))
			continue;
		a->flags &= ADDRESS_FLAGS_KEPT;
		if (!copy_routes)
			a->flags &= ~(uint32_t)IFA_F_NOPREFIXROUTE;
		/* The kernel is not to make what the host does not have. */
		else if (makes_connected(a) && find_connected(routes, a) != CONNECTED_SAME)
			a->flags |= IFA_F_NOPREFIXROUTE;
		if (family == IP_V6)
			a->flags |= IFA_F_NODAD;
		out->count++;
	}
	return 0;
}

int guest_addrs_make(const struct netconf *nc, enum ip_family family, struct guest_addrs *out)
{
	const struct netconf_family *f = &nc->family[family];

	*out = (struct guest_addrs){0};
	if (f->copy_addresses)
		return copy_addresses(nc, family, out);
	if (ip_is_unspecified(&f->address))
		return 0;
	out->list = calloc(1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	out->list[out->count++] = (struct guest_addr){
	    .local = f->address,
	    .peer = f->address,
	    .broadcast = ip_any[family],
	    .prefix_len = f->prefix_len,
	    .flags = family == IP_V6 ? IFA_F_NODAD : 0,
	};
	return 0;
}

void guest_addrs_free(struct guest_addrs *addrs)
{
	free(addrs->list);
	*addrs = (struct guest_addrs){0};
}

struct guest_addr guest_addr_link_local(const struct netconf *nc, const struct mac_addr *mac)
{
	const uint8_t *m = mac->b;
	const uint8_t b[16] = {0xfe, 0x80, 0,    0,    0,    0,    0,   0, (uint8_t)(m[0] ^ 2),
			       m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
	struct guest_addr a = {
	    .local = ip_from_v6(b),
	    .peer = ip_from_v6(b),
	    .broadcast = ip_any[IP_V6],
	    .prefix_len = 64,
	    .scope = RT_SCOPE_LINK,
	    .flags = IFA_F_NODAD,
	};

	/* Without any route for it on the host the kernel's is needed to reach us. */
	if (nc->family[IP_V6].copy_routes &&
	    find_connected(host_view_routes(nc->host, IP_V6), &a) == CONNECTED_OTHER)
		a.flags |= IFA_F_NOPREFIXROUTE;
	return a;
}

static int put_addr(struct nl_msg *msg, int type, const struct ip_addr *a)
{
	return nla_put(msg, type, (int)ip_bytes_len(a), ip_bytes(a));
}

struct nl_msg *guest_addr_message(const struct guest_addr *a, unsigned ifindex)
{
	struct ifaddrmsg ifa = {
	    .ifa_family = netlink_af(ip_family(&a->local)),
	    .ifa_prefixlen = (uint8_t)a->prefix_len,
	    .ifa_flags = (uint8_t)a->flags,
	    .ifa_scope = a->scope,
	    .ifa_index = ifindex,
	};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);

	if (!msg || nlmsg_append(msg, &ifa, sizeof(ifa), NLMSG_ALIGNTO) < 0 ||
	    put_addr(msg, IFA_LOCAL, &a->local) < 0 || put_addr(msg, IFA_ADDRESS, &a->peer) < 0 ||
	    nla_put_u32(msg, IFA_FLAGS, a->flags) < 0 ||
	    (a->metric && nla_put_u32(msg, IFA_RT_PRIORITY, a->metric) < 0) ||
	    (!ip_is_unspecified(&a->broadcast) &&
	     put_addr(msg, IFA_BROADCAST, &a->broadcast) < 0)) {
		nlmsg_free(msg);
		return NULL;
	}
	return msg;
}

/* ---- routes */

bool guest_route_is_direct(struct nlmsghdr *route)
{
	struct netlink_hops hops;
	struct netlink_hop hop;

	netlink_hops_init(&hops, route);
	if (hops.tb[RTA_VIA])
		return false;
	while (netlink_hops_next(&hops, &hop)) {
		if (hop.raw ? hop.raw->rtnh_len > sizeof(*hop.raw)
			    : !ip_is_unspecified(&hop.gateway))
			return false;
	}
	return true;
}

bool guest_route_is_superfluous(struct nlmsghdr *route, const struct guest_addrs *addrs)
{
	const struct rtmsg *rtm = nlmsg_data(route);
	struct netlink_hops hops;

	if (rtm->rtm_protocol != RTPROT_KERNEL)
		return false;
	netlink_hops_init(&hops, route);
	for (unsigned i = 0; i < addrs->count; i++) {
		if (makes_connected(&addrs->list[i]) &&
		    is_prefix_route(&hops, rtm, &addrs->list[i]))
			return true;
	}
	return false;
}

static int put_copy(struct nl_msg *msg, const struct nlattr *attr)
{
	return attr ? nla_put(msg, nla_type(attr), nla_len(attr), nla_data(attr)) : 0;
}

/* Attributes of one next hop that hold in the guest. Not among them: an encapsulation (RTA_ENCAP),
 * which the host does to what comes out of our sockets. */
static int put_hop_attributes(struct nl_msg *msg, struct nlattr **tb)
{
	if (put_copy(msg, tb[RTA_GATEWAY]) < 0 || put_copy(msg, tb[RTA_VIA]) < 0 ||
	    put_copy(msg, tb[RTA_FLOW]) < 0)
		return -ENOMEM;
	return 0;
}

static void parse_hop(const struct netlink_hop *hop, struct nlattr **tb)
{
	memset(tb, 0, (RTA_MAX + 1) * sizeof(*tb));
	if (nla_parse(tb, RTA_MAX, (void *)RTNH_DATA(hop->raw),
		      hop->raw->rtnh_len - (int)sizeof(*hop->raw), NULL) < 0)
		memset(tb, 0, (RTA_MAX + 1) * sizeof(*tb));
}

static int put_multipath_hop(struct nl_msg *msg, const struct netlink_hop *hop, unsigned ifindex)
{
	struct nlattr *tb[RTA_MAX + 1];
	struct rtnexthop *nh = nlmsg_reserve(msg, sizeof(*nh), RTNH_ALIGNTO);
	int err;

	if (!nh)
		return -ENOMEM;
	parse_hop(hop, tb);
	nh->rtnh_flags = hop->raw->rtnh_flags & RTNH_F_ONLINK;
	nh->rtnh_hops = hop->raw->rtnh_hops;
	nh->rtnh_ifindex = (int)ifindex;
	err = put_hop_attributes(msg, tb);
	nh->rtnh_len = (unsigned short)((char *)nlmsg_tail(nlmsg_hdr(msg)) - (char *)nh);
	return err;
}

/* The next hops on the template's interface, moved to the guest's. What is left of a multipath
 * route may be a single one. */
static int put_hops(struct nl_msg *msg, struct nlmsghdr *route, unsigned from, unsigned to,
		    unsigned *left_out)
{
	struct rtmsg *rtm = nlmsg_data(nlmsg_hdr(msg));
	struct netlink_hops hops;
	struct netlink_hop hop, last = {0};
	struct nlattr *nest, *tb[RTA_MAX + 1];
	unsigned n = 0;
	int err = 0;

	netlink_hops_init(&hops, route);
	while (netlink_hops_next(&hops, &hop)) {
		if (hop.ifindex == from) {
			last = hop;
			n++;
		} else {
			++*left_out;
		}
	}
	if (n < 2) {
		if (last.raw) {
			rtm->rtm_flags = last.raw->rtnh_flags & RTNH_F_ONLINK;
			parse_hop(&last, tb);
		}
		if (nla_put_u32(msg, RTA_OIF, to) < 0)
			return -ENOMEM;
		return put_hop_attributes(msg, last.raw ? tb : hops.tb);
	}
	nest = nla_nest_start(msg, RTA_MULTIPATH);
	if (!nest)
		return -ENOMEM;
	netlink_hops_init(&hops, route);
	while (!err && netlink_hops_next(&hops, &hop)) {
		if (hop.ifindex == from)
			err = put_multipath_hop(msg, &hop, to);
	}
	nla_nest_end(msg, nest);
	return err;
}

static bool is_guests(const struct guest_addrs *addrs, const struct ip_addr *a)
{
	for (unsigned i = 0; i < addrs->count; i++) {
		if (ip_equal(&addrs->list[i].local, a))
			return true;
	}
	return false;
}

struct nl_msg *guest_route_message(struct nlmsghdr *route, unsigned template_ifindex,
				   unsigned ifindex, const struct guest_addrs *addrs,
				   unsigned *hops_left_out)
{
	static const int kept[] = {RTA_DST, RTA_SRC, RTA_PRIORITY, RTA_METRICS, RTA_PREF};
	struct rtmsg rtm = *(const struct rtmsg *)nlmsg_data(route);
	struct nl_msg *msg;
	struct netlink_hops hops;
	struct ip_addr src;

	/* Flags of the link's state (dead, no carrier, offloaded) are the host's. */
	rtm.rtm_flags &= RTNH_F_ONLINK;
	rtm.rtm_table = RT_TABLE_MAIN;
	netlink_hops_init(&hops, route);
	/* At most what the route has, and an interface. */
	msg = nlmsg_alloc_size(route->nlmsg_len + 64);
	if (!msg)
		return NULL;
	/* Append: routes to one prefix stay in their order, and an equal one is refused. */
	if (!nlmsg_put(msg, 0, 0, RTM_NEWROUTE, 0, NLM_F_CREATE | NLM_F_APPEND) ||
	    nlmsg_append(msg, &rtm, sizeof(rtm), NLMSG_ALIGNTO) < 0)
		goto fail;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (put_copy(msg, hops.tb[kept[i]]) < 0)
			goto fail;
	}
	src = netlink_addr(hops.tb[RTA_PREFSRC], hops.family);
	if (is_guests(addrs, &src) && put_copy(msg, hops.tb[RTA_PREFSRC]) < 0)
		goto fail;
	if (put_hops(msg, route, template_ifindex, ifindex, hops_left_out) < 0)
		goto fail;
	return msg;
fail:
	nlmsg_free(msg);
	return NULL;
}

struct nl_msg *guest_default_route_message(const struct ip_addr *gateway, unsigned ifindex)
{
	struct rtmsg rtm = {
	    .rtm_family = netlink_af(ip_family(gateway)),
	    .rtm_table = RT_TABLE_MAIN,
	    .rtm_protocol = RTPROT_BOOT,
	    .rtm_scope = RT_SCOPE_UNIVERSE,
	    .rtm_type = RTN_UNICAST,
	};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND);

	if (!msg || nlmsg_append(msg, &rtm, sizeof(rtm), NLMSG_ALIGNTO) < 0 ||
	    put_addr(msg, RTA_GATEWAY, gateway) < 0 || nla_put_u32(msg, RTA_OIF, ifindex) < 0) {
		nlmsg_free(msg);
		return NULL;
	}
	return msg;
}

bool guest_route_set_onlink(struct nlmsghdr *route)
{
	struct rtmsg *rtm = nlmsg_data(route);

	if ((rtm->rtm_flags & RTNH_F_ONLINK) ||
	    (!nlmsg_find_attr(route, sizeof(*rtm), RTA_GATEWAY) &&
	     !nlmsg_find_attr(route, sizeof(*rtm), RTA_VIA)))
		return false;
	rtm->rtm_flags |= RTNH_F_ONLINK;
	return true;
}
