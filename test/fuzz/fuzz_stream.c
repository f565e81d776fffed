/* SPDX-License-Identifier: BSD-3-Clause */
/* Framing of the stream socket. Input: how the rest is cut (one byte: pieces of that length, 0 for
 * one piece), and the stream. The frames that come out are compared with those that a plain walk
 * over the stream finds, and the guest is ended where it says no frame can be. */
#include <stdlib.h>
#include <sys/socket.h>

#include "core/cursor.h"
#include "tap/tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STREAM_MAX 150000

static void require(bool holds)
{
	if (!holds)
		abort();
}

struct walk {
	struct tap *tap;
	const uint8_t *at; /* what is still to come out */
	size_t left;
	int gone; /* 0: not yet, 1: closed, 2: for what it sent */
};

/* The next frame by the plain walk: its length, 0 if there is none, or SIZE_MAX. */
static size_t next(const struct walk *w)
{
	struct cursor c = cursor_init(w->at, w->left);
	uint32_t len = cursor_u32(&c);

	if (c.bad)
		return 0;
	if (len < ETH_HEADER_LEN || len > FRAME_MAX)
		return SIZE_MAX;
	return len <= cursor_left(&c) ? len : 0;
}

static void on_readable(void *arg, usec_t now)
{
	struct walk *w = arg;
	struct tap_frame frames[3];
	unsigned n;

	(void)now;
	require(!tap_receive(w->tap, frames, 3, &n));
	for (unsigned i = 0; i < n; i++) {
		size_t len = next(w);

		require(len == frames[i].len && !memcmp(w->at + 4, frames[i].data, len));
		w->at += 4 + len;
		w->left -= 4 + len;
	}
}

static void on_writable(void *arg, usec_t now)
{
	(void)arg;
	(void)now;
}

static void on_gone(void *arg, int err)
{
	struct walk *w = arg;

	w->gone = err ? 2 : 1;
}

static void send_pieces(struct walk *w, struct loop *loop, int fd, size_t piece)
{
	const uint8_t *p = w->at;
	size_t left = w->left;

	while (left && !w->gone) {
		size_t part = piece && piece < left ? piece : left;
		ssize_t n = send(fd, p, part, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			p += n;
			left -= (size_t)n;
		}
		require(!loop_turn(loop, 1, 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tap_config cfg = {.mtu = 1500};
	struct counters counters = {0};
	struct walk w = {.at = data + 1, .left = size - 1};
	const struct tap_events ev = {.readable = on_readable,
				      .writable = on_writable,
				      .connected = on_writable,
				      .gone = on_gone,
				      .arg = &w};
	struct tap_link *link;
	struct loop *loop;
	int fds[2];

	if (size < 1 || size > STREAM_MAX)
		return 0;
	require(!loop_new(&loop) && !stream_link_new(&link));
	require(!tap_new(link, &cfg, &counters, &w.tap) && !tap_start(w.tap, loop, &ev));
	require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
	require(!tap_attach(w.tap, fds[0]));
	send_pieces(&w, loop, fds[1], data[0]);
	while (next(&w) && !w.gone)
		require(!loop_turn(loop, 1, 0));
	require(next(&w) == (w.gone == 2 ? SIZE_MAX : 0));
	fd_close(&fds[1]);
	while (!w.gone)
		require(!loop_turn(loop, 1, 0));
	tap_free(w.tap);
	loop_free(loop);
	return 0;
}
