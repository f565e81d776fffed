/* SPDX-License-Identifier: BSD-3-Clause */
/* Host to guest, and between the flows of a pair. What sockets have is read many datagrams a call,
 * and several of them at once where the kernel kept them together (UDP_GRO, Linux 5.0). Equal ones
 * in a row from one sender go to the guest as one super-frame if the link takes those. One set of
 * buffers serves all sockets. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "udp/udp_flow.h"

/* This much at once makes it worth to prepare the socket for more. */
#define BULK_MESSAGES 4
#define BULK_BYTES    16384

#define FAILURES_MAX 16 /* of a port, one after the other */

#define MESSAGES     64
#define BUFFER_LEN   65536
#define FRAMES       64
#define IOVS         (2 * FRAMES + MESSAGES)
#define SEGMENTS_MAX 64 /* of a super-frame: what the kernel makes itself (UDP_GRO_CNT_MAX) */
#define SUPER_MAX    (65535 - 40 - 8) /* bytes of payload in one */

/* A frame in the making: headers are written when its length is known. */
struct frame {
	struct endpoint from;
	struct ip_addr to;
	uint16_t to_port;
	uint8_t ttl, tos;
	size_t segment, total;
	unsigned segments;
	int first_iov, iov_count;
};

struct udp_receiver {
	struct mmsghdr msgs[MESSAGES];
	struct iovec buffers[MESSAGES];
	struct sockaddr_storage from[MESSAGES];
	union {
		char room[HOST_CONTROL_LEN];
		struct cmsghdr align;
	} control[MESSAGES];
	uint8_t *memory; /* of the buffers: pages that nothing was received into cost nothing */

	struct frame frames[FRAMES];
	struct tap_out out[FRAMES];
	uint8_t headers[FRAMES][EMIT_HEADERS_MAX];
	struct iovec iov[IOVS];
	unsigned count;
	int iov_count;
};

int udp_receiver_new(struct udp_receiver **out)
{
	struct udp_receiver *rx = calloc(1, sizeof(*rx));

	if (!rx)
		return -ENOMEM;
	rx->memory = mmap(NULL, MESSAGES * BUFFER_LEN, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rx->memory == MAP_FAILED) {
		free(rx);
		return -ENOMEM;
	}
	/* One small datagram is not to cost a huge page; if that can't be had it still works. */
	(void)madvise(rx->memory, MESSAGES * BUFFER_LEN, MADV_NOHUGEPAGE);
	for (int i = 0; i < MESSAGES; i++) {
		rx->buffers[i] = (struct iovec){.iov_base = rx->memory + (size_t)i * BUFFER_LEN,
						.iov_len = BUFFER_LEN};
		rx->msgs[i].msg_hdr = (struct msghdr){.msg_name = &rx->from[i],
						      .msg_iov = &rx->buffers[i],
						      .msg_iovlen = 1,
						      .msg_control = &rx->control[i]};
	}
	*out = rx;
	return 0;
}

void udp_receiver_free(struct udp_receiver *rx)
{
	if (!rx)
		return;
	munmap(rx->memory, MESSAGES * BUFFER_LEN);
	free(rx);
}

/* Writes the headers of frame i. */
static void finish(struct udp *u, unsigned i)
{
	struct udp_receiver *rx = u->receiver;
	const struct frame *f = &rx->frames[i];
	struct ip_header ip = {.src = f->from.addr,
			       .dst = f->to,
			       .proto = IPPROTO_UDP,
			       .ttl = f->ttl,
			       .tos = f->tos,
			       .dont_fragment = true};
	struct udp_header udp = {.src_port = f->from.port, .dst_port = f->to_port};
	uint8_t *h = rx->headers[i], *l4 = h + tap_emit_eth(u->tap, h, ip_family(&ip.src));
	struct tap_out *out = &rx->out[i];

	l4 += emit_ip(l4, &ip, 8 + f->total);
	emit_udp(l4, &udp, f->total);
	emit_l4_pseudo(l4, 8 + f->total, &ip);
	rx->iov[f->first_iov] = (struct iovec){.iov_base = h, .iov_len = (size_t)(l4 - h) + 8};
	*out = (struct tap_out){.iov = &rx->iov[f->first_iov], .iov_count = f->iov_count};
	out->off = (struct offload){
	    .csum_partial = true, .csum_start = (uint16_t)(l4 - h), .csum_offset = 6};
	if (f->segments > 1) {
		out->off.gso = GSO_UDP;
		out->off.gso_size = (uint16_t)f->segment;
		out->off.header_len = (uint16_t)(l4 - h + 8);
	}
}

