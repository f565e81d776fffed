/* SPDX-License-Identifier: BSD-3-Clause */
/* The error queue (ip(7), IP_RECVERR), and sending in spite of what stands in it. */
#include <errno.h>
#include <time.h>

#include <linux/errqueue.h> /* needs struct timespec */
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include "nat/host_socket.h"

#define DRAIN_MAX 64
#define TRIES     3

/* The error and, behind it, the offender's address (ip(7), IP_RECVERR). */
static void parse_error(const struct cmsghdr *c, struct host_error *out)
{
	struct sock_extended_err ee = {0};
	struct sockaddr_storage sa = {0};
	struct endpoint offender;
	size_t len = c->cmsg_len - CMSG_LEN(0), rest;

	if (len < sizeof(ee))
		return;
	memcpy(&ee, CMSG_DATA(c), sizeof(ee));
	rest = len - sizeof(ee);
	memcpy(&sa, CMSG_DATA(c) + sizeof(ee), rest < sizeof(sa) ? rest : sizeof(sa));
	out->local = ee.ee_origin != SO_EE_ORIGIN_ICMP && ee.ee_origin != SO_EE_ORIGIN_ICMP6;
	out->err = (int)ee.ee_errno;
	out->type = ee.ee_type;
	out->code = ee.ee_code;
	if (ee.ee_errno == EMSGSIZE)
		out->mtu = ee.ee_info;
	if (endpoint_from_sockaddr(&sa, &offender) == 0)
		out->offender = offender.addr;
}

/* Takes the oldest entry; the packet's bytes go to buf. 0, or -EAGAIN if there is none. */
static int next_error(const struct host_socket *s, void *buf, size_t room, struct host_error *out)
{
	struct sockaddr_storage to = {0};
	union {
		char room[512];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = room};
	struct msghdr m = {.msg_name = &to,
			   .msg_namelen = sizeof(to),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.room,
			   .msg_controllen = sizeof(control.room)};
	ssize_t n = recvmsg(s->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (n < 0)
		return -EAGAIN; /* nothing else can be wrong with an error queue */
	*out = (struct host_error){.local = true,
				   .offender = ip_any[s->family],
				   .to.addr = ip_any[s->family],
				   .data_len = (size_t)n};
	if (endpoint_from_sockaddr(&to, &out->to) < 0)
		out->to = (struct endpoint){.addr = ip_any[s->family]};
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		/* An IPv6 socket has its own kind for IPv4's errors, too. */
		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			parse_error(c, out);
	}
	return 0;
}

static bool is_for_guest(const struct host_error *e)
{
	if (e->local)
		return false;
	if (ip_is_v4(&e->to.addr))
		return e->type == ICMP_DEST_UNREACH || e->type == ICMP_TIME_EXCEEDED;
	return e->type == ICMP6_DST_UNREACH || e->type == ICMP6_PACKET_TOO_BIG ||
	       e->type == ICMP6_TIME_EXCEEDED;
}

unsigned host_socket_drain_errors(struct host_socket *s, uint32_t *mtu)
{
	uint8_t data[HOST_QUOTE_MAX];
	struct host_error e;
	unsigned n = 0;

	while (n < DRAIN_MAX && next_error(s, data, sizeof(data), &e) == 0) {
		n++;
		if (is_for_guest(&e))
			s->on_error(s, &e, data);
		else if (e.local && e.err == EMSGSIZE)
			*mtu = e.mtu;
	}
	return n;
}

bool host_socket_clear_errors(struct host_socket *s)
{
	uint32_t mtu;
	int err = 0;
	socklen_t len = sizeof(err);
	unsigned n = host_socket_drain_errors(s, &mtu);

	/* An error that found no room in the queue stands in the socket alone; reading it takes it
	 * away. */
	return getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && (n || err);
}

static int send_one(const struct host_socket *s, const struct msghdr *m)
{
	return sendmsg(s->fd, m, MSG_DONTWAIT) < 0 ? -errno : 0;
}

int host_socket_send_again(struct host_socket *s, const struct msghdr *m, int err, uint32_t *mtu)
{
	for (int i = 0; i < TRIES; i++) {
		unsigned waiting;

		if (err == -EAGAIN || err == -ENOBUFS || err == -ENOMEM)
			return err;
		waiting = host_socket_drain_errors(s, mtu);
		if (i && !waiting)
			return err;
		err = send_one(s, m);
		if (err == 0)
			return 0;
	}
	return err;
}

int host_socket_recover(struct host_socket *s, const struct msghdr *m,
			const struct host_marks *marks, int err, struct host_outcome *out)
{
	struct host_marks other = *marks;

	*out = (struct host_outcome){0};
	err = host_socket_send_again(s, m, err, &out->mtu);
	/* Only the host's routes tell broadcast addresses from others (socket(7), SO_BROADCAST). */
	if (err == -EACCES && s->family == IP_V4 && !marks->broadcast) {
		other.broadcast = true;
		host_socket_set_marks(s, &other);
		err = send_one(s, m);
		out->broadcast = err == 0;
		host_socket_set_marks(s, marks);
	}
	return err;
}
