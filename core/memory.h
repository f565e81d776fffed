/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that start-up needed and nobody needs any more. */
#ifndef CORE_MEMORY_H
#define CORE_MEMORY_H

/* Gives back free memory of malloc(3), and lets go of the pages of program and libraries that can
 * be had from their files again: most of what start-up touched (netlink, filters, the dynamic
 * linker) is never looked at later. What is, comes back with a page fault. Asks for madvise(2)
 * alone, so it works under the filter. */
void memory_trim(void);

#endif
