/* SPDX-License-Identifier: BSD-3-Clause */
/* The one address type: IPv6, with IPv4 as IPv4-mapped IPv6 (RFC 4291 2.5.5.2). Bytes are in
 * network order, so an address needs no conversion anywhere. */
#ifndef WIRE_ADDR_H
#define WIRE_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "core/fd.h"

struct ip_addr {
	uint8_t b[16];
};

enum ip_family { IP_V4, IP_V6, IP_FAMILIES }; /* index of per-family arrays */

struct mac_addr {
	uint8_t b[6];
};

/* An address with port, host byte order. */
struct endpoint {
	struct ip_addr addr;
	uint16_t port;
};

extern const struct ip_addr ip_any[IP_FAMILIES];      /* 0.0.0.0, :: */
extern const struct ip_addr ip_loopback[IP_FAMILIES]; /* 127.0.0.1, ::1 */
extern const struct mac_addr mac_broadcast;

static inline bool ip_is_v4(const struct ip_addr *a)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return !memcmp(a->b, mapped, sizeof(mapped));
}

static inline enum ip_family ip_family(const struct ip_addr *a)
{
	return ip_is_v4(a) ? IP_V4 : IP_V6;
}

static inline bool ip_equal(const struct ip_addr *a, const struct ip_addr *b)
{
	return !memcmp(a->b, b->b, sizeof(a->b));
}

static inline bool mac_equal(const struct mac_addr *a, const struct mac_addr *b)
{
	return !memcmp(a->b, b->b, sizeof(a->b));
}

/* From four or sixteen bytes in network order. */
struct ip_addr ip_from_v4(const void *four);
struct ip_addr ip_from_v6(const void *sixteen);

/* The four bytes of an IPv4 address inside a, or its sixteen; ip_bytes_len() says which. */
static inline const uint8_t *ip_bytes(const struct ip_addr *a)
{
	return ip_is_v4(a) ? a->b + 12 : a->b;
}

static inline size_t ip_bytes_len(const struct ip_addr *a)
{
	return ip_is_v4(a) ? 4 : 16;
}

bool ip_is_unspecified(const struct ip_addr *a); /* 0.0.0.0 or :: */
bool ip_is_loopback(const struct ip_addr *a);    /* 127.0.0.0/8 or ::1 */
bool ip_is_multicast(const struct ip_addr *a);   /* 224.0.0.0/4 or ff00::/8 */
bool ip_is_broadcast(const struct ip_addr *a);   /* 255.255.255.255 */
bool ip_is_link_local(const struct ip_addr *a);  /* 169.254.0.0/16 or fe80::/10 */

/* true for a source or destination of a unicast flow: none of unspecified, multicast, broadcast. */
bool ip_is_unicast(const struct ip_addr *a);

/* true if a and b share their first len bits (len counts within the family). */
bool ip_same_prefix(const struct ip_addr *a, const struct ip_addr *b, unsigned len);

/* Literal address, optionally in brackets. 0 or -EINVAL. */
int ip_parse(const char *text, struct ip_addr *out) must_check;

#define IP_TEXT_MAX 46 /* INET6_ADDRSTRLEN */
/* Writes the usual text form into buf (IP_TEXT_MAX bytes) and returns buf. */
const char *ip_format(const struct ip_addr *a, char *buf);

/* Six hex pairs with colons. 0 or -EINVAL. */
int mac_parse(const char *text, struct mac_addr *out) must_check;
#define MAC_TEXT_MAX 18
const char *mac_format(const struct mac_addr *m, char *buf);

/* To and from socket addresses. scope: interface index, used for IPv6 link-local and multicast
 * destinations only. endpoint_to_sockaddr returns the length to hand to the kernel. */
socklen_t endpoint_to_sockaddr(const struct endpoint *e, unsigned scope,
			       struct sockaddr_storage *out);
int endpoint_from_sockaddr(const struct sockaddr_storage *sa, struct endpoint *out) must_check;

#endif
