/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments to the guest. */
#include "tcp/tcp_flow.h"
#include "tcp/tcp_source.h"

#define TURN_SHARE     (512u << 10) /* bytes one flow sends before others have their turn */
#define CHALLENGES     1000 /* a second: RFC 5961 7 leaves the number open, Linux has this one */
#define IP_PACKET_MAX  65535
#define HALF_LEAST     16384 /* a smaller window, once filled, opens as the guest reads */
#define DIALOGUE_QUICK 200   /* microseconds in which an answer must come to make a dialogue */
#define TTL            255

/* ---- any frame */

static bool send_frame(struct tcp *t, struct ip_header *ip, const struct tcp_header *h,
		       const struct tcp_segment *s, uint16_t mss)
{
	enum ip_family family = ip_family(&ip->src);
	uint8_t head[EMIT_HEADERS_MAX];
	size_t tcp_len = emit_tcp_len(&h->opt), at;
	struct iovec iov[3] = {{head, 0}};
	struct tap_out out = {.iov = iov, .iov_count = 1 + s->payload_count};
	unsigned sent = 0;

	ip->proto = IPPROTO_TCP;
	ip->ttl = TTL;
	ip->dont_fragment = true;
	at = tap_emit_eth(t->tap, head, family);
	at += emit_ip(head + at, ip, tcp_len + s->len);
	out.off.csum_partial = true;
	out.off.csum_start = (uint16_t)at;
	out.off.csum_offset = 16; /* of the checksum in a TCP header */
	emit_tcp(head + at, h);
	emit_l4_pseudo(head + at, tcp_len + s->len, ip);
	at += tcp_len;
	if (s->len > mss) {
		out.off.gso = family == IP_V4 ? GSO_TCP4 : GSO_TCP6;
		out.off.gso_size = mss;
		out.off.header_len = (uint16_t)at;
	}
	iov[0].iov_len = at;
	for (int i = 0; i < s->payload_count; i++)
		iov[1 + i] = s->payload[i];
	return tap_send(t->tap, &out, 1, &sent) == 0 && sent == 1;
}

void tcp_refuse(struct tcp *t, const struct packet *p)
{
	const struct tcp_header *h = &p->tcp;
	struct ip_header ip = {.src = p->ip.dst, .dst = p->ip.src};
	struct tcp_header rst = {
	    .src_port = h->dst_port, .dst_port = h->src_port, .flags = TCP_RST};
	struct tcp_segment nothing = {0};

	count_drop(tap_counters(t->tap), DROP_TCP_STATE);
	if (h->flags & TCP_RST || !ip_is_unicast(&p->ip.src) || !ip_is_unicast(&p->ip.dst))
		return;
	if (h->flags & TCP_ACK) {
		rst.seq = h->ack;
	} else {
		rst.flags |= TCP_ACK;
		rst.ack = h->seq + (uint32_t)p->payload_len + !!(h->flags & TCP_SYN) +
			  !!(h->flags & TCP_FIN);
	}
	(void)send_frame(t, &ip, &rst, &nothing, h->opt.mss);
}

/* ---- frames of a flow */

/* The window to tell: credit less what waits, its right edge never behind where it was, and not
 * moved by a silly little (RFC 9293 3.8.6.2.2). Rounding to the scale may tell less than that; what
 * was promised before stays good (RFC 7323 2.4). */
static uint16_t window_field(struct tcp_flow *f, uint8_t scale)
{
	uint32_t edge = f->sock_nxt + f->credit, wnd;

	if (seq_lt(edge, f->rcv_edge) ||
	    (tcp_held(f) && edge - f->rcv_edge < f->mss && edge - f->rcv_edge < f->credit / 2))
		edge = f->rcv_edge;
	edge = seq_max(edge, f->rcv_nxt); /* a FIN takes no room, but may lie just beyond */
	wnd = (edge - f->rcv_nxt) >> scale;
	if (wnd > UINT16_MAX)
		wnd = UINT16_MAX;
	f->rcv_edge = seq_max(f->rcv_edge, f->rcv_nxt + (wnd << scale));
	return (uint16_t)wnd;
}

