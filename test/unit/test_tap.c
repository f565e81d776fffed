/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending and receiving over the link in memory: fragments, checksums and segments in software,
 * back-pressure, capture. */
#include "test/unit/build.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>

#include "tap/icmp_error.h"
#include "tap/tap.h"

static const struct tap_features able = {.csum = true, .tcp_gso = true, .udp_gso = true}, unable;

struct bench {
	struct tap *tap;
	struct tap_link *link;
	struct counters counters;
};

#define BENCH(name, features, mtu)                                                                 \
	struct bench name##_made = {0}, *name = &name##_made;                                      \
	bench_init(name, features, mtu)

static void bench_init(struct bench *b, const struct tap_features *features, size_t mtu)
{
	struct tap_config cfg = {.our_mac = our_mac, .guest_mac = guest_mac, .mtu = mtu};

	assert_int_equal(mem_link_new(features, &b->link), 0);
	assert_int_equal(tap_new(b->link, &cfg, &b->counters, &b->tap), 0);
}

struct got {
	uint8_t frame[FRAME_MAX];
	size_t len;
	struct offload off;
	struct packet p;
};

/* Fetches the next frame, which must parse (checksums and all). */
static void fetch(struct bench *b, struct got *g)
{
	enum drop_reason why = DROP_COUNT;

	g->len = mem_link_fetch(b->link, g->frame, sizeof(g->frame), &g->off);
	assert_int_not_equal(g->len, 0);
	if (packet_parse(g->frame, g->len, &g->off, &g->p, &why) < 0)
		fail_msg("frame refused: %s", drop_reason_text(why));
	assert_true(mac_equal(&g->p.eth_src, &our_mac));
	assert_true(mac_equal(&g->p.eth_dst, &guest_mac));
}

static void nothing_more(struct bench *b)
{
	uint8_t frame[64];

	assert_int_equal(mem_link_fetch(b->link, frame, sizeof(frame), NULL), 0);
}

/* A packet to the guest. */
static struct ip_header to_guest(enum ip_family family, uint8_t proto)
{
	return (struct ip_header){.src = ip(pairs[family].peer),
				  .dst = ip(pairs[family].guest),
				  .proto = proto,
				  .ttl = 61,
				  .tos = 0xb8,
				  .flow_label = family == IP_V6 ? 0x12345 : 0};
}

/* UDP header and payload in parts, sent with tap_send_ip(). */
static int send_udp(struct bench *b, struct ip_header *h, const uint8_t *data, size_t len)
{
	struct udp_header udp = {.src_port = 53, .dst_port = 4000};
	uint8_t header[8];
	size_t cut = len / 3; /* any odd place */
	struct iovec body[] = {
	    {.iov_base = header, .iov_len = sizeof(header)},
	    {.iov_base = (uint8_t *)(uintptr_t)data, .iov_len = cut},
	    {.iov_base = NULL, .iov_len = 0},
	    {.iov_base = (uint8_t *)(uintptr_t)data + cut, .iov_len = len - cut}};

	emit_udp(header, &udp, len);
	emit_l4_checksum(header, 8, data, len, h);
	return tap_send_ip(b->tap, h, body, COUNT(body));
}

static void packet_within_the_mtu_goes_whole(void **state)
{
	static struct got g;
	uint8_t data[1452];

	(void)state;
	fill(data, sizeof(data));
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct ip_header h = to_guest(f, IPPROTO_UDP);
		size_t len = f == IP_V4 ? 1472 - 20 : 1452;
		BENCH(b, &able, 1500);

		assert_int_equal(send_udp(b, &h, data, len), 0);
		fetch(b, &g);
		assert_int_equal(g.p.kind, PACKET_UDP);
		assert_true(ip_equal(&g.p.ip.src, &h.src));
		assert_true(ip_equal(&g.p.ip.dst, &h.dst));
		assert_int_equal(g.p.ip.ttl, 61);
		assert_int_equal(g.p.ip.tos, 0xb8);
		assert_int_equal(g.p.ip.flow_label, h.flow_label);
		assert_int_equal(g.p.payload_len, len);
		assert_memory_equal(g.p.payload, data, len);
		nothing_more(b);
		assert_int_equal(b->counters.tx_frames, 1);
		assert_int_equal(b->counters.tx_bytes, 14 + (f == IP_V4 ? 20 : 40) + 8 + len);
		tap_free(b->tap);
	}
}

