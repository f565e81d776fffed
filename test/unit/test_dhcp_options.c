/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of DHCP answers: which, and in which order; and those of requests. */
#include "test/unit/dhcp_bed.h"

#define O_BOOT O_MASK, O_ROUTER
#define O_REST O_LEASE, O_TYPE(OFFER), O_SERVER

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

/* Options of a request in file and sname, too, in this order (RFC 3396). */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_option),   cmocka_unit_test(routes),
	    cmocka_unit_test(only_if_asked), cmocka_unit_test(fqdn),
	    cmocka_unit_test(client_id),     cmocka_unit_test(as_asked_for),
	    cmocka_unit_test(all_asked_for), cmocka_unit_test(overloaded_request),
	};

	return cmocka_run_group_tests_name("dhcp_options", tests, NULL, NULL);
}
