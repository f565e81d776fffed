/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES   2048 /* stamp, tag and newline included: more is cut off */
#define HEADER_MAX_BYTES 1024
#define COPY_BYTES       4096
#define PER_SECOND       5
#define ERROR_WAIT_MS    1000
#define LIMIT_MIN_PAGES  4 /* so that a cut, whole pages, is always less than what there is */

/* The one writable state of this room: where a process's messages go is a property of the process.
 */
static struct {
	enum log_level threshold;
	usec_t start; /* what stamps count from; 0: not yet taken */
	bool stderr_off, stamps;
	bool syslog_open, file_open; /* else the descriptors below mean nothing */
	int syslog_fd, file_fd;
	size_t limit;
	char ident[32];
	char header[HEADER_MAX_BYTES];
} state = {.threshold = LOG_LEVEL_INFO};

/* Nine characters each, so that the text of all lines starts in one column. */
static const struct {
	const char *tag;
	int severity;
} levels[] = {
    [LOG_LEVEL_ERROR] = {"ERROR:   ", LOG_ERR},   [LOG_LEVEL_WARN] = {"WARNING: ", LOG_WARNING},
    [LOG_LEVEL_INFO] = {"info:    ", LOG_INFO},   [LOG_LEVEL_DEBUG] = {"         ", LOG_DEBUG},
    [LOG_LEVEL_TRACE] = {"         ", LOG_DEBUG},
};

/* Stamps are made here and not handed down: a message has no other time than that of being written.
 */
static usec_t clock_read(void)
{
	struct timespec ts = {0};

	clock_gettime(CLOCK_MONOTONIC, &ts); /* can't fail for this clock */
	return (usec_t)ts.tv_sec * USEC_SEC + (usec_t)ts.tv_nsec / 1000;
}

static usec_t since_start(void)
{
	usec_t now = clock_read();

	if (!state.start)
		state.start = now;
	return now - state.start;
}

/* All of it or nothing more that could be done about it: a message has nowhere to report its own
 * loss. */
static void write_whole(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

/* Stderr is shared with the command as a rule, and its reader may be behind or have stopped (a
 * pager, a terminal after Ctrl-S). Traffic doesn't wait for it: the message is lost then, an error
 * after a while. Who debugs wants every line. */
static void stderr_write(enum log_level level, const char *text, size_t len)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	int wait = level == LOG_LEVEL_ERROR ? ERROR_WAIT_MS : 0;

	if (state.stderr_off || (state.threshold < LOG_LEVEL_DEBUG && poll(&p, 1, wait) == 0))
		return;
	write_whole(STDERR_FILENO, text, len);
}

/* Moves what follows the first cut bytes to the front, a piece at a time. */
static void move_to_front(off_t size, off_t cut)
{
	char buf[COPY_BYTES];
	off_t from = cut;

	while (from < size) {
		ssize_t n = pread(state.file_fd, buf, sizeof(buf), from);

		if (n <= 0 || pwrite(state.file_fd, buf, (size_t)n, from - cut) != n)
			break;
		from += n;
	}
	/* After a failed move the file is no longer one text: start again rather than mix. */
	if (ftruncate(state.file_fd, from < size ? 0 : size - cut) < 0)
		return;
}

/* Makes the first line the header with a note. The cut left a part of a line in front; the new line
 * takes the place of that and of as many whole lines as it needs, filled up with blanks, so that
 * nothing has to be moved again. */
static void rewrite_header(void)
{
	char line[HEADER_MAX_BYTES + 64], buf[sizeof(line) + LINE_MAX_BYTES];
	usec_t t = since_start();
	int n = snprintf(line, sizeof(line), "%s, cut %llu.%04llu", state.header,
			 t / USEC_SEC + 0ULL, t % USEC_SEC / 100 + 0ULL);
	ssize_t have = pread(state.file_fd, buf, sizeof(buf), 0);
	size_t len = n < 0 ? 0 : (size_t)n, end = len;

	while ((ssize_t)end < have && buf[end] != '\n')
		end++;
	if ((ssize_t)end >= have)
		end = len;
	memcpy(buf, line, len);
	memset(buf + len, ' ', end - len);
	buf[end] = '\n';
	if (pwrite(state.file_fd, buf, end + 1, 0) < 0)
		return;
}

/* Cuts about 30 % from the front: fallocate(2) removes whole blocks without copying on file systems
 * that can (ext4, XFS: blocks of a page at most), else the rest is moved. */
static void rotate(off_t size)
{
	off_t page = sysconf(_SC_PAGESIZE);
	off_t cut = ((off_t)state.limit * 3 / 10 + page - 1) / page * page;

	if (cut >= size)
		return; /* somebody else cut it */
	if (fallocate(state.file_fd, FALLOC_FL_COLLAPSE_RANGE, 0, cut) < 0)
		move_to_front(size, cut);
	rewrite_header();
}

