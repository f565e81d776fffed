/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the options of DHCP answers go when there are many, or long ones: longer messages, parts
 * (RFC 3396), other fields (RFC 2131 4.1). */
#include "test/unit/dhcp_bed.h"

#include <stdio.h>

/* All of one option, put together as RFC 3396 has it; every option and field is checked. */
static size_t collect(const struct reply *r, uint8_t code, uint8_t *value)
{
	struct {
		size_t at, len;
	} fields[3] = {{AT_OPTIONS, r->m.len - AT_OPTIONS}, {AT_FILE, 128}, {AT_SNAME, 64}};
	unsigned overload = 0;
	size_t n = 0;

	for (int i = 0; i < 3; i++) {
		const uint8_t *p = r->m.b + fields[i].at, *end = p + fields[i].len;

		if (i && !(overload & (1U << (i - 1)))) {
			for (; p < end; p++)
				assert_int_equal(*p, 0);
			continue;
		}
		for (; *p != O_END; p += 2 + p[1]) {
			assert_true(p + 2 + p[1] < end);
			assert_int_not_equal(p[0], 0);
			if (p[0] == 52) {
				assert_int_equal(i, 0);
				assert_int_equal(p[1], 1);
				overload = p[2];
				assert_in_range(overload, 1, 3);
			}
			if (p[0] == code) {
				memcpy(value + n, p + 2, p[1]);
				n += p[1];
			}
		}
		while (++p < end)
			assert_int_equal(*p, 0);
	}
	return n;
}

/* The search list as a resolver reads it: labels and pointers, names with spaces between. */
static void search_is(const struct reply *r, const char *want)
{
	uint8_t value[2048];
	size_t len = collect(r, 119, value), pos = 0;
	char text[2048] = "";

	while (pos < len) {
		size_t at = pos;
		bool jumped = false;

		strcat(text, *text ? " " : "");
		while (value[at]) {
			if (value[at] >= 0xc0) {
				size_t to = (size_t)(value[at] & 0x3f) << 8 | value[at + 1];

				assert_true(to < at);
				pos = jumped ? pos : at + 2;
				jumped = true;
				at = to;
				continue;
			}
			strncat(text, (const char *)value + at + 1, value[at]);
			strcat(text, ".");
			at += 1U + value[at];
			assert_true(at < len);
		}
		pos = jumped ? pos : at + 1;
	}
	assert_string_equal(text, want);
}

static void set_search(struct bench *b, const char *const *names, unsigned n)
{
	for (b->cfg.search_count = 0; b->cfg.search_count < n; b->cfg.search_count++)
		b->cfg.search[b->cfg.search_count] = names[b->cfg.search_count];
}

/* Nothing in common; 66 bytes each on the wire, with the pads behind. */
static const char *const long_names[] = {
    "a2345678901234567890123456789012345678901234567890123456789012.a",
    "b2345678901234567890123456789012345678901234567890123456789012.b",
    "c2345678901234567890123456789012345678901234567890123456789012.c",
    "d2345678901234567890123456789012345678901234567890123456789012.d",
    "e2345678901234567890123456789012345678901234567890123456789012.e",
    "f2345678901234567890123456789012345678901234567890123456789012.f"};

#define WIRE_LEN (1 + 62 + 1 + 1 + 1)

/* 255 bytes go in one option, 256 in two. */
static void longer_than_an_option(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 57, 2, 5, 220, 55, 1, 119, O_END);
	static const char fill_up[] = "1234567890123456789012345678901234567890123456789012345";
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t extra = 53; extra < 56; extra++) {
		const char *names[] = {long_names[0], long_names[1], long_names[2],
				       fill_up + 55 - extra};
		size_t len = 3 * WIRE_LEN + 2 + extra,
		       at = AT_OPTIONS + 3 + 2 + (len > 255 ? 255 : len);
		uint8_t value[600];
		struct reply r;

		set_search(&b, names, 4);
		r = ask(&b, &m);
		is_answered(&b, &r, "OFFER");
		assert_int_equal(collect(&r, 119, value), len);
		assert_int_equal(r.m.b[AT_OPTIONS + 4], len > 255 ? 255 : len);
		if (len > 255)
			assert_memory_equal(r.m.b + at, ((uint8_t[]){119, (uint8_t)(len - 255)}),
					    2);
		else
			assert_int_equal(r.m.b[at], 1);
		assert_int_equal(collect(&r, 52, value), 0);
	}
	bench_end(&b, 0);
}

