/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "passt/own_file.h"

#define DEFAULT_PATH  "/tmp/passt_%d.socket"
#define DEFAULT_PATHS 64
#define BACKLOG       8 /* who comes while another is served waits only to be turned away */
#define RETRY         (100 * USEC_MSEC) /* after no descriptor was left for a client */

struct vm {
	struct loop *loop;
	struct loop_source listener; /* fd -1: --fd */
	struct loop_source ends;     /* signals that end the loop */
	struct loop_source breaks;   /* those that have their default effect after that */
	struct timer retry;
	struct own_file file;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* empty: --fd */
	int first; /* the client of --fd until it is attached, or -1 */
	bool connected, one_off;
	vm_attach_fn attach;
	void *attach_arg;
};

/* ---- the socket */

/* Whether a socket is bound there, as far as this network namespace has it. Better than to connect,
 * which another passt would take for its guest. */
static bool is_bound(const char *path)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[256]; /* eight columns before the path, and that is 108 bytes at most */
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		char *name = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		found = name && !strcmp(name, path);
	}
	if (f)
		fclose(f);
	return found;
}

/* 0: nobody answers there. -EADDRINUSE: somebody does. -EEXIST: a file that is no socket. Other
 * negative errno: no path for a socket. */
static int check_free(const struct sockaddr_un *addr)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (lstat(addr->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	if (is_bound(addr->sun_path))
		return -EADDRINUSE;
	if (!connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) || errno == EAGAIN)
		return -EADDRINUSE;
	return errno == ECONNREFUSED || errno == EACCES ? 0 : -errno;
}

static int listen_at(const struct sockaddr_un *addr, int *out)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (unlink(addr->sun_path) < 0 && errno != ENOENT)
		return -errno;
	if (bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*out = take_fd(&fd);
	return 0;
}

static int open_path(const struct sockaddr_un *addr, int *fd)
{
	int r = check_free(addr);

	return r < 0 ? r : listen_at(addr, fd);
}

static int open_socket(struct vm *vm, const char *path, struct sockaddr_un *addr)
{
	int r = -EADDRINUSE;

	if (path) {
		snprintf(addr->sun_path, sizeof(addr->sun_path), "%s", path);
		return open_path(addr, &vm->listener.fd);
	}
	for (int i = 1; r < 0 && i <= DEFAULT_PATHS; i++) {
		snprintf(addr->sun_path, sizeof(addr->sun_path), DEFAULT_PATH, i);
		r = open_path(addr, &vm->listener.fd);
	}
	return r;
}

/* Else it could not be removed from a folder like /tmp. */
static void give_away(const struct sockaddr_un *addr, const struct sandbox_identity *id)
{
	if (id->change && lchown(addr->sun_path, id->uid, id->gid) < 0)
		log_debug("%s keeps its owner: %s", addr->sun_path, strerror(errno));
}

static int listen_for_clients(struct vm *vm, const char *path, const struct sandbox_identity *id)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int r = open_socket(vm, path, &addr);

	if (!r) {
		give_away(&addr, id);
		r = own_file_keep(addr.sun_path, &vm->file);
	}
	if (r == -EADDRINUSE)
		log_err("UNIX socket %s: another program answers there", addr.sun_path);
	else if (r == -EEXIST)
		log_err("UNIX socket %s: there is a file, and it is no socket", addr.sun_path);
	else if (r < 0)
		log_err("Can't make UNIX socket %s: %s", addr.sun_path, strerror(-r));
	else
		log_info("UNIX socket: %s", strcpy(vm->path, addr.sun_path));
	return r;
}

const char *vm_socket_path(const struct vm *vm)
{
	return vm->path[0] ? vm->path : NULL;
}

static int check_client(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return -errno;
	return type == SOCK_STREAM ? 0 : -EPROTOTYPE;
}

int vm_open(const struct config *cfg, const struct sandbox_identity *id, struct vm **out)
{
	struct vm *vm = calloc(1, sizeof(*vm));
	int r;

	if (!vm)
		return -ENOMEM;
	*vm = (struct vm){.listener.fd = -1,
			  .ends.fd = -1,
			  .breaks.fd = -1,
			  .file.dir = -1,
			  .first = cfg->fd,
			  .one_off = cfg->one_off || cfg->fd >= 0};
	if (cfg->fd >= 0) {
		r = check_client(cfg->fd);
		if (r < 0)
			log_err("--fd %d: no connected stream socket: %s", cfg->fd, strerror(-r));
	} else {
		r = listen_for_clients(vm, cfg->socket_path, id);
	}
	if (r < 0) {
		vm_free(vm);
		return r;
	}
	*out = vm;
	return 0;
}

/* ---- clients */

