/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP and neighbour discovery, byte by byte. */
#include "test/unit/build.h"

#include "tap/arp.h"
#include "tap/ndp.h"

struct bench {
	struct tap *tap;
	struct tap_link *link;
	struct counters counters;
	struct nat_guest guest;
	struct ndp_config ndp;
};

static void bench_init(struct bench *b)
{
	static const struct tap_features able = {.csum = true, .tcp_gso = true};
	struct tap_config cfg = {.our_mac = our_mac, .guest_mac = guest_mac, .mtu = 1500};

	*b = (struct bench){.guest.seen = {ip("192.0.2.2"), ip("2001:db8::3")},
			    .guest.link_local_seen = ip("fe80::7")};
	b->ndp = (struct ndp_config){.guest = &b->guest,
				     .ra_on = true,
				     .our_link_local = ip("fe80::1"),
				     .prefix = ip("2001:db8::2")};
	assert_int_equal(mem_link_new(&able, &b->link), 0);
	assert_int_equal(tap_new(b->link, &cfg, &b->counters, &b->tap), 0);
}

static void nothing_more(struct bench *b)
{
	uint8_t frame[64];

	assert_int_equal(mem_link_fetch(b->link, frame, sizeof(frame), NULL), 0);
}

/* ARP. */

#define ASK                                                                                        \
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0,  \
	    0, 0, 0, 7, 192, 0, 2, 2, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1
enum { ARP_OP = 21, ARP_SENDER = 28, ARP_TARGET = 38 };

static void give_arp(struct bench *b, const uint8_t *frame, size_t len)
{
	struct ip_addr own[ARP_OWN] = {ip("192.0.2.2"), ip("192.0.2.3")};
	struct edge e = edge_copy(frame, len);
	static const struct offload none;
	enum drop_reason why;
	struct packet p;

	assert_int_equal(packet_parse(e.data, len, &none, &p, &why), 0);
	assert_int_equal(p.kind, PACKET_ARP);
	arp_input(b->tap, &p, own);
	edge_free(&e);
}

static void request_is_answered(void **state)
{
	static const uint8_t ask[] = {ASK};
	static const uint8_t want[60] = {
	    2,   0, 0, 0, 0, 7, 0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 8,    6,
	    0,   1, 8, 0, 6, 4, 0,    2,    0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55,
	    192, 0, 2, 1, 2, 0, 0,    0,    0,    7,    192,  0,    2,    2};
	uint8_t got[100];
	struct bench b;

	(void)state;
	bench_init(&b);
	give_arp(&b, ask, sizeof(ask));
	assert_int_equal(mem_link_fetch(b.link, got, sizeof(got), NULL), 60);
	assert_memory_equal(got, want, 60);
	nothing_more(&b);
	tap_free(b.tap);
}

static void arp_frame(uint8_t *frame, unsigned at, uint8_t value)
{
	static const uint8_t ask[] = {ASK};

	memcpy(frame, ask, sizeof(ask));
	if (at)
		frame[at] = value;
}

static void what_arp_answers(void **state)
{
	uint8_t frame[42], got[100];
	struct bench b;

	(void)state;
	bench_init(&b);
	arp_frame(frame, ARP_TARGET + 3, 99); /* any target */
	give_arp(&b, frame, sizeof(frame));
	assert_int_equal(mem_link_fetch(b.link, got, sizeof(got), NULL), 60);
	assert_int_equal(got[ARP_SENDER + 3], 99);
	arp_frame(frame, 0, 0); /* a probe: sender 0.0.0.0 */
	memset(frame + ARP_SENDER, 0, 4);
	give_arp(&b, frame, sizeof(frame));
	assert_int_equal(mem_link_fetch(b.link, got, sizeof(got), NULL), 60);
	for (uint8_t own = 2; own <= 3; own++) {
		arp_frame(frame, ARP_TARGET + 3, own);
		frame[ARP_SENDER + 3] = 77;
		give_arp(&b, frame, sizeof(frame));
		nothing_more(&b);
	}
	arp_frame(frame, ARP_TARGET + 3, 9); /* an announcement */
	frame[ARP_SENDER + 3] = 9;
	give_arp(&b, frame, sizeof(frame));
	nothing_more(&b);
	arp_frame(frame, ARP_OP, 2); /* a reply */
	give_arp(&b, frame, sizeof(frame));
	nothing_more(&b);
	assert_int_equal(b.counters.dropped[DROP_ARP], 0);
	tap_free(b.tap);
}

