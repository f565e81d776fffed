/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/log.h"

#ifndef NSFS_MAGIC
#define NSFS_MAGIC 0x6e736673
#endif

int namespace_clone(pid_t *pid)
{
	/* The call itself and not fork(3) after unshare(2): CLONE_NEWPID of unshare would take a
	 * second fork. clone(3) wants a stack of its own; without CLONE_VM none is needed. */
	const unsigned long flags = CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS |
				    CLONE_NEWUTS | CLONE_NEWIPC | SIGCHLD;
	long r = syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
	int err = errno;

	if (r >= 0) {
		*pid = (pid_t)r;
		return 0;
	}
	if (err == EPERM)
		log_err("Can't create a user namespace: %s: check sysctl "
			"kernel.unprivileged_userns_clone, "
			"kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces",
			strerror(err));
	else if (err == ENOSPC || err == EUSERS)
		log_err("Can't create namespaces: %s: check sysctl user.max_user_namespaces and "
			"others of user.max_*_namespaces",
			strerror(err));
	else
		log_err("Can't create namespaces: %s", strerror(err));
	return -err;
}

static int write_file(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

int namespace_map_ids(uid_t uid, gid_t gid)
{
	char map[64];
	int r;

	/* Without CAP_SETGID outside, setgroups(2) must be given up before the group map
	 * (user_namespaces(7)). */
	r = write_file("/proc/self/setgroups", "deny");
	if (r < 0 && r != -ENOENT)
		log_debug("/proc/self/setgroups: %s", strerror(-r));
	snprintf(map, sizeof(map), "0 %u 1", uid);
	r = write_file("/proc/self/uid_map", map);
	if (r < 0) {
		log_err("Can't map user %u to root of a user namespace: %s: check sysctl "
			"kernel.unprivileged_userns_clone, "
			"kernel.apparmor_restrict_unprivileged_userns",
			uid, strerror(-r));
		return r;
	}
	snprintf(map, sizeof(map), "0 %u 1", gid);
	r = write_file("/proc/self/gid_map", map);
	if (r < 0)
		log_warn("Can't map group %u to root of the user namespace: %s", gid, strerror(-r));
	return 0;
}

static void set_hostname(const char *hostname)
{
	struct utsname u;
	char name[sizeof(u.nodename) + 8];

	if (!hostname) {
		if (uname(&u) < 0)
			return;
		snprintf(name, sizeof(name), "pasta-%s", u.nodename);
		hostname = name;
	}
	/* HOST_NAME_MAX is 64; -H may be longer, as a fully qualified name for DHCP. */
	if (sethostname(hostname, strnlen(hostname, 64)) < 0)
		log_warn("Can't set the host name to %s: %s", hostname, strerror(errno));
}

void namespace_furnish(const char *hostname)
{
	int r;

	/* Propagation needs no care: in a mount namespace of a new user namespace the kernel has
	 * turned shared mounts into slaves (mount_namespaces(7)), so nothing mounted here is seen
	 * outside. */
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		log_warn("Can't mount /proc for the command: %s", strerror(errno));
	r = write_file("/proc/sys/net/ipv4/ping_group_range", "0 0");
	if (r < 0)
		log_debug("Can't permit ping sockets inside: %s", strerror(-r));
	set_hostname(hostname);
}

static int open_namespace(const char *kind, const char *path, int *out)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0) {
		int err = errno;

		log_err("Can't open %s namespace %s: %s", kind, path, strerror(err));
		return -err;
	}
	if (fs.f_type != NSFS_MAGIC) {
		log_err("Can't open %s namespace %s: not a namespace", kind, path);
		return -EINVAL;
	}
	*out = take_fd(&fd);
	return 0;
}

/* The process is held by its pidfd first, so that the number can't come to mean another one in
 * between. */
static int hold_process(struct namespace_target *t, pid_t pid)
{
	t->pid = (int)syscall(SYS_pidfd_open, pid, 0);
	if (t->pid < 0) {
		int err = errno;

		log_err("Can't attach to process %d: %s", pid, strerror(err));
		return -err;
	}
	snprintf(t->net_path, sizeof(t->net_path), "/proc/%d/ns/net", pid);
	snprintf(t->user_path, sizeof(t->user_path), "/proc/%d/ns/user", pid);
	return 0;
}

int namespace_target_open(struct namespace_target *t, pid_t pid, const char *netns,
			  const char *userns, bool netns_only)
{
	*t = (struct namespace_target){.user = -1, .net = -1, .pid = -1};
	if (pid > 0) {
		int r = hold_process(t, pid);

		if (r < 0)
			return r;
	} else {
		/* A path cut short names nothing, and is then reported by open_namespace(). */
		snprintf(t->net_path, sizeof(t->net_path), "%s%s",
			 strchr(netns, '/') ? "" : "/run/netns/", netns);
	}
	if (userns && !netns_only)
		snprintf(t->user_path, sizeof(t->user_path), "%s", userns);
	if (t->user_path[0]) {
		int r = open_namespace("user", t->user_path, &t->user);

		if (r < 0)
			return r;
	}
	return open_namespace("network", t->net_path, &t->net);
}

void namespace_target_close(struct namespace_target *t)
{
	fd_close(&t->user);
	fd_close(&t->net);
	fd_close(&t->pid);
}

/* Two descriptors of one namespace have one inode. */
static bool is_own_user_namespace(int fd)
{
	struct stat own, other;

	return stat("/proc/self/ns/user", &own) == 0 && fstat(fd, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

static int join(int fd, int type, const char *kind, const char *path)
{
	int err;

	if (setns(fd, type) == 0)
		return 0;
	err = errno;
	log_err("Can't join %s namespace %s: %s", kind, path, strerror(err));
	return -err;
}

int namespace_target_join(const struct namespace_target *t)
{
	/* Entering one's own user namespace is EINVAL (setns(2)), and there is no need. */
	if (t->user >= 0 && !is_own_user_namespace(t->user)) {
		int r = join(t->user, CLONE_NEWUSER, "user", t->user_path);

		if (r < 0)
			return r;
	}
	return join(t->net, CLONE_NEWNET, "network", t->net_path);
}
