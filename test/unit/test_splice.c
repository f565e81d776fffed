/* SPDX-License-Identifier: BSD-3-Clause */
/* Spliced TCP over real sockets on the loopback of a network namespace of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/log.h"
#include "test/unit/own_net.h"
#include "test/unit/splice_bed.h"

#define STALL_LIMIT 5000 /* microseconds; a stall is 40 or 200 ms */
#define LENGTH_MAX  70000
#define RANDOM_MORE 500

static const size_t pipe_sizes[] = {4096, 8192, 65536, 1 << 20};
#define PIPE_SIZES (sizeof(pipe_sizes) / sizeof(pipe_sizes[0]))

/* ---- no message is held back */

/* Within 3 bytes of a multiple of 90 % or 100 % of 8 KiB. */
static bool is_critical(unsigned len)
{
	for (int d = -3; d <= 3; d++) {
		int x = (int)len + d;

		if (x > 0 && (x % 8192 == 0 || x * 10 / 73728 != (x * 10 - 10) / 73728))
			return true;
	}
	return false;
}

/* The lengths to try; count in *n. */
static unsigned *lengths(size_t *n)
{
	unsigned *all = calloc(LENGTH_MAX + RANDOM_MORE, sizeof(*all));

	assert_non_null(all);
	*n = 0;
	for (unsigned len = 1; len <= LENGTH_MAX; len++) {
		if (is_critical(len))
			all[(*n)++] = len;
	}
	srandom(1);
	for (int i = 0; i < RANDOM_MORE; i++)
		all[(*n)++] = 1 + (unsigned)random() % LENGTH_MAX;
	assert_true(*n > 600);
	return all;
}

/* Request and response. A stall comes back each time, unlike a turn that other processes take. */
static bool is_prompt(const struct splice_pair *p, size_t len)
{
	for (int try = 0; try < 4; try++) {
		long there = bed_transfer(p->fd[0], p->fd[1], len);
		long back = bed_transfer(p->fd[1], p->fd[0], len);

		if (there < STALL_LIMIT && back < STALL_LIMIT)
			return true;
	}
	return false;
}

static size_t count_stalls(const struct tcp_splice_config *cfg, enum ip_family family, size_t most)
{
	struct splice_bed b;
	struct splice_pair p;
	size_t n, stalls = 0;
	unsigned *all = lengths(&n);

	bed_start(&b, family, cfg);
	p = bed_open(&b);
	for (size_t i = 0; i < n && stalls < most; i++)
		stalls += !is_prompt(&p, all[i]);
	bed_close(&p);
	bed_await_flows(&b, 0);
	bed_stop(&b);
	free(all);
	return stalls;
}

static void no_length_stalls(void **state)
{
	(void)state;
	for (size_t i = 0; i < PIPE_SIZES; i++) {
		struct tcp_splice_config cfg = {.pipe_size = pipe_sizes[i]};

		assert_int_equal(count_stalls(&cfg, IP_V4, 1), 0);
	}
}

static void no_length_stalls_v6(void **state)
{
	struct tcp_splice_config cfg = {.pipe_size = 8192};

	(void)state;
	assert_int_equal(count_stalls(&cfg, IP_V6, 1), 0);
}

/* The tests above can fail: without the push they do. */
static void without_cure_it_stalls(void **state)
{
	struct tcp_splice_config cfg = {.pipe_size = 8192, .no_push = true};

	(void)state;
	assert_int_equal(count_stalls(&cfg, IP_V4, 3), 3);
}

/* ---- cost */

static void small_messages_cost_two_calls(void **state)
{
	static const unsigned count = 1000;
	struct tcp_splice_config cfg = {.pipe_size = 1 << 20};
	struct tcp_splice_counts c;
	struct splice_bed b;
	struct splice_pair p;

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	p = bed_open(&b);
	for (unsigned i = 0; i < count; i++)
		bed_transfer(p.fd[i % 2], p.fd[!(i % 2)], 200);
	c = bed_counts(&b);
	assert_int_equal(c.reads - c.reads_dry, count);
	assert_int_equal(c.reads_dry, 0);
	assert_int_equal(c.writes, count);
	/* Any message that fits the pipe: one more read, which finds nothing, if it is not tiny. */
	for (unsigned i = 0; i < count; i++)
		bed_transfer(p.fd[i % 2], p.fd[!(i % 2)], 8192);
	c = bed_counts(&b);
	assert_int_equal(c.pushes, 0);
	assert_int_equal(c.writes_dry, 0);
	assert_true(c.writes - c.reads + c.reads_dry == 0);
	assert_int_equal(c.pipes_used, 0);
	bed_close(&p);
	bed_await_flows(&b, 0);
	bed_stop(&b);
}

