/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside udp/ only. A socket stands for one endpoint of the guest, whatever it talks to (RFC 4787
 * REQ-1: endpoint-independent mapping); under it a flow is kept for each address that the guest
 * contacted from there, and only those may answer (REQ-8: address-dependent filtering), from any
 * port. */
#ifndef UDP_UDP_FLOW_H
#define UDP_UDP_FLOW_H

#include "core/hash.h"
#include "nat/host_socket.h"
#include "udp/udp.h"

#define UDP_BATCH 64 /* datagrams collected before they are sent */
#define UDP_NONE  UINT8_MAX

struct udp_flow;
struct udp_sender;
struct udp_receiver;

struct udp_socket {
	struct loop_source source;
	struct udp *udp;
	struct host_socket host;
	struct endpoint guest;
	bool to_loopback; /* of its own, because outbound address and device don't apply there */
	struct hash_node node;
	struct list flows;
	struct udp_flow *recent; /* of the latest datagram received, or NULL */
	unsigned groups;         /* flows to multicast or broadcast addresses: anybody may answer */
};

struct udp_flow {
	struct udp_socket *sock;
	struct ip_addr guest_addr; /* as the guest calls it */
	struct ip_addr host_addr;  /* where it really is */
	uint16_t port;             /* the latest one there */
	bool multicast, broadcast;
	uint8_t sent, received;          /* up to 2 */
	uint8_t batch_first, batch_last; /* of what udp->batch has for it, or UDP_NONE */
	uint16_t segment_max;            /* larger ones UDP_SEGMENT does not send */
	struct hash_node by_guest, by_host;
	struct list in_socket;
	struct list in_brief; /* in udp->brief while the short time-out holds */
	struct timer timer;
};

/* A datagram (or super-frame of them) from the guest, waiting for udp_flush(). */
struct udp_datagram {
	struct udp_flow *flow;
	const uint8_t *data;
	size_t len;
	uint16_t port;    /* destination */
	uint16_t segment; /* super-frame: size of each but the last; else 0 */
	struct host_marks marks;
	uint8_t next; /* of the same flow, or UDP_NONE */
};

struct udp {
	struct loop *loop;
	struct timers *timers;
	struct tap *tap;
	struct counters *counters;
	const struct nat_config *nat;
	const struct nat_guest *guest;
	struct udp_config cfg;
	struct hash_key key;
	struct hash_table *sockets, *by_guest,
	    *by_host;            /* sockets by guest endpoint; flows by either side */
	struct list brief;       /* flows with the short time-out, least recently used first */
	struct udp_flow *recent; /* of the latest datagram from the guest, or NULL */
	struct udp_datagram batch[UDP_BATCH];
	unsigned batch_count;
	struct udp_sender *sender;
	struct udp_receiver *receiver;
	usec_t now; /* of the call in progress */
	usec_t errors_since;
	unsigned errors; /* sent to the guest since then */
	struct log_limit log;
};

/* udp_table.c: sockets and flows. udp_flow_get finds or makes the flow of p's addresses; NULL, and
 * the drop counted, if there can't be one. */
struct udp_flow *udp_flow_get(struct udp *u, const struct packet *p);
struct udp_flow *udp_flow_of_host(struct udp_socket *s, const struct endpoint *from);
void udp_flow_used(struct udp_flow *f, bool by_guest);
void udp_flow_set_broadcast(struct udp_flow *f);
void udp_table_free(struct udp *u);

/* udp_send.c */
int udp_sender_new(struct udp_sender **out) must_check;

/* udp_receive.c: what a socket of ours has for the guest. */
int udp_receiver_new(struct udp_receiver **out) must_check;
void udp_receiver_free(struct udp_receiver *r);
void udp_socket_ready(struct loop_source *src, uint32_t events, usec_t now);

/* udp_error.c: passes on to the guest what came as ICMP. */
void udp_error_received(struct host_socket *host, const struct host_error *err,
			const uint8_t *data);

/* Tells the guest that d was too long for the path, or that it failed with an errno. */
void udp_error_too_long(struct udp *u, const struct udp_datagram *d, uint32_t mtu);
void udp_error_local(struct udp *u, const struct udp_datagram *d, int err);

#endif
