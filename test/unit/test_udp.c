/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP over a link in memory, against sockets on the loopback of a network namespace of the test's
 * own: the guest's name for it is the gateway's address. Every test runs for both families. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <netinet/udp.h>
#include <stdlib.h>

#include "tap/reassembly.h"
#include "test/unit/own_net.h"
#include "udp/udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define ONE_WAY   (30 * USEC_SEC)
#define BOTH_WAYS (180 * USEC_SEC)
#define START     (1000 * USEC_SEC)
#define BIG       65507

/* Names of one family. */
struct names {
	enum ip_family family;
	const char *guest, *host, *loopback, *other, *unroutable, *dns, *group;
};

static const struct names names[IP_FAMILIES] = {
    {IP_V4, "192.0.2.2", "192.0.2.1", "127.0.0.1", "198.51.100.9", "203.0.113.1", "192.0.2.53",
     "239.1.2.3"},
    {IP_V6, "2001:db8::2", "2001:db8::1", "::1", "2001:db8::9", "2001:db8:1::1", "2001:db8::53",
     "ff02::123"},
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
	struct udp *udp;
	usec_t now;
	int files;
	uint8_t frame[FRAME_MAX + 128];
};

struct bed_options {
	size_t mtu;
	bool udp_gso;
	unsigned flows_max;
};

static struct ip_addr ip(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_parse(text, &a), 0);
	return a;
}

static struct bed *bed_new(const struct names *n, const struct bed_options *o)
{
	struct bed *b = calloc(1, sizeof(*b));
	struct tap_features features = {.csum = true, .tcp_gso = true, .udp_gso = o->udp_gso};
	struct tap_config tap = {.mtu = o->mtu ? o->mtu : 65520, .guest_mac = {{2, 0, 0, 0, 0, 2}}};
	struct udp_config udp = {.flows_max = o->flows_max ? o->flows_max : 100,
				 .timeout_one_way = ONE_WAY,
				 .timeout_both_ways = BOTH_WAYS};

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
						       .dns_forward = ip(names[f].dns),
						       .dns_host = ip(names[f].loopback),
						       .outbound = ip_any[f],
						       .template_index = 1};
	}
	nat_guest_init(&b->guest, &b->nat);
	assert_int_equal(loop_new(&b->loop), 0);
	assert_int_equal(mem_link_new(&features, &b->link), 0);
	assert_int_equal(tap_new(b->link, &tap, &b->counters, &b->tap), 0);
	assert_int_equal(reassembly_new(b->loop, &b->counters, &b->reassembly), 0);
	assert_int_equal(udp_new(b->loop, b->tap, &b->nat, &b->guest, &udp, &b->udp), 0);
	return b;
}

/* Ends the bed; with it every descriptor and timer must go. */
static void bed_free(struct bed *b)
{
	int files = b->files;

	udp_free(b->udp);
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

static struct packet datagram(const struct bed *b, uint16_t src_port, const char *dst,
			      uint16_t dst_port)
{
	struct packet p = {
	    .kind = PACKET_UDP,
	    .ip = {.src = ip(b->n->guest), .dst = ip(dst), .proto = IPPROTO_UDP, .ttl = 64}};

	p.udp = (struct udp_header){.src_port = src_port, .dst_port = dst_port};
	return p;
}

static void input(struct bed *b, struct packet *p, const void *data, size_t len)
{
	p->payload = data;
	p->payload_len = len;
	udp_input(b->udp, p, b->now);
}

/* The guest sends one datagram from src_port. */
static void guest_sends(struct bed *b, uint16_t src_port, const char *dst, uint16_t dst_port,
			const char *text)
{
	struct packet p = datagram(b, src_port, dst, dst_port);

	input(b, &p, text, strlen(text));
	udp_flush(b->udp, b->now);
}

/* The next packet to the guest, fragments put together; false if there is none. */
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

/* As guest_gets(), which must be a datagram with these ports and this text. */
static void guest_gets_text(struct bed *b, const char *from, uint16_t from_port, uint16_t port,
			    const char *text)
{
	struct ip_addr src = ip(from);
	struct packet p;

	assert_true(guest_gets(b, &p));
	assert_int_equal(p.kind, PACKET_UDP);
	assert_memory_equal(p.ip.src.b, src.b, 16);
	assert_int_equal(p.udp.src_port, from_port);
	assert_int_equal(p.udp.dst_port, port);
	assert_int_equal(p.payload_len, strlen(text));
	assert_memory_equal(p.payload, text, p.payload_len);
}

static void guest_gets_nothing(struct bed *b)
{
	struct packet p;

	assert_false(guest_gets(b, &p));
}

/* A service on the host; port 0: any. Receives with a bound on time, and takes segments together.
 */
static int service(const char *addr, uint16_t port)
{
	struct endpoint e = {.addr = ip(addr), .port = port};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&e, 1, &sa);
	int fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
	struct timeval two = {.tv_sec = 2};

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &two, sizeof(two)), 0);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)), 0);
	if (sa.ss_family == AF_INET6)
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof(on)), 0);
	if (sa.ss_family == AF_INET6) {
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof(on)),
				 0);
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on)), 0);
	}
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	return fd;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct endpoint e;

	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	assert_int_equal(endpoint_from_sockaddr(&sa, &e), 0);
	return e.port;
}

