/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of an answer: which there are and what they say, in which order, and how they are put
 * into the fields of the message. */
#include "tap/dhcp_message.h"
#include "wire/name.h"

#define LEASE_FOR_EVER   UINT32_MAX /* RFC 2131 3.3 */
#define MTU_MIN          68         /* RFC 2132 5.1 */
#define PREFIX_BROADCAST 30         /* longer ones have no broadcast address (RFC 3021 2.2) */
#define OPTION_HEADER    2
#define OVERLOAD_LEN     3
#define VALUE_ROOM       (DHCP_SEARCH_MAX * NAME_WIRE_MAX)

/* A row's function writes the value at p (DHCP_VALUE_MAX bytes, of the search list VALUE_ROOM) and
 * returns how long it is: 0 if there is nothing to say. */
typedef size_t (*value_writer)(const struct dhcp_answer *a, uint8_t *p);

static size_t put_bytes(uint8_t *p, const void *bytes, size_t len)
{
	memcpy(p, bytes, len);
	return len;
}

static size_t put_number(uint8_t *p, uint32_t v, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(v >> 8 * (len - 1 - i));
	return len;
}

/* NULL is nothing; so is what an option can't hold. */
static size_t put_text(uint8_t *p, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	return len && len <= DHCP_VALUE_MAX ? put_bytes(p, text, len) : 0;
}

static uint32_t mask_of(unsigned prefix_len)
{
	return prefix_len ? UINT32_MAX << (32 - prefix_len) : 0;
}

static size_t write_mask(const struct dhcp_answer *a, uint8_t *p)
{
	return put_number(p, mask_of(a->cfg->prefix_len), 4);
}

static size_t write_gateway(const struct dhcp_answer *a, uint8_t *p)
{
	return put_bytes(p, ip_bytes(&a->cfg->gateway), 4);
}

static size_t write_dns(const struct dhcp_answer *a, uint8_t *p)
{
	size_t len = 0;

	for (unsigned i = 0; i < a->cfg->dns_count; i++)
		len += put_bytes(p + len, ip_bytes(&a->cfg->dns[i]), 4);
	return len;
}

static size_t write_hostname(const struct dhcp_answer *a, uint8_t *p)
{
	return put_text(p, a->cfg->hostname);
}

static size_t write_domain(const struct dhcp_answer *a, uint8_t *p)
{
	return a->cfg->search_count ? put_text(p, a->cfg->search[0]) : 0;
}

static size_t write_mtu(const struct dhcp_answer *a, uint8_t *p)
{
	return a->cfg->mtu < MTU_MIN ? 0 : put_number(p, a->cfg->mtu, 2);
}

static size_t write_broadcast(const struct dhcp_answer *a, uint8_t *p)
{
	uint32_t host_part = ~mask_of(a->cfg->prefix_len);

	if (a->cfg->prefix_len > PREFIX_BROADCAST)
		return 0;
	for (int i = 0; i < 4; i++)
		p[i] = ip_bytes(&a->cfg->address)[i] | (uint8_t)(host_part >> (24 - 8 * i));
	return 4;
}

static size_t write_lease(const struct dhcp_answer *a, uint8_t *p)
{
	(void)a;
	return put_number(p, LEASE_FOR_EVER, 4);
}

static size_t write_type(const struct dhcp_answer *a, uint8_t *p)
{
	return put_number(p, a->type, 1);
}

static size_t write_message(const struct dhcp_answer *a, uint8_t *p)
{
	(void)a;
	return put_text(p, "not the address that is assigned here");
}

/* RFC 6842 3: returned as it came. */
static size_t write_client_id(const struct dhcp_answer *a, uint8_t *p)
{
	return put_bytes(p, a->req->client_id, a->req->client_id_len);
}

/* RFC 4702 2 and 4. Nobody updates a name service here, and a client that wanted it done (S) sees
 * that it was overruled (O). The encoding is the client's; both result codes have no use any more
 * and are 255. */
