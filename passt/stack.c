/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/stack.h"

#include <errno.h>
#include <stdlib.h>

#include "icmp/icmp.h"
#include "tap/arp.h"
#include "tap/ra.h"
#include "tap/reassembly.h"
#include "tcp/tcp.h"
#include "tcp/tcp_listen.h"
#include "udp/udp.h"

#define BATCH_FRAMES   64
/* Batches handled before the sockets get their turn: large enough to batch well, small enough to be
 * fair. */
#define BATCHES_A_TURN 4
#define DRAIN_BATCHES  1024

/* How long the end may take: without progress, and at all. */
#define FINISH_STALL   (500 * USEC_MSEC)
#define FINISH_MOST    (10 * USEC_SEC)
#define FINISH_TURN_MS 20

#define FLOWS_MAX      131072
#define ECHO_FLOWS_MAX 4096
#define BUFFER_BUDGET  ((size_t)256 << 20)

struct stack {
	struct loop *loop;
	struct stack_config cfg;
	struct nat_guest guest;
	struct counters counters;
	struct tap *tap;
	struct reassembly *reassembly;
	struct ra *ra; /* NULL: none are sent */
	struct tcp *tcp;
	struct udp *udp;
	struct icmp *icmp;
	struct log_limit mac_limit, dhcp_limit;
};

typedef void (*packet_handler)(struct stack *s, const struct packet *p, usec_t now);

static void handle_arp(struct stack *s, const struct packet *p, usec_t now)
{
	const struct ip_addr own[ARP_OWN] = {s->cfg.nat.family[IP_V4].guest_assigned,
					     s->guest.seen[IP_V4]};

	(void)now;
	arp_input(s->tap, p, own);
}

static void handle_tcp(struct stack *s, const struct packet *p, usec_t now)
{
	if (s->tcp)
		tcp_input(s->tcp, p, now);
	else
		count_drop(&s->counters, DROP_PROTOCOL_OFF);
}

static void handle_dhcp(struct stack *s, const struct packet *p, usec_t now)
{
	const char *answer = dhcp_input(s->tap, &s->cfg.dhcp, p);
	char mac[MAC_TEXT_MAX];

	if (answer)
		log_limited(&s->dhcp_limit, now, LOG_LEVEL_INFO, "DHCP: %s to %s", answer,
			    mac_format(&p->eth_src, mac));
}

static void handle_dhcpv6(struct stack *s, const struct packet *p, usec_t now)
{
	bool gave;
	const char *answer = dhcpv6_input(s->tap, &s->cfg.dhcpv6, p, &gave);
	char mac[MAC_TEXT_MAX];

	if (gave && !s->cfg.nat.family[IP_V6].address_fixed)
		s->guest.seen[IP_V6] = s->cfg.dhcpv6.address;
	if (answer)
		log_limited(&s->dhcp_limit, now, LOG_LEVEL_INFO, "DHCPv6: %s to %s", answer,
			    mac_format(&p->eth_src, mac));
}

static void handle_udp(struct stack *s, const struct packet *p, usec_t now)
{
	/* The ports of DHCP and DHCPv6 servers are the gateway's own: never sent on to the host's
	 * network. */
	bool v4 = ip_is_v4(&p->ip.dst);
	bool dhcp = p->udp.dst_port == (v4 ? DHCP_SERVER_PORT : DHCPV6_SERVER_PORT);

	if (v4 && dhcp && s->cfg.dhcp_on)
		handle_dhcp(s, p, now);
	else if (!v4 && dhcp && s->cfg.dhcpv6_on)
		handle_dhcpv6(s, p, now);
	else if (s->udp && !dhcp)
		udp_input(s->udp, p, now);
	else
		count_drop(&s->counters, DROP_PROTOCOL_OFF);
}

static void handle_icmp(struct stack *s, const struct packet *p, usec_t now)
{
	struct ip_addr own;

	if (!ip_is_v4(&p->ip.dst) && ndp_probed(p, &own))
		nat_guest_learn(&s->guest, &s->cfg.nat, &own);
	if (s->cfg.ndp_on && !ip_is_v4(&p->ip.dst) && ndp_input(s->tap, &s->cfg.ndp, p))
		return;
	if (s->tcp && tcp_icmp_input(s->tcp, p))
		return;
	if (s->icmp)
		icmp_input(s->icmp, p, now);
	else
		count_drop(&s->counters, DROP_PROTOCOL_OFF);
}

static void handle_fragment(struct stack *s, const struct packet *p, usec_t now);

static const packet_handler handlers[PACKET_KINDS] = {
    [PACKET_ARP] = handle_arp,   [PACKET_TCP] = handle_tcp,           [PACKET_UDP] = handle_udp,
    [PACKET_ICMP] = handle_icmp, [PACKET_FRAGMENT] = handle_fragment,
};

/* Nothing may point into the batch any more. What is owed to the guest for its segments waits for
 * the end of the turn. */
static void end_batch(struct stack *s, usec_t now)
{
	if (s->udp)
		udp_flush(s->udp, now);
	if (s->tcp)
		tcp_batch_done(s->tcp);
}

