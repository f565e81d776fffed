/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "core/cursor.h"
#include "tap/dhcp_message.h"

#define OP_REQUEST   1
#define MAX_SIZE_MIN 576 /* RFC 2132 9.10 */

const uint8_t dhcp_cookie[4] = {99, 130, 83, 99};

/* An option's value, put together from all its occurrences (RFC 3396). */
struct value {
	bool present;
	size_t len; /* may be more than bytes has */
	uint8_t bytes[DHCP_VALUE_MAX];
};

/* Those options that we look at. */
enum { REQUESTED, OVERLOAD, TYPE, SERVER, ASKED, MAX_SIZE, CLIENT_ID, RAPID_COMMIT, FQDN, VALUES };

static const struct {
	uint8_t code;
	size_t len_min, len_max;
} known[VALUES] = {
    [REQUESTED] = {DHCP_OPT_REQUESTED, 4, 4},
    [OVERLOAD] = {DHCP_OPT_OVERLOAD, 0, SIZE_MAX},
    [TYPE] = {DHCP_OPT_TYPE, 1, 1},
    [SERVER] = {DHCP_OPT_SERVER, 4, 4},
    [ASKED] = {DHCP_OPT_ASKED, 0, SIZE_MAX},
    [MAX_SIZE] = {DHCP_OPT_MAX_SIZE, 2, 2},
    [CLIENT_ID] = {DHCP_OPT_CLIENT_ID, 0, SIZE_MAX},
    [RAPID_COMMIT] = {DHCP_OPT_RAPID_COMMIT, 0, SIZE_MAX},
    [FQDN] = {DHCP_OPT_FQDN, 3, SIZE_MAX}, /* RFC 4702 2: flags and two result codes */
};

static void add_to_value(struct value *v, const uint8_t *bytes, size_t len)
{
	v->present = true;
	if (v->len < sizeof(v->bytes)) {
		size_t room = sizeof(v->bytes) - v->len;

		memcpy(v->bytes + v->len, bytes, len < room ? len : room);
	}
	v->len += len;
}

/* One field with options (RFC 2132 2): up to the end option, or to its own end. False if an option
 * is longer than the field. */
static bool read_options(struct cursor c, struct value values[VALUES])
{
	while (cursor_left(&c)) {
		uint8_t code = cursor_u8(&c), len;
		const uint8_t *bytes;

		if (code == DHCP_OPT_PAD)
			continue;
		if (code == DHCP_OPT_END)
			return true;
		len = cursor_u8(&c);
		bytes = cursor_bytes(&c, len);
		if (!bytes)
			return false;
		for (int i = 0; i < VALUES; i++) {
			if (known[i].code == code)
				add_to_value(&values[i], bytes, len);
		}
	}
	return true;
}

/* The options field and those it says are overloaded, in the order of RFC 3396. */
static bool read_all_options(const uint8_t *message, struct cursor options,
			     struct value values[VALUES])
{
	unsigned overload;

	if (!read_options(options, values) || values[OVERLOAD].len > 1)
		return false;
	overload = values[OVERLOAD].bytes[0]; /* now: what the other fields say of it is void */
	if ((overload & DHCP_OVERLOAD_FILE) &&
	    !read_options(cursor_init(message + DHCP_AT_FILE, DHCP_FILE_LEN), values))
		return false;
	if ((overload & DHCP_OVERLOAD_SNAME) &&
	    !read_options(cursor_init(message + DHCP_AT_SNAME, DHCP_SNAME_LEN), values))
		return false;
	for (int i = 0; i < VALUES; i++) {
		const struct value *v = &values[i];

		if (v->present && (v->len < known[i].len_min || v->len > known[i].len_max))
			return false;
	}
	return true;
}

static size_t copy_value(const struct value *v, uint8_t to[DHCP_VALUE_MAX])
{
	size_t len = v->len < DHCP_VALUE_MAX ? v->len : DHCP_VALUE_MAX;

	memcpy(to, v->bytes, len);
	return len;
}

static void take_values(const struct value values[VALUES], struct dhcp_request *r)
{
	const uint8_t *size = values[MAX_SIZE].bytes;
	unsigned max_size = (unsigned)size[0] << 8 | size[1];

	r->type = (enum dhcp_type)values[TYPE].bytes[0];
	r->requested = ip_from_v4(values[REQUESTED].bytes);
	r->server = ip_from_v4(values[SERVER].bytes);
	if (max_size > MAX_SIZE_MIN)
		r->max_size = max_size;
	r->rapid_commit = values[RAPID_COMMIT].present;
	r->asked_count = copy_value(&values[ASKED], r->asked);
	if (values[CLIENT_ID].len <= DHCP_VALUE_MAX) /* it is returned whole or not at all */
		r->client_id_len = copy_value(&values[CLIENT_ID], r->client_id);
	r->has_fqdn = values[FQDN].present;
	r->fqdn_flags = values[FQDN].bytes[0];
}

/* An address that an answer may be sent to, or none. */
static bool is_reachable(const struct ip_addr *a)
{
	return ip_is_unspecified(a) || (ip_is_unicast(a) && !ip_is_loopback(a));
}

int dhcp_request_parse(const uint8_t *bytes, size_t len, struct dhcp_request *out)
{
	struct cursor c = cursor_init(bytes, len);
	struct value values[VALUES] = {0};
	uint8_t addr[4], cookie[4];

	*out = (struct dhcp_request){.max_size = MAX_SIZE_MIN};
	if (cursor_u8(&c) != OP_REQUEST)
		return -EBADMSG;
	out->htype = cursor_u8(&c);
	out->hlen = cursor_u8(&c);
	cursor_u8(&c); /* hops */
	out->xid = cursor_u32(&c);
	cursor_u16(&c); /* secs */
	out->flags = cursor_u16(&c);
	cursor_copy(&c, addr, 4);
	out->ciaddr = ip_from_v4(addr);
	cursor_bytes(&c, 8); /* yiaddr, siaddr */
	cursor_copy(&c, addr, 4);
	out->giaddr = ip_from_v4(addr);
	cursor_copy(&c, out->chaddr, sizeof(out->chaddr));
	cursor_bytes(&c, DHCP_SNAME_LEN + DHCP_FILE_LEN);
	if (c.bad || out->hlen > DHCP_CHADDR_LEN || !is_reachable(&out->ciaddr) ||
	    !is_reachable(&out->giaddr))
		return -EBADMSG;
	cursor_copy(&c, cookie, sizeof(cookie));
	/* RFC 951 3: what follows is the vendor's own unless the cookie is there. */
	out->has_options = !c.bad && !memcmp(cookie, dhcp_cookie, sizeof(cookie));
	if (!out->has_options)
		return 0;
	if (!read_all_options(bytes, c, values) || (values[TYPE].present && !values[TYPE].bytes[0]))
		return -EBADMSG;
	take_values(values, out);
	return 0;
}
