/* SPDX-License-Identifier: BSD-3-Clause */
/* The sandbox, in numbered steps, each checked by reading back (design: capabilities, identity,
 * namespaces, empty root, no_new_privs, not dumpable, filter). Every function returns 0 or negative
 * errno, with the failed step in *step. */
#ifndef SECCOMP_SANDBOX_H
#define SECCOMP_SANDBOX_H

#include <sys/types.h>

#include "core/fd.h"

/* Whose system calls a filter allows; the lists stand in profiles.c. */
enum sandbox_profile {
	SANDBOX_ENGINE_PASTA,
	SANDBOX_ENGINE_PASST, /* a virtual machine on a stream socket */
	SANDBOX_ENGINE_VHOST, /* by vhost-user */
	SANDBOX_AGENT,
	SANDBOX_AGENT_JOINED
};

struct sandbox_identity {
	bool change; /* started as real root of the initial user namespace */
	uid_t uid;
	gid_t gid;
};

/* Whether this process is root in the initial user namespace, and who it is to become: nobody, or
 * runas (UID, UID:GID, LOGIN, LOGIN:GROUP). -EINVAL for an unknown login or one with uid 0. */
int sandbox_identity_get(const char *runas, struct sandbox_identity *out) must_check;

/* Engine: groups, gid, uid; own user, IPC, mount and UTS namespaces (and PID for children, if
 * pid_ns); empty read-only root; every capability gone from all sets, the bounding set included.
 * Where the system gives this process no namespaces, by rights or limits, it goes without these and
 * the empty root: 0 with the step left out in *step, to be warned of; else *step is NULL. */
int sandbox_engine_enter(const struct sandbox_identity *id, bool pid_ns,
			 const char **step) must_check;

/* Agent, which stays in the network namespace of the guest: a mount namespace of its own, empty
 * read-only root, capabilities gone but, if it binds, CAP_NET_BIND_SERVICE: for ports below
 * net.ipv4.ip_unprivileged_port_start of that namespace, since it can't leave it. Another user if
 * id is not NULL and says so. */
int sandbox_agent_enter(const struct sandbox_identity *id, bool binds,
			const char **step) must_check;

/* Not dumpable, no_new_privs, filter. From here on a call that is not allowed ends the process with
 * a line naming it. */
int sandbox_seal(enum sandbox_profile profile, const char **step) must_check;

#endif
