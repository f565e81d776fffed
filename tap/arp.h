/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP as the guest's gateway answers it (RFC 826): every address but the guest's own is ours. */
#ifndef TAP_ARP_H
#define TAP_ARP_H

#include "tap/tap.h"

#define ARP_OWN 2

/* Handles a PACKET_ARP. own: addresses of the guest, assigned and in use, never answered for. */
void arp_input(struct tap *t, const struct packet *p, const struct ip_addr own[ARP_OWN]);

/* Broadcasts a request for target from sender: makes the guest known early. 0 or negative errno. */
int arp_request(struct tap *t, const struct ip_addr *sender,
		const struct ip_addr *target) must_check;

#endif
