/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequence numbers compare modulo 2^32 (RFC 9293 3.4): right while both lie within 2^31 of each
 * other, which the largest window (2^30, RFC 7323 2.3) never exceeds. */
#ifndef TCP_SEQ_H
#define TCP_SEQ_H

#include <stdbool.h>
#include <stdint.h>

static inline bool seq_lt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline bool seq_leq(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) <= 0;
}

static inline uint32_t seq_max(uint32_t a, uint32_t b)
{
	return seq_lt(a, b) ? b : a;
}

static inline uint32_t seq_min(uint32_t a, uint32_t b)
{
	return seq_lt(a, b) ? a : b;
}

#endif
