/* SPDX-License-Identifier: BSD-3-Clause */
/* Flows: the table of them, their states, their end. */
#include "tcp/tcp_flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tcp/tcp_source.h"

#define ACK_DELAY    200 /* microseconds that an ACK waits at most for data to travel with */
#define CREDIT_FIRST (64u << 10)
#define CREDIT_LEAST (16u << 10) /* when the budget is used up */

#define TO(state) (1u << FLOW_##state)

/* Which states may follow which (RFC 9293 3.3.2, figure 5). */
static const unsigned moves[FLOW_STATES] = {
    [FLOW_CLOSED] = 0,
    [FLOW_CONNECTING] = TO(ACCEPTED) | TO(SYN_RECEIVED) | TO(CLOSED) | TO(RESETTING),
    [FLOW_ACCEPTED] = TO(SYN_SENT) | TO(CLOSED),
    [FLOW_SYN_SENT] = TO(SYN_RECEIVED) | TO(ESTABLISHED) | TO(CLOSED) | TO(RESETTING),
    [FLOW_SYN_RECEIVED] = TO(ESTABLISHED) | TO(CLOSED) | TO(RESETTING),
    [FLOW_ESTABLISHED] = TO(CLOSE_WAIT) | TO(FIN_WAIT_1) | TO(CLOSED) | TO(RESETTING),
    [FLOW_CLOSE_WAIT] = TO(LAST_ACK) | TO(CLOSED) | TO(RESETTING),
    [FLOW_LAST_ACK] = TO(TIME_WAIT) | TO(CLOSED) | TO(RESETTING),
    [FLOW_FIN_WAIT_1] = TO(FIN_WAIT_2) | TO(CLOSING) | TO(CLOSED) | TO(RESETTING),
    [FLOW_FIN_WAIT_2] = TO(TIME_WAIT) | TO(CLOSED) | TO(RESETTING),
    [FLOW_CLOSING] = TO(TIME_WAIT) | TO(CLOSED) | TO(RESETTING),
    [FLOW_TIME_WAIT] = TO(CLOSED) | TO(RESETTING),
    [FLOW_RESETTING] = TO(CLOSED),
};

static const char *const state_names[FLOW_STATES] = {
    [FLOW_CLOSED] = "CLOSED",
    [FLOW_CONNECTING] = "CONNECTING",
    [FLOW_ACCEPTED] = "ACCEPTED",
    [FLOW_SYN_SENT] = "SYN-SENT",
    [FLOW_SYN_RECEIVED] = "SYN-RECEIVED",
    [FLOW_ESTABLISHED] = "ESTABLISHED",
    [FLOW_CLOSE_WAIT] = "CLOSE-WAIT",
    [FLOW_LAST_ACK] = "LAST-ACK",
    [FLOW_FIN_WAIT_1] = "FIN-WAIT-1",
    [FLOW_FIN_WAIT_2] = "FIN-WAIT-2",
    [FLOW_CLOSING] = "CLOSING",
    [FLOW_TIME_WAIT] = "TIME-WAIT",
    [FLOW_RESETTING] = "resetting",
};

static void log_move(const struct tcp_flow *f, enum flow_state to)
{
	char guest[IP_TEXT_MAX], peer[IP_TEXT_MAX];

	log_trace("TCP %s port %u to %s port %u: %s -> %s", ip_format(&f->guest.addr, guest),
		  f->guest.port, ip_format(&f->peer.addr, peer), f->peer.port,
		  state_names[f->state], state_names[to]);
}

void tcp_flow_move(struct tcp_flow *f, enum flow_state to)
{
	if (log_threshold() >= LOG_LEVEL_TRACE)
		log_move(f, to);
	if (!(moves[f->state] & 1u << to)) {
		log_debug("TCP: move from %s to %s is a fault of ours", state_names[f->state],
			  state_names[to]);
		if (f->state != FLOW_CLOSED)
			tcp_flow_reset(f);
		return;
	}
	f->state = to;
}

/* What a flow is found by. */
static uint64_t flow_hash(const struct tcp *t, const struct endpoint *guest,
			  const struct endpoint *peer)
{
	struct {
		struct ip_addr guest, peer;
		uint16_t guest_port, peer_port;
	} key = {guest->addr, peer->addr, guest->port, peer->port};

	_Static_assert(sizeof(key) == 36, "no padding is hashed");
	return hash_bytes(&t->key, &key, sizeof(key));
}

