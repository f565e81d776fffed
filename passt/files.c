/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int files_open_standard(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
	} while (fd <= 2 && fcntl(fd, F_SETFD, 0) == 0);
	fd_close(&fd);
	return 0;
}

/* close_range(2): Linux 5.9; without it CLOEXEC must do. */
static int close_from(unsigned first, unsigned last)
{
	return first <= last && close_range(first, last, 0) < 0 && errno != ENOSYS ? -errno : 0;
}

int files_close_others(int keep)
{
	int r;

	if (keep < 0)
		return close_from(3, ~0U);
	if (fcntl(keep, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	r = close_from(3, (unsigned)keep - 1);
	return r < 0 ? r : close_from((unsigned)keep + 1, ~0U);
}

void files_read_ephemeral(uint16_t *first, uint16_t *last)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned from, to;

	*first = 49152;
	*last = 65535;
	if (!f)
		return;
	if (fscanf(f, "%5u %5u", &from, &to) == 2 && from <= to && to <= 65535) {
		*first = (uint16_t)from;
		*last = (uint16_t)to;
	}
	fclose(f);
}

static int open_own(const char *path, const char *what, int *out)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0) {
		int r = -errno;

		log_at(what[0] == 'p' ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR, "Can't open %s %s: %s",
		       what, path, strerror(-r));
		return r;
	}
	*out = fd;
	return 0;
}

/* First line of the log file: who wrote it. */
static int start_log(const struct config *cfg, const char *ident)
{
	char exe[PATH_MAX] = "", header[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int fd, r = open_own(cfg->log_file, "log file", &fd);

	if (r < 0)
		return r;
	exe[n < 0 ? 0 : n] = '\0';
	snprintf(header, sizeof(header), "%s %s: %s (%d)", ident, VERSION, exe, getpid());
	r = log_open_file(fd, header, cfg->log_size);
	if (r < 0)
		log_err("Can't write log file %s: %s", cfg->log_file, strerror(-r));
	return r;
}

int files_open(const struct config *cfg, const char *ident, struct files *out)
{
	struct files f = {.null = -1, .pid = -1, .pcap = -1, .pid_file.dir = -1};
	int r = 0;

	f.null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (f.null < 0) {
		r = -errno;
		log_err("Can't open /dev/null: %s", strerror(-r));
	}
	if (!r && cfg->pid_file)
		r = open_own(cfg->pid_file, "PID file", &f.pid);
	/* A manager of virtual machines finds no process where there is none. */
	if (!r && cfg->pid_file && cfg->program == PROGRAM_PASST &&
	    own_file_keep(cfg->pid_file, &f.pid_file) < 0)
		log_debug("The PID file stays at the end");
	if (!r && cfg->log_file)
		r = start_log(cfg, ident);
	if (!r && !cfg->log_file && cfg->log_level < LOG_LEVEL_DEBUG) /* debugging is for stderr */
		log_open_syslog(ident);
	if (!r && cfg->pcap && !open_own(cfg->pcap, "pcap file", &f.pcap))
		log_info("Saving packets to %s", cfg->pcap);
	if (r < 0) {
		fd_close(&f.null);
		fd_close(&f.pid);
		own_file_remove(&f.pid_file);
		return r;
	}
	*out = f;
	return 0;
}

int files_write_pid(struct files *f, pid_t pid)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", pid), r = 0;

	if (f->pid < 0)
		return 0;
	/* Not stdio: for a device it would ask whether that is a terminal, which the sandbox does
	 * not allow. */
	if (write(f->pid, text, (size_t)n) != n)
		r = errno ? -errno : -EIO;
	fd_close(&f->pid);
	if (r < 0)
		log_err("Can't write the PID file: %s", strerror(-r));
	return r;
}
