/* SPDX-License-Identifier: BSD-3-Clause */
/* The sockets of rules: whom they take, by real traffic in a namespace of the test's own. */
#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "nat/forward.h"
#include "test/unit/own_net.h"

static struct rule rule_of(uint8_t proto, const char *addr, const char *ifname)
{
	struct rule r = {.proto = proto, .first = 1, .last = 65535, .target_first = 1};

	r.target = ip_any[IP_V6];
	if (addr)
		assert_int_equal(ip_parse(addr, &r.addr), 0);
	else
		r.dual_stack = true;
	snprintf(r.ifname, sizeof(r.ifname), "%s", ifname);
	return r;
}

static int try_open(uint8_t proto, const char *addr, uint16_t port)
{
	struct rule r = rule_of(proto, addr, "");
	int fd = -7, err = forward_open(&r, port, false, &fd);

	assert_true(err < 0 ? fd == -7 : fd >= 0);
	return err < 0 ? err : fd;
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

/* 0 or negative errno of a client. */
static int reach(int type, const char *addr, uint16_t port)
{
	struct endpoint e = {.port = port};
	struct sockaddr_storage sa;
	socklen_t len;
	int fd, r = 0;
	char byte;

	assert_int_equal(ip_parse(addr, &e.addr), 0);
	len = endpoint_to_sockaddr(&e, 0, &sa);
	fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&sa, len) < 0)
		r = -errno;
	else if (type == SOCK_DGRAM) {
		/* On lo a refusal is back when the call returns; nothing else ever is. */
		assert_int_equal(send(fd, "x", 1, 0), 1);
		r = recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno != EAGAIN ? -errno : 0;
	}
	close(fd);
	return r;
}

static void flags(void **state)
{
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP};

	(void)state;
	own_net_enter();
	for (int i = 0; i < 2; i++) {
		int fd = try_open(protos[i], NULL, 8080);

		assert_true(fd >= 0);
		assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
		assert_int_equal(option(fd, SOL_SOCKET, SO_ACCEPTCONN), protos[i] == IPPROTO_TCP);
		assert_int_equal(try_open(protos[i], NULL, 8080), -EADDRINUSE);
		assert_int_equal(try_open(protos[i], "127.0.0.1", 8080), -EADDRINUSE);
		assert_int_equal(try_open(protos[i], "::1", 8080), -EADDRINUSE);
		close(fd);
	}
}

static void families(void **state)
{
	static const struct {
		const char *addr;
		bool v4, v6, other_v4;
	} rows[] = {{NULL, true, true, true},          {"0.0.0.0", true, false, true},
		    {"::", false, true, false},        {"127.0.0.1", true, false, false},
		    {"127.0.0.2", false, false, true}, {"::1", false, true, false}};

	(void)state;
	own_net_enter();
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		bool tcp = i % 2;
		int type = tcp ? SOCK_STREAM : SOCK_DGRAM;
		int fd = try_open(tcp ? IPPROTO_TCP : IPPROTO_UDP, rows[i / 2].addr, 1000);

		assert_true(fd >= 0);
		assert_int_equal(reach(type, "127.0.0.1", 1000),
				 rows[i / 2].v4 ? 0 : -ECONNREFUSED);
		assert_int_equal(reach(type, "127.0.0.2", 1000),
				 rows[i / 2].other_v4 ? 0 : -ECONNREFUSED);
		assert_int_equal(reach(type, "::1", 1000), rows[i / 2].v6 ? 0 : -ECONNREFUSED);
		close(fd);
	}
}

/* Both wildcards of one port, and two addresses of it. */
static void side_by_side(void **state)
{
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP};

	(void)state;
	own_net_enter();
	for (int i = 0; i < 2; i++) {
		int a = try_open(protos[i], "::", 80), b = try_open(protos[i], "0.0.0.0", 80);
		int c = try_open(protos[i], "127.0.0.2", 81);
		int d = try_open(protos[i], "127.0.0.3", 81);

		assert_true(a >= 0 && b >= 0 && c >= 0 && d >= 0);
		close(a);
		close(b);
		close(c);
		close(d);
	}
}

