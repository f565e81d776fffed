/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection of the guest: what we know of it, and what the files of this room call of each
 * other. "Guest" is the far end on the tap, whose TCP we answer; "peer" is whoever the host socket
 * talks to. Variables carry the names of RFC 9293 3.3.1, as seen from our endpoint facing the
 * guest. */
#ifndef TCP_FLOW_H
#define TCP_FLOW_H

#include "core/hash.h"
#include "core/list.h"
#include "core/log.h"
#include "nat/forward.h"
#include "tcp/seq.h"
#include "tcp/tcp.h"
#include "tcp/tcp_hold.h"

/* Our endpoint facing the guest, by the names of RFC 9293 3.3.2. */
enum flow_state {
	FLOW_CLOSED,     /* over; freed at the end of the turn */
	FLOW_CONNECTING, /* the guest's SYN is known, the host socket is not connected yet: nothing
			    was answered */
	FLOW_ACCEPTED,   /* the other way round: the host socket is connected, and the guest was not
			    asked yet, since it may still have a connection of the same ends */
	FLOW_SYN_SENT,
	FLOW_SYN_RECEIVED, /* SYN-ACK sent */
	FLOW_ESTABLISHED,
	FLOW_CLOSE_WAIT, /* the guest's FIN was received */
	FLOW_LAST_ACK,   /* and ours sent after it */
	FLOW_FIN_WAIT_1, /* our FIN was sent first */
	FLOW_FIN_WAIT_2, /* and acknowledged */
	FLOW_CLOSING,    /* both FINs crossed, ours is not acknowledged */
	FLOW_TIME_WAIT,  /* the guest's side is done; kept only until our last ACK is out and the
			    peer has all data */
	FLOW_RESETTING,  /* broken off; the link was full, so the guest does not know yet */
	FLOW_STATES
};

/* What can be due. A flow has one struct timer, set to the earliest. */
enum flow_timer {
	FLOW_TIMER_RETRANSMIT, /* SYN-ACK, data, FIN; probes of a zero window */
	FLOW_TIMER_WORK,       /* an ACK that was put off, or the link was full */
	FLOW_TIMER_IDLE,       /* nothing heard of the guest for hours */
	FLOW_TIMERS
};

/* Data from the host socket that the guest has not acknowledged (tcp_source.h). */
struct tcp_source_ops;
struct tcp_source {
	const struct tcp_source_ops *ops;
	uint32_t base; /* sequence number of the oldest byte kept */
	uint32_t end;  /* and of the byte after the newest known */
	/* Taken out of the socket, and kept here. */
	uint8_t *ring;
	uint32_t ring_size;
	bool draining; /* the ring was full: no more goes in, so that peeking takes over */
	/* Left in the socket: where the kernel's SO_PEEK_OFF points, as a sequence number. */
	uint32_t offset;
	bool offset_on;
};

struct tcp_flow {
	struct hash_node node;
	struct loop_source sock;
	struct list work;  /* in tcp->work when something is to be done, in tcp->dead at the end */
	struct list stuck; /* in tcp->stuck from when the link was full until it has room */
	struct timer timer;
	usec_t due[FLOW_TIMERS];
	struct tcp *tcp;
	struct endpoint guest, peer; /* both as the guest names them */
	enum flow_state state;

	/* The host socket, which reports edges only: these remember them. */
	bool readable, writable;
	bool read_on;   /* a short read says nothing: FIN or urgent data is there, so read until
			   EAGAIN or 0 */
	bool eof;       /* read 0: the peer's FIN; src.end is the sequence number of ours */
	bool shut;      /* the guest's FIN was passed on by shutdown(2) */
	bool keepalive; /* SO_KEEPALIVE is on, because the guest probes */

	/* Guest -> host. Sequence numbers from sock_nxt to rcv_nxt are in hold. */
	uint32_t irs, rcv_nxt;
	/* Furthest right edge of the window ever told: all before it is accepted */
	uint32_t rcv_edge;
	uint32_t rcv_acked; /* rcv_nxt as the guest knows it */
	uint32_t sock_nxt;  /* next byte for the socket */
	uint32_t credit;    /* bytes beyond sock_nxt that we promise to keep */
	uint32_t fin_seq;
	bool fin_known, fin_received; /* a FIN was seen at fin_seq; rcv_nxt has passed it */
	struct tcp_hold *hold;

	/* Host -> guest. */
	uint32_t iss, snd_una, snd_nxt, snd_wnd, snd_wl1, snd_wl2, snd_wnd_max;
	uint32_t recover; /* snd_nxt when loss was noticed, RFC 6582 3.2 */
	bool recovering, fin_sent, sack_on;
	uint16_t mss;
	uint8_t snd_scale, rcv_scale;
	uint8_t dupacks, retries, probes;
	uint8_t link_tries; /* in a row that found the link full */
	struct tcp_source src;

