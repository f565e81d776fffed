/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of DHCP answers: which, in which order, and where they go when there are many. */
#include "test/unit/dhcp_bed.h"

#include <stdio.h>

#define LABEL_63 "123456789012345678901234567890123456789012345678901234567890123"
#define O_BOOT   O_MASK, O_ROUTER
#define O_REST   O_LEASE, O_TYPE(OFFER), O_SERVER

/* ---- which ---- */

/* What a client without wishes is told of each part of the configuration. */
static void each_option(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	b.cfg.mtu = 0;
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, O_REST, O_END);
	b.cfg.mtu = 67; /* less than the option may say */
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, O_REST, O_END);
	b.cfg.mtu = 68;
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, 26, 2, 0, 68, O_REST, O_END);
	b.cfg.mtu = 65520;
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, 26, 2, 0xff, 0xf0, O_REST, O_END);
	b.cfg.mtu = 0;
	b.cfg.dns[0] = ip("192.0.2.53");
	b.cfg.dns_count = 1;
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, 6, 4, 192, 0, 2, 53, O_REST, O_END);
	b.cfg.dns[1] = ip("198.51.100.1");
	b.cfg.dns[2] = ip("198.51.100.2");
	b.cfg.dns_count = 3;
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, 6, 12, 192, 0, 2, 53, 198, 51, 100, 1, 198, 51, 100, 2, O_REST, O_END);
	b.cfg.dns_count = 0;
	b.cfg.hostname = "vm";
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, 12, 2, 'v', 'm', O_REST, O_END);
	b.cfg.hostname = NULL;
	b.cfg.search[0] = "a.b";
	b.cfg.search_count = 1;
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, O_REST, 119, 5, 1, 'a', 1, 'b', 0, O_END);
	b.cfg.search[0] = ".."; /* no name: nothing to say */
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, O_REST, O_END);
	b.cfg.search_count = 0;
	b.cfg.prefix_len = 32;
	r = ask(&b, &m);
	OPTIONS(&r, 1, 4, 255, 255, 255, 255, O_ROUTER, O_REST, 121, 14, 32, 192, 0, 2, 1, 0, 0, 0,
		0, 0, 192, 0, 2, 1, O_END);
	bench_end(&b, 0);
}

/* RFC 3442: the gateway on the link, then the default route, when the mask leaves it out. */
static void routes(void **state)
{
	static const struct {
		const char *gateway;
		unsigned prefix_len;
		bool sent;
	} rows[] = {
	    {"192.0.2.1", 24, false},  {"192.0.2.1", 30, false},  {"192.0.2.1", 31, true},
	    {"192.0.2.3", 31, false},  {"192.0.3.1", 24, true},   {"192.0.3.1", 23, false},
	    {"203.0.113.9", 0, false}, {"203.0.113.9", 1, false}, {"169.254.1.1", 32, true}};
	struct message m = MESSAGE(O_TYPE(DISCOVER), 55, 3, 53, 121, 3, O_END);

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ip_addr gw = ip(rows[i].gateway);
		uint8_t want[] = {O_TYPE(OFFER),
				  121,
				  14,
				  32,
				  0,
				  0,
				  0,
				  0,
				  0,
				  0,
				  0,
				  0,
				  0,
				  0,
				  0,
				  0,
				  0,
				  3,
				  4,
				  0,
				  0,
				  0,
				  0};
		struct bench b;
		struct reply r;

		bench_init(&b);
		b.cfg.gateway = gw;
		b.cfg.prefix_len = rows[i].prefix_len;
		memcpy(want + 6, ip_bytes(&gw), 4);
		memcpy(want + 15, ip_bytes(&gw), 4);
		memcpy(want + 21, ip_bytes(&gw), 4);
		r = ask(&b, &m);
		is_answered(&b, &r, "OFFER");
		if (rows[i].sent)
			assert_memory_equal(r.m.b + AT_OPTIONS, want, 25);
		else
			assert_memory_equal(r.m.b + AT_OPTIONS + 3, want + 19, 6);
		bench_end(&b, 0);
	}
}

