/* SPDX-License-Identifier: BSD-3-Clause */
/* A virtual machine by vhost-user: frames go straight through the virtqueues that it shares (virtio
 * 1.2, 5.1.6). The control socket's messages are vhost_user.c's. Nothing that guest or front end
 * write is believed, and nothing here waits for them. */
#include <errno.h>
#include <stdlib.h>

#include "tap/tap.h"
#include "tap/vhost_user.h"
#include "tap/vnet.h"

#define SLOT_MAX        (VNET_LEN + FRAME_MAX)
#define MESSAGES_A_TURN 64

/* Frames are copied out of the guest's memory before anybody looks at them, since it could change
 * them after a check: one behind the other in an arena, each behind its header, so that it holds
 * seven super-frames or some thousand small ones. Untouched pages cost nothing. */
#define ARENA_LEN  (512 * 1024)
/* With the header at 6 modulo 16, the IP header behind 12 and 14 bytes is aligned. */
#define SLOT_ALIGN 16
#define SLOT_SHIFT 6

/* What of a batch found no room is kept up to this much: the segments of a super-frame, and more.
 */
#define KEPT_LEN ((size_t)192 << 10)

/* A frame that is kept: its bytes follow. */
struct kept {
	struct offload off;
	size_t len;
};

/* Buffers gathered for one frame. */
struct room {
	struct iovec parts[2 * VIRTQUEUE_PARTS_MAX];
	struct virtqueue_buffer buffers[VIRTQUEUE_PARTS_MAX];
	unsigned part_count, count;
	size_t len;
};

struct kick {
	struct loop_source source;
	struct vhost_link *link;
};

struct vhost_link {
	struct tap_link link;
	struct loop *loop;
	struct tap_events events;
	struct loop_source control; /* fd -1: nobody is connected */
	struct loop_task again;     /* there is more than one batch, or nobody will kick for it */
	struct loop_task calls;     /* the guest is to be told of out's buffers */
	struct vhost_receiver receiver;
	struct vhost_user *user;
	struct kick kicks[VHOST_QUEUES_MAX];
	struct vhost_ring *out; /* where frames to the guest go, or NULL */
	bool out_changed;       /* nobody has looked for buffers there yet */
	bool connected;         /* was told */
	bool wants_room;        /* writable() is due when there are buffers */
	unsigned turn;          /* the pair that is served first */
	struct room room;
	uint8_t *arena;
	uint8_t
	    *kept; /* frames at kept_at .. kept_end are still to be sent; NULL before the first */
	size_t kept_at, kept_end;
};

static struct vhost_link *vhost_of(struct tap_link *link)
{
	return container_of(link, struct vhost_link, link);
}

static void drop(struct vhost_link *l, enum drop_reason why)
{
	if (l->link.counters)
		count_drop(l->link.counters, why);
}

static bool is_enabled(const struct vhost_link *l, const struct vhost_ring *ring)
{
	/* vhost-user specification, "Ring states": without protocol features there is no
	 * SET_VRING_ENABLE. */
	return ring->enabled || !vhost_user_has(l->user, VHOST_PROTOCOL_FEATURES);
}

/* All frames go to the first ring that takes any: so no flow is ever reordered. */
static void choose_out(struct vhost_link *l)
{
	struct vhost_ring *out = NULL;

	for (unsigned i = 0; i < VHOST_QUEUES_MAX && !out; i += 2) {
		struct vhost_ring *ring = vhost_user_ring(l->user, i);

		if (ring->queue && is_enabled(l, ring))
			out = ring;
	}
	l->out = out;
	l->out_changed = true;
}

static void learn_features(struct vhost_link *l)
{
	const struct vhost_user *u = l->user;
	bool csum = vhost_user_has(u, VIRTIO_NET_F_GUEST_CSUM);

	l->link.features =
	    (struct tap_features){.csum = csum,
				  .tcp_gso = csum && vhost_user_has(u, VIRTIO_NET_F_GUEST_TSO4) &&
					     vhost_user_has(u, VIRTIO_NET_F_GUEST_TSO6),
				  .udp_gso = csum && vhost_user_has(u, VIRTIO_NET_F_GUEST_USO4) &&
					     vhost_user_has(u, VIRTIO_NET_F_GUEST_USO6)};
}

