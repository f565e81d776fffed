/* SPDX-License-Identifier: BSD-3-Clause */
/* rtnetlink by libnl: dumps kept as messages, and batches of requests with one result each.
 *
 * Addresses and routes stay messages, as the kernel sent them, instead of becoming objects of
 * libnl-route: those keep only the attributes that libnl-route knows (up to its 3.7 neither
 * RTA_PREF nor IFA_RT_PRIORITY, say), and a message that it can't parse ends the whole dump. Links
 * are changed through libnl-route. */
#ifndef HOST_NETLINK_H
#define HOST_NETLINK_H

#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdbool.h>
#include <stddef.h>

#include "wire/addr.h"

/* Opens a rtnetlink socket with strict checking of dump requests where the kernel has it. 0 or
 * negative errno. */
int netlink_open(struct nl_sock **out) must_check;

/* libnl's error codes as negative errno, as far as they have one. */
int netlink_errno(int nl_error);

/* Messages one behind the other, each padded to NLMSG_ALIGNTO: walk with netlink_foreach(). All
 * zero: empty. */
struct netlink_list {
	struct nlmsghdr *first;
	int len, room;
};

#define netlink_foreach(pos, list)                                                                 \
	for (struct nlmsghdr *pos = (list)->first;                                                 \
	     (char *)pos < (char *)(list)->first + (list)->len;                                    \
	     pos = (void *)((char *)pos + NLMSG_ALIGN(pos->nlmsg_len)))

int netlink_list_append(struct netlink_list *list, const struct nlmsghdr *msg) must_check;
void netlink_list_free(struct netlink_list *list);

/* true if the message is to be kept. */
typedef bool (*netlink_keep_fn)(struct nlmsghdr *msg, void *arg);

/* Sends request (type and body; it becomes a dump request and is freed) and keeps the answers that
 * keep wants. A dump that changes meanwhile is taken again. What the kernel refuses (no such table,
 * family not there) is an empty result. 0 or negative errno. */
int netlink_dump(struct nl_sock *sk, struct nl_msg *request, netlink_keep_fn keep, void *arg,
		 struct netlink_list *out) must_check;

/* Requests that are sent many to a datagram. All zero: empty. */
#define NETLINK_PENDING 1
struct netlink_batch {
	struct netlink_list list;
	struct netlink_item {
		int offset; /* of the message in list */
		int status; /* NETLINK_PENDING, 0, or negative errno */
	} * items;
	unsigned count, room;
};

/* Copies msg (and frees it) to the end of the batch; its number is batch->count before. 0 or
 * -ENOMEM. */
int netlink_batch_add(struct netlink_batch *batch, struct nl_msg *msg) must_check;
struct nlmsghdr *netlink_batch_message(const struct netlink_batch *batch, unsigned number);

/* Sends the pending ones in order and sets the status of each. 0, or negative errno if the socket
 * itself fails. */
int netlink_batch_send(struct nl_sock *sk, struct netlink_batch *batch) must_check;
void netlink_batch_free(struct netlink_batch *batch);

/* Reading attributes; a missing or short one gives 0 or the unspecified address. */
uint32_t netlink_u32(const struct nlattr *attr);
struct ip_addr netlink_addr(const struct nlattr *attr, enum ip_family family);

/* The family of AF_INET or AF_INET6, and back. */
static inline enum ip_family netlink_family(uint8_t af)
{
	return af == AF_INET ? IP_V4 : IP_V6;
}
static inline uint8_t netlink_af(enum ip_family family)
{
	return family == IP_V4 ? AF_INET : AF_INET6;
}

/* The next hops of a RTM_NEWROUTE message: one, or those of RTA_MULTIPATH. */
struct netlink_hop {
	unsigned ifindex;       /* 0: none */
	unsigned weight;        /* 1 or more */
	struct ip_addr gateway; /* of the route's family, or unspecified */
	struct rtnexthop *raw;  /* in RTA_MULTIPATH, or NULL */
};
struct netlink_hops {
	enum ip_family family;
	struct nlattr *tb[RTA_MAX + 1]; /* all attributes of the message */
	struct rtnexthop *next;
	int left;
	bool single_seen;
};
void netlink_hops_init(struct netlink_hops *it, struct nlmsghdr *msg);
bool netlink_hops_next(struct netlink_hops *it, struct netlink_hop *hop);

#endif
