/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/virtqueue.h"

#include <endian.h>
#include <errno.h>
#include <linux/virtio_ring.h>
#include <stdlib.h>
#include <string.h>

struct virtqueue {
	struct virtqueue_config cfg;
	const struct vring_desc *descriptors;
	const struct vring_avail *available;
	struct vring_used *used;
	uint16_t mask;
	uint16_t next;      /* of the available ring: the buffer to pop */
	uint16_t seen;      /* its end, as last read */
	uint16_t used_next; /* where the next push goes */
	uint16_t published; /* what the guest knows of */
	bool broken;
};

/* The fields are little-endian (virtio 1.2, 2.7 with VERSION_1) and each is read or written as a
 * whole. */
static uint16_t load(const __virtio16 *p)
{
	return le16toh(__atomic_load_n(p, __ATOMIC_RELAXED));
}

static void store(__virtio16 *p, uint16_t v)
{
	__atomic_store_n(p, htole16(v), __ATOMIC_RELAXED);
}

/* The fields behind the rings (virtio 1.2, 2.7.6 and 2.7.8). */
static uint16_t used_event(const struct virtqueue *q)
{
	return load(&q->available->ring[q->cfg.size]);
}

static void store_avail_event(struct virtqueue *q, uint16_t v)
{
	store((__virtio16 *)(void *)&q->used->ring[q->cfg.size], v);
}

int virtqueue_new(const struct virtqueue_config *cfg, struct virtqueue **out)
{
	struct vhost_memory *m = cfg->memory;
	struct virtqueue *q;

	if (!cfg->size || cfg->size > VIRTQUEUE_SIZE_MAX || cfg->size & (cfg->size - 1))
		return -EINVAL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	*q = (struct virtqueue){.cfg = *cfg, .mask = (uint16_t)(cfg->size - 1), .next = cfg->next};
	q->seen = cfg->next;
	q->descriptors =
	    vhost_memory_user(m, cfg->descriptors, cfg->size * sizeof(struct vring_desc));
	q->available = vhost_memory_user(m, cfg->available, 6 + 2 * (uint64_t)cfg->size);
	q->used = vhost_memory_user(m, cfg->used, 6 + 8 * (uint64_t)cfg->size);
	if (!q->descriptors || !q->available || !q->used) {
		free(q);
		return -EFAULT;
	}
	/* virtio 1.2, 2.7: alignment of the parts. */
	if ((uintptr_t)q->descriptors % 16 || (uintptr_t)q->available % 2 ||
	    (uintptr_t)q->used % 4) {
		free(q);
		return -EINVAL;
	}
	q->used_next = q->published = load(&q->used->idx);
	*out = q;
	return 0;
}

void virtqueue_free(struct virtqueue *q)
{
	free(q);
}

static int break_off(struct virtqueue *q)
{
	q->broken = true;
	return -EPROTO;
}

/* A table of descriptors: the queue's own, or an indirect one, which needs no alignment. */
struct table {
	const uint8_t *at;
	unsigned count;
};

/* Copies a descriptor, so that nothing changes after it was checked. */
static struct vring_desc read_descriptor(const struct table *t, unsigned i)
{
	struct vring_desc d;

	memcpy(&d, t->at + i * sizeof(d), sizeof(d));
	__asm__ volatile("" ::: "memory"); /* not read again */
	return (struct vring_desc){.addr = le64toh(d.addr),
				   .len = le32toh(d.len),
				   .flags = le16toh(d.flags),
				   .next = le16toh(d.next)};
}

/* Adds the memory that d speaks of; it may span regions. */
static int add_parts(struct virtqueue *q, const struct vring_desc *d, struct iovec *parts,
		     struct virtqueue_buffer *b)
{
	uint64_t addr = d->addr, left = d->len, run;

	if (!(d->flags & VRING_DESC_F_WRITE) == q->cfg.to_guest)
		return -EPROTO; /* network queues have buffers of one kind */
	for (; left; addr += run, left -= run) {
		void *at = vhost_memory_guest(q->cfg.memory, addr, left, &run);

		if (!at || b->parts == VIRTQUEUE_PARTS_MAX)
			return -EPROTO;
		parts[b->parts++] = (struct iovec){.iov_base = at, .iov_len = run};
		b->len += run;
	}
	return 0;
}

/* virtio 1.2, 2.7.5.3.1: an indirect descriptor is the last of its chain, and none is in an
 * indirect table. */
