/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs in the new namespaces. */
#ifndef PASTA_COMMAND_H
#define PASTA_COMMAND_H

/* Becomes the command (found along PATH), or with argv NULL a login shell: $SHELL, else /bin/sh.
 * Only 0, 1 and 2 stay open. Returns only on failure, which the user was told of. */
void command_exec(char **argv);

#endif
