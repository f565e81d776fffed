/* SPDX-License-Identifier: BSD-3-Clause */
/* What tcp/tcp_splice.c takes for granted about the kernel, tried on the loopback of a network
 * namespace of its own. Exit status 0 if all of it holds, 1 with one line that says what does not.
 * Needs nothing but libc: cc -D_GNU_SOURCE -o splice_more splice_more.c */
#include <errno.h>
#include <fcntl.h>

#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELD 100 /* ms: what has not arrived by then is held back */

#define need(cond, what)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("splice_more: %s (line %d, errno %d)\n", what, __LINE__, errno);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void no_delay(int fd)
{
	int on = 1;

	need(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "TCP_NODELAY");
}

static void connect_pair(int fd[2])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	need(bind(listener, (struct sockaddr *)&a, len) == 0 && listen(listener, 1) == 0, "listen");
	need(getsockname(listener, (struct sockaddr *)&a, &len) == 0, "getsockname");
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	need(connect(fd[0], (struct sockaddr *)&a, len) == 0, "connect");
	fd[1] = accept(listener, NULL, NULL);
	need(fd[1] >= 0, "accept");
	close(listener);
	no_delay(fd[0]);
	no_delay(fd[1]);
}

/* Bytes of len that arrive at fd before something is held back. */
static int arrive(int fd, int len)
{
	static char buf[1 << 17];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int got = 0;

	while (got < len && poll(&p, 1, HELD) == 1) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		need(n > 0, "receive");
		got += (int)n;
	}
	return got;
}

static void put_in_pipe(int fd, int len)
{
	static const char zeros[1 << 17];

	need(write(fd, zeros, (size_t)len) == len, "write to a pipe");
}

static void more_holds_and_nodelay_pushes(const int pipe_fd[2], const int tcp[2])
{
	put_in_pipe(pipe_fd[1], 100);
	need(splice(pipe_fd[0], NULL, tcp[0], NULL, 100, SPLICE_F_NONBLOCK | SPLICE_F_MORE) == 100,
	     "splice to a socket");
	need(arrive(tcp[1], 100) == 0, "SPLICE_F_MORE holds nothing back: no harm, but no use");
	no_delay(tcp[0]);
	need(arrive(tcp[1], 100) == 100, "TCP_NODELAY set again does not push");
}

/* Written without MORE and with the exact length, nothing is held, whatever the number of pages. */
static void exact_length_is_not_held(const int pipe_fd[2], const int tcp[2])
{
	for (int pages = 1; pages <= 16; pages++) {
		int len = pages * 4096;

		put_in_pipe(pipe_fd[1], len);
		need(splice(pipe_fd[0], NULL, tcp[0], NULL, (size_t)len, SPLICE_F_NONBLOCK) == len,
		     "splice of all there is");
		need(arrive(tcp[1], len) == len, "held back without MORE");
	}
}

/* A pipe takes what it has room for and no more; reading it all ends with EAGAIN. */
static void pipe_takes_its_room(const int pipe_fd[2], const int tcp[2])
{
	static const char zeros[20000];
	struct pollfd p = {.fd = tcp[0], .events = POLLIN};
	int size = fcntl(pipe_fd[1], F_SETPIPE_SZ, 8192), n;

	need(size == 8192, "a pipe of 8 KiB");
	need(send(tcp[1], zeros, sizeof(zeros), 0) == (ssize_t)sizeof(zeros), "send");
	need(poll(&p, 1, 1000) == 1, "poll");
	for (int total = 0; total < (int)sizeof(zeros); total += n) {
		n = (int)splice(tcp[0], NULL, pipe_fd[1], NULL, 8192, SPLICE_F_NONBLOCK);
		need(n > 0 && n <= 8192, "splice from a socket");
		need(splice(pipe_fd[0], NULL, tcp[0], NULL, (size_t)n, SPLICE_F_NONBLOCK) == n,
		     "splice to a socket");
	}
	need(fcntl(tcp[0], F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
	need(splice(tcp[0], NULL, pipe_fd[1], NULL, 8192, SPLICE_F_NONBLOCK) < 0 && errno == EAGAIN,
	     "an empty socket does not say EAGAIN");
	need(arrive(tcp[1], (int)sizeof(zeros)) == (int)sizeof(zeros), "what was sent back");
}

/* The edge of a segment with data and FIN says both, so that a reader knows to go on to the end. */
static void end_is_told_with_the_data(const int tcp[2])
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
	int epoll = epoll_create1(0);

	need(send(tcp[1], "x", 1, MSG_MORE) == 1 && shutdown(tcp[1], SHUT_WR) == 0, "send and end");
	need(epoll_ctl(epoll, EPOLL_CTL_ADD, tcp[0], &e) == 0, "epoll_ctl");
	need(epoll_wait(epoll, &e, 1, 1000) == 1, "epoll_wait");
	need((e.events & EPOLLIN) && (e.events & EPOLLRDHUP), "EPOLLRDHUP missing");
	need(epoll_wait(epoll, &e, 1, HELD) == 0, "an edge is told twice");
	close(epoll);
}

int main(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int pipe_fd[2], tcp[2], fd;

	need(unshare(getuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET) == 0, "unshare");
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	need(ioctl(fd, SIOCSIFFLAGS, &r) == 0, "lo up");
	need(pipe(pipe_fd) == 0, "pipe");
	connect_pair(tcp);
	more_holds_and_nodelay_pushes(pipe_fd, tcp);
	exact_length_is_not_held(pipe_fd, tcp);
	pipe_takes_its_room(pipe_fd, tcp);
	end_is_told_with_the_data(tcp);
	return 0;
}