static void add_sack(const struct tcp_flow *f, struct tcp_options *opt)
{
	struct seq_range ranges[TCP_SACK_MAX];

	opt->sack_count = (uint8_t)tcp_hold_ranges(f->hold, ranges, TCP_SACK_MAX);
	for (unsigned i = 0; i < opt->sack_count; i++) {
		opt->sack[i].start = ranges[i].start;
		opt->sack[i].end = ranges[i].end;
	}
}

static void flow_headers(const struct tcp_flow *f, struct ip_header *ip, struct tcp_header *h)
{
	*ip = (struct ip_header){.src = f->peer.addr,
				 .dst = f->guest.addr,
				 .flow_label = (uint32_t)f->node.hash & 0xfffff};
	*h = (struct tcp_header){.src_port = f->peer.port, .dst_port = f->guest.port};
	if (f->mss) { /* known by the guest's SYN, before which there is nothing to acknowledge */
		h->flags = TCP_ACK;
		h->ack = f->rcv_nxt;
	}
}

/* Bytes in a segment: never more than half of the largest window, since a receiver may wait for a
 * second one before it acknowledges (RFC 9293 3.8.6.2.1 counts on windows of two at least). A guest
 * with an MTU of 65520 that does not scale windows would get one segment each 40 ms. */
static uint16_t segment_size(const struct tcp_flow *f)
{
	uint32_t half = f->snd_wnd_max / 2;

	return half >= HALF_LEAST && half < f->mss ? (uint16_t)half : f->mss;
}

bool tcp_send_segment(struct tcp_flow *f, const struct tcp_segment *s)
{
	struct ip_header ip;
	struct tcp_header h;

	flow_headers(f, &ip, &h);
	h.seq = s->seq;
	h.flags |= s->flags;
	h.window = window_field(f, f->rcv_scale);
	if (f->hold && f->sack_on && !s->len)
		add_sack(f, &h.opt);
	if (!send_frame(f->tcp, &ip, &h, s, segment_size(f)))
		return false;
	f->link_tries = 0;
	f->rcv_acked = f->rcv_nxt;
	if (f->ack_wanted) {
		f->ack_wanted = f->ack_now = false;
		tcp_timer_set(f, FLOW_TIMER_WORK, USEC_NEVER);
	}
	return true;
}

bool tcp_send_syn(struct tcp_flow *f)
{
	struct tcp_segment nothing = {0};
	struct ip_header ip;
	struct tcp_header h;

	flow_headers(f, &ip, &h);
	h.seq = f->iss;
	h.flags |= TCP_SYN;
	h.window = window_field(f, 0);
	h.opt.has_mss = true;
	h.opt.mss = (uint16_t)(tap_mtu(f->tcp->tap) - (tcp_flow_family(f) == IP_V4 ? 40 : 60));
	h.opt.has_wscale = f->rcv_scale != 0;
	h.opt.wscale = f->rcv_scale;
	h.opt.has_sack_permitted = f->sack_on;
	return send_frame(f->tcp, &ip, &h, &nothing, f->mss);
}

bool tcp_send_ack(struct tcp_flow *f)
{
	return tcp_send_segment(f, &(struct tcp_segment){.seq = f->snd_nxt});
}

bool tcp_send_probe(struct tcp_flow *f)
{
	return tcp_send_segment(f, &(struct tcp_segment){.seq = f->snd_una - 1});
}

void tcp_challenge(struct tcp_flow *f, usec_t now)
{
	struct tcp *t = f->tcp;

	if (now - t->challenge_since >= USEC_SEC) {
		t->challenge_since = now;
		t->challenge_count = 0;
	}
	if (t->challenge_count++ < CHALLENGES)
		(void)tcp_send_ack(f);
}

/* Before the handshake was answered a reset answers the guest's SYN: RFC 9293 3.10.7.1. */
bool tcp_send_reset(struct tcp_flow *f)
{
	struct tcp_segment nothing = {0};
	struct ip_header ip;
	struct tcp_header h;

	flow_headers(f, &ip, &h);
	h.flags |= TCP_RST;
	h.seq = f->snd_nxt == f->iss ? 0 : f->snd_nxt;
	return send_frame(f->tcp, &ip, &h, &nothing, f->mss);
}

/* ---- data */

