/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/pasta.h"

#include <errno.h>
#include <linux/if_tun.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "pasta/agent.h"
#include "pasta/ns_sockets.h"
#include "pasta/watch.h"

/* How long the engine waits for an answer. */
#define ANSWER_SECONDS 1
#define LEAVE_SECONDS  2

struct pasta {
	bool has_command;
	bool agent_stays;
	bool no_tap; /* comes from the agent */
	bool leads_session;
	pid_t agent; /* a child to be waited for, or 0; of another process once that is a daemon */
	struct ns_sockets *sockets;
	struct ports_view ports;
	struct netns_watch *watch;
	struct loop *loop;
	struct loop_source agent_src;  /* the socket to the agent */
	struct loop_source signal_src; /* signalfd */
	int terminal;        /* descriptor of it if we are its foreground group, else -1 */
	bool terminal_taken; /* a group inside was in the foreground at the end */
};

/* Waits for the agent, but not for ever: PID 1 ends only when everybody in its PID namespace was
 * reaped, and who was sent there from outside (nsenter(1)) has a parent that might not do so. Its
 * end as a shell has it. SIGCHLD is blocked. */
static int reap_agent(struct pasta *p)
{
	const struct timespec patience = {.tv_sec = LEAVE_SECONDS};
	siginfo_t info = {0};
	sigset_t child;
	int r;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		r = waitid(P_PID, (id_t)p->agent, &info, WEXITED | WNOHANG);
		if (r < 0 || info.si_pid)
			break;
		if (sigtimedwait(&child, NULL, &patience) < 0 && errno == EAGAIN)
			break;
	}
	p->agent = 0;
	if (r < 0 || !info.si_pid)
		return EXIT_FAILURE;
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

static int fork_agent(struct pasta *p, const struct pasta_config *cfg,
		      const struct namespace_target *target, int sock)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	sigset_t child, callers;
	int r = 0;

	/* An inherited SIG_IGN would have the kernel reap our child unseen (sigaction(2)). Blocked
	 * for reap_agent(); who is forked here has the caller's mask. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &child, &callers);
	if (p->has_command) {
		r = namespace_clone(&p->agent);
	} else {
		p->agent = fork();
		if (p->agent < 0) {
			r = -errno;
			log_err("Can't fork: %s", strerror(-r));
			p->agent = 0;
		}
	}
	if (r < 0 || p->agent)
		return r;
	sigprocmask(SIG_SETMASK, &callers, NULL);
	fd_close(&p->agent_src.fd); /* else it would never see our end */
	if (p->has_command)
		agent_run(cfg, sock, uid, gid);
	agent_run_joined(cfg, target, sock);
}

/* The data path relies on these flags (tap/tap.h), so they aren't taken on trust. */
static bool is_tap(int fd)
{
	const short flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
	struct ifreq ifr = {0};

	return ioctl(fd, TUNGETIFF, &ifr) == 0 && (ifr.ifr_flags & flags) == flags;
}

static bool is_diag(int fd)
{
	int domain = 0, protocol = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_NETLINK &&
	       getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
	       protocol == NETLINK_SOCK_DIAG;
}

/* Reading anything else might take for ever. */
static bool is_proc_file(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* The descriptors behind the first, each into its place. */
static int take_parts(struct pasta *p, uint32_t parts, struct agent_fds *fds, int *tap)
{
	unsigned next = 1;

	if (parts & AGENT_PART_TAP) {
		*tap = take_fd(&fds->fd[next++]);
		if (!is_tap(*tap))
			return -EBADMSG;
	}
	if (parts & AGENT_PART_DIAG) {
		p->ports.diag = take_fd(&fds->fd[next++]);
		if (!is_diag(p->ports.diag))
			return -EBADMSG;
	}
	for (unsigned f = 0; f < IP_FAMILIES; f++) {
		if (!(parts & AGENT_PART_STAT(f)))
			continue;
		p->ports.sockstat[f] = take_fd(&fds->fd[next++]);
		if (!is_proc_file(p->ports.sockstat[f]))
			return -EBADMSG;
	}
	return 0;
}

static int await_answer(void *arg);

static int take_ready(struct pasta *p, const struct agent_message *m, struct agent_fds *fds,
		      int *tap)
{
	const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	int sock = p->agent_src.fd, r = take_parts(p, m->ready.parts, fds, tap);

	if (r == 0 && (*tap >= 0) == p->no_tap)
		r = -EBADMSG;
	/* The set-up may have taken its time; from now on nobody waits long. */
	if (r == 0 && p->agent_stays &&
	    (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	     setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0))
		r = -errno;
	if (r == 0)
		r = ns_sockets_new(sock, fds->fd[0], await_answer, p, &p->sockets);
	if (r == 0 && !p->agent_stays)
		ns_sockets_lost(p->sockets);
	if (r < 0)
		log_err("Can't work with the agent: %s", strerror(-r));
	return r;
}

static int await_ready(struct pasta *p, int *tap, struct tap_features *features,
		       struct netconf_result *result)
{
	struct agent_message m;
	struct agent_fds fds cleanup_agent_fds = {0};
	cleanup_fd int fd = -1;
	int r = agent_message_receive(p->agent_src.fd, AGENT_TO_ENGINE, true, &m, &fds);

	if (r == 0 && m.type == AGENT_READY)
		r = take_ready(p, &m, &fds, &fd);
	else if (r == 0)
		r = -ECHILD; /* EXITED: the set-up failed and said why */
	else if (r == -EBADMSG)
		log_err("Malformed message from the agent");
	if (!p->agent_stays || r == -ECONNRESET) {
		int status = reap_agent(p);

		if (r == -ECONNRESET && status >= 128)
			log_err("The agent was ended by signal %d", status - 128);
	}
	if (r < 0)
		return r;
	if (!p->agent_stays)
		fd_close(&p->agent_src.fd);
	agent_ready_unpack(&m, features, result);
	*tap = take_fd(&fd);
	return 0;
}

static int find_terminal(void)
{
	pid_t group = getpgrp();

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (tcgetpgrp(fd) == group)
			return fd;
	}
	return -1;
}

