/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that come in by forwarding rules: accepted, decided upon, and handed to whoever
 * carries them. */
#ifndef TCP_LISTEN_H
#define TCP_LISTEN_H

#include "nat/forward.h"
#include "tcp/tcp.h"

/* Serves the listening socket of p until tcp_unlisten(); p, its rule and its descriptor stay the
 * caller's and outlive that. t must have been made with the sockets of both sides. 0 or negative
 * errno. */
int tcp_listen(struct tcp *t, struct forward_port *p) must_check;

/* Stops serving p. Its connections go on. */
void tcp_unlisten(struct tcp *t, struct forward_port *p);

struct tcp_listen_counts {
	uint64_t accepted; /* all of them: */
	uint64_t spliced, to_tap, refused;
	uint64_t paused; /* times that accepting had to wait for descriptors or memory */
};
void tcp_listen_count(const struct tcp *t, struct tcp_listen_counts *out);

/* For tcp_new() and tcp_free() alone. */
struct tcp_acceptor;
int tcp_acceptor_new(struct tcp *t, struct tcp_acceptor **out) must_check;
void tcp_acceptor_free(struct tcp_acceptor *a);

#endif