/* What a service received. */
struct got {
	struct sockaddr_storage address; /* of the sender, and */
	struct endpoint from;            /* the same in plain */
	ssize_t len;
	int segment, ttl, tos;
	uint8_t data[65536];
};

static struct got got;

static void receive(int fd)
{
	union {
		char room[128];
		struct cmsghdr align;
	} control;
	struct iovec iov = {got.data, sizeof(got.data)};
	struct msghdr m = {.msg_name = &got.address,
			   .msg_namelen = sizeof(got.address),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};

	got.segment = 0;
	got.ttl = got.tos = -1;
	got.len = recvmsg(fd, &m, 0);
	assert_true(got.len >= 0);
	assert_int_equal(endpoint_from_sockaddr(&got.address, &got.from), 0);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		int value = *CMSG_DATA(c);

		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			memcpy(&got.segment, CMSG_DATA(c), sizeof(int));
		else if (c->cmsg_type == IP_TTL || c->cmsg_type == IPV6_HOPLIMIT)
			got.ttl = value;
		else if (c->cmsg_type == IP_TOS || c->cmsg_type == IPV6_TCLASS)
			got.tos = value;
	}
}

static void receive_text(int fd, const char *text)
{
	receive(fd);
	assert_int_equal(got.len, strlen(text));
	assert_memory_equal(got.data, text, strlen(text));
}

/* Sends to where the latest datagram came from. */
static void reply(int fd, const void *data, size_t len)
{
	assert_int_equal(
	    sendto(fd, data, len, 0, (struct sockaddr *)&got.address, sizeof(got.address)), len);
}

/* One more of the guest's datagrams to the service at port, and back. */
static void round_trip(struct bed *b, int fd, uint16_t src_port, const char *dst)
{
	guest_sends(b, src_port, dst, port_of(fd), "ping");
	receive_text(fd, "ping");
	reply(fd, "pong", 4);
	turn(b);
	guest_gets_text(b, dst, port_of(fd), src_port, "pong");
}

static void both(void (*test)(const struct names *n))
{
	for (int f = 0; f < IP_FAMILIES; f++)
		test(&names[f]);
}

static void sizes_at(const struct names *n, size_t mtu)
{
	static const size_t sizes[] = {0, 1, 64, 1400, 1472, 1473, 8192, 32768, BIG};
	static uint8_t data[BIG];
	struct bed *b = bed_new(n, &(struct bed_options){.mtu = mtu, .udp_gso = true});
	int fd = service(n->loopback, 0);
	struct packet p = datagram(b, 4000, n->host, port_of(fd));

	for (size_t i = 0; i < BIG; i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct packet back;

		input(b, &p, data, sizes[i]);
		udp_flush(b->udp, b->now);
		receive(fd);
		assert_int_equal(got.len, sizes[i]);
		assert_memory_equal(got.data, data, sizes[i]);
		reply(fd, data, sizes[i]);
		turn(b);
		assert_true(guest_gets(b, &back));
		assert_int_equal(back.kind, PACKET_UDP);
		assert_int_equal(back.payload_len, sizes[i]);
		assert_memory_equal(back.payload, data, sizes[i]);
	}
	assert_int_equal(udp_flow_count(b->udp), 1);
	close(fd);
	bed_free(b);
}

