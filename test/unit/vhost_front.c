/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/unit/vhost_front.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define VERSION_1       1U
#define FLAG_REPLY      4U
#define FLAG_NEED_REPLY 8U

struct header {
	uint32_t request, flags, size;
};

int front_open(struct front *f, int fd, size_t memory_len)
{
	*f = (struct front){.fd = fd, .memfd = -1, .memory_len = memory_len, .regions = 2};
	for (unsigned i = 0; i < VHOST_QUEUES_MAX; i++)
		f->queues[i].kick = f->queues[i].call = -1;
	f->memfd = memfd_create("guest", MFD_CLOEXEC);
	if (f->memfd < 0 || ftruncate(f->memfd, (off_t)memory_len) < 0)
		return -errno;
	f->memory = mmap(NULL, memory_len, PROT_READ | PROT_WRITE, MAP_SHARED, f->memfd, 0);
	if (f->memory == MAP_FAILED) {
		f->memory = NULL;
		return -errno;
	}
	f->allocated = 64; /* nothing is at 0 */
	return 0;
}

void front_close(struct front *f)
{
	fd_close(&f->fd);
	fd_close(&f->memfd);
	for (unsigned i = 0; i < VHOST_QUEUES_MAX; i++) {
		fd_close(&f->queues[i].kick);
		fd_close(&f->queues[i].call);
	}
	if (f->memory)
		munmap(f->memory, f->memory_len);
	f->memory = NULL;
}

int front_send_flags(struct front *f, uint32_t request, uint32_t flags, const void *payload,
		     uint32_t size, const int *fds, unsigned fd_count)
{
	struct header h = {.request = request, .flags = flags, .size = size};
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(64 * sizeof(int))];
	} control = {0};
	struct iovec iov[2] = {{.iov_base = &h, .iov_len = sizeof(h)},
			       {.iov_base = (void *)(uintptr_t)payload, .iov_len = size}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = payload ? 2 : 1};

	if (fd_count) {
		struct cmsghdr *c = &control.align;

		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
	}
	return sendmsg(f->fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int read_whole(int fd, void *to, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = recv(fd, (uint8_t *)to + at, len - at, 0);

		if (n <= 0)
			return n ? -errno : -EPIPE;
		at += (size_t)n;
	}
	return 0;
}

int front_answer(struct front *f, uint32_t request, void *payload, uint32_t room, uint32_t *size)
{
	struct header h;
	int r;

	if (f->pump)
		f->pump(f->pump_arg);
	r = read_whole(f->fd, &h, sizeof(h));
	if (r < 0)
		return r;
	if (h.request != request || h.flags != (VERSION_1 | FLAG_REPLY) || h.size > room)
		return -EBADMSG;
	*size = h.size;
	return read_whole(f->fd, payload, h.size);
}

/* With REPLY_ACK every message is waited for. */
int front_send(struct front *f, uint32_t request, const void *payload, uint32_t size,
	       const int *fds, unsigned fd_count)
{
	bool ack = f->protocol_features & FRONT_REPLY_ACK;
	uint64_t failed = 1;
	uint32_t got;
	int r = front_send_flags(f, request, ack ? VERSION_1 | FLAG_NEED_REPLY : VERSION_1, payload,
				 size, fds, fd_count);

	if (r < 0 || !ack)
		return r;
	r = front_answer(f, request, &failed, sizeof(failed), &got);
	if (r < 0)
		return r;
	return got == sizeof(failed) && !failed ? 0 : -EREMOTEIO;
}

int front_number(struct front *f, uint32_t request, uint64_t n)
{
	return front_send(f, request, &n, sizeof(n), NULL, 0);
}

int front_get(struct front *f, uint32_t request, uint64_t *n)
{
	uint32_t size;
	int r = front_send_flags(f, request, VERSION_1, NULL, 0, NULL, 0);

	if (!r)
		r = front_answer(f, request, n, sizeof(*n), &size);
	if (r < 0)
		return r;
	return size == sizeof(*n) ? 0 : -EBADMSG;
}

int front_state(struct front *f, uint32_t request, uint32_t index, uint32_t num)
{
	struct vhost_ring_state s = {.index = index, .num = num};

	return front_send(f, request, &s, sizeof(s), NULL, 0);
}

int front_ring_fd(struct front *f, uint32_t request, uint32_t index, int fd)
{
	uint64_t n = index | (fd < 0 ? VHOST_RING_NO_FD : 0);

	return front_send(f, request, &n, sizeof(n), &fd, fd < 0 ? 0 : 1);
}

int front_features(struct front *f, uint64_t wanted)
{
	uint64_t offered, protocol;
	int r = front_get(f, VHOST_GET_FEATURES, &offered);

	if (r < 0)
		return r;
	f->features = offered & (wanted | FRONT_BIT(VIRTIO_F_VERSION_1) | FRONT_PROTOCOL);
	if (f->features & FRONT_PROTOCOL) {
		r = front_get(f, VHOST_GET_PROTOCOL_FEATURES, &protocol);
		if (!r)
			r = front_number(f, VHOST_SET_PROTOCOL_FEATURES,
					 protocol & FRONT_REPLY_ACK);
		if (r < 0)
			return r;
		f->protocol_features = protocol & FRONT_REPLY_ACK;
	}
	r = front_send(f, VHOST_SET_OWNER, NULL, 0, NULL, 0);
	return r < 0 ? r : front_number(f, VHOST_SET_FEATURES, f->features);
}

