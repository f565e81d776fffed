/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments: any order, repetition, overlap, damage, bounds, time. Each script runs for both
 * families. */
#include "test/unit/build.h"

#include <stdlib.h>

#include "tap/reassembly.h"

#define T0 (1000 * USEC_SEC)

struct bench {
	struct loop *loop;
	struct counters counters;
	struct reassembly *r;
	struct packet whole;
	usec_t now;
};

static void bench_init(struct bench *b)
{
	*b = (struct bench){.now = T0};
	assert_int_equal(loop_new(&b->loop), 0);
	assert_int_equal(reassembly_new(b->loop, &b->counters, &b->r), 0);
}

static void bench_end(struct bench *b)
{
	reassembly_free(b->r);
	assert_true(timers_next(loop_timers(b->loop)) == USEC_NEVER);
	loop_free(b->loop);
}

/* A datagram of which fragments are made: transport header and payload. */
struct datagram {
	struct ip_header ip;
	uint8_t bytes[65535];
	size_t len;
};

static void datagram_make(struct datagram *d, enum ip_family family, uint32_t id, size_t len)
{
	struct udp_header udp = {.src_port = 1000, .dst_port = 2000};

	d->ip = guest_ip(family, IPPROTO_UDP);
	d->ip.fragment_id = id;
	d->len = emit_udp(d->bytes, &udp, len) + len;
	fill(d->bytes + 8, len);
	emit_l4_checksum(d->bytes, 8, d->bytes + 8, len, &d->ip);
}

/* Gives bytes from .. to of d as a fragment. */
static bool give(struct bench *b, const struct datagram *d, size_t from, size_t to, bool more)
{
	static uint8_t frame[FRAME_MAX + 100];
	static const struct offload none;
	struct ip_header h = d->ip;
	enum drop_reason why;
	struct packet p;
	struct edge e;
	size_t len;
	bool done;

	h.is_fragment = true;
	h.fragment_offset = (uint16_t)from;
	h.more_fragments = more;
	len = put_ip(frame, &h, d->bytes + from, to - from);
	e = edge_copy(frame, len);
	assert_int_equal(packet_parse(e.data, len, &none, &p, &why), 0);
	assert_int_equal(p.kind, PACKET_FRAGMENT);
	done = reassembly_input(b->r, &p, b->now, &b->whole);
	edge_free(&e); /* nothing of the fragment may be needed any more */
	return done;
}

static bool part(struct bench *b, const struct datagram *d, size_t from, size_t to)
{
	return give(b, d, from, to, to < d->len);
}

static void is_whole(struct bench *b, const struct datagram *d)
{
	assert_int_equal(b->whole.kind, PACKET_UDP);
	assert_true(ip_equal(&b->whole.ip.src, &d->ip.src));
	assert_true(ip_equal(&b->whole.ip.dst, &d->ip.dst));
	assert_int_equal(b->whole.ip.ttl, 64);
	assert_int_equal(b->whole.udp.dst_port, 2000);
	assert_int_equal(b->whole.payload_len, d->len - 8);
	assert_memory_equal(b->whole.payload, d->bytes + 8, d->len - 8);
	assert_true(mac_equal(&b->whole.eth_src, &guest_mac));
}

static struct datagram d, other;

static void fragments_in_any_order(void **state)
{
	static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	static const size_t cuts[4] = {0, 1480, 2960, 3008 + 5};

	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct bench b;

		bench_init(&b);
		for (uint32_t o = 0; o < COUNT(orders); o++) {
			datagram_make(&d, f, o, cuts[3] - 8);
			for (int i = 0; i < 3; i++) {
				int k = orders[o][i];

				assert_int_equal(part(&b, &d, cuts[k], cuts[k + 1]), i == 2);
			}
			is_whole(&b, &d);
		}
		assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 0);
		bench_end(&b);
	}
}

static void largest_datagram(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct bench b;
		size_t at = 0;

		bench_init(&b);
		datagram_make(&d, f, 1, f == IP_V4 ? 65507 : 65527);
		while (at < d.len) {
			size_t end = at + 1448 < d.len ? at + 1448 : d.len;

			assert_int_equal(part(&b, &d, at, end), end == d.len);
			at = end;
		}
		is_whole(&b, &d);
		bench_end(&b);
	}
}

static void interleaved_datagrams_stay_apart(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct bench b;

		bench_init(&b);
		datagram_make(&d, f, 1, 2000);
		datagram_make(&other, f, 2, 1900);
		assert_false(part(&b, &d, 0, 1480));
		assert_false(part(&b, &other, 0, 1480));
		assert_true(part(&b, &d, 1480, d.len));
		is_whole(&b, &d);
		assert_true(part(&b, &other, 1480, other.len));
		is_whole(&b, &other);
		/* The same id between other addresses is another packet. */
		other.ip.fragment_id = 1;
		other.ip.dst = ip(f == IP_V4 ? "198.51.100.99" : "2001:db8:1::99");
		assert_false(part(&b, &d, 0, 1480));
		assert_false(part(&b, &other, 1480, other.len));
		assert_true(part(&b, &d, 1480, d.len));
		is_whole(&b, &d);
		bench_end(&b);
	}
}

