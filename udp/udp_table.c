/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets and flows: found, made, timed out. */
#include <errno.h>
#include <stdlib.h>

#include "udp/udp_flow.h"

#define WELL_KNOWN_MAX 1023
#define EVICTIONS_MAX  16 /* for one new socket */

/* What the hashes are taken over: no padding anywhere. */
struct socket_key {
	struct ip_addr guest;
	uint16_t port, to_loopback;
};
struct guest_key {
	struct ip_addr src, dst, host;
	uint16_t port, zero;
};
struct host_key {
	const struct udp_socket *sock;
	struct ip_addr addr;
};

static uint64_t socket_hash(const struct udp *u, const struct endpoint *guest, bool to_loopback)
{
	struct socket_key k = {
	    .guest = guest->addr, .port = guest->port, .to_loopback = to_loopback};

	return hash_bytes(&u->key, &k, sizeof(k));
}

static uint64_t guest_hash(const struct udp *u, const struct endpoint *guest,
			   const struct ip_addr *dst, const struct ip_addr *host)
{
	struct guest_key k = {.src = guest->addr, .dst = *dst, .host = *host, .port = guest->port};

	return hash_bytes(&u->key, &k, sizeof(k));
}

static uint64_t host_hash(const struct udp *u, const struct udp_socket *s,
			  const struct ip_addr *addr)
{
	struct host_key k = {.sock = s, .addr = *addr};

	return hash_bytes(&u->key, &k, sizeof(k));
}

static bool same_guest(const struct udp_socket *s, const struct endpoint *guest)
{
	return s->guest.port == guest->port && ip_equal(&s->guest.addr, &guest->addr);
}

static void socket_free(struct udp_socket *s)
{
	hash_table_remove(s->udp->sockets, &s->node);
	loop_remove(s->udp->loop, &s->source);
	host_socket_close(&s->host);
	free(s);
}

static void flow_free(struct udp_flow *f)
{
	struct udp_socket *s = f->sock;
	struct udp *u = s->udp;

	if (f->batch_first != UDP_NONE)
		udp_flush(u, u->now);
	if (u->recent == f)
		u->recent = NULL;
	if (s->recent == f)
		s->recent = NULL;
	s->groups -= f->multicast || f->broadcast;
	timer_drop(u->timers, &f->timer);
	hash_table_remove(u->by_guest, &f->by_guest);
	hash_table_remove(u->by_host, &f->by_host);
	list_remove(&f->in_socket);
	list_remove(&f->in_brief);
	free(f);
	if (list_empty(&s->flows))
		socket_free(s);
}

static void flow_expire(struct timer *t, usec_t now)
{
	struct udp_flow *f = container_of(t, struct udp_flow, timer);

	f->sock->udp->now = now;
	flow_free(f);
}

static void free_node(struct hash_node *node, void *arg)
{
	(void)arg;
	flow_free(container_of(node, struct udp_flow, by_guest));
}

void udp_table_free(struct udp *u)
{
	u->batch_count = 0; /* the payload may be gone */
	hash_table_foreach(u->by_guest, free_node, NULL);
}

/* The kernel's limit on descriptors is met like our own on flows. */
static bool evict(struct udp *u)
{
	if (list_empty(&u->brief))
		return false;
	flow_free(container_of(u->brief.next, struct udp_flow, in_brief));
	return true;
}

static int socket_open(struct udp *u, const struct endpoint *guest, bool to_loopback,
		       struct udp_socket *s)
{
	struct host_socket_request req = {.family = ip_family(&guest->addr),
					  .proto = IPPROTO_UDP,
					  .port = guest->port,
					  .to_loopback = to_loopback,
					  .on_error = udp_error_received};
	int r = host_socket_open(u->nat, &req, &s->host);

	/* A flow may share its socket with others: the first that goes need not free one. */
	for (int i = 0; (r == -EMFILE || r == -ENFILE) && i < EVICTIONS_MAX && evict(u); i++)
		r = host_socket_open(u->nat, &req, &s->host);
	return r;
}

