/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: where they go, what they look like, how large the file gets, and that nothing is opened
 * for it. */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <seccomp.h>

#include "core/log.h"

#define HEADER "pasta 9.9: /usr/bin/passt (4711)"
#define LIMIT  40960

/* ---- standard error, caught in a file ---- */

static int real_stderr = -1, caught = -1;

static void catch_stderr(void)
{
	caught = memfd_create("stderr", MFD_CLOEXEC);
	real_stderr = dup(STDERR_FILENO);
	assert_true(caught >= 0 && real_stderr >= 0);
	assert_return_code(dup2(caught, STDERR_FILENO), errno);
}

static const char *give_back(char *buf, size_t room)
{
	ssize_t n;

	assert_return_code(dup2(real_stderr, STDERR_FILENO), errno);
	n = pread(caught, buf, room - 1, 0);
	assert_return_code(n, errno);
	buf[n] = '\0';
	fd_close(&caught);
	fd_close(&real_stderr);
	return buf;
}

static bool matches(const char *text, const char *pattern)
{
	regex_t re;
	bool yes;

	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	yes = !regexec(&re, text, 0, NULL, 0);
	regfree(&re);
	return yes;
}

static int reset(void **state)
{
	(void)state;
	log_set_threshold(LOG_LEVEL_INFO);
	log_set_stderr(true, false);
	return 0;
}

static void plain(void **state)
{
	char buf[512];

	(void)state;
	catch_stderr();
	log_err("No %s", "bread");
	log_warn("two");
	log_info("three");
	log_debug("four");
	assert_string_equal(give_back(buf, sizeof(buf)), "No bread\ntwo\nthree\n");
}

static void quiet(void **state)
{
	char buf[512];

	(void)state;
	log_set_threshold(LOG_LEVEL_WARN);
	assert_int_equal(log_threshold(), LOG_LEVEL_WARN);
	catch_stderr();
	log_info("no");
	log_write(LOG_LEVEL_INFO, "no");
	log_warn("yes");
	log_set_stderr(false, false);
	log_err("not here");
	assert_string_equal(give_back(buf, sizeof(buf)), "yes\n");
}

static void stamps(void **state)
{
	char buf[512];

	(void)state;
	log_set_threshold(LOG_LEVEL_TRACE);
	log_set_stderr(true, true);
	catch_stderr();
	log_err("a");
	log_warn("b");
	log_info("c");
	log_debug("d");
	log_trace("e");
	give_back(buf, sizeof(buf));
	assert_true(matches(buf, "^[0-9]+\\.[0-9]{4}: ERROR:   a\n[0-9]+\\.[0-9]{4}: WARNING: b\n"
				 "[0-9]+\\.[0-9]{4}: info:    c\n[0-9]+\\.[0-9]{4}:          d\n"
				 "[0-9]+\\.[0-9]{4}:          e\n$"));
}

/* What others chose can't forge lines, nor overflow. */
static void one_line(void **state)
{
	char buf[8192], longer[4096];
	int r;

	(void)state;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	catch_stderr();
	errno = ENOENT;
	log_info("a\nb\x1b[2J\tc");
	r = errno;
	log_info("%s", longer);
	log_raw("raw", 3);
	log_raw("raw\n", 4);
	log_raw(longer, sizeof(longer) - 1);
	give_back(buf, sizeof(buf));
	assert_int_equal(r, ENOENT); /* kept */
	assert_memory_equal(buf, "a?b?[2J\tc\nxxxx", 14);
	assert_true(matches(buf, "^[^\n]+\nx{1024,2047}\nraw\nraw\nx{1024,2047}\n$"));
}

static void limits(void **state)
{
	struct log_limit limit = {0};
	char buf[512];
	int passed = 0;

	(void)state;
	catch_stderr();
	for (int i = 0; i < 20; i++)
		passed += log_limit_pass(&limit, 10 * USEC_SEC + i);
	for (int i = 0; i < 7; i++)
		log_limited(&limit, 11 * USEC_SEC + i, LOG_LEVEL_WARN, "n%d", i);
	log_limited(&limit, 12 * USEC_SEC, LOG_LEVEL_DEBUG, "below the threshold");
	assert_true(log_limit_pass(&limit, 13 * USEC_SEC));
	assert_true(log_limit_pass(&limit, 15 * USEC_SEC));
	give_back(buf, sizeof(buf));
	assert_int_equal(passed, 5);
	assert_string_equal(buf, "15 messages like the next one were left out\nn0\nn1\nn2\nn3\nn4\n"
				 "2 messages like the next one were left out\n");
}

/* ---- the file ---- */

static int new_file(bool on_disk)
{
	char path[] = "test_log.XXXXXX";
	int fd;

	if (!on_disk) /* tmpfs can't collapse a range */
		return memfd_create("log", MFD_CLOEXEC);
	fd = mkostemp(path, O_CLOEXEC);
	assert_return_code(unlink(path), errno);
	return fd;
}