static int adopt(struct vm *vm, int fd)
{
	int r = vm->attach(vm->attach_arg, fd);

	vm->connected = r == 0;
	return r;
}

/* Who the client is, as far as it can be seen: not from a PID namespace of our own. */
static void name_client(int fd, char text[32])
{
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0)
		strcpy(text, "Client");
	else
		snprintf(text, 32, "Client with PID %d", peer.pid);
}

static void no_client(struct vm *vm, int err, usec_t now)
{
	/* The listening socket stays readable: asking again at once would only spin. */
	if (err != EMFILE && err != ENFILE && err != ENOBUFS && err != ENOMEM)
		return;
	log_warn("No client accepted: %s", strerror(err));
	if (timer_set(loop_timers(vm->loop), &vm->retry, now + RETRY) == 0)
		loop_remove(vm->loop, &vm->listener);
}

static void on_retry(struct timer *timer, usec_t now)
{
	struct vm *vm = container_of(timer, struct vm, retry);

	if (loop_add(vm->loop, &vm->listener, EPOLLIN) < 0)
		no_client(vm, ENOMEM, now);
}

static void client_came(struct loop_source *src, uint32_t events, usec_t now)
{
	struct vm *vm = container_of(src, struct vm, listener);
	cleanup_fd int fd = accept4(src->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	char who[32];
	int r;

	(void)events;
	if (fd < 0) {
		no_client(vm, errno, now);
		return;
	}
	name_client(fd, who);
	if (vm->connected) {
		log_info("%s turned away: another one is connected", who);
		return;
	}
	r = adopt(vm, take_fd(&fd));
	if (r < 0)
		log_warn("%s not accepted: %s", who, strerror(-r));
	else
		log_info("%s accepted", who);
}

void vm_gone(struct vm *vm, int err)
{
	vm->connected = false;
	if (err)
		log_warn("Client gone: %s", strerror(-err));
	else
		log_info("Client gone");
	if (vm->one_off)
		loop_stop(vm->loop, EXIT_SUCCESS);
}

/* ---- signals */

/* They stay pending, for those of breaks to take effect once nothing blocks them any more. */
static void signal_ends(struct vm *vm)
{
	loop_remove(vm->loop, &vm->ends);
	loop_remove(vm->loop, &vm->breaks);
	loop_stop(vm->loop, EXIT_SUCCESS);
}

static void end_came(struct loop_source *src, uint32_t events, usec_t now)
{
	(void)events;
	(void)now;
	signal_ends(container_of(src, struct vm, ends));
}

static void break_came(struct loop_source *src, uint32_t events, usec_t now)
{
	(void)events;
	(void)now;
	signal_ends(container_of(src, struct vm, breaks));
}

static sigset_t two_signals(int first, int second)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, first);
	sigaddset(&set, second);
	return set;
}

void vm_hold_signals(void)
{
	const sigset_t ends = two_signals(SIGTERM, SIGQUIT), breaks = two_signals(SIGINT, SIGHUP);

	(void)sigprocmask(SIG_BLOCK, &ends, NULL);
	(void)sigprocmask(SIG_BLOCK, &breaks, NULL);
}

static int watch_signals(struct vm *vm, struct loop_source *src, int first, int second)
{
	const sigset_t set = two_signals(first, second);

	src->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return src->fd < 0 ? -errno : loop_add(vm->loop, src, EPOLLIN);
}

void vm_let_signals_through(void)
{
	const sigset_t set = two_signals(SIGINT, SIGHUP);

	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- life */

int vm_start(struct vm *vm, struct loop *loop, vm_attach_fn attach, void *arg)
{
	int r = 0;

	vm->loop = loop;
	vm->attach = attach;
	vm->attach_arg = arg;
	vm->listener.ready = client_came;
	vm->ends.ready = end_came;
	vm->breaks.ready = break_came;
	timer_init(&vm->retry, on_retry);
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		r = -errno;
	if (!r)
		r = watch_signals(vm, &vm->ends, SIGTERM, SIGQUIT);
	if (!r)
		r = watch_signals(vm, &vm->breaks, SIGINT, SIGHUP);
	if (!r && vm->listener.fd >= 0)
		r = loop_add(loop, &vm->listener, EPOLLIN);
	if (!r && vm->first >= 0)
		r = adopt(vm, take_fd(&vm->first));
	if (r < 0)
		log_err("Can't watch signals and clients: %s", strerror(-r));
	return r;
}

void vm_free(struct vm *vm)
{
	if (!vm)
		return;
	own_file_remove(&vm->file);
	if (vm->loop)
		timer_drop(loop_timers(vm->loop), &vm->retry);
	fd_close(&vm->listener.fd);
	fd_close(&vm->ends.fd);
	fd_close(&vm->breaks.fd);
	fd_close(&vm->first);
	free(vm);
}
