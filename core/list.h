/* SPDX-License-Identifier: BSD-3-Clause */
/* Circular doubly linked list whose links live in the members. A node that is in no list points at
 * itself, so removing twice is harmless. */
#ifndef CORE_LIST_H
#define CORE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Appends node, which must be in no list, at the tail of head. */
static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Moves every member of from to the tail of to. */
static inline void list_move_all(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_foreach(pos, head)                                                                    \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* As list_foreach, where the body may remove pos. */
#define list_foreach_safe(pos, head)                                                               \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head);              \
	     pos = pos##_next, pos##_next = pos->next)

#endif
