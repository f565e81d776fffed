/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing and making frames: known bytes, every kind of damage with its reason, round trips. Every
 * frame ends flush at an unreadable page. */
#include "test/unit/build.h"

#include <errno.h>

static const struct offload no_offload;

/* Frames made by another implementation (scapy), checksums and all: the SYN has MSS, SACK
 * permitted, time stamps and window scale, the datagram says "hello", the echo request "ping!". */
static const uint8_t tcp4[] = {
    0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 0x02, 0x00, 0x00, 0x00, 0x00, 0x07, 0x08, 0x00, 0x45,
    0xb8, 0x00, 0x3c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0x4d, 0xc7, 0xc0, 0x00, 0x02, 0x02,
    0xc6, 0x33, 0x64, 0x07, 0x9c, 0x40, 0x01, 0xbb, 0x89, 0xab, 0xcd, 0xef, 0x00, 0x00, 0x00,
    0x00, 0xa0, 0x02, 0xfa, 0xf0, 0x51, 0x1d, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02,
    0x08, 0x0a, 0x01, 0x02, 0x03, 0x04, 0x0a, 0x0b, 0x0c, 0x0d, 0x01, 0x03, 0x03, 0x07};
static const uint8_t udp4[] = {
    0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 0x02, 0x00, 0x00, 0x00, 0x00, 0x07, 0x08, 0x00, 0x45, 0xb8,
    0x00, 0x21, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x4d, 0xd7, 0xc0, 0x00, 0x02, 0x02, 0xc6, 0x33,
    0x64, 0x07, 0x04, 0xd2, 0x00, 0x35, 0x00, 0x0d, 0xca, 0xbd, 0x68, 0x65, 0x6c, 0x6c, 0x6f};
static const uint8_t echo4[] = {
    0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 0x02, 0x00, 0x00, 0x00, 0x00, 0x07, 0x08, 0x00, 0x45, 0xb8,
    0x00, 0x21, 0x00, 0x00, 0x40, 0x00, 0x40, 0x01, 0x4d, 0xe7, 0xc0, 0x00, 0x02, 0x02, 0xc6, 0x33,
    0x64, 0x07, 0x08, 0x00, 0xe5, 0xf5, 0x12, 0x34, 0x00, 0x05, 0x70, 0x69, 0x6e, 0x67, 0x21};
static const uint8_t tcp6[] = {
    0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 0x02, 0x00, 0x00, 0x00, 0x00, 0x07, 0x86, 0xdd, 0x6b, 0x81,
    0x23, 0x45, 0x00, 0x28, 0x06, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x9c, 0x40, 0x01, 0xbb, 0x89, 0xab, 0xcd, 0xef, 0x00, 0x00,
    0x00, 0x00, 0xa0, 0x02, 0xfa, 0xf0, 0xe1, 0xde, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02,
    0x08, 0x0a, 0x01, 0x02, 0x03, 0x04, 0x0a, 0x0b, 0x0c, 0x0d, 0x01, 0x03, 0x03, 0x07};
static const uint8_t udp6[] = {
    0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 0x02, 0x00, 0x00, 0x00, 0x00, 0x07, 0x86, 0xdd,
    0x6b, 0x81, 0x23, 0x45, 0x00, 0x0d, 0x11, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x20, 0x01, 0x0d, 0xb8,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x04, 0xd2,
    0x00, 0x35, 0x00, 0x0d, 0x5b, 0x7f, 0x68, 0x65, 0x6c, 0x6c, 0x6f};
static const uint8_t echo6[] = {
    0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 0x02, 0x00, 0x00, 0x00, 0x00, 0x07, 0x86, 0xdd,
    0x6b, 0x81, 0x23, 0x45, 0x00, 0x0d, 0x3a, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x20, 0x01, 0x0d, 0xb8,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x80, 0x00,
    0x12, 0x32, 0x12, 0x34, 0x00, 0x05, 0x70, 0x69, 0x6e, 0x67, 0x21};
#define VECTOR(name)                                                                               \
	{                                                                                          \
		name, sizeof(name)                                                                 \
	}
static const struct vector {
	const uint8_t *bytes;
	size_t len;
} syn[] = {VECTOR(tcp4), VECTOR(tcp6)}, datagram[] = {VECTOR(udp4), VECTOR(udp6)},
  echo[] = {VECTOR(echo4), VECTOR(echo6)};

/* Offsets within those frames. */
static const size_t l4_at[IP_FAMILIES] = {34, 54};
enum { L3 = 14 };

/* A frame that may be damaged. */
struct frame {
	uint8_t b[2048];
	size_t len;
};