/* ---- bytes, then silence or an end */

static void silence_after_any_length(void **state)
{
	static const size_t sizes[] = {0, 8192};

	(void)state;
	for (int s = 0; s < 2; s++) {
		struct tcp_splice_config cfg = {.pipe_size = sizes[s]};
		struct splice_bed b;
		struct splice_pair p;

		srandom(2);
		bed_start(&b, IP_V4, &cfg);
		p = bed_open(&b);
		for (int i = 0; i < 1000; i++) {
			size_t len = 1 + (size_t)random() % 300000;
			long least = LONG_MAX;

			for (int try = 0; try < 4 && least >= 20000; try++) {
				long t = bed_transfer(p.fd[i % 2], p.fd[!(i % 2)], len);

				least = t < least ? t : least;
			}
			assert_true(least < 20000);
		}
		bed_close(&p);
		bed_await_flows(&b, 0);
		bed_stop(&b);
	}
}

static void await(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	assert_int_equal(poll(&p, 1, 1000), 1);
}

/* The next thing that fd reads is the end, within a second. */
static void expect_end(int fd)
{
	char c;

	await(fd, POLLIN);
	assert_int_equal(recv(fd, &c, 1, 0), 0);
}

static void expect_reset(int fd)
{
	char buf[65536];
	ssize_t n;

	do {
		await(fd, POLLIN);
		n = recv(fd, buf, sizeof(buf), 0);
	} while (n > 0);
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
}

/* One connection: len bytes and an end right after them. Microseconds until the end is there. */
static long send_and_end(struct splice_bed *b, size_t len, int from, bool half)
{
	struct splice_pair p = bed_open(b);
	char *data = calloc(1, LENGTH_MAX), *got = malloc(LENGTH_MAX);
	size_t received = 0;
	long start = bed_clock();

	assert_non_null(data);
	assert_non_null(got);
	assert_int_equal(send(p.fd[from], data, len, 0), len);
	if (half)
		assert_int_equal(shutdown(p.fd[from], SHUT_WR), 0);
	else
		fd_close(&p.fd[from]);
	while (received < len) {
		ssize_t n;

		await(p.fd[!from], POLLIN);
		n = recv(p.fd[!from], got, LENGTH_MAX, 0);
		assert_true(n > 0);
		received += (size_t)n;
	}
	expect_end(p.fd[!from]);
	start = bed_clock() - start;
	assert_int_equal(received, len);
	if (half)
		bed_transfer(p.fd[!from], p.fd[from], len);
	bed_close(&p);
	free(data);
	free(got);
	return start;
}

static void end_right_after_the_last_byte(void **state)
{
	static const unsigned some[] = {1, 7373, 8191, 8192, 8193, 14746, 16384, 65536, 70000};

	(void)state;
	for (size_t s = 0; s < PIPE_SIZES; s++) {
		struct tcp_splice_config cfg = {.pipe_size = pipe_sizes[s]};
		struct splice_bed b;

		bed_start(&b, IP_V4, &cfg);
		for (size_t i = 0; i < sizeof(some) / sizeof(some[0]) * 4; i++) {
			long least = LONG_MAX;

			for (int try = 0; try < 4 && least >= STALL_LIMIT; try++) {
				long t = send_and_end(&b, some[i / 4], i & 1, i & 2);

				least = t < least ? t : least;
			}
			assert_true(least < STALL_LIMIT);
		}
		bed_await_flows(&b, 0);
		bed_stop(&b);
	}
}

/* ---- much data, slow readers */

/* One direction of a connection in bulk; the reader rests now and then. */
struct bulk {
	int from, to;
	size_t len;
	bool rests;
	pthread_t thread[2];
};

