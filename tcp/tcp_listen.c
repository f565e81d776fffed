/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp/tcp_listen.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tcp/tcp_flow.h"
#include "tcp/tcp_splice.h"

#define ACCEPTS_A_TURN 16                /* of one socket: the others want their turn */
#define PAUSE          (100 * USEC_MSEC) /* without descriptors or memory */
#define FILES_KEPT     512 /* descriptors that spliced connections leave to everything else */

struct tcp_acceptor {
	struct tcp *tcp;
	struct tcp_splice *splice; /* or NULL */
	struct timer resume;
	struct forward_port **paused; /* watched for nothing until then */
	size_t paused_count, paused_room;
	struct log_limit limit;
	struct tcp_listen_counts counts;
};

/* ---- a shortage: stop listening for a moment, since a socket that stays readable would make the
 * loop spin */

static void on_resume(struct timer *timer, usec_t now)
{
	struct tcp_acceptor *a = container_of(timer, struct tcp_acceptor, resume);

	(void)now;
	for (size_t i = 0; i < a->paused_count; i++) {
		int r = loop_modify(a->tcp->loop, &a->paused[i]->source, EPOLLIN);

		if (r < 0)
			log_warn("TCP: port %u is no longer served: %s", a->paused[i]->port,
				 strerror(-r));
	}
	a->paused_count = 0;
}

static bool remember_paused(struct tcp_acceptor *a, struct forward_port *p)
{
	if (a->paused_count == a->paused_room) {
		size_t room = a->paused_room ? 2 * a->paused_room : 16;
		struct forward_port **more = realloc(a->paused, room * sizeof(*more));

		if (!more)
			return false;
		a->paused = more;
		a->paused_room = room;
	}
	a->paused[a->paused_count++] = p;
	return true;
}

static void pause_port(struct tcp_acceptor *a, struct forward_port *p, int err, usec_t now)
{
	struct loop *loop = a->tcp->loop;

	log_limited(&a->limit, now, LOG_LEVEL_WARN,
		    "TCP: can't accept connections to port %u at the moment: %s", p->port,
		    strerror(err));
	a->counts.paused++;
	if (a->resume.when == USEC_NEVER &&
	    timer_set(loop_timers(loop), &a->resume, now + PAUSE) < 0)
		return;
	if (!remember_paused(a, p))
		return;
	if (loop_modify(loop, &p->source, 0) < 0)
		a->paused_count--;
}

/* ---- a connection */

/* The address that a connection was made to; what the socket is bound to, if that says it. */
static int local_address(const struct forward_port *p, int fd, struct endpoint *out)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (!p->rule->dual_stack && !ip_is_unspecified(&p->rule->addr)) {
		*out = (struct endpoint){p->rule->addr, p->port};
		return 0;
	}
	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	return endpoint_from_sockaddr(&sa, out);
}

static void refuse(struct tcp_acceptor *a, int fd, const char *why, usec_t now)
{
	a->counts.refused++;
	log_limited(&a->limit, now, LOG_LEVEL_DEBUG, "TCP: connection refused: %s", why);
	tcp_socket_reset(&fd);
}

/* Takes fd. */
static void hand_over(struct tcp_acceptor *a, const struct forward_port *p, int fd,
		      const struct endpoint *peer, usec_t now)
{
	struct tcp *t = a->tcp;
	struct forward_decision d;
	struct forward_ends ends = {.peer = *peer};
	int r = local_address(p, fd, &ends.local);

	if (r < 0) {
		refuse(a, fd, strerror(-r), now);
		return;
	}
	forward_decide(t->nat, t->cfg.guest, p, &ends, &d);
	switch (d.verdict) {
	case FORWARD_SPLICE:
		if (!a->splice) {
			refuse(a, fd, "nothing is spliced here", now);
			return;
		}
		r = tcp_splice_start(a->splice, fd, forward_other(p->side), &d);
		a->counts.spliced += !r;
		break;
	case FORWARD_TO_TAP:
		r = tcp_accept(t, fd, &d, now);
		a->counts.to_tap += !r;
		break;
	case FORWARD_REFUSE:
		refuse(a, fd, d.why, now);
		return;
	}
	if (r < 0) {
		a->counts.refused++;
		log_limited(&a->limit, now, LOG_LEVEL_WARN, "TCP: port %u: no connection: %s",
			    p->port, strerror(-r));
	}
}