static size_t gather(const struct iovec *parts, unsigned count, uint8_t *to)
{
	size_t n = 0;

	for (unsigned i = 0; i < count; i++) {
		memcpy(to + n, parts[i].iov_base, parts[i].iov_len);
		n += parts[i].iov_len;
	}
	return n;
}

/* To the guest. */

/* Gathers buffers for len bytes. 0; -ENOBUFS: there are not enough now; -EMSGSIZE: the guest's
 * buffers are no place for such a frame; -EPROTO: the ring is broken. */
static int find_room(struct vhost_link *l, size_t len)
{
	bool mergeable = vhost_user_has(l->user, VIRTIO_NET_F_MRG_RXBUF);
	struct virtqueue *q = l->out->queue;
	struct room *room = &l->room;

	room->part_count = room->count = 0;
	room->len = 0;
	do {
		struct virtqueue_buffer *b = &room->buffers[room->count];
		int r;

		if (room->count == VIRTQUEUE_PARTS_MAX || room->part_count > VIRTQUEUE_PARTS_MAX)
			return -EMSGSIZE;
		r = virtqueue_pop(q, room->parts + room->part_count, b);
		if (r != 1)
			return r ? r : -ENOBUFS;
		room->part_count += b->parts;
		room->len += b->len;
		room->count++;
	} while (room->len < len && mergeable);
	return room->len < len ? -EMSGSIZE : 0;
}

/* Copies src to the room. */
static void fill_room(struct vhost_link *l, const struct iovec *src, int count)
{
	struct vhost_memory *memory = vhost_user_memory(l->user);
	const struct iovec *to = l->room.parts;
	size_t at = 0; /* in *to */

	for (int i = 0; i < count; i++) {
		const uint8_t *from = src[i].iov_base;
		size_t left = src[i].iov_len;

		while (left) {
			size_t n = to->iov_len - at < left ? to->iov_len - at : left;

			memcpy((uint8_t *)to->iov_base + at, from, n);
			vhost_memory_written(memory, (uint8_t *)to->iov_base + at, n);
			from += n;
			left -= n;
			at += n;
			if (at == to->iov_len) {
				to++;
				at = 0;
			}
		}
	}
}

static void push_room(struct vhost_link *l, size_t len)
{
	const struct room *room = &l->room;

	for (unsigned i = 0; i < room->count; i++) {
		size_t n = room->buffers[i].len < len ? room->buffers[i].len : len;

		virtqueue_push(l->out->queue, room->buffers[i].head, (uint32_t)n);
		len -= n;
	}
}

static int write_frame(struct vhost_link *l, const struct tap_out *f)
{
	uint8_t header[VNET_LEN];
	struct iovec src[1 + TAP_IOV_MAX] = {{.iov_base = header, .iov_len = VNET_LEN}};
	size_t len = VNET_LEN;
	int r;

	if (f->iov_count > TAP_IOV_MAX)
		return -EINVAL;
	memcpy(src + 1, f->iov, (size_t)f->iov_count * sizeof(*src));
	for (int i = 0; i < f->iov_count; i++)
		len += f->iov[i].iov_len;
	r = find_room(l, len);
	if (r < 0) {
		virtqueue_unpop(l->out->queue, l->room.count);
		return r;
	}
	vnet_write(header, &f->off);
	vnet_set_buffers(header, (uint16_t)l->room.count);
	fill_room(l, src, 1 + f->iov_count);
	push_room(l, len);
	return 0;
}

/* As write_frame(), but no guest that has made room since is left unseen. */
static int write_or_wait(struct vhost_link *l, const struct tap_out *f)
{
	int r = write_frame(l, f);

	if (r == -ENOBUFS) {
		l->wants_room = true;
		if (virtqueue_want_kick(l->out->queue))
			r = write_frame(l, f);
	}
	if (!r && l->wants_room) {
		l->wants_room = false;
		virtqueue_no_kick(l->out->queue);
	}
	return r;
}

