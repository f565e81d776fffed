/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/ns_sockets.h"

#include <errno.h>
#include <stdlib.h>

#include "core/log.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* asm-generic/socket.h, Linux 5.14 */
#endif

/* What is asked for at first, and twice as much each time, up to what a stock holds: most
 * namespaces see few spliced flows or none, and a socket costs the kernel some 3 KiB. */
#define BATCH_FIRST 8
#define BATCH_MAX   32

struct stock {
	int fd[BATCH_MAX];
	unsigned count;
	unsigned size;   /* to which it is filled up */
	unsigned wanted; /* asked for and not there yet */
	int error;       /* with which the latest request ended, or 0 */
};

/* One at a time. */
struct listen_request {
	uint32_t serial;
	unsigned wanted; /* 1 while its answer is waited for */
	unsigned late;   /* answers to earlier ones that nobody waits for any more */
	int type;
	unsigned count;
	int *results;
};

struct ns_sockets {
	struct side_sockets sides;
	int agent;
	uint64_t cookie; /* of the namespace; 0: the kernel doesn't say */
	ns_sockets_wait_fn wait;
	void *arg;
	bool lost;
	bool silent; /* it has let us wait in vain: nobody else waits before it speaks again */
	struct stock stocks[AGENT_SOCKET_KINDS];
	struct listen_request listen;
};

static uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

