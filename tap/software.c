/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/software.h"

#include <errno.h>
#include <stdlib.h>

#define BATCH    128 /* segments of 512 bytes that a super-frame is cut into, and more */
/* As a rule a piece is its headers and one part of the payload. */
#define IOV_POOL (2 * BATCH + TAP_IOV_MAX + 1)

struct software {
	struct tap_features features;
	software_sink sink;
	struct tap *tap;

	/* The batch being made. */
	uint8_t headers[BATCH][EMIT_HEADERS_MAX];
	struct iovec iov[IOV_POOL];
	struct tap_out out[BATCH];
	unsigned count;
	int iov_used;
	bool full, any_sent;
};

/* The rest of a frame's bytes, and how to take some of them without copying. */
struct rest {
	const struct iovec *iov;
	int count;
	size_t skip; /* of the first */
};

int software_new(const struct tap_features *features, software_sink sink, struct tap *t,
		 struct software **out)
{
	struct software *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->features = *features;
	s->sink = sink;
	s->tap = t;
	*out = s;
	return 0;
}

void software_free(struct software *s)
{
	free(s);
}

static bool is_tcp_gso(const struct offload *off)
{
	return off->gso == GSO_TCP4 || off->gso == GSO_TCP6;
}

bool software_needed(const struct tap_features *features, const struct tap_out *f)
{
	return (f->off.csum_partial && !features->csum) ||
	       (is_tcp_gso(&f->off) && !features->tcp_gso);
}

static size_t frame_len(const struct tap_out *f)
{
	size_t len = 0;

	for (int i = 0; i < f->iov_count; i++)
		len += f->iov[i].iov_len;
	return len;
}

/* Takes up to n bytes: parts go to iov, which has room for as many as are left. Number of parts. */
static int take_parts(struct rest *r, size_t n, struct iovec *iov)
{
	int parts = 0;

	while (n && r->count) {
		size_t have = r->iov->iov_len - r->skip, part = have < n ? have : n;

		if (part)
			iov[parts++] = (struct iovec){
			    .iov_base = (uint8_t *)r->iov->iov_base + r->skip, .iov_len = part};
		n -= part;
		r->skip += part;
		if (r->skip == r->iov->iov_len) {
			r->iov++;
			r->count--;
			r->skip = 0;
		}
	}
	return parts;
}

static size_t take_copy(struct rest *r, size_t n, uint8_t *to)
{
	struct iovec parts[TAP_IOV_MAX];
	int count = take_parts(r, n, parts);
	size_t done = 0;

	for (int i = 0; i < count; i++) {
		memcpy(to + done, parts[i].iov_base, parts[i].iov_len);
		done += parts[i].iov_len;
	}
	return done;
}

/* Sum over parts of any length: one that begins at an odd place counts with its bytes swapped (RFC
 * 1071 2 (B)). */
static uint64_t sum_parts(uint64_t sum, const struct iovec *iov, int count)
{
	bool odd = false;

	for (int i = 0; i < count; i++) {
		uint64_t part = csum_add(0, iov[i].iov_base, iov[i].iov_len);

		if (odd) {
			uint16_t folded = (uint16_t)~csum_fold(part);

			part = (uint16_t)(folded << 8 | folded >> 8);
		}
		sum += part;
		odd ^= iov[i].iov_len & 1;
	}
	return sum;
}

/* Completes the checksum of the newest frame, whose first part is our own copy of its headers. */
static void complete_checksum(struct tap_out *f, uint8_t *headers)
{
	const struct offload *off = &f->off;
	struct iovec iov[TAP_IOV_MAX + 1];
	uint16_t sum;

	memcpy(iov, f->iov, (size_t)f->iov_count * sizeof(*iov));
	iov[0].iov_base = headers + off->csum_start;
	iov[0].iov_len -= off->csum_start;
	sum = csum_fold(sum_parts(0, iov, f->iov_count));
	if (!sum && off->csum_offset == 6)
		sum = 0xffff; /* UDP: zero would mean "none" (RFC 768) */
	memcpy(headers + off->csum_start + off->csum_offset, &sum, 2);
	f->off = (struct offload){0};
}

static int flush(struct software *s)
{
	unsigned sent = 0;
	int r = s->count ? s->sink(s->tap, s->out, s->count, &sent) : 0;

	if (r < 0)
		return r;
	s->any_sent |= sent > 0;
	s->full |= sent < s->count;
	s->count = 0;
	s->iov_used = 0;
	return 0;
}

/* Begins a frame with a copy of headers and the next payload_len bytes of rest. */
static struct tap_out *add_frame(struct software *s, const uint8_t *headers, size_t headers_len,
				 struct rest *rest, size_t payload_len)
{
	struct iovec *iov = s->iov + s->iov_used;
	struct tap_out *f = &s->out[s->count];

	memcpy(s->headers[s->count], headers, headers_len);
	iov[0] = (struct iovec){.iov_base = s->headers[s->count], .iov_len = headers_len};
	*f = (struct tap_out){.iov = iov, .iov_count = 1 + take_parts(rest, payload_len, iov + 1)};
	s->iov_used += f->iov_count;
	s->count++;
	return f;
}

