/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/stats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROWS_A_HEADER 20

struct stats {
	struct loop *loop;
	const struct stack *stack;
	usec_t interval, started;
	struct timer timer;
	struct stack_totals before;
	unsigned rows;
};

/* Not stdio, which would ask what kind of file it is. */
static void write_line(const char *line, int len)
{
	ssize_t n = write(STDERR_FILENO, line, (size_t)len);

	(void)n; /* nobody else to tell */
}

static void print_header(void)
{
	static const char header[] =
	    "  seconds | from guest: frames      bytes | to guest: frames   "
	    "   bytes |    dropped |  TCP flows  UDP flows\n";

	write_line(header, sizeof(header) - 1);
}

static void print_row(struct stats *s, const struct stack_totals *t, usec_t now)
{
	const struct stack_totals *b = &s->before;
	char line[192];
	int len;

	if (s->rows++ % ROWS_A_HEADER == 0)
		print_header();
	len = snprintf(line, sizeof(line),
		       "%9llu | %18llu %10llu | %16llu %10llu | %10llu | %10zu %10zu\n",
		       (unsigned long long)((now - s->started) / USEC_SEC),
		       (unsigned long long)(t->rx_frames - b->rx_frames),
		       (unsigned long long)(t->rx_bytes - b->rx_bytes),
		       (unsigned long long)(t->tx_frames - b->tx_frames),
		       (unsigned long long)(t->tx_bytes - b->tx_bytes),
		       (unsigned long long)(t->dropped - b->dropped), t->tcp_flows, t->udp_flows);
	write_line(line, len);
}

static void set_timer(struct stats *s, usec_t now)
{
	if (timer_set(loop_timers(s->loop), &s->timer, now + s->interval) < 0)
		log_warn("--stats ends: no memory");
}

static void on_time(struct timer *timer, usec_t now)
{
	struct stats *s = container_of(timer, struct stats, timer);
	struct stack_totals t;

	stack_count(s->stack, &t);
	if (!s->started) { /* the loop's first turn */
		s->started = now;
		s->before = t;
	}
	if (t.rx_frames != s->before.rx_frames || t.tx_frames != s->before.tx_frames ||
	    t.dropped != s->before.dropped || t.tcp_flows != s->before.tcp_flows ||
	    t.udp_flows != s->before.udp_flows)
		print_row(s, &t, now);
	s->before = t;
	set_timer(s, now);
}

int stats_new(struct loop *loop, const struct stack *stack, usec_t interval, struct stats **out)
{
	struct stats *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->stack = stack;
	s->interval = interval;
	timer_init(&s->timer, on_time);
	set_timer(s, 0);
	*out = s;
	return 0;
}

void stats_free(struct stats *s)
{
	if (!s)
		return;
	timer_drop(loop_timers(s->loop), &s->timer);
	free(s);
}
