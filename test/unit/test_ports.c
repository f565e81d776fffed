/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ports have listeners, by real sockets in a namespace of the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

#include <linux/netlink.h>

#include "host/ports.h"
#include "test/unit/own_net.h"

#define MANY 3000

static int bound(const char *addr, int type, uint16_t port)
{
	struct endpoint e = {.port = port};
	struct sockaddr_storage sa;
	socklen_t len;
	int fd, one = 1;

	assert_int_equal(ip_parse(addr, &e.addr), 0);
	len = endpoint_to_sockaddr(&e, 0, &sa);
	fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	if (sa.ss_family == AF_INET6)
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	return fd;
}

static int listening(const char *addr, uint16_t port)
{
	int fd = bound(addr, SOCK_STREAM, port);

	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void connect_to(int fd, const char *addr, uint16_t port)
{
	struct endpoint e = {.port = port};
	struct sockaddr_storage sa;
	socklen_t len;

	assert_int_equal(ip_parse(addr, &e.addr), 0);
	len = endpoint_to_sockaddr(&e, 0, &sa);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
}

static unsigned count(const struct port_set *s)
{
	unsigned n = 0;

	for (int i = 0; i < PORT_SET_WORDS; i++)
		n += (unsigned)__builtin_popcountll(s->bits[i]);
	return n;
}

/* Exactly these ports, 0 at the end. */
static void expect(const struct ports_view *v, uint8_t proto, const uint16_t *ports)
{
	struct port_set s;
	unsigned n = 0;

	memset(&s, 0xff, sizeof(s));
	assert_int_equal(ports_look(v, proto, &s), 0);
	for (; ports[n]; n++) {
		if (!port_set_has(&s, ports[n]))
			fail_msg("port %u is missing", ports[n]);
	}
	assert_int_equal(count(&s), n);
}

static void open_view(struct ports_view *v)
{
	own_net_enter();
	assert_int_equal(ports_view_open(v), 0);
}

static void tcp_listeners(void **state)
{
	struct ports_view v;
	int a, b, c, d, client;

	(void)state;
	open_view(&v);
	expect(&v, IPPROTO_TCP, (uint16_t[]){0});
	a = listening("0.0.0.0", 1);
	b = listening("127.0.0.7", 65535);
	c = listening("::1", 8080);
	d = bound("127.0.0.1", SOCK_STREAM, 90); /* doesn't listen */
	expect(&v, IPPROTO_TCP, (uint16_t[]){1, 8080, 65535, 0});
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	connect_to(client, "127.0.0.1", 1); /* neither end of a connection counts */
	close(b);
	expect(&v, IPPROTO_TCP, (uint16_t[]){1, 8080, 0});
	expect(&v, IPPROTO_UDP, (uint16_t[]){0});
	close(a);
	close(c);
	close(d);
	expect(&v, IPPROTO_TCP, (uint16_t[]){0});
	close(client);
	ports_view_close(&v);
	assert_int_equal(v.diag, -1);
}

static void udp_sockets(void **state)
{
	struct ports_view v;
	int a, b, c, one = 1;

	(void)state;
	open_view(&v);
	a = bound("0.0.0.0", SOCK_DGRAM, 53);
	b = bound("::", SOCK_DGRAM, 53);
	c = bound("::1", SOCK_DGRAM, 5353);
	expect(&v, IPPROTO_UDP, (uint16_t[]){53, 5353, 0});
	expect(&v, IPPROTO_TCP, (uint16_t[]){0});
	connect_to(c, "::1", 53); /* a client */
	close(a);
	expect(&v, IPPROTO_UDP, (uint16_t[]){53, 0});
	close(c);
	for (int f = 0; f < 2; f++) { /* a client by its own word, of either family */
		c = bound(f ? "::1" : "127.0.0.1", SOCK_DGRAM, 5000);
		expect(&v, IPPROTO_UDP, (uint16_t[]){53, 5000, 0});
		assert_int_equal(
		    setsockopt(c, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)), 0);
		expect(&v, IPPROTO_UDP, (uint16_t[]){53, 0});
		close(c);
	}
	close(b);
	ports_view_close(&v);
}

/* More than one datagram holds, and a namespace seen from another one. */
static void many_from_outside(void **state)
{
	struct rlimit limit = {MANY + 100, MANY + 100};
	struct ports_view v;
	struct port_set s;
	int fds[MANY];

	(void)state;
	open_view(&v);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < MANY; i++)
		fds[i] = listening(i % 2 ? "::" : "0.0.0.0", (uint16_t)(10000 + i));
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	assert_int_equal(ports_look(&v, IPPROTO_TCP, &s), 0);
	assert_int_equal(count(&s), MANY);
	for (int i = 0; i < MANY; i++) {
		assert_true(port_set_has(&s, (uint16_t)(10000 + i)));
		close(fds[i]);
	}
	expect(&v, IPPROTO_TCP, (uint16_t[]){0});
	ports_view_close(&v);
}

/* What a look that was broken off left in the socket disturbs none after it. */
static void left_behind(void **state)
{
	struct {
		struct nlmsghdr h;
		uint8_t family, body[7];
	} broken = {.h = {.nlmsg_len = sizeof(broken), .nlmsg_type = 20, .nlmsg_flags = 1 | 4}};
	struct ports_view v;
	int a;

	(void)state;
	open_view(&v);
	a = listening("127.0.0.1", 7);
	for (int i = 0; i < 3; i++)
		assert_int_equal(send(v.diag, &broken, sizeof(broken), 0), sizeof(broken));
	expect(&v, IPPROTO_TCP, (uint16_t[]){7, 0});
	close(a);
	ports_view_close(&v);
}

static void counters(void **state)
{
	struct ports_counters last = {0};
	struct ports_view v, none = {-1, {-1, -1}};
	int fd;

	(void)state;
	open_view(&v);
	assert_false(ports_may_have_changed(&v, &last)); /* nothing there at all */
	fd = listening("127.0.0.1", 80);
	assert_true(ports_may_have_changed(&v, &last));
	assert_int_equal(last.tcp[IP_V4], 1);
	assert_false(ports_may_have_changed(&v, &last));
	close(fd);
	assert_true(ports_may_have_changed(&v, &last));
	fd = listening("::1", 80);
	assert_true(ports_may_have_changed(&v, &last));
	assert_int_equal(last.tcp[IP_V6], 1);
	close(fd);
	fd = bound("127.0.0.1", SOCK_DGRAM, 80);
	assert_true(ports_may_have_changed(&v, &last));
	assert_int_equal(last.udp[IP_V4], 1);
	close(fd);
	fd = bound("::1", SOCK_DGRAM, 80);
	assert_true(ports_may_have_changed(&v, &last));
	assert_int_equal(last.udp[IP_V6], 1);
	assert_false(ports_may_have_changed(&v, &last));
	close(fd);
	assert_true(ports_may_have_changed(&none, &last));
	assert_true(ports_may_have_changed(&none, &last));
	ports_view_close(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tcp_listeners),     cmocka_unit_test(udp_sockets),
	    cmocka_unit_test(many_from_outside), cmocka_unit_test(left_behind),
	    cmocka_unit_test(counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