static struct frame copy(const struct vector *v)
{
	struct frame f = {.len = v->len};

	memcpy(f.b, v->bytes, v->len);
	return f;
}

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void fix_ip_sum(struct frame *f)
{
	size_t len = (size_t)(f->b[L3] & 0xf) * 4;
	uint16_t sum;

	put16(f->b + L3 + 10, 0);
	sum = csum_fold(csum_add(0, f->b + L3, len));
	memcpy(f->b + L3 + 10, &sum, 2);
}

/* Makes the transport checksum right again, as someone would who damages a header on purpose. */
static void fix_l4_sum(struct frame *f, enum ip_family family, uint8_t proto)
{
	struct ip_header h = {.proto = proto};
	uint8_t *l4 = f->b + l4_at[family];

	h.src = family == IP_V4 ? ip_from_v4(f->b + L3 + 12) : ip_from_v6(f->b + L3 + 8);
	h.dst = family == IP_V4 ? ip_from_v4(f->b + L3 + 16) : ip_from_v6(f->b + L3 + 24);
	emit_l4_checksum(l4, 8, l4 + 8, f->len - l4_at[family] - 8, &h);
	if (proto == IPPROTO_TCP) { /* its checksum lies behind the first eight bytes */
		put16(l4 + 16, 0);
		emit_l4_checksum(l4, 20, l4 + 20, f->len - l4_at[family] - 20, &h);
	}
}

/* Parses a copy that ends at the edge; the payload is copied back, so that it can be looked at. */
static int parse(const struct frame *f, const struct offload *off, struct packet *p,
		 enum drop_reason *why)
{
	static uint8_t kept[2048];
	struct edge e = edge_copy(f->b, f->len);
	int r = packet_parse(e.data, f->len, off, p, why);

	if (r == 0) {
		assert_true(p->payload >= e.data && p->payload + p->payload_len <= e.data + f->len);
		memcpy(kept, e.data, f->len);
		p->payload = kept + (p->payload - e.data);
		if (p->kind != PACKET_ARP) {
			assert_ptr_equal(p->l3, e.data + L3);
			assert_in_range(p->l3_len, 20, f->len - L3);
		}
	} else {
		assert_int_equal(r, -EBADMSG);
	}
	edge_free(&e);
	return r;
}

static void is_refused(const struct frame *f, enum drop_reason want)
{
	enum drop_reason why = DROP_COUNT;
	struct packet p;

	if (parse(f, &no_offload, &p, &why) == 0)
		fail_msg("accepted instead of: %s", drop_reason_text(want));
	if (why != want)
		fail_msg("%s, not %s", drop_reason_text(why), drop_reason_text(want));
}

static void is_taken(const struct frame *f, struct packet *p)
{
	enum drop_reason why = DROP_COUNT;

	if (parse(f, &no_offload, p, &why) < 0)
		fail_msg("refused: %s", drop_reason_text(why));
}

/* What is right. */

static void known_frames(void **state)
{
	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		struct ip_addr from = ip(pairs[v].guest), to = ip(pairs[v].peer);
		struct frame f = copy(&syn[v]);
		struct packet p;

		is_taken(&f, &p);
		assert_int_equal(p.kind, PACKET_TCP);
		assert_true(mac_equal(&p.eth_src, &guest_mac));
		assert_true(mac_equal(&p.eth_dst, &our_mac));
		assert_int_equal(p.ip.ttl, 64);
		assert_int_equal(p.ip.tos, 0xb8);
		assert_int_equal(p.ip.flow_label, v == IP_V4 ? 0 : 0x12345);
		assert_true(p.ip.dont_fragment);
		assert_int_equal(p.tcp.src_port, 40000);
		assert_int_equal(p.tcp.dst_port, 443);
		assert_int_equal(p.tcp.seq, 0x89abcdef);
		assert_int_equal(p.tcp.flags, TCP_SYN);
		assert_int_equal(p.tcp.window, 64240);
		assert_int_equal(p.tcp.opt.mss, 1460);
		assert_int_equal(p.tcp.opt.wscale, 7);
		assert_int_equal(p.tcp.opt.ts_val, 0x01020304);
		assert_int_equal(p.tcp.opt.ts_ecr, 0x0a0b0c0d);
		assert_true(p.tcp.opt.has_mss && p.tcp.opt.has_wscale && p.tcp.opt.has_timestamp &&
			    p.tcp.opt.has_sack_permitted);
		assert_int_equal(p.tcp.opt.sack_count, 0);
		assert_int_equal(p.payload_len, 0);

		f = copy(&datagram[v]);
		is_taken(&f, &p);
		assert_int_equal(p.kind, PACKET_UDP);
		assert_int_equal(p.udp.src_port, 1234);
		assert_int_equal(p.udp.dst_port, 53);
		assert_int_equal(p.payload_len, 5);
		assert_memory_equal(p.payload, "hello", 5);
		assert_true(ip_equal(&p.ip.src, &from));
		assert_true(ip_equal(&p.ip.dst, &to));

		f = copy(&echo[v]);
		is_taken(&f, &p);
		assert_int_equal(p.kind, PACKET_ICMP);
		assert_int_equal(p.icmp.type, v == IP_V4 ? 8 : 128);
		assert_int_equal(p.icmp.echo_id, 0x1234);
		assert_int_equal(p.icmp.echo_seq, 5);
		assert_memory_equal(p.payload, "ping!", 5);
	}
}

