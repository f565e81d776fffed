/* SPDX-License-Identifier: BSD-3-Clause */
/* DHCPv6, byte by byte (RFC 8415). */
#include "test/unit/build.h"

#include "tap/dhcpv6.h"

enum {
	SOLICIT = 1,
	ADVERTISE,
	REQUEST,
	CONFIRM,
	RENEW,
	REBIND,
	REPLY,
	RELEASE,
	DECLINE,
	RECONFIGURE,
	INFORMATION
};

#define OUR_MAC        0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55
#define XID            0x12, 0x34, 0x56
#define O_CLIENT       0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 7
#define O_SERVER       0, 2, 0, 14, 0, 1, 0, 1, 1, 2, 3, 4, OUR_MAC
#define O_OTHER_SERVER 0, 2, 0, 14, 0, 1, 0, 1, 1, 2, 3, 5, OUR_MAC
#define ADDRESS        0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2
#define OTHER          0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9
#define FOREVER        255, 255, 255, 255
#define NEVER          0, 0, 0, 0
#define IAID           0xaa, 0xbb, 0xcc, 0xdd
#define O_ADDRESS(...) 0, 5, 0, 24, __VA_ARGS__
#define O_IA           0, 3, 0, 12, IAID, NEVER, NEVER
#define O_IA_WITH(...) 0, 3, 0, 40, IAID, NEVER, NEVER, O_ADDRESS(__VA_ARGS__, NEVER, NEVER)
#define O_GIVEN        0, 3, 0, 40, IAID, FOREVER, FOREVER, O_ADDRESS(ADDRESS, FOREVER, FOREVER)
#define O_REQUESTED    0, 6, 0, 4, 0, 23, 0, 24
#define O_COMMIT       0, 14, 0, 0
#define O_DNS          0, 23, 0, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x53
#define O_SEARCH       0, 24, 0, 13, 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 3, 'o', 'r', 'g', 0

struct bench {
	struct tap *tap;
	struct tap_link *link;
	struct counters counters;
	struct dhcpv6_config cfg;
	const char *answered;
	bool gave;
};

struct reply {
	struct packet p;
	uint8_t frame[2048];
	size_t len;
};

static void bench_init(struct bench *b)
{
	static const struct tap_features able = {.csum = true, .tcp_gso = true};
	struct tap_config cfg = {.our_mac = our_mac, .guest_mac = guest_mac, .mtu = 1500};

	*b = (struct bench){.cfg = {.address = ip("2001:db8::2"),
				    .our_link_local = ip("fe80::1"),
				    .duid_time = 0x01020304}};
	assert_int_equal(mem_link_new(&able, &b->link), 0);
	assert_int_equal(tap_new(b->link, &cfg, &b->counters, &b->tap), 0);
}

static void bench_end(struct bench *b, unsigned bad)
{
	uint8_t frame[64];

	assert_int_equal(mem_link_fetch(b->link, frame, sizeof(frame), NULL), 0);
	assert_int_equal(b->counters.dropped[DROP_DHCP], bad);
	tap_free(b->tap);
}

/* Gives a message in a frame that ends at an unreadable page; what comes back has the addresses,
 * ports and sums that every answer has. */
static struct reply ask_at(struct bench *b, const char *src, const char *dst, const uint8_t *m,
			   size_t m_len)
{
	static const struct offload none;
	struct ip_header h = {.src = ip(src), .dst = ip(dst), .proto = IPPROTO_UDP, .ttl = 1};
	struct udp_header udp = {.src_port = 546, .dst_port = 547};
	uint8_t frame[4096];
	size_t len = put_udp(frame, &h, &udp, m, m_len);
	struct edge e = edge_copy(frame, len);
	struct reply r = {.len = 0};
	struct offload off;
	enum drop_reason why;
	struct packet p;

	assert_int_equal(packet_parse(e.data, len, &none, &p, &why), 0);
	b->answered = dhcpv6_input(b->tap, &b->cfg, &p, &b->gave);
	edge_free(&e);
	r.len = mem_link_fetch(b->link, r.frame, sizeof(r.frame), &off);
	assert_int_equal(!r.len, !b->answered);
	if (!r.len)
		return r;
	assert_int_equal(packet_parse(r.frame, r.len, &none, &r.p, &why), 0);
	assert_memory_equal(&r.p.eth_dst, &guest_mac, 6);
	assert_true(ip_equal(&r.p.ip.src, &b->cfg.our_link_local));
	assert_true(ip_equal(&r.p.ip.dst, &h.src));
	assert_int_equal(r.p.ip.ttl, 255);
	assert_int_equal(r.p.ip.flow_label, 0x23456);
	assert_int_equal(r.p.udp.src_port, 547);
	assert_int_equal(r.p.udp.dst_port, 546);
	return r;
}

