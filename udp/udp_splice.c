/* SPDX-License-Identifier: BSD-3-Clause */
/* From loopback to loopback: pairs of flows, one that a port's socket has with its client, one that
 * a socket of its own has with the service in the other namespace. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "udp/udp_flow.h"

#define EVICTIONS_MAX 16 /* for one descriptor */

/* Gives the service the client's port to see, if it is free there. */
static int bind_port(int fd, const struct endpoint *src)
{
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(src, 0, &sa);
	int one = 1;

	if (!src->port)
		return 0;
	/* IPv4 may have another owner of the port. */
	if (sa.ss_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&sa, len) < 0 && errno != EADDRINUSE && errno != EACCES)
		return -errno;
	return 0;
}

static int open_target(struct udp *u, enum forward_side side, const struct forward_decision *d,
		       int *out)
{
	struct side_sockets *sides = u->cfg.sides;
	int family = ip_is_v4(&d->dst.addr) ? AF_INET : AF_INET6;
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&d->dst, 0, &sa);
	cleanup_fd int fd = -1;
	int r = sides ? sides->get(sides, side, family, SOCK_DGRAM, &fd) : -EOPNOTSUPP;

	for (int i = 0; (r == -EMFILE || r == -ENFILE) && i < EVICTIONS_MAX && udp_flow_evict(u);
	     i++)
		r = sides->get(sides, side, family, SOCK_DGRAM, &fd);
	if (r == 0)
		r = bind_port(fd, &d->src);
	if (r < 0)
		return r;
	if (connect(fd, (struct sockaddr *)&sa, len) < 0)
		return -errno;
	*out = take_fd(&fd);
	return 0;
}

/* The service's side: a socket and its flow. Takes over fd on success. */
static int target_new(struct udp *u, int fd, const struct endpoint *dst, struct udp_flow **out)
{
	struct udp_socket *s = malloc(sizeof(*s));
	struct udp_flow like = {
	    .sock = s, .guest = *dst, .host_addr = dst->addr, .host_port = dst->port};
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct udp_socket){
	    .source = {.fd = fd, .ready = udp_socket_ready},
	    .udp = u,
	    .kind = UDP_SPLICED,
	    .host = {.fd = fd, .family = ip_family(&dst->addr), .cfg = u->nat},
	};
	s->host.on_error = udp_error_received;
	list_init(&s->flows);
	r = loop_add(u->loop, &s->source, EPOLLIN);
	if (r == 0) {
		r = udp_flow_new(u, &like, out);
		if (r < 0)
			loop_remove(u->loop, &s->source);
	}
	if (r < 0)
		free(s);
	return r;
}

int udp_splice_target(struct udp_port *port, const struct forward_decision *d,
		      struct udp_flow **out)
{
	cleanup_fd int fd = -1;
	int r = open_target(port->udp, forward_other(port->forward->side), d, &fd);

	if (r == 0)
		r = target_new(port->udp, fd, &d->dst, out);
	if (r == 0)
		(void)take_fd(&fd);
	return r;
}
