/* SPDX-License-Identifier: BSD-3-Clause */
/* Data both ways: order, windows, acknowledgement, retransmission. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tcp/tcp_source.h"
#include "tcp_script.h"

static void guest_to_peer(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	give(s, TCP_ACK | TCP_PSH, "hello", 5);
	want(s, TCP_ACK, 0);
	peer_reads(s, "hello", 5);
	/* Urgent data stays in line. */
	give_header(s, &(struct tcp_header){.flags = TCP_ACK | TCP_URG, .seq = s->seq, .urgent = 2},
		    "abc", 3);
	s->seq += 3;
	want(s, TCP_ACK, 0);
	peer_reads(s, "abc", 3);
}

static void peer_to_guest(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	peer_sends(s, "hello", 5);
	want(s, TCP_ACK | TCP_PSH, 5);
	assert_memory_equal(s->got.payload, "hello", 5);
	give(s, TCP_ACK, NULL, 0);
	pass(s, 10 * USEC_SEC);
	want_nothing(s);
}

static void peer_urgent_in_line(struct script *s)
{
	uint8_t all[8];
	size_t n = 0;

	script_reach(s, FLOW_ESTABLISHED);
	peer_sends(s, "ab", 2);
	assert_int_equal(send(s->peer, "U", 1, MSG_OOB), 1);
	peer_sends(s, "cd", 2);
	while (n < 5) {
		want_any(s);
		assert_int_equal(s->got.tcp.seq, s->ack);
		memcpy(all + n, s->got.payload, s->got.payload_len);
		n += s->got.payload_len;
		s->ack += (uint32_t)s->got.payload_len;
		give(s, TCP_ACK, NULL, 0);
	}
	assert_memory_equal(all, "abUcd", 5);
}

/* Long data goes as super-frames of whole segments, each of the most that fits an IP packet, and
 * within the window. */
static void super_frames(struct script *s)
{
	static uint8_t data[100000];
	size_t n = 0, most = (65535u - (s->family == IP_V4 ? 40 : 60)) / GUEST_MSS * GUEST_MSS;

	fill(data, sizeof(data));
	s->window = 65000;
	script_reach(s, FLOW_ESTABLISHED);
	peer_sends(s, data, sizeof(data));
	while (n < sizeof(data)) {
		want_any(s);
		assert_int_equal(s->got.tcp.seq, s->ack);
		assert_true(s->got.payload_len <= most);
		if (s->got.payload_len > GUEST_MSS)
			assert_int_equal(s->got.gso_size, GUEST_MSS);
		assert_memory_equal(s->got.payload, data + n, s->got.payload_len);
		n += s->got.payload_len;
		s->ack += (uint32_t)s->got.payload_len;
		if (n < sizeof(data))
			assert_int_equal(s->got.payload_len % GUEST_MSS, 0);
		give(s, TCP_ACK, NULL, 0);
	}
}

/* A window that one segment would fill gets two, so that the guest acknowledges at once. */
static void two_segments_a_window(struct script *s)
{
	static uint8_t data[100000];

	fill(data, sizeof(data));
	script_reach(s, FLOW_ESTABLISHED);
	script_flow(s)->mss = 65000;
	peer_sends(s, data, sizeof(data));
	for (int i = 0; i < 2; i++) {
		want(s, TCP_ACK, 65535 / 2);
		assert_memory_equal(s->got.payload, data + i * (65535 / 2), 65535 / 2);
	}
	want_nothing(s);
}

/* An answer begins as one of a dialogue, and turns out to be bulk: from the ring to the socket
 * itself, if the kernel can. */
