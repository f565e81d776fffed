/* SPDX-License-Identifier: BSD-3-Clause */
/* The room's front door: set-up, segments in, flush, end. */
#include "tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcp/tcp_flow.h"
#include "tcp/tcp_listen.h"

static void do_work(struct tcp *t, usec_t now)
{
	struct list todo;

	list_init(&todo);
	list_move_all(&todo, &t->work);
	while (!list_empty(&todo)) {
		struct tcp_flow *f = container_of(todo.next, struct tcp_flow, work);

		list_remove(&f->work);
		tcp_flow_work(f, now);
	}
	tcp_reap(t);
}

static void run_again(struct loop_task *task, usec_t now)
{
	do_work(container_of(task, struct tcp, again), now);
}

/* true if the kernel keeps a peek offset for TCP of this family: taken on a socket that is not even
 * connected. */
static bool has_peek_off(int family)
{
	cleanup_fd int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int offset = 0;

	return fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset));
}

int tcp_new(struct loop *loop, struct tap *tap, const struct nat_config *nat,
	    const struct tcp_config *cfg, struct tcp **out)
{
	static const int families[IP_FAMILIES] = {[IP_V4] = AF_INET, [IP_V6] = AF_INET6};
	struct tcp *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->loop = loop;
	t->tap = tap;
	t->nat = nat;
	t->cfg = *cfg;
	list_init(&t->work);
	list_init(&t->dead);
	list_init(&t->stuck);
	loop_task_init(&t->again, run_again);
	for (int i = 0; i < IP_FAMILIES; i++)
		t->can_peek[i] = !cfg->force_no_peek_off && has_peek_off(families[i]);
	/* A socket that serves both families is one of IPv6, whatever the client's. */
	if (!t->can_peek[IP_V6])
		t->can_peek[IP_V4] = false;
	t->buffer = malloc(FRAME_MAX);
	r = t->buffer ? hash_key_random(&t->key) : -ENOMEM;
	if (!r)
		r = hash_table_new(&t->flows);
	if (!r && cfg->guest)
		r = tcp_acceptor_new(t, &t->acceptor);
	if (r < 0) {
		tcp_free(t);
		return r;
	}
	*out = t;
	return 0;
}

/* The guest is no more. A connection that it had closed is left to the host's TCP, which delivers
 * what it has taken; the others break off. */
static void end_flow(struct hash_node *node, void *arg)
{
	struct tcp_flow *f = container_of(node, struct tcp_flow, node);

	(void)arg;
	if (f->fin_received && !tcp_held(f))
		tcp_flow_finish(f);
	else
		tcp_flow_reset(f);
	if (f->state == FLOW_RESETTING)
		tcp_flow_finish(f);
}

void tcp_free(struct tcp *t)
{
	if (!t)
		return;
	tcp_acceptor_free(t->acceptor);
	if (t->flows)
		hash_table_foreach(t->flows, end_flow, NULL);
	tcp_reap(t);
	loop_undefer(&t->again);
	hash_table_free(t->flows);
	free(t->buffer);
	while (t->spare_count)
		free(t->spare[--t->spare_count].ring);
	free(t);
}

void tcp_input(struct tcp *t, const struct packet *p, usec_t now)
{
	struct endpoint guest = {p->ip.src, p->tcp.src_port}, peer = {p->ip.dst, p->tcp.dst_port};
	struct tcp_flow *f = t->gather.count ? t->gather.flow : NULL;

	/* Segments come in rows of one flow: then no hash is needed. */
	if (!f || !tcp_flow_is(f, &guest, &peer))
		f = tcp_flow_find(t, &guest, &peer);
	if (f)
		tcp_flow_input(f, p, now);
	else if ((p->tcp.flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN)
		tcp_open(t, p, now);
	else
		tcp_refuse(t, p);
}

void tcp_batch_done(struct tcp *t)
{
	tcp_hand_over(t);
}

void tcp_flush(struct tcp *t, usec_t now)
{
	tcp_hand_over(t);
	do_work(t, now);
}

void tcp_link_ready(struct tcp *t, usec_t now)
{
	struct list todo;

	list_init(&todo);
	list_move_all(&todo, &t->stuck);
	/* The first to find the link full again is the last to try, and goes to the end: with a
	 * thousand of them there must not be a thousand tries for each frame that fits. */
	while (!list_empty(&todo) && list_empty(&t->stuck)) {
		struct tcp_flow *f = container_of(todo.next, struct tcp_flow, stuck);

		list_remove(&f->stuck);
		tcp_timer_work(f, now);
	}
	list_move_all(&todo, &t->stuck);
	list_move_all(&t->stuck, &todo);
	tcp_reap(t);
}

struct unfinished {
	size_t flows, held;
};

static void count_unfinished(struct hash_node *node, void *arg)
{
	const struct tcp_flow *f = container_of(node, struct tcp_flow, node);
	struct unfinished *u = arg;

	/* Before the handshake is over the guest has sent nothing, and it gives such a connection
	 * up without a word. */
	if (f->state < FLOW_ESTABLISHED || (f->fin_received && !tcp_held(f)))
		return;
	u->flows++;
	u->held += tcp_held(f);
}

size_t tcp_unfinished(struct tcp *t, size_t *held)
{
	struct unfinished u = {0};

	hash_table_foreach(t->flows, count_unfinished, &u);
	*held = u.held;
	return u.flows;
}

size_t tcp_flow_count(const struct tcp *t)
{
	return hash_table_count(t->flows);
}