static void is_reply(struct bench *b, const uint8_t *m, size_t m_len, const uint8_t *want,
		     size_t want_len)
{
	struct reply r = ask_at(b, "fe80::7", "ff02::1:2", m, m_len);

	assert_non_null(b->answered);
	assert_int_equal(r.p.payload_len, want_len);
	assert_memory_equal(r.p.payload, want, want_len);
}

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
#define LIST(...)  __VA_ARGS__
/* asked and answered: each a LIST of bytes behind the type and the transaction. */
#define EXCHANGE(b, type, asked, answer, answered)                                                 \
	is_reply(b, BYTES(type, XID, asked), BYTES(answer, XID, answered))

static void is_silent(struct bench *b, const uint8_t *m, size_t len)
{
	struct reply r = ask_at(b, "fe80::7", "ff02::1:2", m, len);

	assert_null(b->answered);
	assert_int_equal(r.len, 0);
	assert_false(b->gave);
}

#define SILENT(b, ...) is_silent(b, BYTES(__VA_ARGS__))

static void four_messages(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	EXCHANGE(&b, SOLICIT, LIST(O_CLIENT, O_IA), ADVERTISE, LIST(O_SERVER, O_GIVEN, O_CLIENT));
	assert_string_equal(b.answered, "ADVERTISE");
	assert_false(b.gave);
	EXCHANGE(&b, REQUEST, LIST(O_CLIENT, O_SERVER, O_IA_WITH(ADDRESS)), REPLY,
		 LIST(O_SERVER, O_GIVEN, O_CLIENT));
	assert_string_equal(b.answered, "REPLY");
	assert_true(b.gave);
	EXCHANGE(&b, REQUEST, LIST(O_SERVER, O_IA, O_CLIENT), REPLY,
		 LIST(O_SERVER, O_GIVEN, O_CLIENT));
	bench_end(&b, 0);
}

static void rapid_commit(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	EXCHANGE(&b, SOLICIT, LIST(O_CLIENT, O_COMMIT, O_IA), REPLY,
		 LIST(O_SERVER, O_GIVEN, O_CLIENT, O_COMMIT));
	assert_true(b.gave);
	bench_end(&b, 0);
}

/* RFC 8415 18.3.4, 18.3.5: what is not the client's goes, what is comes. */
static void renewals(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	EXCHANGE(&b, RENEW, LIST(O_CLIENT, O_SERVER, O_IA_WITH(ADDRESS)), REPLY,
		 LIST(O_SERVER, O_GIVEN, O_CLIENT));
	EXCHANGE(&b, REBIND, LIST(O_CLIENT, O_IA_WITH(ADDRESS)), REPLY,
		 LIST(O_SERVER, O_GIVEN, O_CLIENT));
	EXCHANGE(&b, REBIND, LIST(O_CLIENT, O_IA_WITH(OTHER)), REPLY,
		 LIST(O_SERVER, 0, 3, 0, 68, IAID, FOREVER, FOREVER,
		      O_ADDRESS(ADDRESS, FOREVER, FOREVER), O_ADDRESS(OTHER, NEVER, NEVER),
		      O_CLIENT));
	assert_true(b.gave);
	bench_end(&b, 0);
}

#define OFF_LINK                                                                                   \
	0, 13, 0, 29, 0, 4, 'n', 'o', 't', ' ', 'a', 'n', ' ', 'a', 'd', 'd', 'r', 'e', 's', 's',  \
	    ' ', 'o', 'f', ' ', 't', 'h', 'i', 's', ' ', 'l', 'i', 'n', 'k'
