/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include "test/unit/own_net.h"
#include "test/unit/splice_bed.h"

#define WAIT_MOST 5000000 /* microseconds */

long bed_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int get_socket(struct side_sockets *s, enum forward_side side, int family, int type, int *fd)
{
	struct splice_bed *b = container_of(s, struct splice_bed, sides);

	(void)side;
	if (b->sides_error)
		return b->sides_error;
	*fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return *fd < 0 ? -errno : 0;
}

static void on_accept(struct loop_source *src, uint32_t events, usec_t now)
{
	struct splice_bed *b = container_of(src, struct splice_bed, accepting);
	struct forward_decision d = {
	    .verdict = FORWARD_SPLICE, .src.addr = ip_any[b->family], .dst = b->back};
	int fd = accept4(src->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)events;
	(void)now;
	if (fd >= 0 && tcp_splice_start(b->splice, fd, FORWARD_NS, &d) < 0)
		b->failed++;
}

static void on_command(struct loop_source *src, uint32_t events, usec_t now)
{
	struct splice_bed *b = container_of(src, struct splice_bed, command);
	char c = 0;

	(void)events;
	(void)now;
	if (read(src->fd, &c, 1) != 1 || c == 'q') {
		loop_stop(b->loop, 0);
		return;
	}
	tcp_splice_count(b->splice, &b->counts);
	if (write(src->fd, &c, 1) != 1)
		abort();
}

static void *run_loop(void *arg)
{
	struct splice_bed *b = arg;

	return loop_run(b->loop) < 0 ? b : NULL;
}

static int listen_on(enum ip_family family, struct endpoint *at)
{
	struct sockaddr_storage sa;
	struct endpoint any = {ip_loopback[family], 0};
	socklen_t len = endpoint_to_sockaddr(&any, 0, &sa);
	int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(fd, 4096), 0);
	len = sizeof(sa);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	assert_int_equal(endpoint_from_sockaddr(&sa, at), 0);
	return fd;
}

void bed_start(struct splice_bed *b, enum ip_family family, const struct tcp_splice_config *cfg)
{
	int pair[2];

	*b = (struct splice_bed){.cfg = *cfg, .family = family};
	b->files = own_net_open_files();
	if (!b->cfg.flows_max)
		b->cfg.flows_max = 100000;
	b->sides.get = get_socket;
	b->listener = listen_on(family, &b->back);
	b->accepting = (struct loop_source){.fd = listen_on(family, &b->front), .ready = on_accept};
	assert_int_equal(fcntl(b->accepting.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	b->command_fd = pair[0];
	b->command = (struct loop_source){.fd = pair[1], .ready = on_command};
	assert_int_equal(loop_new(&b->loop), 0);
	assert_int_equal(tcp_splice_new(b->loop, &b->sides, &b->cfg, &b->splice), 0);
	assert_int_equal(loop_add(b->loop, &b->accepting, EPOLLIN), 0);
	assert_int_equal(loop_add(b->loop, &b->command, EPOLLIN), 0);
	assert_int_equal(pthread_create(&b->thread, NULL, run_loop, b), 0);
}

void bed_halt(struct splice_bed *b)
{
	void *status;

	assert_int_equal(write(b->command_fd, "q", 1), 1);
	assert_int_equal(pthread_join(b->thread, &status), 0);
	assert_null(status);
	b->halted = true;
}

void bed_stop(struct splice_bed *b)
{
	if (!b->halted)
		bed_halt(b);
	tcp_splice_free(b->splice);
	assert_int_equal(timers_next(loop_timers(b->loop)), USEC_NEVER);
	loop_free(b->loop);
	close(b->command.fd);
	close(b->command_fd);
	close(b->accepting.fd);
	close(b->listener);
	assert_int_equal(own_net_open_files(), b->files);
}

struct tcp_splice_counts bed_counts(struct splice_bed *b)
{
	char c;

	assert_int_equal(write(b->command_fd, "c", 1), 1);
	assert_int_equal(read(b->command_fd, &c, 1), 1);
	return b->counts;
}

int bed_connect(const struct endpoint *to)
{
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(to, 0, &sa);
	int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

struct splice_pair bed_open(struct splice_bed *b)
{
	struct splice_pair p = {.fd = {bed_connect(&b->front)}};

	p.fd[1] = accept4(b->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(p.fd[1] >= 0);
	return p;
}

void bed_close(struct splice_pair *p)
{
	fd_close(&p->fd[0]);
	fd_close(&p->fd[1]);
}

void bed_await_flows(struct splice_bed *b, size_t n)
{
	long start = bed_clock();

	while (bed_counts(b).flows != n) {
		assert_true(bed_clock() - start < 1000000);
		poll(NULL, 0, 1);
	}
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static size_t send_part(int fd, size_t at, size_t len)
{
	uint8_t buf[65536];
	size_t n = len - at < sizeof(buf) ? len - at : sizeof(buf);
	ssize_t r;

	for (size_t i = 0; i < n; i++)
		buf[i] = pattern(at + i);
	r = send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	assert_true(r > 0 || (r < 0 && errno == EAGAIN));
	return r > 0 ? (size_t)r : 0;
}

static size_t receive_part(int fd, size_t at, size_t len)
{
	uint8_t buf[65536];
	size_t n = len - at < sizeof(buf) ? len - at : sizeof(buf);
	ssize_t r = recv(fd, buf, n, MSG_DONTWAIT);

	assert_true(r > 0 || (r < 0 && errno == EAGAIN));
	for (ssize_t i = 0; i < r; i++)
		assert_int_equal(buf[i], pattern(at + (size_t)i));
	return r > 0 ? (size_t)r : 0;
}

long bed_transfer(int from, int to, size_t len)
{
	size_t sent = 0, received = 0;
	long start = bed_clock();

	while (received < len) {
		struct pollfd p[] = {{.fd = to, .events = POLLIN},
				     {.fd = from, .events = sent < len ? POLLOUT : 0}};

		if (sent < len)
			sent += send_part(from, sent, len);
		assert_true(bed_clock() - start < WAIT_MOST);
		assert_true(poll(p, 2, 1000) >= 0);
		received += receive_part(to, received, len);
	}
	return bed_clock() - start;
}
