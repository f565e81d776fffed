/* SPDX-License-Identifier: BSD-3-Clause */
/* A DHCP client made of bytes: builds requests, takes answers apart. */
#ifndef TEST_UNIT_DHCP_BED_H
#define TEST_UNIT_DHCP_BED_H

#include "test/unit/build.h"

#include "tap/dhcp.h"

/* Options of an ordinary answer, for 192.0.2.2/24 behind 192.0.2.1. */
#define O_MASK        1, 4, 255, 255, 255, 0
#define O_ROUTER      3, 4, 192, 0, 2, 1
#define O_MTU         26, 2, 5, 220
#define O_LEASE       51, 4, 255, 255, 255, 255
#define O_TYPE(t)     53, 1, t
#define O_SERVER      54, 4, 192, 0, 2, 1
#define O_END         255
#define A_GUEST       192, 0, 2, 2
#define O_REQUESTED   50, 4, A_GUEST
#define O_REQUESTED_X 50, 4, 192, 0, 2, 3
#define O_SERVER_X    54, 4, 192, 0, 2, 9

enum { DISCOVER = 1, OFFER, REQUEST, DECLINE, ACK, NAK, RELEASE, INFORM };
enum {
	AT_FLAGS = 10,
	AT_CIADDR = 12,
	AT_YIADDR = 16,
	AT_SIADDR = 20,
	AT_GIADDR = 24,
	AT_CHADDR = 28
};
enum { AT_SNAME = 44, AT_FILE = 108, AT_COOKIE = 236, AT_OPTIONS = 240 };

struct bench {
	struct tap *tap;
	struct tap_link *link;
	struct counters counters;
	struct dhcp_config cfg;
	const char *answered; /* what dhcp_input() returned last */
};

struct message {
	uint8_t b[2048];
	size_t len;
};

/* An answer taken apart; message.len is 0 if there was none. */
struct reply {
	struct packet p;
	struct message m;
	uint8_t frame[2048];
	size_t frame_len;
};

static inline void bench_init_mtu(struct bench *b, size_t mtu)
{
	static const struct tap_features able = {.csum = true, .tcp_gso = true};
	struct tap_config cfg = {.our_mac = our_mac, .guest_mac = guest_mac, .mtu = mtu};

	*b = (struct bench){.cfg = {.address = ip("192.0.2.2"),
				    .prefix_len = 24,
				    .gateway = ip("192.0.2.1"),
				    .mtu = 1500}};
	assert_int_equal(mem_link_new(&able, &b->link), 0);
	assert_int_equal(tap_new(b->link, &cfg, &b->counters, &b->tap), 0);
}

static inline void bench_init(struct bench *b)
{
	bench_init_mtu(b, 1500);
}

/* Ends a test: no answer is left, and as many messages were counted as bad. */
static inline void bench_end(struct bench *b, unsigned bad)
{
	uint8_t frame[64];

	assert_int_equal(mem_link_fetch(b->link, frame, sizeof(frame), NULL), 0);
	assert_int_equal(b->counters.dropped[DROP_DHCP], bad);
	tap_free(b->tap);
}

/* A request with these options behind the cookie, as they stand. */
static inline struct message message_of(const uint8_t *options, size_t len)
{
	static const uint8_t start[] = {1, 1, 6, 9, 0xde, 0xad, 0xbe, 0xef, 0x12, 0x34};
	static const uint8_t cookie[] = {99, 130, 83, 99};
	struct message m = {.len = AT_OPTIONS + len};

	memcpy(m.b, start, sizeof(start));
	memcpy(m.b + AT_CHADDR, guest_mac.b, 6);
	memcpy(m.b + AT_COOKIE, cookie, sizeof(cookie));
	if (len)
		memcpy(m.b + AT_OPTIONS, options, len);
	return m;
}

#define MESSAGE(...)                                                                               \
	message_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void put_addr(struct message *m, size_t at, const char *text)
{
	struct ip_addr a = ip(text);

	memcpy(m->b + at, ip_bytes(&a), 4);
}