#define DONE      0, 13, 0, 6, 0, 0, 'd', 'o', 'n', 'e'
#define NOT_YOURS 0, 13, 0, 11, 0, 3, 'n', 'o', 't', ' ', 'y', 'o', 'u', 'r', 's'
#define NO_ADDRESS                                                                                 \
	0, 13, 0, 20, 0, 2, 'n', 'o', ' ', 'a', 'd', 'd', 'r', 'e', 's', 's', ' ', 't', 'o', ' ',  \
	    'g', 'i', 'v', 'e'
#define NO_PREFIX                                                                                  \
	0, 13, 0, 19, 0, 6, 'n', 'o', ' ', 'p', 'r', 'e', 'f', 'i', 'x', ' ', 't', 'o', ' ', 'g',  \
	    'i', 'v', 'e'

static void other_addresses(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	EXCHANGE(&b, SOLICIT, LIST(O_CLIENT, O_IA_WITH(OTHER)), ADVERTISE,
		 LIST(O_SERVER, O_GIVEN, O_CLIENT));
	EXCHANGE(&b, REQUEST, LIST(O_CLIENT, O_SERVER, O_IA_WITH(OTHER)), REPLY,
		 LIST(O_SERVER, 0, 3, 0, 45, IAID, FOREVER, FOREVER, OFF_LINK, O_CLIENT));
	assert_false(b.gave);
	bench_end(&b, 0);
}

/* RFC 8415 18.3.3 */
static void confirm(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	EXCHANGE(&b, CONFIRM, LIST(O_CLIENT, O_IA_WITH(ADDRESS)), REPLY,
		 LIST(O_SERVER, DONE, O_CLIENT));
	EXCHANGE(&b, CONFIRM, LIST(O_CLIENT, O_IA_WITH(OTHER)), REPLY,
		 LIST(O_SERVER, OFF_LINK, O_CLIENT));
	SILENT(&b, CONFIRM, XID, O_CLIENT, O_IA);
	SILENT(&b, CONFIRM, XID, O_CLIENT, 0, 25, 0, 40, IAID, NEVER, NEVER,
	       O_ADDRESS(ADDRESS, NEVER, NEVER));
	b.cfg.address = ip("::");
	EXCHANGE(&b, CONFIRM, LIST(O_CLIENT, O_IA_WITH(ADDRESS)), REPLY,
		 LIST(O_SERVER, OFF_LINK, O_CLIENT));
	bench_end(&b, 0);
}

/* RFC 8415 18.3.7, 18.3.8 */
static void given_back(void **state)
{
	struct bench b;

	(void)state;
	for (uint8_t type = RELEASE; type <= DECLINE; type++) {
		bench_init(&b);
		EXCHANGE(&b, type, LIST(O_CLIENT, O_SERVER, O_IA_WITH(ADDRESS)), REPLY,
			 LIST(O_SERVER, DONE, O_CLIENT));
		EXCHANGE(
		    &b, type, LIST(O_CLIENT, O_SERVER, O_IA_WITH(OTHER)), REPLY,
		    LIST(O_SERVER, DONE, 0, 3, 0, 27, IAID, FOREVER, FOREVER, NOT_YOURS, O_CLIENT));
		EXCHANGE(&b, type, LIST(O_CLIENT, O_SERVER, 0, 4, 0, 4, IAID), REPLY,
			 LIST(O_SERVER, DONE, 0, 4, 0, 19, IAID, NOT_YOURS, O_CLIENT));
		assert_false(b.gave);
		bench_end(&b, 0);
	}
}

