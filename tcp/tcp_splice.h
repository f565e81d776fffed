/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP between two sockets of ours, one on either side, by splice(2): the bytes stay in the kernel.
 * An idle connection is two descriptors and a small struct. */
#ifndef TCP_SPLICE_H
#define TCP_SPLICE_H

#include "core/loop.h"
#include "nat/forward.h"

struct tcp_splice;

struct tcp_splice_config {
	unsigned flows_max;
	/* For tests. pipe_size: bytes of every pipe, 0 for the most the kernel gives. no_push: what
	 * is held back by SPLICE_F_MORE is not pushed. */
	size_t pipe_size;
	bool no_push;
};

/* What was done so far, and what there is now. */
struct tcp_splice_counts {
	size_t flows;
	unsigned pipes_used, pipes_idle;
	uint64_t reads, reads_dry, writes, writes_dry, pushes; /* system calls */
};

/* loop and sides outlive the tcp_splice. Must be called before the process is confined to its
 * system calls. 0 or negative errno. */
int tcp_splice_new(struct loop *loop, struct side_sockets *sides,
		   const struct tcp_splice_config *cfg, struct tcp_splice **out) must_check;

/* Ends every connection: in order if both ends had closed and all is handed over, else by a reset.
 */
void tcp_splice_free(struct tcp_splice *s);

/* Joins the accepted socket fd to d->dst on side target. Takes fd in any case: if there can be no
 * connection, now or later, its peer gets a reset. 0 or negative errno. */
int tcp_splice_start(struct tcp_splice *s, int fd, enum forward_side target,
		     const struct forward_decision *d);

void tcp_splice_count(const struct tcp_splice *s, struct tcp_splice_counts *out);

/* Closes *fd with a reset to its peer, at once and whatever is unsent (socket(7), SO_LINGER). */
void tcp_socket_reset(int *fd);

#endif