static void flush(struct udp *u)
{
	struct udp_receiver *rx = u->receiver;
	unsigned sent;
	int r;

	if (!rx->count)
		return;
	for (unsigned i = 0; i < rx->count; i++)
		finish(u, i);
	r = tap_send(u->tap, rx->out, rx->count, &sent);
	if (r < 0)
		log_limited(&u->log, u->now, LOG_LEVEL_DEBUG, "UDP to the guest: %s", strerror(-r));
	rx->count = 0;
	rx->iov_count = 0;
}

/* Datagrams that are read together: len bytes at data, each but the last of segment bytes. */
struct piece {
	const uint8_t *data;
	size_t len, segment;
};

static size_t segments_in(const struct piece *p)
{
	return p->segment && p->len > p->segment ? (p->len + p->segment - 1) / p->segment : 1;
}

static size_t headers_len(const struct ip_addr *a)
{
	return ip_is_v4(a) ? 20 + 8 : 40 + 8;
}

/* true if p can go behind what the newest frame has: same sender and marks, all full so far; a
 * single datagram may be shorter and is then the last. */
static bool can_join(const struct udp *u, const struct frame *like, const struct piece *p)
{
	const struct udp_receiver *rx = u->receiver;
	const struct frame *f = &rx->frames[rx->count ? rx->count - 1 : 0];
	size_t n = segments_in(p);

	if (!rx->count || !tap_features(u->tap)->udp_gso || !p->len || f->iov_count == TAP_IOV_MAX)
		return false;
	if (n == 1 ? p->len > f->segment : p->segment != f->segment)
		return false;
	return f->total == f->segments * f->segment && f->segments + n <= SEGMENTS_MAX &&
	       f->total + p->len <= SUPER_MAX && f->from.port == like->from.port &&
	       f->ttl == like->ttl && f->tos == like->tos && ip_equal(&f->to, &like->to) &&
	       ip_equal(&f->from.addr, &like->from.addr);
}

/* Adds p, which fits one frame, to what is to be sent. */
static void add(struct udp *u, const struct frame *like, const struct piece *p)
{
	struct udp_receiver *rx = u->receiver;
	struct frame *f;

	if (rx->iov_count + 2 > IOVS)
		flush(u);
	if (!can_join(u, like, p)) {
		if (rx->count == FRAMES)
			flush(u);
		rx->frames[rx->count] = *like;
		rx->frames[rx->count].segment = p->segment;
		rx->frames[rx->count].first_iov = rx->iov_count++; /* for the headers */
		rx->frames[rx->count].iov_count = 1;
		rx->count++;
	}
	f = &rx->frames[rx->count - 1];
	rx->iov[rx->iov_count++] =
	    (struct iovec){.iov_base = (void *)(uintptr_t)p->data, .iov_len = p->len};
	f->iov_count++;
	f->total += p->len;
	f->segments += (unsigned)segments_in(p);
}

/* A datagram that the guest's link can't take in one piece leaves as fragments. */
static void send_long(struct udp *u, const struct frame *like, const uint8_t *data, size_t len)
{
	struct ip_header ip = {.src = like->from.addr,
			       .dst = like->to,
			       .proto = IPPROTO_UDP,
			       .ttl = like->ttl,
			       .tos = like->tos};
	struct udp_header udp = {.src_port = like->from.port, .dst_port = like->to_port};
	uint8_t l4[8];
	struct iovec body[2] = {{.iov_base = l4, .iov_len = emit_udp(l4, &udp, len)},
				{.iov_base = (void *)(uintptr_t)data, .iov_len = len}};
	int r;

	flush(u); /* keeps the order */
	emit_l4_checksum(l4, sizeof(l4), data, len, &ip);
	r = tap_send_ip(u->tap, &ip, body, 2);
	if (r < 0)
		log_limited(&u->log, u->now, LOG_LEVEL_DEBUG, "UDP to the guest: %s", strerror(-r));
}

