/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP: what is sent and received, in batches and super-frames, by which sockets, for how long. */
#include "test/unit/udp_bed.h"

static void sizes_at(const struct names *n, size_t mtu)
{
	static const size_t sizes[] = {0, 1, 64, 1400, 1472, 1473, 8192, 32768, BIG};
	static uint8_t data[BIG];
	struct bed *b = bed_new(n, &(struct bed_options){.mtu = mtu, .udp_gso = true});
	int fd = service(n->loopback, 0);
	struct packet p = datagram(b, 4000, n->host, port_of(fd));

	for (size_t i = 0; i < BIG; i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct packet back;

		input(b, &p, data, sizes[i]);
		udp_flush(b->udp, b->now);
		receive(fd);
		assert_int_equal(got.len, sizes[i]);
		assert_memory_equal(got.data, data, sizes[i]);
		reply(fd, data, sizes[i]);
		turn(b);
		assert_true(guest_gets(b, &back));
		assert_int_equal(back.kind, PACKET_UDP);
		assert_int_equal(back.payload_len, sizes[i]);
		assert_memory_equal(back.payload, data, sizes[i]);
	}
	assert_int_equal(udp_flow_count(b->udp), 1);
	close(fd);
	bed_free(b);
}

static void sizes_each(const struct names *n)
{
	sizes_at(n, 65520);
	sizes_at(n, 1500);
	sizes_at(n, 65535);
}

static void test_sizes(void **state)
{
	(void)state;
	both(sizes_each);
}

/* Equal datagrams go out as one message, a shorter one with them as the last, a longer one begins
 * the next. */
static void batch_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0);
	static const size_t sizes[] = {100, 100, 100, 50, 200, 200, 0, 200};
	static uint8_t data[16][200];
	struct packet p = datagram(b, 4000, n->host, port_of(fd));

	for (size_t i = 0; i < 8; i++) {
		memset(data[i], (int)i, sizeof(data[i]));
		input(b, &p, data[i], sizes[i]);
	}
	udp_flush(b->udp, b->now);
	receive(fd);
	assert_int_equal(got.len, 350);
	assert_int_equal(got.segment, 100);
	assert_int_equal(got.data[0], 0);
	assert_int_equal(got.data[349], 3);
	receive(fd);
	assert_int_equal(got.len, 400);
	assert_int_equal(got.segment, 200);
	receive(fd);
	assert_int_equal(got.len, 0);
	receive(fd);
	assert_int_equal(got.len, 200);
	assert_int_equal(got.data[0], 7);
	close(fd);
	bed_free(b);
}

static void test_batch(void **state)
{
	(void)state;
	both(batch_each);
}

/* More datagrams than a batch holds, of two flows in turns: all arrive, in order. */
static void many_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd[2] = {service(n->loopback, 0), service(n->other, 0)};
	static uint8_t data[150][10];
	const char *to[2] = {n->host, n->other};

	for (int i = 0; i < 150; i++) {
		struct packet p = datagram(b, 4000, to[i % 2], port_of(fd[i % 2]));

		data[i][0] = (uint8_t)i;
		input(b, &p, data[i], sizeof(data[i]));
	}
	udp_flush(b->udp, b->now);
	for (int k = 0; k < 2; k++) {
		int next = k;

		while (next < 150) {
			receive(fd[k]);
			for (ssize_t at = 0; at < got.len; at += 10, next += 2)
				assert_int_equal(got.data[at], next);
		}
		close(fd[k]);
	}
	assert_int_equal(udp_flow_count(b->udp), 2);
	bed_free(b);
}

static void test_many(void **state)
{
	(void)state;
	both(many_each);
}

/* A super-frame of the guest is sent with its segment size; above the path's MTU it is sent
 * datagram by datagram. */
