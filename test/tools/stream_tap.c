/* SPDX-License-Identifier: BSD-3-Clause */
/* A virtual machine's network card at native speed: joins a tap device of this network namespace to
 * passt's UNIX stream socket, so that the namespace is passt's guest. Frames go as QEMU's -netdev
 * stream has them, each behind its length of 32 bits in network order; the tap has no offloads, as
 * that socket has none. One thread; what passt does not take stays in the tap. */
#include "nettool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_ROOM 65552
#define BATCH      64 /* frames read from the tap for one write to passt */

static uint8_t to_passt[BATCH * (FRAME_ROOM + 4)], from_passt[4 << 20];

/* One way: bytes of buf from done to len are still to be handed on. */
struct way {
	size_t done, len;
};

static int join_passt(const char *path)
{
	int fd = dial_unix(path), size = 4 << 20;

	if (fcntl(fd, F_SETFL, O_NONBLOCK))
		die("socket");
	/* As far as the system allows. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return fd;
}

static int make_tap(const char *name)
{
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r))
		die("tap");
	return fd;
}

/* false: passt is gone. */
static bool passt_to_tap(int passt, int tap, struct way *w)
{
	ssize_t n = recv(passt, from_passt + w->len, sizeof(from_passt) - w->len, 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return false;
	w->len += n > 0 ? (size_t)n : 0;
	while (w->len - w->done >= 4) {
		uint32_t len;

		memcpy(&len, from_passt + w->done, 4);
		len = ntohl(len);
		if (len < 14 || len > 65535) {
			fprintf(stderr, "nettool: a frame of %u bytes\n", len);
			exit(1);
		}
		if (w->len - w->done - 4 < len)
			break;
		/* EIO: the device is down. */
		if (write(tap, from_passt + w->done + 4, len) < 0 && errno != EIO)
			perror("nettool: tap");
		w->done += 4 + len;
	}
	memmove(from_passt, from_passt + w->done, w->len - w->done);
	w->len -= w->done;
	w->done = 0;
	return true;
}

static bool tap_to_passt(int passt, int tap, struct way *w)
{
	ssize_t n;

	for (int i = 0; !w->done && i < BATCH; i++) {
		uint32_t prefix;

		n = read(tap, to_passt + w->len + 4, FRAME_ROOM);
		if (n <= 0)
			break;
		prefix = htonl((uint32_t)n);
		memcpy(to_passt + w->len, &prefix, 4);
		w->len += 4 + (size_t)n;
	}
	if (!w->len)
		return true;
	n = send(passt, to_passt + w->done, w->len - w->done, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	w->done += (size_t)n;
	if (w->done == w->len)
		w->done = w->len = 0;
	return true;
}

/* SOCKET IFNAME: until passt goes. */
int mode_stream_tap(int argc, char **argv)
{
	struct way in = {0}, out = {0};
	struct pollfd p[2] = {{.events = POLLIN}, {0}};

	if (argc != 2)
		return 2;
	p[0].fd = join_passt(argv[0]);
	p[1].fd = make_tap(argv[1]);
	puts("ready");
	fflush(stdout);
	for (;;) {
		bool waits = out.len > 0;

		p[0].events = waits ? POLLIN | POLLOUT : POLLIN;
		p[1].events = waits ? 0 : POLLIN;
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			die("poll");
		if (p[0].revents & (POLLIN | POLLHUP | POLLERR) &&
		    !passt_to_tap(p[0].fd, p[1].fd, &in))
			return 0;
		if ((waits ? p[0].revents & POLLOUT : p[1].revents) &&
		    !tap_to_passt(p[0].fd, p[1].fd, &out))
			return 0;
	}
}