static void packet_beyond_the_mtu_goes_in_fragments(void **state)
{
	static uint8_t data[65507], whole[65535];
	static struct got g;

	(void)state;
	fill(data, sizeof(data));
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct ip_header h = to_guest(f, IPPROTO_UDP);
		size_t at = 0, frames = 0, most = f == IP_V4 ? 1480 : 1448,
		       total = sizeof(data) + 8;
		uint32_t id = 0;
		BENCH(b, &able, 1500);

		assert_int_equal(send_udp(b, &h, data, sizeof(data)), 0);
		do {
			fetch(b, &g);
			assert_int_equal(g.p.kind, PACKET_FRAGMENT);
			assert_in_range(g.len, 15, 1514);
			assert_int_equal(g.p.ip.proto, IPPROTO_UDP);
			assert_int_equal(g.p.ip.ttl, 61);
			assert_int_equal(g.p.ip.fragment_offset, at);
			if (at)
				assert_int_equal(g.p.ip.fragment_id, id);
			id = g.p.ip.fragment_id;
			if (g.p.ip.more_fragments)
				assert_int_equal(g.p.payload_len, most);
			memcpy(whole + at, g.p.payload, g.p.payload_len);
			at += g.p.payload_len;
			frames++;
		} while (g.p.ip.more_fragments);
		nothing_more(b);
		assert_int_equal(at, total);
		assert_int_equal(frames, (total + most - 1) / most);
		assert_memory_equal(whole + 8, data, sizeof(data));
		tap_free(b->tap);
	}
}

static void fragments_of_two_packets_have_different_ids(void **state)
{
	static uint8_t data[3000];
	static struct got g;

	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct ip_header h = to_guest(f, IPPROTO_UDP);
		uint32_t id;
		BENCH(b, &able, 1500);

		assert_int_equal(send_udp(b, &h, data, 2000), 0);
		assert_int_equal(send_udp(b, &h, data, 2000), 0);
		fetch(b, &g);
		id = g.p.ip.fragment_id;
		fetch(b, &g);
		assert_int_equal(g.p.ip.fragment_id, id);
		fetch(b, &g);
		assert_int_not_equal(g.p.ip.fragment_id, id);
		tap_free(b->tap);
	}
}

static void dont_fragment_is_kept(void **state)
{
	static uint8_t data[65535];
	static struct got g;

	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct ip_header h = to_guest(f, IPPROTO_UDP);
		BENCH(b, &able, 1500);

		h.dont_fragment = true;
		assert_int_equal(send_udp(b, &h, data, 1473), -EMSGSIZE);
		nothing_more(b);
		assert_int_equal(send_udp(b, &h, data, 1400), 0);
		fetch(b, &g);
		assert_true(g.p.ip.dont_fragment);
		h.dont_fragment = false;
		assert_int_equal(send_udp(b, &h, data, 65535 - 8 + 1),
				 -EMSGSIZE); /* no such packet */
		nothing_more(b);
		tap_free(b->tap);
	}
}

static void full_link_is_told_and_counted(void **state)
{
	static uint8_t data[4000];
	struct ip_header h = to_guest(IP_V4, IPPROTO_UDP);
	static struct got g;
	BENCH(b, &able, 1500);

	(void)state;
	mem_link_set_room(b->link, 1);
	assert_int_equal(send_udp(b, &h, data, 4000), -ENOBUFS); /* after the first fragment */
	assert_int_equal(b->counters.tx_frames, 1);
	assert_int_equal(b->counters.dropped[DROP_LINK_FULL], 1);
	assert_int_equal(send_udp(b, &h, data, 10), -ENOBUFS);
	assert_int_equal(b->counters.dropped[DROP_LINK_FULL], 2);
	mem_link_set_room(b->link, UINT_MAX);
	assert_int_equal(send_udp(b, &h, data, 10), 0);
	fetch(b, &g);
	fetch(b, &g);
	nothing_more(b);
	tap_free(b->tap);
}

/* A TCP frame to the guest as the data path makes it: headers, then payload in two parts. */
struct segment {
	uint8_t headers[EMIT_HEADERS_MAX];
	struct iovec iov[3];
	struct tap_out out;
	size_t headers_len;
};