/* Temporary addresses, prefixes, and a second association of the same client. */
static void what_is_not_given(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	EXCHANGE(&b, SOLICIT, LIST(O_CLIENT, 0, 4, 0, 4, IAID), ADVERTISE,
		 LIST(O_SERVER, 0, 4, 0, 28, IAID, NO_ADDRESS, O_CLIENT));
	EXCHANGE(&b, SOLICIT, LIST(O_CLIENT, 0, 25, 0, 12, IAID, NEVER, NEVER), ADVERTISE,
		 LIST(O_SERVER, 0, 25, 0, 35, IAID, FOREVER, FOREVER, NO_PREFIX, O_CLIENT));
	EXCHANGE(&b, SOLICIT, LIST(O_CLIENT, O_IA, 0, 3, 0, 12, 1, 2, 3, 4, NEVER, NEVER),
		 ADVERTISE,
		 LIST(O_SERVER, O_GIVEN, 0, 3, 0, 36, 1, 2, 3, 4, FOREVER, FOREVER, NO_ADDRESS,
		      O_CLIENT));
	b.cfg.address = ip("::");
	EXCHANGE(&b, SOLICIT, LIST(O_CLIENT, O_IA), ADVERTISE,
		 LIST(O_SERVER, 0, 3, 0, 36, IAID, FOREVER, FOREVER, NO_ADDRESS, O_CLIENT));
	bench_end(&b, 0);
}

/* What of a message goes beyond what is kept. */
static void more_than_is_kept(void **state)
{
	static const uint8_t head[] = {REBIND, XID, O_CLIENT}, ia[] = {O_IA};
	static const uint8_t other[] = {O_ADDRESS(OTHER, NEVER, NEVER)};
	enum { ADDRESSES = 9, ASSOCIATIONS = 20 };
	uint8_t m[sizeof(head) + ASSOCIATIONS * sizeof(ia) + ADDRESSES * sizeof(other)];
	size_t len = sizeof(head);
	struct reply r;
	struct bench b;

	(void)state;
	bench_init(&b);
	memcpy(m, head, sizeof(head));
	for (int i = 0; i < ASSOCIATIONS; i++, len += sizeof(ia))
		memcpy(m + len, ia, sizeof(ia));
	r = ask_at(&b, "fe80::7", "ff02::1:2", m, len);
	/* One with the address, seven with a status. */
	assert_int_equal(r.p.payload_len, 4 + 18 + 44 + 7 * 40 + 14);

	len = sizeof(head) + sizeof(ia);
	for (int i = 0; i < ADDRESSES; i++, len += sizeof(other))
		memcpy(m + len, other, sizeof(other));
	m[sizeof(head) + 2] = (12 + ADDRESSES * sizeof(other)) >> 8;
	m[sizeof(head) + 3] = (12 + ADDRESSES * sizeof(other)) & 0xff;
	r = ask_at(&b, "fe80::7", "ff02::1:2", m, len);
	assert_int_equal(r.p.payload_len, 4 + 18 + 44 + 4 * 28 + 14);
	bench_end(&b, 0);
}

/* RFC 8415 11.1: 128 bytes behind the type. */
static void longest_identifier(void **state)
{
	uint8_t m[4 + 4 + 131] = {INFORMATION, XID, 0, 1, 0, 130};
	struct reply r;
	struct bench b;

	(void)state;
	bench_init(&b);
	r = ask_at(&b, "fe80::7", "ff02::1:2", m, sizeof(m) - 1);
	assert_int_equal(r.p.payload_len, 4 + 18 + 4 + 130);
	m[7] = 131;
	is_silent(&b, m, sizeof(m));
	bench_end(&b, 1);
}

/* A name of len bytes. */
static void make_name(char *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		name[i] = i % 60 == 59 ? '.' : 'x';
	name[len] = 0;
}

/* The option that fills the message to its last byte, and the one that would go beyond it. */
static void full_message(void **state)
{
	static const uint8_t m[] = {INFORMATION, XID};
	char longest[254], last[254];
	struct reply r;
	struct bench b;

	(void)state;
	bench_init(&b);
	make_name(longest, 253);
	for (int i = 0; i < 4; i++)
		b.cfg.search[i] = longest;
	b.cfg.search[4] = last;
	b.cfg.search_count = 5;
	b.cfg.fqdn = "a.b"; /* 10 bytes as an option */
	make_name(last, 1232 - (4 + 18) - (4 + 4 * 255) - 10 - 2);
	r = ask_at(&b, "fe80::7", "ff02::1:2", m, sizeof(m));
	assert_int_equal(r.p.payload_len, 1232);
	assert_int_equal(r.len, 14 + 1280);
	make_name(last, strlen(last) + 1);
	r = ask_at(&b, "fe80::7", "ff02::1:2", m, sizeof(m));
	assert_int_equal(r.p.payload_len, 1232 - 9);
	bench_end(&b, 0);
}

