/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual machines as guests: the UNIX socket that they connect to, one at a time. Messages for the
 * user are written here. */
#ifndef PASST_VM_H
#define PASST_VM_H

#include "core/loop.h"
#include "passt/config.h"

struct vm;

/* Makes the socket: at the path asked for, or at the first default path that is free. A file that
 * nobody answers at is taken for a left-over and replaced. 0, or negative errno after a message. */
int vm_open(const struct config *cfg, struct vm **out) must_check;

/* Whom a client's descriptor goes to, which takes it over: 0 or negative errno. */
typedef int (*vm_attach_fn)(void *arg, int fd);

/* Takes clients from now on, and SIGTERM and SIGQUIT, which end the loop with status 0. 0, or
 * negative errno after a message. */
int vm_start(struct vm *vm, struct loop *loop, vm_attach_fn attach, void *arg) must_check;

/* The client has gone (err as in struct tap_events): another may come, or the loop ends. */
void vm_gone(struct vm *vm, int err);

/* Closes the socket and removes its file. */
void vm_free(struct vm *vm);

#endif
