/* SPDX-License-Identifier: BSD-3-Clause */
/* A file that this process made and removes at its end, though by then its root is empty: the
 * folder is kept, and what is removed is what was made, not what somebody else put there. */
#ifndef PASST_OWN_FILE_H
#define PASST_OWN_FILE_H

#include <limits.h>
#include <sys/types.h>

#include "core/fd.h"

struct own_file {
	int dir; /* -1: none */
	dev_t device;
	ino_t inode;
	char name[NAME_MAX + 1];
};

/* Keeps the file at path, which exists. 0 or negative errno. */
int own_file_keep(const char *path, struct own_file *out) must_check;

/* Removes it, if it is still the same, and forgets it; no effect if there is none. */
void own_file_remove(struct own_file *f);

#endif
