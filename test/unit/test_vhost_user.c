/* SPDX-License-Identifier: BSD-3-Clause */
/* The vhost-user link with a front end that keeps to the rules: what is agreed on, and how rings,
 * memory and guests come and go. */
#include "test/unit/vhost_bed.h"

#include <fcntl.h>

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