/* A message as long as the client takes, before other fields are used. */
static void maximum_size(void **state)
{
	struct {
		uint8_t size[2];
		size_t len; /* most that the message may have */
	} rows[] = {{{0, 0}, 548}, {{2, 0x40}, 548},  {{2, 0x41}, 549},
		    {{3, 0}, 740}, {{5, 0xdc}, 1472}, {{255, 255}, 1472}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct message m =
		    MESSAGE(O_TYPE(DISCOVER), 57, 2, rows[i].size[0], rows[i].size[1], O_END);
		uint8_t value[600];
		struct bench b;
		struct reply r;

		bench_init(&b);
		set_search(&b, long_names, 6);
		r = ask(&b, &m);
		is_answered(&b, &r, "OFFER");
		assert_true(r.m.len <= rows[i].len);
		assert_int_equal(collect(&r, 119, value), 6 * WIRE_LEN);
		assert_int_equal(collect(&r, 52, value), rows[i].len < 640);
		if (rows[i].len < 640)
			assert_int_equal(r.m.len, rows[i].len);
		bench_end(&b, 0);
	}
}

static const char all_six[] = "a2345678901234567890123456789012345678901234567890123456789012.a. "
			      "b2345678901234567890123456789012345678901234567890123456789012.b. "
			      "c2345678901234567890123456789012345678901234567890123456789012.c. "
			      "d2345678901234567890123456789012345678901234567890123456789012.d. "
			      "e2345678901234567890123456789012345678901234567890123456789012.e. "
			      "f2345678901234567890123456789012345678901234567890123456789012.f.";

/* The list goes on in file, then in sname (RFC 3396, RFC 2131 4.1); it comes last, and what makes
 * the lease first. */
static void overload(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 55, 3, 119, 3, 1, O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	set_search(&b, long_names, 6);
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	/* 308 bytes, less 4 for option 52 and the end. */
	assert_memory_equal(
	    r.m.b + AT_OPTIONS,
	    ((uint8_t[]){O_TYPE(OFFER), O_LEASE, O_SERVER, O_ROUTER, O_MASK, O_MTU, 119, 255}), 33);
	assert_memory_equal(r.m.b + AT_OPTIONS + 288, ((uint8_t[]){119, 14}), 2);
	assert_memory_equal(r.m.b + AT_OPTIONS + 304, ((uint8_t[]){52, 1, 3, O_END}), 4);
	assert_int_equal(r.m.len, AT_OPTIONS + 308);
	assert_memory_equal(r.m.b + AT_FILE, ((uint8_t[]){119, 125}), 2);
	assert_int_equal(r.m.b[AT_FILE + 127], O_END);
	assert_memory_equal(r.m.b + AT_SNAME, ((uint8_t[]){119, 6 * WIRE_LEN - 255 - 14 - 125}), 2);
	assert_int_equal(r.m.b[AT_SNAME + 4], O_END);
	search_is(&r, all_six);
	bench_end(&b, 0);
}

/* One field more is enough: the other is left alone. */
static void overload_file_only(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), O_END);
	char name[254] = "";
	uint8_t value[600];
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	set_search(&b, long_names, 1);
	memset(name, 'n', 240);
	b.cfg.hostname = name;
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_int_equal(collect(&r, 12, value), 240);
	assert_int_equal(collect(&r, 119, value), WIRE_LEN);
	assert_int_equal(collect(&r, 52, value), 1);
	assert_int_equal(value[0], 1);
	assert_memory_equal(r.m.b + AT_FILE, ((uint8_t[]){119, WIRE_LEN}), 2);
	bench_end(&b, 0);
}

/* A name of so many bytes on the wire that has no end in common with others. */
static const char *name_of(char *text, size_t wire_len, char letter)
{
	size_t len = wire_len - 2;

	memset(text, letter, len);
	text[len] = '\0';
	for (size_t i = 40; i < len - 1; i += 41)
		text[i] = '.';
	return text;
}

/* A list longer than all fields together loses names from its end, and nothing else is lost. */
static void list_is_cut(void **state)
{
	/* 304 + 127 + 63 bytes, less 31 for the others, and 2 for each of the four parts. */
	static const struct {
		size_t third;
		unsigned kept;
	} rows[] = {{494 - 31 - 8 - 300, 3}, {494 - 31 - 8 - 300 + 1, 2}};
	struct message m = MESSAGE(O_TYPE(DISCOVER), 55, 1, 119, O_END);
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < COUNT(rows); i++) {
		char texts[6][256], want[6 * 257] = "";
		uint8_t value[600];
		struct reply r;

		for (unsigned n = 0; n < 6; n++) {
			b.cfg.search[n] =
			    name_of(texts[n], n == 2 ? rows[i].third : 150, (char)('a' + n));
			if (n < rows[i].kept)
				sprintf(want + strlen(want), "%s%s.", n ? " " : "", texts[n]);
		}
		b.cfg.search_count = 6;
		r = ask(&b, &m);
		is_answered(&b, &r, "OFFER");
		search_is(&r, want);
		assert_int_equal(b.cfg.search_count, 6);
		assert_int_equal(collect(&r, 53, value), 1);
		assert_int_equal(collect(&r, 51, value), 4);
		assert_int_equal(collect(&r, 54, value), 4);
		assert_int_equal(collect(&r, 1, value), 4);
		assert_int_equal(collect(&r, 3, value), 4);
		assert_int_equal(collect(&r, 26, value), 2);
	}
	bench_end(&b, 0);
}

