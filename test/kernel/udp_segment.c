/* SPDX-License-Identifier: BSD-3-Clause */
/* What udp/ and icmp/ take for granted about the kernel, tried in a network namespace of its own.
 * Exit status 0 if all of it holds, 1 with one line that says what does not. Needs nothing but
 * libc: cc -D_GNU_SOURCE -o udp_segment udp_segment.c */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>

#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define MTU 1500

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct family {
	int af, level, recverr, mtu_discover, unreachable, port_code;
	const char *loopback;
};

static const struct family families[] = {
    {AF_INET, IPPROTO_IP, IP_RECVERR, IP_MTU_DISCOVER, ICMP_DEST_UNREACH, ICMP_PORT_UNREACH,
     "127.0.0.1"},
    {AF_INET6, IPPROTO_IPV6, IPV6_RECVERR, IPV6_MTU_DISCOVER, ICMP6_DST_UNREACH,
     ICMP6_DST_UNREACH_NOPORT, "::1"},
};

#define need(cond, what)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("udp_segment: %s (line %d, errno %d)\n", what, __LINE__, errno);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void set_int(int fd, int level, int name, int value)
{
	need(setsockopt(fd, level, name, &value, sizeof(value)) == 0, "setsockopt");
}

static socklen_t loopback(const struct family *f, uint16_t port, union address *a)
{
	memset(a, 0, sizeof(*a));
	a->any.sa_family = (sa_family_t)f->af;
	if (f->af == AF_INET) {
		a->v4.sin_port = htons(port);
		inet_pton(AF_INET, f->loopback, &a->v4.sin_addr);
		return sizeof(a->v4);
	}
	a->v6.sin6_port = htons(port);
	inet_pton(AF_INET6, f->loopback, &a->v6.sin6_addr);
	return sizeof(a->v6);
}

static int open_socket(const struct family *f)
{
	int fd = socket(f->af, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	need(fd >= 0, "socket");
	return fd;
}

static void own_namespace(void)
{
	struct ifreq r = {.ifr_name = "lo"};
	int fd;

	need(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0, "no network namespace of its own");
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	need(fd >= 0, "socket");
	r.ifr_flags = IFF_UP;
	need(ioctl(fd, SIOCSIFFLAGS, &r) == 0, "lo does not come up");
	r.ifr_mtu = MTU;
	need(ioctl(fd, SIOCSIFMTU, &r) == 0, "lo takes no other MTU");
	close(fd);
}

static ssize_t send_segments(int fd, const union address *to, socklen_t to_len, size_t len,
			     uint16_t segment)
{
	static char data[65536];
	union {
		char room[CMSG_SPACE(sizeof(uint16_t))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {data, len};
	struct msghdr m = {.msg_name = (void *)to,
			   .msg_namelen = to_len,
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.room,
			   .msg_controllen = sizeof(control.room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	return sendmsg(fd, &m, 0);
}

static int gro_size(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int size;

			memcpy(&size, CMSG_DATA(c), sizeof(size));
			return size;
		}
	}
	return 0;
}

/* One sendmsg of 3 x 100 + 50 bytes is four datagrams, or one buffer with its segment size to a
 * UDP_GRO socket. */
static void check_segments(const struct family *f)
{
	char buf[2048], control[128];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int rx = open_socket(f), tx = open_socket(f);
	union address a;
	socklen_t len = loopback(f, 7001, &a);

	need(bind(rx, &a.any, len) == 0, "bind");
	need(send_segments(tx, &a, len, 350, 100) == 350, "UDP_SEGMENT does not send");
	for (int i = 0; i < 4; i++)
		need(recv(rx, buf, sizeof(buf), 0) == (i < 3 ? 100 : 50),
		     "UDP_SEGMENT does not cut");
	need(recv(rx, buf, sizeof(buf), 0) < 0 && errno == EAGAIN, "a datagram too many");
	set_int(rx, SOL_UDP, UDP_GRO, 1);
	need(send_segments(tx, &a, len, 350, 100) == 350, "UDP_SEGMENT does not send");
	need(recvmsg(rx, &m, 0) == 350 && gro_size(&m) == 100,
	     "UDP_GRO gives no buffer of segments");
	need(send_segments(tx, &a, len, 64 * 100, 100) == 6400, "64 segments are too many");
	need(send_segments(tx, &a, len, 3 * 1600, 1600) < 0 &&
		 (errno == EINVAL || errno == EMSGSIZE || errno == EIO),
	     "segments above the MTU are taken");
	close(rx);
	close(tx);
}

struct report {
	struct sock_extended_err ee;
	union address to, offender;
	ssize_t len;
	char data[256];
};

static bool read_error(int fd, struct report *r)
{
	char control[512];
	struct iovec iov = {r->data, sizeof(r->data)};
	struct msghdr m = {.msg_name = &r->to,
			   .msg_namelen = sizeof(r->to),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};

	r->len = recvmsg(fd, &m, MSG_ERRQUEUE);
	if (r->len < 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
			size_t n = c->cmsg_len - CMSG_LEN(0) - sizeof(r->ee);

			memcpy(&r->ee, CMSG_DATA(c), sizeof(r->ee));
			memcpy(&r->offender, CMSG_DATA(c) + sizeof(r->ee),
			       n < sizeof(r->offender) ? n : sizeof(r->offender));
			return true;
		}
	}
	return false;
}

/* An unconnected socket learns of a closed port: destination, offender and payload; the next send
 * fails once. */
static void check_refused(const struct family *f)
{
	int fd = open_socket(f);
	struct pollfd p = {.fd = fd};
	struct report r;
	union address a;
	socklen_t len = loopback(f, 7002, &a);

	set_int(fd, f->level, f->recverr, 1);
	need(sendto(fd, "probe", 5, 0, &a.any, len) == 5, "sendto");
	need(poll(&p, 1, 2000) == 1 && (p.revents & POLLERR), "no POLLERR for port unreachable");
	need(sendto(fd, "again", 5, 0, &a.any, len) < 0 && errno == ECONNREFUSED,
	     "a waiting error does not fail send");
	need(read_error(fd, &r), "nothing in the error queue");
	need(r.ee.ee_errno == ECONNREFUSED && r.ee.ee_type == f->unreachable &&
		 r.ee.ee_code == f->port_code &&
		 r.ee.ee_origin == (f->af == AF_INET ? SO_EE_ORIGIN_ICMP : SO_EE_ORIGIN_ICMP6),
	     "not the error expected");
	need(r.len == 5 && !memcmp(r.data, "probe", 5), "the error does not bring the payload");
	need(r.to.v4.sin_port == htons(7002), "the error does not bring the destination");
	need(r.offender.any.sa_family == f->af, "the error does not bring the offender");
	need(!read_error(fd, &r) && errno == EAGAIN, "a second error");
	need(poll(&p, 1, 0) == 0, "POLLERR stays with an empty queue");
	close(fd);
}

/* Too long a datagram that may not be fragmented: EMSGSIZE, and the MTU in the queue; with
 * fragments it goes. */
static void check_too_long(const struct family *f)
{
	static char data[4000];
	int fd = open_socket(f);
	struct report r;
	union address a;
	socklen_t len = loopback(f, 7003, &a);

	set_int(fd, f->level, f->recverr, 1);
	set_int(fd, f->level, f->mtu_discover, IP_PMTUDISC_DO);
	need(sendto(fd, data, sizeof(data), 0, &a.any, len) < 0 && errno == EMSGSIZE,
	     "no EMSGSIZE");
	need(read_error(fd, &r) && r.ee.ee_errno == EMSGSIZE &&
		 r.ee.ee_origin == SO_EE_ORIGIN_LOCAL && r.ee.ee_info == MTU,
	     "EMSGSIZE does not bring the MTU");
	set_int(fd, f->level, f->mtu_discover,
		f->af == AF_INET ? IP_PMTUDISC_DONT : IPV6_PMTUDISC_WANT);
	need(sendto(fd, data, sizeof(data), 0, &a.any, len) == sizeof(data), "does not fragment");
	close(fd);
}

/* Broadcast destinations are told from others by EACCES without SO_BROADCAST. */
static void check_broadcast(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7004)};
	int fd = open_socket(&families[0]);

	a.sin_addr.s_addr = htonl(0x7fffffff); /* of 127.0.0.0/8 */
	need(sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == EACCES,
	     "no EACCES for a broadcast");
	set_int(fd, SOL_SOCKET, SO_BROADCAST, 1);
	need(sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1,
	     "SO_BROADCAST does not let it out");
	close(fd);
}