static size_t write_fqdn(const struct dhcp_answer *a, uint8_t *p)
{
	unsigned theirs = a->req->has_fqdn ? a->req->fqdn_flags : DHCP_FQDN_E, flags;
	const char *name = a->cfg->fqdn;
	size_t len;

	if (!name)
		return 0;
	flags = theirs & (DHCP_FQDN_E | DHCP_FQDN_N);
	if (theirs & DHCP_FQDN_S)
		flags |= DHCP_FQDN_O;
	put_number(p, flags << 16 | 0xffff, 3);
	if (!(flags & DHCP_FQDN_E)) {
		len = strlen(name);
		return len > DHCP_VALUE_MAX - 3 ? 0 : 3 + put_bytes(p + 3, name, len);
	}
	return name_emit(p + 3, DHCP_VALUE_MAX - 3, name, &len) < 0 ? 0 : 3 + len;
}

/* RFC 3397 2. A name that is none is left out. */
static size_t write_search(const struct dhcp_answer *a, uint8_t *p)
{
	size_t at = 0, len;

	for (unsigned i = 0; i < a->cfg->search_count; i++) {
		if (!name_emit_compressed(p, at, VALUE_ROOM - at, a->cfg->search[i], &len))
			at += len;
	}
	return at;
}

/* RFC 3442: a gateway that is no neighbour by the mask is made one by a route of its own, 0.0.0.0
 * meaning that the destination is on the link. */
static size_t write_routes(const struct dhcp_answer *a, uint8_t *p)
{
	const struct dhcp_config *cfg = a->cfg;
	size_t len;

	if (ip_same_prefix(&cfg->address, &cfg->gateway, cfg->prefix_len))
		return 0;
	len = put_number(p, 32, 1);
	len += put_bytes(p + len, ip_bytes(&cfg->gateway), 4);
	len += put_number(p + len, 0, 4);
	len += put_number(p + len, 0, 1); /* the default route: no bytes of destination */
	len += put_bytes(p + len, ip_bytes(&cfg->gateway), 4);
	return len;
}

/* When an option is sent: RFC 2131 table 3 and RFC 1534 2. */
enum {
	IN_LEASE = 1,  /* OFFER, and ACK of anything but INFORM */
	IN_INFORM = 2, /* ACK of INFORM */
	IN_NAK = 4,    /* refusal */
	IN_BOOTP = 8,  /* answer to a BOOTP client */
	IN_RAPID = 16, /* ACK of DISCOVER only (RFC 4039) */
	IF_ASKED = 32, /* only if the client asks for it */
	MUST_FIT = 64, /* goes before the others where there is too little room */
	IS_LIST = 128  /* after them, in parts if need be (RFC 3397 2), or shorter */
};
#define IN_ACK (IN_LEASE | IN_INFORM)
#define IN_ALL (IN_ACK | IN_BOOTP)

static const struct row {
	uint8_t code;
	uint8_t flags;
	value_writer write;
} rows[] = {
    {DHCP_OPT_MASK, IN_ALL, write_mask},
    {DHCP_OPT_ROUTER, IN_ALL, write_gateway},
    {DHCP_OPT_DNS, IN_ALL, write_dns},
    {DHCP_OPT_HOSTNAME, IN_ALL, write_hostname},
    {DHCP_OPT_DOMAIN, IN_ALL | IF_ASKED, write_domain},
    {DHCP_OPT_MTU, IN_ALL, write_mtu},
    {DHCP_OPT_BROADCAST, IN_ALL | IF_ASKED, write_broadcast},
    {DHCP_OPT_LEASE, IN_LEASE | MUST_FIT, write_lease},
    {DHCP_OPT_TYPE, IN_ACK | IN_NAK | MUST_FIT, write_type},
    {DHCP_OPT_SERVER, IN_ACK | IN_NAK | MUST_FIT, write_gateway},
    {DHCP_OPT_MESSAGE, IN_NAK, write_message},
    {DHCP_OPT_CLIENT_ID, IN_ACK | IN_NAK | MUST_FIT, write_client_id},
    {DHCP_OPT_RAPID_COMMIT, IN_RAPID | MUST_FIT, NULL},
    {DHCP_OPT_FQDN, IN_ALL, write_fqdn},
    {DHCP_OPT_SEARCH, IN_ALL | IS_LIST, write_search},
    {DHCP_OPT_ROUTES, IN_ALL, write_routes},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* The options to send, in order. */
struct order {
	uint8_t row[ROWS];
	unsigned count;
};

static unsigned occasions(const struct dhcp_answer *a)
{
	if (a->type == DHCP_BOOTP)
		return IN_BOOTP;
	if (a->type == DHCP_NAK)
		return IN_NAK;
	if (a->req->type == DHCP_INFORM)
		return IN_INFORM;
	if (a->type == DHCP_ACK && a->req->type == DHCP_DISCOVER)
		return IN_LEASE | IN_RAPID;
	return IN_LEASE;
}

static void order_add(struct order *o, size_t row)
{
	for (unsigned i = 0; i < o->count; i++) {
		if (o->row[i] == row)
			return;
	}
	o->row[o->count++] = (uint8_t)row;
}

static void order_add_code(struct order *o, const struct dhcp_answer *a, uint8_t code)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (rows[i].code == code && (rows[i].flags & occasions(a)))
			order_add(o, i);
	}
}

