/* SPDX-License-Identifier: BSD-3-Clause */
#include "host/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* States as numbered in sockets (tcp(7), the kernel's tcp_states.h, which can't be included beside
 * netinet/tcp.h). A UDP socket that isn't connected counts as closed. */
#define STATE_CLOSE  7
#define STATE_LISTEN 10

#define SOCKSTAT_ROOM 512
#define DUMP_ROOM     (32 << 10) /* the kernel makes no longer datagrams of a dump (netlink(7)) */

int ports_view_open(struct ports_view *out)
{
	static const char *const names[IP_FAMILIES] = {"/proc/self/net/sockstat",
						       "/proc/self/net/sockstat6"};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return -errno;
	out->diag = fd;
	for (int f = 0; f < IP_FAMILIES; f++)
		out->sockstat[f] = open(names[f], O_RDONLY | O_CLOEXEC);
	return 0;
}

void ports_view_close(struct ports_view *v)
{
	fd_close(&v->diag);
	for (int f = 0; f < IP_FAMILIES; f++)
		fd_close(&v->sockstat[f]);
}

/* The number behind name in a line that begins with line, both with what separates them. */
static unsigned number_in(const char *text, const char *line, const char *name)
{
	const char *p = strstr(text, line);
	const char *end = p ? strchr(p + 1, '\n') : NULL; /* line may begin with one */

	p = p ? strstr(p, name) : NULL;
	return p && (!end || p < end) ? (unsigned)strtoul(p + strlen(name), NULL, 10) : 0;
}

static int read_counters(const struct ports_view *v, struct ports_counters *out)
{
	static const char *const tcp[IP_FAMILIES] = {"\nTCP:", "TCP6:"};
	static const char *const udp[IP_FAMILIES] = {"\nUDP:", "\nUDP6:"};
	char text[SOCKSTAT_ROOM];

	*out = (struct ports_counters){0};
	for (int f = 0; f < IP_FAMILIES; f++) {
		ssize_t n;

		if (v->sockstat[f] < 0) {
			if (f == IP_V4)
				return -ENOENT;
			continue; /* a kernel without IPv6 */
		}
		n = pread(v->sockstat[f], text, sizeof(text) - 1, 0);
		if (n < 0)
			return -errno;
		text[n] = '\0';
		out->tcp[f] = number_in(text, tcp[f], " inuse ");
		out->udp[f] = number_in(text, udp[f], " inuse ");
		if (f == IP_V4)
			out->time_wait = number_in(text, tcp[f], " tw ");
	}
	return 0;
}

bool ports_may_have_changed(const struct ports_view *v, struct ports_counters *last)
{
	struct ports_counters now;

	if (read_counters(v, &now) < 0)
		return true;
	if (!memcmp(&now, last, sizeof(now)))
		return false;
	*last = now;
	return true;
}

static int ask(int fd, int family, uint8_t proto)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 req;
	} m = {
	    .h = {.nlmsg_len = sizeof(m),
		  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
	    .req = {.sdiag_family = (uint8_t)family,
		    .sdiag_protocol = proto,
		    .idiag_states = 1U << (proto == IPPROTO_TCP ? STATE_LISTEN : STATE_CLOSE)},
	};
	/* To the kernel, whatever the socket that came from elsewhere may be connected to. */
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	return sendto(fd, &m, sizeof(m), 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0 ? -errno
											    : 0;
}

/* By the attributes behind the struct, in a message of len bytes (linux/netlink.h). */
static bool is_client(const struct inet_diag_msg *d, size_t len)
{
	struct inet_diag_sockopt opt = {0};
	size_t at = sizeof(*d);

	while (at + NLA_HDRLEN <= len) {
		const struct nlattr *a = (const void *)((const char *)d + at);

		if (a->nla_len < NLA_HDRLEN || a->nla_len > len - at)
			break;
		if (a->nla_type == INET_DIAG_SOCKOPT && a->nla_len >= NLA_HDRLEN + sizeof(opt))
			memcpy(&opt, (const char *)a + NLA_HDRLEN, sizeof(opt));
		at += NLA_ALIGN(a->nla_len);
	}
	return opt.bind_address_no_port;
}

/* One message of the answer. 1 at the end, else 0 or negative errno. */
static int take(const struct nlmsghdr *h, struct port_set *out)
{
	const struct inet_diag_msg *d = NLMSG_DATA(h);
	const struct nlmsgerr *e = NLMSG_DATA(h);
	uint16_t port;

	if (h->nlmsg_type == NLMSG_DONE)
		return 1;
	if (h->nlmsg_type == NLMSG_ERROR)
		return h->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)) && e->error < 0 ? e->error
										: -EBADMSG;
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(*d)))
		return 0;
	port = (uint16_t)(((const uint8_t *)&d->id.idiag_sport)[0] << 8 |
			  ((const uint8_t *)&d->id.idiag_sport)[1]);
	if (port && !is_client(d, h->nlmsg_len - NLMSG_HDRLEN))
		port_set_add(out, port);
	return 0;
}

/* The parts of a dump's answer are made by the calls that read them, so there is always one to be
 * read until the last has come. */
static int answer(int fd, struct port_set *out)
{
	_Alignas(struct nlmsghdr) char buf[DUMP_ROOM];

	for (;;) {
		ssize_t len = recv(fd, buf, sizeof(buf), 0);

		if (len < 0)
			return -errno;
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, (size_t)len);
		     h = NLMSG_NEXT(h, len)) {
			int r = take(h, out);

			if (r)
				return r < 0 ? r : 0;
		}
	}
}

/* What an earlier look left behind that failed. */
static void drop_old_answers(int fd)
{
	char byte;

	while (recv(fd, &byte, sizeof(byte), MSG_TRUNC) >= 0)
		;
}

int ports_look(const struct ports_view *v, uint8_t proto, struct port_set *out)
{
	static const int families[IP_FAMILIES] = {[IP_V4] = AF_INET, [IP_V6] = AF_INET6};
	struct port_set found = {0};

	for (int f = 0; f < IP_FAMILIES; f++) {
		int r;

		drop_old_answers(v->diag);
		r = ask(v->diag, families[f], proto);
		if (!r)
			r = answer(v->diag, &found);
		/* A kernel without IPv6. */
		if (r < 0 && !(f == IP_V6 && r == -ENOENT))
			return r;
	}
	*out = found;
	return 0;
}