static uint8_t bulk_byte(size_t at)
{
	return (uint8_t)(at ^ at >> 8 ^ at >> 16);
}

static void *send_bulk(void *arg)
{
	struct bulk *k = arg;
	uint8_t buf[1 << 16];

	for (size_t at = 0; at < k->len;) {
		size_t n = k->len - at < sizeof(buf) ? k->len - at : sizeof(buf);

		for (size_t i = 0; i < n; i++)
			buf[i] = bulk_byte(at + i);
		for (size_t sent = 0; sent < n;) {
			ssize_t r = send(k->from, buf + sent, n - sent, MSG_NOSIGNAL);

			if (r < 0)
				return k;
			sent += (size_t)r;
		}
		at += n;
	}
	return shutdown(k->from, SHUT_WR) < 0 ? k : NULL;
}

static void *receive_bulk(void *arg)
{
	struct bulk *k = arg;
	uint8_t buf[1 << 16];
	size_t at = 0, rested = 0;
	ssize_t n;

	while ((n = recv(k->to, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] != bulk_byte(at++))
				return k;
		}
		if (k->rests && at - rested > k->len / 16) {
			rested = at;
			poll(NULL, 0, 20);
		}
	}
	return n < 0 || at != k->len ? k : NULL;
}

static void set_blocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
}

static void bulk_both_ways(void **state)
{
	static const size_t sizes[] = {0, 8192, 4096};

	(void)state;
	for (int s = 0; s < 3; s++) {
		struct tcp_splice_config cfg = {.pipe_size = sizes[s]};
		struct splice_bed b;
		struct splice_pair p;
		struct bulk k[2];

		bed_start(&b, IP_V4, &cfg);
		p = bed_open(&b);
		set_blocking(p.fd[0]);
		set_blocking(p.fd[1]);
		for (int i = 0; i < 2; i++) {
			k[i] = (struct bulk){p.fd[i], p.fd[!i], 100 << 20, true, {0}};
			assert_int_equal(pthread_create(&k[i].thread[0], NULL, send_bulk, &k[i]),
					 0);
			assert_int_equal(pthread_create(&k[i].thread[1], NULL, receive_bulk, &k[i]),
					 0);
		}
		for (int i = 0; i < 4; i++) {
			void *status;

			assert_int_equal(pthread_join(k[i / 2].thread[i % 2], &status), 0);
			assert_null(status);
		}
		/* Both had closed: over without the sockets' being closed here. */
		bed_await_flows(&b, 0);
		bed_close(&p);
		bed_stop(&b);
	}
}

/* Fills one way until nobody takes anything any more. */
static size_t fill_up(int fd)
{
	static const char zeros[65536];
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	size_t total = 0;
	ssize_t n;

	while (poll(&p, 1, 200) == 1) {
		n = send(fd, zeros, sizeof(zeros), MSG_DONTWAIT | MSG_NOSIGNAL);
		assert_true(n > 0 || errno == EAGAIN);
		total += n > 0 ? (size_t)n : 0;
	}
	return total;
}

/* A reset at either end gets through although the way there is full, and a stalled connection does
 * not keep the loop busy. */
static void reset_while_stalled(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct splice_bed b;

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	for (int i = 0; i < 4; i++) {
		int from = i & 1, dies = (i >> 1) ^ from;
		struct splice_pair p = bed_open(&b);
		struct tcp_splice_counts before, after;

		fill_up(p.fd[from]);
		before = bed_counts(&b);
		assert_int_equal(before.pipes_used, 1);
		poll(NULL, 0, 50);
		after = bed_counts(&b);
		assert_int_equal(after.reads + after.writes, before.reads + before.writes);
		tcp_socket_reset(&p.fd[dies]);
		bed_await_flows(&b, 0);
		expect_reset(p.fd[!dies]);
		bed_close(&p);
	}
	bed_stop(&b);
}

/* A process that holds one end is killed while data is on its way to the other. */
static void killed_end(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct splice_bed b;

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	for (int dies = 0; dies < 2; dies++) {
		struct splice_pair p = bed_open(&b);
		char buf[65536];
		int status;
		ssize_t n;
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			for (;;) {
				if (send(p.fd[dies], buf, sizeof(buf), 0) < 0)
					poll(NULL, 0, 1);
			}
		}
		fd_close(&p.fd[dies]);
		await(p.fd[!dies], POLLIN);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		do {
			await(p.fd[!dies], POLLIN);
			n = recv(p.fd[!dies], buf, sizeof(buf), 0);
		} while (n > 0);
		fd_close(&p.fd[!dies]);
		bed_await_flows(&b, 0);
	}
	bed_stop(&b);
}

