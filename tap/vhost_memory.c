/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/vhost_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_PAGE_SHIFT 12

struct mapping {
	uint8_t *map;
	size_t map_len;
	uint8_t *data; /* what was asked for, within map */
};

struct region {
	struct vhost_region where;
	struct mapping mapping;
};

struct vhost_memory {
	struct region regions[VHOST_REGIONS_MAX];
	unsigned count, latest; /* latest: where the last address was found */
	struct mapping log;
	uint64_t log_size;
	bool log_on;
};

/* Puts a page of zeros where the file has none any more. It knows nothing of the regions, and needs
 * not: no other file that we map is somebody else's to cut. If that isn't possible (huge pages),
 * the access that is made again after the return ends the process as if we had not been here. */
static void lost_page(int signal_number, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *at = (void *)((uintptr_t)info->si_addr & ~(page - 1));
	int saved = errno;

	(void)context;
	if (info->si_code != BUS_ADRERR ||
	    mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		signal(signal_number, SIG_DFL);
	errno = saved;
}

int vhost_memory_survive(void)
{
	struct sigaction sa = {.sa_sigaction = lost_page, .sa_flags = SA_SIGINFO};

	return sigaction(SIGBUS, &sa, NULL) < 0 ? -errno : 0;
}

int vhost_memory_new(struct vhost_memory **out)
{
	struct vhost_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	*out = m;
	return 0;
}

static void unmap(struct mapping *p)
{
	if (p->map)
		munmap(p->map, p->map_len);
	*p = (struct mapping){0};
}

void vhost_memory_clear(struct vhost_memory *m)
{
	while (m->count)
		unmap(&m->regions[--m->count].mapping);
	m->latest = 0;
}

void vhost_memory_free(struct vhost_memory *m)
{
	if (!m)
		return;
	vhost_memory_clear(m);
	vhost_memory_drop_log(m);
	free(m);
}

/* Where the file can be sealed against becoming shorter (memfd_create(2) with MFD_ALLOW_SEALING),
 * it is; QEMU's memory is sealed already. Elsewhere lost_page() is what remains. */
static void keep_size(int fd)
{
	(void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
}

/* Maps size bytes of fd from offset on. */
static int map_file(int fd, uint64_t size, uint64_t offset, struct mapping *out)
{
	struct stat st;
	uint64_t page, skip, end;
	void *map;

	if (!size || size > SIZE_MAX / 2 || __builtin_add_overflow(offset, size, &end))
		return -EINVAL;
	keep_size(fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	if (end > (uint64_t)st.st_size)
		return -EINVAL;
	/* Huge pages are mapped and unmapped as a whole (mmap(2), "Huge page (Huge TLB)
	 * mappings"); hugetlbfs gives their size as that of a block. */
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (st.st_blksize > (blksize_t)page && !(st.st_blksize & (st.st_blksize - 1)))
		page = (uint64_t)st.st_blksize;
	skip = offset % page;
	size = (size + skip + page - 1) / page * page;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		   (off_t)(offset - skip));
	if (map == MAP_FAILED)
		return -errno;
	*out = (struct mapping){.map = map, .map_len = size, .data = (uint8_t *)map + skip};
	return 0;
}

static bool overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

static int check_region(const struct vhost_memory *m, const struct vhost_region *r)
{
	uint64_t end;

	if (!r->size || __builtin_add_overflow(r->guest_addr, r->size, &end) ||
	    __builtin_add_overflow(r->user_addr, r->size, &end))
		return -EINVAL;
	for (unsigned i = 0; i < m->count; i++) {
		const struct vhost_region *o = &m->regions[i].where;

		if (overlap(r->guest_addr, r->size, o->guest_addr, o->size) ||
		    overlap(r->user_addr, r->size, o->user_addr, o->size))
			return -EINVAL;
	}
	return m->count < VHOST_REGIONS_MAX ? 0 : -ENOSPC;
}

static struct region *find_same(struct vhost_memory *m, const struct vhost_region *r)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct vhost_region *o = &m->regions[i].where;

		if (o->guest_addr == r->guest_addr && o->user_addr == r->user_addr &&
		    o->size == r->size)
			return &m->regions[i];
	}
	return NULL;
}

