/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static _Noreturn void parent(struct files *f, pid_t child, int fd)
{
	char byte;
	sigset_t all;
	ssize_t n;

	/* What ends this process ends the start: the child finds nobody to tell that it is ready,
	 * and tidies up. */
	sigfillset(&all);
	(void)sigprocmask(SIG_UNBLOCK, &all, NULL);
	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(1); /* the child said why */
	_exit(files_write_pid(f, child) < 0);
}

int daemon_fork(struct files *f, int *ready_fd)
{
	int pipe_fds[2];
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		int r = -errno;

		fd_close(&pipe_fds[0]);
		fd_close(&pipe_fds[1]);
		return r;
	}
	if (pid) {
		fd_close(&pipe_fds[1]);
		parent(f, pid, pipe_fds[0]);
	}
	fd_close(&pipe_fds[0]);
	fd_close(&f->pid);
	if (setsid() < 0)
		return -errno;
	*ready_fd = pipe_fds[1];
	return 0;
}

int daemon_ready(struct files *f, int ready_fd)
{
	int r = 0;

	for (int fd = 0; fd <= 2; fd++) {
		if (dup2(f->null, fd) < 0)
			r = -errno;
	}
	if (!r && write(ready_fd, "", 1) != 1)
		r = -errno;
	if (r < 0)
		log_err("Can't go to the background: %s", strerror(-r));
	fd_close(&ready_fd);
	return r;
}
