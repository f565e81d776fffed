/* SPDX-License-Identifier: BSD-3-Clause */
/* Why frames were dropped. One place, so that every reason has a name and `-d` can print them all.
 */
#ifndef CORE_COUNTERS_H
#define CORE_COUNTERS_H

#include <stdint.h>

/* name, text */
#define DROP_REASONS(X)                                                                            \
	X(FRAME_SHORT, "frame too short")                                                          \
	X(FRAME_LONG, "frame too long")                                                            \
	X(ETHERTYPE, "unknown ethertype")                                                          \
	X(IP_HEADER, "bad IP header")                                                              \
	X(IP_CHECKSUM, "bad IPv4 header checksum")                                                 \
	X(IP_EXTENSION, "bad IPv6 extension header")                                               \
	X(IP_PROTOCOL, "unknown IP protocol")                                                      \
	X(SOURCE, "source is loopback, multicast or unspecified")                                  \
	X(DESTINATION, "destination is loopback or unspecified")                                   \
	X(FRAGMENT, "fragment can't be reassembled")                                               \
	X(L4_HEADER, "bad transport header")                                                       \
	X(L4_CHECKSUM, "bad transport checksum")                                                   \
	X(FAMILY_OFF, "address family is off")                                                     \
	X(PROTOCOL_OFF, "protocol is off")                                                         \
	X(ARP, "bad ARP packet")                                                                   \
	X(NDP, "bad neighbour discovery packet")                                                   \
	X(DHCP, "bad DHCP message")                                                                \
	X(ICMP_TYPE, "ICMP type not handled")                                                      \
	X(TCP_STATE, "segment not acceptable")                                                     \
	X(NO_MEMORY, "out of memory")                                                              \
	X(NO_SOCKET, "no socket for a new flow")                                                   \
	X(FLOW_LIMIT, "too many flows")                                                            \
	X(SOCKET, "refused by the socket on the host")                                             \
	X(FORWARD, "a forwarding rule has no way for it")                                          \
	X(STRANGER, "from a host that the guest has not contacted")                                \
	X(LINK_FULL, "link to the guest is full")                                                  \
	X(LINK_ERROR, "write to the link failed")

#define DROP_ENUM(name, text) DROP_##name,
enum drop_reason { DROP_REASONS(DROP_ENUM) DROP_COUNT };

struct counters {
	uint64_t rx_frames, rx_bytes; /* from the guest */
	uint64_t tx_frames, tx_bytes; /* to the guest */
	uint64_t dropped[DROP_COUNT];
};

static inline void count_drop(struct counters *c, enum drop_reason why)
{
	c->dropped[why]++;
}

/* The reason in words. */
const char *drop_reason_text(enum drop_reason why);

#endif
