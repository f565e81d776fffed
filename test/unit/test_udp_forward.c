/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP that comes in by forwarding rules to the guest, over the tap. */
#include "test/unit/udp_forward_bed.h"

#include <ifaddrs.h>
#include <time.h>

/* As guest_gets_text(), from any port, which is returned. */
static uint16_t guest_gets_from(struct bed *b, const char *from, uint16_t to, const char *text)
{
	struct ip_addr src = ip(from), dst = ip(b->n->guest);
	struct packet p;

	assert_true(guest_gets(b, &p));
	assert_int_equal(p.kind, PACKET_UDP);
	assert_memory_equal(p.ip.src.b, src.b, 16);
	assert_memory_equal(p.ip.dst.b, dst.b, 16);
	assert_int_equal(p.udp.dst_port, to);
	assert_int_equal(p.payload_len, strlen(text));
	assert_memory_equal(p.payload, text, p.payload_len);
	return p.udp.src_port;
}

/* The client's address and port are kept; answers leave from the address it sent to. */
static void tap_at(const struct names *n, const char *listen)
{
	struct forward_bed fb = forward_bed_new(n, &(struct bed_options){0}, listen, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int client = service(n->other, 0), other = service(n->other, 0), files;

	files = own_net_open_files();
	send_to(client, n->other, PORT, "one");
	send_to(other, second[n->family], PORT, "two");
	turn(b);
	guest_gets_text(b, n->other, port_of(client), TARGET, "one");
	guest_gets_text(b, n->other, port_of(other), TARGET, "two");
	guest_gets_nothing(b);
	guest_sends(b, TARGET, n->other, port_of(other), "answer two");
	guest_sends(b, TARGET, n->other, port_of(client), "answer one");
	receive_text_from(client, n->other, PORT, "answer one");
	receive_text_from(other, second[n->family], PORT, "answer two");
	assert_int_equal(udp_flow_count(b->udp), 2);
	assert_int_equal(own_net_open_files(), files);
	/* From another port of the guest's it is a flow like any other. */
	guest_sends(b, TARGET + 1, n->other, port_of(client), "mine");
	receive_text(client, "mine");
	assert_int_not_equal(got.from.port, PORT);
	assert_int_equal(udp_flow_count(b->udp), 3);
	close(client);
	close(other);
	forward_bed_free(&fb);
}

static void tap_each(const struct names *n)
{
	tap_at(n, NULL);
	tap_at(n, n->family == IP_V4 ? "0.0.0.0" : "::");
}

static void test_tap(void **state)
{
	(void)state;
	both(tap_each);
}

/* A flow stays with the address that the guest had when it began; what comes for two addresses is
 * not put together. */
static void moved_each(const struct names *n)
{
	struct bed_options o = {.mtu = 1500, .udp_gso = true};
	struct forward_bed fb = forward_bed_new(n, &o, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int client = service(n->other, 0);
	struct ip_addr moved = ip(n->dns);
	struct packet p;

	send_to(client, n->other, PORT, "hello");
	turn(b);
	guest_gets_text(b, n->other, port_of(client), TARGET, "hello");
	nat_guest_learn(&b->guest, &b->nat, &moved);
	send_to(client, n->other, PORT, "hello");
	send_to(client, second[n->family], PORT, "hello");
	turn(b);
	guest_gets_from(b, n->other, TARGET, "hello");
	assert_true(guest_gets(b, &p));
	assert_memory_equal(p.ip.dst.b, moved.b, 16);
	assert_int_equal(p.udp.src_port, port_of(client));
	close(client);
	forward_bed_free(&fb);
}

static void test_moved(void **state)
{
	(void)state;
	both(moved_each);
}

/* The address of a device that is valid on its link only, as text. */
static void link_local_of(const char *device, char text[IP_TEXT_MAX])
{
	struct ifaddrs *all;
	struct endpoint e;
	bool found = false;

	assert_int_equal(getifaddrs(&all), 0);
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (strcmp(i->ifa_name, device) || !i->ifa_addr ||
		    i->ifa_addr->sa_family != AF_INET6)
			continue;
		assert_int_equal(endpoint_from_sockaddr((struct sockaddr_storage *)i->ifa_addr, &e),
				 0);
		found |= ip_is_link_local(&e.addr);
		ip_format(&e.addr, text);
	}
	freeifaddrs(all);
	assert_true(found);
}

/* Link-local addresses mean something only with the interface: answers go back by it. */
static void test_link_local(void **state)
{
	const struct names *n = &names[IP_V6];
	struct forward_bed fb = forward_bed_new(n, &(struct bed_options){0}, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	char from[IP_TEXT_MAX], to[IP_TEXT_MAX];
	struct sockaddr_in6 sa = {.sin6_family = AF_INET6};
	int client = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct timeval two = {.tv_sec = 2};
	struct ip_addr addr;

	(void)state;
	assert_int_equal(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &two, sizeof(two)), 0);
	own_net_add_pair();
	for (int i = 0; i < 5000 && !own_net_has_v6("pair1"); i++)
		poll(NULL, 0, 1);
	link_local_of("pair1", from);
	link_local_of("pair0", to);
	addr = ip(from);
	sa.sin6_scope_id = if_nametoindex("pair1");
	memcpy(&sa.sin6_addr, addr.b, 16);
	assert_int_equal(bind(client, (struct sockaddr *)&sa, sizeof(sa)), 0);
	addr = ip(to);
	memcpy(&sa.sin6_addr, addr.b, 16);
	sa.sin6_port = (in_port_t)(PORT >> 8 | (PORT & 0xff) << 8);
	assert_int_equal(sendto(client, "hello", 5, 0, (struct sockaddr *)&sa, sizeof(sa)), 5);
	turn(b);
	guest_gets_text(b, from, port_of(client), TARGET, "hello");
	guest_sends(b, TARGET, from, port_of(client), "answer");
	receive_text_from(client, to, PORT, "answer");
	close(client);
	forward_bed_free(&fb);
	netns_ip("link del pair0\n");
}

/* Clients that would look the same to the guest are told apart by their ports. */
static void alike_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &(struct bed_options){0}, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int client = service(n->other, 0);
	size_t ip_len = n->family == IP_V4 ? 20 : 40;
	struct packet p;
	uint16_t port;

	for (int i = 0; i < 2; i++) {
		send_to(client, n->other, PORT, "first");
		send_to(client, second[n->family], PORT, "second");
		turn(b);
		guest_gets_text(b, n->other, port_of(client), TARGET, "first");
		port = guest_gets_from(b, n->other, TARGET, "second");
		assert_int_not_equal(port, port_of(client));
		guest_sends(b, TARGET, n->other, port, "to second");
		guest_sends(b, TARGET, n->other, port_of(client), "to first");
		receive_text_from(client, second[n->family], PORT, "to second");
		receive_text_from(client, n->other, PORT, "to first");
	}
	assert_int_equal(udp_flow_count(b->udp), 2);
	/* An error speaks of what the guest sent, not of what became of it. */
	close(client);
	guest_sends(b, TARGET, n->other, port, "too late");
	turn(b);
	assert_true(guest_gets(b, &p));
	assert_int_equal(p.kind, PACKET_ICMP);
	assert_int_equal(p.payload[ip_len + 2] << 8 | p.payload[ip_len + 3], port);
	forward_bed_free(&fb);
}

