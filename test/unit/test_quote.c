/* SPDX-License-Identifier: BSD-3-Clause */
/* What an ICMP error quotes, whole and cut anywhere. */
#include "wire/quote.h"

#include "build.h"

struct error {
	uint8_t type, code;
};
static const struct error unreachable[IP_FAMILIES] = {[IP_V4] = {3, 3}, [IP_V6] = {1, 4}};

/* Parses len bytes of quoted, which end at an unreadable page, in an error of this kind. */
static bool parse(enum ip_family f, struct error e, const uint8_t *quoted, size_t len,
		  struct quote *out)
{
	struct ip_header h = guest_ip(f, f == IP_V4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
	uint8_t frame[256];
	size_t n = put_icmp(frame, &h, e.type, e.code, 0, quoted, len);
	struct edge edge = edge_copy(frame, n);
	struct offload off = {0};
	enum drop_reason why;
	struct packet p;
	bool is;

	assert_int_equal(packet_parse(edge.data, n, &off, &p, &why), 0);
	is = quote_parse(&p, out);
	edge_free(&edge);
	return is;
}

/* A packet to the guest, with its first bytes of TCP. */
static size_t packet(enum ip_family f, uint8_t proto, uint8_t *p)
{
	struct ip_header h = {.src = ip(pairs[f].peer), .dst = ip(pairs[f].guest), .ttl = 64};
	struct tcp_header tcp = {.src_port = 8080, .dst_port = 4000, .seq = 0x12345678};
	size_t n;

	h.proto = proto;
	n = emit_ip(p, &h, 20);
	return n + emit_tcp(p + n, &tcp);
}

static void quoted_is_found(void **state)
{
	(void)state;
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct ip_addr peer = ip(pairs[f].peer);
		size_t header = f == IP_V4 ? 20 : 40;
		uint8_t bytes[128];
		struct quote q;
		size_t n = packet(f, IPPROTO_TCP, bytes);

		for (size_t len = 0; len <= n; len++) {
			q = (struct quote){0};
			assert_int_equal(parse(f, unreachable[f], bytes, len, &q),
					 len >= header + 8);
			assert_int_equal(q.seq, len >= header + 8 ? 0x12345678 : 0);
		}
		assert_int_equal(q.proto, IPPROTO_TCP);
		assert_true(ip_equal(&q.src.addr, &peer));
		assert_int_equal(q.src.port, 8080);
		assert_int_equal(q.dst.port, 4000);
	}
}

/* No error, other protocols, other versions, later fragments. */
static void others_are_not(void **state)
{
	static const struct error echo[IP_FAMILIES] = {[IP_V4] = {8, 0}, [IP_V6] = {128, 0}};

	(void)state;
	for (int f = 0; f < IP_FAMILIES; f++) {
		uint8_t bytes[128];
		struct quote q;
		size_t n = packet(f, IPPROTO_TCP, bytes);

		assert_false(parse(f, echo[f], bytes, n, &q));
		bytes[0] ^= 0x70;
		assert_false(parse(f, unreachable[f], bytes, n, &q));
		n = packet(f, IPPROTO_SCTP, bytes);
		assert_false(parse(f, unreachable[f], bytes, n, &q));
		n = packet(f, IPPROTO_UDP, bytes);
		assert_true(parse(f, unreachable[f], bytes, n, &q));
	}
}

static void v4_header(void **state)
{
	uint8_t bytes[128];
	struct quote q;
	size_t n = packet(IP_V4, IPPROTO_TCP, bytes);

	(void)state;
	bytes[7] = 1; /* a fragment's offset */
	assert_false(parse(IP_V4, unreachable[IP_V4], bytes, n, &q));
	bytes[7] = 0;
	bytes[0] = 0x44; /* shorter than a header is */
	assert_false(parse(IP_V4, unreachable[IP_V4], bytes, n, &q));
	bytes[0] = 0x4f; /* options to the end of the quote, and further */
	assert_false(parse(IP_V4, unreachable[IP_V4], bytes, n, &q));
	bytes[0] = 0x46; /* one option of four bytes */
	assert_true(parse(IP_V4, unreachable[IP_V4], bytes, n, &q));
	assert_int_equal(q.src.port, 0x1234);
}

static void kinds_of_unreachable(void **state)
{
	static const struct {
		enum ip_family family;
		struct error e;
		bool is;
	} rows[] = {{IP_V4, {3, 0}, true},  {IP_V4, {3, 1}, true},   {IP_V4, {3, 3}, true},
		    {IP_V4, {3, 13}, true}, {IP_V4, {3, 4}, false},  {IP_V4, {11, 0}, false},
		    {IP_V4, {8, 0}, false}, {IP_V6, {1, 0}, true},   {IP_V6, {1, 4}, true},
		    {IP_V6, {2, 0}, false}, {IP_V6, {128, 0}, false}};

	(void)state;
	for (unsigned i = 0; i < COUNT(rows); i++) {
		struct packet p = {.ip = guest_ip(rows[i].family, 0)};

		p.icmp.type = rows[i].e.type;
		p.icmp.code = rows[i].e.code;
		assert_int_equal(quote_is_unreachable(&p), rows[i].is);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(quoted_is_found),
	    cmocka_unit_test(others_are_not),
	    cmocka_unit_test(v4_header),
	    cmocka_unit_test(kinds_of_unreachable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
