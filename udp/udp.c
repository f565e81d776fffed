/* SPDX-License-Identifier: BSD-3-Clause */
#include "udp/udp.h"

#include <errno.h>
#include <stdlib.h>

#include "udp/udp_flow.h"

/* No guest's kernel makes more of one message (UDP_MAX_SEGMENTS, Linux 6.9; 64 before). Root inside
 * may say what it likes through a packet socket, and each segment can cost us a system call. */
#define SUPER_SEGMENTS_MAX 128

int udp_new(struct loop *loop, struct tap *tap, const struct nat_config *nat,
	    const struct udp_config *cfg, struct udp **out)
{
	struct udp *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return -ENOMEM;
	*u = (struct udp){.loop = loop,
			  .timers = loop_timers(loop),
			  .tap = tap,
			  .counters = tap_counters(tap),
			  .nat = nat,
			  .cfg = *cfg};
	list_init(&u->brief);
	r = hash_key_random(&u->key);
	if (r == 0)
		r = hash_table_new(&u->sockets);
	if (r == 0)
		r = hash_table_new(&u->by_guest);
	if (r == 0)
		r = hash_table_new(&u->by_host);
	if (r == 0)
		r = hash_table_new(&u->ports);
	if (r == 0)
		r = udp_sender_new(&u->sender);
	if (r == 0)
		r = udp_receiver_new(&u->receiver);
	if (r < 0) {
		udp_free(u);
		return r;
	}
	*out = u;
	return 0;
}

void udp_free(struct udp *u)
{
	if (!u)
		return;
	if (u->by_host)
		udp_table_free(u);
	if (u->ports)
		udp_ports_free(u);
	hash_table_free(u->ports);
	hash_table_free(u->sockets);
	hash_table_free(u->by_guest);
	hash_table_free(u->by_host);
	free(u->sender);
	udp_receiver_free(u->receiver);
	free(u);
}

size_t udp_flow_count(const struct udp *u)
{
	return hash_table_count(u->by_host);
}

static bool acceptable(struct udp *u, const struct packet *p)
{
	enum drop_reason why;

	if (!u->nat->family[ip_family(&p->ip.dst)].on)
		why = DROP_FAMILY_OFF;
	else if (!ip_is_unicast(&p->ip.src))
		why = DROP_SOURCE;
	else if (!p->ip.ttl)
		why = DROP_IP_HEADER;
	else if (!p->udp.src_port ||
		 (p->gso == GSO_UDP && p->payload_len > SUPER_SEGMENTS_MAX * (size_t)p->gso_size))
		why = DROP_L4_HEADER;
	else
		return true;
	count_drop(u->counters, why);
	return false;
}

void udp_collect(struct udp *u, const struct udp_datagram *d)
{
	struct udp_flow *f = d->flow;
	uint8_t i;

	if (u->batch_count == UDP_BATCH)
		udp_flush(u, u->now);
	i = (uint8_t)u->batch_count++;
	u->batch[i] = *d;
	u->batch[i].next = UDP_NONE;
	if (f->batch_first == UDP_NONE)
		f->batch_first = i;
	else
		u->batch[f->batch_last].next = i;
	f->batch_last = i;
}

void udp_input(struct udp *u, const struct packet *p, usec_t now)
{
	bool is_super = p->gso == GSO_UDP && p->payload_len > p->gso_size;
	struct udp_flow *f;
	struct udp_datagram d;
	struct endpoint to;

	u->now = now;
	if (!acceptable(u, p))
		return;
	f = udp_flow_get(u, p);
	if (!f)
		return;
	udp_flow_used(f, true);
	d = (struct udp_datagram){.flow = f,
				  .data = p->payload,
				  .len = p->payload_len,
				  .port = f->inbound ? f->host_port : p->udp.dst_port,
				  .segment = is_super ? p->gso_size : 0,
				  .marks = {.ttl = p->ip.ttl,
					    .tos = p->ip.tos,
					    .fragment = host_fragment_wanted(&p->ip),
					    .multicast = f->multicast,
					    .broadcast = f->broadcast}};
	to = (struct endpoint){.addr = f->host_addr, .port = d.port};
	if (host_socket_is_own(&f->sock->host, &to)) {
		/* The guest would hear itself. */
		count_drop(u->counters, DROP_SOCKET);
		udp_error_local(u, &d, ECONNREFUSED);
		return;
	}
	udp_collect(u, &d);
}
