/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers from plain values to bytes. Every function writes at p and returns the number of bytes
 * written; the caller's buffer has EMIT_HEADERS_MAX bytes for a whole stack of headers. */
#ifndef WIRE_EMIT_H
#define WIRE_EMIT_H

#include "wire/packet.h"

#define EMIT_HEADERS_MAX 128 /* Ethernet 14, IPv6 40, fragment 8, TCP 60: rounded up */

size_t emit_eth(uint8_t *p, const struct mac_addr *dst, const struct mac_addr *src, uint16_t type);

/* IPv4 (20 bytes, header sum done) or IPv6 (40 bytes) by the family of h->src, without fragment
 * header. Uses src, dst, proto, ttl, tos, flow_label, dont_fragment. payload_len: bytes that follow
 * this header. A super-frame (payload_len beyond 65535 in total) is not possible. */
size_t emit_ip(uint8_t *p, const struct ip_header *h, size_t payload_len);

/* TCP header with options (only those whose has_ flag is set, sack blocks by sack_count as far as
 * they fit), padded to 4 bytes. The checksum field is left 0; see emit_l4_checksum(). */
size_t emit_tcp(uint8_t *p, const struct tcp_header *h);
size_t emit_tcp_len(const struct tcp_options *opt); /* what emit_tcp() will write */
size_t emit_udp(uint8_t *p, const struct udp_header *h, size_t payload_len);

/* ICMP or ICMPv6 header, 8 bytes, checksum 0; rest: the four bytes after the checksum, host order.
 */
size_t emit_icmp(uint8_t *p, uint8_t type, uint8_t code, uint32_t rest);

/* Sum of data in 16-bit words (RFC 1071), not folded, not inverted, to be added up; every part but
 * the last must have an even length. */
uint64_t csum_add(uint64_t sum, const void *data, size_t len);
uint16_t csum_fold(uint64_t sum); /* folded and inverted, in network order as stored by memcpy */
uint64_t csum_pseudo(const struct ip_addr *src, const struct ip_addr *dst, uint8_t proto,
		     size_t l4_len);

/* Completes the transport checksum of a TCP, UDP, ICMP or ICMPv6 header at l4 of hdr_len bytes
 * followed by payload. */
void emit_l4_checksum(uint8_t *l4, size_t hdr_len, const void *payload, size_t payload_len,
		      const struct ip_header *ip);

/* Stores only the (not inverted) sum of the pseudo-header of TCP or UDP over l4_len bytes, header
 * included, as virtio's NEEDS_CSUM wants. */
void emit_l4_pseudo(uint8_t *l4, size_t l4_len, const struct ip_header *ip);

#endif
