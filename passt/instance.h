/* SPDX-License-Identifier: BSD-3-Clause */
/* The program from the checked command line to its end, in the order in which things may be done:
 * look at the host, open files, make the guest's side, give everything up, and only then let
 * anybody see that we are there. */
#ifndef PASST_INSTANCE_H
#define PASST_INSTANCE_H

#include "passt/config.h"

/* Runs as cfg says; ident is the program's name in logs. Returns the exit status, or negative errno
 * after a message. */
int instance_run(const struct config *cfg, const char *ident) must_check;

#endif
