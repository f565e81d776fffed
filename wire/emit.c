/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/emit.h"

static uint8_t *put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	return put16(put16(p, (uint16_t)(v >> 16)), (uint16_t)v);
}

static uint8_t *put_bytes(uint8_t *p, const void *bytes, size_t len)
{
	memcpy(p, bytes, len);
	return p + len;
}

size_t emit_eth(uint8_t *p, const struct mac_addr *dst, const struct mac_addr *src, uint16_t type)
{
	put16(put_bytes(put_bytes(p, dst->b, 6), src->b, 6), type);
	return ETH_HEADER_LEN;
}

/* RFC 791 3.1 */
static size_t emit_ipv4(uint8_t *p, const struct ip_header *h, size_t payload_len)
{
	uint16_t sum;

	p[0] = 0x45;
	p[1] = h->tos;
	put16(p + 2, (uint16_t)(20 + payload_len));
	put16(p + 4, (uint16_t)h->fragment_id);
	put16(p + 6, (uint16_t)((h->dont_fragment ? 0x4000 : 0) | (h->more_fragments ? 0x2000 : 0) |
				h->fragment_offset / 8));
	p[8] = h->ttl;
	p[9] = h->proto;
	put16(p + 10, 0);
	memcpy(p + 12, ip_bytes(&h->src), 4);
	memcpy(p + 16, ip_bytes(&h->dst), 4);
	sum = csum_fold(csum_add(0, p, 20));
	memcpy(p + 10, &sum, 2);
	return 20;
}

/* RFC 8200 3 and, for a fragment, 4.5 */
static size_t emit_ipv6(uint8_t *p, const struct ip_header *h, size_t payload_len)
{
	bool fragment = h->is_fragment;

	put32(p, 6U << 28 | (uint32_t)h->tos << 20 | (h->flow_label & 0xfffff));
	put16(p + 4, (uint16_t)(payload_len + (fragment ? 8 : 0)));
	p[6] = fragment ? IPPROTO_FRAGMENT : h->proto;
	p[7] = h->ttl;
	memcpy(p + 8, h->src.b, 16);
	memcpy(p + 24, h->dst.b, 16);
	if (!fragment)
		return 40;
	p[40] = h->proto;
	p[41] = 0;
	put16(p + 42, (uint16_t)(h->fragment_offset | (h->more_fragments ? 1 : 0)));
	put32(p + 44, h->fragment_id);
	return 48;
}

size_t emit_ip(uint8_t *p, const struct ip_header *h, size_t payload_len)
{
	return ip_is_v4(&h->src) ? emit_ipv4(p, h, payload_len) : emit_ipv6(p, h, payload_len);
}

static unsigned plain_options_len(const struct tcp_options *opt)
{
	return (opt->has_mss ? 4U : 0U) + (opt->has_timestamp ? 12U : 0U) +
	       (opt->has_sack_permitted ? 4U : 0U) + (opt->has_wscale ? 4U : 0U);
}

/* Options have forty bytes: blocks that the others leave no room for are left out (RFC 2018 3). */
static unsigned sacks_that_fit(const struct tcp_options *opt)
{
	unsigned most = (40U - 4U - plain_options_len(opt)) / 8U;

	return opt->sack_count < most ? opt->sack_count : most;
}

/* Option kinds: RFC 9293 3.1, RFC 7323 2.2 and 3.2, RFC 2018. Each is preceded by NOPs where that
 * aligns its numbers. */
static uint8_t *emit_tcp_options(uint8_t *p, const struct tcp_options *opt)
{
	unsigned sacks = sacks_that_fit(opt);

	if (opt->has_mss)
		p = put32(p, 2U << 24 | 4U << 16 | opt->mss);
	if (opt->has_timestamp) {
		p = put32(p, 0x0101080a);
		p = put32(put32(p, opt->ts_val), opt->ts_ecr);
	}
	if (opt->has_sack_permitted)
		p = put32(p, 0x01010402);
	if (opt->has_wscale)
		p = put32(p, 1U << 24 | 3U << 16 | 3U << 8 | opt->wscale);
	if (sacks) {
		p = put32(p, 0x01010500U | (2U + 8U * sacks));
		for (unsigned i = 0; i < sacks; i++)
			p = put32(put32(p, opt->sack[i].start), opt->sack[i].end);
	}
	return p;
}

size_t emit_tcp_len(const struct tcp_options *opt)
{
	unsigned sacks = sacks_that_fit(opt);

	return 20U + plain_options_len(opt) + (sacks ? 4U + 8U * sacks : 0U);
}

size_t emit_tcp(uint8_t *p, const struct tcp_header *h)
{
	size_t len;

	put16(put16(p, h->src_port), h->dst_port);
	put32(put32(p + 4, h->seq), h->ack);
	len = (size_t)(emit_tcp_options(p + 20, &h->opt) - p);
	p[12] = (uint8_t)(len / 4 << 4);
	p[13] = h->flags;
	put16(p + 14, h->window);
	put16(p + 16, 0);
	put16(p + 18, h->urgent);
	return len;
}

size_t emit_udp(uint8_t *p, const struct udp_header *h, size_t payload_len)
{
	put16(put16(p, h->src_port), h->dst_port);
	put16(p + 4, (uint16_t)(8 + payload_len));
	put16(p + 6, 0);
	return 8;
}

size_t emit_icmp(uint8_t *p, uint8_t type, uint8_t code, uint32_t rest)
{
	p[0] = type;
	p[1] = code;
	put16(p + 2, 0);
	put32(p + 4, rest);
	return 8;
}

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

uint16_t csum_fold(uint64_t sum)
{
	return (uint16_t)~fold(sum);
}

/* RFC 9293 3.1 and RFC 8200 8.1: both pseudo-headers sum up addresses, protocol and length. */
uint64_t csum_pseudo(const struct ip_addr *src, const struct ip_addr *dst, uint8_t proto,
		     size_t l4_len)
{
	uint8_t tail[6];
	uint64_t sum = csum_add(0, ip_bytes(src), ip_bytes_len(src));

	put16(put32(tail, (uint32_t)l4_len), proto);
	return csum_add(csum_add(sum, ip_bytes(dst), ip_bytes_len(dst)), tail, sizeof(tail));
}

/* Where the checksum stands in the header of a protocol. */
static size_t checksum_offset(uint8_t proto)
{
	return proto == IPPROTO_TCP ? 16 : proto == IPPROTO_UDP ? 6 : 2;
}

void emit_l4_checksum(uint8_t *l4, size_t hdr_len, const void *payload, size_t payload_len,
		      const struct ip_header *ip)
{
	uint8_t *field = l4 + checksum_offset(ip->proto);
	uint64_t sum = 0;
	uint16_t value;

	if (ip->proto != IPPROTO_ICMP)
		sum = csum_pseudo(&ip->src, &ip->dst, ip->proto, hdr_len + payload_len);
	memset(field, 0, 2);
	value = csum_fold(csum_add(csum_add(sum, l4, hdr_len), payload, payload_len));
	if (!value && ip->proto == IPPROTO_UDP)
		value = 0xffff; /* RFC 768: zero means "no checksum" */
	memcpy(field, &value, 2);
}

void emit_l4_pseudo(uint8_t *l4, size_t l4_len, const struct ip_header *ip)
{
	uint16_t value = fold(csum_pseudo(&ip->src, &ip->dst, ip->proto, l4_len));

	memcpy(l4 + checksum_offset(ip->proto), &value, 2);
}
