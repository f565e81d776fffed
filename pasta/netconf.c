/* SPDX-License-Identifier: BSD-3-Clause */
/* All requests are made first and sent in one go: rtnetlink works through a datagram in order, so
 * what depends on something earlier finds it done. What fails is tried again as long as that helps,
 * the rest is reported. */
#include "pasta/netconf.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <netlink/route/link.h>
#include <netlink/route/link/inet6.h>
#include <string.h>
#include <sys/time.h>

#include "core/log.h"
#include "pasta/netconf_copy.h"

#define WARNINGS_MAX   3 /* lines a family; the rest is a number */
#define LINK_STEPS_MAX 4
#define READY_WAIT_US  100000 /* far more than it takes; nothing depends on it */

struct range {
	unsigned first, end; /* numbers in the batch */
};

struct setup {
	const struct netconf *nc;
	struct netconf_result *result;
	struct nl_sock *sk, *events; /* requests; news of IPv6 addresses, or NULL */
	struct netlink_batch batch;
	struct rtnl_link *lo, *tap; /* of links */
	struct nl_cache *links;
	unsigned tap_index;
	/* Requests whose failure ends the set-up, by number, and what they do. */
	struct {
		unsigned number;
		const char *text;
	} must[LINK_STEPS_MAX];
	unsigned must_count;
	unsigned link_local;              /* number of the request for IPv6's link-local address */
	struct range family[IP_FAMILIES]; /* addresses and routes */
	unsigned hops_left_out;
	unsigned ready; /* IPv6 addresses, by events */
};

static int find_links(struct setup *s)
{
	int err = rtnl_link_alloc_cache(s->sk, AF_UNSPEC, &s->links);
	struct nl_object *o;
	struct nl_addr *mac;

	if (err)
		return netlink_errno(err);
	for (o = nl_cache_get_first(s->links); o; o = nl_cache_get_next(o)) {
		struct rtnl_link *link = (void *)o;
		const char *name = rtnl_link_get_name(link);

		if (rtnl_link_get_flags(link) & IFF_LOOPBACK)
			s->lo = link;
		if (name && !strcmp(name, s->nc->ifname))
			s->tap = link;
	}
	if (!s->tap)
		return s->nc->lo_only ? 0 : -ENODEV;
	s->tap_index = (unsigned)rtnl_link_get_ifindex(s->tap);
	mac = rtnl_link_get_addr(s->tap);
	if (mac && nl_addr_get_len(mac) == sizeof(s->result->mac))
		memcpy(s->result->mac.b, nl_addr_get_binary_addr(mac), sizeof(s->result->mac));
	if (s->nc->mac_set)
		s->result->mac = s->nc->mac;
	return 0;
}

/* Adds the request that turns link into change, which is given up. must: text of a step that has to
 * succeed, or NULL. */
static int add_link_change(struct setup *s, struct rtnl_link *link, struct rtnl_link *change,
			   const char *must)
{
	struct nl_msg *msg = NULL;
	int err;

	if (!change)
		return -ENOMEM;
	err = rtnl_link_build_change_request(link, change, 0, &msg);
	rtnl_link_put(change);
	if (err)
		return netlink_errno(err);
	if (must) {
		s->must[s->must_count].number = s->batch.count;
		s->must[s->must_count++].text = must;
	}
	return netlink_batch_add(&s->batch, msg);
}

static int add_up(struct setup *s, struct rtnl_link *link, const char *must)
{
	struct rtnl_link *change = rtnl_link_alloc();

	if (change)
		rtnl_link_set_flags(change, IFF_UP);
	return add_link_change(s, link, change, must);
}

static int add_mac(struct setup *s)
{
	struct rtnl_link *change = rtnl_link_alloc();
	struct nl_addr *mac = nl_addr_build(AF_LLC, s->nc->mac.b, sizeof(s->nc->mac.b));

	if (change && mac)
		rtnl_link_set_addr(change, mac);
	nl_addr_put(mac);
	return add_link_change(s, s->tap, change, "set the MAC address");
}