static void test_alike(void **state)
{
	(void)state;
	both(alike_each);
}

/* What the guest begins from a forwarded port leaves from that port, which is where it can be
 * answered; unless it would talk to the port itself. */
static void begins_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &(struct bed_options){0}, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int peer = service(n->other, 0), elsewhere = service(second[n->family], 0);

	fb.rule.target_first = PORT;
	for (int i = 0; i < 2; i++) {
		round_trip(b, peer, PORT, n->other);
		assert_int_equal(got.from.port, PORT);
	}
	assert_int_equal(udp_flow_count(b->udp), 1);
	guest_sends(b, PORT, n->host, PORT, "myself");
	assert_int_equal(udp_flow_count(b->udp), 2);
	turn(b);
	assert_int_not_equal(guest_gets_from(b, n->host, PORT, "myself"), PORT);
	/* Not if the rule is for another of the guest's addresses, or changes the number. */
	fb.rule.target = ip(second[n->family]);
	guest_sends(b, PORT, second[n->family], port_of(elsewhere), "not mine");
	receive_text(elsewhere, "not mine");
	assert_int_not_equal(got.from.port, PORT);
	close(elsewhere);
	fb.rule.target = ip_any[IP_V6];
	fb.rule.target_first = TARGET;
	guest_sends(b, TARGET, n->other, port_of(peer), "other number");
	receive_text(peer, "other number");
	assert_int_equal(got.from.port, TARGET);
	close(peer);
	forward_bed_free(&fb);
}

