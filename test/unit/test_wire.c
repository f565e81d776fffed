/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums, and addresses in all their forms. Whole frames: test_packet.c. */
#include "test/unit/build.h"

#include <errno.h>

/* Checksums. */

static void checksum_of_the_rfc(void **state)
{
	static const uint8_t rfc1071[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
	uint16_t sum = csum_fold(csum_add(0, rfc1071, sizeof(rfc1071)));

	(void)state;
	assert_memory_equal(&sum, ((uint8_t[]){0x22, 0x0d}), 2); /* ~ddf2, section 3 */
	sum = csum_fold(csum_add(csum_add(0, rfc1071, 2), rfc1071 + 2, 6));
	assert_memory_equal(&sum, ((uint8_t[]){0x22, 0x0d}), 2);
}

/* Against the definition, for every length and alignment. */
static void checksum_of_every_length(void **state)
{
	uint8_t data[700]; /* several rounds of what checksum.c adds at once */

	(void)state;
	fill(data, sizeof(data));
	for (size_t start = 0; start < 40; start++) {
		for (size_t len = 0; len + start < sizeof(data); len++) {
			uint32_t want = 0;
			uint16_t sum;
			uint8_t bytes[2];

			for (size_t i = 0; i < len; i++)
				want += (uint32_t)data[start + i] << (i % 2 ? 0 : 8);
			want = (want & 0xffff) + (want >> 16);
			want = ~((want & 0xffff) + (want >> 16));
			sum = csum_fold(csum_add(0, data + start, len));
			memcpy(bytes, &sum, 2);
			assert_int_equal(bytes[0] << 8 | bytes[1], want & 0xffff);
		}
	}
}

static void checksum_of_ones_does_not_overflow(void **state)
{
	static uint8_t ones[65536];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	assert_int_equal(csum_fold(csum_add(0, ones, sizeof(ones))), 0);
	assert_int_equal(csum_fold(csum_add(UINT32_MAX, ones, sizeof(ones))), 0);
}

static void udp_checksum_is_never_zero(void **state)
{
	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		struct ip_header h = guest_ip(v, IPPROTO_UDP);
		uint8_t l4[8], payload[2] = {0, 0};
		struct udp_header udp = {.src_port = 1, .dst_port = 2};

		emit_udp(l4, &udp, 2);
		emit_l4_checksum(l4, 8, payload, 2, &h);
		memcpy(payload, l4 + 6, 2); /* with it the sum comes to zero */
		emit_l4_checksum(l4, 8, payload, 2, &h);
		assert_int_equal(l4[6] << 8 | l4[7], 0xffff);
		h.proto = IPPROTO_TCP; /* where zero is as good as any other */
		{
			uint8_t tcp[20] = {0};

			emit_l4_checksum(tcp, 20, payload, 0, &h);
			memcpy(tcp, tcp + 16, 2);
			emit_l4_checksum(tcp, 20, payload, 0, &h);
			assert_int_equal(tcp[16] << 8 | tcp[17], 0);
		}
	}
}

/* What "partial" leaves behind, summed up by the one who is to complete it, is the whole checksum.
 */
static void partial_checksums_complete(void **state)
{
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6};
	static const size_t fields[] = {16, 6, 2};

	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		for (size_t i = 0; i < COUNT(protos); i++) {
			struct ip_header h = guest_ip(v, protos[i]);
			uint8_t whole[33], partial[33];
			uint16_t sum;

			fill(whole, sizeof(whole));
			fill(partial, sizeof(partial));
			emit_l4_checksum(whole, 20, whole + 20, 13, &h);
			emit_l4_pseudo(partial, 20 + 13, &h);
			sum = csum_fold(csum_add(0, partial, sizeof(partial)));
			memcpy(partial + fields[i], &sum, 2);
			assert_memory_equal(whole, partial, sizeof(whole));
		}
	}
}

/* Addresses. */

static void addresses_as_text(void **state)
{
	static const struct {
		const char *in, *out; /* NULL: no address */
	} rows[] = {
	    {"192.0.2.1", "192.0.2.1"},
	    {"::", "::"},
	    {"[2001:DB8::1]", "2001:db8::1"},
	    {"[192.0.2.1]", "192.0.2.1"},
	    {"::ffff:192.0.2.1", "192.0.2.1"},
	    {"", NULL},
	    {"[]", NULL},
	    {"[::1", NULL},
	    {"::1]", NULL},
	    {"192.0.2", NULL},
	    {"192.0.2.256", NULL},
	    {"192.0.2.1 ", NULL},
	    {"fe80::1%eth0", NULL},
	    {"1:2:3:4:5:6:7:8:9", NULL},
	    {"0000:0000:0000:0000:0000:0000:255.255.255.255.255.255", NULL},
	};
	char text[IP_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ip_addr a = ip_loopback[IP_V6];
		int r = ip_parse(rows[i].in, &a);

		assert_int_equal(r, rows[i].out ? 0 : -EINVAL);
		assert_string_equal(ip_format(&a, text), rows[i].out ? rows[i].out : "::1");
	}
}

