/* SPDX-License-Identifier: BSD-3-Clause */
/* A front end and a guest that break the rules. Messages that do cost the client its connection,
 * rings that do are out of use until they are set up anew; nothing else happens, and nothing is
 * left behind. */
#include "test/unit/vhost_bed.h"

#include <fcntl.h>

#define FEATURES                                                                                   \
	(FRONT_BIT(VIRTIO_NET_F_MRG_RXBUF) | FRONT_BIT(VIRTIO_RING_F_INDIRECT_DESC) |              \
	 FRONT_BIT(VIRTIO_RING_F_EVENT_IDX))
#define VERSION_BIT FRONT_BIT(VIRTIO_F_VERSION_1)

/* Descriptors that go with a message. */
enum fd_kind { GUEST_MEMORY, EVENT, SOCKET, FOLDER, FILE_FD };

/* One message: the payload is words, in this machine's byte order. */
struct bad_message {
	const char *what;
	uint32_t request, flags, size;
	uint64_t words[33];
	unsigned fds;
	enum fd_kind kind;
};

/* Two 32-bit numbers as they lie in a word. */
#define PAIR(a, b) ((uint64_t)(uint32_t)(a) | (uint64_t)(b) << 32)
#define G          FRONT_GUEST_BASE
#define U          FRONT_USER_BASE

