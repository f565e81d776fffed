/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests in network namespaces of their own: as root, or as a user who may make user namespaces.
 */
#ifndef TEST_NETNS_H
#define TEST_NETNS_H

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void netns_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* Moves this process into a new network namespace, with lo down and nothing else. */
static inline void netns_new(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[32];

	if (uid) {
		assert_int_equal(unshare(CLONE_NEWUSER), 0);
		snprintf(map, sizeof(map), "0 %u 1", uid);
		netns_write("/proc/self/uid_map", map);
		netns_write("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", gid);
		netns_write("/proc/self/gid_map", map);
	}
	assert_int_equal(unshare(CLONE_NEWNET), 0);
}

/* Runs ip(8) on each line of commands; all must succeed. */
static inline void netns_ip(const char *commands)
{
	FILE *f = popen("ip -batch -", "w");

	assert_non_null(f);
	fputs(commands, f);
	assert_int_equal(pclose(f), 0);
}

/* What a shell command prints, to be freed. */
static inline char *netns_output(const char *command)
{
	char *text = NULL, buf[4096];
	size_t len = 0, n;
	FILE *all = open_memstream(&text, &len), *f = popen(command, "r");

	assert_non_null(all);
	assert_non_null(f);
	while ((n = fread(buf, 1, sizeof(buf), f)))
		fwrite(buf, 1, n, all);
	assert_int_equal(pclose(f), 0);
	fclose(all);
	return text;
}

#endif