static void make_segment(struct bench *b, struct segment *s, enum ip_family family, uint8_t *data,
			 size_t len)
{
	struct ip_header h = to_guest(family, IPPROTO_TCP);
	struct tcp_header tcp = {.src_port = 80,
				 .dst_port = 40000,
				 .seq = 0xfffff000, /* wraps */
				 .ack = 77,
				 .window = 500,
				 .flags = TCP_ACK | TCP_PSH | TCP_FIN | TCP_CWR,
				 .opt = {.has_timestamp = true, .ts_val = 1, .ts_ecr = 2}};
	size_t n = tap_emit_eth(b->tap, s->headers, family), tcp_len = emit_tcp_len(&tcp.opt), l4;

	h.dont_fragment = true;
	n += emit_ip(s->headers + n, &h, tcp_len + len);
	l4 = n;
	n += emit_tcp(s->headers + n, &tcp);
	emit_l4_pseudo(s->headers + l4, tcp_len + len, &h);
	s->headers_len = n;
	s->iov[0] = (struct iovec){.iov_base = s->headers, .iov_len = n};
	s->iov[1] = (struct iovec){.iov_base = data, .iov_len = len / 2};
	s->iov[2] = (struct iovec){.iov_base = data + len / 2, .iov_len = len - len / 2};
	s->out = (struct tap_out){
	    .iov = s->iov,
	    .iov_count = 3,
	    .off = {.csum_partial = true, .csum_start = (uint16_t)l4, .csum_offset = 16}};
}

static void make_super(struct segment *s, enum ip_family family, uint16_t mss)
{
	s->out.off.gso = family == IP_V4 ? GSO_TCP4 : GSO_TCP6;
	s->out.off.gso_size = mss;
	s->out.off.gso_ecn = true;
	s->out.off.header_len = (uint16_t)s->headers_len;
}

static void able_link_gets_frames_as_they_are(void **state)
{
	static uint8_t data[60000];
	static struct got g;

	(void)state;
	fill(data, sizeof(data));
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct segment s;
		unsigned sent;
		BENCH(b, &able, 1500);

		make_segment(b, &s, f, data, sizeof(data));
		make_super(&s, f, 1448);
		assert_int_equal(tap_send(b->tap, &s.out, 1, &sent), 0);
		assert_int_equal(sent, 1);
		g.len = mem_link_fetch(b->link, g.frame, sizeof(g.frame), &g.off);
		assert_int_equal(g.len, s.headers_len + sizeof(data));
		assert_memory_equal(g.frame, s.headers, s.headers_len);
		assert_true(g.off.csum_partial);
		assert_int_equal(g.off.gso, s.out.off.gso);
		assert_int_equal(g.off.gso_size, 1448);
		assert_int_equal(g.off.header_len, s.headers_len);
		nothing_more(b);
		tap_free(b->tap);
	}
}

static void checksum_is_made_in_software(void **state)
{
	static uint8_t data[1447];
	static struct got g;

	(void)state;
	fill(data, sizeof(data));
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		for (size_t len = 0; len < 300;
		     len += 7) { /* also shorter than what is copied as headers */
			struct segment s;
			unsigned sent;
			BENCH(b, &unable, 1500);

			make_segment(b, &s, f, data, len);
			assert_int_equal(tap_send(b->tap, &s.out, 1, &sent), 0);
			assert_int_equal(sent, 1);
			fetch(b, &g);
			assert_false(g.off.csum_partial);
			assert_int_equal(g.p.payload_len, len);
			assert_memory_equal(g.p.payload, data, len);
			assert_int_equal(g.p.tcp.flags, TCP_ACK | TCP_PSH | TCP_FIN | TCP_CWR);
			tap_free(b->tap);
		}
	}
}

