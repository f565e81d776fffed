/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP between the guest and host sockets. */
#ifndef UDP_UDP_H
#define UDP_UDP_H

#include "core/loop.h"
#include "nat/forward.h"
#include "tap/tap.h"

struct udp;

struct udp_config {
	unsigned flows_max;
	unsigned sockets_max; /* a new one past this ends the brief flow used longest ago */
	usec_t timeout_one_way, timeout_both_ways; /* 30 s, 180 s as a rule */
	const struct nat_guest *guest;             /* outlives the udp */
	/* Where spliced flows get their sockets; NULL: there are none. Outlives the udp. */
	struct side_sockets *sides;
};

/* loop, tap and nat outlive the udp. 0 or negative errno. */
int udp_new(struct loop *loop, struct tap *tap, const struct nat_config *nat,
	    const struct udp_config *cfg, struct udp **out) must_check;
/* Ends all flows and stops serving all ports. */
void udp_free(struct udp *u);

/* A PACKET_UDP from the guest; its payload stays valid until udp_flush(). */
void udp_input(struct udp *u, const struct packet *p, usec_t now);

/* The batch of the tap has been handed over: sends what was collected (sendmmsg, UDP_SEGMENT). */
void udp_flush(struct udp *u, usec_t now);

/* Serves the bound socket of a rule's port (forward_open()): datagrams that come in go where
 * forward_decide() says, and answers leave from the address and port that they were sent to. The
 * udp watches the descriptor by a source of its own; p, its rule and the descriptor stay the
 * caller's, and valid until udp_unlisten() or udp_free(). 0 or negative errno. */
int udp_listen(struct udp *u, struct forward_port *p) must_check;

/* Stops serving p and ends its flows; harmless if p isn't served. Call it before the descriptor is
 * closed. */
void udp_unlisten(struct udp *u, struct forward_port *p);

size_t udp_flow_count(const struct udp *u);

#endif
