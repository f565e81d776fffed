/* SPDX-License-Identifier: BSD-3-Clause */
/* A virtual machine's network card at native speed: joins a tap device of this network namespace to
 * a vhost-user back end's virtqueues, so that the namespace is its guest. What the back end offers
 * of checksums and segmentation, the namespace's kernel makes use of, as a virtual machine's would.
 */
#include "test/tools/nettool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/vhost_types.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "test/unit/vhost_front.h"

#define HEADER_LEN 12
#define SLOT_LEN   (HEADER_LEN + 65550)
#define BATCH      16
#define PARTS_MAX  1024
#define QUEUE_SIZE 256
#define MEMORY_LEN ((size_t)64 << 20)

#ifndef TUN_F_USO4 /* Linux 6.2 */
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

#define HAS(f, n) ((f)->features & FRONT_BIT(n))

enum { RX, TX };

struct vhost_tap {
	struct front front;
	int tap;
	size_t rx_len; /* of a buffer for frames to the guest */
	size_t rx_at, tx_at;
	uint16_t idle[QUEUE_SIZE]; /* slots of the guest's frames that are free */
	unsigned idle_count;
};

static size_t slot(size_t base, size_t len, unsigned i)
{
	return base + (len + 15) / 16 * 16 * i;
}

/* What the kernel may leave to the back end. */
static unsigned offloads(const struct front *f)
{
	unsigned flags = 0;

	if (HAS(f, VIRTIO_NET_F_CSUM))
		flags |= TUN_F_CSUM;
	if (HAS(f, VIRTIO_NET_F_HOST_TSO4))
		flags |= TUN_F_TSO4;
	if (HAS(f, VIRTIO_NET_F_HOST_TSO6))
		flags |= TUN_F_TSO6;
	if (HAS(f, VIRTIO_NET_F_HOST_ECN))
		flags |= TUN_F_TSO_ECN;
	if (HAS(f, 56))
		flags |= TUN_F_USO4 | TUN_F_USO6;
	return flags;
}

static int open_tap(const char *name, const struct front *f)
{
	struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), len = HEADER_LEN;
	unsigned flags = offloads(f);

	if (strlen(name) >= IFNAMSIZ)
		die(name);
	memcpy(r.ifr_name, name, strlen(name));
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0 || ioctl(fd, TUNSETVNETHDRSZ, &len) < 0)
		die("tap");
	if (ioctl(fd, TUNSETOFFLOAD, flags) < 0 &&
	    ioctl(fd, TUNSETOFFLOAD, flags & ~(TUN_F_USO4 | TUN_F_USO6)) < 0)
		die("TUNSETOFFLOAD");
	return fd;
}

static void offer_rx(struct vhost_tap *t, uint16_t i)
{
	struct front *f = &t->front;

	front_put(&f->queues[RX], i,
		  (struct vring_desc){.addr = front_guest(f, slot(t->rx_at, t->rx_len, i)),
				      .len = (uint32_t)t->rx_len,
				      .flags = VRING_DESC_F_WRITE});
	front_avail(&f->queues[RX], i);
}

static void fill_rings(struct vhost_tap *t)
{
	struct front *f = &t->front;

	t->tx_at = front_alloc(f, slot(0, SLOT_LEN, QUEUE_SIZE), 4096);
	t->rx_at = front_alloc(f, slot(0, t->rx_len, QUEUE_SIZE), 4096);
	if (!t->tx_at || !t->rx_at)
		die("memory");
	for (uint16_t i = 0; i < QUEUE_SIZE; i++) {
		t->idle[t->idle_count++] = i;
		offer_rx(t, i);
	}
	front_show(&f->queues[RX]);
}

/* From the namespace to the back end; true if anything was done. */
static bool move_out(struct vhost_tap *t)
{
	struct front_queue *q = &t->front.queues[TX];
	uint32_t head, len;
	unsigned n = 0;

	while (front_used(q, &head, &len))
		t->idle[t->idle_count++] = (uint16_t)head;
	while (t->idle_count && n < BATCH) {
		uint16_t i = t->idle[t->idle_count - 1];
		size_t at = slot(t->tx_at, SLOT_LEN, i);
		ssize_t got = read(t->tap, t->front.memory + at, SLOT_LEN);

		if (got < 0)
			break;
		t->idle_count--;
		front_put(
		    q, i,
		    (struct vring_desc){.addr = front_guest(&t->front, at), .len = (uint32_t)got});
		front_avail(q, i);
		n++;
	}
	if (n)
		front_show(q);
	return n > 0;
}