	/* Round-trip time, RFC 6298, in microseconds. */
	uint32_t srtt, rttvar;
	uint32_t timed_seq;
	usec_t timed_at; /* 0: no segment is being timed */

	/* What is owed to the guest. */
	bool ack_wanted;   /* an ACK, at the latest at the end of the batch */
	bool ack_now;      /* and not later */
	uint8_t dialogue;  /* how often in a row the peer answered quickly: an ACK may wait for the
			      answer */
	usec_t heard;      /* last segment from the guest */
	usec_t heard_data; /* last data from the guest not answered yet; 0: none */
};

#define TCP_SPARE_RINGS  8
#define TCP_GATHER_PARTS 64

/* Segments of one flow, in order, that go to the socket by one system call: rcv_nxt is beyond them,
 * sock_nxt not yet. They lie in the batch of frames that is being handled. */
struct tcp_gather {
	struct tcp_flow *flow;
	struct iovec iov[TCP_GATHER_PARTS];
	int count; /* 0: nothing */
	uint32_t len;
};

struct tcp {
	struct loop *loop;
	struct tap *tap;
	const struct nat_config *nat;
	struct tcp_config cfg;
	struct hash_table *flows;
	struct hash_key key;
	bool can_peek[IP_FAMILIES]; /* the kernel has SO_PEEK_OFF for TCP */
	uint8_t *buffer;            /* one frame's payload, for the peeking source */
	/* For the ring source: bytes in use, and rings that wait for a flow. */
	size_t ring_bytes;
	unsigned spare_count;
	struct {
		uint8_t *ring;
		uint32_t size;
	} spare[TCP_SPARE_RINGS];
	struct tcp_gather gather;
	struct list work, dead;
	struct list stuck; /* flows that found the link full, in order of their turns */
	struct loop_task again;
	size_t committed; /* bytes of cfg.buffer_budget promised to flows */
	struct log_limit limit;
	struct tcp_acceptor *acceptor; /* NULL: no forwarding */
	usec_t challenge_since;
	unsigned challenge_count;
};

/* ---- tcp_flow.c: life and death */

#define TCP_WSCALE 7 /* ours: windows up to 8 MiB, in steps of 128 bytes */

/* A flow in the table, FLOW_CONNECTING and without a socket. 0 or negative errno, which has been
 * counted as a drop. */
int tcp_flow_new(struct tcp *t, const struct endpoint *guest, const struct endpoint *peer,
		 usec_t now, struct tcp_flow **out) must_check;
/* The flow of these ends; none that the guest has yet to hear of. */
struct tcp_flow *tcp_flow_find(struct tcp *t, const struct endpoint *guest,
			       const struct endpoint *peer);

/* f is done with the guest, and the same ports are used anew: puts f in the table under a port that
 * no guest has. */
void tcp_flow_rename(struct tcp_flow *f);

/* The only place where a state changes. A move that the table does not allow costs the flow. */
void tcp_flow_move(struct tcp_flow *f, enum flow_state to);

/* Ends f now: socket closed, out of the table, freed by tcp_reap(). The first ends a connection
 * that is complete on both sides; the second tells both ends by a reset; the third only the peer,
 * since the guest knows. */
void tcp_flow_finish(struct tcp_flow *f);
void tcp_flow_reset(struct tcp_flow *f);
void tcp_flow_abort(struct tcp_flow *f);

/* Frees ended flows. Called last by whatever the loop or the tap called: so nobody holds a freed
 * flow. */
void tcp_reap(struct tcp *t);

/* Puts f on the list of those with something to do, handled by tcp_flush() or at the end of the
 * turn. */
void tcp_flow_queue(struct tcp_flow *f);

/* Does what can be done for f: data either way, ACK, end. */
void tcp_flow_work(struct tcp_flow *f, usec_t now);

/* Are these the ends of f? */
static inline bool tcp_flow_is(const struct tcp_flow *f, const struct endpoint *guest,
			       const struct endpoint *peer)
{
	return f->guest.port == guest->port && f->peer.port == peer->port &&
	       ip_equal(&f->guest.addr, &guest->addr) && ip_equal(&f->peer.addr, &peer->addr);
}

static inline enum ip_family tcp_flow_family(const struct tcp_flow *f)
{
	return ip_family(&f->peer.addr);
}

/* Nothing is left of the connection, though the struct may live on for a while. */
static inline bool tcp_flow_over(const struct tcp_flow *f)
{
	return f->state == FLOW_CLOSED || f->state == FLOW_RESETTING;
}

/* Data and FIN may still be sent to the guest. */
static inline bool tcp_can_send(const struct tcp_flow *f)
{
	return f->state == FLOW_ESTABLISHED || f->state == FLOW_CLOSE_WAIT;
}