static void damaged_arp_is_counted(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} damage[] = {{15, 6}, {16, 0x86}, {18, 8}, {19, 16}};
	uint8_t frame[42];
	struct bench b;

	(void)state;
	bench_init(&b);
	for (unsigned i = 0; i < COUNT(damage); i++) {
		arp_frame(frame, damage[i].at, damage[i].value);
		give_arp(&b, frame, sizeof(frame));
		assert_int_equal(b.counters.dropped[DROP_ARP], i + 1);
	}
	arp_frame(frame, 0, 0);
	for (size_t len = 15; len < sizeof(frame); len++)
		give_arp(&b, frame, len);
	assert_int_equal(b.counters.dropped[DROP_ARP], COUNT(damage) + sizeof(frame) - 15);
	nothing_more(&b);
	tap_free(b.tap);
}

static void own_request_is_broadcast(void **state)
{
	struct ip_addr gw = ip("192.0.2.1"), guest = ip("192.0.2.2");
	static const uint8_t want[60] = {
	    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 8,    6,
	    0,    1,    8,    0,    6,    4,    0,    1,    0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55,
	    192,  0,    2,    1,    0,    0,    0,    0,    0,    0,    192,  0,    2,    2};
	uint8_t got[100];
	struct bench b;

	(void)state;
	bench_init(&b);
	assert_int_equal(arp_request(b.tap, &gw, &guest), 0);
	assert_int_equal(mem_link_fetch(b.link, got, sizeof(got), NULL), 60);
	assert_memory_equal(got, want, 60);
	mem_link_set_room(b.link, 0);
	assert_int_not_equal(arp_request(b.tap, &gw, &guest), 0);
	tap_free(b.tap);
}

/* Neighbour discovery. */

struct message {
	const char *src, *dst;
	uint8_t type, code, hop_limit;
	const uint8_t *body; /* after the first eight bytes */
	size_t len;
};

static bool give_nd(struct bench *b, const struct message *m)
{
	struct ip_header h = {
	    .src = ip(m->src), .dst = ip(m->dst), .proto = IPPROTO_ICMPV6, .ttl = m->hop_limit};
	static const struct offload none;
	uint8_t frame[2000];
	size_t len = put_icmp(frame, &h, m->type, m->code, 0, m->body, m->len);
	struct edge e = edge_copy(frame, len);
	enum drop_reason why;
	struct packet p;
	bool taken;

	assert_int_equal(packet_parse(e.data, len, &none, &p, &why), 0);
	assert_int_equal(p.kind, PACKET_ICMP);
	taken = ndp_input(b->tap, &b->ndp, &p);
	edge_free(&e);
	return taken;
}

struct got {
	uint8_t frame[1600];
	struct packet p;
};

static void fetch_nd(struct bench *b, struct got *g, uint8_t type)
{
	static const struct offload none;
	size_t len = mem_link_fetch(b->link, g->frame, sizeof(g->frame), NULL);
	enum drop_reason why;

	assert_in_range(len, 62, 1514);
	assert_int_equal(packet_parse(g->frame, len, &none, &g->p, &why), 0);
	assert_int_equal(g->p.icmp.type, type);
	assert_int_equal(g->p.icmp.code, 0);
	assert_int_equal(g->p.ip.ttl, 255);
	assert_true(ip_equal(&g->p.ip.src, &b->ndp.our_link_local));
	assert_true(mac_equal(&g->p.eth_src, &our_mac));
}

/* Target 2001:db8::1 and a source link-layer option. */
#define NS_BODY 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 0, 0, 0, 0, 7