static int enter_indirect(struct virtqueue *q, const struct vring_desc *d, struct table *t)
{
	uint64_t run;

	if (!q->cfg.indirect || d->flags & VRING_DESC_F_NEXT || !d->len ||
	    d->len % sizeof(struct vring_desc) ||
	    d->len / sizeof(struct vring_desc) > VIRTQUEUE_SIZE_MAX)
		return -EPROTO;
	t->at = vhost_memory_guest(q->cfg.memory, d->addr, d->len, &run);
	t->count = d->len / (unsigned)sizeof(struct vring_desc);
	return t->at && run == d->len ? 0 : -EPROTO;
}

/* Walks a chain; one of more descriptors than its table has goes round in a circle. */
static int walk(struct virtqueue *q, unsigned i, struct iovec *parts, struct virtqueue_buffer *b)
{
	struct table t = {.at = (const uint8_t *)q->descriptors, .count = q->cfg.size};
	unsigned left = t.count;
	bool indirect = false;

	while (left--) {
		struct vring_desc d = read_descriptor(&t, i);
		int r;

		if (d.flags & VRING_DESC_F_INDIRECT) {
			r = indirect ? -EPROTO : enter_indirect(q, &d, &t);
			if (r < 0)
				return r;
			indirect = true;
			left = t.count;
			i = 0;
			continue;
		}
		r = add_parts(q, &d, parts, b);
		if (r < 0 || !(d.flags & VRING_DESC_F_NEXT))
			return r;
		i = d.next;
		if (i >= t.count)
			return -EPROTO;
	}
	return -EPROTO;
}

/* Reads how far the guest is. */
static int look(struct virtqueue *q)
{
	q->seen = le16toh(__atomic_load_n(&q->available->idx, __ATOMIC_ACQUIRE));
	return (uint16_t)(q->seen - q->next) > q->cfg.size ? break_off(q) : 0;
}

int virtqueue_pop(struct virtqueue *q, struct iovec *parts, struct virtqueue_buffer *b)
{
	if (q->broken)
		return -EPROTO;
	if (q->seen == q->next) {
		int r = look(q);

		if (r < 0)
			return r;
		if (q->seen == q->next)
			return 0;
	}
	*b = (struct virtqueue_buffer){.head = load(&q->available->ring[q->next & q->mask])};
	if (b->head >= q->cfg.size || walk(q, b->head, parts, b) < 0)
		return break_off(q);
	q->next++;
	return 1;
}

void virtqueue_unpop(struct virtqueue *q, unsigned n)
{
	q->next = (uint16_t)(q->next - n);
}

void virtqueue_push(struct virtqueue *q, uint16_t head, uint32_t len)
{
	struct vring_used_elem *e = &q->used->ring[q->used_next++ & q->mask];

	__atomic_store_n(&e->id, htole32(head), __ATOMIC_RELAXED);
	__atomic_store_n(&e->len, htole32(len), __ATOMIC_RELAXED);
	vhost_memory_written(q->cfg.memory, e, sizeof(*e));
}

bool virtqueue_publish(struct virtqueue *q)
{
	uint16_t old = q->published;

	if (old == q->used_next)
		return false;
	__atomic_store_n(&q->used->idx, htole16(q->used_next), __ATOMIC_RELEASE);
	vhost_memory_written(q->cfg.memory, &q->used->idx, sizeof(q->used->idx));
	q->published = q->used_next;
	/* The guest says what it wants, then looks at the index once more: so must we look only
	 * after writing it (virtio 1.2, 2.7.7). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (q->cfg.event_index)
		return vring_need_event(used_event(q), q->used_next, old);
	return !(load(&q->available->flags) & VRING_AVAIL_F_NO_INTERRUPT);
}

bool virtqueue_want_kick(struct virtqueue *q)
{
	if (q->broken)
		return false;
	if (q->cfg.event_index)
		store_avail_event(q, q->seen);
	else
		store(&q->used->flags, 0);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* as in virtqueue_publish(), the other way */
	return le16toh(__atomic_load_n(&q->available->idx, __ATOMIC_ACQUIRE)) != q->seen;
}

void virtqueue_no_kick(struct virtqueue *q)
{
	/* With the event index, one that lies behind is enough (virtio 1.2, 2.7.10). */
	if (!q->cfg.event_index && !q->broken)
		store(&q->used->flags, VRING_USED_F_NO_NOTIFY);
}

uint16_t virtqueue_next(const struct virtqueue *q)
{
	return q->next;
}

bool virtqueue_is_broken(const struct virtqueue *q)
{
	return q->broken;
}
