/* SPDX-License-Identifier: BSD-3-Clause */
/* What tcp/tcp_source.c relies on when data is peeked at (socket(7), SO_PEEK_OFF; for TCP since
 * Linux 6.9): a peek starts at the offset and moves it on, a read that removes bytes (MSG_TRUNC
 * included) moves it back by as many, the offset can be set back, a peek at the end gives EAGAIN
 * before and 0 after the peer's FIN. Prints one line. Exit status 0: as expected, or the kernel has
 * no such option, which it says; 1: it behaves otherwise. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char *what)
{
	printf("peek_off: unexpected: %s\n", what);
	exit(1);
}

static void expect(bool ok, const char *what)
{
	if (!ok)
		fail(what);
}

/* A connected pair over the loopback of this family. */
static void pair(int family, int *near, int *far)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	struct sockaddr_in b = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr *sa = family == AF_INET6 ? (struct sockaddr *)&a : (struct sockaddr *)&b;
	socklen_t len = family == AF_INET6 ? sizeof(a) : sizeof(b);
	int listener = socket(family, SOCK_STREAM, 0);

	*near = socket(family, SOCK_STREAM, 0);
	if (listener < 0 || *near < 0 || bind(listener, sa, len) || listen(listener, 1) ||
	    getsockname(listener, sa, &len) || connect(*near, sa, len))
		fail("no connection over the loopback");
	*far = accept(listener, NULL, NULL);
	if (*far < 0)
		fail("accept");
	close(listener);
}

static bool set_offset(int fd, int offset)
{
	return !setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset));
}

static void check(int family)
{
	int near, far;
	char buf[16];

	pair(family, &near, &far);
	expect(set_offset(near, 0),
	       "offset refused on a connection though it was taken on a fresh socket");
	expect(send(far, "abcdefghij", 10, 0) == 10, "send");
	expect(recv(near, buf, 1, MSG_PEEK) == 1 && buf[0] == 'a', "first peek");
	while (recv(near, buf, 9, MSG_PEEK | MSG_DONTWAIT) < 0)
		;
	expect(buf[0] == 'b', "a peek moves the offset on");
	expect(recv(near, buf, 9, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN,
	       "EAGAIN at the end");
	expect(recv(near, NULL, 4, MSG_TRUNC | MSG_DONTWAIT) == 4, "removal by MSG_TRUNC");
	expect(recv(near, buf, 9, MSG_PEEK | MSG_DONTWAIT) < 0, "removal moves the offset back");
	expect(set_offset(near, 2), "setting the offset back");
	expect(recv(near, buf, 2, MSG_PEEK) == 2 && !memcmp(buf, "gh", 2),
	       "peek after setting back");
	expect(set_offset(near, 6), "setting the offset forward");
	expect(send(far, "k", 1, 0) == 1 && !shutdown(far, SHUT_WR), "send and shutdown");
	expect(recv(near, buf, 9, MSG_PEEK) == 1 && buf[0] == 'k', "new data beyond the offset");
	expect(recv(near, buf, 9, MSG_PEEK) == 0, "0 at the peer's FIN");
	close(near);
	close(far);
}

int main(void)
{
	static const struct {
		int family;
		const char *name;
	} families[] = {{AF_INET, "IPv4"}, {AF_INET6, "IPv6"}};

	printf("peek_off:");
	for (unsigned i = 0; i < 2; i++) {
		int fd = socket(families[i].family, SOCK_STREAM, 0);
		bool there = fd >= 0 && set_offset(fd, 0);

		if (there)
			check(families[i].family);
		printf(" %s %s", families[i].name, there ? "as expected" : "not in this kernel");
		close(fd);
	}
	printf("\n");
	return 0;
}
