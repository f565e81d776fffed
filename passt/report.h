/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said at start: interfaces, addresses, mappings, name servers. */
#ifndef PASST_REPORT_H
#define PASST_REPORT_H

#include "passt/config.h"
#include "passt/plan.h"

/* Warnings on name servers and the local mode note; always shown. */
void report_warnings(const struct config *cfg, const struct plan *plan);

/* The start block, at the given level. socket_path: where a virtual machine is to connect to, or
 * NULL. */
void report_plan(const struct config *cfg, const struct plan *plan, const char *socket_path,
		 enum log_level level);

#endif
