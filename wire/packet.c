/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/packet.h"

#include <errno.h>
#include <net/ethernet.h>

#include "core/cursor.h"
#include "wire/emit.h"

#define EXTENSION_HEADERS_MAX 8 /* more in a row is nobody's traffic */

#define refuse(why, reason) (*(why) = DROP_##reason, -EBADMSG)

/* RFC 9293 3.2: unknown kinds are skipped by their length; a broken length ends the options, it
 * does not damn the segment (as hosts do). */
static void parse_tcp_options(struct cursor c, struct tcp_options *o)
{
	while (cursor_left(&c)) {
		uint8_t kind = cursor_u8(&c), len;
		struct cursor body;
		const uint8_t *p;

		if (kind == 0)
			return;
		if (kind == 1)
			continue;
		len = cursor_u8(&c);
		p = cursor_bytes(&c, len >= 2 ? len - 2U : SIZE_MAX);
		if (!p)
			return;
		body = cursor_init(p, len - 2U);
		if (kind == 2 && len == 4) {
			o->has_mss = true;
			o->mss = cursor_u16(&body);
		} else if (kind == 3 && len == 3) {
			o->has_wscale = true;
			o->wscale = cursor_u8(&body);
		} else if (kind == 4 && len == 2) {
			o->has_sack_permitted = true;
		} else if (kind == 5 && len >= 10 && (len - 2) % 8 == 0) {
			while (cursor_left(&body) && o->sack_count < TCP_SACK_MAX) {
				o->sack[o->sack_count].start = cursor_u32(&body);
				o->sack[o->sack_count++].end = cursor_u32(&body);
			}
		} else if (kind == 8 && len == 10) {
			o->has_timestamp = true;
			o->ts_val = cursor_u32(&body);
			o->ts_ecr = cursor_u32(&body);
		}
	}
}

static int parse_tcp(struct cursor c, struct packet *out, enum drop_reason *why)
{
	struct tcp_header *h = &out->tcp;
	uint16_t offset_flags;
	const uint8_t *options;
	size_t header_len;

	*h = (struct tcp_header){0};
	h->src_port = cursor_u16(&c);
	h->dst_port = cursor_u16(&c);
	h->seq = cursor_u32(&c);
	h->ack = cursor_u32(&c);
	offset_flags = cursor_u16(&c);
	h->flags = (uint8_t)offset_flags;
	h->window = cursor_u16(&c);
	cursor_u16(&c); /* checksum: verified before */
	h->urgent = cursor_u16(&c);
	header_len = (size_t)(offset_flags >> 12) * 4;
	if (header_len < 20)
		return refuse(why, L4_HEADER);
	options = cursor_bytes(&c, header_len - 20);
	if (c.bad || !h->src_port || !h->dst_port)
		return refuse(why, L4_HEADER);
	parse_tcp_options(cursor_init(options, header_len - 20), &h->opt);
	out->kind = PACKET_TCP;
	out->payload = c.pos;
	out->payload_len = cursor_left(&c);
	return 0;
}

static int parse_udp(struct cursor c, struct packet *out, enum drop_reason *why)
{
	size_t whole = cursor_left(&c), len;

	out->udp.src_port = cursor_u16(&c);
	out->udp.dst_port = cursor_u16(&c);
	len = cursor_u16(&c);
	cursor_u16(&c); /* checksum */
	/* A UDP super-frame's length field speaks of the whole; RFC 2675's zero length is not for
	 * us. */
	if (c.bad || len < 8 || len > whole || !out->udp.dst_port)
		return refuse(why, L4_HEADER);
	out->kind = PACKET_UDP;
	out->payload = c.pos;
	out->payload_len = len - 8;
	return 0;
}

static int parse_icmp(struct cursor c, struct packet *out, enum drop_reason *why)
{
	out->icmp.type = cursor_u8(&c);
	out->icmp.code = cursor_u8(&c);
	cursor_u16(&c); /* checksum */
	out->icmp.echo_id = cursor_u16(&c);
	out->icmp.echo_seq = cursor_u16(&c);
	if (c.bad)
		return refuse(why, L4_HEADER);
	out->kind = PACKET_ICMP;
	out->payload = c.pos;
	out->payload_len = cursor_left(&c);
	return 0;
}

