/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest opens a connection: the host socket first, and what became of it decides the answer. */
#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap/icmp_error.h"
#include "tcp/tcp_flow.h"

#define MSS_MIN    88 /* less would be an attack by overhead; Linux draws the line there, too */
#define WSCALE_MAX 14 /* RFC 7323 2.3 */

/* The guest's MSS: an absent option means the default (RFC 9293 3.7.1); no more than fits the tap.
 */
static uint16_t guest_mss(const struct tcp *t, const struct packet *p)
{
	bool v4 = ip_is_v4(&p->ip.dst);
	size_t most = tap_mtu(t->tap) - (v4 ? 40 : 60);
	size_t mss = p->tcp.opt.has_mss ? p->tcp.opt.mss : v4 ? 536 : 1220;

	if (mss > most)
		mss = most;
	return (uint16_t)(mss < MSS_MIN ? MSS_MIN : mss);
}

void tcp_take_syn(struct tcp_flow *f, const struct packet *p)
{
	const struct tcp_options *opt = &p->tcp.opt;
	uint32_t told = f->rcv_edge - f->rcv_nxt; /* by our SYN, if we sent one */

	f->irs = p->tcp.seq;
	f->rcv_nxt = f->rcv_acked = f->sock_nxt = f->irs + 1;
	f->rcv_edge = f->rcv_nxt + told;
	f->snd_wnd = f->snd_wnd_max = p->tcp.window; /* never scaled in a SYN, RFC 7323 2.2 */
	f->snd_wl1 = p->tcp.seq;
	f->mss = guest_mss(f->tcp, p);
	f->snd_scale = 0;
	f->rcv_scale = 0;
	if (opt->has_wscale) {
		f->snd_scale = opt->wscale > WSCALE_MAX ? WSCALE_MAX : opt->wscale;
		f->rcv_scale = TCP_WSCALE;
	}
	f->sack_on = opt->has_sack_permitted;
}

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

/* Leaves by the configured address and interface. */
static int bind_outbound(int fd, const struct nat_family *nf)
{
	struct endpoint from = {nf->outbound, 0};
	struct sockaddr_storage sa;
	socklen_t len;
	int r;

	if (nf->outbound_if[0] && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, nf->outbound_if,
					     sizeof(nf->outbound_if)) < 0)
		return -errno;
	if (ip_is_unspecified(&nf->outbound))
		return 0;
	/* The port is chosen by connect(2), which can share it between destinations (ip(7)). */
	r = set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	if (r < 0)
		return r;
	len = endpoint_to_sockaddr(&from, ip_is_link_local(&nf->outbound) ? nf->template_index : 0,
				   &sa);
	return bind(fd, (struct sockaddr *)&sa, len) < 0 ? -errno : 0;
}

/* Nagle's algorithm already ran in the guest, if it wants it; urgent data stays in its place among
 * the rest. */
int tcp_socket_options(int fd)
{
	int r = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	return r ? r : set_option(fd, SOL_SOCKET, SO_OOBINLINE, 1);
}

static int prepare_socket(int fd, const struct nat_family *nf, uint8_t tos)
{
	int r = tcp_socket_options(fd);

	if (!r)
		r = bind_outbound(fd, nf);
	if (r < 0)
		return r;
	/* The guest's traffic class without the ECN bits, which are the host's own TCP's affair.
	 * Only a wish. */
	tos &= 0xfc;
	if (tos && set_option(fd, IPPROTO_IP, IP_TOS, tos) < 0)
		log_debug("TCP: can't set the traffic class");
	if (tos && set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, tos) < 0)
		log_debug("TCP: can't set the IPv6 traffic class");
	return 0;
}

