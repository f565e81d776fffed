/* SPDX-License-Identifier: BSD-3-Clause */
/* The stack put together: a link, and what handles the frames that come from it. */
#ifndef PASST_STACK_H
#define PASST_STACK_H

#include "nat/forward.h"
#include "tap/dhcp.h"
#include "tap/dhcpv6.h"
#include "tap/ndp.h"
#include "tap/tap.h"

struct stack;

struct stack_config {
	struct nat_config nat;
	struct ndp_config ndp;
	struct dhcp_config dhcp;
	struct dhcpv6_config dhcpv6;
	struct tap_config tap;
	struct side_sockets *sides; /* for spliced flows; outlives the stack */
	bool tcp_on, udp_on, icmp_on, ndp_on, dhcp_on, dhcpv6_on;
	bool guest_there;     /* from the start: no link that tells */
	int pcap_fd;          /* taken over, or -1 */
	unsigned descriptors; /* how many this process may have */
	/* The guest of a link that others may come to has gone (struct tap_events), or NULL. */
	void (*guest_gone)(void *arg, int err);
	void *guest_arg;
};

/* Takes over link, also on failure. cfg is copied. 0 or negative errno. */
int stack_new(struct loop *loop, struct tap_link *link, const struct stack_config *cfg,
	      struct stack **out) must_check;
void stack_free(struct stack *s);

/* A guest has connected: tap_attach(). */
int stack_attach(struct stack *s, int fd) must_check;

/* Serves the socket of a forwarding rule, and stops doing so (passt/forward.h). 0 or negative
 * errno. */
int stack_listen(struct stack *s, struct forward_port *port) must_check;
void stack_unlisten(struct stack *s, struct forward_port *port);

/* Makes the guest's neighbour entries known early: an ARP request and a neighbour solicitation. */
void stack_announce(struct stack *s);

/* The guest has ended, and its kernel closes what it had open: turns the loop on until all that it
 * had sent has reached the host, as on a host of its own; or until nothing moves for a while, a
 * bound is reached, or loop_stop() is called. */
void stack_finish(struct stack *s);

/* What went through since the start, and the flows that there are. */
struct stack_totals {
	uint64_t rx_frames, rx_bytes, tx_frames, tx_bytes, dropped;
	size_t tcp_flows, udp_flows; /* by the link: spliced ones are not among them */
};
void stack_count(const struct stack *s, struct stack_totals *out);

/* Writes the counters at debug level. */
void stack_log_counters(const struct stack *s);

#endif
