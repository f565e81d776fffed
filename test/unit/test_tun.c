/* SPDX-License-Identifier: BSD-3-Clause */
/* The tun link: its headers over a socket pair, and a real device in a network namespace of this
 * process, with ordinary sockets as the guest. */
#include "test/unit/build.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "tap/arp.h"
#include "tap/ndp.h"
#include "tap/tap.h"

#define VNET_LEN 12
#define DEVICE   "tuntest0"
#define WAIT_MS  5000 /* for what comes within microseconds */

/* Both on the link. */
static const struct {
	const char *guest, *peer;
} ends[IP_FAMILIES] = {
    [IP_V4] = {"192.0.2.2", "192.0.2.1"}, [IP_V6] = {"2001:db8::2", "2001:db8::1"}};

struct bench {
	struct tap *tap;
	struct tap_features features;
	struct counters counters;
	struct ndp_config ndp;
	int peer; /* the other end of the socket pair */
	int fd;
	struct tap_frame frames[256];
	unsigned count;
	struct packet p; /* what next_packet() found */
	struct offload off;
	uint8_t copy[FRAME_MAX];
	unsigned next;
};

static struct bench b;

static void tap_over(int fd)
{
	struct tap_config cfg = {.our_mac = our_mac, .guest_mac = mac_broadcast, .mtu = 65520};
	struct tap_link *link;

	b.fd = fd;
	assert_int_equal(tun_link_new(fd, &b.features, &link), 0);
	assert_int_equal(tap_new(link, &cfg, &b.counters, &b.tap), 0);
}

/* Headers, without a kernel that checks them first. */

static int pair_open(void **state)
{
	int fds[2];

	(void)state;
	memset(&b, 0, sizeof(b));
	b.features = (struct tap_features){.csum = true, .tcp_gso = true, .udp_gso = true};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	b.peer = fds[1];
	tap_over(fds[0]);
	return 0;
}

static int pair_close(void **state)
{
	(void)state;
	tap_free(b.tap);
	fd_close(&b.peer);
	return 0;
}

struct vnet {
	uint8_t flags, gso_type;
	uint16_t hdr_len, gso_size, csum_start, csum_offset;
};

static void give(const struct vnet *v, size_t len)
{
	uint8_t bytes[2000] = {v->flags, v->gso_type};
	const uint16_t fields[] = {v->hdr_len, v->gso_size, v->csum_start, v->csum_offset};

	for (size_t i = 0; i < COUNT(fields); i++) {
		bytes[2 + 2 * i] = (uint8_t)fields[i];
		bytes[3 + 2 * i] = (uint8_t)(fields[i] >> 8);
	}
	fill(bytes + VNET_LEN, len);
	assert_int_equal(send(b.peer, bytes, VNET_LEN + len, 0), VNET_LEN + len);
}

static void receive(void)
{
	assert_int_equal(tap_receive(b.tap, b.frames, COUNT(b.frames), &b.count), 0);
}

static void headers_from_the_guest(void **state)
{
	static const struct vnet rows[] = {
	    {0, 0, 0, 0, 0, 0},          {1, 0, 0, 0, 34, 16},    {1, 1, 66, 1448, 34, 16},
	    {1, 0x84, 86, 1428, 54, 16}, {1, 5, 42, 1200, 34, 6}, {2, 0, 0, 0, 0, 0},
	};
	static const enum gso gso[] = {GSO_NONE, GSO_NONE, GSO_TCP4, GSO_TCP6, GSO_UDP, GSO_NONE};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		give(&rows[i], 100 + i);
	receive();
	assert_int_equal(b.count, COUNT(rows));
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct offload *o = &b.frames[i].off;
		uint8_t want[200];

		fill(want, 100 + i);
		assert_int_equal(b.frames[i].len, 100 + i);
		assert_memory_equal(b.frames[i].data, want, 100 + i);
		assert_int_equal((uintptr_t)(b.frames[i].data + ETH_HEADER_LEN) % 4, 0);
		assert_int_equal(o->csum_partial, rows[i].flags == 1);
		assert_int_equal(o->csum_start, rows[i].csum_start);
		assert_int_equal(o->csum_offset, rows[i].csum_offset);
		assert_int_equal(o->gso, gso[i]);
		assert_int_equal(o->gso_ecn, i == 3);
		assert_int_equal(o->gso_size, rows[i].gso_size);
		assert_int_equal(o->header_len, rows[i].hdr_len);
	}
	receive();
	assert_int_equal(b.count, 0);
	assert_int_equal(b.counters.rx_frames, COUNT(rows));
}

