/* SPDX-License-Identifier: BSD-3-Clause */
/* Keyed hashing (SipHash-2-4, Aumasson and Bernstein 2012) and a hash table whose links live in the
 * members. */
#ifndef CORE_HASH_H
#define CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "core/fd.h"

struct hash_key {
	uint64_t k[2];
};

/* Fills key from getrandom(2). 0 or negative errno. */
int hash_key_random(struct hash_key *key) must_check;

/* SipHash-2-4 of len bytes. Without the key an outsider can't provoke collisions or guess the
 * result. */
uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t len);

struct hash_node {
	struct hash_node *next;
	uint64_t hash;
};

struct hash_table;

int hash_table_new(struct hash_table **out) must_check;
void hash_table_free(struct hash_table *t);
size_t hash_table_count(const struct hash_table *t);

/* Puts in node with this hash; the table grows as needed. -ENOMEM only for the very first member.
 */
int hash_table_add(struct hash_table *t, struct hash_node *node, uint64_t hash) must_check;
void hash_table_remove(struct hash_table *t, struct hash_node *node);

/* First member with this hash after prev (NULL: from the start), or NULL. The caller compares keys.
 */
struct hash_node *hash_table_find(const struct hash_table *t, uint64_t hash,
				  const struct hash_node *prev);

/* Calls fn on each member; fn may remove the member it is given (and free it), no other. */
void hash_table_foreach(struct hash_table *t, void (*fn)(struct hash_node *node, void *arg),
			void *arg);

#endif
