/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine and agent: what each believes of the other. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "pasta/agent_message.h"

struct pair {
	int end[2];
};

static int set_up(void **state)
{
	static struct pair p;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p.end) < 0)
		return -1;
	*state = &p;
	return 0;
}

static int tear_down(void **state)
{
	struct pair *p = *state;

	fd_close(&p->end[0]);
	fd_close(&p->end[1]);
	return 0;
}

/* The number a new descriptor would get: it tells whether any was left open. */
static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* With count descriptors, all of them copies of one. */
static int exchange(struct pair *p, const struct agent_message *m, unsigned count,
		    enum agent_direction direction, struct agent_message *got,
		    struct agent_fds *fds)
{
	int copies[AGENT_FDS_MAX] = {0};

	for (unsigned i = 0; i < count; i++)
		copies[i] = STDERR_FILENO;
	assert_int_equal(agent_message_send(p->end[0], m, copies, count), 0);
	return agent_message_receive(p->end[1], direction, false, got, fds);
}

static void ready_carries_values_and_descriptors(void **state)
{
	const struct tap_features features = {.csum = true, .udp_gso = true};
	const struct netconf_result result = {.mac = {{2, 3, 4, 5, 6, 7}},
					      .link_local = {{0xfe, 0x80, [15] = 9}},
					      .family_unsupported = {[IP_V6] = true}};
	struct pair *p = *state;
	struct tap_features f;
	struct netconf_result r;
	struct agent_message m, got;
	struct agent_fds fds;
	int before = lowest_free();
	char byte = 0;
	int pipe_fds[2];

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	agent_ready_pack(&m, &features, &result);
	m.ready.parts = AGENT_PART_TAP;
	assert_int_equal(agent_message_send(p->end[0], &m, pipe_fds, 2), 0);
	assert_int_equal(agent_message_receive(p->end[1], AGENT_TO_ENGINE, true, &got, &fds), 0);
	assert_int_equal(fds.count, 2);
	assert_int_equal(fcntl(fds.fd[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fds.fd[1], F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(fds.fd[1], "x", 1), 1);
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
	agent_ready_unpack(&got, &f, &r);
	assert_true(f.csum && !f.tcp_gso && f.udp_gso);
	assert_true(mac_equal(&r.mac, &result.mac));
	assert_true(ip_equal(&r.link_local, &result.link_local));
	assert_true(!r.family_unsupported[IP_V4] && r.family_unsupported[IP_V6]);
	agent_fds_close(&fds);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	assert_int_equal(lowest_free(), before);
}

static void plain_messages_arrive(void **state)
{
	struct agent_message got, m = {.type = AGENT_EXITED, .exited = {143, 1}};
	struct agent_fds fds = {.count = 7};

	assert_int_equal(exchange(*state, &m, 0, AGENT_TO_ENGINE, &got, &fds), 0);
	assert_int_equal(fds.count, 0);
	assert_int_equal(got.exited.status, 143);
	assert_int_equal(got.exited.has_terminal, 1);
	m = (struct agent_message){.type = AGENT_SIGNAL, .signal = {SIGHUP, 1}};
	assert_int_equal(exchange(*state, &m, 0, ENGINE_TO_AGENT, &got, &fds), 0);
	assert_int_equal(got.signal.number, SIGHUP);
	m = (struct agent_message){.type = AGENT_RELEASE};
	assert_int_equal(exchange(*state, &m, 0, ENGINE_TO_AGENT, &got, &fds), 0);
	assert_int_equal(got.type, AGENT_RELEASE);
	m = (struct agent_message){.type = AGENT_MAKE, .sockets = {AGENT_UDP_V6, 9, 0}};
	assert_int_equal(exchange(*state, &m, 0, ENGINE_TO_AGENT, &got, &fds), 0);
	assert_int_equal(got.sockets.kind, AGENT_UDP_V6);
	assert_int_equal(got.sockets.count, 9);
}

static void listen_carries_a_rule(void **state)
{
	const struct rule rule = {.proto = IPPROTO_UDP,
				  .dual_stack = true,
				  .addr = {{0x20, 1, [15] = 4}},
				  .ifname = "lo",
				  .first = 100,
				  .last = 900,
				  .target_first = 5,
				  .weak = true};
	struct agent_message got, m;
	struct agent_fds fds;
	struct rule r;

	agent_listen_pack(&m, &rule, 200, 327);
	m.listen.serial = 5;
	assert_int_equal(exchange(*state, &m, 0, ENGINE_TO_AGENT, &got, &fds), 0);
	assert_int_equal(got.listen.serial, 5);
	agent_listen_unpack(&got, &r);
	assert_int_equal(r.proto, IPPROTO_UDP);
	assert_true(r.dual_stack);
	assert_true(ip_equal(&r.addr, &rule.addr));
	assert_string_equal(r.ifname, "lo");
	assert_int_equal(r.first, 200);
	assert_int_equal(r.last, 327);
}

/* As many as there may be, in order. */
static void sockets_come_all(void **state)
{
	struct pair *p = *state;
	struct agent_message got,
	    m = {.type = AGENT_SOCKETS, .sockets = {AGENT_TCP_V4, AGENT_FDS_MAX, 0}};
	struct agent_fds fds;
	int before = lowest_free(), ends[AGENT_FDS_MAX][2], send_end[AGENT_FDS_MAX];

	for (int i = 0; i < AGENT_FDS_MAX; i++) {
		assert_int_equal(pipe2(ends[i], O_CLOEXEC), 0);
		send_end[i] = ends[i][1];
	}
	assert_int_equal(agent_message_send(p->end[0], &m, send_end, AGENT_FDS_MAX), 0);
	assert_int_equal(agent_message_receive(p->end[1], AGENT_TO_ENGINE, false, &got, &fds), 0);
	assert_int_equal(fds.count, AGENT_FDS_MAX);
	for (int i = 0; i < AGENT_FDS_MAX; i++) {
		char byte = 0;

		assert_int_equal(write(fds.fd[i], "x", 1), 1);
		assert_int_equal(read(ends[i][0], &byte, 1), 1);
		close(ends[i][0]);
		close(ends[i][1]);
	}
	agent_fds_close(&fds);
	assert_int_equal(lowest_free(), before);
	assert_int_equal(agent_message_send(p->end[0], &m, send_end, AGENT_FDS_MAX + 1), -EINVAL);
}

static void values_out_of_range_are_refused(void **state)
{
	const struct {
		struct agent_message m;
		enum agent_direction direction;
	} bad[] = {
	    {{.type = 0}, AGENT_TO_ENGINE},
	    {{.type = AGENT_TYPES}, AGENT_TO_ENGINE},
	    {{.type = UINT32_MAX}, ENGINE_TO_AGENT},
	    {{.type = AGENT_EXITED, .exited = {256, 0}}, AGENT_TO_ENGINE},
	    {{.type = AGENT_EXITED, .exited = {0, 2}}, AGENT_TO_ENGINE},
	    {{.type = AGENT_SIGNAL, .signal = {SIGKILL, 0}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_SIGNAL, .signal = {SIGSTOP, 0}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_SIGNAL, .signal = {0, 0}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_SIGNAL, .signal = {SIGTERM, 2}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_MAKE, .sockets = {AGENT_SOCKET_KINDS, 1, 0}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_MAKE, .sockets = {0, 0, 0}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_MAKE, .sockets = {0, AGENT_FDS_MAX + 1, 0}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_MAKE, .sockets = {0, 1, EMFILE}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_SOCKETS, .sockets = {AGENT_SOCKET_KINDS, 0, 0}}, AGENT_TO_ENGINE},
	    {{.type = AGENT_SOCKETS, .sockets = {0, 0, 4096}}, AGENT_TO_ENGINE},
	    {{.type = AGENT_LISTENING, .listening = {0, AGENT_FDS_MAX + 1, {0}}}, AGENT_TO_ENGINE},
	    {{.type = AGENT_LISTENING, .listening = {0, 1, {4096}}}, AGENT_TO_ENGINE},
	    /* In the wrong direction. */
	    {{.type = AGENT_EXITED}, ENGINE_TO_AGENT},
	    {{.type = AGENT_RELEASE}, AGENT_TO_ENGINE},
	    {{.type = AGENT_SIGNAL, .signal = {SIGTERM, 0}}, AGENT_TO_ENGINE},
	    {{.type = AGENT_MAKE, .sockets = {0, 1, 0}}, AGENT_TO_ENGINE},
	    {{.type = AGENT_SOCKETS, .sockets = {0, 0, EMFILE}}, ENGINE_TO_AGENT},
	    {{.type = AGENT_LISTENING, .listening = {0, 1, {EACCES}}}, ENGINE_TO_AGENT},
	};
	struct agent_message got;
	struct agent_fds fds;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(exchange(*state, &bad[i].m, 0, bad[i].direction, &got, &fds),
				 -EBADMSG);
		assert_int_equal(fds.count, 0);
	}
}

static void listen_values_out_of_range_are_refused(void **state)
{
	const struct rule rule = {.proto = IPPROTO_TCP};
	struct agent_message good, bad, got;
	struct agent_fds fds;

	agent_listen_pack(&good, &rule, 1000, 1000 + AGENT_FDS_MAX - 1);
	assert_int_equal(exchange(*state, &good, 0, ENGINE_TO_AGENT, &got, &fds), 0);
	for (int i = 0; i < 6; i++) {
		bad = good;
		if (i == 0)
			bad.listen.last = 1000 + AGENT_FDS_MAX;
		else if (i == 1)
			bad.listen.last = 999;
		else if (i == 2)
			bad.listen.first = 0, bad.listen.last = 1;
		else if (i == 3)
			bad.listen.proto = IPPROTO_ICMP;
		else if (i == 4)
			bad.listen.dual_stack = 2;
		else
			memset(bad.listen.ifname, 'x', sizeof(bad.listen.ifname));
		assert_int_equal(exchange(*state, &bad, 0, ENGINE_TO_AGENT, &got, &fds), -EBADMSG);
	}
}

static void ready_values_out_of_range_are_refused(void **state)
{
	struct agent_message got,
	    m = {.type = AGENT_READY, .ready = {.features = 8, .parts = AGENT_PART_TAP}};
	struct agent_fds fds;
	int before = lowest_free();

	assert_int_equal(exchange(*state, &m, 2, AGENT_TO_ENGINE, &got, &fds), -EBADMSG);
	m.ready.features = 0;
	m.ready.unsupported = 1u << IP_FAMILIES;
	assert_int_equal(exchange(*state, &m, 2, AGENT_TO_ENGINE, &got, &fds), -EBADMSG);
	m.ready.unsupported = 0;
	m.ready.parts = AGENT_PART_STAT(IP_FAMILIES);
	assert_int_equal(exchange(*state, &m, 3, AGENT_TO_ENGINE, &got, &fds), -EBADMSG);
	assert_int_equal(lowest_free(), before);
}

static void wrong_number_of_descriptors_is_refused_and_closed(void **state)
{
	const struct {
		struct agent_message m;
		unsigned fds;
	} bad[] = {
	    {{.type = AGENT_READY}, 0},
	    {{.type = AGENT_READY}, 2},
	    {{.type = AGENT_READY}, 3},
	    {{.type = AGENT_READY, .ready = {.parts = AGENT_PART_TAP | AGENT_PART_STAT(IP_V6)}}, 2},
	    {{.type = AGENT_EXITED}, 1},
	    {{.type = AGENT_SOCKETS, .sockets = {0, 2, 0}}, 1},
	    {{.type = AGENT_SOCKETS, .sockets = {0, 2, 0}}, 3},
	    {{.type = AGENT_SOCKETS, .sockets = {0, 2, 0}}, AGENT_FDS_MAX},
	    {{.type = AGENT_LISTENING, .listening = {0, 3, {0, EACCES, 0}}}, 3},
	    {{.type = AGENT_LISTENING, .listening = {0, 3, {0, EACCES, 0}}}, 1},
	};
	struct agent_message got;
	struct agent_fds fds;
	int before = lowest_free();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(
		    exchange(*state, &bad[i].m, bad[i].fds, AGENT_TO_ENGINE, &got, &fds), -EBADMSG);
		assert_int_equal(fds.count, 0);
		assert_int_equal(lowest_free(), before);
	}
}