/* Our headers are, byte for byte, those of the other implementation. */
static void known_frames_are_made(void **state)
{
	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		struct ip_header h = guest_ip(v, IPPROTO_UDP);
		struct udp_header udp = {.src_port = 1234, .dst_port = 53};
		uint8_t got[200];

		h.tos = 0xb8;
		h.flow_label = 0x12345;
		h.dont_fragment = true;
		assert_int_equal(put_udp(got, &h, &udp, "hello", 5), datagram[v].len);
		assert_memory_equal(got, datagram[v].bytes, datagram[v].len);
		h.proto = v == IP_V4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
		assert_int_equal(put_icmp(got, &h, v == IP_V4 ? 8 : 128, 0, 0x12340005, "ping!", 5),
				 echo[v].len);
		assert_memory_equal(got, echo[v].bytes, echo[v].len);
	}
}

static void tcp_options_round_trip(void **state)
{
	(void)state;
	for (unsigned set = 0; set < 16; set++) {
		for (uint8_t sacks = 0; sacks <= TCP_SACK_MAX; sacks++) {
			struct ip_header h = guest_ip(set % 2, IPPROTO_TCP);
			struct tcp_header tcp = {.src_port = 1,
						 .dst_port = 65535,
						 .seq = UINT32_MAX,
						 .ack = 1,
						 .flags = 0xff,
						 .window = 65535,
						 .urgent = 7,
						 .opt = {.has_mss = set & 1,
							 .mss = set & 1 ? 536 : 0,
							 .has_wscale = set & 2,
							 .wscale = set & 2 ? 14 : 0,
							 .has_timestamp = set & 4,
							 .ts_val = set & 4 ? 0x80000001 : 0,
							 .ts_ecr = set & 4 ? 2 : 0,
							 .has_sack_permitted = set & 8,
							 .sack_count = sacks}};
			struct frame f;
			struct packet p;

			for (uint8_t i = 0; i < sacks; i++) {
				tcp.opt.sack[i].start = 1000U * i;
				tcp.opt.sack[i].end = 1000U * i + 500;
			}
			f.len = put_tcp(f.b, &h, &tcp, "data", 4);
			is_taken(&f, &p);
			assert_int_equal(f.len - l4_at[set % 2] - 4, emit_tcp_len(&tcp.opt));
			/* Forty bytes are all there is: blocks that don't fit are left out, as RFC
			 * 2018 3 has it. */
			if (20 + 8U * sacks + 4 >
			    60 - (emit_tcp_len(&tcp.opt) - 20 - 8U * p.tcp.opt.sack_count))
				tcp.opt.sack_count = p.tcp.opt.sack_count;
			memset(tcp.opt.sack + tcp.opt.sack_count, 0,
			       sizeof(tcp.opt.sack[0]) * (TCP_SACK_MAX - tcp.opt.sack_count));
			assert_memory_equal(&p.tcp.opt, &tcp.opt, sizeof(tcp.opt));
			assert_int_equal(p.tcp.flags, 0xff);
			assert_int_equal(p.tcp.urgent, 7);
			assert_int_equal(p.payload_len, 4);
		}
	}
}