struct tcp_flow *tcp_flow_find(struct tcp *t, const struct endpoint *guest,
			       const struct endpoint *peer)
{
	uint64_t hash = flow_hash(t, guest, peer);
	struct hash_node *n = NULL;

	while ((n = hash_table_find(t->flows, hash, n))) {
		struct tcp_flow *f = container_of(n, struct tcp_flow, node);

		if (f->state != FLOW_ACCEPTED && tcp_flow_is(f, guest, peer))
			return f;
	}
	return NULL;
}

/* RFC 6528 3: a clock of 4 microseconds and a keyed hash of the addresses. */
static uint32_t initial_sequence(uint64_t hash, usec_t now)
{
	return (uint32_t)(now >> 2) + (uint32_t)(hash >> 32);
}

static void flow_ready(struct loop_source *src, uint32_t events, usec_t now)
{
	struct tcp_flow *f = container_of(src, struct tcp_flow, sock);
	struct tcp *t = f->tcp;

	if (f->state == FLOW_CONNECTING) {
		tcp_connected(f, events, now);
	} else if (events & EPOLLERR) {
		tcp_flow_reset(f);
	} else {
		if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP))
			f->readable = !f->eof;
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLPRI))
			f->read_on = true;
		if (events & EPOLLOUT)
			f->writable = true;
		tcp_flow_work(f, now);
	}
	tcp_reap(t);
}

static void take_credit(struct tcp_flow *f)
{
	struct tcp *t = f->tcp;

	f->credit =
	    t->committed + CREDIT_FIRST <= t->cfg.buffer_budget ? CREDIT_FIRST : CREDIT_LEAST;
	t->committed += f->credit;
}

/* As tcp_flow_new(), but nothing is counted. */
static int new_flow(struct tcp *t, const struct endpoint *guest, const struct endpoint *peer,
		    usec_t now, struct tcp_flow **out)
{
	struct tcp_flow *f = calloc(1, sizeof(*f));
	uint64_t hash;
	int r;

	if (!f)
		return -ENOMEM;
	f->tcp = t;
	f->guest = *guest;
	f->peer = *peer;
	f->sock = (struct loop_source){.fd = -1, .ready = flow_ready};
	f->state = FLOW_CONNECTING;
	f->dialogue = TCP_DIALOGUE; /* most begin with a question */
	f->heard = now;
	list_init(&f->work);
	list_init(&f->stuck);
	timer_init(&f->timer, tcp_timer_expire);
	for (int i = 0; i < FLOW_TIMERS; i++)
		f->due[i] = USEC_NEVER;
	hash = flow_hash(t, &f->guest, &f->peer);
	r = hash_table_add(t->flows, &f->node, hash);
	if (r < 0) {
		free(f);
		return r;
	}
	f->iss = initial_sequence(hash, now);
	f->snd_una = f->snd_nxt = f->iss;
	tcp_source_init(f, f->iss + 1);
	take_credit(f);
	*out = f;
	return 0;
}

int tcp_flow_new(struct tcp *t, const struct endpoint *guest, const struct endpoint *peer,
		 usec_t now, struct tcp_flow **out)
{
	int r;

	if (tcp_flow_count(t) >= t->cfg.flows_max) {
		count_drop(tap_counters(t->tap), DROP_FLOW_LIMIT);
		log_limited(&t->limit, now, LOG_LEVEL_WARN,
			    "TCP: no room for more than %u connections", t->cfg.flows_max);
		return -EUSERS;
	}
	r = new_flow(t, guest, peer, now, out);
	if (r < 0)
		count_drop(tap_counters(t->tap), DROP_NO_MEMORY);
	return r;
}

void tcp_flow_rename(struct tcp_flow *f)
{
	struct tcp *t = f->tcp;

	hash_table_remove(t->flows, &f->node);
	f->guest.port = 0;
	if (hash_table_add(t->flows, &f->node, flow_hash(t, &f->guest, &f->peer)) < 0)
		log_debug(
		    "TCP: a flow fell out of the table"); /* only an empty table needs memory */
}