static int start(struct pasta *p, const struct pasta_config *cfg, struct namespace_target *target)
{
	cleanup_fd int agent_end = -1;
	int pair[2], r;

	if (!p->has_command) {
		r = namespace_target_open(target, cfg->target_pid, cfg->netns, cfg->userns,
					  cfg->netns_only);
		if (r < 0)
			return r;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		r = -errno;
		log_err("Can't make a socket pair: %s", strerror(-r));
		return r;
	}
	p->agent_src.fd = pair[0];
	agent_end = pair[1];
	r = fork_agent(p, cfg, target, agent_end);
	if (r < 0)
		return r;
	if (!p->has_command && cfg->netns_quit)
		r = netns_watch_new(target, &p->watch);
	return r;
}

int pasta_start(const struct pasta_config *cfg, struct pasta **out, int *tap_fd,
		struct tap_features *features, struct netconf_result *result)
{
	struct namespace_target *target = calloc(1, sizeof(*target));
	struct pasta *p = calloc(1, sizeof(*p));
	int r = target && p ? 0 : -ENOMEM;

	if (r == 0) {
		target->user = target->net = target->pid = -1;
		p->has_command = !cfg->target_pid && !cfg->netns;
		p->agent_stays = agent_stays(cfg);
		p->no_tap = cfg->net.lo_only || cfg->net.untouched;
		p->ports = (struct ports_view){-1, {-1, -1}};
		p->leads_session = getsid(0) == getpid();
		p->agent_src.fd = p->signal_src.fd = -1;
		p->terminal = p->has_command ? find_terminal() : -1;
		r = start(p, cfg, target);
	} else {
		log_err("Can't start: %s", strerror(-r));
	}
	if (r == 0)
		r = await_ready(p, tap_fd, features, result);
	if (target)
		namespace_target_close(target);
	free(target);
	if (r < 0) {
		pasta_free(p);
		return r;
	}
	*out = p;
	return 0;
}

bool pasta_has_command(const struct pasta *p)
{
	return p->has_command;
}

static void stop(struct pasta *p, int status)
{
	ns_sockets_lost(p->sockets);
	if (!p->loop)
		return; /* not begun: who waits for an answer gets an error */
	loop_remove(p->loop, &p->agent_src);
	loop_stop(p->loop, status);
}

/* r: how receiving m went. No message after it will be heard. */
static int last_message(struct pasta *p, int r, const struct agent_message *m)
{
	int status = EXIT_FAILURE;

	if (r == 0 && m->type == AGENT_EXITED) {
		p->terminal_taken = m->exited.has_terminal;
		status = (int)m->exited.status;
	} else if (r == -ECONNRESET) {
		int end = reap_agent(p);

		log_err("The agent ended, and the network of the namespace with it");
		status = end >= 128 ? end : EXIT_FAILURE;
	} else {
		log_err("Malformed message from the agent");
	}
	stop(p, status);
	return -ECHILD;
}

/* 0 if a message came and the agent is still to be reckoned with, -EAGAIN if none came, -ECHILD if
 * it was the last one. */
static int hear_agent(struct pasta *p, bool wait)
{
	struct agent_message m;
	struct agent_fds fds cleanup_agent_fds = {0};
	int r = agent_message_receive(p->agent_src.fd, AGENT_TO_ENGINE, wait, &m, &fds);

	if (r == -EAGAIN)
		return r;
	if ((r == 0 || r == -EMFILE) && (m.type == AGENT_SOCKETS || m.type == AGENT_LISTENING)) {
		r = ns_sockets_answer(p->sockets, &m, &fds);
		if (r == 0)
			return 0;
	}
	return last_message(p, r, &m);
}

static int await_answer(void *arg)
{
	return hear_agent(arg, true);
}

