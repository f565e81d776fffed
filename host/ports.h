/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ports of a network namespace have listeners, for `auto`: TCP sockets in LISTEN, UDP sockets
 * that are bound and not connected, whatever local address they have. A socket with
 * IP_BIND_ADDRESS_NO_PORT (ip(7)) says that no port need be its own, so it's no server: as such our
 * own sockets of outbound flows are known to us and to other instances (Linux 5.12; before, they
 * count).
 *
 * What it costs, on a machine of 24 GiB (16384 buckets in each of the kernel's tables of TCP
 * listeners and of UDP sockets; they grow with the memory, up to 65536, and are shared by all
 * namespaces), Linux 6.18, caches gone cold in the meantime as they are in an idle process: a look
 * at one namespace (two protocols, two families) 150 us, which four times a second in two
 * namespaces is 0.12 % of a core. The counters of sockets in use are 22 us a namespace. So one
 * looks at the counters four times a second, and further where they changed, or anyway every two
 * seconds: 0.05 to 0.12 % of a core as measured, waking up included. What the counters don't show
 * is one socket that goes while another one comes between two readings. */
#ifndef HOST_PORTS_H
#define HOST_PORTS_H

#include <stdint.h>

#include "wire/addr.h"

/* Bit n of the whole: port n. */
#define PORT_SET_WORDS 1024
struct port_set {
	uint64_t bits[PORT_SET_WORDS];
};

static inline bool port_set_has(const struct port_set *s, uint16_t port)
{
	return s->bits[port / 64] >> (port % 64) & 1;
}

static inline void port_set_add(struct port_set *s, uint16_t port)
{
	s->bits[port / 64] |= (uint64_t)1 << (port % 64);
}

/* The descriptors a look needs. They belong to the namespace they were opened in and may be used
 * from any other, and under the engine's filter. */
struct ports_view {
	int diag;                  /* NETLINK_SOCK_DIAG (sock_diag(7)) */
	int sockstat[IP_FAMILIES]; /* /proc/self/net/sockstat and sockstat6; -1 if not there */
};

/* Opens them in the current network namespace. 0 or negative errno. */
int ports_view_open(struct ports_view *out) must_check;
void ports_view_close(struct ports_view *v);

/* Sockets in use in the namespace. */
struct ports_counters {
	unsigned tcp[IP_FAMILIES], udp[IP_FAMILIES];
	unsigned time_wait; /* a connection that goes shows up here */
};

/* false if nothing came or went by the counters, which *last keeps for the next call (all zero
 * before the first one); true also if they can't be read. */
bool ports_may_have_changed(const struct ports_view *v, struct ports_counters *last);

/* The listening ports of a protocol. Never waits: netlink makes the answers while it is asked. 0 or
 * negative errno. */
int ports_look(const struct ports_view *v, uint8_t proto, struct port_set *out) must_check;

#endif
