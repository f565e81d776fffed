/* SPDX-License-Identifier: BSD-3-Clause */
/* The single steps of the sandbox, inside this room only. Each returns 0 or negative errno, after
 * reading back that it holds. */
#ifndef SECCOMP_STEPS_H
#define SECCOMP_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "seccomp/sandbox.h"

/* Groups, gid and uid, for good. Capabilities stay permitted and effective, for the steps to come.
 */
int step_identity(const struct sandbox_identity *id) must_check;

/* An empty read-only root, in the mount namespace that this process already has for itself. */
int step_empty_root(void) must_check;

/* No capability in any set, but for one to keep (-1: none), which stays permitted and effective.
 * -EPERM if the bounding set must stay for lack of CAP_SETPCAP; the others are as they should be
 * then. */
int step_capabilities(int keep) must_check;

/* Loads a profile's filter; no_new_privs is set already. */
int step_filter(enum sandbox_profile profile) must_check;

/* A call that a profile allows, if all conditions in use (mask not 0) hold: argument & mask ==
 * value. Only the low 32 bits are looked at: none of the arguments tested is wider. */
#define PROFILE_CONDITIONS 2
struct profile_call {
	int number;
	struct {
		unsigned argument;
		uint32_t mask, value;
	} when[PROFILE_CONDITIONS];
};

struct profile_list {
	const struct profile_call *calls;
	size_t count;
};

/* A profile is so many lists at most (the others are empty): what every process needs, what its
 * kind does, what is its own. */
#define PROFILE_LISTS 3
const struct profile_list *profile_lists(enum sandbox_profile profile);

#endif