/* What one message brought: one or several datagrams. */
static void deliver(struct udp *u, const struct frame *like, const uint8_t *data, size_t len,
		    size_t segment)
{
	size_t most, at = 0;

	if (!segment || segment > len)
		segment = len;
	most = segment; /* at once: one datagram, or a super-frame of several */
	if (segment && segment <= SUPER_MAX && tap_features(u->tap)->udp_gso)
		most *= SUPER_MAX / segment < SEGMENTS_MAX ? SUPER_MAX / segment : SEGMENTS_MAX;
	do {
		struct piece p = {.data = data + at,
				  .len = len - at < most ? len - at : most,
				  .segment = segment};

		if (segment + headers_len(&like->to) > tap_mtu(u->tap)) {
			p.len = len - at < segment ? len - at : segment;
			send_long(u, like, p.data, p.len);
		} else {
			if (p.len < segment)
				p.segment = p.len;
			add(u, like, &p);
		}
		at += p.len;
	} while (at < len);
}

/* The sender as the guest knows it; unspecified if it may not answer this socket. */
static struct ip_addr sender_for_guest(struct udp_socket *s, const struct endpoint *from)
{
	struct udp *u = s->udp;
	struct udp_flow *f = udp_flow_of_host(s, from);

	if (f) {
		udp_flow_used(f, false);
		return f->guest_addr;
	}
	/* Broadcasts come back to the socket that sent them. */
	if (s->groups && ip_is_unicast(&from->addr) && !host_socket_is_own(&s->host, from))
		return nat_source_for_guest(u->nat, u->cfg.guest, &from->addr);
	return ip_any[s->host.family];
}

static void handle_outbound(void *owner, struct mmsghdr *m, const uint8_t *data)
{
	struct udp_socket *s = owner;
	struct udp *u = s->udp;
	struct frame like = {.to = s->guest.addr, .to_port = s->guest.port};
	struct host_received r;

	if (endpoint_from_sockaddr(m->msg_hdr.msg_name, &like.from) < 0)
		return;
	host_socket_parse_control(&m->msg_hdr, &r);
	like.ttl = r.ttl;
	like.tos = r.tos;
	like.from.addr = sender_for_guest(s, &like.from);
	if (ip_is_unspecified(&like.from.addr)) {
		count_drop(u->counters, DROP_STRANGER);
		return;
	}
	deliver(u, &like, data, m->msg_len, r.segment);
}

/* What f received leaves by its pair; data stays where it is until udp_flush(). */
static void pass_on(struct udp_flow *f, const uint8_t *data, size_t len, size_t segment)
{
	struct udp_datagram d = {.flow = f->pair,
				 .data = data,
				 .len = len,
				 .port = f->pair->host_port,
				 .segment = segment < len ? (uint16_t)segment : 0};

	udp_collect(f->sock->udp, &d);
}

static void handle_inbound(void *owner, struct mmsghdr *m, const uint8_t *data)
{
	struct udp_port *port = owner;
	struct udp_arrival a;
	struct host_received r;
	struct udp_flow *f;

	if (endpoint_from_sockaddr(m->msg_hdr.msg_name, &a.from) < 0)
		return;
	host_socket_parse_control(&m->msg_hdr, &r);
	a.to = r.to;
	a.local = r.local;
	a.scope = ip_is_link_local(&a.from.addr) || ip_is_link_local(&a.to) ? r.interface : 0;
	f = udp_inbound_get(port, &a);
	if (!f)
		return;
	udp_flow_used(f, false);
	if (f->pair) {
		pass_on(f, data, m->msg_len, r.segment);
	} else {
		struct frame like = {.from = {.addr = f->guest_addr, .port = f->port},
				     .to = f->guest.addr,
				     .to_port = f->guest.port,
				     .ttl = r.ttl,
				     .tos = r.tos};

		deliver(port->udp, &like, data, m->msg_len, r.segment);
	}
}

