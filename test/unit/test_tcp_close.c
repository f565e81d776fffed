/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections end, and how they stay: FINs in every order, resets in every state, silence. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tcp_script.h"

#define FIN_FROM_PEER (TCP_FIN | TCP_PSH | TCP_ACK)

static void want_gone(struct script *s)
{
	want_nothing(s);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
}

static void guest_closes_first(struct script *s)
{
	script_reach(s, FLOW_CLOSE_WAIT);
	peer_reads_end(s);
	/* The other direction goes on for as long as it likes. */
	pass(s, 3600 * USEC_SEC);
	want_nothing(s);
	peer_sends(s, "still here", 10);
	want(s, TCP_ACK | TCP_PSH, 10);
	give(s, TCP_ACK, NULL, 0);
	assert_int_equal(shutdown(s->peer, SHUT_WR), 0);
	want(s, FIN_FROM_PEER, 0);
	assert_int_equal(script_state(s), FLOW_LAST_ACK);
	give(s, TCP_ACK, NULL, 0);
	want_gone(s);
}

static void peer_closes_first(struct script *s)
{
	script_reach(s, FLOW_FIN_WAIT_2);
	pass(s, 3600 * USEC_SEC);
	want_nothing(s);
	give(s, TCP_ACK | TCP_PSH, "still here", 10);
	want(s, TCP_ACK, 0);
	peer_reads(s, "still here", 10);
	give(s, TCP_FIN | TCP_ACK, "bye", 3);
	want(s, TCP_ACK, 0);
	want_gone(s);
	peer_reads(s, "bye", 3);
	peer_reads_end(s);
}

/* The last data and the FIN behind it travel together. */
static void fin_rides_on_data(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	peer_sends(s, "bye", 3);
	assert_int_equal(shutdown(s->peer, SHUT_WR), 0);
	want(s, FIN_FROM_PEER, 3);
	assert_memory_equal(s->got.payload, "bye", 3);
	give(s, TCP_ACK, NULL, 0);
	assert_int_equal(script_state(s), FLOW_FIN_WAIT_2);
}

static void both_close_at_once(struct script *s)
{
	script_reach(s, FLOW_CLOSING);
	give(s, TCP_ACK, NULL, 0);
	want_gone(s);
	peer_reads_end(s);
}

/* FIN and its ACK of our FIN in one segment. */
static void fin_with_ack_of_fin(struct script *s)
{
	script_reach(s, FLOW_FIN_WAIT_1);
	give(s, TCP_FIN | TCP_ACK, NULL, 0);
	want(s, TCP_ACK, 0);
	want_gone(s);
	peer_reads_end(s);
}

static void fin_is_sent_again(struct script *s)
{
	script_reach(s, FLOW_FIN_WAIT_1);
	script_flow(s)->srtt = 0;
	pass(s, 120 * USEC_SEC);
	s->ack--;
	want(s, FIN_FROM_PEER, 0);
	give(s, TCP_ACK, NULL, 0);
	assert_int_equal(script_state(s), FLOW_FIN_WAIT_2);
}

/* The guest's FIN comes before the data that precedes it. */
static void early_fin(struct script *s)
{
	uint32_t at;

	script_reach(s, FLOW_ESTABLISHED);
	at = s->seq;
	give_at(s, TCP_FIN | TCP_ACK, at + 5, "later", 5);
	want(s, TCP_ACK, 0);
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
	give_at(s, TCP_ACK, at, "first", 5);
	s->seq = at + 11;
	want(s, TCP_ACK, 0);
	assert_int_equal(script_state(s), FLOW_CLOSE_WAIT);
	peer_reads(s, "firstlater", 10);
	peer_reads_end(s);
}

static void fin_repeated(struct script *s)
{
	script_reach(s, FLOW_CLOSE_WAIT);
	give_at(s, TCP_FIN | TCP_ACK, s->seq - 1, NULL, 0);
	want(s, TCP_ACK, 0);
	assert_int_equal(script_state(s), FLOW_CLOSE_WAIT);
}

/* The guest has closed both ways, but the peer has not read all: the flow stays until it has, then
 * ends cleanly. */
static void drains_after_close(struct script *s)
{
	static uint8_t data[16 << 20];
	uint32_t sent = 0;

	fill(data, sizeof(data));
	script_reach(s, FLOW_FIN_WAIT_2);
	while (!script_flow(s)->hold) {
		give(s, TCP_ACK, data + sent, 60000);
		sent += 60000;
		want(s, TCP_ACK, 0);
	}
	give(s, TCP_FIN | TCP_ACK, NULL, 0);
	want(s, TCP_ACK, 0);
	want_nothing(s);
	assert_int_equal(script_state(s), FLOW_TIME_WAIT);
	/* A late reset changes nothing (RFC 1337). */
	give_at(s, TCP_RST, s->seq, NULL, 0);
	assert_int_equal(script_state(s), FLOW_TIME_WAIT);
	peer_reads(s, data, sent);
	peer_reads_end(s);
	want_gone(s);
}

