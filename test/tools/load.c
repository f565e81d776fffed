/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of the bench: as much as goes for a time; figures as key=value. */
#include "nettool.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLOOD_BATCH 32

static char buffer[1 << 20];

static int must_dial(const char *host, const char *port, int type)
{
	int fd = dial(host, (unsigned)atoi(port), type);

	if (fd < 0)
		die("connect");
	return fd;
}

/* Bytes in how much time, as the receiving side saw it. */
static struct counted stream(const char *host, const char *port, double seconds, bool up)
{
	struct request q = {.op = up ? OP_SINK : OP_SOURCE};
	int fd = must_dial(host, port, SOCK_STREAM);
	struct counted c = {0};
	double start = now();
	ssize_t r;

	if (!write_all(fd, &q, sizeof(q)))
		die("write");
	if (up) {
		while (now() - start < seconds && write_all(fd, buffer, 128 << 10))
			;
		shutdown(fd, SHUT_WR);
		if (!read_all(fd, &c, sizeof(c)))
			die("no count");
		return c;
	}
	while (now() - start < seconds && (r = read(fd, buffer, sizeof(buffer))) > 0)
		c.bytes += (uint64_t)r;
	c.seconds = now() - start;
	return c;
}

/* HOST PORT up|down SECONDS STREAMS */
int mode_stream(int argc, char **argv)
{
	double gbit = 0;
	uint64_t bytes = 0;
	struct counted c;
	int streams, pipes[2];

	if (argc != 5 || pipe(pipes))
		return 2;
	streams = atoi(argv[4]);
	for (int i = 0; i < streams; i++) {
		if (fork())
			continue;
		c = stream(argv[0], argv[1], atof(argv[3]), !strcmp(argv[2], "up"));
		_exit(!write_all(pipes[1], &c, sizeof(c)));
	}
	close(pipes[1]);
	while (read_all(pipes[0], &c, sizeof(c))) {
		gbit += (double)c.bytes * 8 / c.seconds / 1e9;
		bytes += c.bytes;
	}
	while (wait(NULL) > 0)
		;
	printf("gbit=%.3f bytes=%llu\n", gbit, (unsigned long long)bytes);
	return !bytes;
}

/* Connections that the server closes first, so that no TIME-WAIT is on this side and ports don't
 * run out. */
static uint64_t connect_loop(const char *host, const char *port, double seconds)
{
	double end = now() + seconds;
	uint64_t n = 0;

	while (now() < end) {
		int fd = dial(host, (unsigned)atoi(port), SOCK_STREAM);
		char byte = OP_SERVER_CLOSES;

		if (fd < 0)
			die("connect");
		if (!write_all(fd, &byte, 1) || !read_all(fd, &byte, 1) || read(fd, &byte, 1))
			die("exchange");
		close(fd);
		n++;
	}
	return n;
}

/* HOST PORT SECONDS CLIENTS: connect, request, answer, close. */
int mode_rate(int argc, char **argv)
{
	uint64_t n, total = 0;
	int pipes[2], failed = 0, status;

	if (argc != 4 || pipe(pipes))
		return 2;
	for (int i = 0; i < atoi(argv[3]); i++) {
		if (fork())
			continue;
		n = connect_loop(argv[0], argv[1], atof(argv[2]));
		_exit(!write_all(pipes[1], &n, sizeof(n)));
	}
	close(pipes[1]);
	while (read_all(pipes[0], &n, sizeof(n)))
		total += n;
	while (wait(&status) > 0)
		failed += status != 0;
	printf("rate=%.0f failed=%d\n", (double)total / atof(argv[2]), failed);
	return failed;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* HOST PORT tcp|udp COUNT SIZE: microseconds for there and back, median and 99th of 100. */
int mode_rr(int argc, char **argv)
{
	struct request q = {.op = OP_REPLY};
	bool udp;
	int fd, count, lost = 0;
	double *t;

	if (argc != 5)
		return 2;
	udp = !strcmp(argv[2], "udp");
	count = atoi(argv[3]);
	q.size = (uint32_t)atoi(argv[4]);
	t = calloc((size_t)count, sizeof(*t));
	fd = must_dial(argv[0], argv[1], udp ? SOCK_DGRAM : SOCK_STREAM);
	if (!t || count < 1 || q.size > sizeof(buffer) || (!udp && !write_all(fd, &q, sizeof(q))))
		return 2;
	for (int i = 0; i < count; i++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		double start = now();

		if (!write_all(fd, buffer, q.size))
			die("write");
		if (udp && poll(&p, 1, 1000) != 1) {
			lost++;
			continue;
		}
		if (udp ? recv(fd, buffer, sizeof(buffer), 0) < 0 : !read_all(fd, buffer, q.size))
			die("read");
		t[i - lost] = (now() - start) * 1e6;
	}
	count -= lost;
	qsort(t, (size_t)count, sizeof(*t), compare);
	printf("us=%.1f p99=%.1f lost=%d\n", count ? t[count / 2] : 0,
	       count ? t[count * 99 / 100] : 0, lost);
	free(t);
	return !count;
}

static bool ask_count(int fd, uint64_t *n)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (int i = 0; i < 20; i++) {
		if (send(fd, "Q", 1, 0) == 1 && poll(&p, 1, 250) == 1 &&
		    recv(fd, n, sizeof(*n), 0) == sizeof(*n))
			return true;
	}
	return false;
}

/* HOST PORT SECONDS SIZE: datagrams as fast as they go; how many arrived. */
int mode_udp_flood(int argc, char **argv)
{
	struct mmsghdr batch[FLOOD_BATCH] = {0};
	struct iovec piece = {.iov_base = buffer};
	uint64_t sent = 0, received = 0;
	double start, seconds;
	int fd, r;

	if (argc != 4)
		return 2;
	fd = dial(argv[0], (unsigned)atoi(argv[1]) + 1, SOCK_DGRAM);
	piece.iov_len = (size_t)atoi(argv[3]);
	if (fd < 0 || !ask_count(fd, &received))
		die("no answer");
	for (int i = 0; i < FLOOD_BATCH; i++)
		batch[i].msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
	memset(buffer, 'd', piece.iov_len);
	start = now();
	while (now() - start < atof(argv[2]))
		if ((r = sendmmsg(fd, batch, FLOOD_BATCH, 0)) > 0)
			sent += (uint64_t)r;
	seconds = now() - start;
	if (!ask_count(fd, &received))
		die("no count");
	printf("rate=%.0f sent=%.0f bytes=%llu\n", (double)received / seconds,
	       (double)sent / seconds, (unsigned long long)(received * piece.iov_len));
	return 0;
}
