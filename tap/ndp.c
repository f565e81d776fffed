/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/ndp.h"

#include <errno.h>
#include <net/ethernet.h>

#include "core/cursor.h"
#include "wire/name.h"

enum { ND_RS = 133, ND_RA = 134, ND_NS = 135, ND_NA = 136, ND_REDIRECT = 137 };

/* Options: RFC 4861 4.6, RFC 8106 5. */
enum {
	OPT_SOURCE_MAC = 1,
	OPT_TARGET_MAC = 2,
	OPT_PREFIX = 3,
	OPT_MTU = 5,
	OPT_RDNSS = 25,
	OPT_DNSSL = 31
};

#define NA_FLAGS            0xe0000000U /* router, solicited, override */
#define RA_MANAGED          0x80
#define PREFIX_ON_LINK_AUTO 0xc0
#define ROUTER_LIFETIME     65535 /* seconds: the most there is (RFC 8319) */

/* RFC 6980 5: discovery messages are never fragmented, so one must fit the least MTU of IPv6. */
#define BODY_MAX (1280 - 40)

static const struct ip_addr all_nodes = {{0xff, 2, [15] = 1}};

/* A message being written: the ICMPv6 header, then options. */
struct message {
	uint8_t bytes[BODY_MAX];
	size_t len;
};

static void add16(struct message *m, uint32_t v)
{
	m->bytes[m->len++] = (uint8_t)(v >> 8);
	m->bytes[m->len++] = (uint8_t)v;
}

static void add32(struct message *m, uint32_t v)
{
	add16(m, v >> 16);
	add16(m, v);
}

static void add_bytes(struct message *m, const void *bytes, size_t len)
{
	memcpy(m->bytes + m->len, bytes, len);
	m->len += len;
}

/* Type and length in units of eight bytes. */
static void add_option(struct message *m, uint8_t type, size_t len)
{
	m->bytes[m->len++] = type;
	m->bytes[m->len++] = (uint8_t)(len / 8);
}

static void add_mac(struct message *m, uint8_t type, const struct mac_addr *mac)
{
	add_option(m, type, 8);
	add_bytes(m, mac->b, 6);
}

static int send_message(struct tap *t, const struct ndp_config *cfg, const struct ip_addr *to,
			struct message *m)
{
	struct ip_header ip = {.src = cfg->our_link_local,
			       .dst = *to,
			       .proto = IPPROTO_ICMPV6,
			       .ttl = 255,
			       .dont_fragment = true};
	struct iovec body = {.iov_base = m->bytes, .iov_len = m->len};

	emit_l4_checksum(m->bytes, 8, m->bytes + 8, m->len - 8, &ip);
	return tap_send_ip(t, &ip, &body, 1);
}

/* The guest asks again if an answer does not come. */
static void answer(struct tap *t, const struct ndp_config *cfg, const struct ip_addr *to,
		   struct message *m)
{
	int r = send_message(t, cfg, to, m);

	if (r < 0)
		log_debug("Neighbour discovery answer not sent: %s", strerror(-r));
}

static bool is_guests(const struct ndp_config *cfg, const struct ip_addr *a)
{
	return ip_equal(a, &cfg->prefix) ||
	       (cfg->guest && (ip_equal(a, &cfg->guest->seen[IP_V6]) ||
			       ip_equal(a, &cfg->guest->link_local_seen)));
}

/* RFC 4861 7.2.4; every address but the guest's own is ours. A probe for duplicates has no source
 * and gets no answer. */
static void solicited(struct tap *t, const struct ndp_config *cfg, const struct packet *p)
{
	struct ip_addr target = ip_from_v6(p->payload);
	struct message m = {0};

	if (ip_is_unspecified(&p->ip.src) || is_guests(cfg, &target))
		return;
	m.len = emit_icmp(m.bytes, ND_NA, 0, NA_FLAGS);
	add_bytes(&m, target.b, 16);
	add_mac(&m, OPT_TARGET_MAC, tap_our_mac(t));
	answer(t, cfg, &p->ip.src, &m);
}

/* RFC 4861 4.6.2. What follows the prefix must be zero when sent. */
static void add_prefix(struct message *m, const struct ip_addr *address)
{
	static const uint8_t host_part[8];

	add_option(m, OPT_PREFIX, 32);
	add16(m, 64 << 8 | PREFIX_ON_LINK_AUTO);
	add32(m, UINT32_MAX); /* valid and preferred for ever */
	add32(m, UINT32_MAX);
	add32(m, 0);
	add_bytes(m, address->b, 8);
	add_bytes(m, host_part, 8);
}

/* RFC 8106 5.1. Number of servers in the option. */
static unsigned add_rdnss(struct message *m, const struct ndp_config *cfg)
{
	unsigned n = 0;

	for (unsigned i = 0; i < cfg->dns_count; i++)
		n += !ip_is_v4(&cfg->dns[i]);
	if (!n)
		return 0;
	add_option(m, OPT_RDNSS, 8 + 16 * n);
	add16(m, 0);
	add32(m, UINT32_MAX);
	for (unsigned i = 0; i < cfg->dns_count; i++) {
		if (!ip_is_v4(&cfg->dns[i]))
			add_bytes(m, cfg->dns[i].b, 16);
	}
	return n;
}

