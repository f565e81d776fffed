/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's end of what the agent opens inside the namespace: sockets without an address, kept
 * in stock so that a new flow seldom waits for one, and the listening sockets of rules. */
#ifndef PASTA_NS_SOCKETS_H
#define PASTA_NS_SOCKETS_H

#include "nat/forward.h"
#include "pasta/agent_message.h"

struct ns_sockets;

/* Waits for one message of the agent's, a second at most, and handles it, whatever it is. 0, or
 * -EAGAIN if none came; other negative errno if there is no agent any more. */
typedef int (*ns_sockets_wait_fn)(void *arg);

/* agent: the socket to the agent, with which it stays connected. known: a socket of the namespace,
 * from the time when nobody else could yet have a say in what the agent sends. 0 or negative errno.
 */
int ns_sockets_new(int agent, int known, ns_sockets_wait_fn wait, void *arg,
		   struct ns_sockets **out) must_check;
void ns_sockets_free(struct ns_sockets *s);

struct side_sockets *ns_sockets_sides(struct ns_sockets *s);

/* As pasta_listen(). */
int ns_sockets_listen(struct ns_sockets *s, const struct rule *rule, uint16_t first, uint16_t last,
		      int *results) must_check;

/* Takes in an answer, AGENT_SOCKETS or AGENT_LISTENING; without its descriptors (fds is empty) if
 * this process has no room for them. Takes what it keeps out of fds. -EBADMSG for what was not
 * asked for, or is something else than that. */
int ns_sockets_answer(struct ns_sockets *s, const struct agent_message *m,
		      struct agent_fds *fds) must_check;

/* There is no agent any more. */
void ns_sockets_lost(struct ns_sockets *s);

#endif
