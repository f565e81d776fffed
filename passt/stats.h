/* SPDX-License-Identifier: BSD-3-Clause */
/* --stats: a table of what went through, a row each interval in which something did. */
#ifndef PASST_STATS_H
#define PASST_STATS_H

#include "core/loop.h"
#include "passt/stack.h"

struct stats;

/* Rows go to the standard error, interval apart; loop and stack outlive it. 0 or negative errno. */
int stats_new(struct loop *loop, const struct stack *stack, usec_t interval,
	      struct stats **out) must_check;
void stats_free(struct stats *s);

#endif