static void hostile_headers_are_dropped(void **state)
{
	static const struct vnet rows[] = {
	    {1, 0, 0, 0, 99, 0},      {1, 0, 0, 0, 0, 99},     {1, 0, 0, 0, 65535, 65535},
	    {1, 1, 66, 0, 34, 16},    {1, 1, 101, 10, 34, 16}, {1, 2, 66, 10, 34, 16},
	    {1, 3, 42, 10, 34, 6},    {1, 6, 42, 10, 34, 6},   {0, 0x80, 0, 0, 0, 0},
	    {1, 0x7f, 66, 10, 34, 6}, {1, 0, 0, 0, 100, 0},
	};
	/* ECN alone is a strange thing to say of a frame that isn't cut, but harms nobody. */
	enum { HARMLESS = 1 };

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		give(&rows[i], 100);
	give(&(struct vnet){0}, 13);
	give(&(struct vnet){0}, 0);
	assert_int_equal(send(b.peer, "short", 5, 0), 5);
	give(&(struct vnet){0}, 60);
	receive();
	assert_int_equal(b.count, HARMLESS + 1);
	assert_int_equal(b.frames[HARMLESS].len, 60);
	assert_int_equal(b.counters.dropped[DROP_L4_HEADER], COUNT(rows) - HARMLESS);
	assert_int_equal(b.counters.dropped[DROP_FRAME_SHORT], 3);
	assert_int_equal(b.counters.rx_frames, HARMLESS + 1);
}

static void bad_frames_do_not_hold_the_loop(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(send(b.peer, "short", 5, 0), 5);
	assert_int_equal(tap_receive(b.tap, b.frames, 3, &b.count), 0);
	assert_int_equal(b.count, 0);
	assert_int_equal(b.counters.dropped[DROP_FRAME_SHORT], 3);
}

static void headers_to_the_guest(void **state)
{
	uint8_t head[40], body[50], got[200];
	struct iovec iov[2] = {{head, sizeof(head)}, {body, sizeof(body)}};
	struct tap_out out[5];
	static const uint8_t want[5][VNET_LEN] = {
	    {0},
	    {1, 0, 0, 0, 0, 0, 34, 0, 16, 0},
	    {1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0},
	    {1, 0x84, 86, 0, 0x94, 5, 54, 0, 16, 0},
	    {1, 5, 42, 0, 0xb0, 4, 34, 0, 6, 0},
	};
	unsigned sent;

	(void)state;
	fill(head, sizeof(head));
	fill(body, sizeof(body));
	for (size_t i = 0; i < COUNT(out); i++)
		out[i] = (struct tap_out){.iov = iov, .iov_count = 2};
	out[1].off = (struct offload){.csum_partial = true, .csum_start = 34, .csum_offset = 16};
	out[2].off = out[3].off = out[4].off = out[1].off;
	out[2].off.gso = GSO_TCP4;
	out[2].off.gso_size = 1448;
	out[2].off.header_len = 66;
	out[3].off.gso = GSO_TCP6;
	out[3].off.gso_ecn = true;
	out[3].off.gso_size = 1428;
	out[3].off.header_len = 86;
	out[3].off.csum_start = 54;
	out[4].off.gso = GSO_UDP;
	out[4].off.gso_size = 1200;
	out[4].off.header_len = 42;
	out[4].off.csum_offset = 6;
	assert_int_equal(tap_send(b.tap, out, COUNT(out), &sent), 0);
	assert_int_equal(sent, COUNT(out));
	for (size_t i = 0; i < COUNT(out); i++) {
		assert_int_equal(recv(b.peer, got, sizeof(got), 0), VNET_LEN + 90);
		assert_memory_equal(got, want[i], VNET_LEN);
		assert_memory_equal(got + VNET_LEN, head, sizeof(head));
		assert_memory_equal(got + VNET_LEN + sizeof(head), body, sizeof(body));
	}
}

