/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of a flow: retransmission with a time-out from the measured round-trip time (RFC 6298),
 * probes of a shut window (RFC 9293 3.8.6.1), ACKs put off, the guest that is never heard again
 * (3.8.4). */
#include "tcp/tcp_flow.h"

#define RTO_MIN         (200 * USEC_MSEC)
#define RTO_MAX         (120 * USEC_SEC)
#define RTO_FIRST       (1 * USEC_SEC) /* before the first sample, RFC 6298 2.1 */
#define GRANULARITY     (1 * USEC_MSEC)
#define RETRIES         11 /* the 12th time-out, seven minutes after the first, ends the flow */
#define SYN_ACK_RETRIES 5  /* a minute */
/* Seconds between SYNs to the guest, and until we give up. The first are even: a guest that has
 * just begun to listen is found sooner (RFC 6298 5.5 asks for doubling, to spare a network, and
 * here is none). */
static const uint8_t syn_waits[] = {1, 1, 1, 1, 1, 2, 4, 8};
#define SYN_RETRIES (sizeof(syn_waits) - 1)
#define PROBE_EVERY (75 * USEC_SEC)
#define LINK_TRIES  7 /* 128 ms: a guest that is stopped must cost next to nothing */
#define PROBES      9

void tcp_timer_set(struct tcp_flow *f, enum flow_timer kind, usec_t when)
{
	usec_t first = USEC_NEVER;

	f->due[kind] = when;
	for (int i = 0; i < FLOW_TIMERS; i++)
		first = f->due[i] < first ? f->due[i] : first;
	if (timer_set(loop_timers(f->tcp->loop), &f->timer, first) < 0) {
		log_debug("TCP: no memory for a timer");
		tcp_flow_reset(f);
	}
}

void tcp_timer_link_full(struct tcp_flow *f, usec_t now)
{
	usec_t wait = USEC_MSEC << f->link_tries;

	list_remove(&f->stuck);
	list_append(&f->tcp->stuck, &f->stuck);
	if (tap_tells_room(f->tcp->tap))
		return;
	if (f->link_tries < LINK_TRIES)
		f->link_tries++;
	tcp_timer_set(f, FLOW_TIMER_WORK, now + wait);
}

/* RFC 6298 2.2 and 2.3. */
void tcp_rtt_sample(struct tcp_flow *f, uint32_t ack, usec_t now)
{
	uint32_t r, error;

	if (!f->timed_at || seq_lt(ack, f->timed_seq))
		return;
	r = now - f->timed_at > RTO_MAX ? (uint32_t)RTO_MAX : (uint32_t)(now - f->timed_at);
	f->timed_at = 0;
	if (!f->srtt) {
		f->srtt = r ? r : 1;
		f->rttvar = r / 2;
		return;
	}
	error = r > f->srtt ? r - f->srtt : f->srtt - r;
	f->rttvar += error / 4 - f->rttvar / 4;
	f->srtt += r / 8 - f->srtt / 8;
}

static usec_t time_out(const struct tcp_flow *f)
{
	usec_t spread = 4 * (usec_t)f->rttvar, rto = RTO_FIRST;

	if (f->state == FLOW_SYN_SENT)
		return syn_waits[f->retries] * USEC_SEC;
	if (f->srtt)
		rto = f->srtt + (spread > GRANULARITY ? spread : GRANULARITY);
	if (rto < RTO_MIN)
		rto = RTO_MIN;
	rto <<= f->retries; /* 5.5 */
	return rto > RTO_MAX ? RTO_MAX : rto;
}

/* Data waits, and neither is any under way nor does the window allow more. */
static bool window_shut(const struct tcp_flow *f)
{
	return tcp_can_send(f) && !tcp_in_flight(f) && !f->snd_wnd &&
	       (f->readable || f->src.end != f->snd_nxt);
}

void tcp_timer_retransmit(struct tcp_flow *f, usec_t now)
{
	if (tcp_in_flight(f) || window_shut(f))
		tcp_timer_set(f, FLOW_TIMER_RETRANSMIT, now + time_out(f));
}

static unsigned most_retries(const struct tcp_flow *f)
{
	return f->state == FLOW_SYN_SENT       ? SYN_RETRIES
	       : f->state == FLOW_SYN_RECEIVED ? SYN_ACK_RETRIES
					       : RETRIES;
}

static void retransmit_due(struct tcp_flow *f, usec_t now)
{
	if (!tcp_in_flight(f) && !window_shut(f))
		return;
	if (f->retries >= most_retries(f)) {
		tcp_flow_reset(f);
		return;
	}
	f->retries++;
	if (f->state == FLOW_SYN_SENT || f->state == FLOW_SYN_RECEIVED) {
		f->timed_at = 0; /* RFC 6298 3 */
		(void)tcp_send_syn(f);
	} else if (tcp_in_flight(f)) {
		f->recovering = true;
		f->recover = f->snd_nxt;
		f->dupacks = 0;
		tcp_retransmit(f);
	} else {
		(void)tcp_send_probe(f);
	}
	if (!tcp_flow_over(f))
		tcp_timer_retransmit(f, now);
}

/* An ACK waited for an answer that did not come in time: no dialogue. Or the link was full. */
void tcp_timer_work(struct tcp_flow *f, usec_t now)
{
	if (f->ack_wanted) {
		f->ack_now = true;
		f->dialogue = 0;
	}
	tcp_flow_work(f, now);
}

/* A guest that vanished leaves no trace but silence. In TIME-WAIT it has said good-bye, and the
 * peer takes no more data. */
static void idle_due(struct tcp_flow *f, usec_t now)
{
	usec_t quiet_at = f->heard + TCP_IDLE;

	if (!f->probes && quiet_at > now) {
		tcp_timer_set(f, FLOW_TIMER_IDLE, quiet_at);
	} else if (f->probes >= PROBES || f->state == FLOW_TIME_WAIT) {
		tcp_flow_reset(f);
	} else {
		f->probes++;
		(void)tcp_send_probe(f);
		tcp_timer_set(f, FLOW_TIMER_IDLE, now + PROBE_EVERY);
	}
}

void tcp_timer_expire(struct timer *timer, usec_t now)
{
	static void (*const due[FLOW_TIMERS])(struct tcp_flow *,
					      usec_t) = {[FLOW_TIMER_RETRANSMIT] = retransmit_due,
							 [FLOW_TIMER_WORK] = tcp_timer_work,
							 [FLOW_TIMER_IDLE] = idle_due};
	struct tcp_flow *f = container_of(timer, struct tcp_flow, timer);
	struct tcp *t = f->tcp;

	for (int i = 0; i < FLOW_TIMERS && f->state != FLOW_CLOSED; i++) {
		if (f->due[i] <= now) {
			f->due[i] = USEC_NEVER;
			due[i](f, now);
		}
	}
	/* The struct timer is off now: set it for what is left. */
	if (f->state != FLOW_CLOSED)
		tcp_timer_set(f, FLOW_TIMER_WORK, f->due[FLOW_TIMER_WORK]);
	tcp_reap(t);
}
