/* SPDX-License-Identifier: BSD-3-Clause */
/* Going to the background: the parent ends only when the child says that all is ready. */
#ifndef PASST_DAEMON_H
#define PASST_DAEMON_H

#include "passt/files.h"

/* Forks. Returns in the child only, in a session of its own, with *ready_fd for daemon_ready(). The
 * parent waits for that, writes the PID file and exits 0, or 1 if the child ended first. 0 or
 * negative errno (no child was made). */
int daemon_fork(struct files *f, int *ready_fd) must_check;

/* Child: 0 to 2 go to /dev/null, and the parent may go. Takes over ready_fd. 0 or negative errno.
 */
int daemon_ready(struct files *f, int ready_fd) must_check;

#endif
