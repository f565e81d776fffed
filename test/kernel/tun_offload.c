/* SPDX-License-Identifier: BSD-3-Clause */
/* What tap/tun.c takes for granted about tun devices, tried as root in a network namespace of its
 * own. Exit status 0 if all of it holds, 1 with one line that says what does not. Needs nothing but
 * libc: cc -D_GNU_SOURCE -o tun_offload tun_offload.c */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef TUN_F_USO4 /* Linux 6.2 */
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

#define DEVICE   "probe0"
#define VNET_LEN sizeof(struct virtio_net_hdr_v1)
#define TSO      (TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN)

#define need(cond, what)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("tun_offload: %s (line %d, errno %d)\n", what, __LINE__, errno);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* A broadcast frame of an ethertype that nobody handles, behind a header that asks for nothing. */
static const uint8_t frame[VNET_LEN + 60] = {
    [VNET_LEN] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};

static int device_open(void)
{
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), len = VNET_LEN, le = 1;
	struct ifreq r = {.ifr_name = DEVICE, .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};

	need(fd >= 0, "/dev/net/tun can't be opened");
	need(!ioctl(fd, TUNSETIFF, &r), "no tap device with virtio headers");
	need(!ioctl(fd, TUNSETVNETHDRSZ, &len), "no headers of 12 bytes");
	need(!ioctl(fd, TUNSETVNETLE, &le), "no little-endian headers");
	need(!ioctl(fd, TUNSETOFFLOAD, TSO), "no TCP segmentation and checksum offload");
	need(ioctl(fd, TUNSETOFFLOAD, TSO | 1U << 30) < 0 && errno == EINVAL,
	     "unknown offloads are not refused");
	return fd;
}

static void set_flag_up(bool up)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = {.ifr_name = DEVICE};

	need(s >= 0 && !ioctl(s, SIOCGIFFLAGS, &r), "no flags of the device");
	r.ifr_flags = (short)(up ? r.ifr_flags | IFF_UP : r.ifr_flags & ~IFF_UP);
	need(!ioctl(s, SIOCSIFFLAGS, &r), "device can't be set up or down");
	close(s);
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

/* Returns the length of the next frame of ethertype, skipping what the kernel sends of its own
 * accord. */
static size_t read_frame(int fd, uint8_t *buf, size_t room, uint16_t ethertype)
{
	for (;;) {
		ssize_t n;

		need(readable(fd, 5000), "the device stays silent");
		n = read(fd, buf, room);
		need(n >= (ssize_t)VNET_LEN + 14, "a frame without header");
		if ((buf[VNET_LEN + 12] << 8 | buf[VNET_LEN + 13]) == ethertype)
			return (size_t)n;
	}
}

static void while_down(int fd)
{
	uint8_t buf[2048];

	need(read(fd, buf, sizeof(buf)) < 0 && errno == EAGAIN, "read while down is not EAGAIN");
	need(!readable(fd, 0), "a device that is down is readable");
	need(write(fd, frame, sizeof(frame)) < 0 && errno == EIO, "write while down is not EIO");
}

/* A datagram to a broadcast address needs no neighbour. Its checksum is left to the other side. */
static void what_is_sent_is_not_summed(int fd)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000202)};
	struct ifreq r = {.ifr_name = DEVICE};
	uint8_t buf[2048];
	size_t n;

	memcpy(&r.ifr_addr, &a, sizeof(a));
	need(s >= 0 && !ioctl(s, SIOCSIFADDR, &r), "no address");
	a.sin_addr.s_addr = htonl(INADDR_BROADCAST);
	a.sin_port = htons(9);
	need(!setsockopt(s, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) &&
		 !setsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, DEVICE, sizeof(DEVICE)) &&
		 sendto(s, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1,
	     "no datagram");
	n = read_frame(fd, buf, sizeof(buf), 0x0800);
	need(n == VNET_LEN + 14 + 20 + 8 + 1, "a frame of another length");
	need(buf[0] == VIRTIO_NET_HDR_F_NEEDS_CSUM && buf[6] == 34 && !buf[7] && buf[8] == 6 &&
		 !buf[9],
	     "a datagram's header does not say where the checksum is missing");
	close(s);
}

static void bad_headers_cost_one_frame(int fd)
{
	uint8_t buf[sizeof(frame)];

	memcpy(buf, frame, sizeof(frame));
	buf[0] = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	buf[7] = 0xff; /* csum_start beyond the frame */
	need(write(fd, buf, sizeof(buf)) < 0 && errno == EINVAL,
	     "a wild checksum offset is not EINVAL");
	need(write(fd, frame, VNET_LEN + 10) < 0 && errno == EINVAL,
	     "a frame of ten bytes is not EINVAL");
	need(write(fd, frame, sizeof(frame)) == sizeof(frame), "write of a good frame afterwards");
}

static void after_deletion(int fd)
{
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} del = {.h = {.nlmsg_len = sizeof(del),
		       .nlmsg_type = RTM_DELLINK,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		 .i = {.ifi_index = (int)if_nametoindex(DEVICE)}};
	uint8_t buf[2048];

	need(s >= 0 && send(s, &del, sizeof(del), 0) == sizeof(del) &&
		 recv(s, buf, sizeof(buf), 0) > 0,
	     "the device can't be deleted");
	need(readable(fd, 5000), "nobody wakes when the device is gone");
	need(read(fd, buf, sizeof(buf)) < 0 && errno == EBADFD,
	     "read after deletion is not EBADFD");
	need(write(fd, frame, sizeof(frame)) < 0 && errno == EBADFD,
	     "write after deletion is not EBADFD");
	close(s);
}

int main(void)
{
	bool uso;
	int fd;

	need(!unshare(CLONE_NEWNET), "no network namespace");
	fd = device_open();
	uso = !ioctl(fd, TUNSETOFFLOAD, TSO | TUN_F_USO4 | TUN_F_USO6);
	while_down(fd);
	set_flag_up(true);
	what_is_sent_is_not_summed(fd);
	bad_headers_cost_one_frame(fd);
	set_flag_up(false);
	while (readable(fd, 0)) { /* what was queued before is still there, and then nothing */
		uint8_t buf[2048];

		need(read(fd, buf, sizeof(buf)) > 0, "read of what was queued before");
	}
	while_down(fd);
	after_deletion(fd);
	close(fd);
	printf("tun_offload: all as expected, UDP segmentation %s\n",
	       uso ? "too" : "is not offered (before 6.2)");
	return 0;
}
