/* SPDX-License-Identifier: BSD-3-Clause */
/* A frame of any content, first with the sums looked at, then not, given to everything that reads
 * frames: the parser, and the link's own answers. Input: one byte of flags, then the frame. */
#include <stdlib.h>

#include "tap/arp.h"
#include "tap/ndp.h"
#include "wire/quote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static struct tap *answerer(struct counters *counters, struct tap_link **link)
{
	static const struct tap_features none;
	struct tap_config cfg = {
	    .our_mac = {{2, 0, 0, 0, 0, 1}}, .guest_mac = {{2, 0, 0, 0, 0, 2}}, .mtu = 1500};
	struct tap *t = NULL;

	require(mem_link_new(&none, link) == 0);
	require(tap_new(*link, &cfg, counters, &t) == 0);
	return t;
}

/* What is made must be as good as what is asked of others. */
static void check_answers(struct tap_link *link)
{
	uint8_t frame[2048];
	struct offload off;
	size_t len;

	while ((len = mem_link_fetch(link, frame, sizeof(frame), &off))) {
		enum drop_reason why;
		struct packet p;

		require(len <= sizeof(frame));
		if (packet_parse(frame, len, &off, &p, &why) < 0)
			require(why == DROP_DESTINATION); /* a guest that has a loopback address
							     gets its answer */
	}
}

static void answer(const struct packet *p)
{
	struct counters counters = {0};
	struct tap_link *link;
	struct tap *t = answerer(&counters, &link);
	struct ndp_config ndp = {.our_link_local = {{0xfe, 0x80, [15] = 1}},
				 .ra_on = true,
				 .prefix = {{0x20, 1, 0xd, 0xb8, [15] = 2}},
				 .mtu = 65520,
				 .dns = {{{0x20, 1, 0xd, 0xb8, [15] = 0x53}}},
				 .dns_count = 1,
				 .search = {"example.org"},
				 .search_count = 1};
	const struct ip_addr own[ARP_OWN] = {ip_any[IP_V4], ip_any[IP_V4]};

	if (p->kind == PACKET_ARP)
		arp_input(t, p, own);
	else if (p->kind == PACKET_ICMP && p->ip.proto == IPPROTO_ICMPV6)
		(void)ndp_input(t, &ndp, p);
	check_answers(link);
	tap_free(t);
}

static void check_quote(const struct packet *p)
{
	struct quote q;

	if (quote_parse(p, &q))
		require(q.proto == IPPROTO_TCP || q.proto == IPPROTO_UDP);
}

static void check(const uint8_t *frame, size_t len, const struct offload *off)
{
	enum drop_reason why = DROP_COUNT;
	struct packet p;

	if (packet_parse(frame, len, off, &p, &why) < 0) {
		require(why < DROP_COUNT);
		return;
	}
	require(p.kind < PACKET_KINDS);
	require(p.payload >= frame && p.payload + p.payload_len <= frame + len);
	if (p.kind == PACKET_ARP) {
		answer(&p);
		return;
	}
	require(p.l3 == frame + ETH_HEADER_LEN && p.l3_len <= len - ETH_HEADER_LEN);
	require(ip_family(&p.ip.src) == ip_family(&p.ip.dst));
	require(!ip_is_loopback(&p.ip.src) && !ip_is_loopback(&p.ip.dst) &&
		!ip_is_multicast(&p.ip.src));
	require(p.ip.is_fragment == (p.kind == PACKET_FRAGMENT));
	if (p.kind == PACKET_TCP)
		require(p.tcp.src_port && p.tcp.dst_port && p.tcp.opt.sack_count <= TCP_SACK_MAX);
	if (p.kind == PACKET_ICMP) {
		check_quote(&p);
		answer(&p);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct offload summed = {0}, unsummed = {.csum_partial = true};

	if (size < 1 || size > FRAME_MAX)
		return 0;
	if (data[0] & 1) {
		unsummed.gso = (enum gso)(data[0] >> 1 & 3);
		unsummed.gso_size = data[0];
	}
	check(data + 1, size - 1, &summed);
	check(data + 1, size - 1, &unsummed);
	return 0;
}