static void fragments_round_trip(void **state)
{
	static const uint8_t data[] = "sixteen bytes  ";

	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		for (int more = 0; more < 2; more++) {
			struct ip_header h = guest_ip(v, IPPROTO_UDP);
			struct frame f;
			struct packet p;

			h.is_fragment = true;
			h.more_fragments = more;
			h.fragment_offset = more ? 0 : 65528;
			h.fragment_id = v == IP_V4 ? 0xabcd : 0x89abcdef;
			f.len = put_ip(f.b, &h, data, sizeof(data));
			is_taken(&f, &p);
			assert_int_equal(p.kind, PACKET_FRAGMENT);
			assert_true(p.ip.is_fragment);
			assert_int_equal(p.ip.more_fragments, more);
			assert_int_equal(p.ip.fragment_offset, h.fragment_offset);
			assert_int_equal(p.ip.fragment_id, h.fragment_id);
			assert_int_equal(p.ip.proto, IPPROTO_UDP);
			assert_int_equal(p.payload_len, sizeof(data));
			assert_memory_equal(p.payload, data, sizeof(data));
		}
	}
}

/* IPv6 extension headers. */

/* Puts header (whose first byte, the next header, is set here) between the IPv6 header and what
 * follows. */
static void insert(struct frame *f, uint8_t type, const uint8_t *header, size_t len)
{
	uint8_t *at = f->b + 54;

	memmove(at + len, at, f->len - 54);
	memcpy(at, header, len);
	at[0] = f->b[L3 + 6];
	f->b[L3 + 6] = type;
	f->len += len;
	put16(f->b + L3 + 4, (unsigned)(f->len - 54));
}

static const uint8_t option_header[16] = {0, 1, 1, 12}; /* padding only */
static const uint8_t fragment_header[8] = {0, 0, 0, 0, 1, 2, 3, 4};

static void extension_headers_are_skipped(void **state)
{
	static const uint8_t types[] = {IPPROTO_HOPOPTS, IPPROTO_ROUTING, IPPROTO_DSTOPTS};
	struct frame f = copy(&datagram[IP_V6]);
	struct packet p;

	(void)state;
	for (unsigned n = 1; n <= 7; n++) {
		insert(&f, types[n % 3], option_header, n % 2 ? 16 : 8);
		if (n % 2 == 0)
			f.b[55] = 0; /* eight bytes */
		is_taken(&f, &p);
		assert_int_equal(p.kind, PACKET_UDP);
		assert_int_equal(p.ip.proto, IPPROTO_UDP);
		assert_memory_equal(p.payload, "hello", 5);
		assert_int_equal(p.l3_len, f.len - L3);
	}
	insert(&f, IPPROTO_HOPOPTS, option_header, 16);
	is_refused(&f, DROP_IP_EXTENSION); /* nobody sends so many */
}

static void atomic_fragment_is_a_packet(void **state) /* RFC 6946 */
{
	struct frame f = copy(&datagram[IP_V6]);
	struct packet p;

	(void)state;
	insert(&f, IPPROTO_FRAGMENT, fragment_header, 8);
	is_taken(&f, &p);
	assert_int_equal(p.kind, PACKET_UDP);
	assert_false(p.ip.is_fragment);
	assert_memory_equal(p.payload, "hello", 5);
	insert(&f, IPPROTO_DSTOPTS, option_header, 16);
	f.b[54 + 16 + 3] |= 1; /* more fragments */
	is_taken(&f, &p);
	assert_int_equal(p.kind, PACKET_FRAGMENT);
	assert_int_equal(p.ip.proto, IPPROTO_UDP);
	assert_int_equal(p.payload_len, 13);
}

static void broken_extension_headers(void **state)
{
	static const uint8_t types[] = {IPPROTO_HOPOPTS, IPPROTO_ROUTING, IPPROTO_DSTOPTS,
					IPPROTO_FRAGMENT};

	(void)state;
	for (size_t i = 0; i < COUNT(types); i++) {
		struct frame f = copy(&datagram[IP_V6]);

		if (types[i] != IPPROTO_FRAGMENT) {
			insert(&f, types[i], option_header, 16);
			f.b[55] = 4; /* reaches beyond the packet */
			is_refused(&f, DROP_IP_EXTENSION);
			f.b[55] = 255;
			is_refused(&f, DROP_IP_EXTENSION);
		}
		for (size_t len = 54; len < 62; len++) { /* less than the least header has */
			f.b[L3 + 6] = types[i];
			f.len = len;
			put16(f.b + L3 + 4, (unsigned)(len - 54));
			is_refused(&f, DROP_IP_EXTENSION);
		}
	}
}

/* What is right all the same. */

static void ip_options_are_skipped(void **state)
{
	(void)state;
	for (unsigned words = 1; words <= 10; words++) {
		struct frame f = copy(&datagram[IP_V4]);
		struct packet p;

		memmove(f.b + 34 + 4 * words, f.b + 34, f.len - 34);
		memset(f.b + 34, 1, 4 * words); /* no operation */
		f.len += 4 * words;
		f.b[L3] = (uint8_t)(0x45 + words);
		put16(f.b + L3 + 2, (unsigned)(f.len - L3));
		fix_ip_sum(&f);
		is_taken(&f, &p);
		assert_memory_equal(p.payload, "hello", 5);
		assert_int_equal(p.l3_len, f.len - L3);
	}
}

