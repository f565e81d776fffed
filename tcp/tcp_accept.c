/* SPDX-License-Identifier: BSD-3-Clause */
/* A host socket that is connected already, and the guest is asked (RFC 9293 3.10.1, active OPEN).
 * What the client sends meanwhile stays in the socket. */
#include <errno.h>
#include <sys/socket.h>

#include "tcp/tcp_flow.h"
#include "tcp/tcp_splice.h"
#include "wire/quote.h"

/* The host's TCP has given the socket up, of which the event may be still to come. */
static bool socket_failed(const struct tcp_flow *f)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return getsockopt(f->sock.fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err;
}

/* Of two clients with the same port and different addresses both may have the same name inside, and
 * one client may use a port anew while its last connection still drains. A connection that the
 * guest still has is never mixed with another. */
static int make_way(struct tcp *t, const struct endpoint *guest, const struct endpoint *peer)
{
	struct tcp_flow *old = tcp_flow_find(t, guest, peer);

	if (old && old->state == FLOW_TIME_WAIT) {
		tcp_flow_rename(old);
		return 0;
	}
	if (old && socket_failed(old))
		tcp_flow_reset(old);
	return tcp_flow_find(t, guest, peer) ? -EADDRINUSE : 0;
}

static int adopt(struct tcp_flow *f, int fd)
{
	int r = tcp_socket_options(fd);

	f->sock.fd = fd;
	if (r < 0)
		return r;
	return loop_add(f->tcp->loop, &f->sock,
			EPOLLET | EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI);
}

int tcp_accept(struct tcp *t, int fd, const struct forward_decision *d, usec_t now)
{
	struct tcp_flow *f;
	int r = make_way(t, &d->dst, &d->src);

	if (!r)
		r = tcp_flow_new(t, &d->dst, &d->src, now, &f);
	if (r < 0) {
		tcp_socket_reset(&fd);
		return r;
	}
	r = adopt(f, fd);
	if (r < 0) {
		tcp_flow_abort(f);
		return r;
	}
	tcp_flow_move(f, FLOW_SYN_SENT);
	f->sack_on = true;
	f->rcv_scale = TCP_WSCALE;
	f->snd_nxt = f->timed_seq = f->iss + 1;
	f->timed_at = now;
	tcp_timer_set(f, FLOW_TIMER_IDLE, now + TCP_IDLE);
	tcp_timer_retransmit(f, now);
	(void)tcp_send_syn(f); /* if the link is full the timer repeats it */
	return 0;
}

/* In SYN-SENT an error is final: so Linux does, too, RFC 5461 2.2 tells why. Its sequence number
 * shows that it is about this SYN (RFC 5927 4). */
bool tcp_icmp_input(struct tcp *t, const struct packet *p)
{
	struct tcp_flow *f;
	struct quote q;

	if (!quote_is_unreachable(p) || !quote_parse(p, &q) || q.proto != IPPROTO_TCP)
		return false;
	f = tcp_flow_find(t, &q.dst, &q.src);
	if (!f || f->state != FLOW_SYN_SENT || q.seq != f->iss)
		return false;
	tcp_flow_abort(f);
	return true;
}
