/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest link. A link kind is a table of functions called once a batch; struct tap adds what all
 * links share: MAC addresses, counters, pcap. Mode is never tested in the data path. */
#ifndef TAP_TAP_H
#define TAP_TAP_H

#include <sys/uio.h>

#include "core/counters.h"
#include "core/log.h"
#include "core/loop.h"
#include "wire/emit.h"
#include "wire/packet.h"

/* A frame from the guest, valid until the next tap_receive(). */
struct tap_frame {
	const uint8_t *data;
	size_t len;
	struct offload off;
};

/* A frame to the guest: the Ethernet header first; iov is not changed and not kept. */
#define TAP_IOV_MAX 68
struct tap_out {
	const struct iovec *iov;
	int iov_count;
	struct offload off;
};

struct tap_link;

/* What a link tells its owner, by the loop. */
struct tap_events {
	/* Frames wait: receive until there are no more. */
	void (*readable)(void *arg, usec_t now);
	/* There is room again, after a send that found too little. */
	void (*writable)(void *arg, usec_t now);
	/* A guest is there and can take frames. Not told by a link whose guest is always there. */
	void (*connected)(void *arg, usec_t now);
	/* The guest has gone, and another may come by tap_attach(); err is 0 if it closed the
	 * connection, else what it did wrong or what failed (negative errno). */
	void (*gone)(void *arg, int err);
	void *arg;
};

/* What a kind of link does. start has the loop watch what the link has, and keeps ev. attach, NULL
 * for a link that has its guest from the start, takes over fd, a connected UNIX stream socket, also
 * on failure; only after start, and not while a guest is there. send returns 0 and the number of
 * frames taken in *sent, in order: fewer than asked when the link is full (the caller drops or
 * keeps the rest). A frame that the link took and lost (LINK_ERROR) is taken. receive sets *count
 * to 0 when there is nothing more. Errors (negative errno) of receive and send mean that the link
 * is gone for good; a link that another guest may come to has gone() instead. */
struct tap_ops {
	int (*start)(struct tap_link *link, struct loop *loop, const struct tap_events *ev);
	int (*attach)(struct tap_link *link, int fd);
	int (*receive)(struct tap_link *link, struct tap_frame *frames, unsigned max,
		       unsigned *count);
	int (*send)(struct tap_link *link, const struct tap_out *frames, unsigned n,
		    unsigned *sent);
	void (*free)(struct tap_link *link);
};

/* What the link can take: those that are off must be done by the sender of frames (tap_send() does
 * so for csum and TCP). With udp_gso off no UDP super-frames may be sent. They may change with the
 * guest. */
struct tap_features {
	bool csum, tcp_gso, udp_gso;
};

/* First member of each link's own struct. */
struct tap_link {
	const struct tap_ops *ops;
	struct tap_features features;
	bool tells_room; /* after a send that found too little room, writable() comes, or
			    connected() if nobody is there */
	struct counters
	    *counters; /* set by tap_new(): for frames that the link itself has to drop */
};

/* Takes over fd, a tun descriptor with IFF_TAP | IFF_NO_PI | IFF_VNET_HDR and TUNSETVNETHDRSZ 12,
 * non-blocking. */
int tun_link_new(int fd, const struct tap_features *features, struct tap_link **out) must_check;

/* The same for a device that somebody else made, with or without IFF_VNET_HDR; it is made
 * non-blocking. Takes over fd, also on failure: -EPROTOTYPE if it is not IFF_TAP | IFF_NO_PI, or
 * another negative errno. */
int tun_link_adopt(int fd, struct tap_link **out) must_check;

/* Opens a device called name in the current network namespace, with the flags above and every
 * offload that the kernel has (TUN_F_CSUM, TSO4, TSO6, TSO_ECN, USO4 and USO6 since 6.2), each
 * probed. Called by the agent. features: what it got. 0 or negative errno; *step then names the
 * call that failed ("open /dev/net/tun", "TUNSETIFF"). */
int tun_open(const char *name, struct tap_features *features, int *fd_out,
	     const char **step) must_check;