static void devices(void **state)
{
	struct rule r = rule_of(IPPROTO_TCP, NULL, "lo");
	int fd;

	(void)state;
	own_net_enter();
	netns_ip("link add pair0 type veth peer name pair1\nlink set pair1 up\nlink set pair0 up\n"
		 "addr add 192.0.2.1/24 dev pair0\n");
	assert_int_equal(forward_open(&r, 80, false, &fd), 0);
	assert_int_equal(reach(SOCK_STREAM, "127.0.0.1", 80), 0);
	assert_int_equal(reach(SOCK_STREAM, "::1", 80), 0);
	close(fd);
	r = rule_of(IPPROTO_TCP, NULL, "pair0");
	assert_int_equal(forward_open(&r, 80, false, &fd), 0);
	assert_int_equal(reach(SOCK_STREAM, "127.0.0.1", 80), -ECONNREFUSED);
	close(fd);
	r = rule_of(IPPROTO_UDP, "0.0.0.0", "not-there");
	assert_int_equal(forward_open(&r, 80, false, &fd), -ENODEV);
	/* The device says whose link-local address is meant. */
	netns_ip("addr add fe80::77/64 dev pair0 nodad\n");
	r = rule_of(IPPROTO_TCP, "fe80::77", "pair0");
	assert_int_equal(forward_open(&r, 80, false, &fd), 0);
	close(fd);
}

static void freebind(void **state)
{
	static const char *const addrs[] = {"192.0.2.9", "2001:db8::9"};
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP};

	(void)state;
	own_net_enter();
	for (int i = 0; i < 4; i++) {
		struct rule r = rule_of(protos[i / 2], addrs[i % 2], "");
		int fd;

		assert_int_equal(forward_open(&r, 80, false, &fd), -EADDRNOTAVAIL);
		assert_int_equal(forward_open(&r, 80, true, &fd), 0);
		close(fd);
	}
}

static void not_permitted(void **state)
{
	pid_t child;
	int status;

	(void)state;
	own_net_enter();
	child = fork();
	if (child == 0) {
		capng_clear(CAPNG_SELECT_CAPS);
		assert_int_equal(capng_apply(CAPNG_SELECT_CAPS), 0);
		_exit(try_open(IPPROTO_TCP, NULL, 1023) == -EACCES &&
			      try_open(IPPROTO_UDP, "::1", 1) == -EACCES &&
			      try_open(IPPROTO_TCP, "::1", 1024) >= 0
			  ? 0
			  : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* A port is free again at once, whatever connections the last listener has left behind. */
static void time_wait(void **state)
{
	int fd, client, server;
	struct endpoint e = {.addr = ip_loopback[IP_V4], .port = 80};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&e, 0, &sa);
	char byte;

	(void)state;
	own_net_enter();
	fd = try_open(IPPROTO_TCP, NULL, 80);
	client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&sa, len), 0);
	server = accept(fd, NULL, NULL);
	assert_true(server >= 0);
	close(server); /* first, so TIME-WAIT is on the listener's side */
	assert_int_equal(recv(client, &byte, 1, 0), 0);
	close(client);
	close(fd);
	fd = try_open(IPPROTO_TCP, NULL, 80);
	assert_true(fd >= 0);
	close(fd);
}

/* What a datagram brings with it, over either family of a socket for both. */
static void datagram_facts(void **state)
{
	static const char *const addrs[] = {"127.0.0.9", "::1"};
	int fd;

	(void)state;
	own_net_enter();
	fd = try_open(IPPROTO_UDP, NULL, 80);
	for (int f = 0; f < IP_FAMILIES; f++) {
		_Alignas(struct cmsghdr) char control[256];
		char byte;
		struct iovec iov = {&byte, 1};
		struct msghdr m = {.msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		struct in6_pktinfo info = {0};
		struct ip_addr local, expected;
		int ttl = -1, tos = -1;

		assert_int_equal(reach(SOCK_DGRAM, addrs[f], 80), 0);
		assert_int_equal(recvmsg(fd, &m, 0), 1);
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
			if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
				memcpy(&info, CMSG_DATA(c), sizeof(info));
			else if (c->cmsg_type == (f ? IPV6_HOPLIMIT : IP_TTL))
				memcpy(&ttl, CMSG_DATA(c), sizeof(ttl));
			else if (c->cmsg_type == (f ? IPV6_TCLASS : IP_TOS))
				tos = *CMSG_DATA(c);
		}
		local = ip_from_v6(&info.ipi6_addr);
		assert_int_equal(ip_parse(addrs[f], &expected), 0);
		assert_true(ip_equal(&local, &expected));
		assert_int_equal(info.ipi6_ifindex, 1);
		assert_int_equal(ttl, 64);
		assert_int_equal(tos, 0);
	}
	assert_int_equal(option(fd, IPPROTO_IP, IP_RECVERR), 1);
	assert_int_equal(option(fd, IPPROTO_IPV6, IPV6_RECVERR), 1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(flags),        cmocka_unit_test(families),
	    cmocka_unit_test(side_by_side), cmocka_unit_test(devices),
	    cmocka_unit_test(freebind),     cmocka_unit_test(not_permitted),
	    cmocka_unit_test(time_wait),    cmocka_unit_test(datagram_facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
