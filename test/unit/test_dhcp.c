/* SPDX-License-Identifier: BSD-3-Clause */
/* DHCP and BOOTP exchanges, byte by byte against RFC 2131, RFC 951, RFC 1534, RFC 4039; and what is
 * no request. Options: test_dhcp_options.c, test_dhcp_layout.c. */
#include "test/unit/dhcp_bed.h"

/* The whole frame, from the first byte to the last. */
static void discover(void **state)
{
	static const uint8_t head[] = {2, 0, 0, 0, 0, 7, 0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 8, 0,
				       /* IPv4: 328 bytes, don't fragment, TTL 255 */
				       0x45, 0, 1, 72, 0, 0, 0x40, 0, 255, 17, 0xf6, 0xa0, 192, 0,
				       2, 1, A_GUEST,
				       /* UDP: 308 bytes */
				       0, 67, 0, 68, 1, 52};
	static const uint8_t fields[] = {2, 1, 6, 0, 0xde, 0xad,    0xbe, 0xef, 0, 0, 0,
					 0, 0, 0, 0, 0,    A_GUEST, 0,    0,    0, 0, 0,
					 0, 0, 0, 2, 0,    0,       0,    0,    7};
	struct message m = MESSAGE(O_TYPE(DISCOVER), O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_int_equal(r.frame_len, 14 + 20 + 8 + 300);
	assert_memory_equal(r.frame, head, sizeof(head));
	assert_true(r.frame[40] || r.frame[41]); /* a checksum, and fetch() saw that it is right */
	assert_memory_equal(r.frame + 42, fields, sizeof(fields));
	for (size_t i = sizeof(fields); i < AT_COOKIE; i++)
		assert_int_equal(r.frame[42 + i], 0);
	OPTIONS(&r, O_MASK, O_ROUTER, O_MTU, O_LEASE, O_TYPE(OFFER), O_SERVER, O_END);
	bench_end(&b, 0);
}

/* Copied: hardware type and length, transaction, flags, giaddr, chaddr to its last byte. */
static void fields_are_copied(void **state)
{
	struct message m = MESSAGE(O_TYPE(REQUEST), O_REQUESTED, O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	m.b[1] = 32;
	m.b[2] = 16;
	m.b[AT_FLAGS] = 0x12;
	m.b[AT_FLAGS + 1] = 0x34;
	put_addr(&m, AT_CIADDR, "192.0.2.2");
	put_addr(&m, AT_YIADDR, "192.0.2.77");
	put_addr(&m, AT_SIADDR, "192.0.2.78");
	fill(m.b + AT_CHADDR, 16);
	fill(m.b + AT_SNAME, AT_COOKIE - AT_SNAME);
	r = ask(&b, &m);
	is_answered(&b, &r, "ACK");
	assert_int_equal(r.m.b[1], 32);
	assert_int_equal(r.m.b[2], 16);
	assert_memory_equal(r.m.b + 4, m.b + 4, 4);
	assert_memory_equal(r.m.b + AT_FLAGS, m.b + AT_FLAGS, 2);
	field_is(&r, AT_CIADDR, "192.0.2.2");
	field_is(&r, AT_YIADDR, "192.0.2.2");
	assert_memory_equal(r.m.b + AT_CHADDR, m.b + AT_CHADDR, 16);
	bench_end(&b, 0);
}

/* RFC 2131 4.3.2 and table 4: where a client names its address in each state. wanted: the type of
 * the answer, or 0 for silence. */
static void request(void **state)
{
	static const struct {
		const char *ciaddr;
		uint8_t options[16];
		size_t len;
		int wanted;
	} rows[] = {
	    /* SELECTING: server and address */
	    {NULL, {O_SERVER, O_REQUESTED}, 12, ACK},
	    {NULL, {O_REQUESTED, O_SERVER}, 12, ACK},
	    {NULL, {O_SERVER, O_REQUESTED_X}, 12, NAK},
	    {NULL, {O_SERVER_X, O_REQUESTED}, 12, 0},
	    {NULL, {O_SERVER_X, O_REQUESTED_X}, 12, 0},
	    /* INIT-REBOOT: the address alone */
	    {NULL, {O_REQUESTED}, 6, ACK},
	    {NULL, {O_REQUESTED_X}, 6, NAK},
	    /* RENEWING and REBINDING: ciaddr alone */
	    {"192.0.2.2", {0}, 0, ACK},
	    {"192.0.2.3", {0}, 0, NAK},
	    {"198.51.100.7", {0}, 0, NAK},
	    /* More than is right: nothing named may be another's. */
	    {"192.0.2.2", {O_SERVER, O_REQUESTED}, 12, ACK},
	    {"192.0.2.3", {O_SERVER, O_REQUESTED}, 12, NAK},
	    {"192.0.2.2", {O_SERVER, O_REQUESTED_X}, 12, NAK},
	    {"192.0.2.2", {O_SERVER_X}, 6, 0},
	    /* Less than is right: nothing to refuse. */
	    {NULL, {0}, 0, ACK},
	    {NULL, {O_SERVER}, 6, ACK},
	    {NULL, {O_SERVER_X}, 6, 0},
	    {NULL, {50, 4, 0, 0, 0, 0}, 6, ACK},
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		uint8_t options[3 + 16 + 1] = {O_TYPE(REQUEST)};
		struct message m;
		struct reply r;
		struct bench b;

		bench_init(&b);
		memcpy(options + 3, rows[i].options, rows[i].len);
		options[3 + rows[i].len] = O_END;
		m = message_of(options, 3 + rows[i].len + 1);
		if (rows[i].ciaddr)
			put_addr(&m, AT_CIADDR, rows[i].ciaddr);
		r = ask(&b, &m);
		if (!rows[i].wanted) {
			assert_null(b.answered);
			assert_int_equal(r.m.len, 0);
		} else if (rows[i].wanted == ACK) {
			is_answered(&b, &r, "ACK");
			field_is(&r, AT_CIADDR, rows[i].ciaddr ? rows[i].ciaddr : "0.0.0.0");
			field_is(&r, AT_YIADDR, "192.0.2.2");
			sent_to(&r, "192.0.2.2", 68);
			OPTIONS(&r, O_MASK, O_ROUTER, O_MTU, O_LEASE, O_TYPE(ACK), O_SERVER, O_END);
		} else {
			is_answered(&b, &r, "NAK");
			field_is(&r, AT_CIADDR, "0.0.0.0");
			field_is(&r, AT_YIADDR, "0.0.0.0");
			sent_to(&r, "255.255.255.255", 68);
			assert_int_equal(r.m.b[AT_FLAGS], 0);
			assert_memory_equal(r.m.b + AT_OPTIONS,
					    ((uint8_t[]){O_TYPE(NAK), O_SERVER, 56}), 10);
		}
		bench_end(&b, 0);
	}
}

/* RFC 2131 table 3: of the options a refusal has these only, whatever is asked for. */
static void refusal(void **state)
{
	static const char text[] = "not the address that is assigned here";
	struct message m =
	    MESSAGE(O_TYPE(REQUEST), O_REQUESTED_X, 55, 5, 1, 3, 51, 56, 119, 61, 2, 0, 9, O_END);
	uint8_t want[64] = {O_TYPE(NAK), 56, sizeof(text) - 1};
	struct bench b;
	struct reply r;
	size_t n = 5;

	(void)state;
	bench_init(&b);
	b.cfg.hostname = "guest";
	b.cfg.search[b.cfg.search_count++] = "example";
	r = ask(&b, &m);
	is_answered(&b, &r, "NAK");
	memcpy(want + n, text, sizeof(text) - 1);
	n += sizeof(text) - 1;
	memcpy(want + n, ((uint8_t[]){O_SERVER, 61, 2, 0, 9, O_END}), 11);
	options_are(&r, want, n + 11);
	/* By a relay, which then has to broadcast (4.3.2). */
	put_addr(&m, AT_GIADDR, "192.0.2.50");
	m.b[AT_FLAGS + 1] = 1;
	r = ask(&b, &m);
	sent_to(&r, "192.0.2.50", 67);
	field_is(&r, AT_GIADDR, "192.0.2.50");
	assert_memory_equal(r.m.b + AT_FLAGS, ((uint8_t[]){0x80, 1}), 2);
	bench_end(&b, 0);
}

/* RFC 4039: an ACK at once, which says so; only for DISCOVER. */
static void rapid_commit(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 80, 0, O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	r = ask(&b, &m);
	is_answered(&b, &r, "ACK");
	field_is(&r, AT_YIADDR, "192.0.2.2");
	OPTIONS(&r, O_MASK, O_ROUTER, O_MTU, O_LEASE, O_TYPE(ACK), O_SERVER, 80, 0, O_END);
	m = MESSAGE(O_TYPE(REQUEST), 80, 0, O_REQUESTED, O_END);
	r = ask(&b, &m);
	is_answered(&b, &r, "ACK");
	OPTIONS(&r, O_MASK, O_ROUTER, O_MTU, O_LEASE, O_TYPE(ACK), O_SERVER, O_END);
	m = MESSAGE(O_TYPE(DISCOVER), 55, 1, 80, O_END); /* asked for, but not offered */
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	OPTIONS(&r, O_TYPE(OFFER), O_MASK, O_ROUTER, O_MTU, O_LEASE, O_SERVER, O_END);
	bench_end(&b, 0);
}

/* A DISCOVER may name any address and any server: it is offered what there is. */
static void discover_with_wishes(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), O_REQUESTED_X, O_SERVER_X, O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	put_addr(&m, AT_CIADDR, "192.0.2.3");
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	field_is(&r, AT_YIADDR, "192.0.2.2");
	field_is(&r, AT_CIADDR, "0.0.0.0");
	bench_end(&b, 0);
}

/* RFC 2131 4.3.5: neither address nor lease, sent to the client alone. */
static void inform(void **state)
{
	struct message m = MESSAGE(O_TYPE(INFORM), 55, 2, 51, 3, O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	put_addr(&m, AT_CIADDR, "192.0.2.44");
	m.b[AT_FLAGS] = 0x80;
	r = ask(&b, &m);
	is_answered(&b, &r, "ACK");
	field_is(&r, AT_CIADDR, "192.0.2.44");
	field_is(&r, AT_YIADDR, "0.0.0.0");
	sent_to(&r, "192.0.2.44", 68);
	OPTIONS(&r, O_TYPE(ACK), O_ROUTER, O_MASK, O_MTU, O_SERVER, O_END);
	put_addr(&m, AT_CIADDR, "0.0.0.0");
	give_from(&b, &m, "192.0.2.45");
	r = fetch(&b);
	field_is(&r, AT_CIADDR, "0.0.0.0");
	sent_to(&r, "192.0.2.45", 68);
	bench_end(&b, 0);
}

static void nothing_to_say(void **state)
{
	static const uint8_t counted[] = {OFFER, ACK, NAK, 0, 9, 10, 255};
	struct message m = MESSAGE(O_TYPE(DECLINE), O_SERVER, O_REQUESTED, O_END);
	struct bench b;

	(void)state;
	bench_init(&b);
	is_silent(&b, &m);
	m = MESSAGE(O_TYPE(RELEASE), O_SERVER, O_END);
	put_addr(&m, AT_CIADDR, "192.0.2.2");
	is_silent(&b, &m);
	assert_int_equal(b.counters.dropped[DROP_DHCP], 0);
	for (size_t i = 0; i < sizeof(counted); i++) {
		m = MESSAGE(O_TYPE(counted[i]), O_END);
		is_silent(&b, &m);
	}
	bench_end(&b, sizeof(counted));
}

/* RFC 951: no type, no lease (RFC 1534 2); the vendor's field has 64 bytes. */
static void bootp(void **state)
{
	static const uint8_t zeros[64];
	struct message m = MESSAGE(O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	m.len = 300;
	r = ask(&b, &m);
	is_answered(&b, &r, "BOOTP reply");
	field_is(&r, AT_YIADDR, "192.0.2.2");
	sent_to(&r, "192.0.2.2", 68);
	OPTIONS(&r, O_MASK, O_ROUTER, O_MTU, O_END);
	/* Without the cookie the field is not ours to write in; nor without the field. */
	memset(m.b + AT_COOKIE, 0, 64);
	for (m.len = 300; m.len >= AT_COOKIE; m.len--) {
		r = ask(&b, &m);
		is_answered(&b, &r, "BOOTP reply");
		assert_int_equal(r.m.len, 300);
		assert_memory_equal(r.m.b + AT_COOKIE, zeros, 64);
	}
	m.b[AT_COOKIE + 3] = 1; /* somebody else's cookie, and what would be a type */
	memcpy(m.b + AT_OPTIONS, ((uint8_t[]){O_TYPE(NAK)}), 3);
	m.len = 300;
	r = ask(&b, &m);
	is_answered(&b, &r, "BOOTP reply");
	assert_memory_equal(r.m.b + AT_COOKIE, zeros, 64);
	/* Who has an address is told none. */
	put_addr(&m, AT_CIADDR, "192.0.2.44");
	r = ask(&b, &m);
	field_is(&r, AT_CIADDR, "192.0.2.44");
	field_is(&r, AT_YIADDR, "0.0.0.0");
	sent_to(&r, "192.0.2.44", 68);
	bench_end(&b, 0);
}

/* More than 64 bytes: what fits, and the search list shorter. */
static void bootp_is_short(void **state)
{
	struct message m = MESSAGE(57, 2, 5, 220, O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	b.cfg.hostname = "a-name-of-no-more-than-38-bytes-which-";
	assert_int_equal(strlen(b.cfg.hostname), 38);
	b.cfg.search[b.cfg.search_count++] = "example";
	r = ask(&b, &m);
	assert_int_equal(r.m.len, 300);
	assert_memory_equal(r.m.b + AT_OPTIONS, ((uint8_t[]){O_MASK, O_ROUTER, 12, 38}), 14);
	assert_memory_equal(r.m.b + AT_OPTIONS + 52, ((uint8_t[]){O_MTU, O_END, 0, 0, 0}), 8);
	b.cfg.hostname = NULL;
	b.cfg.search[0] = "a.rather.long.example";
	b.cfg.search[b.cfg.search_count++] = "b.rather.long.example";
	b.cfg.search[b.cfg.search_count++] = "another-thing";
	r = ask(&b, &m);
	assert_int_equal(r.m.len, 300);
	OPTIONS(&r, O_MASK, O_ROUTER, O_MTU, 119, 27, 1, 'a', 6, 'r', 'a', 't', 'h', 'e', 'r', 4,
		'l', 'o', 'n', 'g', 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 1, 'b', 0xc0, 2,
		O_END);
	bench_end(&b, 0);
}

/* RFC 2131 4.1. */
static void addressing(void **state)
{
	static const struct {
		const char *giaddr, *ciaddr;
		uint8_t flags;
		const char *to;
		uint16_t port;
	} rows[] = {
	    {NULL, NULL, 0, "192.0.2.2", 68},
	    {NULL, NULL, 0x7f, "192.0.2.2", 68},
	    {NULL, NULL, 0x80, "255.255.255.255", 68},
	    {NULL, "192.0.2.2", 0, "192.0.2.2", 68},
	    {NULL, "192.0.2.2", 0x80, "192.0.2.2", 68},
	    {"192.0.2.50", NULL, 0, "192.0.2.50", 67},
	    {"192.0.2.50", "192.0.2.2", 0x80, "192.0.2.50", 67},
	};
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct message m = MESSAGE(O_TYPE(REQUEST), O_END);
		struct reply r;

		m.b[AT_FLAGS] = rows[i].flags;
		if (rows[i].ciaddr)
			put_addr(&m, AT_CIADDR, rows[i].ciaddr);
		if (rows[i].giaddr)
			put_addr(&m, AT_GIADDR, rows[i].giaddr);
		r = ask(&b, &m);
		is_answered(&b, &r, "ACK");
		sent_to(&r, rows[i].to, rows[i].port);
		assert_int_equal(r.m.b[AT_FLAGS], rows[i].flags);
		field_is(&r, AT_GIADDR, rows[i].giaddr ? rows[i].giaddr : "0.0.0.0");
		assert_true(r.p.ip.dont_fragment);
	}
	bench_end(&b, 0);
}

/* Nobody can be answered there. */
static void addresses_of_nobody(void **state)
{
	static const char *const nobody[] = {"127.0.0.1", "224.0.0.1", "255.255.255.255"};
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < COUNT(nobody); i++) {
		struct message m = MESSAGE(O_TYPE(DISCOVER), O_END);

		put_addr(&m, AT_CIADDR, nobody[i]);
		is_silent(&b, &m);
		put_addr(&m, AT_CIADDR, "0.0.0.0");
		put_addr(&m, AT_GIADDR, nobody[i]);
		is_silent(&b, &m);
	}
	bench_end(&b, 2 * COUNT(nobody));
}

/* A request cut at every byte. */
static void cut(void **state)
{
	const struct message whole =
	    MESSAGE(O_TYPE(REQUEST), O_REQUESTED, O_SERVER, 55, 2, 1, 3, 61, 3, 1, 2, 3, O_END);
	struct bench b;

	(void)state;
	for (size_t len = 0; len <= whole.len; len++) {
		struct message m = whole;
		struct reply r;
		/* Options end here, or at the end option: it is only missing then. */
		static const size_t ends[] = {0, 3, 9, 15, 19, 24, 25};
		bool right = len >= AT_COOKIE && len < AT_OPTIONS; /* BOOTP, no cookie */

		for (size_t i = 0; i < COUNT(ends); i++)
			right |= len == AT_OPTIONS + ends[i];
		bench_init(&b);
		m.len = len;
		if (right) {
			r = ask(&b, &m);
			is_answered(&b, &r, len < AT_OPTIONS + 3 ? "BOOTP reply" : "ACK");
		} else {
			is_silent(&b, &m);
		}
		bench_end(&b, !right);
	}
}

/* What no request looks like. at: a byte of the good one below changed; or other options. */
static void malformed(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} bytes[] = {{0, 0}, {0, 2}, {0, 255}, {2, 17}, {2, 255}};
	static const struct {
		uint8_t options[12];
		size_t len;
	} bad[] = {
	    {{53, 0}, 2},
	    {{53, 2, 1, 1}, 4},
	    {{53, 1, 1, 53, 1, 1}, 6}, /* joined: two bytes */
	    {{53, 1}, 2},
	    {{53}, 1},
	    {{O_TYPE(REQUEST), 50, 3, 192, 0, 2}, 8},
	    {{O_TYPE(REQUEST), 50, 5, 192, 0, 2, 2, 0}, 10},
	    {{O_TYPE(REQUEST), 54, 3, 192, 0, 2}, 8},
	    {{O_TYPE(REQUEST), 57, 1, 9}, 6},
	    {{O_TYPE(REQUEST), 57, 3, 9, 9, 9}, 8},
	    {{O_TYPE(REQUEST), 81, 2, 0, 0}, 7},
	    {{O_TYPE(REQUEST), 52, 2, 1, 1}, 7},
	    {{O_TYPE(REQUEST), 200, 9, 1, 2, 3}, 8}, /* unknown, and past the end */
	};
	struct message m;
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < COUNT(bytes); i++) {
		m = MESSAGE(O_TYPE(DISCOVER), O_END);
		m.b[bytes[i].at] = bytes[i].value;
		is_silent(&b, &m);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		m = message_of(bad[i].options, bad[i].len);
		is_silent(&b, &m);
	}
	bench_end(&b, COUNT(bytes) + COUNT(bad));
}