static void sizes_each(const struct names *n)
{
	sizes_at(n, 65520);
	sizes_at(n, 1500);
	sizes_at(n, 65535);
}

static void test_sizes(void **state)
{
	(void)state;
	both(sizes_each);
}

/* Equal datagrams go out as one message, a shorter one with them as the last, a longer one begins
 * the next. */
static void batch_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0);
	static const size_t sizes[] = {100, 100, 100, 50, 200, 200, 0, 200};
	static uint8_t data[16][200];
	struct packet p = datagram(b, 4000, n->host, port_of(fd));

	for (size_t i = 0; i < 8; i++) {
		memset(data[i], (int)i, sizeof(data[i]));
		input(b, &p, data[i], sizes[i]);
	}
	udp_flush(b->udp, b->now);
	receive(fd);
	assert_int_equal(got.len, 350);
	assert_int_equal(got.segment, 100);
	assert_int_equal(got.data[0], 0);
	assert_int_equal(got.data[349], 3);
	receive(fd);
	assert_int_equal(got.len, 400);
	assert_int_equal(got.segment, 200);
	receive(fd);
	assert_int_equal(got.len, 0);
	receive(fd);
	assert_int_equal(got.len, 200);
	assert_int_equal(got.data[0], 7);
	close(fd);
	bed_free(b);
}

static void test_batch(void **state)
{
	(void)state;
	both(batch_each);
}

/* More datagrams than a batch holds, of two flows in turns: all arrive, in order. */
static void many_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd[2] = {service(n->loopback, 0), service(n->other, 0)};
	static uint8_t data[150][10];
	const char *to[2] = {n->host, n->other};

	for (int i = 0; i < 150; i++) {
		struct packet p = datagram(b, 4000, to[i % 2], port_of(fd[i % 2]));

		data[i][0] = (uint8_t)i;
		input(b, &p, data[i], sizeof(data[i]));
	}
	udp_flush(b->udp, b->now);
	for (int k = 0; k < 2; k++) {
		int next = k;

		while (next < 150) {
			receive(fd[k]);
			for (ssize_t at = 0; at < got.len; at += 10, next += 2)
				assert_int_equal(got.data[at], next);
		}
		close(fd[k]);
	}
	assert_int_equal(udp_flow_count(b->udp), 2);
	bed_free(b);
}

static void test_many(void **state)
{
	(void)state;
	both(many_each);
}

/* A super-frame of the guest is sent with its segment size; above the path's MTU it is sent
 * datagram by datagram. */
static void super_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0);
	static uint8_t data[5000];
	struct packet p = datagram(b, 4000, n->host, port_of(fd));

	p.gso = GSO_UDP;
	p.gso_size = 2000;
	input(b, &p, data, sizeof(data));
	udp_flush(b->udp, b->now);
	receive(fd);
	assert_int_equal(got.len, 5000);
	assert_int_equal(got.segment, 2000);
	own_net_mtu(1500);
	input(b, &p, data, sizeof(data));
	udp_flush(b->udp, b->now);
	for (int i = 0; i < 3; i++) {
		receive(fd);
		assert_int_equal(got.len, i < 2 ? 2000 : 1000);
	}
	own_net_mtu(65536);
	close(fd);
	bed_free(b);
}

static void test_super(void **state)
{
	(void)state;
	both(super_each);
}

static void send_segments(int fd, size_t len, uint16_t segment)
{
	static uint8_t data[65000];
	int size = segment, off = 0;

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i / segment);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)), 0);
	assert_int_equal(
	    sendto(fd, data, len, 0, (struct sockaddr *)&got.address, sizeof(got.address)), len);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &off, sizeof(off)), 0);
}

/* What comes together goes to the guest as one super-frame, and equal ones read in a row as well.
 */
