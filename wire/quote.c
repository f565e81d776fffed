/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/quote.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>

#include "core/cursor.h"

static bool is_v4(const struct packet *p)
{
	return ip_is_v4(&p->ip.src);
}

bool quote_is_unreachable(const struct packet *p)
{
	if (is_v4(p))
		return p->icmp.type == ICMP_DEST_UNREACH && p->icmp.code != ICMP_FRAG_NEEDED;
	return p->icmp.type == ICMP6_DST_UNREACH;
}

static bool is_error(const struct packet *p)
{
	if (is_v4(p))
		return p->icmp.type == ICMP_DEST_UNREACH || p->icmp.type == ICMP_TIME_EXCEEDED ||
		       p->icmp.type == ICMP_PARAMETERPROB || p->icmp.type == ICMP_SOURCE_QUENCH;
	return !(p->icmp.type & ICMP6_INFOMSG_MASK);
}

/* Leaves c at the transport header. */
static bool parse_ipv4(struct cursor *c, struct quote *out)
{
	uint8_t first = cursor_u8(c), header_len = (uint8_t)((first & 0xf) * 4), addr[8];
	uint16_t fragment;

	cursor_bytes(c, 5); /* TOS, length, identification */
	fragment = cursor_u16(c);
	cursor_u8(c);
	out->proto = cursor_u8(c);
	cursor_u16(c);
	cursor_copy(c, addr, sizeof(addr));
	if (first >> 4 != 4 || header_len < 20 || fragment & 0x1fff)
		return false;
	cursor_bytes(c, header_len - 20U);
	out->src.addr = ip_from_v4(addr);
	out->dst.addr = ip_from_v4(addr + 4);
	return true;
}

static bool parse_ipv6(struct cursor *c, struct quote *out)
{
	uint8_t first = cursor_u8(c), addr[32];

	cursor_bytes(c, 5); /* class and label, length */
	out->proto = cursor_u8(c);
	cursor_u8(c);
	cursor_copy(c, addr, sizeof(addr));
	out->src.addr = ip_from_v6(addr);
	out->dst.addr = ip_from_v6(addr + 16);
	return first >> 4 == 6;
}

bool quote_parse(const struct packet *p, struct quote *out)
{
	struct cursor c = cursor_init(p->payload, p->payload_len);
	struct quote q = {0};

	if (!is_error(p) || !(is_v4(p) ? parse_ipv4(&c, &q) : parse_ipv6(&c, &q)))
		return false;
	if (q.proto != IPPROTO_TCP && q.proto != IPPROTO_UDP)
		return false;
	q.src.port = cursor_u16(&c);
	q.dst.port = cursor_u16(&c);
	q.seq = cursor_u32(&c); /* UDP: length and checksum */
	if (c.bad)
		return false;
	*out = q;
	return true;
}