/* What a list may have at most in fields of which this much is left, with a header of two bytes for
 * each part. */
static size_t room_in_parts(const size_t *left, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += left[i] / 257 * 255 + (left[i] % 257 > 2 ? left[i] % 257 - 2 : 0);
	return sum;
}

/* Every byte of every field is used, whatever is left of the first: even 3 bytes, for one of the
 * list. */
static void no_byte_is_wasted(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 55, 1, 119, O_END);
	char host[256] = "", texts[2][256];
	struct bench b;

	(void)state;
	bench_init(&b);
	b.cfg.hostname = host;
	for (size_t len = 1; len <= 240; len++) {
		const size_t left[] = {304 - 31 - 2 - len, 127, 63};
		size_t most = room_in_parts(left, 3);

		host[len - 1] = 'h';
		for (size_t extra = 0; extra < 2; extra++) {
			uint8_t value[600];
			struct reply r;

			b.cfg.search[0] = name_of(texts[0], most / 2, 'a');
			b.cfg.search[1] = name_of(texts[1], most - most / 2 + extra, 'b');
			b.cfg.search_count = 2;
			r = ask(&b, &m);
			is_answered(&b, &r, "OFFER");
			assert_int_equal(collect(&r, 119, value), extra ? most / 2 : most);
			assert_int_equal(collect(&r, 12, value), len);
		}
	}
	bench_end(&b, 0);
}

/* Up to the last byte of the options field no other is used. */
static void just_fits(void **state)
{
	uint8_t options[300] = {O_TYPE(DISCOVER), 61, 72}, value[600];
	struct message m;
	char host[256];
	struct bench b;

	(void)state;
	bench_init(&b);
	fill(options + 5, 72);
	m = message_of(options, 77);
	for (size_t extra = 0; extra < 2; extra++) {
		struct reply r;

		b.cfg.hostname = name_of(host, 202 + extra, 'h');
		r = ask(&b, &m);
		is_answered(&b, &r, "OFFER");
		assert_int_equal(collect(&r, 12, value), 200 + extra);
		assert_int_equal(collect(&r, 61, value), 72);
		assert_int_equal(collect(&r, 52, value), extra);
	}
	bench_end(&b, 0);
}

/* A host name that no field has room for is left out: no client need join its parts. */
static void only_lists_in_parts(void **state)
{
	uint8_t options[110] = {O_TYPE(DISCOVER), 61, 100}, value[600];
	struct message m;
	char host[256];
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	fill(options + 5, 100);
	m = message_of(options, 105);
	b.cfg.hostname = name_of(host, 202, 'h');
	b.cfg.search[0] = "example";
	b.cfg.search_count = 1;
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_int_equal(collect(&r, 61, value), 100);
	assert_int_equal(collect(&r, 12, value), 0);
	assert_int_equal(collect(&r, 119, value), 9);
	bench_end(&b, 0);
}

/* The guest's MTU and its wish may be large; the answer remains one Ethernet frame. */
static void large_mtu(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 57, 2, 255, 255, O_END);
	char texts[6][256];
	uint8_t value[1500];
	struct bench b;
	struct reply r;

	(void)state;
	bench_init_mtu(&b, 65520);
	for (unsigned n = 0; n < 6; n++)
		b.cfg.search[n] = name_of(texts[n], 255, (char)('a' + n));
	b.cfg.search_count = 6;
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_int_equal(collect(&r, 119, value), 5 * 255);
	assert_in_range(r.m.len, 1200, 1472);
	bench_end(&b, 0);
}

/* Texts that no option holds are left out. */
static void too_long_for_an_option(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 57, 2, 5, 220, 81, 3, 0, 0, 0, O_END);
	char host[300] = "", full[300] = "";
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t extra = 0; extra < 2; extra++) {
		uint8_t value[600];
		struct reply r;

		memset(host, 'h', 255 + extra);
		memset(full, 'f', 252 + extra);
		b.cfg.hostname = host;
		b.cfg.fqdn = full;
		r = ask(&b, &m);
		is_answered(&b, &r, "OFFER");
		assert_int_equal(collect(&r, 12, value), extra ? 0 : 255);
		assert_int_equal(collect(&r, 81, value), extra ? 0 : 255);
	}
	bench_end(&b, 0);
}

