/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/trace.h"

#include <net/ethernet.h>
#include <stdio.h>

#include "core/cursor.h"
#include "core/log.h"
#include "wire/addr.h"

#define LOOK_BYTES 128 /* Ethernet and IPv4 header with options, and ports */

/* What stands in front of the ports. */
struct headers {
	struct ip_addr src, dst;
	unsigned proto;
	bool has_ports;
};

/* RFC 791 3.1: only a first fragment has the transport header. */
static void look_v4(struct cursor *c, struct headers *h)
{
	unsigned header_len = (cursor_u8(c) & 15) * 4U;
	uint8_t src[4], dst[4];
	uint16_t fragment;

	cursor_bytes(c, 5); /* TOS, length, identification */
	fragment = cursor_u16(c);
	cursor_bytes(c, 1); /* TTL */
	h->proto = cursor_u8(c);
	cursor_bytes(c, 2); /* checksum */
	cursor_copy(c, src, sizeof(src));
	cursor_copy(c, dst, sizeof(dst));
	cursor_bytes(c, header_len > 20 ? header_len - 20 : 0);
	h->src = ip_from_v4(src);
	h->dst = ip_from_v4(dst);
	h->has_ports = !(fragment & 0x1fff);
}

static void look_v6(struct cursor *c, struct headers *h)
{
	uint8_t src[16], dst[16];

	cursor_bytes(c, 6); /* class, flow label, length */
	h->proto = cursor_u8(c);
	cursor_bytes(c, 1); /* hop limit */
	cursor_copy(c, src, sizeof(src));
	cursor_copy(c, dst, sizeof(dst));
	h->src = ip_from_v6(src);
	h->dst = ip_from_v6(dst);
	h->has_ports = true;
}

static const char *protocol_name(unsigned proto)
{
	switch (proto) {
	case IPPROTO_TCP:
		return "TCP";
	case IPPROTO_UDP:
		return "UDP";
	case IPPROTO_ICMP:
		return "ICMP";
	case IPPROTO_ICMPV6:
		return "ICMPv6";
	default:
		return "IP";
	}
}

static void trace_ip(const char *way, size_t len, struct cursor *c, bool v6)
{
	char src[IP_TEXT_MAX], dst[IP_TEXT_MAX], ports[32] = "";
	struct headers h;
	unsigned from, to;

	if (v6)
		look_v6(c, &h);
	else
		look_v4(c, &h);
	if (h.has_ports && (h.proto == IPPROTO_TCP || h.proto == IPPROTO_UDP)) {
		from = cursor_u16(c);
		to = cursor_u16(c);
		snprintf(ports, sizeof(ports), ", port %u to %u", from, to);
	}
	if (c->bad)
		log_trace("%s: %zu bytes: cut short", way, len);
	else
		log_trace("%s: %zu bytes: %s (%u) %s to %s%s", way, len, protocol_name(h.proto),
			  h.proto, ip_format(&h.src, src), ip_format(&h.dst, dst), ports);
}

void trace_frame(const char *way, const struct iovec *iov, int iov_count)
{
	uint8_t start[LOOK_BYTES];
	size_t len = 0, have = 0;
	struct cursor c;
	uint16_t type;

	for (int i = 0; i < iov_count; i++) {
		size_t part = iov[i].iov_len, room = sizeof(start) - have;

		len += part;
		if (part > room)
			part = room;
		if (part)
			memcpy(start + have, iov[i].iov_base, part);
		have += part;
	}
	c = cursor_init(start, have);
	cursor_bytes(&c, 2 * ETH_ALEN);
	type = cursor_u16(&c);
	if (type == ETHERTYPE_IP || type == ETHERTYPE_IPV6)
		trace_ip(way, len, &c, type == ETHERTYPE_IPV6);
	else
		log_trace("%s: %zu bytes: %s %04x", way, len,
			  type == ETHERTYPE_ARP ? "ARP" : "type", type);
}
