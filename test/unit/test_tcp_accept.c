/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that come in by a forwarding rule: the SYN that the guest gets, and what its answer
 * makes of the client. */
#include <errno.h>
#include <sys/socket.h>

#include "tcp_script.h"

#define ICMP4_UNREACHABLE 3
#define ICMP6_UNREACHABLE 1

/* The guest's answer to our SYN. */
static void give_syn_ack(struct script *s, const struct tcp_options *opt)
{
	struct tcp_header h = {.flags = TCP_SYN | TCP_ACK, .seq = GUEST_ISN, .opt = *opt};

	give_header(s, &h, NULL, 0);
	s->seq = GUEST_ISN + 1;
}

static const struct tcp_options usual = {
    .has_mss = true, .mss = GUEST_MSS, .has_wscale = true, .wscale = 9, .has_sack_permitted = true};

static void want_gone(struct script *s)
{
	turn(s);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	peer_reads_reset(s);
}

static void handshake(struct script *s)
{
	script_reach(s, FLOW_SYN_SENT);
	assert_int_equal(s->got.tcp.ack, 0);
	assert_true(s->got.tcp.opt.has_mss);
	assert_int_equal(s->got.tcp.opt.mss, s->family == IP_V4 ? 65480 : 65460);
	assert_true(s->got.tcp.opt.has_wscale);
	assert_int_equal(s->got.tcp.opt.wscale, 7);
	assert_true(s->got.tcp.opt.has_sack_permitted);
	assert_false(s->got.tcp.opt.has_timestamp);
	assert_true(s->got.tcp.window >= 14600);
	s->their_scale = 7;
	s->scale = 9;
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_true(got_window(s) >= 65000); /* scaled, since both offer it */
	want_nothing(s);
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
	assert_int_equal(script_flow(s)->mss, GUEST_MSS);
	assert_int_equal(script_flow(s)->snd_scale, 9);
	assert_true(script_flow(s)->sack_on);
	script_flow(s)->dialogue = 0;
	peer_sends(s, "question", 8);
	want(s, TCP_ACK | TCP_PSH, 8);
	assert_memory_equal(s->got.payload, "question", 8);
	give(s, TCP_ACK | TCP_PSH, "answer", 6);
	peer_reads(s, "answer", 6);
	want(s, TCP_ACK, 0);
}

/* What the guest does not offer is off, although we offered it. */
static void few_options(struct script *s)
{
	static const struct tcp_options none = {0};

	script_reach(s, FLOW_SYN_SENT);
	give_syn_ack(s, &none);
	want(s, TCP_ACK, 0);
	assert_true(s->got.tcp.window >= 14600);
	assert_int_equal(script_flow(s)->mss, s->family == IP_V4 ? 536 : 1220);
	assert_int_equal(script_flow(s)->snd_scale, 0);
	assert_int_equal(script_flow(s)->rcv_scale, 0);
	assert_false(script_flow(s)->sack_on);
}

/* The window in a SYN-ACK is not scaled, whatever the option says. */
static void window_of_syn_ack(struct script *s)
{
	static uint8_t data[5000];

	fill(data, sizeof(data));
	script_reach(s, FLOW_SYN_SENT);
	peer_sends(s, data, sizeof(data));
	turn(s);
	s->window = 1000;
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 1000);
	want_nothing(s);
}

static void repeated_with_same_sequence(struct script *s)
{
	static const unsigned wait_s[] = {1, 1, 1, 1, 1, 2, 4};
	uint32_t iss;

	script_reach(s, FLOW_SYN_SENT);
	s->seq = 0;
	iss = s->iss;
	for (unsigned i = 0; i < COUNT(wait_s); i++) {
		pass(s, wait_s[i] * USEC_SEC - 1);
		want_nothing(s);
		pass(s, 1);
		want(s, TCP_SYN, 0);
		assert_int_equal(s->iss, iss);
	}
	pass(s, 8 * USEC_SEC - 1);
	want_nothing(s);
	assert_int_equal(script_state(s), FLOW_SYN_SENT);
	/* Nobody there: both ends are told. */
	pass(s, 1);
	want_reset(s);
	assert_int_equal(s->got.tcp.flags, TCP_RST);
	want_gone(s);
}

/* An answer after some repetitions counts as any. */
static void late_answer(struct script *s)
{
	script_reach(s, FLOW_SYN_SENT);
	s->seq = 0;
	for (int i = 0; i < 5; i++) {
		pass(s, USEC_SEC);
		want(s, TCP_SYN, 0);
	}
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	/* Karn: nothing was learnt of the round-trip time. */
	assert_int_equal(script_flow(s)->srtt, 0);
	pass(s, 10 * USEC_SEC);
	want_nothing(s);
	peer_sends(s, "x", 1);
	want(s, TCP_ACK | TCP_PSH, 1);
}