/* RFC 2132 9.8: those asked for come as the client asked. Before them the type, if not among them;
 * the others behind, as they are numbered. */
static struct order order_usual(const struct dhcp_answer *a)
{
	const struct dhcp_request *req = a->req;
	struct order o = {0};

	if (req->asked_count && !memchr(req->asked, DHCP_OPT_TYPE, req->asked_count))
		order_add_code(&o, a, DHCP_OPT_TYPE);
	for (size_t i = 0; i < req->asked_count; i++)
		order_add_code(&o, a, req->asked[i]);
	for (size_t i = 0; i < ROWS; i++) {
		if (!(rows[i].flags & IF_ASKED))
			order_add_code(&o, a, rows[i].code);
	}
	return o;
}

/* Where there is too little room in the options field: what makes the lease, which so stays in that
 * field, then the rest, and the list that is cut to the room left. */
static struct order order_scarce(const struct order *usual)
{
	static const unsigned turns[] = {MUST_FIT, 0, IS_LIST};
	struct order o = {0};

	for (size_t t = 0; t < sizeof(turns) / sizeof(turns[0]); t++) {
		for (unsigned i = 0; i < usual->count; i++) {
			const struct row *row = &rows[usual->row[i]];

			if ((row->flags & (MUST_FIT | IS_LIST)) == turns[t])
				order_add(&o, usual->row[i]);
		}
	}
	return o;
}

/* A part of the message that takes options, room without the byte for its end. Clients read them in
 * this order (RFC 3396). */
struct field {
	uint8_t *start;
	size_t room, used;
};
enum { FIELD_OPTIONS, FIELD_FILE, FIELD_SNAME, FIELDS };
struct fields {
	struct field field[FIELDS];
};

static void field_add(struct field *f, uint8_t code, const uint8_t *value, size_t len)
{
	uint8_t *p = f->start + f->used;

	p[0] = code;
	p[1] = (uint8_t)len;
	memcpy(p + OPTION_HEADER, value, len);
	f->used += OPTION_HEADER + len;
}

/* As every client understands it. */
static bool fields_add_whole(struct fields *fs, uint8_t code, const uint8_t *value, size_t len)
{
	for (int i = 0; i < FIELDS; i++) {
		struct field *f = &fs->field[i];

		if (f->room - f->used >= OPTION_HEADER + len) {
			field_add(f, code, value, len);
			return true;
		}
	}
	return false;
}

/* Cut over what is left of all fields, which clients need join only for options that are made for
 * it (RFC 3396). */
static bool fields_add_parts(struct fields *fs, uint8_t code, const uint8_t *value, size_t len)
{
	const struct fields before = *fs;

	for (int i = 0; i < FIELDS; i++) {
		struct field *f = &fs->field[i];

		while (len && f->room - f->used > OPTION_HEADER) {
			size_t part = f->room - f->used - OPTION_HEADER;

			if (part > DHCP_VALUE_MAX)
				part = DHCP_VALUE_MAX;
			if (part > len)
				part = len;
			field_add(f, code, value, part);
			value += part;
			len -= part;
		}
	}
	if (len)
		*fs = before;
	return !len;
}

