/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments from the guest, in the order of questions of RFC 9293 3.10.7.4: acceptable? reset? SYN?
 * ACK? data? FIN? */
#include <errno.h>
#include <sys/socket.h>

#include "tcp/tcp_flow.h"

#define DUP_ACKS 3 /* RFC 5681 3.2 */

static bool is_syn(const struct tcp_header *h)
{
	return (h->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
}

/* Nothing was answered yet, so the guest can only repeat its SYN, give up, or have given up and
 * begin anew. */
static void input_connecting(struct tcp_flow *f, const struct packet *p)
{
	const struct tcp_header *h = &p->tcp;

	if (h->flags & TCP_RST && h->seq == f->rcv_nxt)
		tcp_flow_abort(f);
	else if (is_syn(h))
		tcp_take_syn(f, p);
	else
		count_drop(tap_counters(f->tcp->tap), DROP_TCP_STATE);
}

/* Does the segment lie in the window, or touch it? One at the window's left edge passes even if the
 * window is shut, for its ACK and window count (RFC 9293 3.10.7.4); its data is cut off later. */
static bool acceptable(const struct tcp_flow *f, uint32_t seq, uint32_t len)
{
	return seq_leq(f->rcv_nxt, len ? seq + len - 1 : seq) && seq_leq(seq, f->rcv_edge);
}

/* Tells the guest where we are. Data is a retransmission whose ACK got lost. */
static void input_unacceptable(struct tcp_flow *f, const struct packet *p, usec_t now)
{
	count_drop(tap_counters(f->tcp->tap), DROP_TCP_STATE);
	if (p->tcp.flags & TCP_RST)
		return;
	if (p->tcp.seq == f->rcv_nxt - 1 && p->payload_len <= 1 && !f->keepalive) {
		/* The guest probes (RFC 9293 3.8.4): the question is about the peer, so let the
		 * host's TCP probe, too. */
		int on = 1;

		f->keepalive = true;
		if (setsockopt(f->sock.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0)
			log_debug("TCP: no keep-alive: error %d", errno);
	}
	if (p->payload_len > 1) {
		f->ack_wanted = f->ack_now = true;
		tcp_flow_queue(f);
	} else {
		tcp_challenge(f, now);
	}
}

/* RFC 5961 3.2: only the very next sequence number resets; others in the window are asked to prove
 * themselves. In TIME-WAIT the guest is done and a reset tells nothing (RFC 1337). */
static void input_reset(struct tcp_flow *f, const struct tcp_header *h, usec_t now)
{
	if (f->state == FLOW_TIME_WAIT)
		return;
	if (h->seq == f->rcv_nxt)
		tcp_flow_abort(f);
	else
		tcp_challenge(f, now);
}

/* Our FIN is acknowledged. */
static void fin_acked(struct tcp_flow *f)
{
	if (f->state == FLOW_FIN_WAIT_1)
		tcp_flow_move(f, FLOW_FIN_WAIT_2);
	else if (f->state == FLOW_CLOSING || f->state == FLOW_LAST_ACK)
		tcp_flow_move(f, FLOW_TIME_WAIT);
}

/* ack is beyond snd_una. */
static void input_new_ack(struct tcp_flow *f, uint32_t ack, usec_t now)
{
	tcp_rtt_sample(f, ack, now);
	f->snd_una = ack;
	f->dupacks = 0;
	f->retries = 0;
	tcp_timer_set(f, FLOW_TIMER_RETRANSMIT,
		      USEC_NEVER); /* started anew after the batch, RFC 6298 5.3 */
	if (f->recovering && seq_lt(ack, f->recover))
		tcp_retransmit(f); /* a partial ACK points at the next gap, RFC 6582 3.2 */
	else
		f->recovering = false;
	if (f->fin_sent && ack == f->snd_nxt)
		fin_acked(f);
}

static void input_dup_ack(struct tcp_flow *f)
{
	if (f->recovering || ++f->dupacks < DUP_ACKS)
		return;
	f->recovering = true;
	f->recover = f->snd_nxt;
	f->dupacks = 0;
	tcp_retransmit(f);
}

/* Does this ACK repeat the last one in all its parts (RFC 5681 2)? */
static bool is_duplicate(const struct tcp_flow *f, const struct packet *p, uint32_t wnd)
{
	return p->tcp.ack == f->snd_una && tcp_in_flight(f) && !p->payload_len &&
	       !(p->tcp.flags & TCP_FIN) && wnd == f->snd_wnd;
}

/* The window is taken from the newest segment only (RFC 9293 3.10.7.4). */
static void input_window(struct tcp_flow *f, const struct tcp_header *h, uint32_t wnd)
{
	if (seq_lt(f->snd_wl1, h->seq) || (f->snd_wl1 == h->seq && seq_leq(f->snd_wl2, h->ack))) {
		f->snd_wnd = wnd;
		f->snd_wl1 = h->seq;
		f->snd_wl2 = h->ack;
		if (wnd > f->snd_wnd_max)
			f->snd_wnd_max = wnd;
	}
}

/* The handshake's end. false: not the ACK of our SYN. */
static bool input_handshake(struct tcp_flow *f, const struct packet *p)
{
	if (p->tcp.ack != f->iss + 1) {
		tcp_refuse(f->tcp, p);
		return false;
	}
	tcp_flow_move(f, FLOW_ESTABLISHED);
	f->snd_wl2 = p->tcp.ack;
	return true;
}

/* false: the rest of the segment must not be looked at. */
static bool input_ack(struct tcp_flow *f, const struct packet *p, usec_t now)
{
	const struct tcp_header *h = &p->tcp;
	/* Never scaled in a SYN, RFC 7323 2.2. */
	uint32_t wnd = (uint32_t)h->window << (h->flags & TCP_SYN ? 0 : f->snd_scale);

	if (f->state == FLOW_SYN_RECEIVED && !input_handshake(f, p))
		return false;
	/* Of what was never sent, or older than any segment still under way could be: RFC 5961 5.2.
	 */
	if (seq_lt(f->snd_nxt, h->ack) || seq_lt(h->ack, f->snd_una - f->snd_wnd_max)) {
		tcp_challenge(f, now);
		return false;
	}
	if (seq_lt(f->snd_una, h->ack))
		input_new_ack(f, h->ack, now);
	else if (is_duplicate(f, p, wnd))
		input_dup_ack(f);
	if (!tcp_in_flight(f))
		f->retries = 0; /* whoever answers our window probes is alive */
	input_window(f, h, wnd);
	return !tcp_flow_over(f);
}

/* Our SYN is out (RFC 9293 3.10.7.3). */
static void input_syn_sent(struct tcp_flow *f, const struct packet *p, usec_t now)
{
	const struct tcp_header *h = &p->tcp;

	if (h->flags & TCP_ACK && h->ack != f->snd_nxt) {
		/* Of a connection before this one, which the reset ends, so that another SYN is
		 * worth while at once. */
		tcp_refuse(f->tcp, p);
		if (!f->retries && !(h->flags & TCP_RST))
			tcp_timer_set(f, FLOW_TIMER_RETRANSMIT, now + USEC_MSEC);
		return;
	}
	if (h->flags & TCP_RST && h->flags & TCP_ACK) {
		tcp_flow_abort(f);
		return;
	}
	if (h->flags & TCP_RST || !(h->flags & TCP_SYN)) {
		count_drop(tap_counters(f->tcp->tap), DROP_TCP_STATE);
		return;
	}
	/* Data or FIN that came along are not acknowledged, so the guest sends them again. */
	tcp_take_syn(f, p);
	if (h->flags & TCP_ACK) {
		tcp_flow_move(f, FLOW_ESTABLISHED);
		f->snd_wl2 = h->ack;
		input_new_ack(f, h->ack, now);
		f->ack_wanted = f->ack_now = true;
		tcp_flow_queue(f);
	} else {
		tcp_flow_move(f, FLOW_SYN_RECEIVED); /* 3.5: both opened at once */
		f->retries = 0;
		tcp_timer_retransmit(f, now);
		(void)tcp_send_syn(f);
	}
}

/* The guest's SYN again, when we have answered. With an ACK if both sides opened at once: then it
 * ends the handshake. */
static void input_syn_again(struct tcp_flow *f, const struct packet *p, usec_t now)
{
	if (!(p->tcp.flags & TCP_ACK)) {
		(void)tcp_send_syn(f);
	} else if (input_ack(f, p, now)) {
		f->ack_wanted = f->ack_now = true;
		tcp_flow_queue(f);
	}
}

/* Data that lies in the window: what is in order goes on, what is early is kept. */
static void input_data(struct tcp_flow *f, const struct packet *p)
{
	uint32_t seq = p->tcp.seq, len = (uint32_t)p->payload_len, end = seq + len;
	const uint8_t *data = p->payload;

	if (seq_lt(f->rcv_edge, end)) {
		end = f->rcv_edge; /* sent beyond the window, a probe as a rule: to be answered at
				      once */
		f->ack_now = true;
	}
	if (f->fin_known)
		end = seq_min(end, f->fin_seq);
	f->ack_wanted = true;
	if (seq_lt(seq, f->rcv_nxt)) {
		data += f->rcv_nxt - seq;
		seq = f->rcv_nxt;
	}
	if (!seq_lt(seq, end))
		return;
	if (seq != f->rcv_nxt) {
		tcp_keep_early(f, seq, data, end - seq);
		/* One ACK a segment: their number is what starts the guest's fast retransmit (RFC
		 * 5681 4.2). */
		(void)tcp_send_ack(f);
		return;
	}
	tcp_to_host(f, data, end - seq);
	/* A fast guest must not run out of credit while its batch is worked on. */
	if (f->rcv_nxt - f->rcv_acked < f->credit / 2)
		return;
	tcp_hand_over(f->tcp);
	if (!tcp_flow_over(f)) {
		tcp_grow_credit(f);
		(void)tcp_send_ack(f);
	}
}

/* Everything up to the guest's FIN is here. */
static void input_fin(struct tcp_flow *f)
{
	f->fin_received = true;
	f->rcv_nxt++;
	f->ack_wanted = f->ack_now = true;
	if (f->state == FLOW_ESTABLISHED)
		tcp_flow_move(f, FLOW_CLOSE_WAIT);
	else if (f->state == FLOW_FIN_WAIT_1)
		tcp_flow_move(f, FLOW_CLOSING);
	else
		tcp_flow_move(f, FLOW_TIME_WAIT);
}

/* States in which a segment has no window to lie in, and SYNs that mean more than a challenge.
 * true: that was all. */
static bool input_special(struct tcp_flow *f, const struct packet *p, usec_t now)
{
	const struct tcp_header *h = &p->tcp;

	if (f->state == FLOW_CONNECTING) {
		input_connecting(f, p);
	} else if (f->state == FLOW_SYN_SENT) {
		input_syn_sent(f, p, now);
	} else if (f->state == FLOW_RESETTING) {
		tcp_flow_queue(f);
	} else if (f->state == FLOW_SYN_RECEIVED && h->flags & TCP_SYN && !(h->flags & TCP_RST) &&
		   h->seq == f->irs) {
		input_syn_again(f, p, now);
	} else if (f->state == FLOW_TIME_WAIT && is_syn(h)) {
		tcp_flow_rename(f);
		tcp_open(f->tcp, p, now);
	} else {
		return false;
	}
	return true;
}

/* A segment of which only the data matters, and that next in line: nothing is sent because of it.
 */
static bool is_plain(const struct tcp_flow *f, const struct packet *p)
{
	return (p->tcp.flags & ~TCP_PSH) == TCP_ACK && p->payload_len && !f->fin_known &&
	       p->tcp.seq == f->rcv_nxt && p->tcp.ack == f->snd_una &&
	       p->payload_len <= f->rcv_edge - f->rcv_nxt;
}

void tcp_flow_input(struct tcp_flow *f, const struct packet *p, usec_t now)
{
	const struct tcp_header *h = &p->tcp;
	uint32_t fin_seq = h->seq + (uint32_t)p->payload_len;
	uint32_t len = (uint32_t)p->payload_len + !!(h->flags & TCP_SYN) + !!(h->flags & TCP_FIN);

	if (f->tcp->gather.count && !(f->tcp->gather.flow == f && is_plain(f, p)))
		tcp_hand_over(f->tcp);
	f->heard = now;
	f->probes = 0;
	if (input_special(f, p, now))
		return;
	if (!acceptable(f, h->seq, len)) {
		input_unacceptable(f, p, now);
		return;
	}
	if (h->flags & TCP_RST) {
		input_reset(f, h, now);
		return;
	}
	if (h->flags & TCP_SYN) { /* RFC 5961 4.2 */
		tcp_challenge(f, now);
		return;
	}
	if (!(h->flags & TCP_ACK)) {
		count_drop(tap_counters(f->tcp->tap), DROP_TCP_STATE);
		return;
	}
	if (!input_ack(f, p, now))
		return;
	if (h->flags & TCP_FIN && !f->fin_known && seq_leq(fin_seq, f->rcv_edge)) {
		f->fin_known = true;
		f->fin_seq = fin_seq;
	}
	if (p->payload_len && !f->fin_received) {
		f->heard_data = now;
		input_data(f, p);
	}
	if (f->fin_known)
		tcp_hand_over(f->tcp);
	if (f->fin_known && !f->fin_received && f->rcv_nxt == f->fin_seq && !tcp_flow_over(f))
		input_fin(f);
	tcp_flow_queue(f);
}
