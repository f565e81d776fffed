/* SPDX-License-Identifier: BSD-3-Clause */
/* A front end that sends anything. Input: records of a byte (how many descriptors, and of what
 * kind), a byte (how many bytes) and bytes, which go to the link as one write each. Whatever
 * happens, all memory is unmapped and every descriptor closed at the end. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap/tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY_LEN 65536
#define FDS_MAX    15

struct target {
	struct loop *loop;
	struct tap *tap;
	int memory, event, peer;
	bool gone;
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void readable(void *arg, usec_t now)
{
	struct target *t = arg;
	struct tap_frame frames[16];
	unsigned n;

	(void)now;
	require(tap_receive(t->tap, frames, 16, &n) == 0 && n <= 16);
}

/* Everything that can be sent is. */
static void writable(void *arg, usec_t now)
{
	struct target *t = arg;
	static uint8_t bytes[1000];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct tap_out f = {.iov = &iov, .iov_count = 1};
	unsigned sent;

	(void)now;
	require(tap_send(t->tap, &f, 1, &sent) == 0 && sent <= 1);
}

static void gone(void *arg, int err)
{
	struct target *t = arg;

	(void)err;
	t->gone = true;
}

static void set_up(struct target *t)
{
	const struct tap_events ev = {.readable = readable,
				      .writable = writable,
				      .connected = writable,
				      .gone = gone,
				      .arg = t};
	static struct counters counters;
	const struct tap_config cfg = {.mtu = 1500};
	struct tap_link *link;
	int pair[2];

	require(loop_new(&t->loop) == 0 && vhost_link_new(&link) == 0);
	require(tap_new(link, &cfg, &counters, &t->tap) == 0);
	require(tap_start(t->tap, t->loop, &ev) == 0);
	require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
	require(tap_attach(t->tap, pair[0]) == 0);
	t->peer = pair[1];
	t->memory = memfd_create("fuzz", 0);
	require(t->memory >= 0 && !ftruncate(t->memory, MEMORY_LEN));
	t->event = eventfd(0, EFD_NONBLOCK);
	require(t->event >= 0);
}

static void send_record(struct target *t, uint8_t what, const uint8_t *bytes, size_t len)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {.align = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	size_t fds = what & 15;

	for (size_t i = 0; i < fds; i++)
		memcpy(CMSG_DATA(&control.align) + i * sizeof(int),
		       what & 16 ? &t->event : &t->memory, sizeof(int));
	if (fds) {
		control.align.cmsg_len = CMSG_LEN(fds * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(fds * sizeof(int));
	}
	(void)sendmsg(t->peer, &msg, MSG_NOSIGNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int first = dup(0), last;
	struct target t = {0};
	uint8_t answers[4096];

	set_up(&t);
	while (size >= 2 && !t.gone) {
		size_t len = data[1] < size - 2 ? data[1] : size - 2;

		if (len)
			send_record(&t, data[0], data + 2, len);
		if (data[0] & 32) /* the guest kicks */
			require(write(t.event, &(uint64_t){1}, 8) == 8);
		data += 2 + len;
		size -= 2 + len;
		for (int i = 0; i < 2; i++)
			require(loop_turn(t.loop, USEC_SEC, 0) == 0);
		(void)recv(t.peer, answers, sizeof(answers), MSG_DONTWAIT);
	}
	tap_free(t.tap);
	loop_free(t.loop);
	close(t.peer);
	close(t.memory);
	close(t.event);
	close(first);
	last = dup(0);
	require(last == first);
	close(last);
	return 0;
}
