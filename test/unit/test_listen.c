/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections by forwarding rules, from the listening socket to whoever carries them, in a network
 * namespace of the test's own that plays host and guest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "core/log.h"
#include "tcp/tcp_listen.h"
#include "test/unit/own_net.h"

#define GUEST_V4  "192.0.2.2"
#define GUEST_V6  "2001:db8::2"
#define CLIENT_V4 "198.51.100.9"
#define CLIENT_V6 "2001:db8:1::9"

struct bed {
	struct loop *loop;
	struct counters counters;
	struct nat_config nat;
	struct nat_guest guest;
	struct tap_link *link;
	struct tap *tap;
	struct tcp *tcp;
	struct side_sockets sides;
	enum forward_side asked; /* where the latest socket was wanted */
	struct rule rule;
	struct forward_port port;
	int server; /* listens as a service of the guest */
	int files;
};

static struct ip_addr ip(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_parse(text, &a), 0);
	return a;
}

static int get_socket(struct side_sockets *s, enum forward_side side, int family, int type, int *fd)
{
	struct bed *b = container_of(s, struct bed, sides);

	b->asked = side;
	*fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return *fd < 0 ? -errno : 0;
}

/* A listening socket; its port in *port. dual: [::] for both families. */
static int listen_at(const struct ip_addr *addr, bool dual, uint16_t *port)
{
	struct endpoint e = {*addr, 0};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&e, 0, &sa);
	int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), off = 0;

	assert_true(fd >= 0);
	if (dual)
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(fd, 100), 0);
	len = sizeof(sa);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	assert_int_equal(endpoint_from_sockaddr(&sa, &e), 0);
	*port = e.port;
	return fd;
}

/* One rule on the host's wildcard of both families; a service at the guest's address or loopback
 * of family f. */
static void bed_make(struct bed *b, enum forward_side side, const struct ip_addr *service,
		     bool splices)
{
	struct tap_features features = {.csum = true};
	struct tap_config tap = {.mtu = 65520, .guest_mac = {{2, 0, 0, 0, 0, 2}}};
	struct tcp_config tcp = {
	    .flows_max = 100, .guest = &b->guest, .sides = splices ? &b->sides : NULL};

	*b = (struct bed){.files = own_net_open_files(), .asked = FORWARD_SIDES};
	b->sides.get = get_socket;
	b->nat = (struct nat_config){.splice_on = splices, .our_link_local = ip("fe80::1")};
	for (int f = 0; f < IP_FAMILIES; f++) {
		b->nat.family[f].on = true;
		b->nat.family[f].guest_assigned = ip(f == IP_V4 ? GUEST_V4 : GUEST_V6);
		b->nat.family[f].gateway = b->nat.family[f].map_host_loopback = ip_any[f];
		b->nat.family[f].map_guest_addr = b->nat.family[f].dns_forward = ip_any[f];
		b->nat.family[f].dns_host = b->nat.family[f].outbound = ip_any[f];
	}
	nat_guest_init(&b->guest, &b->nat);
	assert_int_equal(loop_new(&b->loop), 0);
	assert_int_equal(mem_link_new(&features, &b->link), 0);
	assert_int_equal(tap_new(b->link, &tap, &b->counters, &b->tap), 0);
	assert_int_equal(tcp_new(b->loop, b->tap, &b->nat, &tcp, &b->tcp), 0);
	b->rule = (struct rule){.proto = IPPROTO_TCP,
				.dual_stack = true,
				.addr = ip_any[IP_V6],
				.target = ip_any[IP_V4]};
	b->server = listen_at(service, false, &b->rule.target_first);
	b->port = (struct forward_port){.rule = &b->rule, .side = side};
	b->port.source.fd = listen_at(&ip_any[IP_V6], true, &b->port.port);
	b->rule.first = b->rule.last = b->port.port;
	assert_int_equal(tcp_listen(b->tcp, &b->port), 0);
}

static void bed_new(struct bed *b, enum forward_side side, const struct ip_addr *service)
{
	bed_make(b, side, service, true);
}

static void bed_free(struct bed *b)
{
	tcp_unlisten(b->tcp, &b->port);
	close(b->port.source.fd);
	close(b->server);
	tcp_free(b->tcp);
	tap_free(b->tap);
	assert_int_equal(timers_next(loop_timers(b->loop)), USEC_NEVER);
	loop_free(b->loop);
	assert_int_equal(own_net_open_files(), b->files);
}

static void turn(struct bed *b, int ms)
{
	assert_int_equal(loop_turn(b->loop, USEC_NEVER, ms), 0);
}

static int client(struct bed *b, const struct ip_addr *addr)
{
	struct endpoint e = {*addr, b->port.port};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&e, 0, &sa);
	int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* Turns until fd is readable, and reads. */
static ssize_t read_soon(struct bed *b, int fd, void *buf, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (int i = 0; i < 1000 && poll(&p, 1, 0) == 0; i++)
		turn(b, 5);
	return recv(fd, buf, len, 0);
}

static void expect_reset(struct bed *b, int fd)
{
	char c;

	assert_int_equal(read_soon(b, fd, &c, 1), -1);
	assert_int_equal(errno, ECONNRESET);
}

static void expect_echo(struct bed *b, int from)
{
	struct pollfd p = {.fd = b->server, .events = POLLIN};
	char buf[8];
	int to;

	assert_int_equal(send(from, "hello", 5, 0), 5);
	for (int i = 0; i < 1000 && poll(&p, 1, 0) == 0; i++)
		turn(b, 5);
	to = accept4(b->server, NULL, NULL, SOCK_CLOEXEC);
	assert_true(to >= 0);
	assert_int_equal(read_soon(b, to, buf, sizeof(buf)), 5);
	assert_int_equal(send(to, "world", 5, 0), 5);
	assert_int_equal(read_soon(b, from, buf, sizeof(buf)), 5);
	assert_memory_equal(buf, "world", 5);
	close(to);
	assert_int_equal(read_soon(b, from, buf, sizeof(buf)), 0);
}

