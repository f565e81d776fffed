/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP: what goes wrong, who may answer, and limits. */
#include "test/unit/udp_bed.h"

/* Asserts an ICMP error that quotes a datagram of the guest. */
static void guest_gets_error(struct bed *b, const char *from, const uint8_t type_code[2],
			     const char *dst, const char *text)
{
	struct ip_addr src = ip(from), to = ip(dst), me = ip(b->n->guest);
	size_t ip_len = b->n->family == IP_V4 ? 20 : 40;
	const uint8_t *q;
	struct packet p;

	assert_true(guest_gets(b, &p));
	assert_int_equal(p.kind, PACKET_ICMP);
	assert_memory_equal(p.ip.src.b, src.b, 16);
	assert_memory_equal(p.ip.dst.b, me.b, 16);
	assert_int_equal(p.icmp.type, type_code[0]);
	assert_int_equal(p.icmp.code, type_code[1]);
	assert_true(p.payload_len >= ip_len + 8 + strlen(text));
	q = p.payload;
	assert_memory_equal(q + ip_len - 2 * ip_bytes_len(&me), ip_bytes(&me), ip_bytes_len(&me));
	assert_memory_equal(q + ip_len - ip_bytes_len(&me), ip_bytes(&to), ip_bytes_len(&to));
	assert_int_equal(q[ip_len] << 8 | q[ip_len + 1], 4000);
	assert_memory_equal(q + ip_len + 8, text, strlen(text));
}

static const uint8_t port_unreachable[IP_FAMILIES][2] = {{3, 3}, {1, 4}};
static const uint8_t net_unreachable[IP_FAMILIES][2] = {{3, 0}, {1, 0}};
static const uint8_t too_big[2] = {3, 4}; /* IPv4: fragmentation needed */

static void refused_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0);

	guest_sends(b, 4000, n->host, 9, "nobody there");
	turn(b);
	guest_gets_error(b, n->host, port_unreachable[n->family], n->host, "nobody there");
	/* The error waits in the socket when the next datagram is sent: neither is lost. */
	guest_sends(b, 4000, n->host, 9, "nor there");
	guest_sends(b, 4000, n->host, port_of(fd), "hello");
	receive_text(fd, "hello");
	guest_gets_error(b, n->host, port_unreachable[n->family], n->host, "nor there");
	/* Nothing is left that would wake us. */
	assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	guest_gets_nothing(b);
	/* To its own port on the host, which is this very socket: refused, not heard by itself. */
	guest_sends(b, 4000, n->host, 4000, "myself");
	guest_gets_error(b, n->host, port_unreachable[n->family], n->host, "myself");
	assert_int_equal(b->counters.dropped[DROP_SOCKET], 1);
	close(fd);
	bed_free(b);
}

static void test_refused(void **state)
{
	(void)state;
	both(refused_each);
}

static void unreachable_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});

	guest_sends(b, 4000, n->unroutable, 9, "lost");
	guest_gets_error(b, n->family == IP_V4 ? n->host : "fe80::1", net_unreachable[n->family],
			 n->unroutable, "lost");
	assert_int_equal(b->counters.dropped[DROP_SOCKET], 1);
	/* However much the guest sends, only so many errors come back. */
	for (int i = 0; i < 1000; i++)
		guest_sends(b, 4000, n->unroutable, 9, "lost");
	for (int i = 1; i < 100; i++)
		guest_gets_error(b, n->family == IP_V4 ? n->host : "fe80::1",
				 net_unreachable[n->family], n->unroutable, "lost");
	guest_gets_nothing(b);
	b->now += USEC_SEC;
	guest_sends(b, 4000, n->unroutable, 9, "lost");
	guest_gets_error(b, n->family == IP_V4 ? n->host : "fe80::1", net_unreachable[n->family],
			 n->unroutable, "lost");
	bed_free(b);
}

static void test_unreachable(void **state)
{
	(void)state;
	both(unreachable_each);
}

