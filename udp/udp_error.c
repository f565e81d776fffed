/* SPDX-License-Identifier: BSD-3-Clause */
/* What went wrong on the host's side, told to the guest as the ICMP message that it would have got
 * there. */
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include "udp/udp_flow.h"

/* The bytes of the original behind its IP header, as the guest sent them. */
static void send_error(struct udp *u, const struct udp_datagram *d, const struct icmp_error *e)
{
	const struct udp_flow *f = d->flow;
	struct udp_header ports = {.src_port = f->guest.port,
				   .dst_port = f->inbound ? f->port : d->port};
	struct ip_header ip = {.src = f->guest.addr,
			       .dst = f->guest_addr,
			       .proto = IPPROTO_UDP,
			       .ttl = d->marks.ttl,
			       .tos = d->marks.tos,
			       .dont_fragment = ip_is_v4(&f->guest_addr) &&
						d->marks.fragment != HOST_FRAGMENT_ANYWHERE};
	size_t len = d->len < HOST_QUOTE_MAX ? d->len : HOST_QUOTE_MAX;
	uint8_t quote[8 + HOST_QUOTE_MAX];
	int r;

	/* RFC 1122 3.2.2; and of a pair, neither end is one that ICMP reaches. */
	if (f->multicast || f->broadcast || f->pair)
		return;
	emit_udp(quote, &ports, d->len);
	if (len)
		memcpy(quote + 8, d->data, len);
	emit_l4_checksum(quote, 8, quote + 8, len, &ip);
	r = icmp_error_send(u->tap, e, &ip, quote, 8 + len);
	if (r < 0)
		log_limited(&u->log, u->now, LOG_LEVEL_DEBUG, "ICMP error to the guest: %s",
			    strerror(-r));
}

/* Who an error from addr comes from, in the guest's eyes. */
static struct ip_addr offender_for_guest(struct udp *u, const struct udp_flow *f,
					 const struct ip_addr *addr)
{
	struct ip_addr from;

	if (ip_equal(addr, &f->host_addr))
		return f->guest_addr;
	from = nat_source_for_guest(u->nat, u->cfg.guest, addr);
	return ip_is_unspecified(&from) ? f->guest_addr : from;
}

/* The flow that an error is about. It does not say which of our addresses the packet came from: of
 * a client that sends to several, any flow will do. */
static struct udp_flow *flow_of_error(struct udp_socket *s, const struct endpoint *to)
{
	struct udp_arrival a = {.from = *to, .to = ip_any[ip_family(&to->addr)]};

	if (s->kind == UDP_SPLICED)
		return NULL;
	if (s->kind == UDP_OUTBOUND)
		return udp_flow_of_host(s, to);
	/* Both families share the port's descriptor. */
	s = s->port->socket[ip_family(&to->addr)];
	return s ? udp_flow_of_client(s, &a) : NULL;
}

void udp_error_received(struct host_socket *host, const struct host_error *err, const uint8_t *data)
{
	struct udp_socket *s = container_of(host, struct udp_socket, host);
	struct udp *u = s->udp;
	struct udp_flow *f = flow_of_error(s, &err->to);
	const struct host_socket *h = f ? &f->sock->host : host;
	struct udp_datagram d = {
	    .flow = f,
	    .data = data,
	    .len = err->data_len,
	    .port = err->to.port,
	    /* The queue does not say; these went with the latest datagram. */
	    .marks = {.ttl = (uint8_t)(h->ttl > 0 ? h->ttl : 0),
		      .tos = (uint8_t)(h->tos > 0 ? h->tos : 0),
		      .fragment = h->fragment > 0 ? HOST_FRAGMENT_HERE : HOST_FRAGMENT_ANYWHERE}};
	struct icmp_error e = {.type = err->type, .code = err->code, .info = err->mtu};

	if (!f)
		return; /* of a flow that has ended */
	e.from = offender_for_guest(u, f, &err->offender);
	send_error(u, &d, &e);
}

void udp_error_too_long(struct udp *u, const struct udp_datagram *d, uint32_t mtu)
{
	bool v4 = ip_is_v4(&d->flow->guest_addr);
	struct icmp_error e = {.from = nat_router_for_guest(u->nat, &d->flow->guest_addr),
			       .type = v4 ? ICMP_DEST_UNREACH : ICMP6_PACKET_TOO_BIG,
			       .code = v4 ? ICMP_FRAG_NEEDED : 0,
			       .info = mtu};

	if (mtu && icmp_error_pass(&u->errors, u->now))
		send_error(u, d, &e);
}

void udp_error_local(struct udp *u, const struct udp_datagram *d, int err)
{
	const struct udp_flow *f = d->flow;
	struct icmp_error e = {0};

	if (!icmp_error_from_errno(err, ip_family(&f->guest_addr), IPPROTO_UDP, &e) ||
	    !icmp_error_pass(&u->errors, u->now))
		return;
	/* A port is closed by the host that has it, everything else is seen on the way. */
	e.from = err == ECONNREFUSED ? f->guest_addr : nat_router_for_guest(u->nat, &f->guest_addr);
	send_error(u, d, &e);
}
