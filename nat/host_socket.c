/* SPDX-License-Identifier: BSD-3-Clause */
#include "nat/host_socket.h"

#include <errno.h>
#include <linux/in6.h>
#include <netinet/ip.h>
#include <netinet/udp.h>

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef UDP_GRO
#define UDP_GRO 104 /* linux/udp.h, Linux 5.0 */
#endif

#define BULK_BUFFER (1 << 20)

/* Option names by family. */
struct family_options {
	int domain, level;
	int ttl, multicast_ttl, tos, mtu_discover;
	int fragment[3]; /* values of that, by enum host_fragment */
	int recverr, recvttl, recvtos, multicast_all;
	int ttl_type, tos_type; /* of control messages */
};

static const struct family_options families[IP_FAMILIES] = {
    [IP_V4] = {.domain = AF_INET,
	       .level = IPPROTO_IP,
	       .ttl = IP_TTL,
	       .multicast_ttl = IP_MULTICAST_TTL,
	       .tos = IP_TOS,
	       .mtu_discover = IP_MTU_DISCOVER,
	       .fragment = {IP_PMTUDISC_DONT, IP_PMTUDISC_WANT, IP_PMTUDISC_DO},
	       .recverr = IP_RECVERR,
	       .recvttl = IP_RECVTTL,
	       .recvtos = IP_RECVTOS,
	       .multicast_all = IP_MULTICAST_ALL,
	       .ttl_type = IP_TTL,
	       .tos_type = IP_TOS},
    [IP_V6] = {.domain = AF_INET6,
	       .level = IPPROTO_IPV6,
	       .ttl = IPV6_UNICAST_HOPS,
	       .multicast_ttl = IPV6_MULTICAST_HOPS,
	       .tos = IPV6_TCLASS,
	       .mtu_discover = IPV6_MTU_DISCOVER,
	       .fragment = {IPV6_PMTUDISC_WANT, IPV6_PMTUDISC_WANT, IPV6_PMTUDISC_DO},
	       .recverr = IPV6_RECVERR,
	       .recvttl = IPV6_RECVHOPLIMIT,
	       .recvtos = IPV6_RECVTCLASS,
	       .multicast_all = IPV6_MULTICAST_ALL,
	       .ttl_type = IPV6_HOPLIMIT,
	       .tos_type = IPV6_TCLASS},
};

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int bind_port(int fd, const struct ip_addr *addr, uint16_t port, unsigned scope)
{
	struct endpoint e = {.addr = *addr, .port = port};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&e, scope, &sa);

	return bind(fd, (struct sockaddr *)&sa, len) < 0 ? -errno : 0;
}

static int bind_local(const struct nat_config *cfg, const struct host_socket_request *req,
		      struct host_socket *s)
{
	const struct nat_family *nf = &cfg->family[req->family];
	int r;

	s->address = (req->to_loopback ? ip_loopback : ip_any)[req->family];
	if (!req->to_loopback) {
		if (nf->outbound_if[0] &&
		    setsockopt(s->fd, SOL_SOCKET, SO_BINDTODEVICE, nf->outbound_if,
			       (socklen_t)strlen(nf->outbound_if) + 1) < 0)
			return -errno;
		if (!ip_is_unspecified(&nf->outbound))
			s->address = nf->outbound;
	}
	r = bind_port(s->fd, &s->address, req->port, nf->template_index);
	s->port = r == 0 ? req->port : 0;
	if (r == -EADDRINUSE || r == -EACCES)
		r = bind_port(s->fd, &s->address, 0, nf->template_index);
	return r;
}

/* Options that must hold. */
static int set_required(int fd, const struct host_socket_request *req)
{
	const struct family_options *o = &families[req->family];
	int r = set_int(fd, o->level, o->recverr, 1);

	/* Ping sockets are born with it, and one of two with the same id would get the other's
	 * replies. */
	if (r == 0 && req->proto != IPPROTO_UDP)
		r = set_int(fd, SOL_SOCKET, SO_REUSEADDR, 0);
	if (r == 0 && req->family == IP_V6)
		r = set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (r == 0)
		r = set_int(fd, o->level, o->recvttl, 1);
	return r == 0 ? set_int(fd, o->level, o->recvtos, 1) : r;
}