static int socket_new(struct udp *u, const struct endpoint *guest, bool to_loopback,
		      struct udp_socket **out)
{
	struct udp_socket *s = malloc(sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct udp_socket){
	    .udp = u, .guest = *guest, .to_loopback = to_loopback, .host.fd = -1};
	list_init(&s->flows);
	r = socket_open(u, guest, to_loopback, s);
	if (r == 0) {
		s->source = (struct loop_source){.fd = s->host.fd, .ready = udp_socket_ready};
		r = hash_table_add(u->sockets, &s->node, socket_hash(u, guest, to_loopback));
	}
	if (r < 0)
		goto fail;
	r = loop_add(u->loop, &s->source, EPOLLIN);
	if (r < 0) {
		hash_table_remove(u->sockets, &s->node);
		goto fail;
	}
	*out = s;
	return 0;
fail:
	host_socket_close(&s->host);
	free(s);
	return r;
}

static struct udp_socket *socket_find(struct udp *u, const struct endpoint *guest, bool to_loopback)
{
	uint64_t hash = socket_hash(u, guest, to_loopback);
	struct hash_node *n = NULL;

	while ((n = hash_table_find(u->sockets, hash, n))) {
		struct udp_socket *s = container_of(n, struct udp_socket, node);

		if (same_guest(s, guest) && s->to_loopback == to_loopback)
			return s;
	}
	return NULL;
}

static int socket_get(struct udp *u, const struct endpoint *guest, const struct ip_addr *host,
		      struct udp_socket **out)
{
	const struct nat_family *nf = &u->nat->family[ip_family(host)];
	bool bound_elsewhere = !ip_is_unspecified(&nf->outbound) || nf->outbound_if[0];
	bool to_loopback = bound_elsewhere && ip_is_loopback(host);

	*out = socket_find(u, guest, to_loopback);
	return *out ? 0 : socket_new(u, guest, to_loopback, out);
}

