/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_PATH  "/tmp/passt_%d.socket"
#define DEFAULT_PATHS 64
#define BACKLOG       8 /* who comes while another is served waits only to be turned away */

struct vm {
	struct loop *loop;
	struct loop_source listener, signals;
	int dir; /* where the socket's file is: below an empty root there is no other way to it */
	char name[NAME_MAX + 1];
	bool connected, one_off;
	vm_attach_fn attach;
	void *attach_arg;
};

/* 0: nobody answers there. -EADDRINUSE: somebody does. Other negative errno: no path for a socket.
 */
static int check_free(const struct sockaddr_un *addr)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (!connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) || errno == EAGAIN)
		return -EADDRINUSE;
	return errno == ENOENT || errno == ECONNREFUSED || errno == EACCES ? 0 : -errno;
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

static int open_path(struct sockaddr_un *addr, int *fd)
{
	int r = check_free(addr);

	return r < 0 ? r : listen_at(addr, fd);
}

static int open_default(struct sockaddr_un *addr, int *fd)
{
	int r = -EADDRINUSE;

	for (int i = 1; r < 0 && i <= DEFAULT_PATHS; i++) {
		snprintf(addr->sun_path, sizeof(addr->sun_path), DEFAULT_PATH, i);
		r = open_path(addr, fd);
	}
	return r;
}

static int keep_place(struct vm *vm, const struct sockaddr_un *addr)
{
	char dir[sizeof(addr->sun_path)], name[sizeof(addr->sun_path)];

	memcpy(dir, addr->sun_path, sizeof(dir));
	memcpy(name, addr->sun_path, sizeof(name));
	vm->dir = open(dirname(dir), O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (vm->dir < 0)
		return -errno;
	snprintf(vm->name, sizeof(vm->name), "%s", basename(name));
	return 0;
}

int vm_open(const struct config *cfg, struct vm **out)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct vm *vm = calloc(1, sizeof(*vm));
	int r;

	if (!vm)
		return -ENOMEM;
	*vm = (struct vm){.listener.fd = -1, .signals.fd = -1, .dir = -1, .one_off = cfg->one_off};
	if (cfg->socket_path) {
		snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", cfg->socket_path);
		r = open_path(&addr, &vm->listener.fd);
	} else {
		r = open_default(&addr, &vm->listener.fd);
	}
	if (!r)
		r = keep_place(vm, &addr);
	if (r < 0) {
		log_err("Can't make the UNIX socket %s: %s", addr.sun_path, strerror(-r));
		vm_free(vm);
		return r;
	}
	log_info("UNIX socket: %s", addr.sun_path);
	*out = vm;
	return 0;
}

static void client_came(struct loop_source *src, uint32_t events, usec_t now)
{
	struct vm *vm = container_of(src, struct vm, listener);
	cleanup_fd int fd = accept4(src->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);
	int r;

	(void)events;
	(void)now;
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		peer.pid = 0;
	if (vm->connected) {
		log_info("Client with PID %d turned away: another one is connected", peer.pid);
		return;
	}
	r = vm->attach(vm->attach_arg, take_fd(&fd));
	if (r < 0) {
		log_warn("Client with PID %d not accepted: %s", peer.pid, strerror(-r));
		return;
	}
	vm->connected = true;
	log_info("Client with PID %d accepted", peer.pid);
}

static void signal_came(struct loop_source *src, uint32_t events, usec_t now)
{
	struct vm *vm = container_of(src, struct vm, signals);

	(void)events;
	(void)now;
	loop_stop(vm->loop, EXIT_SUCCESS);
}

static int watch_signals(struct vm *vm)
{
	sigset_t handled;

	sigemptyset(&handled);
	sigaddset(&handled, SIGTERM);
	sigaddset(&handled, SIGQUIT);
	if (sigprocmask(SIG_BLOCK, &handled, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -errno;
	vm->signals.fd = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
	if (vm->signals.fd < 0)
		return -errno;
	vm->signals.ready = signal_came;
	return loop_add(vm->loop, &vm->signals, EPOLLIN);
}

int vm_start(struct vm *vm, struct loop *loop, vm_attach_fn attach, void *arg)
{
	int r;

	vm->loop = loop;
	vm->attach = attach;
	vm->attach_arg = arg;
	vm->listener.ready = client_came;
	r = watch_signals(vm);
	if (!r)
		r = loop_add(loop, &vm->listener, EPOLLIN);
	if (r < 0)
		log_err("Can't watch signals and the UNIX socket: %s", strerror(-r));
	return r;
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

void vm_free(struct vm *vm)
{
	if (!vm)
		return;
	if (vm->dir >= 0 && unlinkat(vm->dir, vm->name, 0) < 0)
		log_debug("Can't remove the UNIX socket's file: %s", strerror(errno));
	fd_close(&vm->listener.fd);
	fd_close(&vm->signals.fd);
	fd_close(&vm->dir);
	free(vm);
}
