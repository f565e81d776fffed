/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of the guest that come in one batch: they go to the socket together, and everything is
 * as if they had come one by one. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tcp_script.h"

#define ROW 100

static uint8_t data[ROW * GUEST_MSS];

static void give_row(struct script *s, const uint8_t *bytes, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		give(s, TCP_ACK, bytes + i * GUEST_MSS, GUEST_MSS);
}

/* More than one call takes, of which the last is short. */
static void row(struct script *s)
{
	fill(data, sizeof(data));
	script_reach(s, FLOW_ESTABLISHED);
	begin_batch(s);
	give_row(s, data, 30);
	give(s, TCP_ACK | TCP_PSH, data + 30 * GUEST_MSS, 7);
	give_batch(s);
	want_any(s); /* when half of the credit was used, and it was the host's by then */
	assert_true(s->got.tcp.ack - GUEST_ISN - 1 >= 32768);
	want(s, TCP_ACK, 0);
	want_nothing(s);
	peer_reads(s, data, 30 * GUEST_MSS + 7);
}

/* One system call: the peer's socket is not told of the first before the last is there. */
static void row_is_one_write(struct script *s)
{
	uint8_t got[5 * GUEST_MSS];

	fill(data, sizeof(data));
	script_reach(s, FLOW_ESTABLISHED);
	begin_batch(s);
	give_row(s, data, 5);
	give_batch(s);
	assert_int_equal(poll(&(struct pollfd){.fd = s->peer, .events = POLLIN}, 1, 10000), 1);
	/* On the loopback what is written at once is there at once, in segments larger than the
	 * guest's. */
	assert_int_equal(recv(s->peer, got, sizeof(got), MSG_DONTWAIT), sizeof(got));
	assert_memory_equal(got, data, sizeof(got));
	want(s, TCP_ACK, 0);
}

static void row_with_fin(struct script *s)
{
	fill(data, sizeof(data));
	script_reach(s, FLOW_ESTABLISHED);
	begin_batch(s);
	give_row(s, data, 3);
	give(s, TCP_ACK | TCP_FIN, data + 3 * GUEST_MSS, 5);
	give_batch(s);
	want(s, TCP_ACK, 0);
	peer_reads(s, data, 3 * GUEST_MSS + 5);
	peer_reads_end(s);
	assert_int_equal(script_state(s), FLOW_CLOSE_WAIT);
}

/* Data before a reset is the peer's. */
static void row_with_reset(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	begin_batch(s);
	give(s, TCP_ACK, "abc", 3);
	give(s, TCP_ACK, "def", 3);
	give(s, TCP_RST | TCP_ACK, NULL, 0);
	give_batch(s);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	want_nothing(s);
}

/* The third of five is lost, comes at the end of the batch, and the second comes twice. */
static void gap_and_repeat(struct script *s)
{
	uint32_t seq;

	fill(data, sizeof(data));
	script_reach(s, FLOW_ESTABLISHED);
	seq = s->seq;
	begin_batch(s);
	for (unsigned i = 0; i < 5; i++)
		if (i != 2)
			give_at(s, TCP_ACK, seq + i * GUEST_MSS, data + i * GUEST_MSS, GUEST_MSS);
	give_at(s, TCP_ACK, seq + GUEST_MSS, data + GUEST_MSS, GUEST_MSS);
	give_at(s, TCP_ACK, seq + 2 * GUEST_MSS, data + 2 * GUEST_MSS, GUEST_MSS);
	give_batch(s);
	/* One for each early segment, with what is there before the gap; and one for all. */
	s->seq = seq + 2 * GUEST_MSS;
	want(s, TCP_ACK, 0);
	want(s, TCP_ACK, 0);
	s->seq = seq + 5 * GUEST_MSS;
	want(s, TCP_ACK, 0);
	want_nothing(s);
	peer_reads(s, data, 5 * GUEST_MSS);
}

/* Overlap within the row, and data that takes an ACK of ours along. */
static void overlap_and_answer(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	peer_sends(s, "hello", 5);
	want(s, TCP_ACK | TCP_PSH, 5);
	s->ack -= 5;
	begin_batch(s);
	give(s, TCP_ACK, "abc", 3);
	s->ack += 5;
	give(s, TCP_ACK, "def", 3);
	give_at(s, TCP_ACK, s->seq - 2, "efgh", 4);
	s->seq += 2;
	give(s, TCP_ACK, "i", 1);
	give_batch(s);
	want(s, TCP_ACK, 0);
	assert_int_equal(tcp_in_flight(script_flow(s)), 0);
	peer_reads(s, "abcdefghi", 9);
}