static void round_trip_is_measured(struct script *s)
{
	script_reach(s, FLOW_SYN_SENT);
	s->now += 300;
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_int_equal(script_flow(s)->srtt, 300);
}

static void refused(struct script *s)
{
	struct tcp_header rst = {.flags = TCP_RST | TCP_ACK, .ack = 1};

	script_reach(s, FLOW_SYN_SENT);
	/* Not about this SYN. */
	rst.ack = s->ack + 1;
	give_header(s, &rst, NULL, 0);
	give_at(s, TCP_RST, 0, NULL, 0);
	want_nothing(s);
	assert_int_equal(script_state(s), FLOW_SYN_SENT);
	rst.ack = s->ack;
	give_header(s, &rst, NULL, 0);
	want_nothing(s);
	want_gone(s);
}

/* Data and FIN of the client wait in its socket. */
static void client_speaks_first(struct script *s)
{
	script_reach(s, FLOW_SYN_SENT);
	peer_sends(s, "early", 5);
	want_nothing(s);
	assert_int_equal(shutdown(s->peer, SHUT_WR), 0);
	want_nothing(s);
	give_syn_ack(s, &usual);
	want(s, TCP_FIN | TCP_PSH | TCP_ACK, 5);
	assert_memory_equal(s->got.payload, "early", 5);
	assert_int_equal(script_state(s), FLOW_FIN_WAIT_1);
	give(s, TCP_ACK | TCP_FIN, "bye", 3);
	peer_reads(s, "bye", 3);
	peer_reads_end(s);
}

static void client_gone(struct script *s)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	script_reach(s, FLOW_SYN_SENT);
	assert_int_equal(setsockopt(s->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	fd_close(&s->peer);
	want_any(s);
	assert_int_equal(s->got.tcp.flags, TCP_RST);
	assert_int_equal(s->got.tcp.seq, s->ack); /* also if its SYN-ACK is under way */
	turn(s);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	give_syn_ack(s, &usual);
	want_any(s);
	assert_int_equal(s->got.tcp.flags, TCP_RST);
}

/* Both sides open at once (RFC 9293 3.5, figure 7). */
static void simultaneous_open(struct script *s)
{
	struct tcp_header syn = {.flags = TCP_SYN, .seq = GUEST_ISN, .opt = usual};
	uint32_t iss;

	script_reach(s, FLOW_SYN_SENT);
	iss = s->iss;
	s->scale = usual.wscale;
	give_header(s, &syn, NULL, 0);
	s->seq = GUEST_ISN + 1;
	want(s, TCP_SYN | TCP_ACK, 0);
	assert_int_equal(s->iss, iss);
	assert_true(s->got.tcp.opt.has_wscale);
	assert_int_equal(script_state(s), FLOW_SYN_RECEIVED);
	/* Its SYN again with an ACK. */
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
	assert_int_equal(script_flow(s)->snd_wnd, 65535);
	give(s, TCP_ACK, "hello", 5);
	peer_reads(s, "hello", 5);
}

/* Likewise, and all answers get lost. */
static void simultaneous_open_repeats(struct script *s)
{
	script_reach(s, FLOW_SYN_SENT);
	s->seq = 0;
	for (int i = 0; i < 5; i++) {
		pass(s, USEC_SEC);
		want(s, TCP_SYN, 0);
	}
	give_at(s, TCP_SYN, GUEST_ISN, NULL, 0);
	s->seq = GUEST_ISN + 1;
	want(s, TCP_SYN | TCP_ACK, 0);
	pass(s, USEC_SEC);
	want(s, TCP_SYN | TCP_ACK, 0);
	pass(s, 2 * USEC_SEC);
	want(s, TCP_SYN | TCP_ACK, 0);
	give(s, TCP_ACK, NULL, 0);
	want_nothing(s);
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
}

/* The guest still has a connection before this one: its ACK is answered by a reset, and as it is
 * gone then, by a SYN soon (RFC 9293 3.5.1). */
static void guest_remembers_another(struct script *s)
{
	uint32_t iss;

	script_reach(s, FLOW_SYN_SENT);
	iss = s->iss;
	give_header(s,
		    &(struct tcp_header){.flags = TCP_ACK, .seq = GUEST_ISN, .ack = s->ack + 5000},
		    NULL, 0);
	want_any(s);
	assert_int_equal(s->got.tcp.flags, TCP_RST);
	assert_int_equal(s->got.tcp.seq, iss + 1 + 5000);
	pass(s, USEC_MSEC);
	s->seq = 0;
	want(s, TCP_SYN, 0);
	assert_int_equal(s->iss, iss);
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
}

static void stray_segments_in_syn_sent(struct script *s)
{
	script_reach(s, FLOW_SYN_SENT);
	give_at(s, TCP_FIN, GUEST_ISN, "x", 1);
	want_nothing(s);
	assert_int_equal(s->counters.dropped[DROP_TCP_STATE], 1);
	assert_int_equal(script_state(s), FLOW_SYN_SENT);
}

/* An ICMP error of the guest about our SYN, with this sequence number. */
static bool give_unreachable(struct script *s, uint8_t code, uint32_t seq)
{
	bool v4 = s->family == IP_V4;
	struct ip_header outer = {.src = s->guest.addr,
				  .dst = s->dst.addr,
				  .proto = v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6,
				  .ttl = 64},
			 inner = {.src = s->dst.addr,
				  .dst = s->guest.addr,
				  .proto = IPPROTO_TCP,
				  .ttl = 255};
	struct tcp_header syn = {
	    .src_port = s->dst.port, .dst_port = s->guest.port, .seq = seq, .flags = TCP_SYN};
	uint8_t frame[256], quoted[128];
	struct offload off = {0};
	struct packet p;
	enum drop_reason why;
	size_t n = emit_ip(quoted, &inner, 20);

	n += emit_tcp(quoted + n, &syn);
	n = put_icmp(frame, &outer, v4 ? ICMP4_UNREACHABLE : ICMP6_UNREACHABLE, code, 0, quoted, n);
	assert_int_equal(packet_parse(frame, n, &off, &p, &why), 0);
	return tcp_icmp_input(s->tcp, &p);
}

static void unreachable(struct script *s)
{
	script_reach(s, FLOW_SYN_SENT);
	assert_false(give_unreachable(s, 1, s->iss + 1));
	assert_int_equal(script_state(s), FLOW_SYN_SENT);
	assert_true(give_unreachable(s, 1, s->iss));
	want_nothing(s);
	want_gone(s);
}

/* Only while nothing was answered: later anyone's error may be old (RFC 1122 4.2.3.9). */
static void unreachable_too_late(struct script *s)
{
	script_reach(s, FLOW_SYN_SENT);
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_false(give_unreachable(s, 1, s->iss));
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
}

/* Another client with the same name inside: refused in a second, and nothing happens to the first.
 */
static void same_ports(struct script *s)
{
	int first;

	script_reach(s, FLOW_SYN_SENT);
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	first = s->peer;
	s->peer = -1;
	assert_int_equal(script_accept(s), 0);
	peer_sends(s, "other", 5);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(tcp_flow_count(s->tcp), 2);
		pass(s, USEC_MSEC << i);
		want_nothing(s);
	}
	assert_int_equal(tcp_flow_count(s->tcp), 1);
	peer_reads_reset(s);
	fd_close(&s->peer);
	s->peer = first;
	peer_sends(s, "still", 5);
	want(s, TCP_ACK | TCP_PSH, 5);
	assert_memory_equal(s->got.payload, "still", 5);
}

