/* SPDX-License-Identifier: BSD-3-Clause */
/* A vhost-user front end, guest included: memory in a memfd, rings, and messages over a socket. It
 * asserts nothing, so that programs can have it as well as unit tests; functions that can fail
 * return 0 or negative errno. What a well-behaved one never sends can be sent, too. */
#ifndef TEST_UNIT_VHOST_FRONT_H
#define TEST_UNIT_VHOST_FRONT_H

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>

#include "tap/vhost_message.h"

/* The guest's physical memory begins here; the front end says that it has it at another address,
 * in two regions with a gap in between. */
#define FRONT_GUEST_BASE 0x40000000ULL
#define FRONT_USER_BASE  0x7f0000000000ULL
#define FRONT_USER_GAP   0x10000ULL

#define FRONT_BIT(n)      (1ULL << (n))
#define FRONT_REPLY_ACK   FRONT_BIT(3)
#define FRONT_PROTOCOL    FRONT_BIT(30)
#define FRONT_NUMBER_ONLY 8U /* size of a payload that is one number */

struct front_queue {
	unsigned index, size;
	struct vring_desc *descriptors;
	struct vring_avail *available;
	struct vring_used *used;
	size_t at;            /* offset of the descriptors in memory */
	uint16_t next, shown; /* of the available ring: next to fill, and what the device knows */
	uint16_t seen;        /* of the used ring */
	int kick, call;
	bool event_index;
};

struct front {
	int fd, memfd;
	uint8_t *memory;
	size_t memory_len, allocated;
	unsigned regions;
	uint64_t features, protocol_features;
	struct front_queue queues[VHOST_QUEUES_MAX];
	/* Lets the other end work before an answer is read; NULL if it does so by itself. */
	void (*pump)(void *arg);
	void *pump_arg;
};

/* Takes over fd. memory_len is a multiple of two pages. */
int front_open(struct front *f, int fd, size_t memory_len) must_check;
void front_close(struct front *f);

/* Any message: size bytes of payload, and descriptors. */
int front_send(struct front *f, uint32_t request, const void *payload, uint32_t size,
	       const int *fds, unsigned fd_count) must_check;
int front_send_flags(struct front *f, uint32_t request, uint32_t flags, const void *payload,
		     uint32_t size, const int *fds, unsigned fd_count) must_check;
/* Reads an answer to request; its payload has at most room bytes, and *size says how many. */
int front_answer(struct front *f, uint32_t request, void *payload, uint32_t room,
		 uint32_t *size) must_check;

int front_number(struct front *f, uint32_t request, uint64_t n) must_check;
int front_get(struct front *f, uint32_t request, uint64_t *n) must_check;
int front_state(struct front *f, uint32_t request, uint32_t index, uint32_t num) must_check;
int front_ring_fd(struct front *f, uint32_t request, uint32_t index, int fd) must_check;

/* Features: those of wanted that the other end offers. */
int front_features(struct front *f, uint64_t wanted) must_check;
int front_memory(struct front *f) must_check;
/* Makes ring index with size entries, and enables it. */
int front_ring(struct front *f, unsigned index, unsigned size) must_check;
/* As front_ring(), for the ring's second life: without new memory for it. */
int front_ring_again(struct front *f, unsigned index, uint16_t next) must_check;
/* All of it, for pairs of rings. */
int front_set_up(struct front *f, uint64_t wanted, unsigned pairs, unsigned size) must_check;

/* Memory of the guest's: offset, or 0 if there is no more. */
size_t front_alloc(struct front *f, size_t len, size_t align);
uint64_t front_guest(const struct front *f, size_t at);
uint64_t front_user(const struct front *f, size_t at);

/* Rings. Who uses them keeps account of descriptors. */
void front_put(struct front_queue *q, unsigned i, struct vring_desc d);
void front_avail(struct front_queue *q, uint16_t head);
/* Shows the device what was made available, and kicks it if it wants to be. */
bool front_show(struct front_queue *q);
/* true: *head came back, with len bytes written. */
bool front_used(struct front_queue *q, uint32_t *head, uint32_t *len);
/* Whether the device shall call. true: something is there already, of which it won't tell. */
bool front_want_call(struct front_queue *q);
void front_no_call(struct front_queue *q);

#endif
