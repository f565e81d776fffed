/* SPDX-License-Identifier: BSD-3-Clause */
/* The packet that an ICMP error is about. It is quoted with its first eight bytes at least after
 * the IP header (RFC 792), as a rule with more (RFC 1812 4.3.2.3, RFC 4443 3.1). */
#ifndef WIRE_QUOTE_H
#define WIRE_QUOTE_H

#include "wire/packet.h"

struct quote {
	struct endpoint src, dst;
	uint8_t proto;
	uint32_t seq; /* TCP */
};

/* Of a PACKET_ICMP. false: p is no error about an unfragmented TCP or UDP packet without extension
 * headers. */
bool quote_parse(const struct packet *p, struct quote *out) must_check;

/* Is p an ICMP error that says that its packet can't reach where it was sent (destination
 * unreachable, RFC 792, RFC 4443 3.1)? Not that it is too long. */
bool quote_is_unreachable(const struct packet *p);

#endif
