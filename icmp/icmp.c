/* SPDX-License-Identifier: BSD-3-Clause */
#include "icmp/icmp.h"

#include <errno.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <stdlib.h>

#include "core/hash.h"
#include "nat/host_socket.h"
#include "tap/icmp_error.h"

#define HEADER     8
#define BUFFER_LEN 65536
#define BULK       8192 /* bytes of data in a request */
#define REPLIES    16   /* taken from one socket in a turn */

struct icmp {
	struct loop *loop;
	struct timers *timers;
	struct tap *tap;
	struct counters *counters;
	const struct nat_config *nat;
	struct icmp_config cfg;
	struct hash_key key;
	struct hash_table *flows;
	struct list oldest;             /* flows, least recently used first */
	bool warned;                    /* that ping sockets are not permitted */
	usec_t now;                     /* of the call in progress */
	struct icmp_error_limit errors; /* that we make ourselves */
	struct log_limit log;
	uint8_t *buffer; /* BUFFER_LEN */
};

/* What tells echo flows apart, hashed: no padding. */
struct echo_key {
	struct ip_addr src, dst;
	uint16_t id;
};

/* A ping socket for one source, destination and id of the guest. The kernel hands it only echo
 * replies with its own id. */
struct echo_flow {
	struct loop_source source;
	struct icmp *icmp;
	struct host_socket host;
	struct echo_key key;
	struct ip_addr host_addr; /* where key.dst really is */
	bool multicast, broadcast;
	struct hash_node node;
	struct list age;
	struct timer timer;
};

static void flow_ready(struct loop_source *src, uint32_t events, usec_t now);
static void error_received(struct host_socket *host, const struct host_error *err,
			   const uint8_t *data);

int icmp_new(struct loop *loop, struct tap *tap, const struct nat_config *nat,
	     const struct icmp_config *cfg, struct icmp **out)
{
	struct icmp *i = calloc(1, sizeof(*i));
	int r;

	if (!i)
		return -ENOMEM;
	*i = (struct icmp){.loop = loop,
			   .timers = loop_timers(loop),
			   .tap = tap,
			   .counters = tap_counters(tap),
			   .nat = nat,
			   .cfg = *cfg,
			   .buffer = malloc(BUFFER_LEN)};
	list_init(&i->oldest);
	r = i->buffer ? hash_key_random(&i->key) : -ENOMEM;
	if (r == 0)
		r = hash_table_new(&i->flows);
	if (r < 0) {
		icmp_free(i);
		return r;
	}
	*out = i;
	return 0;
}

static void flow_free(struct echo_flow *f)
{
	loop_remove(f->icmp->loop, &f->source);
	hash_table_remove(f->icmp->flows, &f->node);
	timer_drop(f->icmp->timers, &f->timer);
	list_remove(&f->age);
	host_socket_close(&f->host);
	free(f);
}

void icmp_free(struct icmp *i)
{
	if (!i)
		return;
	list_foreach_safe (node, &i->oldest)
		flow_free(container_of(node, struct echo_flow, age));
	hash_table_free(i->flows);
	free(i->buffer);
	free(i);
}

static void flow_expire(struct timer *t, usec_t now)
{
	(void)now;
	flow_free(container_of(t, struct echo_flow, timer));
}

static bool evict(struct icmp *i)
{
	if (list_empty(&i->oldest))
		return false;
	flow_free(container_of(i->oldest.next, struct echo_flow, age));
	return true;
}

/* Puts f under the loop's and the table's care. */
static int flow_register(struct icmp *i, struct echo_flow *f)
{
	int r = timer_set(i->timers, &f->timer, i->now + i->cfg.timeout);

	if (r == 0)
		r = hash_table_add(i->flows, &f->node,
				   hash_bytes(&i->key, &f->key, sizeof(f->key)));
	if (r == 0) {
		r = loop_add(i->loop, &f->source, EPOLLIN);
		if (r < 0)
			hash_table_remove(i->flows, &f->node);
	}
	if (r < 0)
		timer_drop(i->timers, &f->timer);
	return r;
}

static int flow_new(struct icmp *i, const struct echo_key *key, uint8_t proto,
		    struct echo_flow **out)
{
	struct endpoint dst = {.addr = key->dst};
	struct ip_addr host = nat_to_host(i->nat, proto, &dst);
	struct host_socket_request req = {.family = ip_family(&host),
					  .proto = proto,
					  .port = key->id,
					  .to_loopback = ip_is_loopback(&host),
					  .on_error = error_received};
	struct echo_flow *f;
	int r;