static void merge_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.mtu = 1500, .udp_gso = true});
	size_t headers = n->family == IP_V4 ? 42 : 62;
	int fd = service(n->loopback, 0);
	struct offload off;
	struct packet p;

	guest_sends(b, 4000, n->host, port_of(fd), "go");
	receive_text(fd, "go");
	send_segments(fd, 1050, 500);
	turn(b);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 1050);
	assert_int_equal(off.gso, GSO_UDP);
	assert_int_equal(off.gso_size, 500);
	assert_int_equal(off.header_len, headers);
	assert_true(off.csum_partial);
	assert_int_equal(off.csum_start, headers - 8);
	for (int i = 0; i < 3; i++)
		reply(fd, "0123456789", i < 2 ? 10 : 4);
	reply(fd, "0123456789", 10);
	turn(b);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 24);
	assert_int_equal(off.gso_size, 10);
	assert_true(guest_gets(b, &p));
	assert_int_equal(p.payload_len, 10);
	guest_gets_nothing(b);
	/* 100 segments are more than a super-frame may have, and longer than the MTU they are cut.
	 */
	send_segments(fd, 64 * 20, 20);
	send_segments(fd, 36 * 20, 20);
	turn(b);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 1280);
	assert_int_equal(mem_link_fetch(b->link, b->frame, sizeof(b->frame), &off), headers + 720);
	send_segments(fd, 4000, 2000);
	turn(b);
	for (int i = 0; i < 2; i++) {
		assert_true(guest_gets(b, &p));
		assert_int_equal(p.payload_len, 2000);
		assert_int_equal(p.payload[1999], i);
	}
	close(fd);
	bed_free(b);
}

static void test_merge(void **state)
{
	(void)state;
	both(merge_each);
}

/* A link without super-frames gets every datagram alone. */
static void plain_link_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.mtu = 1500});
	int fd = service(n->loopback, 0);
	struct packet p;

	guest_sends(b, 4000, n->host, port_of(fd), "go");
	receive_text(fd, "go");
	send_segments(fd, 64 * 300, 300);
	send_segments(fd, 50 * 300 + 7, 300);
	turn(b);
	for (int i = 0; i < 115; i++) {
		assert_true(guest_gets(b, &p));
		assert_int_equal(p.payload_len, i < 114 ? 300 : 7);
		assert_int_equal(p.payload[0], i < 64 ? i : i - 64);
	}
	guest_gets_nothing(b);
	close(fd);
	bed_free(b);
}

static void test_plain_link(void **state)
{
	(void)state;
	both(plain_link_each);
}

/* The guest's port is kept if it is free, and never taken from a service of the host. */
static void port_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0), taken = service(n->loopback, 4001);

	round_trip(b, fd, 4000, n->host);
	assert_int_equal(got.from.port, 4000);
	round_trip(b, fd, 4001, n->host);
	assert_int_not_equal(got.from.port, 4001);
	close(fd);
	close(taken);
	bed_free(b);
}

static void test_port(void **state)
{
	(void)state;
	both(port_each);
}

/* One socket whatever the guest's endpoint talks to: the peers see one port. */
static void mapping_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd[2] = {service(n->loopback, 0), service(n->other, 0)},
	    taken = service(n->loopback, 4001);
	uint16_t first;

	round_trip(b, fd[0], 4001, n->host);
	first = got.from.port;
	round_trip(b, fd[1], 4001, n->other);
	assert_int_equal(got.from.port, first);
	close(fd[0]);
	close(fd[1]);
	close(taken);
	bed_free(b);
}

static void test_mapping(void **state)
{
	(void)state;
	both(mapping_each);
}

static void expect_flows(struct bed *b, usec_t at, size_t count)
{
	b->now = at;
	assert_int_equal(loop_turn(b->loop, at, 0), 0);
	assert_int_equal(udp_flow_count(b->udp), count);
}

