/* SPDX-License-Identifier: BSD-3-Clause */
/* Echo over a link in memory, through ping sockets in a network namespace of the test's own, whose
 * loopback answers under the gateway's address. Every test runs for both families. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdlib.h>

#include "icmp/icmp.h"
#include "tap/reassembly.h"
#include "test/unit/own_net.h"

#define TIMEOUT (60 * USEC_SEC)
#define START   (1000 * USEC_SEC)

struct names {
	enum ip_family family;
	const char *guest, *host, *other, *unroutable, *router;
	uint8_t request, reply, header_len;
};

static const struct names names[IP_FAMILIES] = {
    {IP_V4, "192.0.2.2", "192.0.2.1", "198.51.100.9", "203.0.113.1", "192.0.2.1", 8, 0, 20},
    {IP_V6, "2001:db8::2", "2001:db8::1", "2001:db8::9", "2001:db8:1::1", "fe80::1", 128, 129, 40},
};

struct bed {
	const struct names *n;
	struct loop *loop;
	struct tap_link *link;
	struct tap *tap;
	struct counters counters;
	struct nat_config nat;
	struct nat_guest guest;
	struct reassembly *reassembly;
	struct icmp *icmp;
	usec_t now;
	int files;
	uint8_t frame[FRAME_MAX + 128];
};

static struct ip_addr ip(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_parse(text, &a), 0);
	return a;
}

static struct bed *bed_new(const struct names *n, size_t mtu, unsigned flows_max)
{
	static const struct tap_features features = {
	    .csum = true, .tcp_gso = true, .udp_gso = true};
	struct bed *b = calloc(1, sizeof(*b));
	struct tap_config tap = {.mtu = mtu, .guest_mac = {{2, 0, 0, 0, 0, 2}}};
	struct icmp_config cfg = {.flows_max = flows_max, .timeout = TIMEOUT, .guest = &b->guest};

	assert_non_null(b);
	b->n = n;
	b->now = START;
	b->files = own_net_open_files();
	b->nat.our_link_local = ip("fe80::1");
	for (int f = 0; f < IP_FAMILIES; f++) {
		b->nat.family[f] = (struct nat_family){.on = true,
						       .guest_assigned = ip(names[f].guest),
						       .gateway = ip(names[f].host),
						       .map_host_loopback = ip(names[f].host),
						       .map_guest_addr = ip_any[f],
						       .dns_forward = ip_any[f],
						       .dns_host = ip_any[f],
						       .outbound = ip_any[f],
						       .template_index = 1};
	}
	nat_guest_init(&b->guest, &b->nat);
	assert_int_equal(loop_new(&b->loop), 0);
	assert_int_equal(mem_link_new(&features, &b->link), 0);
	assert_int_equal(tap_new(b->link, &tap, &b->counters, &b->tap), 0);
	assert_int_equal(reassembly_new(b->loop, &b->counters, &b->reassembly), 0);
	assert_int_equal(icmp_new(b->loop, b->tap, &b->nat, &cfg, &b->icmp), 0);
	return b;
}

/* Ends the bed; with it every descriptor and timer must go. */
static void bed_free(struct bed *b)
{
	int files = b->files;

	icmp_free(b->icmp);
	reassembly_free(b->reassembly);
	assert_int_equal(timers_next(loop_timers(b->loop)), USEC_NEVER);
	tap_free(b->tap);
	loop_free(b->loop);
	free(b);
	assert_int_equal(own_net_open_files(), files);
}

static void turn(struct bed *b)
{
	assert_int_equal(loop_turn(b->loop, b->now, 2000), 0);
}

static struct packet request(const struct bed *b, const char *dst, uint16_t id, uint16_t seq)
{
	struct packet p = {.kind = PACKET_ICMP,
			   .ip = {.src = ip(b->n->guest),
				  .dst = ip(dst),
				  .proto = b->n->family == IP_V4 ? IPPROTO_ICMP : IPPROTO_ICMPV6,
				  .ttl = 64}};