/* RFC 768: a sum of zero is sent as all ones, since zero means "none". */
static void udp_sum_of_zero_is_not_sent(void **state)
{
	static struct got g;

	(void)state;
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct ip_header h = to_guest(f, IPPROTO_UDP);
		struct udp_header udp = {.src_port = 53, .dst_port = 4000};
		uint8_t frame[EMIT_HEADERS_MAX], payload[2] = {0};
		struct iovec iov[2] = {{.iov_base = frame}, {.iov_base = payload, .iov_len = 2}};
		struct tap_out out = {.iov = iov, .iov_count = 2};
		size_t n, l4;
		unsigned sent;
		BENCH(b, &unable, 1500);

		l4 = tap_emit_eth(b->tap, frame, f);
		l4 += emit_ip(frame + l4, &h, 10);
		n = l4 + emit_udp(frame + l4, &udp, 2);
		emit_l4_checksum(frame + l4, 8, payload, 2, &h);
		memcpy(payload, frame + l4 + 6, 2); /* with it the whole sums up to zero */
		emit_l4_pseudo(frame + l4, 8 + 2, &h);
		iov[0].iov_len = n;
		out.off = (struct offload){
		    .csum_partial = true, .csum_start = (uint16_t)l4, .csum_offset = 6};
		assert_int_equal(tap_send(b->tap, &out, 1, &sent), 0);
		fetch(b, &g);
		assert_int_equal(g.frame[l4 + 6] << 8 | g.frame[l4 + 7], 0xffff);
		tap_free(b->tap);
	}
}

/* Also with a link that sums but doesn't segment. */
static void segments_are_cut_in_software(void **state)
{
	static const struct tap_features sums = {.csum = true};
	static uint8_t data[65000];
	static struct got g;

	(void)state;
	fill(data, sizeof(data));
	for (int run = 0; run < 2 * IP_FAMILIES; run++) {
		enum ip_family f = run % 2 ? IP_V6 : IP_V4;
		size_t at = 0;
		uint16_t mss = run < 2 ? 1448 : 537; /* odd: parts begin at odd places */
		struct segment s;
		unsigned sent;
		BENCH(b, run < 2 ? &unable : &sums, 1500);

		make_segment(b, &s, f, data, sizeof(data));
		make_super(&s, f, mss);
		assert_int_equal(tap_send(b->tap, &s.out, 1, &sent), 0);
		assert_int_equal(sent, 1);
		while (at < sizeof(data)) {
			size_t want = sizeof(data) - at < mss ? sizeof(data) - at : mss;
			uint8_t flags = TCP_ACK;

			fetch(b, &g);
			assert_int_equal(g.off.gso, GSO_NONE);
			assert_int_equal(g.off.csum_partial, run >= 2);
			assert_int_equal(g.p.tcp.seq, (uint32_t)(0xfffff000 + at));
			assert_int_equal(g.p.tcp.ack, 77);
			if (f == IP_V4) /* RFC 6864 aside: what a card would do */
				assert_int_equal(g.p.ip.fragment_id, at / mss);
			assert_int_equal(g.p.tcp.opt.ts_val, 1);
			assert_int_equal(g.p.payload_len, want);
			assert_memory_equal(g.p.payload, data + at, want);
			if (!at)
				flags |= TCP_CWR;
			if (at + want == sizeof(data))
				flags |= TCP_PSH | TCP_FIN;
			assert_int_equal(g.p.tcp.flags, flags);
			at += want;
		}
		nothing_more(b);
		tap_free(b->tap);
	}
}

/* What "partial" stores is the sum of the pseudo-header with the segment's own length. */
static void partial_sums_of_segments_complete(void **state)
{
	static const struct tap_features sums = {.csum = true};
	static uint8_t data[3000];
	static struct got g;
	struct segment s;
	unsigned sent;
	BENCH(b, &sums, 1500);

	(void)state;
	fill(data, sizeof(data));
	make_segment(b, &s, IP_V6, data, sizeof(data));
	make_super(&s, IP_V6, 1000);
	assert_int_equal(tap_send(b->tap, &s.out, 1, &sent), 0);
	for (int i = 0; i < 3; i++) {
		static const struct offload none;
		enum drop_reason why;
		struct packet p;
		uint16_t sum;

		fetch(b, &g);
		sum = csum_fold(csum_add(0, g.frame + g.off.csum_start, g.len - g.off.csum_start));
		memcpy(g.frame + g.off.csum_start + g.off.csum_offset, &sum, 2);
		assert_int_equal(packet_parse(g.frame, g.len, &none, &p, &why), 0);
	}
	tap_free(b->tap);
}

