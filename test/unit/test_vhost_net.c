/* SPDX-License-Identifier: BSD-3-Clause */
/* The vhost-user link with a front end that keeps to the rules: frames both ways in every form that
 * a ring can give them, and what the link asks for and tells. */
#include "test/unit/vhost_bed.h"

#include <fcntl.h>

#define ALL                                                                                        \
	(FRONT_BIT(VIRTIO_NET_F_GUEST_CSUM) | FRONT_BIT(VIRTIO_NET_F_GUEST_TSO4) |                 \
	 FRONT_BIT(VIRTIO_NET_F_GUEST_TSO6) | FRONT_BIT(54) | FRONT_BIT(55) |                      \
	 FRONT_BIT(VIRTIO_NET_F_MRG_RXBUF) | FRONT_BIT(VIRTIO_RING_F_INDIRECT_DESC))
#define EVENT_IDX FRONT_BIT(VIRTIO_RING_F_EVENT_IDX)
#define SIZE      64

enum { RX, TX };

static void set_up(uint64_t features, unsigned count)
{
	assert_int_equal(front_set_up(&b.front, features, count, SIZE), 0);
	run();
}

static void used_is(struct front_queue *q, uint32_t head, uint32_t len)
{
	uint32_t got_head, got_len;

	assert_true(front_used(q, &got_head, &got_len));
	assert_int_equal(got_head, head);
	assert_int_equal(got_len, len);
}

static void used_is_empty(struct front_queue *q)
{
	uint32_t head, len;

	assert_false(front_used(q, &head, &len));
}

static unsigned calls(const struct front_queue *q)
{
	uint64_t n = 0;

	return read(q->call, &n, sizeof(n)) < 0 ? 0 : (unsigned)n;
}

/* Descriptors that a program executed by us would have. */
static unsigned inheritable(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++) {
		int flags = fcntl(fd, F_GETFD);

		n += flags >= 0 && !(flags & FD_CLOEXEC);
	}
	return n;
}

static void handshake(void **state)
{
	unsigned before = inheritable();
	uint64_t offered, n;

	(void)state;
	assert_int_equal(front_get(&b.front, VHOST_GET_FEATURES, &offered), 0);
	/* VERSION_1, CSUM, GUEST_CSUM, MTU, GUEST_TSO4/6/ECN, HOST_TSO4/6/ECN, MRG_RXBUF, STATUS,
	 * CTRL_VQ, MQ, LOG_ALL, INDIRECT, EVENT_IDX, PROTOCOL_FEATURES, GUEST_USO4/6, HOST_USO. */
	assert_int_equal(offered, 1ULL << 32 | 0x1 | 0x2 | 0x8 | 0x80 | 0x100 | 0x200 | 0x800 |
				      0x1000 | 0x2000 | 0x8000 | 0x10000 | 0x20000 | 0x400000 |
				      0x4000000 | 0x10000000 | 0x20000000 | 0x40000000 |
				      7ULL << 54);
	set_up(ALL, 1);
	assert_int_equal(inheritable(), before);
	assert_int_equal(b.front.protocol_features, FRONT_REPLY_ACK);
	assert_int_equal(front_get(&b.front, VHOST_GET_QUEUE_NUM, &n), 0);
	assert_int_equal(n, PAIRS);
	assert_int_equal(front_get(&b.front, VHOST_GET_MAX_MEM_SLOTS, &n), 0);
	assert_int_equal(n, VHOST_REGIONS_MAX);
	assert_int_equal(front_number(&b.front, VHOST_SET_STATUS, 7), 0);
	assert_int_equal(front_get(&b.front, VHOST_GET_STATUS, &n), 0);
	assert_int_equal(n, 7);
	assert_int_equal(front_number(&b.front, VHOST_SEND_RARP, 0x525400123456), 0);
	assert_int_equal(front_number(&b.front, VHOST_NET_SET_MTU, 1500), 0);
	assert_int_equal(b.gone, 0);
}

static void features_follow_the_guest(void **state)
{
	static const struct {
		uint64_t off;
		struct tap_features want;
	} rows[] = {
	    {0, {true, true, true}},
	    {FRONT_BIT(VIRTIO_NET_F_GUEST_CSUM), {false, false, false}},
	    {FRONT_BIT(VIRTIO_NET_F_GUEST_TSO4), {true, false, true}},
	    {FRONT_BIT(VIRTIO_NET_F_GUEST_TSO6), {true, false, true}},
	    {FRONT_BIT(54), {true, true, false}},
	    {FRONT_BIT(55), {true, true, false}},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct tap_features *f = tap_features(b.tap);

		assert_int_equal(front_set_up(&b.front, ALL & ~rows[i].off, 1, SIZE), 0);
		assert_memory_equal(f, &rows[i].want, sizeof(*f));
		front_close(&b.front);
		run();
		assert_false(f->csum || f->tcp_gso || f->udp_gso);
		join();
	}
}