static const struct bad_message messages[] = {
    /* The header. */
    {"no such request 0", 0, 1, 0, {0}, 0, 0},
    {"request of a feature not offered", 21, 1, 8, {0}, 0, 0},
    {"request behind the last", 41, 1, 0, {0}, 0, 0},
    {"request of 32 bits", UINT32_MAX, 1, 0, {0}, 0, 0},
    {"no version", VHOST_GET_FEATURES, 0, 0, {0}, 0, 0},
    {"version 2", VHOST_GET_FEATURES, 2, 0, {0}, 0, 0},
    {"version 3", VHOST_GET_FEATURES, 3, 0, {0}, 0, 0},
    {"a reply", VHOST_GET_FEATURES, 5, 0, {0}, 0, 0},
    {"an unknown flag", VHOST_GET_FEATURES, 17, 0, {0}, 0, 0},
    /* Sizes. */
    {"payload where there is none", VHOST_GET_FEATURES, 1, 8, {0}, 0, 0},
    {"no payload", VHOST_SET_FEATURES, 1, 0, {0}, 0, 0},
    {"half a number", VHOST_SET_FEATURES, 1, 4, {VERSION_BIT}, 0, 0},
    {"a byte too few", VHOST_SET_FEATURES, 1, 7, {VERSION_BIT}, 0, 0},
    {"a byte too many", VHOST_SET_FEATURES, 1, 9, {VERSION_BIT}, 0, 0},
    {"4 GiB of payload", VHOST_SET_MEM_TABLE, 1, UINT32_MAX, {0}, 0, 0},
    {"half a memory table's header", VHOST_SET_MEM_TABLE, 1, 4, {0}, 0, 0},
    {"a ring's address cut off", VHOST_SET_VRING_ADDR, 1, 32, {0}, 0, 0},
    {"half a region", VHOST_ADD_MEM_REG, 1, 24, {0}, 1, GUEST_MEMORY},
    /* Descriptors. */
    {"one where none belongs", VHOST_SET_OWNER, 1, 0, {0}, 1, EVENT},
    {"one with features", VHOST_SET_FEATURES, 1, 8, {VERSION_BIT}, 1, EVENT},
    {"none for a kick", VHOST_SET_VRING_KICK, 1, 8, {1}, 0, 0},
    {"none for a kick, and says so", VHOST_SET_VRING_KICK, 1, 8, {0x101}, 0, 0},
    {"one, but says none", VHOST_SET_VRING_CALL, 1, 8, {0x101}, 1, EVENT},
    {"two for a kick", VHOST_SET_VRING_KICK, 1, 8, {1}, 2, EVENT},
    {"two for a call", VHOST_SET_VRING_CALL, 1, 8, {1}, 2, EVENT},
    {"eight for an error", VHOST_SET_VRING_ERR, 1, 8, {1}, 8, EVENT},
    {"nine", VHOST_SET_MEM_TABLE, 1, 40, {1, G, 4096, U, 0}, 9, GUEST_MEMORY},
    {"sixty", VHOST_SET_OWNER, 1, 0, {0}, 60, EVENT},
    {"a kick that can't be waited for", VHOST_SET_VRING_KICK, 1, 8, {1}, 1, FILE_FD},
    {"none for the log", VHOST_SET_LOG_BASE, 1, 16, {4096}, 0, 0},
    {"none for its eventfd", VHOST_SET_LOG_FD, 1, 0, {0}, 0, 0},
    {"none for a region", VHOST_ADD_MEM_REG, 1, 40, {0, G << 8, 4096, U << 1, 0}, 0, 0},
    /* Rings. */
    {"size of ring 16", VHOST_SET_VRING_NUM, 1, 8, {PAIR(16, 64)}, 0, 0},
    {"size of ring -1", VHOST_SET_VRING_NUM, 1, 8, {PAIR(-1, 64)}, 0, 0},
    {"size 0", VHOST_SET_VRING_NUM, 1, 8, {PAIR(1, 0)}, 0, 0},
    {"size 3", VHOST_SET_VRING_NUM, 1, 8, {PAIR(1, 3)}, 0, 0},
    {"size 65536", VHOST_SET_VRING_NUM, 1, 8, {PAIR(1, 65536)}, 0, 0},
    {"size 2^31", VHOST_SET_VRING_NUM, 1, 8, {PAIR(1, 1U << 31)}, 0, 0},
    {"index 65536", VHOST_SET_VRING_BASE, 1, 8, {PAIR(1, 65536)}, 0, 0},
    {"index of ring 16", VHOST_SET_VRING_BASE, 1, 8, {PAIR(16, 0)}, 0, 0},
    {"stop ring 16", VHOST_GET_VRING_BASE, 1, 8, {PAIR(16, 0)}, 0, 0},
    {"enable ring 16", VHOST_SET_VRING_ENABLE, 1, 8, {PAIR(16, 1)}, 0, 0},
    {"enable by 2", VHOST_SET_VRING_ENABLE, 1, 8, {PAIR(0, 2)}, 0, 0},
    {"kick of ring 16", VHOST_SET_VRING_KICK, 1, 8, {16}, 1, EVENT},
    {"kick of ring 255", VHOST_SET_VRING_KICK, 1, 8, {255}, 1, EVENT},
    {"call with bits behind", VHOST_SET_VRING_CALL, 1, 8, {0x201}, 1, EVENT},
    {"error with high bits", VHOST_SET_VRING_ERR, 1, 8, {1ULL << 32}, 1, EVENT},
    {"place of ring 16", VHOST_SET_VRING_ADDR, 1, 40, {PAIR(16, 0), U, U, U, 0}, 0, 0},
    {"flag of a place", VHOST_SET_VRING_ADDR, 1, 40, {PAIR(1, 2), U, U, U, 0}, 0, 0},
    {"nowhere", VHOST_SET_VRING_ADDR, 1, 40, {PAIR(1, 0), 1, 1, 1, 0}, 0, 0},
    {"at the guest's address", VHOST_SET_VRING_ADDR, 1, 40, {PAIR(1, 0), G, G, G, 0}, 0, 0},
    {"descriptors askew", VHOST_SET_VRING_ADDR, 1, 40, {PAIR(1, 0), U + 8, U, U, 0}, 0, 0},
    {"used askew", VHOST_SET_VRING_ADDR, 1, 40, {PAIR(1, 0), U, U + 2, U, 0}, 0, 0},
    {"available askew", VHOST_SET_VRING_ADDR, 1, 40, {PAIR(1, 0), U, U, U + 1, 0}, 0, 0},
    {"descriptors over the end",
     VHOST_SET_VRING_ADDR,
     1,
     40,
     {PAIR(1, 0), U + HALF - 16, U, U, 0},
     0,
     0},
    {"used over the end", VHOST_SET_VRING_ADDR, 1, 40, {PAIR(1, 0), U, U + HALF - 8, U, 0}, 0, 0},
    {"available over the end",
     VHOST_SET_VRING_ADDR,
     1,
     40,
     {PAIR(1, 0), U, U, U + HALF - 8, 0},
     0,
     0},
    {"descriptors over the end of all addresses",
     VHOST_SET_VRING_ADDR,
     1,
     40,
     {PAIR(1, 0), -16ULL, U, U, 0},
     0,
     0},
    /* Features. */
    {"not offered", VHOST_SET_FEATURES, 1, 8, {VERSION_BIT | FRONT_BIT(34)}, 0, 0},
    {"legacy", VHOST_SET_FEATURES, 1, 8, {FRONT_PROTOCOL}, 0, 0},
    {"protocol, not offered", VHOST_SET_PROTOCOL_FEATURES, 1, 8, {FRONT_BIT(5)}, 0, 0},
    {"MTU 67", VHOST_NET_SET_MTU, 1, 8, {67}, 0, 0},
    {"MTU 65536", VHOST_NET_SET_MTU, 1, 8, {65536}, 0, 0},
    {"status of nine bits", VHOST_SET_STATUS, 1, 8, {256}, 0, 0},
    /* Memory. */
    {"more regions than a table has", VHOST_SET_MEM_TABLE, 1, 40, {9}, 8, GUEST_MEMORY},
    {"2^32 regions", VHOST_SET_MEM_TABLE, 1, 40, {UINT32_MAX}, 1, GUEST_MEMORY},
    {"more regions than came", VHOST_SET_MEM_TABLE, 1, 40, {2, G, 4096, U}, 2, GUEST_MEMORY},
    {"more descriptors than regions", VHOST_SET_MEM_TABLE, 1, 40, {1, G, 4096, U}, 2, GUEST_MEMORY},
    {"eight regions, nine descriptors",
     VHOST_SET_MEM_TABLE,
     1,
     264,
     {8,    G,          4096, U,          0,    G + 0x1000, 4096, U + 0x1000, 0,    G + 0x2000,
      4096, U + 0x2000, 0,    G + 0x3000, 4096, U + 0x3000, 0,    G + 0x4000, 4096, U + 0x4000,
      0,    G + 0x5000, 4096, U + 0x5000, 0,    G + 0x6000, 4096, U + 0x6000, 0,    G + 0x7000,
      4096, U + 0x7000, 0},
     9,
     GUEST_MEMORY},
    {"empty region", VHOST_SET_MEM_TABLE, 1, 40, {1, G, 0, U}, 1, GUEST_MEMORY},
    {"guest's addresses wrap", VHOST_SET_MEM_TABLE, 1, 40, {1, -4096ULL, 8192, U}, 1, GUEST_MEMORY},
    {"front end's addresses wrap",
     VHOST_SET_MEM_TABLE,
     1,
     40,
     {1, G, 8192, -4096ULL},
     1,
     GUEST_MEMORY},
    {"place in the file wraps",
     VHOST_SET_MEM_TABLE,
     1,
     40,
     {1, G, 8192, U, -4096ULL},
     1,
     GUEST_MEMORY},
    {"behind the file's end",
     VHOST_SET_MEM_TABLE,
     1,
     40,
     {1, G, 8192, U, MEMORY_LEN - 4096},
     1,
     GUEST_MEMORY},
    {"larger than any file", VHOST_SET_MEM_TABLE, 1, 40, {1, 0, INT64_MAX, 0}, 1, GUEST_MEMORY},
    {"a socket for memory", VHOST_SET_MEM_TABLE, 1, 40, {1, G, 4096, U}, 1, SOCKET},
    {"an eventfd for memory", VHOST_SET_MEM_TABLE, 1, 40, {1, G, 4096, U}, 1, EVENT},
    {"a folder for memory", VHOST_SET_MEM_TABLE, 1, 40, {1, G, 4096, U}, 1, FOLDER},
    {"a file that can't be written", VHOST_SET_MEM_TABLE, 1, 40, {1, G, 1, U}, 1, FILE_FD},
    {"overlap in the guest",
     VHOST_ADD_MEM_REG,
     1,
     40,
     {0, G + MEMORY_LEN - 4096, 8192, U << 1},
     1,
     GUEST_MEMORY},
    {"overlap in the front end", VHOST_ADD_MEM_REG, 1, 40, {0, G << 8, 4096, U}, 1, GUEST_MEMORY},
    {"all of the guest's addresses", VHOST_ADD_MEM_REG, 1, 40, {0, 0, -1ULL, U}, 1, GUEST_MEMORY},
    {"removal with two descriptors", VHOST_REM_MEM_REG, 1, 40, {0, G, 4096, U}, 2, GUEST_MEMORY},
    {"empty log", VHOST_SET_LOG_BASE, 1, 16, {0}, 1, GUEST_MEMORY},
    {"log behind its file's end", VHOST_SET_LOG_BASE, 1, 16, {8192, MEMORY_LEN}, 1, GUEST_MEMORY},
    {"log that wraps", VHOST_SET_LOG_BASE, 1, 16, {8192, -4096ULL}, 1, GUEST_MEMORY},
};

