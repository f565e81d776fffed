/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports of rules, and the flows that come in by them. */
#include <errno.h>
#include <stdlib.h>

#include "udp/udp_flow.h"

/* RFC 6335 6: the range that no service is registered in. */
#define DYNAMIC_FIRST 49152
#define DYNAMIC_COUNT 16384
#define PORT_TRIES    8

static uint64_t port_hash(const struct udp *u, enum forward_side side, uint16_t port)
{
	uint32_t key[2] = {(uint32_t)side, port};

	return hash_bytes(&u->key, key, sizeof(key));
}

int udp_listen(struct udp *u, struct forward_port *p)
{
	struct udp_port *port = malloc(sizeof(*port));
	int domain, r = 0;
	socklen_t len = sizeof(domain);

	if (!port)
		return -ENOMEM;
	*port = (struct udp_port){
	    .source = {.fd = p->source.fd, .ready = udp_port_ready}, .udp = u, .forward = p};
	if (getsockopt(p->source.fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
		r = -errno;
	else
		port->v6 = domain == AF_INET6;
	if (r == 0)
		r = hash_table_add(u->ports, &port->node, port_hash(u, p->side, p->port));
	if (r == 0) {
		r = loop_add(u->loop, &port->source, EPOLLIN);
		if (r < 0)
			hash_table_remove(u->ports, &port->node);
	}
	if (r < 0)
		free(port);
	return r;
}

static void port_free(struct udp_port *port)
{
	struct udp *u = port->udp;

	for (int f = 0; f < IP_FAMILIES; f++) {
		/* It goes with its last flow. */
		while (port->socket[f])
			udp_flow_free(
			    container_of(port->socket[f]->flows.next, struct udp_flow, in_socket));
	}
	hash_table_remove(u->ports, &port->node);
	loop_remove(u->loop, &port->source);
	free(port);
}

void udp_unlisten(struct udp *u, struct forward_port *p)
{
	uint64_t hash = port_hash(u, p->side, p->port);
	struct hash_node *n = NULL;

	while ((n = hash_table_find(u->ports, hash, n))) {
		struct udp_port *port = container_of(n, struct udp_port, node);

		if (port->forward == p) {
			port_free(port);
			return;
		}
	}
}

static void free_node(struct hash_node *node, void *arg)
{
	(void)arg;
	port_free(container_of(node, struct udp_port, node));
}

void udp_ports_free(struct udp *u)
{
	hash_table_foreach(u->ports, free_node, NULL);
}

/* true if dst on that side is a port of ours: two rules that lead to each other would make flows
 * without end. */
static bool is_own(struct udp *u, enum forward_side side, const struct endpoint *dst)
{
	uint64_t hash = port_hash(u, side, dst->port);
	struct hash_node *n = NULL;

	while ((n = hash_table_find(u->ports, hash, n))) {
		const struct forward_port *p = container_of(n, struct udp_port, node)->forward;
		const struct ip_addr *a = &p->rule->addr;

		if (p->side != side || p->port != dst->port)
			continue;
		if (p->rule->dual_stack || ip_equal(a, &dst->addr) ||
		    (ip_is_unspecified(a) && ip_family(a) == ip_family(&dst->addr)))
			return true;
	}
	return false;
}

static int listening_socket(struct udp_port *port, enum ip_family family, struct udp_socket **out)
{
	struct udp_socket *s = port->socket[family];

	if (!s) {
		s = malloc(sizeof(*s));
		if (!s)
			return -ENOMEM;
		*s = (struct udp_socket){.udp = port->udp, .kind = UDP_LISTENING, .port = port};
		s->host = (struct host_socket){.fd = port->source.fd,
					       .family = family,
					       .mapped = port->v6 && family == IP_V4,
					       .cfg = port->udp->nat,
					       .on_error = udp_error_received,
					       .ttl = -1,
					       .multicast_ttl = -1,
					       .tos = -1,
					       .fragment = -1,
					       .broadcast = -1};
		list_init(&s->flows);
		port->socket[family] = s;
	}
	*out = s;
	return 0;
}

/* The port that the guest sees: the client's, unless another client seen at the same address has
 * it, or the same client talks to several addresses of ours; answers could not be told apart. */
static int choose_port(struct udp *u, const struct forward_decision *d, const struct udp_arrival *a,
		       uint16_t *out)
{
	struct { /* no padding */
		struct ip_addr from, to;
		uint16_t port;
	} key = {a->from.addr, a->to, a->from.port};
	struct endpoint peer = d->src;

	for (uint64_t i = 0; i < PORT_TRIES; i++) {
		if (!udp_flow_is_taken(u, &d->dst, &peer)) {
			*out = peer.port;
			return 0;
		}
		peer.port =
		    (uint16_t)(DYNAMIC_FIRST +
			       (hash_bytes(&u->key, &key, sizeof(key)) + i) % DYNAMIC_COUNT);
	}
	return -EADDRINUSE;
}

/* The outbound address and device, if given, are what all that the guest begins leaves by. */
static struct udp_port *port_like(struct udp *u, const struct endpoint *guest,
				  enum ip_family family)
{
	const struct nat_family *nf = &u->nat->family[family];
	uint64_t hash = port_hash(u, FORWARD_HOST, guest->port);
	struct hash_node *n = NULL;

	if (!ip_is_unspecified(&nf->outbound) || nf->outbound_if[0])
		return NULL;
	while ((n = hash_table_find(u->ports, hash, n))) {
		struct udp_port *port = container_of(n, struct udp_port, node);
		const struct forward_port *p = port->forward;
		const struct rule *rule = p->rule;
		bool wildcard = rule->dual_stack || (ip_is_unspecified(&rule->addr) &&
						     ip_family(&rule->addr) == family);

		if (p->side == FORWARD_HOST && p->port == guest->port &&
		    forward_target_port(p) == guest->port && wildcard && !rule->ifname[0] &&
		    (ip_is_unspecified(&rule->target) || ip_equal(&rule->target, &guest->addr)) &&
		    (port->v6 || family == IP_V4))
			return port;
	}
	return NULL;
}

int udp_flow_from_port(struct udp *u, const struct endpoint *guest, const struct endpoint *dst,
		       const struct ip_addr *host, struct udp_flow **out)
{
	struct udp_flow like = {.guest = *guest,
				.guest_addr = dst->addr,
				.host_addr = *host,
				.port = dst->port,
				.inbound = true,
				.host_port = dst->port,
				.scope = u->nat->family[ip_family(host)].template_index,
				.to = ip_any[IP_V6],
				.local = ip_any[IP_V6]};
	struct endpoint to = {.addr = *host, .port = dst->port};
	struct udp_port *port = NULL;
	int r;

	/* Who sends to a group may be answered by all; and nobody is to hear himself. */
	if (hash_table_count(u->ports) && ip_is_unicast(host) && !is_own(u, FORWARD_HOST, &to))
		port = port_like(u, guest, ip_family(host));
	*out = NULL;
	if (!port)
		return 0;
	r = udp_flow_make_room(u);
	if (r == 0)
		r = listening_socket(port, ip_family(host), &like.sock);
	if (r < 0)
		return r;
	r = udp_flow_new(u, &like, out);
	if (r < 0)
		udp_socket_release(like.sock);
	return r;
}

static int inbound_new(struct udp_port *port, const struct udp_arrival *a,
		       const struct forward_decision *d, struct udp_flow **out)
{
	struct udp *u = port->udp;
	struct udp_flow *target = NULL;
	struct udp_flow like = {.guest = d->dst,
				.guest_addr = d->src.addr,
				.host_addr = a->from.addr,
				.port = a->from.port,
				.inbound = true,
				.host_port = a->from.port,
				.scope = a->scope,
				.to = a->to,
				.local = a->local};
	int r = udp_flow_make_room(u);

	if (r == 0 && d->verdict == FORWARD_SPLICE)
		r = udp_splice_target(port, d, &target);
	else if (r == 0)
		r = choose_port(u, d, a, &like.port);
	like.pair = target;
	if (r == 0)
		r = listening_socket(port, ip_family(&a->from.addr), &like.sock);
	if (r == 0) {
		r = udp_flow_new(u, &like, out);
		if (r < 0)
			udp_socket_release(like.sock);
	}
	if (target && r < 0)
		udp_flow_free(target);
	else if (target)
		target->pair = *out;
	return r;
}

struct udp_flow *udp_inbound_get(struct udp_port *port, const struct udp_arrival *a)
{
	struct udp *u = port->udp;
	struct udp_socket *s = port->socket[ip_family(&a->from.addr)];
	struct udp_flow *f = s ? udp_flow_of_client(s, a) : NULL;
	struct forward_ends ends = {a->from, {a->to, port->forward->port}};
	struct forward_decision d;
	int r;

	if (f)
		return f;
	if (!ip_is_unicast(&a->from.addr) || !a->from.port) {
		count_drop(u->counters, DROP_SOURCE);
		return NULL;
	}
	forward_decide(u->nat, u->cfg.guest, port->forward, &ends, &d);
	if (d.verdict == FORWARD_SPLICE && is_own(u, forward_other(port->forward->side), &d.dst)) {
		d.verdict = FORWARD_REFUSE;
		d.why = "it leads to a port that is forwarded back";
	}
	if (d.verdict == FORWARD_REFUSE) {
		count_drop(u->counters, DROP_FORWARD);
		log_limited(&u->log, u->now, LOG_LEVEL_DEBUG, "UDP port %u refused: %s",
			    port->forward->port, d.why);
		return NULL;
	}
	r = inbound_new(port, a, &d, &f);
	if (r < 0) {
		udp_flow_failed(u, &a->from, r);
		return NULL;
	}
	return f;
}