/* Meanwhile the guest connects anew from the same port. */
static void same_port_while_draining(struct script *s)
{
	static uint8_t data[16 << 20];
	uint32_t sent = 0;
	int first;

	fill(data, sizeof(data));
	script_reach(s, FLOW_FIN_WAIT_2);
	while (!script_flow(s)->hold) {
		give(s, TCP_ACK, data + sent, 60000);
		sent += 60000;
		want(s, TCP_ACK, 0);
	}
	give(s, TCP_FIN | TCP_ACK, NULL, 0);
	want(s, TCP_ACK, 0);
	assert_int_equal(script_state(s), FLOW_TIME_WAIT);
	first = s->peer;
	script_reach(s, FLOW_ESTABLISHED);
	assert_int_equal(tcp_flow_count(s->tcp), 2);
	give(s, TCP_ACK, "new", 3);
	want(s, TCP_ACK, 0);
	peer_reads(s, "new", 3);
	fd_close(&s->peer);
	s->peer = first;
	peer_reads(s, data, sent);
	peer_reads_end(s);
	assert_int_equal(tcp_flow_count(s->tcp), 1);
}

static const enum flow_state open_states[] = {FLOW_SYN_RECEIVED, FLOW_ESTABLISHED, FLOW_CLOSE_WAIT,
					      FLOW_LAST_ACK,     FLOW_FIN_WAIT_1,  FLOW_FIN_WAIT_2,
					      FLOW_CLOSING};

/* Another connection of the same script. */
static void next_connection(struct script *s)
{
	give_at(s, TCP_RST, s->seq, NULL, 0);
	want_gone(s);
	fd_close(&s->peer);
	s->guest.port++;
}

/* A reset with the right number ends the connection in every state, at the peer too if it can still
 * see that. */
static void guest_resets(struct script *s)
{
	for (unsigned i = 0; i < COUNT(open_states); i++) {
		script_reach(s, open_states[i]);
		give_at(s, TCP_RST, s->seq, NULL, 0);
		want_gone(s);
		if (open_states[i] < FLOW_CLOSE_WAIT || open_states[i] == FLOW_FIN_WAIT_1 ||
		    open_states[i] == FLOW_FIN_WAIT_2)
			peer_reads_reset(s);
		next_connection(s);
	}
	script_reach(s, FLOW_CONNECTING);
	give_at(s, TCP_RST, GUEST_ISN + 1, NULL, 0);
	want_gone(s);
}

/* In the window but not exact: asked to prove itself. Outside: ignored. RFC 5961 3.2. */
static void wrong_resets(struct script *s)
{
	for (unsigned i = 0; i < COUNT(open_states); i++) {
		script_reach(s, open_states[i]);
		if (script_flow(s)->rcv_edge !=
		    s->seq) { /* after the guest's FIN there is no window */
			give_at(s, TCP_RST, s->seq + 1, NULL, 0);
			want_any(s);
			assert_int_equal(s->got.tcp.flags, TCP_ACK);
			assert_int_equal(s->got.tcp.ack, s->seq);
		}
		give_at(s, TCP_RST, s->seq - 1, NULL, 0);
		give_at(s, TCP_RST, s->seq + 0x1000000, NULL, 0);
		want_nothing(s);
		assert_int_equal(script_state(s), open_states[i]);
		next_connection(s);
	}
}

/* A SYN in the window: RFC 5961 4.2. */
static void syn_is_challenged(struct script *s)
{
	for (unsigned i = 1; i < COUNT(open_states); i++) {
		script_reach(s, open_states[i]);
		give_at(s, TCP_SYN, s->seq, NULL, 0);
		want_any(s);
		assert_int_equal(s->got.tcp.flags, TCP_ACK);
		assert_int_equal(s->got.tcp.ack, s->seq);
		assert_int_equal(script_state(s), open_states[i]);
		next_connection(s);
	}
}

