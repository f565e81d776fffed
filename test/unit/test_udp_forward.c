/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP that comes in by forwarding rules: to the guest over the tap, and spliced between two network
 * namespaces, the second of which has the guest's addresses. */
#include "test/unit/udp_bed.h"

#include <time.h>

#define PORT   5000
#define TARGET 6000

/* One more address of the host, by family. */
static const char *const second[IP_FAMILIES] = {"198.51.100.10", "2001:db8::10"};

/* The namespaces, and what gives sockets in them. */
struct nets {
	struct side_sockets sides;
	int ns[FORWARD_SIDES];
	int failing; /* calls that fail with EMFILE first */
};

static struct nets nets;

static void go_to(enum forward_side side)
{
	assert_int_equal(setns(nets.ns[side], CLONE_NEWNET), 0);
}

static int get_socket(struct side_sockets *s, enum forward_side side, int family, int type, int *fd)
{
	struct nets *n = container_of(s, struct nets, sides);

	if (n->failing) {
		n->failing--;
		return -EMFILE;
	}
	go_to(side);
	*fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	go_to(FORWARD_HOST);
	return *fd < 0 ? -errno : 0;
}

static int service_on(enum forward_side side, const char *addr, uint16_t port)
{
	int fd;

	go_to(side);
	fd = service(addr, port);
	go_to(FORWARD_HOST);
	return fd;
}

/* A bed with one rule: PORT to TARGET on the other side, listening on addr, NULL: on everything. */
struct forward_bed {
	struct bed *b;
	struct rule rule;
	struct forward_port port;
};

static struct forward_bed forward_bed_new(const struct names *n, const struct bed_options *o,
					  const char *addr, enum forward_side side)
{
	struct forward_bed fb = {.b = bed_new(n, o)};

	fb.rule = (struct rule){.proto = IPPROTO_UDP,
				.dual_stack = !addr,
				.addr = addr ? ip(addr) : ip_any[IP_V6],
				.first = PORT,
				.last = PORT,
				.target = ip_any[IP_V6],
				.target_first = TARGET};
	fb.port = (struct forward_port){.port = PORT, .side = side};
	go_to(side);
	assert_int_equal(forward_open(&fb.rule, PORT, false, &fb.port.source.fd), 0);
	go_to(FORWARD_HOST);
	return fb;
}

/* Not in forward_bed_new() because the rule must stay where it is. */
static struct bed *serve(struct forward_bed *fb)
{
	fb->port.rule = &fb->rule;
	assert_int_equal(udp_listen(fb->b->udp, &fb->port), 0);
	return fb->b;
}

static void forward_bed_free(struct forward_bed *fb)
{
	udp_unlisten(fb->b->udp, &fb->port);
	udp_unlisten(fb->b->udp, &fb->port);
	close(fb->port.source.fd);
	bed_free(fb->b);
}

static void send_to(int fd, const char *addr, uint16_t port, const char *text)
{
	struct endpoint e = {.addr = ip(addr), .port = port};
	socklen_t len = endpoint_to_sockaddr(&e, 1, &got.address);

	assert_int_equal(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&got.address, len),
			 strlen(text));
}

static void receive_text_from(int fd, const char *from, uint16_t port, const char *text)
{
	struct ip_addr a = ip(from);

	receive_text(fd, text);
	assert_memory_equal(got.from.addr.b, a.b, 16);
	assert_int_equal(got.from.port, port);
}

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

/* Clients that would look the same to the guest are told apart by their ports. */
static void alike_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &(struct bed_options){0}, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int client = service(n->other, 0);
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
	close(client);
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
	int peer = service(n->other, 0);

	fb.rule.target_first = PORT;
	for (int i = 0; i < 2; i++) {
		round_trip(b, peer, PORT, n->other);
		assert_int_equal(got.from.port, PORT);
	}
	assert_int_equal(udp_flow_count(b->udp), 1);
	guest_sends(b, PORT, n->host, PORT, "myself");
	assert_int_equal(udp_flow_count(b->udp), 2);
	turn(b);
	guest_gets_from(b, n->host, PORT, "myself");
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

static const struct bed_options spliced = {.sides = &nets.sides};

/* Host to namespace: the service sees the client's port; answers come from the address that the
 * client sent to. */