	p.icmp = (struct icmp_header){.type = b->n->request, .echo_id = id, .echo_seq = seq};
	return p;
}

static void input(struct bed *b, struct packet *p, const void *data, size_t len)
{
	p->payload = data;
	p->payload_len = len;
	icmp_input(b->icmp, p, b->now);
}

static void guest_pings(struct bed *b, const char *dst, uint16_t id, uint16_t seq)
{
	struct packet p = request(b, dst, id, seq);

	input(b, &p, "data", 4);
}

/* The next packet to the guest, fragments put together; its checksum is right. false if there is
 * none. */
static bool guest_gets(struct bed *b, struct packet *p)
{
	struct offload off;
	enum drop_reason why;
	size_t len;

	while ((len = mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off))) {
		struct packet part;

		assert_true(len <= sizeof(b->frame));
		assert_int_equal(packet_parse(b->frame, len, &off, &part, &why), 0);
		*p = part;
		if (part.kind != PACKET_FRAGMENT ||
		    reassembly_input(b->reassembly, &part, b->now, p))
			return true;
	}
	return false;
}

static void guest_gets_nothing(struct bed *b)
{
	struct packet p;

	assert_false(guest_gets(b, &p));
}

static void guest_gets_reply(struct bed *b, const char *from, uint16_t id, uint16_t seq)
{
	struct ip_addr src = ip(from), me = ip(b->n->guest);
	struct packet p;

	assert_true(guest_gets(b, &p));
	assert_int_equal(p.kind, PACKET_ICMP);
	assert_memory_equal(p.ip.src.b, src.b, 16);
	assert_memory_equal(p.ip.dst.b, me.b, 16);
	assert_int_equal(p.icmp.type, b->n->reply);
	assert_int_equal(p.icmp.code, 0);
	assert_int_equal(p.icmp.echo_id, id);
	assert_int_equal(p.icmp.echo_seq, seq);
	assert_int_equal(p.payload_len, 4);
	assert_memory_equal(p.payload, "data", 4);
}

static void both(void (*test)(const struct names *n))
{
	for (int f = 0; f < IP_FAMILIES; f++)
		test(&names[f]);
}

static void echo_each(const struct names *n)
{
	static const uint16_t ids[] = {0, 1, 0x1234, 0xffff};
	struct bed *b = bed_new(n, 65520, 100);

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		for (uint16_t seq = 0xfffe; seq != 1; seq++) {
			guest_pings(b, n->host, ids[i], seq);
			turn(b);
			guest_gets_reply(b, n->host, ids[i], seq);
		}
	}
	/* The same id to another destination: the kernel gives it another one, which the guest does
	 * not see. */
	guest_pings(b, n->other, 1, 7);
	turn(b);
	guest_gets_reply(b, n->other, 1, 7);
	guest_gets_nothing(b);
	bed_free(b);
}

static void test_echo(void **state)
{
	(void)state;
	both(echo_each);
}

static void sizes_at(const struct names *n, size_t mtu)
{
	static const size_t sizes[] = {0, 1, 56, 1452, 1473, 9000, 60000, 65487};
	static uint8_t data[65536];
	struct bed *b = bed_new(n, mtu, 100);

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct packet p = request(b, n->host, 5, (uint16_t)i), back;

		input(b, &p, data, sizes[i]);
		turn(b);
		assert_true(guest_gets(b, &back));
		assert_int_equal(back.icmp.echo_seq, i);
		assert_int_equal(back.payload_len, sizes[i]);
		assert_memory_equal(back.payload, data, sizes[i]);
	}
	bed_free(b);
}

static void sizes_each(const struct names *n)
{
	sizes_at(n, 65520);
	sizes_at(n, 1500);
}

static void test_sizes(void **state)
{
	(void)state;
	both(sizes_each);
}

