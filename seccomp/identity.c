/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp/steps.h"

/* Only the initial user namespace maps everything onto itself (user_namespaces(7)). */
static bool in_initial_user_namespace(void)
{
	cleanup_fd int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	unsigned long inside, outside, count;
	char text[128];
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
	       outside == 0 && count == UINT32_MAX;
}

/* A whole number, base 0 as in strtoul(3), and not (uid_t)-1, which setresuid(2) takes for "leave
 * alone". */
static bool parse_id(const char *text, unsigned *out)
{
	char *end;
	unsigned long n;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	n = strtoul(text, &end, 0);
	if (errno || *end || n >= UINT32_MAX)
		return false;
	*out = (unsigned)n;
	return true;
}

static int parse_runas(const char *runas, struct sandbox_identity *id)
{
	const char *colon = strchrnul(runas, ':');
	char login[256];
	int len = (int)(colon - runas);

	if (len == 0 || len >= (int)sizeof(login))
		return -EINVAL;
	snprintf(login, sizeof(login), "%.*s", len, runas);
	if (parse_id(login, &id->uid)) {
		id->gid = id->uid;
	} else {
		const struct passwd *pw = getpwnam(login);

		if (!pw)
			return -EINVAL;
		id->uid = pw->pw_uid;
		id->gid = pw->pw_gid;
	}
	if (*colon && !parse_id(colon + 1, &id->gid)) {
		const struct group *gr = getgrnam(colon + 1);

		if (!gr)
			return -EINVAL;
		id->gid = gr->gr_gid;
	}
	return id->uid == 0 ? -EINVAL : 0;
}

int sandbox_identity_get(const char *runas, struct sandbox_identity *out)
{
	struct sandbox_identity id = {.uid = geteuid(), .gid = getegid()};
	int r = 0;

	if (runas) {
		r = parse_runas(runas, &id);
		id.change = true;
	} else if (id.uid == 0 && in_initial_user_namespace()) {
		r = parse_runas("nobody", &id);
		id.change = true;
	}
	if (r < 0)
		return r;
	*out = id;
	return 0;
}

/* setresuid(2) empties the effective set even with PR_SET_KEEPCAPS. */
static int raise_permitted(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].effective = data[i].permitted;
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int step_identity(const struct sandbox_identity *id)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	/* Kept for a system that lets only root make namespaces; gone with all others in a later
	 * step. */
	if (prctl(PR_SET_KEEPCAPS, 1) < 0)
		return -errno;
	/* EPERM: in a user namespace that gave setgroups(2) up. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return -errno;
	if (setresgid(id->gid, id->gid, id->gid) < 0 || setresuid(id->uid, id->uid, id->uid) < 0)
		return -errno;
	if (getresuid(&ruid, &euid, &suid) < 0 || getresgid(&rgid, &egid, &sgid) < 0)
		return -errno;
	if (ruid != id->uid || euid != id->uid || suid != id->uid || rgid != id->gid ||
	    egid != id->gid || sgid != id->gid)
		return -EIO;
	return raise_permitted();
}