/* 0 when connecting or connected, else why not. */
static int connect_host(struct tcp_flow *f, const struct packet *p)
{
	struct tcp *t = f->tcp;
	enum ip_family family = tcp_flow_family(f);
	const struct nat_family *nf = &t->nat->family[family];
	struct endpoint to = {nat_to_host(t->nat, IPPROTO_TCP, &f->peer), f->peer.port};
	struct sockaddr_storage sa;
	socklen_t len;
	int r;

	f->sock.fd = socket(family == IP_V4 ? AF_INET : AF_INET6,
			    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	if (f->sock.fd < 0)
		return -errno;
	r = prepare_socket(f->sock.fd, nf, p->ip.tos);
	if (r < 0)
		return r;
	len = endpoint_to_sockaddr(&to, ip_is_link_local(&to.addr) ? nf->template_index : 0, &sa);
	if (connect(f->sock.fd, (struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS)
		return -errno;
	return loop_add(t->loop, &f->sock, EPOLLET | EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI);
}

/* Tells the guest why it gets no connection, in the words a network would use, and forgets the
 * flow. In SYN-SENT Linux takes an ICMP error as final: host unreachable becomes EHOSTUNREACH, net
 * unreachable ENETUNREACH, and a reset ECONNREFUSED. ETIMEDOUT no message can give; it is what
 * connect(2) returns when nothing ever answers. So we keep silent: our attempt began with the
 * guest's first SYN and made as many, so that the guest is about to give up, too. */
static void fail_open(struct tcp_flow *f, int err)
{
	struct tcp *t = f->tcp;
	struct icmp_error e = {.from = f->peer.addr};
	struct ip_header ip = {.src = f->guest.addr,
			       .dst = f->peer.addr,
			       .proto = IPPROTO_TCP,
			       .ttl = 64,
			       .dont_fragment = true};
	struct tcp_header syn = {.src_port = f->guest.port,
				 .dst_port = f->peer.port,
				 .seq = f->irs,
				 .flags = TCP_SYN,
				 .window = (uint16_t)f->snd_wnd};
	uint8_t quoted[EMIT_HEADERS_MAX];
	size_t len;

	log_debug("TCP: connection to port %u failed: error %d", f->peer.port, err);
	if (err == ETIMEDOUT) {
		tcp_flow_abort(f);
	} else if (err != ECONNREFUSED &&
		   icmp_error_from_errno(err, tcp_flow_family(f), IPPROTO_TCP, &e)) {
		e.from = f->peer.addr;
		len = emit_tcp(quoted, &syn);
		emit_l4_checksum(quoted, len, NULL, 0, &ip);
		if (icmp_error_send(t->tap, &e, &ip, quoted, len) < 0)
			log_debug("TCP: can't send the ICMP error");
		tcp_flow_abort(f);
	} else {
		tcp_flow_reset(f);
	}
}

void tcp_open(struct tcp *t, const struct packet *p, usec_t now)
{
	struct endpoint guest = {p->ip.src, p->tcp.src_port}, peer = {p->ip.dst, p->tcp.dst_port};
	struct counters *counters = tap_counters(t->tap);
	struct tcp_flow *f;
	int r;

	if (!ip_is_unicast(&p->ip.src) || !ip_is_unicast(&p->ip.dst)) {
		count_drop(counters, ip_is_unicast(&p->ip.src) ? DROP_DESTINATION : DROP_SOURCE);
		return;
	}
	if (tcp_flow_new(t, &guest, &peer, now, &f) < 0)
		return;
	tcp_take_syn(f, p);
	r = connect_host(f, p);
	if (r == -EMFILE || r == -ENFILE || r == -ENOBUFS || r == -ENOMEM) {
		count_drop(counters, DROP_NO_SOCKET);
		log_limited(&t->limit, now, LOG_LEVEL_WARN,
			    "TCP: no socket for a new connection: error %d", -r);
	}
	if (r < 0)
		fail_open(f, -r);
}

void tcp_connected(struct tcp_flow *f, uint32_t events, usec_t now)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (events & (EPOLLERR | EPOLLHUP)) {
		if (getsockopt(f->sock.fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 || !err)
			err = ECONNREFUSED;
		fail_open(f, err);
		return;
	}
	if (!(events & EPOLLOUT))
		return;
	f->writable = true;
	f->readable = events & (EPOLLIN | EPOLLRDHUP);
	f->read_on = events & (EPOLLRDHUP | EPOLLPRI);
	tcp_flow_move(f, FLOW_SYN_RECEIVED);
	f->snd_nxt = f->iss + 1;
	tcp_timer_retransmit(f, now);
	tcp_timer_set(f, FLOW_TIMER_IDLE, now + TCP_IDLE);
	(void)tcp_send_syn(f); /* if the link is full the timer repeats it */
}