/* true if the sum over pseudo-header and packet is right, or there is none to check. */
static bool l4_checksum_right(const struct ip_header *ip, const uint8_t *l4, size_t len,
			      const struct offload *off)
{
	uint64_t sum;

	if (off->csum_partial)
		return true;
	if (ip->proto == IPPROTO_UDP && len >= 8) {
		size_t udp_len = (size_t)(l4[4] << 8 | l4[5]);

		if (udp_len < len)
			len = udp_len; /* what follows is padding */
		if (ip_is_v4(&ip->src) && !l4[6] && !l4[7])
			return true; /* RFC 768: none was made */
	}
	sum = ip->proto == IPPROTO_ICMP ? 0 : csum_pseudo(&ip->src, &ip->dst, ip->proto, len);
	return csum_fold(csum_add(sum, l4, len)) == 0;
}

static int parse_transport(struct cursor c, const struct offload *off, struct packet *out,
			   enum drop_reason *why)
{
	uint8_t proto = out->ip.proto;
	bool v4 = ip_is_v4(&out->ip.src);

	if (out->ip.is_fragment) {
		out->kind = PACKET_FRAGMENT;
		out->payload = c.pos;
		out->payload_len = cursor_left(&c);
		return 0;
	}
	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP &&
	    proto != (v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return refuse(why, IP_PROTOCOL);
	if (!l4_checksum_right(&out->ip, c.pos, cursor_left(&c), off))
		return refuse(why, L4_CHECKSUM);
	if (proto == IPPROTO_TCP)
		return parse_tcp(c, out, why);
	return proto == IPPROTO_UDP ? parse_udp(c, out, why) : parse_icmp(c, out, why);
}

/* RFC 791 3.1, RFC 1122 3.2.1 */
static int parse_ipv4(struct cursor c, const struct offload *off, struct packet *out,
		      enum drop_reason *why)
{
	struct ip_header *h = &out->ip;
	uint8_t header_len = (uint8_t)((cursor_u8(&c) & 0xf) * 4);
	uint16_t total, fragment;
	uint8_t addr[8];

	h->tos = cursor_u8(&c);
	total = cursor_u16(&c);
	h->fragment_id = cursor_u16(&c);
	fragment = cursor_u16(&c);
	h->ttl = cursor_u8(&c);
	h->proto = cursor_u8(&c);
	cursor_u16(&c);
	cursor_copy(&c, addr, sizeof(addr));
	if (c.bad || header_len < 20 || total < header_len)
		return refuse(why, IP_HEADER);
	cursor_bytes(&c, header_len -
			     20U); /* IP options are skipped: nothing behind us would honour them */
	cursor_limit(&c, (size_t)total - header_len);
	if (c.bad)
		return refuse(why, IP_HEADER);
	if (csum_fold(csum_add(0, out->l3, header_len)))
		return refuse(why, IP_CHECKSUM);
	out->l3_len = total;
	h->src = ip_from_v4(addr);
	h->dst = ip_from_v4(addr + 4);
	h->dont_fragment = fragment & 0x4000;
	h->more_fragments = fragment & 0x2000;
	h->fragment_offset = (uint16_t)((fragment & 0x1fff) * 8);
	h->is_fragment = h->more_fragments || h->fragment_offset;
	return parse_transport(c, off, out, why);
}

/* Skips extension headers (RFC 8200 4) up to the transport header or a fragment header. */
static int skip_extensions(struct cursor *c, struct ip_header *h)
{
	for (int i = 0; i < EXTENSION_HEADERS_MAX; i++) {
		uint8_t next, len;
		uint16_t fragment;

		switch (h->proto) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
			next = cursor_u8(c);
			len = cursor_u8(c);
			cursor_bytes(c, 6U + 8U * len);
			break;
		case IPPROTO_FRAGMENT:
			next = cursor_u8(c);
			cursor_u8(c);
			fragment = cursor_u16(c);
			h->fragment_id = cursor_u32(c);
			h->fragment_offset = fragment & 0xfff8;
			h->more_fragments = fragment & 1;
			/* Both zero: an atomic fragment is a whole packet (RFC 6946). */
			h->is_fragment = h->fragment_offset || h->more_fragments;
			break;
		default:
			return c->bad ? -EBADMSG : 0;
		}
		if (c->bad)
			return -EBADMSG;
		h->proto = next;
		if (h->is_fragment)
			return 0;
	}
	return -EBADMSG;
}