static void long_answer(struct script *s)
{
	static uint8_t data[200000];
	bool can_peek = s->tcp->can_peek[s->family];
	size_t n = 0;

	fill(data, sizeof(data));
	s->scale = 7;
	s->window = 1u << 20;
	script_reach(s, FLOW_ESTABLISHED);
	script_flow(s)->dialogue = TCP_DIALOGUE;
	peer_sends(s, data, sizeof(data));
	while (n < sizeof(data)) {
		want_any(s);
		if (!n)
			assert_ptr_equal(script_flow(s)->src.ops, &tcp_source_ring);
		assert_int_equal(s->got.tcp.seq, s->ack);
		assert_memory_equal(s->got.payload, data + n, s->got.payload_len);
		n += s->got.payload_len;
		s->ack += (uint32_t)s->got.payload_len;
		give(s, TCP_ACK, NULL, 0);
	}
	assert_ptr_equal(script_flow(s)->src.ops, can_peek ? &tcp_source_peek : &tcp_source_ring);
	assert_null(script_flow(s)->src.ring);
	/* And back. */
	script_flow(s)->dialogue = TCP_DIALOGUE;
	peer_sends(s, "short", 5);
	want(s, TCP_ACK | TCP_PSH, 5);
	assert_memory_equal(s->got.payload, "short", 5);
	give(s, TCP_ACK, NULL, 0);
	script_flow(s)->dialogue = 0;
	peer_sends(s, data, 1000);
	want(s, TCP_ACK | TCP_PSH, 1000);
	peer_sends(s, data + 1000, 1000);
	want(s, TCP_ACK | TCP_PSH, 1000);
	assert_memory_equal(s->got.payload, data + 1000, 1000);
}

/* The peer does not read. Everything within the window is acknowledged, the window closes, its
 * right edge never moves left by more than the scale rounds off; when the peer reads again the
 * window opens unasked and nothing was lost. */
static void slow_reader(struct script *s)
{
	static uint8_t data[16 << 20];
	uint32_t edge = 0, window = UINT32_MAX, sent = 0;

	fill(data, sizeof(data));
	script_reach(s, FLOW_ESTABLISHED);
	window = (uint32_t)script_flow(s)->rcv_edge - s->seq;
	while (window) {
		uint32_t len = window < 60000 ? window : 60000;

		assert_true(sent + len <= sizeof(data));
		give(s, TCP_ACK, data + sent, len);
		sent += len;
		want(s, TCP_ACK, 0);
		window = got_window(s);
		assert_true(!edge || (int32_t)(s->seq + window - edge) > -(1 << s->their_scale));
		edge = s->seq + window;
	}
	want_nothing(s);
	/* What the scale rounds off was promised before, and is taken. */
	window = script_flow(s)->rcv_edge - s->seq;
	assert_true(window < 1u << s->their_scale);
	if (window) {
		give(s, TCP_ACK, data + sent, window);
		want(s, TCP_ACK, 0);
		sent += window;
	}
	/* A probe of the shut window is answered, and its data not taken. */
	give_at(s, TCP_ACK, s->seq, "?", 1);
	want(s, TCP_ACK, 0);
	assert_int_equal(got_window(s), 0);
	give_at(s, TCP_ACK, s->seq - 1, NULL, 0);
	want(s, TCP_ACK, 0);
	assert_int_equal(got_window(s), 0);
	peer_reads(s, data, sent);
	want(s, TCP_ACK, 0);
	assert_true(got_window(s) >= 65000);
	assert_null(script_flow(s)->hold);
	give(s, TCP_ACK | TCP_PSH, "on", 2);
	while (take(s))
		;
	peer_reads(s, "on", 2);
}

/* Early segments are kept and reported; the gap filled, all goes on at once. */
static void early_segments(struct script *s)
{
	uint32_t at;

	script_reach(s, FLOW_ESTABLISHED);
	at = s->seq;
	give_at(s, TCP_ACK, at + 6, "world", 5);
	want(s, TCP_ACK, 0);
	assert_int_equal(s->got.tcp.opt.sack_count, 1);
	assert_int_equal(s->got.tcp.opt.sack[0].start, at + 6);
	assert_int_equal(s->got.tcp.opt.sack[0].end, at + 11);
	give_at(s, TCP_ACK, at + 12, "!", 1);
	want(s, TCP_ACK, 0);
	assert_int_equal(s->got.tcp.opt.sack_count, 2);
	assert_int_equal(s->got.tcp.opt.sack[0].start, at + 12); /* the newest first, RFC 2018 4 */
	assert_int_equal(s->got.tcp.opt.sack[1].start, at + 6);
	give_at(s, TCP_ACK, at, "hello,", 6);
	s->seq = at + 11;
	want(s, TCP_ACK, 0);
	assert_int_equal(s->got.tcp.opt.sack_count, 1);
	peer_reads(s, "hello,world", 11);
	give_at(s, TCP_ACK, at + 11, "?", 1);
	s->seq = at + 13;
	want(s, TCP_ACK, 0);
	assert_int_equal(s->got.tcp.opt.sack_count, 0);
	peer_reads(s, "?!", 2);
	turn(s);
	assert_null(script_flow(s)->hold);
}