/* A frame to the namespace, from as many buffers as it has. False: none is complete. */
static bool write_frame(struct vhost_tap *t)
{
	struct front_queue *q = &t->front.queues[RX];
	struct iovec iov[PARTS_MAX];
	uint16_t heads[PARTS_MAX];
	unsigned n = 0, wanted = 1;

	while (n < wanted && n < PARTS_MAX) {
		uint32_t head, len;
		uint8_t *at;

		if (!front_used(q, &head, &len)) {
			if (!n)
				return false;
			continue; /* the rest is shown at once */
		}
		at = t->front.memory + slot(t->rx_at, t->rx_len, head);
		if (!n && HAS(&t->front, VIRTIO_NET_F_MRG_RXBUF))
			wanted = at[10] | (unsigned)at[11] << 8;
		iov[n] = (struct iovec){.iov_base = at, .iov_len = len};
		heads[n++] = (uint16_t)head;
	}
	/* A frame that the kernel does not want, or has no room for, is lost as on any wire. */
	if (writev(t->tap, iov, (int)n) < 0 && errno != EAGAIN && errno != EIO && errno != ENOBUFS)
		perror("tap");
	for (unsigned i = 0; i < n; i++)
		offer_rx(t, heads[i]);
	return true;
}

static bool move_in(struct vhost_tap *t)
{
	unsigned n = 0;

	while (n < BATCH && write_frame(t))
		n++;
	if (n)
		front_show(&t->front.queues[RX]);
	return n > 0;
}

static void clear(int fd)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		die("eventfd");
}

/* False: the back end is gone. */
static bool wait_for_work(struct vhost_tap *t)
{
	struct front_queue *rx = &t->front.queues[RX], *tx = &t->front.queues[TX];
	struct pollfd p[] = {{t->front.fd, POLLIN, 0},
			     {t->tap, t->idle_count ? POLLIN : 0, 0},
			     {rx->call, POLLIN, 0},
			     {tx->call, t->idle_count ? 0 : POLLIN, 0}};

	if (front_want_call(rx) || (!t->idle_count && front_want_call(tx)))
		return true;
	if (poll(p, 4, -1) < 0 && errno != EINTR)
		die("poll");
	if (p[2].revents)
		clear(rx->call);
	if (p[3].revents)
		clear(tx->call);
	front_no_call(rx);
	front_no_call(tx);
	return !p[0].revents;
}

/* [-b BUFFER] [-f FEATURES] SOCKET IFNAME: until passt goes. */
int mode_vhost_tap(int argc, char **argv)
{
	/* Pages, as Linux's driver has them. */
	struct vhost_tap t = {.rx_len = 4096};
	uint64_t features = UINT64_MAX;
	int opt, r;

	argc++; /* getopt(3) skips the first */
	argv--;
	while ((opt = getopt(argc, argv, "b:f:")) > 0) {
		if (opt == 'b')
			t.rx_len = strtoul(optarg, NULL, 0);
		else if (opt == 'f')
			features = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (argc - optind != 2 || t.rx_len < 64 || t.rx_len > SLOT_LEN)
		return 2;
	r = front_open(&t.front, dial_unix(argv[optind]), MEMORY_LEN);
	if (!r)
		r = front_set_up(&t.front, features & ~FRONT_BIT(VHOST_F_LOG_ALL), 1, QUEUE_SIZE);
	if (r < 0) {
		errno = -r;
		die("vhost-user");
	}
	t.tap = open_tap(argv[optind + 1], &t.front);
	fill_rings(&t);
	puts("ready");
	fflush(stdout);
	for (bool there = true; there;) {
		bool busy = move_out(&t);

		if (!(move_in(&t) | busy))
			there = wait_for_work(&t);
	}
	return 0;
}
