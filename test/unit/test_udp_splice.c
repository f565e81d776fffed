/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP spliced between two network namespaces; time-outs and limits, which flows over the tap share.
 */
#include "test/unit/udp_forward_bed.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_splice),       cmocka_unit_test(test_splice_out),
	    cmocka_unit_test(test_splice_batch), cmocka_unit_test(test_splice_refused),
	    cmocka_unit_test(test_timeout),      cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_circle),
	};

	return cmocka_run_group_tests(tests, enter_both, NULL);
}