static void test_begins(void **state)
{
	(void)state;
	both(begins_each);
}

/* A client on the host's loopback is the guest's name for it; without one it is refused. */
static void loopback_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &(struct bed_options){0}, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int client = service(n->loopback, 0);

	send_to(client, n->loopback, PORT, "hello");
	turn(b);
	guest_gets_text(b, n->host, port_of(client), TARGET, "hello");
	guest_sends(b, TARGET, n->host, port_of(client), "answer");
	receive_text_from(client, n->loopback, PORT, "answer");
	close(client);
	b->nat.family[n->family].map_host_loopback = ip_any[n->family];
	client = service(n->loopback, 0);
	send_to(client, n->loopback, PORT, "hello");
	turn(b);
	guest_gets_nothing(b);
	assert_int_equal(b->counters.dropped[DROP_FORWARD], 1);
	assert_int_equal(udp_flow_count(b->udp), 1);
	close(client);
	forward_bed_free(&fb);
}

static void test_loopback(void **state)
{
	(void)state;
	both(loopback_each);
}

/* TTL and TOS are the sender's, both ways. */
static void marks_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &(struct bed_options){0}, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int client = service(n->other, 0), ttl = 7, tos = 0x28;
	bool v4 = n->family == IP_V4;
	struct packet p;

	assert_int_equal(setsockopt(client, v4 ? IPPROTO_IP : IPPROTO_IPV6,
				    v4 ? IP_TTL : IPV6_UNICAST_HOPS, &ttl, sizeof(ttl)),
			 0);
	assert_int_equal(setsockopt(client, v4 ? IPPROTO_IP : IPPROTO_IPV6,
				    v4 ? IP_TOS : IPV6_TCLASS, &tos, sizeof(tos)),
			 0);
	send_to(client, n->other, PORT, "marked");
	turn(b);
	assert_true(guest_gets(b, &p));
	assert_int_equal(p.ip.ttl, 7);
	assert_int_equal(p.ip.tos, 0x28);
	p = datagram(b, TARGET, n->other, port_of(client));
	p.ip.ttl = 33;
	p.ip.tos = 0x10;
	input(b, &p, "answer", 6);
	udp_flush(b->udp, b->now);
	receive_text(client, "answer");
	assert_int_equal(got.ttl, 33);
	assert_int_equal(got.tos, 0x10);
	close(client);
	forward_bed_free(&fb);
}

static void test_marks(void **state)
{
	(void)state;
	both(marks_each);
}

/* A batch comes as a super-frame and leaves as one message, or one by one where the path is too
 * narrow; from the right address either way. */
static void batch_each(const struct names *n)
{
	struct bed_options o = {.mtu = 1500, .udp_gso = true};
	struct forward_bed fb = forward_bed_new(n, &o, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	size_t headers = n->family == IP_V4 ? 42 : 62;
	int client = service(n->other, 0);
	static uint8_t data[5000];
	struct packet p = datagram(b, TARGET, n->other, port_of(client));
	struct offload off;
	struct ip_addr to = ip(second[n->family]);

	for (int i = 0; i < 3; i++)
		send_to(client, second[n->family], PORT, i < 2 ? "0123456789" : "0123");
	turn(b);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 24);
	assert_int_equal(off.gso, GSO_UDP);
	assert_int_equal(off.gso_size, 10);
	p.gso = GSO_UDP;
	p.gso_size = 2000;
	for (int i = 0; i < 3; i++) {
		if (i)
			own_net_mtu(1500);
		input(b, &p, data, sizeof(data));
		udp_flush(b->udp, b->now);
		for (size_t seen = 0; seen < sizeof(data); seen += (size_t)got.len) {
			receive(client);
			assert_int_equal(got.segment, i ? 0 : 2000);
			assert_memory_equal(got.from.addr.b, to.b, 16);
			assert_int_equal(got.from.port, PORT);
		}
	}
	own_net_mtu(65536);
	close(client);
	forward_bed_free(&fb);
}

