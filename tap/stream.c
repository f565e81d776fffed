/* SPDX-License-Identifier: BSD-3-Clause */
/* A virtual machine by a UNIX stream socket: each frame has its length in front, 32 bits in network
 * order, as QEMU's -netdev stream has it. Whatever the guest's side does, nothing here waits for
 * it. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/cursor.h"
#include "tap/tap.h"

#define PREFIX_LEN 4
#define IN_LEN     ((size_t)512 << 10)
#define SEND_PARTS 512 /* of one system call: IOV_MAX is 1024 */

struct stream_link {
	struct tap_link link;
	struct loop_source source; /* fd -1: nobody is connected */
	struct loop_task again;    /* complete frames wait in the buffer */
	struct loop *loop;
	struct tap_events events;
	bool wants_room;

	uint8_t *in; /* bytes in_at .. in_end are still to be taken */
	size_t in_at, in_end;

	uint8_t *rest; /* of the frame that went out in part: rest_at .. rest_end */
	size_t rest_at, rest_end;
};

static struct stream_link *stream_of(struct tap_link *link)
{
	return container_of(link, struct stream_link, link);
}

/* Nothing of a frame that was under way is for whom comes next. */
static void detach(struct stream_link *s)
{
	if (s->source.fd < 0)
		return;
	loop_undefer(&s->again);
	loop_remove(s->loop, &s->source);
	fd_close(&s->source.fd);
	s->in_at = s->in_end = s->rest_at = s->rest_end = 0;
	s->wants_room = false;
}

static void leave(struct stream_link *s, int err)
{
	detach(s);
	s->events.gone(s->events.arg, err);
}

static void want_room(struct stream_link *s, bool wanted)
{
	if (s->wants_room == wanted)
		return;
	if (!loop_modify(s->loop, &s->source, EPOLLIN | (wanted ? EPOLLOUT : 0)))
		s->wants_room = wanted;
}

static bool is_passing(int err)
{
	return err == EAGAIN || err == EINTR || err == ENOBUFS || err == ENOMEM;
}