static void splice_at(const struct names *n, const char *listen)
{
	struct forward_bed fb = forward_bed_new(n, &spliced, listen, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int inside = service_on(FORWARD_NS, n->guest, TARGET), files = own_net_open_files();
	const char *to[2] = {n->loopback, n->family == IP_V4 ? "127.0.0.2" : n->other};
	int client[2] = {service(n->loopback, 0), service(n->loopback, 0)};

	for (int k = 0; k < 2; k++) {
		send_to(client[k], to[k], PORT, "ask");
		turn(b);
		receive_text(inside, "ask");
		assert_int_equal(got.from.port, port_of(client[k]));
		reply(inside, "answer", 6);
		turn(b);
		receive_text_from(client[k], to[k], PORT, "answer");
	}
	assert_int_equal(udp_flow_count(b->udp), 2);
	assert_int_equal(own_net_open_files(), files + 4);
	guest_gets_nothing(b);
	udp_unlisten(b->udp, &fb.port);
	assert_int_equal(udp_flow_count(b->udp), 0);
	assert_int_equal(own_net_open_files(), files + 2);
	close(client[0]);
	close(client[1]);
	close(inside);
	forward_bed_free(&fb);
}

static void splice_each(const struct names *n)
{
	splice_at(n, NULL);
	splice_at(n, n->family == IP_V4 ? "0.0.0.0" : "::");
}

static void test_splice(void **state)
{
	(void)state;
	both(splice_each);
}

/* Namespace to host. A port that is taken there is left to its owner. */
static void splice_out_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &spliced, NULL, FORWARD_NS);
	struct bed *b = serve(&fb);
	int host = service(n->loopback, TARGET), taken = service(n->loopback, 4001);
	int client[2] = {service_on(FORWARD_NS, n->loopback, 4000),
			 service_on(FORWARD_NS, n->loopback, 4001)};

	for (int k = 0; k < 2; k++) {
		send_to(client[k], n->loopback, PORT, "ask");
		turn(b);
		receive_text(host, "ask");
		if (k)
			assert_int_not_equal(got.from.port, 4001);
		else
			assert_int_equal(got.from.port, 4000);
		reply(host, "answer", 6);
		turn(b);
		receive_text_from(client[k], n->loopback, PORT, "answer");
		close(client[k]);
	}
	close(host);
	close(taken);
	forward_bed_free(&fb);
}

static void test_splice_out(void **state)
{
	(void)state;
	both(splice_out_each);
}

/* What is read together is sent together: equal datagrams become one message. */
static void splice_batch_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &spliced, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int inside = service_on(FORWARD_NS, n->guest, TARGET), client = service(n->loopback, 0);
	static uint8_t data[65507];
	uint8_t next = 0;

	for (int i = 0; i < 30; i++) {
		char text[20];

		snprintf(text, sizeof(text), "%c%017d", 'a' + i, i);
		send_to(client, n->loopback, PORT, text);
	}
	turn(b);
	for (int seen = 0; seen < 30; seen += (int)got.len / 18) {
		receive(inside);
		assert_int_equal(got.segment, 18);
		assert_int_equal(got.data[0], 'a' + seen);
	}
	for (int i = 0; i < 20; i++, next++) {
		memset(data, next, 1000);
		reply(inside, data, 1000);
	}
	turn(b);
	next = 0;
	while (next < 20) {
		receive(client);
		for (ssize_t at = 0; at < got.len; at += 1000)
			assert_int_equal(got.data[at], next++);
	}
	/* Sizes from nothing to the largest. */
	send_to(client, n->loopback, PORT, "");
	turn(b);
	receive_text(inside, "");
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	reply(inside, data, sizeof(data));
	turn(b);
	receive(client);
	assert_int_equal(got.len, sizeof(data));
	assert_memory_equal(got.data, data, sizeof(data));
	assert_int_equal(got.from.port, PORT);
	assert_int_equal(udp_flow_count(b->udp), 1);
	close(client);
	close(inside);
	forward_bed_free(&fb);
}

static void test_splice_batch(void **state)
{
	(void)state;
	both(splice_batch_each);
}

/* Nobody listens: what is sent is lost, and nothing keeps us awake; later somebody does. */
static void splice_refused_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &spliced, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int client = service(n->loopback, 0), inside;

	for (int i = 0; i < 3; i++) {
		send_to(client, n->loopback, PORT, "anybody?");
		assert_int_equal(loop_turn(b->loop, b->now, 1000), 0);
	}
	assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	inside = service_on(FORWARD_NS, n->guest, TARGET);
	send_to(client, n->loopback, PORT, "now");
	turn(b);
	receive_text(inside, "now");
	/* And the client may be gone. */
	close(client);
	for (int i = 0; i < 3; i++) {
		reply(inside, "answer", 6);
		turn(b);
	}
	assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	guest_gets_nothing(b);
	assert_int_equal(udp_flow_count(b->udp), 1);
	close(inside);
	forward_bed_free(&fb);
}

static void test_splice_refused(void **state)
{
	(void)state;
	both(splice_refused_each);
}

static void expect_flows(struct bed *b, usec_t at, size_t count)
{
	b->now = at;
	assert_int_equal(loop_turn(b->loop, at, 0), 0);
	assert_int_equal(udp_flow_count(b->udp), count);
}