static void solicitation_is_answered(void **state)
{
	static const uint8_t body[] = {NS_BODY};
	static const uint8_t want[] = {0x20, 1, 0xd,  0xb8, 0,    0,    0,    0,
				       0,    0, 0,    0,    0,    0,    0,    1,
				       2,    1, 0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55};
	struct message m = {"2001:db8::2", "ff02::1:ff00:1", 135, 0, 255, body, sizeof(body)};
	struct got g;
	struct bench b;

	(void)state;
	bench_init(&b);
	assert_true(give_nd(&b, &m));
	fetch_nd(&b, &g, 136);
	assert_int_equal(g.p.icmp.echo_id, 0xe000); /* router, solicited, override */
	assert_int_equal(g.p.icmp.echo_seq, 0);
	assert_int_equal(g.p.payload_len, sizeof(want));
	assert_memory_equal(g.p.payload, want, sizeof(want));
	assert_true(ip_equal(&g.p.ip.dst, &b.ndp.prefix));
	nothing_more(&b);
	assert_int_equal(b.counters.dropped[DROP_NDP], 0);
	tap_free(b.tap);
}

static void solicitations_without_answer(void **state)
{
	static const char *const own[] = {"2001:db8::2", "2001:db8::3", "fe80::7"};
	uint8_t body[] = {NS_BODY};
	struct message m = {"2001:db8::2", "ff02::1:ff00:1", 135, 0, 255, body, sizeof(body)};
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < COUNT(own); i++) {
		struct ip_addr a = ip(own[i]);

		memcpy(body, a.b, 16);
		assert_true(give_nd(&b, &m));
	}
	memcpy(body, (uint8_t[]){NS_BODY}, sizeof(body));
	m.src = "::"; /* looks for duplicates */
	m.len = 16;
	assert_true(give_nd(&b, &m));
	nothing_more(&b);
	assert_int_equal(b.counters.dropped[DROP_NDP], 0);
	tap_free(b.tap);
}

static void damaged_discovery_is_counted(void **state)
{
	static const uint8_t good[] = {NS_BODY}, endless[] = {NS_BODY, 1, 0, 0, 0, 0, 0, 0, 0},
			     longer[] = {NS_BODY, 1, 2, 0, 0, 0, 0, 0, 0},
			     group[] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
			     source[] = {1, 1, 2, 0, 0, 0, 0, 7};
	const struct message damage[] = {
	    {"fe80::7", "ff02::1:ff00:1", 135, 0, 254, good, sizeof(good)}, /* routed here */
	    {"fe80::7", "ff02::1:ff00:1", 135, 1, 255, good, sizeof(good)},
	    {"fe80::7", "ff02::1:ff00:1", 135, 0, 255, good, 15},
	    {"fe80::7", "ff02::1:ff00:1", 135, 0, 255, good, 17},
	    {"fe80::7", "ff02::1:ff00:1", 135, 0, 255, endless, sizeof(endless)},
	    {"fe80::7", "ff02::1:ff00:1", 135, 0, 255, longer, sizeof(longer)},
	    {"fe80::7", "ff02::1:ff00:1", 135, 0, 255, group, sizeof(group)},
	    {"::", "ff02::1:ff00:1", 135, 0, 255, good, sizeof(good)}, /* nobody's MAC */
	    {"::", "ff02::2", 133, 0, 255, source, sizeof(source)},
	    {"fe80::7", "ff02::2", 133, 0, 64, source, sizeof(source)},
	    {"fe80::7", "ff02::1", 134, 0, 1, source, sizeof(source)},
	};
	struct bench b;

	(void)state;
	bench_init(&b);
	for (unsigned i = 0; i < COUNT(damage); i++) {
		assert_true(give_nd(&b, &damage[i]));
		assert_int_equal(b.counters.dropped[DROP_NDP], i + 1);
	}
	nothing_more(&b);
	tap_free(b.tap);
}

static void other_types_are_left_to_others(void **state)
{
	static const uint8_t body[16];
	struct message m = {"fe80::7", "fe80::1", 128, 0, 64, body, sizeof(body)};
	struct bench b;

	(void)state;
	bench_init(&b);
	assert_false(give_nd(&b, &m));
	m.type = 132;
	assert_false(give_nd(&b, &m));
	m.type = 138;
	assert_false(give_nd(&b, &m));
	m.type = 136;
	m.hop_limit = 255;
	assert_true(give_nd(&b, &m));
	m.type = 137;
	assert_true(give_nd(&b, &m));
	nothing_more(&b);
	assert_int_equal(b.counters.dropped[DROP_NDP], 0);
	tap_free(b.tap);
}

