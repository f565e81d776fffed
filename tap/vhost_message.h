/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the vhost-user protocol (vhost-user specification, "Message Specification"): received
 * whole, with their descriptors, and checked against a table before anybody acts on them. Inside
 * tap/ only. */
#ifndef TAP_VHOST_MESSAGE_H
#define TAP_VHOST_MESSAGE_H

#include "tap/vhost_memory.h"

/* Number and name; those that are missing belong to features that are not offered. */
#define VHOST_REQUESTS(X)                                                                          \
	X(1, GET_FEATURES)                                                                         \
	X(2, SET_FEATURES)                                                                         \
	X(3, SET_OWNER)                                                                            \
	X(4, RESET_OWNER)                                                                          \
	X(5, SET_MEM_TABLE)                                                                        \
	X(6, SET_LOG_BASE)                                                                         \
	X(7, SET_LOG_FD)                                                                           \
	X(8, SET_VRING_NUM)                                                                        \
	X(9, SET_VRING_ADDR)                                                                       \
	X(10, SET_VRING_BASE)                                                                      \
	X(11, GET_VRING_BASE)                                                                      \
	X(12, SET_VRING_KICK)                                                                      \
	X(13, SET_VRING_CALL)                                                                      \
	X(14, SET_VRING_ERR)                                                                       \
	X(15, GET_PROTOCOL_FEATURES)                                                               \
	X(16, SET_PROTOCOL_FEATURES)                                                               \
	X(17, GET_QUEUE_NUM)                                                                       \
	X(18, SET_VRING_ENABLE)                                                                    \
	X(19, SEND_RARP)                                                                           \
	X(20, NET_SET_MTU)                                                                         \
	X(36, GET_MAX_MEM_SLOTS)                                                                   \
	X(37, ADD_MEM_REG)                                                                         \
	X(38, REM_MEM_REG)                                                                         \
	X(39, SET_STATUS)                                                                          \
	X(40, GET_STATUS)

#define VHOST_REQUEST_ENUM(number, name) VHOST_##name = number,
enum vhost_request { VHOST_REQUESTS(VHOST_REQUEST_ENUM) VHOST_REQUEST_END };

#define VHOST_FDS_MAX    8 /* as many as SET_MEM_TABLE has regions */
#define VHOST_QUEUES_MAX 16

/* Payloads as they travel, in the machine's byte order. */
struct vhost_ring_state {
	uint32_t index, num;
};

struct vhost_ring_addresses {
	uint32_t index, flags;
	uint64_t descriptors, used, available, log;
};

struct vhost_memory_table {
	uint32_t count, padding;
	struct vhost_region regions[VHOST_FDS_MAX];
};

struct vhost_one_region {
	uint64_t padding;
	struct vhost_region region;
};

struct vhost_log {
	uint64_t size, offset;
};

union vhost_payload {
	uint64_t number;
	struct vhost_ring_state state;
	struct vhost_ring_addresses addresses;
	struct vhost_memory_table memory;
	struct vhost_one_region region;
	struct vhost_log log;
};

/* The number of messages that name a ring and bring a descriptor. */
#define VHOST_RING_INDEX 0xff
#define VHOST_RING_NO_FD 0x100

struct vhost_message {
	enum vhost_request request;
	bool need_reply;
	union vhost_payload payload;
	unsigned fd_count;
	int fds[VHOST_FDS_MAX]; /* the receiver's; -1 where the message's taker took it over */
};

/* A message that is coming. */
struct vhost_receiver {
	uint8_t header[12];
	size_t got;    /* of header and payload together */
	size_t wanted; /* 0 while the header is not complete */
	struct vhost_message message;
};

void vhost_receiver_init(struct vhost_receiver *r);

/* Forgets what came so far, and closes its descriptors. */
void vhost_receiver_reset(struct vhost_receiver *r);

/* Reads from a socket that doesn't block. 1: a message is complete, valid until the next call; its
 * payload has the length of its kind, rings have an index below VHOST_QUEUES_MAX, and descriptors
 * are as many as belong to it. 0: not yet. -EPIPE: the socket was closed; -EPROTO: no such message,
 * or not as it must be; other negative errno: recvmsg(2)'s. */
int vhost_receive(struct vhost_receiver *r, int fd) must_check;

/* Answers a request with size bytes. -EAGAIN if the other side doesn't take its answers. */
int vhost_reply(int fd, enum vhost_request request, const void *payload, uint32_t size) must_check;

const char *vhost_request_name(enum vhost_request request);

#endif
