/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside udp/ only.
 *
 * Outbound, a socket stands for one endpoint of the guest, whatever it talks to (RFC 4787 REQ-1:
 * endpoint-independent mapping); under it a flow is kept for each address that the guest contacted
 * from there, and only those may answer (REQ-8: address-dependent filtering), from any port.
 *
 * Inbound, a port is the bound socket of a rule, and a flow is kept for each client's endpoint and
 * address of ours that it sent to. Either the guest is the other end, over the tap, or the flow is
 * one of a pair: the other one has a connected socket of its own, and what one receives the other
 * sends. */
#ifndef UDP_UDP_FLOW_H
#define UDP_UDP_FLOW_H

#include "core/hash.h"
#include "nat/host_socket.h"
#include "tap/icmp_error.h"
#include "udp/udp.h"

#define UDP_BATCH 64 /* datagrams collected before they are sent */
#define UDP_NONE  UINT8_MAX

struct udp_flow;
struct udp_sender;
struct udp_receiver;

/* A served port of a rule. Many are idle: what only traffic needs is in the sockets. */
struct udp_port {
	struct loop_source source;
	struct udp *udp;
	struct forward_port *forward;
	struct udp_socket *socket[IP_FAMILIES]; /* while it has flows of the family */
	struct hash_node node;
	bool v6;          /* an IPv6 socket, for which IPv4 addresses are mapped ones */
	uint8_t failures; /* events in a row that brought nothing but an error */
};

enum udp_socket_kind {
	UDP_OUTBOUND,
	UDP_LISTENING, /* a port's, for one family: options differ; the descriptor is the port's */
	UDP_SPLICED,   /* connected to where a spliced client's datagrams go */
};

struct udp_socket {
	struct loop_source source; /* not of a listening one */
	struct udp *udp;
	struct host_socket host;
	enum udp_socket_kind kind;
	struct udp_port *port; /* of a listening one */
	struct endpoint guest; /* of an outbound one */
	bool to_loopback; /* of its own, because outbound address and device don't apply there */
	struct hash_node node;
	struct list flows;
	struct udp_flow *recent; /* of the latest datagram received, or NULL */
	unsigned groups;         /* flows to multicast or broadcast addresses: anybody may answer */
};

struct udp_flow {
	struct udp_socket *sock;
	struct endpoint guest;     /* its end there; of a spliced flow: the service */
	struct ip_addr guest_addr; /* the other end, as the guest calls it */
	struct ip_addr host_addr;  /* where that really is */
	uint16_t port;             /* the latest one there */
	/* Inbound only. port is then what the guest sees: another than the client's if two clients
	 * would look the same to the guest. */
	bool inbound;
	uint16_t host_port; /* the client's */
	unsigned scope;     /* interface of a link-local client */
	/* The address that the client sends to, and the one that answers leave from; unspecified if
	 * the guest began. */
	struct ip_addr to, local;
	struct udp_flow *pair; /* of a spliced flow */
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
	struct udp_config cfg;
	struct hash_key key;
	struct hash_table *sockets;            /* outbound, by guest endpoint */
	struct hash_table *by_guest, *by_host; /* flows by either side; spliced ones by_host only */
	struct hash_table *ports;
	struct list brief;       /* flows with the short time-out, least recently used first */
	struct udp_flow *recent; /* of the latest datagram from the guest, or NULL */
	struct udp_datagram batch[UDP_BATCH];
	unsigned batch_count;
	struct udp_sender *sender;
	struct udp_receiver *receiver;
	usec_t now;                     /* of the call in progress */
	struct icmp_error_limit errors; /* that we make ourselves */
	struct log_limit log;
};

/* udp.c: keeps d for udp_flush(). */
void udp_collect(struct udp *u, const struct udp_datagram *d);

/* udp_table.c: sockets and flows. udp_flow_get finds or makes the flow of p's addresses; NULL, and
 * the drop counted, if there can't be one. */
struct udp_flow *udp_flow_get(struct udp *u, const struct packet *p);
struct udp_flow *udp_flow_of_host(struct udp_socket *s, const struct endpoint *from);

/* Where an inbound datagram came from: client, address it was sent to, address for answers,
 * interface of a link-local client. */
struct udp_arrival {
	struct endpoint from;
	struct ip_addr to, local;
	unsigned scope;
};

/* The inbound flow of an arrival; of a client's whatever it sent to if to is unspecified. */
struct udp_flow *udp_flow_of_client(struct udp_socket *s, const struct udp_arrival *a);

/* true if the guest already has an inbound flow with these ends. */
bool udp_flow_is_taken(struct udp *u, const struct endpoint *guest, const struct endpoint *peer);

/* udp_flow_new makes a flow like the one given, whose socket and ends are set. Making room for it,
 * which may free any flow and a socket with it, comes first. A socket is freed with its last flow,
 * or by udp_socket_release() if it never got one. */
int udp_flow_make_room(struct udp *u) must_check;
int udp_flow_new(struct udp *u, const struct udp_flow *like, struct udp_flow **out) must_check;
void udp_flow_free(struct udp_flow *f);
void udp_socket_release(struct udp_socket *s);

/* Counts a datagram for which there can be no flow, by the errno of making one. */
void udp_flow_failed(struct udp *u, const struct endpoint *from, int err);

/* Frees the flow that is missed least; false if there is none to free. */
bool udp_flow_evict(struct udp *u);
void udp_flow_used(struct udp_flow *f, bool by_guest);
void udp_flow_set_broadcast(struct udp_flow *f);
void udp_table_free(struct udp *u);

/* udp_send.c */
int udp_sender_new(struct udp_sender **out) must_check;

/* udp_listen.c: the flow of a datagram that came in at port, found or made; NULL, and the drop
 * counted, if there is none. */
struct udp_flow *udp_inbound_get(struct udp_port *port, const struct udp_arrival *a);

/* A flow that the guest begins from a port that a rule forwards to it without changing its number:
 * to the world that port is the rule's, so its socket is the one to send from. 0 and the flow, or
 * NULL if no rule is like that. */
int udp_flow_from_port(struct udp *u, const struct endpoint *guest, const struct endpoint *dst,
		       const struct ip_addr *host, struct udp_flow **out) must_check;
void udp_ports_free(struct udp *u);

/* udp_splice.c: makes the service's side of a pair, whose pair is still to be set. */
int udp_splice_target(struct udp_port *port, const struct forward_decision *d,
		      struct udp_flow **out) must_check;

/* udp_receive.c: what a socket of ours has for the guest, or for the other flow of a pair. */
int udp_receiver_new(struct udp_receiver **out) must_check;
void udp_receiver_free(struct udp_receiver *r);
void udp_socket_ready(struct loop_source *src, uint32_t events, usec_t now);
void udp_port_ready(struct loop_source *src, uint32_t events, usec_t now);

/* udp_error.c: passes on to the guest what came as ICMP. */
void udp_error_received(struct host_socket *host, const struct host_error *err,
			const uint8_t *data);

/* Tells the guest that d was too long for the path, or that it failed with an errno. */
void udp_error_too_long(struct udp *u, const struct udp_datagram *d, uint32_t mtu);
void udp_error_local(struct udp *u, const struct udp_datagram *d, int err);

#endif
