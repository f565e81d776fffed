/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_script.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#define PATIENCE 500 /* turns of at most 10 ms until a socket must have done what is waited for */

int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int listen_on(enum ip_family family, uint16_t *port)
{
	struct endpoint any = {.addr = ip_loopback[family]};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&any, 0, &sa), room = sizeof(sa);
	int fd = socket(family == IP_V4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &room), 0);
	assert_int_equal(endpoint_from_sockaddr(&sa, &any), 0);
	*port = any.port;
	return fd;
}

struct script *script_new(const struct script_options *o)
{
	static const struct tap_features features = {.csum = true, .tcp_gso = true};
	struct tap_config tap = {.our_mac = our_mac, .guest_mac = guest_mac, .mtu = 65520};
	struct tcp_config cfg = {.flows_max = o->flows_max ? o->flows_max : 1000,
				 .buffer_budget = o->budget ? o->budget : 64u << 20,
				 .force_no_peek_off = o->ring};
	struct script *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->descriptors = count_descriptors();
	s->family = o->family;
	s->now = 1000 * USEC_SEC;
	s->peer = -1;
	for (int i = 0; i < IP_FAMILIES; i++) {
		struct nat_family *nf = &s->nat.family[i];

		*nf = (struct nat_family){.on = true, .map_host_loopback = ip(pairs[i].peer)};
		nf->guest_assigned = nf->gateway = nf->map_guest_addr = ip_any[i];
		nf->dns_forward = nf->dns_host = nf->outbound = ip_any[i];
	}
	s->guest = (struct endpoint){ip(pairs[s->family].guest), 40000};
	s->dst.addr = ip(pairs[s->family].peer);
	s->listener = listen_on(s->family, &s->dst.port);
	s->window = 65535;
	assert_int_equal(loop_new(&s->loop), 0);
	assert_int_equal(mem_link_new(&features, &s->link), 0);
	assert_int_equal(tap_new(s->link, &tap, &s->counters, &s->tap), 0);
	assert_int_equal(tcp_new(s->loop, s->tap, &s->nat, &cfg, &s->tcp), 0);
	return s;
}

void script_free(struct script *s)
{
	tcp_free(s->tcp);
	tap_free(s->tap);
	loop_free(s->loop);
	fd_close(&s->listener);
	fd_close(&s->peer);
	assert_int_equal(count_descriptors(), s->descriptors);
	free(s);
}

static void turn_ms(struct script *s, int ms)
{
	assert_int_equal(loop_turn(s->loop, s->now, ms), 0);
}

void turn(struct script *s)
{
	turn_ms(s, 0);
}

void pass(struct script *s, usec_t by)
{
	s->now += by;
	turn(s);
}

void give_header(struct script *s, const struct tcp_header *header, const void *data, size_t len)
{
	struct ip_header iph = {
	    .src = s->guest.addr, .dst = s->dst.addr, .proto = IPPROTO_TCP, .ttl = 64};
	struct tcp_header h = *header;
	uint8_t frame[EMIT_HEADERS_MAX + 65536];
	struct offload off = {0};
	size_t n;

	h.src_port = h.src_port ? h.src_port : s->guest.port;
	h.dst_port = h.dst_port ? h.dst_port : s->dst.port;
	if (!h.ack && h.flags & TCP_ACK)
		h.ack = s->ack;
	if (!h.window)
		h.window = (uint16_t)(s->window >> (h.flags & TCP_SYN ? 0 : s->scale));
	n = put_tcp(frame, &iph, &h, data, len);
	assert_int_equal(mem_link_inject(s->link, frame, n, &off), 0);
	if (!s->collecting)
		give_batch(s);
}

void begin_batch(struct script *s)
{
	s->collecting = true;
}

void give_batch(struct script *s)
{
	struct tap_frame batch[256];
	unsigned n;

	s->collecting = false;
	assert_int_equal(tap_receive(s->tap, batch, COUNT(batch), &n), 0);
	for (unsigned i = 0; i < n; i++) {
		struct packet p;
		enum drop_reason why;

		assert_int_equal(packet_parse(batch[i].data, batch[i].len, &batch[i].off, &p, &why),
				 0);
		tcp_input(s->tcp, &p, s->now);
	}
	tcp_batch_done(s->tcp);
	/* Nothing points into the batch now. */
	assert_int_equal(tap_receive(s->tap, batch, COUNT(batch), &n), 0);
	assert_int_equal(n, 0);
	tcp_flush(s->tcp, s->now);
}

