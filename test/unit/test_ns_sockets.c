/* SPDX-License-Identifier: BSD-3-Clause */
/* The stock of sockets made inside the namespace: an honest agent, a slow one, and one that lies.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "pasta/agent_sockets.h"
#include "pasta/ns_sockets.h"
#include "test/unit/own_net.h"

#define PORT 4000

struct bed {
	int engine, agent; /* the two ends */
	int here;          /* the namespace to return to */
	int stranger;      /* a socket of another namespace */
	int before;        /* descriptors open in between tests */
	struct ns_sockets *s;
	struct side_sockets *sides;
	bool mute; /* the agent answers nothing */
	unsigned requests, waits;
};

/* Has the agent do all that it was asked for. */
static void serve(struct bed *b)
{
	struct agent_message m;
	struct agent_fds fds;

	while (agent_message_receive(b->agent, ENGINE_TO_AGENT, false, &m, &fds) == 0) {
		b->requests++;
		assert_int_equal(agent_sockets_serve(b->agent, &m), 0);
	}
}

static int hear(struct bed *b)
{
	struct agent_message m;
	struct agent_fds fds cleanup_agent_fds = {0};
	int r = agent_message_receive(b->engine, AGENT_TO_ENGINE, false, &m, &fds);

	return r == 0 || r == -EMFILE ? ns_sockets_answer(b->s, &m, &fds) : r;
}

static int wait_for_agent(void *arg)
{
	struct bed *b = arg;

	b->waits++;
	if (!b->mute)
		serve(b);
	return hear(b);
}

/* As the loop does when an answer comes by itself. */
static void hear_all(struct bed *b)
{
	int r = 0;

	serve(b);
	while (r == 0)
		r = hear(b);
	assert_int_equal(r, -EAGAIN);
}

static int set_up(void **state)
{
	static struct bed b;
	int pair[2], known;

	b = (struct bed){.before = own_net_open_files()};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	known = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	b.engine = pair[0];
	b.agent = pair[1];
	b.here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	b.stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setns(b.here, CLONE_NEWNET), 0);
	assert_int_equal(ns_sockets_new(b.engine, known, wait_for_agent, &b, &b.s), 0);
	b.sides = ns_sockets_sides(b.s);
	close(known);
	*state = &b;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *b = *state;

	ns_sockets_free(b->s);
	close(b->engine);
	close(b->agent);
	close(b->here);
	close(b->stranger);
	assert_int_equal(own_net_open_files(), b->before);
	return 0;
}

static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, name, &value, &len), 0);
	return value;
}

static void get_and_check(struct bed *b, enum forward_side side, int family, int type)
{
	int fd = -1;

	assert_int_equal(b->sides->get(b->sides, side, family, type, &fd), 0);
	assert_int_equal(option(fd, SO_DOMAIN), family);
	assert_int_equal(option(fd, SO_TYPE), type);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
}

static void every_kind_on_either_side(void **state)
{
	const int families[] = {AF_INET, AF_INET6}, types[] = {SOCK_STREAM, SOCK_DGRAM};
	struct bed *b = *state;

	for (int i = 0; i < 4; i++)
		get_and_check(b, FORWARD_HOST, families[i & 1], types[i >> 1]);
	assert_int_equal(b->waits, 0);
	for (int i = 0; i < 4; i++)
		get_and_check(b, FORWARD_NS, families[i & 1], types[i >> 1]);
	assert_int_equal(b->waits, 4);
}

/* Only the first one of all waits, and there are far fewer messages than sockets. */
static void flows_one_after_the_other_dont_wait(void **state)
{
	struct bed *b = *state;

	for (int i = 0; i < 1000; i++) {
		get_and_check(b, FORWARD_NS, AF_INET, SOCK_STREAM);
		hear_all(b);
	}
	assert_int_equal(b->waits, 1);
	assert_in_range(b->requests, 2, 1000 / 15);
}

/* Faster than the agent: the stock runs empty again and again. */
static void a_burst_is_served(void **state)
{
	struct bed *b = *state;

	for (int i = 0; i < 300; i++)
		get_and_check(b, FORWARD_NS, AF_INET6, SOCK_STREAM);
	assert_in_range(b->waits, 2, 25);
	hear_all(b);
	assert_in_range(b->requests, 2, 25);
}