	if (hash_table_count(i->flows) >= i->cfg.flows_max && !evict(i))
		return -ENOBUFS;
	f = malloc(sizeof(*f));
	if (!f)
		return -ENOMEM;
	*f = (struct echo_flow){.icmp = i,
				.host.fd = -1,
				.key = *key,
				.host_addr = host,
				.multicast = ip_is_multicast(&host),
				.broadcast = ip_is_broadcast(&host)};
	list_init(&f->age);
	timer_init(&f->timer, flow_expire);
	r = host_socket_open(i->nat, &req, &f->host);
	if ((r == -EMFILE || r == -ENFILE) && evict(i))
		r = host_socket_open(i->nat, &req, &f->host);
	f->source = (struct loop_source){.fd = f->host.fd, .ready = flow_ready};
	if (r == 0)
		r = flow_register(i, f);
	if (r < 0) {
		host_socket_close(&f->host);
		free(f);
		return r;
	}
	*out = f;
	return 0;
}

static struct echo_flow *flow_find(struct icmp *i, const struct echo_key *key)
{
	uint64_t hash = hash_bytes(&i->key, key, sizeof(*key));
	struct hash_node *n = NULL;

	while ((n = hash_table_find(i->flows, hash, n))) {
		struct echo_flow *f = container_of(n, struct echo_flow, node);

		if (!memcmp(&f->key, key, sizeof(*key)))
			return f;
	}
	return NULL;
}

/* The one thing in this room that only the user can put right, hence a warning, once. */
static void warn_not_permitted(struct icmp *i)
{
	if (i->warned)
		return;
	i->warned = true;
	log_warn("Echo requests (ping) are dropped: the host does not permit ping sockets to this "
		 "group, see "
		 "sysctl net.ipv4.ping_group_range");
}

static struct echo_flow *flow_get(struct icmp *i, const struct packet *p)
{
	struct echo_key key = {.src = p->ip.src, .dst = p->ip.dst, .id = p->icmp.echo_id};
	struct echo_flow *f = flow_find(i, &key);
	int r;

	if (f)
		return f;
	r = flow_new(i, &key, p->ip.proto, &f);
	if (r == 0)
		return f;
	count_drop(i->counters, r == -ENOBUFS  ? DROP_FLOW_LIMIT
				: r == -ENOMEM ? DROP_NO_MEMORY
					       : DROP_NO_SOCKET);
	if (r == -EACCES)
		warn_not_permitted(i);
	else
		log_limited(&i->log, i->now, LOG_LEVEL_DEBUG, "No ping socket: %s", strerror(-r));
	return NULL;
}

/* An echo request as the guest sent it, or as much of it as is known. */
struct request {
	struct host_marks marks;
	uint16_t seq;
	const uint8_t *data;
	size_t len;
};

static uint8_t request_type(const struct echo_flow *f)
{
	return f->host.family == IP_V4 ? ICMP_ECHO : ICMPV6_ECHO_REQUEST;
}

static size_t emit_request(const struct echo_flow *f, uint8_t *p, const struct request *r)
{
	return emit_icmp(p, request_type(f), 0, (uint32_t)f->key.id << 16 | r->seq);
}

static void send_error(struct echo_flow *f, const struct request *r, const struct icmp_error *e)
{
	struct icmp *i = f->icmp;
	bool v4 = f->host.family == IP_V4;
	struct ip_header ip = {.src = f->key.src,
			       .dst = f->key.dst,
			       .proto = v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6,
			       .ttl = r->marks.ttl,
			       .tos = r->marks.tos,
			       .dont_fragment = v4 && r->marks.fragment != HOST_FRAGMENT_ANYWHERE};
	size_t len = r->len < HOST_QUOTE_MAX ? r->len : HOST_QUOTE_MAX;
	uint8_t quote[HEADER + HOST_QUOTE_MAX];
	int err;

	if (f->multicast || f->broadcast)
		return; /* RFC 1122 3.2.2 */
	emit_request(f, quote, r);
	if (len)
		memcpy(quote + HEADER, r->data, len);
	emit_l4_checksum(quote, HEADER, quote + HEADER, len, &ip);
	err = icmp_error_send(i->tap, e, &ip, quote, HEADER + len);
	if (err < 0)
		log_limited(&i->log, i->now, LOG_LEVEL_DEBUG, "ICMP error to the guest: %s",
			    strerror(-err));
}

