/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring that holds anything, in memory that holds anything. Input: a byte of features, one of the
 * ring's size, one for where it begins, and the memory's first bytes, the ring's own included.
 * Every byte that the ring gives out can be read, or written if it is for that. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap/virtqueue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY_LEN 65536
#define HALF       (MEMORY_LEN / 2)
#define AVAILABLE  4096
#define USED       8192

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* Two regions, neighbours for the guest. */
static struct vhost_memory *make_memory(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct vhost_memory *m;

	require(fd >= 0 && !ftruncate(fd, MEMORY_LEN));
	if (size > MEMORY_LEN)
		size = MEMORY_LEN;
	require(write(fd, data, size) == (ssize_t)size);
	require(vhost_memory_new(&m) == 0);
	for (unsigned i = 0; i < 2; i++) {
		struct vhost_region r = {.guest_addr = i * HALF,
					 .size = HALF,
					 .user_addr = i * MEMORY_LEN,
					 .file_offset = i * HALF};

		require(vhost_memory_add(m, &r, dup(fd)) == 0);
	}
	close(fd);
	return m;
}

static void use(const struct virtqueue_buffer *b, const struct iovec *parts, bool write_it)
{
	size_t len = 0;

	require(b->parts <= VIRTQUEUE_PARTS_MAX);
	for (unsigned i = 0; i < b->parts; i++) {
		volatile uint8_t *p = parts[i].iov_base;

		require(parts[i].iov_len > 0 && parts[i].iov_len <= MEMORY_LEN);
		len += parts[i].iov_len;
		if (write_it)
			p[0] = p[parts[i].iov_len - 1] = 0x55;
		else
			require(p[0] + p[parts[i].iov_len - 1] >= 0);
	}
	require(len == b->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct iovec parts[VIRTQUEUE_PARTS_MAX];
	struct virtqueue_config cfg = {.available = AVAILABLE, .used = USED};
	struct vhost_memory *m;
	struct virtqueue *q;

	if (size < 3)
		return 0;
	cfg.to_guest = data[0] & 1;
	cfg.event_index = data[0] & 2;
	cfg.indirect = data[0] & 4;
	cfg.size = data[1] & 0x80 ? data[1] : 1U << (data[1] & 7);
	cfg.next = (uint16_t)(data[2] << 8 | data[2]);
	m = make_memory(data + 3, size - 3);
	cfg.memory = m;
	if (virtqueue_new(&cfg, &q) == 0) {
		struct virtqueue_buffer b;
		unsigned n = 0;

		while (n < 300 && virtqueue_pop(q, parts, &b) == 1) {
			use(&b, parts, cfg.to_guest);
			if (n++ % 3 == 2) {
				virtqueue_unpop(q, 1);
				require(virtqueue_pop(q, parts, &b) == 1 || cfg.to_guest ||
					virtqueue_is_broken(q));
			}
			virtqueue_push(q, b.head, (uint32_t)b.len);
			if (n % 2)
				(void)virtqueue_publish(q);
		}
		(void)virtqueue_want_kick(q);
		virtqueue_no_kick(q);
		virtqueue_free(q);
	}
	vhost_memory_free(m);
	return 0;
}
