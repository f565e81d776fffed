/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/memory.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Only segments that are never written: their pages are the file's, so that dropping them loses
 * nothing (madvise(2), MADV_DONTNEED). What the linker relocated and then protected lies in
 * segments marked as writable. */
static int drop_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t start = (info->dlpi_addr + p->p_vaddr) & ~(page - 1);
		uintptr_t end = (info->dlpi_addr + p->p_vaddr + p->p_memsz) & ~(page - 1);

		/* A failure (the vDSO is no file) leaves the pages where they are. */
		if (p->p_type == PT_LOAD && !(p->p_flags & PF_W) && end > start)
			(void)madvise((void *)start, end - start, MADV_DONTNEED);
	}
	return 0;
}

void memory_trim(void)
{
	malloc_trim(0);
	dl_iterate_phdr(drop_object, NULL);
}