static void full_link_stops_a_batch(void **state)
{
	static uint8_t data[4][3000];
	struct segment s[4];
	struct tap_out out[4];
	unsigned sent;
	BENCH(b, &unable, 1500);

	(void)state;
	for (int i = 0; i < 4; i++) {
		make_segment(b, &s[i], IP_V4, data[i], sizeof(data[i]));
		if (i % 2)
			make_super(&s[i], IP_V4, 1000);
		else
			s[i].out.off = (struct offload){0};
		out[i] = s[i].out;
	}
	mem_link_set_room(b->link, 3); /* the first, and two thirds of the second */
	assert_int_equal(tap_send(b->tap, out, 4, &sent), 0);
	assert_int_equal(sent, 2);
	assert_int_equal(b->counters.dropped[DROP_LINK_FULL], 2);
	mem_link_set_room(b->link, 1); /* the third, nothing of the fourth */
	assert_int_equal(tap_send(b->tap, out + 2, 2, &sent), 0);
	assert_int_equal(sent, 1);
	assert_int_equal(b->counters.dropped[DROP_LINK_FULL], 3);
	assert_int_equal(b->counters.tx_frames, 4);
	tap_free(b->tap);
}

static void wrong_offload_costs_one_frame(void **state)
{
	static uint8_t data[3000];
	static struct got g;
	struct segment s;
	struct tap_out out[3];
	unsigned sent;
	BENCH(b, &unable, 1500);

	(void)state;
	make_segment(b, &s, IP_V4, data, sizeof(data));
	for (int i = 0; i < 3; i++)
		out[i] = s.out;
	out[0].off.csum_start = 5000;
	make_super(&s, IP_V4, 0); /* segments of no size */
	out[1].off = s.out.off;
	assert_int_equal(tap_send(b->tap, out, 3, &sent), 0);
	assert_int_equal(sent, 3);
	assert_int_equal(b->counters.dropped[DROP_LINK_ERROR], 2);
	fetch(b, &g);
	nothing_more(b);
	tap_free(b->tap);
}

