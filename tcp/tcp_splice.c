/* SPDX-License-Identifier: BSD-3-Clause */
/* Each connection is two ends and two ways. A way reads from one end into a pipe and writes from
 * there to the other end, until the source is empty or the sink is full. Sockets are watched
 * edge-triggered, once and for all: a full sink or a closed end costs no epoll_ctl(2), and the
 * hang-up of a socket whose last bytes wait for a slow reader can't make the loop spin.
 *
 * Corking. TCP holds a last partial segment back for up to 200 ms if it was written with
 * SPLICE_F_MORE, which bulk through small pipes needs to make large segments. MORE is given when a
 * read filled the pipe, so that more is likely; whatever the reason that nothing comes then, what
 * is held is pushed at once: setting TCP_NODELAY, even again, does that (tcp(7): "setting this
 * option forces an explicit flush of pending output"). A write asks for exactly what the pipe has,
 * so that the kernel expects no more of its own accord.
 */
#include "tcp/tcp_splice.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "tcp/tcp_pipe.h"

#define TURN_SHARE ((size_t)1 << 20) /* bytes a way and turn, so that others get theirs */
#define RETRY      (20 * USEC_MSEC)  /* when there was no descriptor for a pipe */
#define URGENT_MAX 64
#define END_TURNS  64 /* of TURN_SHARE, when all ends */

struct end {
	struct loop_source source;
	bool readable, writable; /* as far as is known */
	bool last;               /* nothing comes after what is there: read up to the end */
	bool urgent;             /* splice(2) may be stopped by an urgent mark */
};

/* From end[i] to end[!i]. */
struct way {
	struct pipe pipe;
	size_t held; /* bytes in the pipe */
	bool more;   /* to be said of the bytes in the pipe */
	bool corked; /* was said of bytes now written, and none have followed yet */
	bool eof, done;
};

struct splice_flow {
	struct list node;  /* in flows */
	struct list ready; /* in ready or starved, or in none */
	struct tcp_splice *s;
	struct end end[2]; /* accepted, connecting */
	struct way way[2];
	bool connected;
};

struct tcp_splice {
	struct loop *loop;
	struct side_sockets *sides;
	struct tcp_splice_config cfg;
	struct pipe_pool *pipes;
	struct list flows;
	struct list ready;   /* had their share of the turn */
	struct list starved; /* got no pipe */
	struct loop_task again;
	struct timer retry;
	struct log_limit limit;
	struct tcp_splice_counts counts;
};

