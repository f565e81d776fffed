/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules at work (passt/forward.h) in two namespaces of the test's own; time is the test's, so that
 * looking for listeners takes none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "core/log.h"
#include "passt/forward.h"
#include "test/unit/own_net.h"

struct bed {
	int spaces[FORWARD_SIDES]; /* the test is in that of the host */
	struct ports_view ns_ports;
	struct forward_ops ops;
	struct rule_table tables[FORWARD_SIDES];
	struct loop *loop;
	struct forward *f;
	usec_t now;
	unsigned served[FORWARD_SIDES]; /* ports */
	int messages;                   /* what went to stderr */
	int stderr_copy;
};

static int open_ns(void *arg, const struct rule *rule, uint16_t first, uint16_t last, int *results)
{
	struct bed *b = arg;

	assert_true(last - first < FORWARD_BATCH);
	assert_int_equal(setns(b->spaces[FORWARD_NS], CLONE_NEWNET), 0);
	for (unsigned port = first; port <= last; port++) {
		int fd, r = forward_open(rule, (uint16_t)port, false, &fd);

		results[port - first] = r < 0 ? r : fd;
	}
	assert_int_equal(setns(b->spaces[FORWARD_HOST], CLONE_NEWNET), 0);
	return 0;
}

static int serve(void *arg, struct forward_port *port)
{
	struct bed *b = arg;

	assert_true(port->source.fd >= 0);
	b->served[port->side]++;
	return 0;
}

static void unserve(void *arg, struct forward_port *port)
{
	struct bed *b = arg;

	assert_true(port->source.fd >= 0);
	b->served[port->side]--;
}

static void bed_init(struct bed *b)
{
	*b = (struct bed){.ops = {open_ns, NULL, serve, unserve, NULL}, .now = USEC_SEC};
	own_net_enter();
	b->spaces[FORWARD_NS] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_int_equal(ports_view_open(&b->ns_ports), 0);
	own_net_enter();
	b->spaces[FORWARD_HOST] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	b->ops.ns_ports = &b->ns_ports;
	b->ops.arg = b;
	b->messages = memfd_create("messages", MFD_CLOEXEC);
	b->stderr_copy = dup(2);
	assert_int_equal(loop_new(&b->loop), 0);
}

static void bed_add(struct bed *b, enum forward_side side, uint8_t proto, const char *spec)
{
	const struct rule_context ctx = {proto, {true, true}, true, side == FORWARD_NS,
					 61000, 65535};
	char error[RULE_ERROR_MAX];

	if (rules_parse(spec, &ctx, &b->tables[side], error))
		fail_msg("%s: %s", spec, error);
}

static int bed_open(struct bed *b)
{
	int r;

	assert_int_equal(ftruncate(b->messages, 0), 0);
	assert_int_equal(lseek(b->messages, 0, SEEK_SET), 0);
	dup2(b->messages, 2);
	r = forward_new(b->tables, false, &b->ops, &b->f);
	dup2(b->stderr_copy, 2);
	return r;
}

static void bed_says(struct bed *b, const char *expected)
{
	char text[4096] = "";

	assert_true(pread(b->messages, text, sizeof(text) - 1, 0) >= 0);
	assert_string_equal(text, expected);
}

/* So many more milliseconds. */
static void bed_pass(struct bed *b, unsigned msec)
{
	usec_t end = b->now + msec * USEC_MSEC;

	while (b->now < end) {
		b->now += 5 * USEC_MSEC;
		assert_int_equal(loop_turn(b->loop, b->now, 0), 0);
	}
}

static void bed_start(struct bed *b)
{
	assert_int_equal(bed_open(b), 0);
	assert_int_equal(forward_serve(b->f, b->loop), 0);
}

static void bed_free(struct bed *b)
{
	forward_free(b->f);
	assert_int_equal(b->served[FORWARD_HOST] + b->served[FORWARD_NS], 0);
	loop_free(b->loop);
	ports_view_close(&b->ns_ports);
	close(b->spaces[0]);
	close(b->spaces[1]);
	close(b->messages);
	close(b->stderr_copy);
}