static void kinds_of_addresses(void **state)
{
	enum { UNSPEC = 1, LOOP = 2, MULTI = 4, BROAD = 8, LINK = 16 };
	static const struct {
		const char *text;
		int kind;
	} rows[] = {
	    {"0.0.0.0", UNSPEC},        {"::", UNSPEC},        {"127.0.0.1", LOOP},
	    {"127.9.9.9", LOOP},        {"::1", LOOP},         {"224.0.0.1", MULTI},
	    {"239.255.255.255", MULTI}, {"ff02::1", MULTI},    {"240.0.0.1", 0},
	    {"255.255.255.255", BROAD}, {"169.254.3.4", LINK}, {"169.253.3.4", 0},
	    {"fe80::1", LINK},          {"febf::1", LINK},     {"fec0::1", 0},
	    {"192.0.2.1", 0},           {"2001:db8::1", 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ip_addr a = ip(rows[i].text);
		int kind = (ip_is_unspecified(&a) ? UNSPEC : 0) | (ip_is_loopback(&a) ? LOOP : 0) |
			   (ip_is_multicast(&a) ? MULTI : 0) | (ip_is_broadcast(&a) ? BROAD : 0) |
			   (ip_is_link_local(&a) ? LINK : 0);

		assert_int_equal(kind, rows[i].kind);
		assert_int_equal(ip_is_unicast(&a), !(kind & (UNSPEC | MULTI | BROAD)));
	}
}

static void prefixes(void **state)
{
	static const struct {
		const char *a, *b;
		unsigned len;
		bool same;
	} rows[] = {
	    {"192.0.2.1", "192.0.2.254", 24, true},    {"192.0.2.1", "192.0.3.1", 24, false},
	    {"192.0.2.1", "192.0.3.1", 23, true},      {"192.0.2.1", "10.0.0.1", 0, true},
	    {"192.0.2.1", "192.0.2.1", 32, true},      {"192.0.2.1", "192.0.2.0", 32, false},
	    {"192.0.2.1", "192.0.2.1", 33, false},     {"192.0.2.1", "2001:db8::1", 0, false},
	    {"2001:db8::1", "2001:db8::2", 64, true},  {"2001:db8::1", "2001:db8::2", 127, false},
	    {"2001:db8::2", "2001:db8::3", 127, true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ip_addr a = ip(rows[i].a), other = ip(rows[i].b);

		assert_int_equal(ip_same_prefix(&a, &other, rows[i].len), rows[i].same);
	}
}

static void mac_addresses_as_text(void **state)
{
	static const char *const bad[] = {"",
					  "9a:55:9a:55:9a",
					  "9a:55:9a:55:9a:5",
					  "9a:55:9a:55:9a:5g",
					  "9a-55-9a-55-9a-55",
					  "9a:55:9a:55:9a:55:",
					  "9a:55:9a:55:9a:555"};
	char text[MAC_TEXT_MAX];
	struct mac_addr m;

	(void)state;
	assert_int_equal(mac_parse("9A:55:9a:55:9a:55", &m), 0);
	assert_true(mac_equal(&m, &our_mac));
	assert_string_equal(mac_format(&m, text), "9a:55:9a:55:9a:55");
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(mac_parse(bad[i], &m), -EINVAL);
	assert_true(mac_equal(&m, &our_mac));
}

static void socket_addresses(void **state)
{
	static const struct {
		const char *text;
		socklen_t len;
		unsigned scope;
	} rows[] = {
	    {"192.0.2.1", sizeof(struct sockaddr_in), 0},
	    {"2001:db8::1", sizeof(struct sockaddr_in6), 0},
	    {"fe80::1", sizeof(struct sockaddr_in6), 7},
	    {"ff02::1", sizeof(struct sockaddr_in6), 7},
	    {"ff0e::1", sizeof(struct sockaddr_in6), 0},
	};
	struct sockaddr_storage sa = {.ss_family = AF_UNIX};
	struct endpoint back;

	(void)state;
	assert_int_equal(endpoint_from_sockaddr(&sa, &back), -EAFNOSUPPORT);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct endpoint e = {.addr = ip(rows[i].text), .port = 0x1234};

		assert_int_equal(endpoint_to_sockaddr(&e, 7, &sa), rows[i].len);
		if (sa.ss_family == AF_INET6)
			assert_int_equal(((struct sockaddr_in6 *)&sa)->sin6_scope_id,
					 rows[i].scope);
		assert_memory_equal((uint8_t *)&sa + 2, "\x12\x34", 2);
		assert_int_equal(endpoint_from_sockaddr(&sa, &back), 0);
		assert_true(ip_equal(&back.addr, &e.addr));
		assert_int_equal(back.port, 0x1234);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(checksum_of_the_rfc),
	    cmocka_unit_test(checksum_of_every_length),
	    cmocka_unit_test(checksum_of_ones_does_not_overflow),
	    cmocka_unit_test(udp_checksum_is_never_zero),
	    cmocka_unit_test(partial_checksums_complete),
	    cmocka_unit_test(addresses_as_text),
	    cmocka_unit_test(kinds_of_addresses),
	    cmocka_unit_test(prefixes),
	    cmocka_unit_test(mac_addresses_as_text),
	    cmocka_unit_test(socket_addresses),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
