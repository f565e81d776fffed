/* SPDX-License-Identifier: BSD-3-Clause */
/* A virtual machine by a UNIX stream socket: each frame has its length in front, 32 bits in network
 * order, as QEMU's -netdev stream has it. Whatever the guest's side does, nothing here waits for
 * it.
 *
 * To the guest: frames go to the socket as they are. Where it takes only a part of a batch, the
 * rest of that batch is copied and goes first when there is room; until then the link is full. So a
 * super-frame that was cut into segments is not torn by a slow guest. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/cursor.h"
#include "tap/tap.h"

#define PREFIX_LEN 4
#define FRAME_LEAST                                                                                \
	60 /* IEEE 802.3 3.2.8, without the check sequence: shorter ones are filled with zeros */
#define IN_LEN        ((size_t)256 << 10)
#define REST_LEN      ((size_t)192 << 10) /* the segments of a super-frame, and more */
#define SEND_FRAMES   128                 /* of one system call */
#define SEND_PARTS    512                 /* of one system call: IOV_MAX is 1024 */
/* More than Linux gives an ordinary user by default (net.core.wmem_max): as much as there is, but
 * not so much that a queue of it is felt. */
#define SOCKET_BUFFER (1 << 20)

struct stream_link {
	struct tap_link link;
	struct loop_source source; /* fd -1: nobody is connected */
	struct loop_task again;    /* there is something to receive that epoll does not know of */
	struct loop *loop;
	struct tap_events events;
	bool wants_room; /* writable() is owed */
	bool watched;    /* epoll waits for room */
	bool drained;    /* the socket had less than was asked for: the next look would find nothing
			  */

	/* Both only while a guest is there. */
	uint8_t *in; /* bytes in_at .. in_end are still to be taken */
	size_t in_at, in_end;
	uint8_t *rest; /* bytes rest_at .. rest_end are still to be sent */
	size_t rest_at, rest_end;
};

static struct stream_link *stream_of(struct tap_link *link)
{
	return container_of(link, struct stream_link, link);
}

/* ---- a guest comes and goes */

/* Nothing of a frame that was under way is for whom comes next. */
static void detach(struct stream_link *s)
{
	if (s->source.fd < 0)
		return;
	loop_undefer(&s->again);
	loop_remove(s->loop, &s->source);
	fd_close(&s->source.fd);
	free(s->in);
	free(s->rest);
	s->in = s->rest = NULL;
	s->in_at = s->in_end = s->rest_at = s->rest_end = 0;
	s->wants_room = s->watched = s->drained = false;
}

static void leave(struct stream_link *s, int err)
{
	detach(s);
	s->events.gone(s->events.arg, err);
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
	int size = SOCKET_BUFFER, r = -ENOMEM;

	/* Both are cut to the system's limits, socket(7): that is no failure. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	s->source.fd = fd;
	s->in = malloc(IN_LEN);
	s->rest = malloc(REST_LEN);
	if (s->in && s->rest)
		r = loop_add(s->loop, &s->source, EPOLLIN);
	if (r < 0) {
		detach(s);
		return r;
	}
	s->events.connected(s->events.arg, loop_now(s->loop));
	return 0;
}

/* ---- from the guest */

/* The next complete frame of the buffer. 1: *f is it; 0: there is none; negative errno: what stands
 * there is no frame. */
static int next_frame(const struct stream_link *s, struct tap_frame *f)
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
	return 1;
}

/* Takes frames until there are max or the buffer has none. As next_frame(): what stands behind. */
static int take_frames(struct stream_link *s, struct tap_frame *frames, unsigned max, unsigned *n)
{
	for (;;) {
		struct tap_frame f;
		int r = next_frame(s, &f);

		if (r != 1 || *n == max)
			return r;
		frames[(*n)++] = f;
		s->in_at += PREFIX_LEN + f.len;
	}
}

static bool is_passing(int err)
{
	return err == EAGAIN || err == EINTR || err == ENOBUFS || err == ENOMEM;
}

/* Reads behind the beginning of a frame, if one is here. 1: bytes came; 0: none for now; negative
 * errno, -EPIPE for the end: the guest is gone. */
static int fill(struct stream_link *s)
{
	size_t room;
	ssize_t n;

	memmove(s->in, s->in + s->in_at, s->in_end - s->in_at);
	s->in_end -= s->in_at;
	s->in_at = 0;
	room = IN_LEN - s->in_end;
	n = recv(s->source.fd, s->in + s->in_end, room, MSG_DONTWAIT);
	if (n < 0)
		return is_passing(errno) ? 0 : -errno;
	if (!n)
		return -EPIPE;
	s->drained = (size_t)n < room;
	s->in_end += (size_t)n;
	return 1;
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
	loop_undefer(&s->again);
	r = take_frames(s, frames, max, &n);
	if (r == 0 && !n) {
		if (s->drained) {
			s->drained = false;
			return 0;
		}
		r = fill(s);
		if (r == 1)
			r = take_frames(s, frames, max, &n);
	}
	if (r < 0 && !n) {
		leave(s, r == -EPIPE ? 0 : r);
		return 0;
	}
	if (r != 0)
		loop_defer(s->loop, &s->again);
	*count = n;
	return 0;
}

static void on_again(struct loop_task *task, usec_t now)
{
	struct stream_link *s = container_of(task, struct stream_link, again);

	s->events.readable(s->events.arg, now);
}

/* ---- to the guest */

/* true if nothing is left of what was kept. */
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