void give_at(struct script *s, uint8_t flags, uint32_t seq, const void *data, size_t len)
{
	give_header(s, &(struct tcp_header){.flags = flags, .seq = seq}, data, len);
}

void give(struct script *s, uint8_t flags, const void *data, size_t len)
{
	give_at(s, flags, s->seq, data, len);
	s->seq += (uint32_t)len + !!(flags & TCP_SYN) + !!(flags & TCP_FIN);
}

bool take(struct script *s)
{
	struct offload off;
	size_t n = mem_link_fetch(s->link, s->frame, sizeof(s->frame), &off);
	enum drop_reason why;

	if (!n)
		return false;
	assert_int_equal(packet_parse(s->frame, n, &off, &s->got, &why), 0);
	return true;
}

void want_any(struct script *s)
{
	turn(s);
	for (int i = 0; i < PATIENCE; i++) {
		if (take(s))
			return;
		turn_ms(s, 10);
	}
	fail_msg("no segment to the guest came");
}

void want(struct script *s, uint8_t flags, size_t len)
{
	want_any(s);
	assert_int_equal(s->got.kind, PACKET_TCP);
	assert_int_equal(s->got.tcp.flags, flags);
	assert_int_equal(s->got.payload_len, len);
	assert_int_equal(s->got.tcp.src_port, s->dst.port);
	assert_int_equal(s->got.tcp.dst_port, s->guest.port);
	assert_true(ip_equal(&s->got.ip.src, &s->dst.addr));
	assert_true(ip_equal(&s->got.ip.dst, &s->guest.addr));
	if (flags & TCP_SYN)
		s->iss = s->ack = s->got.tcp.seq;
	assert_int_equal(s->got.tcp.seq, s->ack);
	if (!(flags & TCP_RST))
		assert_int_equal(s->got.tcp.ack, s->seq);
	s->ack += (uint32_t)len + !!(flags & TCP_SYN) + !!(flags & TCP_FIN);
}

void want_nothing(struct script *s)
{
	turn(s);
	if (take(s))
		fail_msg("a segment came: flags %x seq +%u len %zu", s->got.tcp.flags,
			 s->got.tcp.seq - s->iss, s->got.payload_len);
}

void want_reset(struct script *s)
{
	want_any(s);
	assert_int_equal(s->got.kind, PACKET_TCP);
	assert_true(s->got.tcp.flags & TCP_RST);
	assert_int_equal(s->got.tcp.seq, s->ack);
}

uint32_t got_window(const struct script *s)
{
	return (uint32_t)s->got.tcp.window << (s->got.tcp.flags & TCP_SYN ? 0 : s->their_scale);
}

int script_accept(struct script *s)
{
	struct forward_decision d = {FORWARD_TO_TAP, .src = s->dst, .dst = s->guest};
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int fd;

	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&sa, &len), 0);
	fd_close(&s->peer);
	s->peer = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->peer >= 0);
	assert_int_equal(connect(s->peer, (struct sockaddr *)&sa, len), 0);
	fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return tcp_accept(s->tcp, fd, &d, s->now);
}

static void give_syn(struct script *s)
{
	struct tcp_header syn = {.flags = TCP_SYN, .seq = GUEST_ISN};

	syn.opt = (struct tcp_options){.has_mss = true,
				       .mss = GUEST_MSS,
				       .has_wscale = true,
				       .wscale = s->scale,
				       .has_sack_permitted = true};
	give_header(s, &syn, NULL, 0);
	s->seq = GUEST_ISN + 1;
}

static void reach_established(struct script *s)
{
	give_syn(s);
	want(s, TCP_SYN | TCP_ACK, 0);
	s->their_scale = s->got.tcp.opt.wscale;
	s->peer = accept(s->listener, NULL, NULL);
	assert_true(s->peer >= 0);
	give(s, TCP_ACK, NULL, 0);
	want_nothing(s);
	script_flow(s)->dialogue = 0; /* ACKs wait for nothing, unless that is what is tested */
}