/* A guest is there when it can be sent something. */
static void connected_with_the_first_buffer(void **state)
{
	struct front_queue *q = &b.front.queues[RX];
	size_t room = front_alloc(&b.front, 2048, 16);

	(void)state;
	set_up(ALL, 1);
	assert_int_equal(write(q->kick, &(uint64_t){1}, 8), 8); /* for nothing */
	run();
	assert_int_equal(b.connected, 0);
	offer(q, 0, room, 2048, VRING_DESC_F_WRITE);
	assert_true(front_show(q));
	run();
	assert_int_equal(b.connected, 1);
	assert_int_equal(b.writable, 1);
	/* Memory and rings that are set anew make it no other guest. */
	assert_int_equal(front_memory(&b.front), 0);
	run();
	assert_int_equal(b.connected, 1);
	front_close(&b.front);
	run();
	/* Buffers that were there before the device looked need no kick. */
	join();
	q = &b.front.queues[RX];
	assert_int_equal(front_features(&b.front, ALL), 0);
	assert_int_equal(front_memory(&b.front), 0);
	assert_int_equal(front_ring(&b.front, RX, SIZE), 0);
	assert_int_equal(front_state(&b.front, VHOST_SET_VRING_ENABLE, RX, 0), 0);
	offer(q, 0, room, 2048, VRING_DESC_F_WRITE);
	q->available->idx = q->next;
	run();
	assert_int_equal(b.connected, 1);
	assert_int_equal(front_state(&b.front, VHOST_SET_VRING_ENABLE, RX, 1), 0);
	assert_int_equal(b.connected, 2);
}

static void one_frame(void **state)
{
	struct front_queue *q = &b.front.queues[TX];
	size_t at;

	(void)state;
	set_up(0, 1);
	at = put_frame(NULL, 60);
	offer(q, 5, at, VNET_LEN + 60, 0);
	assert_true(front_show(q));
	run();
	assert_int_equal(b.count, 1);
	expect_frame(0, 60);
	used_is(q, 5, 0);
	used_is_empty(q);
	assert_int_equal(calls(q), 1);
}

/* Offload headers, as rows of their twelve bytes. */
static void offloads_from_the_guest(void **state)
{
	static const uint8_t rows[][VNET_LEN] = {
	    {1, 0, 0, 0, 0, 0, 34, 0, 16, 0},
	    {1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0},
	    {1, 0x84, 86, 0, 0x94, 5, 54, 0, 16, 0},
	    {1, 5, 42, 0, 0xb0, 4, 34, 0, 6, 0},
	};
	static const enum gso gso[] = {GSO_NONE, GSO_TCP4, GSO_TCP6, GSO_UDP};
	struct front_queue *q = &b.front.queues[TX];

	(void)state;
	set_up(ALL, 1);
	for (uint16_t i = 0; i < COUNT(rows); i++)
		offer(q, i, put_frame(rows[i], 100), VNET_LEN + 100, 0);
	front_show(q);
	run();
	assert_int_equal(b.count, COUNT(rows));
	for (unsigned i = 0; i < COUNT(rows); i++) {
		const struct offload *o = &b.frames[i].off;

		expect_frame(i, 100);
		assert_true(o->csum_partial);
		assert_int_equal(o->csum_start, rows[i][6]);
		assert_int_equal(o->csum_offset, rows[i][8]);
		assert_int_equal(o->gso, gso[i]);
		assert_int_equal(o->gso_size, rows[i][4] | rows[i][5] << 8);
		assert_int_equal(o->gso_ecn, i == 2);
	}
}

static void bad_frames_are_dropped(void **state)
{
	static const uint8_t bad[VNET_LEN] = {1, 0, 0, 0, 0, 0, 99, 0, 1, 0};
	struct front_queue *q = &b.front.queues[TX];
	size_t big = front_alloc(&b.front, VNET_LEN + FRAME_MAX + 1, 16);

	(void)state;
	set_up(ALL, 1);
	offer(q, 0, put_frame(NULL, 13), VNET_LEN + 13, 0);
	offer(q, 1, put_frame(NULL, 60), 5, 0);
	offer(q, 2, put_frame(NULL, 60), 0, 0);
	offer(q, 3, big, VNET_LEN + FRAME_MAX + 1, 0);
	offer(q, 4, put_frame(bad, 100), VNET_LEN + 100, 0);
	offer(q, 5, put_frame(NULL, 14), VNET_LEN + 14, 0);
	front_show(q);
	run();
	assert_int_equal(b.count, 1);
	expect_frame(0, 14);
	for (uint32_t i = 0; i < 6; i++)
		used_is(q, i, 0);
	assert_int_equal(b.counters.dropped[DROP_FRAME_SHORT], 3);
	assert_int_equal(b.counters.dropped[DROP_FRAME_LONG], 1);
	assert_int_equal(b.counters.dropped[DROP_L4_HEADER], 1);
	assert_int_equal(b.gone, 0);
}