static void timeout_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0), dns = service(n->loopback, 53),
	    files = own_net_open_files();

	guest_sends(b, 4000, n->host, port_of(fd), "one way");
	receive_text(fd, "one way");
	expect_flows(b, START + ONE_WAY - 1, 1);
	guest_sends(b, 4000, n->host, port_of(fd), "again");
	receive_text(fd, "again");
	expect_flows(b, START + 2 * ONE_WAY - 2, 1);
	expect_flows(b, START + 2 * ONE_WAY - 1, 0);
	assert_int_equal(own_net_open_files(), files);

	b->now = START;
	round_trip(b, fd, 4000, n->host);
	expect_flows(b, START + BOTH_WAYS - 1, 1);
	round_trip(b, fd, 4000, n->host);
	expect_flows(b, START + 2 * BOTH_WAYS - 2, 1);
	expect_flows(b, START + 2 * BOTH_WAYS - 1, 0);

	/* A question and its answer at a well-known port: the short time; more of them: the long
	 * one. */
	b->now = START;
	round_trip(b, dns, 4000, n->host);
	expect_flows(b, START + ONE_WAY - 1, 1);
	expect_flows(b, START + ONE_WAY, 0);
	b->now = START;
	round_trip(b, dns, 4000, n->host);
	round_trip(b, dns, 4000, n->host);
	expect_flows(b, START + BOTH_WAYS - 1, 1);
	expect_flows(b, START + BOTH_WAYS, 0);
	assert_int_equal(own_net_open_files(), files);
	close(fd);
	close(dns);
	bed_free(b);
}

static void test_timeout(void **state)
{
	(void)state;
	both(timeout_each);
}

/* The answer of the resolver comes from the name that the guest asked, whatever else it calls the
 * same host. */
static void dns_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int dns = service(n->loopback, 53), fd = service(n->loopback, 0);

	round_trip(b, dns, 4000, n->dns);
	round_trip(b, fd, 4000, n->host);
	round_trip(b, dns, 4000, n->dns);
	assert_int_equal(udp_flow_count(b->udp), 2);
	close(dns);
	close(fd);
	bed_free(b);
}

static void test_dns(void **state)
{
	(void)state;
	both(dns_each);
}

/* Asserts an ICMP error that quotes a datagram of the guest. */
static void guest_gets_error(struct bed *b, const char *from, const uint8_t type_code[2],
			     const char *dst, const char *text)
{
	struct ip_addr src = ip(from), to = ip(dst), me = ip(b->n->guest);
	size_t ip_len = b->n->family == IP_V4 ? 20 : 40;
	const uint8_t *q;
	struct packet p;

	assert_true(guest_gets(b, &p));
	assert_int_equal(p.kind, PACKET_ICMP);
	assert_memory_equal(p.ip.src.b, src.b, 16);
	assert_memory_equal(p.ip.dst.b, me.b, 16);
	assert_int_equal(p.icmp.type, type_code[0]);
	assert_int_equal(p.icmp.code, type_code[1]);
	assert_true(p.payload_len >= ip_len + 8 + strlen(text));
	q = p.payload;
	assert_memory_equal(q + ip_len - 2 * ip_bytes_len(&me), ip_bytes(&me), ip_bytes_len(&me));
	assert_memory_equal(q + ip_len - ip_bytes_len(&me), ip_bytes(&to), ip_bytes_len(&to));
	assert_int_equal(q[ip_len] << 8 | q[ip_len + 1], 4000);
	assert_memory_equal(q + ip_len + 8, text, strlen(text));
}

static const uint8_t port_unreachable[IP_FAMILIES][2] = {{3, 3}, {1, 4}};
static const uint8_t net_unreachable[IP_FAMILIES][2] = {{3, 0}, {1, 0}};
static const uint8_t too_big[2] = {3, 4}; /* IPv4: fragmentation needed */

static void refused_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0);

	guest_sends(b, 4000, n->host, 9, "nobody there");
	turn(b);
	guest_gets_error(b, n->host, port_unreachable[n->family], n->host, "nobody there");
	/* The error waits in the socket when the next datagram is sent: neither is lost. */
	guest_sends(b, 4000, n->host, 9, "nor there");
	guest_sends(b, 4000, n->host, port_of(fd), "hello");
	receive_text(fd, "hello");
	guest_gets_error(b, n->host, port_unreachable[n->family], n->host, "nor there");
	/* Nothing is left that would wake us. */
	assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	guest_gets_nothing(b);
	/* To its own port on the host, which is this very socket: refused, not heard by itself. */
	guest_sends(b, 4000, n->host, 4000, "myself");
	guest_gets_error(b, n->host, port_unreachable[n->family], n->host, "myself");
	assert_int_equal(b->counters.dropped[DROP_SOCKET], 1);
	close(fd);
	bed_free(b);
}

