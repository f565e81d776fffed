/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/reassembly.h"

#include <errno.h>
#include <stdlib.h>

/* Bounds: number of packets under way, hence some 4 MiB at most, and how long one may take. A
 * guest's fragments follow each other within microseconds, so a packet that is not complete soon
 * has lost one; RFC 8200 4.5 allows 60 s. */
#define PARTIAL_MAX     64
#define PARTIAL_TIMEOUT (30 * USEC_SEC)

#define HEADER_ROOM 40 /* the IP header goes in front of the payload in the end */
#define PAYLOAD_MAX 65535
#define UNITS       ((PAYLOAD_MAX + 7) / 8) /* fragments are cut at multiples of eight bytes */

#define TOS_ECN 3 /* mask, and the value "congestion experienced" (RFC 3168 5) */

struct partial {
	struct list node; /* oldest first */
	usec_t deadline;
	struct ip_header ip; /* of the first fragment, once it came; before, src, dst, proto and
				fragment_id of any */
	bool has_first;
	bool congestion; /* some fragment was marked */
	bool dead;       /* overlapping: RFC 5722 wants the ones still to come discarded, too */
	size_t total;    /* payload length, 0 while the last fragment is missing */
	unsigned have_count;
	uint8_t *buf;                  /* HEADER_ROOM, payload */
	size_t room;                   /* of payload */
	uint8_t have[UNITS / 8 + 1];   /* units that came */
	uint8_t starts[UNITS / 8 + 1]; /* units that a fragment began with */
};

struct reassembly {
	struct loop *loop;
	struct counters *counters;
	struct list partials;
	unsigned count;
	struct timer timer;
	uint8_t *done; /* the packet handed out last */
};

