/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64 /* events an epoll_wait(2) */

struct loop {
	int epoll_fd;
	struct timers *timers;
	struct list tasks;
	struct epoll_event batch[BATCH];
	int batch_next, batch_count; /* events batch_next.. are still to be handed out */
	bool stopped;
	usec_t now;
	bool coarse; /* no epoll_pwait2(2), which came with Linux 5.11 */
	int status;
};

int loop_new(struct loop **out)
{
	struct loop *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	list_init(&l->tasks);
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = l->epoll_fd < 0 ? -errno : timers_new(&l->timers);
	if (r < 0) {
		loop_free(l);
		return r;
	}
	*out = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	fd_close(&l->epoll_fd);
	timers_free(l->timers);
	free(l);
}

struct timers *loop_timers(struct loop *l)
{
	return l->timers;
}

static int control(struct loop *l, int op, struct loop_source *src, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	return epoll_ctl(l->epoll_fd, op, src->fd, &ev) < 0 ? -errno : 0;
}

int loop_add(struct loop *l, struct loop_source *src, uint32_t events)
{
	return control(l, EPOLL_CTL_ADD, src, events);
}

int loop_modify(struct loop *l, struct loop_source *src, uint32_t events)
{
	return control(l, EPOLL_CTL_MOD, src, events);
}

void loop_remove(struct loop *l, struct loop_source *src)
{
	/* Fails only if it was not watched, and then there is nothing to undo. */
	(void)control(l, EPOLL_CTL_DEL, src, 0);
	loop_forget(l, src);
}

void loop_forget(struct loop *l, struct loop_source *src)
{
	for (int i = l->batch_next; i < l->batch_count; i++) {
		if (l->batch[i].data.ptr == src)
			l->batch[i].data.ptr = NULL;
	}
}

void loop_defer(struct loop *l, struct loop_task *task)
{
	if (list_empty(&task->node))
		list_append(&l->tasks, &task->node);
}

static usec_t clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (usec_t)t.tv_sec * USEC_SEC + (usec_t)t.tv_nsec / 1000;
}

/* What a task puts off, itself perhaps, has to wait for the next turn: so nobody is starved. */
static void run_tasks(struct loop *l, usec_t now)
{
	struct list todo;

	list_init(&todo);
	list_move_all(&todo, &l->tasks);
	while (!list_empty(&todo)) {
		struct loop_task *task = container_of(todo.next, struct loop_task, node);

		list_remove(&task->node);
		task->run(task, now);
	}
}

/* Waits for events; at most wait microseconds, USEC_NEVER for as long as it takes. */
static int wait_events(struct loop *l, usec_t wait)
{
	struct timespec t = {(time_t)(wait / USEC_SEC), (long)(wait % USEC_SEC) * 1000};
	int n = -1;

	if (!l->coarse) {
		n = epoll_pwait2(l->epoll_fd, l->batch, BATCH, wait == USEC_NEVER ? NULL : &t,
				 NULL);
		l->coarse = n < 0 && errno == ENOSYS;
	}
	if (l->coarse) /* rounded up, so that a timer is due on waking */
		n = epoll_wait(l->epoll_fd, l->batch, BATCH,
			       wait == USEC_NEVER ? -1 : (int)((wait + USEC_MSEC - 1) / USEC_MSEC));
	return n;
}

static int turn(struct loop *l, usec_t now, usec_t wait)
{
	bool real = now == USEC_NEVER;
	int n = wait_events(l, list_empty(&l->tasks) ? wait : 0);

	if (n < 0 && errno != EINTR)
		return -errno;
	if (real)
		now = clock_now();
	l->now = now;
	l->batch_count = n < 0 ? 0 : n;
	for (l->batch_next = 0; l->batch_next < l->batch_count;) {
		struct epoll_event *ev = &l->batch[l->batch_next++];
		struct loop_source *src = ev->data.ptr;

		if (src)
			src->ready(src, ev->events, now);
	}
	l->batch_next = l->batch_count = 0;
	timers_run(l->timers, now);
	run_tasks(l, now);
	return 0;
}

int loop_turn(struct loop *l, usec_t now, int timeout_ms)
{
	return turn(l, now, timeout_ms < 0 ? USEC_NEVER : (usec_t)timeout_ms * USEC_MSEC);
}

/* How long the next turn may wait; an hour's bound keeps the numbers small. */
static usec_t until_due(struct loop *l)
{
	usec_t next = timers_next(l->timers), now;

	if (next == USEC_NEVER)
		return USEC_NEVER;
	now = clock_now();
	if (next <= now)
		return 0;
	return next - now < 3600 * USEC_SEC ? next - now : 3600 * USEC_SEC;
}

int loop_run(struct loop *l)
{
	while (!l->stopped) {
		int r = turn(l, USEC_NEVER, until_due(l));

		if (r < 0)
			return r;
	}
	l->stopped = false;
	return l->status;
}

bool loop_stopped(const struct loop *l)
{
	return l->stopped;
}

usec_t loop_now(const struct loop *l)
{
	return l->now;
}

void loop_stop(struct loop *l, int status)
{
	l->stopped = true;
	l->status = status;
}
