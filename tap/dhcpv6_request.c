/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "core/cursor.h"
#include "tap/dhcpv6_message.h"

#define DUID_MIN 3 /* RFC 8415 11.1: a type, and something */

/* The next option (RFC 8415 21.1): its code, and a cursor over its data. */
static unsigned next_option(struct cursor *c, struct cursor *data)
{
	unsigned code = cursor_u16(c), len = cursor_u16(c);
	const uint8_t *bytes = cursor_bytes(c, len);

	*data = bytes ? cursor_init(bytes, len) : cursor_init(c->pos, 0);
	return code;
}

/* RFC 8415 21.6; what else there may be in one is not looked at. */
static void take_address(struct dhcpv6_ia *ia, struct cursor *c)
{
	struct ip_addr a;

	cursor_copy(c, a.b, sizeof(a.b));
	cursor_bytes(c, 8); /* life times as the client would like them */
	if (!c->bad && ia->addr_count < DHCPV6_IA_ADDRS_MAX)
		ia->addrs[ia->addr_count++] = a;
}

/* RFC 8415 21.4, 21.5, 21.21: T1 and T2 are in front of the options, but in an IA_TA. */
static bool take_ia(struct dhcpv6_request *r, enum dhcpv6_option kind, struct cursor c)
{
	struct dhcpv6_ia ia = {.kind = kind, .iaid = cursor_u32(&c)};

	if (kind != DHCPV6_OPT_IA_TA)
		cursor_bytes(&c, 8);
	while (!c.bad && cursor_left(&c)) {
		struct cursor data;
		unsigned code = next_option(&c, &data);

		if (c.bad)
			break;
		if (code == DHCPV6_OPT_IA_ADDRESS && kind != DHCPV6_OPT_IA_PD) {
			take_address(&ia, &data);
			c.bad |= data.bad;
		}
	}
	if (!c.bad && r->ia_count < DHCPV6_IA_MAX)
		r->ias[r->ia_count++] = ia;
	return !c.bad;
}

static void take_requested(struct dhcpv6_request *r, struct cursor c)
{
	r->has_requested = true;
	while (cursor_left(&c) >= 2) {
		unsigned code = cursor_u16(&c);

		r->wants_dns |= code == DHCPV6_OPT_DNS;
		r->wants_search |= code == DHCPV6_OPT_SEARCH;
		r->wants_fqdn |= code == DHCPV6_OPT_FQDN;
	}
}

/* An identifier is there once at most. */
static bool take_id(const uint8_t **id, size_t *id_len, const struct cursor *c)
{
	size_t len = cursor_left(c);

	if (*id || len < DUID_MIN || len > DHCPV6_DUID_MAX)
		return false;
	*id = c->pos;
	*id_len = len;
	return true;
}

static bool take_option(struct dhcpv6_request *r, unsigned code, struct cursor c)
{
	switch (code) {
	case DHCPV6_OPT_CLIENT_ID:
		return take_id(&r->client_id, &r->client_id_len, &c);
	case DHCPV6_OPT_SERVER_ID:
		return take_id(&r->server_id, &r->server_id_len, &c);
	case DHCPV6_OPT_IA_NA:
	case DHCPV6_OPT_IA_TA:
	case DHCPV6_OPT_IA_PD:
		return take_ia(r, (enum dhcpv6_option)code, c);
	case DHCPV6_OPT_REQUESTED:
		take_requested(r, c);
		return true;
	case DHCPV6_OPT_RAPID_COMMIT:
		r->rapid_commit = true;
		return true;
	case DHCPV6_OPT_FQDN:
		r->has_fqdn = true;
		r->fqdn_flags = cursor_u8(&c);
		return !c.bad;
	default:
		return true;
	}
}

int dhcpv6_request_parse(const uint8_t *bytes, size_t len, struct dhcpv6_request *out)
{
	struct cursor c = cursor_init(bytes, len);
	uint32_t first = cursor_u32(&c);
	struct dhcpv6_request r = {.type = (enum dhcpv6_type)(first >> 24),
				   .xid = first & 0xffffff};

	while (!c.bad && cursor_left(&c)) {
		struct cursor data;
		unsigned code = next_option(&c, &data);

		if (c.bad || !take_option(&r, code, data))
			return -EBADMSG;
	}
	if (c.bad || r.type < DHCPV6_SOLICIT || r.type > DHCPV6_INFORMATION_REQUEST)
		return -EBADMSG;
	*out = r;
	return 0;
}
