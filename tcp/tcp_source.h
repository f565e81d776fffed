/* SPDX-License-Identifier: BSD-3-Clause */
/* Data on its way from the host socket to the guest, until the guest has acknowledged it. Two ways
 * to keep it, chosen anew whenever nothing is kept:
 *
 *   peek  it stays in the socket, is peeked at, and removed when acknowledged. However many flows
 * there are and however much is under way, no memory of ours is used but one buffer, which stays
 * warm. Needs SO_PEEK_OFF for TCP (Linux 6.9). ring  it is taken out of the socket into a ring. One
 * system call less a frame, which counts where a frame is an answer: so it serves dialogues. And
 * everything where the kernel can't peek at an offset. */
#ifndef TCP_SOURCE_H
#define TCP_SOURCE_H

#include "tcp/tcp_flow.h"

/* Bytes in a row of the sequence space; two parts at most. */
struct tcp_span {
	struct iovec iov[2];
	int iov_count;
	uint32_t len;
};

struct tcp_source_ops {
	/* Points out at up to len bytes from sequence number seq on, reading from the socket as
	 * needed; seq is never beyond what was given before. out->len is 0 when nothing is there
	 * now; f->eof may be set then or before. 0, or a negative errno when the socket has failed.
	 */
	int (*get)(struct tcp_flow *f, uint32_t seq, uint32_t len, struct tcp_span *out);
	/* Bytes before seq are acknowledged. */
	void (*release)(struct tcp_flow *f, uint32_t seq);
	void (*free)(struct tcp_flow *f);
};

extern const struct tcp_source_ops tcp_source_ring, tcp_source_peek;

/* As the functions above, by the way that is right for f now. */
int tcp_source_get(struct tcp_flow *f, uint32_t seq, uint32_t len, struct tcp_span *out) must_check;
void tcp_source_release(struct tcp_flow *f, uint32_t seq);
void tcp_source_free(struct tcp_flow *f);

/* The first data byte will have this sequence number. */
void tcp_source_init(struct tcp_flow *f, uint32_t first);

/* Reads like recvmsg(2) into iov and keeps f->readable and f->eof: *got bytes, 0 if there are none
 * now. */
int tcp_source_read(struct tcp_flow *f, const struct iovec *iov, int iov_count, int flags,
		    uint32_t *got) must_check;

#endif
