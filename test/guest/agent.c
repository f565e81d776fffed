/* SPDX-License-Identifier: BSD-3-Clause */
/* In the virtual machine: runs commands that come by a virtio-serial port, one at a time.
 *   agent PORT
 * Request: "LENGTH\n" and a command for the shell; answer: "STATUS LENGTH\n" and what it printed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_MAX (1 << 20)
#define OUTPUT      "/tmp/agent.output"

/* Reads n bytes. Nobody at the other end reads as end of file: then it waits. */
static void read_all(int fd, char *buf, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t r = read(fd, buf + got, n - got);

		if (r > 0)
			got += (size_t)r;
		else
			usleep(2000);
	}
}

static void write_all(int fd, const char *buf, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t w = write(fd, buf + done, n - done);

		if (w > 0)
			done += (size_t)w;
		else
			usleep(2000);
	}
}

static size_t read_length(int fd)
{
	char digits[16];
	size_t n = 0;

	for (;;) {
		read_all(fd, digits + n, 1);
		if (digits[n] == '\n' || n == sizeof(digits) - 1)
			break;
		n++;
	}
	digits[n] = 0;
	return strtoul(digits, NULL, 10);
}

static int run(const char *command)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		int out = open(OUTPUT, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		setsid();
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(out, 1);
		dup2(out, 2);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void answer(int fd, int status)
{
	int in = open(OUTPUT, O_RDONLY);
	static char buf[65536];
	char header[32];
	struct stat st = {0};
	off_t left;

	fstat(in, &st);
	left = st.st_size;
	write_all(fd, header, (size_t)snprintf(header, sizeof(header), "%d %lld\n", status, (long long)left));
	while (left > 0) {
		ssize_t n = read(in, buf, left < (off_t)sizeof(buf) ? (size_t)left : sizeof(buf));

		if (n <= 0)
			break;
		write_all(fd, buf, (size_t)n);
		left -= n;
	}
	close(in);
}

int main(int argc, char **argv)
{
	static char command[COMMAND_MAX + 1];
	int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;

	if (fd < 0)
		return 1;
	for (;;) {
		size_t len = read_length(fd);

		if (len > COMMAND_MAX)
			return 1;
		read_all(fd, command, len);
		command[len] = 0;
		answer(fd, run(command));
	}
}