/* Cuts a frame into parts, header and all, and gives it as a chain. */
static void offer_chain(struct front_queue *q, uint16_t first, size_t at, const size_t *cuts,
			uint16_t flags)
{
	for (unsigned i = 0; cuts[i]; i++) {
		bool last = !cuts[i + 1];

		front_put(
		    q, first + i,
		    (struct vring_desc){.addr = front_guest(&b.front, at),
					.len = (uint32_t)cuts[i],
					.flags = (uint16_t)(flags | (last ? 0 : VRING_DESC_F_NEXT)),
					.next = (uint16_t)(first + i + 1)});
		at += cuts[i];
	}
	front_avail(q, first);
}

static void chained(void **state)
{
	static const size_t cuts[][6] = {
	    {12, 100, 900}, {1, 2, 3, 1000, 6}, {11, 1001}, {512, 500}, {13, 13, 986}};
	struct front_queue *q = &b.front.queues[TX];

	(void)state;
	set_up(ALL, 1);
	for (uint16_t i = 0; i < COUNT(cuts); i++)
		offer_chain(q, (uint16_t)(i * 6), put_frame(NULL, 1000), cuts[i], 0);
	front_show(q);
	run();
	assert_int_equal(b.count, COUNT(cuts));
	for (unsigned i = 0; i < COUNT(cuts); i++) {
		expect_frame(i, 1000);
		used_is(q, i * 6, 0);
	}
}

/* One descriptor over the border between two regions, which are neighbours in the guest alone. */
static void over_the_border(void **state)
{
	struct front_queue *tx = &b.front.queues[TX], *rx = &b.front.queues[RX];
	size_t at = HALF - 500;
	uint8_t frame[1000];
	struct iovec iov = {frame, sizeof(frame)};
	struct tap_out out = {.iov = &iov, .iov_count = 1};
	unsigned sent;

	(void)state;
	set_up(ALL, 1);
	memset(b.front.memory + at, 0, VNET_LEN);
	fill(b.front.memory + at + VNET_LEN, sizeof(frame));
	offer(tx, 0, at, VNET_LEN + sizeof(frame), 0);
	front_show(tx);
	run();
	assert_int_equal(b.count, 1);
	expect_frame(0, sizeof(frame));
	memset(b.front.memory + at, 0, 2000);
	offer(rx, 0, at, 1500, VRING_DESC_F_WRITE);
	front_show(rx);
	fill(frame, sizeof(frame));
	assert_int_equal(tap_send(b.tap, &out, 1, &sent), 0);
	assert_int_equal(sent, 1);
	assert_memory_equal(b.front.memory + at + VNET_LEN, frame, sizeof(frame));
	used_is(rx, 0, VNET_LEN + sizeof(frame));
}

/* The table lies anywhere, odd addresses included. */
static void indirect(void **state)
{
	struct front_queue *q = &b.front.queues[TX];
	size_t at = put_frame(NULL, 3000), where = front_alloc(&b.front, 200, 16) + 1;
	struct vring_desc table[3] = {
	    {.len = 12, .flags = VRING_DESC_F_NEXT, .next = 2},
	    {.len = 2000},
	    {.len = 1000, .flags = VRING_DESC_F_NEXT, .next = 1},
	};

	(void)state;
	set_up(ALL, 1);
	table[0].addr = front_guest(&b.front, at);
	table[2].addr = table[0].addr + 12;
	table[1].addr = table[2].addr + 1000;
	memcpy(b.front.memory + where, table, sizeof(table));
	offer(q, 9, where, sizeof(table), VRING_DESC_F_INDIRECT);
	/* And after an ordinary descriptor. */
	front_put(q, 20,
		  (struct vring_desc){.addr = front_guest(&b.front, at),
				      .len = 12,
				      .flags = VRING_DESC_F_NEXT,
				      .next = 21});
	front_put(q, 21,
		  (struct vring_desc){.addr = front_guest(&b.front, where + 16 + 0),
				      .len = 16,
				      .flags = VRING_DESC_F_INDIRECT});
	front_avail(q, 20);
	front_show(q);
	run();
	assert_int_equal(b.count, 2);
	expect_frame(0, 3000);
	used_is(q, 9, 0);
	used_is(q, 20, 0);
	assert_int_equal(b.frames[1].len, 2000);
}

static int send_frame(size_t len, const struct offload *off)
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

static void expect_bytes(size_t at, size_t from, size_t len)
{
	static uint8_t want[FRAME_MAX];

	fill(want, from + len);
	assert_memory_equal(b.front.memory + at, want + from, len);
}