/* More than any message carries: also those beyond what is kept are closed. */
static void a_flood_of_descriptors_is_closed(void **state)
{
	struct pair *p = *state;
	const struct agent_message exited = {.type = AGENT_EXITED};
	char control[CMSG_SPACE(253 * sizeof(int))] = {0};
	struct iovec iov = {(void *)(uintptr_t)&exited, sizeof(exited)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	struct agent_message got;
	struct agent_fds fds;
	int before = lowest_free(), copies[253];

	for (int i = 0; i < 253; i++)
		copies[i] = STDERR_FILENO;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(copies));
	memcpy(CMSG_DATA(c), copies, sizeof(copies));
	assert_int_equal(sendmsg(p->end[0], &msg, 0), sizeof(exited));
	assert_int_equal(agent_message_receive(p->end[1], AGENT_TO_ENGINE, false, &got, &fds),
			 -EBADMSG);
	assert_int_equal(lowest_free(), before);
}

/* A process that may have no more descriptors learns that an answer came, though without them. */
static void no_room_for_descriptors(void **state)
{
	struct agent_message got, m = {.type = AGENT_SOCKETS, .sockets = {AGENT_TCP_V6, 8, 0}};
	struct agent_fds fds;
	struct rlimit limit, low;
	int before = lowest_free();

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)before + 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(exchange(*state, &m, 8, AGENT_TO_ENGINE, &got, &fds), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(got.sockets.kind, AGENT_TCP_V6);
	assert_int_equal(fds.count, 0);
	assert_int_equal(lowest_free(), before);
}

