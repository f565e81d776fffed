/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "pasta/agent_message.h"
#include "pasta/command.h"
#include "seccomp/sandbox.h"

struct agent {
	int sock;    /* to the engine */
	int release; /* writing end of the pipe on which the command waits, or -1 */
	int child_signal;
	pid_t command;
};

static void log_tun_error(const char *step, int err)
{
	const char *hint = "";

	if (err == ENOENT || err == ENODEV || err == ENXIO)
		hint = ": is there the device node, and is the module tun loaded?";
	else if (err == EACCES || err == EPERM)
		hint = ": check its permissions (usually 0666) and the device rules of a container";
	log_err("Can't make the tap device: %s: %s%s", step, strerror(err), hint);
}

/* Tap, addresses, routes, and the message that they are there. false: the user was told why not. */
static bool set_up_network(const struct pasta_config *cfg, int sock)
{
	struct tap_features features = {0};
	struct netconf_result result = {0};
	struct agent_message m;
	cleanup_fd int tap = -1;
	const char *step = "";
	int r = tun_open(cfg->net.ifname, &features, &tap, &step);

	if (r < 0) {
		log_tun_error(step, -r);
		return false;
	}
	r = netconf_apply(&cfg->net, &result, &step);
	if (r < 0) {
		log_err("Can't set up the network of the namespace: %s: %s", step, strerror(-r));
		return false;
	}
	agent_ready_pack(&m, &features, &result);
	r = agent_message_send(sock, &m, tap);
	if (r < 0)
		log_debug("Engine is gone: %s", strerror(-r));
	return r == 0;
}

static _Noreturn void run_command(const struct pasta_config *cfg, int sock, int release)
{
	char byte;

	namespace_furnish(cfg->hostname);
	if (!set_up_network(cfg, sock))
		_exit(EXIT_FAILURE);
	/* End of file instead of the byte: the agent died, and this process is about to. */
	if (read(release, &byte, 1) != 1)
		_exit(EXIT_FAILURE);
	command_exec(cfg->command);
	_exit(EXIT_FAILURE);
}

/* Says how the command ended, and ends: whatever is left in the PID namespace is killed then
 * (pid_namespaces(7)). */
static _Noreturn void command_ended(const struct agent *a, const siginfo_t *info)
{
	struct agent_message m = {.type = AGENT_EXITED};
	int status = info->si_status;

	if (info->si_code != CLD_EXITED)
		status += 128;
	m.exited.status = (uint32_t)status & 0xff;
	/* A process group outside has no number in here, so tcgetpgrp(3) gives 0 for it. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (tcgetpgrp(fd) > 0)
			m.exited.has_terminal = 1;
	}
	_exit(agent_message_send(a->sock, &m, -1) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void reap(const struct agent *a)
{
	struct signalfd_siginfo drain;
	ssize_t n = read(a->child_signal, &drain, sizeof(drain));

	(void)n; /* it only says "look"; what is there waitid() tells */
	for (;;) {
		siginfo_t info = {0};

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
			return;
		if (info.si_pid == a->command)
			command_ended(a, &info);
	}
}

/* The terminal has signalled its foreground group. If the command is still in the engine's group
 * (outside, so that both read as 0 here) it was reached by that. */
static bool signal_was_delivered(const struct agent *a, const struct agent_message *m)
{
	return m->signal.from_terminal && getpgid(a->command) == getpgrp();
}

static void handle(struct agent *a)
{
	struct agent_message m;
	cleanup_fd int fd = -1;
	int r = agent_message_receive(a->sock, ENGINE_TO_AGENT, &m, &fd);

	if (r == -EAGAIN)
		return;
	if (r < 0)
		_exit(EXIT_FAILURE); /* no network without an engine */
	if (m.type == AGENT_RELEASE && a->release >= 0) {
		if (write(a->release, "", 1) != 1)
			_exit(EXIT_FAILURE);
		fd_close(&a->release);
	} else if (m.type == AGENT_SIGNAL && !signal_was_delivered(a, &m)) {
		kill(a->command, (int)m.signal.number); /* fails if it has just ended */
	}
}

static _Noreturn void serve(struct agent *a)
{
	struct pollfd fds[] = {{.fd = a->child_signal, .events = POLLIN},
			       {.fd = a->sock, .events = POLLIN}};

	/* The child may have ended before SIGCHLD was blocked; ignored by default, the signal is
	 * lost then. */
	reap(a);
	for (;;) {
		if (poll(fds, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			_exit(EXIT_FAILURE);
		}
		if (fds[0].revents)
			reap(a);
		if (fds[1].revents)
			handle(a);
	}
}

/* Leaves only 0 to 2 and the two given, as descriptors 3 and 4. */
static int keep_descriptors(int *a, int *b)
{
	int copy_a = fcntl(*a, F_DUPFD_CLOEXEC, 5), copy_b = fcntl(*b, F_DUPFD_CLOEXEC, 5);

	if (copy_a < 0 || copy_b < 0 || dup3(copy_a, 3, O_CLOEXEC) < 0 ||
	    dup3(copy_b, 4, O_CLOEXEC) < 0 || close_range(5, ~0U, 0) < 0)
		return -errno;
	*a = 3;
	*b = 4;
	return 0;
}

static int seal(struct agent *a, const char **step)
{
	sigset_t child;
	int r;

	log_keep_stderr_only();
	*step = "close_range";
	r = keep_descriptors(&a->sock, &a->release);
	if (r < 0)
		return r;
	*step = "signalfd";
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &child, NULL) < 0)
		return -errno;
	a->child_signal = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->child_signal < 0)
		return -errno;
	r = sandbox_agent_enter(step);
	return r < 0 ? r : sandbox_seal(SANDBOX_AGENT, step);
}

static _Noreturn void fail(const char *step, int err)
{
	log_err("Can't start the agent: %s: %s", step, strerror(err));
	_exit(EXIT_FAILURE);
}

_Noreturn void agent_run(const struct pasta_config *cfg, int sock, uid_t uid, gid_t gid)
{
	struct agent a = {.sock = sock, .child_signal = -1};
	const char *step = "";
	int release[2], r;

	if (namespace_map_ids(uid, gid) < 0)
		_exit(EXIT_FAILURE);
	/* Before anything else runs in here: root inside must not be able to trace the agent.
	 * ptrace(2) of a process that is not dumpable needs CAP_SYS_PTRACE in the user namespace it
	 * was executed in, the caller's. exec(2) makes the command dumpable again. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		fail("PR_SET_DUMPABLE", errno);
	/* Belt and braces beside the end of file on sock; holds as long as the engine may signal
	 * us. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		fail("PR_SET_PDEATHSIG", errno);
	if (pipe2(release, O_CLOEXEC) < 0)
		fail("pipe", errno);
	a.command = fork();
	if (a.command < 0)
		fail("fork", errno);
	if (a.command == 0) {
		close(release[1]);
		run_command(cfg, sock, release[0]);
	}
	a.release = release[1];
	r = seal(&a, &step);
	if (r < 0)
		fail(step, -r);
	serve(&a);
}

_Noreturn void agent_run_joined(const struct pasta_config *cfg,
				const struct namespace_target *target, int sock)
{
	/* The namespace may hold anything, so not dumpable before entering it. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		fail("PR_SET_DUMPABLE", errno);
	if (namespace_target_join(target) < 0 || !set_up_network(cfg, sock))
		_exit(EXIT_FAILURE);
	_exit(EXIT_SUCCESS);
}