static void handle_spliced(void *owner, struct mmsghdr *m, const uint8_t *data)
{
	struct udp_socket *s = owner;
	struct udp_flow *f = container_of(s->flows.next, struct udp_flow, in_socket);
	struct host_received r;
	struct endpoint from;

	/* Before it was connected anybody could send. */
	if (endpoint_from_sockaddr(m->msg_hdr.msg_name, &from) < 0 || from.port != f->guest.port ||
	    !ip_equal(&from.addr, &f->guest.addr)) {
		count_drop(s->udp->counters, DROP_STRANGER);
		return;
	}
	host_socket_parse_control(&m->msg_hdr, &r);
	udp_flow_used(f->pair, true);
	pass_on(f, data, m->msg_len, r.segment);
}

/* What a bounded read brought: what is left raises the event again, and other sockets get their
 * turn before. */
struct reading {
	int count; /* messages, or negative errno */
	bool bulk;
};

typedef void (*message_fn)(void *owner, struct mmsghdr *m, const uint8_t *data);

static struct reading receive(struct udp *u, int fd, message_fn handle, void *owner)
{
	struct udp_receiver *rx = u->receiver;
	size_t bytes = 0;
	int n;

	for (int i = 0; i < MESSAGES; i++) {
		rx->msgs[i].msg_hdr.msg_namelen = sizeof(rx->from[i]);
		rx->msgs[i].msg_hdr.msg_controllen = sizeof(rx->control[i]);
	}
	n = recvmmsg(fd, rx->msgs, MESSAGES, MSG_DONTWAIT, NULL);
	if (n < 0)
		return (struct reading){.count = -errno};
	for (int i = 0; i < n; i++) {
		bytes += rx->msgs[i].msg_len;
		handle(owner, &rx->msgs[i], rx->memory + (size_t)i * BUFFER_LEN);
	}
	flush(u);
	if (u->batch_count)
		udp_flush(u, u->now);
	return (struct reading){.count = n, .bulk = n >= BULK_MESSAGES || bytes >= BULK_BYTES};
}

void udp_socket_ready(struct loop_source *src, uint32_t events, usec_t now)
{
	struct udp_socket *s = container_of(src, struct udp_socket, source);
	message_fn handle = s->kind == UDP_SPLICED ? handle_spliced : handle_outbound;

	s->udp->now = now;
	if (events & EPOLLERR)
		host_socket_clear_errors(&s->host);
	if (events & EPOLLIN && receive(s->udp, s->host.fd, handle, s).bulk)
		host_socket_expect_bulk(&s->host);
}

static void ignore_error(struct host_socket *s, const struct host_error *e, const uint8_t *data)
{
	(void)s;
	(void)e;
	(void)data;
}

static bool clear_port_errors(struct udp_port *port)
{
	struct udp_socket *s = port->socket[IP_V4] ? port->socket[IP_V4] : port->socket[IP_V6];
	struct host_socket idle = {
	    .fd = port->source.fd, .family = port->v6 ? IP_V6 : IP_V4, .on_error = ignore_error};

	return host_socket_clear_errors(s ? &s->host : &idle);
}

/* A port whose socket fails whatever is done would be ready for ever. */
static void give_up(struct udp_port *port, int err)
{
	log_warn("UDP port %u is no longer served: %s", port->forward->port, strerror(-err));
	loop_remove(port->udp->loop, &port->source);
}

void udp_port_ready(struct loop_source *src, uint32_t events, usec_t now)
{
	struct udp_port *port = container_of(src, struct udp_port, source);
	bool cleared = false;
	struct reading r;

	port->udp->now = now;
	if (events & EPOLLERR)
		cleared = clear_port_errors(port);
	r = receive(port->udp, src->fd, handle_inbound, port);
	for (int f = 0; f < IP_FAMILIES; f++) {
		if (r.bulk && port->socket[f])
			host_socket_expect_bulk(&port->socket[f]->host);
	}
	/* Nothing there is no failure, unless there was an error that can't be taken away. */
	if (r.count >= 0 || cleared ||
	    ((r.count == -EAGAIN || r.count == -EINTR) && !(events & (EPOLLERR | EPOLLHUP))))
		port->failures = 0;
	else if (++port->failures == FAILURES_MAX)
		give_up(port, r.count);
}