static int make_fd(enum fd_kind kind)
{
	switch (kind) {
	case GUEST_MEMORY:
		return dup(b.front.memfd);
	case EVENT:
		return eventfd(0, EFD_CLOEXEC);
	case SOCKET:
		return socket(AF_UNIX, SOCK_STREAM, 0);
	case FOLDER:
		return open("/", O_RDONLY | O_DIRECTORY);
	case FILE_FD:
		return open("/proc/self/exe", O_RDONLY);
	}
	return -1;
}

/* Sends one, and is thrown out with all that it had. */
static void send_bad(const struct bad_message *m, bool pieces)
{
	int fds[60];

	for (unsigned i = 0; i < m->fds; i++) {
		fds[i] = make_fd(m->kind);
		assert_true(fds[i] >= 0);
	}
	if (pieces || m->size > sizeof(m->words)) {
		uint32_t head[3] = {m->request, m->flags, m->size};
		uint8_t bytes[sizeof(head) + sizeof(m->words)];
		size_t len =
		    sizeof(head) + (m->size < sizeof(m->words) ? m->size : sizeof(m->words));

		memcpy(bytes, head, sizeof(head));
		memcpy(bytes + sizeof(head), m->words, sizeof(m->words));
		for (size_t i = 0; i < len && !b.gone; i++) {
			assert_int_equal(send(b.front.fd, bytes + i, 1, MSG_NOSIGNAL), 1);
			run();
		}
	} else {
		assert_int_equal(front_send_flags(&b.front, m->request, m->flags, m->words, m->size,
						  fds, m->fds),
				 0);
	}
	for (unsigned i = 0; i < m->fds; i++)
		fd_close(&fds[i]);
	run();
}

