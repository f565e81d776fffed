/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "pasta/agent_message.h"
#include "pasta/agent_sockets.h"
#include "pasta/command.h"
#include "seccomp/sandbox.h"

struct agent {
	int sock;    /* to the engine */
	int release; /* writing end of the pipe on which the command waits, or -1 */
	int child_signal;
	pid_t command; /* 0: none, in a namespace that was joined */
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

static void add_part(struct agent_message *m, struct agent_fds *fds, uint32_t part, int *fd)
{
	m->ready.parts |= part;
	fds->fd[fds->count++] = take_fd(fd);
}

/* What shows who listens inside. That it can't be had is no reason to fail. */
static void add_views(struct agent_message *m, struct agent_fds *fds)
{
	struct ports_view v;
	int r = ports_view_open(&v);

	if (r < 0) {
		log_debug("sock_diag: %s", strerror(-r));
		return;
	}
	add_part(m, fds, AGENT_PART_DIAG, &v.diag);
	for (unsigned f = 0; f < IP_FAMILIES; f++) {
		if (v.sockstat[f] >= 0)
			add_part(m, fds, AGENT_PART_STAT(f), &v.sockstat[f]);
	}
}

/* Tap, addresses, routes, and the message that they are there. false: the user was told why not. */
static bool set_up_network(const struct pasta_config *cfg, struct agent_message *ready,
			   struct agent_fds *fds)
{
	struct tap_features features = {0};
	struct netconf_result result = {0};
	const char *step = "";
	cleanup_fd int tap = -1;
	bool makes_tap = !cfg->net.lo_only && !cfg->net.untouched;
	int r = makes_tap ? tun_open(cfg->net.ifname, &features, &tap, &step) : 0;

	if (r < 0) {
		log_tun_error(step, -r);
		return false;
	}
	if (!cfg->net.untouched)
		r = netconf_apply(&cfg->net, &result, &step);
	if (r < 0) {
		log_err("Can't set up the network of the namespace: %s: %s", step, strerror(-r));
		return false;
	}
	fds->fd[0] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fds->fd[0] < 0) {
		log_err("Can't make a socket in the namespace: %s", strerror(errno));
		return false;
	}
	fds->count = 1;
	agent_ready_pack(ready, &features, &result);
	if (tap >= 0)
		add_part(ready, fds, AGENT_PART_TAP, &tap);
	if (cfg->wants_ports)
		add_views(ready, fds);
	return true;
}

static bool say_ready(int sock, const struct agent_message *ready, struct agent_fds *fds)
{
	int r = agent_message_send(sock, ready, fds->fd, fds->count);

	if (r < 0)
		log_debug("Engine is gone: %s", strerror(-r));
	agent_fds_close(fds);
	return r == 0;
}

static _Noreturn void run_command(const struct pasta_config *cfg, int sock, int release)
{
	struct agent_message ready;
	struct agent_fds fds = {0};
	char byte;

	namespace_furnish(cfg->hostname);
	if (!set_up_network(cfg, &ready, &fds) || !say_ready(sock, &ready, &fds))
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
	_exit(agent_message_send(a->sock, &m, NULL, 0) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
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

static void let_command_start(struct agent *a)
{
	if (a->release < 0)
		return;
	if (write(a->release, "", 1) != 1)
		_exit(EXIT_FAILURE);
	fd_close(&a->release);
}

static void handle(struct agent *a)
{
	struct agent_message m;
	struct agent_fds fds cleanup_agent_fds = {0};
	int r = agent_message_receive(a->sock, ENGINE_TO_AGENT, false, &m, &fds);

	if (r == -EAGAIN)
		return;
	if (r < 0)
		_exit(EXIT_FAILURE); /* no network without an engine */
	switch (m.type) {
	case AGENT_RELEASE:
		let_command_start(a);
		break;
	case AGENT_SIGNAL:
		if (a->command > 0 && !signal_was_delivered(a, &m))
			kill(a->command, (int)m.signal.number); /* fails if it has just ended */
		break;
	default:
		if (agent_sockets_serve(a->sock, &m) < 0)
			_exit(EXIT_FAILURE);
	}
}

static _Noreturn void serve(struct agent *a)
{
	struct pollfd fds[] = {{.fd = a->child_signal, .events = POLLIN},
			       {.fd = a->sock, .events = POLLIN}};

	/* The child may have ended before SIGCHLD was blocked; ignored by default, the signal is
	 * lost then. */
	if (a->command > 0)
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

/* As many as the engine may ask for at once. The command keeps its caller's limit. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		log_debug("RLIMIT_NOFILE: %s", strerror(errno));
}

/* Leaves only 0 to 2 and those given, which move to 3 and on. */
static int keep_descriptors(int *const fds[], unsigned count)
{
	const int first = STDERR_FILENO + 1;

	for (unsigned i = 0; i < count; i++) {
		*fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, first + (int)count);
		if (*fds[i] < 0)
			return -errno;
	}
	for (unsigned i = 0; i < count; i++) {
		*fds[i] = dup3(*fds[i], first + (int)i, O_CLOEXEC);
		if (*fds[i] < 0)
			return -errno;
	}
	return close_range((unsigned)first + count, ~0U, 0) < 0 ? -errno : 0;
}

static int watch_children(struct agent *a)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &child, NULL) < 0)
		return -errno;
	a->child_signal = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	return a->child_signal < 0 ? -errno : 0;
}

