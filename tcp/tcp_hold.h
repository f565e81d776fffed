/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes from the guest that wait: those the socket would not take, and those that came before their
 * turn. Every byte lies at its sequence number modulo the size, so a gap that is filled needs no
 * moving. Which in-order bytes are here the flow knows (sock_nxt to rcv_nxt); of those beyond,
 * ranges are kept here. */
#ifndef TCP_HOLD_H
#define TCP_HOLD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/fd.h"

#define HOLD_RANGES 16

struct tcp_hold;
struct seq_range {
	uint32_t start, end;
};

/* size: a power of two, bytes. */
int tcp_hold_new(uint32_t size, struct tcp_hold **out) must_check;
void tcp_hold_free(struct tcp_hold *h);

/* Copies data to its place. The caller sees to it that all that is held spans no more than the
 * size. */
void tcp_hold_put(struct tcp_hold *h, uint32_t seq, const void *data, uint32_t len);

/* Points iov (two) at len bytes from seq on; returns how many of the two are used. */
int tcp_hold_iov(struct tcp_hold *h, uint32_t seq, uint32_t len, struct iovec *iov);

/* Notes that start to end is here, beyond the in-order bytes. -ENOBUFS: too many gaps, forget the
 * data. */
int tcp_hold_note(struct tcp_hold *h, uint32_t start, uint32_t end) must_check;

/* In-order data reaches to nxt: returns how far it reaches with the ranges that touch it, which are
 * dropped. */
uint32_t tcp_hold_join(struct tcp_hold *h, uint32_t nxt);

/* Up to max ranges for a SACK option, the one that changed last first (RFC 2018 4). Returns their
 * number. */
unsigned tcp_hold_ranges(const struct tcp_hold *h, struct seq_range *out, unsigned max);

#endif