/* To the guest: one buffer in one part, and one in many. */
static void to_one_buffer(void **state)
{
	static const size_t cuts[] = {5, 7, 40, 1, 1500, 0};
	static const struct offload gso = {.csum_partial = true,
					   .csum_start = 34,
					   .csum_offset = 16,
					   .gso = GSO_TCP4,
					   .gso_size = 1448,
					   .header_len = 66};
	static const uint8_t header[VNET_LEN] = {1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0, 1, 0};
	struct front_queue *q = &b.front.queues[RX];
	size_t at[2];

	(void)state;
	set_up(ALL & ~FRONT_BIT(VIRTIO_NET_F_MRG_RXBUF), 1);
	at[0] = front_alloc(&b.front, 66000, 16);
	at[1] = front_alloc(&b.front, 66000, 16);
	offer(q, 3, at[0], 66000, VRING_DESC_F_WRITE);
	offer_chain(q, 10, at[1], cuts, VRING_DESC_F_WRITE);
	front_show(q);
	assert_int_equal(send_frame(FRAME_MAX, &gso), 1);
	assert_memory_equal(b.front.memory + at[0], header, VNET_LEN);
	expect_bytes(at[0] + VNET_LEN, 0, FRAME_MAX);
	used_is(q, 3, VNET_LEN + FRAME_MAX);
	assert_int_equal(send_frame(1000, NULL), 1);
	assert_int_equal(calls(q), 0);
	run();
	assert_int_equal(calls(q), 1); /* one for all of the turn */
	expect_bytes(at[1] + VNET_LEN, 0, 1000);
	used_is(q, 10, VNET_LEN + 1000);
	/* A frame that no buffer takes is lost, and the buffer is still there for the next one. */
	offer_chain(q, 10, at[1], cuts, VRING_DESC_F_WRITE);
	front_show(q);
	assert_int_equal(send_frame(3000, NULL), 1);
	assert_int_equal(b.counters.dropped[DROP_LINK_ERROR], 1);
	used_is_empty(q);
	assert_int_equal(send_frame(1541, NULL), 1);
	used_is(q, 10, VNET_LEN + 1541);
}

static void mergeable(void **state)
{
	struct front_queue *q = &b.front.queues[RX];
	size_t at = front_alloc(&b.front, SIZE * 2048, 16), len = 20000;

	(void)state;
	set_up(ALL, 1);
	for (uint16_t i = 0; i < 9; i++)
		offer(q, i, at + i * 2048, 2048, VRING_DESC_F_WRITE);
	assert_true(front_show(q));
	run();
	assert_int_equal(b.writable, 1);
	/* Nine don't hold it: none is touched. */
	assert_int_equal(send_frame(len, NULL), 0);
	used_is_empty(q);
	assert_int_equal(b.counters.dropped[DROP_LINK_FULL], 1);
	assert_int_equal(b.writable, 1);
	offer(q, 9, at + 9 * 2048, 2048, VRING_DESC_F_WRITE);
	assert_true(front_show(q));
	run();
	assert_int_equal(b.writable, 2);
	assert_int_equal(send_frame(len, NULL), 1);
	assert_int_equal(b.front.memory[at + 10], 10);
	assert_int_equal(b.front.memory[at + 11], 0);
	expect_bytes(at + VNET_LEN, 0, len);
	for (uint32_t i = 0; i < 10; i++)
		used_is(q, i, i < 9 ? 2048 : (uint32_t)(len + VNET_LEN - 9 * 2048));
	used_is_empty(q);
	run();
	assert_int_equal(calls(q), 1);
	/* What is still to be told when the ring is changed is told then. */
	offer(q, 0, at, 2048, VRING_DESC_F_WRITE);
	front_show(q);
	assert_int_equal(send_frame(60, NULL), 1);
	b.front.pump = NULL;
	assert_int_equal(front_send_flags(&b.front, VHOST_SET_VRING_ENABLE, 1,
					  &(struct vhost_ring_state){RX, 0}, 8, NULL, 0),
			 0);
	assert_int_equal(calls(q), 0);
	run();
	assert_int_equal(calls(q), 1);
}

/* Of a batch that finds too little room nothing is torn: the rest comes as soon as there is some,
 * in its order, and only then is the link told to have room. */