/* Errors of accept4(2) that concern the one connection which is lost, or the network (accept(2)).
 */
static bool is_passing(int err)
{
	static const int passing[] = {ECONNABORTED, EINTR,       EPERM,     ENETDOWN,
				      EPROTO,       ENOPROTOOPT, EHOSTDOWN, ENONET,
				      EHOSTUNREACH, ENETUNREACH, EOPNOTSUPP};

	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
		if (err == passing[i])
			return true;
	}
	return false;
}

/* false if there is none at the moment. */
static bool accept_one(struct tcp_acceptor *a, struct forward_port *p, usec_t now)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct endpoint peer;
	int fd = accept4(p->source.fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		int err = errno;

		if (is_passing(err))
			return true;
		if (err != EAGAIN)
			pause_port(a, p, err, now);
		return false;
	}
	a->counts.accepted++;
	if (endpoint_from_sockaddr(&sa, &peer) < 0)
		refuse(a, fd, "not an internet address", now);
	else
		hand_over(a, p, fd, &peer, now);
	return true;
}

static void on_connection(struct loop_source *src, uint32_t events, usec_t now)
{
	struct forward_port *p = container_of(src, struct forward_port, source);
	struct tcp *t = p->server;

	(void)events;
	for (int i = 0; i < ACCEPTS_A_TURN && accept_one(t->acceptor, p, now); i++)
		;
}

/* ---- for others */

int tcp_listen(struct tcp *t, struct forward_port *p)
{
	if (!t->acceptor)
		return -EINVAL;
	p->server = t;
	p->source.ready = on_connection;
	return loop_add(t->loop, &p->source, EPOLLIN);
}

void tcp_unlisten(struct tcp *t, struct forward_port *p)
{
	struct tcp_acceptor *a = t->acceptor;

	loop_remove(t->loop, &p->source);
	for (size_t i = 0; i < a->paused_count; i++) {
		if (a->paused[i] == p) {
			a->paused[i] = a->paused[--a->paused_count];
			return;
		}
	}
}

void tcp_listen_count(const struct tcp *t, struct tcp_listen_counts *out)
{
	*out = t->acceptor ? t->acceptor->counts : (struct tcp_listen_counts){0};
}

/* Two descriptors a connection. */
static unsigned spliced_most(const struct tcp *t)
{
	struct rlimit files;
	rlim_t most = t->cfg.flows_max;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return t->cfg.flows_max;
	if (files.rlim_cur > 2 * FILES_KEPT)
		files.rlim_cur -= FILES_KEPT;
	if (files.rlim_cur / 2 < most)
		most = files.rlim_cur / 2;
	return (unsigned)most;
}

int tcp_acceptor_new(struct tcp *t, struct tcp_acceptor **out)
{
	struct tcp_acceptor *a = calloc(1, sizeof(*a));
	struct tcp_splice_config cfg = {.flows_max = spliced_most(t)};
	int r = 0;

	if (!a)
		return -ENOMEM;
	a->tcp = t;
	timer_init(&a->resume, on_resume);
	if (t->cfg.sides)
		r = tcp_splice_new(t->loop, t->cfg.sides, &cfg, &a->splice);
	if (r < 0) {
		free(a);
		return r;
	}
	*out = a;
	return 0;
}

void tcp_acceptor_free(struct tcp_acceptor *a)
{
	if (!a)
		return;
	tcp_splice_free(a->splice);
	timer_drop(loop_timers(a->tcp->loop), &a->resume);
	free(a->paused);
	free(a);
}