static int add_mtu(struct setup *s)
{
	struct rtnl_link *change = rtnl_link_alloc();

	if (change)
		rtnl_link_set_mtu(change, s->nc->mtu);
	return add_link_change(s, s->tap, change, "set the MTU");
}

/* Whether the kernel makes a link-local address by itself as soon as the device is up. */
static int add_addr_gen_mode(struct setup *s, uint8_t mode)
{
	struct rtnl_link *change = rtnl_link_alloc();

	if (change && rtnl_link_inet6_set_addr_gen_mode(change, mode)) {
		rtnl_link_put(change);
		change = NULL;
	}
	return add_link_change(s, s->tap, change, NULL);
}

/* The link, until it is up. The kernel's own link-local address would go through duplicate address
 * detection (RFC 4862 5.4) and be of no use for a second or more, so we add it ourselves. */
static int add_link(struct setup *s)
{
	const struct netconf *nc = s->nc;
	struct guest_addr a;
	int err = 0;

	if (s->lo && !(rtnl_link_get_flags(s->lo) & IFF_UP))
		err = add_up(s, s->lo, "bring up the loopback interface");
	if (!err && nc->mac_set)
		err = add_mac(s);
	if (err || !nc->configure)
		return err;
	if (nc->mtu)
		err = add_mtu(s);
	if (!err)
		err = add_addr_gen_mode(s, IN6_ADDR_GEN_MODE_NONE);
	if (!err)
		err = add_up(s, s->tap, "bring up the interface");
	if (err || !nc->family[IP_V6].on)
		return err;
	a = guest_addr_link_local(nc, &s->result->mac);
	s->link_local = s->batch.count;
	return netlink_batch_add(&s->batch, guest_addr_message(&a, s->tap_index));
}

/* First what needs nothing else, then what goes by a gateway. */
static int add_copied_routes(struct setup *s, enum ip_family family,
			     const struct guest_addrs *addrs)
{
	const struct host_family *host = host_view_family(s->nc->host, family);
	int err;

	for (int direct = 1; direct >= 0; direct--) {
		netlink_foreach (route, host_view_routes(s->nc->host, family)) {
			if (guest_route_is_direct(route) != direct ||
			    (!s->nc->family[family].copy_addresses &&
			     guest_route_is_superfluous(route, addrs)))
				continue;
			err = netlink_batch_add(&s->batch, guest_route_message(route, host->ifindex,
									       s->tap_index, addrs,
									       &s->hops_left_out));
			if (err)
				return err;
		}
	}
	return 0;
}

static int add_family(struct setup *s, enum ip_family family)
{
	const struct netconf_family *f = &s->nc->family[family];
	struct guest_addrs addrs;
	int err;

	s->family[family].first = s->family[family].end = s->batch.count;
	if (!s->nc->configure || !f->on)
		return 0;
	err = guest_addrs_make(s->nc, family, &addrs);
	for (unsigned i = 0; i < addrs.count && !err; i++) {
		/* Of IPv6 addresses the kernel lists, and prefers, the newest first: so the order
		 * stays the host's. */
		unsigned n = family == IP_V6 ? addrs.count - 1 - i : i;

		err =
		    netlink_batch_add(&s->batch, guest_addr_message(&addrs.list[n], s->tap_index));
	}
	if (!err && f->copy_routes)
		err = add_copied_routes(s, family, &addrs);
	else if (!err && !ip_is_unspecified(&f->gateway))
		err = netlink_batch_add(&s->batch,
					guest_default_route_message(&f->gateway, s->tap_index));
	guest_addrs_free(&addrs);
	s->family[family].end = s->batch.count;
	return err;
}

static bool has_failed(int status)
{
	return status && status != -EEXIST;
}

enum again { AGAIN_COUNT, AGAIN_SAME, AGAIN_ONLINK };

/* How many have failed; to be sent again they are marked, as they are, or with a gateway off the
 * connected prefixes where that is another request than before. */