/* What is odd, and harmless. */
static void odd(void **state)
{
	static const struct {
		uint8_t options[12];
		size_t len;
	} good[] = {
	    {{0, 0, 0, O_TYPE(DISCOVER), O_END}, 7},
	    {{O_TYPE(DISCOVER)}, 3},
	    {{O_TYPE(DISCOVER), 0, 0}, 5},
	    {{O_TYPE(DISCOVER), O_END, 53, 9}, 6}, /* behind the end */
	    {{O_TYPE(DISCOVER), 55, 0, O_END}, 6},
	    {{O_TYPE(DISCOVER), 61, 0, O_END}, 6},
	    {{O_TYPE(DISCOVER), 200, 0, 201, 2, 1, 1}, 9},
	    {{O_TYPE(DISCOVER), 57, 2, 0, 0, O_END}, 8}, /* less than is allowed */
	    {{O_TYPE(DISCOVER), 52, 0, O_END}, 6},
	    {{O_TYPE(DISCOVER), 52, 1, 0, O_END}, 7},
	    {{O_TYPE(DISCOVER), 52, 1, 0xfc, O_END}, 7},
	    {{O_TYPE(DISCOVER), 51, 1, 7, O_END}, 7},
	};
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < COUNT(good); i++) {
		struct message m = message_of(good[i].options, good[i].len);
		struct reply r = ask(&b, &m);

		is_answered(&b, &r, "OFFER");
	}
	bench_end(&b, 0);
}