static void full_queue_takes_fewer(void **state)
{
	static uint8_t bytes[1000], got[2000];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct tap_out out[64];
	unsigned sent = 0, total = 0, held = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(out); i++)
		out[i] = (struct tap_out){.iov = &iov, .iov_count = 1};
	do {
		assert_int_equal(tap_send(b.tap, out, COUNT(out), &sent), 0);
		total += sent;
	} while (sent == COUNT(out));
	assert_int_equal(b.counters.dropped[DROP_LINK_FULL], COUNT(out) - sent);
	while (recv(b.peer, got, sizeof(got), 0) > 0)
		held++;
	assert_int_equal(held, total);
	assert_int_equal(b.counters.tx_frames, total);
}

/* A real device. */

static struct ifreq request(void)
{
	struct ifreq r = {0};

	memcpy(r.ifr_name, DEVICE, sizeof(DEVICE));
	return r;
}

static void set_up(bool up)
{
	cleanup_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = request();

	assert_int_equal(ioctl(s, SIOCGIFFLAGS, &r), 0);
	r.ifr_flags = (short)(up ? r.ifr_flags | IFF_UP : r.ifr_flags & ~IFF_UP);
	assert_int_equal(ioctl(s, SIOCSIFFLAGS, &r), 0);
}

/* Sends a request to rtnetlink(7), which must succeed. */
static void netlink(const void *msg, size_t len)
{
	cleanup_fd int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
	} ack;

	assert_int_equal(send(nl, msg, len, 0), len);
	assert_true(recv(nl, &ack, sizeof(ack), 0) >=
		    (ssize_t)(sizeof(ack.h) + sizeof(ack.e.error)));
	assert_int_equal(ack.h.nlmsg_type, NLMSG_ERROR);
	assert_int_equal(ack.e.error, 0);
}

/* Usable at once: with a search for duplicates, even one that does not wait, it would be some time
 * later. */