/* Has epoll wait for room if somebody does, and not else. */
static void watch_room(struct stream_link *s)
{
	if (s->wants_room == s->watched)
		return;
	if (!loop_modify(s->loop, &s->source, EPOLLIN | (s->wants_room ? EPOLLOUT : 0)))
		s->watched = s->wants_room;
}

static void on_ready(struct loop_source *src, uint32_t events, usec_t now)
{
	struct stream_link *s = container_of(src, struct stream_link, source);

	s->drained = false;
	if ((events & EPOLLOUT) && send_rest(s)) {
		s->wants_room = false;
		if (s->events.writable)
			s->events.writable(s->events.arg, now);
		watch_room(s);
	}
	if (s->source.fd >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		s->events.readable(s->events.arg, now);
}

/* A batch for one system call. */
struct batch {
	struct iovec iov[SEND_PARTS];
	unsigned parts;
	unsigned count;                  /* frames */
	unsigned begin[SEND_FRAMES + 1]; /* of each frame: its first part */
	uint8_t prefix[SEND_FRAMES][PREFIX_LEN];
};

static bool add_frame(struct batch *b, const struct tap_out *f)
{
	static const uint8_t zeros[FRAME_LEAST];
	uint8_t *prefix = b->prefix[b->count];
	unsigned at = b->parts;
	size_t len = 0;

	/* Two more: length and zeros. */
	if (b->count == SEND_FRAMES || at + (unsigned)f->iov_count + 2 > SEND_PARTS)
		return false;
	b->begin[b->count] = at++;
	for (int i = 0; i < f->iov_count; i++) {
		b->iov[at++] = f->iov[i];
		len += f->iov[i].iov_len;
	}
	if (len < FRAME_LEAST) {
		b->iov[at++] = (struct iovec){(void *)(uintptr_t)zeros, FRAME_LEAST - len};
		len = FRAME_LEAST;
	}
	for (int i = 0; i < PREFIX_LEN; i++)
		prefix[i] = (uint8_t)(len >> (24 - 8 * i));
	b->iov[b->begin[b->count]] = (struct iovec){prefix, PREFIX_LEN};
	b->begin[++b->count] = b->parts = at;
	return true;
}

static size_t frame_len(const struct tap_out *f)
{
	size_t len = 0;

	for (int i = 0; i < f->iov_count; i++)
		len += f->iov[i].iov_len;
	return len;
}

static size_t part_of_batch(const struct batch *b, unsigned frame)
{
	size_t len = 0;

	for (unsigned i = b->begin[frame]; i < b->begin[frame + 1]; i++)
		len += b->iov[i].iov_len;
	return len;
}

/* Keeps what of a frame is beyond its first skip bytes. false: there is no room for it. */
static bool keep_frame(struct stream_link *s, const struct batch *b, unsigned frame, size_t skip)
{
	if (part_of_batch(b, frame) - skip > REST_LEN - s->rest_end)
		return false;
	for (unsigned i = b->begin[frame]; i < b->begin[frame + 1]; i++) {
		const struct iovec *iov = &b->iov[i];
		size_t gone = skip < iov->iov_len ? skip : iov->iov_len;

		memcpy(s->rest + s->rest_end, (const uint8_t *)iov->iov_base + gone,
		       iov->iov_len - gone);
		s->rest_end += iov->iov_len - gone;
		skip -= gone;
	}
	return true;
}

/* The socket took done bytes of the batch: the frame they end in, and those behind it, are kept as
 * far as there is room. Number of frames that are sent or kept. */
static unsigned keep_rest(struct stream_link *s, const struct batch *b, size_t done)
{
	unsigned i = 0;

	for (; i < b->count; i++) {
		size_t len = part_of_batch(b, i), out = done < len ? done : len;

		done -= out;
		if (out < len && !keep_frame(s, b, i, out))
			break;
	}
	return i;
}

/* Sends as many frames as fit one system call. *taken: how many are on their way or kept. false:
 * the link takes no more. */
static bool send_some(struct stream_link *s, const struct tap_out *frames, unsigned n,
		      unsigned *taken)
{
	struct batch b;
	struct msghdr msg = {.msg_iov = b.iov};
	ssize_t sent;

	b.parts = b.count = 0;
	while (b.count < n && frame_len(&frames[b.count]) <= FRAME_MAX &&
	       add_frame(&b, &frames[b.count]))
		;
	if (!b.count) {
		*taken = 1; /* a frame that no guest could take */
		count_drop(s->link.counters, DROP_LINK_ERROR);
		return true;
	}
	msg.msg_iovlen = b.parts;
	sent = sendmsg(s->source.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0) {
		bool full = errno == EAGAIN || errno == EPIPE || errno == ECONNRESET;

		/* Whatever else it is, waiting for room would not mend it. */
		*taken = full ? 0 : 1;
		s->link.counters->dropped[DROP_LINK_ERROR] += *taken;
		return !full;
	}
	*taken = keep_rest(s, &b, (size_t)sent);
	return *taken == b.count && s->rest_at == s->rest_end;
}

static int stream_send(struct tap_link *link, const struct tap_out *frames, unsigned n,
		       unsigned *sent)
{
	struct stream_link *s = stream_of(link);
	bool room;
	unsigned i = 0;

	*sent = 0;
	if (s->source.fd < 0)
		return 0;
	room = send_rest(s);
	while (i < n && room) {
		unsigned taken = 0;

		room = send_some(s, frames + i, n - i, &taken);
		i += taken;
	}
	if (!room) {
		s->wants_room = true;
		watch_room(s);
	}
	*sent = i;
	return 0;
}

/* ---- life */

static void stream_free(struct tap_link *link)
{
	struct stream_link *s = stream_of(link);

	detach(s);
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
	*out = &s->link;
	return 0;
}