static void super_frame(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), O_END);
	struct packet p = {.kind = PACKET_UDP,
			   .payload = m.b,
			   .payload_len = m.len,
			   .gso = GSO_UDP,
			   .gso_size = 100};
	struct bench b;

	(void)state;
	bench_init(&b);
	assert_null(dhcp_input(b.tap, &b.cfg, &p));
	bench_end(&b, 1);
}

/* No room on the link: nothing was answered, and the client asks again. */
static void full_link(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	mem_link_set_room(b.link, 0);
	is_silent(&b, &m);
	mem_link_set_room(b.link, UINT32_MAX);
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_int_equal(b.counters.dropped[DROP_LINK_FULL], 1);
	bench_end(&b, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(discover),     cmocka_unit_test(fields_are_copied),
	    cmocka_unit_test(request),      cmocka_unit_test(refusal),
	    cmocka_unit_test(rapid_commit), cmocka_unit_test(discover_with_wishes),
	    cmocka_unit_test(inform),       cmocka_unit_test(nothing_to_say),
	    cmocka_unit_test(bootp),        cmocka_unit_test(bootp_is_short),
	    cmocka_unit_test(addressing),   cmocka_unit_test(addresses_of_nobody),
	    cmocka_unit_test(cut),          cmocka_unit_test(malformed),
	    cmocka_unit_test(odd),          cmocka_unit_test(super_frame),
	    cmocka_unit_test(full_link),
	};

	return cmocka_run_group_tests_name("dhcp", tests, NULL, NULL);
}