static void many_each(const struct names *n)
{
	struct bed *b = bed_new(n, 1500, 300);
	bool seen[200] = {false};
	struct packet p;

	for (uint16_t i = 0; i < 200; i++)
		guest_pings(b, n->host, (uint16_t)(1000 + i), i);
	for (int got = 0; got < 200;) {
		turn(b);
		for (; guest_gets(b, &p); got++) {
			assert_int_equal(p.icmp.echo_id, 1000 + p.icmp.echo_seq);
			assert_false(seen[p.icmp.echo_seq]);
			seen[p.icmp.echo_seq] = true;
		}
	}
	bed_free(b);
}

static void test_many(void **state)
{
	(void)state;
	both(many_each);
}

static void timeout_each(const struct names *n)
{
	struct bed *b = bed_new(n, 1500, 2);
	int files = own_net_open_files();

	guest_pings(b, n->host, 1, 1);
	turn(b);
	guest_gets_reply(b, n->host, 1, 1);
	b->now = START + TIMEOUT - 1;
	assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	assert_int_equal(own_net_open_files(), files + 1);
	guest_pings(b, n->host, 1, 2);
	turn(b);
	b->now += TIMEOUT - 1;
	assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	assert_int_equal(own_net_open_files(), files + 1);
	b->now++;
	assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	assert_int_equal(own_net_open_files(), files);
	/* At the limit the least recently used one makes room. */
	for (uint16_t id = 1; id < 10; id++)
		guest_pings(b, n->host, id, 1);
	assert_int_equal(own_net_open_files(), files + 2);
	bed_free(b);
}

static void test_timeout(void **state)
{
	(void)state;
	both(timeout_each);
}

static void marks_each(const struct names *n)
{
	struct bed *b = bed_new(n, 1500, 10);
	struct packet p = request(b, n->host, 1, 1);

	/* The answer has the request's TOS (RFC 1122 3.2.2.6), and lo's own TTL. */
	p.ip.ttl = 1;
	p.ip.tos = 0x88;
	input(b, &p, "data", 4);
	turn(b);
	assert_true(guest_gets(b, &p));
	assert_int_equal(p.icmp.type, n->reply);
	assert_int_equal(p.ip.ttl, 64);
	if (n->family == IP_V4) /* Linux answers IPv6 with traffic class 0 unless told otherwise */
		assert_int_equal(p.ip.tos, 0x88);
	bed_free(b);
}

static void test_marks(void **state)
{
	(void)state;
	both(marks_each);
}

/* The error quotes the guest's own request: addresses, id, sequence number and data. */
static void guest_gets_error(struct bed *b, const char *from, const uint8_t type_code[2],
			     const char *dst, uint16_t id)
{
	struct ip_addr src = ip(from), to = ip(dst), me = ip(b->n->guest);
	size_t addr_len = ip_bytes_len(&me);
	const uint8_t *q;
	struct packet p;

	assert_true(guest_gets(b, &p));
	assert_int_equal(p.kind, PACKET_ICMP);
	assert_memory_equal(p.ip.src.b, src.b, 16);
	assert_int_equal(p.icmp.type, type_code[0]);
	assert_int_equal(p.icmp.code, type_code[1]);
	assert_true(p.payload_len >= b->n->header_len + 12U);
	q = p.payload + b->n->header_len;
	assert_memory_equal(q - 2 * addr_len, ip_bytes(&me), addr_len);
	assert_memory_equal(q - addr_len, ip_bytes(&to), addr_len);
	assert_int_equal(q[0], b->n->request);
	assert_int_equal(q[4] << 8 | q[5], id);
	assert_int_equal(q[6] << 8 | q[7], 7);
}

static const uint8_t net_unreachable[IP_FAMILIES][2] = {{3, 0}, {1, 0}};
static const uint8_t too_big[2] = {3, 4}; /* IPv4: fragmentation needed */

static void unreachable_each(const struct names *n)
{
	struct bed *b = bed_new(n, 1500, 10);

	guest_pings(b, n->unroutable, 3, 7);
	guest_gets_error(b, n->router, net_unreachable[n->family], n->unroutable, 3);
	assert_int_equal(b->counters.dropped[DROP_SOCKET], 1);
	guest_gets_nothing(b);
	bed_free(b);
}

