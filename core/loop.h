/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop: descriptors by epoll(7), deadlines by core/timer, and work put off to the end of
 * a turn. Only this module reads the clock; everybody else is told the time. */
#ifndef CORE_LOOP_H
#define CORE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "core/list.h"
#include "core/timer.h"

struct loop;
struct loop_source;

/* Called with the EPOLL* events that are ready. It may remove any source, its own included. */
typedef void (*loop_ready_fn)(struct loop_source *src, uint32_t events, usec_t now);

/* Part of the struct that owns the descriptor. The loop never closes fd. */
struct loop_source {
	int fd;
	loop_ready_fn ready;
};

/* Work put off to the end of the turn (flush a batch, send ACKs), run once per loop_defer(). */
struct loop_task {
	struct list node;
	void (*run)(struct loop_task *task, usec_t now);
};

int loop_new(struct loop **out) must_check;
void loop_free(struct loop *l);
struct timers *loop_timers(struct loop *l);

/* Watches src->fd for events (EPOLLIN | EPOLLOUT | EPOLLET ...). 0 or negative errno of
 * epoll_ctl(2). */
int loop_add(struct loop *l, struct loop_source *src, uint32_t events) must_check;
int loop_modify(struct loop *l, struct loop_source *src, uint32_t events) must_check;

/* Stops watching; no event of the current batch reaches src any more. Call it before closing the
 * descriptor. */
void loop_remove(struct loop *l, struct loop_source *src);

/* As loop_remove() without its system call, for a descriptor that is closed right after and of
 * which there is no duplicate: the kernel stops watching it by itself then (epoll(7)). */
void loop_forget(struct loop *l, struct loop_source *src);

static inline void loop_task_init(struct loop_task *task, void (*run)(struct loop_task *, usec_t))
{
	list_init(&task->node);
	task->run = run;
}

/* Runs task at the end of this turn, or of the next one if called by a task; no effect if it is
 * waiting already. */
void loop_defer(struct loop *l, struct loop_task *task);

/* Takes a waiting task out again; harmless if it isn't waiting. */
static inline void loop_undefer(struct loop_task *task)
{
	list_remove(&task->node);
}

/* One turn at the given time (tests give any): wait at most timeout_ms (-1: no bound), run what is
 * ready, what is due and what was put off. With now = USEC_NEVER the clock is read after the wait.
 * 0 or negative errno. */
int loop_turn(struct loop *l, usec_t now, int timeout_ms) must_check;

/* The time of the latest turn; 0 before the first. */
usec_t loop_now(const struct loop *l);

/* Turns until loop_stop(); returns its status, or negative errno if epoll_wait(2) failed. */
int loop_run(struct loop *l) must_check;
void loop_stop(struct loop *l, int status);

/* true if loop_stop() was called since the latest loop_run() returned. */
bool loop_stopped(const struct loop *l);

#endif