static void wrong_length_is_refused(void **state)
{
	struct pair *p = *state;
	struct {
		struct agent_message m;
		char more;
	} big = {.m = {.type = AGENT_RELEASE}};
	struct agent_message got;
	struct agent_fds fds;

	for (size_t len = 1; len < sizeof(big.m); len++) {
		assert_int_equal(send(p->end[0], &big, len, 0), len);
		assert_int_equal(
		    agent_message_receive(p->end[1], ENGINE_TO_AGENT, false, &got, &fds), -EBADMSG);
	}
	assert_int_equal(send(p->end[0], &big, sizeof(big.m) + 1, 0), sizeof(big.m) + 1);
	assert_int_equal(agent_message_receive(p->end[1], ENGINE_TO_AGENT, false, &got, &fds),
			 -EBADMSG);
}

static void end_and_emptiness_differ(void **state)
{
	struct pair *p = *state;
	const struct agent_message m = {.type = AGENT_RELEASE};
	struct agent_message got;
	struct agent_fds fds;

	assert_int_equal(agent_message_receive(p->end[1], ENGINE_TO_AGENT, false, &got, &fds),
			 -EAGAIN);
	fd_close(&p->end[0]);
	assert_int_equal(agent_message_receive(p->end[1], ENGINE_TO_AGENT, false, &got, &fds),
			 -ECONNRESET);
	assert_int_equal(agent_message_send(p->end[1], &m, NULL, 0), -EPIPE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(ready_carries_values_and_descriptors),
	    TEST(plain_messages_arrive),
	    TEST(listen_carries_a_rule),
	    TEST(sockets_come_all),
	    TEST(values_out_of_range_are_refused),
	    TEST(listen_values_out_of_range_are_refused),
	    TEST(ready_values_out_of_range_are_refused),
	    TEST(wrong_number_of_descriptors_is_refused_and_closed),
	    TEST(a_flood_of_descriptors_is_closed),
	    TEST(no_room_for_descriptors),
	    TEST(wrong_length_is_refused),
	    TEST(end_and_emptiness_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