uint64_t front_guest(const struct front *f, size_t at)
{
	(void)f;
	return FRONT_GUEST_BASE + at;
}

uint64_t front_user(const struct front *f, size_t at)
{
	return FRONT_USER_BASE + at + (at >= f->memory_len / 2 ? FRONT_USER_GAP : 0);
}

int front_memory(struct front *f)
{
	size_t half = f->memory_len / 2;
	struct vhost_memory_table t = {.count = 2};
	int fds[2] = {f->memfd, f->memfd};

	for (unsigned i = 0; i < 2; i++)
		t.regions[i] = (struct vhost_region){.guest_addr = front_guest(f, i * half),
						     .size = half,
						     .user_addr = front_user(f, i * half),
						     .file_offset = i * half};
	return front_send(f, VHOST_SET_MEM_TABLE, &t,
			  (uint32_t)offsetof(struct vhost_memory_table, regions[2]), fds, 2);
}

size_t front_alloc(struct front *f, size_t len, size_t align)
{
	size_t at = (f->allocated + align - 1) / align * align;

	if (at > f->memory_len || len > f->memory_len - at)
		return 0;
	f->allocated = at + len;
	return at;
}

int front_ring_again(struct front *f, unsigned index, uint16_t next)
{
	struct front_queue *q = &f->queues[index];
	struct vhost_ring_addresses a = {.index = index};
	int r;

	a.descriptors = front_user(f, q->at);
	a.available = front_user(f, (size_t)((uint8_t *)q->available - f->memory));
	a.used = front_user(f, (size_t)((uint8_t *)q->used - f->memory));
	q->event_index = f->features & FRONT_BIT(VIRTIO_RING_F_EVENT_IDX);
	r = front_state(f, VHOST_SET_VRING_NUM, index, q->size);
	if (!r)
		r = front_state(f, VHOST_SET_VRING_BASE, index, next);
	if (!r)
		r = front_send(f, VHOST_SET_VRING_ADDR, &a, sizeof(a), NULL, 0);
	if (!r)
		r = front_ring_fd(f, VHOST_SET_VRING_KICK, index, q->kick);
	if (!r)
		r = front_ring_fd(f, VHOST_SET_VRING_CALL, index, q->call);
	if (!r && f->features & FRONT_PROTOCOL)
		r = front_state(f, VHOST_SET_VRING_ENABLE, index, 1);
	return r;
}

int front_ring(struct front *f, unsigned index, unsigned size)
{
	struct front_queue *q = &f->queues[index];
	size_t available, used;

	q->index = index;
	q->size = size;
	q->at = front_alloc(f, size * sizeof(struct vring_desc), 16);
	available = front_alloc(f, 6 + 2 * size, 2);
	used = front_alloc(f, 6 + 8 * size, 4);
	if (!q->at || !available || !used)
		return -ENOMEM;
	q->descriptors = (void *)(f->memory + q->at);
	q->available = (void *)(f->memory + available);
	q->used = (void *)(f->memory + used);
	q->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	q->call = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (q->kick < 0 || q->call < 0)
		return -errno;
	return front_ring_again(f, index, 0);
}

int front_set_up(struct front *f, uint64_t wanted, unsigned pairs, unsigned size)
{
	int r = front_features(f, wanted);

	if (!r)
		r = front_memory(f);
	for (unsigned i = 0; !r && i < 2 * pairs; i++)
		r = front_ring(f, i, size);
	return r;
}

void front_put(struct front_queue *q, unsigned i, struct vring_desc d)
{
	q->descriptors[i] = d;
}

void front_avail(struct front_queue *q, uint16_t head)
{
	q->available->ring[q->next++ & (q->size - 1)] = head;
}

bool front_show(struct front_queue *q)
{
	const __virtio16 *avail_event = (const void *)&q->used->ring[q->size];
	uint16_t old = q->shown;
	uint64_t one = 1;
	bool wanted;

	__atomic_store_n(&q->available->idx, q->next, __ATOMIC_RELEASE);
	q->shown = q->next;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (q->event_index)
		wanted =
		    vring_need_event(__atomic_load_n(avail_event, __ATOMIC_RELAXED), q->next, old);
	else
		wanted =
		    !(__atomic_load_n(&q->used->flags, __ATOMIC_RELAXED) & VRING_USED_F_NO_NOTIFY);
	if (wanted && old != q->next && write(q->kick, &one, sizeof(one)) < 0)
		return false;
	return wanted && old != q->next;
}

bool front_used(struct front_queue *q, uint32_t *head, uint32_t *len)
{
	const struct vring_used_elem *e = &q->used->ring[q->seen & (q->size - 1)];

	if (__atomic_load_n(&q->used->idx, __ATOMIC_ACQUIRE) == q->seen)
		return false;
	*head = e->id;
	*len = e->len;
	q->seen++;
	return true;
}

bool front_want_call(struct front_queue *q)
{
	if (q->event_index)
		__atomic_store_n(&q->available->ring[q->size], q->seen, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&q->available->flags, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&q->used->idx, __ATOMIC_ACQUIRE) != q->seen;
}

void front_no_call(struct front_queue *q)
{
	if (!q->event_index)
		__atomic_store_n(&q->available->flags, VRING_AVAIL_F_NO_INTERRUPT,
				 __ATOMIC_RELAXED);
}