static int parse_ipv6(struct cursor c, const struct offload *off, struct packet *out,
		      enum drop_reason *why)
{
	struct ip_header *h = &out->ip;
	uint32_t first = cursor_u32(&c);
	uint16_t payload_len = cursor_u16(&c);
	uint8_t addr[32];

	h->tos = (uint8_t)(first >> 20);
	h->flow_label = first & 0xfffff;
	h->proto = cursor_u8(&c);
	h->ttl = cursor_u8(&c);
	cursor_copy(&c, addr, sizeof(addr));
	cursor_limit(&c, payload_len);
	if (c.bad)
		return refuse(why, IP_HEADER);
	out->l3_len = 40U + payload_len;
	h->src = ip_from_v6(addr);
	h->dst = ip_from_v6(addr + 16);
	h->dont_fragment = true;
	if (ip_is_v4(&h->src) || ip_is_v4(&h->dst))
		return refuse(why, SOURCE); /* ::ffff:0:0/96 never is on a wire (RFC 6890) */
	if (skip_extensions(&c, h) < 0)
		return refuse(why, IP_EXTENSION);
	return parse_transport(c, off, out, why);
}

/* RFC 1122 3.2.1.3: loopback never on a wire; nobody is called by a group. The unspecified source
 * is left to those that have a use for it (DHCP, DAD). */
static int check_addresses(const struct ip_header *h, enum drop_reason *why)
{
	if (ip_is_loopback(&h->src) || ip_is_multicast(&h->src) || ip_is_broadcast(&h->src))
		return refuse(why, SOURCE);
	if (ip_is_loopback(&h->dst) || ip_is_unspecified(&h->dst))
		return refuse(why, DESTINATION);
	return 0;
}

int packet_parse_ip(const uint8_t *ip, size_t len, const struct offload *off, struct packet *out,
		    enum drop_reason *why)
{
	struct cursor c = cursor_init(ip, len);
	unsigned version = len ? ip[0] >> 4 : 0;
	int r;

	out->ip = (struct ip_header){0};
	out->l3 = ip;
	out->gso = off->gso;
	out->gso_size = off->gso_size;
	if (version == 4)
		r = parse_ipv4(c, off, out, why);
	else if (version == 6)
		r = parse_ipv6(c, off, out, why);
	else
		return refuse(why, IP_HEADER);
	return r < 0 ? r : check_addresses(&out->ip, why);
}

int packet_parse(const uint8_t *frame, size_t len, const struct offload *off, struct packet *out,
		 enum drop_reason *why)
{
	struct cursor c = cursor_init(frame, len);
	unsigned version;

	cursor_copy(&c, out->eth_dst.b, 6);
	cursor_copy(&c, out->eth_src.b, 6);
	out->eth_type = cursor_u16(&c);
	if (c.bad || !cursor_left(&c))
		return refuse(why, FRAME_SHORT);
	if (out->eth_type == ETHERTYPE_ARP) {
		out->kind = PACKET_ARP;
		out->payload = c.pos;
		out->payload_len = cursor_left(&c);
		return 0;
	}
	version = c.pos[0] >> 4;
	if (out->eth_type != ETHERTYPE_IP && out->eth_type != ETHERTYPE_IPV6)
		return refuse(why, ETHERTYPE);
	if (version != (out->eth_type == ETHERTYPE_IP ? 4U : 6U))
		return refuse(why, IP_HEADER);
	return packet_parse_ip(c.pos, cursor_left(&c), off, out, why);
}
