/* SPDX-License-Identifier: BSD-3-Clause */
/* The sandbox on forked children: what is left to them, what a call that isn't allowed leads to.
 * Runs as any user. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/log.h"
#include "nat/forward.h"
#include "seccomp/sandbox.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- a child, what it writes to stderr and how it ends ---- */

struct child {
	pid_t pid;
	int err; /* reading end of its stderr */
	int go;  /* a byte here, and it goes on after pause_here() */
	int at;  /* a byte comes from here when it is there */
};

static void pause_here(const int ends[2])
{
	char byte = 'x';

	if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
		_exit(99);
}

static struct child start(int (*body)(const void *arg, const int pause_ends[2]), const void *arg)
{
	int err[2], go[2], at[2];
	struct child c;

	assert_int_equal(pipe(err), 0);
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(at), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		dup2(err[1], STDERR_FILENO);
		_exit(body(arg, (const int[]){go[0], at[1]}));
	}
	close(err[1]);
	close(go[0]);
	close(at[1]);
	c.err = err[0];
	c.go = go[1];
	c.at = at[0];
	return c;
}

/* Status as a shell has it; what came on stderr in text. */
static int finish(struct child *c, char *text, size_t room)
{
	size_t len = 0;
	ssize_t n;
	int status;

	while (len < room - 1 && (n = read(c->err, text + len, room - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(c->err);
	close(c->go);
	close(c->at);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The value of a line of /proc/PID/status. */
static unsigned long long status_field(pid_t pid, const char *name, int base)
{
	char path[64], line[256];
	unsigned long long value = 0;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':') {
			value = strtoull(line + strlen(name) + 1, NULL, base);
			found = true;
		}
	}
	fclose(f);
	assert_true(found);
	return value;
}

/* ---- the filter ---- */

struct attempt {
	enum sandbox_profile profile;
	const char *name;
	long number, a, b, c;
};

static int seal_and_call(const void *arg, const int pause_ends[2])
{
	const struct attempt *t = arg;
	const char *step = "";

	(void)pause_ends;
	if (sandbox_seal(t->profile, &step) < 0)
		return 98;
	syscall(t->number, t->a, t->b, t->c, 0, 0, 0);
	return 97; /* it was let through */
}

static void forbidden_calls_end_the_process_with_their_name(void **state)
{
	const struct attempt attempts[] = {
#define BOTH(name, ...)                                                                            \
	{SANDBOX_ENGINE_PASTA, #name, SYS_##name, __VA_ARGS__},                                    \
	    {SANDBOX_AGENT, #name, SYS_##name, __VA_ARGS__}
#define VMS(name, ...)                                                                             \
	{SANDBOX_ENGINE_PASST, #name, SYS_##name, __VA_ARGS__},                                    \
	{                                                                                          \
		SANDBOX_ENGINE_VHOST, #name, SYS_##name, __VA_ARGS__                               \
	}
	    BOTH(openat, AT_FDCWD, 0, 0),
	    BOTH(clone, SIGCHLD, 0, 0),
	    BOTH(execve, 0, 0, 0),
	    BOTH(unshare, CLONE_NEWUSER, 0, 0),
	    BOTH(setns, 0, 0, 0),
	    BOTH(ptrace, PTRACE_TRACEME, 0, 0),
	    BOTH(prctl, PR_SET_DUMPABLE, 1, 0),
	    BOTH(mmap, 0, 4096, PROT_READ | PROT_EXEC),
	    BOTH(mprotect, 0, 0, PROT_EXEC),
	    BOTH(ioctl, 0, (int)TUNSETIFF, 0),
	    BOTH(socket, AF_UNIX, SOCK_STREAM, 0),
	    BOTH(socket, AF_NETLINK, SOCK_RAW, 0),
	    BOTH(socket, AF_PACKET, SOCK_DGRAM, 0),
	    BOTH(socket, AF_INET, SOCK_RAW, IPPROTO_ICMP),
	    BOTH(kill, 1, SIGKILL, 0),
	    BOTH(kill, -1, SIGSTOP, 0),
	    /* What one kind of engine needs, the others don't have. */
	    VMS(splice, 0, 0, 0),
	    VMS(pipe2, 0, 0, 0),
	    VMS(waitid, P_ALL, 0, 0),
	    VMS(ioctl, 0, (int)TUNSETPERSIST, 0),
	    VMS(ioctl, 0, TIOCSPGRP, 0),
	    VMS(openat, AT_FDCWD, 0, 0),
	    VMS(execve, 0, 0, 0),
	    VMS(kill, 1, SIGTERM, 0),
	    VMS(socket, AF_UNIX, SOCK_STREAM, 0),
	    VMS(mmap, 0, 4096, PROT_READ | PROT_EXEC),
	    VMS(renameat2, AT_FDCWD, 0, AT_FDCWD),
	    VMS(linkat, AT_FDCWD, 0, AT_FDCWD),
	    {SANDBOX_ENGINE_PASST, "fcntl", SYS_fcntl, 0, F_ADD_SEALS, 0},
	    {SANDBOX_ENGINE_PASTA, "fcntl", SYS_fcntl, 0, F_ADD_SEALS, 0},
	    {SANDBOX_ENGINE_PASTA, "unlinkat", SYS_unlinkat, AT_FDCWD, 0, 0},
	    {SANDBOX_ENGINE_PASTA, "kill", SYS_kill, 1, SIGTERM, 0},
	    {SANDBOX_ENGINE_PASTA, "fcntl", SYS_fcntl, 0, F_SETOWN, 1},
	    {SANDBOX_AGENT, "accept4", SYS_accept4, 0, 0, 0},
	    {SANDBOX_AGENT, "dup3", SYS_dup3, STDERR_FILENO, 5, 0},
	    {SANDBOX_AGENT, "connect", SYS_connect, 0, 0, 0},
	    {SANDBOX_AGENT, "ioctl", SYS_ioctl, 0, TIOCSPGRP, 0},
	    {SANDBOX_AGENT, "dup3", SYS_dup3, 5, STDERR_FILENO, 0},
	    {SANDBOX_AGENT_JOINED, "kill", SYS_kill, 1, SIGTERM, 0},
	    {SANDBOX_AGENT_JOINED, "waitid", SYS_waitid, P_ALL, 0, 0},
	    {SANDBOX_AGENT_JOINED, "connect", SYS_connect, 0, 0, 0},
	    {SANDBOX_AGENT_JOINED, "dup3", SYS_dup3, 5, STDIN_FILENO, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(attempts); i++) {
		struct child c = start(seal_and_call, &attempts[i]);
		char text[512], want[256];
		int status = finish(&c, text, sizeof(text));

		snprintf(want, sizeof(want),
			 "%s: system call %ld (%s) is not allowed by the sandbox\n",
			 program_invocation_short_name, attempts[i].number, attempts[i].name);
		assert_string_equal(text, want);
		assert_int_equal(status, 128 + SIGSYS);
	}
}

static int engine_works(const void *arg, const int pause_ends[2])
{
	const char *step = "";
	struct epoll_event ev;
	int r = 0, epoll = epoll_create1(0), ended;
	char *p;

	(void)arg;
	(void)pause_ends;
	ended = fork();
	if (ended == 0)
		_exit(0);
	if (sandbox_seal(SANDBOX_ENGINE_PASTA, &step) < 0)
		return 1;
	for (int i = 0; i < 4; i++) {
		int fd =
		    socket(i & 1 ? AF_INET : AF_INET6,
			   (i & 2 ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		if (fd < 0 && errno != EAFNOSUPPORT)
			return 2;
		close(fd);
	}
	/* Large and small, kept and given back: every way malloc has to the kernel. */
	for (size_t size = 16; size < 64u << 20; size *= 4) {
		p = malloc(size);
		if (!p)
			return 3;
		memset(p, 1, size < 4096 ? size : 4096);
		p = realloc(p, size * 2);
		free(p);
	}
	r = epoll_wait(epoll, &ev, 1, 0);
	return r == 0 && waitid(P_PID, (id_t)ended, &(siginfo_t){0}, WEXITED) == 0 ? 0 : 4;
}

/* Those without an address, and those of rules, under the filter. */
static bool opens_sockets(void)
{
	struct rule rule = {.addr = ip_loopback[IP_V4], .ifname = "lo", .first = 1, .last = 1};

	for (int i = 0; i < 8; i++) {
		int fd =
		    socket(i & 1 ? AF_INET : AF_INET6,
			   (i & 2 ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		if (fd < 0 && errno != EAFNOSUPPORT)
			return false;
		close(fd);
		rule.proto = i & 1 ? IPPROTO_TCP : IPPROTO_UDP;
		rule.dual_stack = i & 2;
		rule.addr = ip_loopback[i & 4 ? IP_V4 : IP_V6];
		if (forward_open(&rule, 0, false, &fd) == 0)
			close(fd);
		else if (i & 4)
			return false;
	}
	return true;
}

static int agent_works(const void *arg, const int pause_ends[2])
{
	const char *step = "";
	struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLIN};
	pid_t child = fork();
	siginfo_t info = {0};

	(void)arg;
	(void)pause_ends;
	if (child == 0) {
		pause();
		_exit(0);
	}
	if (sandbox_seal(SANDBOX_AGENT, &step) < 0)
		return 1;
	if (!opens_sockets())
		return 5;
	if (poll(&fd, 1, 0) < 0 || getpgid(child) != getpgrp() || kill(child, SIGTERM) < 0)
		return 2;
	if (waitid(P_ALL, 0, &info, WEXITED) < 0 || info.si_pid != child)
		return 3;
	return info.si_status == SIGTERM ? 0 : 4;
}

static int joined_agent_works(const void *arg, const int pause_ends[2])
{
	const char *step = "";
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)arg;
	(void)pause_ends;
	if (null < 0 || sandbox_seal(SANDBOX_AGENT_JOINED, &step) < 0)
		return 1;
	return opens_sockets() && dup3(null, STDERR_FILENO, 0) == STDERR_FILENO ? 0 : 2;
}

/* Lines far past the limit, so that the file is cut more than once, and the flush at the end. */
static int log_works(const void *arg, const int pause_ends[2])
{
	const char *step = "";
	int fd = memfd_create("log", MFD_CLOEXEC);
	struct stat st;

	(void)arg;
	(void)pause_ends;
	log_open_syslog("test");
	log_set_stderr(false, false);
	if (fd < 0 || log_open_file(fd, "header", 40960) < 0 ||
	    sandbox_seal(SANDBOX_ENGINE_PASTA, &step) < 0)
		return 1;
	for (int i = 0; i < 3000; i++)
		log_debug("this line is only written at debug level %d", i);
	log_set_threshold(LOG_LEVEL_DEBUG);
	for (int i = 0; i < 3000; i++)
		log_debug("one of many lines, of which only the last are kept %d", i);
	log_close();
	return fstat(fd, &st) == 0 && st.st_size > 20480 && st.st_size <= 40960 ? 0 : 2;
}

static void what_they_need_is_allowed(void **state)
{
	int (*const bodies[])(const void *, const int[2]) = {engine_works, agent_works,
							     joined_agent_works, log_works};

	(void)state;
	for (size_t i = 0; i < COUNT(bodies); i++) {
		struct child c = start(bodies[i], NULL);
		char text[512];
		int status = finish(&c, text, sizeof(text));

		assert_string_equal(text, "");
		assert_int_equal(status, 0);
	}
}

/* ---- all of it ---- */

static int enter_and_seal(const void *arg, const int pause_ends[2])
{
	struct sandbox_identity id;
	const char *step = "";
	int r = sandbox_identity_get(arg, &id);

	if (r == 0)
		r = sandbox_engine_enter(&id, false, &step);
	if (r < 0 || step) {
		dprintf(STDERR_FILENO, "%s: %s\n", step, strerror(-r));
		return 1;
	}
	r = sandbox_seal(SANDBOX_ENGINE_PASTA, &step);
	if (r < 0)
		return 2;
	pause_here(pause_ends);
	return 0;
}

static void check_confined(pid_t pid)
{
	const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};

	for (size_t i = 0; i < COUNT(sets); i++)
		assert_int_equal(status_field(pid, sets[i], 16), 0);
	assert_int_equal(status_field(pid, "NoNewPrivs", 10), 1);
	assert_int_equal(status_field(pid, "Seccomp", 10), 2);
}

static void check_identity(pid_t pid, unsigned long long uid, unsigned long long gid)
{
	assert_int_equal(status_field(pid, "Uid", 10), uid);
	assert_int_equal(status_field(pid, "Gid", 10), gid);
}

static void engine_keeps_nothing(void **state)
{
	struct child c = start(enter_and_seal, NULL);
	struct sandbox_identity id;
	char text[512], byte;

	(void)state;
	assert_int_equal(sandbox_identity_get(NULL, &id), 0);
	if (read(c.at, &byte, 1) == 1) {
		check_confined(c.pid);
		check_identity(c.pid, id.uid, id.gid);
		assert_int_equal(write(c.go, "x", 1), 1);
	}
	assert_int_equal(finish(&c, text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

static int identity_of(const char *runas, struct sandbox_identity *id)
{
	*id = (struct sandbox_identity){.uid = 77, .gid = 77};
	return sandbox_identity_get(runas, id);
}

static void runas_forms(void **state)
{
	const char *const bad[] = {"",
				   ":",
				   "0",
				   "root",
				   "0:5",
				   "-1",
				   "4294967295",
				   "12x",
				   "12:4x",
				   "5:",
				   ":5",
				   "no-such-login",
				   "5:no-such-group"};
	struct sandbox_identity id;

	(void)state;
	assert_int_equal(identity_of("12345", &id), 0);
	assert_true(id.change && id.uid == 12345 && id.gid == 12345);
	assert_int_equal(identity_of("12345:54321", &id), 0);
	assert_true(id.change && id.uid == 12345 && id.gid == 54321);
	assert_int_equal(identity_of("0x10:010", &id), 0);
	assert_true(id.uid == 16 && id.gid == 8);
	assert_int_equal(identity_of("nobody", &id), 0);
	assert_true(id.uid == 65534 && id.gid == getgrnam("nogroup")->gr_gid);
	assert_int_equal(identity_of("nobody:daemon", &id), 0);
	assert_true(id.uid == 65534 && id.gid == getgrnam("daemon")->gr_gid);
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_int_equal(identity_of(bad[i], &id), -EINVAL);
		assert_int_equal(id.uid, 77);
	}
}

static void runas_as_root_holds_and_else_fails(void **state)
{
	struct child c = start(enter_and_seal, "12345:54321");
	char text[512], byte;
	int status;

	(void)state;
	if (read(c.at, &byte, 1) == 1) {
		check_confined(c.pid);
		check_identity(c.pid, 12345, 54321);
		assert_int_equal(write(c.go, "x", 1), 1);
	}
	status = finish(&c, text, sizeof(text));
	assert_int_equal(status, geteuid() == 0 ? 0 : 1);
	assert_string_equal(text,
			    geteuid() == 0 ? "" : "user and group: Operation not permitted\n");
}

/* Where no namespace is to be had, the rest holds all the same, and the caller learns of it. */
static int enter_without_namespaces(const void *arg, const int pause_ends[2])
{
	const struct sandbox_identity id = {0};
	const char *step = "";
	int fd, r;

	(void)arg;
	/* A user namespace that may have no others, and this process without rights in it. */
	if (unshare(CLONE_NEWUSER) < 0)
		return 96;
	fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		return 95;
	if (sandbox_engine_enter(&id, false, &step) < 0) /* had CAP_SYS_ADMIN: goes without one */
		return 1;
	if (step)
		return 2;
	r = sandbox_engine_enter(&id, false, &step);
	if (r < 0 || !step || strcmp(step, "own namespaces"))
		return 3;
	if (sandbox_seal(SANDBOX_ENGINE_PASTA, &step) < 0)
		return 4;
	pause_here(pause_ends);
	return 0;
}

static void refused_namespaces_leave_the_rest(void **state)
{
	struct child c = start(enter_without_namespaces, NULL);
	char text[512], byte;

	(void)state;
	if (read(c.at, &byte, 1) == 1) {
		check_confined(c.pid);
		assert_int_equal(write(c.go, "x", 1), 1);
	}
	assert_int_equal(finish(&c, text, sizeof(text)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(forbidden_calls_end_the_process_with_their_name),
	    cmocka_unit_test(what_they_need_is_allowed),
	    cmocka_unit_test(engine_keeps_nothing),
	    cmocka_unit_test(runas_forms),
	    cmocka_unit_test(runas_as_root_holds_and_else_fails),
	    cmocka_unit_test(refused_namespaces_leave_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