static void set_address(enum ip_family f)
{
	struct ip_addr a = ip(ends[f].guest);
	size_t len = ip_bytes_len(&a);
	struct {
		struct nlmsghdr h;
		struct ifaddrmsg i;
		struct rtattr attr;
		uint8_t addr[16];
	} add = {.h = {.nlmsg_len = (uint32_t)(offsetof(__typeof__(add), addr) + len),
		       .nlmsg_type = RTM_NEWADDR,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
		 .i = {.ifa_family = f == IP_V4 ? AF_INET : AF_INET6,
		       .ifa_prefixlen = f == IP_V4 ? 24 : 64,
		       .ifa_flags = IFA_F_NODAD,
		       .ifa_index = if_nametoindex(DEVICE)},
		 .attr = {.rta_len = (uint16_t)RTA_LENGTH(len), .rta_type = IFA_LOCAL}};

	memcpy(add.addr, ip_bytes(&a), len);
	netlink(&add, add.h.nlmsg_len);
}

static void set_mtu(int mtu)
{
	cleanup_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = request();

	r.ifr_mtu = mtu;
	assert_int_equal(ioctl(s, SIOCSIFMTU, &r), 0);
}

static int device_open(void **state)
{
	const char *step = "";
	int fd, r;

	(void)state;
	memset(&b, 0, sizeof(b));
	r = tun_open(DEVICE, &b.features, &fd, &step);
	if (r < 0)
		fail_msg("%s: %s", step, strerror(-r));
	set_up(true);
	set_address(IP_V4);
	set_address(IP_V6);
	tap_over(fd);
	b.ndp =
	    (struct ndp_config){.our_link_local = ip("fe80::1"), .prefix = ip(ends[IP_V6].guest)};
	return 0;
}

static int device_close(void **state)
{
	(void)state;
	tap_free(b.tap);
	return 0;
}

/* Waits for the next packet of this kind and family, and answers ARP and neighbour discovery
 * meanwhile. */
static void next_packet(enum packet_kind kind, enum ip_family family)
{
	for (;;) {
		struct pollfd pfd = {.fd = b.fd, .events = POLLIN};
		struct tap_frame *f;
		enum drop_reason why;
		struct ip_addr own[ARP_OWN] = {ip(ends[IP_V4].guest)};

		if (b.next == b.count) {
			assert_int_equal(poll(&pfd, 1, WAIT_MS), 1);
			receive();
			b.next = 0;
			continue;
		}
		f = &b.frames[b.next++];
		b.off = f->off;
		memcpy(b.copy, f->data, f->len);
		if (packet_parse(b.copy, f->len, &b.off, &b.p, &why) < 0)
			continue; /* MLD reports and the like */
		tap_learn_mac(b.tap, &b.p.eth_src);
		if (b.p.kind == PACKET_ARP)
			arp_input(b.tap, &b.p, own);
		else if (b.p.kind == PACKET_ICMP && ndp_input(b.tap, &b.ndp, &b.p))
			continue;
		if (b.p.kind == kind && ip_family(&b.p.ip.src) == family)
			return;
	}
}

static int guest_socket(enum ip_family f, int type, uint16_t port)
{
	int s = socket(f == IP_V4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct endpoint peer = {.addr = ip(ends[f].peer), .port = port};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&peer, 0, &sa);
	int r;

	assert_true(s >= 0);
	r = connect(s, (struct sockaddr *)&sa, len);
	assert_true(r == 0 || errno == EINPROGRESS);
	return s;
}

/* A TCP header of ours with data, as the data path would send it. */
static void to_guest(struct tcp_header *h, uint8_t *data, size_t len, uint16_t mss)
{
	struct ip_header iph = {.src = b.p.ip.dst,
				.dst = b.p.ip.src,
				.proto = IPPROTO_TCP,
				.ttl = 64,
				.dont_fragment = true};
	enum ip_family f = ip_family(&iph.src);
	uint8_t headers[EMIT_HEADERS_MAX];
	struct iovec iov[2] = {{headers, tap_emit_eth(b.tap, headers, f)}, {data, len}};
	size_t tcp_len = emit_tcp_len(&h->opt), l4;
	struct tap_out out = {.iov = iov, .iov_count = 2};
	unsigned sent;

	iov[0].iov_len += emit_ip(headers + iov[0].iov_len, &iph, tcp_len + len);
	l4 = iov[0].iov_len;
	iov[0].iov_len += emit_tcp(headers + l4, h);
	emit_l4_pseudo(headers + l4, tcp_len + len, &iph);
	out.off =
	    (struct offload){.csum_partial = true, .csum_start = (uint16_t)l4, .csum_offset = 16};
	if (len > mss) {
		out.off.gso = f == IP_V4 ? GSO_TCP4 : GSO_TCP6;
		out.off.gso_size = mss;
		out.off.header_len = (uint16_t)iov[0].iov_len;
	}
	assert_int_equal(tap_send(b.tap, &out, 1, &sent), 0);
	assert_int_equal(sent, 1);
}

static void read_exactly(int s, const uint8_t *want, size_t len)
{
	static uint8_t got[70000];
	size_t at = 0;

	while (at < len) {
		struct pollfd pfd = {.fd = s, .events = POLLIN};
		ssize_t n;

		assert_int_equal(poll(&pfd, 1, WAIT_MS), 1);
		n = recv(s, got + at, len - at, 0);
		assert_true(n > 0);
		at += (size_t)n;
	}
	assert_memory_equal(got, want, len);
}

static void tcp_super_frames_both_ways(void **state)
{
	static uint8_t data[60000];

	(void)state;
	fill(data, sizeof(data));
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		uint16_t mss = f == IP_V4 ? 1460 : 1440;
		cleanup_fd int s = guest_socket(f, SOCK_STREAM, 80);
		struct tcp_header h = {.src_port = 80,
				       .seq = 5000,
				       .window = 65535,
				       .flags = TCP_SYN | TCP_ACK,
				       .opt = {.has_mss = true, .mss = mss}};
		uint32_t seq, at;

		next_packet(PACKET_TCP, f);
		assert_int_equal(b.p.tcp.flags & (TCP_SYN | TCP_ACK), TCP_SYN);
		assert_int_equal(b.p.tcp.opt.mss, mss);
		h.dst_port = b.p.tcp.src_port;
		h.ack = b.p.tcp.seq + 1;
		to_guest(&h, NULL, 0, mss);
		next_packet(PACKET_TCP, f);
		assert_int_equal(b.p.tcp.ack, 5001);

		/* From the guest: super-frames, not summed. How it cuts its first window depends on
		 * the pace that it measured in the handshake, so it is kept going until one comes.
		 */
		assert_int_equal(send(s, data, sizeof(data), 0), sizeof(data));
		next_packet(PACKET_TCP, f);
		for (unsigned frames = 0; b.p.gso == GSO_NONE && frames < 40; frames++) {
			struct tcp_header ack = {.src_port = 80,
						 .dst_port = b.p.tcp.src_port,
						 .seq = 5001,
						 .ack = b.p.tcp.seq + (uint32_t)b.p.payload_len,
						 .window = 65535,
						 .flags = TCP_ACK};

			to_guest(&ack, NULL, 0, mss);
			next_packet(PACKET_TCP, f);
		}
		assert_int_equal(b.p.gso, f == IP_V4 ? GSO_TCP4 : GSO_TCP6);
		assert_int_equal(b.p.gso_size, mss);
		assert_true(b.off.csum_partial);
		assert_in_range(b.p.payload_len, mss + 1, sizeof(data));
		at = b.p.tcp.seq - h.ack;
		assert_in_range(at, 0, sizeof(data) - b.p.payload_len);
		assert_memory_equal(b.p.payload, data + at, b.p.payload_len);

		/* To the guest: 40 segments in one frame; the guest's kernel acknowledges them. */
		seq = b.p.tcp.seq;
		h = (struct tcp_header){.src_port = 80,
					.dst_port = b.p.tcp.src_port,
					.seq = 5001,
					.ack = seq,
					.window = 65535,
					.flags = TCP_ACK | TCP_PSH};
		to_guest(&h, data, 40000, mss);
		read_exactly(s, data, 40000);
		do
			next_packet(PACKET_TCP, f);
		while (b.p.tcp.ack != 5001 + 40000);
		h.seq = 45001;
		h.flags = TCP_RST | TCP_ACK; /* ends what the guest still wants to say */
		to_guest(&h, NULL, 0, mss);
	}
	assert_int_equal(b.counters.dropped[DROP_LINK_ERROR], 0);
}