static void works_as_ever(void)
{
	struct front_queue *q = &b.front.queues[TX];

	assert_int_equal(front_set_up(&b.front, FEATURES, 2, SIZE), 0);
	offer(q, 0, put_frame(NULL, 60), VNET_LEN + 60, 0);
	front_show(q);
	run();
	assert_int_equal(b.count, 1);
	expect_frame(0, 60);
	forget_frames();
}

static void bad_messages(void **state)
{
	unsigned before = descriptors();

	(void)state;
	for (size_t i = 0; i < COUNT(messages); i++) {
		works_as_ever();
		send_bad(&messages[i], false);
		if (!b.gone || b.gone_err >= 0)
			fail_msg("%s: gone %u, %d", messages[i].what, b.gone, b.gone_err);
		front_close(&b.front);
		assert_int_equal(mapped_halves(), 0);
		b.gone = 0;
		join();
		if (descriptors() != before)
			fail_msg("%s: descriptors", messages[i].what);
	}
	works_as_ever();
}

/* Nothing of what belongs to rings is there yet; and byte by byte, where descriptors don't matter.
 */
static void bad_messages_first_thing(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(messages); i++) {
		if (messages[i].fds)
			continue;
		send_bad(&messages[i], true);
		/* A ring's place, or memory that isn't there, is found wrong when it is used. */
		if (messages[i].request != VHOST_SET_VRING_ADDR && !b.gone)
			fail_msg("%s", messages[i].what);
		front_close(&b.front);
		run();
		b.gone = 0;
		join();
	}
	works_as_ever();
}

