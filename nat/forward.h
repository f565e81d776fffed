/* SPDX-License-Identifier: BSD-3-Clause */
/* Flows that come in by a forwarding rule: the listening sockets of rules, and the decision where
 * such a flow goes. */
#ifndef NAT_FORWARD_H
#define NAT_FORWARD_H

#include "core/loop.h"
#include "nat/rules.h"
#include "nat/translate.h"

/* The two network namespaces that have sockets of ours. */
enum forward_side { FORWARD_HOST, FORWARD_NS, FORWARD_SIDES };

static inline enum forward_side forward_other(enum forward_side side)
{
	return side == FORWARD_HOST ? FORWARD_NS : FORWARD_HOST;
}

/* One listening socket: a TCP one listens, a UDP one is bound. Whoever serves it (tcp_listen(),
 * udp_listen()) sets source.ready and watches it; the struct and the descriptor belong to whoever
 * opened it. */
struct forward_port {
	struct loop_source source;
	const struct rule *rule;
	uint16_t port;
	enum forward_side side; /* where it listens; its flows go to the other side */
	void *server;           /* whoever serves it */
};

/* The port on the other side. */
static inline uint16_t forward_target_port(const struct forward_port *p)
{
	return (uint16_t)(p->rule->target_first + (p->port - p->rule->first));
}

/* Opens the socket of a rule for one of its ports in the current network namespace: CLOEXEC,
 * non-blocking, SO_REUSEADDR for TCP, V6ONLY as the address says, device if the rule names one,
 * freebind if asked. TCP listens with a backlog of SOMAXCONN's limit; UDP has PKTINFO, RECVERR, TTL
 * and TOS reception on. 0 or negative errno. */
int forward_open(const struct rule *rule, uint16_t port, bool freebind, int *fd) must_check;

enum forward_verdict { FORWARD_REFUSE, FORWARD_TO_TAP, FORWARD_SPLICE };

/* Where a flow goes. To the tap: src and dst of the packets that the guest sees. Spliced: dst is
 * what to connect to on the other side, src what to bind to there (unspecified address, port 0:
 * left to the kernel). Refused: why. */
struct forward_decision {
	enum forward_verdict verdict;
	struct endpoint src, dst;
	const char *why;
};

/* The ends of what came in at a port: who sent it, and what it was sent to. */
struct forward_ends {
	struct endpoint peer, local;
};

/* Pure. */
void forward_decide(const struct nat_config *cfg, const struct nat_guest *guest,
		    const struct forward_port *port, const struct forward_ends *ends,
		    struct forward_decision *out);

/* Sockets on either side, kept ready so that a new flow costs no change of namespace. */
struct side_sockets {
	/* family AF_INET or AF_INET6, type SOCK_STREAM or SOCK_DGRAM; the socket is CLOEXEC and
	 * non-blocking. 0 or negative errno. */
	int (*get)(struct side_sockets *s, enum forward_side side, int family, int type, int *fd);
};

#endif
