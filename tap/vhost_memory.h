/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest's memory, as its front end shares it: regions of files, mapped here. Every address that
 * comes from the guest or the front end becomes a pointer in this file alone. Inside tap/ only. */
#ifndef TAP_VHOST_MEMORY_H
#define TAP_VHOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/fd.h"

/* What one can add at most: more than any machine type's slots in use. */
#define VHOST_REGIONS_MAX 64

/* As in the messages (vhost-user specification, "Memory region description"). */
struct vhost_region {
	uint64_t guest_addr, size, user_addr, file_offset;
};

struct vhost_memory;

/* Has the process survive that a file becomes shorter under its mapping, which only the front end
 * can do: where it ends, there are zeros from then on, for the traffic of that front end's guest to
 * suffer from. Without it each access would be the end (SIGBUS, mmap(2)). For the whole process. 0
 * or negative errno. */
int vhost_memory_survive(void) must_check;

int vhost_memory_new(struct vhost_memory **out) must_check;
void vhost_memory_free(struct vhost_memory *m);

/* Maps a region of the file fd, which is taken over, also on failure. One that is there already,
 * with the same addresses and size, is no other. -EINVAL: the region is empty, wraps round,
 * overlaps with another one in either address space, or ends behind the file's end; -ENOSPC: too
 * many; else the errno of a call. */
int vhost_memory_add(struct vhost_memory *m, const struct vhost_region *r, int fd) must_check;

/* Unmaps the region with these addresses and size, if there is one. */
void vhost_memory_remove(struct vhost_memory *m, const struct vhost_region *r);

/* Unmaps everything. The log of writes stays. */
void vhost_memory_clear(struct vhost_memory *m);

/* Where the guest's physical address is mapped, and in *run how much of len (at least 1) lies there
 * in one piece. NULL if it is nowhere. */
void *vhost_memory_guest(struct vhost_memory *m, uint64_t addr, uint64_t len, uint64_t *run);

/* Where len bytes at an address of the front end's are mapped in one piece, or NULL. */
void *vhost_memory_user(struct vhost_memory *m, uint64_t addr, uint64_t len);

/* From now on each page of the guest's that is written sets a bit in size bytes of the file fd (a
 * bit a page of 4096 bytes, by guest address: vhost-user specification, "Migration"). fd is taken
 * over. 0 or negative errno. */
int vhost_memory_set_log(struct vhost_memory *m, int fd, uint64_t size, uint64_t offset) must_check;
void vhost_memory_enable_log(struct vhost_memory *m, bool on);
void vhost_memory_drop_log(struct vhost_memory *m);

/* Notes that len bytes at a pointer given out by this module were written. */
void vhost_memory_written(struct vhost_memory *m, const void *at, size_t len);

#endif
