/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int hash_key_random(struct hash_key *key)
{
	ssize_t n = getrandom(key, sizeof(*key), 0);

	if (n < 0)
		return -errno;
	return n == sizeof(*key) ? 0 : -EIO;
}

static uint64_t rotl(uint64_t x, int b)
{
	return x << b | x >> (64 - b);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t m)
{
	v[3] ^= m;
	sip_round(v);
	sip_round(v);
	v[0] ^= m;
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t len)
{
	uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d,
			 key->k[0] ^ 0x6c7967656e657261, key->k[1] ^ 0x7465646279746573};
	const uint8_t *p = bytes;
	uint64_t last = (uint64_t)len << 56;
	size_t left = len;

	for (; left >= 8; left -= 8, p += 8) {
		uint64_t m;

		memcpy(&m, p, 8);
		sip_word(v, m);
	}
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t)p[i] << (8 * i);
	sip_word(v, last);
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct hash_table {
	struct hash_node **slots;
	size_t size, count; /* size is a power of two, or 0 before the first member */
};

int hash_table_new(struct hash_table **out)
{
	struct hash_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	*out = t;
	return 0;
}

void hash_table_free(struct hash_table *t)
{
	if (!t)
		return;
	free(t->slots);
	free(t);
}

size_t hash_table_count(const struct hash_table *t)
{
	return t->count;
}

static struct hash_node **slot(const struct hash_table *t, uint64_t hash)
{
	return &t->slots[hash & (t->size - 1)];
}

static void grow(struct hash_table *t)
{
	struct hash_table bigger = {.size = t->size ? 2 * t->size : 64, .count = t->count};

	bigger.slots = calloc(bigger.size, sizeof(struct hash_node *));
	if (!bigger.slots)
		return; /* longer chains, nothing worse */
	for (size_t i = 0; i < t->size; i++) {
		for (struct hash_node *n = t->slots[i], *next; n; n = next) {
			struct hash_node **to = slot(&bigger, n->hash);

			next = n->next;
			n->next = *to;
			*to = n;
		}
	}
	free(t->slots);
	*t = bigger;
}

int hash_table_add(struct hash_table *t, struct hash_node *node, uint64_t hash)
{
	struct hash_node **to;

	if (t->count >= t->size)
		grow(t);
	if (!t->size)
		return -ENOMEM;
	to = slot(t, hash);
	node->hash = hash;
	node->next = *to;
	*to = node;
	t->count++;
	return 0;
}

void hash_table_remove(struct hash_table *t, struct hash_node *node)
{
	for (struct hash_node **p = slot(t, node->hash); *p; p = &(*p)->next) {
		if (*p == node) {
			*p = node->next;
			t->count--;
			return;
		}
	}
}

struct hash_node *hash_table_find(const struct hash_table *t, uint64_t hash,
				  const struct hash_node *prev)
{
	struct hash_node *n = prev ? prev->next : t->size ? *slot(t, hash) : NULL;

	while (n && n->hash != hash)
		n = n->next;
	return n;
}

void hash_table_foreach(struct hash_table *t, void (*fn)(struct hash_node *node, void *arg),
			void *arg)
{
	for (size_t i = 0; i < t->size; i++) {
		for (struct hash_node *n = t->slots[i], *next; n; n = next) {
			next = n->next;
			fn(n, arg);
		}
	}
}
