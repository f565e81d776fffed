/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/dhcp.h"

#include <errno.h>

#include "tap/dhcp_message.h"

#define OP_REPLY    2
#define CLIENT_PORT 68
#define IP_LEN      20
#define UDP_LEN     8
#define PACKET_MIN  576 /* RFC 2131 2: what every client takes */

static const char *const answer_names[] = {
    [DHCP_BOOTP] = "BOOTP reply", [DHCP_OFFER] = "OFFER", [DHCP_ACK] = "ACK", [DHCP_NAK] = "NAK"};

static bool is_other(const struct ip_addr *a, const struct ip_addr *than)
{
	return !ip_is_unspecified(a) && !ip_equal(a, than);
}

/* RFC 2131 4.3.2. In whatever state the client is, it names its address in option 50 or in ciaddr
 * and, after several offers, the server that it has chosen in option 54. */
static bool answer_request(const struct dhcp_config *cfg, const struct dhcp_request *r,
			   enum dhcp_type *type)
{
	bool refuse = is_other(&r->requested, &cfg->address) || is_other(&r->ciaddr, &cfg->address);

	if (is_other(&r->server, &cfg->gateway))
		return false;
	*type = refuse ? DHCP_NAK : DHCP_ACK;
	return true;
}

/* The type of the answer; false if there is none. What no client sends is counted. */
static bool decide(struct tap *t, const struct dhcp_config *cfg, const struct dhcp_request *r,
		   enum dhcp_type *type)
{
	switch (r->type) {
	case DHCP_BOOTP:
		*type = DHCP_BOOTP;
		return true;
	case DHCP_DISCOVER:
		*type = r->rapid_commit ? DHCP_ACK : DHCP_OFFER; /* RFC 4039 3.1 */
		return true;
	case DHCP_REQUEST:
		return answer_request(cfg, r, type);
	case DHCP_INFORM:
		*type = DHCP_ACK;
		return true;
	case DHCP_DECLINE: /* there is no other address to give, nor a lease to end */
	case DHCP_RELEASE:
		return false;
	case DHCP_OFFER:
	case DHCP_ACK:
	case DHCP_NAK:
		break;
	}
	count_drop(tap_counters(t), DROP_DHCP);
	return false;
}

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put_address(uint8_t *p, const struct ip_addr *a)
{
	memcpy(p, ip_bytes(a), 4);
}

/* RFC 2131 table 3; RFC 951 3. What isn't written stays zero: no hops, no boot server or file. */
static void write_fields(const struct dhcp_answer *a, uint8_t *m)
{
	const struct dhcp_request *r = a->req;
	unsigned flags = r->flags;

	if (a->type == DHCP_NAK && !ip_is_unspecified(&r->giaddr))
		flags |= DHCP_FLAG_BROADCAST; /* 4.3.2: the client may not have the address */
	m[0] = OP_REPLY;
	m[1] = r->htype;
	m[2] = r->hlen;
	put16(m + DHCP_AT_XID, r->xid >> 16);
	put16(m + DHCP_AT_XID + 2, r->xid);
	put16(m + DHCP_AT_FLAGS, flags);
	put_address(m + DHCP_AT_GIADDR, &r->giaddr);
	memcpy(m + DHCP_AT_CHADDR, r->chaddr, sizeof(r->chaddr));
	if (a->type == DHCP_ACK || a->type == DHCP_BOOTP)
		put_address(m + DHCP_AT_CIADDR, &r->ciaddr);
	/* It is told an address only if it has none: by INFORM, or by BOOTP with ciaddr. */
	if (a->type == DHCP_NAK || r->type == DHCP_INFORM ||
	    (a->type == DHCP_BOOTP && !ip_is_unspecified(&r->ciaddr)))
		return;
	put_address(m + DHCP_AT_YIADDR, &a->cfg->address);
}

/* RFC 2131 4.1. A client that informs itself without saying its address is told where it asks from
 * (4.3.5: never by broadcast). */
static struct ip_addr destination(const struct dhcp_answer *a, const struct packet *p)
{
	static const uint8_t broadcast[4] = {255, 255, 255, 255};
	const struct dhcp_request *r = a->req;

	if (!ip_is_unspecified(&r->giaddr))
		return r->giaddr;
	if (a->type == DHCP_NAK)
		return ip_from_v4(broadcast);
	if (!ip_is_unspecified(&r->ciaddr))
		return r->ciaddr;
	if (r->type == DHCP_INFORM && !ip_is_unspecified(&p->ip.src))
		return p->ip.src;
	if (r->flags & DHCP_FLAG_BROADCAST)
		return ip_from_v4(broadcast);
	return a->cfg->address;
}

/* How long the message may be: what the client takes (option 57, or the least that all take), and
 * if possible what needs no fragments. */
static size_t message_room(const struct tap *t, const struct dhcp_answer *a)
{
	size_t most = a->req->max_size, mtu = tap_mtu(t);

	if (a->type == DHCP_BOOTP)
		return DHCP_BOOTP_LEN;
	if (mtu < PACKET_MIN)
		mtu = PACKET_MIN;
	if (most > mtu)
		most = mtu;
	most -= IP_LEN + UDP_LEN;
	return most < DHCP_MESSAGE_MAX ? most : DHCP_MESSAGE_MAX;
}

static int send_answer(struct tap *t, const struct dhcp_answer *a, const struct packet *p)
{
	bool relayed = !ip_is_unspecified(&a->req->giaddr);
	struct udp_header udp = {.src_port = DHCP_SERVER_PORT,
				 .dst_port = relayed ? DHCP_SERVER_PORT : CLIENT_PORT};
	struct ip_header ip = {
	    .src = a->cfg->gateway, .dst = destination(a, p), .proto = IPPROTO_UDP, .ttl = 255};
	uint8_t datagram[UDP_LEN + DHCP_MESSAGE_MAX] = {0}, *message = datagram + UDP_LEN;
	size_t len = DHCP_BOOTP_LEN;
	struct iovec body;

	write_fields(a, message);
	if (a->req->has_options)
		len = dhcp_options_write(a, message, message_room(t, a));
	emit_udp(datagram, &udp, len);
	emit_l4_checksum(datagram, UDP_LEN, message, len, &ip);
	body = (struct iovec){.iov_base = datagram, .iov_len = UDP_LEN + len};
	ip.dont_fragment = IP_LEN + body.iov_len <= tap_mtu(t);
	return tap_send_ip(t, &ip, &body, 1);
}

const char *dhcp_input(struct tap *t, const struct dhcp_config *cfg, const struct packet *p)
{
	struct dhcp_request request;
	struct dhcp_answer answer = {.cfg = cfg, .req = &request};
	int r;

	if (p->gso != GSO_NONE || dhcp_request_parse(p->payload, p->payload_len, &request) < 0) {
		count_drop(tap_counters(t), DROP_DHCP);
		return NULL;
	}
	if (!decide(t, cfg, &request, &answer.type))
		return NULL;
	r = send_answer(t, &answer, p); /* if it is lost, the client asks again */
	if (r < 0) {
		log_debug("DHCP answer not sent: %s", strerror(-r));
		return NULL;
	}
	return answer_names[answer.type];
}