/* Gives a message in a frame that ends at an unreadable page. */
static inline void give_from(struct bench *b, const struct message *m, const char *src)
{
	static const struct offload none;
	struct ip_header h = {
	    .src = ip(src), .dst = ip("255.255.255.255"), .proto = IPPROTO_UDP, .ttl = 64};
	struct udp_header udp = {.src_port = 68, .dst_port = 67};
	uint8_t frame[4096];
	size_t len = put_udp(frame, &h, &udp, m->b, m->len);
	struct edge e = edge_copy(frame, len);
	enum drop_reason why;
	struct packet p;

	assert_int_equal(packet_parse(e.data, len, &none, &p, &why), 0);
	assert_int_equal(p.kind, PACKET_UDP);
	b->answered = dhcp_input(b->tap, &b->cfg, &p);
	edge_free(&e);
}

static inline void give(struct bench *b, const struct message *m)
{
	give_from(b, m, "0.0.0.0");
}

/* The next answer, with what every answer has checked: addresses and ports of the link, sums (by
 * packet_parse), length, cookie's place, fields that are always zero. */
static inline struct reply fetch(struct bench *b)
{
	static const uint8_t zero[4];
	static const struct offload none;
	struct offload off;
	enum drop_reason why;
	struct reply r = {0};

	r.frame_len = mem_link_fetch(b->link, r.frame, sizeof(r.frame), &off);
	if (!r.frame_len)
		return r;
	assert_false(off.csum_partial);
	assert_int_equal(packet_parse(r.frame, r.frame_len, &none, &r.p, &why), 0);
	assert_int_equal(r.p.kind, PACKET_UDP);
	assert_memory_equal(&r.p.eth_dst, &guest_mac, 6);
	assert_memory_equal(&r.p.eth_src, &our_mac, 6);
	assert_true(ip_equal(&r.p.ip.src, &b->cfg.gateway));
	assert_int_equal(r.p.ip.ttl, 255);
	assert_int_equal(r.p.udp.src_port, 67);
	assert_in_range(r.p.payload_len, 300, 1472);
	r.m.len = r.p.payload_len;
	memcpy(r.m.b, r.p.payload, r.m.len);
	assert_int_equal(r.m.b[0], 2);
	assert_int_equal(r.m.b[3], 0);
	assert_memory_equal(r.m.b + 8, zero, 2);
	assert_memory_equal(r.m.b + AT_SIADDR, zero, 4);
	return r;
}

static inline struct reply ask(struct bench *b, const struct message *m)
{
	give(b, m);
	return fetch(b);
}

static inline void is_answered(const struct bench *b, const struct reply *r, const char *name)
{
	assert_non_null(b->answered);
	assert_string_equal(b->answered, name);
	assert_true(r->m.len);
}

static inline void is_silent(struct bench *b, const struct message *m)
{
	struct reply r = ask(b, m);

	assert_null(b->answered);
	assert_int_equal(r.m.len, 0);
}

static inline void field_is(const struct reply *r, size_t at, const char *address)
{
	struct ip_addr a = ip_from_v4(r->m.b + at);
	char buf[IP_TEXT_MAX];

	assert_string_equal(ip_format(&a, buf), address);
}

static inline void sent_to(const struct reply *r, const char *address, uint16_t port)
{
	char buf[IP_TEXT_MAX];

	assert_string_equal(ip_format(&r->p.ip.dst, buf), address);
	assert_int_equal(r->p.udp.dst_port, port);
}

/* The options field holds exactly this, and zeros up to the message's end; no other field has
 * options. */
static inline void options_are(const struct reply *r, const uint8_t *want, size_t len)
{
	assert_true(r->m.len >= AT_OPTIONS + len);
	assert_memory_equal(r->m.b + AT_COOKIE, ((uint8_t[]){99, 130, 83, 99}), 4);
	assert_memory_equal(r->m.b + AT_OPTIONS, want, len);
	for (size_t i = AT_OPTIONS + len; i < r->m.len; i++)
		assert_int_equal(r->m.b[i], 0);
	for (size_t i = AT_SNAME; i < AT_COOKIE; i++)
		assert_int_equal(r->m.b[i], 0);
	if (AT_OPTIONS + len > 300)
		assert_int_equal(r->m.len, AT_OPTIONS + len);
	else
		assert_int_equal(r->m.len, 300);
}

#define OPTIONS(r, ...)                                                                            \
	options_are(r, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

#endif