/* Parts of a router advertisement. */
#define PREFIX_OPTION                                                                              \
	3, 4, 64, 0xc0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0x20, 1, 0xd,  \
	    0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
#define MAC_OPTION 1, 1, 0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55
#define MTU_OPTION 5, 1, 0, 0, 0, 0, 0xff, 0xf0
#define TIMES      0, 0, 0, 0, 0, 0, 0, 0
#define RDNSS_OPTION                                                                               \
	25, 5, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
	    0x53, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x54
#define DNSSL_OPTION                                                                               \
	31, 4, 0, 0, 0xff, 0xff, 0xff, 0xff, 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 3, 'o', 'r',    \
	    'g', 0, 4, 't', 'e', 's', 't', 0, 0, 0, 0, 0, 0

static void router_solicitation_gets_an_advertisement(void **state)
{
	static const uint8_t source[] = {1, 1, 2, 0, 0, 0, 0, 7};
	static const uint8_t least[] = {TIMES, PREFIX_OPTION, MAC_OPTION};
	static const uint8_t full[] = {TIMES,      PREFIX_OPTION, MAC_OPTION,
				       MTU_OPTION, RDNSS_OPTION,  DNSSL_OPTION};
	struct message m = {"fe80::7", "ff02::2", 133, 0, 255, source, sizeof(source)};
	struct got g;
	struct bench b;

	(void)state;
	bench_init(&b);
	b.ndp.search[0] = "example.org"; /* not said without a server */
	b.ndp.search_count = 1;
	assert_true(give_nd(&b, &m));
	fetch_nd(&b, &g, 134);
	assert_true(ip_equal(&g.p.ip.dst, &b.guest.link_local_seen));
	assert_int_equal(g.p.icmp.echo_id, 255 << 8);
	assert_int_equal(g.p.icmp.echo_seq, 65535);
	assert_int_equal(g.p.payload_len, sizeof(least));
	assert_memory_equal(g.p.payload, least, sizeof(least));

	b.ndp.managed = true;
	b.ndp.mtu = 65520;
	b.ndp.dns[0] = ip("2001:db8::53");
	b.ndp.dns[1] = ip("192.0.2.53"); /* not for this option */
	b.ndp.dns[2] = ip("2001:db8::54");
	b.ndp.dns_count = 3;
	b.ndp.search[0] = "example.org";
	b.ndp.search[1] = "bad..name";
	b.ndp.search[2] = "test.";
	b.ndp.search[3] = "";
	b.ndp.search_count = 4;
	assert_true(give_nd(&b, &m));
	fetch_nd(&b, &g, 134);
	assert_int_equal(g.p.icmp.echo_id, 255 << 8 | 0x80);
	assert_int_equal(g.p.payload_len, sizeof(full));
	assert_memory_equal(g.p.payload, full, sizeof(full));

	m.src = "::";
	m.len = 0;
	assert_true(give_nd(&b, &m));
	fetch_nd(&b, &g, 134);
	assert_int_equal(g.p.ip.dst.b[0] << 8 | g.p.ip.dst.b[15], 0xff01);
	b.ndp.ra_on = false;
	assert_true(give_nd(&b, &m));
	nothing_more(&b);
	assert_int_equal(b.counters.dropped[DROP_NDP], 0);
	tap_free(b.tap);
}

static void advertisement_never_outgrows_its_packet(void **state)
{
	char name[254];
	struct message m = {"fe80::7", "ff02::2", 133, 0, 255, NULL, 0};
	struct got g;
	struct bench b;

	(void)state;
	bench_init(&b);
	memset(name, 'x', sizeof(name) - 1);
	for (int i = 63; i < 253; i += 64)
		name[i] = '.';
	name[253] = 0;
	b.ndp.dns[0] = ip("2001:db8::53");
	b.ndp.dns_count = 1;
	for (int i = 0; i < NDP_SEARCH_MAX; i++)
		b.ndp.search[i] = name;
	b.ndp.search_count = NDP_SEARCH_MAX;
	assert_true(give_nd(&b, &m));
	fetch_nd(&b, &g, 134);
	assert_in_range(g.p.l3_len, 1000, 1280); /* four of the six names have room */
	name[63] = 'x';                          /* a label of 127: no name at all */
	b.ndp.search_count = 1;
	assert_true(give_nd(&b, &m));
	fetch_nd(&b, &g, 134);
	assert_int_equal(g.p.payload[g.p.payload_len - 24], 25); /* ends with the servers */
	tap_free(b.tap);
}

