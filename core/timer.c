/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/timer.h"

#include <errno.h>
#include <stdlib.h>

/* A binary min-heap of pointers, ordered by heaped. */
struct timers {
	struct timer **heap;
	uint32_t count, room;
};

int timers_new(struct timers **out)
{
	struct timers *ts = calloc(1, sizeof(*ts));

	if (!ts)
		return -ENOMEM;
	*out = ts;
	return 0;
}

void timers_free(struct timers *ts)
{
	if (!ts)
		return;
	free(ts->heap);
	free(ts);
}

static void place(struct timers *ts, uint32_t i, struct timer *t)
{
	ts->heap[i] = t;
	t->index = i + 1;
}

static void sift_up(struct timers *ts, uint32_t i, struct timer *t)
{
	while (i > 0 && ts->heap[(i - 1) / 2]->heaped > t->heaped) {
		place(ts, i, ts->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(ts, i, t);
}

static void sift_down(struct timers *ts, uint32_t i, struct timer *t)
{
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < ts->count && ts->heap[child + 1]->heaped < ts->heap[child]->heaped)
			child++;
		if (child >= ts->count || ts->heap[child]->heaped >= t->heaped)
			break;
		place(ts, i, ts->heap[child]);
		i = child;
	}
	place(ts, i, t);
}

static void take_out(struct timers *ts, uint32_t i)
{
	struct timer *last = ts->heap[--ts->count];

	ts->heap[i]->index = 0;
	if (i == ts->count)
		return;
	if (i > 0 && ts->heap[(i - 1) / 2]->heaped > last->heaped)
		sift_up(ts, i, last);
	else
		sift_down(ts, i, last);
}

int timer_set(struct timers *ts, struct timer *t, usec_t when)
{
	t->when = when;
	if (t->index) {
		if (when < t->heaped) {
			t->heaped = when;
			sift_up(ts, t->index - 1, t);
		}
		return 0;
	}
	if (when == USEC_NEVER)
		return 0;
	if (ts->count == ts->room) {
		uint32_t room = ts->room ? 2 * ts->room : 64;
		struct timer **heap = realloc(ts->heap, room * sizeof(*heap));

		if (!heap) {
			t->when = USEC_NEVER;
			return -ENOMEM;
		}
		ts->heap = heap;
		ts->room = room;
	}
	t->heaped = when;
	sift_up(ts, ts->count++, t);
	return 0;
}

void timer_drop(struct timers *ts, struct timer *t)
{
	t->when = USEC_NEVER;
	if (t->index)
		take_out(ts, t->index - 1);
}

/* The timer that is due first, at its place in the heap for its present deadline; NULL if none is
 * set. */
static struct timer *first(struct timers *ts)
{
	while (ts->count) {
		struct timer *t = ts->heap[0];

		if (t->when == t->heaped)
			return t;
		if (t->when == USEC_NEVER) {
			take_out(ts, 0);
		} else { /* was moved later */
			t->heaped = t->when;
			sift_down(ts, 0, t);
		}
	}
	return NULL;
}

usec_t timers_next(struct timers *ts)
{
	struct timer *t = first(ts);

	return t ? t->when : USEC_NEVER;
}

void timers_run(struct timers *ts, usec_t now)
{
	struct timer *t;

	while ((t = first(ts)) && t->when <= now) {
		take_out(ts, 0);
		t->when = USEC_NEVER;
		t->expire(t, now);
	}
}
