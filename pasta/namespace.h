/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and joining namespaces (namespaces(7), user_namespaces(7)). What goes wrong is told to the
 * user here. */
#ifndef PASTA_NAMESPACE_H
#define PASTA_NAMESPACE_H

#include <limits.h>
#include <sys/types.h>

#include "core/fd.h"

/* Forks a child that is PID 1 of new user, network, PID, mount, UTS and IPC namespaces. 0 with *pid
 * 0 in the child and the child's number in the parent, or negative errno. Parent must have one
 * thread: no handler of pthread_atfork(3) runs. */
int namespace_clone(pid_t *pid) must_check;

/* In that child, first of all: uid and gid of the caller become 0. 0 or negative errno. */
int namespace_map_ids(uid_t uid, gid_t gid) must_check;

/* What the command finds there, and can do without: its own /proc, host name (NULL: pasta- and the
 * host's), permission for ping sockets. Only warns. */
void namespace_furnish(const char *hostname);

/* Existing namespaces, held open. A descriptor is -1 if there is nothing to join or to watch. */
struct namespace_target {
	int user, net;
	int pid; /* pidfd of the process named, if one was */
	char net_path[PATH_MAX], user_path[PATH_MAX];
};

/* Opens what is to be joined: pid (or 0), or paths (or NULL; a netns without a slash is a name in
 * /run/netns). With netns_only no user namespace, unless a pid is given: its own is joined. 0 or
 * negative errno. t is to be closed in any case. */
int namespace_target_open(struct namespace_target *t, pid_t pid, const char *netns,
			  const char *userns, bool netns_only) must_check;
void namespace_target_close(struct namespace_target *t);

/* Enters them. 0 or negative errno. */
int namespace_target_join(const struct namespace_target *t) must_check;

#endif