static void rest_of_a_batch(void **state)
{
	struct front_queue *q = &b.front.queues[RX];
	size_t at = front_alloc(&b.front, SIZE * 2048, 16);
	uint8_t bytes[1000];
	struct iovec iov[10];
	struct tap_out out[10];
	unsigned sent, done = 0;
	uint32_t head, len;

	(void)state;
	set_up(ALL, 1);
	fill(bytes, sizeof(bytes));
	for (unsigned i = 0; i < 10; i++) {
		iov[i] = (struct iovec){bytes, 100 + i};
		out[i] = (struct tap_out){.iov = &iov[i], .iov_count = 1};
	}
	for (uint16_t i = 0; i < 4; i++)
		offer(q, i, at + i * 2048, 2048, VRING_DESC_F_WRITE);
	front_show(q);
	run();
	b.writable = 0;
	assert_int_equal(tap_send(b.tap, out, 10, &sent), 0);
	assert_int_equal(sent, 10);
	assert_int_equal(b.counters.dropped[DROP_LINK_FULL], 0);
	while (front_used(q, &head, &len))
		assert_int_equal(len, VNET_LEN + 100 + done++);
	assert_int_equal(done, 4);
	assert_int_equal(send_frame(500, NULL), 0); /* it would overtake */
	for (uint16_t i = 4; i < 10; i++) {
		offer(q, i, at + i * 2048, 2048, VRING_DESC_F_WRITE);
		assert_true(front_show(q));
		run();
		assert_int_equal(b.writable, i == 9);
		used_is(q, i, VNET_LEN + 100 + i);
		expect_bytes(at + i * 2048 + VNET_LEN, 0, 100 + i);
	}
	/* A guest that goes takes what was kept along. */
	assert_int_equal(tap_send(b.tap, out, 10, &sent), 0);
	assert_int_equal(sent, 0);
	offer(q, 10, at, 2048, VRING_DESC_F_WRITE);
	front_show(q);
	assert_int_equal(tap_send(b.tap, out, 10, &sent), 0);
	assert_int_equal(sent, 10);
	front_close(&b.front);
	run();
	join();
	q = &b.front.queues[RX];
	set_up(ALL, 1);
	offer(q, 0, at, 2048, VRING_DESC_F_WRITE);
	front_show(q);
	run();
	used_is_empty(q);
}

/* With the event index, kicks and calls come where they were asked for, and nowhere else. */
static void event_index(void **state)
{
	struct front_queue *tx = &b.front.queues[TX], *rx = &b.front.queues[RX];
	size_t at = front_alloc(&b.front, 4 * 2048, 16), frame;
	__virtio16 *used_event;

	(void)state;
	set_up(ALL | EVENT_IDX, 1);
	assert_true(b.front.queues[TX].event_index);
	frame = put_frame(NULL, 60);
	used_event = &tx->available->ring[SIZE];
	*used_event = 2; /* call at the third */
	for (uint16_t i = 0; i < 5; i++) {
		offer(tx, i, frame, VNET_LEN + 60, 0);
		assert_true(front_show(tx)); /* each time the ring was found empty */
		run();
		assert_int_equal(b.count, i + 1);
		assert_int_equal(calls(tx), i == 2);
	}
	for (uint16_t i = 5; i < 8; i++) {
		offer(tx, i, frame, VNET_LEN + 60, 0);
		assert_int_equal(front_show(tx), i == 5); /* not looked at since */
	}
	run();
	assert_int_equal(b.count, 8);
	/* Room is asked for only when there was none. */
	for (uint16_t i = 0; i < 2; i++)
		offer(rx, i, at + i * 2048, 2048, VRING_DESC_F_WRITE);
	front_show(rx);
	assert_int_equal(send_frame(100, NULL), 1);
	offer(rx, 2, at, 2048, VRING_DESC_F_WRITE);
	assert_false(front_show(rx));
	assert_int_equal(send_frame(100, NULL), 1);
	assert_int_equal(send_frame(100, NULL), 1);
	assert_int_equal(send_frame(100, NULL), 0);
	offer(rx, 3, at, 2048, VRING_DESC_F_WRITE);
	assert_true(front_show(rx));
	b.writable = 0;
	run();
	assert_int_equal(b.writable, 1);
	assert_int_equal(send_frame(100, NULL), 1);
	offer(rx, 0, at, 2048, VRING_DESC_F_WRITE);
	assert_false(front_show(rx));
}

/* Without it, flags say so. */
static void flags_say_who_is_told(void **state)
{
	struct front_queue *tx = &b.front.queues[TX], *rx = &b.front.queues[RX];
	size_t at = front_alloc(&b.front, 2048, 16), frame;

	(void)state;
	set_up(ALL, 1);
	frame = put_frame(NULL, 60);
	assert_int_equal(tx->used->flags, 0);
	assert_int_equal(rx->used->flags, 0);
	tx->available->flags = VRING_AVAIL_F_NO_INTERRUPT;
	offer(tx, 0, frame, VNET_LEN + 60, 0);
	assert_true(front_show(tx));
	run();
	assert_int_equal(b.count, 1);
	assert_int_equal(calls(tx), 0);
	assert_int_equal(tx->used->flags, 0);
	offer(rx, 0, at, 2048, VRING_DESC_F_WRITE);
	assert_true(front_show(rx));
	run();
	assert_int_equal(rx->used->flags, VRING_USED_F_NO_NOTIFY);
	assert_int_equal(send_frame(100, NULL), 1);
	assert_int_equal(send_frame(100, NULL), 0);
	assert_int_equal(rx->used->flags, 0);
	offer(rx, 0, at, 2048, VRING_DESC_F_WRITE);
	assert_true(front_show(rx));
	run();
	assert_int_equal(rx->used->flags, VRING_USED_F_NO_NOTIFY);
}