void host_socket_expect_bulk(struct host_socket *s)
{
	if (s->bulk)
		return;
	s->bulk = true;
	/* Without these it works as well as it can: the kernel cuts the buffers to its limits
	 * (net.core.rmem_max, wmem_max), and ping sockets and old kernels know no UDP_GRO. */
	(void)set_int(s->fd, SOL_SOCKET, SO_RCVBUF, BULK_BUFFER);
	(void)set_int(s->fd, SOL_SOCKET, SO_SNDBUF, BULK_BUFFER);
	(void)set_int(s->fd, SOL_UDP, UDP_GRO, 1);
}

enum host_fragment host_fragment_wanted(const struct ip_header *ip)
{
	if (!ip_is_v4(&ip->src))
		return HOST_FRAGMENT_HERE;
	if (!ip->dont_fragment)
		return HOST_FRAGMENT_ANYWHERE;
	return ip->fragment_id ? HOST_FRAGMENT_HERE : HOST_FRAGMENT_NEVER;
}

/* Says that this is a client, though bound and not connected, to those who look for UDP ports with
 * servers (host/ports.h): us, and others like us. Nothing else comes of it once a socket is bound
 * (ip(7)). */
static void mark_client(int fd, const struct host_socket_request *req)
{
	if (req->proto == IPPROTO_UDP)
		(void)set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
}

int host_socket_open(const struct nat_config *cfg, const struct host_socket_request *req,
		     struct host_socket *out)
{
	cleanup_fd int fd = socket(families[req->family].domain,
				   SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, req->proto);
	struct host_socket s = {.fd = fd,
				.family = req->family,
				.cfg = cfg,
				.on_error = req->on_error,
				.ttl = -1,
				.multicast_ttl = -1,
				.tos = 0, /* as every socket begins */
				.fragment = -1,
				.broadcast = 0};
	int r;

	if (fd < 0)
		return -errno;
	r = set_required(fd, req);
	if (r == 0)
		r = bind_local(cfg, req, &s);
	if (r < 0)
		return r;
	mark_client(fd, req);
	s.fd = take_fd(&fd);
	*out = s;
	return 0;
}

void host_socket_close(struct host_socket *s)
{
	fd_close(&s->fd);
}

bool host_socket_is_own(const struct host_socket *s, const struct endpoint *to)
{
	const struct ip_addr *assigned = &s->cfg->family[s->family].guest_assigned;

	if (!s->port || to->port != s->port)
		return false;
	if (!ip_is_loopback(&to->addr) && !ip_equal(&to->addr, assigned))
		return false;
	return ip_is_unspecified(&s->address) || ip_equal(&to->addr, &s->address);
}

/* One option: a system call only if the value changes. */
static void set_mark(const struct host_socket *s, int name, int *now, int value)
{
	if (*now != value && set_int(s->fd, families[s->family].level, name, value) == 0)
		*now = value;
}

/* Once, before the first packet to a group leaves. */
static void prepare_multicast(struct host_socket *s)
{
	unsigned index = s->cfg->family[s->family].template_index;
	struct ip_mreqn via = {.imr_ifindex = (int)index};

	/* Anybody may answer now, but what is sent to groups that others have joined on this host
	 * is not for us (ip(7)). */
	(void)set_int(s->fd, families[s->family].level, families[s->family].multicast_all, 0);
	if (index && s->family == IP_V4)
		(void)setsockopt(s->fd, IPPROTO_IP, IP_MULTICAST_IF, &via, sizeof(via));
	else if (index)
		(void)set_int(s->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)index);
}