static inline uint32_t tcp_in_flight(const struct tcp_flow *f)
{
	return f->snd_nxt - f->snd_una;
}

/* ---- tcp_open.c: connections the guest opens */

void tcp_open(struct tcp *t, const struct packet *p, usec_t now);
/* Notes what the guest's SYN says: the first, another while nothing was answered, or the answer to
 * ours. */
void tcp_take_syn(struct tcp_flow *f, const struct packet *p);
/* Sets the options of a host socket that don't depend on the flow. 0 or negative errno. */
int tcp_socket_options(int fd) must_check;
/* The host socket of a FLOW_CONNECTING flow is ready: connected or failed. */
void tcp_connected(struct tcp_flow *f, uint32_t events, usec_t now);

/* ---- tcp_accept.c: connections to the guest */

/* Carries the accepted socket fd over the tap: d has the ends as the guest names them. Takes fd in
 * any case: if there can be no connection, now or later, its peer gets a reset. 0 or negative
 * errno. */
int tcp_accept(struct tcp *t, int fd, const struct forward_decision *d, usec_t now) must_check;

/* Asks the guest about a FLOW_ACCEPTED flow, if it can be done by now. */
void tcp_accept_try(struct tcp_flow *f, usec_t now);

/* ---- tcp_input.c: segments from the guest */

void tcp_flow_input(struct tcp_flow *f, const struct packet *p, usec_t now);

/* ---- tcp_output.c: segments to the guest. Those that return bool: false if the link was full. */

struct tcp_segment {
	uint32_t seq;
	uint8_t flags; /* beside ACK */
	const struct iovec *payload;
	int payload_count;
	size_t len;
};
bool tcp_send_segment(struct tcp_flow *f, const struct tcp_segment *s);
/* SYN in FLOW_SYN_SENT, else SYN-ACK. */
bool tcp_send_syn(struct tcp_flow *f);
bool tcp_send_ack(struct tcp_flow *f);
/* Old sequence number, no data: makes the guest answer with its window (RFC 9293 3.8.6.1, 3.8.4).
 */
bool tcp_send_probe(struct tcp_flow *f);
bool tcp_send_reset(struct tcp_flow *f);
/* An ACK that an attacker could provoke: limited in number (RFC 5961 7). */
void tcp_challenge(struct tcp_flow *f, usec_t now);
/* Answers a segment that belongs to no flow (RFC 9293 3.10.7.1). */
void tcp_refuse(struct tcp *t, const struct packet *p);

/* Sends data and FIN as far as window and this turn's share allow. */
void tcp_output(struct tcp_flow *f, usec_t now);
/* Sends the frame at snd_una again. */
void tcp_retransmit(struct tcp_flow *f);

/* ---- tcp_send.c: guest -> host */

/* Takes in-order data at rcv_nxt: to the socket, and what it doesn't take into the hold. It may
 * wait for more in the same batch: data stays valid until tcp_hand_over(). */
void tcp_to_host(struct tcp_flow *f, const uint8_t *data, uint32_t len);
/* Hands over what waits for more, if that is so. Nothing is acknowledged before. */
void tcp_hand_over(struct tcp *t);
/* Keeps data beyond rcv_nxt. */
void tcp_keep_early(struct tcp_flow *f, uint32_t seq, const uint8_t *data, uint32_t len);
/* The socket may take more: hands over what is held, then the guest's FIN. */
void tcp_drain(struct tcp_flow *f);
/* In-order bytes that the socket has not taken. */
uint32_t tcp_held(const struct tcp_flow *f);
/* Lets a flow that uses its credit up have more. */
void tcp_grow_credit(struct tcp_flow *f);

/* ---- tcp_timer.c */

void tcp_timer_expire(struct timer *timer, usec_t now);
/* Sets or (USEC_NEVER) clears one deadline. */
void tcp_timer_set(struct tcp_flow *f, enum flow_timer kind, usec_t when);
/* The link was full: goes on when it has room (tcp_link_ready()), or, if it does not tell, tries
 * again, the later the longer it lasts. */
void tcp_timer_link_full(struct tcp_flow *f, usec_t now);
/* Does now what FLOW_TIMER_WORK is for. */
void tcp_timer_work(struct tcp_flow *f, usec_t now);
/* (Re)starts the retransmission timer. */
void tcp_timer_retransmit(struct tcp_flow *f, usec_t now);
/* The guest acknowledged up to ack: takes a round-trip sample if that segment was timed. */
void tcp_rtt_sample(struct tcp_flow *f, uint32_t ack, usec_t now);

#define TCP_DIALOGUE 3 /* quick answers in a row until it is worth waiting for the next */
#define TCP_IDLE     (7200 * USEC_SEC) /* until an idle guest is probed, RFC 9293 3.8.4 */

#endif