int vhost_memory_add(struct vhost_memory *m, const struct vhost_region *r, int fd)
{
	struct region new = {.where = *r};
	int e = 0;

	/* QEMU 7.2 says it all once more for each pair of queues. */
	if (!find_same(m, r)) {
		e = check_region(m, r);
		if (!e)
			e = map_file(fd, r->size, r->file_offset, &new.mapping);
		if (!e)
			m->regions[m->count++] = new;
	}
	fd_close(&fd);
	return e;
}

void vhost_memory_remove(struct vhost_memory *m, const struct vhost_region *r)
{
	struct region *found = find_same(m, r);

	if (!found)
		return;
	unmap(&found->mapping);
	*found = m->regions[--m->count];
	m->latest = 0;
}

static bool holds_guest(const struct region *r, uint64_t addr)
{
	return addr >= r->where.guest_addr && addr - r->where.guest_addr < r->where.size;
}

/* Most addresses lie where the one before did. */
static const struct region *find_guest(struct vhost_memory *m, uint64_t addr)
{
	if (m->latest < m->count && holds_guest(&m->regions[m->latest], addr))
		return &m->regions[m->latest];
	for (unsigned i = 0; i < m->count; i++) {
		if (holds_guest(&m->regions[i], addr)) {
			m->latest = i;
			return &m->regions[i];
		}
	}
	return NULL;
}

void *vhost_memory_guest(struct vhost_memory *m, uint64_t addr, uint64_t len, uint64_t *run)
{
	const struct region *r = find_guest(m, addr);
	uint64_t at, most;

	if (!r || !len)
		return NULL;
	at = addr - r->where.guest_addr;
	most = r->where.size - at;
	*run = len < most ? len : most;
	return r->mapping.data + at;
}

void *vhost_memory_user(struct vhost_memory *m, uint64_t addr, uint64_t len)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct region *r = &m->regions[i];
		uint64_t at = addr - r->where.user_addr; /* huge if it lies before */

		if (addr >= r->where.user_addr && at < r->where.size && len <= r->where.size - at)
			return r->mapping.data + at;
	}
	return NULL;
}

int vhost_memory_set_log(struct vhost_memory *m, int fd, uint64_t size, uint64_t offset)
{
	struct mapping log = {0};
	int e = map_file(fd, size, offset, &log);

	fd_close(&fd);
	if (e < 0)
		return e;
	unmap(&m->log);
	m->log = log;
	m->log_size = size;
	return 0;
}

void vhost_memory_enable_log(struct vhost_memory *m, bool on)
{
	m->log_on = on;
}

void vhost_memory_drop_log(struct vhost_memory *m)
{
	unmap(&m->log);
	m->log_on = false;
}

static void mark_pages(const struct vhost_memory *m, uint64_t addr, uint64_t len)
{
	uint64_t last = (addr + len - 1) >> LOG_PAGE_SHIFT;

	for (uint64_t page = addr >> LOG_PAGE_SHIFT; page <= last; page++) {
		if (page / 8 >= m->log_size)
			return;
		/* The front end takes bits away meanwhile. */
		__atomic_fetch_or(m->log.data + page / 8, (uint8_t)(1 << page % 8),
				  __ATOMIC_SEQ_CST);
	}
}

void vhost_memory_written(struct vhost_memory *m, const void *at, size_t len)
{
	const uint8_t *p = at;

	if (!m->log_on || !m->log.map || !len)
		return;
	for (unsigned i = 0; i < m->count; i++) {
		const struct region *r = &m->regions[i];

		if (p >= r->mapping.data && p < r->mapping.data + r->where.size)
			mark_pages(m, r->where.guest_addr + (uint64_t)(p - r->mapping.data), len);
	}
}
