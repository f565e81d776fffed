/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/log.h"

#define POLL_INTERVAL USEC_SEC

struct netns_watch {
	struct loop *loop;
	struct loop_source src; /* pidfd or inotify; fd -1: the timer instead */
	struct timer poll;
	int folder;              /* O_PATH, or -1 */
	char name[NAME_MAX + 1]; /* in folder */
};

static void gone(struct netns_watch *w)
{
	log_info("The namespace is gone: leaving");
	loop_stop(w->loop, EXIT_SUCCESS);
}

/* Works below the empty root: the folder stays reachable through its descriptor. */
static bool name_exists(const struct netns_watch *w)
{
	struct stat st;

	return fstatat(w->folder, w->name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno == EACCES;
}

/* On which inotify(7) reports nothing, as their entries come and go without system calls on them.
 */
static bool has_no_events(int folder)
{
	struct statfs fs;

	if (fstatfs(folder, &fs) < 0)
		return true;
	return fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
	       fs.f_type == DEVPTS_SUPER_MAGIC;
}

static int watch_path(struct netns_watch *w, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path);
	snprintf(w->name, sizeof(w->name), "%s", slash + 1);
	w->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->folder < 0) {
		int err = errno;

		log_err("Can't watch %s: %s", folder, strerror(err));
		return -err;
	}
	if (has_no_events(w->folder))
		return 0;
	w->src.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	/* Needs permission to read the folder, which a caller may lack: then by timer. */
	if (w->src.fd >= 0 && inotify_add_watch(w->src.fd, folder,
						IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF |
						    IN_MOVE_SELF | IN_ONLYDIR) < 0) {
		log_debug("No events for %s: %s", folder, strerror(errno));
		fd_close(&w->src.fd);
	}
	return 0;
}

/* The PID in a path of the form /proc/PID/ns/net, or that of its first thread; else 0. */
static int pid_in_path(const char *path)
{
	int pid = 0, thread, end = 0;

	if (sscanf(path, "/proc/%d/ns/net%n", &pid, &end) == 1 && end && !path[end])
		return pid;
	if (sscanf(path, "/proc/%d/task/%d/ns/net%n", &pid, &thread, &end) == 2 && end &&
	    !path[end] && pid == thread)
		return pid;
	return 0;
}

/* Such a path stands for a process. It is one only if the path, looked at with the process held, is
 * the namespace that was joined. */
static int process_of_path(const struct namespace_target *t)
{
	struct stat st, joined;
	cleanup_fd int fd = -1;
	int pid = pid_in_path(t->net_path);

	if (pid <= 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0 || stat(t->net_path, &st) < 0 || fstat(t->net, &joined) < 0 ||
	    st.st_ino != joined.st_ino)
		return -1;
	return take_fd(&fd);
}

int netns_watch_new(struct namespace_target *target, struct netns_watch **out)
{
	struct netns_watch *w = calloc(1, sizeof(*w));
	int r = 0;

	if (!w) {
		log_err("Can't watch the namespace: %s", strerror(ENOMEM));
		return -ENOMEM;
	}
	w->folder = w->src.fd = -1;
	w->src.fd = target->pid >= 0 ? take_fd(&target->pid) : process_of_path(target);
	if (w->src.fd < 0)
		r = watch_path(w, target->net_path);
	if (r < 0) {
		netns_watch_free(w);
		return r;
	}
	*out = w;
	return 0;
}

static void process_ended(struct loop_source *src, uint32_t events, usec_t now)
{
	(void)events;
	(void)now;
	gone(container_of(src, struct netns_watch, src));
}

/* Whatever happened in the folder, an overflow of the queue included: look whether the name is
 * still there. */
static void folder_changed(struct loop_source *src, uint32_t events, usec_t now)
{
	struct netns_watch *w = container_of(src, struct netns_watch, src);
	char drain[4096];

	(void)events;
	(void)now;
	while (read(src->fd, drain, sizeof(drain)) > 0)
		;
	if (!name_exists(w))
		gone(w);
}

static void poll_name(struct timer *timer, usec_t now)
{
	struct netns_watch *w = container_of(timer, struct netns_watch, poll);

	if (!name_exists(w))
		gone(w);
	else if (w->src.fd < 0 && timer_set(loop_timers(w->loop), timer, now + POLL_INTERVAL) < 0)
		gone(w);
}

int netns_watch_attach(struct netns_watch *w, struct loop *loop)
{
	w->loop = loop;
	timer_init(&w->poll, poll_name);
	if (w->folder < 0) {
		w->src.ready = process_ended;
		return loop_add(loop, &w->src, EPOLLIN);
	}
	w->src.ready = folder_changed;
	if (w->src.fd >= 0) {
		int r = loop_add(loop, &w->src, EPOLLIN);

		if (r < 0)
			return r;
	}
	/* Once in any case: the name may have gone before it was watched. */
	return timer_set(loop_timers(loop), &w->poll, 0);
}

void netns_watch_free(struct netns_watch *w)
{
	if (!w)
		return;
	if (w->loop) {
		timer_drop(loop_timers(w->loop), &w->poll);
		if (w->src.fd >= 0)
			loop_remove(w->loop, &w->src);
	}
	fd_close(&w->src.fd);
	fd_close(&w->folder);
	free(w);
}
