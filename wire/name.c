/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/name.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define LABEL_MAX   63     /* RFC 1035 2.3.4 */
#define POINTER     0xc0   /* RFC 1035 4.1.4: the two bits that no length has */
#define POINTER_MAX 0x3fff /* what an offset of 14 bits reaches */

int name_emit(uint8_t *p, size_t room, const char *text, size_t *len)
{
	size_t left = strlen(text), at = 0;
	uint8_t name[NAME_WIRE_MAX];

	if (left && text[left - 1] == '.')
		left--;
	if (!left || left > NAME_WIRE_MAX - 2)
		return -EINVAL;
	for (const char *end = text + left; text < end; text++) {
		const char *dot = memchr(text, '.', (size_t)(end - text));
		size_t label = (size_t)((dot ? dot : end) - text);

		if (!label || label > LABEL_MAX || text + label + 1 == end)
			return -EINVAL;
		name[at++] = (uint8_t)label;
		memcpy(name + at, text, label);
		at += label;
		text += label;
	}
	name[at++] = 0;
	if (at > room)
		return -ENOBUFS;
	memcpy(p, name, at);
	*len = at;
	return 0;
}

/* Whether the name at pos of base, which was written here, is this one: letters alike in either
 * case (RFC 1035 2.3.3), pointers, which lead to the left only, followed. */
static bool same_name(const uint8_t *base, size_t pos, const uint8_t *name)
{
	for (;;) {
		if (base[pos] >= POINTER) {
			pos = (size_t)(base[pos] & ~POINTER) << 8 | base[pos + 1];
			continue;
		}
		if (base[pos] != *name)
			return false;
		if (!*name)
			return true;
		if (strncasecmp((const char *)base + pos + 1, (const char *)name + 1, *name))
			return false;
		pos += 1U + *name;
		name += 1 + *name;
	}
}

/* Where in the names before at one ends like this, or at if none does. */
static size_t find_end(const uint8_t *base, size_t at, const uint8_t *name)
{
	size_t pos = 0;

	while (pos < at && pos <= POINTER_MAX) {
		if (base[pos] >= POINTER)
			pos += 2;
		else if (!base[pos])
			pos++;
		else if (same_name(base, pos, name))
			return pos;
		else
			pos += 1U + base[pos];
	}
	return at;
}

int name_emit_compressed(uint8_t *base, size_t at, size_t room, const char *text, size_t *len)
{
	uint8_t name[NAME_WIRE_MAX];
	size_t whole, own = 0, to = at;
	int r = name_emit(name, sizeof(name), text, &whole);

	if (r < 0)
		return r;
	while (name[own] && (to = find_end(base, at, name + own)) == at)
		own += 1U + name[own];
	whole = own + (name[own] ? 2 : 1);
	if (whole > room)
		return -ENOBUFS;
	memcpy(base + at, name, own);
	if (name[own]) {
		base[at + own] = (uint8_t)(POINTER | to >> 8);
		base[at + own + 1] = (uint8_t)to;
	} else {
		base[at + own] = 0;
	}
	*len = whole;
	return 0;
}
