/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine and agent: what each believes of the other. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static int exchange(struct pair *p, const struct agent_message *m, int fd,
		    enum agent_direction direction, struct agent_message *got, int *got_fd)
{
	assert_int_equal(agent_message_send(p->end[0], m, fd), 0);
	return agent_message_receive(p->end[1], direction, got, got_fd);
}

static void ready_carries_values_and_descriptor(void **state)
{
	const struct tap_features features = {.csum = true, .udp_gso = true};
	const struct netconf_result result = {.mac = {{2, 3, 4, 5, 6, 7}},
					      .link_local = {{0xfe, 0x80, [15] = 9}},
					      .family_unsupported = {[IP_V6] = true}};
	struct tap_features f;
	struct netconf_result r;
	struct agent_message m, got;
	int fd = -1, before = lowest_free();
	char byte = 0;
	int pipe_fds[2];

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	agent_ready_pack(&m, &features, &result);
	assert_int_equal(exchange(*state, &m, pipe_fds[1], AGENT_TO_ENGINE, &got, &fd), 0);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
	agent_ready_unpack(&got, &f, &r);
	assert_true(f.csum && !f.tcp_gso && f.udp_gso);
	assert_true(mac_equal(&r.mac, &result.mac));
	assert_true(ip_equal(&r.link_local, &result.link_local));
	assert_true(!r.family_unsupported[IP_V4] && r.family_unsupported[IP_V6]);
	close(fd);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	assert_int_equal(lowest_free(), before);
}

static void plain_messages_arrive(void **state)
{
	struct agent_message got, m = {.type = AGENT_EXITED, .exited = {143, 1}};
	int fd = 0;

	assert_int_equal(exchange(*state, &m, -1, AGENT_TO_ENGINE, &got, &fd), 0);
	assert_int_equal(fd, -1);
	assert_int_equal(got.exited.status, 143);
	assert_int_equal(got.exited.has_terminal, 1);
	m = (struct agent_message){.type = AGENT_SIGNAL, .signal = {SIGHUP, 1}};
	assert_int_equal(exchange(*state, &m, -1, ENGINE_TO_AGENT, &got, &fd), 0);
	assert_int_equal(got.signal.number, SIGHUP);
	m = (struct agent_message){.type = AGENT_RELEASE};
	assert_int_equal(exchange(*state, &m, -1, ENGINE_TO_AGENT, &got, &fd), 0);
	assert_int_equal(got.type, AGENT_RELEASE);
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
	    /* In the wrong direction. */
	    {{.type = AGENT_EXITED}, ENGINE_TO_AGENT},
	    {{.type = AGENT_RELEASE}, AGENT_TO_ENGINE},
	    {{.type = AGENT_SIGNAL, .signal = {SIGTERM, 0}}, AGENT_TO_ENGINE},
	};
	struct agent_message got;
	int fd = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(exchange(*state, &bad[i].m, -1, bad[i].direction, &got, &fd),
				 -EBADMSG);
		assert_int_equal(fd, 77);
	}
}

static void ready_values_out_of_range_are_refused(void **state)
{
	struct agent_message got, m = {.type = AGENT_READY, .ready = {.features = 8}};
	int fd = 77, before = lowest_free();

	assert_int_equal(exchange(*state, &m, 0, AGENT_TO_ENGINE, &got, &fd), -EBADMSG);
	m.ready.features = 0;
	m.ready.unsupported = 1u << IP_FAMILIES;
	assert_int_equal(exchange(*state, &m, 0, AGENT_TO_ENGINE, &got, &fd), -EBADMSG);
	assert_int_equal(fd, 77);
	assert_int_equal(lowest_free(), before);
}

static void wrong_number_of_descriptors_is_refused_and_closed(void **state)
{
	struct pair *p = *state;
	const struct agent_message ready = {.type = AGENT_READY}, exited = {.type = AGENT_EXITED};
	char control[CMSG_SPACE(3 * sizeof(int))] = {0};
	struct iovec iov = {(void *)(uintptr_t)&ready, sizeof(ready)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	struct agent_message got;
	int fd = 77, before = lowest_free();

	assert_int_equal(exchange(p, &ready, -1, AGENT_TO_ENGINE, &got, &fd), -EBADMSG);
	assert_int_equal(exchange(p, &exited, 0, AGENT_TO_ENGINE, &got, &fd), -EBADMSG);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(3 * sizeof(int));
	memcpy(CMSG_DATA(c), (const int[]){0, 1, 2}, 3 * sizeof(int));
	assert_int_equal(sendmsg(p->end[0], &msg, 0), sizeof(ready));
	assert_int_equal(agent_message_receive(p->end[1], AGENT_TO_ENGINE, &got, &fd), -EBADMSG);
	assert_int_equal(fd, 77);
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
	int fd = -1;

	for (size_t len = 1; len < sizeof(big.m); len++) {
		assert_int_equal(send(p->end[0], &big, len, 0), len);
		assert_int_equal(agent_message_receive(p->end[1], ENGINE_TO_AGENT, &got, &fd),
				 -EBADMSG);
	}
	assert_int_equal(send(p->end[0], &big, sizeof(big.m) + 1, 0), sizeof(big.m) + 1);
	assert_int_equal(agent_message_receive(p->end[1], ENGINE_TO_AGENT, &got, &fd), -EBADMSG);
}

static void end_and_emptiness_differ(void **state)
{
	struct pair *p = *state;
	const struct agent_message m = {.type = AGENT_RELEASE};
	struct agent_message got;
	int fd = -1;

	assert_int_equal(agent_message_receive(p->end[1], ENGINE_TO_AGENT, &got, &fd), -EAGAIN);
	fd_close(&p->end[0]);
	assert_int_equal(agent_message_receive(p->end[1], ENGINE_TO_AGENT, &got, &fd), -ECONNRESET);
	assert_int_equal(agent_message_send(p->end[1], &m, -1), -EPIPE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(ready_carries_values_and_descriptor),
	    TEST(plain_messages_arrive),
	    TEST(values_out_of_range_are_refused),
	    TEST(ready_values_out_of_range_are_refused),
	    TEST(wrong_number_of_descriptors_is_refused_and_closed),
	    TEST(wrong_length_is_refused),
	    TEST(end_and_emptiness_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
