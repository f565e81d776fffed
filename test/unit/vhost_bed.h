/* SPDX-License-Identifier: BSD-3-Clause */
/* A vhost-user link in a loop, and a front end at the other end of a socket pair, in one thread. */
#ifndef TEST_UNIT_VHOST_BED_H
#define TEST_UNIT_VHOST_BED_H

#include "test/unit/build.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "tap/tap.h"
#include "test/unit/vhost_front.h"

#define MEMORY_LEN ((size_t)8 << 20)
#define HALF       (MEMORY_LEN / 2)
#define VNET_LEN   12
#define KEPT_MAX   256
#define PAIRS      8

struct bed {
	struct loop *loop;
	struct tap *tap;
	struct tap_link *link;
	struct counters counters;
	struct front front;
	usec_t now;
	unsigned connected, writable, gone;
	int gone_err;
	unsigned batch; /* frames a receive */

	/* What came, copied. */
	unsigned count;
	struct {
		uint8_t *data;
		size_t len;
		struct offload off;
	} frames[KEPT_MAX];
};

static struct bed b;

static inline void bed_readable(void *arg, usec_t now)
{
	struct tap_frame frames[64];
	unsigned n;

	(void)arg;
	(void)now;
	do {
		assert_int_equal(tap_receive(b.tap, frames, b.batch, &n), 0);
		for (unsigned i = 0; i < n; i++) {
			assert_in_range(b.count, 0, KEPT_MAX - 1);
			b.frames[b.count].data = malloc(frames[i].len);
			memcpy(b.frames[b.count].data, frames[i].data, frames[i].len);
			b.frames[b.count].len = frames[i].len;
			b.frames[b.count++].off = frames[i].off;
		}
	} while (n == b.batch && b.batch == 64);
}

static inline void bed_writable(void *arg, usec_t now)
{
	(void)arg;
	(void)now;
	b.writable++;
}

static inline void bed_connected(void *arg, usec_t now)
{
	(void)arg;
	(void)now;
	b.connected++;
}

static inline void bed_gone(void *arg, int err)
{
	(void)arg;
	b.gone++;
	b.gone_err = err;
}

/* Lets the link do whatever there is to do. */
static inline void run(void)
{
	for (int i = 0; i < 4; i++)
		assert_int_equal(loop_turn(b.loop, b.now++, 0), 0);
}

static inline void bed_pump(void *arg)
{
	(void)arg;
	run();
}

static inline void forget_frames(void)
{
	while (b.count)
		free(b.frames[--b.count].data);
}

static inline unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Halves of a guest's memory that the process has mapped, the front end's own two included. */
static inline unsigned mapped_halves(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512];
	size_t len = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strstr(line, "/memfd:guest"))
			continue;
		assert_int_equal(sscanf(line, "%lx-%lx", &from, &to), 2);
		len += to - from;
	}
	fclose(f);
	return (unsigned)(len / HALF);
}

/* A front end connects, and says nothing yet. */
static inline void join(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair),
			 0);
	assert_int_equal(tap_attach(b.tap, pair[0]), 0);
	assert_int_equal(front_open(&b.front, pair[1], MEMORY_LEN), 0);
	b.front.pump = bed_pump;
}

static inline int bed_open(void **state)
{
	static const struct tap_events ev = {.readable = bed_readable,
					     .writable = bed_writable,
					     .connected = bed_connected,
					     .gone = bed_gone};
	struct tap_config cfg = {.our_mac = our_mac, .guest_mac = guest_mac, .mtu = 65520};

	(void)state;
	memset(&b, 0, sizeof(b));
	b.front.fd = b.front.memfd = -1;
	b.batch = 64;
	b.now = USEC_SEC;
	assert_int_equal(loop_new(&b.loop), 0);
	assert_int_equal(vhost_link_new(&b.link), 0);
	assert_int_equal(tap_new(b.link, &cfg, &b.counters, &b.tap), 0);
	assert_int_equal(tap_start(b.tap, b.loop, &ev), 0);
	join();
	return 0;
}

static inline int bed_close(void **state)
{
	(void)state;
	tap_free(b.tap);
	if (b.front.memory)
		front_close(&b.front);
	forget_frames();
	loop_free(b.loop);
	return 0;
}

/* A buffer of one part for ring q, of len bytes at offset at. */
static inline void offer(struct front_queue *q, uint16_t i, size_t at, size_t len, uint16_t flags)
{
	front_put(q, i,
		  (struct vring_desc){
		      .addr = front_guest(&b.front, at), .len = (uint32_t)len, .flags = flags});
	front_avail(q, i);
}

/* A frame with its header in guest memory: offset. */
static inline size_t put_frame(const uint8_t *vnet, size_t len)
{
	size_t at = front_alloc(&b.front, VNET_LEN + len, 16);

	assert_true(at > 0);
	memset(b.front.memory + at, 0, VNET_LEN);
	if (vnet)
		memcpy(b.front.memory + at, vnet, VNET_LEN);
	fill(b.front.memory + at + VNET_LEN, len);
	return at;
}

static inline void expect_frame(unsigned i, size_t len)
{
	uint8_t *want = malloc(len);

	assert_true(i < b.count);
	fill(want, len);
	assert_int_equal(b.frames[i].len, len);
	assert_memory_equal(b.frames[i].data, want, len);
	free(want);
}

/* What a modern guest accepts, but the event index. */
#define ALL                                                                                        \
	(FRONT_BIT(VIRTIO_NET_F_GUEST_CSUM) | FRONT_BIT(VIRTIO_NET_F_GUEST_TSO4) |                 \
	 FRONT_BIT(VIRTIO_NET_F_GUEST_TSO6) | FRONT_BIT(54) | FRONT_BIT(55) |                      \
	 FRONT_BIT(VIRTIO_NET_F_MRG_RXBUF) | FRONT_BIT(VIRTIO_RING_F_INDIRECT_DESC))
#define EVENT_IDX FRONT_BIT(VIRTIO_RING_F_EVENT_IDX)
#define SIZE      64

enum { RX, TX };

static inline void set_up(uint64_t features, unsigned count)
{
	assert_int_equal(front_set_up(&b.front, features, count, SIZE), 0);
	run();
}

static inline void used_is(struct front_queue *q, uint32_t head, uint32_t len)
{
	uint32_t got_head, got_len;

	assert_true(front_used(q, &got_head, &got_len));
	assert_int_equal(got_head, head);
	assert_int_equal(got_len, len);
}

static inline void used_is_empty(struct front_queue *q)
{
	uint32_t head, len;

	assert_false(front_used(q, &head, &len));
}

static inline unsigned calls(const struct front_queue *q)
{
	uint64_t n = 0;

	return read(q->call, &n, sizeof(n)) < 0 ? 0 : (unsigned)n;
}

static inline int send_frame(size_t len, const struct offload *off)
{
	static uint8_t bytes[FRAME_MAX];
	struct iovec iov[3] = {{bytes, 54}, {bytes + 54, 1}, {bytes + 55, len - 55}};
	struct tap_out out = {.iov = iov, .iov_count = 3};
	unsigned sent = 0;

	fill(bytes, len);
	if (off)
		out.off = *off;
	assert_int_equal(tap_send(b.tap, &out, 1, &sent), 0);
	return (int)sent;
}

static inline void expect_bytes(size_t at, size_t from, size_t len)
{
	static uint8_t want[FRAME_MAX];

	fill(want, from + len);
	assert_memory_equal(b.front.memory + at, want + from, len);
}

#endif