/* The last connection of the same client is about to end: the new one waits for that. */
static void same_ports_soon_free(struct script *s)
{
	int first;

	script_reach(s, FLOW_LAST_ACK);
	first = s->peer;
	s->peer = -1;
	assert_int_equal(script_accept(s), 0);
	pass(s, USEC_MSEC);
	want_nothing(s);
	give(s, TCP_ACK, NULL, 0);
	pass(s, 2 * USEC_MSEC);
	s->seq = 0;
	want(s, TCP_SYN, 0);
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_int_equal(tcp_flow_count(s->tcp), 1);
	fd_close(&first);
}

/* A client that waits and gives up: the guest never hears of it. */
static void same_ports_client_gone(struct script *s)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	int first;

	script_reach(s, FLOW_SYN_SENT);
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	first = s->peer;
	s->peer = -1;
	assert_int_equal(script_accept(s), 0);
	assert_int_equal(setsockopt(s->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	fd_close(&s->peer);
	for (int i = 0; i < 100 && tcp_flow_count(s->tcp) > 1; i++)
		want_nothing(s);
	assert_int_equal(tcp_flow_count(s->tcp), 1);
	s->peer = first;
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
}

/* The client broke its connection off and uses the port again, before we have noticed. */
static void same_ports_after_reset(struct script *s)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	script_reach(s, FLOW_SYN_SENT);
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_int_equal(setsockopt(s->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	fd_close(&s->peer);
	assert_int_equal(script_accept(s), 0);
	want_reset(s);
	s->seq = 0;
	want(s, TCP_SYN, 0);
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_int_equal(tcp_flow_count(s->tcp), 1);
}

/* The guest is done with the last connection, whose data the client hasn't taken yet. */
static void same_ports_after_end(struct script *s)
{
	static uint8_t data[16000];
	int first;

	script_reach(s, FLOW_FIN_WAIT_2);
	/* Until the host's sockets take no more. */
	for (int i = 0; i < 10000 && !tcp_held(script_flow(s)); i++) {
		give(s, TCP_ACK, data, sizeof(data));
		while (take(s))
			;
	}
	assert_true(tcp_held(script_flow(s)) > 0);
	give(s, TCP_FIN | TCP_ACK, NULL, 0);
	want(s, TCP_ACK, 0);
	assert_int_equal(script_state(s), FLOW_TIME_WAIT);
	first = s->peer;
	s->peer = -1;
	s->seq = 0;
	assert_int_equal(script_accept(s), 0);
	want(s, TCP_SYN, 0);
	give_syn_ack(s, &usual);
	want(s, TCP_ACK, 0);
	assert_int_equal(tcp_flow_count(s->tcp), 2);
	peer_sends(s, "new", 3);
	want(s, TCP_ACK | TCP_PSH, 3);
	fd_close(&first);
	pass(s, 0);
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
}

/* The link is full: the SYN goes out later. */
static void link_full(struct script *s)
{
	mem_link_set_room(s->link, 0);
	assert_int_equal(script_accept(s), 0);
	want_nothing(s);
	mem_link_set_room(s->link, 100);
	pass(s, USEC_SEC);
	want(s, TCP_SYN, 0);
}

static void flow_limit(void **state)
{
	struct script_options o = {.family = IP_V4, .flows_max = 2};
	struct script *s = script_new(&o);
	int first;

	(void)state;
	script_reach(s, FLOW_SYN_SENT);
	first = s->peer;
	s->peer = -1;
	s->dst.port++;
	assert_int_equal(script_accept(s), 0);
	s->dst.port++;
	assert_int_equal(script_accept(s), -EUSERS);
	peer_reads_reset(s);
	assert_int_equal(tcp_flow_count(s->tcp), 2);
	assert_int_equal(s->counters.dropped[DROP_FLOW_LIMIT], 1);
	fd_close(&first);
	script_free(s);
}

/* The stack ends meanwhile. */
static void free_resets(void **state)
{
	struct script_options o = {.family = IP_V6};
	struct script *s = script_new(&o);
	struct tcp_config cfg = {.flows_max = 1};

	(void)state;
	script_reach(s, FLOW_SYN_SENT);
	tcp_free(s->tcp);
	assert_true(take(s));
	assert_int_equal(s->got.tcp.flags, TCP_RST);
	assert_int_equal(s->got.tcp.seq, s->ack);
	assert_int_equal(tcp_new(s->loop, s->tap, &s->nat, &cfg, &s->tcp), 0);
	peer_reads_reset(s);
	script_free(s);
}

#define EACH(name)                                                                                 \
	static void each_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		script_each(name);                                                                 \
	}
EACH(handshake)
EACH(few_options)
EACH(window_of_syn_ack)
EACH(repeated_with_same_sequence)
EACH(late_answer)
EACH(round_trip_is_measured)
EACH(refused)
EACH(client_speaks_first)
EACH(client_gone)
EACH(simultaneous_open)
EACH(simultaneous_open_repeats)
EACH(guest_remembers_another)
EACH(stray_segments_in_syn_sent)
EACH(unreachable)
EACH(unreachable_too_late)
EACH(same_ports)
EACH(same_ports_soon_free)
EACH(same_ports_client_gone)
EACH(same_ports_after_reset)
EACH(same_ports_after_end)
EACH(link_full)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_handshake),
	    cmocka_unit_test(each_few_options),
	    cmocka_unit_test(each_window_of_syn_ack),
	    cmocka_unit_test(each_repeated_with_same_sequence),
	    cmocka_unit_test(each_late_answer),
	    cmocka_unit_test(each_round_trip_is_measured),
	    cmocka_unit_test(each_refused),
	    cmocka_unit_test(each_client_speaks_first),
	    cmocka_unit_test(each_client_gone),
	    cmocka_unit_test(each_simultaneous_open),
	    cmocka_unit_test(each_simultaneous_open_repeats),
	    cmocka_unit_test(each_guest_remembers_another),
	    cmocka_unit_test(each_stray_segments_in_syn_sent),
	    cmocka_unit_test(each_unreachable),
	    cmocka_unit_test(each_unreachable_too_late),
	    cmocka_unit_test(each_same_ports),
	    cmocka_unit_test(each_same_ports_soon_free),
	    cmocka_unit_test(each_same_ports_client_gone),
	    cmocka_unit_test(each_same_ports_after_reset),
	    cmocka_unit_test(each_same_ports_after_end),
	    cmocka_unit_test(each_link_full),
	    cmocka_unit_test(flow_limit),
	    cmocka_unit_test(free_resets),
	};

	log_set_threshold(LOG_LEVEL_ERROR); /* what goes wrong does so on purpose */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