/* Broadcast address and domain are told to those that ask for them. */
static void only_if_asked(void **state)
{
	static const struct {
		unsigned prefix_len;
		uint8_t mask[4], broadcast[4];
	} rows[] = {{24, {255, 255, 255, 0}, {192, 0, 2, 255}},
		    {25, {255, 255, 255, 128}, {192, 0, 2, 127}},
		    {30, {255, 255, 255, 252}, {192, 0, 2, 3}},
		    {8, {255, 0, 0, 0}, {192, 255, 255, 255}},
		    {0, {0, 0, 0, 0}, {255, 255, 255, 255}},
		    {31, {255, 255, 255, 254}, {0}},
		    {32, {255, 255, 255, 255}, {0}}};
	struct message m = MESSAGE(O_TYPE(DISCOVER), 55, 4, 53, 28, 15, 1, O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < COUNT(rows); i++) {
		const uint8_t *at;

		b.cfg.prefix_len = rows[i].prefix_len;
		b.cfg.search[0] = "a.example";
		b.cfg.search_count = 1;
		r = ask(&b, &m);
		is_answered(&b, &r, "OFFER");
		at = r.m.b + AT_OPTIONS + 3;
		if (rows[i].broadcast[0]) {
			assert_memory_equal(at, ((uint8_t[]){28, 4}), 2);
			assert_memory_equal(at + 2, rows[i].broadcast, 4);
			at += 6;
		}
		assert_memory_equal(at,
				    "\x0f\x09"
				    "a.example\1\4",
				    13);
		assert_memory_equal(at + 13, rows[i].mask, 4);
	}
	bench_end(&b, 0);
}

/* RFC 4702: flags by those of the client. */
static void fqdn(void **state)
{
	static const struct {
		int theirs; /* flags that the client sends, or -1: no option */
		uint8_t ours;
	} rows[] = {{-1, 4}, {4, 4}, {5, 6}, {12, 12}, {4 | 2, 4},
		    {0, 0},  {1, 2}, {8, 8}, {0xf5, 6}};
	struct bench b;

	(void)state;
	bench_init(&b);
	b.cfg.mtu = 0;
	b.cfg.fqdn = "vm.example";
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct message m =
		    MESSAGE(O_TYPE(DISCOVER), 81, 5, (uint8_t)rows[i].theirs, 0, 0, 1, 'x', O_END);
		struct reply r;

		if (rows[i].theirs < 0)
			m = MESSAGE(O_TYPE(DISCOVER), O_END);
		r = ask(&b, &m);
		is_answered(&b, &r, "OFFER");
		if (rows[i].ours & 4)
			OPTIONS(&r, O_BOOT, O_REST, 81, 15, rows[i].ours, 255, 255, 2, 'v', 'm', 7,
				'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, O_END);
		else
			OPTIONS(&r, O_BOOT, O_REST, 81, 13, rows[i].ours, 255, 255, 'v', 'm', '.',
				'e', 'x', 'a', 'm', 'p', 'l', 'e', O_END);
	}
	bench_end(&b, 0);
}

/* RFC 6842: in every answer that has the option's kind of options, unaltered. */
static void client_id(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 61, 4, 255, 0, 1, 9, O_END);
	uint8_t options[600] = {O_TYPE(DISCOVER), 61, 255};
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	b.cfg.mtu = 0;
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, O_REST, 61, 4, 255, 0, 1, 9, O_END);
	fill(options + 5, 255);
	m = message_of(options, 260);
	r = ask(&b, &m);
	is_answered(&b, &r, "OFFER");
	assert_memory_equal(r.m.b + AT_OPTIONS + 27, options + 3, 257);
	assert_int_equal(r.m.b[AT_OPTIONS + 27 + 257], O_END);
	/* Longer than one option: it is not returned in part. */
	memcpy(options + 260, ((uint8_t[]){61, 1, 7}), 3);
	m = message_of(options, 263);
	r = ask(&b, &m);
	OPTIONS(&r, O_BOOT, O_REST, O_END);
	bench_end(&b, 0);
}

/* ---- order ---- */