static void test_refused(void **state)
{
	(void)state;
	both(refused_each);
}

static void unreachable_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});

	guest_sends(b, 4000, n->unroutable, 9, "lost");
	guest_gets_error(b, n->family == IP_V4 ? n->host : "fe80::1", net_unreachable[n->family],
			 n->unroutable, "lost");
	assert_int_equal(b->counters.dropped[DROP_SOCKET], 1);
	/* However much the guest sends, only so many errors come back. */
	for (int i = 0; i < 1000; i++)
		guest_sends(b, 4000, n->unroutable, 9, "lost");
	for (int i = 1; i < 100; i++)
		guest_gets_error(b, n->family == IP_V4 ? n->host : "fe80::1",
				 net_unreachable[n->family], n->unroutable, "lost");
	guest_gets_nothing(b);
	b->now += USEC_SEC;
	guest_sends(b, 4000, n->unroutable, 9, "lost");
	guest_gets_error(b, n->family == IP_V4 ? n->host : "fe80::1", net_unreachable[n->family],
			 n->unroutable, "lost");
	bed_free(b);
}

static void test_unreachable(void **state)
{
	(void)state;
	both(unreachable_each);
}

/* Too long for the path: fragmented in the guest's place; one that says it may never be brings the
 * MTU back. */
static void too_long_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0);
	static const uint8_t data[4000];
	struct packet p = datagram(b, 4000, n->host, port_of(fd));
	const uint8_t *mtu = b->frame + ETH_HEADER_LEN + 20 + 4;

	own_net_mtu(1500);
	for (int i = 0; i < 3; i++) {
		p.ip.dont_fragment = i < 2;
		p.ip.fragment_id = 1234;
		input(b, &p, data, sizeof(data) - (size_t)i);
		input(b, &p, data, sizeof(data) - (size_t)i);
		udp_flush(b->udp, b->now);
		for (int k = 0; k < 2; k++) {
			receive(fd);
			assert_int_equal(got.len, sizeof(data) - (size_t)i);
		}
	}
	guest_gets_nothing(b);
	if (n->family == IP_V4) {
		p.ip.dont_fragment = true;
		p.ip.fragment_id = 0;
		input(b, &p, data, sizeof(data));
		input(b, &p, data, sizeof(data));
		input(b, &p, data, 1472);
		udp_flush(b->udp, b->now);
		for (int k = 0; k < 2; k++) {
			guest_gets_error(b, n->host, too_big, n->host, "");
			assert_int_equal(mtu[0] << 24 | mtu[1] << 16 | mtu[2] << 8 | mtu[3], 1500);
		}
		guest_gets_nothing(b);
		receive(fd);
		assert_int_equal(got.len, 1472);
		assert_int_equal(b->counters.dropped[DROP_SOCKET], 2);
	}
	own_net_mtu(65536);
	close(fd);
	bed_free(b);
}

static void test_too_long(void **state)
{
	(void)state;
	both(too_long_each);
}

/* Whom the guest contacted may answer from any port, nobody else at all. */
static void filter_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service(n->loopback, 0), same = service(n->loopback, 0),
	    stranger = service(n->other, 0);

	guest_sends(b, 4000, n->host, port_of(fd), "read file");
	receive_text(fd, "read file");
	reply(same, "data", 4);
	turn(b);
	guest_gets_text(b, n->host, port_of(same), 4000, "data");
	reply(stranger, "let me in", 9);
	turn(b);
	guest_gets_nothing(b);
	assert_int_equal(b->counters.dropped[DROP_STRANGER], 1);
	close(fd);
	close(same);
	close(stranger);
	bed_free(b);
}

static void test_filter(void **state)
{
	(void)state;
	both(filter_each);
}