static void duplicates_and_overlap(struct script *s)
{
	uint32_t at;

	script_reach(s, FLOW_ESTABLISHED);
	at = s->seq;
	give(s, TCP_ACK, "abcdef", 6);
	want(s, TCP_ACK, 0);
	give_at(s, TCP_ACK, at, "abcdef", 6); /* all known: answered, not passed on */
	want(s, TCP_ACK, 0);
	give_at(s, TCP_ACK, at + 4, "efgh", 4);
	s->seq = at + 8;
	want(s, TCP_ACK, 0);
	give_at(s, TCP_ACK, at + 9, "jkl", 3);
	give_at(s, TCP_ACK, at + 10, "klmn", 4);
	give_at(s, TCP_ACK, at + 8, "ijkl", 4);
	s->seq = at + 14;
	while (s->got.tcp.ack != s->seq)
		want_any(s);
	peer_reads(s, "abcdefghijklmn", 14);
}

/* Data and FIN of the guest beyond the window are not taken. */
static void beyond_window(struct script *s)
{
	static uint8_t data[65535];
	struct tcp_flow *f;
	uint32_t credit;

	script_reach(s, FLOW_ESTABLISHED);
	f = script_flow(s);
	credit = f->rcv_edge - f->rcv_nxt;
	give_at(s, TCP_ACK, s->seq + credit + 1, "x", 1);
	want(s, TCP_ACK, 0);
	give_at(s, TCP_ACK | TCP_FIN, s->seq + credit - 100, data, 200);
	want(s, TCP_ACK, 0);
	assert_int_equal(s->got.tcp.opt.sack[0].end, f->rcv_edge);
	assert_false(f->fin_known);
}

static void rto_doubles_and_ends(struct script *s)
{
	usec_t rto = USEC_SEC;

	script_reach(s, FLOW_ESTABLISHED);
	script_flow(s)->srtt = 0;
	peer_sends(s, "hello", 5);
	want(s, TCP_ACK | TCP_PSH, 5);
	for (int i = 0; i < 11; i++) {
		pass(s, rto - 1);
		want_nothing(s);
		pass(s, 1);
		s->ack -= 5;
		want(s, TCP_ACK | TCP_PSH, 5);
		assert_memory_equal(s->got.payload, "hello", 5);
		rto = 2 * rto < 120 * USEC_SEC ? 2 * rto : 120 * USEC_SEC;
	}
	pass(s, rto);
	want_reset(s);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	peer_reads_reset(s);
}

/* One round trip of 300 ms gives SRTT 300, RTTVAR 150: RTO 900 ms (RFC 6298 2.2). */
static void rto_is_measured(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	script_flow(s)->srtt = 0;
	peer_sends(s, "a", 1);
	want(s, TCP_ACK | TCP_PSH, 1);
	s->now += 300 * USEC_MSEC;
	give(s, TCP_ACK, NULL, 0);
	peer_sends(s, "b", 1);
	want(s, TCP_ACK | TCP_PSH, 1);
	pass(s, 900 * USEC_MSEC - 1);
	want_nothing(s);
	pass(s, 1);
	s->ack--;
	want(s, TCP_ACK | TCP_PSH, 1);
	/* A segment sent twice gives no sample (Karn), and the doubled time-out stays until one
	 * does. */
	s->now += 1700 * USEC_MSEC;
	give(s, TCP_ACK, NULL, 0);
	assert_int_equal(script_flow(s)->srtt, 300 * USEC_MSEC);
}

