/* SPDX-License-Identifier: BSD-3-Clause */
/* The stream link over socket pairs: the test is QEMU. */
#include "test/unit/build.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tap/tap.h"

#define BATCH  64
#define ROUNDS 10000 /* turns until what is waited for must have happened */

struct bench {
	struct loop *loop;
	struct tap *tap;
	struct counters counters;
	int qemu; /* the other end */

	/* What came from the guest: frames as they stand on the stream. */
	uint8_t got[1 << 20];
	size_t got_len;
	unsigned batches_a_turn; /* taken when frames are said to wait */
	/* What the link told. */
	unsigned readable, writable, connected, gone;
	int gone_err;
};

static struct bench b;

/* A frame of len bytes, told from others by its number. */
static size_t make(uint8_t *p, size_t len, unsigned number)
{
	p[0] = (uint8_t)(len >> 24);
	p[1] = (uint8_t)(len >> 16);
	p[2] = (uint8_t)(len >> 8);
	p[3] = (uint8_t)len;
	for (size_t i = 0; i < len; i++)
		p[4 + i] = (uint8_t)(number * 31 + i * 7 + i / 256);
	return 4 + len;
}

static void on_readable(void *arg, usec_t now)
{
	(void)arg;
	(void)now;
	b.readable++;
	for (unsigned i = 0; i < b.batches_a_turn; i++) {
		struct tap_frame frames[BATCH];
		unsigned n;

		assert_int_equal(tap_receive(b.tap, frames, BATCH, &n), 0);
		for (unsigned k = 0; k < n; k++) {
			uint8_t *to = b.got + b.got_len;

			assert_true(b.got_len + 4 + frames[k].len <= sizeof(b.got));
			for (int v = 0; v < 4; v++)
				to[v] = (uint8_t)(frames[k].len >> (24 - 8 * v));
			memcpy(to + 4, frames[k].data, frames[k].len);
			b.got_len += 4 + frames[k].len;
		}
		if (!n)
			break;
	}
}

static void on_writable(void *arg, usec_t now)
{
	(void)arg;
	(void)now;
	b.writable++;
}

static void on_connected(void *arg, usec_t now)
{
	(void)arg;
	(void)now;
	b.connected++;
}

static void on_gone(void *arg, int err)
{
	(void)arg;
	b.gone++;
	b.gone_err = err;
}

static void turn(void)
{
	assert_int_equal(loop_turn(b.loop, 1, 0), 0);
}

static void join(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	b.qemu = fds[1];
	assert_int_equal(tap_attach(b.tap, fds[0]), 0);
}

static int bench_open(void **state)
{
	const struct tap_config cfg = {
	    .our_mac = our_mac, .guest_mac = mac_broadcast, .mtu = 65520};
	const struct tap_events ev = {.readable = on_readable,
				      .writable = on_writable,
				      .connected = on_connected,
				      .gone = on_gone};
	struct tap_link *link;

	(void)state;
	memset(&b, 0, sizeof(b));
	b.qemu = -1;
	b.batches_a_turn = UINT_MAX;
	assert_int_equal(loop_new(&b.loop), 0);
	assert_int_equal(stream_link_new(&link), 0);
	assert_int_equal(tap_new(link, &cfg, &b.counters, &b.tap), 0);
	assert_int_equal(tap_start(b.tap, b.loop, &ev), 0);
	return 0;
}

static int bench_joined(void **state)
{
	bench_open(state);
	join();
	return 0;
}

static int bench_close(void **state)
{
	(void)state;
	tap_free(b.tap);
	loop_free(b.loop);
	fd_close(&b.qemu);
	return 0;
}

/* ---- from the guest */

static void give(const void *bytes, size_t len)
{
	assert_int_equal(send(b.qemu, bytes, len, MSG_NOSIGNAL), len);
}

static void want_got(const uint8_t *bytes, size_t len)
{
	assert_int_equal(b.got_len, len);
	assert_memory_equal(b.got, bytes, len);
	b.got_len = 0;
}

/* Three frames, the shortest possible among them, cut in two and in three at every place. */
static void cut_anywhere(void **state)
{
	uint8_t all[4 * 3 + 14 + 60 + 33];
	size_t len = make(all, 60, 1);

	(void)state;
	len += make(all + len, 14, 2);
	len += make(all + len, 33, 3);
	assert_int_equal(len, sizeof(all));
	for (size_t first = 1; first < len; first++) {
		size_t second = first + (len - first) / 2;

		give(all, first);
		turn();
		give(all + first, second - first);
		turn();
		give(all + second, len - second);
		turn();
		want_got(all, len);
	}
	for (size_t i = 0; i < len; i++) {
		give(all + i, 1);
		turn();
	}
	want_got(all, len);
	assert_int_equal(b.gone, 0);
}

