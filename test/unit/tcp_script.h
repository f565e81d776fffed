/* SPDX-License-Identifier: BSD-3-Clause */
/* Scripts of segments: the test is the guest, at a time it gives, over a link in memory; the peer
 * is a socket on the loopback, under the name that map_host_loopback gives it. Every script runs
 * for both families and both ways of keeping data for the guest. */
#ifndef TEST_UNIT_TCP_SCRIPT_H
#define TEST_UNIT_TCP_SCRIPT_H

#include "build.h"
#include "tcp/tcp_flow.h"

#define GUEST_ISN 1000000u
#define GUEST_MSS 1460

struct script {
	enum ip_family family;
	struct loop *loop;
	struct tap_link *link;
	struct tap *tap;
	struct tcp *tcp;
	struct nat_config nat;
	struct counters counters;
	usec_t now;
	int descriptors; /* open before the script */
	int listener;
	int peer; /* the accepted socket */

	/* The guest's side. */
	struct endpoint guest, dst;
	uint32_t seq, ack; /* next to send, next expected */
	uint32_t iss;      /* as the SYN-ACK had it */
	uint32_t window;   /* to advertise, bytes */
	uint8_t scale;     /* of the guest; */
	uint8_t their_scale;

	/* The segment taken last. */
	struct packet got;
	bool collecting; /* what the guest gives waits for give_batch() */
	uint8_t frame[FRAME_MAX];
};

struct script_options {
	enum ip_family family;
	bool ring; /* as if the kernel had no peek offset */
	unsigned flows_max;
	size_t budget;
};

/* A stack with nothing connected. */
struct script *script_new(const struct script_options *o);
/* Resets what is left, and asserts that flows and descriptors are back to where they were. */
void script_free(struct script *s);

/* One turn of the loop that waits for nothing. */
void turn(struct script *s);
/* Moves the time on and turns. */
void pass(struct script *s, usec_t by);

/* A segment from the guest at seq and ack of the script, which it moves on. Handed over and flushed
 * as a batch of its own. */
void give(struct script *s, uint8_t flags, const void *data, size_t len);
/* Likewise with any header and moving nothing; a zero ack, window or port is replaced by the
 * script's. */
void give_header(struct script *s, const struct tcp_header *h, const void *data, size_t len);
/* As give() at another place. */
void give_at(struct script *s, uint8_t flags, uint32_t seq, const void *data, size_t len);

/* What is given from now on until give_batch() comes as one batch. */
void begin_batch(struct script *s);
void give_batch(struct script *s);

/* Takes the next segment to the guest, waiting for the sockets if there is none; asserts its flags
 * and that it is the next in sequence with len bytes, which move the script's ack on. */
void want(struct script *s, uint8_t flags, size_t len);
/* Takes the next segment whatever it is. */
void want_any(struct script *s);
/* Takes the next segment if there is one now. */
bool take(struct script *s);
void want_nothing(struct script *s);
/* A reset at the script's ack (or, with in_reply, one that answers a segment with ACK at its ack).
 */
void want_reset(struct script *s);

/* The window of the last segment taken, in bytes. */
uint32_t got_window(const struct script *s);

/* A client connects, its port chosen by the kernel, and tcp_accept() is told that it is s->dst,
 * which calls s->guest. Returns what that returns; the client's socket is s->peer. */
int script_accept(struct script *s);

/* Brings a new connection to this state. The peer's socket is s->peer. */
void script_reach(struct script *s, enum flow_state state);
/* The flow, and its state; FLOW_CLOSED if there is none. */
struct tcp_flow *script_flow(const struct script *s);
enum flow_state script_state(const struct script *s);

/* Reads exactly len bytes at the peer, turning the loop meanwhile, and asserts that they equal
 * data. */
void peer_reads(struct script *s, const void *data, size_t len);
void peer_sends(struct script *s, const void *data, size_t len);
/* Turns until the peer reads 0, or fails with ECONNRESET. */
void peer_reads_end(struct script *s);
void peer_reads_reset(struct script *s);

/* Runs fn for each family and source. */
void script_each(void (*fn)(struct script *s));

int count_descriptors(void);

#endif