static void configuration(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	b.cfg.dns[0] = ip("2001:db8::53");
	b.cfg.search[0] = "example.org";
	b.cfg.dns_count = b.cfg.search_count = 1;
	b.cfg.fqdn = "a.b";
	/* All of it to who does not say, what is asked for to who does. */
	EXCHANGE(&b, INFORMATION, LIST(O_CLIENT), REPLY,
		 LIST(O_SERVER, O_CLIENT, O_DNS, O_SEARCH, 0, 39, 0, 6, 0, 1, 'a', 1, 'b', 0));
	EXCHANGE(&b, INFORMATION, LIST(0, 6, 0, 2, 0, 23), REPLY, LIST(O_SERVER, O_DNS));
	EXCHANGE(&b, INFORMATION, LIST(0, 6, 0, 4, 0, 24, 0, 99), REPLY, LIST(O_SERVER, O_SEARCH));
	EXCHANGE(&b, INFORMATION, LIST(O_SERVER, O_CLIENT, 0, 6, 0, 0), REPLY,
		 LIST(O_SERVER, O_CLIENT));
	EXCHANGE(&b, SOLICIT, LIST(O_CLIENT, O_REQUESTED, O_IA), ADVERTISE,
		 LIST(O_SERVER, O_GIVEN, O_CLIENT, O_DNS, O_SEARCH));
	/* RFC 4704 6: to a client that asks for an update, that there is none (O). */
	EXCHANGE(
	    &b, SOLICIT, LIST(O_CLIENT, O_REQUESTED, O_IA, 0, 39, 0, 1, 1), ADVERTISE,
	    LIST(O_SERVER, O_GIVEN, O_CLIENT, O_DNS, O_SEARCH, 0, 39, 0, 6, 2, 1, 'a', 1, 'b', 0));
	bench_end(&b, 0);
}

/* As many whole names as one packet of 1280 bytes holds, and none that is no name. */
static void long_search_list(void **state)
{
#define LABEL "123456789.123456789.123456789.123456789.123456789.123456789."
	static const char name[] = LABEL LABEL LABEL "example";
	static const uint8_t m[] = {INFORMATION, XID};
	struct reply r;
	struct bench b;
	size_t list;

	(void)state;
	bench_init(&b);
	for (int i = 0; i < DHCPV6_SEARCH_MAX; i++)
		b.cfg.search[i] = i == 1 ? ".." : name;
	b.cfg.search_count = DHCPV6_SEARCH_MAX;
	r = ask_at(&b, "fe80::7", "ff02::1:2", m, sizeof(m));
	assert_int_equal(r.p.payload[4 + 18], 0);
	assert_int_equal(r.p.payload[4 + 19], 24);
	list = (size_t)(r.p.payload[4 + 20] << 8 | r.p.payload[4 + 21]);
	assert_int_equal(list, 5 * (sizeof(name) + 1));
	assert_int_equal(r.p.payload_len, 4 + 18 + 4 + list);
	b.cfg.search_count = 2;
	b.cfg.search[0] = "..";
	EXCHANGE(&b, INFORMATION, LIST(O_CLIENT), REPLY, LIST(O_SERVER, O_CLIENT));
	bench_end(&b, 0);
}

