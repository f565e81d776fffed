/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the program's own: opened before anything is given up, used afterwards. */
#ifndef PASST_FILES_H
#define PASST_FILES_H

#include <sys/types.h>

#include "passt/config.h"
#include "passt/own_file.h"

struct files {
	int null, pid, pcap;      /* -1: none; log_file belongs to core/log once started */
	struct own_file pid_file; /* passt's, for own_file_remove() at the end */
};

/* Makes sure that 0 to 2 are open, on /dev/null if they weren't. 0 or negative errno. */
int files_open_standard(void) must_check;

/* Closes every other descriptor, those that a caller forgot, but keep (above 2, or -1). 0, -EBADF
 * if keep is none, or another negative errno. */
int files_close_others(int keep) must_check;

/* The host's range of ephemeral ports (ip(7), ip_local_port_range), or that of RFC 6335. */
void files_read_ephemeral(uint16_t *first, uint16_t *last);

/* Opens PID, log and pcap file as configured. A pcap that can't be opened is a warning, the others
 * are errors, already reported. 0 or negative errno. */
int files_open(const struct config *cfg, const char *ident, struct files *out) must_check;

/* Writes the PID file, if there is one, and closes it. 0, or negative errno after a message. */
int files_write_pid(struct files *f, pid_t pid) must_check;

#endif