/* A message that ends before it is complete, at each byte, with descriptors on the way. */
static void cut_off(void **state)
{
	unsigned before = descriptors();
	uint8_t bytes[12 + 40] = {VHOST_ADD_MEM_REG, [4] = 1, [8] = 40};

	(void)state;
	for (size_t len = 1; len < sizeof(bytes); len++) {
		int fd = dup(b.front.memfd);
		union {
			struct cmsghdr align;
			uint8_t bytes[CMSG_SPACE(sizeof(int))];
		} control = {.align = {.cmsg_len = CMSG_LEN(sizeof(int)),
				       .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS}};
		struct iovec iov = {bytes, len};
		struct msghdr msg = {.msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = &control,
				     .msg_controllen = sizeof(control)};

		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
		assert_int_equal(sendmsg(b.front.fd, &msg, 0), len);
		fd_close(&fd);
		run();
		assert_int_equal(b.gone, 0);
		assert_int_equal(descriptors(), before + 1);
		front_close(&b.front);
		run();
		assert_int_equal(b.gone, 1);
		assert_int_equal(b.gone_err, 0);
		b.gone = 0;
		join();
		assert_int_equal(descriptors(), before);
	}
}

/* Who doesn't read answers is not waited for. */
static void answers_not_read(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100000 && !b.gone; i++) {
		uint32_t head[3] = {VHOST_GET_FEATURES, 1, 0};

		if (send(b.front.fd, head, sizeof(head), MSG_NOSIGNAL) < 0)
			run();
		else if (i % 64 == 0)
			run();
	}
	assert_int_equal(b.gone, 1);
}

/* More regions than there is room for: refused, and the client lives on. */
static void too_many_regions(void **state)
{
	unsigned added = 0;
	int r = 0;

	(void)state;
	works_as_ever();
	for (uint64_t i = 0; i < 100 && !r; i++) {
		struct vhost_one_region one = {.region = {.guest_addr = (i + 1) << 40,
							  .size = 4096,
							  .user_addr = (i + 1) << 32}};

		r = front_send(&b.front, VHOST_ADD_MEM_REG, &one, sizeof(one), &b.front.memfd, 1);
		added += !r;
	}
	assert_int_equal(r, -EREMOTEIO);
	assert_int_equal(added, VHOST_REGIONS_MAX - 2);
	assert_int_equal(b.gone, 0);
}

/* Rings. */

static void put(struct front_queue *q, unsigned i, uint64_t addr, uint64_t len, unsigned flags,
		unsigned next)
{
	front_put(q, i,
		  (struct vring_desc){.addr = addr,
				      .len = (uint32_t)len,
				      .flags = (uint16_t)flags,
				      .next = (uint16_t)next});
}

#define NEXT     VRING_DESC_F_NEXT
#define WRITE    VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT
#define END      (G + MEMORY_LEN)

/* A descriptor at 0, and one at 1 that it may lead to; head says what is made available. w is the
 * flag of this ring's buffers, x the other kind's, d good memory, t a table there. */
struct bad_ring {
	const char *what;
	uint16_t head;
	struct vring_desc first, second;
	struct vring_desc table[2]; /* copied to the good memory */
	unsigned jump;              /* of the index, beyond one */
};

#define D (G + 0x200000) /* good memory */