static void padding_is_cut_off(void **state)
{
	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		struct frame f = copy(&datagram[v]);
		struct packet p;

		memset(f.b + f.len, 0xee, 20);
		f.len += 20;
		is_taken(&f, &p);
		assert_int_equal(p.payload_len, 5);
		assert_int_equal(p.l3_len, f.len - 20 - L3);
		/* UDP's own length may end before the packet does (RFC 768 says nothing against
		 * it). */
		f = copy(&datagram[v]);
		put16(f.b + l4_at[v] + 4, 8 + 3);
		f.len -= 2;
		fix_l4_sum(&f, v, IPPROTO_UDP);
		f.len += 2;
		is_taken(&f, &p);
		assert_int_equal(p.payload_len, 3);
	}
}

static void udp_checksum_zero(void **state)
{
	struct frame f = copy(&datagram[IP_V4]);
	struct packet p;

	(void)state;
	put16(f.b + l4_at[IP_V4] + 6, 0);
	is_taken(&f, &p);
	f = copy(&datagram[IP_V6]);
	put16(f.b + l4_at[IP_V6] + 6, 0);
	is_refused(&f, DROP_L4_CHECKSUM); /* RFC 8200 8.1 */
}

static void nobody_may_ask(void **state) /* DHCP and the search for duplicates have no source */
{
	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		struct ip_header h = guest_ip(v, IPPROTO_UDP);
		struct udp_header udp = {.src_port = 68, .dst_port = 67};
		struct frame f;
		struct packet p;

		h.src = ip_any[v];
		h.dst = ip(v == IP_V4 ? "255.255.255.255" : "ff02::1:2");
		f.len = put_udp(f.b, &h, &udp, NULL, 0);
		is_taken(&f, &p);
		assert_int_equal(p.payload_len, 0);
	}
}

static void offload_says_what_is_not_there_yet(void **state)
{
	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		struct offload off = {.csum_partial = true,
				      .csum_start = (uint16_t)l4_at[v],
				      .csum_offset = 6,
				      .gso = GSO_UDP,
				      .gso_size = 3};
		struct frame f = copy(&datagram[v]);
		enum drop_reason why;
		struct packet p;

		f.b[l4_at[v] + 6] ^= 0x55;
		is_refused(&f, DROP_L4_CHECKSUM);
		assert_int_equal(parse(&f, &off, &p, &why), 0);
		assert_int_equal(p.gso, GSO_UDP);
		assert_int_equal(p.gso_size, 3);
		f = copy(&datagram[v]);
		is_taken(&f, &p);
		assert_int_equal(p.gso, GSO_NONE);
	}
}

static void arp_is_handed_on(void **state)
{
	struct frame f = {.b = {[12] = 8, [13] = 6, [14] = 77}, .len = 15};
	struct packet p;

	(void)state;
	is_taken(&f, &p);
	assert_int_equal(p.kind, PACKET_ARP);
	assert_int_equal(p.payload_len, 1);
	assert_int_equal(p.payload[0], 77);
}

static void reassembled_packet_is_parsed_from_its_ip_header(void **state)
{
	(void)state;
	for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
		struct edge e = edge_copy(datagram[v].bytes + L3, datagram[v].len - L3);
		struct packet p = {.eth_src = guest_mac};
		enum drop_reason why;

		assert_int_equal(
		    packet_parse_ip(e.data, datagram[v].len - L3, &no_offload, &p, &why), 0);
		assert_int_equal(p.kind, PACKET_UDP);
		assert_true(mac_equal(&p.eth_src, &guest_mac));
		assert_memory_equal(p.payload, "hello", 5);
		assert_int_equal(packet_parse_ip(e.data, 0, &no_offload, &p, &why), -EBADMSG);
		assert_int_equal(why, DROP_IP_HEADER);
		edge_free(&e);
	}
}

/* Damage. */

static void every_cut_is_refused(void **state)
{
	const struct vector *kinds[] = {syn, datagram, echo};

	(void)state;
	for (size_t k = 0; k < COUNT(kinds); k++) {
		for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
			struct frame f = copy(&kinds[k][v]);

			for (f.len = 0; f.len < kinds[k][v].len; f.len++)
				is_refused(&f, f.len < 15 ? DROP_FRAME_SHORT : DROP_IP_HEADER);
		}
	}
}