static void udp_super_frames_both_ways(void **state)
{
	enum { N = 20, SIZE = 1000 };
	static uint8_t data[N * SIZE];
	int size = SIZE;

	(void)state;
	fill(data, sizeof(data));
	for (enum ip_family f = IP_V4; f < IP_FAMILIES; f++) {
		cleanup_fd int s = guest_socket(f, SOCK_DGRAM, 53);
		struct ip_header h = {.src = ip(ends[f].peer),
				      .dst = ip(ends[f].guest),
				      .proto = IPPROTO_UDP,
				      .ttl = 9};
		struct udp_header udp = {.src_port = 53};
		uint8_t headers[EMIT_HEADERS_MAX];
		struct iovec iov[2] = {{headers, 0}, {data, sizeof(data)}};
		struct tap_out out = {.iov = iov, .iov_count = 2};
		size_t at = 0, l4;
		unsigned frames = 0, sent;

		assert_int_equal(setsockopt(s, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)), 0);
		assert_int_equal(send(s, data, sizeof(data), 0), sizeof(data));
		while (at < sizeof(data)) {
			next_packet(PACKET_UDP, f);
			assert_memory_equal(b.p.payload, data + at, b.p.payload_len);
			at += b.p.payload_len;
			frames++;
		}
		/* As one, where the kernel has USO (6.2). */
		assert_int_equal(frames, b.features.udp_gso ? 1 : N);
		assert_int_equal(b.p.gso, b.features.udp_gso ? GSO_UDP : GSO_NONE);

		udp.dst_port = b.p.udp.src_port;
		iov[0].iov_len = tap_emit_eth(b.tap, headers, f);
		iov[0].iov_len += emit_ip(headers + iov[0].iov_len, &h, 8 + sizeof(data));
		l4 = iov[0].iov_len;
		iov[0].iov_len += emit_udp(headers + l4, &udp, sizeof(data));
		emit_l4_pseudo(headers + l4, 8 + sizeof(data), &h);
		out.off = (struct offload){
		    .csum_partial = true, .csum_start = (uint16_t)l4, .csum_offset = 6};
		if (b.features.udp_gso) {
			out.off.gso = GSO_UDP;
			out.off.gso_size = SIZE;
			out.off.header_len = (uint16_t)iov[0].iov_len;
		}
		assert_int_equal(tap_send(b.tap, &out, 1, &sent), 0);
		assert_int_equal(sent, 1);
		for (unsigned i = 0; i < (b.features.udp_gso ? N : 1); i++) {
			struct pollfd pfd = {.fd = s, .events = POLLIN};
			uint8_t got[sizeof(data)];

			assert_int_equal(poll(&pfd, 1, WAIT_MS), 1);
			assert_int_equal(recv(s, got, sizeof(got), 0),
					 b.features.udp_gso ? SIZE : sizeof(data));
			assert_memory_equal(got, data + i * SIZE, SIZE);
		}
	}
	assert_int_equal(b.counters.dropped[DROP_LINK_ERROR], 0);
}