static void a_silent_agent_is_waited_for_once(void **state)
{
	const struct rule rule = {.proto = IPPROTO_TCP, .addr = ip_loopback[IP_V4]};
	struct bed *b = *state;
	int fd = 77, results[2];

	b->mute = true;
	for (int i = 0; i < 5; i++)
		assert_int_equal(b->sides->get(b->sides, FORWARD_NS, AF_INET, SOCK_STREAM, &fd),
				 -EAGAIN);
	assert_int_equal(ns_sockets_listen(b->s, &rule, PORT, PORT + 1, results), -EAGAIN);
	assert_int_equal(fd, 77);
	assert_int_equal(b->waits, 1);
	/* It comes round: nothing of what it was asked for before is taken for something else. */
	b->mute = false;
	hear_all(b);
	get_and_check(b, FORWARD_NS, AF_INET, SOCK_STREAM);
	assert_int_equal(b->waits, 1);
	assert_int_equal(ns_sockets_listen(b->s, &rule, PORT, PORT + 1, results), 0);
	assert_true(results[0] >= 0 && results[1] >= 0);
	close(results[0]);
	close(results[1]);
}

static void listeners_and_why_not(void **state)
{
	const struct rule tcp = {.proto = IPPROTO_TCP, .addr = ip_loopback[IP_V4], .ifname = "lo"};
	const struct rule udp = {.proto = IPPROTO_UDP, .dual_stack = true};
	struct bed *b = *state;
	int taken, results[AGENT_FDS_MAX];

	assert_int_equal(forward_open(&tcp, PORT + 2, false, &taken), 0);
	assert_int_equal(ns_sockets_listen(b->s, &tcp, PORT, PORT + 3, results), 0);
	for (int i = 0; i < 4; i++) {
		if (i == 2) {
			assert_int_equal(results[i], -EADDRINUSE);
			continue;
		}
		assert_int_equal(option(results[i], SO_ACCEPTCONN), 1);
		close(results[i]);
	}
	close(taken);
	assert_int_equal(ns_sockets_listen(b->s, &udp, PORT, PORT + AGENT_FDS_MAX - 1, results), 0);
	for (int i = 0; i < AGENT_FDS_MAX; i++) {
		struct sockaddr_in6 sa;
		socklen_t len = sizeof(sa);

		assert_int_equal(getsockname(results[i], (struct sockaddr *)&sa, &len), 0);
		assert_int_equal(ntohs(sa.sin6_port), PORT + i);
		close(results[i]);
	}
}