/* Sends a frame, or loses one that has no place anywhere. False: the ring is full or broken. */
static bool send_frame(struct vhost_link *l, const struct tap_out *f)
{
	int r = write_or_wait(l, f);

	if (r == -EPROTO)
		vhost_ring_report_error(l->out);
	if (r == -EMSGSIZE || r == -EINVAL)
		drop(l, DROP_LINK_ERROR);
	return r != -EPROTO && r != -ENOBUFS;
}

static void publish(struct vhost_link *l)
{
	if (virtqueue_publish(l->out->queue))
		loop_defer(l->loop, &l->calls);
}

static size_t kept_size(size_t len)
{
	return (sizeof(struct kept) + len + 15) / 16 * 16;
}

/* True if nothing is kept any more. */
static bool send_kept(struct vhost_link *l)
{
	while (l->kept_at < l->kept_end) {
		struct kept *k = (void *)(l->kept + l->kept_at);
		struct iovec iov = {.iov_base = k + 1, .iov_len = k->len};
		struct tap_out f = {.iov = &iov, .iov_count = 1, .off = k->off};

		if (!send_frame(l, &f))
			return false;
		l->kept_at += kept_size(k->len);
	}
	l->kept_at = l->kept_end = 0;
	return true;
}

static bool keep_frame(struct vhost_link *l, const struct tap_out *f)
{
	struct kept *k = (void *)(l->kept + l->kept_end);
	size_t len = 0;

	for (int i = 0; i < f->iov_count; i++)
		len += f->iov[i].iov_len;
	if (kept_size(len) > KEPT_LEN - l->kept_end)
		return false;
	*k = (struct kept){.off = f->off, .len = len};
	gather(f->iov, (unsigned)f->iov_count, (uint8_t *)(k + 1));
	l->kept_end += kept_size(len);
	return true;
}

/* Keeps what it can of n frames: how many. A super-frame that was cut into segments, as for a guest
 * that takes none, thus isn't torn by a ring that takes some of them. */
static unsigned keep_frames(struct vhost_link *l, const struct tap_out *frames, unsigned n)
{
	unsigned i = 0;

	if (!l->kept)
		l->kept = malloc(KEPT_LEN);
	while (l->kept && i < n && keep_frame(l, &frames[i]))
		i++;
	return i;
}

/* One call a turn, whatever number of frames it has: each is a system call, and an interrupt. */
static void on_calls(struct loop_task *task, usec_t now)
{
	struct vhost_link *l = container_of(task, struct vhost_link, calls);

	(void)now;
	if (l->out)
		vhost_ring_call(l->out);
}

static int vhost_net_send(struct tap_link *link, const struct tap_out *frames, unsigned n,
			  unsigned *sent)
{
	struct vhost_link *l = vhost_of(link);
	unsigned i = 0;

	*sent = 0;
	if (!l->out || virtqueue_is_broken(l->out->queue))
		return 0;
	if (send_kept(l)) {
		while (i < n && send_frame(l, &frames[i]))
			i++;
		if (i && i < n && !virtqueue_is_broken(l->out->queue))
			i += keep_frames(l, frames + i, n - i);
	}
	publish(l);
	*sent = i;
	return 0;
}

/* From the guest. */

/* Makes a frame of what lies in a buffer; false if it is none. */
static bool read_frame(struct vhost_link *l, const struct virtqueue_buffer *b, uint8_t *slot,
		       struct tap_frame *f)
{
	if (b->len < VNET_LEN + ETH_HEADER_LEN || b->len > SLOT_MAX) {
		drop(l, b->len > SLOT_MAX ? DROP_FRAME_LONG : DROP_FRAME_SHORT);
		return false;
	}
	f->len = gather(l->room.parts, b->parts, slot) - VNET_LEN;
	f->data = slot + VNET_LEN;
	if (!vnet_read(slot, f->len, &f->off)) {
		drop(l, DROP_L4_HEADER);
		return false;
	}
	return true;
}

struct batch {
	struct tap_frame *frames;
	unsigned max, count;
	unsigned left; /* buffers that may still be taken, bad ones included */
	size_t at;     /* in the arena */
};

