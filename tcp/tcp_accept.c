/* SPDX-License-Identifier: BSD-3-Clause */
/* A host socket that is connected already, and the guest is asked (RFC 9293 3.10.1, active OPEN).
 * What the client sends meanwhile stays in the socket. */
#include <errno.h>
#include <sys/socket.h>

#include "tcp/tcp_flow.h"
#include "tcp/tcp_splice.h"
#include "wire/quote.h"

#define TRIES 10 /* until the ends are free: in a second */

/* The host's TCP has given the socket up, of which the event may be still to come. */
static bool socket_failed(const struct tcp_flow *f)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return getsockopt(f->sock.fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err;
}

/* Of two clients with the same port and different addresses both may have the same name inside, and
 * a client may use a port anew while its last connection still drains or is about to end. false:
 * the guest has that still, and must not get both mixed. */
static bool ends_are_free(struct tcp *t, const struct endpoint *guest, const struct endpoint *peer)
{
	struct tcp_flow *old = tcp_flow_find(t, guest, peer);

	if (old && old->state == FLOW_TIME_WAIT) {
		tcp_flow_rename(old);
		return true;
	}
	if (old && socket_failed(old))
		tcp_flow_reset(old);
	return !tcp_flow_find(t, guest, peer);
}

static void send_first_syn(struct tcp_flow *f, usec_t now)
{
	tcp_flow_move(f, FLOW_SYN_SENT);
	f->retries = 0;
	f->sack_on = true;
	f->rcv_scale = TCP_WSCALE;
	f->snd_nxt = f->timed_seq = f->iss + 1;
	f->timed_at = now;
	tcp_timer_set(f, FLOW_TIMER_IDLE, now + TCP_IDLE);
	tcp_timer_retransmit(f, now);
	(void)tcp_send_syn(f); /* if the link is full the timer repeats it */
}

void tcp_accept_try(struct tcp_flow *f, usec_t now)
{
	if (f->due[FLOW_TIMER_WORK] != USEC_NEVER)
		return; /* called for an event of the socket, which changes nothing */
	if (ends_are_free(f->tcp, &f->guest, &f->peer)) {
		send_first_syn(f, now);
	} else if (f->retries < TRIES) {
		tcp_timer_set(f, FLOW_TIMER_WORK, now + (USEC_MSEC << f->retries));
		f->retries++;
	} else {
		log_limited(&f->tcp->limit, now, LOG_LEVEL_WARN,
			    "TCP: connection refused: the guest has one from the same port %u",
			    f->peer.port);
		tcp_flow_abort(f);
	}
}

int tcp_accept(struct tcp *t, int fd, const struct forward_decision *d, usec_t now)
{
	struct tcp_flow *f;
	int r = tcp_flow_new(t, &d->dst, &d->src, now, &f);

	if (r < 0) {
		tcp_socket_reset(&fd);
		return r;
	}
	f->sock.fd = fd;
	tcp_flow_move(f, FLOW_ACCEPTED);
	r = tcp_socket_options(fd);
	if (!r)
		r = loop_add(t->loop, &f->sock,
			     EPOLLET | EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI);
	if (r < 0)
		tcp_flow_abort(f);
	else
		tcp_accept_try(f, now);
	return r;
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