static void no_room_for_descriptors(void **state)
{
	const struct rule rule = {.proto = IPPROTO_TCP, .addr = ip_loopback[IP_V4]};
	struct bed *b = *state;
	struct rlimit limit, low;
	int lowest = dup(STDERR_FILENO), fd = -1, results[1];

	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)lowest;
	b->mute = true;
	assert_int_equal(b->sides->get(b->sides, FORWARD_NS, AF_INET, SOCK_STREAM, &fd), -EAGAIN);
	serve(b);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(hear(b), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	b->mute = false;
	/* The next one who asks has his socket. */
	get_and_check(b, FORWARD_NS, AF_INET, SOCK_STREAM);
	/* An agent that has no room itself says so. */
	low.rlim_cur = (rlim_t)lowest;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(b->sides->get(b->sides, FORWARD_NS, AF_INET6, SOCK_STREAM, &fd), -EMFILE);
	assert_int_equal(ns_sockets_listen(b->s, &rule, PORT, PORT, results), 0);
	assert_int_equal(results[0], -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void an_agent_that_is_gone(void **state)
{
	const struct rule rule = {.proto = IPPROTO_TCP, .addr = ip_loopback[IP_V4]};
	struct bed *b = *state;
	int fd = 77, results[1] = {77};

	get_and_check(b, FORWARD_NS, AF_INET, SOCK_STREAM);
	ns_sockets_lost(b->s);
	assert_int_equal(b->sides->get(b->sides, FORWARD_NS, AF_INET, SOCK_STREAM, &fd),
			 -ECONNRESET);
	assert_int_equal(ns_sockets_listen(b->s, &rule, PORT, PORT, results), -ECONNRESET);
	get_and_check(b, FORWARD_HOST, AF_INET, SOCK_STREAM);
	assert_int_equal(fd, 77);
	assert_int_equal(results[0], 77);
}

/* ---- lies ---- */

/* The answer to a request for TCP over IPv4, with this descriptor in the end; closes it. */
static int answer_with(struct bed *b, int fd)
{
	struct agent_message m = {.type = AGENT_SOCKETS, .sockets = {AGENT_TCP_V4, 2, 0}};
	int fds[2] = {socket(AF_INET, SOCK_STREAM, 0), fd}, got = -1, r;

	assert_true(fds[0] >= 0 && fd >= 0);
	b->mute = true;
	assert_int_equal(agent_message_send(b->agent, &m, fds, 2), 0);
	r = b->sides->get(b->sides, FORWARD_NS, AF_INET, SOCK_STREAM, &got);
	if (r == 0)
		close(got);
	close(fds[0]);
	close(fd);
	return r;
}

static void an_honest_answer(void **state)
{
	assert_int_equal(answer_with(*state, socket(AF_INET, SOCK_STREAM, 0)), 0);
}

static void sockets_of_elsewhere_are_refused(void **state)
{
	struct bed *b = *state;

	assert_int_equal(answer_with(b, dup(b->stranger)), -EBADMSG);
}

static void other_things_are_refused(void **state)
{
	struct bed *b = *state;
	const int kinds[][3] = {
	    {AF_INET6, SOCK_STREAM, 0},
	    {AF_INET, SOCK_DGRAM, 0},
	    {AF_INET, SOCK_RAW, IPPROTO_TCP},
	    {AF_INET, SOCK_DGRAM, IPPROTO_ICMP},
	    {AF_INET, SOCK_STREAM, 262 /* IPPROTO_MPTCP */},
	    {AF_UNIX, SOCK_STREAM, 0},
	    {AF_NETLINK, SOCK_RAW, 0},
	};

	netns_write("/proc/sys/net/ipv4/ping_group_range", "0 0");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int fd = socket(kinds[i][0], kinds[i][1], kinds[i][2]);

		if (fd < 0 && errno == EPROTONOSUPPORT)
			continue; /* a kernel without MPTCP */
		assert_int_equal(answer_with(b, fd), -EBADMSG);
	}
	assert_int_equal(answer_with(b, open("/dev/zero", O_RDONLY)), -EBADMSG);
}

static void what_was_not_asked_for_is_refused(void **state)
{
	const struct agent_message unasked[] = {
	    {.type = AGENT_SOCKETS, .sockets = {AGENT_TCP_V4, 0, EMFILE}},
	    {.type = AGENT_LISTENING, .listening = {.serial = 0, .count = 1, .error = {EACCES}}},
	    {.type = AGENT_LISTENING, .listening = {.serial = 1, .count = 1, .error = {EACCES}}},
	};
	const struct agent_message more = {.type = AGENT_SOCKETS, .sockets = {AGENT_TCP_V4, 40, 0}};
	struct bed *b = *state;
	int copies[40], fd = -1;

	for (size_t i = 0; i < sizeof(unasked) / sizeof(unasked[0]); i++) {
		assert_int_equal(agent_message_send(b->agent, &unasked[i], NULL, 0), 0);
		assert_int_equal(hear(b), -EBADMSG);
	}
	for (int i = 0; i < 40; i++)
		copies[i] = b->here;
	assert_int_equal(agent_message_send(b->agent, &more, copies, 40), 0);
	b->mute = true;
	assert_int_equal(b->sides->get(b->sides, FORWARD_NS, AF_INET, SOCK_STREAM, &fd), -EBADMSG);
}

static int listen_answered_with(struct bed *b, int fd, uint32_t count)
{
	const struct rule rule = {.proto = IPPROTO_TCP, .addr = ip_loopback[IP_V4]};
	struct agent_message m = {.type = AGENT_LISTENING,
				  .listening = {.serial = 1, .count = count, .error = {0, EACCES}}};
	int results[1] = {77}, r;

	b->mute = true;
	assert_int_equal(agent_message_send(b->agent, &m, &fd, 1), 0);
	r = ns_sockets_listen(b->s, &rule, PORT, PORT, results);
	close(fd);
	if (r == 0)
		close(results[0]);
	return r;
}

static void a_listener_that_does_not_listen(void **state)
{
	assert_int_equal(listen_answered_with(*state, socket(AF_INET, SOCK_STREAM, 0), 1),
			 -EBADMSG);
}

static void listeners_of_more_ports(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(listen_answered_with(*state, fd, 2), -EBADMSG);
}

static void a_listener_as_it_should_be(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(listen_answered_with(*state, fd, 1), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(every_kind_on_either_side),
	    TEST(flows_one_after_the_other_dont_wait),
	    TEST(a_burst_is_served),
	    TEST(a_silent_agent_is_waited_for_once),
	    TEST(listeners_and_why_not),
	    TEST(no_room_for_descriptors),
	    TEST(an_agent_that_is_gone),
	    TEST(an_honest_answer),
	    TEST(sockets_of_elsewhere_are_refused),
	    TEST(other_things_are_refused),
	    TEST(what_was_not_asked_for_is_refused),
	    TEST(a_listener_that_does_not_listen),
	    TEST(listeners_of_more_ports),
	    TEST(a_listener_as_it_should_be),
	};

	own_net_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