static void fast_retransmit(struct script *s)
{
	static uint8_t data[4 * GUEST_MSS];
	uint32_t lost;

	fill(data, sizeof(data));
	script_reach(s, FLOW_ESTABLISHED);
	for (int i = 0; i < 4; i++) {
		peer_sends(s, data + i * GUEST_MSS, GUEST_MSS);
		want_any(s);
		assert_int_equal(s->got.payload_len, GUEST_MSS);
	}
	lost = s->ack;
	give(s, TCP_ACK, NULL, 0);
	give(s, TCP_ACK, NULL, 0);
	want_nothing(s);
	give(s, TCP_ACK, NULL, 0);
	want(s, TCP_ACK | TCP_PSH, 4 * GUEST_MSS);
	assert_memory_equal(s->got.payload, data, sizeof(data));
	give(s, TCP_ACK, NULL, 0);
	want_nothing(s);
	assert_int_equal(script_flow(s)->snd_una, lost + sizeof(data));
	assert_false(script_flow(s)->recovering);
}

/* Neither a window update nor an ACK with data is a duplicate (RFC 5681 2). */
static void not_duplicates(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	peer_sends(s, "hello", 5);
	want_any(s);
	for (int i = 0; i < 4; i++) {
		s->window -= 1000;
		give(s, TCP_ACK, NULL, 0);
		give(s, TCP_ACK, "x", 1);
		want_any(s);
		assert_int_equal(s->got.payload_len, 0);
	}
	want_nothing(s);
}

static void zero_window_is_probed(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	s->window = 0;
	give(s, TCP_ACK, NULL, 0);
	peer_sends(s, "hello", 5);
	want_nothing(s);
	for (int i = 0; i < 40; i++) {
		pass(s, 120 * USEC_SEC);
		want_any(s);
		assert_int_equal(s->got.tcp.seq, s->ack - 1);
		assert_int_equal(s->got.payload_len, 0);
		give(s, TCP_ACK, NULL, 0);
		want_nothing(s);
	}
	s->window = 3;
	give(s, TCP_ACK, NULL, 0);
	want(s, TCP_ACK, 3);
	s->window = 5000;
	give(s, TCP_ACK, NULL, 0);
	want(s, TCP_ACK | TCP_PSH, 2);
}

/* A guest that answers no probe is gone. */
static void probes_end(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	s->window = 0;
	give(s, TCP_ACK, NULL, 0);
	peer_sends(s, "hello", 5);
	turn(s);
	for (int i = 0; i < 11; i++) {
		pass(s, 120 * USEC_SEC);
		want_any(s);
		assert_int_equal(s->got.tcp.flags, TCP_ACK);
	}
	pass(s, 120 * USEC_SEC);
	want_reset(s);
	peer_reads_reset(s);
}

/* More than 2^24 bytes under way, acknowledged in one go. */
static void huge_window_ack(struct script *s)
{
	const uint32_t much = (16u << 20) + 100;
	struct tcp_flow *f;

	s->scale = 10;
	s->window = 32u << 20;
	script_reach(s, FLOW_ESTABLISHED);
	f = script_flow(s);
	assert_int_equal(f->snd_wnd, 32u << 20);
	f->snd_nxt += much;
	f->src.base = f->src.end = f->snd_nxt;
	s->ack += much;
	give(s, TCP_ACK, NULL, 0);
	want_nothing(s);
	assert_int_equal(f->snd_una, s->ack);
	peer_sends(s, "on", 2);
	want(s, TCP_ACK | TCP_PSH, 2);
}

