/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that need sockets, routes or sysctls: a network namespace of their own, with nothing
 * but lo. */
#ifndef TEST_UNIT_OWN_NET_H
#define TEST_UNIT_OWN_NET_H

#include <dirent.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/ipv6.h>
#include <netlink/netlink.h>
#include <netlink/route/link/veth.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "wire/addr.h"

static inline void own_net_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static inline void own_net_mtu(int mtu)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_mtu = mtu};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(ioctl(fd, SIOCSIFMTU, &r), 0);
	close(fd);
}

static inline void own_net_enter(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_MULTICAST};
	unsigned uid = getuid(), gid = getgid();
	char map[32];
	int fd;

	assert_int_equal(unshare(CLONE_NEWUSER | CLONE_NEWNET), 0);
	own_net_write("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	own_net_write("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	own_net_write("/proc/self/gid_map", map);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
	close(fd);
}

/* The kernel finishes a new IPv6 address some time after it was added. */
static inline void own_net_await_v6(const struct ip_addr *a)
{
	struct endpoint e = {.addr = *a};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&e, 0, &sa);
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), r = -1;

	for (int i = 0; i < 2000 && r < 0; i++) {
		r = bind(fd, (struct sockaddr *)&sa, len);
		if (r < 0)
			poll(NULL, 0, 1);
	}
	assert_int_equal(r, 0);
	close(fd);
}

/* One more address for lo; one of IPv4 at most. */
static inline void own_net_add(const struct ip_addr *a)
{
	struct ifreq r4 = {.ifr_name = "lo:1"};
	struct in6_ifreq r6 = {.ifr6_prefixlen = 128, .ifr6_ifindex = 1};
	int fd = socket(ip_is_v4(a) ? AF_INET : AF_INET6, SOCK_DGRAM, 0);

	if (ip_is_v4(a)) {
		r4.ifr_addr.sa_family = AF_INET;
		memcpy(r4.ifr_addr.sa_data + 2, ip_bytes(a), 4);
		assert_int_equal(ioctl(fd, SIOCSIFADDR, &r4), 0);
	} else {
		memcpy(&r6.ifr6_addr, a->b, 16);
		assert_int_equal(ioctl(fd, SIOCSIFADDR, &r6), 0);
		own_net_await_v6(a);
	}
	close(fd);
}

/* true once device name has an IPv6 address that is ready for use: the kernel gives it a link-local
 * one when the link is up. */
static inline bool own_net_has_v6(const char *name)
{
	FILE *f = fopen("/proc/net/if_inet6", "re");
	char line[128], device[32];
	unsigned flags;
	bool found = false;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*x %*x %*x %x %31s", &flags, device) == 2 &&
		    !strcmp(device, name))
			found = !(flags & IFA_F_TENTATIVE);
	}
	fclose(f);
	return found;
}

/* A device on which multicast works, as it does not on lo: one end of a pair. Its index. */
static inline int own_net_add_pair(void)
{
	static const char *const ends[] = {"pair0", "pair1"};
	struct nl_sock *nl = nl_socket_alloc();
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq r = {0};

	own_net_write("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
	assert_non_null(nl);
	assert_int_equal(nl_connect(nl, NETLINK_ROUTE), 0);
	assert_int_equal(rtnl_link_veth_add(nl, ends[0], ends[1], getpid()), 0);
	nl_socket_free(nl);
	for (int i = 1; i >= 0; i--) {
		strcpy(r.ifr_name, ends[i]);
		r.ifr_flags = IFF_UP;
		assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
	}
	assert_int_equal(ioctl(fd, SIOCGIFINDEX, &r), 0);
	close(fd);
	for (int i = 0; i < 5000 && !own_net_has_v6(ends[0]); i++)
		poll(NULL, 0, 1);
	assert_true(own_net_has_v6(ends[0]));
	return r.ifr_ifindex;
}

static inline int own_net_open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#endif