static const struct bad_ring rings[] = {
    {"head is the ring's size", SIZE, {D, 100, 0, 0}, {0}, {{0}}, 0},
    {"head is 65535", 65535, {D, 100, 0, 0}, {0}, {{0}}, 0},
    {"index far ahead", 0, {D, 100, 0, 0}, {0}, {{0}}, SIZE},
    {"index behind", 0, {D, 100, 0, 0}, {0}, {{0}}, 65534},
    {"next is the ring's size", 0, {D, 100, NEXT, SIZE}, {0}, {{0}}, 0},
    {"next is 65535", 0, {D, 100, NEXT, 65535}, {0}, {{0}}, 0},
    {"a circle of one", 0, {D, 100, NEXT, 0}, {0}, {{0}}, 0},
    {"a circle of two", 0, {D, 100, NEXT, 1}, {D, 9, NEXT, 0}, {{0}}, 0},
    {"a circle of nothing", 0, {D, 0, NEXT, 1}, {D, 0, NEXT, 0}, {{0}}, 0},
    {"nowhere", 0, {0, 100, 0, 0}, {0}, {{0}}, 0},
    {"at the front end's address", 0, {U, 100, 0, 0}, {0}, {{0}}, 0},
    {"right behind the end", 0, {END, 100, 0, 0}, {0}, {{0}}, 0},
    {"over the end", 0, {END - 99, 100, 0, 0}, {0}, {{0}}, 0},
    {"before the begin", 0, {G - 1, 100, 0, 0}, {0}, {{0}}, 0},
    {"last byte of all", 0, {-1ULL, 100, 0, 0}, {0}, {{0}}, 0},
    {"4 GiB", 0, {D, UINT32_MAX, 0, 0}, {0}, {{0}}, 0},
    {"second is nowhere", 0, {D, 100, NEXT, 1}, {1, 100, 0, 0}, {{0}}, 0},
    {"of the other kind", 0, {D, 100, WRITE, 0}, {0}, {{0}}, 0},
    {"of both kinds", 0, {D, 100, NEXT, 1}, {D, 100, WRITE, 0}, {{0}}, 0},
    {"table of nothing", 0, {D, 0, INDIRECT, 0}, {0}, {{0}}, 0},
    {"table and a half", 0, {D, 24, INDIRECT, 0}, {0}, {{D, 100, 0, 0}}, 0},
    {"table with a next", 0, {D, 16, INDIRECT | NEXT, 1}, {D, 9, 0, 0}, {{D, 100, 0, 0}}, 0},
    {"table nowhere", 0, {64, 16, INDIRECT, 0}, {0}, {{0}}, 0},
    {"table over the end", 0, {END - 16, 32, INDIRECT, 0}, {0}, {{0}}, 0},
    {"table over the border", 0, {G + HALF - 16, 32, INDIRECT, 0}, {0}, {{0}}, 0},
    {"table too long", 0, {D, 32769 * 16, INDIRECT, 0}, {0}, {{D, 100, 0, 0}}, 0},
    {"table of 4 GiB", 0, {D, UINT32_MAX - 15, INDIRECT, 0}, {0}, {{D, 100, 0, 0}}, 0},
    {"table in a table", 0, {D, 32, INDIRECT, 0}, {0}, {{D, 16, INDIRECT, 0}}, 0},
    {"table that leads out of itself", 0, {D, 32, INDIRECT, 0}, {0}, {{D, 9, NEXT, 2}}, 0},
    {"table in a circle", 0, {D, 32, INDIRECT, 0}, {0}, {{D, 9, NEXT, 1}, {D, 9, NEXT, 0}}, 0},
    {"table whose memory is nowhere", 0, {D, 16, INDIRECT, 0}, {0}, {{END, 9, 0, 0}}, 0},
};

/* Ring which is given what row says. */
static void spoil(struct front_queue *q, const struct bad_ring *row)
{
	struct vring_desc d[4] = {row->first, row->second, row->table[0], row->table[1]};

	/* Rings to the guest have the kinds the other way round. */
	for (unsigned i = 0; i < 4 && q->index % 2 == RX; i++) {
		if (!(d[i].flags & INDIRECT))
			d[i].flags ^= WRITE;
	}
	put(q, 0, d[0].addr, d[0].len, d[0].flags, d[0].next);
	put(q, 1, d[1].addr, d[1].len, d[1].flags, d[1].next);
	memcpy(b.front.memory + (D - G), &d[2], sizeof(*d) * 2);
	front_avail(q, row->head);
	q->next = (uint16_t)(q->next + row->jump);
	front_show(q);
	/* The index may lie such that no kick is due. */
	assert_int_equal(write(q->kick, &(uint64_t){1}, 8), 8);
	q->next = (uint16_t)(q->next - row->jump);
}

static unsigned signals(int fd)
{
	uint64_t n = 0;

	return read(fd, &n, sizeof(n)) < 0 ? 0 : (unsigned)n;
}

static unsigned send_one(void)
{
	uint8_t bytes[100] = {0};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct tap_out out = {.iov = &iov, .iov_count = 1};
	unsigned sent;

	assert_int_equal(tap_send(b.tap, &out, 1, &sent), 0);
	return sent;
}