static struct tcp_listen_counts counts(const struct bed *b)
{
	struct tcp_listen_counts c;

	tcp_listen_count(b->tcp, &c);
	return c;
}

/* From the host's loopback to the guest's address, both families through one socket. */
static void loopback_is_spliced(void **state)
{
	(void)state;
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct ip_addr service = ip(f == IP_V4 ? GUEST_V4 : GUEST_V6);
		struct bed b;
		int fd;

		bed_new(&b, FORWARD_HOST, &service);
		fd = client(&b, &ip_loopback[f]);
		expect_echo(&b, fd);
		assert_int_equal(b.asked, FORWARD_NS);
		assert_int_equal(counts(&b).accepted, 1);
		assert_int_equal(counts(&b).spliced, 1);
		close(fd);
		for (int i = 0; i < 3; i++)
			turn(&b, 10);
		bed_free(&b);
	}
}

/* From the guest's loopback to the same address on the host. */
static void from_the_namespace(void **state)
{
	(void)state;
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct bed b;
		int fd;

		bed_new(&b, FORWARD_NS, &ip_loopback[f]);
		fd = client(&b, &ip_loopback[f]);
		expect_echo(&b, fd);
		assert_int_equal(b.asked, FORWARD_HOST);
		close(fd);
		bed_free(&b);
	}
}

static void refused_is_a_reset(void **state)
{
	struct ip_addr service = ip(GUEST_V4);
	struct bed b;
	int fd;

	(void)state;
	bed_new(&b, FORWARD_HOST, &service);
	b.nat.splice_only = true;
	fd = client(&b, &service); /* not from loopback */
	expect_reset(&b, fd);
	close(fd);
	assert_int_equal(counts(&b).refused, 1);
	assert_int_equal(b.asked, FORWARD_SIDES);
	bed_free(&b);
}

/* From elsewhere over the tap, with the client's address and port. */
/* The guest of the second round is a virtual machine: nothing is ever spliced. */
static void to_the_tap(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * IP_FAMILIES; i++) {
		int f = i % IP_FAMILIES;
		struct ip_addr service = ip(f == IP_V4 ? GUEST_V4 : GUEST_V6),
			       from = ip(f == IP_V4 ? CLIENT_V4 : CLIENT_V6);
		uint8_t frame[FRAME_MAX];
		struct sockaddr_storage sa;
		socklen_t len = sizeof(sa);
		struct endpoint here;
		struct offload off;
		struct packet p;
		enum drop_reason why;
		struct bed b;
		size_t n;
		int fd;

		bed_make(&b, FORWARD_HOST, &service, i < IP_FAMILIES);
		fd = client(&b, &from); /* one's own address is the source, too */
		assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
		assert_int_equal(endpoint_from_sockaddr(&sa, &here), 0);
		turn(&b, 100);
		assert_int_equal(counts(&b).to_tap, 1);
		assert_int_equal(b.asked, FORWARD_SIDES);
		n = mem_link_fetch(b.link, frame, sizeof(frame), &off);
		assert_int_equal(packet_parse(frame, n, &off, &p, &why), 0);
		assert_int_equal(p.tcp.flags, TCP_SYN);
		assert_true(ip_equal(&p.ip.src, &from));
		assert_true(ip_equal(&p.ip.dst, &service));
		assert_int_equal(p.tcp.src_port, here.port);
		assert_int_equal(p.tcp.dst_port, b.rule.target_first);
		assert_int_equal(tcp_flow_count(b.tcp), 1);
		close(fd);
		bed_free(&b);
	}
}

/* No descriptor: no spinning, and the connection is served when there is one again. */
static void shortage(void **state)
{
	struct ip_addr service = ip(GUEST_V4);
	struct rlimit old, none;
	struct bed b;
	int fd, turns = 0;
	struct timespec start, now;

	(void)state;
	bed_new(&b, FORWARD_HOST, &service);
	fd = client(&b, &ip_loopback[IP_V4]);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 1, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		turn(&b, 10);
		turns++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
		 250);
	assert_true(turns < 50);
	assert_in_range(counts(&b).paused, 1, 4);
	assert_int_equal(counts(&b).accepted, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	expect_echo(&b, fd);
	close(fd);
	/* Given up while it is paused. */
	fd = client(&b, &ip_loopback[IP_V4]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	turn(&b, 10);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	close(fd);
	bed_free(&b);
}

/* Without sockets of both sides there is nothing to forward to. */
static void not_without_guest(void **state)
{
	struct tcp_config cfg = {.flows_max = 1};
	struct forward_port port = {.source.fd = -1};
	struct nat_config nat = {0};
	struct loop *loop;
	struct tcp *tcp;

	(void)state;
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(tcp_new(loop, NULL, &nat, &cfg, &tcp), 0);
	assert_int_equal(tcp_listen(tcp, &port), -EINVAL);
	tcp_free(tcp);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(loopback_is_spliced), cmocka_unit_test(from_the_namespace),
	    cmocka_unit_test(refused_is_a_reset),  cmocka_unit_test(shortage),
	    cmocka_unit_test(not_without_guest),   cmocka_unit_test(to_the_tap),
	};
	static const char *const addresses[] = {GUEST_V4, GUEST_V6, CLIENT_V4, CLIENT_V6};

	log_set_threshold(LOG_LEVEL_ERROR); /* what goes wrong does so on purpose */
	own_net_enter();
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct ip_addr a = ip(addresses[i]);

		own_net_add(&a);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