static void timeout_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &spliced, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int inside = service_on(FORWARD_NS, n->guest, TARGET), local = service(n->loopback, 0);
	int client = service(n->other, 0), files = own_net_open_files();

	send_to(client, n->other, PORT, "one way");
	send_to(local, n->loopback, PORT, "one way");
	turn(b);
	receive_text(inside, "one way");
	expect_flows(b, START + ONE_WAY - 1, 2);
	expect_flows(b, START + ONE_WAY, 0);
	assert_int_equal(own_net_open_files(), files);

	send_to(client, n->other, PORT, "ask");
	send_to(local, n->loopback, PORT, "ask");
	turn(b);
	guest_sends(b, TARGET, n->other, port_of(client), "answer");
	receive_text(inside, "ask");
	reply(inside, "answer", 6);
	turn(b);
	receive_text(client, "answer");
	receive_text(local, "answer");
	expect_flows(b, START + ONE_WAY + BOTH_WAYS - 1, 2);
	expect_flows(b, START + ONE_WAY + BOTH_WAYS, 0);
	assert_int_equal(own_net_open_files(), files);

	/* One question and one answer of a well-known port: the short time. */
	b->now = START;
	fb.rule.target_first = 53;
	send_to(client, n->other, PORT, "ask");
	turn(b);
	guest_sends(b, 53, n->other, port_of(client), "answer");
	receive_text(client, "answer");
	expect_flows(b, START + ONE_WAY - 1, 1);
	expect_flows(b, START + ONE_WAY, 0);
	close(client);
	close(local);
	close(inside);
	forward_bed_free(&fb);
}

static void test_timeout(void **state)
{
	(void)state;
	both(timeout_each);
}

/* Flows, and descriptors, are taken from those that are missed least. */
static void limits_each(const struct names *n)
{
	struct bed_options o = {.sides = &nets.sides, .flows_max = 3};
	struct forward_bed fb = forward_bed_new(n, &o, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	int inside = service_on(FORWARD_NS, n->guest, TARGET), local[5],
	    client = service(n->other, 0);
	int files = own_net_open_files();

	for (int i = 0; i < 5; i++) {
		local[i] = service(n->loopback, 0);
		send_to(local[i], n->loopback, PORT, "hello");
		send_to(client, n->other, PORT, "hello");
		turn(b);
		receive_text(inside, "hello");
		guest_gets_text(b, n->other, port_of(client), TARGET, "hello");
	}
	assert_int_equal(udp_flow_count(b->udp), 3);
	assert_int_equal(own_net_open_files(), files + 5 + 2);
	for (int i = 0; i < 5; i++)
		close(local[i]);
	local[0] = service(n->loopback, 0);
	nets.failing = 1;
	send_to(local[0], n->loopback, PORT, "hello");
	turn(b);
	receive_text(inside, "hello");
	assert_int_equal(nets.failing, 0);
	/* With nothing left to free, the datagram is lost. */
	nets.failing = 100;
	close(local[0]);
	local[0] = service(n->loopback, 0);
	send_to(local[0], n->loopback, PORT, "hello");
	turn(b);
	nets.failing = 0;
	assert_int_equal(b->counters.dropped[DROP_NO_SOCKET], 1);
	assert_int_equal(udp_flow_count(b->udp), 0);
	close(local[0]);
	close(client);
	close(inside);
	forward_bed_free(&fb);
}

static void test_limits(void **state)
{
	(void)state;
	both(limits_each);
}

/* Two rules that lead to each other. */
static void circle_each(const struct names *n)
{
	struct forward_bed fb = forward_bed_new(n, &spliced, NULL, FORWARD_HOST);
	struct bed *b = serve(&fb);
	struct forward_port inside = {.rule = &fb.rule, .port = TARGET, .side = FORWARD_NS};
	int client = service(n->loopback, 0);

	b->nat.host_lo_to_ns_lo = true;
	go_to(FORWARD_NS);
	assert_int_equal(forward_open(&fb.rule, TARGET, false, &inside.source.fd), 0);
	go_to(FORWARD_HOST);
	assert_int_equal(udp_listen(b->udp, &inside), 0);
	send_to(client, n->loopback, PORT, "round and round");
	turn(b);
	assert_int_equal(b->counters.dropped[DROP_FORWARD], 1);
	assert_int_equal(udp_flow_count(b->udp), 0);
	udp_unlisten(b->udp, &inside);
	close(inside.source.fd);
	close(client);
	forward_bed_free(&fb);
}

static void test_circle(void **state)
{
	(void)state;
	both(circle_each);
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

static int enter_both(void **state)
{
	enter(state);
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct ip_addr a = ip(second[f]);

		own_net_add(&a);
	}
	nets.sides.get = get_socket;
	nets.ns[FORWARD_HOST] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	own_net_enter();
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct ip_addr a = ip(names[f].guest);

		own_net_add(&a);
	}
	nets.ns[FORWARD_NS] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_true(nets.ns[FORWARD_HOST] >= 0 && nets.ns[FORWARD_NS] >= 0);
	go_to(FORWARD_HOST);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tap),          cmocka_unit_test(test_alike),
	    cmocka_unit_test(test_loopback),     cmocka_unit_test(test_marks),
	    cmocka_unit_test(test_batch),        cmocka_unit_test(test_error),
	    cmocka_unit_test(test_splice),       cmocka_unit_test(test_splice_out),
	    cmocka_unit_test(test_splice_batch), cmocka_unit_test(test_splice_refused),
	    cmocka_unit_test(test_timeout),      cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_begins),       cmocka_unit_test(test_circle),
	    cmocka_unit_test(test_broken),
	};

	return cmocka_run_group_tests(tests, enter_both, NULL);
}