/* A ping socket gets back errors with the ICMP header that it sent (skipped by check of the caller:
 * needs a group in range). */
static void check_ping(const struct family *f)
{
	int proto = f->af == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6, n;
	int sysctl = open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY | O_CLOEXEC);
	uint8_t echo[12] = {f->af == AF_INET ? ICMP_ECHO : ICMP6_ECHO_REQUEST,
			    0,
			    0,
			    0,
			    0,
			    0,
			    0,
			    7,
			    'd',
			    'a',
			    't',
			    'a'};
	uint8_t reply[64];
	struct pollfd p = {.events = POLLIN};
	union address a;
	socklen_t len = loopback(f, 0x1234, &a);

	need(sysctl >= 0, "no ping_group_range");
	/* All group numbers the namespace knows: without a map there is the overflow group only,
	 * and that is refused. */
	if (write(sysctl, "0 0", 3) != 3) {
		close(sysctl);
		return;
	}
	close(sysctl);
	p.fd = socket(f->af, SOCK_DGRAM | SOCK_NONBLOCK, proto);
	need(p.fd >= 0, "no ping socket although the group is in range");
	need(bind(p.fd, &a.any, len) == 0, "a ping socket can't have the id it wants");
	loopback(f, 0, &a);
	need(sendto(p.fd, echo, sizeof(echo), 0, &a.any, len) == sizeof(echo),
	     "ping socket does not send");
	need(poll(&p, 1, 2000) == 1, "no echo");
	n = (int)recv(p.fd, reply, sizeof(reply), 0);
	need(n == 12 && reply[0] == (f->af == AF_INET ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY),
	     "no ICMP header in the echo");
	need(reply[4] == 0x12 && reply[5] == 0x34 && reply[7] == 7 && !memcmp(reply + 8, "data", 4),
	     "another id or data");
	close(p.fd);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
	close(fd);
}

int main(void)
{
	char map[32];
	unsigned uid = getuid(), gid = getgid();

	own_namespace();
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
	for (size_t i = 0; i < 2; i++) {
		check_segments(&families[i]);
		check_refused(&families[i]);
		check_too_long(&families[i]);
		check_ping(&families[i]);
	}
	check_broadcast();
	printf("udp_segment: segments, error queue and ping sockets are as expected\n");
	return 0;
}
