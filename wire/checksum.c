/* SPDX-License-Identifier: BSD-3-Clause */
/* The sum of RFC 1071 over many bytes: what frames cost most where the link has no offloads. */
#include <string.h>

#include "wire/emit.h"

#define BLOCK 128 /* bytes of one round */

/* What the compiler makes of them depends on the processor: one register, or several. */
typedef uint64_t vector __attribute__((vector_size(32)));
typedef uint64_t unaligned __attribute__((vector_size(32), aligned(1), may_alias));

/* RFC 1071 2: words of any width may be added, in any byte order, and folded at the end. Here
 * halves of 64-bit words, which can't overflow a 64-bit sum within 2^31 rounds; several sums keep
 * the adders busy. len is a multiple of BLOCK. A macro, since gcc takes vectors apart before it
 * inlines a function into one for another processor. */
#define SUM_BLOCKS(name, attributes)                                                               \
	attributes static uint64_t name(const uint8_t *p, size_t len)                              \
	{                                                                                          \
		const vector half = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};              \
		vector a = {0}, b = {0}, c = {0}, d = {0};                                         \
                                                                                                   \
		for (const uint8_t *end = p + len; p < end; p += BLOCK) {                          \
			vector v = *(const unaligned *)p, w = *(const unaligned *)(p + 32);        \
			vector x = *(const unaligned *)(p + 64), y = *(const unaligned *)(p + 96); \
                                                                                                   \
			a += (v & half) + (w & half);                                              \
			b += (v >> 32) + (w >> 32);                                                \
			c += (x & half) + (y & half);                                              \
			d += (x >> 32) + (y >> 32);                                                \
		}                                                                                  \
		a += b + c + d;                                                                    \
		return a[0] + a[1] + a[2] + a[3];                                                  \
	}

SUM_BLOCKS(sum_plain, )

#if defined(__x86_64__) || defined(__i386__)
SUM_BLOCKS(sum_avx2, __attribute__((target("avx2"))))

static uint64_t sum_blocks(const uint8_t *p, size_t len)
{
	return __builtin_cpu_supports("avx2") ? sum_avx2(p, len) : sum_plain(p, len);
}
#else
static uint64_t sum_blocks(const uint8_t *p, size_t len)
{
	return sum_plain(p, len);
}
#endif

uint64_t csum_add(uint64_t sum, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint16_t last = 0;

	if (len >= BLOCK) {
		size_t blocks = len / BLOCK * BLOCK;

		sum += sum_blocks(p, blocks);
		p += blocks;
		len -= blocks;
	}
	for (; len >= 8; len -= 8, p += 8) {
		uint64_t w;

		memcpy(&w, p, 8);
		sum += (w & UINT32_MAX) + (w >> 32);
	}
	if (len >= 4) {
		uint32_t w;

		memcpy(&w, p, 4);
		sum += w;
		len -= 4;
		p += 4;
	}
	if (len >= 2) {
		uint16_t w;

		memcpy(&w, p, 2);
		sum += w;
		len -= 2;
		p += 2;
	}
	if (len) {
		memcpy(&last, p, 1);
		sum += last;
	}
	return sum;
}
