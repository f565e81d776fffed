/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram sockets on the host's side, for UDP and for echo alike: opened as the configuration
 * asks, sending with the guest's TTL, TOS and don't-fragment bit, and read for what a packet or an
 * ICMP error brought (ip(7), ipv6(7), udp(7), icmp(7)). All that differs between IPv4 and IPv6
 * sockets stands in one table in host_socket.c. */
#ifndef NAT_HOST_SOCKET_H
#define NAT_HOST_SOCKET_H

#include <stdbool.h>
#include <sys/uio.h>

#include "nat/translate.h"
#include "wire/packet.h"

/* Who may fragment a packet: every router on its way (no don't-fragment bit), only we (bit set,
 * unless it is too long for the path), nobody. */
enum host_fragment { HOST_FRAGMENT_ANYWHERE, HOST_FRAGMENT_HERE, HOST_FRAGMENT_NEVER };

/* What the guest's packet asks for. Systems set the bit on nearly everything (path MTU discovery,
 * RFC 1191), and would fragment by themselves what does not fit; but the MTU of the guest's link
 * may be much larger than the path's. A program that ordinarily sends long datagrams is not to hear
 * of that, so we fragment in the guest's place. One that asked for no fragments at all, as
 * traceroute-like tools and transports with a discovery of their own do, sends atomic datagrams,
 * which Linux gives the id 0 (RFC 6864 4.1): it gets the error instead. IPv6 has nothing to tell
 * these two by. */
enum host_fragment host_fragment_wanted(const struct ip_header *ip);

/* What a packet is to carry, as the guest's did. */
struct host_marks {
	uint8_t ttl, tos; /* or hop limit and traffic class */
	enum host_fragment fragment;
	bool multicast, broadcast; /* what kind of destination it has */
};

struct host_socket;

/* An entry of the error queue. */
struct host_error {
	bool local; /* found by this host's own kernel while sending: the send failed with the same
		       errno */
	int err;
	uint8_t type, code;      /* of the ICMP or ICMPv6 message */
	uint32_t mtu;            /* where err is EMSGSIZE */
	struct ip_addr offender; /* who sent the message; unspecified if not known */
	struct endpoint to;      /* destination of the packet it is about */
	size_t data_len; /* bytes of that packet in the buffer: UDP from the payload on, echo from
			    the ICMP header on */
};

/* The bytes of a reported packet that are kept: all that fits an ICMPv6 error of 1280 bytes (RFC
 * 4443 2.4 (c)). */
#define HOST_QUOTE_MAX 1232

/* Is told of an error that came as ICMP and is one to pass on (unreachable, too big, time
 * exceeded), with the first data_len bytes of the packet. */
typedef void (*host_error_fn)(struct host_socket *s, const struct host_error *e,
			      const uint8_t *data);

struct host_socket {
	int fd;
	enum ip_family family;
	const struct nat_config *cfg;
	host_error_fn on_error;
	bool mapped;   /* an IPv6 socket used for IPv4: addresses are given to it as mapped ones */
	uint16_t port; /* the one wanted, or 0 if the kernel chose another */
	struct ip_addr address; /* bound to: outbound address or any */
	/* What the socket options stand at, -1 if unknown: setting them costs a system call. */
	int ttl, multicast_ttl, tos, fragment, broadcast;
	bool bulk;
};

struct host_socket_request {
	enum ip_family family;
	int proto;        /* IPPROTO_UDP, or IPPROTO_ICMP and IPPROTO_ICMPV6 for a ping socket */
	uint16_t port;    /* wanted local port, or echo id */
	bool to_loopback; /* destinations are on the host itself: outbound address and device don't
			     apply */
	host_error_fn on_error;
};

/* Opens a non-blocking socket, bound to the port wanted if it is free and permitted, else to one of
 * the kernel's choice; never one that another socket of the host has. Errors and the TTL and TOS of
 * what arrives are received. 0 or negative errno; -EACCES from a ping socket means that
 * net.ipv4.ping_group_range does not allow it. */
int host_socket_open(const struct nat_config *cfg, const struct host_socket_request *req,
		     struct host_socket *out) must_check;
void host_socket_close(struct host_socket *s);

/* Prepares for many or long datagrams at once: larger buffers, and UDP_GRO. No more than a test if
 * that was done before; not done at opening because most sockets see one question and its answer.
 */
void host_socket_expect_bulk(struct host_socket *s);

/* true if a service of the host itself can't be behind this destination, because s has its port:
 * what is sent there would only come back to s. */
bool host_socket_is_own(const struct host_socket *s, const struct endpoint *to);

/* Makes what is sent from now on carry these marks. Options that the kernel refuses stay as they
 * are. */
void host_socket_set_marks(struct host_socket *s, const struct host_marks *m);

/* What came beside a received datagram. */
struct host_received {
	uint8_t ttl, tos;
	size_t segment; /* UDP_GRO: the buffer is several datagrams of this size; 0 if it is one */
	/* If the socket has PKTINFO on, else unspecified (zero): the address that the datagram was
	 * sent to, the one that an answer may come from (another if that is a group's), and the
	 * interface. */
	struct ip_addr to, local;
	unsigned interface;
};
#define HOST_CONTROL_LEN 192 /* room for the control messages of one datagram, of both families */
void host_socket_parse_control(struct msghdr *m, struct host_received *out);

/* Writes the address of e for a message of s. Length of it. */
socklen_t host_socket_address(const struct host_socket *s, const struct endpoint *e, unsigned scope,
			      struct sockaddr_storage *out);

/* Writes the control message that makes a datagram leave from this address, through the interface
 * if that is not 0 (ip(7), IP_PKTINFO). Length of it, at most HOST_SOURCE_LEN. */
#define HOST_SOURCE_LEN CMSG_SPACE(sizeof(struct in6_pktinfo))
size_t host_socket_put_source(struct cmsghdr *c, const struct ip_addr *from, unsigned interface);

/* Empties the error queue, or a bounded part of it: the rest keeps EPOLLERR up. *mtu is set if an
 * entry says which MTU a packet of ours was too long for. Number of entries. */
unsigned host_socket_drain_errors(struct host_socket *s, uint32_t *mtu);

/* To be called for EPOLLERR: the error queue is drained and the socket's own error taken away. true
 * if there was any. */
bool host_socket_clear_errors(struct host_socket *s);

/* Sends m again after it failed with err (negative): an ICMP error about an earlier datagram fails
 * the next send, whatever that one is about (udp(7)). 0 or the negative errno that m itself met;
 * *mtu as above. */
int host_socket_send_again(struct host_socket *s, const struct msghdr *m, int err,
			   uint32_t *mtu) must_check;

/* What came out when a datagram could not be sent at once. */
struct host_outcome {
	uint32_t mtu;   /* of the path, if it was too long (-EMSGSIZE) and that is known; else 0 */
	bool broadcast; /* it went to a broadcast address, which was not known to be one */
};

/* As host_socket_send_again(), for one datagram that was to have these marks. */
int host_socket_recover(struct host_socket *s, const struct msghdr *m,
			const struct host_marks *marks, int err,
			struct host_outcome *out) must_check;

#endif