static void super_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0);
	static uint8_t data[5000];
	struct packet p = datagram(b, 4000, n->host, port_of(fd));

	p.gso = GSO_UDP;
	p.gso_size = 2000;
	input(b, &p, data, sizeof(data));
	udp_flush(b->udp, b->now);
	receive(fd);
	assert_int_equal(got.len, 5000);
	assert_int_equal(got.segment, 2000);
	own_net_mtu(1500);
	for (int i = 0; i < 6; i++) {
		if (i % 3 == 0) {
			input(b, &p, data, sizeof(data));
			udp_flush(b->udp, b->now);
		}
		receive(fd);
		assert_int_equal(got.len, i % 3 < 2 ? 2000 : 1000);
	}
	own_net_mtu(65536);
	/* More segments than any kernel makes of a message. */
	p.gso_size = sizeof(data) / 129;
	input(b, &p, data, sizeof(data));
	assert_int_equal(b->counters.dropped[DROP_L4_HEADER], 1);
	close(fd);
	bed_free(b);
}

static void test_super(void **state)
{
	(void)state;
	both(super_each);
}

static void send_segments(int fd, size_t len, uint16_t segment)
{
	static uint8_t data[65000];
	int size = segment, off = 0;

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i / segment);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)), 0);
	assert_int_equal(
	    sendto(fd, data, len, 0, (struct sockaddr *)&got.address, sizeof(got.address)), len);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &off, sizeof(off)), 0);
}

/* What comes together goes to the guest as one super-frame, and equal ones read in a row as well.
 */
static void merge_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.mtu = 1500, .udp_gso = true});
	size_t headers = n->family == IP_V4 ? 42 : 62;
	int fd = service(n->loopback, 0);
	struct offload off;
	struct packet p;

	guest_sends(b, 4000, n->host, port_of(fd), "go");
	receive_text(fd, "go");
	send_segments(fd, 1050, 500);
	turn(b);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 1050);
	assert_int_equal(off.gso, GSO_UDP);
	assert_int_equal(off.gso_size, 500);
	assert_int_equal(off.header_len, headers);
	assert_true(off.csum_partial);
	assert_int_equal(off.csum_start, headers - 8);
	for (int i = 0; i < 3; i++)
		reply(fd, "0123456789", i < 2 ? 10 : 4);
	reply(fd, "0123456789", 10);
	turn(b);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 24);
	assert_int_equal(off.gso_size, 10);
	assert_true(guest_gets(b, &p));
	assert_int_equal(p.payload_len, 10);
	guest_gets_nothing(b);
	/* 100 segments are more than a super-frame may have, and longer than the MTU they are cut.
	 */
	send_segments(fd, 64 * 20, 20);
	send_segments(fd, 36 * 20, 20);
	turn(b);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 1280);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 720);
	send_segments(fd, 4000, 2000);
	turn(b);
	for (int i = 0; i < 2; i++) {
		assert_true(guest_gets(b, &p));
		assert_int_equal(p.payload_len, 2000);
		assert_int_equal(p.payload[1999], i);
	}
	close(fd);
	bed_free(b);
}

static void test_merge(void **state)
{
	(void)state;
	both(merge_each);
}

/* A link without super-frames gets every datagram alone. */
static void plain_link_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.mtu = 1500});
	int fd = service(n->loopback, 0);
	struct packet p;

	guest_sends(b, 4000, n->host, port_of(fd), "go");
	receive_text(fd, "go");
	for (int part = 0; part < 2; part++) {
		int count = part ? 51 : 64;

		send_segments(fd, part ? 50 * 300 + 7 : 64 * 300, 300);
		for (int i = 0; i < count; i++) {
			/* A socket not known to be busy yet is read a bounded number of datagrams a
			 * turn. */
			if (!guest_gets(b, &p)) {
				turn(b);
				assert_true(guest_gets(b, &p));
			}
			assert_int_equal(p.payload_len, part && i == 50 ? 7 : 300);
			assert_int_equal(p.payload[0], i);
		}
	}
	guest_gets_nothing(b);
	close(fd);
	bed_free(b);
}

static void test_plain_link(void **state)
{
	(void)state;
	both(plain_link_each);
}