/* A listener on a side; -errno if it can't be. */
static int listener(struct bed *b, enum forward_side side, int type, const char *addr,
		    uint16_t port)
{
	struct endpoint e = {.port = port};
	struct sockaddr_storage sa;
	socklen_t len;
	int fd, r;

	assert_int_equal(ip_parse(addr, &e.addr), 0);
	len = endpoint_to_sockaddr(&e, 0, &sa);
	assert_int_equal(setns(b->spaces[side], CLONE_NEWNET), 0);
	fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	r = bind(fd, (struct sockaddr *)&sa, len) < 0 ? -errno : 0;
	if (!r && type == SOCK_STREAM)
		r = listen(fd, 8) < 0 ? -errno : 0;
	assert_int_equal(setns(b->spaces[FORWARD_HOST], CLONE_NEWNET), 0);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

/* true if the port is taken there. */
static bool taken(struct bed *b, enum forward_side side, int type, const char *addr, uint16_t port)
{
	int fd = listener(b, side, type, addr, port);

	if (fd < 0) {
		assert_int_equal(fd, -EADDRINUSE);
		return true;
	}
	close(fd);
	return false;
}

#define HOST_TCP(port) taken(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.1", port)
#define HOST_UDP(port) taken(&b, FORWARD_HOST, SOCK_DGRAM, "127.0.0.1", port)
#define NS_TCP(port)   taken(&b, FORWARD_NS, SOCK_STREAM, "127.0.0.1", port)
#define NS_UDP(port)   taken(&b, FORWARD_NS, SOCK_DGRAM, "127.0.0.1", port)

static void fixed_ports(void **state)
{
	struct bed b;

	(void)state;
	bed_init(&b);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "8000-8299:1000");
	bed_add(&b, FORWARD_HOST, IPPROTO_UDP, "127.0.0.1/53,65535");
	bed_add(&b, FORWARD_NS, IPPROTO_TCP, "9000-9299");
	bed_add(&b, FORWARD_NS, IPPROTO_UDP, "53");
	assert_int_equal(bed_open(&b), 0);
	bed_says(&b, "");
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 302);
	assert_int_equal(forward_port_count(b.f, FORWARD_NS), 301);
	assert_true(HOST_TCP(8000) && HOST_TCP(8299) && HOST_UDP(53) && HOST_UDP(65535));
	assert_true(NS_TCP(9000) && NS_TCP(9299) && NS_UDP(53));
	assert_false(HOST_TCP(8300) || HOST_TCP(53) || HOST_TCP(9000) || NS_TCP(8000));
	assert_int_equal(b.served[FORWARD_HOST], 0);
	assert_int_equal(forward_serve(b.f, b.loop), 0);
	assert_int_equal(b.served[FORWARD_HOST], 302);
	assert_int_equal(b.served[FORWARD_NS], 301);
	forward_free(b.f);
	b.f = NULL;
	assert_false(HOST_TCP(8000) || NS_TCP(9000) || HOST_UDP(53));
	bed_free(&b);
}

static void failures(void **state)
{
	int files = own_net_open_files(), fds[4];
	struct bed b;

	(void)state;
	bed_init(&b);
	fds[0] = listener(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.1", 8001);
	fds[1] = listener(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.1", 8002);
	fds[2] = listener(&b, FORWARD_NS, SOCK_DGRAM, "127.0.0.1", 53);
	fds[3] = listener(&b, FORWARD_HOST, SOCK_DGRAM, "::1", 99);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "8000-8010");
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "192.0.2.1/80");
	bed_add(&b, FORWARD_HOST, IPPROTO_UDP, "%nosuch/80");
	bed_add(&b, FORWARD_NS, IPPROTO_UDP, "53");
	bed_add(&b, FORWARD_NS, IPPROTO_TCP, "54");
	bed_add(&b, FORWARD_HOST, IPPROTO_UDP, "::1/~1-98,~101-65535");
	assert_int_equal(bed_open(&b), -EADDRINUSE);
	bed_says(&b,
		 "Can't listen on TCP ports 8001-8002 of the host: Address already in use\n"
		 "Can't listen on TCP port 80 of the host at 192.0.2.1: Cannot assign requested "
		 "address: no such address there (see --freebind)\n"
		 "Can't listen on UDP port 80 of the host on nosuch: No such device\n"
		 "Can't listen on UDP port 53 of the namespace on lo: Address already in use\n"
		 "UDP ports of the host that are left out: 1 in use, 0 not permitted, 0 for other "
		 "reasons\n");
	assert_false(HOST_TCP(8000) || NS_TCP(54));
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	bed_free(&b);
	assert_int_equal(own_net_open_files(), files);
}

