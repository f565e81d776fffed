/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP between the guest and host sockets. */
#ifndef UDP_UDP_H
#define UDP_UDP_H

#include "core/loop.h"
#include "nat/translate.h"
#include "tap/tap.h"

struct udp;

struct udp_config {
	unsigned flows_max;
	usec_t timeout_one_way, timeout_both_ways; /* 30 s, 180 s as a rule */
};

/* loop, tap, nat and guest outlive the udp. 0 or negative errno. */
int udp_new(struct loop *loop, struct tap *tap, const struct nat_config *nat,
	    const struct nat_guest *guest, const struct udp_config *cfg,
	    struct udp **out) must_check;
void udp_free(struct udp *u);

/* A PACKET_UDP from the guest; its payload stays valid until udp_flush(). */
void udp_input(struct udp *u, const struct packet *p, usec_t now);

/* The batch of the tap has been handed over: sends what was collected (sendmmsg, UDP_SEGMENT). */
void udp_flush(struct udp *u, usec_t now);

size_t udp_flow_count(const struct udp *u);

#endif
