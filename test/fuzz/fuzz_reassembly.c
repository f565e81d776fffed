/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments of any kind, in any order, at any time. Input: records of eight bytes (which packet,
 * offset, length, flags, time), each one a fragment with known content; so whatever comes out can
 * be compared with what went in. */
#include <stdlib.h>

#include "tap/reassembly.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* Each packet is a datagram whose header admits to 64 bytes, with the right checksum, and more
 * behind it. So any length from 64 on is a good packet. */
#define ADMITTED 64

static uint8_t filling(size_t at)
{
	return (uint8_t)(at * 31 + at / 256);
}

static void prefix(const struct ip_header *h, uint8_t *bytes)
{
	static const struct udp_header udp = {.src_port = 7, .dst_port = 7};

	for (size_t i = 8; i < ADMITTED; i++)
		bytes[i] = filling(i);
	emit_udp(bytes, &udp, ADMITTED - 8);
	emit_l4_checksum(bytes, 8, bytes + 8, ADMITTED - 8, h);
}

static size_t make(const uint8_t *r, uint8_t *frame)
{
	bool v6 = r[0] & 1;
	struct ip_header h = {
	    .proto = IPPROTO_UDP, .ttl = r[7], .tos = r[7] & 3, .is_fragment = true};
	size_t len = (size_t)((r[3] << 8 | r[4]) & 0x7ff), n;
	static const struct mac_addr mac;
	uint8_t start[ADMITTED];

	h.src = v6 ? (struct ip_addr){{0x20, 1, [15] = (uint8_t)(r[0] >> 4)}}
		   : (struct ip_addr){
			 {[10] = 0xff, [11] = 0xff, 192, 0, 2, (uint8_t)(1 + (r[0] >> 4))}};
	h.dst = v6 ? (struct ip_addr){{0x20, 2, [15] = 1}}
		   : (struct ip_addr){{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};
	h.fragment_id = r[0] >> 1 & 7;
	h.fragment_offset = (uint16_t)((r[1] << 8 | r[2]) & 0xfff8);
	h.more_fragments = r[5] & 1;
	if (r[5] & 2)
		len &= ~(size_t)7;
	prefix(&h, start);
	n = emit_eth(frame, &mac, &mac, v6 ? 0x86dd : 0x0800);
	n += emit_ip(frame + n, &h, len);
	for (size_t i = 0; i < len; i++) {
		size_t at = h.fragment_offset + i;

		frame[n + i] = at < ADMITTED ? start[at] : filling(at);
	}
	return n + len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct offload none;
	struct counters counters = {0};
	struct reassembly *r = NULL;
	struct loop *loop = NULL;
	usec_t now = USEC_SEC;

	require(loop_new(&loop) == 0 && reassembly_new(loop, &counters, &r) == 0);
	for (; size >= 8; data += 8, size -= 8) {
		uint8_t frame[4096];
		size_t len = make(data, frame);
		struct packet p, whole;
		enum drop_reason why;

		now += (usec_t)data[6] * USEC_SEC / 16;
		timers_run(loop_timers(loop), now);
		if (packet_parse(frame, len, &none, &p, &why) < 0 || p.kind != PACKET_FRAGMENT)
			continue;
		if (!reassembly_input(r, &p, now, &whole))
			continue;
		require(!whole.ip.is_fragment && whole.payload_len == ADMITTED - 8);
		require(ip_equal(&whole.ip.src, &p.ip.src) && ip_equal(&whole.ip.dst, &p.ip.dst));
		for (size_t i = ip_is_v4(&whole.ip.src) ? 20 : 40, at = 0; i < whole.l3_len;
		     i++, at++)
			require(at < 8 || whole.l3[i] == filling(at));
	}
	reassembly_free(r);
	require(timers_next(loop_timers(loop)) == USEC_NEVER);
	loop_free(loop);
	return 0;
}