static void marks_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	bool v4 = n->family == IP_V4;
	int fd = service(n->loopback, 0), ttl = 33, tos = 0x2e << 2 | 2;
	struct packet p = datagram(b, 4000, n->host, port_of(fd));

	p.ip.ttl = 7;
	p.ip.tos = 0xb9;
	input(b, &p, "a", 1);
	p.ip.ttl = 8;
	input(b, &p, "b", 1);
	udp_flush(b->udp, b->now);
	receive_text(fd, "a");
	assert_int_equal(got.ttl, 7);
	assert_int_equal(got.tos, 0xb9);
	receive_text(fd, "b");
	assert_int_equal(got.ttl, 8);
	assert_int_equal(setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
				    v4 ? IP_TTL : IPV6_UNICAST_HOPS, &ttl, sizeof(ttl)),
			 0);
	assert_int_equal(setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS,
				    &tos, sizeof(tos)),
			 0);
	reply(fd, "c", 1);
	turn(b);
	assert_true(guest_gets(b, &p));
	assert_int_equal(p.ip.ttl, 33);
	assert_int_equal(p.ip.tos, tos);
	close(fd);
	bed_free(b);
}

static void test_marks(void **state)
{
	(void)state;
	both(marks_each);
}

/* At the limit the flow that waits longest for an answer makes room; those with traffic both ways
 * stay. */
static void limit_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.flows_max = 3});
	int fd = service(n->loopback, 0);

	round_trip(b, fd, 4000, n->host);
	for (uint16_t port = 4001; port < 4010; port++) {
		guest_sends(b, port, n->host, port_of(fd), "one way");
		receive_text(fd, "one way");
	}
	assert_int_equal(udp_flow_count(b->udp), 3);
	round_trip(b, fd, 4000, n->host);
	round_trip(b, fd, 4008, n->host);
	round_trip(b, fd, 4009, n->host);
	guest_sends(b, 4010, n->host, port_of(fd), "no room");
	assert_int_equal(udp_flow_count(b->udp), 3);
	assert_int_equal(b->counters.dropped[DROP_FLOW_LIMIT], 1);
	close(fd);
	bed_free(b);
}

static void test_limit(void **state)
{
	(void)state;
	both(limit_each);
}

/* A flow that has to make room in the middle of a batch loses nothing of what it collected. */
static void limit_in_batch_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.flows_max = 1});
	int fd = service(n->loopback, 0);

	for (uint16_t i = 0; i < 3; i++) {
		struct packet p = datagram(b, (uint16_t)(4000 + i), n->host, port_of(fd));

		input(b, &p, "text", i + 1U);
	}
	udp_flush(b->udp, b->now);
	for (int i = 0; i < 3; i++) {
		receive(fd);
		assert_int_equal(got.len, i + 1);
	}
	assert_int_equal(udp_flow_count(b->udp), 1);
	close(fd);
	bed_free(b);
}

static void test_limit_in_batch(void **state)
{
	(void)state;
	both(limit_in_batch_each);
}

/* Who sends to a group hears from anybody. */
static void multicast_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	bool v4 = n->family == IP_V4;
	int fd = service(v4 ? "0.0.0.0" : "::", 4100), member = service(n->other, 0);
	static int index; /* the second family has the same device */
	struct ip_addr group = ip(n->group);
	struct packet p = datagram(b, 4000, n->group, 4100);

	if (!index)
		index = own_net_add_pair();
	b->nat.family[n->family].template_index = (unsigned)index;
	if (v4) {
		struct ip_mreqn m = {.imr_ifindex = index};

		memcpy(&m.imr_multiaddr, group.b + 12, 4);
		assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m)), 0);
	} else {
		struct ipv6_mreq m = {.ipv6mr_interface = (unsigned)index};

		memcpy(&m.ipv6mr_multiaddr, group.b, 16);
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m, sizeof(m)), 0);
	}
	p.ip.ttl = 3;
	input(b, &p, "who is there", 12);
	udp_flush(b->udp, b->now);
	receive_text(fd, "who is there");
	assert_int_equal(got.ttl, 3);
	reply(member, "I am", 4);
	turn(b);
	guest_gets_text(b, n->other, port_of(member), 4000, "I am");
	close(fd);
	close(member);
	bed_free(b);
}

static void test_multicast(void **state)
{
	(void)state;
	both(multicast_each);
}

