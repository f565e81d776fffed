/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP and ICMPv6 errors to the guest (RFC 792, RFC 4443, RFC 1812 4.3.2.3: as much of the original
 * as fits). Used by tcp/, udp/ and icmp/, which is why it lives here. */
#ifndef TAP_ICMP_ERROR_H
#define TAP_ICMP_ERROR_H

#include "tap/tap.h"

struct icmp_error {
	/* Who reports it, as the guest is to see it; same family as the original */
	struct ip_addr from;
	uint8_t type, code; /* ICMP or ICMPv6 numbers by family */
	uint32_t info;      /* the four bytes after the checksum: MTU where it applies */
};

/* Sends e about the packet with header ip, whose first bytes after the IP header are quoted
 * (transport header and payload as far as known: give all there is, it is cut to what an error may
 * carry). Nothing is sent about packets that no error may be about (RFC 1122 3.2.2: to a group or
 * from nobody). 0 or negative errno. */
int icmp_error_send(struct tap *t, const struct icmp_error *e, const struct ip_header *ip,
		    const void *quoted, size_t quoted_len) must_check;

/* Type, code and info (the rest of *out is left alone) for an errno of connect(2), send(2) or the
 * error queue on a local socket (ECONNREFUSED: port unreachable, EHOSTUNREACH, ENETUNREACH,
 * EACCES/EPERM: prohibited, ETIMEDOUT: host unreachable); false if none fits, as for ECONNREFUSED
 * of TCP, which is a reset. */
bool icmp_error_from_errno(int err, enum ip_family family, uint8_t proto, struct icmp_error *out);

/* Keeps errors of our own making to a rate (RFC 4443 2.4 (f), RFC 1812 4.3.2.8); those that came in
 * were limited on their way. Begins as all zero. */
struct icmp_error_limit {
	usec_t since;
	unsigned count; /* since then */
};

/* true if one more may be sent now. */
bool icmp_error_pass(struct icmp_error_limit *limit, usec_t now);

#endif
