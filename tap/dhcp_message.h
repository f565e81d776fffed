/* SPDX-License-Identifier: BSD-3-Clause */
/* A DHCP message as plain values, and the options of the answer; for tap/dhcp*.c only. */
#ifndef TAP_DHCP_MESSAGE_H
#define TAP_DHCP_MESSAGE_H

#include "tap/dhcp.h"

/* Where the fields are (RFC 2131 2). */
enum {
	DHCP_AT_XID = 4,
	DHCP_AT_FLAGS = 10,
	DHCP_AT_CIADDR = 12,
	DHCP_AT_YIADDR = 16,
	DHCP_AT_GIADDR = 24,
	DHCP_AT_CHADDR = 28,
	DHCP_AT_SNAME = 44,
	DHCP_AT_FILE = 108,
	DHCP_AT_COOKIE = 236,
	DHCP_AT_OPTIONS = 240
};
#define DHCP_CHADDR_LEN (DHCP_AT_SNAME - DHCP_AT_CHADDR)
#define DHCP_SNAME_LEN  (DHCP_AT_FILE - DHCP_AT_SNAME)
#define DHCP_FILE_LEN   (DHCP_AT_COOKIE - DHCP_AT_FILE)

#define DHCP_FLAG_BROADCAST 0x8000

/* RFC 951 3: the least a client expects, and the most that a BOOTP client takes. */
#define DHCP_BOOTP_LEN   300
#define DHCP_MESSAGE_MAX 1472 /* an Ethernet frame's worth */

/* RFC 2131 3.1 and table 2. BOOTP messages have no type. */
enum dhcp_type {
	DHCP_BOOTP,
	DHCP_DISCOVER,
	DHCP_OFFER,
	DHCP_REQUEST,
	DHCP_DECLINE,
	DHCP_ACK,
	DHCP_NAK,
	DHCP_RELEASE,
	DHCP_INFORM
};

/* RFC 2132, RFC 3397, RFC 3442, RFC 4039, RFC 4702 */
enum dhcp_option {
	DHCP_OPT_PAD = 0,
	DHCP_OPT_MASK = 1,
	DHCP_OPT_ROUTER = 3,
	DHCP_OPT_DNS = 6,
	DHCP_OPT_HOSTNAME = 12,
	DHCP_OPT_DOMAIN = 15,
	DHCP_OPT_MTU = 26,
	DHCP_OPT_BROADCAST = 28,
	DHCP_OPT_REQUESTED = 50,
	DHCP_OPT_LEASE = 51,
	DHCP_OPT_OVERLOAD = 52,
	DHCP_OPT_TYPE = 53,
	DHCP_OPT_SERVER = 54,
	DHCP_OPT_ASKED = 55,
	DHCP_OPT_MESSAGE = 56,
	DHCP_OPT_MAX_SIZE = 57,
	DHCP_OPT_CLIENT_ID = 61,
	DHCP_OPT_RAPID_COMMIT = 80,
	DHCP_OPT_FQDN = 81,
	DHCP_OPT_SEARCH = 119,
	DHCP_OPT_ROUTES = 121,
	DHCP_OPT_END = 255
};

#define DHCP_VALUE_MAX 255

/* Options 52: which other fields have options in them, too. */
enum { DHCP_OVERLOAD_FILE = 1, DHCP_OVERLOAD_SNAME = 2 };

/* First byte of option 81 (RFC 4702 2.1). */
enum { DHCP_FQDN_S = 1, DHCP_FQDN_O = 2, DHCP_FQDN_E = 4, DHCP_FQDN_N = 8 };

struct dhcp_request {
	uint8_t htype, hlen;
	uint32_t xid;
	uint16_t flags;
	struct ip_addr ciaddr, giaddr; /* unspecified: none */
	uint8_t chaddr[DHCP_CHADDR_LEN];
	bool has_options; /* the magic cookie is there: the client knows options */
	enum dhcp_type type;
	struct ip_addr requested, server; /* options 50 and 54; unspecified: none */
	unsigned max_size; /* option 57, of the IP packet, at least what every client takes */
	bool rapid_commit;
	uint8_t asked[DHCP_VALUE_MAX]; /* option 55 */
	size_t asked_count;
	uint8_t client_id[DHCP_VALUE_MAX];
	size_t client_id_len; /* 0: none */
	bool has_fqdn;
	uint8_t fqdn_flags;
};

/* The payload of a UDP packet. 0, or -EBADMSG if it is no request or not a sound one. */
int dhcp_request_parse(const uint8_t *bytes, size_t len, struct dhcp_request *out) must_check;

/* What the options of an answer are made of. */
struct dhcp_answer {
	const struct dhcp_config *cfg;
	const struct dhcp_request *req;
	enum dhcp_type type; /* DHCP_BOOTP, or one of OFFER, ACK, NAK */
};

/* Writes cookie and options into a message whose fields are written and zero behind. room: what the
 * message may have at most, DHCP_BOOTP_LEN at least. The length of the message. */
size_t dhcp_options_write(const struct dhcp_answer *a, uint8_t *message, size_t room);

extern const uint8_t dhcp_cookie[4];

#endif