/* Opens fd as log file; the descriptor returned shows the same file. */
static int open_log(int fd)
{
	int mine = dup(fd);

	assert_true(fd >= 0 && mine >= 0);
	assert_int_equal(log_open_file(fd, HEADER, LIMIT), 0);
	log_set_stderr(false, false);
	return mine;
}

static char *read_whole(int fd)
{
	struct stat st;
	char *text;

	assert_return_code(fstat(fd, &st), errno);
	text = malloc((size_t)st.st_size + 1);
	assert_non_null(text);
	assert_int_equal(pread(fd, text, (size_t)st.st_size, 0), st.st_size);
	text[st.st_size] = '\0';
	assert_int_equal(strlen(text), st.st_size); /* no holes */
	return text;
}

static off_t size_of(int fd)
{
	struct stat st;

	assert_return_code(fstat(fd, &st), errno);
	return st.st_size;
}

static void file_lines(void **state)
{
	cleanup_fd int fd = open_log(new_file(false));
	char *text;

	(void)state;
	log_warn("w");
	log_info("i");
	log_debug("d");
	log_raw("raw", 3);
	log_close();
	log_err("e");
	text = read_whole(fd);
	assert_memory_equal(text, HEADER "\n", strlen(HEADER) + 1);
	assert_true(matches(text + strlen(HEADER),
			    "^\n[0-9]+\\.[0-9]{4}: WARNING: w\n[0-9]+\\.[0-9]{4}: info:    i\nraw\n"
			    "[0-9]+\\.[0-9]{4}: ERROR:   e\n$"));
	free(text);
}

/* After a cut: the header with a note, then whole lines, none missing up to the last one. */
static void check_cut_file(int fd, unsigned last)
{
	char *text = read_whole(fd), *line = text, *end = strchr(text, '\n');
	unsigned expected = 0, n;

	assert_non_null(end);
	*end = '\0';
	assert_true(
	    matches(line, "^pasta 9\\.9: /usr/bin/passt \\(4711\\), cut [0-9]+\\.[0-9]{4} *$"));
	for (line = end + 1; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		*end = '\0';
		assert_true(matches(line, "^[0-9]+\\.[0-9]{4}: info:    line [0-9]+ x*$"));
		n = (unsigned)strtoul(strstr(line, "line ") + 5, NULL, 10);
		if (expected)
			assert_int_equal(n, expected);
		expected = n + 1;
	}
	assert_int_equal(expected, last + 1);
	free(text);
}

static void rotation(bool on_disk)
{
	cleanup_fd int fd = open_log(new_file(on_disk));
	char filler[1500];
	off_t before = 0, now;
	unsigned cuts = 0;

	memset(filler, 'x', sizeof(filler));
	for (unsigned i = 1; i <= 3000; i++) {
		log_info("line %u %.*s", i, (int)(i * 37 % (i % 50 ? 100 : sizeof(filler))),
			 filler);
		now = size_of(fd);
		assert_in_range(now, before ? 1 : 0, LIMIT);
		if (now < before) {
			cuts++;
			assert_in_range(now, LIMIT / 2, LIMIT);
			check_cut_file(fd, i);
		}
		before = now;
	}
	assert_in_range(cuts, 5, 50);
}

static void rotation_on_disk(void **state)
{
	(void)state;
	rotation(true);
}

static void rotation_in_memory(void **state)
{
	(void)state;
	rotation(false);
}

static void refused(void **state)
{
	int fd = new_file(false), full = open("/dev/full", O_RDWR | O_CLOEXEC);

	(void)state;
	assert_int_equal(log_open_file(fd, HEADER, 4096), -EINVAL);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* taken over all the same */
	assert_int_equal(log_open_file(full, HEADER, LIMIT), -ENOSPC);
	assert_int_equal(fcntl(full, F_GETFD), -1);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(log_open_file(fd, HEADER, LIMIT), -EBADF);
}

/* Another process with the same file: neither overwrites the other. */
static void shared(void **state)
{
	cleanup_fd int fd = open_log(new_file(false));
	char *text;
	int status;
	pid_t pid;

	(void)state;
	log_info("parent");
	pid = fork();
	assert_return_code(pid, errno);
	if (!pid) {
		log_info("child");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	log_info("parent again");
	text = read_whole(fd);
	assert_true(matches(text, "info:    parent\n.*info:    child\n.*info:    parent again\n$"));
	free(text);
}

/* Nobody waits for a reader of stderr that is behind; what is read later has no half line. */
static void full_stderr(void **state)
{
	char junk[4096] = {0}, text[4097] = "";
	int pipe_fds[2], kept = dup(STDERR_FILENO);

	(void)state;
	assert_return_code(pipe2(pipe_fds, O_NONBLOCK), errno);
	while (write(pipe_fds[1], junk, sizeof(junk)) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	assert_return_code(fcntl(pipe_fds[1], F_SETFL, 0), errno);
	assert_return_code(dup2(pipe_fds[1], STDERR_FILENO), errno);
	alarm(5); /* instead of blocking for ever */
	log_warn("lost");
	while (read(pipe_fds[0], junk, sizeof(junk)) > 0)
		assert_int_equal(junk[0], 0);
	log_warn("seen");
	alarm(0);
	assert_return_code(dup2(kept, STDERR_FILENO), errno);
	assert_int_equal(read(pipe_fds[0], text, sizeof(text) - 1), 5);
	assert_string_equal(text, "seen\n");
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	close(kept);
}

/* The calls that a filter must let through for messages, cuts included; core/log needs no other. */
static const int calls[] = {SCMP_SYS(write),      SCMP_SYS(lseek),    SCMP_SYS(fallocate),
			    SCMP_SYS(pread64),    SCMP_SYS(pwrite64), SCMP_SYS(ftruncate),
			    SCMP_SYS(fsync),      SCMP_SYS(sendto),   SCMP_SYS(clock_gettime),
			    SCMP_SYS(exit_group), SCMP_SYS(poll),     SCMP_SYS(ppoll)};

static _Noreturn void log_under_filter(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0) < 0)
			_exit(2);
	}
	if (seccomp_load(ctx) < 0)
		_exit(3);
	for (unsigned i = 1; i <= 2000; i++)
		log_info("line %u %s", i, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	log_close();
	syscall(SYS_exit_group, 0); /* _exit() does more under a sanitizer */
	__builtin_unreachable();
}

