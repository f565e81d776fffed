/* SPDX-License-Identifier: BSD-3-Clause */
/* A tcp_splice with a real loop in a thread of its own. Clients connect to bed.front; what is
 * accepted there is joined to bed.back, where the test is the server. */
#ifndef TEST_SPLICE_BED_H
#define TEST_SPLICE_BED_H

#include <pthread.h>
#include <stdatomic.h>

#include "tcp/tcp_splice.h"

struct splice_bed {
	struct tcp_splice_config cfg;
	enum ip_family family;
	struct endpoint front, back;
	int listener; /* of back */

	/* The thread's. */
	pthread_t thread;
	struct loop *loop;
	struct tcp_splice *splice;
	struct side_sockets sides;
	struct loop_source accepting, command;
	int command_fd; /* our end: 'c' asks for counts, 'q' ends */
	struct tcp_splice_counts counts;
	atomic_int sides_error; /* what sides.get() answers, 0 for a socket */
	atomic_int failed;      /* starts that failed */
	bool halted;
	int files; /* open at first */
};

/* A client's socket and the server's; -1: closed. */
struct splice_pair {
	int fd[2];
};

void bed_start(struct splice_bed *b, enum ip_family family, const struct tcp_splice_config *cfg);

/* Ends the thread only. */
void bed_halt(struct splice_bed *b);

/* Ends thread and splice; no descriptor must be left. */
void bed_stop(struct splice_bed *b);

struct tcp_splice_counts bed_counts(struct splice_bed *b);

/* A socket connected, or connecting, to the address. */
int bed_connect(const struct endpoint *to);
/* A connection through the splice. */
struct splice_pair bed_open(struct splice_bed *b);
void bed_close(struct splice_pair *p);

/* Waits until the number of connections is n; fails after a second. */
void bed_await_flows(struct splice_bed *b, size_t n);

/* Sends len bytes of a pattern from one socket and receives them at the other, both non-blocking;
 * microseconds until the last byte was there. Fails if any byte is wrong or missing after 5 s. */
long bed_transfer(int from, int to, size_t len);

long bed_clock(void); /* microseconds */

#endif
