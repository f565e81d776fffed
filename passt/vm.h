/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual machines as guests: the UNIX socket that they connect to, one at a time. Messages for the
 * user are written here. */
#ifndef PASST_VM_H
#define PASST_VM_H

#include "core/loop.h"
#include "passt/config.h"
#include "seccomp/sandbox.h"

struct vm;

/* Before the first file is made: SIGTERM, SIGQUIT, SIGINT and SIGHUP wait until vm_start() watches
 * them, or for vm_let_signals_through(), so that they end nothing with files left behind. */
void vm_hold_signals(void);

/* Makes the socket: at the path asked for, or at the first default path that is free. A socket
 * there that nobody answers at is taken for a left-over and replaced; any other file is an error.
 * The socket's file belongs to whom this process is about to become. With --fd there is no socket:
 * that descriptor, which is taken over, is the one client. 0, or negative errno after a message. */
int vm_open(const struct config *cfg, const struct sandbox_identity *id,
	    struct vm **out) must_check;

/* Whom a client's descriptor goes to, which takes it over: 0 or negative errno. */
typedef int (*vm_attach_fn)(void *arg, int fd);

/* Where the socket is, or NULL with --fd. Belongs to vm. */
const char *vm_socket_path(const struct vm *vm);

/* Takes clients from now on, and signals: SIGTERM, SIGQUIT, SIGINT and SIGHUP end the loop with
 * status 0. 0, or negative errno after a message. */
int vm_start(struct vm *vm, struct loop *loop, vm_attach_fn attach, void *arg) must_check;

/* The client has gone (err as in struct tap_events): another may come, or the loop ends. */
void vm_gone(struct vm *vm, int err);

/* Closes the socket and removes its file. */
void vm_free(struct vm *vm);

/* When all is tidied up: a SIGINT or SIGHUP that came has its default effect, so that a shell sees
 * what ended this process. In the background nobody does, and the first process of a PID namespace
 * does not die of it (pid_namespaces(7)). */
void vm_let_signals_through(void);

#endif