static void flush_segments(struct stack *s, usec_t now)
{
	if (s->tcp)
		tcp_flush(s->tcp, now);
}

static void handle_fragment(struct stack *s, const struct packet *p, usec_t now)
{
	struct packet whole;

	if (!reassembly_input(s->reassembly, p, now, &whole))
		return;
	handlers[whole.kind](s, &whole, now);
	end_batch(s, now); /* the whole is valid only until the next fragment */
}

static void learn_mac(struct stack *s, const struct packet *p, usec_t now)
{
	char mac[MAC_TEXT_MAX];

	if (tap_learn_mac(s->tap, &p->eth_src))
		log_limited(&s->mac_limit, now, LOG_LEVEL_DEBUG, "New guest MAC address: %s",
			    mac_format(&p->eth_src, mac));
}

static void handle_frame(struct stack *s, const struct tap_frame *f, usec_t now)
{
	struct packet p;
	enum drop_reason why;

	if (packet_parse(f->data, f->len, &f->off, &p, &why) < 0) {
		count_drop(&s->counters, why);
		return;
	}
	learn_mac(s, &p, now);
	if (p.kind != PACKET_ARP) {
		if (!s->cfg.nat.family[ip_family(&p.ip.src)].on) {
			count_drop(&s->counters, DROP_FAMILY_OFF);
			return;
		}
		nat_guest_learn(&s->guest, &s->cfg.nat, &p.ip.src);
	}
	handlers[p.kind](s, &p, now);
}

/* Handles one batch of at most max frames. Number of frames: 0 when the link has nothing more (or
 * is gone), and perhaps fewer than asked for when there is more, since large frames fill the link's
 * buffer. */
static unsigned handle_batch(struct stack *s, unsigned max, usec_t now)
{
	struct tap_frame frames[BATCH_FRAMES];
	unsigned count;
	int r = tap_receive(s->tap, frames, max, &count);

	if (r < 0) {
		log_err("The guest's network device is gone: %s", strerror(-r));
		return 0;
	}
	for (unsigned i = 0; i < count; i++)
		handle_frame(s, &frames[i], now);
	if (count)
		end_batch(s, now);
	return count;
}

static void on_readable(void *arg, usec_t now)
{
	struct stack *s = arg;

	/* A batch that is not full was the last, as a rule: the loop tells if not. */
	for (int i = 0; i < BATCHES_A_TURN; i++) {
		/* A single frame is under way before another is looked for: that is the case where
		 * it counts. */
		unsigned max = i ? BATCH_FRAMES : 1;

		if (handle_batch(s, max, now) < max)
			break;
	}
	flush_segments(s, now);
}

static void on_writable(void *arg, usec_t now)
{
	struct stack *s = arg;

	if (s->tcp)
		tcp_link_ready(s->tcp, now);
}

static void on_connected(void *arg, usec_t now)
{
	struct stack *s = arg;

	stack_announce(s);
	if (s->ra)
		ra_start(s->ra, now);
	on_writable(s, now);
}

static void on_gone(void *arg, int err)
{
	struct stack *s = arg;

	if (s->ra)
		ra_stop(s->ra);
	if (s->cfg.guest_gone)
		s->cfg.guest_gone(s->cfg.guest_arg, err);
}

static unsigned at_most(unsigned n, unsigned most)
{
	return n < most ? n : most;
}

/* A descriptor that UDP or echo has, it has until a time-out: a guest that sends from port after
 * port would leave none for connections. So none of the three may take them all. */
static int make_transports(struct stack *s)
{
	const struct stack_config *cfg = &s->cfg;
	unsigned n = cfg->descriptors;
	const struct tcp_config tcp = {.flows_max = at_most(n - n / 8, FLOWS_MAX),
				       .buffer_budget = BUFFER_BUDGET,
				       .guest = &s->guest,
				       .sides = cfg->sides};
	const struct udp_config udp = {.flows_max = FLOWS_MAX,
				       .sockets_max = n / 2,
				       .timeout_one_way = 30 * USEC_SEC,
				       .timeout_both_ways = 180 * USEC_SEC,
				       .guest = &s->guest,
				       .sides = cfg->sides};
	const struct icmp_config icmp = {.flows_max = at_most(n / 8, ECHO_FLOWS_MAX),
					 .timeout = 60 * USEC_SEC,
					 .guest = &s->guest};
	int r = reassembly_new(s->loop, &s->counters, &s->reassembly);

	if (!r && cfg->tcp_on)
		r = tcp_new(s->loop, s->tap, &cfg->nat, &tcp, &s->tcp);
	if (!r && cfg->udp_on)
		r = udp_new(s->loop, s->tap, &cfg->nat, &udp, &s->udp);
	if (!r && cfg->icmp_on)
		r = icmp_new(s->loop, s->tap, &cfg->nat, &icmp, &s->icmp);
	return r;
}

/* Like a file that can't be opened, one that can't be written costs the capture alone. */
static void start_pcap(struct stack *s, int fd)
{
	int r = tap_pcap_start(s->tap, fd);

	if (r < 0)
		log_warn("Can't write the pcap file: %s", strerror(-r));
}

