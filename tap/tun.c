/* SPDX-License-Identifier: BSD-3-Clause */
/* A tun device as the guest link: one read(2) or writev(2) a frame, with a virtio_net_hdr_v1 in
 * front of it (Documentation/networking/tuntap.rst, linux/if_tun.h; tap/vnet.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tap/tap.h"
#include "tap/vnet.h"

#ifndef TUN_F_USO4 /* Linux 6.2 */
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif
#define SLOT_MAX (VNET_LEN + FRAME_MAX)

/* A batch of frames lies in one arena, each behind its header, so that it holds seven super-frames
 * or some thousand small frames. The pages are the kernel's until first written, hence an idle link
 * costs none. */
#define ARENA_LEN (512 * 1024)

/* With the header at 6 modulo 16, the IP header behind 12 and 14 bytes is aligned. */
#define SLOT_ALIGN 16
#define SLOT_SHIFT 6

struct tun_link {
	struct tap_link link;
	struct loop_source source;
	struct loop *loop; /* NULL before the start, and once the device is gone */
	struct tap_events events;
	size_t header_len; /* of the virtio header before each frame: VNET_LEN, or 0 */
	uint8_t *arena;
};

static struct tun_link *tun_of(struct tap_link *link)
{
	return container_of(link, struct tun_link, link);
}

static void drop(struct tap_link *link, enum drop_reason why)
{
	if (link->counters)
		count_drop(link->counters, why);
}

/* Reads one frame to slot. 1: *f is a frame. 0: dropped. Negative errno: nothing read. */
static int read_frame(struct tun_link *t, uint8_t *slot, struct tap_frame *f)
{
	ssize_t n = read(t->source.fd, slot, SLOT_MAX);

	if (n < 0)
		return -errno;
	if ((size_t)n < t->header_len + ETH_HEADER_LEN) {
		drop(&t->link, DROP_FRAME_SHORT);
		return 0;
	}
	*f = (struct tap_frame){.data = slot + t->header_len, .len = (size_t)n - t->header_len};
	if (t->header_len && !vnet_read(slot, f->len, &f->off)) {
		drop(&t->link, DROP_L4_HEADER);
		return 0;
	}
	return 1;
}

/* Not the end of the link: nothing there, or the device is down (EAGAIN as seen on 6.18; EIO is
 * what writing gives then). */
static bool is_passing(int err)
{
	return err == -EAGAIN || err == -EINTR || err == -ENOBUFS || err == -ENOMEM || err == -EIO;
}

static void on_readable(struct loop_source *src, uint32_t events, usec_t now)
{
	struct tun_link *t = container_of(src, struct tun_link, source);

	(void)events;
	t->events.readable(t->events.arg, now);
}

static int tun_start(struct tap_link *link, struct loop *loop, const struct tap_events *ev)
{
	struct tun_link *t = tun_of(link);
	int r;

	t->source.ready = on_readable;
	t->events = *ev;
	r = loop_add(loop, &t->source, EPOLLIN);
	if (!r)
		t->loop = loop;
	return r;
}

static void unwatch(struct tun_link *t)
{
	if (t->loop)
		loop_remove(t->loop, &t->source);
	t->loop = NULL;
}

static int tun_receive(struct tap_link *link, struct tap_frame *frames, unsigned max,
		       unsigned *count)
{
	struct tun_link *t = tun_of(link);
	size_t at = SLOT_SHIFT;
	unsigned n = 0;

	/* Dropped frames count towards max, so that a flood of bad ones can't hold the loop. */
	for (unsigned reads = 0; reads < max && at + SLOT_MAX <= ARENA_LEN; reads++) {
		int r = read_frame(t, t->arena + at, &frames[n]);

		if (r < 0) {
			if (!is_passing(r) && !n) { /* else the next call meets it again */
				unwatch(t);
				return r;
			}
			break;
		}
		if (!r)
			continue;
		at += t->header_len + frames[n].len + SLOT_ALIGN - 1 - SLOT_SHIFT;
		at = at / SLOT_ALIGN * SLOT_ALIGN + SLOT_SHIFT;
		n++;
	}
	*count = n;
	return 0;
}

static int write_frame(const struct tun_link *t, const struct tap_out *f)
{
	uint8_t header[VNET_LEN];
	struct iovec iov[1 + TAP_IOV_MAX] = {{.iov_base = header, .iov_len = t->header_len}};

	if (f->iov_count > TAP_IOV_MAX)
		return -EINVAL;
	vnet_write(header, &f->off);
	memcpy(iov + 1, f->iov, (size_t)f->iov_count * sizeof(*iov));
	return writev(t->source.fd, iov, 1 + f->iov_count) < 0 ? -errno : 0;
}