static void repetition_is_harmless(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct bench b;

		bench_init(&b);
		datagram_make(&d, f, 1, 3995);
		assert_false(part(&b, &d, 2000, d.len));
		assert_false(part(&b, &d, 2000, d.len));
		assert_false(part(&b, &d, 0, 1000));
		assert_false(part(&b, &d, 0, 1000));
		assert_true(part(&b, &d, 1000, 2000));
		is_whole(&b, &d);
		assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 0);
		bench_end(&b);
	}
}

static void overlap_discards_the_whole(void **state)
{
	/* Each against what is there: 1000 .. 2000 in two halves and the last part from 3000. */
	static const size_t overlaps[][2] = {{992, 1008},  {1000, 2000}, {1000, 1496}, {1008, 1504},
					     {1496, 1504}, {1992, 2008}, {2992, 3008}, {1504, 3000},
					     {0, 1008},    {3000, 3008}, {1000, 1008}};

	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		for (size_t i = 0; i < COUNT(overlaps); i++) {
			struct bench b;

			bench_init(&b);
			datagram_make(&d, f, 1, 3995);
			assert_false(part(&b, &d, 1000, 1504));
			assert_false(part(&b, &d, 1504, 2000));
			assert_false(part(&b, &d, 3000, d.len));
			assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 0);
			assert_false(give(&b, &d, overlaps[i][0], overlaps[i][1], true));
			assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
			assert_false(part(&b, &d, 0, 1000));
			assert_false(part(&b, &d, 2000, 3000));
			assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
			bench_end(&b);
		}
	}
}

static void lengths_that_contradict(void **state)
{
	static const struct {
		size_t from, to;
		bool more;
	} rows[] = {
	    {2000, 2003, true},                       /* not a multiple of eight */
	    {2000, 2000, true},                       /* nothing */
	    {2000, 2000, false}, {4008, 4016, true},  /* behind the end */
	    {4000, 4008, true},  {2000, 2008, false}, /* another end */
	    {4008, 4016, false},
	};

	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		for (size_t i = 0; i < COUNT(rows); i++) {
			struct bench b;

			bench_init(&b);
			datagram_make(&d, f, 1, 3995);
			assert_false(part(&b, &d, 3000, d.len));
			assert_false(give(&b, &d, rows[i].from, rows[i].to, rows[i].more));
			assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
			assert_false(part(&b, &d, 0, 3000));
			bench_end(&b);
		}
	}
}

static void end_before_what_came(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		for (size_t end = 1001; end <= 1024; end++) {
			struct bench b;

			bench_init(&b);
			datagram_make(&d, f, 1, 3995);
			assert_false(give(&b, &d, 1016, 1024, true));
			assert_false(give(&b, &d, 1000, end, false));
			assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
			bench_end(&b);
		}
	}
}

static void nothing_reaches_beyond_a_packet(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		size_t limit = f == IP_V4 ? 65515 : 65535;
		struct bench b;

		bench_init(&b);
		datagram_make(&d, f, 1, 65527);
		assert_false(give(&b, &d, 65504, limit, false));
		assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 0);
		if (f == IP_V4) {
			d.ip.fragment_id = 2;
			assert_false(give(&b, &d, 65504, limit + 1, false));
			assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
		}
		bench_end(&b);
	}
}

/* The old one: offset and length add up to more than a packet can have. */
static void ping_of_death(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		static uint8_t frame[3000], data[1480];
		static const struct offload none;
		struct ip_header h = guest_ip(f, IPPROTO_UDP);
		enum drop_reason why;
		struct packet p;
		struct bench b;
		size_t len;

		bench_init(&b);
		h.is_fragment = true;
		h.fragment_offset = 65528;
		h.more_fragments = false;
		len = put_ip(frame, &h, data, sizeof(data));
		assert_int_equal(packet_parse(frame, len, &none, &p, &why), 0);
		assert_false(reassembly_input(b.r, &p, b.now, &b.whole));
		assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
		bench_end(&b);
	}
}

static void damage_inside_shows_after_all(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct bench b;

		bench_init(&b);
		datagram_make(&d, f, 1, 3000);
		d.bytes[2000] ^= 1;
		assert_false(part(&b, &d, 0, 1480));
		assert_false(part(&b, &d, 1480, d.len));
		assert_int_equal(b.counters.dropped[DROP_L4_CHECKSUM], 1);
		bench_end(&b);
	}
}