/* The same where the IP header admits the cut: what is left of the transport header can't sum up.
 */
static void every_short_transport_header_is_refused(void **state)
{
	const struct vector *kinds[] = {syn, datagram, echo};
	static const size_t least[] = {20, 8, 8};

	(void)state;
	for (size_t k = 0; k < COUNT(kinds); k++) {
		for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
			for (size_t len = 0; len < least[k]; len++) {
				struct offload off = {.csum_partial =
							  true}; /* look at lengths, not at sums */
				struct frame f = copy(&kinds[k][v]);
				enum drop_reason why;
				struct packet p;

				f.len = l4_at[v] + len;
				if (v == IP_V4) {
					put16(f.b + L3 + 2, (unsigned)(20 + len));
					fix_ip_sum(&f);
				} else {
					put16(f.b + L3 + 4, (unsigned)len);
				}
				assert_int_equal(parse(&f, &off, &p, &why), -EBADMSG);
				assert_int_equal(why, DROP_L4_HEADER);
			}
		}
	}
}

static void every_flipped_bit_is_noticed(void **state)
{
	const struct vector *kinds[] = {syn, datagram, echo};

	(void)state;
	for (size_t k = 0; k < COUNT(kinds); k++) {
		for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
			for (size_t bit = 8 * l4_at[v]; bit < 8 * kinds[k][v].len; bit++) {
				struct frame f = copy(&kinds[k][v]);

				f.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
				is_refused(&f, DROP_L4_CHECKSUM);
			}
		}
		for (size_t bit = 8 * (L3 + 4); bit < 8 * l4_at[IP_V4]; bit++) {
			struct frame f = copy(&kinds[k][IP_V4]);

			f.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
			is_refused(&f, DROP_IP_CHECKSUM);
		}
	}
}

/* One or two bytes written over, sums put right afterwards. */
enum {
	ANY = 3,
	V4 = 1,
	V6 = 2,
	FROM_L4 = 1000 /* offsets from here count from the transport header */
};
static const struct damage {
	const char *what;
	const struct vector *base;
	unsigned families, at, value; /* size: of the field, in bytes */
	unsigned size;
	enum drop_reason want;
} damages[] = {
    {"ethertype", datagram, ANY, 12, 0x8100, 2, DROP_ETHERTYPE},
    {"802.3 length", datagram, ANY, 12, 46, 2, DROP_ETHERTYPE},
    {"version 6 in IPv4", datagram, V4, L3, 0x65, 1, DROP_IP_HEADER},
    {"version 4 in IPv6", datagram, V6, L3, 0x45, 1, DROP_IP_HEADER},
    {"version 0", datagram, ANY, L3, 0x05, 1, DROP_IP_HEADER},
    {"header length 0", datagram, V4, L3, 0x40, 1, DROP_IP_HEADER},
    {"header length 16", datagram, V4, L3, 0x44, 1, DROP_IP_HEADER},
    {"header longer than packet", datagram, V4, L3, 0x4f, 1, DROP_IP_HEADER},
    {"total length 0", datagram, V4, L3 + 2, 0, 2, DROP_IP_HEADER},
    {"total length 19", datagram, V4, L3 + 2, 19, 2, DROP_IP_HEADER},
    {"total length beyond frame", datagram, V4, L3 + 2, 34, 2, DROP_IP_HEADER},
    {"total length 65535", datagram, V4, L3 + 2, 65535, 2, DROP_IP_HEADER},
    {"payload length beyond frame", datagram, V6, L3 + 4, 14, 2, DROP_IP_HEADER},
    {"payload length 65535", datagram, V6, L3 + 4, 65535, 2, DROP_IP_HEADER},
    {"payload length 0", datagram, V6, L3 + 4, 0, 2, DROP_L4_CHECKSUM},
    {"protocol SCTP", datagram, V4, L3 + 9, 132, 1, DROP_IP_PROTOCOL},
    {"protocol ICMPv6 in IPv4", echo, V4, L3 + 9, IPPROTO_ICMPV6, 1, DROP_IP_PROTOCOL},
    {"protocol ICMP in IPv6", echo, V6, L3 + 6, IPPROTO_ICMP, 1, DROP_IP_PROTOCOL},
    {"no next header", datagram, V6, L3 + 6, IPPROTO_NONE, 1, DROP_IP_PROTOCOL},
    {"ESP", datagram, V6, L3 + 6, IPPROTO_ESP, 1, DROP_IP_PROTOCOL},
    {"source 127/8", datagram, V4, L3 + 12, 127, 1, DROP_SOURCE},
    {"source multicast", datagram, V4, L3 + 12, 224, 1, DROP_SOURCE},
    {"source multicast", datagram, V6, L3 + 8, 0xff, 1, DROP_SOURCE},
    {"destination 127/8", datagram, V4, L3 + 16, 127, 1, DROP_DESTINATION},
    {"UDP length 7", datagram, ANY, FROM_L4 + 4, 7, 2, DROP_L4_HEADER},
    {"UDP length 0", datagram, ANY, FROM_L4 + 4, 0, 2, DROP_L4_HEADER},
    {"UDP length beyond packet", datagram, ANY, FROM_L4 + 4, 14, 2, DROP_L4_HEADER},
    {"UDP length 65535", datagram, ANY, FROM_L4 + 4, 65535, 2, DROP_L4_HEADER},
    {"UDP to port 0", datagram, ANY, FROM_L4 + 2, 0, 2, DROP_L4_HEADER},
    {"TCP offset 0", syn, ANY, FROM_L4 + 12, 0x00, 1, DROP_L4_HEADER},
    {"TCP offset 4", syn, ANY, FROM_L4 + 12, 0x40, 1, DROP_L4_HEADER},
    {"TCP offset beyond packet", syn, ANY, FROM_L4 + 12, 0xb0, 1, DROP_L4_HEADER},
    {"TCP offset 15", syn, ANY, FROM_L4 + 12, 0xf0, 1, DROP_L4_HEADER},
    {"TCP from port 0", syn, ANY, FROM_L4, 0, 2, DROP_L4_HEADER},
    {"TCP to port 0", syn, ANY, FROM_L4 + 2, 0, 2, DROP_L4_HEADER},
};