int stack_new(struct loop *loop, struct tap_link *link, const struct stack_config *cfg,
	      struct stack **out)
{
	struct stack *s = calloc(1, sizeof(*s));
	const struct tap_events events = {.readable = on_readable,
					  .writable = on_writable,
					  .connected = on_connected,
					  .gone = on_gone,
					  .arg = s};
	int r;

	if (!s) {
		link->ops->free(link);
		return -ENOMEM;
	}
	s->loop = loop;
	s->cfg = *cfg;
	s->cfg.ndp.guest = &s->guest;
	nat_guest_init(&s->guest, &s->cfg.nat);
	r = tap_new(link, &cfg->tap, &s->counters, &s->tap);
	if (!r && cfg->pcap_fd >= 0)
		start_pcap(s, cfg->pcap_fd);
	if (!r)
		r = make_transports(s);
	if (!r && s->cfg.ndp_on && s->cfg.ndp.ra_on)
		r = ra_new(loop, s->tap, &s->cfg.ndp, &s->ra);
	if (!r)
		r = tap_start(s->tap, loop, &events);
	if (!r && s->ra && cfg->guest_there)
		ra_start(s->ra, loop_now(loop));
	if (r < 0) {
		stack_free(s);
		return r;
	}
	*out = s;
	return 0;
}

void stack_free(struct stack *s)
{
	if (!s)
		return;
	icmp_free(s->icmp);
	udp_free(s->udp);
	tcp_free(s->tcp);
	reassembly_free(s->reassembly);
	ra_free(s->ra);
	tap_free(s->tap);
	free(s);
}

int stack_attach(struct stack *s, int fd)
{
	return tap_attach(s->tap, fd);
}

int stack_listen(struct stack *s, struct forward_port *port)
{
	return port->rule->proto == IPPROTO_TCP ? tcp_listen(s->tcp, port)
						: udp_listen(s->udp, port);
}

void stack_unlisten(struct stack *s, struct forward_port *port)
{
	if (port->rule->proto == IPPROTO_TCP)
		tcp_unlisten(s->tcp, port);
	else
		udp_unlisten(s->udp, port);
}

void stack_announce(struct stack *s)
{
	const struct nat_family *v4 = &s->cfg.nat.family[IP_V4], *v6 = &s->cfg.nat.family[IP_V6];
	int r = 0;

	if (v4->on && !ip_is_unspecified(&v4->guest_assigned))
		r = arp_request(s->tap, &v4->gateway, &v4->guest_assigned);
	if (!r && v6->on && !ip_is_unspecified(&v6->guest_assigned))
		r = ndp_solicit(s->tap, &s->cfg.ndp, &v6->guest_assigned);
	if (r < 0)
		log_debug("Announcing ourselves to the guest: %s", strerror(-r));
}

static void drain(struct stack *s)
{
	for (int i = 0; i < DRAIN_BATCHES && handle_batch(s, BATCH_FRAMES, loop_now(s->loop)); i++)
		;
	flush_segments(s, loop_now(s->loop));
}

void stack_finish(struct stack *s)
{
	usec_t start = loop_now(s->loop), moved = start, now = start;
	size_t held = 0;

	drain(s);
	while (s->tcp && tcp_unfinished(s->tcp, &held) && !loop_stopped(s->loop)) {
		uint64_t before = s->counters.rx_bytes - held;

		if (now - moved > FINISH_STALL || now - start > FINISH_MOST)
			return;
		if (loop_turn(s->loop, USEC_NEVER, FINISH_TURN_MS) < 0)
			return;
		now = loop_now(s->loop);
		(void)tcp_unfinished(s->tcp, &held);
		if (s->counters.rx_bytes - held != before)
			moved = now;
	}
}

void stack_count(const struct stack *s, struct stack_totals *out)
{
	const struct counters *c = &s->counters;

	*out = (struct stack_totals){.rx_frames = c->rx_frames,
				     .rx_bytes = c->rx_bytes,
				     .tx_frames = c->tx_frames,
				     .tx_bytes = c->tx_bytes,
				     .tcp_flows = s->tcp ? tcp_flow_count(s->tcp) : 0,
				     .udp_flows = s->udp ? udp_flow_count(s->udp) : 0};
	for (int i = 0; i < DROP_COUNT; i++)
		out->dropped += c->dropped[i];
}

void stack_log_counters(const struct stack *s)
{
	const struct counters *c = &s->counters;

	log_debug("From the guest: %llu frames, %llu bytes; to the guest: %llu frames, %llu bytes",
		  (unsigned long long)c->rx_frames, (unsigned long long)c->rx_bytes,
		  (unsigned long long)c->tx_frames, (unsigned long long)c->tx_bytes);
	for (int i = 0; i < DROP_COUNT; i++) {
		if (c->dropped[i])
			log_debug("Dropped: %s: %llu", drop_reason_text((enum drop_reason)i),
				  (unsigned long long)c->dropped[i]);
	}
}