/* QEMU's stream socket: frames with their length in front, 32 bits in network order
 * (-netdev stream). No offloads. */
int stream_link_new(struct tap_link **out) must_check;

/* A virtual machine by vhost-user: its front end connects, shares the guest's memory and sets up
 * virtqueues there. Offers checksums and segmentation both ways, mergeable buffers and several
 * queues; what is in use depends on the guest. */
int vhost_link_new(struct tap_link **out) must_check;

/* A link with nobody at the other end: nothing comes, and nothing can be sent. */
int none_link_new(struct tap_link **out) must_check;

struct tap;

struct tap_config {
	struct mac_addr our_mac;   /* source of our frames */
	struct mac_addr guest_mac; /* destination until the guest was heard */
	size_t mtu; /* of the guest's interface: an IP packet to the guest is at most this long,
		       else fragments */
};

/* Takes over link. counters is the stack's own, and outlives the tap. */
int tap_new(struct tap_link *link, const struct tap_config *cfg, struct counters *counters,
	    struct tap **out) must_check;
void tap_free(struct tap *t);

/* Has the loop watch the link. ev is copied; what may not happen to this kind of link may be NULL.
 * 0 or negative errno. */
int tap_start(struct tap *t, struct loop *loop, const struct tap_events *ev) must_check;

/* A guest has connected: takes over fd, also on failure. 0 or negative errno; -EOPNOTSUPP if this
 * kind of link has its guest from the start. */
int tap_attach(struct tap *t, int fd) must_check;

const struct tap_features *tap_features(const struct tap *t);
/* true if the link says by writable() or connected() when there is room again: nobody needs to try.
 */
bool tap_tells_room(const struct tap *t);
size_t tap_mtu(const struct tap *t);
struct counters *tap_counters(struct tap *t);

/* Next batch, counted and written to the pcap. */
int tap_receive(struct tap *t, struct tap_frame *frames, unsigned max, unsigned *count) must_check;

/* Sends frames; those the link had no room for are counted as LINK_FULL and reported in *sent. 0 or
 * negative errno. */
int tap_send(struct tap *t, const struct tap_out *frames, unsigned n, unsigned *sent) must_check;

/* Writes the Ethernet header of a frame to the guest that carries an IP packet of this family; 14
 * bytes. */
size_t tap_emit_eth(const struct tap *t, uint8_t *p, enum ip_family family);

/* Sends one IP packet: header from ip (src, dst, proto, ttl, tos, flow_label, dont_fragment), then
 * body: transport header with its checksum complete, and payload, in less than TAP_IOV_MAX parts.
 * Longer than the MTU, it leaves as fragments unless ip->dont_fragment (then -EMSGSIZE). Not for
 * the TCP data path, which makes its own frames. -ENOBUFS if the link is full. */
int tap_send_ip(struct tap *t, const struct ip_header *ip, const struct iovec *body,
		int iov_count) must_check;

/* Remembers the source MAC of a frame from the guest as destination of ours; true if it is another
 * than before. */
bool tap_learn_mac(struct tap *t, const struct mac_addr *mac);
const struct mac_addr *tap_our_mac(const struct tap *t);

/* Writes every frame from now on to fd (taken over) as classic pcap 2.4 with stamps of the
 * real-time clock. */
int tap_pcap_start(struct tap *t, int fd) must_check;

/* A link for tests: what the program sends is kept until fetched; what the test injects is
 * received. */
int mem_link_new(const struct tap_features *features, struct tap_link **out) must_check;
int mem_link_inject(struct tap_link *link, const void *frame, size_t len,
		    const struct offload *off) must_check;
/* Oldest frame sent and not yet fetched, copied into buf: its length, or 0 if there is none. */
size_t mem_link_fetch(struct tap_link *link, void *buf, size_t room, struct offload *off);
/* From now on the link takes this many frames before it is full (UINT_MAX: no bound). */
void mem_link_set_room(struct tap_link *link, unsigned frames);
/* The test will tell those who wait for room itself. */
void mem_link_tells_room(struct tap_link *link);

#endif