static bool bit_get(const uint8_t *bits, size_t i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

static void bit_set(uint8_t *bits, size_t i)
{
	bits[i / 8] |= (uint8_t)(1 << (i % 8));
}

static void partial_free(struct reassembly *r, struct partial *f)
{
	list_remove(&f->node);
	r->count--;
	free(f->buf);
	free(f);
}

static struct partial *oldest(struct reassembly *r)
{
	return list_empty(&r->partials) ? NULL
					: container_of(r->partials.next, struct partial, node);
}

/* A packet given up counts once as dropped; a dead one did already. */
static void give_up(struct reassembly *r, struct partial *f)
{
	if (!f->dead)
		count_drop(r->counters, DROP_FRAGMENT);
	partial_free(r, f);
}

static void expire(struct timer *t, usec_t now)
{
	struct reassembly *r = container_of(t, struct reassembly, timer);
	struct partial *f;

	while ((f = oldest(r)) && f->deadline <= now)
		give_up(r, f);
	/* Can't fail: the heap has room for the timer that just left it. */
	if (f && timer_set(loop_timers(r->loop), &r->timer, f->deadline) < 0)
		log_debug("Reassembly timer not set");
}

int reassembly_new(struct loop *loop, struct counters *counters, struct reassembly **out)
{
	struct reassembly *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->loop = loop;
	r->counters = counters;
	list_init(&r->partials);
	timer_init(&r->timer, expire);
	*out = r;
	return 0;
}

void reassembly_free(struct reassembly *r)
{
	if (!r)
		return;
	timer_drop(loop_timers(r->loop), &r->timer);
	list_foreach_safe (node, &r->partials)
		partial_free(r, container_of(node, struct partial, node));
	free(r->done);
	free(r);
}

/* RFC 791 3.2: source, destination, protocol and id; RFC 8200 4.5: without protocol, which the
 * first fragment knows. */
static bool belongs(const struct partial *f, const struct ip_header *h)
{
	return f->ip.fragment_id == h->fragment_id && ip_equal(&f->ip.src, &h->src) &&
	       ip_equal(&f->ip.dst, &h->dst) && (f->ip.proto == h->proto || !ip_is_v4(&h->src));
}

static struct partial *find(struct reassembly *r, const struct ip_header *h)
{
	list_foreach (node, &r->partials) {
		struct partial *f = container_of(node, struct partial, node);

		if (belongs(f, h))
			return f;
	}
	return NULL;
}

static struct partial *add(struct reassembly *r, const struct ip_header *h, usec_t now)
{
	struct partial *f;

	if (r->count == PARTIAL_MAX)
		give_up(r, oldest(r));
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->ip = *h;
	f->deadline = now + PARTIAL_TIMEOUT;
	/* All have the same time, so the timer follows the oldest. */
	if (list_empty(&r->partials) &&
	    timer_set(loop_timers(r->loop), &r->timer, f->deadline) < 0) {
		free(f);
		return NULL;
	}
	list_append(&r->partials, &f->node);
	r->count++;
	return f;
}

/* Makes room for end bytes of payload. */
static bool grow(struct partial *f, size_t end)
{
	size_t room = f->room ? f->room : 4096;
	uint8_t *buf;

	if (end <= f->room)
		return true;
	while (room < end)
		room *= 2;
	buf = realloc(f->buf, HEADER_ROOM + room);
	if (!buf)
		return false;
	f->buf = buf;
	f->room = room;
	return true;
}

enum fit { FIT_NEW, FIT_REPEATED, FIT_WRONG };

/* How units first .. end go with those that are there. An exact repetition is a network's doing
 * (RFC 8200 4.5); any other overlap is an attempt to have two readings of one packet. */
static enum fit check_overlap(const struct partial *f, size_t first, size_t end)
{
	size_t have = 0, starts = 0;

	for (size_t i = first; i < end; i++) {
		have += bit_get(f->have, i);
		starts += bit_get(f->starts, i);
	}
	if (!have)
		return FIT_NEW;
	if (have == end - first && starts == 1 && bit_get(f->starts, first) &&
	    (!bit_get(f->have, end) || bit_get(f->starts, end)))
		return FIT_REPEATED;
	return FIT_WRONG;
}

/* The same with lengths: only the last fragment may end within a unit, and nothing lies behind it.
 */
static enum fit check(const struct partial *f, const struct packet *p)
{
	size_t offset = p->ip.fragment_offset, end = offset + p->payload_len;
	bool last = !p->ip.more_fragments;
	size_t limit = ip_is_v4(&p->ip.src) ? PAYLOAD_MAX - 20 : PAYLOAD_MAX;

	if (!p->payload_len || p->payload_len > limit || end > limit ||
	    (!last && p->payload_len % 8))
		return FIT_WRONG;
	if (f->total && (last ? end != f->total : end >= f->total))
		return FIT_WRONG;
	if (last && !f->total) {
		/* A unit at or behind the end, or the one it ends in, came before. */
		for (size_t i = end / 8; i < UNITS; i++) {
			if (bit_get(f->have, i))
				return FIT_WRONG;
		}
	}
	return check_overlap(f, offset / 8, (end + 7) / 8);
}

static void store(struct partial *f, const struct packet *p)
{
	size_t offset = p->ip.fragment_offset, end = offset + p->payload_len;

	memcpy(f->buf + HEADER_ROOM + offset, p->payload, p->payload_len);
	for (size_t i = offset / 8; i < (end + 7) / 8; i++)
		bit_set(f->have, i);
	f->have_count += (unsigned)((end + 7) / 8 - offset / 8);
	bit_set(f->starts, offset / 8);
	if (!offset) {
		f->ip = p->ip;
		f->has_first = true;
	}
	if (!p->ip.more_fragments)
		f->total = end;
	f->congestion |= (p->ip.tos & TOS_ECN) == TOS_ECN;
}

/* Puts the header in front and parses the whole. The buffer becomes r->done, the partial ends. */
static bool complete(struct reassembly *r, struct partial *f, const struct packet *p,
		     struct packet *whole)
{
	static const struct offload none;
	struct ip_header h = f->ip;
	size_t header_len = ip_is_v4(&h.src) ? 20 : 40, total = f->total;
	enum drop_reason why;
	uint8_t *start;

	h.is_fragment = h.more_fragments = false;
	h.fragment_offset = 0;
	if (f->congestion && h.tos & TOS_ECN) /* RFC 3168 5.3 */
		h.tos |= TOS_ECN;
	start = f->buf + HEADER_ROOM - header_len;
	emit_ip(start, &h, total);
	free(r->done);
	r->done = f->buf;
	f->buf = NULL;
	partial_free(r, f);
	*whole =
	    (struct packet){.eth_src = p->eth_src, .eth_dst = p->eth_dst, .eth_type = p->eth_type};
	if (packet_parse_ip(start, header_len + total, &none, whole, &why) < 0) {
		count_drop(r->counters, why);
		return false;
	}
	/* RFC 8200 4.5: what is fragmented is an original packet, never a fragment. */
	if (whole->kind == PACKET_FRAGMENT) {
		count_drop(r->counters, DROP_IP_EXTENSION);
		return false;
	}
	return true;
}

static void kill_partial(struct reassembly *r, struct partial *f)
{
	count_drop(r->counters, DROP_FRAGMENT);
	f->dead = true;
	free(f->buf);
	f->buf = NULL;
}

bool reassembly_input(struct reassembly *r, const struct packet *p, usec_t now,
		      struct packet *whole)
{
	struct partial *f = find(r, &p->ip);
	enum fit fit;

	if (!f)
		f = add(r, &p->ip, now);
	if (!f) {
		count_drop(r->counters, DROP_NO_MEMORY);
		return false;
	}
	if (f->dead)
		return false;
	fit = check(f, p);
	if (fit == FIT_REPEATED)
		return false;
	if (fit == FIT_WRONG) {
		kill_partial(r, f);
		return false;
	}
	if (!grow(f, p->ip.fragment_offset + p->payload_len)) {
		count_drop(r->counters, DROP_NO_MEMORY);
		f->dead = true;
		return false;
	}
	store(f, p);
	if (!f->total || !f->has_first || f->have_count != (f->total + 7) / 8)
		return false;
	return complete(r, f, p, whole);
}