static void under_filter(void **state)
{
	(void)state;
	for (int on_disk = 0; on_disk < 2; on_disk++) {
		cleanup_fd int fd = open_log(new_file(on_disk));
		pid_t pid = fork();
		int status;

		assert_return_code(pid, errno);
		if (!pid)
			log_under_filter();
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		check_cut_file(fd, 2000);
	}
}

/* ---- the system log, played by us in a /dev of our own ---- */

static bool write_file(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A file system of our own needs a user namespace for those who aren't root, and a user in it. */
static int own_mounts(void)
{
	char uid_map[32], gid_map[32];
	uid_t uid = geteuid();

	snprintf(uid_map, sizeof(uid_map), "0 %u 1", uid);
	snprintf(gid_map, sizeof(gid_map), "0 %u 1", getegid());
	if (unshare(uid ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) < 0)
		return -1;
	if (uid && !(write_file("/proc/self/uid_map", uid_map) &&
		     write_file("/proc/self/setgroups", "deny") &&
		     write_file("/proc/self/gid_map", gid_map)))
		return -1;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int play_syslog(void)
{
	const struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (own_mounts() < 0 || mount("tmpfs", "/dev", "tmpfs", 0, NULL) < 0 ||
	    bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -1;
	return fd;
}

static bool received(int fd, const char *expected)
{
	char buf[4096];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	return n == (ssize_t)strlen(expected) && !memcmp(buf, expected, (size_t)n);
}

/* Priorities: facility daemon (3) times 8, plus the severity, as in RFC 3164 4.1.1. */
static int try_syslog(void)
{
	int fd = play_syslog();
	char buf[512];

	if (fd < 0)
		return 2;
	log_open_syslog("pasta");
	log_set_stderr(false, false);
	log_err("e %d", 1);
	log_warn("w");
	log_info("i");
	log_debug("d");
	if (!received(fd, "<27> pasta: e 1") || !received(fd, "<28> pasta: w") ||
	    !received(fd, "<30> pasta: i"))
		return 3;
	log_raw("raw\n", 4);
	if (!received(fd, "raw"))
		return 4;
	for (int i = 0; i < 5000; i++) /* a log daemon that doesn't read can't hold us up */
		log_info("more than a socket holds");
	close(fd);
	log_info("gone");
	return recv(fd, buf, sizeof(buf), 0) < 0 ? 0 : 5;
}

static void syslog_datagrams(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_return_code(pid, errno);
	if (!pid)
		_exit(try_syslog());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Without a log daemon nothing happens, and standard error goes on. */
static int try_no_syslog(void)
{
	char buf[64];
	int fd = play_syslog();

	if (fd < 0 || unlink("/dev/log") < 0)
		return 2;
	log_open_syslog("pasta");
	catch_stderr();
	log_info("here");
	return strcmp(give_back(buf, sizeof(buf)), "here\n") ? 3 : 0;
}

static void no_syslog(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_return_code(pid, errno);
	if (!pid)
		_exit(try_no_syslog());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(plain, reset),
	    cmocka_unit_test_setup(quiet, reset),
	    cmocka_unit_test_setup(stamps, reset),
	    cmocka_unit_test_setup(one_line, reset),
	    cmocka_unit_test_setup(limits, reset),
	    cmocka_unit_test_setup(syslog_datagrams, reset),
	    cmocka_unit_test_setup(no_syslog, reset),
	    cmocka_unit_test_setup(refused, reset),
	    cmocka_unit_test_setup(file_lines, reset),
	    cmocka_unit_test_setup(rotation_on_disk, reset),
	    cmocka_unit_test_setup(rotation_in_memory, reset),
	    cmocka_unit_test_setup(shared, reset),
	    cmocka_unit_test_setup(under_filter, reset),
	    cmocka_unit_test_setup(full_stderr, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
