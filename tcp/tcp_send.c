/* SPDX-License-Identifier: BSD-3-Clause */
/* Data from the guest to the host socket.
 *
 * The window we tell the guest is credit: room that is ours to give, beyond what the socket has
 * taken. So whatever the guest sends within it is kept, and acknowledged at once: the guest never
 * sends anything twice because the peer is slow. What the socket does not take stays in the hold;
 * the window is smaller by as much until it has gone. */
#include <errno.h>
#include <sys/socket.h>

#include "tcp/tcp_flow.h"

#define CREDIT_MOST   (1024u << 10)
/* As much at once is worth a system call, and the peer need not wait for more. */
#define GATHER_ENOUGH (32u << 10)

uint32_t tcp_held(const struct tcp_flow *f)
{
	return f->rcv_nxt - f->sock_nxt - f->fin_received;
}

/* Hands bytes to the socket and moves sock_nxt on by what it took. false: the socket has failed,
 * and with it the flow. */
static bool hand_over(struct tcp_flow *f, const struct iovec *iov, int iov_count, uint32_t len)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iov_count};
	ssize_t n;

	do {
		n = sendmsg(f->sock.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN) {
		tcp_flow_reset(f);
		return false;
	}
	if (n > 0)
		f->sock_nxt += (uint32_t)n;
	/* After less than all EPOLLOUT comes when a third of the send buffer is free. */
	if (n < (ssize_t)len)
		f->writable = false;
	return true;
}

static bool have_hold(struct tcp_flow *f)
{
	uint32_t size = 1;

	if (f->hold)
		return true;
	/* What the window is now and what it may become while the hold exists: a SYN-ACK, whose
	 * window isn't scaled, offers less than the credit. */
	while (size < f->rcv_edge - f->sock_nxt || size < f->credit)
		size *= 2;
	if (tcp_hold_new(size, &f->hold) < 0) {
		count_drop(tap_counters(f->tcp->tap), DROP_NO_MEMORY);
		return false; /* not acknowledged, so the guest will send it again */
	}
	return true;
}

static void free_hold(struct tcp_flow *f)
{
	tcp_hold_free(f->hold);
	f->hold = NULL;
}

/* To the socket what it takes of len bytes at rcv_nxt, and the rest into the hold; rcv_nxt moves on
 * by what is taken or kept. */
static void to_host(struct tcp_flow *f, const struct iovec *iov, int iov_count, uint32_t len)
{
	uint32_t end = f->rcv_nxt + len, taken = 0;

	if (f->writable && !tcp_held(f)) {
		if (!hand_over(f, iov, iov_count, len))
			return;
		taken = f->sock_nxt - f->rcv_nxt;
	}
	f->rcv_nxt += taken;
	if (taken < len && !have_hold(f))
		return;
	for (; iov_count && f->rcv_nxt != end; iov++, iov_count--) {
		uint32_t part = (uint32_t)iov->iov_len;

		if (taken < part) {
			tcp_hold_put(f->hold, f->rcv_nxt, (const uint8_t *)iov->iov_base + taken,
				     part - taken);
			f->rcv_nxt += part - taken;
			taken = part;
		}
		taken -= part;
	}
	if (f->hold) {
		f->rcv_nxt = tcp_hold_join(f->hold, f->rcv_nxt);
		if (f->rcv_nxt != end)
			f->ack_now = true; /* a gap was filled, RFC 5681 4.2 */
	}
}

void tcp_hand_over(struct tcp *t)
{
	struct tcp_gather *g = &t->gather;
	int count = g->count;

	if (!count)
		return;
	g->count = 0;
	g->flow->rcv_nxt -= g->len;
	to_host(g->flow, g->iov, count, g->len);
}

void tcp_to_host(struct tcp_flow *f, const uint8_t *data, uint32_t len)
{
	struct tcp_gather *g = &f->tcp->gather;
	struct iovec part = {(void *)(uintptr_t)data, len};

	if (g->count && g->flow != f)
		tcp_hand_over(f->tcp);
	if (!f->writable || f->hold || (!g->count && len >= GATHER_ENOUGH)) {
		to_host(f, &part, 1, len);
		return;
	}
	if (!g->count) {
		g->flow = f;
		g->len = 0;
	}
	g->iov[g->count++] = part;
	g->len += len;
	f->rcv_nxt += len;
	if (g->count == TCP_GATHER_PARTS || g->len >= GATHER_ENOUGH)
		tcp_hand_over(f->tcp);
}

void tcp_keep_early(struct tcp_flow *f, uint32_t seq, const uint8_t *data, uint32_t len)
{
	if (!have_hold(f))
		return;
	if (tcp_hold_note(f->hold, seq, seq + len) < 0) {
		count_drop(tap_counters(f->tcp->tap), DROP_NO_MEMORY);
		return;
	}
	tcp_hold_put(f->hold, seq, data, len);
}

/* Would an ACK now open the window by enough to be worth it (RFC 9293 3.8.6.2.2)? */
static bool window_opens(const struct tcp_flow *f)
{
	uint32_t opens = f->sock_nxt + f->credit - f->rcv_edge;

	return opens >= f->mss || opens >= f->credit / 2;
}

void tcp_drain(struct tcp_flow *f)
{
	uint32_t held = tcp_held(f), left = held;
	struct iovec iov[2];

	while (left && f->writable) {
		if (!hand_over(f, iov, tcp_hold_iov(f->hold, f->sock_nxt, left, iov), left))
			return;
		left = tcp_held(f);
	}
	if (left != held && !f->fin_received && window_opens(f))
		f->ack_wanted = f->ack_now = true;
	if (f->hold && !left && !tcp_hold_ranges(f->hold, &(struct seq_range){0}, 1))
		free_hold(f);
	if (f->fin_received && !left && !f->shut) {
		f->shut = true;
		if (shutdown(f->sock.fd, SHUT_WR) < 0)
			tcp_flow_reset(f);
	}
}

/* The hold that exists may be too small for more. */
void tcp_grow_credit(struct tcp_flow *f)
{
	struct tcp *t = f->tcp;

	if (f->hold || f->credit >= CREDIT_MOST || t->committed + f->credit > t->cfg.buffer_budget)
		return;
	t->committed += f->credit;
	f->credit *= 2;
}