/* The offset is asked for each time and not remembered: a forked process may write to the same
 * file. */
static void file_write(const char *text, size_t len, bool may_rotate)
{
	off_t size = lseek(state.file_fd, 0, SEEK_END);

	if (may_rotate && size >= 0 && (size_t)size + len > state.limit) {
		rotate(size);
		if (lseek(state.file_fd, 0, SEEK_END) < 0)
			return;
	}
	write_whole(state.file_fd, text, len);
}

static void syslog_write(int severity, const char *text, size_t len)
{
	char buf[LINE_MAX_BYTES + 64];
	int n = snprintf(buf, sizeof(buf), "<%d> %s: %.*s", LOG_DAEMON | severity, state.ident,
			 (int)len, text);

	if (n > 0)
		send(state.syslog_fd, buf, (size_t)n < sizeof(buf) ? (size_t)n : sizeof(buf) - 1,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* What a guest or a caller chose (a name, say) can't start a line of its own or speak to the
 * terminal. */
static void one_line(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = *text == '\t' ? '\t' : '?';
	}
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	size_t stamp, text, len;
	int saved = errno;
	usec_t t;
	va_list ap;

	if (level > state.threshold)
		return;
	t = since_start();
	stamp = (size_t)snprintf(line, sizeof(line), "%llu.%04llu: ", t / USEC_SEC + 0ULL,
				 t % USEC_SEC / 100 + 0ULL);
	text = stamp + strlen(levels[level].tag);
	memcpy(line + stamp, levels[level].tag, text - stamp);
	va_start(ap, fmt);
	vsnprintf(line + text, sizeof(line) - text - 1, fmt, ap);
	va_end(ap);
	one_line(line + text);
	len = strlen(line + text) + text;
	if (state.syslog_open)
		syslog_write(levels[level].severity, line + text, len - text);
	line[len++] = '\n';
	stderr_write(level, state.stamps ? line : line + text, state.stamps ? len : len - text);
	if (state.file_open)
		file_write(line, len, true);
	errno = saved;
}

void log_raw(const char *text, size_t len)
{
	char line[LINE_MAX_BYTES];

	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1;
	memcpy(line, text, len);
	if (!len || line[len - 1] != '\n')
		line[len++] = '\n';
	stderr_write(LOG_LEVEL_ERROR, line, len);
	if (state.file_open)
		file_write(line, len, false);
	if (state.syslog_open)
		send(state.syslog_fd, line, len - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

enum log_level log_threshold(void)
{
	return state.threshold;
}

void log_set_threshold(enum log_level level)
{
	state.threshold = level;
}

bool log_limit_pass(struct log_limit *limit, usec_t now)
{
	if (now - limit->since >= USEC_SEC) {
		unsigned suppressed = limit->suppressed;

		*limit = (struct log_limit){.since = now};
		if (suppressed)
			log_write(LOG_LEVEL_INFO, "%u messages like the next one were left out",
				  suppressed);
	}
	if (limit->count < PER_SECOND) {
		limit->count++;
		return true;
	}
	limit->suppressed++;
	return false;
}

void log_open_syslog(const char *ident)
{
	const struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return;
	snprintf(state.ident, sizeof(state.ident), "%s", ident);
	if (state.syslog_open)
		fd_close(&state.syslog_fd);
	state.syslog_fd = take_fd(&fd);
	state.syslog_open = true;
}

int log_open_file(int fd, const char *header, size_t limit)
{
	cleanup_fd int own = fd;
	size_t len;

	if (limit < (size_t)sysconf(_SC_PAGESIZE) * LIMIT_MIN_PAGES)
		return -EINVAL;
	snprintf(state.header, sizeof(state.header), "%s", header);
	one_line(state.header);
	len = strlen(state.header);
	if (write(own, state.header, len) != (ssize_t)len || write(own, "\n", 1) != 1)
		return errno ? -errno : -ENOSPC;
	since_start();
	if (state.file_open)
		fd_close(&state.file_fd);
	state.file_fd = take_fd(&own);
	state.limit = limit;
	state.file_open = true;
	return 0;
}

void log_set_stderr(bool on, bool stamps)
{
	since_start();
	state.stderr_off = !on;
	state.stamps = stamps;
}

void log_keep_stderr_only(void)
{
	if (state.file_open)
		fd_close(&state.file_fd);
	if (state.syslog_open)
		fd_close(&state.syslog_fd);
	state.file_open = state.syslog_open = false;
}

void log_close(void)
{
	if (state.file_open && fsync(state.file_fd) < 0)
		return; /* EINVAL on what is no file; else the disk's trouble, and nobody left to
			   tell */
}
