/* SPDX-License-Identifier: BSD-3-Clause */
/* Echo through unprivileged ping sockets (Linux 3.0), and ICMP errors to the guest. */
#ifndef ICMP_ICMP_H
#define ICMP_ICMP_H

#include "core/loop.h"
#include "nat/translate.h"
#include "tap/tap.h"

struct icmp;

struct icmp_config {
	unsigned flows_max;
	usec_t timeout;                /* after the last request; 60 s as a rule */
	const struct nat_guest *guest; /* outlives the icmp */
};

/* loop, tap and nat outlive the icmp. 0 or negative errno. */
int icmp_new(struct loop *loop, struct tap *tap, const struct nat_config *nat,
	     const struct icmp_config *cfg, struct icmp **out) must_check;
void icmp_free(struct icmp *i);

/* A PACKET_ICMP from the guest that NDP did not take. */
void icmp_input(struct icmp *i, const struct packet *p, usec_t now);

#endif