static void our_solicitation_goes_to_its_target(void **state)
{
	static const uint8_t want[] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0,         0,
				       0,    0, 0,   0,    0, 0, 2, MAC_OPTION};
	struct ip_addr target = ip("2001:db8::2");
	struct got g;
	struct bench b;

	(void)state;
	bench_init(&b);
	assert_int_equal(ndp_solicit(b.tap, &b.ndp, &target), 0);
	fetch_nd(&b, &g, 135);
	assert_true(ip_equal(&g.p.ip.dst, &target));
	assert_int_equal(g.p.payload_len, sizeof(want));
	assert_memory_equal(g.p.payload, want, sizeof(want));
	tap_free(b.tap);
}

/* RFC 4862 5.4.2: hop limit 255 and no source, or it is no probe. */
static void probes_tell_addresses(void **state)
{
	static const struct {
		struct message m;
		const char *target, *told;
	} rows[] = {
	    {{"::", "ff02::1:ff00:55", 135, 0, 255, NULL, 16}, "2001:db8::55", "2001:db8::55"},
	    {{"::", "ff02::1:ff00:55", 135, 0, 255, NULL, 16}, "fe80::55", "fe80::55"},
	    {{"2001:db8::2", "ff02::1:ff00:55", 135, 0, 255, NULL, 16}, "2001:db8::55", NULL},
	    {{"::", "ff02::1:ff00:55", 135, 0, 254, NULL, 16}, "2001:db8::55", NULL},
	    {{"::", "ff02::1:ff00:55", 135, 0, 255, NULL, 15}, "2001:db8::55", NULL},
	    {{"::", "ff02::1:ff00:55", 136, 0, 255, NULL, 16}, "2001:db8::55", NULL},
	    {{"::", "ff02::1:ff00:55", 135, 0, 255, NULL, 16}, "::", NULL},
	    {{"::", "ff02::1:ff00:55", 135, 0, 255, NULL, 16}, "::1", NULL},
	    {{"::", "ff02::1:ff00:55", 135, 0, 255, NULL, 16}, "::ffff:192.0.2.1", NULL},
	    {{"::", "ff02::1:ff00:55", 135, 0, 255, NULL, 16}, "ff02::1", NULL},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct message *m = &rows[i].m;
		struct ip_header h = {.src = ip(m->src),
				      .dst = ip(m->dst),
				      .proto = IPPROTO_ICMPV6,
				      .ttl = m->hop_limit};
		struct ip_addr target = ip(rows[i].target), own = ip_any[IP_V6];
		static const struct offload none;
		uint8_t frame[2000];
		size_t len = put_icmp(frame, &h, m->type, 0, 0, target.b, m->len);
		struct edge e = edge_copy(frame, len);
		enum drop_reason why;
		struct packet p;
		char buf[IP_TEXT_MAX];

		assert_int_equal(packet_parse(e.data, len, &none, &p, &why), 0);
		assert_int_equal(ndp_probed(&p, &own), rows[i].told != NULL);
		assert_string_equal(ip_format(&own, buf), rows[i].told ? rows[i].told : "::");
		edge_free(&e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(request_is_answered),
	    cmocka_unit_test(what_arp_answers),
	    cmocka_unit_test(damaged_arp_is_counted),
	    cmocka_unit_test(own_request_is_broadcast),
	    cmocka_unit_test(solicitation_is_answered),
	    cmocka_unit_test(solicitations_without_answer),
	    cmocka_unit_test(damaged_discovery_is_counted),
	    cmocka_unit_test(other_types_are_left_to_others),
	    cmocka_unit_test(router_solicitation_gets_an_advertisement),
	    cmocka_unit_test(advertisement_never_outgrows_its_packet),
	    cmocka_unit_test(our_solicitation_goes_to_its_target),
	    cmocka_unit_test(probes_tell_addresses),
	};

	return cmocka_run_group_tests_name("neighbour", tests, NULL, NULL);
}
