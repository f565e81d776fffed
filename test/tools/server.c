/* SPDX-License-Identifier: BSD-3-Clause */
/* The server: short connections in one loop, long ones in a child each. */
#include "nettool.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_MAX 20000

/* Shared with the children. */
static struct stats *stats;
static char buffer[1 << 20];

static void count(uint64_t *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
}

static bool serve_sink(int fd)
{
	struct counted c = {0};
	double start = now();
	ssize_t r;

	while ((r = read(fd, buffer, sizeof(buffer))) > 0)
		c.bytes += (uint64_t)r;
	c.seconds = now() - start;
	return r == 0 && write_all(fd, &c, sizeof(c));
}

static bool serve_both(int fd, const struct request *q)
{
	pid_t writer = fork();
	bool good;
	int status;

	if (writer < 0)
		return false;
	if (!writer) {
		good = send_pattern(fd, q->down);
		shutdown(fd, SHUT_WR);
		_exit(!good);
	}
	good = receive_pattern(fd, q->up, q->pause_ms);
	return waitpid(writer, &status, 0) == writer && !status && good;
}

static bool serve_half(int fd, const struct request *q)
{
	if (q->op == OP_HALF_CLIENT)
		return receive_pattern(fd, 0, 0) && send_pattern(fd, q->down);
	shutdown(fd, SHUT_WR);
	return receive_pattern(fd, q->up, 0);
}

static bool serve_reset(int fd, const struct request *q)
{
	double when = now() + 0.05;

	if (q->op == OP_RST_SERVER) {
		if (!write_all(fd, &when, sizeof(when)))
			return false;
		sleep_until(when);
		set_linger_reset(fd);
		return true;
	}
	if (!read_all(fd, &when, sizeof(when)))
		return false;
	if (read(fd, buffer, 1) >= 0 || errno != ECONNRESET)
		return false;
	stats->rst_us = (uint64_t)((now() - when) * 1e6) + 1;
	return true;
}

/* In a child of its own. */
static bool serve_long(int fd)
{
	struct request q;

	/* Without the other connections: they'd stay open when the parent closes them. */
	if (dup2(fd, 3) < 0 || close_range(4, ~0U, 0))
		return false;
	fd = 3;
	signal(SIGCHLD, SIG_DFL);

	if (!read_all(fd, &q, sizeof(q)))
		return false;
	switch (q.op) {
	case OP_SINK:
		return serve_sink(fd);
	case OP_SOURCE:
		while (write_all(fd, buffer, sizeof(buffer)))
			;
		return true;
	case OP_REPLY:
		while (q.size <= sizeof(buffer) && read_all(fd, buffer, q.size) &&
		       write_all(fd, buffer, q.size))
			;
		return true;
	case OP_BOTH:
		return serve_both(fd, &q);
	case OP_HALF_CLIENT:
	case OP_HALF_SERVER:
		return serve_half(fd, &q);
	case OP_RST_SERVER:
	case OP_RST_CLIENT:
		return serve_reset(fd, &q);
	}
	return false;
}

/* A connection has something for us. */
static void serve_short(int epoll, int fd, char *op)
{
	ssize_t r = recv(fd, buffer, 65536, MSG_DONTWAIT | (*op ? 0 : MSG_PEEK));

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r < 0)
		count(&stats->resets);
	if (r <= 0) {
		close(fd);
		return;
	}
	if (!*op) {
		*op = buffer[0];
		if (*op == OP_CLIENT_CLOSES || *op == OP_SERVER_CLOSES || *op == OP_ECHO) {
			serve_short(epoll, fd, op);
			return;
		}
		if (*op == OP_STATS) {
			/* Taken as well: a close with bytes unread is a reset. */
			if (!read_all(fd, buffer, 1) || !write_all(fd, stats, sizeof(*stats)))
				count(&stats->failed);
		} else if (!fork()) {
			count(serve_long(fd) ? &stats->finished : &stats->failed);
			_exit(0);
		}
		/* The set watches the open file, which the child keeps, not the number. */
		epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
		close(fd);
		return;
	}
	if (!write_all(fd, buffer, (size_t)r))
		count(&stats->resets);
	if (*op == OP_SERVER_CLOSES)
		close(fd);
}

static int listener(unsigned port, int type)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	int one = 1, zero = 0, size = 8 << 20, fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	else if (setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one)))
		die("packet info");
	else if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || (type == SOCK_STREAM && listen(fd, 4096)))
		die("bind");
	return fd;
}

/* A datagram and where it came from and went to, so that the answer leaves from the address that
 * was asked. */
struct datagram {
	struct sockaddr_in6 from;
	char control[256];
	struct iovec piece;
	struct msghdr msg;
};

static ssize_t receive(int fd, struct datagram *d)
{
	d->piece = (struct iovec){.iov_base = buffer, .iov_len = sizeof(buffer)};
	d->msg = (struct msghdr){.msg_name = &d->from,
				 .msg_namelen = sizeof(d->from),
				 .msg_iov = &d->piece,
				 .msg_iovlen = 1,
				 .msg_control = d->control,
				 .msg_controllen = sizeof(d->control)};
	return recvmsg(fd, &d->msg, 0);
}

static void answer(int fd, struct datagram *d, void *data, size_t n)
{
	d->piece = (struct iovec){.iov_base = data, .iov_len = n};
	if (sendmsg(fd, &d->msg, 0) < 0)
		perror("nettool: answer");
}

/* A datagram that begins with 'Q' asks for the count since the last question. */
static void serve_udp_count(int fd)
{
	struct datagram d;
	uint64_t n = 0;

	for (;;) {
		ssize_t r = receive(fd, &d);

		if (r > 0 && buffer[0] == 'Q') {
			answer(fd, &d, &n, sizeof(n));
			n = 0;
		} else if (r > 0) {
			n++;
		}
	}
}

static void serve_udp_echo(int fd)
{
	struct datagram d;

	for (;;) {
		ssize_t r = receive(fd, &d);

		if (r >= 0)
			answer(fd, &d, buffer, (size_t)r);
	}
}

static void serve_udp(unsigned port, void (*loop)(int fd))
{
	int fd = listener(port, SOCK_DGRAM);

	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		loop(fd);
	}
	close(fd);
}

static void watch(int epoll, int fd, bool is_listener)
{
	struct epoll_event e = {.events = EPOLLIN,
				.data.u64 = (uint64_t)fd | (is_listener ? 1ULL << 32 : 0)};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e))
		die("epoll_ctl");
}

void serve(unsigned port, unsigned ports)
{
	static char ops[FDS_MAX];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[256];

	signal(SIGCHLD, SIG_IGN);
	stats =
	    mmap(NULL, sizeof(*stats), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (epoll < 0 || stats == MAP_FAILED)
		die("start");
	serve_udp(port, serve_udp_echo);
	serve_udp(port + 1, serve_udp_count);
	for (unsigned i = 0; i < ports; i++)
		watch(epoll, listener(port + i, SOCK_STREAM), true);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(epoll, events, 256, -1);

		for (int i = 0; i < n; i++) {
			int fd = (int)(uint32_t)events[i].data.u64;

			if (!(events[i].data.u64 >> 32)) {
				serve_short(epoll, fd, &ops[fd]);
				continue;
			}
			fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
			if (fd < 0)
				continue;
			if (fd >= FDS_MAX) {
				close(fd);
				continue;
			}
			ops[fd] = 0;
			watch(epoll, fd, false);
		}
	}
}
