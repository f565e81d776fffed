/* SPDX-License-Identifier: BSD-3-Clause */
/* File descriptors with owners. */
#ifndef CORE_FD_H
#define CORE_FD_H

#include <stdbool.h>

#define must_check __attribute__((warn_unused_result))

/* Closes *fd if it is not negative and sets it to -1; errno is kept. */
void fd_close(int *fd);

/* Declares a descriptor that is closed when its scope is left. */
#define cleanup_fd __attribute__((cleanup(fd_close)))

/* Moves ownership out of *fd: returns it and leaves -1 behind. */
static inline int take_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

#endif
