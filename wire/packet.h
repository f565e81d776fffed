/* SPDX-License-Identifier: BSD-3-Clause */
/* One frame from the guest, parsed once into plain host-order values. After packet_parse()
 * succeeded nobody looks at a length again: payload[0 .. payload_len) is readable, and so is
 * everything the fields speak of. */
#ifndef WIRE_PACKET_H
#define WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/counters.h"
#include "wire/addr.h"

#define ETH_HEADER_LEN 14
#define FRAME_MAX      65549 /* an IP packet of 65535 bytes and its Ethernet header */

/* What travels beside a frame (struct virtio_net_hdr in plain values): a checksum still to be done
 * over csum_start.. (the pseudo-header sum is in place), and cutting into segments of gso_size
 * bytes of payload. */
enum gso { GSO_NONE, GSO_TCP4, GSO_TCP6, GSO_UDP };
struct offload {
	bool csum_partial;
	uint16_t csum_start,
	    csum_offset; /* from the start of the frame; the field is at start + offset */
	enum gso gso;
	bool gso_ecn;
	uint16_t gso_size, header_len;
};

/* TCP header flags (RFC 9293 3.1, RFC 3168). */
enum {
	TCP_FIN = 1,
	TCP_SYN = 2,
	TCP_RST = 4,
	TCP_PSH = 8,
	TCP_ACK = 16,
	TCP_URG = 32,
	TCP_ECE = 64,
	TCP_CWR = 128
};

#define TCP_SACK_MAX 4
struct tcp_options {
	bool has_mss, has_wscale, has_sack_permitted, has_timestamp;
	uint16_t mss;
	uint8_t wscale; /* as sent, so up to 255 */
	uint32_t ts_val, ts_ecr;
	uint8_t sack_count;
	struct {
		uint32_t start, end;
	} sack[TCP_SACK_MAX];
};

struct tcp_header {
	uint16_t src_port, dst_port, window, urgent;
	uint32_t seq, ack;
	uint8_t flags;
	struct tcp_options opt;
};

struct udp_header {
	uint16_t src_port, dst_port;
};

struct icmp_header {
	uint8_t type, code;
	uint16_t echo_id, echo_seq;
};

struct ip_header {
	struct ip_addr src, dst;
	uint8_t proto; /* IPPROTO_*, after IPv6 extension headers */
	uint8_t ttl;   /* TTL or hop limit */
	uint8_t tos;   /* TOS or traffic class: DSCP and ECN */
	uint32_t flow_label;
	bool dont_fragment;
	/* Set for a fragment: payload is then the fragment's bytes and no transport header was
	 * parsed. */
	bool is_fragment, more_fragments;
	uint16_t fragment_offset; /* bytes */
	uint32_t fragment_id;
};

/* Which kind of thing a frame is, hence who handles it. */
enum packet_kind { PACKET_ARP, PACKET_TCP, PACKET_UDP, PACKET_ICMP, PACKET_FRAGMENT, PACKET_KINDS };

struct packet {
	enum packet_kind kind;
	struct mac_addr eth_src, eth_dst;
	uint16_t eth_type;
	struct ip_header ip; /* not for ARP */
	union {
		struct tcp_header tcp;
		struct udp_header udp;
		struct icmp_header icmp; /* ICMP or ICMPv6 by ip.proto */
	};
	const uint8_t *payload; /* after the transport header; ARP: after the Ethernet header; ICMP:
				   after the first 8 bytes */
	size_t payload_len;
	/* The IP packet from its header on, padding cut off. */
	const uint8_t *l3;
	size_t l3_len;
	enum gso gso; /* the frame is a super-frame: payload is several segments or datagrams of */
	uint16_t gso_size; /* this many bytes, the last one perhaps shorter */
};

/* Parses a frame. Sums are verified unless off->csum_partial says that they were not made yet. IPv6
 * extension headers (hop-by-hop, routing, destination options) are skipped, a fragment header sets
 * is_fragment unless it is atomic (RFC 6946). Addresses that no guest may use (127/8, ::1,
 * multicast sources) are refused. 0, or -EBADMSG with the reason in *why. */
int packet_parse(const uint8_t *frame, size_t len, const struct offload *off, struct packet *out,
		 enum drop_reason *why) must_check;

/* As packet_parse(), from the IP header on: for reassembled packets. eth_* are taken from *out as
 * it stands. */
int packet_parse_ip(const uint8_t *ip, size_t len, const struct offload *off, struct packet *out,
		    enum drop_reason *why) must_check;

#endif