static int option_of(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/* An agent in the hands of somebody inside could send anything that it has. It has nothing from
 * outside, and what it may have us do with a socket of the namespace (read what it sends, connect
 * to where it likes, wait) those inside can have by other means; so what counts is that the socket
 * is one of there, and of a kind with which the data path can do nothing else than it means to. */
static bool is_from_namespace(const struct ns_sockets *s, int fd, int domain, int type)
{
	return option_of(fd, SO_DOMAIN) == domain && option_of(fd, SO_TYPE) == type &&
	       option_of(fd, SO_PROTOCOL) == (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP) &&
	       cookie_of(fd) == s->cookie;
}

static int ask_for(struct ns_sockets *s, enum agent_socket_kind kind)
{
	struct stock *stock = &s->stocks[kind];
	struct agent_message m = {.type = AGENT_MAKE, .sockets = {.kind = kind}};
	int r;

	if (stock->wanted)
		return 0;
	stock->size = !stock->size              ? BATCH_FIRST
		      : stock->size < BATCH_MAX ? 2 * stock->size
						: BATCH_MAX;
	m.sockets.count = stock->size - stock->count;
	r = agent_message_send(s->agent, &m, NULL, 0);
	if (r == 0)
		stock->wanted = m.sockets.count;
	return r;
}

/* Until *wanted is 0. It comes to an end: what was not asked for is refused, but for what the agent
 * says once in its life. */
static int await(struct ns_sockets *s, const unsigned *wanted)
{
	int r = s->silent ? -EAGAIN : 0;

	while (r == 0 && *wanted)
		r = s->wait(s->arg);
	s->silent = r == -EAGAIN;
	return r;
}

static int stock_get(struct ns_sockets *s, enum agent_socket_kind kind, int *fd)
{
	struct stock *stock = &s->stocks[kind];
	int r = s->lost ? -ECONNRESET : 0;

	if (r == 0 && !stock->count) {
		r = ask_for(s, kind);
		if (r == 0)
			r = await(s, &stock->wanted);
		if (r == 0 && !stock->count)
			r = stock->error ? stock->error : -EAGAIN;
	}
	if (r < 0)
		return r;
	*fd = stock->fd[--stock->count];
	if (stock->count < stock->size / 2 && ask_for(s, kind) < 0)
		log_debug("The agent can't be asked for sockets"); /* shows when there are none */
	return 0;
}

static int sides_get(struct side_sockets *sides, enum forward_side side, int family, int type,
		     int *fd)
{
	struct ns_sockets *s = container_of(sides, struct ns_sockets, sides);
	enum agent_socket_kind kind;
	int host;

	if (side == FORWARD_NS) {
		kind = type == SOCK_STREAM ? AGENT_TCP_V4 : AGENT_UDP_V4;
		return stock_get(s, family == AF_INET ? kind : kind + 1, fd);
	}
	host = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (host < 0)
		return -errno;
	*fd = host;
	return 0;
}

int ns_sockets_listen(struct ns_sockets *s, const struct rule *rule, uint16_t first, uint16_t last,
		      int *results)
{
	struct listen_request *l = &s->listen;
	struct agent_message m;
	int r;

	if (s->lost)
		return -ECONNRESET;
	agent_listen_pack(&m, rule, first, last);
	m.listen.serial = ++l->serial;
	r = agent_message_send(s->agent, &m, NULL, 0);
	if (r < 0)
		return r;
	l->type = rule->proto == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM;
	l->count = last - first + 1U;
	l->results = results;
	l->wanted = 1;
	r = await(s, &l->wanted);
	l->late += l->wanted;
	l->wanted = 0;
	return r;
}

static int take_sockets(struct ns_sockets *s, const struct agent_message *m, struct agent_fds *fds)
{
	struct stock *stock = &s->stocks[m->sockets.kind];
	int type = agent_socket_type(m->sockets.kind),
	    family = agent_socket_family(m->sockets.kind);

	if (!stock->wanted || m->sockets.count > stock->wanted)
		return -EBADMSG;
	for (unsigned i = 0; i < fds->count; i++) {
		if (!is_from_namespace(s, fds->fd[i], family, type))
			return -EBADMSG;
	}
	stock->wanted = 0;
	stock->error = -(int)m->sockets.error;
	if (fds->count < m->sockets.count)
		stock->error = -EMFILE;
	for (unsigned i = 0; i < fds->count; i++)
		stock->fd[stock->count++] = take_fd(&fds->fd[i]);
	return 0;
}

static int take_listening(struct ns_sockets *s, const struct agent_message *m,
			  struct agent_fds *fds)
{
	struct listen_request *l = &s->listen;
	unsigned next = 0;

	if (!l->wanted || m->listening.serial != l->serial) {
		if (!l->late)
			return -EBADMSG;
		l->late--;
		return 0;
	}
	if (m->listening.count != l->count)
		return -EBADMSG;
	for (unsigned i = 0; i < fds->count; i++) {
		/* Of either family: a rule for both makes do with IPv4 where there is no IPv6. */
		int domain = option_of(fds->fd[i], SO_DOMAIN) == AF_INET ? AF_INET : AF_INET6;

		if (!is_from_namespace(s, fds->fd[i], domain, l->type) ||
		    option_of(fds->fd[i], SO_ACCEPTCONN) != (l->type == SOCK_STREAM))
			return -EBADMSG;
	}
	for (unsigned i = 0; i < l->count; i++) {
		if (m->listening.error[i])
			l->results[i] = -(int)m->listening.error[i];
		else
			l->results[i] = next < fds->count ? take_fd(&fds->fd[next++]) : -EMFILE;
	}
	l->wanted = 0;
	return 0;
}

int ns_sockets_answer(struct ns_sockets *s, const struct agent_message *m, struct agent_fds *fds)
{
	s->silent = false;
	switch (m->type) {
	case AGENT_SOCKETS:
		return take_sockets(s, m, fds);
	case AGENT_LISTENING:
		return take_listening(s, m, fds);
	default:
		return -EBADMSG;
	}
}

void ns_sockets_lost(struct ns_sockets *s)
{
	s->lost = true;
}

struct side_sockets *ns_sockets_sides(struct ns_sockets *s)
{
	return &s->sides;
}

int ns_sockets_new(int agent, int known, ns_sockets_wait_fn wait, void *arg,
		   struct ns_sockets **out)
{
	struct ns_sockets *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->sides.get = sides_get;
	s->agent = agent;
	s->cookie = cookie_of(known);
	s->wait = wait;
	s->arg = arg;
	*out = s;
	return 0;
}

void ns_sockets_free(struct ns_sockets *s)
{
	if (!s)
		return;
	for (int kind = 0; kind < AGENT_SOCKET_KINDS; kind++) {
		struct stock *stock = &s->stocks[kind];

		while (stock->count)
			fd_close(&stock->fd[--stock->count]);
	}
	free(s);
}