static void many_frames_share_the_arena(void **state)
{
	static uint8_t big[60000];
	cleanup_fd int s = guest_socket(IP_V4, SOCK_DGRAM, 53);
	unsigned batches = 0, seen = 0;

	(void)state;
	assert_int_equal(send(s, "x", 1, 0), 1); /* the neighbour is known from here on */
	next_packet(PACKET_UDP, IP_V4);
	for (int i = 0; i < 200; i++)
		assert_int_equal(send(s, big, (size_t)i, 0), i);
	receive();
	assert_int_equal(b.count, 200);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(b.frames[i].len, 42 + i);
	set_mtu(65520);
	for (unsigned i = 0; i < 20; i++) { /* 1.2 MB */
		memset(big, (int)i, sizeof(big));
		assert_int_equal(send(s, big, sizeof(big), 0), sizeof(big));
	}
	do {
		receive();
		for (unsigned i = 0; i < b.count; i++) {
			assert_int_equal(b.frames[i].len, 42 + sizeof(big));
			memset(big, (int)(seen + i), sizeof(big));
			assert_memory_equal(b.frames[i].data + 42, big, sizeof(big));
		}
		seen += b.count;
		batches++;
	} while (b.count);
	assert_int_equal(seen, 20);
	assert_in_range(batches, 3, 5);
	b.next = b.count = 0;
}

