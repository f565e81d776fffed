/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP between the guest and host sockets: we are the guest's peer, a socket carries on from there
 * (RFC 9293). */
#ifndef TCP_TCP_H
#define TCP_TCP_H

#include "core/loop.h"
#include "nat/translate.h"
#include "tap/tap.h"

struct tcp;
struct side_sockets;

struct tcp_config {
	unsigned flows_max;   /* flows at a time; further SYNs are dropped and counted */
	size_t buffer_budget; /* bytes of overflow and reordering buffers, all flows together */
	/* As if the kernel had no SO_PEEK_OFF for TCP (before 6.9): tests */
	bool force_no_peek_off;
	/* For connections by forwarding rules (tcp_listen.h), or NULL; and for those that are
	 * spliced, or NULL if there are none. They outlive the tcp. */
	const struct nat_guest *guest;
	struct side_sockets *sides;
};

/* loop, tap and nat outlive the tcp. 0 or negative errno. */
int tcp_new(struct loop *loop, struct tap *tap, const struct nat_config *nat,
	    const struct tcp_config *cfg, struct tcp **out) must_check;

/* Closes every socket: with a reset to both sides, or in order where the guest has closed and all
 * it sent is the host's. */
void tcp_free(struct tcp *t);

/* A PACKET_TCP from the guest, which stays valid until tcp_batch_done() or tcp_flush(). */
void tcp_input(struct tcp *t, const struct packet *p, usec_t now);

/* A PACKET_ICMP from the guest: true if it was an error that ends a connection of ours, false if it
 * is somebody else's. */
bool tcp_icmp_input(struct tcp *t, const struct packet *p);

/* The frames of the packets handed in so far go: what points into them is done with. */
void tcp_batch_done(struct tcp *t);

/* Likewise, and for now nothing more comes: sends what was put off. */
void tcp_flush(struct tcp *t, usec_t now);

/* The link has room again: flows that found it full go on, one after the other,
 * until it is full. */
void tcp_link_ready(struct tcp *t, usec_t now);

size_t tcp_flow_count(const struct tcp *t);

/* Connections over which the guest may still deliver: it has not closed them, or not all it sent is
 * the host's yet. *held: bytes of it that wait here. Walks all flows. */
size_t tcp_unfinished(struct tcp *t, size_t *held);

#endif
