/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that send over sockets: a network namespace of their own, with lo up and addresses
 * added to it. */
#ifndef TEST_UNIT_OWN_NET_H
#define TEST_UNIT_OWN_NET_H

#include <net/if.h> /* before <linux/if.h>, which then leaves out what both define */

#include <dirent.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>

#include "test/unit/netns.h"
#include "wire/addr.h"

static inline void own_net_enter(void)
{
	netns_new();
	netns_ip("link set lo up multicast on\n");
}

static inline void own_net_mtu(int mtu)
{
	char line[32];

	snprintf(line, sizeof(line), "link set lo mtu %d\n", mtu);
	netns_ip(line);
}

/* The kernel finishes a new IPv6 address some time after it was added: until then nothing arrives
 * at it. */
static inline void own_net_await(const struct ip_addr *a)
{
	struct endpoint e = {.addr = *a};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&e, 0, &sa);
	int fd = socket(sa.ss_family, SOCK_DGRAM, 0), r = -1;

	for (int i = 0; i < 2000 && r < 0; i++) {
		r = bind(fd, (struct sockaddr *)&sa, len);
		if (r < 0)
			poll(NULL, 0, 1);
	}
	assert_int_equal(r, 0);
	close(fd);
}

/* One more address for lo. */
static inline void own_net_add(const struct ip_addr *a)
{
	char line[IP_TEXT_MAX + 32], text[IP_TEXT_MAX];

	snprintf(line, sizeof(line), "addr add %s dev lo\n", ip_format(a, text));
	netns_ip(line);
	own_net_await(a);
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
			found = !(flags & 0x40); /* IFA_F_TENTATIVE */
	}
	fclose(f);
	return found;
}

/* A device on which multicast works, as it does not on lo for IPv6: one end of a pair. Its index.
 */
static inline int own_net_add_pair(void)
{
	netns_write("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
	netns_ip("link add pair0 type veth peer name pair1\n"
		 "link set pair1 up\n"
		 "link set pair0 up\n");
	for (int i = 0; i < 5000 && !own_net_has_v6("pair0"); i++)
		poll(NULL, 0, 1);
	assert_true(own_net_has_v6("pair0"));
	return (int)if_nametoindex("pair0");
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
