/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"

static int same_as(const struct own_file *f)
{
	struct stat st;

	if (fstatat(f->dir, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return st.st_dev == f->device && st.st_ino == f->inode ? 0 : -ESTALE;
}

int own_file_keep(const char *path, struct own_file *out)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t dir_len = slash ? (size_t)(slash - path) + 1 : 2;
	struct own_file f = {.dir = -1};
	char dir[PATH_MAX] = "./";
	struct stat st;

	if (strlen(name) >= sizeof(f.name) || dir_len >= sizeof(dir))
		return -ENAMETOOLONG;
	if (slash)
		memcpy(dir, path, dir_len);
	strcpy(f.name, name);
	f.dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (f.dir < 0)
		return -errno;
	if (fstatat(f.dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		int r = -errno;

		fd_close(&f.dir);
		return r;
	}
	f.device = st.st_dev;
	f.inode = st.st_ino;
	*out = f;
	return 0;
}

void own_file_remove(struct own_file *f)
{
	int r;

	if (f->dir < 0)
		return;
	r = same_as(f);
	if (!r && unlinkat(f->dir, f->name, 0) < 0)
		r = -errno;
	if (r < 0 && r != -ENOENT)
		log_debug("%s is not removed: %s", f->name, strerror(-r));
	fd_close(&f->dir);
}
