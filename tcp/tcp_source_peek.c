/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes stay in the socket and are peeked at from an offset that the kernel keeps (SO_PEEK_OFF,
 * socket(7); for TCP since Linux 6.9); what was acknowledged is removed by MSG_TRUNC.
 * test/kernel/peek_off.c has the behaviour that this relies on. */
#include <errno.h>
#include <sys/socket.h>

#include "tcp/tcp_source.h"

/* Reads that remove bytes move the kernel's offset back by as many, as far as to the start. */
static int set_offset(struct tcp_flow *f, uint32_t seq)
{
	uint32_t is = seq_max(f->src.offset, f->src.base);
	int offset = (int)(seq - f->src.base);

	if (f->src.offset_on ? is == seq : !offset)
		return 0;
	if (setsockopt(f->sock.fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)) < 0)
		return -errno;
	f->src.offset = seq;
	f->src.offset_on = true;
	return 0;
}

static int peek_get(struct tcp_flow *f, uint32_t seq, uint32_t len, struct tcp_span *out)
{
	uint8_t *buffer = f->tcp->buffer;
	uint32_t got = 0;

	while (got < len && (f->readable || seq + got != f->src.end)) {
		bool readable = f->readable;
		uint32_t n;
		int r = set_offset(f, seq + got);

		if (r < 0)
			return r;
		r = tcp_source_read(f, &(struct iovec){buffer + got, len - got}, 1, MSG_PEEK, &n);
		if (r < 0)
			return r;
		if (seq_lt(seq + got + n, f->src.end))
			f->readable = readable; /* old bytes once more tell nothing of new ones */
		if (!n)
			break;
		got += n;
		f->src.offset = seq + got;
		f->src.end = seq_max(f->src.end, seq + got);
	}
	*out = (struct tcp_span){.iov = {{buffer, got}}, .iov_count = got ? 1 : 0, .len = got};
	return 0;
}

static void peek_release(struct tcp_flow *f, uint32_t seq)
{
	while (seq_lt(f->src.base, seq)) {
		ssize_t n = recv(f->sock.fd, NULL, seq - f->src.base, MSG_TRUNC | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* the socket has failed, which its event or the next read will tell
				 */
		f->src.base += (uint32_t)n;
	}
}

static void peek_free(struct tcp_flow *f)
{
	(void)f;
}

const struct tcp_source_ops tcp_source_peek = {peek_get, peek_release, peek_free};