/* What the error queue has of a request begins with its ICMP header, with the id of our socket. */
static void error_received(struct host_socket *host, const struct host_error *err,
			   const uint8_t *data)
{
	struct echo_flow *f = container_of(host, struct echo_flow, host);
	struct icmp *i = f->icmp;
	struct icmp_error e = {.type = err->type, .code = err->code, .info = err->mtu};
	struct request r = {.marks = {.ttl = (uint8_t)(host->ttl > 0 ? host->ttl : 0),
				      .tos = (uint8_t)(host->tos > 0 ? host->tos : 0),
				      .fragment = host->fragment > 0 ? HOST_FRAGMENT_HERE
								     : HOST_FRAGMENT_ANYWHERE}};

	if (err->data_len < HEADER)
		return;
	r.seq = (uint16_t)(data[6] << 8 | data[7]);
	r.data = data + HEADER;
	r.len = err->data_len - HEADER;
	e.from = f->key.dst;
	if (!ip_equal(&err->offender, &f->host_addr))
		e.from = nat_source_for_guest(i->nat, i->cfg.guest, &err->offender);
	if (ip_is_unspecified(&e.from))
		e.from = f->key.dst;
	send_error(f, &r, &e);
}

static void error_too_long(struct echo_flow *f, const struct request *r, uint32_t mtu)
{
	bool v4 = f->host.family == IP_V4;
	struct icmp_error e = {.from = nat_router_for_guest(f->icmp->nat, &f->key.dst),
			       .type = v4 ? ICMP_DEST_UNREACH : ICMPV6_PKT_TOOBIG,
			       .code = v4 ? ICMP_FRAG_NEEDED : 0,
			       .info = mtu};

	if (mtu && icmp_error_pass(&f->icmp->errors, f->icmp->now))
		send_error(f, r, &e);
}

static void error_local(struct echo_flow *f, const struct request *r, int err)
{
	struct icmp_error e = {.from = nat_router_for_guest(f->icmp->nat, &f->key.dst)};
	uint8_t proto = f->host.family == IP_V4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;

	if (icmp_error_from_errno(err, f->host.family, proto, &e) &&
	    icmp_error_pass(&f->icmp->errors, f->icmp->now))
		send_error(f, r, &e);
}

static void send_request(struct echo_flow *f, const struct request *r)
{
	struct icmp *i = f->icmp;
	struct endpoint to = {.addr = f->host_addr};
	struct sockaddr_storage sa;
	uint8_t header[HEADER]; /* the kernel puts in its own id, and the checksum */
	struct iovec iov[2] = {{.iov_base = header, .iov_len = emit_request(f, header, r)},
			       {.iov_base = (void *)(uintptr_t)r->data, .iov_len = r->len}};
	struct msghdr m = {.msg_name = &sa, .msg_iov = iov, .msg_iovlen = 2};
	struct host_outcome out;
	int err;

	m.msg_namelen =
	    endpoint_to_sockaddr(&to, i->nat->family[f->host.family].template_index, &sa);
	host_socket_set_marks(&f->host, &r->marks);
	if (r->len >= BULK)
		host_socket_expect_bulk(&f->host);
	if (sendmsg(f->host.fd, &m, MSG_DONTWAIT) >= 0)
		return;
	err = host_socket_recover(&f->host, &m, &r->marks, -errno, &out);
	f->broadcast |= out.broadcast;
	if (err == 0)
		return;
	count_drop(i->counters, DROP_SOCKET);
	if (err == -EMSGSIZE)
		error_too_long(f, r, out.mtu);
	else
		error_local(f, r, -err);
}

static bool acceptable(struct icmp *i, const struct packet *p)
{
	bool v4 = ip_is_v4(&p->ip.dst);
	enum drop_reason why;

	if (!i->nat->family[v4 ? IP_V4 : IP_V6].on)
		why = DROP_FAMILY_OFF;
	else if (p->icmp.type != (v4 ? ICMP_ECHO : ICMPV6_ECHO_REQUEST) || p->icmp.code)
		why = DROP_ICMP_TYPE;
	else if (!ip_is_unicast(&p->ip.src))
		why = DROP_SOURCE;
	else if (!p->ip.ttl)
		why = DROP_IP_HEADER;
	else
		return true;
	count_drop(i->counters, why);
	return false;
}