static int flow_new(struct udp *u, struct udp_socket *s, const struct ip_addr *dst,
		    const struct ip_addr *host, struct udp_flow **out)
{
	struct udp_flow *f = malloc(sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	*f = (struct udp_flow){.sock = s,
			       .guest_addr = *dst,
			       .host_addr = *host,
			       .multicast = ip_is_multicast(host),
			       .broadcast = ip_is_broadcast(host),
			       .batch_first = UDP_NONE,
			       .batch_last = UDP_NONE,
			       .segment_max = UINT16_MAX};
	timer_init(&f->timer, flow_expire);
	list_init(&f->in_socket);
	list_init(&f->in_brief);
	r = timer_set(u->timers, &f->timer, u->now + u->cfg.timeout_one_way);
	if (r == 0)
		r = hash_table_add(u->by_guest, &f->by_guest, guest_hash(u, &s->guest, dst, host));
	if (r == 0) {
		r = hash_table_add(u->by_host, &f->by_host, host_hash(u, s, host));
		if (r < 0)
			hash_table_remove(u->by_guest, &f->by_guest);
	}
	if (r < 0) {
		timer_drop(u->timers, &f->timer);
		free(f);
		return r;
	}
	list_append(&s->flows, &f->in_socket);
	list_append(&u->brief, &f->in_brief);
	s->groups += f->multicast || f->broadcast;
	*out = f;
	return 0;
}

/* Makes the flow, and the socket under it if need be; a socket never stays without flows. */
static int flow_make(struct udp *u, const struct endpoint *guest, const struct ip_addr *dst,
		     const struct ip_addr *host, struct udp_flow **out)
{
	struct udp_socket *s;
	int r;

	if (udp_flow_count(u) >= u->cfg.flows_max && !evict(u))
		return -ENOBUFS;
	r = socket_get(u, guest, host, &s);
	if (r < 0)
		return r;
	r = flow_new(u, s, dst, host, out);
	if (r < 0 && list_empty(&s->flows))
		socket_free(s);
	return r;
}

static struct udp_flow *flow_find(struct udp *u, const struct endpoint *guest,
				  const struct ip_addr *dst, const struct ip_addr *host)
{
	uint64_t hash = guest_hash(u, guest, dst, host);
	struct hash_node *n = NULL;

	while ((n = hash_table_find(u->by_guest, hash, n))) {
		struct udp_flow *f = container_of(n, struct udp_flow, by_guest);

		if (same_guest(f->sock, guest) && ip_equal(&f->guest_addr, dst) &&
		    ip_equal(&f->host_addr, host))
			return f;
	}
	return NULL;
}

static void count_failure(struct udp *u, const struct endpoint *guest, int err)
{
	char text[IP_TEXT_MAX];

	count_drop(u->counters, err == -ENOBUFS  ? DROP_FLOW_LIMIT
				: err == -ENOMEM ? DROP_NO_MEMORY
						 : DROP_NO_SOCKET);
	log_limited(&u->log, u->now, LOG_LEVEL_DEBUG, "No UDP socket for %s port %u: %s",
		    ip_format(&guest->addr, text), guest->port, strerror(-err));
}

struct udp_flow *udp_flow_get(struct udp *u, const struct packet *p)
{
	struct endpoint guest = {.addr = p->ip.src, .port = p->udp.src_port};
	struct endpoint dst = {.addr = p->ip.dst, .port = p->udp.dst_port};
	struct udp_flow *f = u->recent;
	struct ip_addr host;
	int r;

	/* The translation depends on the port: only the same one has the same result. */
	if (f && f->port == dst.port && same_guest(f->sock, &guest) &&
	    ip_equal(&f->guest_addr, &dst.addr))
		return f;
	host = nat_to_host(u->nat, IPPROTO_UDP, &dst);
	f = flow_find(u, &guest, &dst.addr, &host);
	if (!f) {
		r = flow_make(u, &guest, &dst.addr, &host, &f);
		if (r < 0) {
			count_failure(u, &guest, r);
			return NULL;
		}
	}
	f->port = dst.port;
	u->recent = f;
	return f;
}

/* Of several names that the guest has for one address, the one it used with this port. */
struct udp_flow *udp_flow_of_host(struct udp_socket *s, const struct endpoint *from)
{
	struct udp *u = s->udp;
	struct udp_flow *f = s->recent, *other = NULL;
	struct hash_node *n = NULL;
	uint64_t hash;

	if (f && f->port == from->port && ip_equal(&f->host_addr, &from->addr))
		return f;
	hash = host_hash(u, s, &from->addr);
	while ((n = hash_table_find(u->by_host, hash, n))) {
		f = container_of(n, struct udp_flow, by_host);
		if (f->sock != s || !ip_equal(&f->host_addr, &from->addr))
			continue;
		other = f;
		if (f->port == from->port)
			break;
	}
	s->recent = other;
	return other;
}

/* A question and its answer need the short time only where a well-known port was asked (RFC 4787
 * REQ-5 a), as with names: a resolver's clients take a new port, hence a new socket here, for each
 * question. */
static bool is_lasting(const struct udp_flow *f)
{
	return f->sent && f->received &&
	       (f->sent > 1 || f->received > 1 || f->port > WELL_KNOWN_MAX);
}

void udp_flow_used(struct udp_flow *f, bool by_guest)
{
	struct udp *u = f->sock->udp;
	uint8_t *n = by_guest ? &f->sent : &f->received;
	usec_t timeout = u->cfg.timeout_one_way;

	if (*n < 2)
		(*n)++;
	list_remove(&f->in_brief);
	if (is_lasting(f))
		timeout = u->cfg.timeout_both_ways;
	else
		list_append(&u->brief, &f->in_brief);
	/* It is in the heap already, so this only moves it and can't fail. */
	if (timer_set(u->timers, &f->timer, u->now + timeout) < 0)
		timer_off(&f->timer);
}

void udp_flow_set_broadcast(struct udp_flow *f)
{
	f->sock->groups += !f->multicast && !f->broadcast;
	f->broadcast = true;
}