/* The longest frame, in pieces of odd sizes. */
static void longest_frame(void **state)
{
	static uint8_t all[4 + FRAME_MAX + 4 + 60];
	size_t len = make(all, FRAME_MAX, 1);

	(void)state;
	len += make(all + len, 60, 2);
	for (size_t at = 0; at < len; at += 4093) {
		give(all + at, len - at < 4093 ? len - at : 4093);
		turn();
	}
	want_got(all, len);
}

/* Many frames in one piece: the guest side sends nothing after them, and all come even though only
 * one batch is taken when told. */
static void many_at_once(void **state)
{
	static uint8_t all[1000 * 64];
	size_t len = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		len += make(all + len, 60, i);
	b.batches_a_turn = 1;
	give(all, len);
	for (int i = 0; i < 100; i++)
		turn();
	want_got(all, len);
	/* And then there is peace. */
	b.readable = 0;
	for (int i = 0; i < 10; i++)
		turn();
	assert_int_equal(b.readable, 0);
}

static void bad_length(void **state)
{
	static const uint32_t bad[] = {0, 13, FRAME_MAX + 1, 1 << 24, UINT32_MAX};
	uint8_t good[64], wrong[4];
	size_t len = make(good, 60, 1);

	(void)state;
	for (unsigned i = 0; i < COUNT(bad); i++) {
		join();
		for (int k = 0; k < 4; k++)
			wrong[k] = (uint8_t)(bad[i] >> (24 - 8 * k));
		give(good, len);
		give(wrong, 4);
		for (int k = 0; k < 3; k++)
			turn();
		want_got(good, len);
		assert_int_equal(b.gone, i + 1);
		assert_int_equal(b.gone_err, -EPROTO);
		assert_int_equal(recv(b.qemu, wrong, 1, 0), 0);
		fd_close(&b.qemu);
	}
}

/* ---- to the guest */

static unsigned give_tap(const uint8_t *frame, size_t len, unsigned count)
{
	struct iovec iov = {(void *)(uintptr_t)frame, len};
	struct tap_out out[BATCH];
	unsigned sent;

	for (unsigned i = 0; i < count; i++)
		out[i] = (struct tap_out){.iov = &iov, .iov_count = 1};
	assert_int_equal(tap_send(b.tap, out, count, &sent), 0);
	return sent;
}

/* Reads what is there at the guest's side, at most a piece at a time. */
static size_t read_some(uint8_t *to, size_t room)
{
	ssize_t n = recv(b.qemu, to, room, 0);

	if (n < 0)
		assert_int_equal(errno, EAGAIN);
	return n < 0 ? 0 : (size_t)n;
}

static void want_stream(const uint8_t *bytes, size_t len)
{
	uint8_t *all = malloc(len + 1);
	size_t n = 0;

	assert_non_null(all);
	for (int i = 0; i < ROUNDS && n < len; i++) {
		n += read_some(all + n, len + 1 - n);
		turn();
	}
	n += read_some(all + n, len + 1 - n);
	assert_int_equal(n, len);
	assert_memory_equal(all, bytes, len);
	free(all);
}

/* IEEE 802.3: at least 60 bytes without the check sequence. */
static void short_frames_are_filled(void **state)
{
	uint8_t frame[4 + 61];

	(void)state;
	for (size_t len = 14; len <= 61; len++) {
		size_t padded = len < 60 ? 60 : len;

		make(frame, len, (unsigned)len);
		assert_int_equal(give_tap(frame + 4, len, 1), 1);
		make(frame, padded, (unsigned)len);
		memset(frame + 4 + len, 0, padded - len);
		want_stream(frame, 4 + padded);
	}
}

static void gather_parts(void **state)
{
	uint8_t want[4 + 300];
	struct iovec iov[3];
	struct tap_out out = {.iov = iov, .iov_count = 3};
	unsigned sent;

	(void)state;
	make(want, 300, 9);
	iov[0] = (struct iovec){want + 4, 14};
	iov[1] = (struct iovec){want + 18, 1};
	iov[2] = (struct iovec){want + 19, 285};
	assert_int_equal(tap_send(b.tap, &out, 1, &sent), 0);
	assert_int_equal(sent, 1);
	want_stream(want, sizeof(want));
}

#define CUT_FRAME 101
#define CUT_COUNT BATCH

/* The guest reads nothing until the socket took only a part: by a first frame that grows from one
 * try to the next the cut lies at each byte of a frame and its length in turn. All that the link
 * took arrives, and nothing else. */