/* False, and nothing added, if there is too little room. */
static bool fields_add_row(struct fields *fs, const struct dhcp_answer *a, const struct row *row)
{
	uint8_t value[VALUE_ROOM];
	size_t len = row->write ? row->write(a, value) : 0;

	if (row->write && !len)
		return true;
	if (len <= DHCP_VALUE_MAX && fields_add_whole(fs, row->code, value, len))
		return true;
	return (row->flags & IS_LIST) && fields_add_parts(fs, row->code, value, len);
}

/* cap: length of the options field. */
static struct fields fields_empty(uint8_t *message, size_t cap, bool overload)
{
	struct fields fs = {.field = {
				[FIELD_OPTIONS] = {.start = message + DHCP_AT_OPTIONS},
				[FIELD_FILE] = {.start = message + DHCP_AT_FILE},
				[FIELD_SNAME] = {.start = message + DHCP_AT_SNAME},
			    }};

	fs.field[FIELD_OPTIONS].room = cap - 1 - (overload ? OVERLOAD_LEN : 0);
	if (overload) {
		fs.field[FIELD_FILE].room = DHCP_FILE_LEN - 1;
		fs.field[FIELD_SNAME].room = DHCP_SNAME_LEN - 1;
	}
	return fs;
}

/* Whether all found room; with what is written only then. */
static bool fields_fill(struct fields *fs, const struct dhcp_answer *a, const struct order *o)
{
	struct fields filled = *fs;

	for (unsigned i = 0; i < o->count; i++) {
		if (!fields_add_row(&filled, a, &rows[o->row[i]]))
			return false;
	}
	*fs = filled;
	return true;
}

/* What finds room. The search list loses names from its end. */
static void fields_fill_scarce(struct fields *fs, const struct dhcp_answer *a,
			       const struct order *o)
{
	struct dhcp_config cut = *a->cfg;
	struct dhcp_answer less = *a;

	less.cfg = &cut;
	for (unsigned i = 0; i < o->count; i++) {
		const struct row *row = &rows[o->row[i]];

		while (!fields_add_row(fs, &less, row) && (row->flags & IS_LIST))
			cut.search_count--; /* none at all fits */
	}
}

/* Closes the fields; what an attempt without success left behind becomes padding (RFC 2131 4.1). */
static size_t fields_finish(struct fields *fs, size_t cap)
{
	struct field *options = &fs->field[FIELD_OPTIONS];
	uint8_t overload = (fs->field[FIELD_FILE].used ? DHCP_OVERLOAD_FILE : 0) |
			   (fs->field[FIELD_SNAME].used ? DHCP_OVERLOAD_SNAME : 0);

	if (overload)
		field_add(options, DHCP_OPT_OVERLOAD, &overload, 1);
	for (int i = 0; i < FIELDS; i++) {
		struct field *f = &fs->field[i];
		size_t whole = i == FIELD_OPTIONS ? cap
			       : i == FIELD_FILE  ? DHCP_FILE_LEN
						  : DHCP_SNAME_LEN;

		memset(f->start + f->used, 0, whole - f->used);
		if (f->used || i == FIELD_OPTIONS)
			f->start[f->used] = DHCP_OPT_END;
	}
	return DHCP_AT_OPTIONS + options->used + 1;
}

/* BOOTP clients know of no other field than that for options (RFC 1534 2). */
size_t dhcp_options_write(const struct dhcp_answer *a, uint8_t *message, size_t room)
{
	size_t cap = room - DHCP_AT_OPTIONS, len;
	struct fields fs = fields_empty(message, cap, false);
	struct order usual = order_usual(a);

	memcpy(message + DHCP_AT_COOKIE, dhcp_cookie, sizeof(dhcp_cookie));
	if (!fields_fill(&fs, a, &usual)) {
		struct order scarce = order_scarce(&usual);

		fs = fields_empty(message, cap, a->type != DHCP_BOOTP);
		fields_fill_scarce(&fs, a, &scarce);
	}
	len = fields_finish(&fs, cap);
	return len < DHCP_BOOTP_LEN ? DHCP_BOOTP_LEN : len;
}
