/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines. A timer is data in its owner: moving it later is one store, and the heap is put right
 * only when the earlier time comes. Times are microseconds of CLOCK_MONOTONIC, and always an
 * argument. */
#ifndef CORE_TIMER_H
#define CORE_TIMER_H

#include <stdint.h>

#include "core/fd.h"

typedef uint64_t usec_t;

#define USEC_MSEC  ((usec_t)1000)
#define USEC_SEC   ((usec_t)1000000)
#define USEC_NEVER UINT64_MAX

struct timer;
struct timers;

/* Called once when the deadline has passed; the timer is off by then and may be set again. */
typedef void (*timer_fn)(struct timer *t, usec_t now);

struct timer {
	usec_t when;    /* the deadline, or USEC_NEVER when off */
	usec_t heaped;  /* the time its heap position stands for; never later than when */
	uint32_t index; /* heap position + 1; 0 when not in the heap */
	timer_fn expire;
};

int timers_new(struct timers **out) must_check;
void timers_free(struct timers *ts);

static inline void timer_init(struct timer *t, timer_fn expire)
{
	*t = (struct timer){.when = USEC_NEVER, .expire = expire};
}

/* Sets (or moves, either way) the deadline. -ENOMEM if the heap can't grow; the timer is off then.
 */
int timer_set(struct timers *ts, struct timer *t, usec_t when) must_check;

/* Turns it off, lazily: one store. The struct must stay valid; before freeing it use timer_drop().
 */
static inline void timer_off(struct timer *t)
{
	t->when = USEC_NEVER;
}

/* Turns it off and takes it out of the heap. */
void timer_drop(struct timers *ts, struct timer *t);

/* When the next timer is due; USEC_NEVER if none is set. */
usec_t timers_next(struct timers *ts);

/* Runs everything due at now. */
void timers_run(struct timers *ts, usec_t now);

#endif