static void every_damage_has_its_reason(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(damages); i++) {
		const struct damage *d = &damages[i];

		for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
			/* The transport's checksum is none of the questions here but for its own
			 * rows. */
			struct offload off = {.csum_partial = d->want != DROP_L4_CHECKSUM};
			struct frame f = copy(&d->base[v]);
			enum drop_reason why = DROP_COUNT;
			size_t at = d->at >= FROM_L4 ? d->at - FROM_L4 + l4_at[v] : d->at;
			struct packet p;

			if (!(d->families & 1U << v))
				continue;
			if (d->size == 2)
				put16(f.b + at, d->value);
			else
				f.b[at] = (uint8_t)d->value;
			if (v == IP_V4 && (f.b[L3] & 0xf) == 5)
				fix_ip_sum(&f);
			if (parse(&f, &off, &p, &why) == 0)
				fail_msg("%s (IPv%d): accepted", d->what, v == IP_V4 ? 4 : 6);
			if (why != d->want)
				fail_msg("%s (IPv%d): %s", d->what, v == IP_V4 ? 4 : 6,
					 drop_reason_text(why));
		}
	}
}

static void addresses_that_no_guest_may_use(void **state)
{
	static const struct {
		const char *src, *dst;
		enum drop_reason want;
	} rows[] = {
	    {"127.0.0.1", "198.51.100.7", DROP_SOURCE},
	    {"127.255.255.255", "198.51.100.7", DROP_SOURCE},
	    {"224.0.0.1", "198.51.100.7", DROP_SOURCE},
	    {"255.255.255.255", "198.51.100.7", DROP_SOURCE},
	    {"192.0.2.2", "127.0.0.1", DROP_DESTINATION},
	    {"192.0.2.2", "0.0.0.0", DROP_DESTINATION},
	    {"::1", "2001:db8::7", DROP_SOURCE},
	    {"ff02::1", "2001:db8::7", DROP_SOURCE},
	    {"2001:db8::2", "::1", DROP_DESTINATION},
	    {"2001:db8::2", "::", DROP_DESTINATION},
	};
	static const struct udp_header udp = {.src_port = 1, .dst_port = 2};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ip_header h = {
		    .src = ip(rows[i].src), .dst = ip(rows[i].dst), .proto = IPPROTO_UDP, .ttl = 1};
		struct frame f;

		f.len = put_udp(f.b, &h, &udp, "x", 1);
		is_refused(&f, rows[i].want);
	}
	/* An IPv6 header with IPv4-mapped addresses would look like IPv4 to all that follows. */
	for (size_t at = L3 + 8; at <= L3 + 24; at += 16) {
		struct frame f = copy(&datagram[IP_V6]);

		memset(f.b + at, 0, 10);
		memset(f.b + at + 10, 0xff, 2);
		is_refused(&f, DROP_SOURCE);
	}
}