static void as_asked_for(void **state)
{
	struct message m = MESSAGE(O_TYPE(DISCOVER), 55, 7, 3, 42, 1, 3, 51, 0, 255, O_END);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	r = ask(&b, &m); /* the type first, since it isn't among them */
	OPTIONS(&r, O_TYPE(OFFER), O_ROUTER, O_MASK, O_LEASE, O_MTU, O_SERVER, O_END);
	m = MESSAGE(O_TYPE(DISCOVER), 55, 3, 54, 53, 26, O_END);
	r = ask(&b, &m);
	OPTIONS(&r, O_SERVER, O_TYPE(OFFER), O_MTU, O_MASK, O_ROUTER, O_LEASE, O_END);
	m = MESSAGE(55, 1, 3, O_TYPE(DISCOVER), 55, 1, 1, O_END); /* in two parts (RFC 3396) */
	r = ask(&b, &m);
	OPTIONS(&r, O_TYPE(OFFER), O_ROUTER, O_MASK, O_MTU, O_LEASE, O_SERVER, O_END);
	m = MESSAGE(O_TYPE(INFORM), 55, 2, 51, 58, O_END); /* has no lease */
	r = ask(&b, &m);
	OPTIONS(&r, O_TYPE(ACK), O_MASK, O_ROUTER, O_MTU, O_SERVER, O_END);
	bench_end(&b, 0);
}

/* Every code there is, twice and more: a list longer than one option. */
static void all_asked_for(void **state)
{
	uint8_t options[3 + 3 * 257 + 1] = {O_TYPE(DISCOVER)};
	struct message m;
	struct bench b;
	struct reply r;
	size_t n = 3;

	(void)state;
	bench_init(&b);
	for (int part = 0; part < 3; part++) {
		options[n++] = 55;
		options[n++] = 255;
		for (int i = 0; i < 255; i++)
			options[n++] = (uint8_t)(255 - i);
	}
	options[n++] = O_END;
	m = message_of(options, n);
	r = ask(&b, &m);
	OPTIONS(&r, O_SERVER, O_TYPE(OFFER), O_LEASE, 28, 4, 192, 0, 2, 255, O_MTU, O_ROUTER,
		O_MASK, O_END);
	bench_end(&b, 0);
}

/* ---- the request's own options ---- */

/* Options of a request in file and sname, too, in this order (RFC 3396 5). */
static void overloaded_request(void **state)
{
	struct message m = MESSAGE(52, 1, 3, 50, 1, 192, O_END, 50, 1, 77);
	struct bench b;
	struct reply r;

	(void)state;
	bench_init(&b);
	memcpy(m.b + AT_FILE, ((uint8_t[]){50, 2, 0, 2, 52, 1, 0, O_END, 1}), 9);
	memcpy(m.b + AT_SNAME, ((uint8_t[]){0, O_TYPE(REQUEST), 50, 1, 2, O_END}), 8);
	r = ask(&b, &m);
	is_answered(&b, &r, "ACK");
	m.b[AT_SNAME + 6] = 3;
	r = ask(&b, &m);
	is_answered(&b, &r, "NAK");
	m.b[AT_OPTIONS + 2] = 1; /* not sname: half an address, no type */
	is_silent(&b, &m);
	m.b[AT_OPTIONS + 2] = 2; /* not file */
	is_silent(&b, &m);
	m.b[AT_OPTIONS + 2] = 3;
	memset(m.b + AT_FILE, 0, 128); /* an option past its field's end */
	m.b[AT_FILE + 126] = 60;
	m.b[AT_FILE + 127] = 1;
	is_silent(&b, &m);
	m.b[AT_FILE + 126] = 0;
	m.b[AT_FILE + 127] = 60;
	is_silent(&b, &m);
	bench_end(&b, 4);
}

/* ---- many ---- */

/* All of one option, put together as RFC 3396 5 has it; every option and field is checked. */
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

/* The list goes on in file, then in sname (RFC 3396 5, RFC 2131 4.1); it comes last, and what makes
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
	for (size_t i = 63; i < len - 1; i += 64)
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
		char texts[6][256], want[800] = "";
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
	    cmocka_unit_test(each_option),
	    cmocka_unit_test(routes),
	    cmocka_unit_test(only_if_asked),
	    cmocka_unit_test(fqdn),
	    cmocka_unit_test(client_id),
	    cmocka_unit_test(as_asked_for),
	    cmocka_unit_test(all_asked_for),
	    cmocka_unit_test(overloaded_request),
	    cmocka_unit_test(longer_than_an_option),
	    cmocka_unit_test(maximum_size),
	    cmocka_unit_test(overload),
	    cmocka_unit_test(overload_file_only),
	    cmocka_unit_test(list_is_cut),
	    cmocka_unit_test(far_too_much),
	    cmocka_unit_test(longest_refusal),
	    cmocka_unit_test(small_mtu),
	};

	return cmocka_run_group_tests_name("dhcp_options", tests, NULL, NULL);
}
