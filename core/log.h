/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages. Rooms below passt/ and pasta/ log at debug and return an error; only those two speak to
 * the user. */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/timer.h"

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_TRACE
};

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The level above which nothing is written; LOG_LEVEL_INFO at first. */
enum log_level log_threshold(void);
void log_set_threshold(enum log_level level);

#define log_at(level, ...)                                                                         \
	do {                                                                                       \
		if ((level) <= log_threshold())                                                    \
			log_write(level, __VA_ARGS__);                                             \
	} while (0)
#define log_err(...)   log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_trace(...) log_at(LOG_LEVEL_TRACE, __VA_ARGS__)

/* At most 5 messages a second through one limit, for what a guest or a peer can provoke; part of
 * the struct of the module that logs. true if the caller may log now; says how many were left out
 * when it opens again. */
struct log_limit {
	usec_t since;
	unsigned count, suppressed;
};
bool log_limit_pass(struct log_limit *limit, usec_t now);

#define log_limited(limit, now, level, ...)                                                        \
	do {                                                                                       \
		if ((level) <= log_threshold() && log_limit_pass(limit, now))                      \
			log_write(level, __VA_ARGS__);                                             \
	} while (0)

/* Where messages go (until the program is ready to stderr and the destination, afterwards to the
 * destination only). None of it opens anything later on, so it all works under a system-call
 * filter.
 *
 * log_open_syslog: a datagram socket to /dev/log, "<priority> ident: text"; a missing /dev/log is
 * no error.
 * log_open_file: takes fd, open for reading and writing, closed on failure too; writes header as
 * its first line and keeps the file at limit bytes at most (4 pages or more, else -EINVAL) by
 * cutting from the front. 0 or negative errno. log_set_stderr: whether lines go to stderr (at first
 * they do), with stamps and level tags or the bare text. Stamps count from the first call of a
 * function of this group or the first message. */
void log_open_syslog(const char *ident);
int log_open_file(int fd, const char *header, size_t limit) must_check;
void log_set_stderr(bool on, bool stamps);

/* Writes one line to every destination with write(2) and send(2) only: safe in a signal handler. */
void log_raw(const char *text, size_t len);

/* For a forked process that keeps no descriptor but 0 to 2: file and syslog are closed, lines go to
 * stderr alone. */
void log_keep_stderr_only(void);

/* Flushes to disk what went to the file. Messages after it are still written. */
void log_close(void);

#endif