/* An ACK of what was never sent is answered, not believed (RFC 5961 5.2). */
static void impossible_acks(struct script *s)
{
	uint32_t una;

	script_reach(s, FLOW_ESTABLISHED);
	una = script_flow(s)->snd_una;
	give_header(s, &(struct tcp_header){.flags = TCP_ACK, .seq = s->seq, .ack = s->ack + 1},
		    "x", 1);
	want(s, TCP_ACK, 0);
	give_header(
	    s, &(struct tcp_header){.flags = TCP_ACK, .seq = s->seq, .ack = s->ack - 0x10000000},
	    "x", 1);
	want(s, TCP_ACK, 0);
	assert_int_equal(script_flow(s)->snd_una, una);
	assert_int_equal(script_flow(s)->rcv_nxt, s->seq);
}

/* Where question and answer take turns the ACK waits for the answer, but not for long, and not
 * twice in vain. */
static void ack_travels_with_answer(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	for (int i = 0; i < 5; i++) {
		give(s, TCP_ACK | TCP_PSH, "ask", 3);
		if (i < TCP_DIALOGUE)
			want(s, TCP_ACK, 0);
		else
			want_nothing(s);
		peer_reads(s, "ask", 3);
		peer_sends(s, "answer", 6);
		want(s, TCP_ACK | TCP_PSH, 6);
		want_nothing(s);
	}
	give(s, TCP_ACK | TCP_PSH, "ask", 3);
	pass(s, 199);
	want_nothing(s);
	pass(s, 1);
	want(s, TCP_ACK, 0);
	give(s, TCP_ACK | TCP_PSH, "ask", 3);
	want(s, TCP_ACK, 0);
}

/* A second segment is not kept waiting, nor one that comes when the peer is known to be slow. */
static void ack_waits_once_only(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	script_flow(s)->dialogue = TCP_DIALOGUE;
	give(s, TCP_ACK | TCP_PSH, "head", 4);
	want_nothing(s);
	give(s, TCP_ACK | TCP_PSH, "body", 4);
	want(s, TCP_ACK, 0);
	peer_reads(s, "headbody", 8);
	s->now += USEC_MSEC;
	peer_sends(s, "answer", 6);
	want(s, TCP_ACK | TCP_PSH, 6);
	give(s, TCP_ACK | TCP_PSH, "head", 4);
	want(s, TCP_ACK, 0);
}

static void full_link_loses_nothing(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	mem_link_set_room(s->link, 0);
	peer_sends(s, "hello", 5);
	give(s, TCP_ACK, "ask", 3);
	peer_reads(s, "ask", 3);
	pass(s, 3 * USEC_MSEC);
	mem_link_set_room(s->link, UINT_MAX);
	pass(s, 8 * USEC_MSEC);
	want(s, TCP_ACK | TCP_PSH, 5);
	assert_memory_equal(s->got.payload, "hello", 5);
	give(s, TCP_ACK, NULL, 0);
	want_nothing(s);
}

/* A link that tells: nothing is tried before, and everything goes out at once then. */
static void link_tells_of_room(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	mem_link_tells_room(s->link);
	mem_link_set_room(s->link, 0);
	peer_sends(s, "hello", 5);
	give(s, TCP_ACK, "ask", 3);
	peer_reads(s, "ask", 3);
	for (int i = 0; i < 500 && script_flow(s)->readable == false; i++)
		pass(s, 1);
	assert_int_equal(script_flow(s)->due[FLOW_TIMER_WORK], USEC_NEVER);
	mem_link_set_room(s->link, UINT_MAX);
	tcp_link_ready(s->tcp, s->now);
	assert_true(take(s));
	assert_int_equal(s->got.tcp.seq, s->ack);
	assert_int_equal(s->got.tcp.ack, s->seq);
	assert_int_equal(s->got.payload_len, 5);
	s->ack += 5;
	give(s, TCP_ACK, NULL, 0);
	tcp_link_ready(s->tcp, s->now);
	want_nothing(s);
}

/* An ACK alone is owed. */
static void link_tells_of_room_for_an_ack(struct script *s)
{
	script_reach(s, FLOW_ESTABLISHED);
	mem_link_tells_room(s->link);
	mem_link_set_room(s->link, 0);
	give(s, TCP_ACK, "ask", 3);
	mem_link_set_room(s->link, UINT_MAX);
	tcp_link_ready(s->tcp, s->now);
	want(s, TCP_ACK, 0);
}