/* ---- opening */

static void refused_inside_is_a_reset(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct splice_bed b;

	(void)state;
	for (enum ip_family family = IP_V4; family < IP_FAMILIES; family++) {
		int client;

		bed_start(&b, family, &cfg);
		assert_int_equal(shutdown(b.listener, SHUT_RDWR), 0);
		client = bed_connect(&b.front);
		expect_reset(client);
		close(client);
		bed_await_flows(&b, 0);
		bed_stop(&b);
	}
}

static void no_socket_is_a_reset(void **state)
{
	struct tcp_splice_config cfg = {.flows_max = 1};
	struct splice_bed b;
	struct splice_pair p;
	int client;

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	b.sides_error = -EMFILE;
	client = bed_connect(&b.front);
	expect_reset(client);
	close(client);
	b.sides_error = 0;
	p = bed_open(&b);
	client = bed_connect(&b.front); /* one too many */
	expect_reset(client);
	close(client);
	bed_transfer(p.fd[0], p.fd[1], 100);
	bed_close(&p);
	bed_await_flows(&b, 0);
	assert_int_equal(b.failed, 2);
	bed_stop(&b);
}

/* Sent at once, and closed before anybody may have looked. */
static void bytes_before_the_connection(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct splice_bed b;
	char buf[16];

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	for (int i = 0; i < 200; i++) {
		int client = bed_connect(&b.front), server;

		assert_int_equal(send(client, "early", 5, 0), 5);
		close(client);
		server = accept4(b.listener, NULL, NULL, SOCK_CLOEXEC);
		assert_true(server >= 0);
		assert_int_equal(recv(server, buf, sizeof(buf), MSG_WAITALL), 5);
		close(server);
	}
	bed_await_flows(&b, 0);
	bed_stop(&b);
}

/* ---- odd data, few descriptors */

static void urgent_data_stays_in_line(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct splice_bed b;
	struct splice_pair p;
	char got[16];
	size_t n = 0;

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	p = bed_open(&b);
	bed_transfer(p.fd[0], p.fd[1], 10);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send(p.fd[0], "ab", 2, 0), 2);
		assert_int_equal(send(p.fd[0], "!", 1, MSG_OOB), 1);
		assert_int_equal(send(p.fd[0], "cd", 2, 0), 2);
		for (n = 0; n < 5;) {
			ssize_t r;

			await(p.fd[1], POLLIN);
			r = recv(p.fd[1], got + n, 5 - n, 0);
			assert_true(r > 0);
			n += (size_t)r;
		}
		assert_memory_equal(got, "ab!cd", 5);
	}
	bed_transfer(p.fd[1], p.fd[0], 100000);
	bed_transfer(p.fd[0], p.fd[1], 100000);
	bed_close(&p);
	bed_await_flows(&b, 0);
	bed_stop(&b);
}