void icmp_input(struct icmp *i, const struct packet *p, usec_t now)
{
	struct request r = {.seq = p->icmp.echo_seq, .data = p->payload, .len = p->payload_len};
	struct echo_flow *f;

	i->now = now;
	if (!acceptable(i, p))
		return;
	f = flow_get(i, p);
	if (!f)
		return;
	list_remove(&f->age);
	list_append(&i->oldest, &f->age);
	if (timer_set(i->timers, &f->timer, now + i->cfg.timeout) < 0)
		timer_off(&f->timer); /* can't be: it is in the heap, and only moves */
	r.marks = (struct host_marks){.ttl = p->ip.ttl,
				      .tos = p->ip.tos,
				      .multicast = f->multicast,
				      .broadcast = f->broadcast,
				      .fragment = host_fragment_wanted(&p->ip)};
	send_request(f, &r);
}

/* The sender of a reply as the guest knows it; unspecified if it was not asked. */
static struct ip_addr sender_for_guest(const struct echo_flow *f, const struct ip_addr *from)
{
	const struct icmp *i = f->icmp;

	if (ip_equal(from, &f->host_addr))
		return f->key.dst;
	/* Whoever is in a group answers with an address of its own. */
	if ((f->multicast || f->broadcast) && ip_is_unicast(from))
		return nat_source_for_guest(i->nat, i->cfg.guest, from);
	return ip_any[f->host.family];
}

static void reply_received(struct echo_flow *f, struct msghdr *m, size_t len)
{
	struct icmp *i = f->icmp;
	bool v4 = f->host.family == IP_V4;
	struct ip_header ip = {.dst = f->key.src, .proto = v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6};
	struct host_received received;
	struct endpoint from;
	uint8_t header[HEADER];
	struct iovec body[2] = {{.iov_base = header},
				{.iov_base = i->buffer + HEADER, .iov_len = len - HEADER}};
	int r;

	if (endpoint_from_sockaddr(m->msg_name, &from) < 0 ||
	    i->buffer[0] != (v4 ? ICMP_ECHOREPLY : ICMPV6_ECHO_REPLY))
		return;
	ip.src = sender_for_guest(f, &from.addr);
	if (ip_is_unspecified(&ip.src)) {
		count_drop(i->counters, DROP_STRANGER);
		return;
	}
	host_socket_parse_control(m, &received);
	ip.ttl = received.ttl;
	ip.tos = received.tos;
	body[0].iov_len =
	    emit_icmp(header, i->buffer[0], i->buffer[1],
		      (uint32_t)f->key.id << 16 | (uint32_t)(i->buffer[6] << 8 | i->buffer[7]));
	emit_l4_checksum(header, HEADER, body[1].iov_base, body[1].iov_len, &ip);
	r = tap_send_ip(i->tap, &ip, body, 2);
	if (r < 0)
		log_limited(&i->log, i->now, LOG_LEVEL_DEBUG, "Echo reply to the guest: %s",
			    strerror(-r));
}

static void receive(struct echo_flow *f)
{
	struct sockaddr_storage from;
	union {
		char room[HOST_CONTROL_LEN];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = f->icmp->buffer, .iov_len = BUFFER_LEN};

	for (int n = 0; n < REPLIES; n++) {
		struct msghdr m = {.msg_name = &from,
				   .msg_namelen = sizeof(from),
				   .msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = &control,
				   .msg_controllen = sizeof(control)};
		ssize_t len = recvmsg(f->host.fd, &m, MSG_DONTWAIT);

		if (len < 0)
			return; /* an error is told by EPOLLERR */
		if (len >= HEADER)
			reply_received(f, &m, (size_t)len);
	}
}

static void flow_ready(struct loop_source *src, uint32_t events, usec_t now)
{
	struct echo_flow *f = container_of(src, struct echo_flow, source);

	f->icmp->now = now;
	if (events & EPOLLERR)
		host_socket_clear_errors(&f->host);
	if (events & EPOLLIN)
		receive(f);
}
