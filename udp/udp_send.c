/* SPDX-License-Identifier: BSD-3-Clause */
/* Guest to host: what a batch of the tap brought, in as few system calls as possible. Datagrams of
 * one flow with equal size become one message that the kernel cuts again (UDP_SEGMENT, Linux 4.18),
 * the messages of one socket one sendmmsg(2). */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>

#include "udp/udp_flow.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* linux/udp.h */
#endif

#define SEGMENTS_MAX 64               /* of one message: UDP_MAX_SEGMENTS before Linux 6.9 */
#define MESSAGE_MAX  (65535 - 40 - 8) /* bytes of payload that fit a packet of either family */

/* Where to send from, if that isn't left to the kernel, then the size of segments. */
union send_control {
	char room[HOST_SOURCE_LEN + CMSG_SPACE(sizeof(uint16_t))];
	struct cmsghdr align;
};

struct udp_sender {
	struct udp_socket *sock;
	struct host_marks marks;
	unsigned count, iov_count;
	struct mmsghdr msgs[UDP_BATCH];
	struct sockaddr_storage to[UDP_BATCH];
	union send_control control[UDP_BATCH];
	/* Of each message: */
	const struct udp_datagram *first[UDP_BATCH];
	size_t segment[UDP_BATCH]; /* 0: one datagram */
	struct iovec iov[UDP_BATCH];
};

int udp_sender_new(struct udp_sender **out)
{
	struct udp_sender *tx = calloc(1, sizeof(*tx));

	if (!tx)
		return -ENOMEM;
	*out = tx;
	return 0;
}

static bool same_marks(const struct host_marks *a, const struct host_marks *b)
{
	return a->ttl == b->ttl && a->tos == b->tos && a->fragment == b->fragment &&
	       a->multicast == b->multicast && a->broadcast == b->broadcast;
}

/* Inbound flows answer from the address that the client knows. */
static void set_source(struct msghdr *m, union send_control *control, const struct udp_flow *f)
{
	bool scoped = ip_is_link_local(&f->local) || ip_is_link_local(&f->host_addr);

	if (ip_is_unspecified(&f->local))
		return;
	m->msg_control = control;
	m->msg_controllen =
	    host_socket_put_source(&control->align, &f->local, scoped ? f->scope : 0);
}

static void set_segment(struct msghdr *m, union send_control *control, uint16_t segment)
{
	struct cmsghdr *c = (void *)(control->room + m->msg_controllen);

	memset(c, 0, CMSG_SPACE(sizeof(segment)));
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	m->msg_control = control;
	m->msg_controllen += CMSG_SPACE(sizeof(segment));
}

/* Number of datagrams that the kernel makes of m. */
static size_t datagrams_in(const struct msghdr *m, size_t segment)
{
	size_t len = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		len += m->msg_iov[i].iov_len;
	return segment ? (len + segment - 1) / segment : 1;
}

/* One datagram that failed with err: sent after all, or lost and the guest told. */
static void send_failed(struct udp_socket *s, const struct msghdr *m, const struct udp_datagram *d,
			int err)
{
	struct udp *u = s->udp;
	struct host_outcome out;

	err = host_socket_recover(&s->host, m, &d->marks, err, &out);
	if (out.broadcast)
		udp_flow_set_broadcast(d->flow);
	if (err == 0)
		return;
	count_drop(u->counters, DROP_SOCKET);
	if (err == -EMSGSIZE)
		udp_error_too_long(u, d, out.mtu);
	else
		udp_error_local(u, d, -err);
}

/* The datagrams of message i one by one: the kernel or the device can't send segments of this
 * size. */
static void send_single(struct udp_sender *tx, unsigned i)
{
	struct udp_socket *s = tx->sock;
	const struct msghdr *m = &tx->msgs[i].msg_hdr;
	const struct udp_datagram *first = tx->first[i];
	size_t segment = tx->segment[i];

	for (size_t k = 0; k < m->msg_iovlen; k++) {
		const struct iovec *iov = &m->msg_iov[k];

		for (size_t at = 0; at < iov->iov_len; at += segment) {
			size_t left = iov->iov_len - at;
			struct udp_datagram d = *first;
			struct iovec part = {.iov_base = (uint8_t *)iov->iov_base + at,
					     .iov_len = left < segment ? left : segment};
			struct msghdr one = {.msg_name = m->msg_name,
					     .msg_namelen = m->msg_namelen,
					     .msg_iov = &part,
					     .msg_iovlen = 1,
					     .msg_control = m->msg_control};

			one.msg_controllen =
			    m->msg_controllen - CMSG_SPACE(sizeof(uint16_t)); /* the source */
			d.data = part.iov_base;
			d.len = part.iov_len;
			if (sendmsg(s->host.fd, &one, MSG_DONTWAIT) < 0)
				send_failed(s, &one, &d, -errno);
		}
	}
}

static bool is_segment_error(int err)
{
	/* EINVAL or EMSGSIZE: above the path's MTU; EIO, EOPNOTSUPP: the way out can't do it
	 * (IPsec). */
	return err == -EINVAL || err == -EMSGSIZE || err == -EIO || err == -EOPNOTSUPP;
}