/* The guest's port is kept if it is free, and never taken from a service of the host. */
static void port_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0), taken = service(n->loopback, 4001);

	round_trip(b, fd, 4000, n->host);
	assert_int_equal(got.from.port, 4000);
	round_trip(b, fd, 4001, n->host);
	assert_int_not_equal(got.from.port, 4001);
	close(fd);
	close(taken);
	bed_free(b);
}

static void test_port(void **state)
{
	(void)state;
	both(port_each);
}

/* One socket whatever the guest's endpoint talks to: the peers see one port. */
static void mapping_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd[2] = {service(n->loopback, 0), service(n->other, 0)},
	    taken = service(n->loopback, 4001);
	uint16_t first;

	round_trip(b, fd[0], 4001, n->host);
	first = got.from.port;
	round_trip(b, fd[1], 4001, n->other);
	assert_int_equal(got.from.port, first);
	close(fd[0]);
	close(fd[1]);
	close(taken);
	bed_free(b);
}

static void test_mapping(void **state)
{
	(void)state;
	both(mapping_each);
}

static void expect_flows(struct bed *b, usec_t at, size_t count)
{
	b->now = at;
	assert_int_equal(loop_turn(b->loop, at, 0), 0);
	assert_int_equal(udp_flow_count(b->udp), count);
}

static void timeout_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0), dns = service(n->loopback, 53),
	    files = own_net_open_files();

	guest_sends(b, 4000, n->host, port_of(fd), "one way");
	receive_text(fd, "one way");
	expect_flows(b, START + ONE_WAY - 1, 1);
	guest_sends(b, 4000, n->host, port_of(fd), "again");
	receive_text(fd, "again");
	expect_flows(b, START + 2 * ONE_WAY - 2, 1);
	expect_flows(b, START + 2 * ONE_WAY - 1, 0);
	assert_int_equal(own_net_open_files(), files);

	b->now = START;
	round_trip(b, fd, 4000, n->host);
	expect_flows(b, START + BOTH_WAYS - 1, 1);
	round_trip(b, fd, 4000, n->host);
	expect_flows(b, START + 2 * BOTH_WAYS - 2, 1);
	expect_flows(b, START + 2 * BOTH_WAYS - 1, 0);

	/* A question and its answer at a well-known port: the short time; more of them: the long
	 * one. */
	b->now = START;
	round_trip(b, dns, 4000, n->host);
	expect_flows(b, START + ONE_WAY - 1, 1);
	expect_flows(b, START + ONE_WAY, 0);
	b->now = START;
	round_trip(b, dns, 4000, n->host);
	round_trip(b, dns, 4000, n->host);
	expect_flows(b, START + BOTH_WAYS - 1, 1);
	expect_flows(b, START + BOTH_WAYS, 0);
	assert_int_equal(own_net_open_files(), files);
	close(fd);
	close(dns);
	bed_free(b);
}

static void test_timeout(void **state)
{
	(void)state;
	both(timeout_each);
}

/* The answer of the resolver comes from the name that the guest asked, whatever else it calls the
 * same host. */
static void dns_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int dns = service(n->loopback, 53), fd = service(n->loopback, 0);

	round_trip(b, dns, 4000, n->dns);
	round_trip(b, fd, 4000, n->host);
	round_trip(b, dns, 4000, n->dns);
	assert_int_equal(udp_flow_count(b->udp), 2);
	close(dns);
	close(fd);
	bed_free(b);
}

static void test_dns(void **state)
{
	(void)state;
	both(dns_each);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sizes),   cmocka_unit_test(test_batch),
	    cmocka_unit_test(test_many),    cmocka_unit_test(test_super),
	    cmocka_unit_test(test_merge),   cmocka_unit_test(test_plain_link),
	    cmocka_unit_test(test_port),    cmocka_unit_test(test_mapping),
	    cmocka_unit_test(test_timeout), cmocka_unit_test(test_dns),
	};

	return cmocka_run_group_tests(tests, enter, NULL);
}