/* The next buffer. One that is there although the guest won't kick for it is taken at once. */
static int next_buffer(struct vhost_link *l, struct virtqueue *q, struct virtqueue_buffer *b)
{
	int r = virtqueue_pop(q, l->room.parts, b);

	if (r == 0 && virtqueue_want_kick(q)) {
		virtqueue_no_kick(q);
		r = virtqueue_pop(q, l->room.parts, b);
	}
	return r;
}

/* Takes what fits the batch from one ring. true if there may be more. */
static bool take_ring(struct vhost_link *l, struct vhost_ring *ring, struct batch *batch)
{
	struct virtqueue *q = ring->queue;
	bool enabled = is_enabled(l, ring);
	int r = 1;

	virtqueue_no_kick(q);
	while (batch->left && batch->at + SLOT_MAX <= ARENA_LEN) {
		struct tap_frame *f = &batch->frames[batch->count];
		struct virtqueue_buffer b;

		r = next_buffer(l, q, &b);
		if (r != 1)
			break;
		batch->left--;
		if (enabled && read_frame(l, &b, l->arena + batch->at, f)) {
			batch->at += VNET_LEN + f->len + SLOT_ALIGN - 1 - SLOT_SHIFT;
			batch->at = batch->at / SLOT_ALIGN * SLOT_ALIGN + SLOT_SHIFT;
			batch->count++;
		}
		virtqueue_push(q, b.head, 0);
	}
	if (virtqueue_publish(q))
		vhost_ring_call(ring);
	if (r < 0) {
		/* It stays so until the guest's driver or the front end sets it up anew. */
		vhost_ring_report_error(ring);
		loop_remove(l->loop, &l->kicks[ring - vhost_user_ring(l->user, 0)].source);
	}
	return r == 1;
}

static int vhost_net_receive(struct tap_link *link, struct tap_frame *frames, unsigned max,
			     unsigned *count)
{
	struct vhost_link *l = vhost_of(link);
	struct batch batch = {.frames = frames, .max = max, .left = max, .at = SLOT_SHIFT};
	bool more = false;

	for (unsigned i = 0; i < VHOST_PAIRS_MAX; i++) {
		unsigned pair = (l->turn + i) % VHOST_PAIRS_MAX;
		struct vhost_ring *ring = vhost_user_ring(l->user, 2 * pair + 1);

		if (ring->queue && !virtqueue_is_broken(ring->queue))
			more |= take_ring(l, ring, &batch);
	}
	l->turn++;
	if (more)
		loop_defer(l->loop, &l->again);
	else
		loop_undefer(&l->again);
	*count = batch.count;
	return 0;
}

/* The rings. */

/* The guest has buffers for frames: for the first time, or since there were too few. */
static void room_came(struct vhost_link *l, usec_t now)
{
	bool first = !l->connected, all;

	l->wants_room = false;
	l->connected = true;
	virtqueue_no_kick(l->out->queue);
	all = send_kept(l);
	publish(l);
	if (first)
		l->events.connected(l->events.arg, now);
	if (all && l->events.writable)
		l->events.writable(l->events.arg, now);
}

static void on_kick(struct loop_source *src, uint32_t events, usec_t now)
{
	struct kick *kick = container_of(src, struct kick, source);
	struct vhost_link *l = kick->link;
	unsigned index = (unsigned)(kick - l->kicks);

	(void)events;
	if (index % 2)
		l->events.readable(l->events.arg, now);
	else if (l->wants_room && l->out == vhost_user_ring(l->user, index) &&
		 virtqueue_want_kick(l->out->queue)) /* QEMU kicks a new ring for nothing */
		room_came(l, now);
}

static void on_again(struct loop_task *task, usec_t now)
{
	struct vhost_link *l = container_of(task, struct vhost_link, again);

	l->events.readable(l->events.arg, now);
}

/* Edge-triggered: an eventfd wakes up whoever waits at each write, whether or not it was read in
 * between, so that reading it would be a system call for nothing. */
static int ring_started(void *arg, unsigned index)
{
	struct vhost_link *l = arg;
	struct loop_source *src = &l->kicks[index].source;
	struct vhost_ring *ring = vhost_user_ring(l->user, index);
	int r;

	src->fd = ring->kick;
	r = loop_add(l->loop, src, EPOLLIN | EPOLLET);
	if (r < 0)
		return r;
	virtqueue_no_kick(ring->queue);
	if (index % 2)
		loop_defer(l->loop, &l->again); /* what waits there was kicked for long ago */
	else
		choose_out(l);
	return 0;
}

