/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of the correctness tests: each prints what it saw as key=value and ends with 0 if all was
 * right. */
#include "nettool.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DATAGRAM_MAX 65507
#define ECHO_SIZE    1000

static unsigned number(const char *s)
{
	return (unsigned)strtoul(s, NULL, 10);
}

static int must_dial(const char *host, unsigned port, int type)
{
	int fd = dial(host, port, type);

	if (fd < 0)
		die("connect");
	return fd;
}

static struct stats ask_stats(const char *host, unsigned port)
{
	int fd = must_dial(host, port, SOCK_STREAM);
	struct stats s;
	char op = OP_STATS;

	if (!write_all(fd, &op, 1) || !read_all(fd, &s, sizeof(s)))
		die("stats");
	close(fd);
	return s;
}

/* Waits until the server is done with one more long request; true if that ended well. */
static bool server_finished(const char *host, unsigned port, const struct stats *before)
{
	for (;;) {
		struct stats s = ask_stats(host, port);

		if (s.finished + s.failed > before->finished + before->failed)
			return s.failed == before->failed;
		usleep(2000);
	}
}

/* HOST PORT UP DOWN PAUSE_MS */
int mode_both(int argc, char **argv)
{
	struct request q = {.op = OP_BOTH};
	struct stats before;
	bool received, sent;
	int fd, status;
	pid_t writer;

	if (argc != 5)
		return 2;
	q.up = strtoull(argv[2], NULL, 10);
	q.down = strtoull(argv[3], NULL, 10);
	q.pause_ms = number(argv[4]);
	before = ask_stats(argv[0], number(argv[1]));
	fd = must_dial(argv[0], number(argv[1]), SOCK_STREAM);
	if (!write_all(fd, &q, sizeof(q)) || (writer = fork()) < 0)
		die("start");
	if (!writer) {
		sent = send_pattern(fd, q.up);
		shutdown(fd, SHUT_WR);
		_exit(!sent);
	}
	received = receive_pattern(fd, q.down, 0);
	sent = waitpid(writer, &status, 0) == writer && !status;
	close(fd);
	received = server_finished(argv[0], number(argv[1]), &before) && received;
	printf("sent=%d received=%d\n", sent, received);
	return !(sent && received);
}

/* HOST PORT client|server BYTES: who closes first; the other then sends the bytes. */
int mode_half(int argc, char **argv)
{
	struct request q = {.op = OP_HALF_CLIENT};
	struct stats before;
	bool good;
	int fd;

	if (argc != 4)
		return 2;
	if (!strcmp(argv[2], "server"))
		q.op = OP_HALF_SERVER;
	q.up = q.down = strtoull(argv[3], NULL, 10);
	before = ask_stats(argv[0], number(argv[1]));
	fd = must_dial(argv[0], number(argv[1]), SOCK_STREAM);
	good = write_all(fd, &q, sizeof(q));
	if (q.op == OP_HALF_CLIENT) {
		shutdown(fd, SHUT_WR);
		good = good && receive_pattern(fd, q.down, 0);
	} else {
		good = good && receive_pattern(fd, 0, 0) && send_pattern(fd, q.up);
		shutdown(fd, SHUT_WR);
	}
	close(fd);
	good = server_finished(argv[0], number(argv[1]), &before) && good;
	printf("good=%d\n", good);
	return !good;
}

/* HOST PORT client|server: who resets. Prints after how many milliseconds the other saw it. */
int mode_rst(int argc, char **argv)
{
	struct request q = {.op = OP_RST_SERVER};
	struct stats before, after;
	double when = 0;
	char byte;
	int fd;

	if (argc != 3)
		return 2;
	if (!strcmp(argv[2], "client"))
		q.op = OP_RST_CLIENT;
	before = ask_stats(argv[0], number(argv[1]));
	fd = must_dial(argv[0], number(argv[1]), SOCK_STREAM);
	if (!write_all(fd, &q, sizeof(q)))
		die("write");
	if (q.op == OP_RST_SERVER) {
		if (!read_all(fd, &when, sizeof(when)))
			die("read");
		if (read(fd, &byte, 1) >= 0 || errno != ECONNRESET)
			die("no reset");
		printf("ms=%.1f\n", (now() - when) * 1e3);
		return 0;
	}
	when = now() + 0.05;
	if (!write_all(fd, &when, sizeof(when)))
		die("write");
	sleep_until(when);
	set_linger_reset(fd);
	close(fd);
	if (!server_finished(argv[0], number(argv[1]), &before))
		return 1;
	after = ask_stats(argv[0], number(argv[1]));
	printf("ms=%.1f\n", (double)after.rst_us / 1e3);
	return 0;
}

/* One byte each way, then one side closes and the other follows. */
static bool short_connection(const char *host, unsigned port, char op)
{
	int fd = dial(host, port, SOCK_STREAM);
	char byte = op, rest;
	bool good;

	if (fd < 0)
		return false;
	good = write_all(fd, &byte, 1) && read_all(fd, &byte, 1) && byte == op;
	if (op == OP_CLIENT_CLOSES)
		shutdown(fd, SHUT_WR);
	good = good && read(fd, &rest, 1) == 0;
	close(fd);
	return good;
}

/* HOST PORT PORTS COUNT: short connections one after the other. Several server ports, since the
 * side that closes first keeps each address pair for a minute (TIME-WAIT) and one port would run
 * out of pairs. */