/* Best effort is enough, unless it gives nothing at all. */
static void weak(void **state)
{
	struct bed b;
	int fd;

	(void)state;
	bed_init(&b);
	fd = listener(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.1", 2);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "~4-65535");
	assert_int_equal(bed_open(&b), 0);
	bed_says(&b, "TCP ports of the host that are left out: 1 in use, 0 not permitted, 0 for "
		     "other reasons\n");
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 2);
	forward_free(b.f);
	b.f = NULL;
	b.tables[FORWARD_HOST].count = 0;
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "~1,~3,~5-65535"); /* one piece does */
	assert_int_equal(bed_open(&b), 0);
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 1);
	forward_free(b.f);
	b.f = NULL;
	b.tables[FORWARD_HOST].count = 0;
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "~1,~3-65535");
	assert_int_equal(bed_open(&b), -EADDRINUSE);
	bed_says(&b,
		 "TCP ports of the host that are left out: 1 in use, 0 not permitted, 0 for "
		 "other reasons\n"
		 "Can't listen on any port of the host that the rule asks for: TCP [*]:2-2  =>  "
		 "2-2 (best effort)\n");
	close(fd);
	bed_free(&b);
}

static void limit(void **state)
{
	struct rlimit before, low = {1000, 1000};
	struct bed b;

	(void)state;
	bed_init(&b);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	bed_add(&b, FORWARD_HOST, IPPROTO_UDP, "10000-10871");
	bed_add(&b, FORWARD_NS, IPPROTO_TCP, "5000");
	bed_add(&b, FORWARD_NS, IPPROTO_UDP, "auto");
	assert_int_equal(bed_open(&b), -EMFILE);
	bed_says(&b, "873 ports to forward need 1001 descriptors, and the limit is 1000 (ulimit "
		     "-Hn)\n");
	assert_false(HOST_UDP(10000));
	/* Who has few descriptors and asks for no ports has to see for himself. */
	b.tables[FORWARD_HOST].count = 0;
	b.tables[FORWARD_NS].count = 0;
	low.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(bed_open(&b), 0);
	forward_free(b.f);
	b.f = NULL;
	bed_add(&b, FORWARD_HOST, IPPROTO_UDP, "10000-10871");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(bed_open(&b), 0);
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 872);
	bed_free(&b);
}

/* The instance before this one is still ending. */
static void patience(void **state)
{
	struct bed b;
	pid_t child;
	int fd;

	(void)state;
	bed_init(&b);
	fd = listener(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.1", 8005);
	child = fork();
	if (child == 0) { /* holds the port a while longer */
		poll(NULL, 0, 60);
		_exit(0);
	}
	close(fd);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "8000-8010");
	assert_int_equal(bed_open(&b), 0);
	bed_says(&b, "");
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 11);
	assert_int_equal(waitpid(child, NULL, 0), child);
	bed_free(&b);
}

static void auto_host(void **state)
{
	struct bed b;
	int a, c;

	(void)state;
	bed_init(&b);
	a = listener(&b, FORWARD_NS, SOCK_STREAM, "0.0.0.0", 3000);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "auto");
	bed_start(&b);
	assert_true(HOST_TCP(3000)); /* at once */
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 1);
	c = listener(&b, FORWARD_NS, SOCK_STREAM, "::1", 3001);
	bed_pass(&b, 30);
	assert_true(HOST_TCP(3001));
	close(c);
	bed_pass(&b, 30);
	assert_false(HOST_TCP(3001));
	bed_pass(&b, 1000);
	for (unsigned i = 0; i < 10; i++) {
		c = listener(&b, FORWARD_NS, SOCK_STREAM, "127.9.9.9", (uint16_t)(4000 + i));
		bed_pass(&b, 255);
		assert_true(HOST_TCP((uint16_t)(4000 + i)));
		close(c);
		bed_pass(&b, 255);
		assert_false(HOST_TCP((uint16_t)(4000 + i)));
	}
	c = listener(&b, FORWARD_NS, SOCK_DGRAM, "127.0.0.1", 53);
	bed_pass(&b, 2500);
	assert_false(HOST_UDP(53) || HOST_TCP(53));
	assert_int_equal(b.served[FORWARD_HOST], 1);
	close(a);
	close(c);
	bed_free(&b);
}