static void peer_shuts(struct script *s)
{
	assert_int_equal(shutdown(s->peer, SHUT_WR), 0);
}

/* From established on: one step each. */
static void reach_closing(struct script *s, enum flow_state state)
{
	if (state == FLOW_CLOSE_WAIT || state == FLOW_LAST_ACK) {
		give(s, TCP_FIN | TCP_ACK, NULL, 0);
		want(s, TCP_ACK, 0);
		if (state == FLOW_LAST_ACK) {
			peer_shuts(s);
			want(s, TCP_FIN | TCP_PSH | TCP_ACK, 0);
		}
		return;
	}
	peer_shuts(s);
	want(s, TCP_FIN | TCP_PSH | TCP_ACK, 0);
	if (state == FLOW_FIN_WAIT_2) {
		give(s, TCP_ACK, NULL, 0);
	} else if (state == FLOW_CLOSING) {
		uint32_t seq = s->seq++;

		give_header(
		    s,
		    &(struct tcp_header){.flags = TCP_FIN | TCP_ACK, .seq = seq, .ack = s->ack - 1},
		    NULL, 0);
		want(s, TCP_ACK, 0);
	}
}

void script_reach(struct script *s, enum flow_state state)
{
	if (state == FLOW_SYN_SENT) {
		s->seq = 0;
		assert_int_equal(script_accept(s), 0);
		want(s, TCP_SYN, 0);
		s->seq = GUEST_ISN;
	} else if (state == FLOW_CONNECTING || state == FLOW_SYN_RECEIVED) {
		give_syn(s);
		if (state == FLOW_SYN_RECEIVED) {
			want(s, TCP_SYN | TCP_ACK, 0);
			s->peer = accept(s->listener, NULL, NULL);
			assert_true(s->peer >= 0);
		}
	} else {
		reach_established(s);
		if (state != FLOW_ESTABLISHED)
			reach_closing(s, state);
	}
	assert_int_equal(script_state(s), state);
}

struct tcp_flow *script_flow(const struct script *s)
{
	return tcp_flow_find(s->tcp, &s->guest, &s->dst);
}

enum flow_state script_state(const struct script *s)
{
	struct tcp_flow *f = script_flow(s);

	return f ? f->state : FLOW_CLOSED;
}

/* One try to read at the peer, turning the loop if there was nothing. */
static ssize_t peer_try(struct script *s, void *buf, size_t room)
{
	ssize_t n = recv(s->peer, buf, room, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		turn_ms(s, 10);
	return n;
}

void peer_reads(struct script *s, const void *data, size_t len)
{
	uint8_t buf[65536];
	size_t done = 0;

	for (int i = 0; done < len && i < PATIENCE; i++) {
		ssize_t n = peer_try(s, buf, len - done < sizeof(buf) ? len - done : sizeof(buf));

		if (n < 0 && errno == EAGAIN)
			continue;
		assert_true(n > 0);
		assert_memory_equal(buf, (const uint8_t *)data + done, (size_t)n);
		done += (size_t)n;
	}
	assert_int_equal(done, len);
}

void peer_sends(struct script *s, const void *data, size_t len)
{
	assert_int_equal(send(s->peer, data, len, MSG_DONTWAIT | MSG_NOSIGNAL), len);
}

static void peer_ends(struct script *s, ssize_t result, int error)
{
	uint8_t byte;

	for (int i = 0; i < PATIENCE; i++) {
		ssize_t n = peer_try(s, &byte, 1);

		if (n < 0 && errno == EAGAIN)
			continue;
		assert_int_equal(n, result);
		if (n < 0)
			assert_int_equal(errno, error);
		return;
	}
	fail_msg("the peer's socket did not end");
}

void peer_reads_end(struct script *s)
{
	peer_ends(s, 0, 0);
}

void peer_reads_reset(struct script *s)
{
	peer_ends(s, -1, ECONNRESET);
}

void script_each(void (*fn)(struct script *s))
{
	for (int family = 0; family < IP_FAMILIES; family++) {
		for (int ring = 0; ring < 2; ring++) {
			struct script_options o = {.family = (enum ip_family)family, .ring = ring};
			struct script *s = script_new(&o);

			fn(s);
			script_free(s);
		}
	}
}