/* Closes the socket and gives back all memory but f itself. */
static void release(struct tcp_flow *f)
{
	struct tcp *t = f->tcp;

	if (f->sock.fd >= 0) {
		loop_forget(t->loop, &f->sock);
		fd_close(&f->sock.fd);
	}
	if (t->gather.flow == f)
		t->gather.count = 0;
	tcp_source_free(f);
	tcp_hold_free(f->hold);
	f->hold = NULL;
	t->committed -= f->credit;
	f->credit = 0;
}

/* close(2) then sends a reset (socket(7), RFC 9293 3.10.5); if this fails the peer sees a FIN,
 * nothing worse. */
static void close_will_reset(struct tcp_flow *f)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	if (f->sock.fd >= 0)
		(void)setsockopt(f->sock.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void tcp_flow_finish(struct tcp_flow *f)
{
	struct tcp *t = f->tcp;

	release(f);
	tcp_flow_move(f, FLOW_CLOSED);
	timer_drop(loop_timers(t->loop), &f->timer);
	hash_table_remove(t->flows, &f->node);
	list_remove(&f->stuck);
	list_remove(&f->work);
	list_append(&t->dead, &f->work);
	loop_defer(t->loop, &t->again);
}

void tcp_flow_abort(struct tcp_flow *f)
{
	if (f->state == FLOW_CLOSED)
		return;
	close_will_reset(f);
	tcp_flow_finish(f);
}

void tcp_flow_reset(struct tcp_flow *f)
{
	if (tcp_flow_over(f))
		return;
	if (f->state == FLOW_ACCEPTED || tcp_send_reset(f)) {
		tcp_flow_abort(f);
		return;
	}
	close_will_reset(f);
	release(f);
	tcp_flow_move(f, FLOW_RESETTING);
	for (int i = 0; i < FLOW_TIMERS; i++)
		f->due[i] = USEC_NEVER;
	tcp_flow_queue(f);
}

void tcp_reap(struct tcp *t)
{
	while (!list_empty(&t->dead)) {
		struct tcp_flow *f = container_of(t->dead.next, struct tcp_flow, work);

		list_remove(&f->work);
		free(f);
	}
}

void tcp_flow_queue(struct tcp_flow *f)
{
	if (f->state == FLOW_CLOSED || !list_empty(&f->work))
		return;
	list_append(&f->tcp->work, &f->work);
	loop_defer(f->tcp->loop, &f->tcp->again);
}

/* Sends the ACK that is owed, if no data took it along. Where question and answer take turns, it
 * waits a moment for the answer; not for a second segment, and not when the guest needs it to go
 * on: with Nagle's algorithm its next small write waits for us. */
static void settle_ack(struct tcp_flow *f, usec_t now)
{
	bool wait = f->dialogue >= TCP_DIALOGUE && !f->ack_now &&
		    f->due[FLOW_TIMER_WORK] == USEC_NEVER && f->state == FLOW_ESTABLISHED &&
		    f->rcv_nxt - f->rcv_acked < f->mss;

	if (!f->ack_wanted)
		return;
	if (wait)
		tcp_timer_set(f, FLOW_TIMER_WORK, now + ACK_DELAY);
	else if (!tcp_send_ack(f))
		tcp_timer_link_full(f, now);
}

void tcp_flow_work(struct tcp_flow *f, usec_t now)
{
	uint32_t acked = seq_min(f->snd_una, f->src.end);

	if (f->state == FLOW_CLOSED || f->state == FLOW_CONNECTING || f->state == FLOW_SYN_SENT)
		return;
	if (f->state == FLOW_ACCEPTED) {
		tcp_accept_try(f, now);
		return;
	}
	if (f->state == FLOW_RESETTING) {
		if (tcp_send_reset(f))
			tcp_flow_finish(f);
		else
			tcp_timer_link_full(f, now);
		return;
	}
	if (seq_lt(f->src.base, acked))
		tcp_source_release(f, acked);
	tcp_drain(f);
	tcp_output(f, now);
	if (tcp_flow_over(f))
		return;
	settle_ack(f, now);
	if (f->state == FLOW_TIME_WAIT && !f->ack_wanted && f->shut) {
		tcp_flow_finish(f);
		return;
	}
	if (f->due[FLOW_TIMER_RETRANSMIT] == USEC_NEVER)
		tcp_timer_retransmit(f, now);
}
