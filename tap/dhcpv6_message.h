/* SPDX-License-Identifier: BSD-3-Clause */
/* A DHCPv6 message of a client in plain values; inside the DHCPv6 server only. */
#ifndef TAP_DHCPV6_MESSAGE_H
#define TAP_DHCPV6_MESSAGE_H

#include "wire/addr.h"

/* RFC 8415 7.3 */
enum dhcpv6_type {
	DHCPV6_SOLICIT = 1,
	DHCPV6_ADVERTISE = 2,
	DHCPV6_REQUEST = 3,
	DHCPV6_CONFIRM = 4,
	DHCPV6_RENEW = 5,
	DHCPV6_REBIND = 6,
	DHCPV6_REPLY = 7,
	DHCPV6_RELEASE = 8,
	DHCPV6_DECLINE = 9,
	DHCPV6_INFORMATION_REQUEST = 11
};

/* RFC 8415 21, RFC 3646, RFC 4704 4 */
enum dhcpv6_option {
	DHCPV6_OPT_CLIENT_ID = 1,
	DHCPV6_OPT_SERVER_ID = 2,
	DHCPV6_OPT_IA_NA = 3,
	DHCPV6_OPT_IA_TA = 4,
	DHCPV6_OPT_IA_ADDRESS = 5,
	DHCPV6_OPT_REQUESTED = 6,
	DHCPV6_OPT_STATUS = 13,
	DHCPV6_OPT_RAPID_COMMIT = 14,
	DHCPV6_OPT_DNS = 23,
	DHCPV6_OPT_SEARCH = 24,
	DHCPV6_OPT_IA_PD = 25,
	DHCPV6_OPT_FQDN = 39
};

#define DHCPV6_DUID_MAX     130 /* RFC 8415 11.1: a type and at most 128 bytes */
#define DHCPV6_IA_MAX       8
#define DHCPV6_IA_ADDRS_MAX 4

/* An identity association, with the addresses that the client names in it. */
struct dhcpv6_ia {
	enum dhcpv6_option kind; /* IA_NA, IA_TA, IA_PD */
	uint32_t iaid;
	struct ip_addr addrs[DHCPV6_IA_ADDRS_MAX];
	unsigned addr_count;
};

struct dhcpv6_request {
	enum dhcpv6_type type;
	uint32_t xid;                         /* 24 bits */
	const uint8_t *client_id, *server_id; /* NULL: none */
	size_t client_id_len, server_id_len;
	bool rapid_commit;
	bool has_requested; /* the list of options that it wants (21.7), and what of it we know: */
	bool wants_dns, wants_search, wants_fqdn;
	bool has_fqdn;
	uint8_t fqdn_flags;
	struct dhcpv6_ia ias[DHCPV6_IA_MAX]; /* further ones are left out */
	unsigned ia_count;
};

/* Pointers lead into bytes. 0, or -EBADMSG: cut off, an option twice that must not be, an
 * identifier too long, or a type that no client sends. */
int dhcpv6_request_parse(const uint8_t *bytes, size_t len, struct dhcpv6_request *out) must_check;

#endif
