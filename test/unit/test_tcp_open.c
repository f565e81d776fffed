/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections begin: handshake, options, repetition, and what a failed one looks like to the
 * guest. */
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <netlink/route/route.h>

#include "tcp_script.h"

static void handshake(struct script *s)
{
	give_at(s, TCP_SYN, GUEST_ISN, NULL, 0);
	s->seq = GUEST_ISN + 1;
	want(s, TCP_SYN | TCP_ACK, 0);
	assert_true(s->got.tcp.opt.has_mss);
	assert_int_equal(s->got.tcp.opt.mss, s->family == IP_V4 ? 65480 : 65460);
	/* Nothing is offered that the guest did not offer. */
	assert_false(s->got.tcp.opt.has_wscale);
	assert_false(s->got.tcp.opt.has_sack_permitted);
	assert_false(s->got.tcp.opt.has_timestamp);
	assert_true(s->got.tcp.window >= 14600);
	assert_int_equal(script_flow(s)->mss, s->family == IP_V4 ? 536 : 1220);
	s->peer = accept(s->listener, NULL, NULL);
	assert_true(s->peer >= 0);
	give(s, TCP_ACK, NULL, 0);
	want_nothing(s);
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
	assert_int_equal(tcp_flow_count(s->tcp), 1);
}

static void options_are_bounded(struct script *s)
{
	static const struct {
		uint16_t mss, want4, want6;
		uint8_t wscale, want_scale;
	} rows[] = {{0, 88, 88, 0, 0},
		    {1460, 1460, 1460, 14, 14},
		    {65535, 65480, 65460, 15, 14},
		    {9000, 9000, 9000, 255, 14}};

	for (unsigned i = 0; i < COUNT(rows); i++) {
		struct tcp_header syn = {.flags = TCP_SYN, .seq = GUEST_ISN};

		syn.opt.has_mss = syn.opt.has_wscale = syn.opt.has_sack_permitted = true;
		syn.opt.mss = rows[i].mss;
		syn.opt.wscale = rows[i].wscale;
		s->guest.port++;
		s->seq = GUEST_ISN + 1;
		give_header(s, &syn, NULL, 0);
		want(s, TCP_SYN | TCP_ACK, 0);
		assert_true(s->got.tcp.opt.has_wscale);
		assert_true(s->got.tcp.opt.has_sack_permitted);
		assert_int_equal(script_flow(s)->mss,
				 s->family == IP_V4 ? rows[i].want4 : rows[i].want6);
		assert_int_equal(script_flow(s)->snd_scale, rows[i].want_scale);
	}
}

/* The same SYN gets the same answer, by request and by time, and nothing before the host's connect
 * is done. */
static void repeated_syn_same_sequence(struct script *s)
{
	static const unsigned wait_s[] = {1, 2, 4, 8, 16};
	uint32_t iss;

	give_at(s, TCP_SYN, GUEST_ISN, NULL, 0);
	give_at(s, TCP_SYN, GUEST_ISN, NULL, 0);
	assert_false(take(s));
	s->seq = GUEST_ISN + 1;
	want(s, TCP_SYN | TCP_ACK, 0);
	want_nothing(s);
	iss = s->iss;
	s->now += USEC_MSEC;
	give_at(s, TCP_SYN, GUEST_ISN, NULL, 0);
	want(s, TCP_SYN | TCP_ACK, 0);
	assert_int_equal(s->iss, iss);
	s->now -= USEC_MSEC;
	for (unsigned i = 0; i < COUNT(wait_s); i++) {
		pass(s, wait_s[i] * USEC_SEC - 1);
		want_nothing(s);
		pass(s, 1);
		want(s, TCP_SYN | TCP_ACK, 0);
		assert_int_equal(s->iss, iss);
	}
	/* Nobody there: both ends are told. */
	s->peer = accept(s->listener, NULL, NULL);
	pass(s, 32 * USEC_SEC);
	want_reset(s);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	peer_reads_reset(s);
}

/* The guest gave up and begins anew before the host's connect was done. */
static void other_syn_while_connecting(struct script *s)
{
	script_reach(s, FLOW_CONNECTING);
	give_at(s, TCP_SYN, GUEST_ISN + 5000, NULL, 0);
	s->seq = GUEST_ISN + 5001;
	want(s, TCP_SYN | TCP_ACK, 0);
}

/* A SYN with another number once we answered: challenged (RFC 5961 4.2), and the guest's reset to
 * that clears the way. */