/* Appends a name; one that is none or has no room, with up to seven bytes to round the option up,
 * is left out. */
static void add_name(struct message *m, const char *name)
{
	size_t room = sizeof(m->bytes) - m->len, len;

	if (room > 7 && !name_emit(m->bytes + m->len, room - 7, name, &len))
		m->len += len;
}

/* RFC 8106 5.2 */
static void add_dnssl(struct message *m, const struct ndp_config *cfg)
{
	size_t start = m->len;

	if (!cfg->search_count)
		return;
	add_option(m, OPT_DNSSL, 0);
	add16(m, 0);
	add32(m, UINT32_MAX);
	for (unsigned i = 0; i < cfg->search_count; i++)
		add_name(m, cfg->search[i]);
	if (m->len == start + 8) { /* no name was usable */
		m->len = start;
		return;
	}
	while ((m->len - start) % 8)
		m->bytes[m->len++] = 0;
	m->bytes[start + 1] = (uint8_t)((m->len - start) / 8);
}

/* RFC 4861 6.2.3 */
static void advertise(struct tap *t, const struct ndp_config *cfg, const struct ip_addr *to)
{
	uint32_t flags = cfg->managed ? RA_MANAGED : 0;
	struct message m = {0};

	m.len = emit_icmp(m.bytes, ND_RA, 0, 255U << 24 | flags << 16 | ROUTER_LIFETIME);
	add32(&m, 0); /* reachable and retransmission time: not said */
	add32(&m, 0);
	if (!ip_is_unspecified(&cfg->prefix))
		add_prefix(&m, &cfg->prefix);
	add_mac(&m, OPT_SOURCE_MAC, tap_our_mac(t));
	if (cfg->mtu) {
		add_option(&m, OPT_MTU, 8);
		add16(&m, 0);
		add32(&m, cfg->mtu);
	}
	if (add_rdnss(&m, cfg))
		add_dnssl(&m, cfg);
	answer(t, cfg, ip_is_unspecified(to) ? &all_nodes : to, &m);
}

void ndp_advertise(struct tap *t, const struct ndp_config *cfg)
{
	advertise(t, cfg, &all_nodes);
}

/* RFC 4861 6.1.1 and 7.1.1: every option has a length, and a source without address none for its
 * MAC. */
static bool options_right(struct cursor c, bool has_source)
{
	while (cursor_left(&c)) {
		uint8_t type = cursor_u8(&c), len = cursor_u8(&c);

		if (!len)
			return false;
		cursor_bytes(&c, 8U * len - 2);
		if (c.bad || (type == OPT_SOURCE_MAC && !has_source))
			return false;
	}
	return true;
}

static bool is_right(const struct packet *p)
{
	struct cursor c = cursor_init(p->payload, p->payload_len);
	bool has_source = !ip_is_unspecified(&p->ip.src);

	/* A hop limit of 255 proves that it was sent on this link. */
	if (p->ip.ttl != 255 || p->icmp.code)
		return false;
	if (p->icmp.type == ND_NS) {
		struct ip_addr target;

		cursor_copy(&c, target.b, sizeof(target.b));
		if (c.bad || ip_is_multicast(&target))
			return false;
	} else if (p->icmp.type != ND_RS) {
		return true; /* nothing is taken from it */
	}
	return options_right(c, has_source);
}

bool ndp_probed(const struct packet *p, struct ip_addr *address)
{
	struct ip_addr target;

	if (p->icmp.type != ND_NS || !ip_is_unspecified(&p->ip.src) || !is_right(p))
		return false;
	target = ip_from_v6(p->payload);
	if (!ip_is_unicast(&target) || ip_is_loopback(&target) || ip_is_v4(&target))
		return false;
	*address = target;
	return true;
}

bool ndp_input(struct tap *t, const struct ndp_config *cfg, const struct packet *p)
{
	if (p->icmp.type < ND_RS || p->icmp.type > ND_REDIRECT)
		return false;
	if (!is_right(p))
		count_drop(tap_counters(t), DROP_NDP);
	else if (p->icmp.type == ND_NS)
		solicited(t, cfg, p);
	else if (p->icmp.type == ND_RS && cfg->ra_on)
		advertise(t, cfg, &p->ip.src);
	return true;
}

int ndp_solicit(struct tap *t, const struct ndp_config *cfg, const struct ip_addr *target)
{
	struct message m = {0};

	m.len = emit_icmp(m.bytes, ND_NS, 0, 0);
	add_bytes(&m, target->b, 16);
	add_mac(&m, OPT_SOURCE_MAC, tap_our_mac(t));
	return send_message(t, cfg, target, &m);
}