/* Too long for the path: fragmented in the guest's place; one that says it may never be brings the
 * MTU back. */
static void too_long_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0);
	static const uint8_t data[4000];
	struct packet p = datagram(b, 4000, n->host, port_of(fd));
	const uint8_t *mtu = b->frame + ETH_HEADER_LEN + 20 + 4;

	own_net_mtu(1500);
	for (int i = 0; i < 3; i++) {
		p.ip.dont_fragment = i < 2;
		p.ip.fragment_id = 1234;
		input(b, &p, data, sizeof(data) - (size_t)i);
		input(b, &p, data, sizeof(data) - (size_t)i);
		udp_flush(b->udp, b->now);
		for (int k = 0; k < 2; k++) {
			receive(fd);
			assert_int_equal(got.len, sizeof(data) - (size_t)i);
		}
	}
	guest_gets_nothing(b);
	if (n->family == IP_V4) {
		p.ip.dont_fragment = true;
		p.ip.fragment_id = 0;
		input(b, &p, data, sizeof(data));
		input(b, &p, data, sizeof(data));
		input(b, &p, data, 1472);
		udp_flush(b->udp, b->now);
		for (int k = 0; k < 2; k++) {
			guest_gets_error(b, n->host, too_big, n->host, "");
			assert_int_equal(mtu[0] << 24 | mtu[1] << 16 | mtu[2] << 8 | mtu[3], 1500);
		}
		guest_gets_nothing(b);
		receive(fd);
		assert_int_equal(got.len, 1472);
		assert_int_equal(b->counters.dropped[DROP_SOCKET], 2);
	}
	own_net_mtu(65536);
	close(fd);
	bed_free(b);
}

static void test_too_long(void **state)
{
	(void)state;
	both(too_long_each);
}

/* Whom the guest contacted may answer from any port, nobody else at all. */
static void filter_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0), same = service(n->loopback, 0),
	    stranger = service(n->other, 0);

	guest_sends(b, 4000, n->host, port_of(fd), "read file");
	receive_text(fd, "read file");
	reply(same, "data", 4);
	turn(b);
	guest_gets_text(b, n->host, port_of(same), 4000, "data");
	reply(stranger, "let me in", 9);
	turn(b);
	guest_gets_nothing(b);
	assert_int_equal(b->counters.dropped[DROP_STRANGER], 1);
	close(fd);
	close(same);
	close(stranger);
	bed_free(b);
}

static void test_filter(void **state)
{
	(void)state;
	both(filter_each);
}

static void marks_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	bool v4 = n->family == IP_V4;
	int fd = service(n->loopback, 0), ttl = 33, tos = 0x2e << 2 | 2;
	struct packet p = datagram(b, 4000, n->host, port_of(fd));

	p.ip.ttl = 7;
	p.ip.tos = 0xb9;
	input(b, &p, "a", 1);
	p.ip.ttl = 8;
	input(b, &p, "b", 1);
	udp_flush(b->udp, b->now);
	receive_text(fd, "a");
	assert_int_equal(got.ttl, 7);
	assert_int_equal(got.tos, 0xb9);
	receive_text(fd, "b");
	assert_int_equal(got.ttl, 8);
	assert_int_equal(setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
				    v4 ? IP_TTL : IPV6_UNICAST_HOPS, &ttl, sizeof(ttl)),
			 0);
	assert_int_equal(setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS,
				    &tos, sizeof(tos)),
			 0);
	reply(fd, "c", 1);
	turn(b);
	assert_true(guest_gets(b, &p));
	assert_int_equal(p.ip.ttl, 33);
	assert_int_equal(p.ip.tos, tos);
	close(fd);
	bed_free(b);
}

static void test_marks(void **state)
{
	(void)state;
	both(marks_each);
}

/* At the limit the flow that waits longest for an answer makes room; those with traffic both ways
 * stay. */