static unsigned mark_failed(struct setup *s, enum again how)
{
	unsigned n = 0;

	for (int f = 0; f < IP_FAMILIES; f++) {
		if (s->result->family_unsupported[f])
			continue;
		for (unsigned i = s->family[f].first; i < s->family[f].end; i++) {
			struct nlmsghdr *h = netlink_batch_message(&s->batch, i);

			if (!has_failed(s->batch.items[i].status))
				continue;
			if (how == AGAIN_ONLINK &&
			    (h->nlmsg_type != RTM_NEWROUTE || !guest_route_set_onlink(h)))
				continue;
			if (how != AGAIN_COUNT)
				s->batch.items[i].status = NETLINK_PENDING;
			n++;
		}
	}
	return n;
}

/* Sends again as long as something succeeds that failed before: routes may need one another in any
 * order. */
static int send_failed_again(struct setup *s)
{
	unsigned before = UINT32_MAX, n;
	int err;

	while ((n = mark_failed(s, AGAIN_COUNT)) && n < before) {
		before = n;
		mark_failed(s, AGAIN_SAME);
		err = netlink_batch_send(s->sk, &s->batch);
		if (err)
			return err;
	}
	/* A gateway that the guest has no prefix for (-g, say) is on the link all the same:
	 * everything is, behind the tap. */
	if (!n || !mark_failed(s, AGAIN_ONLINK))
		return 0;
	return netlink_batch_send(s->sk, &s->batch);
}

static void describe(struct nlmsghdr *h, char *text, size_t room)
{
	char addr[IP_TEXT_MAX], gw[IP_TEXT_MAX] = "";

	if (h->nlmsg_type == RTM_NEWADDR) {
		const struct ifaddrmsg *ifa = nlmsg_data(h);
		struct ip_addr a = netlink_addr(nlmsg_find_attr(h, sizeof(*ifa), IFA_LOCAL),
						netlink_family(ifa->ifa_family));

		snprintf(text, room, "address %s/%u", ip_format(&a, addr), ifa->ifa_prefixlen);
	} else {
		const struct rtmsg *rtm = nlmsg_data(h);
		enum ip_family family = netlink_family(rtm->rtm_family);
		struct ip_addr dst =
		    netlink_addr(nlmsg_find_attr(h, sizeof(*rtm), RTA_DST), family);
		struct nlattr *via = nlmsg_find_attr(h, sizeof(*rtm), RTA_GATEWAY);
		struct ip_addr gateway = netlink_addr(via, family);

		snprintf(text, room, "route to %s/%u%s%s", ip_format(&dst, addr), rtm->rtm_dst_len,
			 via ? " by " : "", via ? ip_format(&gateway, gw) : "");
	}
}

static void warn_failed(const struct setup *s, enum ip_family family)
{
	unsigned n = 0;

	for (unsigned i = s->family[family].first; i < s->family[family].end; i++) {
		char text[2 * IP_TEXT_MAX + 32];

		if (!has_failed(s->batch.items[i].status) || n++ >= WARNINGS_MAX)
			continue;
		describe(netlink_batch_message(&s->batch, i), text, sizeof(text));
		log_warn("Can't give the guest the %s: %s", text,
			 strerror(-s->batch.items[i].status));
	}
	if (n > WARNINGS_MAX)
		log_warn("... and %u more IPv%d addresses or routes", n - WARNINGS_MAX,
			 family == IP_V4 ? 4 : 6);
}

/* The link's own steps; then whether the guest's kernel has IPv6 for it: off by ipv6.disable, by
 * net.ipv6.conf.*.disable_ipv6, or by an MTU below 1280 (RFC 8200 5). */
static int check_link(struct setup *s, const char **step)
{
	int status;

	for (unsigned i = 0; i < s->must_count; i++) {
		status = s->batch.items[s->must[i].number].status;
		if (status) {
			*step = s->must[i].text;
			return status;
		}
	}
	if (!s->nc->configure || !s->nc->family[IP_V6].on)
		return 0;
	status = s->batch.items[s->link_local].status;
	if (has_failed(status)) {
		s->result->family_unsupported[IP_V6] = true;
		log_warn("No IPv6 for the guest, its kernel has it off on %s: %s", s->nc->ifname,
			 strerror(-status));
	} else {
		s->result->link_local = guest_addr_link_local(s->nc, &s->result->mac).local;
	}
	return 0;
}