/* All as long as it may be: what a lease needs is there, and the rest as far as it fits. */
static void far_too_much(void **state)
{
	uint8_t options[300] = {O_TYPE(DISCOVER), 61, 255}, value[600];
	char host[256], full[256], domain[256];
	struct message m;
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	fill(options + 5, 255);
	memcpy(options + 260, ((uint8_t[]){55, 4, 12, 81, 15, 119, O_END}), 7);
	b.cfg.hostname = name_of(host, 255, 'h');
	b.cfg.fqdn = name_of(full, 255, 'f'); /* 258 bytes: no option holds it */
	b.cfg.search[0] = name_of(domain, 255, 'd');
	b.cfg.search_count = 1;
	m = message_of(options, 267);
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_int_equal(collect(&r, 61, value), 255);
	assert_memory_equal(value, options + 5, 255);
	assert_int_equal(collect(&r, 53, value), 1);
	assert_int_equal(collect(&r, 51, value), 4);
	assert_int_equal(collect(&r, 54, value), 4);
	assert_int_equal(collect(&r, 1, value), 4);
	assert_int_equal(collect(&r, 3, value), 4);
	assert_int_equal(collect(&r, 12, value), 0);
	assert_int_equal(collect(&r, 119, value), 0);
	memcpy(options, ((uint8_t[]){57, 2, 5, 220}), 4); /* there is room for all but one */
	memcpy(options + 4, ((uint8_t[]){O_TYPE(DISCOVER), 55, 4, 12, 81, 15, 119, O_END}), 10);
	m = message_of(options, 14);
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_int_equal(collect(&r, 12, value), 253);
	assert_memory_equal(value, host, 253);
	assert_int_equal(collect(&r, 15, value), 253);
	assert_int_equal(collect(&r, 119, value), 255);
	assert_int_equal(collect(&r, 81, value), 0);
	bench_end(&b, 0);
}

/* A refusal has no other fields to use (RFC 2131 table 3), and needs none. */
static void longest_refusal(void **state)
{
	uint8_t options[300] = {O_TYPE(REQUEST), O_REQUESTED_X, 61, 255}, value[600];
	struct message m;
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	fill(options + 11, 255);
	m = message_of(options, 266);
	r = ask(&b, &m);
	is_answered(&b, &r, "NAK");
	assert_int_equal(collect(&r, 61, value), 255);
	assert_int_equal(collect(&r, 56, value), 37);
	assert_int_equal(collect(&r, 52, value), 0);
	bench_end(&b, 0);
}

/* Longer than the guest's MTU only if that is less than every client takes (RFC 791 3.1), and then
 * in fragments. */
static void small_mtu(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 57, 2, 5, 220, O_END);
	static const struct offload none;
	uint8_t frame[2048];
	enum drop_reason why;
	struct packet p;
	struct bench b;
	struct reply r;
	size_t len = 0;

	(void)state;
	bench_init_mtu(&b, 600);
	set_search(&b, long_names, 6);
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_int_equal(r.frame_len, 14 + 600);
	search_is(&r, all_six);
	assert_true(r.p.ip.dont_fragment);
	bench_end(&b, 0);

	bench_init_mtu(&b, 200);
	give(&b, &m);
	assert_string_equal(b.answered, "OFFER");
	do {
		size_t n = mem_link_fetch(b.link, frame, sizeof(frame), NULL);

		assert_int_equal(packet_parse(frame, n, &none, &p, &why), 0);
		assert_int_equal(p.kind, PACKET_FRAGMENT);
		assert_int_equal(p.ip.fragment_offset, len);
		len += p.payload_len;
	} while (p.ip.more_fragments);
	assert_int_equal(len, 8 + 300);
	bench_end(&b, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(longer_than_an_option),
	    cmocka_unit_test(maximum_size),
	    cmocka_unit_test(overload),
	    cmocka_unit_test(overload_file_only),
	    cmocka_unit_test(list_is_cut),
	    cmocka_unit_test(no_byte_is_wasted),
	    cmocka_unit_test(just_fits),
	    cmocka_unit_test(only_lists_in_parts),
	    cmocka_unit_test(large_mtu),
	    cmocka_unit_test(too_long_for_an_option),
	    cmocka_unit_test(far_too_much),
	    cmocka_unit_test(longest_refusal),
	    cmocka_unit_test(small_mtu),
	};

	return cmocka_run_group_tests_name("dhcp_layout", tests, NULL, NULL);
}