static void message_failed(struct udp_sender *tx, unsigned i, int err)
{
	struct udp_socket *s = tx->sock;
	const struct msghdr *m = &tx->msgs[i].msg_hdr;
	const struct udp_datagram *d = tx->first[i];
	size_t segment = tx->segment[i];
	uint32_t mtu = 0;

	if (!segment) {
		send_failed(s, m, d, err);
		return;
	}
	err = host_socket_send_again(&s->host, m, err, &mtu);
	if (is_segment_error(err)) {
		d->flow->segment_max = (uint16_t)(segment - 1);
		send_single(tx, i);
	} else if (err < 0) {
		s->udp->counters->dropped[DROP_SOCKET] += datagrams_in(m, segment);
		udp_error_local(s->udp, d, -err);
	}
}

static void transmit(struct udp_sender *tx)
{
	unsigned i = 0;

	while (i < tx->count) {
		int n = sendmmsg(tx->sock->host.fd, tx->msgs + i, tx->count - i, MSG_DONTWAIT);

		if (n > 0)
			i += (unsigned)n;
		else
			message_failed(tx, i++, -errno);
	}
	tx->count = tx->iov_count = 0;
}

/* Begins a message for d. */
static struct msghdr *begin(struct udp *u, const struct udp_datagram *d)
{
	struct udp_sender *tx = u->sender;
	struct udp_socket *s = d->flow->sock;
	struct endpoint to = {.addr = d->flow->host_addr, .port = d->port};
	struct msghdr *m;

	if (tx->count && (tx->sock != s || !same_marks(&tx->marks, &d->marks)))
		transmit(tx);
	if (!tx->count) {
		tx->sock = s;
		tx->marks = d->marks;
		if (!d->flow->pair) /* else nothing but data goes through */
			host_socket_set_marks(&s->host, &d->marks);
	}
	m = &tx->msgs[tx->count].msg_hdr;
	*m = (struct msghdr){.msg_iov = &tx->iov[tx->iov_count]};
	if (s->kind != UDP_SPLICED) {
		m->msg_name = &tx->to[tx->count];
		m->msg_namelen =
		    host_socket_address(&s->host, &to, d->flow->scope, &tx->to[tx->count]);
	}
	set_source(m, &tx->control[tx->count], d->flow);
	tx->first[tx->count] = d;
	tx->segment[tx->count] = 0;
	return m;
}

static void add_part(struct udp_sender *tx, struct msghdr *m, const struct udp_datagram *d)
{
	tx->iov[tx->iov_count++] =
	    (struct iovec){.iov_base = (void *)(uintptr_t)d->data, .iov_len = d->len};
	m->msg_iovlen++;
}

/* true if d can be the next segment after a message of total bytes that began with first. */
static bool can_join(const struct udp_datagram *first, const struct udp_datagram *d, size_t total)
{
	return d->port == first->port && !d->segment && d->len && d->len <= first->len &&
	       total + d->len <= MESSAGE_MAX && same_marks(&d->marks, &first->marks);
}

/* Makes a message of datagram i and those after it that can go along; the index of the flow's next
 * one. */
static uint8_t add_message(struct udp *u, uint8_t i)
{
	struct udp_sender *tx = u->sender;
	const struct udp_datagram *first = &u->batch[i], *d = first;
	struct msghdr *m = begin(u, first);
	size_t total = first->len;
	size_t segment = first->segment ? first->segment : first->len;

	add_part(tx, m, first);
	if (!first->segment && first->len && first->len <= first->flow->segment_max) {
		/* Only the last segment may be shorter. */
		while (d->len == first->len && d->next != UDP_NONE &&
		       m->msg_iovlen < SEGMENTS_MAX && can_join(first, &u->batch[d->next], total)) {
			d = &u->batch[d->next];
			total += d->len;
			add_part(tx, m, d);
		}
	}
	if (total > segment) {
		host_socket_expect_bulk(&first->flow->sock->host);
		set_segment(m, &tx->control[tx->count], (uint16_t)segment);
		tx->segment[tx->count] = segment;
	}
	if (first->segment <= first->flow->segment_max) {
		tx->count++;
	} else { /* a super-frame that is known not to go as it is */
		unsigned this = tx->count;

		transmit(tx);
		send_single(tx, this);
	}
	return d->next;
}

void udp_flush(struct udp *u, usec_t now)
{
	unsigned count = u->batch_count;

	u->now = now;
	/* Flow by flow, in the order of their first datagrams. */
	for (unsigned i = 0; i < count; i++) {
		struct udp_flow *f = u->batch[i].flow;
		uint8_t next = f->batch_first;

		if (next != i)
			continue; /* sent with the first one of its flow */
		f->batch_first = f->batch_last = UDP_NONE;
		while (next != UDP_NONE)
			next = add_message(u, next);
	}
	if (u->sender->count)
		transmit(u->sender);
	u->batch_count = 0;
}