/* Broken options end the options, not the segment; what came before them counts. */
static void broken_tcp_options(void **state)
{
	static const struct {
		uint8_t bytes[12];
		bool mss, wscale;
		uint8_t sacks;
	} rows[] = {
	    {{2, 4, 5, 0xb4, 3, 3, 7, 0}, true, true, 0},
	    {{2, 4, 5, 0xb4, 77, 0, 3, 3, 7}, true, false, 0},       /* length 0 */
	    {{2, 4, 5, 0xb4, 77, 1, 3, 3, 7}, true, false, 0},       /* length 1 */
	    {{2, 4, 5, 0xb4, 77, 9, 3, 3, 7}, true, false, 0},       /* beyond the header */
	    {{2, 4, 5, 0xb4, 77, 4, 0, 0, 3, 3, 7}, true, true, 0},  /* unknown: skipped */
	    {{0, 2, 4, 5, 0xb4, 3, 3, 7}, false, false, 0},          /* behind the end */
	    {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}, false, false, 0}, /* a kind and no length */
	    {{2, 3, 5, 3, 4, 7, 7}, false, false, 0},                /* lengths of other options */
	    {{5, 10, 0, 0, 0, 1, 0, 0, 0, 2}, false, false, 1},
	    {{5, 9, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1}, false, false, 0},
	    {{5, 2, 3, 3, 7}, false, true, 0}, /* no block at all */
	    {{8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3}, false, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (enum ip_family v = IP_V4; v < IP_FAMILIES; v++) {
			struct frame f = copy(&syn[v]);
			struct packet p;

			f.len = l4_at[v] + 32;
			memcpy(f.b + l4_at[v] + 20, rows[i].bytes, 12);
			f.b[l4_at[v] + 12] = 8 << 4;
			put16(f.b + (v == IP_V4 ? L3 + 2 : L3 + 4), v == IP_V4 ? 52 : 32);
			if (v == IP_V4)
				fix_ip_sum(&f);
			fix_l4_sum(&f, v, IPPROTO_TCP);
			is_taken(&f, &p);
			assert_int_equal(p.tcp.opt.has_mss, rows[i].mss);
			assert_int_equal(p.tcp.opt.has_wscale, rows[i].wscale);
			assert_int_equal(p.tcp.opt.sack_count, rows[i].sacks);
			assert_int_equal(p.payload_len, 0);
		}
	}
}

/* Whatever bytes come, nothing is read beyond them, and a frame is taken or has a reason. */
static void random_frames(void **state)
{
	const struct vector *kinds[] = {syn, datagram, echo};
	struct offload off = {.csum_partial = true};
	unsigned seed = 99, taken = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		enum drop_reason why = DROP_COUNT;
		struct frame f = copy(&kinds[i % 3][i / 3 % 2]);
		struct packet p;

		for (int k = 0; k < 3; k++) {
			seed = seed * 1103515245 + 12345;
			f.b[12 + (seed >> 16) % (f.len - 12)] = (uint8_t)(seed >> 8);
		}
		if (i / 6 % 2 && f.b[L3] == 0x45)
			fix_ip_sum(&f);
		if (parse(&f, &off, &p, &why) == 0)
			taken++;
		else
			assert_true(why < DROP_COUNT);
	}
	assert_in_range(taken, 1000, 19000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(known_frames),
	    cmocka_unit_test(known_frames_are_made),
	    cmocka_unit_test(tcp_options_round_trip),
	    cmocka_unit_test(fragments_round_trip),
	    cmocka_unit_test(extension_headers_are_skipped),
	    cmocka_unit_test(atomic_fragment_is_a_packet),
	    cmocka_unit_test(broken_extension_headers),
	    cmocka_unit_test(ip_options_are_skipped),
	    cmocka_unit_test(padding_is_cut_off),
	    cmocka_unit_test(udp_checksum_zero),
	    cmocka_unit_test(nobody_may_ask),
	    cmocka_unit_test(offload_says_what_is_not_there_yet),
	    cmocka_unit_test(arp_is_handed_on),
	    cmocka_unit_test(reassembled_packet_is_parsed_from_its_ip_header),
	    cmocka_unit_test(every_cut_is_refused),
	    cmocka_unit_test(every_short_transport_header_is_refused),
	    cmocka_unit_test(every_flipped_bit_is_noticed),
	    cmocka_unit_test(every_damage_has_its_reason),
	    cmocka_unit_test(addresses_that_no_guest_may_use),
	    cmocka_unit_test(broken_tcp_options),
	    cmocka_unit_test(random_frames),
	};

	return cmocka_run_group_tests_name("packet", tests, NULL, NULL);
}