void host_socket_set_marks(struct host_socket *s, const struct host_marks *m)
{
	const struct family_options *o = &families[s->family];

	if (m->multicast) {
		if (s->multicast_ttl < 0)
			prepare_multicast(s);
		set_mark(s, o->multicast_ttl, &s->multicast_ttl, m->ttl);
	} else {
		set_mark(s, o->ttl, &s->ttl, m->ttl);
	}
	set_mark(s, o->tos, &s->tos, m->tos);
	if (s->fragment != (int)m->fragment &&
	    set_int(s->fd, o->level, o->mtu_discover, o->fragment[m->fragment]) == 0)
		s->fragment = (int)m->fragment;
	if (s->broadcast != m->broadcast &&
	    set_int(s->fd, SOL_SOCKET, SO_BROADCAST, m->broadcast) == 0)
		s->broadcast = m->broadcast;
}

/* TOS comes as one byte over IPv4, everything else as int. */
static int control_int(const struct cmsghdr *c)
{
	int value = 0;

	if (c->cmsg_len >= CMSG_LEN(sizeof(value)))
		memcpy(&value, CMSG_DATA(c), sizeof(value));
	else if (c->cmsg_len >= CMSG_LEN(1))
		value = *CMSG_DATA(c);
	return value;
}

/* Of the two that an IPv6 socket gives for an IPv4 datagram, the IPv4 one says more. */
static void parse_source(const struct cmsghdr *c, struct host_received *out)
{
	struct in_pktinfo v4;
	struct in6_pktinfo v6;

	if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO &&
	    c->cmsg_len >= CMSG_LEN(sizeof(v4))) {
		memcpy(&v4, CMSG_DATA(c), sizeof(v4));
		out->to = ip_from_v4(&v4.ipi_addr);
		out->local = ip_from_v4(&v4.ipi_spec_dst);
		out->interface = (unsigned)v4.ipi_ifindex;
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO &&
		   c->cmsg_len >= CMSG_LEN(sizeof(v6)) && !ip_is_v4(&out->to)) {
		memcpy(&v6, CMSG_DATA(c), sizeof(v6));
		out->to = ip_from_v6(&v6.ipi6_addr);
		out->local = ip_is_multicast(&out->to) ? ip_any[IP_V6] : out->to;
		out->interface = v6.ipi6_ifindex;
	}
}

void host_socket_parse_control(struct msghdr *m, struct host_received *out)
{
	*out = (struct host_received){.ttl = 64, .to = ip_any[IP_V6], .local = ip_any[IP_V6]};
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int value = control_int(c);

		parse_source(c, out);
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			out->segment = value > 0 ? (size_t)value : 0;
		for (int f = 0; f < IP_FAMILIES; f++) {
			if (c->cmsg_level != families[f].level)
				continue;
			if (c->cmsg_type == families[f].ttl_type)
				out->ttl = (uint8_t)value;
			else if (c->cmsg_type == families[f].tos_type)
				out->tos = (uint8_t)value;
		}
	}
}

socklen_t host_socket_address(const struct host_socket *s, const struct endpoint *e, unsigned scope,
			      struct sockaddr_storage *out)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
	socklen_t len = endpoint_to_sockaddr(e, scope, out);
	in_port_t port = ((struct sockaddr_in *)out)->sin_port;

	if (!s->mapped || !ip_is_v4(&e->addr))
		return len;
	*in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
	memcpy(&in6->sin6_addr, e->addr.b, sizeof(e->addr.b));
	return sizeof(*in6);
}

size_t host_socket_put_source(struct cmsghdr *c, const struct ip_addr *from, unsigned interface)
{
	struct in_pktinfo v4 = {.ipi_ifindex = (int)interface};
	struct in6_pktinfo v6 = {.ipi6_ifindex = interface};
	bool is_v4 = ip_is_v4(from);
	size_t len = is_v4 ? sizeof(v4) : sizeof(v6);

	memcpy(is_v4 ? (void *)&v4.ipi_spec_dst : &v6.ipi6_addr, ip_bytes(from),
	       ip_bytes_len(from));
	memset(c, 0, CMSG_SPACE(len));
	c->cmsg_level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6;
	c->cmsg_type = is_v4 ? IP_PKTINFO : IPV6_PKTINFO;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), is_v4 ? (const void *)&v4 : &v6, len);
	return CMSG_SPACE(len);
}
