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
	struct ip_addr src, dst, host; /* host, or dst_port of inbound ones, which may be alike */
	uint16_t port, dst_port;
};
struct host_key {
	const struct udp_socket *sock;
	struct ip_addr addr;
	uint64_t port; /* of inbound ones */
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

static uint64_t inbound_hash(const struct udp *u, const struct endpoint *guest,
			     const struct endpoint *peer)
{
	struct guest_key k = {.src = guest->addr,
			      .dst = peer->addr,
			      .host = ip_any[IP_V6],
			      .port = guest->port,
			      .dst_port = peer->port};

	return hash_bytes(&u->key, &k, sizeof(k));
}

static uint64_t host_hash(const struct udp *u, const struct udp_socket *s,
			  const struct ip_addr *addr, uint16_t port)
{
	struct host_key k = {.sock = s, .addr = *addr, .port = port};

	return hash_bytes(&u->key, &k, sizeof(k));
}

static bool same_endpoint(const struct endpoint *a, const struct endpoint *b)
{
	return a->port == b->port && ip_equal(&a->addr, &b->addr);
}

static void socket_free(struct udp_socket *s)
{
	if (s->kind == UDP_LISTENING) {
		s->port->socket[s->host.family] = NULL;
	} else {
		if (s->kind == UDP_OUTBOUND)
			hash_table_remove(s->udp->sockets, &s->node);
		loop_remove(s->udp->loop, &s->source);
		host_socket_close(&s->host);
	}
	free(s);
}

void udp_socket_release(struct udp_socket *s)
{
	if (list_empty(&s->flows))
		socket_free(s);
}

static void unlink_flow(struct udp_flow *f)
{
	struct udp_socket *s = f->sock;
	struct udp *u = s->udp;

	if (u->recent == f)
		u->recent = NULL;
	if (s->recent == f)
		s->recent = NULL;
	s->groups -= f->multicast || f->broadcast;
	timer_drop(u->timers, &f->timer);
	if (s->kind != UDP_SPLICED) {
		if (!f->pair)
			hash_table_remove(u->by_guest, &f->by_guest);
		hash_table_remove(u->by_host, &f->by_host);
	}
	list_remove(&f->in_socket);
	list_remove(&f->in_brief);
	free(f);
	udp_socket_release(s);
}

void udp_flow_free(struct udp_flow *f)
{
	struct udp *u = f->sock->udp;
	struct udp_flow *pair = f->pair;

	if (f->batch_first != UDP_NONE || (pair && pair->batch_first != UDP_NONE))
		udp_flush(u, u->now);
	unlink_flow(f);
	if (pair)
		unlink_flow(pair);
}

static void flow_expire(struct timer *t, usec_t now)
{
	struct udp_flow *f = container_of(t, struct udp_flow, timer);

	f->sock->udp->now = now;
	udp_flow_free(f);
}

static void free_node(struct hash_node *node, void *arg)
{
	(void)arg;
	udp_flow_free(container_of(node, struct udp_flow, by_host));
}

void udp_table_free(struct udp *u)
{
	u->batch_count = 0; /* the payload may be gone */
	hash_table_foreach(u->by_host, free_node, NULL);
}

/* The kernel's limit on descriptors is met like our own on flows. */
bool udp_flow_evict(struct udp *u)
{
	if (list_empty(&u->brief))
		return false;
	udp_flow_free(container_of(u->brief.next, struct udp_flow, in_brief));
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
	int r = -EMFILE;

	/* A flow may share its socket with others: the first that goes need not free one. */
	for (int i = 0; i <= EVICTIONS_MAX; i++) {
		if (hash_table_count(u->sockets) < u->cfg.sockets_max)
			r = host_socket_open(u->nat, &req, &s->host);
		if ((r != -EMFILE && r != -ENFILE) || !udp_flow_evict(u))
			return r;
	}
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

		if (same_endpoint(&s->guest, guest) && s->to_loopback == to_loopback)
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

/* Enters f by its ends: the guest's, unless it is spliced, and the host's. */
static int flow_register(struct udp *u, struct udp_flow *f)
{
	struct endpoint peer = {.addr = f->guest_addr, .port = f->port};
	int r = timer_set(u->timers, &f->timer, u->now + u->cfg.timeout_one_way);

	if (r == 0 && !f->pair)
		r = hash_table_add(u->by_guest, &f->by_guest,
				   f->inbound
				       ? inbound_hash(u, &f->guest, &peer)
				       : guest_hash(u, &f->guest, &f->guest_addr, &f->host_addr));
	if (r < 0)
		return r;
	r = hash_table_add(u->by_host, &f->by_host,
			   host_hash(u, f->sock, &f->host_addr, f->host_port));
	if (r < 0 && !f->pair)
		hash_table_remove(u->by_guest, &f->by_guest);
	return r;
}

int udp_flow_new(struct udp *u, const struct udp_flow *like, struct udp_flow **out)
{
	struct udp_flow *f = malloc(sizeof(*f));
	int r = 0;

	if (!f)
		return -ENOMEM;
	*f = *like;
	f->multicast = ip_is_multicast(&f->host_addr);
	f->broadcast = ip_is_broadcast(&f->host_addr);
	f->batch_first = f->batch_last = UDP_NONE;
	f->segment_max = UINT16_MAX;
	timer_init(&f->timer, flow_expire);
	list_init(&f->in_socket);
	list_init(&f->in_brief);
	/* The socket's side of a pair lives as long as the client's. */
	if (f->sock->kind != UDP_SPLICED)
		r = flow_register(u, f);
	if (r < 0) {
		timer_drop(u->timers, &f->timer);
		free(f);
		return r;
	}
	list_append(&f->sock->flows, &f->in_socket);
	if (f->sock->kind != UDP_SPLICED)
		list_append(&u->brief, &f->in_brief);
	f->sock->groups += f->multicast || f->broadcast;
	*out = f;
	return 0;
}

int udp_flow_make_room(struct udp *u)
{
	return udp_flow_count(u) < u->cfg.flows_max || udp_flow_evict(u) ? 0 : -ENOBUFS;
}

/* Makes the flow, and the socket under it if need be; a socket never stays without flows. */
static int flow_make(struct udp *u, const struct endpoint *guest, const struct ip_addr *dst,
		     const struct ip_addr *host, struct udp_flow **out)
{
	struct udp_flow like = {.guest = *guest, .guest_addr = *dst, .host_addr = *host};
	int r = udp_flow_make_room(u);

	if (r < 0)
		return r;
	like.scope = u->nat->family[ip_family(host)].template_index;
	r = socket_get(u, guest, host, &like.sock);
	if (r < 0)
		return r;
	r = udp_flow_new(u, &like, out);
	if (r < 0)
		udp_socket_release(like.sock);
	return r;
}

static struct udp_flow *flow_find(struct udp *u, const struct endpoint *guest,
				  const struct ip_addr *dst, const struct ip_addr *host)
{
	uint64_t hash = guest_hash(u, guest, dst, host);
	struct hash_node *n = NULL;

	while ((n = hash_table_find(u->by_guest, hash, n))) {
		struct udp_flow *f = container_of(n, struct udp_flow, by_guest);

		if (!f->inbound && same_endpoint(&f->guest, guest) &&
		    ip_equal(&f->guest_addr, dst) && ip_equal(&f->host_addr, host))
			return f;
	}
	return NULL;
}

static struct udp_flow *inbound_find(struct udp *u, const struct endpoint *guest,
				     const struct endpoint *peer)
{
	uint64_t hash = inbound_hash(u, guest, peer);
	struct hash_node *n = NULL;

	while ((n = hash_table_find(u->by_guest, hash, n))) {
		struct udp_flow *f = container_of(n, struct udp_flow, by_guest);

		if (f->inbound && same_endpoint(&f->guest, guest) && f->port == peer->port &&
		    ip_equal(&f->guest_addr, &peer->addr))
			return f;
	}
	return NULL;
}

bool udp_flow_is_taken(struct udp *u, const struct endpoint *guest, const struct endpoint *peer)
{
	return inbound_find(u, guest, peer);
}

void udp_flow_failed(struct udp *u, const struct endpoint *from, int err)
{
	char text[IP_TEXT_MAX];

	count_drop(u->counters, err == -ENOBUFS  ? DROP_FLOW_LIMIT
				: err == -ENOMEM ? DROP_NO_MEMORY
						 : DROP_NO_SOCKET);
	log_limited(&u->log, u->now, LOG_LEVEL_DEBUG, "No UDP flow for %s port %u: %s",
		    ip_format(&from->addr, text), from->port, strerror(-err));
}

struct udp_flow *udp_flow_get(struct udp *u, const struct packet *p)
{
	struct endpoint guest = {.addr = p->ip.src, .port = p->udp.src_port};
	struct endpoint dst = {.addr = p->ip.dst, .port = p->udp.dst_port};
	struct udp_flow *f = u->recent;
	struct ip_addr host;
	int r;

	/* The translation depends on the port: only the same one has the same result. */
	if (f && f->port == dst.port && same_endpoint(&f->guest, &guest) &&
	    ip_equal(&f->guest_addr, &dst.addr))
		return f;
	/* Answers go where the question came from. */
	f = hash_table_count(u->ports) ? inbound_find(u, &guest, &dst) : NULL;
	host = nat_to_host(u->nat, IPPROTO_UDP, &dst);
	if (!f)
		f = flow_find(u, &guest, &dst.addr, &host);
	if (!f) {
		r = udp_flow_from_port(u, &guest, &dst, &host, &f);
		if (r == 0 && !f)
			r = flow_make(u, &guest, &dst.addr, &host, &f);
		if (r < 0) {
			udp_flow_failed(u, &guest, r);
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
	hash = host_hash(u, s, &from->addr, 0);
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

static bool is_from(const struct udp_flow *f, const struct udp_arrival *a)
{
	return f->host_port == a->from.port && ip_equal(&f->host_addr, &a->from.addr) &&
	       (ip_is_unspecified(&a->to) || ip_is_unspecified(&f->to) ||
		(ip_equal(&f->to, &a->to) && f->scope == a->scope));
}

struct udp_flow *udp_flow_of_client(struct udp_socket *s, const struct udp_arrival *a)
{
	struct udp *u = s->udp;
	struct udp_flow *f = s->recent;
	struct hash_node *n = NULL;
	uint64_t hash;

	if (f && is_from(f, a))
		return f;
	hash = host_hash(u, s, &a->from.addr, a->from.port);
	while ((n = hash_table_find(u->by_host, hash, n))) {
		f = container_of(n, struct udp_flow, by_host);
		if (f->sock == s && is_from(f, a))
			return s->recent = f;
	}
	return NULL;
}

/* A question and its answer need the short time only where a well-known port was asked (RFC 4787
 * REQ-5 a), as with names: a resolver's clients take a new port, hence a new socket here, for each
 * question. */
static bool is_lasting(const struct udp_flow *f)
{
	uint16_t asked = f->inbound ? f->guest.port : f->port;

	return f->sent && f->received && (f->sent > 1 || f->received > 1 || asked > WELL_KNOWN_MAX);
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