void tcp_socket_reset(int *fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	/* If it fails the peer sees a FIN. */
	if (*fd >= 0)
		(void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_close(fd);
}

/* ---- life and death */

static void flow_free(struct splice_flow *f)
{
	for (int i = 0; i < 2; i++) {
		fd_close(&f->end[i].source.fd);
		if (f->way[i].pipe.in >= 0)
			pipe_pool_discard(f->s->pipes, &f->way[i].pipe);
	}
	list_remove(&f->ready);
	list_remove(&f->node);
	f->s->counts.flows--;
	free(f);
}

static void flow_unwatch(struct splice_flow *f)
{
	for (int i = 0; i < 2; i++)
		loop_remove(f->s->loop, &f->end[i].source);
}

static void flow_reset(struct splice_flow *f)
{
	flow_unwatch(f);
	for (int i = 0; i < 2; i++)
		tcp_socket_reset(&f->end[i].source.fd);
	flow_free(f);
}

static void flow_finish(struct splice_flow *f)
{
	flow_unwatch(f);
	flow_free(f);
}

/* ---- pipes */

/* Flows without a pipe get their turn. */
static void feed_starved(struct tcp_splice *s)
{
	if (list_empty(&s->starved))
		return;
	list_move_all(&s->ready, &s->starved);
	loop_defer(s->loop, &s->again);
}

static void on_retry(struct timer *t, usec_t now)
{
	(void)now;
	feed_starved(container_of(t, struct tcp_splice, retry));
}

static void starve(struct splice_flow *f, int err, usec_t now)
{
	struct tcp_splice *s = f->s;

	log_limited(&s->limit, now, LOG_LEVEL_WARN, "TCP: no pipe for a spliced connection: %s",
		    strerror(-err));
	if (list_empty(&f->ready))
		list_append(&s->starved, &f->ready);
	if (s->retry.when == USEC_NEVER &&
	    timer_set(loop_timers(s->loop), &s->retry, now + RETRY) < 0)
		feed_starved(s);
}

static void release_pipe(struct splice_flow *f, struct way *w, usec_t now)
{
	if (w->pipe.in < 0 || w->held)
		return;
	pipe_pool_put(f->s->pipes, &w->pipe, now);
	feed_starved(f->s);
}

/* ---- data */

static void push(struct tcp_splice *s, struct way *w, const struct end *to)
{
	int on = 1;

	if (!w->corked || s->cfg.no_push)
		return;
	w->corked = false;
	s->counts.pushes++;
	/* Fails on no socket of ours; the segment would leave by TCP's own timer. */
	(void)setsockopt(to->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* After a read: more is promised when the pipe was what limited it, which keeps segments large
 * however small the pipe is. If the promise is not kept, push() comes. A message that fits the pipe
 * well costs no call more. */
static void look_ahead(struct way *w, struct end *from)
{
	w->more = w->held >= w->pipe.size - w->pipe.size / 10;
	/* The source is drained, since each slot in use has a byte at least. Whatever comes from
	 * now on is a new edge, but of an end or an urgent mark the edge has told already. */
	if (w->held < w->pipe.slots && !from->last && !from->urgent)
		from->readable = false;
}

/* Urgent data stay in line: recv(2) passes the mark that stops splice(2). Bytes now in the pipe, 0
 * at the end, or negative errno. */
static ssize_t take_urgent(struct way *w, struct end *from)
{
	int on = 1;
	uint8_t buf[URGENT_MAX];
	ssize_t n;

	if (setsockopt(from->source.fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)) < 0)
		return -errno;
	n = recv(from->source.fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (n > 0 && write(w->pipe.in, buf, (size_t)n) != n)
		return -EIO; /* can't be: the pipe is empty */
	return n < 0 ? -errno : n;
}

static int read_some(struct splice_flow *f, int i)
{
	struct tcp_splice *s = f->s;
	struct way *w = &f->way[i];
	struct end *from = &f->end[i];
	ssize_t n =
	    splice(from->source.fd, NULL, w->pipe.in, NULL, w->pipe.size, SPLICE_F_NONBLOCK);

	s->counts.reads++;
	if (n < 0)
		n = -errno;
	if (n == -EAGAIN && from->urgent)
		n = take_urgent(w, from);
	if (n == -EAGAIN) {
		s->counts.reads_dry++;
		from->readable = from->urgent = false;
		return 0;
	}
	if (n < 0)
		return (int)n;
	if (n == 0) {
		w->eof = true;
		return 0;
	}
	w->held = (size_t)n;
	look_ahead(w, from);
	return 0;
}

static int write_some(struct splice_flow *f, int i)
{
	struct tcp_splice *s = f->s;
	struct way *w = &f->way[i];
	struct end *to = &f->end[!i];
	ssize_t n = splice(w->pipe.out, NULL, to->source.fd, NULL, w->held,
			   SPLICE_F_NONBLOCK | (w->more ? SPLICE_F_MORE : 0));

	s->counts.writes++;
	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n <= 0) {
		s->counts.writes_dry++;
		to->writable = false;
		push(s, w, to);
		return 0;
	}
	w->held -= (size_t)n;
	w->corked = w->more;
	return 0;
}

/* The source has said all, and it is handed over. close(2) and shutdown(2) push. */
static int end_way(struct splice_flow *f, int i)
{
	f->way[i].done = true;
	f->way[i].corked = false;
	if (f->way[!i].done)
		return 0;
	return shutdown(f->end[!i].source.fd, SHUT_WR) < 0 ? -errno : 0;
}

/* Moves what can be moved. 0; 1 if it stopped only because others are to have their turn; or
 * negative errno: the connection is broken, or there is no pipe (*starved). */
static int move(struct splice_flow *f, int i, bool *starved)
{
	struct way *w = &f->way[i];
	struct end *from = &f->end[i], *to = &f->end[!i];
	size_t share = TURN_SHARE;
	int r = 0;

	while (r == 0 && !w->done) {
		if (w->held) {
			if (!to->writable)
				return 0;
			r = write_some(f, i);
		} else if (w->eof) {
			r = end_way(f, i);
		} else if (!from->readable) {
			push(f->s, w, to);
			return 0;
		} else if (!share) {
			return 1;
		} else {
			if (w->pipe.in < 0)
				r = pipe_pool_get(f->s->pipes, &w->pipe);
			if (r < 0) {
				*starved = true;
				push(f->s, w, to);
				return r;
			}
			r = read_some(f, i);
			share -= w->held < share ? w->held : share;
		}
	}
	return r;
}

/* f may be gone afterwards. */
static void flow_run(struct splice_flow *f, usec_t now)
{
	bool again = false;

	for (int i = 0; i < 2; i++) {
		bool starved = false;
		int r = move(f, i, &starved);

		release_pipe(f, &f->way[i], now);
		if (starved) {
			starve(f, r, now);
		} else if (r < 0) {
			flow_reset(f);
			return;
		}
		again = again || r > 0;
	}
	if (f->way[0].done && f->way[1].done) {
		flow_finish(f);
	} else if (again) {
		list_remove(&f->ready);
		list_append(&f->s->ready, &f->ready);
		loop_defer(f->s->loop, &f->s->again);
	}
}

static void run_again(struct loop_task *task, usec_t now)
{
	struct tcp_splice *s = container_of(task, struct tcp_splice, again);
	struct list todo;

	list_init(&todo);
	list_move_all(&todo, &s->ready);
	while (!list_empty(&todo)) {
		struct splice_flow *f = container_of(todo.next, struct splice_flow, ready);

		list_remove(&f->ready);
		flow_run(f, now);
	}
}

static void on_event(struct splice_flow *f, int i, uint32_t events, usec_t now)
{
	struct end *e = &f->end[i];

	if (events & EPOLLERR) {
		flow_reset(f);
		return;
	}
	e->readable = e->readable || events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLPRI);
	e->last = e->last || events & (EPOLLRDHUP | EPOLLHUP);
	e->urgent = e->urgent || events & EPOLLPRI;
	e->writable = e->writable || events & EPOLLOUT;
	if (i == 1 && events & EPOLLOUT)
		f->connected = true;
	/* What comes earlier stays in the accepted socket. */
	if (f->connected)
		flow_run(f, now);
}

static void on_accepted(struct loop_source *src, uint32_t events, usec_t now)
{
	on_event(container_of(src, struct splice_flow, end[0].source), 0, events, now);
}

static void on_connecting(struct loop_source *src, uint32_t events, usec_t now)
{
	on_event(container_of(src, struct splice_flow, end[1].source), 1, events, now);
}

/* ---- opening */

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int bind_source(int fd, const struct endpoint *src)
{
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(src, 0, &sa);
	int r = 0;

	if (ip_is_unspecified(&src->addr) && !src->port)
		return 0;
	/* A port of the kernel's choice is chosen by connect(2), which can share it (ip(7)). */
	if (!src->port)
		r = set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	if (!r && bind(fd, (struct sockaddr *)&sa, len) < 0)
		r = -errno;
	return r;
}

static int flow_connect(struct splice_flow *f, enum forward_side target,
			const struct forward_decision *d)
{
	struct tcp_splice *s = f->s;
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&d->dst, 0, &sa);
	int r = s->sides->get(s->sides, target, sa.ss_family, SOCK_STREAM, &f->end[1].source.fd);

	/* Nagle's algorithm already ran at the other end of the source, if it is wanted. */
	for (int i = 0; i < 2 && !r; i++)
		r = set_option(f->end[i].source.fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (!r)
		r = bind_source(f->end[1].source.fd, &d->src);
	if (!r && connect(f->end[1].source.fd, (struct sockaddr *)&sa, len) < 0 &&
	    errno != EINPROGRESS)
		r = -errno;
	for (int i = 0; i < 2 && !r; i++)
		r = loop_add(s->loop, &f->end[i].source,
			     EPOLLET | EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI);
	return r;
}

int tcp_splice_start(struct tcp_splice *s, int fd, enum forward_side target,
		     const struct forward_decision *d)
{
	struct splice_flow *f = s->counts.flows < s->cfg.flows_max ? calloc(1, sizeof(*f)) : NULL;
	int r;

	if (!f) {
		tcp_socket_reset(&fd);
		return s->counts.flows < s->cfg.flows_max ? -ENOMEM : -EMFILE;
	}
	f->s = s;
	f->end[0].source = (struct loop_source){.fd = fd, .ready = on_accepted};
	f->end[1].source = (struct loop_source){.fd = -1, .ready = on_connecting};
	for (int i = 0; i < 2; i++)
		f->way[i].pipe.in = f->way[i].pipe.out = -1;
	list_init(&f->ready);
	list_init(&f->node);
	list_append(&s->flows, &f->node);
	s->counts.flows++;
	r = flow_connect(f, target, d);
	if (r < 0)
		flow_reset(f);
	return r;
}

int tcp_splice_new(struct loop *loop, struct side_sockets *sides,
		   const struct tcp_splice_config *cfg, struct tcp_splice **out)
{
	struct tcp_splice *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->sides = sides;
	s->cfg = *cfg;
	list_init(&s->flows);
	list_init(&s->ready);
	list_init(&s->starved);
	loop_task_init(&s->again, run_again);
	timer_init(&s->retry, on_retry);
	r = pipe_pool_new(loop, cfg->pipe_size, &s->pipes);
	if (r < 0) {
		tcp_splice_free(s);
		return r;
	}
	*out = s;
	return 0;
}

/* Bytes that a process sent before it ended may still be in our source socket. */
static void flow_end(struct splice_flow *f)
{
	bool starved;

	for (int i = 0; i < 2; i++)
		f->end[i].readable = f->end[i].writable = f->end[i].last = true;
	for (int i = 0; i < 2 && f->connected; i++) {
		for (int turn = 0; turn < END_TURNS && move(f, i, &starved) > 0; turn++)
			;
	}
	if (f->way[0].done && f->way[1].done)
		flow_finish(f);
	else
		flow_reset(f);
}

void tcp_splice_free(struct tcp_splice *s)
{
	if (!s)
		return;
	list_foreach_safe (node, &s->flows)
		flow_end(container_of(node, struct splice_flow, node));
	loop_undefer(&s->again);
	timer_drop(loop_timers(s->loop), &s->retry);
	pipe_pool_free(s->pipes);
	free(s);
}

void tcp_splice_count(const struct tcp_splice *s, struct tcp_splice_counts *out)
{
	*out = s->counts;
	out->pipes_used = pipe_pool_used(s->pipes);
	out->pipes_idle = pipe_pool_idle(s->pipes);
}