static void peer_resets(struct script *s)
{
	static const enum flow_state states[] = {FLOW_SYN_RECEIVED, FLOW_ESTABLISHED,
						 FLOW_CLOSE_WAIT, FLOW_FIN_WAIT_1, FLOW_FIN_WAIT_2};
	struct linger now = {1, 0};

	for (unsigned i = 0; i < COUNT(states); i++) {
		script_reach(s, states[i]);
		assert_int_equal(setsockopt(s->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
		fd_close(&s->peer);
		want_any(s);
		assert_int_equal(s->got.tcp.flags, TCP_RST | TCP_ACK);
		assert_int_equal(s->got.tcp.seq, s->ack);
		want_gone(s);
		next_connection(s);
	}
}

/* The link is full just then: the guest hears of it as soon as there is room, and the flow stays so
 * long. */
static void reset_waits_for_the_link(struct script *s)
{
	struct linger now = {1, 0};

	script_reach(s, FLOW_ESTABLISHED);
	mem_link_set_room(s->link, 0);
	assert_int_equal(setsockopt(s->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	fd_close(&s->peer);
	for (int i = 0; i < 500 && script_state(s) != FLOW_RESETTING; i++)
		pass(s, 1);
	assert_int_equal(script_state(s), FLOW_RESETTING);
	give(s, TCP_ACK, "x", 1);
	for (int i = 0; i < 10; i++)
		pass(s, USEC_SEC);
	mem_link_set_room(s->link, UINT_MAX);
	pass(s, 127 * USEC_MSEC);
	want_nothing(s);
	pass(s, USEC_MSEC);
	want_reset(s);
	want_gone(s);
}

static void segment_without_ack(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	give_at(s, TCP_PSH, s->seq, "x", 1);
	want_nothing(s);
	assert_int_equal(s->counters.dropped[DROP_TCP_STATE], 1);
	assert_int_equal(script_flow(s)->rcv_nxt, s->seq);
}

/* The guest's probes are answered, and the host probes the peer from then on. */
static void guest_keeps_alive(struct script *s)
{
	int on = 0;
	socklen_t len = sizeof(on);

	script_reach(s, FLOW_ESTABLISHED);
	for (int i = 0; i < 3; i++) {
		give_at(s, TCP_ACK, s->seq - 1, "x", (size_t)i % 2);
		want(s, TCP_ACK, 0);
		pass(s, 60 * USEC_SEC);
	}
	assert_int_equal(getsockopt(script_flow(s)->sock.fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len),
			 0);
	assert_int_equal(on, 1);
	want_nothing(s);
}

/* Idle for days, the connection stays while the guest answers our rare probes. */
static void idle_connection_stays(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	for (int i = 0; i < 30; i++) {
		pass(s, 7200 * USEC_SEC - 1);
		want_nothing(s);
		pass(s, 1);
		want_any(s);
		assert_int_equal(s->got.tcp.flags, TCP_ACK);
		assert_int_equal(s->got.tcp.seq, s->ack - 1);
		give(s, TCP_ACK, NULL, 0);
		turn(s);
	}
	peer_sends(s, "x", 1);
	want(s, TCP_ACK | TCP_PSH, 1);
}

static void vanished_guest_ends(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	pass(s, 7200 * USEC_SEC);
	for (int i = 0; i < 9; i++) {
		want_any(s);
		assert_int_equal(s->got.tcp.flags, TCP_ACK);
		want_nothing(s);
		pass(s, 75 * USEC_SEC);
	}
	want_reset(s);
	want_gone(s);
	peer_reads_reset(s);
}

static void challenges_are_limited(struct script *s)
{
	unsigned n = 0;

	script_reach(s, FLOW_ESTABLISHED);
	for (int i = 0; i < 1100; i++) {
		give_at(s, TCP_SYN, s->seq, NULL, 0);
		while (take(s))
			n++;
	}
	assert_int_equal(n, 1000);
	pass(s, USEC_SEC);
	give_at(s, TCP_SYN, s->seq, NULL, 0);
	want(s, TCP_ACK, 0);
}

#define EACH(name)                                                                                 \
	static void each_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		script_each(name);                                                                 \
	}
EACH(guest_closes_first)
EACH(peer_closes_first)
EACH(fin_rides_on_data)
EACH(both_close_at_once)
EACH(fin_with_ack_of_fin)
EACH(fin_is_sent_again)
EACH(early_fin)
EACH(fin_repeated)
EACH(drains_after_close)
EACH(same_port_while_draining)
EACH(guest_resets)
EACH(wrong_resets)
EACH(syn_is_challenged)
EACH(peer_resets)
EACH(reset_waits_for_the_link)
EACH(segment_without_ack)
EACH(guest_keeps_alive)
EACH(idle_connection_stays)
EACH(vanished_guest_ends)
EACH(challenges_are_limited)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_guest_closes_first),
	    cmocka_unit_test(each_peer_closes_first),
	    cmocka_unit_test(each_fin_rides_on_data),
	    cmocka_unit_test(each_both_close_at_once),
	    cmocka_unit_test(each_fin_with_ack_of_fin),
	    cmocka_unit_test(each_fin_is_sent_again),
	    cmocka_unit_test(each_early_fin),
	    cmocka_unit_test(each_fin_repeated),
	    cmocka_unit_test(each_drains_after_close),
	    cmocka_unit_test(each_same_port_while_draining),
	    cmocka_unit_test(each_guest_resets),
	    cmocka_unit_test(each_wrong_resets),
	    cmocka_unit_test(each_syn_is_challenged),
	    cmocka_unit_test(each_peer_resets),
	    cmocka_unit_test(each_reset_waits_for_the_link),
	    cmocka_unit_test(each_segment_without_ack),
	    cmocka_unit_test(each_guest_keeps_alive),
	    cmocka_unit_test(each_idle_connection_stays),
	    cmocka_unit_test(each_vanished_guest_ends),
	    cmocka_unit_test(each_challenges_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