/* Sets the ring up anew, empty. */
static void renew(struct front_queue *q)
{
	struct vhost_ring_state s = {.index = q->index};
	uint32_t size;

	assert_int_equal(
	    front_send_flags(&b.front, VHOST_GET_VRING_BASE, 1, &s, sizeof(s), NULL, 0), 0);
	assert_int_equal(front_answer(&b.front, VHOST_GET_VRING_BASE, &s, sizeof(s), &size), 0);
	q->next = q->shown = q->seen = 0;
	q->available->idx = q->used->idx = 0;
	assert_int_equal(front_ring_again(&b.front, q->index, 0), 0);
	run();
}

static void bad_rings(void **state)
{
	int err = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct front_queue *tx, *rx;

	(void)state;
	works_as_ever();
	tx = &b.front.queues[TX];
	rx = &b.front.queues[RX];
	assert_int_equal(front_ring_fd(&b.front, VHOST_SET_VRING_ERR, TX, err), 0);
	assert_int_equal(front_ring_fd(&b.front, VHOST_SET_VRING_ERR, RX, err), 0);
	for (size_t i = 0; i < COUNT(rings); i++) {
		const char *what = rings[i].what;
		uint32_t head, len;

		renew(tx);
		spoil(tx, &rings[i]);
		run();
		if (b.count || b.gone || signals(err) != 1 || front_used(tx, &head, &len))
			fail_msg("from the guest: %s: %u frames", what, b.count);
		/* Nobody looks at it any more; the other pair goes on. */
		assert_int_equal(write(tx->kick, &(uint64_t){1}, 8), 8);
		offer(&b.front.queues[3], 0, D - G, VNET_LEN + 60, 0);
		memset(b.front.memory + (D - G), 0, VNET_LEN);
		front_show(&b.front.queues[3]);
		run();
		assert_int_equal(b.count, 1);
		assert_int_equal(signals(err), 0);
		forget_frames();

		renew(rx);
		spoil(rx, &rings[i]);
		if (send_one() != 0 || signals(err) != 1)
			fail_msg("to the guest: %s", what);
		assert_int_equal(send_one(), 0);
		run();
		assert_int_equal(signals(err), 0);
		assert_int_equal(b.gone, 0);
	}
	renew(tx);
	offer(tx, 0, put_frame(NULL, 60), VNET_LEN + 60, 0);
	front_show(tx);
	run();
	assert_int_equal(b.count, 1);
	fd_close(&err);
}

/* INDIRECT_DESC was not agreed on. */
static void table_without_leave(void **state)
{
	struct front_queue *q = &b.front.queues[TX];
	struct vring_desc d = {.addr = D + 64, .len = 72};

	(void)state;
	assert_int_equal(front_set_up(&b.front, 0, 1, SIZE), 0);
	memcpy(b.front.memory + (D - G), &d, sizeof(d));
	offer(q, 0, D - G, 16, INDIRECT);
	front_show(q);
	run();
	assert_int_equal(b.count, 0);
	assert_int_equal(q->used->idx, 0);
}

/* Buffers of more parts than anybody needs, of nothing at all, and of a byte each. */
static void strange_buffers(void **state)
{
	struct front_queue *rx, *tx;
	struct vring_desc *table = (void *)(b.front.memory + (D - G));

	(void)state;
	works_as_ever();
	rx = &b.front.queues[RX];
	tx = &b.front.queues[TX];
	for (unsigned i = 0; i < 1025; i++)
		table[i] = (struct vring_desc){
		    .addr = D, .len = 1, .flags = NEXT, .next = (uint16_t)(i + 1)};
	table[1023].flags = 0;
	renew(tx);
	offer(tx, 0, D - G, 1025 * 16, INDIRECT);
	front_show(tx);
	run();
	assert_int_equal(b.count, 1); /* 1024 parts are allowed */
	table[1023].flags = NEXT;
	table[1024].flags = 0;
	offer(tx, 1, D - G, 1025 * 16, INDIRECT);
	front_show(tx);
	run();
	assert_int_equal(b.count, 1);
	for (uint16_t i = 0; i < SIZE; i++)
		offer(rx, i, D - G, 0, WRITE);
	front_show(rx);
	assert_int_equal(send_one(), 0); /* full, however often one asks */
	assert_int_equal(send_one(), 0);
	renew(rx);
	for (uint16_t i = 0; i < SIZE; i++)
		offer(rx, i, D - G + i, i % 2 ? 3 : 1, WRITE);
	front_show(rx);
	assert_int_equal(send_one(), 1); /* 112 bytes in 64 buffers of 2 on average */
	assert_int_equal(b.gone, 0);
}