/* true if nothing is left of the frame that went out in part. */
static bool send_rest(struct stream_link *s)
{
	while (s->rest_at < s->rest_end) {
		ssize_t n = send(s->source.fd, s->rest + s->rest_at, s->rest_end - s->rest_at,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return false; /* what is wrong, reading tells */
		s->rest_at += (size_t)n;
	}
	s->rest_at = s->rest_end = 0;
	return true;
}

static void on_ready(struct loop_source *src, uint32_t events, usec_t now)
{
	struct stream_link *s = container_of(src, struct stream_link, source);

	if ((events & EPOLLOUT) && send_rest(s)) {
		want_room(s, false);
		if (s->events.writable)
			s->events.writable(s->events.arg, now);
	}
	if (s->source.fd >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		s->events.readable(s->events.arg, now);
}

static void on_again(struct loop_task *task, usec_t now)
{
	struct stream_link *s = container_of(task, struct stream_link, again);

	s->events.readable(s->events.arg, now);
}

static int stream_start(struct tap_link *link, struct loop *loop, const struct tap_events *ev)
{
	struct stream_link *s = stream_of(link);

	s->loop = loop;
	s->events = *ev;
	return 0;
}

static int stream_attach(struct tap_link *link, int fd)
{
	struct stream_link *s = stream_of(link);
	int r;

	s->source.fd = fd;
	r = loop_add(s->loop, &s->source, EPOLLIN);
	if (r < 0) {
		fd_close(&s->source.fd);
		return r;
	}
	s->events.connected(s->events.arg, loop_now(s->loop));
	return 0;
}

/* The next complete frame of the buffer. 1: *f is it; 0: there is none; negative errno: what stands
 * there is no frame. */
static int next_frame(struct stream_link *s, struct tap_frame *f)
{
	struct cursor c = cursor_init(s->in + s->in_at, s->in_end - s->in_at);
	uint32_t len = cursor_u32(&c);

	if (c.bad)
		return 0;
	if (len < ETH_HEADER_LEN || len > FRAME_MAX)
		return -EPROTO;
	if (cursor_left(&c) < len)
		return 0;
	*f = (struct tap_frame){.data = c.pos, .len = len};
	s->in_at += PREFIX_LEN + len;
	return 1;
}

/* 1: bytes came; 0: none for now; negative errno or -EPIPE for the end: the guest is gone. */
static int fill(struct stream_link *s)
{
	ssize_t n;

	memmove(s->in, s->in + s->in_at, s->in_end - s->in_at);
	s->in_end -= s->in_at;
	s->in_at = 0;
	n = recv(s->source.fd, s->in + s->in_end, IN_LEN - s->in_end, MSG_DONTWAIT);
	if (n < 0)
		return is_passing(errno) ? 0 : -errno;
	if (!n)
		return -EPIPE;
	s->in_end += (size_t)n;
	return 1;
}

/* Takes frames until there are max or the buffer has none. */
static int take_frames(struct stream_link *s, struct tap_frame *frames, unsigned max, unsigned *n)
{
	int r = 1;

	while (*n < max && r == 1) {
		r = next_frame(s, &frames[*n]);
		if (r == 1)
			(*n)++;
	}
	return r;
}

static int stream_receive(struct tap_link *link, struct tap_frame *frames, unsigned max,
			  unsigned *count)
{
	struct stream_link *s = stream_of(link);
	unsigned n = 0;
	int r;

	*count = 0;
	if (s->source.fd < 0)
		return 0;
	r = take_frames(s, frames, max, &n);
	if (r == 0 && !n) {
		r = fill(s);
		if (r == 1)
			r = take_frames(s, frames, max, &n);
	}
	if (r < 0 && !n) {
		leave(s, r == -EPIPE ? 0 : r);
		return 0;
	}
	if (r != 0)
		loop_defer(s->loop, &s->again); /* epoll does not know of what is here already */
	*count = n;
	return 0;
}

static size_t frame_len(const struct tap_out *f)
{
	size_t len = 0;

	for (int i = 0; i < f->iov_count; i++)
		len += f->iov[i].iov_len;
	return len;
}

/* Keeps what the socket did not take of a frame, of which the first done bytes, length included,
 * went out. */
static void keep_rest(struct stream_link *s, const uint8_t *prefix, const struct tap_out *f,
		      size_t done)
{
	size_t len = PREFIX_LEN;

	memcpy(s->rest, prefix, PREFIX_LEN);
	for (int i = 0; i < f->iov_count; i++) {
		memcpy(s->rest + len, f->iov[i].iov_base, f->iov[i].iov_len);
		len += f->iov[i].iov_len;
	}
	s->rest_at = done;
	s->rest_end = len;
}

/* Sends as many frames as fit one system call. *taken: how many are on their way or kept; *full:
 * the socket takes no more. */
static int send_some(struct stream_link *s, const struct tap_out *frames, unsigned n,
		     unsigned *taken, bool *full)
{
	uint8_t prefixes[SEND_PARTS / 2][PREFIX_LEN];
	struct iovec iov[SEND_PARTS + TAP_IOV_MAX];
	struct msghdr msg = {.msg_iov = iov};
	unsigned i;
	size_t done;
	ssize_t sent;

	for (i = 0; i < n && i < SEND_PARTS / 2 && msg.msg_iovlen < SEND_PARTS; i++) {
		size_t len = frame_len(&frames[i]);

		if (len > FRAME_MAX || frames[i].iov_count > TAP_IOV_MAX)
			return -EINVAL;
		for (int b = 0; b < PREFIX_LEN; b++)
			prefixes[i][b] = (uint8_t)(len >> (24 - 8 * b));
		iov[msg.msg_iovlen++] = (struct iovec){prefixes[i], PREFIX_LEN};
		memcpy(iov + msg.msg_iovlen, frames[i].iov,
		       (size_t)frames[i].iov_count * sizeof(*iov));
		msg.msg_iovlen += (size_t)frames[i].iov_count;
	}
	sent = sendmsg(s->source.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	done = sent < 0 ? 0 : (size_t)sent;
	for (unsigned k = 0; k < i; k++) {
		size_t len = PREFIX_LEN + frame_len(&frames[k]);

		if (done < len) {
			*full = true;
			if (done)
				keep_rest(s, prefixes[k], &frames[k], done);
			*taken = k + (done > 0);
			return 0;
		}
		done -= len;
	}
	*taken = i;
	return 0;
}

static int stream_send(struct tap_link *link, const struct tap_out *frames, unsigned n,
		       unsigned *sent)
{
	struct stream_link *s = stream_of(link);
	bool full = s->source.fd < 0 || !send_rest(s);
	unsigned i = 0;

	while (i < n && !full) {
		unsigned taken = 0;
		int r = send_some(s, frames + i, n - i, &taken, &full);

		if (r < 0)
			return r;
		i += taken;
	}
	if (full && s->source.fd >= 0)
		want_room(s, true);
	*sent = i;
	return 0;
}

static void stream_free(struct tap_link *link)
{
	struct stream_link *s = stream_of(link);

	detach(s);
	free(s->in);
	free(s->rest);
	free(s);
}

int stream_link_new(struct tap_link **out)
{
	static const struct tap_ops ops = {.start = stream_start,
					   .attach = stream_attach,
					   .receive = stream_receive,
					   .send = stream_send,
					   .free = stream_free};
	struct stream_link *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->source = (struct loop_source){.fd = -1, .ready = on_ready};
	loop_task_init(&s->again, on_again);
	s->link.ops = &ops;
	s->link.tells_room = true;
	s->in = malloc(IN_LEN);
	s->rest = malloc(PREFIX_LEN + FRAME_MAX);
	if (!s->in || !s->rest) {
		stream_free(&s->link);
		return -ENOMEM;
	}
	*out = &s->link;
	return 0;
}