static void incomplete_packets_time_out(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct timers *ts;
		struct bench b;

		bench_init(&b);
		ts = loop_timers(b.loop);
		assert_true(timers_next(ts) == USEC_NEVER); /* an idle one wakes nobody */
		datagram_make(&d, f, 1, 3000);
		datagram_make(&other, f, 2, 3000);
		assert_false(part(&b, &d, 0, 1480));
		b.now += 10 * USEC_SEC;
		assert_false(part(&b, &other, 0, 1480));
		assert_true(timers_next(ts) == T0 + 30 * USEC_SEC);
		timers_run(ts, T0 + 30 * USEC_SEC);
		assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
		assert_true(timers_next(ts) == T0 + 40 * USEC_SEC);
		b.now = T0 + 35 * USEC_SEC;
		assert_true(part(&b, &other, 1480, other.len)); /* in time */
		assert_false(part(&b, &d, 1480, d.len));        /* too late: begins anew */
		timers_run(ts, T0 + 40 * USEC_SEC);
		assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
		timers_run(ts, T0 + 65 * USEC_SEC);
		assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 2);
		assert_true(timers_next(ts) == USEC_NEVER);
		bench_end(&b);
	}
}

static void the_oldest_makes_room(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct bench b;

		bench_init(&b);
		for (uint32_t id = 0; id < 65; id++) {
			datagram_make(&d, f, id, 3000);
			assert_false(part(&b, &d, 0, 1480));
			assert_int_equal(b.counters.dropped[DROP_FRAGMENT], id == 64);
		}
		for (uint32_t id = 1; id < 65; id++) {
			datagram_make(&d, f, id, 3000);
			assert_true(part(&b, &d, 1480, d.len));
			is_whole(&b, &d);
		}
		datagram_make(&d, f, 0, 3000);
		assert_false(part(&b, &d, 1480, d.len));
		assert_int_equal(b.counters.dropped[DROP_FRAGMENT], 1);
		bench_end(&b);
	}
}

static void congestion_mark_survives(void **state)
{
	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct bench b;

		bench_init(&b);
		datagram_make(&d, f, 1, 3000);
		d.ip.tos = 0xb8 | 2;
		assert_false(part(&b, &d, 0, 1480));
		d.ip.tos = 3;
		assert_true(part(&b, &d, 1480, d.len));
		assert_int_equal(b.whole.ip.tos, 0xb8 | 3);
		bench_end(&b);
	}
}

/* Whatever comes in whatever order, it ends and every packet handed out is the right one. */
static void random_pieces(void **state)
{
	unsigned seed = 4711, done = 0;
	struct bench b;

	(void)state;
	bench_init(&b);
	for (int i = 0; i < 20000; i++) {
		size_t from, to;

		seed = seed * 1103515245 + 12345;
		datagram_make(&d, seed >> 30 & 1, seed >> 20 & 7, 248);
		from = (seed >> 8 & 3) * 64;
		to = from + 64 * (1 + (seed >> 16 & 1 & (seed >> 12)));
		if (to > d.len)
			to = d.len;
		if (part(&b, &d, from, to)) {
			is_whole(&b, &d);
			done++;
		}
		b.now += USEC_SEC;
		timers_run(loop_timers(b.loop), b.now);
	}
	assert_in_range(done, 100, 5000);
	bench_end(&b);
}

/* RFC 8200 4.5: an original packet is what is fragmented. */
static void no_fragment_of_a_fragment(void **state)
{
	static const uint8_t header[8] = {IPPROTO_UDP, 0, 0, 1, 0, 0, 0, 7}; /* more to come */
	struct bench b;

	(void)state;
	bench_init(&b);
	datagram_make(&d, IP_V6, 1, 248);
	d.ip.proto = IPPROTO_FRAGMENT;
	memcpy(d.bytes, header, sizeof(header));
	assert_false(part(&b, &d, 0, 128));
	assert_false(part(&b, &d, 128, d.len));
	assert_int_equal(b.counters.dropped[DROP_IP_EXTENSION], 1);
	bench_end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fragments_in_any_order),
	    cmocka_unit_test(largest_datagram),
	    cmocka_unit_test(interleaved_datagrams_stay_apart),
	    cmocka_unit_test(repetition_is_harmless),
	    cmocka_unit_test(overlap_discards_the_whole),
	    cmocka_unit_test(lengths_that_contradict),
	    cmocka_unit_test(end_before_what_came),
	    cmocka_unit_test(nothing_reaches_beyond_a_packet),
	    cmocka_unit_test(ping_of_death),
	    cmocka_unit_test(damage_inside_shows_after_all),
	    cmocka_unit_test(incomplete_packets_time_out),
	    cmocka_unit_test(the_oldest_makes_room),
	    cmocka_unit_test(congestion_mark_survives),
	    cmocka_unit_test(random_pieces),
	    cmocka_unit_test(no_fragment_of_a_fragment),
	};

	return cmocka_run_group_tests_name("reassembly", tests, NULL, NULL);
}