static void test_unreachable(void **state)
{
	(void)state;
	both(unreachable_each);
}

static void too_long_each(const struct names *n)
{
	static const uint8_t data[4000];
	struct bed *b = bed_new(n, 65520, 10);
	struct packet p = request(b, n->host, 3, 7), reply;

	own_net_mtu(1500);
	p.ip.dont_fragment = true;
	p.ip.fragment_id = 1234;
	input(b, &p, data, sizeof(data));
	turn(b);
	assert_true(guest_gets(b, &reply));
	assert_int_equal(reply.icmp.type, n->reply);
	assert_int_equal(reply.payload_len, sizeof(data));
	if (n->family == IP_V4) {
		/* Never to be fragmented. */
		p.ip.fragment_id = 0;
		input(b, &p, data, sizeof(data));
		guest_gets_error(b, n->router, too_big, n->host, 3);
		assert_int_equal(b->frame[14 + 20 + 6] << 8 | b->frame[14 + 20 + 7], 1500);
	}
	guest_gets_nothing(b);
	own_net_mtu(65536);
	bed_free(b);
}

static void test_too_long(void **state)
{
	(void)state;
	both(too_long_each);
}

static void refuse(struct bed *b, struct packet *p, enum drop_reason why)
{
	int files = own_net_open_files();

	input(b, p, "data", 4);
	assert_int_equal(b->counters.dropped[why], 1);
	assert_int_equal(own_net_open_files(), files);
	guest_gets_nothing(b);
}

static void refuse_each(const struct names *n)
{
	struct bed *b = bed_new(n, 1500, 10);
	struct packet p = request(b, n->host, 1, 1);

	p.icmp.type = n->reply;
	refuse(b, &p, DROP_ICMP_TYPE);
	p = request(b, n->host, 1, 1);
	p.ip.ttl = 0;
	refuse(b, &p, DROP_IP_HEADER);
	p = request(b, n->host, 1, 1);
	p.ip.src = ip_any[n->family];
	refuse(b, &p, DROP_SOURCE);
	p = request(b, n->host, 1, 1);
	b->nat.family[n->family].on = false;
	refuse(b, &p, DROP_FAMILY_OFF);
	bed_free(b);
}

static void test_refuse(void **state)
{
	(void)state;
	both(refuse_each);
}

/* Not permitted: one warning, whatever the number of requests and families; nothing else happens.
 */
static void test_not_permitted(void **state)
{
	struct bed *b = bed_new(&names[IP_V4], 1500, 10);
	char text[1024];
	int saved = dup(STDERR_FILENO), ends[2];
	ssize_t len;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	for (int f = 0; f < IP_FAMILIES; f++) {
		b->n = &names[f];
		for (uint16_t id = 0; id < 10; id++)
			guest_pings(b, names[f].host, id, 1);
	}
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	close(ends[1]);
	len = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	assert_true(len > 0);
	text[len] = '\0';
	assert_non_null(strstr(text, "net.ipv4.ping_group_range"));
	assert_ptr_equal(strchr(text, '\n'), text + len - 1);
	assert_int_equal(b->counters.dropped[DROP_NO_SOCKET], 20);
	netns_write("/proc/sys/net/ipv4/ping_group_range", "0 0");
	guest_pings(b, names[IP_V6].host, 1, 1);
	turn(b);
	guest_gets_reply(b, names[IP_V6].host, 1, 1);
	bed_free(b);
}

static int enter(void **state)
{
	(void)state;
	own_net_enter();
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct ip_addr other = ip(names[f].other);

		own_net_add(&other);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_not_permitted), cmocka_unit_test(test_echo),
	    cmocka_unit_test(test_sizes),         cmocka_unit_test(test_many),
	    cmocka_unit_test(test_timeout),       cmocka_unit_test(test_marks),
	    cmocka_unit_test(test_unreachable),   cmocka_unit_test(test_too_long),
	    cmocka_unit_test(test_refuse),
	};

	return cmocka_run_group_tests(tests, enter, NULL);
}