/* There is less room than what waits: everybody has a turn, and one of them too many finds that
 * out. */
static void room_for_one_at_a_time(struct script *s)
{
	struct endpoint guest = s->guest;
	unsigned served = 0;
	int peers[3];

	for (int i = 0; i < 3; i++) {
		s->guest.port = (uint16_t)(guest.port + i);
		s->peer = -1;
		script_reach(s, FLOW_ESTABLISHED);
		peers[i] = s->peer;
	}
	mem_link_tells_room(s->link);
	mem_link_set_room(s->link, 0);
	for (int i = 0; i < 3; i++) {
		s->guest.port = (uint16_t)(guest.port + i);
		s->seq = GUEST_ISN + 1;
		give_header(s,
			    &(struct tcp_header){
				.flags = TCP_ACK, .seq = s->seq, .ack = script_flow(s)->snd_nxt},
			    "x", 1);
	}
	for (int i = 0; i < 3; i++) {
		uint64_t before = s->counters.dropped[DROP_LINK_FULL];

		mem_link_set_room(s->link, 1);
		tcp_link_ready(s->tcp, s->now);
		assert_true(take(s));
		served |= 1u << (s->got.tcp.dst_port - guest.port);
		assert_false(take(s));
		assert_true(s->counters.dropped[DROP_LINK_FULL] - before <= 1);
	}
	assert_int_equal(served, 7);
	mem_link_set_room(s->link, UINT_MAX);
	tcp_link_ready(s->tcp, s->now);
	want_nothing(s);
	fd_close(&peers[0]);
	fd_close(&peers[1]);
}

#define EACH(name)                                                                                 \
	static void each_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		script_each(name);                                                                 \
	}
EACH(guest_to_peer)
EACH(peer_to_guest)
EACH(peer_urgent_in_line)
EACH(super_frames)
EACH(long_answer)
EACH(two_segments_a_window)
EACH(slow_reader)
EACH(early_segments)
EACH(duplicates_and_overlap)
EACH(beyond_window)
EACH(rto_doubles_and_ends)
EACH(rto_is_measured)
EACH(fast_retransmit)
EACH(not_duplicates)
EACH(zero_window_is_probed)
EACH(probes_end)
EACH(huge_window_ack)
EACH(impossible_acks)
EACH(ack_travels_with_answer)
EACH(ack_waits_once_only)
EACH(full_link_loses_nothing)
EACH(link_tells_of_room)
EACH(link_tells_of_room_for_an_ack)
EACH(room_for_one_at_a_time)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_guest_to_peer),
	    cmocka_unit_test(each_peer_to_guest),
	    cmocka_unit_test(each_peer_urgent_in_line),
	    cmocka_unit_test(each_super_frames),
	    cmocka_unit_test(each_long_answer),
	    cmocka_unit_test(each_two_segments_a_window),
	    cmocka_unit_test(each_slow_reader),
	    cmocka_unit_test(each_early_segments),
	    cmocka_unit_test(each_duplicates_and_overlap),
	    cmocka_unit_test(each_beyond_window),
	    cmocka_unit_test(each_rto_doubles_and_ends),
	    cmocka_unit_test(each_rto_is_measured),
	    cmocka_unit_test(each_fast_retransmit),
	    cmocka_unit_test(each_not_duplicates),
	    cmocka_unit_test(each_zero_window_is_probed),
	    cmocka_unit_test(each_probes_end),
	    cmocka_unit_test(each_huge_window_ack),
	    cmocka_unit_test(each_impossible_acks),
	    cmocka_unit_test(each_ack_travels_with_answer),
	    cmocka_unit_test(each_ack_waits_once_only),
	    cmocka_unit_test(each_full_link_loses_nothing),
	    cmocka_unit_test(each_link_tells_of_room),
	    cmocka_unit_test(each_link_tells_of_room_for_an_ack),
	    cmocka_unit_test(each_room_for_one_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
