/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes inside. Two are forked for a command: the agent proper, PID 1 there, which seals
 * itself at once and then looks after the command; and its child, which sets up the network, says
 * READY, waits for its release and becomes the command: the libraries that took and the memory go
 * with the exec. For a namespace that is joined only the second is needed, and it ends after READY.
 */
#ifndef PASTA_AGENT_H
#define PASTA_AGENT_H

#include "pasta/namespace.h"
#include "pasta/pasta.h"

/* In the process made by namespace_clone(). sock: the agent's end, taken over. uid, gid: the
 * caller's. */
_Noreturn void agent_run(const struct pasta_config *cfg, int sock, uid_t uid, gid_t gid);

/* In a forked process: joins target, sets up, says READY, ends. */
_Noreturn void agent_run_joined(const struct pasta_config *cfg,
				const struct namespace_target *target, int sock);

#endif
