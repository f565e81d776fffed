/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour discovery messages of any content, with all that may surround them right: what
 * fuzz_packet finds only behind a good ICMPv6 checksum. Input: a byte that says who asks whom, then
 * the ICMPv6 message behind its first four bytes' type. Whatever is answered is sound, and never
 * for an address that is the guest's. */
#include <stdlib.h>

#include "tap/ndp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static const struct ip_addr own = {{0x20, 1, 0xd, 0xb8, [15] = 2}};
static const struct ip_addr client = {{0xfe, 0x80, [15] = 7}};

static void check_answer(const uint8_t *frame, size_t len)
{
	static const struct offload none;
	enum drop_reason why;
	struct packet p;

	require(len <= 14 + 1280);
	require(packet_parse(frame, len, &none, &p, &why) == 0 && p.kind == PACKET_ICMP);
	require(p.ip.ttl == 255 && (p.icmp.type == 134 || p.icmp.type == 136));
	if (p.icmp.type == 136)
		require(p.payload_len >= 16 && memcmp(p.payload, own.b, 16) != 0);
	for (size_t at = p.icmp.type == 134 ? 8 : 16; at < p.payload_len;) {
		require(p.payload_len - at >= 8 && p.payload[at + 1]);
		at += 8U * p.payload[at + 1];
		require(at <= p.payload_len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tap_features able = {.csum = true};
	static const struct tap_config tc = {.mtu = 1500};
	uint8_t kind = size ? data[0] : 0;
	struct nat_guest guest = {.seen = {ip_any[IP_V4], own}, .link_local_seen = client};
	struct ndp_config cfg = {.guest = &guest,
				 .ra_on = kind & 1,
				 .our_link_local = {{0xfe, 0x80, [15] = 1}},
				 .prefix = kind & 2 ? own : ip_any[IP_V6],
				 .mtu = kind & 4 ? 65520 : 0,
				 .dns = {own, client, own},
				 .dns_count = kind & 8 ? 3 : 0,
				 .search = {"example.org", "..", "a.b"},
				 .search_count = kind & 16 ? 3 : 0};
	struct counters counters = {0};
	struct packet p = {.kind = PACKET_ICMP,
			   .icmp.type = size > 1 ? data[1] : 135,
			   .icmp.code = kind & 128,
			   .payload = data + (size > 2 ? 2 : size),
			   .payload_len = size > 2 ? size - 2 : 0};
	struct tap_link *link = NULL;
	struct tap *tap = NULL;
	uint8_t frame[2048];
	size_t len;

	p.ip.proto = IPPROTO_ICMPV6;
	p.ip.ttl = kind & 64 ? 64 : 255;
	p.ip.src = kind & 32 ? ip_any[IP_V6] : client;
	p.ip.dst = cfg.our_link_local;
	require(mem_link_new(&able, &link) == 0 && tap_new(link, &tc, &counters, &tap) == 0);
	require(ndp_input(tap, &cfg, &p) == (p.icmp.type >= 133 && p.icmp.type <= 137));
	len = mem_link_fetch(link, frame, sizeof(frame), NULL);
	if (len)
		check_answer(frame, len);
	require(mem_link_fetch(link, frame, sizeof(frame), NULL) == 0);
	tap_free(tap);
	return 0;
}