static void two_flows(struct script *s)
{
	uint16_t port = s->guest.port;
	uint32_t seq[2];
	int peer;

	fill(data, sizeof(data));
	script_reach(s, FLOW_ESTABLISHED);
	peer = s->peer;
	seq[0] = s->seq;
	s->peer = -1;
	s->guest.port++;
	script_reach(s, FLOW_ESTABLISHED);
	seq[1] = s->seq;
	begin_batch(s);
	for (unsigned i = 0; i < 20; i++) {
		unsigned which = i % 3 == 0;

		s->guest.port = (uint16_t)(port + which);
		s->seq = seq[which];
		s->ack = script_flow(s)->snd_nxt;
		give(s, TCP_ACK, data + (s->seq - GUEST_ISN - 1), 100);
		seq[which] = s->seq;
	}
	give_batch(s);
	want_any(s);
	want_any(s);
	peer_reads(s, data, 7 * 100);
	fd_close(&s->peer);
	s->peer = peer;
	peer_reads(s, data, 13 * 100);
}

/* The peer does not read: what its socket does not take of a row is kept, and nothing is lost. */
static void row_into_a_full_socket(struct script *s)
{
	size_t total = 0, size = 64 << 10, read = 0;
	int least = 1;
	uint8_t *all;

	fill(data, sizeof(data));
	s->scale = 7;
	script_reach(s, FLOW_ESTABLISHED);
	assert_int_equal(setsockopt(s->peer, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)), 0);
	assert_int_equal(
	    setsockopt(script_flow(s)->sock.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
	for (int i = 0; i < 10000 && !(script_flow(s)->hold && tcp_held(script_flow(s)) > 20000);
	     i++) {
		uint32_t room = script_flow(s)->rcv_edge - s->seq;
		unsigned n = room / GUEST_MSS < 20 ? room / GUEST_MSS : 20;

		begin_batch(s);
		for (unsigned k = 0; k < n; k++) {
			give(s, TCP_ACK, data + total % size, GUEST_MSS);
			total += GUEST_MSS;
		}
		give_batch(s);
		while (take(s))
			;
		pass(s, 1);
	}
	assert_true(tcp_held(script_flow(s)) > 20000);
	all = malloc(total);
	assert_non_null(all);
	for (size_t at = 0; at < total; at += GUEST_MSS)
		memcpy(all + at, data + at % size, GUEST_MSS);
	while (read < total) {
		size_t part = total - read < 1000 ? total - read : 1000;

		peer_reads(s, all + read, part);
		read += part;
	}
	free(all);
	assert_int_equal(script_flow(s)->rcv_nxt, s->seq);
}

/* The socket fails within a row: the guest gets one reset. */
static void socket_fails(struct script *s)
{
	struct linger now = {1, 0};

	script_reach(s, FLOW_ESTABLISHED);
	assert_int_equal(setsockopt(s->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	fd_close(&s->peer);
	begin_batch(s);
	give(s, TCP_ACK, "abc", 3);
	give(s, TCP_ACK, "def", 3);
	give_batch(s);
	want_any(s);
	assert_true(s->got.tcp.flags & TCP_RST);
	want_nothing(s);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
}

#define EACH(name)                                                                                 \
	static void each_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		script_each(name);                                                                 \
	}
EACH(row)
EACH(row_is_one_write)
EACH(row_with_fin)
EACH(row_with_reset)
EACH(gap_and_repeat)
EACH(overlap_and_answer)
EACH(two_flows)
EACH(row_into_a_full_socket)
EACH(socket_fails)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_row),
	    cmocka_unit_test(each_row_is_one_write),
	    cmocka_unit_test(each_row_with_fin),
	    cmocka_unit_test(each_row_with_reset),
	    cmocka_unit_test(each_gap_and_repeat),
	    cmocka_unit_test(each_overlap_and_answer),
	    cmocka_unit_test(each_two_flows),
	    cmocka_unit_test(each_row_into_a_full_socket),
	    cmocka_unit_test(each_socket_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
