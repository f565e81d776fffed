/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/arp.h"

#include <errno.h>
#include <net/ethernet.h>

#include "core/cursor.h"

#define FRAME_MIN 60 /* IEEE 802.3 without the check sequence: shorter frames are padded */

enum { ARP_REQUEST = 1, ARP_REPLY = 2 };

struct arp {
	uint16_t op;
	struct mac_addr sender_mac, target_mac;
	struct ip_addr sender, target;
};

static bool parse(const struct packet *p, struct arp *a)
{
	struct cursor c = cursor_init(p->payload, p->payload_len);
	uint16_t hardware = cursor_u16(&c), protocol = cursor_u16(&c), lens = cursor_u16(&c);
	uint8_t ip[4];

	a->op = cursor_u16(&c);
	cursor_copy(&c, a->sender_mac.b, 6);
	cursor_copy(&c, ip, 4);
	a->sender = ip_from_v4(ip);
	cursor_copy(&c, a->target_mac.b, 6);
	cursor_copy(&c, ip, 4);
	a->target = ip_from_v4(ip);
	return !c.bad && hardware == 1 && protocol == ETHERTYPE_IP && lens == (6 << 8 | 4);
}

static int send_arp(struct tap *t, const struct mac_addr *to, const struct arp *a)
{
	static const uint8_t fixed[] = {0, 1, ETHERTYPE_IP >> 8, ETHERTYPE_IP & 0xff, 6, 4, 0};
	uint8_t frame[FRAME_MIN] = {0}, *p = frame;
	struct iovec iov = {.iov_base = frame, .iov_len = sizeof(frame)};
	struct tap_out f = {.iov = &iov, .iov_count = 1};
	unsigned sent = 0;
	int r;

	p += emit_eth(p, to, tap_our_mac(t), ETHERTYPE_ARP);
	memcpy(p, fixed, sizeof(fixed));
	p[7] = (uint8_t)a->op;
	memcpy(p + 8, a->sender_mac.b, 6);
	memcpy(p + 14, ip_bytes(&a->sender), 4);
	memcpy(p + 18, a->target_mac.b, 6);
	memcpy(p + 24, ip_bytes(&a->target), 4);
	r = tap_send(t, &f, 1, &sent);
	if (r < 0)
		return r;
	return sent ? 0 : -ENOBUFS;
}

void arp_input(struct tap *t, const struct packet *p, const struct ip_addr own[ARP_OWN])
{
	struct arp a, reply;
	int r;

	if (!parse(p, &a)) {
		count_drop(tap_counters(t), DROP_ARP);
		return;
	}
	/* An announcement (RFC 5227 1.1) asks for nothing; and an answer for the guest's own
	 * address would be a conflict. */
	if (a.op != ARP_REQUEST || ip_equal(&a.target, &own[0]) || ip_equal(&a.target, &own[1]) ||
	    (ip_equal(&a.sender, &a.target) && !ip_is_unspecified(&a.sender)))
		return;
	reply = (struct arp){.op = ARP_REPLY,
			     .sender_mac = *tap_our_mac(t),
			     .target_mac = a.sender_mac,
			     .sender = a.target,
			     .target = a.sender};
	r = send_arp(t, &p->eth_src, &reply);
	if (r < 0)
		log_debug("ARP reply not sent: %s", strerror(-r)); /* the guest asks again */
}

int arp_request(struct tap *t, const struct ip_addr *sender, const struct ip_addr *target)
{
	struct arp a = {
	    .op = ARP_REQUEST, .sender_mac = *tap_our_mac(t), .sender = *sender, .target = *target};

	return send_arp(t, &mac_broadcast, &a);
}