/* More than one batch, and none is forgotten although there is no kick for it. */
static void more_than_a_batch(void **state)
{
	struct front_queue *q = &b.front.queues[TX];
	size_t at;

	(void)state;
	set_up(ALL | EVENT_IDX, 1);
	at = put_frame(NULL, 60);
	b.batch = 3;
	for (uint16_t i = 0; i < 10; i++)
		offer(q, i, at, VNET_LEN + 60, 0);
	front_show(q);
	for (unsigned i = 0; b.count < 10; i++) {
		assert_in_range(i, 0, 20);
		assert_int_equal(loop_turn(b.loop, b.now++, 0), 0);
		assert_in_range(b.count, 3 < 3 * i ? 3 : 0, 3 * (i + 2));
	}
	for (uint16_t i = 0; i < 10; i++)
		used_is(q, i, 0);
	/* Eight of the largest don't fit the arena at once. */
	b.batch = 64;
	forget_frames();
	at = put_frame(NULL, FRAME_MAX);
	for (uint16_t i = 0; i < 20; i++)
		offer(q, i, at, VNET_LEN + FRAME_MAX, 0);
	front_show(q);
	for (unsigned i = 0; b.count < 20; i++) {
		assert_in_range(i, 0, 20);
		run();
	}
	expect_frame(19, FRAME_MAX);
}

/* Both indices pass 65535, the ring's end many times more often. */
static void wraps(void **state)
{
	struct front_queue *tx = &b.front.queues[TX], *rx = &b.front.queues[RX];
	size_t at, room = front_alloc(&b.front, 4096, 16);

	(void)state;
	set_up(ALL | EVENT_IDX, 1);
	at = put_frame(NULL, 60);
	for (unsigned i = 0; i < 70000; i++) {
		uint16_t head = (uint16_t)(i % SIZE);

		offer(tx, head, at, VNET_LEN + 60, 0);
		offer(rx, head, room, 4096, VRING_DESC_F_WRITE);
		front_show(tx);
		front_show(rx);
		assert_int_equal(loop_turn(b.loop, b.now++, 0), 0);
		assert_int_equal(b.count, 1);
		used_is(tx, head, 0);
		assert_int_equal(send_frame(60 + i % 1000, NULL), 1);
		used_is(rx, head, VNET_LEN + 60 + i % 1000);
		forget_frames();
	}
	expect_bytes(room + VNET_LEN, 0, 60 + 69999 % 1000);
}

static void several_pairs(void **state)
{
	size_t at, room = front_alloc(&b.front, 4096, 16);

	(void)state;
	set_up(ALL, PAIRS);
	at = put_frame(NULL, 60);
	for (unsigned i = 0; i < PAIRS; i++) {
		offer(&b.front.queues[2 * i + TX], 1, at, VNET_LEN + 60, 0);
		front_show(&b.front.queues[2 * i + TX]);
		offer(&b.front.queues[2 * i + RX], 1, room, 4096, VRING_DESC_F_WRITE);
		front_show(&b.front.queues[2 * i + RX]);
	}
	run();
	assert_int_equal(b.count, PAIRS);
	for (unsigned i = 0; i < PAIRS; i++)
		used_is(&b.front.queues[2 * i + TX], 1, 0);
	assert_int_equal(send_frame(60, NULL), 1);
	used_is(&b.front.queues[0], 1, VNET_LEN + 60);
	/* The guest takes the first pair out of use: the second has frames then. */
	assert_int_equal(front_state(&b.front, VHOST_SET_VRING_ENABLE, 0, 0), 0);
	assert_int_equal(send_frame(60, NULL), 1);
	used_is(&b.front.queues[2], 1, VNET_LEN + 60);
	for (unsigned i = 1; i < PAIRS; i++)
		assert_int_equal(front_state(&b.front, VHOST_SET_VRING_ENABLE, 2 * i, 0), 0);
	assert_int_equal(send_frame(60, NULL), 0);
}

/* vhost-user specification, "Ring states": frames of a disabled ring are taken and forgotten. */
static void disabled_ring(void **state)
{
	struct front_queue *q = &b.front.queues[TX];

	(void)state;
	set_up(ALL, 1);
	assert_int_equal(front_state(&b.front, VHOST_SET_VRING_ENABLE, TX, 0), 0);
	offer(q, 0, put_frame(NULL, 60), VNET_LEN + 60, 0);
	front_show(q);
	run();
	used_is(q, 0, 0);
	assert_int_equal(b.count, 0);
}

