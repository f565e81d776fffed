/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening sockets of rules (socket(7), ip(7), ipv6(7), tcp(7), udp(7)). */
#include <errno.h>
#include <limits.h>
#include <linux/in6.h>

#include "nat/forward.h"

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78 /* linux/in6.h, Linux 4.15 */
#endif

struct socket_option {
	int level, name;
};

/* What a UDP socket is to tell beside the data. One of both families needs the options of both: the
 * kernel describes an IPv4 datagram on an IPv6 socket by the IPv4 ones, but for its addresses. */
static const struct socket_option udp_v4[] = {
    {IPPROTO_IP, IP_PKTINFO},
    {IPPROTO_IP, IP_RECVERR},
    {IPPROTO_IP, IP_RECVTTL},
    {IPPROTO_IP, IP_RECVTOS},
};
static const struct socket_option udp_v6[] = {
    {IPPROTO_IPV6, IPV6_RECVPKTINFO},
    {IPPROTO_IPV6, IPV6_RECVERR},
    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT},
    {IPPROTO_IPV6, IPV6_RECVTCLASS},
};
#define UDP_OPTIONS (sizeof(udp_v4) / sizeof(udp_v4[0]))
_Static_assert(sizeof(udp_v6) == sizeof(udp_v4), "one loop sets either");

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int set_all(int fd, const struct socket_option *options)
{
	int r = 0;

	for (size_t i = 0; !r && i < UDP_OPTIONS; i++)
		r = set_int(fd, options[i].level, options[i].name, 1);
	return r;
}

/* A socket of the rule's family; *family is IPv4 where the kernel has no IPv6 to be dual with. */
static int make_socket(const struct rule *rule, enum ip_family *family, int *out)
{
	int type = rule->proto == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM, fd;

	*family = rule->dual_stack ? IP_V6 : ip_family(&rule->addr);
	type |= SOCK_CLOEXEC | SOCK_NONBLOCK;
	fd = socket(*family == IP_V6 ? AF_INET6 : AF_INET, type, 0);
	if (fd < 0 && errno == EAFNOSUPPORT && rule->dual_stack) {
		*family = IP_V4;
		fd = socket(AF_INET, type, 0);
	}
	if (fd < 0)
		return -errno;
	*out = fd;
	return 0;
}

static int set_options(int fd, const struct rule *rule, enum ip_family family, bool freebind)
{
	bool v6 = family == IP_V6;
	int r = 0;

	if (v6)
		r = set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, !rule->dual_stack);
	/* Linux still refuses two listeners on one port; what it no longer minds are the
	 * connections that the last listener left in TIME-WAIT. UDP ports would be shared by it. */
	if (!r && rule->proto == IPPROTO_TCP)
		r = set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	/* Since Linux 5.7 no privilege is needed for a socket that isn't bound to a device yet. */
	if (!r && rule->ifname[0] &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, rule->ifname,
		       (socklen_t)strlen(rule->ifname) + 1) < 0)
		r = -errno;
	if (!r && freebind)
		r = v6 ? set_int(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1)
		       : set_int(fd, IPPROTO_IP, IP_FREEBIND, 1);
	if (!r && rule->proto == IPPROTO_UDP && (!v6 || rule->dual_stack))
		r = set_all(fd, udp_v4);
	if (!r && rule->proto == IPPROTO_UDP && v6)
		r = set_all(fd, udp_v6);
	return r;
}

int forward_open(const struct rule *rule, uint16_t port, bool freebind, int *fd)
{
	struct endpoint local = {.addr = rule->addr, .port = port};
	struct sockaddr_storage sa;
	enum ip_family family;
	cleanup_fd int s = -1;
	socklen_t len;
	int r = make_socket(rule, &family, &s);

	if (!r)
		r = set_options(s, rule, family, freebind);
	if (r < 0)
		return r;
	if (rule->dual_stack)
		local.addr = ip_any[family];
	/* No scope: a link-local address gets it from the device the socket is bound to. */
	len = endpoint_to_sockaddr(&local, 0, &sa);
	if (bind(s, (struct sockaddr *)&sa, len) < 0)
		return -errno;
	/* The kernel cuts the backlog to net.core.somaxconn. */
	if (rule->proto == IPPROTO_TCP && listen(s, INT_MAX) < 0)
		return -errno;
	*fd = take_fd(&s);
	return 0;
}