static void put16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Headers of a TCP super-frame, as found in its first bytes. */
struct super {
	uint8_t headers[EMIT_HEADERS_MAX];
	size_t headers_len, tcp; /* tcp: where that header starts */
	bool v4;
	struct ip_addr src, dst;
	uint16_t id;
};

static int super_parse(struct super *s, size_t have, const struct offload *off)
{
	const uint8_t *ip = s->headers + ETH_HEADER_LEN;

	s->v4 = off->gso == GSO_TCP4;
	s->tcp = off->csum_start;
	if (s->tcp < ETH_HEADER_LEN + (s->v4 ? 20U : 40U) || s->tcp + 20 > have || !off->gso_size)
		return -EINVAL;
	s->headers_len = s->tcp + (size_t)(s->headers[s->tcp + 12] >> 4) * 4;
	if (s->headers_len < s->tcp + 20 || s->headers_len > have || ip[0] >> 4 != (s->v4 ? 4 : 6))
		return -EINVAL;
	s->src = s->v4 ? ip_from_v4(ip + 12) : ip_from_v6(ip + 8);
	s->dst = s->v4 ? ip_from_v4(ip + 16) : ip_from_v6(ip + 24);
	s->id = (uint16_t)(ip[4] << 8 | ip[5]);
	return 0;
}

/* Makes the headers of the n-th segment of a super-frame: at is where its payload starts within the
 * whole. */
static void segment_headers(const struct super *s, uint8_t *h, unsigned n, size_t at, size_t len)
{
	uint8_t *ip = h + ETH_HEADER_LEN, *tcp = h + s->tcp;
	size_t l4_len = s->headers_len - s->tcp + len;
	uint32_t seq = get32(s->headers + s->tcp + 4) + (uint32_t)at;
	uint16_t sum;

	if (s->v4) {
		put16(ip + 2, s->headers_len - ETH_HEADER_LEN + len);
		put16(ip + 4, s->id + n);
		put16(ip + 10, 0);
		sum = csum_fold(csum_add(0, ip, s->tcp - ETH_HEADER_LEN));
		memcpy(ip + 10, &sum, 2);
	} else {
		put16(ip + 4, s->headers_len - ETH_HEADER_LEN - 40 + len);
	}
	put16(tcp + 4, seq >> 16);
	put16(tcp + 6, seq);
	sum = (uint16_t)~csum_fold(csum_pseudo(&s->src, &s->dst, IPPROTO_TCP, l4_len));
	memcpy(tcp + 16, &sum, 2);
}

static int send_segments(struct software *s, const struct tap_out *f)
{
	struct rest rest = {.iov = f->iov, .count = f->iov_count};
	size_t left = frame_len(f), at = 0;
	struct super super;
	int r =
	    super_parse(&super, take_copy(&rest, sizeof(super.headers), super.headers), &f->off);

	if (r < 0)
		return r;
	rest = (struct rest){.iov = f->iov, .count = f->iov_count};
	take_copy(&rest, super.headers_len, super.headers);
	left -= super.headers_len;
	for (unsigned n = 0; (left || !n) && !s->full; n++) {
		size_t len = left < f->off.gso_size ? left : f->off.gso_size;
		uint8_t *h = s->headers[s->count];
		struct tap_out *out = add_frame(s, super.headers, super.headers_len, &rest, len);

		segment_headers(&super, h, n, at, len);
		left -= len;
		at += len;
		if (left)
			h[super.tcp + 13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
		if (n)
			h[super.tcp + 13] &= (uint8_t)~TCP_CWR; /* RFC 3168 6.1.2: said once */
		out->off = (struct offload){
		    .csum_partial = true, .csum_start = (uint16_t)super.tcp, .csum_offset = 16};
		if (!s->features.csum)
			complete_checksum(out, h);
		if (s->count == BATCH || s->iov_used + TAP_IOV_MAX + 1 > IOV_POOL) {
			r = flush(s);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int send_summed(struct software *s, const struct tap_out *f)
{
	struct rest rest = {.iov = f->iov, .count = f->iov_count};
	uint8_t headers[EMIT_HEADERS_MAX];
	size_t len = take_copy(&rest, sizeof(headers), headers);
	struct tap_out *out;

	if ((size_t)f->off.csum_start + f->off.csum_offset + 2 > len)
		return -EINVAL;
	out = add_frame(s, headers, len, &rest, SIZE_MAX);
	out->off = f->off;
	complete_checksum(out, s->headers[0]);
	return 0;
}

int software_send(struct software *s, const struct tap_out *f, bool *taken)
{
	int r;

	if (f->iov_count > TAP_IOV_MAX)
		return -EINVAL;
	s->count = 0;
	s->iov_used = 0;
	s->full = s->any_sent = false;
	r = is_tcp_gso(&f->off) && !s->features.tcp_gso ? send_segments(s, f) : send_summed(s, f);
	if (r == 0)
		r = flush(s);
	if (r < 0)
		return r;
	*taken = s->any_sent;
	return 0;
}
