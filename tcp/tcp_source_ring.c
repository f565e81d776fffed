/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes are taken out of the socket into a ring, at their sequence number modulo its size, and stay
 * there until they are acknowledged. The ring exists only while it holds data; it grows only where
 * the kernel can't peek, as bulk is peeked at otherwise. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tcp/tcp_source.h"

#define RING_MIN  (64u << 10)
#define RING_MAX  (256u << 10)
#define SPARE_MAX (256u << 10)

static int ring_iov(const struct tcp_source *s, uint32_t seq, uint32_t len, struct iovec *iov)
{
	uint32_t at = seq & (s->ring_size - 1), first = s->ring_size - at;

	iov[0] = (struct iovec){s->ring + at, len < first ? len : first};
	if (len <= first)
		return 1;
	iov[1] = (struct iovec){s->ring, len - first};
	return 2;
}

/* A few rings that no flow uses are kept: a flow that empties its ring at every turn gets it back
 * warm and without a call of the kernel. */
static bool take_spare(struct tcp_flow *f)
{
	struct tcp *t = f->tcp;

	if (!t->spare_count)
		return false;
	t->spare_count--;
	f->src.ring = t->spare[t->spare_count].ring;
	f->src.ring_size = t->spare[t->spare_count].size;
	t->ring_bytes += f->src.ring_size;
	return true;
}

static void ring_free(struct tcp_flow *f)
{
	struct tcp *t = f->tcp;

	if (!f->src.ring)
		return;
	t->ring_bytes -= f->src.ring_size;
	if (t->spare_count < TCP_SPARE_RINGS && f->src.ring_size <= SPARE_MAX) {
		t->spare[t->spare_count].ring = f->src.ring;
		t->spare[t->spare_count].size = f->src.ring_size;
		t->spare_count++;
	} else {
		free(f->src.ring);
	}
	f->src.ring = NULL;
	f->src.ring_size = 0;
}

/* Doubles the ring, or makes it. If there is no memory the old one has to do, and if the budget is
 * used up as well; the first is outside the budget, so that every flow gets on. */
static void ring_grow(struct tcp_flow *f)
{
	struct tcp_source *s = &f->src, bigger = *s;
	struct tcp *t = f->tcp;
	struct iovec iov[2];
	int n;

	if (!s->ring && take_spare(f))
		return;
	bigger.ring_size = s->ring ? 2 * s->ring_size : RING_MIN;
	if (s->ring && t->ring_bytes + s->ring_size > t->cfg.buffer_budget)
		return;
	bigger.ring = malloc(bigger.ring_size);
	if (!bigger.ring)
		return;
	t->ring_bytes += bigger.ring_size - s->ring_size;
	if (s->ring) {
		uint32_t seq = s->base;

		n = ring_iov(s, s->base, s->end - s->base, iov);
		for (int i = 0; i < n; i++) {
			struct iovec to[2];
			const uint8_t *from = iov[i].iov_base;
			int m = ring_iov(&bigger, seq, (uint32_t)iov[i].iov_len, to);

			for (int k = 0; k < m; k++) {
				memcpy(to[k].iov_base, from, to[k].iov_len);
				from += to[k].iov_len;
			}
			seq += (uint32_t)iov[i].iov_len;
		}
		free(s->ring);
	}
	*s = bigger;
}

static uint32_t ring_room(const struct tcp_source *s)
{
	return s->ring ? s->ring_size - (s->end - s->base) : 0;
}

/* Reads up to want bytes more into the ring. */
static int ring_fill(struct tcp_flow *f, uint32_t want)
{
	bool only = !f->tcp->can_peek[tcp_flow_family(f)];
	struct tcp_source *s = &f->src;

	while (want && f->readable && !s->draining) {
		uint32_t got, ask;
		struct iovec iov[2];
		int r;

		if (ring_room(s) < want && s->ring_size < (only ? RING_MAX : RING_MIN))
			ring_grow(f);
		if (!s->ring)
			return -ENOMEM;
		ask = want < ring_room(s) ? want : ring_room(s);
		if (!ask) {              /* goes on when the guest acknowledges */
			f->dialogue = 0; /* so much is no dialogue */
			s->draining = !only;
			return 0;
		}
		r = tcp_source_read(f, iov, ring_iov(s, s->end, ask, iov), 0, &got);
		if (r < 0)
			return r;
		s->end += got;
		want -= got;
	}
	return 0;
}

static int ring_get(struct tcp_flow *f, uint32_t seq, uint32_t len, struct tcp_span *out)
{
	uint32_t there = f->src.end - seq;
	int r = there < len ? ring_fill(f, len - there) : 0;

	if (r < 0)
		return r;
	there = f->src.end - seq;
	out->len = len < there ? len : there;
	out->iov_count = out->len ? ring_iov(&f->src, seq, out->len, out->iov) : 0;
	if (f->src.base == f->src.end)
		ring_free(f);
	return 0;
}

static void ring_release(struct tcp_flow *f, uint32_t seq)
{
	f->src.base = seq;
	if (f->src.base == f->src.end)
		ring_free(f);
}

const struct tcp_source_ops tcp_source_ring = {ring_get, ring_release, ring_free};