static void limit_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.flows_max = 3});
	int fd = service(n->loopback, 0);

	round_trip(b, fd, 4000, n->host);
	for (uint16_t port = 4001; port < 4010; port++) {
		guest_sends(b, port, n->host, port_of(fd), "one way");
		receive_text(fd, "one way");
	}
	assert_int_equal(udp_flow_count(b->udp), 3);
	round_trip(b, fd, 4000, n->host);
	round_trip(b, fd, 4008, n->host);
	round_trip(b, fd, 4009, n->host);
	guest_sends(b, 4010, n->host, port_of(fd), "no room");
	assert_int_equal(udp_flow_count(b->udp), 3);
	assert_int_equal(b->counters.dropped[DROP_FLOW_LIMIT], 1);
	close(fd);
	bed_free(b);
}

static void test_limit(void **state)
{
	(void)state;
	both(limit_each);
}

/* Sockets have a limit of their own: other flows of an endpoint cost none, a new endpoint takes
 * that of the flow that waits longest. */
static void socket_limit_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.sockets_max = 2});
	int fd = service(n->loopback, 0), other = service(n->other, 0), files;

	round_trip(b, fd, 4000, n->host);
	round_trip(b, other, 4000, n->other);
	guest_sends(b, 4001, n->host, port_of(fd), "one way");
	receive_text(fd, "one way");
	files = own_net_open_files();
	for (uint16_t port = 4002; port < 4010; port++) {
		guest_sends(b, port, n->host, port_of(fd), "one way");
		receive_text(fd, "one way");
		assert_int_equal(own_net_open_files(), files);
	}
	round_trip(b, fd, 4000, n->host);
	round_trip(b, fd, 4009, n->host);
	guest_sends(b, 4010, n->host, port_of(fd), "no room");
	assert_int_equal(own_net_open_files(), files);
	assert_int_equal(b->counters.dropped[DROP_NO_SOCKET], 1);
	close(fd);
	close(other);
	bed_free(b);
}

static void test_socket_limit(void **state)
{
	(void)state;
	both(socket_limit_each);
}

/* A flow that has to make room in the middle of a batch loses nothing of what it collected. */
static void limit_in_batch_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.flows_max = 1});
	int fd = service(n->loopback, 0);

	for (uint16_t i = 0; i < 3; i++) {
		struct packet p = datagram(b, (uint16_t)(4000 + i), n->host, port_of(fd));

		input(b, &p, "text", i + 1U);
	}
	udp_flush(b->udp, b->now);
	for (int i = 0; i < 3; i++) {
		receive(fd);
		assert_int_equal(got.len, i + 1);
	}
	assert_int_equal(udp_flow_count(b->udp), 1);
	close(fd);
	bed_free(b);
}

static void test_limit_in_batch(void **state)
{
	(void)state;
	both(limit_in_batch_each);
}

/* Who sends to a group hears from anybody. */
static void multicast_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	bool v4 = n->family == IP_V4;
	int fd = service(v4 ? "0.0.0.0" : "::", 4100), member = service(n->other, 0);
	static int index; /* the second family has the same device */
	struct ip_addr group = ip(n->group);
	struct packet p = datagram(b, 4000, n->group, 4100);

	if (!index)
		index = own_net_add_pair();
	b->nat.family[n->family].template_index = (unsigned)index;
	if (v4) {
		struct ip_mreqn m = {.imr_ifindex = index};

		memcpy(&m.imr_multiaddr, group.b + 12, 4);
		assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m)), 0);
	} else {
		struct ipv6_mreq m = {.ipv6mr_interface = (unsigned)index};

		memcpy(&m.ipv6mr_multiaddr, group.b, 16);
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m, sizeof(m)), 0);
	}
	p.ip.ttl = 3;
	input(b, &p, "who is there", 12);
	udp_flush(b->udp, b->now);
	receive_text(fd, "who is there");
	assert_int_equal(got.ttl, 3);
	reply(member, "I am", 4);
	turn(b);
	guest_gets_text(b, n->other, port_of(member), 4000, "I am");
	close(fd);
	close(member);
	bed_free(b);
}

