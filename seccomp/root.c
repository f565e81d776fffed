/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp/steps.h"

/* Read-only, and with no entry: a directory's link count is two and one for each folder in it. */
static int check_empty(void)
{
	struct statvfs fs;
	struct stat st;

	if (statvfs("/", &fs) < 0 || stat("/", &st) < 0)
		return -errno;
	return fs.f_flag & ST_RDONLY && st.st_nlink == 2 && access("/proc", F_OK) < 0 ? 0 : -EIO;
}

int step_empty_root(void)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;

	/* Private, so that nothing done here is seen elsewhere, and pivot_root(2) is allowed. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	/* On top of the root itself: no folder such as /tmp need exist. ".." of the root is the
	 * root, but the step follows what is mounted there (path_resolution(7)). */
	if (mount("empty", "/", "tmpfs", flags, "size=4096,nr_inodes=2,mode=555") < 0 ||
	    chdir("/..") < 0)
		return -errno;
	/* Old and new root in one place, without a folder to put the old one in: pivot_root(2),
	 * NOTES. */
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return check_empty();
}