static void no_descriptor_for_a_pipe(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct rlimit old, none;
	struct splice_bed b;
	struct splice_pair p;
	struct pollfd readable;
	char buf[8];

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	p = bed_open(&b);
	assert_int_equal(bed_counts(&b).pipes_idle, 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 1, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(send(p.fd[0], "patience", 8, 0), 8);
	readable = (struct pollfd){.fd = p.fd[1], .events = POLLIN};
	/* poll(2) itself takes no more entries than descriptors are allowed: one. */
	assert_int_equal(poll(&readable, 1, 100), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	await(p.fd[1], POLLIN);
	assert_int_equal(recv(p.fd[1], buf, sizeof(buf), 0), 8);
	bed_close(&p);
	bed_await_flows(&b, 0);
	bed_stop(&b);
}

/* ---- many idle ones */

#define MANY 4500

/* The client's and server's sockets of all connections, in a process of their own: descriptors are
 * limited. Then each is used once. */
static void use_many(struct splice_bed *b, int ready, int go)
{
	struct splice_pair *p = calloc(MANY, sizeof(*p));
	int slow = 0;
	char c = 'r';

	assert_non_null(p);
	for (int i = 0; i < MANY; i++)
		p[i] = bed_open(b);
	assert_int_equal(write(ready, &c, 1), 1);
	assert_int_equal(read(go, &c, 1), 1);
	for (int i = 0; i < MANY; i++)
		slow += bed_transfer(p[i].fd[0], p[i].fd[1], 8) +
			    bed_transfer(p[i].fd[1], p[i].fd[0], 8) >=
			STALL_LIMIT;
	assert_true(slow < MANY / 100); /* turns that other processes took */
	_exit(0);
}

static void idle_connections_are_cheap(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct rlimit limit;
	struct splice_bed b;
	int ready[2], go[2], files, status;
	size_t memory;
	pid_t child;
	char c;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	bed_start(&b, IP_V4, &cfg);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	files = own_net_open_files();
	memory = mallinfo2().uordblks;
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		use_many(&b, ready[1], go[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	bed_await_flows(&b, MANY);
	assert_int_equal(own_net_open_files(), files + 2 * MANY);
	assert_int_equal(bed_counts(&b).pipes_used + b.counts.pipes_idle, 0);
	assert_true(mallinfo2().uordblks - memory < MANY * 1024);
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	bed_await_flows(&b, 0);
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
	bed_stop(&b);
}

static void unused_pipes_are_closed(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct splice_bed b;
	struct splice_pair p;
	long start;

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	p = bed_open(&b);
	bed_transfer(p.fd[0], p.fd[1], 100000);
	assert_int_equal(bed_counts(&b).pipes_idle, 1);
	for (start = bed_clock(); bed_counts(&b).pipes_idle;) {
		assert_true(bed_clock() - start < 3000000);
		poll(NULL, 0, 10);
	}
	bed_close(&p);
	bed_await_flows(&b, 0);
	bed_stop(&b);
}

/* The end of the whole: what processes sent before they ended is handed over in order; who is still
 * there hears a reset. */
static void the_end_hands_over(void **state)
{
	struct tcp_splice_config cfg = {0};
	struct splice_bed b;
	struct splice_pair ended, idle;
	char buf[8];

	(void)state;
	bed_start(&b, IP_V4, &cfg);
	ended = bed_open(&b);
	idle = bed_open(&b);
	bed_await_flows(&b, 2);
	b.files += 3; /* the test's own, still open at the end */
	bed_halt(&b);
	assert_int_equal(send(ended.fd[1], "result", 6, 0), 6);
	fd_close(&ended.fd[1]);
	assert_int_equal(shutdown(ended.fd[0], SHUT_WR), 0);
	bed_stop(&b);
	await(ended.fd[0], POLLIN);
	assert_int_equal(recv(ended.fd[0], buf, sizeof(buf), 0), 6);
	expect_end(ended.fd[0]);
	expect_reset(idle.fd[0]);
	expect_reset(idle.fd[1]);
	bed_close(&ended);
	bed_close(&idle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_length_stalls),
	    cmocka_unit_test(no_length_stalls_v6),
	    cmocka_unit_test(without_cure_it_stalls),
	    cmocka_unit_test(small_messages_cost_two_calls),
	    cmocka_unit_test(silence_after_any_length),
	    cmocka_unit_test(end_right_after_the_last_byte),
	    cmocka_unit_test(bulk_both_ways),
	    cmocka_unit_test(reset_while_stalled),
	    cmocka_unit_test(killed_end),
	    cmocka_unit_test(refused_inside_is_a_reset),
	    cmocka_unit_test(no_socket_is_a_reset),
	    cmocka_unit_test(bytes_before_the_connection),
	    cmocka_unit_test(urgent_data_stays_in_line),
	    cmocka_unit_test(no_descriptor_for_a_pipe),
	    cmocka_unit_test(idle_connections_are_cheap),
	    cmocka_unit_test(unused_pipes_are_closed),
	    cmocka_unit_test(the_end_hands_over),
	};

	signal(SIGPIPE, SIG_IGN);
	log_set_threshold(LOG_LEVEL_ERROR); /* what goes wrong does so on purpose */
	own_net_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