/* RFC 8415 16, 18.4 */
static void discarded(void **state)
{
	static const uint8_t request[] = {REQUEST, XID, O_CLIENT, O_SERVER, O_IA};
	static const uint8_t solicit[] = {SOLICIT, XID, O_CLIENT, O_IA};
	static const uint8_t information[] = {INFORMATION, XID, O_CLIENT};
	struct reply r;
	struct bench b;
	unsigned bad = 0;

	(void)state;
	bench_init(&b);
#define BAD(...) (SILENT(&b, __VA_ARGS__), bad++)
	BAD(SOLICIT, XID, O_IA);
	BAD(SOLICIT, XID, O_CLIENT, O_SERVER, O_IA);
	BAD(REQUEST, XID, O_CLIENT, O_IA);
	BAD(REQUEST, XID, O_SERVER, O_IA);
	BAD(REQUEST, XID, O_CLIENT, O_OTHER_SERVER, O_IA);
	BAD(RENEW, XID, O_CLIENT, O_IA);
	BAD(REBIND, XID, O_CLIENT, O_SERVER, O_IA);
	BAD(CONFIRM, XID, O_CLIENT, O_SERVER, O_IA_WITH(ADDRESS));
	BAD(RELEASE, XID, O_CLIENT, O_IA);
	BAD(DECLINE, XID, O_SERVER, O_IA);
	BAD(INFORMATION, XID, O_CLIENT, O_OTHER_SERVER);
	BAD(INFORMATION, XID, O_CLIENT, O_IA);
	BAD(ADVERTISE, XID, O_CLIENT);
	BAD(REPLY, XID, O_CLIENT);
	BAD(RECONFIGURE, XID, O_CLIENT);
	BAD(12, XID, O_CLIENT); /* relayed: nobody relays to us */
	BAD(0, XID, O_CLIENT);
	BAD(SOLICIT, XID, O_CLIENT, O_CLIENT, O_IA);
	BAD(SOLICIT, XID, 0, 1, 0, 2, 0, 3, O_IA);
	BAD(SOLICIT, XID, O_CLIENT, 0, 3, 0, 11, IAID, NEVER, 0, 0, 0);
	BAD(SOLICIT, XID, O_CLIENT, 0, 4, 0, 3, 1, 2, 3);
	BAD(SOLICIT, XID, O_CLIENT, 0, 3, 0, 16, IAID, NEVER, NEVER, 0, 5, 0, 24);
	BAD(SOLICIT, XID, O_CLIENT, O_IA, 0, 39, 0, 0);
	BAD(SOLICIT, XID, O_CLIENT, 0, 3, 0, 36, IAID, NEVER, NEVER, 0, 5, 0, 20, ADDRESS, NEVER);
	BAD(REQUEST, XID, O_CLIENT, 0, 2, 0, 15, 0, 1, 0, 1, 1, 2, 3, 4, OUR_MAC, 0, O_IA);
	BAD(REQUEST, XID, O_CLIENT, 0, 2, 0, 13, 0, 1, 0, 1, 1, 2, 3, 4, 0x9a, 0x55, 0x9a, 0x55,
	    0x9a, O_IA);
	for (size_t len = 0; len < sizeof(solicit); len++) {
		if (len == 4 + 14) /* whole, and without anything to give */
			continue;
		is_silent(&b, solicit, len);
		bad++;
	}
	r = ask_at(&b, "2001:db8::7", "ff02::1:2", solicit, sizeof(solicit));
	assert_int_equal(r.len, 0);
	r = ask_at(&b, "fe80::7", "fe80::1", solicit, sizeof(solicit));
	assert_int_equal(r.len, 0);
	r = ask_at(&b, "fe80::7", "fe80::1", information, sizeof(information));
	assert_int_equal(r.len, 0);
	r = ask_at(&b, "fe80::7", "fe80::2", request, sizeof(request));
	assert_int_equal(r.len, 0);
	r = ask_at(&b, "fe80::7", "fe80::1", request, sizeof(request));
	assert_int_equal(r.p.payload[4 + 18 + 5], 5); /* UseMulticast */
	assert_false(b.gave);
	bench_end(&b, bad + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(four_messages),     cmocka_unit_test(rapid_commit),
	    cmocka_unit_test(renewals),          cmocka_unit_test(other_addresses),
	    cmocka_unit_test(confirm),           cmocka_unit_test(given_back),
	    cmocka_unit_test(what_is_not_given), cmocka_unit_test(configuration),
	    cmocka_unit_test(long_search_list),  cmocka_unit_test(discarded),
	    cmocka_unit_test(more_than_is_kept), cmocka_unit_test(longest_identifier),
	    cmocka_unit_test(full_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
