/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp/tcp_hold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tcp/seq.h"

struct tcp_hold {
	uint32_t size;
	uint32_t latest; /* a byte of the range that changed last */
	unsigned count;
	struct seq_range range[HOLD_RANGES]; /* in order, neither touching nor overlapping */
	uint8_t data[];
};

int tcp_hold_new(uint32_t size, struct tcp_hold **out)
{
	struct tcp_hold *h = malloc(sizeof(*h) + size);

	if (!h)
		return -ENOMEM;
	h->size = size;
	h->latest = 0;
	h->count = 0;
	*out = h;
	return 0;
}

void tcp_hold_free(struct tcp_hold *h)
{
	free(h);
}

int tcp_hold_iov(struct tcp_hold *h, uint32_t seq, uint32_t len, struct iovec *iov)
{
	uint32_t at = seq & (h->size - 1), first = h->size - at;

	iov[0] = (struct iovec){h->data + at, len < first ? len : first};
	if (len <= first)
		return 1;
	iov[1] = (struct iovec){h->data, len - first};
	return 2;
}

void tcp_hold_put(struct tcp_hold *h, uint32_t seq, const void *data, uint32_t len)
{
	struct iovec iov[2];
	int n = tcp_hold_iov(h, seq, len, iov);

	memcpy(iov[0].iov_base, data, iov[0].iov_len);
	if (n == 2)
		memcpy(iov[1].iov_base, (const uint8_t *)data + iov[0].iov_len, iov[1].iov_len);
}

int tcp_hold_note(struct tcp_hold *h, uint32_t start, uint32_t end)
{
	unsigned first = 0, last;

	while (first < h->count && seq_lt(h->range[first].end, start))
		first++;
	for (last = first; last < h->count && seq_leq(h->range[last].start, end); last++) {
		start = seq_min(start, h->range[last].start);
		end = seq_max(end, h->range[last].end);
	}
	/* Ranges first .. last-1 melt into one with the new one. */
	if (last == first && h->count == HOLD_RANGES)
		return -ENOBUFS;
	memmove(&h->range[first + 1], &h->range[last], (h->count - last) * sizeof(h->range[0]));
	h->count = h->count - (last - first) + 1;
	h->range[first] = (struct seq_range){start, end};
	h->latest = start;
	return 0;
}

uint32_t tcp_hold_join(struct tcp_hold *h, uint32_t nxt)
{
	unsigned gone = 0;

	while (gone < h->count && seq_leq(h->range[gone].start, nxt)) {
		nxt = seq_max(nxt, h->range[gone].end);
		gone++;
	}
	h->count -= gone;
	memmove(&h->range[0], &h->range[gone], h->count * sizeof(h->range[0]));
	return nxt;
}

unsigned tcp_hold_ranges(const struct tcp_hold *h, struct seq_range *out, unsigned max)
{
	unsigned n = 0, latest = h->count;

	for (unsigned i = 0; i < h->count && latest == h->count; i++) {
		if (seq_leq(h->range[i].start, h->latest) && seq_lt(h->latest, h->range[i].end))
			latest = i;
	}
	if (latest < h->count && max)
		out[n++] = h->range[latest];
	for (unsigned i = 0; i < h->count && n < max; i++) {
		if (i != latest)
			out[n++] = h->range[i];
	}
	return n;
}
