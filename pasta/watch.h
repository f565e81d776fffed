/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices that a namespace which was joined is gone: its process ended (pidfd), or its name was
 * removed (inotify on the folder; on file systems without events a look once a second). Everything
 * is opened at start and works inside the sandbox. */
#ifndef PASTA_WATCH_H
#define PASTA_WATCH_H

#include "core/loop.h"
#include "pasta/namespace.h"

struct netns_watch;

/* Takes over target->pid. 0 or negative errno (the user was told). */
int netns_watch_new(struct namespace_target *target, struct netns_watch **out) must_check;

/* The loop stops with status 0 when it is gone. */
int netns_watch_attach(struct netns_watch *w, struct loop *loop) must_check;
void netns_watch_free(struct netns_watch *w);

#endif
