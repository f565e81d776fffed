/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipes for tcp_splice: a few idle ones are kept for the moment, none when nothing is going on. The
 * pages of all pipes of a user count against fs.pipe-user-pages-soft (64 MiB, pipe(7)); past it
 * every new pipe is two pages small, for all programs of that user. */
#ifndef TCP_PIPE_H
#define TCP_PIPE_H

#include "core/loop.h"

#define PIPE_POOL_MAX 6

struct pipe_pool;

struct pipe {
	int in, out;    /* write and read end; -1: no pipe */
	size_t size;    /* bytes, if every page is full */
	unsigned slots; /* pieces of data it holds, of a page or, from a socket, more */
};

/* size: bytes wanted of each pipe; 0: the most that the kernel gives. 0 or negative errno. */
int pipe_pool_new(struct loop *loop, size_t size, struct pipe_pool **out) must_check;
void pipe_pool_free(struct pipe_pool *pool);

/* An empty pipe; a small one if the kernel gives no other. 0 or negative errno. */
int pipe_pool_get(struct pipe_pool *pool, struct pipe *out) must_check;

/* Gives an empty pipe back; p then has none. */
void pipe_pool_put(struct pipe_pool *pool, struct pipe *p, usec_t now);

/* Closes a pipe that is not empty; p then has none. */
void pipe_pool_discard(struct pipe_pool *pool, struct pipe *p);

unsigned pipe_pool_idle(const struct pipe_pool *pool);
unsigned pipe_pool_used(const struct pipe_pool *pool);

#endif
