/* SPDX-License-Identifier: BSD-3-Clause */
#include "seccomp/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>

#include "seccomp/steps.h"

/* Errors that mean "not for you" rather than "something is wrong": rights, limits (ENOSPC, EUSERS),
 * a kernel without (EINVAL). */
static bool is_refusal(int err)
{
	return err == EPERM || err == ENOSPC || err == EUSERS || err == EINVAL;
}

/* With a user namespace of its own the engine has every right there and none outside. Where that is
 * refused (a container, a limit), root can have the others without. */
static int own_namespaces(bool pid_ns)
{
	const int flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | (pid_ns ? CLONE_NEWPID : 0);

	if (unshare(CLONE_NEWUSER | flags) == 0)
		return 0;
	if (is_refusal(errno) && unshare(flags) == 0)
		return 0;
	return -errno;
}

int sandbox_engine_enter(const struct sandbox_identity *id, bool pid_ns, const char **step)
{
	bool refused;
	int r = 0;

	*step = "user and group";
	if (id->change)
		r = step_identity(id);
	if (r < 0)
		return r;
	*step = "own namespaces";
	r = own_namespaces(pid_ns);
	refused = r < 0 && is_refusal(-r);
	if (r < 0 && !refused)
		return r;
	*step = "empty root";
	r = refused ? 0 : step_empty_root();
	if (r < 0)
		return r;
	*step = "capabilities";
	r = step_capabilities(-1);
	if (r < 0 && !(refused && r == -EPERM))
		return r;
	*step = refused ? "own namespaces" : NULL;
	return 0;
}

/* A user namespace that was joined may not have that user: then its root, if it has one, and else
 * whoever this is stays without a number in there. */
static int agent_identity(const struct sandbox_identity *id)
{
	const struct sandbox_identity root = {.change = true};
	int r = step_identity(id);

	if (r == -EINVAL)
		r = step_identity(&root);
	return r == -EINVAL ? 0 : r;
}

int sandbox_agent_enter(const struct sandbox_identity *id, bool binds, const char **step)
{
	int r = 0;

	*step = "user and group";
	if (id && id->change)
		r = agent_identity(id);
	if (r < 0)
		return r;
	*step = "own mount namespace";
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	*step = "empty root";
	r = step_empty_root();
	if (r < 0)
		return r;
	*step = "capabilities";
	return step_capabilities(binds ? CAP_NET_BIND_SERVICE : -1);
}

int sandbox_seal(enum sandbox_profile profile, const char **step)
{
	*step = "PR_SET_DUMPABLE";
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	if (prctl(PR_GET_DUMPABLE) != 0)
		return -EIO;
	*step = "PR_SET_NO_NEW_PRIVS";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return -EIO;
	*step = "system-call filter";
	return step_filter(profile);
}