static void ring_stopping(void *arg, unsigned index)
{
	struct vhost_link *l = arg;

	loop_remove(l->loop, &l->kicks[index].source);
	if (l->out != vhost_user_ring(l->user, index))
		return;
	if (!list_empty(&l->calls.node))
		vhost_ring_call(l->out);
	loop_undefer(&l->calls);
	l->out = NULL;
}

/* The control socket. */

static void detach(struct vhost_link *l)
{
	if (l->control.fd < 0)
		return;
	vhost_user_reset(l->user);
	loop_undefer(&l->again);
	loop_undefer(&l->calls);
	vhost_receiver_reset(&l->receiver);
	loop_remove(l->loop, &l->control);
	fd_close(&l->control.fd);
	learn_features(l);
	l->out = NULL;
	l->connected = l->wants_room = false;
	free(l->kept);
	l->kept = NULL;
	l->kept_at = l->kept_end = 0;
}

static void leave(struct vhost_link *l, int err)
{
	detach(l);
	l->events.gone(l->events.arg, err == -EPIPE || err == -ECONNRESET ? 0 : err);
}

/* After a message: looks for buffers in a ring that came into use. */
static void refresh(struct vhost_link *l, usec_t now)
{
	learn_features(l);
	if (!l->out)
		choose_out(l);
	if (!l->out || !l->out_changed)
		return;
	l->out_changed = false;
	l->wants_room = true;
	if (virtqueue_want_kick(l->out->queue))
		room_came(l, now);
}

static void on_control(struct loop_source *src, uint32_t events, usec_t now)
{
	struct vhost_link *l = container_of(src, struct vhost_link, control);

	(void)events;
	for (int i = 0; i < MESSAGES_A_TURN && l->control.fd >= 0; i++) {
		int r = vhost_receive(&l->receiver, src->fd);

		if (!r)
			return;
		if (r > 0)
			r = vhost_user_handle(l->user, &l->receiver.message, src->fd);
		if (r < 0) {
			leave(l, r);
			return;
		}
		refresh(l, now);
	}
}

static int vhost_start(struct tap_link *link, struct loop *loop, const struct tap_events *ev)
{
	struct vhost_link *l = vhost_of(link);

	l->loop = loop;
	l->events = *ev;
	return vhost_memory_survive();
}

static int vhost_attach(struct tap_link *link, int fd)
{
	struct vhost_link *l = vhost_of(link);
	int r;

	l->control.fd = fd;
	r = loop_add(l->loop, &l->control, EPOLLIN);
	if (r < 0)
		fd_close(&l->control.fd);
	return r;
}

static void vhost_net_free(struct tap_link *link)
{
	struct vhost_link *l = vhost_of(link);

	if (l->user)
		detach(l);
	vhost_user_free(l->user);
	free(l->arena);
	free(l);
}

int vhost_link_new(struct tap_link **out)
{
	static const struct tap_ops ops = {.start = vhost_start,
					   .attach = vhost_attach,
					   .receive = vhost_net_receive,
					   .send = vhost_net_send,
					   .free = vhost_net_free};
	struct vhost_link *l = calloc(1, sizeof(*l));
	struct vhost_user_events ev = {
	    .ring_started = ring_started, .ring_stopping = ring_stopping, .arg = l};
	int r;

	if (!l)
		return -ENOMEM;
	l->link.ops = &ops;
	l->control = (struct loop_source){.fd = -1, .ready = on_control};
	loop_task_init(&l->again, on_again);
	loop_task_init(&l->calls, on_calls);
	vhost_receiver_init(&l->receiver);
	for (unsigned i = 0; i < VHOST_QUEUES_MAX; i++)
		l->kicks[i] = (struct kick){.source = {.fd = -1, .ready = on_kick}, .link = l};
	l->arena = malloc(ARENA_LEN);
	r = l->arena ? vhost_user_new(&ev, &l->user) : -ENOMEM;
	if (r < 0) {
		vhost_net_free(&l->link);
		return r;
	}
	*out = &l->link;
	return 0;
}