/* IPv6 addresses of the tap that are not (or no longer) being checked. */
static int count_ready(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *h = nlmsg_hdr(msg);
	const struct ifaddrmsg *ifa = nlmsg_data(h);
	struct setup *s = arg;

	if (h->nlmsg_type == RTM_NEWADDR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(*ifa)) &&
	    ifa->ifa_index == s->tap_index && !(ifa->ifa_flags & IFA_F_TENTATIVE))
		s->ready++;
	return NL_OK;
}

static int listen_for_addresses(struct setup *s)
{
	const struct timeval wait = {.tv_usec = READY_WAIT_US};
	int err;

	s->events = nl_socket_alloc();
	if (!s->events)
		return -ENOMEM;
	nl_socket_disable_seq_check(s->events);
	nl_join_groups(s->events, RTMGRP_IPV6_IFADDR);
	nl_socket_modify_cb(s->events, NL_CB_VALID, NL_CB_CUSTOM, count_ready, s);
	err = nl_connect(s->events, NETLINK_ROUTE);
	if (err)
		return netlink_errno(err);
	return setsockopt(nl_socket_get_fd(s->events), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait))
		   ? -errno
		   : 0;
}

/* An address without duplicate address detection can be bound at once, but the route that takes
 * what is sent to it (table "local") is added by a kernel thread a moment later, which tells of the
 * address just before. Having heard of all, our last request waits for that thread, as it needs the
 * lock that the thread holds. It restores the kernel's way of making link-local addresses, for a
 * guest that takes the device down and up again. */
static int wait_for_addresses(struct setup *s)
{
	const struct range *v6 = &s->family[IP_V6];
	unsigned added = s->batch.items[s->link_local].status ? 0 : 1;
	int err = 0;

	for (unsigned i = v6->first; i < v6->end; i++) {
		if (netlink_batch_message(&s->batch, i)->nlmsg_type == RTM_NEWADDR &&
		    !s->batch.items[i].status)
			added++;
	}
	while (s->ready < added && err >= 0)
		err = nl_recvmsgs_default(s->events);
	if (err < 0)
		log_debug("IPv6 addresses may be late: %s", nl_geterror(err));
	err = add_addr_gen_mode(s, IN6_ADDR_GEN_MODE_EUI64);
	return err ? err : netlink_batch_send(s->sk, &s->batch);
}

static int apply(struct setup *s, const char **step)
{
	bool v6;
	int err;

	*step = "look up the interface";
	err = find_links(s);
	if (err)
		return err;
	*step = "prepare the network set-up";
	err = add_link(s);
	for (int f = 0; f < IP_FAMILIES && !err; f++)
		err = add_family(s, (enum ip_family)f);
	if (err)
		return err;
	*step = "send the network set-up";
	v6 = s->nc->configure && s->nc->family[IP_V6].on;
	if (v6)
		err = listen_for_addresses(s);
	if (!err)
		err = netlink_batch_send(s->sk, &s->batch);
	if (!err)
		err = check_link(s, step);
	if (!err)
		err = send_failed_again(s);
	if (!err && v6 && !s->result->family_unsupported[IP_V6])
		err = wait_for_addresses(s);
	if (err)
		return err;
	for (int f = 0; f < IP_FAMILIES; f++) {
		if (!s->result->family_unsupported[f])
			warn_failed(s, (enum ip_family)f);
	}
	if (s->hops_left_out)
		log_warn("%u next hops of the host's routes are on other interfaces: left out",
			 s->hops_left_out);
	return 0;
}

int netconf_apply(const struct netconf *nc, struct netconf_result *result, const char **step)
{
	struct setup s = {.nc = nc, .result = result};
	int err;

	*result = (struct netconf_result){.link_local = ip_any[IP_V6]};
	*step = "open a netlink socket";
	err = netlink_open(&s.sk);
	if (err)
		return err;
	err = apply(&s, step);
	nl_cache_free(s.links);
	netlink_batch_free(&s.batch);
	nl_socket_free(s.events);
	nl_socket_free(s.sk);
	return err;
}
