/* SPDX-License-Identifier: BSD-3-Clause */
/* pasta's namespaces and the agent inside them. Messages for the user are written here; callers
 * exit 1 on failure. */
#ifndef PASTA_PASTA_H
#define PASTA_PASTA_H

#include "core/loop.h"
#include "host/ports.h"
#include "nat/forward.h"
#include "pasta/netconf.h"
#include "seccomp/sandbox.h"
#include "tap/tap.h"

struct pasta;

struct pasta_config {
	/* A new namespace with a command, or an existing one to join. */
	char **command;     /* NULL: a login shell, $SHELL or /bin/sh. Only looked at if nothing is
			       joined */
	pid_t target_pid;   /* or 0 */
	const char *netns;  /* path, or NULL */
	const char *userns; /* path, or NULL */
	bool netns_only, netns_quit;
	const char *hostname; /* -H, or NULL: pasta- and the host's */
	struct netconf net;

	/* What else is wanted of the agent; one in a namespace that is joined stays only if
	 * something is. */
	bool wants_sockets;   /* sockets inside, for spliced flows */
	bool wants_listeners; /* listening sockets inside: pasta_listen() */
	bool wants_ports;     /* who listens inside: pasta_ports() */
	/* The engine goes to the background: a process inside lets the caller's descriptors go. */
	bool background;
	struct sandbox_identity identity; /* of a process in a namespace that is joined */
};

/* Forks the agent, which makes or joins the namespaces, opens the tap, sets up the network and
 * waits. On success *tap_fd is the engine's, or -1 with net.lo_only or net.untouched. 0 or negative
 * errno (already reported to the user). */
int pasta_start(const struct pasta_config *cfg, struct pasta **out, int *tap_fd,
		struct tap_features *features, struct netconf_result *result) must_check;

/* true if a command runs (or will) in the namespace, false if an existing one was joined. */
bool pasta_has_command(const struct pasta *p);

/* Watches what ends or concerns the program from now on: signals (SIGTERM, SIGINT, SIGHUP, SIGQUIT;
 * passed on to the command, or ending a pasta without one), the agent's messages, the namespace
 * going away. It stops the loop with the exit status. */
int pasta_attach(struct pasta *p, struct loop *loop) must_check;

/* Everything is ready: the command may start. */
int pasta_release(struct pasta *p) must_check;

/* Sockets of both namespaces (nat/forward.h), those of the agent's kept in stock so that a new flow
 * doesn't wait for it. Belongs to p. */
struct side_sockets *pasta_sides(struct pasta *p);

/* Ports that one call of pasta_listen() may ask for. */
#define PASTA_LISTEN_MAX 128

/* Has the agent open the sockets of a rule for ports first..last, PASTA_LISTEN_MAX at most, by
 * forward_open() inside, and waits for its answer, a second at most. results[i] is for port
 * first + i: a descriptor, the caller's, or negative errno. Good from pasta_start() on and after
 * pasta_attach() as well: whatever else the agent says in between is not lost. 0; or negative errno
 * if the agent is gone, silent or talks nonsense, and then nothing is open. For a pasta_config with
 * wants_listeners. */
int pasta_listen(struct pasta *p, const struct rule *rule, uint16_t first, uint16_t last,
		 int results[PASTA_LISTEN_MAX]) must_check;

/* What the agent opened at start to see who listens inside; NULL if it couldn't. Belongs to p. */
const struct ports_view *pasta_ports(const struct pasta *p);

/* The loop has ended: kills what is left of the command's PID namespace, waits until it is gone,
 * and takes the terminal's foreground group back if a shell inside had it. The tap (-1: none) is
 * left to the dying network namespace, as closing it otherwise takes some 20 ms; this does nothing
 * to a namespace that was joined. */
void pasta_leave(struct pasta *p, int tap_fd);

/* Does pasta_leave(p, -1) if that was not done. */
void pasta_free(struct pasta *p);

#endif