static void agent_spoke(struct loop_source *src, uint32_t events, usec_t now)
{
	(void)events;
	(void)now;
	(void)hear_agent(container_of(src, struct pasta, agent_src), false);
}

struct side_sockets *pasta_sides(struct pasta *p)
{
	return ns_sockets_sides(p->sockets);
}

int pasta_listen(struct pasta *p, const struct rule *rule, uint16_t first, uint16_t last,
		 int results[PASTA_LISTEN_MAX])
{
	return ns_sockets_listen(p->sockets, rule, first, last, results);
}

const struct ports_view *pasta_ports(const struct pasta *p)
{
	return p->ports.diag >= 0 ? &p->ports : NULL;
}

/* A signal that the terminal sent went to its whole foreground group, the command included. Only
 * SIGHUP for a session leader is for that process alone (the group gets it when the leader ends).
 */
static bool reached_group(const struct pasta *p, const struct signalfd_siginfo *info)
{
	return info->ssi_code == SI_KERNEL && !(info->ssi_signo == SIGHUP && p->leads_session);
}

static void signal_came(struct loop_source *src, uint32_t events, usec_t now)
{
	struct pasta *p = container_of(src, struct pasta, signal_src);
	struct signalfd_siginfo info;
	struct agent_message m = {.type = AGENT_SIGNAL};
	int r;

	(void)events;
	(void)now;
	if (read(src->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (!p->has_command || !p->agent) { /* nobody to pass it on to, or not any more */
		loop_stop(p->loop, EXIT_SUCCESS);
		return;
	}
	m.signal.number = info.ssi_signo;
	m.signal.from_terminal = reached_group(p, &info);
	r = agent_message_send(p->agent_src.fd, &m, NULL, 0);
	if (r < 0)
		log_debug("Signal %u not passed on: %s", info.ssi_signo, strerror(-r));
}

static int watch_signals(struct pasta *p)
{
	sigset_t handled, blocked;

	sigemptyset(&handled);
	sigaddset(&handled, SIGTERM);
	sigaddset(&handled, SIGQUIT);
	/* A foreground pasta without a command leaves Ctrl-C to the kernel, so that the caller's
	 * shell sees what it was. By the time of this call a background one has a session of its
	 * own. */
	if (p->has_command || getsid(0) == getpid()) {
		sigaddset(&handled, SIGINT);
		sigaddset(&handled, SIGHUP);
	}
	/* Blocked, SIGTTOU lets a group in the background set the terminal's group (tcsetpgrp(3))
	 * and write to it. */
	blocked = handled;
	sigaddset(&blocked, SIGTTOU);
	if (sigprocmask(SIG_BLOCK, &blocked, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -errno;
	p->signal_src.fd = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
	if (p->signal_src.fd < 0)
		return -errno;
	p->signal_src.ready = signal_came;
	return loop_add(p->loop, &p->signal_src, EPOLLIN);
}

int pasta_attach(struct pasta *p, struct loop *loop)
{
	int r;

	p->loop = loop;
	r = watch_signals(p);
	if (r == 0 && p->agent_stays) {
		p->agent_src.ready = agent_spoke;
		r = loop_add(loop, &p->agent_src, EPOLLIN);
	}
	if (r == 0 && p->watch)
		r = netns_watch_attach(p->watch, loop);
	if (r < 0)
		log_err("Can't watch signals and namespace: %s", strerror(-r));
	return r;
}

int pasta_release(struct pasta *p)
{
	const struct agent_message m = {.type = AGENT_RELEASE};
	int r = p->has_command ? agent_message_send(p->agent_src.fd, &m, NULL, 0) : 0;

	if (r < 0)
		log_err("Can't start the command: %s", strerror(-r));
	return r;
}

void pasta_leave(struct pasta *p, int tap_fd)
{
	if (!p->agent)
		return;
	if (p->has_command && tap_fd >= 0 && ioctl(tap_fd, TUNSETPERSIST, 1) < 0)
		log_debug("TUNSETPERSIST: %s", strerror(errno));
	/* Ends the agent, if it isn't ending anyway, and with it all that is left in there. */
	if (p->loop)
		loop_remove(p->loop, &p->agent_src);
	fd_close(&p->agent_src.fd);
	(void)reap_agent(p);
	if (p->terminal >= 0 && p->terminal_taken && tcsetpgrp(p->terminal, getpgrp()) < 0)
		log_debug("The terminal can't be had back: %s", strerror(errno));
}

void pasta_free(struct pasta *p)
{
	if (!p)
		return;
	pasta_leave(p, -1);
	ns_sockets_free(p->sockets);
	ports_view_close(&p->ports);
	netns_watch_free(p->watch);
	if (p->loop && p->signal_src.fd >= 0)
		loop_remove(p->loop, &p->signal_src);
	fd_close(&p->signal_src.fd);
	fd_close(&p->agent_src.fd);
	free(p);
}
