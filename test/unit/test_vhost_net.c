/* SPDX-License-Identifier: BSD-3-Clause */
/* The vhost-user link with a front end that keeps to the rules: frames both ways in every form that
 * a ring can give them, and who is told of them. */
#include "test/unit/vhost_bed.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_open, bed_close)
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