static void device_that_is_down_loses_frames_only(void **state)
{
	struct ip_header h = {.src = ip(ends[IP_V4].peer),
			      .dst = ip(ends[IP_V4].guest),
			      .proto = IPPROTO_UDP,
			      .ttl = 9};
	struct pollfd pfd = {.fd = b.fd, .events = POLLIN};
	uint8_t udp[8];
	struct iovec body = {udp, sizeof(udp)};

	(void)state;
	emit_udp(udp, &(struct udp_header){.src_port = 1, .dst_port = 2}, 0);
	emit_l4_checksum(udp, 8, NULL, 0, &h);
	set_up(false);
	do
		receive();
	while (b.count);
	assert_int_equal(poll(&pfd, 1, 0), 0); /* nothing to spin on */
	assert_int_equal(tap_send_ip(b.tap, &h, &body, 1), 0);
	assert_int_equal(b.counters.dropped[DROP_LINK_ERROR], 1);
	set_up(true);
	assert_int_equal(tap_send_ip(b.tap, &h, &body, 1), 0);
	assert_int_equal(b.counters.dropped[DROP_LINK_ERROR], 1);
}

static void device_that_is_deleted_ends_the_link(void **state)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} del = {.h = {.nlmsg_len = sizeof(del),
		       .nlmsg_type = RTM_DELLINK,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		 .i = {.ifi_index = (int)if_nametoindex(DEVICE)}};
	struct ip_header h = {.src = ip(ends[IP_V4].peer),
			      .dst = ip(ends[IP_V4].guest),
			      .proto = IPPROTO_UDP,
			      .ttl = 9};
	struct pollfd pfd = {.fd = b.fd, .events = POLLIN};
	uint8_t udp[8] = {0};
	struct iovec body = {udp, sizeof(udp)};

	(void)state;
	netlink(&del, sizeof(del));
	assert_int_equal(poll(&pfd, 1, WAIT_MS), 1);
	assert_int_equal(tap_receive(b.tap, b.frames, COUNT(b.frames), &b.count), -EBADFD);
	assert_int_equal(tap_send_ip(b.tap, &h, &body, 1), -EBADFD);
}

static void failures_name_their_step(void **state)
{
	struct tap_features f;
	const char *step = NULL;
	int fd = -7;

	(void)state;
	assert_int_equal(tun_open(DEVICE, &f, &fd, &step), -EBUSY);
	assert_string_equal(step, "TUNSETIFF");
	assert_int_equal(tun_open("a/b", &f, &fd, &step), -EINVAL);
	assert_string_equal(step, "TUNSETIFF");
	assert_int_equal(tun_open("longer-than-any-device", &f, &fd, &step), -ENAMETOOLONG);
	assert_int_equal(fd, -7); /* untouched */
	assert_true(b.features.csum && b.features.tcp_gso);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define PAIR(name) cmocka_unit_test_setup_teardown(name, pair_open, pair_close)
#define DEV(name)  cmocka_unit_test_setup_teardown(name, device_open, device_close)
	    PAIR(headers_from_the_guest),
	    PAIR(hostile_headers_are_dropped),
	    PAIR(bad_frames_do_not_hold_the_loop),
	    PAIR(headers_to_the_guest),
	    PAIR(full_queue_takes_fewer),
	    DEV(tcp_super_frames_both_ways),
	    DEV(udp_super_frames_both_ways),
	    DEV(many_frames_share_the_arena),
	    DEV(device_that_is_down_loses_frames_only),
	    DEV(device_that_is_deleted_ends_the_link),
	    DEV(failures_name_their_step),
	};

	/* The devices are this process's own. */
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		perror("unshare");
		return 1;
	}
	return cmocka_run_group_tests_name("tun", tests, NULL, NULL);
}