static int tun_send(struct tap_link *link, const struct tap_out *frames, unsigned n, unsigned *sent)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		int r = write_frame(tun_of(link), &frames[i]);

		if (r == -EAGAIN || r == -EINTR || r == -ENOBUFS || r == -ENOMEM)
			break; /* full */
		if (r == -EBADFD)
			return r; /* the guest deleted the device */
		if (r < 0)
			/* EIO: the guest has it down just now; EINVAL: it doesn't like this frame.
			 * Lost, as on any wire. */
			drop(link, DROP_LINK_ERROR);
	}
	*sent = i;
	return 0;
}

static void tun_free(struct tap_link *link)
{
	struct tun_link *t = tun_of(link);

	unwatch(t);
	fd_close(&t->source.fd);
	free(t->arena);
	free(t);
}

static int link_new(int fd, const struct tap_features *features, size_t header_len,
		    struct tap_link **out)
{
	static const struct tap_ops ops = {
	    .start = tun_start, .receive = tun_receive, .send = tun_send, .free = tun_free};
	struct tun_link *t = calloc(1, sizeof(*t));

	if (t)
		t->arena = malloc(ARENA_LEN);
	if (!t || !t->arena) {
		free(t);
		fd_close(&fd);
		return -ENOMEM;
	}
	t->link = (struct tap_link){.ops = &ops, .features = *features};
	t->source.fd = fd;
	t->header_len = header_len;
	*out = &t->link;
	return 0;
}

int tun_link_new(int fd, const struct tap_features *features, struct tap_link **out)
{
	return link_new(fd, features, VNET_LEN, out);
}

/* Switches on as much as the kernel has of what the guest may leave to us. */
static int set_offloads(int fd, struct tap_features *features)
{
	const unsigned tso = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
	const unsigned wanted[] = {tso | TUN_F_TSO_ECN | TUN_F_USO4 | TUN_F_USO6,
				   tso | TUN_F_TSO_ECN, tso, TUN_F_CSUM, 0};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		if (!ioctl(fd, TUNSETOFFLOAD, wanted[i])) {
			/* What we may send has needed no offload since there are virtio headers,
			 * except UDP_L4, which came together with the flags. */
			features->csum = features->tcp_gso = true;
			features->udp_gso = wanted[i] & TUN_F_USO4;
			return 0;
		}
	}
	return -errno;
}

static int set_header(int fd, const char **step)
{
	int header_len = VNET_LEN, le = 1;

	*step = "TUNSETVNETHDRSZ";
	if (ioctl(fd, TUNSETVNETHDRSZ, &header_len) < 0)
		return -errno;
	*step = "TUNSETVNETLE"; /* 4.0; before, headers were in host order */
	if (ioctl(fd, TUNSETVNETLE, &le) < 0 && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		return -errno;
	return 0;
}

static int set_up(int fd, const char *name, struct tap_features *features, const char **step)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int r;

	*step = "TUNSETIFF";
	if (strlen(name) >= sizeof(ifr.ifr_name))
		return -ENAMETOOLONG;
	memcpy(ifr.ifr_name, name, strlen(name));
	if (ioctl(fd, TUNSETIFF, &ifr) < 0)
		return -errno;
	r = set_header(fd, step);
	if (r < 0)
		return r;
	*step = "TUNSETOFFLOAD";
	return set_offloads(fd, features);
}

int tun_link_adopt(int fd, struct tap_link **out)
{
	struct tap_features features = {0};
	struct ifreq ifr = {0};
	const char *step;
	int flags = fcntl(fd, F_GETFL), r = 0;
	bool header;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    ioctl(fd, TUNGETIFF, &ifr) < 0)
		r = -errno;
	else if ((ifr.ifr_flags & (IFF_TAP | IFF_NO_PI)) != (IFF_TAP | IFF_NO_PI))
		r = -EPROTOTYPE;
	header = ifr.ifr_flags & IFF_VNET_HDR;
	if (!r && header)
		r = set_header(fd, &step);
	if (!r && header)
		r = set_offloads(fd, &features);
	if (r < 0) {
		fd_close(&fd);
		return r;
	}
	return link_new(fd, &features, header ? VNET_LEN : 0, out);
}

int tun_open(const char *name, struct tap_features *features, int *fd_out, const char **step)
{
	cleanup_fd int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	struct tap_features got;
	int r;

	if (fd < 0) {
		*step = "open /dev/net/tun";
		return -errno;
	}
	r = set_up(fd, name, &got, step);
	if (r < 0)
		return r;
	*features = got;
	*fd_out = take_fd(&fd);
	return 0;
}
