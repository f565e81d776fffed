/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/command.h"

#include <errno.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"

void command_exec(char **argv)
{
	/* Marked, not closed: if exec fails, the log must still be there to say so. */
	if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		log_debug("close_range: %s", strerror(errno));
	if (argv) {
		execvp(argv[0], argv);
		log_err("Can't run %s: %s", argv[0], strerror(errno));
	} else {
		const char *shell = getenv("SHELL");
		char *name = NULL;

		if (!shell || !*shell)
			shell = "/bin/sh";
		if (asprintf(&name, "-%s", shell) < 0)
			name = NULL;
		execl(shell, name ? name : shell, (char *)NULL);
		log_err("Can't run the shell %s: %s", shell, strerror(errno));
		free(name);
	}
}
