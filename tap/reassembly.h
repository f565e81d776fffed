/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments from the guest put together again (RFC 791 3.2, RFC 8200 4.5, RFC 5722: overlaps
 * discard the whole), bounded in number, memory and time. */
#ifndef TAP_REASSEMBLY_H
#define TAP_REASSEMBLY_H

#include "tap/tap.h"

struct reassembly;

int reassembly_new(struct loop *loop, struct counters *counters,
		   struct reassembly **out) must_check;
void reassembly_free(struct reassembly *r);

/* Takes a PACKET_FRAGMENT. true if it completed a packet, which is then parsed into *whole (valid
 * until the next call). */
bool reassembly_input(struct reassembly *r, const struct packet *p, usec_t now,
		      struct packet *whole);

#endif
