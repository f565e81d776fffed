/* SPDX-License-Identifier: BSD-3-Clause */
/* A split virtqueue as the device sees it (virtio 1.2, 2.7). All of it lies in memory that the
 * guest may change at any moment: each value is read once, then checked, then used. Inside tap/
 * only. */
#ifndef TAP_VIRTQUEUE_H
#define TAP_VIRTQUEUE_H

#include <sys/uio.h>

#include "tap/vhost_memory.h"

#define VIRTQUEUE_SIZE_MAX  32768 /* virtio 1.2, 2.7 */
#define VIRTQUEUE_PARTS_MAX 1024  /* of one buffer: Linux makes at most some 50 */

struct virtqueue_config {
	struct vhost_memory *memory; /* outlives the queue */
	/* The parts' addresses in the front end's address space. */
	uint64_t descriptors, available, used;
	unsigned size;
	uint16_t next;    /* the buffer to begin with */
	bool to_guest;    /* buffers are for the device to write */
	bool event_index; /* VIRTIO_F_EVENT_IDX */
	bool indirect;    /* VIRTIO_F_INDIRECT_DESC */
};

/* A buffer: one chain of descriptors. */
struct virtqueue_buffer {
	uint16_t head;
	unsigned parts;
	size_t len;
};

struct virtqueue;

/* -EINVAL: size is no power of two or too large, or an address is not aligned; -EFAULT: a part of
 * the queue is not in the memory, or not in one piece. */
int virtqueue_new(const struct virtqueue_config *cfg, struct virtqueue **out) must_check;
void virtqueue_free(struct virtqueue *q);

/* The next available buffer, with its parts in parts, which has room for VIRTQUEUE_PARTS_MAX. 1: it
 * is *b; 0: there is none. -EPROTO: the queue breaks the rules, and does so from then on. */
int virtqueue_pop(struct virtqueue *q, struct iovec *parts, struct virtqueue_buffer *b) must_check;

/* Puts the latest n buffers back, which are to be popped once more. */
void virtqueue_unpop(struct virtqueue *q, unsigned n);

/* Gives a buffer back to the guest, len bytes of it written; the guest sees it after the next
 * virtqueue_publish(). */
void virtqueue_push(struct virtqueue *q, uint16_t head, uint32_t len);

/* Shows the guest what was pushed. true if it wants to be told of it. */
bool virtqueue_publish(struct virtqueue *q);

/* Whether the guest should tell of new buffers. It is an advice that the guest may not heed. After
 * asking for it, true says that there are buffers already, of which it won't tell. */
bool virtqueue_want_kick(struct virtqueue *q);
void virtqueue_no_kick(struct virtqueue *q);

/* The index of the next buffer: where a queue that takes this one's place begins. */
uint16_t virtqueue_next(const struct virtqueue *q);
bool virtqueue_is_broken(const struct virtqueue *q);

#endif
