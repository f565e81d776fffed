/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp/tcp_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/log.h"

#define SIZE_MOST    ((size_t)1 << 20)  /* fs.pipe-max-size, as a rule */
#define SIZE_DEFAULT ((size_t)64 << 10) /* of a new pipe that the soft limit leaves alone */
#define TRIM_PERIOD  USEC_SEC
/* Pipes of slow readers stay in use. Some dozens of large ones would be the user's share, and the
 * next ones, of whatever program, tiny: those beyond this number have the default size. */
#define LARGE_MOST   16

struct pipe_pool {
	struct loop *loop;
	struct timer trim;
	size_t wanted, page;
	unsigned idle, used;
	unsigned idle_least;              /* since the last trimming: as many had nothing to do */
	struct pipe pipes[PIPE_POOL_MAX]; /* small ones first, so that they are used last */
};

static void close_pipe(struct pipe *p)
{
	fd_close(&p->in);
	fd_close(&p->out);
}

static int open_pipe(struct pipe *out)
{
	int fd[2], r;

	if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	*out = (struct pipe){.out = fd[0], .in = fd[1]};
	r = fcntl(out->in, F_GETPIPE_SZ);
	if (r > 0) {
		out->size = (size_t)r;
		return 0;
	}
	r = -errno;
	close_pipe(out);
	return r;
}

static bool resize(struct pipe *p, size_t size)
{
	int r = fcntl(p->in, F_SETPIPE_SZ, (int)size);

	if (r > 0)
		p->size = (size_t)r;
	return r > 0;
}

/* Growing is refused past the soft limit: the pipe then stays as it is, which is no fault. */
static int make_pipe(const struct pipe_pool *pool, struct pipe *out)
{
	int r = open_pipe(out);

	if (r < 0)
		return r;
	if (out->size != pool->wanted && (pool->used < LARGE_MOST || pool->wanted < SIZE_DEFAULT))
		(void)resize(out, pool->wanted);
	out->slots = (unsigned)(out->size / pool->page);
	return 0;
}

/* What to ask for: the most that is granted now, or, if other programs have the user's share of
 * pages at the moment, the usual most. */
static int find_size(struct pipe_pool *pool)
{
	struct pipe p;
	size_t most = SIZE_MOST;
	int r = open_pipe(&p);

	if (r < 0)
		return r;
	pool->wanted = p.size < SIZE_DEFAULT ? SIZE_MOST : p.size;
	while (most > p.size && !resize(&p, most))
		most /= 2;
	if (most >= SIZE_DEFAULT && most > pool->wanted)
		pool->wanted = most;
	close_pipe(&p);
	return 0;
}

static void close_idle(struct pipe_pool *pool, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close_pipe(&pool->pipes[i]);
	pool->idle -= count;
	for (unsigned i = 0; i < pool->idle; i++)
		pool->pipes[i] = pool->pipes[i + count];
}

static void start_trim(struct pipe_pool *pool, usec_t now)
{
	pool->idle_least = pool->idle;
	/* Without memory for the timer pipes stay open until the next one is given back. */
	if (pool->idle && timer_set(loop_timers(pool->loop), &pool->trim, now + TRIM_PERIOD) < 0)
		log_debug("TCP: no memory to trim pipes");
}

static void on_trim(struct timer *t, usec_t now)
{
	struct pipe_pool *pool = container_of(t, struct pipe_pool, trim);

	close_idle(pool, pool->idle_least);
	start_trim(pool, now);
}

int pipe_pool_new(struct loop *loop, size_t size, struct pipe_pool **out)
{
	struct pipe_pool *pool = calloc(1, sizeof(*pool));
	long page = sysconf(_SC_PAGESIZE);
	int r = 0;

	if (!pool)
		return -ENOMEM;
	pool->loop = loop;
	pool->page = page > 0 ? (size_t)page : 4096;
	timer_init(&pool->trim, on_trim);
	pool->wanted = size;
	if (!size)
		r = find_size(pool);
	if (r < 0) {
		pipe_pool_free(pool);
		return r;
	}
	*out = pool;
	return 0;
}

void pipe_pool_free(struct pipe_pool *pool)
{
	if (!pool)
		return;
	close_idle(pool, pool->idle);
	timer_drop(loop_timers(pool->loop), &pool->trim);
	free(pool);
}

int pipe_pool_get(struct pipe_pool *pool, struct pipe *out)
{
	int r = 0;

	if (pool->idle) {
		*out = pool->pipes[--pool->idle];
		if (pool->idle < pool->idle_least)
			pool->idle_least = pool->idle;
	} else {
		pool->idle_least = 0;
		r = make_pipe(pool, out);
	}
	if (!r)
		pool->used++;
	return r;
}

void pipe_pool_put(struct pipe_pool *pool, struct pipe *p, usec_t now)
{
	unsigned at = pool->idle;

	pool->used--;
	if (pool->idle == PIPE_POOL_MAX) {
		close_pipe(p);
		return;
	}
	if (p->size < pool->wanted && at) {
		pool->pipes[at] = pool->pipes[0];
		at = 0;
	}
	pool->pipes[at] = *p;
	pool->idle++;
	p->in = p->out = -1;
	if (pool->trim.when == USEC_NEVER)
		start_trim(pool, now);
}

void pipe_pool_discard(struct pipe_pool *pool, struct pipe *p)
{
	pool->used--;
	close_pipe(p);
}

unsigned pipe_pool_idle(const struct pipe_pool *pool)
{
	return pool->idle;
}

unsigned pipe_pool_used(const struct pipe_pool *pool)
{
	return pool->used;
}