int mode_sequence(int argc, char **argv)
{
	unsigned port, ports, count, bad = 0, why = 0;
	struct stats before, after;

	if (argc != 4)
		return 2;
	port = number(argv[1]);
	ports = number(argv[2]);
	count = number(argv[3]);
	before = ask_stats(argv[0], port);
	for (unsigned i = 0; i < count; i++) {
		errno = 0;
		if (!short_connection(argv[0], port + i % ports,
				      i % 2 ? OP_CLIENT_CLOSES : OP_SERVER_CLOSES)) {
			why = (unsigned)errno;
			bad++;
		}
	}
	after = ask_stats(argv[0], port);
	printf("good=%u bad=%u resets=%llu %s\n", count - bad, bad,
	       (unsigned long long)(after.resets - before.resets),
	       why ? strerrorname_np((int)why) : "");
	return bad || after.resets != before.resets;
}

static int start_connect(const char *host, unsigned port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *a;
	char service[8];
	int fd;

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &a))
		die("address");
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (fd < 0 || (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS))
		die("connect");
	freeaddrinfo(a);
	return fd;
}

/* HOST PORT COUNT: that many connections opened at once, all used, then all closed. */
int mode_parallel(int argc, char **argv)
{
	unsigned count, connected = 0, echoed = 0;
	char out[ECHO_SIZE], in[ECHO_SIZE];
	int *fds;

	if (argc != 3 || !(fds = calloc(count = number(argv[2]), sizeof(*fds))))
		return 2;
	for (unsigned i = 0; i < count; i++)
		fds[i] = start_connect(argv[0], number(argv[1]));
	for (unsigned i = 0; i < count; i++) {
		struct pollfd p = {.fd = fds[i], .events = POLLOUT};

		if (poll(&p, 1, 30000) != 1 || p.revents != POLLOUT)
			continue;
		connected++;
		fcntl(fds[i], F_SETFL, 0);
		pattern(out, i * 8, sizeof(out));
		out[0] = OP_ECHO;
		if (!write_all(fds[i], out, sizeof(out)))
			perror("nettool: write");
	}
	for (unsigned i = 0; i < count; i++) {
		pattern(out, i * 8, sizeof(out));
		out[0] = OP_ECHO;
		echoed += read_all(fds[i], in, sizeof(in)) && !memcmp(in, out, sizeof(out));
	}
	printf("connected=%u echoed=%u\n", connected, echoed);
	return connected != count || echoed != count;
}

/* HOST PORT: how a connect ends, by the name of the error, and after how many seconds. */
int mode_connect(int argc, char **argv)
{
	double start = now();
	int fd;

	if (argc != 2)
		return 2;
	fd = dial(argv[0], number(argv[1]), SOCK_STREAM);
	printf("%s %.3f\n", fd < 0 ? strerrorname_np(errno) : "connected", now() - start);
	return 0;
}

static bool udp_echo(int fd, uint64_t seed, size_t size)
{
	static char out[DATAGRAM_MAX], in[DATAGRAM_MAX + 1];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t r;

	pattern(out, seed, size);
	if (send(fd, out, size, 0) != (ssize_t)size) {
		fprintf(stderr, "nettool: send %zu: %s\n", size, strerror(errno));
		return false;
	}
	if (poll(&p, 1, 3000) != 1) {
		fprintf(stderr, "nettool: %zu bytes: no answer\n", size);
		return false;
	}
	r = recv(fd, in, sizeof(in), 0);
	if (r == (ssize_t)size && !memcmp(in, out, size))
		return true;
	fprintf(stderr, "nettool: %zu bytes: answer of %zd: %s\n", size, r,
		r < 0 ? strerror(errno) : "wrong bytes");
	return false;
}

/* HOST PORT SIZE...: one datagram of each size and its echo. */
int mode_udp_echo(int argc, char **argv)
{
	unsigned good = 0;
	int fd;

	if (argc < 3)
		return 2;
	fd = must_dial(argv[0], number(argv[1]), SOCK_DGRAM);
	for (int i = 2; i < argc; i++) {
		unsigned size = number(argv[i]);

		if (size > DATAGRAM_MAX)
			return 2;
		good += udp_echo(fd, (uint64_t)i, size);
	}
	printf("good=%u of=%d\n", good, argc - 2);
	return good != (unsigned)argc - 2;
}

/* HOST PORT COUNT: that many sockets, two echoes over each while all are open. */
int mode_udp_flows(int argc, char **argv)
{
	unsigned count, good = 0;
	int *fds;

	if (argc != 3 || !(fds = calloc(count = number(argv[2]), sizeof(*fds))))
		return 2;
	for (unsigned i = 0; i < count; i++)
		fds[i] = must_dial(argv[0], number(argv[1]), SOCK_DGRAM);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < count; i++)
			good += udp_echo(fds[i], round * count + i, 64);
	printf("good=%u of=%u\n", good, 2 * count);
	return good != 2 * count;
}

/* HOST PORT: the error that a datagram earns, by its name. */
int mode_udp_error(int argc, char **argv)
{
	struct pollfd p = {.events = POLLIN};
	char byte = 'e';

	if (argc != 2)
		return 2;
	p.fd = must_dial(argv[0], number(argv[1]), SOCK_DGRAM);
	if (send(p.fd, &byte, 1, 0) != 1)
		die("send");
	if (poll(&p, 1, 3000) != 1)
		puts("nothing");
	else
		puts(recv(p.fd, &byte, 1, 0) < 0 ? strerrorname_np(errno) : "answer");
	return 0;
}