static void received_frames_are_counted_and_stay_until_the_next(void **state)
{
	struct tap_frame frames[4];
	struct offload off = {.csum_partial = true, .csum_start = 34, .csum_offset = 6};
	unsigned count;
	BENCH(b, &able, 1500);

	(void)state;
	for (int i = 0; i < 5; i++) {
		uint8_t bytes[60] = {[12] = (uint8_t)i};

		assert_int_equal(mem_link_inject(b->link, bytes, sizeof(bytes), i ? NULL : &off),
				 0);
	}
	assert_int_equal(tap_receive(b->tap, frames, 4, &count), 0);
	assert_int_equal(count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(frames[i].data[12], i);
	assert_true(frames[0].off.csum_partial);
	assert_false(frames[1].off.csum_partial);
	assert_int_equal(tap_receive(b->tap, frames, 4, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(tap_receive(b->tap, frames, 4, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(b->counters.rx_frames, 5);
	assert_int_equal(b->counters.rx_bytes, 300);
	tap_free(b->tap);
}

static void guest_mac_is_learnt(void **state)
{
	struct mac_addr other = {{2, 9, 9, 9, 9, 9}}, group = {{1, 0, 0x5e, 0, 0, 1}};
	uint8_t eth[ETH_HEADER_LEN];
	BENCH(b, &able, 0);

	(void)state;
	assert_int_equal(tap_mtu(b->tap), 65535);
	assert_false(tap_learn_mac(b->tap, &guest_mac));
	assert_false(tap_learn_mac(b->tap, &group));
	assert_true(tap_learn_mac(b->tap, &other));
	assert_false(tap_learn_mac(b->tap, &other));
	assert_int_equal(tap_emit_eth(b->tap, eth, IP_V6), 14);
	assert_memory_equal(eth, other.b, 6);
	assert_memory_equal(eth + 6, our_mac.b, 6);
	assert_int_equal(eth[12] << 8 | eth[13], 0x86dd);
	tap_emit_eth(b->tap, eth, IP_V4);
	assert_int_equal(eth[12] << 8 | eth[13], 0x0800);
	tap_free(b->tap);
}

static uint32_t host32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return v;
}

static void capture_holds_both_directions(void **state)
{
	static uint8_t data[65000], file[200000];
	char path[] = "/tmp/test_tap_XXXXXX";
	uint8_t injected[60] = {1, 2, 3};
	int fd = mkstemp(path);
	struct tap_frame frames[2];
	struct segment s;
	unsigned sent, count;
	ssize_t len;
	uint8_t *p = file + 24;
	BENCH(b, &able, 1500);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(tap_pcap_start(b->tap, dup(fd)), 0);
	assert_int_equal(mem_link_inject(b->link, injected, sizeof(injected), NULL), 0);
	assert_int_equal(tap_receive(b->tap, frames, 2, &count), 0);
	make_segment(b, &s, IP_V4, data, sizeof(data));
	make_super(&s, IP_V4, 1448);
	assert_int_equal(tap_send(b->tap, &s.out, 1, &sent), 0);
	/* A frame of 65549 bytes is longer than the file says frames are. */
	s.iov[1].iov_len = FRAME_MAX - s.headers_len - s.iov[2].iov_len;
	assert_int_equal(tap_send(b->tap, &s.out, 1, &sent), 0);

	len = pread(fd, file, sizeof(file), 0);
	assert_int_equal(host32(file), 0xa1b2c3d4);
	assert_int_equal(host32(file + 16), 65535);
	assert_int_equal(host32(file + 20), 1); /* Ethernet */
	assert_in_range(host32(p), 1500000000, UINT32_MAX);
	assert_in_range(host32(p + 4), 0, 999999);
	assert_int_equal(host32(p + 8), 60);
	assert_int_equal(host32(p + 12), 60);
	assert_memory_equal(p + 16, injected, 60);
	p += 16 + 60;
	assert_int_equal(host32(p + 8), s.headers_len + sizeof(data));
	assert_memory_equal(p + 16, s.headers, s.headers_len);
	p += 16 + s.headers_len + sizeof(data);
	assert_int_equal(host32(p + 8), 65535);
	assert_int_equal(host32(p + 12), FRAME_MAX);
	assert_int_equal(p + 16 + 65535 - file, len);
	assert_int_equal(unlink(path), 0);
	close(fd);
	tap_free(b->tap);
}

static void capture_that_fails_stops_alone(void **state)
{
	struct ip_header h = to_guest(IP_V4, IPPROTO_UDP);
	uint8_t data[10] = {0};
	static struct got g;
	int fds[2];
	BENCH(b, &able, 1500);

	(void)state;
	log_set_threshold(LOG_LEVEL_ERROR);
	assert_int_equal(tap_pcap_start(b->tap, open("/dev/full", O_WRONLY | O_CLOEXEC)), -ENOSPC);
	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(tap_pcap_start(b->tap, fds[1]), 0);
	for (int i = 0; i < 2000; i++) { /* more than a pipe holds */
		assert_int_equal(send_udp(b, &h, data, sizeof(data)), 0);
		fetch(b, &g);
	}
	assert_int_equal(fcntl(fds[1], F_GETFD), -1); /* closed */
	close(fds[0]);
	tap_free(b->tap);
}

static void icmp_error_quotes_as_much_as_fits(void **state)
{
	static uint8_t data[2000];
	static struct got g;

	(void)state;
	fill(data, sizeof(data));
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		struct ip_header h = guest_ip(f, IPPROTO_UDP);
		struct icmp_error e = {.from = ip(pairs[f].peer)};
		size_t ip_len = f == IP_V4 ? 20 : 40, most = f == IP_V4 ? 576 : 1280;
		BENCH(b, &able, 1500);

		assert_true(icmp_error_from_errno(ECONNREFUSED, f, IPPROTO_UDP, &e));
		e.info = 1400;
		assert_int_equal(icmp_error_send(b->tap, &e, &h, data, 30), 0);
		fetch(b, &g);
		assert_int_equal(g.p.kind, PACKET_ICMP);
		assert_true(ip_equal(&g.p.ip.src, &e.from));
		assert_true(ip_equal(&g.p.ip.dst, &h.src));
		assert_int_equal(g.p.icmp.type, f == IP_V4 ? 3 : 1);
		assert_int_equal(g.p.icmp.code, f == IP_V4 ? 3 : 4);
		assert_int_equal((uint32_t)g.p.icmp.echo_id << 16 | g.p.icmp.echo_seq, 1400);
		assert_int_equal(g.p.payload_len, ip_len + 30);
		assert_memory_equal(g.p.payload + ip_len, data, 30);
		assert_int_equal(g.p.payload[f == IP_V4 ? 8 : 7], 64); /* the TTL it had */

		assert_int_equal(icmp_error_send(b->tap, &e, &h, data, sizeof(data)), 0);
		fetch(b, &g);
		assert_int_equal(g.p.l3_len, most);
		assert_memory_equal(g.p.payload + ip_len, data, most - 2 * ip_len - 8);
		/* The quoted header still speaks of the whole. */
		assert_int_equal(f == IP_V4 ? g.p.payload[2] << 8 | g.p.payload[3]
					    : g.p.payload[4] << 8 | g.p.payload[5],
				 sizeof(data) + (f == IP_V4 ? 20 : 0));

		h.dst = ip(f == IP_V4 ? "224.0.0.251" : "ff02::fb");
		assert_int_equal(icmp_error_send(b->tap, &e, &h, data, 30), 0);
		nothing_more(b); /* never about a packet to a group, or from nobody */
		h = guest_ip(f, IPPROTO_UDP);
		h.src = ip_any[f];
		assert_int_equal(icmp_error_send(b->tap, &e, &h, data, 30), 0);
		nothing_more(b);
		tap_free(b->tap);
	}
}

static void errno_becomes_type_and_code(void **state)
{
	static const struct {
		int err;
		uint8_t proto, v4[2], v6[2];
	} rows[] = {
	    {ECONNREFUSED, IPPROTO_UDP, {3, 3}, {1, 4}},
	    {EHOSTUNREACH, IPPROTO_TCP, {3, 1}, {1, 3}},
	    {ENETUNREACH, IPPROTO_TCP, {3, 0}, {1, 0}},
	    {EACCES, IPPROTO_UDP, {3, 13}, {1, 1}},
	    {EPERM, IPPROTO_TCP, {3, 13}, {1, 1}},
	    {ETIMEDOUT, IPPROTO_TCP, {3, 1}, {1, 3}},
	};
	struct icmp_error e;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_true(icmp_error_from_errno(rows[i].err, IP_V4, rows[i].proto, &e));
		assert_int_equal(e.type << 8 | e.code, rows[i].v4[0] << 8 | rows[i].v4[1]);
		assert_true(icmp_error_from_errno(rows[i].err, IP_V6, rows[i].proto, &e));
		assert_int_equal(e.type << 8 | e.code, rows[i].v6[0] << 8 | rows[i].v6[1]);
	}
	assert_false(icmp_error_from_errno(ECONNREFUSED, IP_V4, IPPROTO_TCP, &e));
	assert_false(icmp_error_from_errno(EAGAIN, IP_V4, IPPROTO_UDP, &e));
}

static void link_to_nowhere(void **state)
{
	struct tap_config cfg = {.our_mac = our_mac, .guest_mac = guest_mac, .mtu = 1500};
	struct iovec iov = {(void *)"a frame", 7};
	struct tap_out out = {.iov = &iov, .iov_count = 1};
	struct counters counters = {0};
	struct tap_frame frame;
	struct tap_link *link;
	struct tap *tap;
	unsigned n = 7;

	(void)state;
	assert_int_equal(none_link_new(&link), 0);
	assert_int_equal(tap_new(link, &cfg, &counters, &tap), 0);
	assert_int_equal(tap_receive(tap, &frame, 1, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(tap_send(tap, &out, 1, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(counters.dropped[DROP_LINK_FULL], 1);
	tap_free(tap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(packet_within_the_mtu_goes_whole),
	    cmocka_unit_test(packet_beyond_the_mtu_goes_in_fragments),
	    cmocka_unit_test(fragments_of_two_packets_have_different_ids),
	    cmocka_unit_test(dont_fragment_is_kept),
	    cmocka_unit_test(full_link_is_told_and_counted),
	    cmocka_unit_test(able_link_gets_frames_as_they_are),
	    cmocka_unit_test(checksum_is_made_in_software),
	    cmocka_unit_test(udp_sum_of_zero_is_not_sent),
	    cmocka_unit_test(segments_are_cut_in_software),
	    cmocka_unit_test(partial_sums_of_segments_complete),
	    cmocka_unit_test(full_link_stops_a_batch),
	    cmocka_unit_test(wrong_offload_costs_one_frame),
	    cmocka_unit_test(received_frames_are_counted_and_stay_until_the_next),
	    cmocka_unit_test(guest_mac_is_learnt),
	    cmocka_unit_test(capture_holds_both_directions),
	    cmocka_unit_test(capture_that_fails_stops_alone),
	    cmocka_unit_test(icmp_error_quotes_as_much_as_fits),
	    cmocka_unit_test(link_to_nowhere),
	    cmocka_unit_test(errno_becomes_type_and_code),
	};

	return cmocka_run_group_tests_name("tap", tests, NULL, NULL);
}
