/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/pcap.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "tap/tap.h"

#define SNAP_LEN 65535

/* Both headers are in the byte order of the machine that writes them; the magic number tells the
 * reader which. */
struct file_header {
	uint32_t magic;
	uint16_t major, minor;
	uint32_t zone, accuracy, snap_len, link_type;
};

struct record_header {
	uint32_t sec, usec, captured, original;
};

static int write_all(int fd, const struct iovec *iov, int count, size_t len)
{
	ssize_t n = writev(fd, iov, count);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0
				: -ENOSPC; /* a file is written short only when the disk is full */
}

int pcap_write_header(int fd)
{
	struct file_header h = {
	    .magic = 0xa1b2c3d4, .major = 2, .minor = 4, .snap_len = SNAP_LEN, .link_type = 1};
	struct iovec iov = {.iov_base = &h, .iov_len = sizeof(h)};

	return write_all(fd, &iov, 1, sizeof(h));
}

int pcap_write_frame(int fd, const struct iovec *iov, int iov_count)
{
	struct iovec parts[TAP_IOV_MAX + 2];
	struct record_header h;
	struct timespec now;
	size_t room = SNAP_LEN, len = 0;
	int n = 1;

	if (iov_count > TAP_IOV_MAX + 1)
		return -EINVAL;
	for (int i = 0; i < iov_count; i++) {
		size_t part = iov[i].iov_len < room ? iov[i].iov_len : room;

		len += iov[i].iov_len;
		room -= part;
		if (part)
			parts[n++] = (struct iovec){.iov_base = iov[i].iov_base, .iov_len = part};
	}
	/* The stamps of a capture are compared with those of others, so they are the wall clock's;
	 * and they are of each frame, where a turn of the loop has one time for all. */
	clock_gettime(CLOCK_REALTIME, &now);
	h = (struct record_header){.sec = (uint32_t)now.tv_sec,
				   .usec = (uint32_t)(now.tv_nsec / 1000),
				   .captured = (uint32_t)(SNAP_LEN - room),
				   .original = (uint32_t)len};
	parts[0] = (struct iovec){.iov_base = &h, .iov_len = sizeof(h)};
	return write_all(fd, parts, n, sizeof(h) + SNAP_LEN - room);
}