static void other_syn_after_answer(struct script *s)
{
	script_reach(s, FLOW_SYN_RECEIVED);
	give_at(s, TCP_SYN, GUEST_ISN + 5000, NULL, 0);
	want(s, TCP_ACK, 0);
	give_at(s, TCP_RST, s->got.tcp.ack, NULL, 0);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	peer_reads_reset(s);
}

static void wrong_ack_in_handshake(struct script *s)
{
	script_reach(s, FLOW_SYN_RECEIVED);
	give_header(s, &(struct tcp_header){.flags = TCP_ACK, .seq = s->seq, .ack = s->ack + 7},
		    NULL, 0);
	want_any(s);
	assert_int_equal(s->got.tcp.flags, TCP_RST);
	assert_int_equal(s->got.tcp.seq, s->ack + 7);
	assert_int_equal(script_state(s), FLOW_SYN_RECEIVED);
	give(s, TCP_ACK, NULL, 0);
	assert_int_equal(script_state(s), FLOW_ESTABLISHED);
}

/* Data and FIN with the ACK that ends the handshake, and data of the peer that was there before. */
static void handshake_with_data(struct script *s)
{
	script_reach(s, FLOW_SYN_RECEIVED);
	peer_sends(s, "early", 5);
	turn(s);
	assert_false(take(s));
	give(s, TCP_ACK | TCP_FIN, "hello", 5);
	want(s, TCP_ACK | TCP_PSH, 5);
	assert_memory_equal(s->got.payload, "early", 5);
	peer_reads(s, "hello", 5);
	peer_reads_end(s);
	assert_int_equal(script_state(s), FLOW_CLOSE_WAIT);
}

static void no_flow_gets_reset(struct script *s)
{
	s->seq = 77;
	s->ack = 99;
	give(s, TCP_ACK, "x", 1);
	want_any(s);
	assert_int_equal(s->got.tcp.flags, TCP_RST);
	assert_int_equal(s->got.tcp.seq, 99);
	give_at(s, TCP_FIN, 77, "xyz", 3);
	want_any(s);
	assert_int_equal(s->got.tcp.flags, TCP_RST | TCP_ACK);
	assert_int_equal(s->got.tcp.seq, 0);
	assert_int_equal(s->got.tcp.ack, 77 + 4);
	give_at(s, TCP_RST, 77, NULL, 0);
	give_at(s, TCP_RST | TCP_ACK, 77, NULL, 0);
	want_nothing(s);
}

static void odd_syns_are_dropped(struct script *s)
{
	struct endpoint dst = s->dst;

	s->dst.addr = ip(s->family == IP_V4 ? "224.0.0.5" : "ff02::5");
	give_at(s, TCP_SYN, GUEST_ISN, NULL, 0);
	want_nothing(s);
	assert_int_equal(s->counters.dropped[DROP_DESTINATION], 1);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	s->dst = dst;
}

/* Answers the SYN of a connection to dst with a reset or an ICMP error. */
static void fails(struct script *s, const char *dst)
{
	struct tcp_header syn = {.flags = TCP_SYN, .seq = GUEST_ISN};

	if (dst)
		s->dst.addr = ip(dst);
	give_header(s, &syn, NULL, 0);
	want_any(s);
	assert_true(ip_equal(&s->got.ip.src, &s->dst.addr));
	assert_int_equal(tcp_flow_count(s->tcp), 0);
}

static void refused(struct script *s)
{
	fd_close(&s->listener);
	fails(s, NULL);
	assert_int_equal(s->got.kind, PACKET_TCP);
	assert_int_equal(s->got.tcp.flags, TCP_RST | TCP_ACK);
	assert_int_equal(s->got.tcp.ack, GUEST_ISN + 1);
}

static void want_icmp(struct script *s, uint8_t code4, uint8_t code6)
{
	const uint8_t *inner = s->got.payload;
	size_t header = s->family == IP_V4 ? 20 : 40;

	assert_int_equal(s->got.kind, PACKET_ICMP);
	assert_int_equal(s->got.icmp.type, s->family == IP_V4 ? 3 : 1);
	assert_int_equal(s->got.icmp.code, s->family == IP_V4 ? code4 : code6);
	/* The guest finds its socket by the ports and the sequence number quoted. */
	assert_true(s->got.payload_len >= header + 8);
	assert_int_equal(inner[header] << 8 | inner[header + 1], s->guest.port);
	assert_int_equal(inner[header + 2] << 8 | inner[header + 3], s->dst.port);
	assert_int_equal((uint32_t)inner[header + 4] << 24 | inner[header + 5] << 16 |
			     inner[header + 6] << 8 | inner[header + 7],
			 GUEST_ISN);
}