/* GET_VRING_BASE stops a ring, and what waits there is taken after it was started again. */
static void stopped_ring(void **state)
{
	struct front_queue *q = &b.front.queues[TX];
	struct vhost_ring_state s = {.index = TX};
	uint32_t size;
	size_t at;

	(void)state;
	set_up(ALL, 1);
	at = put_frame(NULL, 60);
	for (uint16_t i = 0; i < 3; i++)
		offer(q, i, at, VNET_LEN + 60, 0);
	front_show(q);
	run();
	assert_int_equal(b.count, 3);
	assert_int_equal(
	    front_send_flags(&b.front, VHOST_GET_VRING_BASE, 1, &s, sizeof(s), NULL, 0), 0);
	assert_int_equal(front_answer(&b.front, VHOST_GET_VRING_BASE, &s, sizeof(s), &size), 0);
	assert_int_equal(size, sizeof(s));
	assert_int_equal(s.index, TX);
	assert_int_equal(s.num, 3);
	offer(q, 3, at, VNET_LEN + 60, 0);
	front_show(q);
	run();
	assert_int_equal(b.count, 3);
	assert_int_equal(front_ring_again(&b.front, TX, 3), 0);
	run();
	assert_int_equal(b.count, 4);
	for (uint32_t i = 0; i < 4; i++)
		used_is(q, i, 0);
}

/* Memory that is added and taken away while rings run. */
static void memory_comes_and_goes(void **state)
{
	struct front_queue *q = &b.front.queues[TX];
	struct vhost_one_region more = {
	    .region = {.guest_addr = 0x100000000ULL, .size = HALF, .user_addr = 0x1000000}};
	size_t at;

	(void)state;
	set_up(ALL, 1);
	at = put_frame(NULL, 60);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
		    front_send(&b.front, VHOST_ADD_MEM_REG, &more, sizeof(more), &b.front.memfd, 1),
		    0);
		assert_int_equal(mapped_halves(), 2 + 3);
		front_put(q, 0, (struct vring_desc){.addr = 0x100000000ULL + at, .len = 72});
		front_avail(q, 0);
		front_show(q);
		run();
		assert_int_equal(b.count, i + 1);
		assert_int_equal(front_send(&b.front, VHOST_REM_MEM_REG, &more, sizeof(more),
					    &b.front.memfd, i % 2),
				 0);
		assert_int_equal(mapped_halves(), 2 + 2);
	}
	/* What is there is added, and what isn't removed, without effect: QEMU does so with several
	 * pairs of queues. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(
		    front_send(&b.front, VHOST_ADD_MEM_REG, &more, sizeof(more), &b.front.memfd, 1),
		    0);
	assert_int_equal(mapped_halves(), 2 + 3);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
		    front_send(&b.front, VHOST_REM_MEM_REG, &more, sizeof(more), NULL, 0), 0);
	assert_int_equal(mapped_halves(), 2 + 2);
	/* A table of its own replaces all. */
	assert_int_equal(front_memory(&b.front), 0);
	assert_int_equal(mapped_halves(), 2 + 2);
	offer(q, 0, at, VNET_LEN + 60, 0);
	front_show(q);
	run();
	assert_int_equal(b.count, 4);
}

/* Pages that are written while the log is on, and no others, have their bits set. */
static void dirty_log(void **state)
{
	struct front_queue *tx = &b.front.queues[TX], *rx = &b.front.queues[RX];
	size_t room = front_alloc(&b.front, 8192, 4096), at;
	struct vhost_log log = {.size = (FRONT_GUEST_BASE + MEMORY_LEN) >> 15};
	int fd = memfd_create("log", MFD_CLOEXEC);
	uint8_t *bits;
	uint64_t page = (FRONT_GUEST_BASE + room) >> 12;
	uint32_t size;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)log.size), 0);
	bits = mmap(NULL, log.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	set_up(ALL, 1);
	at = put_frame(NULL, 60);
	assert_int_equal(
	    front_send_flags(&b.front, VHOST_SET_LOG_BASE, 1, &log, sizeof(log), &fd, 1), 0);
	assert_int_equal(front_answer(&b.front, VHOST_SET_LOG_BASE, &log, sizeof(log), &size), 0);
	assert_int_equal(size, 0);
	offer(rx, 0, room, 4096, VRING_DESC_F_WRITE);
	front_show(rx);
	assert_int_equal(send_frame(60, NULL), 1);
	assert_int_equal(bits[page / 8] >> page % 8 & 1, 0);
	assert_int_equal(
	    front_number(&b.front, VHOST_SET_FEATURES, b.front.features | FRONT_BIT(26)), 0);
	offer(rx, 1, room + 4096, 4096, VRING_DESC_F_WRITE);
	front_show(rx);
	assert_int_equal(send_frame(60, NULL), 1);
	assert_int_equal(bits[page / 8] >> page % 8 & 1, 0);
	page++;
	assert_int_equal(bits[page / 8] >> page % 8 & 1, 1);
	bits[page / 8] = 0;
	offer(tx, 0, at, VNET_LEN + 60, 0);
	front_show(tx);
	run();
	page = (FRONT_GUEST_BASE + (uint64_t)((uint8_t *)tx->used - b.front.memory)) >> 12;
	assert_int_equal(bits[page / 8] >> page % 8 & 1, 1);
	munmap(bits, log.size);
	fd_close(&fd);
}