static void test_multicast(void **state)
{
	(void)state;
	both(multicast_each);
}

/* A directed broadcast is recognized by the host's routes. */
static void test_broadcast(void **state)
{
	const struct names *n = &names[IP_V4];
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service("0.0.0.0", 4100);

	(void)state;
	for (int i = 0; i < 2; i++) {
		guest_sends(b, 4000, "127.255.255.255", 4100, "who is there");
		receive_text(fd, "who is there");
	}
	reply(fd, "I am", 4);
	turn(b);
	guest_gets_text(b, n->host, 4100, 4000, "I am");
	assert_int_equal(b->counters.dropped[DROP_SOCKET], 0);
	/* Other destinations go on. */
	round_trip(b, fd, 4000, n->host);
	close(fd);
	bed_free(b);
}

static void refuse(struct bed *b, struct packet *p, enum drop_reason why)
{
	uint64_t before = b->counters.dropped[why];

	input(b, p, "x", 1);
	udp_flush(b->udp, b->now);
	assert_int_equal(b->counters.dropped[why], before + 1);
	assert_int_equal(udp_flow_count(b->udp), 0);
}

static void refuse_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	struct packet p = datagram(b, 0, n->host, 9);

	refuse(b, &p, DROP_L4_HEADER);
	p = datagram(b, 4000, n->host, 9);
	p.ip.src = ip_any[n->family];
	refuse(b, &p, DROP_SOURCE);
	p = datagram(b, 4000, n->host, 9);
	p.ip.ttl = 0;
	refuse(b, &p, DROP_IP_HEADER);
	p = datagram(b, 4000, n->host, 9);
	b->nat.family[n->family].on = false;
	refuse(b, &p, DROP_FAMILY_OFF);
	bed_free(b);
}

static void test_refuse(void **state)
{
	(void)state;
	both(refuse_each);
}

/* Outbound address: for all but the host's own loopback. */
static void outbound_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	struct ip_addr other = ip(n->other);
	int fd = service(n->loopback, 0), out = service(n->other, 0);

	b->nat.family[n->family].outbound = other;
	round_trip(b, out, 4000, n->other);
	assert_memory_equal(got.from.addr.b, other.b, 16);
	assert_int_equal(got.from.port, 4000);
	round_trip(b, fd, 4000, n->host);
	assert_memory_equal(got.from.addr.b, ip_loopback[n->family].b, 16);
	close(fd);
	close(out);
	bed_free(b);
}

static void test_outbound(void **state)
{
	(void)state;
	both(outbound_each);
}

static void full_link_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.udp_gso = true});
	int fd = service(n->loopback, 0);

	guest_sends(b, 4000, n->host, port_of(fd), "go");
	receive_text(fd, "go");
	mem_link_set_room(b->link, 0);
	reply(fd, "lost", 4);
	turn(b);
	assert_int_equal(b->counters.dropped[DROP_LINK_FULL], 1);
	mem_link_set_room(b->link, UINT_MAX);
	reply(fd, "here", 4);
	turn(b);
	guest_gets_text(b, n->host, port_of(fd), 4000, "here");
	close(fd);
	bed_free(b);
}

static void test_full_link(void **state)
{
	(void)state;
	both(full_link_each);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_refused),        cmocka_unit_test(test_unreachable),
	    cmocka_unit_test(test_too_long),       cmocka_unit_test(test_filter),
	    cmocka_unit_test(test_marks),          cmocka_unit_test(test_limit),
	    cmocka_unit_test(test_limit_in_batch), cmocka_unit_test(test_multicast),
	    cmocka_unit_test(test_broadcast),      cmocka_unit_test(test_refuse),
	    cmocka_unit_test(test_outbound),       cmocka_unit_test(test_full_link),
	    cmocka_unit_test(test_socket_limit),
	};

	return cmocka_run_group_tests(tests, enter, NULL);
}