/* Whatever it is that the front end wants to be called by, nobody waits for it. */
static void call_that_blocks(void **state)
{
	struct front_queue *q;
	int pipe_fds[2], full = eventfd(0, EFD_CLOEXEC);
	uint8_t byte = 0;

	(void)state;
	works_as_ever();
	q = &b.front.queues[TX];
	q->event_index = false;
	assert_int_equal(write(full, &(uint64_t){UINT64_MAX - 1}, 8), 8);
	assert_int_equal(front_ring_fd(&b.front, VHOST_SET_VRING_CALL, TX, full), 0);
	q->available->ring[SIZE] = 1; /* call at the second */
	offer(q, 1, put_frame(NULL, 60), VNET_LEN + 60, 0);
	front_show(q);
	run();
	assert_int_equal(b.count, 1);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_true(fcntl(pipe_fds[1], F_SETFL, O_NONBLOCK) == 0);
	while (write(pipe_fds[1], &byte, 1) == 1)
		;
	assert_true(fcntl(pipe_fds[1], F_SETFL, 0) == 0);
	assert_int_equal(front_ring_fd(&b.front, VHOST_SET_VRING_CALL, TX, pipe_fds[1]), 0);
	q->available->ring[SIZE] = 2;
	offer(q, 2, put_frame(NULL, 60), VNET_LEN + 60, 0);
	front_show(q);
	run();
	assert_int_equal(b.count, 2);
	fd_close(&pipe_fds[0]);
	fd_close(&pipe_fds[1]);
	fd_close(&full);
}

/* The front end cuts its file, below rings that run. */
static void memory_that_vanishes(void **state)
{
	struct front_queue *tx, *rx;
	unsigned before = descriptors();

	(void)state;
	/* cmocka has put a handler of its own into its place. */
	assert_int_equal(vhost_memory_survive(), 0);
	for (off_t len = 0; len < (off_t)MEMORY_LEN; len += (off_t)MEMORY_LEN / 4) {
		size_t at;

		works_as_ever();
		tx = &b.front.queues[TX];
		rx = &b.front.queues[RX];
		at = MEMORY_LEN - 3000;
		offer(tx, 1, at, 2000, 0);
		offer(rx, 1, at, 2000, WRITE);
		tx->available->idx = tx->next;
		rx->available->idx = rx->next;
		assert_int_equal(ftruncate(b.front.memfd, len), 0);
		assert_int_equal(write(tx->kick, &(uint64_t){1}, 8), 8);
		run();
		(void)send_one();
		/* A guest whose rings are still there has sent and got zeros. */
		assert_int_equal(b.count, len > 0);
		assert_int_equal(b.gone, 0);
		forget_frames();
		front_close(&b.front);
		run();
		assert_int_equal(b.gone, 1);
		b.gone = 0;
		join();
		assert_int_equal(descriptors(), before);
	}
	works_as_ever();
}

/* One that can be sealed against it is. */
static void memory_is_sealed(void **state)
{
	(void)state;
	fd_close(&b.front.memfd);
	b.front.memfd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(b.front.memfd, (off_t)MEMORY_LEN), 0);
	assert_int_equal(front_features(&b.front, 0), 0);
	assert_int_equal(front_memory(&b.front), 0);
	assert_int_equal(ftruncate(b.front.memfd, 4096), -1);
	assert_int_equal(errno, EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_open, bed_close)
	    TEST(bad_messages),         TEST(bad_messages_first_thing), TEST(cut_off),
	    TEST(answers_not_read),     TEST(too_many_regions),         TEST(bad_rings),
	    TEST(table_without_leave),  TEST(strange_buffers),          TEST(call_that_blocks),
	    TEST(memory_that_vanishes), TEST(memory_is_sealed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