/* Pages that the log is too small for are not logged. */
static void log_too_small(void **state)
{
	struct front_queue *q = &b.front.queues[RX];
	struct vhost_one_region low = {
	    .region = {.guest_addr = 0, .size = HALF, .user_addr = 0x1000000}};
	struct vhost_log log = {.size = 16};
	int fd = memfd_create("log", MFD_CLOEXEC);
	uint8_t bits[64];
	uint32_t size;

	(void)state;
	assert_int_equal(ftruncate(fd, 4096), 0);
	set_up(ALL | FRONT_BIT(26), 1);
	assert_int_equal(
	    front_send(&b.front, VHOST_ADD_MEM_REG, &low, sizeof(low), &b.front.memfd, 1), 0);
	assert_int_equal(
	    front_send_flags(&b.front, VHOST_SET_LOG_BASE, 1, &log, sizeof(log), &fd, 1), 0);
	assert_int_equal(front_answer(&b.front, VHOST_SET_LOG_BASE, &log, sizeof(log), &size), 0);
	for (uint16_t i = 0; i < 2; i++) {
		front_put(q, i,
			  (struct vring_desc){.addr = (i ? 256 : 16) << 12,
					      .len = 2048,
					      .flags = VRING_DESC_F_WRITE});
		front_avail(q, i);
	}
	front_show(q);
	assert_int_equal(send_frame(60, NULL), 1);
	assert_int_equal(send_frame(60, NULL), 1);
	assert_int_equal(pread(fd, bits, sizeof(bits), 0), sizeof(bits));
	assert_int_equal(bits[2], 1);
	assert_int_equal(bits[32], 0);
	fd_close(&fd);
}

/* A guest that goes leaves nothing behind, and another one begins anew. */
static void guests_come_and_go(void **state)
{
	unsigned before = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		set_up(ALL | (i % 2 ? EVENT_IDX : 0), 1 + i % 3);
		offer(&b.front.queues[TX], 0, put_frame(NULL, 60), VNET_LEN + 60, 0);
		front_show(&b.front.queues[TX]);
		run();
		assert_int_equal(b.count, 1);
		assert_int_equal(mapped_halves(), 2 + 2);
		forget_frames();
		front_close(&b.front);
		run();
		assert_int_equal(b.gone, i + 1);
		assert_int_equal(b.gone_err, 0);
		assert_int_equal(mapped_halves(), 0);
		assert_int_equal(send_frame(60, NULL), 0);
		if (!before)
			before = descriptors();
		assert_int_equal(descriptors(), before);
		b.connected = 0;
		join();
	}
}

/* Messages in pieces of any size, and several at once. */
static void messages_in_pieces(void **state)
{
	uint8_t bytes[20] = {[0] = VHOST_SET_FEATURES, [4] = 1, [8] = 8, [12 + 4] = 1};
	uint8_t many[32 * 12] = {0};
	uint64_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		assert_int_equal(send(b.front.fd, bytes + i, 1, 0), 1);
		run();
	}
	assert_int_equal(front_get(&b.front, VHOST_GET_FEATURES, &n), 0);
	for (size_t i = 0; i < sizeof(many); i += 12) {
		many[i] = VHOST_SET_OWNER;
		many[i + 4] = 1;
	}
	assert_int_equal(send(b.front.fd, many, sizeof(many), 0), sizeof(many));
	assert_int_equal(front_get(&b.front, VHOST_GET_FEATURES, &n), 0);
	assert_int_equal(b.gone, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_open, bed_close)
	    TEST(handshake),
	    TEST(features_follow_the_guest),
	    TEST(connected_with_the_first_buffer),
	    TEST(one_frame),
	    TEST(offloads_from_the_guest),
	    TEST(bad_frames_are_dropped),
	    TEST(chained),
	    TEST(over_the_border),
	    TEST(indirect),
	    TEST(to_one_buffer),
	    TEST(mergeable),
	    TEST(rest_of_a_batch),
	    TEST(event_index),
	    TEST(flags_say_who_is_told),
	    TEST(more_than_a_batch),
	    TEST(wraps),
	    TEST(several_pairs),
	    TEST(disabled_ring),
	    TEST(stopped_ring),
	    TEST(memory_comes_and_goes),
	    TEST(dirty_log),
	    TEST(log_too_small),
	    TEST(guests_come_and_go),
	    TEST(messages_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