static int seal(struct agent *a, const struct pasta_config *cfg, const char **step)
{
	int *const kept[] = {&a->sock, &a->release};
	int r;

	log_keep_stderr_only();
	raise_descriptor_limit();
	*step = "close_range";
	r = keep_descriptors(kept, 2);
	if (r < 0)
		return r;
	*step = "signalfd";
	r = watch_children(a);
	if (r < 0)
		return r;
	/* Its root is the caller's own user, and nobody else has a number in there. */
	r = sandbox_agent_enter(NULL, cfg->wants_listeners, step);
	return r < 0 ? r : sandbox_seal(SANDBOX_AGENT, step);
}

/* Nothing but the engine's end ends this one: neither a terminal nor who signals a whole group. */
static int ignore_signals(void)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
		if (signal(ignored[i], SIG_IGN) == SIG_ERR)
			return -errno;
	}
	return setsid() < 0 ? -errno : 0;
}

/* ready: descriptors that are still to be sent. *null: /dev/null, for stderr in the end. */
static int seal_joined(struct agent *a, const struct pasta_config *cfg, struct agent_fds *ready,
		       int *null, const char **step)
{
	int *kept[2 + AGENT_FDS_MAX] = {&a->sock, null};
	unsigned count = 2;
	int r;

	log_keep_stderr_only();
	raise_descriptor_limit();
	*step = "/dev/null";
	*null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (*null < 0 || dup2(*null, STDIN_FILENO) < 0 || dup2(*null, STDOUT_FILENO) < 0)
		return -errno;
	*step = "close_range";
	for (unsigned i = 0; i < ready->count; i++)
		kept[count++] = &ready->fd[i];
	r = keep_descriptors(kept, count);
	if (r < 0)
		return r;
	*step = "setsid";
	r = ignore_signals();
	if (r == 0)
		r = sandbox_agent_enter(&cfg->identity, cfg->wants_listeners, step);
	return r < 0 ? r : sandbox_seal(SANDBOX_AGENT_JOINED, step);
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
	r = seal(&a, cfg, &step);
	if (r < 0)
		fail(step, -r);
	memory_trim();
	serve(&a);
}

_Noreturn void agent_run_joined(const struct pasta_config *cfg,
				const struct namespace_target *target, int sock)
{
	struct agent a = {.sock = sock, .release = -1, .child_signal = -1};
	struct agent_message ready;
	struct agent_fds fds = {0};
	const char *step = "";
	int null = -1, r;

	/* The namespace may hold anything, so not dumpable before entering it. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		fail("PR_SET_DUMPABLE", errno);
	if (namespace_target_join(target) < 0 || !set_up_network(cfg, &ready, &fds))
		_exit(EXIT_FAILURE);
	if (!agent_stays(cfg))
		_exit(say_ready(sock, &ready, &fds) ? EXIT_SUCCESS : EXIT_FAILURE);
	r = seal_joined(&a, cfg, &fds, &null, &step);
	if (r < 0)
		fail(step, -r);
	if (!say_ready(a.sock, &ready, &fds))
		_exit(EXIT_FAILURE);
	/* A caller that reads what pasta says waits until nobody has the pipe any more. */
	if (cfg->background && dup3(null, STDERR_FILENO, 0) < 0)
		fail("/dev/null", errno);
	fd_close(&null);
	memory_trim();
	serve(&a);
}
