/* SPDX-License-Identifier: BSD-3-Clause */
#include "host/nexthop.h"

#include <errno.h>
#include <linux/nexthop.h>
#include <netlink/attr.h>
#include <string.h>

#define GATEWAY_MAX 16

static bool is_bare(struct nlmsghdr *route)
{
	const int len = sizeof(struct rtmsg);

	return nlmsg_find_attr(route, len, RTA_NH_ID) && !nlmsg_find_attr(route, len, RTA_OIF) &&
	       !nlmsg_find_attr(route, len, RTA_MULTIPATH);
}

static bool keep_nexthop(struct nlmsghdr *msg, void *arg)
{
	(void)arg;
	return msg->nlmsg_type == RTM_NEWNEXTHOP &&
	       msg->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nhmsg));
}

static int dump_nexthops(struct nl_sock *sk, struct netlink_list *out)
{
	struct nhmsg nhm = {.nh_family = AF_UNSPEC};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETNEXTHOP, 0);

	if (!msg || nlmsg_append(msg, &nhm, sizeof(nhm), NLMSG_ALIGNTO) < 0) {
		nlmsg_free(msg);
		return -ENOMEM;
	}
	return netlink_dump(sk, msg, keep_nexthop, NULL, out);
}

static struct nlmsghdr *find_nexthop(const struct netlink_list *nexthops, uint32_t id)
{
	netlink_foreach (msg, nexthops) {
		if (netlink_u32(nlmsg_find_attr(msg, sizeof(struct nhmsg), NHA_ID)) == id)
			return msg;
	}
	return NULL;
}

/* The gateway, as RTA_VIA if it is of another family than the route (struct rtvia: family,
 * address). */
static int put_gateway(struct nl_msg *msg, const struct nlattr *gateway, uint8_t family, uint8_t af)
{
	uint8_t via[sizeof(uint16_t) + GATEWAY_MAX];
	const uint16_t via_family = family;

	if (!gateway || nla_len(gateway) > GATEWAY_MAX)
		return 0;
	if (family == af)
		return nla_put(msg, RTA_GATEWAY, nla_len(gateway), nla_data(gateway));
	memcpy(via, &via_family, sizeof(via_family));
	memcpy(via + sizeof(via_family), nla_data(gateway), (size_t)nla_len(gateway));
	return nla_put(msg, RTA_VIA, (int)sizeof(via_family) + nla_len(gateway), via);
}

static int put_single(struct nl_msg *msg, struct nlmsghdr *nexthop, uint8_t af)
{
	const struct nhmsg *nhm = nlmsg_data(nexthop);
	struct rtmsg *rtm = nlmsg_data(nlmsg_hdr(msg));
	uint32_t oif = netlink_u32(nlmsg_find_attr(nexthop, sizeof(*nhm), NHA_OIF));

	rtm->rtm_flags |= nhm->nh_flags;
	if (nla_put_u32(msg, RTA_OIF, oif) < 0)
		return -ENOMEM;
	return put_gateway(msg, nlmsg_find_attr(nexthop, sizeof(*nhm), NHA_GATEWAY), nhm->nh_family,
			   af);
}

static int put_member(struct nl_msg *msg, struct nlmsghdr *nexthop, uint8_t weight, uint8_t af)
{
	const struct nhmsg *nhm = nlmsg_data(nexthop);
	struct rtnexthop *nh = nlmsg_reserve(msg, sizeof(*nh), RTNH_ALIGNTO);
	int err;

	if (!nh)
		return -ENOMEM;
	nh->rtnh_flags = (uint8_t)nhm->nh_flags;
	nh->rtnh_hops = weight; /* both count from 0 */
	nh->rtnh_ifindex = (int)netlink_u32(nlmsg_find_attr(nexthop, sizeof(*nhm), NHA_OIF));
	err = put_gateway(msg, nlmsg_find_attr(nexthop, sizeof(*nhm), NHA_GATEWAY), nhm->nh_family,
			  af);
	nh->rtnh_len = (unsigned short)((char *)nlmsg_tail(nlmsg_hdr(msg)) - (char *)nh);
	return err;
}

static int put_group(struct nl_msg *msg, const struct netlink_list *nexthops,
		     const struct nlattr *group, uint8_t af)
{
	const struct nexthop_grp *g = nla_data(group);
	struct nlattr *nest = nla_nest_start(msg, RTA_MULTIPATH);
	int err = 0;

	if (!nest)
		return -ENOMEM;
	for (int left = nla_len(group); left >= (int)sizeof(*g) && !err;
	     left -= (int)sizeof(*g), g++) {
		struct nlmsghdr *member = find_nexthop(nexthops, g->id);

		if (member)
			err = put_member(msg, member, g->weight, af);
	}
	nla_nest_end(msg, nest);
	return err;
}

/* Appends route, with what its object says, to out. */
static int resolve(struct nlmsghdr *route, const struct netlink_list *nexthops,
		   struct netlink_list *out)
{
	uint8_t af = ((const struct rtmsg *)nlmsg_data(route))->rtm_family;
	uint32_t id = netlink_u32(nlmsg_find_attr(route, sizeof(struct rtmsg), RTA_NH_ID));
	struct nlmsghdr *nexthop = find_nexthop(nexthops, id);
	struct nlattr *group;
	struct nl_msg *msg;
	int err;

	if (!nexthop)
		return netlink_list_append(out, route);
	group = nlmsg_find_attr(nexthop, sizeof(struct nhmsg), NHA_GROUP);
	/* A member: struct rtnexthop and one gateway attribute. */
	msg = nlmsg_alloc_size(route->nlmsg_len + 128 + (group ? 8u * (size_t)nla_len(group) : 0));
	if (!msg)
		return -ENOMEM;
	memcpy(nlmsg_hdr(msg), route, route->nlmsg_len);
	err = group ? put_group(msg, nexthops, group, af) : put_single(msg, nexthop, af);
	if (!err)
		err = netlink_list_append(out, nlmsg_hdr(msg));
	nlmsg_free(msg);
	return err ? -ENOMEM : 0;
}

int nexthop_resolve(struct nl_sock *sk, struct netlink_list *routes)
{
	struct netlink_list nexthops = {0}, resolved = {0};
	bool any = false;
	int err;

	netlink_foreach (route, routes)
		any |= is_bare(route);
	if (!any)
		return 0;
	err = dump_nexthops(sk, &nexthops);
	if (err)
		goto out;
	netlink_foreach (route, routes) {
		err = is_bare(route) ? resolve(route, &nexthops, &resolved)
				     : netlink_list_append(&resolved, route);
		if (err)
			goto out;
	}
	netlink_list_free(routes);
	*routes = resolved;
	resolved = (struct netlink_list){0};
out:
	netlink_list_free(&nexthops);
	netlink_list_free(&resolved);
	return err;
}
