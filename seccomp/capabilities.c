/* SPDX-License-Identifier: BSD-3-Clause */
#include <cap-ng.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp/steps.h"

/* The bounding set goes and is read back by calls of our own: to know it libcap-ng reads
 * /proc/PID/status with the PID it has in its own PID namespace, which in the agent is another
 * process, and behind an empty root none. */

/* The kernel's last capability is the one after which prctl(2) finds none: EINVAL
 * (capabilities(7)). */
static int drop_bounding(void)
{
	unsigned cap = 0;

	while (prctl(PR_CAPBSET_DROP, cap) == 0)
		cap++;
	return errno == EINVAL && cap > 0 ? 0 : -errno;
}

static bool only_kept(int keep, bool bounding)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	int in_bounding;

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t kept = keep >= 0 && (unsigned)keep / 32 == i ? 1U << keep % 32 : 0;

		if (data[i].effective != kept || data[i].permitted != kept || data[i].inheritable)
			return false;
	}
	for (unsigned cap = 0; (in_bounding = prctl(PR_CAPBSET_READ, cap)) >= 0; cap++) {
		if ((bounding && in_bounding) ||
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) != 0)
			return false;
	}
	return true;
}

int step_capabilities(int keep)
{
	int r = drop_bounding(); /* first: it needs CAP_SETPCAP */

	if (r < 0 && r != -EPERM)
		return r;
	capng_clear(CAPNG_SELECT_CAPS);
	if (keep >= 0 && capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, (unsigned)keep))
		return -EINVAL;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    capng_apply(CAPNG_SELECT_CAPS) < 0)
		return -errno;
	return only_kept(keep, r == 0) ? r : -EIO;
}