/* Payload of the longest frame: whole segments in an IP packet of 65535 bytes. */
static uint32_t frame_payload(const struct tcp_flow *f)
{
	uint32_t most = IP_PACKET_MAX - (tcp_flow_family(f) == IP_V4 ? 40 : 60);

	return most - most % segment_size(f);
}

/* How much the next frame may carry; 0: nothing for now. */
static uint32_t next_length(const struct tcp_flow *f)
{
	uint32_t flying = tcp_in_flight(f), room = flying < f->snd_wnd ? f->snd_wnd - flying : 0;
	uint32_t most = frame_payload(f), size = segment_size(f);

	/* A small piece of window is left alone while an ACK is to come that brings more (RFC
	 * 9293 3.8.6.2.1). */
	if (room < size && flying && room < f->snd_wnd_max / 2)
		return 0;
	if (room >= most)
		return most;
	return room > size ? room - room % size : room;
}

/* len bytes (and FIN) from snd_nxt on have gone out for the first time. */
static void sent(struct tcp_flow *f, uint32_t len, bool fin, usec_t now)
{
	f->snd_nxt += len + fin;
	if (!f->timed_at) {
		f->timed_at = now;
		f->timed_seq = f->snd_nxt;
	}
	if (f->heard_data) {
		f->dialogue = now - f->heard_data > DIALOGUE_QUICK ? 0
			      : f->dialogue < UINT8_MAX            ? f->dialogue + 1
								   : f->dialogue;
		f->heard_data = 0;
	}
	if (fin) {
		f->fin_sent = true;
		tcp_flow_move(f, f->state == FLOW_CLOSE_WAIT ? FLOW_LAST_ACK : FLOW_FIN_WAIT_1);
	}
	if (f->due[FLOW_TIMER_RETRANSMIT] == USEC_NEVER)
		tcp_timer_retransmit(f, now);
}

static void carry(struct tcp_segment *s, const struct tcp_span *data)
{
	s->payload = data->iov;
	s->payload_count = data->iov_count;
	s->len = data->len;
}

/* Sends the next frame of at most most bytes. Returns its length; 0: nothing more to send now. */
static uint32_t send_next(struct tcp_flow *f, uint32_t most, usec_t now)
{
	struct tcp_segment s = {.seq = f->snd_nxt};
	struct tcp_span data;
	uint32_t len;
	bool fin;

	if (tcp_source_get(f, f->snd_nxt, most, &data) < 0) {
		tcp_flow_reset(f);
		return 0;
	}
	len = data.len;
	fin = f->eof && f->snd_nxt + len == f->src.end;
	if (!len && !fin)
		return 0;
	carry(&s, &data);
	if (fin)
		s.flags |= TCP_FIN;
	if (len < most || !f->readable)
		s.flags |= TCP_PSH;
	if (!tcp_send_segment(f, &s)) {
		tcp_timer_link_full(f, now);
		return 0;
	}
	sent(f, len, fin, now);
	return len;
}

void tcp_output(struct tcp_flow *f, usec_t now)
{
	uint32_t share = TURN_SHARE;

	while (tcp_can_send(f)) {
		bool waiting = f->readable || f->src.end != f->snd_nxt || f->eof;
		uint32_t most = next_length(f), len;

		if (!waiting || (!most && !(f->eof && f->src.end == f->snd_nxt)))
			return;
		if (share < most) {
			tcp_flow_queue(f);
			return;
		}
		len = send_next(f, most, now);
		if (!len)
			return;
		share -= len;
	}
}

/* The oldest frame again: what gets lost on a tap is a frame, so that much is sent. It is not timed
 * (Karn, RFC 6298 3). */
void tcp_retransmit(struct tcp_flow *f)
{
	uint32_t left = f->snd_nxt - f->fin_sent - f->snd_una, most = frame_payload(f);
	struct tcp_segment s = {.seq = f->snd_una, .flags = TCP_PSH};
	struct tcp_span data = {.len = 0};

	f->timed_at = 0;
	if (left && tcp_source_get(f, f->snd_una, left < most ? left : most, &data) < 0) {
		tcp_flow_reset(f);
		return;
	}
	carry(&s, &data);
	if (f->fin_sent && f->snd_una + data.len + 1 == f->snd_nxt)
		s.flags |= TCP_FIN;
	(void)tcp_send_segment(f, &s); /* if the link is full the timer tries again */
}
