/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes that only name a next-hop object. */
#ifndef HOST_NEXTHOP_H
#define HOST_NEXTHOP_H

#include "host/netlink.h"

/* With net.ipv4.nexthop_compat_mode at 0 (usual on routers) the kernel reports of a route by a
 * next-hop object just the object's number (RTA_NH_ID); otherwise it adds interface and gateway, as
 * for any route. Adds them where they are missing; what can't be resolved stays as it is. 0 or
 * negative errno. */
int nexthop_resolve(struct nl_sock *sk, struct netlink_list *routes) must_check;

#endif