static void test_batch(void **state)
{
	(void)state;
	both(batch_each);
}

/* A client that is gone: the guest hears of it, over a socket of both families or one. */
static void error_at(const struct names *n, const char *listen)
{
	struct forward_bed fb = forward_bed_new(n, &(struct bed_options){0}, listen, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int client = service(n->other, 0);
	uint16_t port = port_of(client);
	struct ip_addr me = ip(n->guest), peer = ip(n->other);
	size_t ip_len = n->family == IP_V4 ? 20 : 40, len = ip_bytes_len(&me);
	struct packet p;

	send_to(client, n->loopback, PORT, "hello");
	turn(b);
	guest_gets_text(b, n->other, port, TARGET, "hello");
	close(client);
	guest_sends(b, TARGET, n->other, port, "too late");
	turn(b);
	assert_true(guest_gets(b, &p));
	assert_int_equal(p.kind, PACKET_ICMP);
	assert_int_equal(p.icmp.type, n->family == IP_V4 ? 3 : 1);
	assert_int_equal(p.icmp.code, n->family == IP_V4 ? 3 : 4);
	assert_memory_equal(p.payload + ip_len - 2 * len, ip_bytes(&me), len);
	assert_memory_equal(p.payload + ip_len - len, ip_bytes(&peer), len);
	assert_int_equal(p.payload[ip_len] << 8 | p.payload[ip_len + 1], TARGET);
	assert_int_equal(p.payload[ip_len + 2] << 8 | p.payload[ip_len + 3], port);
	assert_memory_equal(p.payload + ip_len + 8, "too late", 8);
	/* The error stands in the socket when another client is answered: that is not lost. */
	client = service(n->other, 0);
	send_to(client, n->other, PORT, "hello");
	turn(b);
	guest_gets_text(b, n->other, port_of(client), TARGET, "hello");
	guest_sends(b, TARGET, n->other, port, "again");
	guest_sends(b, TARGET, n->other, port_of(client), "answer");
	receive_text_from(client, n->other, PORT, "answer");
	assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	close(client);
	forward_bed_free(&fb);
}

static void error_each(const struct names *n)
{
	error_at(n, NULL);
	error_at(n, n->family == IP_V4 ? "0.0.0.0" : "::");
}

static void test_error(void **state)
{
	(void)state;
	both(error_each);
}

static usec_t clock_now(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
	return (usec_t)t.tv_sec * USEC_SEC + (usec_t)t.tv_nsec / 1000;
}

/* A socket that only fails (one of TCP, not connected, is never anything but hung up) is let go. */
static void test_broken(void **state)
{
	struct bed *b = bed_new(&names[IP_V4], &(struct bed_options){0});
	struct rule rule = {.proto = IPPROTO_UDP, .dual_stack = true};
	struct forward_port port = {.rule = &rule, .port = PORT};
	usec_t before;

	(void)state;
	port.source.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(udp_listen(b->udp, &port), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	before = clock_now();
	assert_int_equal(loop_turn(b->loop, b->now, 30), 0);
	assert_true(clock_now() - before >= 30 * USEC_MSEC);
	udp_unlisten(b->udp, &port);
	close(port.source.fd);
	bed_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tap),        cmocka_unit_test(test_moved),
	    cmocka_unit_test(test_link_local), cmocka_unit_test(test_alike),
	    cmocka_unit_test(test_begins),     cmocka_unit_test(test_loopback),
	    cmocka_unit_test(test_marks),      cmocka_unit_test(test_batch),
	    cmocka_unit_test(test_error),      cmocka_unit_test(test_broken),
	};

	return cmocka_run_group_tests(tests, enter_both, NULL);
}