static void auto_udp(void **state)
{
	struct bed b;
	int u, t;

	(void)state;
	bed_init(&b);
	bed_add(&b, FORWARD_HOST, IPPROTO_UDP, "auto");
	bed_start(&b);
	u = listener(&b, FORWARD_NS, SOCK_DGRAM, "127.0.0.1", 5353);
	t = listener(&b, FORWARD_NS, SOCK_STREAM, "127.0.0.1", 443);
	bed_pass(&b, 300);
	assert_true(HOST_UDP(5353) && HOST_UDP(443)); /* QUIC beside TCP */
	assert_false(HOST_TCP(443));
	close(u);
	close(t);
	bed_pass(&b, 300);
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 0);
	bed_free(&b);
}

/* Both directions by default: nothing of ours comes back to where it came from. */
static void auto_both(void **state)
{
	struct bed b;
	int h, n, hu;

	(void)state;
	bed_init(&b);
	for (int side = 0; side < FORWARD_SIDES; side++) {
		bed_add(&b, (enum forward_side)side, IPPROTO_TCP, "auto");
		bed_add(&b, (enum forward_side)side, IPPROTO_UDP, "auto");
	}
	bed_start(&b);
	h = listener(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.1", 22);
	hu = listener(&b, FORWARD_HOST, SOCK_DGRAM, "127.0.0.1", 123);
	n = listener(&b, FORWARD_NS, SOCK_STREAM, "127.0.0.1", 3000);
	bed_pass(&b, 5000);
	assert_true(NS_TCP(22) && NS_UDP(22) && NS_UDP(123) && HOST_TCP(3000) && HOST_UDP(3000));
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 2);
	assert_int_equal(forward_port_count(b.f, FORWARD_NS), 3);
	close(h);
	close(n);
	close(hu);
	bed_pass(&b, 5000);
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 0);
	assert_int_equal(forward_port_count(b.f, FORWARD_NS), 0);
	bed_free(&b);
}

/* A port forwarded for good in the other direction is no listener to be forwarded. */
static void auto_beside_fixed(void **state)
{
	struct bed b;

	(void)state;
	bed_init(&b);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "auto");
	bed_add(&b, FORWARD_NS, IPPROTO_TCP, "5432");
	bed_start(&b);
	bed_pass(&b, 3000);
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 0);
	assert_int_equal(forward_port_count(b.f, FORWARD_NS), 1);
	bed_free(&b);
}

/* Ranges, target ports, exclusions and addresses hold for auto as well. */
static void auto_parts(void **state)
{
	struct bed b;
	int fds[4];

	(void)state;
	bed_init(&b);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "127.0.0.2/8000-8010:3000,~8002,auto");
	bed_start(&b);
	for (int i = 0; i < 4; i++)
		fds[i] = listener(&b, FORWARD_NS, SOCK_STREAM, "127.0.0.1", (uint16_t)(2999 + i));
	bed_pass(&b, 300);
	assert_true(taken(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.2", 8000));
	assert_true(taken(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.2", 8001));
	assert_false(taken(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.3", 8000));
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 2);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	bed_free(&b);
}

/* A port that is taken when it would be wanted is had when it is free. */
static void auto_taken(void **state)
{
	struct bed b;
	int h, n;

	(void)state;
	bed_init(&b);
	h = listener(&b, FORWARD_HOST, SOCK_STREAM, "127.0.0.1", 3000);
	n = listener(&b, FORWARD_NS, SOCK_STREAM, "127.0.0.1", 3000);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "auto");
	bed_start(&b);
	bed_says(&b, ""); /* usual where a namespace is joined */
	bed_pass(&b, 3000);
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 0);
	close(h);
	bed_pass(&b, 2500);
	assert_int_equal(forward_port_count(b.f, FORWARD_HOST), 1);
	close(n);
	bed_free(&b);
}

/* Without anything automatic nothing wakes up. */
static void no_timer(void **state)
{
	struct bed b;

	(void)state;
	bed_init(&b);
	bed_add(&b, FORWARD_HOST, IPPROTO_TCP, "3000");
	bed_start(&b);
	assert_true(timers_next(loop_timers(b.loop)) == USEC_NEVER);
	bed_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fixed_ports),
	    cmocka_unit_test(failures),
	    cmocka_unit_test(weak),
	    cmocka_unit_test(limit),
	    cmocka_unit_test(patience),
	    cmocka_unit_test(auto_host),
	    cmocka_unit_test(auto_udp),
	    cmocka_unit_test(auto_both),
	    cmocka_unit_test(auto_beside_fixed),
	    cmocka_unit_test(auto_parts),
	    cmocka_unit_test(auto_taken),
	    cmocka_unit_test(no_timer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
