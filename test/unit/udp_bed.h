/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of udp/ share: the room over a link in memory, against sockets on the loopback of
 * a network namespace of the test's own; the guest's name for it is the gateway's address. Every
 * test runs for both families. */
#ifndef TEST_UNIT_UDP_BED_H
#define TEST_UNIT_UDP_BED_H

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
	unsigned flows_max, sockets_max;
	struct side_sockets *sides;
};

static inline struct ip_addr ip(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_parse(text, &a), 0);
	return a;
}

static inline struct bed *bed_new(const struct names *n, const struct bed_options *o)
{
	struct bed *b = calloc(1, sizeof(*b));
	struct tap_features features = {.csum = true, .tcp_gso = true, .udp_gso = o->udp_gso};
	struct tap_config tap = {.mtu = o->mtu ? o->mtu : 65520, .guest_mac = {{2, 0, 0, 0, 0, 2}}};
	struct udp_config udp = {.flows_max = o->flows_max ? o->flows_max : 100,
				 .sockets_max = o->sockets_max ? o->sockets_max : 100,
				 .timeout_one_way = ONE_WAY,
				 .timeout_both_ways = BOTH_WAYS,
				 .guest = &b->guest,
				 .sides = o->sides};

	assert_non_null(b);
	b->n = n;
	b->now = START;
	b->files = own_net_open_files();
	b->nat.our_link_local = ip("fe80::1");
	b->nat.splice_on = o->sides;
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
	assert_int_equal(udp_new(b->loop, b->tap, &b->nat, &udp, &b->udp), 0);
	return b;
}

/* Ends the bed; with it every descriptor and timer must go. */
static inline void bed_free(struct bed *b)
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

static inline void turn(struct bed *b)
{
	assert_int_equal(loop_turn(b->loop, b->now, 2000), 0);
}

static inline struct packet datagram(const struct bed *b, uint16_t src_port, const char *dst,
				     uint16_t dst_port)
{
	struct packet p = {
	    .kind = PACKET_UDP,
	    .ip = {.src = ip(b->n->guest), .dst = ip(dst), .proto = IPPROTO_UDP, .ttl = 64}};

	p.udp = (struct udp_header){.src_port = src_port, .dst_port = dst_port};
	return p;
}

static inline void input(struct bed *b, struct packet *p, const void *data, size_t len)
{
	p->payload = data;
	p->payload_len = len;
	udp_input(b->udp, p, b->now);
}

/* The guest sends one datagram from src_port. */
static inline void guest_sends(struct bed *b, uint16_t src_port, const char *dst, uint16_t dst_port,
			       const char *text)
{
	struct packet p = datagram(b, src_port, dst, dst_port);

	input(b, &p, text, strlen(text));
	udp_flush(b->udp, b->now);
}

/* The next packet to the guest, fragments put together; false if there is none. */
static inline bool guest_gets(struct bed *b, struct packet *p)
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
static inline void guest_gets_text(struct bed *b, const char *from, uint16_t from_port,
				   uint16_t port, const char *text)
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

static inline void guest_gets_nothing(struct bed *b)
{
	struct packet p;

	assert_false(guest_gets(b, &p));
}

/* A service on the host; port 0: any. Receives with a bound on time, and takes segments together.
 */
static inline int service(const char *addr, uint16_t port)
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

static inline uint16_t port_of(int fd)
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

static struct got got; /* the latest */

static inline void receive(int fd)
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

static inline void receive_text(int fd, const char *text)
{
	receive(fd);
	assert_int_equal(got.len, strlen(text));
	assert_memory_equal(got.data, text, strlen(text));
}

/* Sends to where the latest datagram came from. */
static inline void reply(int fd, const void *data, size_t len)
{
	assert_int_equal(
	    sendto(fd, data, len, 0, (struct sockaddr *)&got.address, sizeof(got.address)), len);
}

/* One more of the guest's datagrams to the service at port, and back. */
static inline void round_trip(struct bed *b, int fd, uint16_t src_port, const char *dst)
{
	guest_sends(b, src_port, dst, port_of(fd), "ping");
	receive_text(fd, "ping");
	reply(fd, "pong", 4);
	turn(b);
	guest_gets_text(b, dst, port_of(fd), src_port, "pong");
}

static inline void both(void (*test)(const struct names *n))
{
	for (int f = 0; f < IP_FAMILIES; f++)
		test(&names[f]);
}

static inline int enter(void **state)
{
	(void)state;
	own_net_enter();
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct ip_addr other = ip(names[f].other);

		own_net_add(&other);
	}
	return 0;
}

#endif
