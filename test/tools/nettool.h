/* SPDX-License-Identifier: BSD-3-Clause */
/* nettool: the traffic that the network tests and the bench need, as one small program that is
 * server or client.
 *
 * A connection to the server begins with a byte that says what it shall do. The short kinds are
 * only that byte; the others are a struct request. Client and server run on one machine, so structs
 * go as they lie in memory and both see the same CLOCK_MONOTONIC. */
#ifndef TEST_TOOLS_NETTOOL_H
#define TEST_TOOLS_NETTOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OP_CLIENT_CLOSES = 'c', /* one byte back, then the client closes */
	OP_SERVER_CLOSES = 's', /* one byte back, then the server closes */
	OP_ECHO = 'h',          /* everything back, the first byte included */
	OP_SINK = 'U',          /* count until the end, then struct counted back */
	OP_SOURCE = 'D',        /* send until the client goes away */
	OP_REPLY = 'R',         /* messages of size bytes back */
	OP_BOTH = 'B',          /* up bytes in with pauses, down bytes out, at once, both checked */
	OP_HALF_CLIENT = 'H',   /* the client closes its side, then down bytes out */
	OP_HALF_SERVER = 'I',   /* the server closes its side, then up bytes in */
	OP_RST_SERVER = 'X',    /* the server says when, and resets then */
	OP_RST_CLIENT = 'Y',    /* the client does */
	OP_STATS = '?',         /* struct stats back */
};

struct request {
	char op;
	uint32_t size, pause_ms;
	uint64_t up, down;
};

struct counted {
	uint64_t bytes;
	double seconds;
};

/* Of the whole server, so that a client can ask what the other end saw. */
struct stats {
	uint64_t resets;   /* connections that ended by one */
	uint64_t finished; /* long requests that ended as they should */
	uint64_t failed;   /* and that did not */
	uint64_t rst_us;   /* delay of the last reset by a client, or 0 */
};

/* util.c */
double now(void); /* seconds, CLOCK_MONOTONIC */
void sleep_until(double when);
void die(const char *what) __attribute__((noreturn));
bool read_all(int fd, void *to, size_t n); /* false: error or end before n bytes */
bool write_all(int fd, const void *from, size_t n);
int dial(const char *host, unsigned port, int type); /* connected, or -1 and errno */
/* Connected to a UNIX stream socket, which may come within some seconds; or the end. */
int dial_unix(const char *path);
void set_linger_reset(int fd);                       /* close() then sends a RST */
/* Test data whose every byte depends on its position, so that loss, doubling and exchange all show.
 */
void pattern(void *to, uint64_t pos, size_t n);
bool send_pattern(int fd, uint64_t n);
/* Reads to the end; true if exactly n bytes of the pattern came. Pauses of up to pause_ms between
 * bursts. */
bool receive_pattern(int fd, uint64_t n, unsigned pause_ms);

/* server.c: TCP on port and the ports - 1 after it; UDP: echo on port, count on port + 1. Doesn't
 * return. */
void serve(unsigned port, unsigned ports) __attribute__((noreturn));

/* Modes; argv begins after the name of the mode; they return the exit status. */
typedef int (*mode_fn)(int argc, char **argv);
int mode_both(int argc, char **argv);
int mode_half(int argc, char **argv);
int mode_rst(int argc, char **argv);
int mode_sequence(int argc, char **argv);
int mode_parallel(int argc, char **argv);
int mode_connect(int argc, char **argv);
int mode_udp_echo(int argc, char **argv);
int mode_udp_flows(int argc, char **argv);
int mode_udp_error(int argc, char **argv);
int mode_stream(int argc, char **argv);
int mode_rate(int argc, char **argv);
int mode_rr(int argc, char **argv);
int mode_udp_flood(int argc, char **argv);
int mode_vhost_tap(int argc, char **argv);
int mode_stream_tap(int argc, char **argv);

#endif