static void cut_at_every_byte(void **state)
{
	static uint8_t want[4 + 2000 + CUT_COUNT * (4 + CUT_FRAME)];
	int size = 1; /* the least there is, socket(7) */
	bool seen[4 + CUT_FRAME] = {false};

	(void)state;
	for (size_t grow = 0; grow < 4 + CUT_FRAME; grow++) {
		struct iovec iov[1 + CUT_COUNT];
		struct tap_out out[1 + CUT_COUNT];
		size_t first = 60 + grow, len = make(want, first, 0), took = 0;
		unsigned sent = 0;
		int fds[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
		b.qemu = fds[1];
		assert_int_equal(tap_attach(b.tap, fds[0]), 0);
		assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
		for (unsigned i = 0; i < CUT_COUNT; i++)
			len += make(want + len, CUT_FRAME, i + 1);
		for (unsigned i = 0; i <= CUT_COUNT; i++) {
			size_t at = i ? 4 + first + (i - 1) * (4 + CUT_FRAME) : 0;

			iov[i] = (struct iovec){want + at + 4, i ? CUT_FRAME : first};
			out[i] = (struct tap_out){.iov = &iov[i], .iov_count = 1};
		}
		assert_int_equal(tap_send(b.tap, out, 1 + CUT_COUNT, &sent), 0);
		took = read_some(b.got, sizeof(b.got));
		assert_true(took > 4 + first && took < len);
		seen[(took - 4 - first) % (4 + CUT_FRAME)] = true;
		assert_memory_equal(b.got, want, took);
		assert_true(sent > 1);
		len = 4 + first + (sent - 1) * (4 + CUT_FRAME);
		want_stream(want + took, len - took);
		assert_true(b.writable > grow);
		fd_close(&b.qemu);
		turn();
	}
	for (size_t i = 0; i < 4 + CUT_FRAME; i++)
		assert_true(seen[i]);
}

/* A guest that reads nothing blocks nobody, and one that reads again finds whole frames, told of
 * once. */
static void stalled_guest(void **state)
{
	static uint8_t frame[4 + 1514], all[8 << 20];
	unsigned taken = 0;
	size_t n = 0;

	(void)state;
	make(frame, 1514, 1);
	for (int i = 0; i < 1000; i++)
		taken += give_tap(frame + 4, 1514, BATCH);
	assert_true(taken > BATCH && taken < 1000 * BATCH);
	assert_int_equal(b.counters.dropped[DROP_LINK_FULL], 1000 * BATCH - taken);
	assert_int_equal(b.counters.tx_frames, taken);
	for (int i = 0; i < 10; i++)
		turn();
	assert_int_equal(b.writable, 0);
	for (int i = 0; i < ROUNDS && n < (size_t)taken * sizeof(frame); i++) {
		n += read_some(all + n, sizeof(all) - n);
		turn();
	}
	assert_int_equal(n, (size_t)taken * sizeof(frame));
	for (size_t at = 0; at < n; at += sizeof(frame))
		assert_memory_equal(all + at, frame, sizeof(frame));
	for (int i = 0; i < 10; i++)
		turn();
	assert_int_equal(b.writable, 1);
	assert_int_equal(give_tap(frame + 4, 1514, 1), 1);
	want_stream(frame, sizeof(frame));
}

/* A segmented super-frame is taken whole or not at all, however full the socket is. */
static void super_frame_is_not_torn(void **state)
{
	struct ip_header iph = {.src = ip("198.51.100.7"), .dst = ip("192.0.2.2"), .proto = 6};
	static uint8_t payload[44 * 1460], all[8 << 20];
	uint8_t head[EMIT_HEADERS_MAX];
	size_t n = emit_eth(head, &guest_mac, &our_mac, ETHERTYPE_IP), l4, bytes = 0;
	struct tcp_header h = {.src_port = 1, .dst_port = 2, .flags = TCP_ACK};
	struct iovec iov[2] = {{head, 0}, {payload, sizeof(payload)}};
	struct tap_out out = {.iov = iov, .iov_count = 2};
	unsigned sent = 1, supers = 0;

	(void)state;
	l4 = n += emit_ip(head + n, &iph, 20 + sizeof(payload));
	n += emit_tcp(head + n, &h);
	emit_l4_pseudo(head + l4, 20 + sizeof(payload), &iph);
	iov[0].iov_len = n;
	out.off = (struct offload){.csum_partial = true,
				   .csum_start = (uint16_t)l4,
				   .csum_offset = 16,
				   .gso = GSO_TCP4,
				   .gso_size = 1460,
				   .header_len = (uint16_t)n};
	while (sent) {
		assert_int_equal(tap_send(b.tap, &out, 1, &sent), 0);
		supers += sent;
	}
	assert_true(supers > 0);
	assert_int_equal(b.counters.tx_frames, supers * 44);
	for (int i = 0; i < ROUNDS && bytes < (size_t)supers * 44 * 1518; i++) {
		bytes += read_some(all + bytes, sizeof(all) - bytes);
		turn();
	}
	assert_int_equal(bytes, (size_t)supers * 44 * 1518);
	for (size_t at = 0; at < bytes; at += 1518) {
		struct offload none = {0};
		struct packet p;
		enum drop_reason why;

		assert_int_equal(packet_parse(all + at + 4, 1514, &none, &p, &why), 0);
		assert_int_equal(p.tcp.seq, at / 1518 % 44 * 1460);
	}
}

/* A frame that no guest could take costs itself alone. */
static void our_own_fault(void **state)
{
	static uint8_t huge[4 + FRAME_MAX + 1];
	uint8_t small[4 + 60];
	struct iovec iov[3] = {{small + 4, 60}, {huge + 4, FRAME_MAX + 1}, {small + 4, 60}};
	struct tap_out out[3];
	uint8_t want[2 * sizeof(small)];
	unsigned sent;

	(void)state;
	make(small, 60, 1);
	memcpy(want, small, sizeof(small));
	memcpy(want + sizeof(small), small, sizeof(small));
	for (int i = 0; i < 3; i++)
		out[i] = (struct tap_out){.iov = &iov[i], .iov_count = 1};
	assert_int_equal(tap_send(b.tap, out, 3, &sent), 0);
	assert_int_equal(sent, 3);
	assert_int_equal(b.counters.dropped[DROP_LINK_ERROR], 1);
	want_stream(want, sizeof(want));
}

/* ---- comings and goings */

static void nobody_there(void **state)
{
	uint8_t frame[4 + 60];

	(void)state;
	make(frame, 60, 1);
	assert_int_equal(give_tap(frame + 4, 60, 1), 0);
	assert_int_equal(b.counters.dropped[DROP_LINK_FULL], 1);
	turn();
	assert_int_equal(b.connected + b.readable + b.writable + b.gone, 0);
	join();
	assert_int_equal(b.connected, 1);
	assert_int_equal(give_tap(frame + 4, 60, 1), 1);
	want_stream(frame, sizeof(frame));
}

/* Half a frame of the first guest, and half a frame to it, are not for the second. */
static void next_guest(void **state)
{
	static uint8_t big[4 + 1514];
	uint8_t frame[4 + 60];
	unsigned writable;

	(void)state;
	make(big, 1514, 1);
	make(frame, 60, 2);
	give(frame, 40);
	turn();
	while (give_tap(big + 4, 1514, BATCH))
		;
	fd_close(&b.qemu);
	turn();
	assert_int_equal(b.gone, 1);
	assert_int_equal(b.gone_err == 0 || b.gone_err == -ECONNRESET, 1);
	assert_int_equal(give_tap(frame + 4, 60, 1), 0);
	writable = b.writable;
	join();
	assert_int_equal(b.connected, 2);
	give(frame, sizeof(frame));
	turn();
	want_got(frame, sizeof(frame));
	assert_int_equal(give_tap(frame + 4, 60, 1), 1);
	want_stream(frame, sizeof(frame));
	assert_int_equal(b.writable, writable);
	assert_int_equal(b.gone, 1);
}

/* What a guest sent right before it went is still taken. */
static void last_words(void **state)
{
	static uint8_t all[300 * 64];
	size_t len = 0;

	(void)state;
	for (unsigned i = 0; i < 300; i++)
		len += make(all + len, 60, i);
	give(all, len);
	give(all, 30);
	fd_close(&b.qemu);
	b.batches_a_turn = 1;
	for (int i = 0; i < 20; i++)
		turn();
	want_got(all, len);
	assert_int_equal(b.gone, 1);
	assert_int_equal(b.gone_err, 0);
}

#define OPEN(test)   cmocka_unit_test_setup_teardown(test, bench_open, bench_close)
#define JOINED(test) cmocka_unit_test_setup_teardown(test, bench_joined, bench_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    JOINED(cut_anywhere),
	    JOINED(longest_frame),
	    JOINED(many_at_once),
	    OPEN(bad_length),
	    JOINED(short_frames_are_filled),
	    JOINED(gather_parts),
	    OPEN(cut_at_every_byte),
	    JOINED(stalled_guest),
	    JOINED(super_frame_is_not_torn),
	    JOINED(our_own_fault),
	    OPEN(nobody_there),
	    JOINED(next_guest),
	    JOINED(last_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
