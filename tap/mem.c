/* SPDX-License-Identifier: BSD-3-Clause */
/* The link for tests: two queues of frames in memory. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "tap/tap.h"

struct mem_frame {
	struct list node;
	struct offload off;
	size_t len;
	uint8_t data[];
};

struct mem_link {
	struct tap_link link;
	struct list from_guest, to_guest;
	struct list lent; /* handed out by receive: valid until the next one */
	unsigned room;
};

static struct mem_link *mem_of(struct tap_link *link)
{
	return container_of(link, struct mem_link, link);
}

static struct mem_frame *frame_new(struct list *queue, size_t len, const struct offload *off)
{
	struct mem_frame *f = malloc(sizeof(*f) + len);

	if (!f)
		return NULL;
	f->len = len;
	f->off = *off;
	list_append(queue, &f->node);
	return f;
}

static void frame_free(struct mem_frame *f)
{
	list_remove(&f->node);
	free(f);
}

static void free_all(struct list *queue)
{
	list_foreach_safe (node, queue)
		frame_free(container_of(node, struct mem_frame, node));
}

static int mem_receive(struct tap_link *link, struct tap_frame *frames, unsigned max,
		       unsigned *count)
{
	struct mem_link *m = mem_of(link);
	unsigned n = 0;

	free_all(&m->lent);
	while (n < max && !list_empty(&m->from_guest)) {
		struct mem_frame *f = container_of(m->from_guest.next, struct mem_frame, node);

		list_remove(&f->node);
		list_append(&m->lent, &f->node);
		frames[n++] = (struct tap_frame){.data = f->data, .len = f->len, .off = f->off};
	}
	*count = n;
	return 0;
}

static int mem_send(struct tap_link *link, const struct tap_out *frames, unsigned n, unsigned *sent)
{
	struct mem_link *m = mem_of(link);
	unsigned i;

	for (i = 0; i < n && m->room > 0; i++) {
		struct mem_frame *f;
		size_t len = 0;

		for (int v = 0; v < frames[i].iov_count; v++)
			len += frames[i].iov[v].iov_len;
		f = frame_new(&m->to_guest, len, &frames[i].off);
		if (!f)
			return -ENOMEM;
		len = 0;
		for (int v = 0; v < frames[i].iov_count; v++) {
			const struct iovec *iov = &frames[i].iov[v];

			if (iov->iov_len)
				memcpy(f->data + len, iov->iov_base, iov->iov_len);
			len += iov->iov_len;
		}
		if (m->room != UINT_MAX)
			m->room--;
	}
	*sent = i;
	return 0;
}

static void mem_free(struct tap_link *link)
{
	struct mem_link *m = mem_of(link);

	free_all(&m->from_guest);
	free_all(&m->to_guest);
	free_all(&m->lent);
	free(m);
}

static int mem_start(struct tap_link *link, struct loop *loop, const struct tap_events *ev)
{
	(void)link;
	(void)loop;
	(void)ev;
	return 0;
}

int mem_link_new(const struct tap_features *features, struct tap_link **out)
{
	static const struct tap_ops ops = {
	    .start = mem_start, .receive = mem_receive, .send = mem_send, .free = mem_free};
	struct mem_link *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->link = (struct tap_link){.ops = &ops, .features = *features};
	m->room = UINT_MAX;
	list_init(&m->from_guest);
	list_init(&m->to_guest);
	list_init(&m->lent);
	*out = &m->link;
	return 0;
}

int mem_link_inject(struct tap_link *link, const void *frame, size_t len, const struct offload *off)
{
	static const struct offload none;
	struct mem_frame *f = frame_new(&mem_of(link)->from_guest, len, off ? off : &none);

	if (!f)
		return -ENOMEM;
	memcpy(f->data, frame, len);
	return 0;
}

size_t mem_link_fetch(struct tap_link *link, void *buf, size_t room, struct offload *off)
{
	struct mem_link *m = mem_of(link);
	struct mem_frame *f;
	size_t len;

	if (list_empty(&m->to_guest))
		return 0;
	f = container_of(m->to_guest.next, struct mem_frame, node);
	len = f->len;
	memcpy(buf, f->data, len < room ? len : room);
	if (off)
		*off = f->off;
	frame_free(f);
	return len;
}

void mem_link_set_room(struct tap_link *link, unsigned frames)
{
	mem_of(link)->room = frames;
}

void mem_link_tells_room(struct tap_link *link)
{
	link->tells_room = true;
}
