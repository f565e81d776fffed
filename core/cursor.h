/* SPDX-License-Identifier: BSD-3-Clause */
/* The one way to read untrusted bytes. Reading past the end gives zero (or NULL) and sets a flag
 * that sticks; a parser reads all it wants and tests the flag once at its end. Numbers are in
 * network byte order on the wire and host order in the result. */
#ifndef CORE_CURSOR_H
#define CORE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *pos, *end;
	bool bad;
};

static inline struct cursor cursor_init(const void *bytes, size_t len)
{
	return (struct cursor){.pos = bytes, .end = (const uint8_t *)bytes + len};
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->pos);
}

/* The next n bytes, or NULL (and the flag) if there are fewer. */
static inline const uint8_t *cursor_bytes(struct cursor *c, size_t n)
{
	const uint8_t *p = c->pos;

	if (c->bad || cursor_left(c) < n) {
		c->bad = true;
		return NULL;
	}
	c->pos += n;
	return p;
}

static inline void cursor_copy(struct cursor *c, void *to, size_t n)
{
	const uint8_t *p = cursor_bytes(c, n);

	if (p)
		memcpy(to, p, n);
	else
		memset(to, 0, n);
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 1);

	return p ? p[0] : 0;
}

static inline uint16_t cursor_u16(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 2);

	return (uint16_t)(p ? p[0] << 8 | p[1] : 0);
}

static inline uint32_t cursor_u32(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 4);

	return p ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3] : 0;
}

/* Shortens the cursor to its next n bytes (trailing padding is ignored from then on); fewer sets
 * the flag. */
static inline void cursor_limit(struct cursor *c, size_t n)
{
	if (c->bad || cursor_left(c) < n)
		c->bad = true;
	else
		c->end = c->pos + n;
}

#endif
