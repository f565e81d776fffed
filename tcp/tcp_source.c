/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp/tcp_source.h"

#include <errno.h>
#include <sys/socket.h>

void tcp_source_init(struct tcp_flow *f, uint32_t first)
{
	f->src = (struct tcp_source){.ops = &tcp_source_ring, .base = first, .end = first};
}

int tcp_source_get(struct tcp_flow *f, uint32_t seq, uint32_t len, struct tcp_span *out)
{
	if (f->src.base == f->src.end) {
		bool peek = f->tcp->can_peek[tcp_flow_family(f)] && f->dialogue < TCP_DIALOGUE;

		f->src.ops = peek ? &tcp_source_peek : &tcp_source_ring;
		f->src.draining = false;
	}
	return f->src.ops->get(f, seq, len, out);
}

void tcp_source_release(struct tcp_flow *f, uint32_t seq)
{
	f->src.ops->release(f, seq);
}

void tcp_source_free(struct tcp_flow *f)
{
	f->src.ops->free(f);
}

static size_t iov_len(const struct iovec *iov, int n)
{
	size_t len = 0;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

/* Epoll reports edges (epoll(7)): a read that was not filled emptied the socket, and more data is a
 * new edge. It is not so when a FIN is queued behind the data or the read stopped at urgent data
 * (tcp(7)): then only EAGAIN or 0 tells. */
int tcp_source_read(struct tcp_flow *f, const struct iovec *iov, int iov_count, int flags,
		    uint32_t *got)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iov_count};
	ssize_t n;

	*got = 0;
	do {
		n = recvmsg(f->sock.fd, &msg, flags | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		if (errno != EAGAIN)
			return -errno;
		f->readable = false;
		return 0;
	}
	if (n == 0) {
		f->eof = true;
		f->readable = false;
	} else if ((size_t)n < iov_len(iov, iov_count) && !f->read_on) {
		f->readable = false;
	}
	*got = (uint32_t)n;
	return 0;
}
