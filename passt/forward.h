/* SPDX-License-Identifier: BSD-3-Clause */
/* The forwarding rules at work: their sockets on both sides, opened at start, and for `auto` opened
 * and closed as listeners come and go on the other side. Messages for the user are written here. */
#ifndef PASST_FORWARD_H
#define PASST_FORWARD_H

#include "core/loop.h"
#include "host/ports.h"
#include "nat/forward.h"

struct forward;

/* Who does the rest. */
struct forward_ops {
	/* Opens sockets in the namespace, FORWARD_BATCH at most: pasta_listen(). */
	int (*open_ns)(void *arg, const struct rule *rule, uint16_t first, uint16_t last,
		       int *results);
	/* To see who listens there, or NULL. */
	const struct ports_view *ns_ports;
	/* Watches the socket of a port, and stops doing so; from forward_serve() on. */
	int (*serve)(void *arg, struct forward_port *port);
	void (*unserve)(void *arg, struct forward_port *port);
	void *arg;
};

#define FORWARD_BATCH 128

/* Opens what the tables (one a side, copied) ask for. Whatever can't be had is reported, all of it;
 * it is an error unless the rule makes do with less. Takes up to half a second if a port is in use:
 * an instance before this one may be about to end. ops->arg and ns_ports outlive the forward. 0 or
 * negative errno. */
int forward_new(const struct rule_table tables[FORWARD_SIDES], bool freebind,
		const struct forward_ops *ops, struct forward **out) must_check;

/* Has the ports served from now on, and keeps `auto` up to date if there is any. 0 or negative
 * errno. */
int forward_serve(struct forward *f, struct loop *loop) must_check;

/* Ports open on a side. */
unsigned forward_port_count(const struct forward *f, enum forward_side side);

/* Closes everything, first of all for who comes next and wants the same ports. */
void forward_free(struct forward *f);

#endif
