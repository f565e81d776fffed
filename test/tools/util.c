/* SPDX-License-Identifier: BSD-3-Clause */
/* What server and clients share. */
#include "nettool.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void sleep_until(double when)
{
	struct timespec t = {.tv_sec = (time_t)when,
			     .tv_nsec = (long)((when - (double)(time_t)when) * 1e9)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

void die(const char *what)
{
	fprintf(stderr, "nettool: %s: %s\n", what, strerror(errno));
	exit(2);
}

bool read_all(int fd, void *to, size_t n)
{
	for (char *p = to; n;) {
		ssize_t r = read(fd, p, n);

		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

bool write_all(int fd, const void *from, size_t n)
{
	for (const char *p = from; n;) {
		ssize_t r = write(fd, p, n);

		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

int dial(const char *host, unsigned port, int type)
{
	struct addrinfo hints = {.ai_socktype = type, .ai_flags = AI_NUMERICHOST}, *a;
	int fd, one = 1, saved;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &a)) {
		errno = EINVAL;
		return -1;
	}
	fd = socket(a->ai_family, type | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
		saved = errno;
		close(fd);
		errno = saved;
		fd = -1;
	}
	freeaddrinfo(a);
	if (fd >= 0 && type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int dial_unix(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	double end = now() + 10;

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	while (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		if ((errno != ENOENT && errno != ECONNREFUSED) || now() > end)
			die(path);
		poll(NULL, 0, 5);
	}
	if (fd < 0)
		die("socket");
	return fd;
}

void set_linger_reset(int fd)
{
	struct linger l = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

/* The 8 bytes at position 8 * n. */
static uint64_t pattern_word(uint64_t n)
{
	n *= 0x9e3779b97f4a7c15;
	return n ^ n >> 29;
}

void pattern(void *to, uint64_t pos, size_t n)
{
	unsigned char *p = to;
	uint64_t w;

	while (n) {
		size_t skip = pos % 8, part = 8 - skip < n ? 8 - skip : n;

		w = pattern_word(pos / 8);
		memcpy(p, (unsigned char *)&w + skip, part);
		p += part;
		pos += part;
		n -= part;
	}
}

bool send_pattern(int fd, uint64_t n)
{
	static char block[128 << 10];

	for (uint64_t pos = 0; pos < n;) {
		size_t part = n - pos < sizeof(block) ? (size_t)(n - pos) : sizeof(block);

		pattern(block, pos, part);
		if (!write_all(fd, block, part))
			return false;
		pos += part;
	}
	return true;
}

bool receive_pattern(int fd, uint64_t n, unsigned pause_ms)
{
	static char got[256 << 10], want[256 << 10];
	uint64_t pos = 0, burst = 0;

	for (;;) {
		ssize_t r = read(fd, got, sizeof(got));

		if (r < 0)
			perror("nettool: read");
		if (r <= 0)
			return r == 0 && pos == n;
		pattern(want, pos, (size_t)r);
		if (memcmp(got, want, (size_t)r)) {
			fprintf(stderr, "nettool: wrong bytes after position %llu\n",
				(unsigned long long)pos);
			return false;
		}
		pos += (uint64_t)r;
		if (pause_ms && pos >= burst) {
			/* Here sleeping is the test: a reader that is slow now and then. */
			burst = pos + (uint64_t)(random() % (40 << 20));
			usleep((useconds_t)(random() % pause_ms) * 1000);
		}
	}
}