static void net_unreachable(struct script *s)
{
	fails(s, s->family == IP_V4 ? "203.0.113.9" : "2001:db8:ffff::9");
	want_icmp(s, 0, 0);
}

/* The test's own network namespace has a route that says so. */
static void host_unreachable(struct script *s)
{
	fails(s, s->family == IP_V4 ? "198.51.100.200" : "2001:db8:2::200");
	want_icmp(s, 1, 3);
}

static void flow_limit(void **state)
{
	struct script_options o = {.family = IP_V4, .flows_max = 2};
	struct script *s = script_new(&o);

	(void)state;
	for (int i = 0; i < 3; i++) {
		s->guest.port++;
		give_at(s, TCP_SYN, GUEST_ISN, NULL, 0);
	}
	assert_int_equal(tcp_flow_count(s->tcp), 2);
	assert_int_equal(s->counters.dropped[DROP_FLOW_LIMIT], 1);
	script_free(s);
}

static void no_descriptors(void **state)
{
	struct script_options o = {.family = IP_V4};
	struct script *s = script_new(&o);
	struct rlimit old, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){0, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	give_at(s, TCP_SYN, GUEST_ISN, NULL, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	want_any(s);
	assert_int_equal(s->got.tcp.flags, TCP_RST | TCP_ACK);
	assert_int_equal(s->counters.dropped[DROP_NO_SOCKET], 1);
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	script_free(s);
}

/* The stack ends: guest and peer learn of it. */
static void free_resets(void **state)
{
	struct script_options o = {.family = IP_V6};
	struct script *s = script_new(&o);
	struct tcp_config cfg = {.flows_max = 1};

	(void)state;
	script_reach(s, FLOW_ESTABLISHED);
	tcp_free(s->tcp);
	assert_true(take(s));
	assert_int_equal(s->got.tcp.flags, TCP_RST | TCP_ACK);
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
EACH(options_are_bounded)
EACH(repeated_syn_same_sequence)
EACH(other_syn_while_connecting)
EACH(other_syn_after_answer)
EACH(wrong_ack_in_handshake)
EACH(handshake_with_data)
EACH(no_flow_gets_reset)
EACH(odd_syns_are_dropped)
EACH(refused)
EACH(net_unreachable)
EACH(host_unreachable)

static void add_unreachable(struct nl_sock *sock, const char *prefix)
{
	struct rtnl_route *route = rtnl_route_alloc();
	struct nl_addr *dst;

	assert_non_null(route);
	assert_int_equal(nl_addr_parse(prefix, AF_UNSPEC, &dst), 0);
	assert_int_equal(rtnl_route_set_dst(route, dst), 0);
	assert_int_equal(rtnl_route_set_type(route, RTN_UNREACHABLE), 0);
	assert_int_equal(rtnl_route_add(sock, route, 0), 0);
	nl_addr_put(dst);
	rtnl_route_put(route);
}

/* A network of our own with a loopback, no way out, and one prefix that is known not to be
 * reachable. */
static int own_network(void **state)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	cleanup_fd int fd = -1;
	struct nl_sock *sock = nl_socket_alloc();

	(void)state;
	assert_int_equal(unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET), 0);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
	assert_non_null(sock);
	assert_int_equal(nl_connect(sock, NETLINK_ROUTE), 0);
	add_unreachable(sock, "198.51.100.0/24");
	add_unreachable(sock, "2001:db8:2::/48");
	nl_socket_free(sock);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_handshake),
	    cmocka_unit_test(each_options_are_bounded),
	    cmocka_unit_test(each_repeated_syn_same_sequence),
	    cmocka_unit_test(each_other_syn_while_connecting),
	    cmocka_unit_test(each_other_syn_after_answer),
	    cmocka_unit_test(each_wrong_ack_in_handshake),
	    cmocka_unit_test(each_handshake_with_data),
	    cmocka_unit_test(each_no_flow_gets_reset),
	    cmocka_unit_test(each_odd_syns_are_dropped),
	    cmocka_unit_test(each_refused),
	    cmocka_unit_test(each_net_unreachable),
	    cmocka_unit_test(each_host_unreachable),
	    cmocka_unit_test(flow_limit),
	    cmocka_unit_test(no_descriptors),
	    cmocka_unit_test(free_resets),
	};

	return cmocka_run_group_tests(tests, own_network, NULL);
}
