/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/log.h"
#include "seccomp/steps.h"

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1 /* asm-generic/siginfo.h, which can't be included beside the C library's */
#endif

/* The filter's verdict on any call but those allowed is this signal. It comes at the call itself,
 * and those that malloc(3) makes are allowed, so that nothing is held here that the functions below
 * would wait for. */
static void name_call_and_end(int number, siginfo_t *info, void *context)
{
	char *name, line[160];
	int n;

	(void)context;
	if (info->si_code != SYS_SECCOMP)
		return; /* from kill(2): root in the namespace may signal the agent, having a
			   handler */
	name = seccomp_syscall_resolve_num_arch(info->si_arch, info->si_syscall);
	n = snprintf(line, sizeof(line), "%s: system call %d (%s) is not allowed by the sandbox\n",
		     program_invocation_short_name, info->si_syscall, name ? name : "unknown");
	if (n > 0)
		log_raw(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
	_exit(128 + number);
}

static int catch_verdict(void)
{
	struct sigaction sa = {.sa_sigaction = name_call_and_end, .sa_flags = SA_SIGINFO};
	sigset_t set;

	sigemptyset(&sa.sa_mask);
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	if (sigaction(SIGSYS, &sa, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &set, NULL) < 0)
		return -errno;
	return 0;
}

static int allow(scmp_filter_ctx ctx, const struct profile_call *call)
{
	struct scmp_arg_cmp cmp[PROFILE_CONDITIONS];
	unsigned n = 0;

	for (unsigned i = 0; i < PROFILE_CONDITIONS; i++) {
		if (call->when[i].mask)
			cmp[n++] = SCMP_CMP(call->when[i].argument, SCMP_CMP_MASKED_EQ,
					    call->when[i].mask, call->when[i].value);
	}
	return seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, call->number, n, cmp);
}

static int build(scmp_filter_ctx ctx, enum sandbox_profile profile)
{
	const struct profile_list *lists = profile_lists(profile);
	/* A call by another architecture's numbers isn't worth a line: nothing of ours makes one.
	 * no_new_privs is our own step. */
	int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0);
	/* A binary tree over the numbers. Calls allowed whatever their arguments cost nothing in
	 * any case: the kernel keeps a bitmap of them (since 5.11). */
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t l = 0; l < PROFILE_LISTS; l++) {
		for (size_t i = 0; r == 0 && i < lists[l].count; i++)
			r = allow(ctx, &lists[l].calls[i]);
	}
	return r;
}

int step_filter(enum sandbox_profile profile)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_TRAP);
	int r;

	if (!ctx)
		return -ENOMEM;
	r = build(ctx, profile);
	if (r == 0)
		r = catch_verdict();
	if (r == 0)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	if (r == 0 && prctl(PR_GET_SECCOMP) != SECCOMP_MODE_FILTER)
		r = -EIO;
	return r;
}
