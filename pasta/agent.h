/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes inside. Two are forked for a command: the agent proper, PID 1 there, which seals
 * itself at once and then looks after the command; and its child, which sets up the network, says
 * READY, waits for its release and becomes the command: the libraries that took and the memory go
 * with the exec. For a namespace that is joined one process does both: it sets up, seals itself and
 * says READY; then it ends, or stays as long as the engine if sockets are wanted of it. */
#ifndef PASTA_AGENT_H
#define PASTA_AGENT_H

#include "pasta/namespace.h"
#include "pasta/pasta.h"

/* In the process made by namespace_clone(). sock: the agent's end, taken over. uid, gid: the
 * caller's. */
_Noreturn void agent_run(const struct pasta_config *cfg, int sock, uid_t uid, gid_t gid);

/* Whether there is an agent after the start: always with a command. */
static inline bool agent_stays(const struct pasta_config *cfg)
{
	return (!cfg->target_pid && !cfg->netns) || cfg->wants_sockets || cfg->wants_listeners;
}

/* In a forked process: joins target, sets up, says READY, and ends if it isn't to stay. */
_Noreturn void agent_run_joined(const struct pasta_config *cfg,
				const struct namespace_target *target, int sock);

#endif