/* A directed broadcast is recognized by the host's routes. */
static void test_broadcast(void **state)
{
	const struct names *n = &names[IP_V4];
	struct bed *b = bed_new(n, &(struct bed_options){0});
	int fd = service("0.0.0.0", 4100);

	(void)state;
	for (int i = 0; i < 2; i++) {
		guest_sends(b, 4000, "127.255.255.255", 4100, "who is there");
		receive_text(fd, "who is there");
	}
	reply(fd, "I am", 4);
	turn(b);
	guest_gets_text(b, n->host, 4100, 4000, "I am");
	assert_int_equal(b->counters.dropped[DROP_SOCKET], 0);
	/* Other destinations go on. */
	round_trip(b, fd, 4000, n->host);
	close(fd);
	bed_free(b);
}

static void refuse(struct bed *b, struct packet *p, enum drop_reason why)
{
	uint64_t before = b->counters.dropped[why];

	input(b, p, "x", 1);
	udp_flush(b->udp, b->now);
	assert_int_equal(b->counters.dropped[why], before + 1);
	assert_int_equal(udp_flow_count(b->udp), 0);
}

static void refuse_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	struct packet p = datagram(b, 0, n->host, 9);

	refuse(b, &p, DROP_L4_HEADER);
	p = datagram(b, 4000, n->host, 9);
	p.ip.src = ip_any[n->family];
	refuse(b, &p, DROP_SOURCE);
	p = datagram(b, 4000, n->host, 9);
	p.ip.ttl = 0;
	refuse(b, &p, DROP_IP_HEADER);
	p = datagram(b, 4000, n->host, 9);
	b->nat.family[n->family].on = false;
	refuse(b, &p, DROP_FAMILY_OFF);
	bed_free(b);
}

static void test_refuse(void **state)
{
	(void)state;
	both(refuse_each);
}

/* Outbound address: for all but the host's own loopback. */
static void outbound_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){0});
	struct ip_addr other = ip(n->other);
	int fd = service(n->loopback, 0), out = service(n->other, 0);

	b->nat.family[n->family].outbound = other;
	round_trip(b, out, 4000, n->other);
	assert_memory_equal(got.from.addr.b, other.b, 16);
	assert_int_equal(got.from.port, 4000);
	round_trip(b, fd, 4000, n->host);
	assert_memory_equal(got.from.addr.b, ip_loopback[n->family].b, 16);
	close(fd);
	close(out);
	bed_free(b);
}

static void test_outbound(void **state)
{
	(void)state;
	both(outbound_each);
}

static void full_link_each(const struct names *n)
{
	struct bed *b = bed_new(n, &(struct bed_options){.udp_gso = true});
	int fd = service(n->loopback, 0);

	guest_sends(b, 4000, n->host, port_of(fd), "go");
	receive_text(fd, "go");
	mem_link_set_room(b->link, 0);
	reply(fd, "lost", 4);
	turn(b);
	assert_int_equal(b->counters.dropped[DROP_LINK_FULL], 1);
	mem_link_set_room(b->link, UINT_MAX);
	reply(fd, "here", 4);
	turn(b);
	guest_gets_text(b, n->host, port_of(fd), 4000, "here");
	close(fd);
	bed_free(b);
}

static void test_full_link(void **state)
{
	(void)state;
	both(full_link_each);
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
	    cmocka_unit_test(test_sizes),          cmocka_unit_test(test_batch),
	    cmocka_unit_test(test_many),           cmocka_unit_test(test_super),
	    cmocka_unit_test(test_merge),          cmocka_unit_test(test_plain_link),
	    cmocka_unit_test(test_port),           cmocka_unit_test(test_mapping),
	    cmocka_unit_test(test_timeout),        cmocka_unit_test(test_dns),
	    cmocka_unit_test(test_refused),        cmocka_unit_test(test_unreachable),
	    cmocka_unit_test(test_too_long),       cmocka_unit_test(test_filter),
	    cmocka_unit_test(test_marks),          cmocka_unit_test(test_limit),
	    cmocka_unit_test(test_limit_in_batch), cmocka_unit_test(test_multicast),
	    cmocka_unit_test(test_broadcast),      cmocka_unit_test(test_refuse),
	    cmocka_unit_test(test_outbound),       cmocka_unit_test(test_full_link),
	};

	return cmocka_run_group_tests(tests, enter, NULL);
}
