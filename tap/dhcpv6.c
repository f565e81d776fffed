/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/dhcpv6.h"

#include <errno.h>

#include "tap/dhcpv6_message.h"
#include "wire/name.h"

#define CLIENT_PORT   546
#define UDP_LEN       8
#define MESSAGE_MAX   (1280 - 40 - UDP_LEN) /* what needs no fragments (RFC 8200 5) */
#define FOREVER       UINT32_MAX            /* RFC 8415 7.7 */
#define SERVER_ID_LEN 14
#define FQDN_S        1 /* RFC 4704 4.1 */
#define FQDN_O        2

/* RFC 8415 21.13 */
enum status {
	SUCCESS = 0,
	NO_ADDRS = 2,
	NO_BINDING = 3,
	NOT_ON_LINK = 4,
	USE_MULTICAST = 5,
	NO_PREFIX = 6
};

static const char *const status_texts[] = {[SUCCESS] = "done",
					   [NO_ADDRS] = "no address to give",
					   [NO_BINDING] = "not yours",
					   [NOT_ON_LINK] = "not an address of this link",
					   [USE_MULTICAST] = "ask ff02::1:2",
					   [NO_PREFIX] = "no prefix to give"};

/* A message being written. What finds no room is left out as a whole. */
struct answer {
	const struct dhcpv6_config *cfg;
	const struct dhcpv6_request *req;
	const struct mac_addr *our_mac;
	uint8_t bytes[MESSAGE_MAX];
	size_t len;
	bool gave;
};

static void put16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v & 0xffff);
}

/* Header of an option with len bytes of data, which are at what is returned; NULL if there is no
 * room. */
static uint8_t *add_option(struct answer *a, enum dhcpv6_option code, size_t len)
{
	uint8_t *p = a->bytes + a->len;

	if (a->len + 4 + len > sizeof(a->bytes))
		return NULL;
	put16(p, code);
	put16(p + 2, len);
	a->len += 4 + len;
	return p + 4;
}

static void add_status(struct answer *a, enum status status)
{
	size_t text_len = strlen(status_texts[status]);
	uint8_t *p = add_option(a, DHCPV6_OPT_STATUS, 2 + text_len);

	if (!p)
		return;
	put16(p, status);
	memcpy(p + 2, status_texts[status], text_len);
}

/* ---- identifiers */

/* RFC 8415 11.2: link-layer address and time. */
static void write_server_id(const struct dhcpv6_config *cfg, const struct mac_addr *mac,
			    uint8_t id[SERVER_ID_LEN])
{
	put16(id, 1);
	put16(id + 2, 1); /* Ethernet */
	put32(id + 4, cfg->duid_time);
	memcpy(id + 8, mac->b, sizeof(mac->b));
}

static void add_server_id(struct answer *a)
{
	uint8_t *p = add_option(a, DHCPV6_OPT_SERVER_ID, SERVER_ID_LEN);

	if (p)
		write_server_id(a->cfg, a->our_mac, p);
}

static void add_client_id(struct answer *a)
{
	const struct dhcpv6_request *r = a->req;
	uint8_t *p = r->client_id ? add_option(a, DHCPV6_OPT_CLIENT_ID, r->client_id_len) : NULL;

	if (p)
		memcpy(p, r->client_id, r->client_id_len);
}

static bool is_ours(const struct answer *a)
{
	uint8_t id[SERVER_ID_LEN];

	write_server_id(a->cfg, a->our_mac, id);
	return a->req->server_id && a->req->server_id_len == sizeof(id) &&
	       !memcmp(a->req->server_id, id, sizeof(id));
}

/* ---- identity associations */

static bool has_address(const struct answer *a)
{
	return !ip_is_unspecified(&a->cfg->address);
}

/* An address that the client names, and that is not ours to give. */
static bool names_other(const struct answer *a, const struct dhcpv6_ia *ia)
{
	for (unsigned i = 0; i < ia->addr_count; i++) {
		if (!ip_equal(&ia->addrs[i], &a->cfg->address))
			return true;
	}
	return false;
}

/* Begins an association: what is to be given to end_ia(); SIZE_MAX if there is no room. */
static size_t begin_ia(struct answer *a, const struct dhcpv6_ia *ia)
{
	bool times = ia->kind != DHCPV6_OPT_IA_TA;
	size_t start = a->len;
	uint8_t *p = add_option(a, ia->kind, times ? 12 : 4);

	if (!p)
		return SIZE_MAX;
	put32(p, ia->iaid);
	if (times) {
		put32(p + 4, FOREVER);
		put32(p + 8, FOREVER);
	}
	return start;
}

static void end_ia(struct answer *a, size_t start)
{
	put16(a->bytes + start + 2, a->len - start - 4);
}

/* RFC 8415 21.6 */
static void add_address(struct answer *a, const struct ip_addr *addr, uint32_t lifetime)
{
	uint8_t *p = add_option(a, DHCPV6_OPT_IA_ADDRESS, 24);

	if (!p)
		return;
	memcpy(p, addr->b, sizeof(addr->b));
	put32(p + 16, lifetime);
	put32(p + 20, lifetime);
}

static void add_ia_status(struct answer *a, const struct dhcpv6_ia *ia, enum status status)
{
	size_t start = begin_ia(a, ia);

	if (start == SIZE_MAX)
		return;
	add_status(a, status);
	end_ia(a, start);
}

/* RFC 8415 18.3.4, 18.3.5: what a client that has it must not use any more goes with a life time of
 * zero. What one that solicits names is a wish (18.2.1), which is not heard. */
static void add_ia_address(struct answer *a, const struct dhcpv6_ia *ia)
{
	unsigned had = a->req->type == DHCPV6_SOLICIT ? 0 : ia->addr_count;
	size_t start = begin_ia(a, ia);

	if (start == SIZE_MAX)
		return;
	add_address(a, &a->cfg->address, FOREVER);
	for (unsigned i = 0; i < had; i++) {
		if (!ip_equal(&ia->addrs[i], &a->cfg->address))
			add_address(a, &ia->addrs[i], 0);
	}
	end_ia(a, start);
	a->gave = true;
}

/* There is one address: for the first IA_NA. Temporary ones and prefixes are not given. */
static void add_ias(struct answer *a)
{
	const struct dhcpv6_request *r = a->req;

	for (unsigned i = 0; i < r->ia_count; i++) {
		const struct dhcpv6_ia *ia = &r->ias[i];

		if (ia->kind == DHCPV6_OPT_IA_PD)
			add_ia_status(a, ia, NO_PREFIX);
		else if (ia->kind != DHCPV6_OPT_IA_NA || a->gave || !has_address(a))
			add_ia_status(a, ia, NO_ADDRS);
		else if (r->type == DHCPV6_REQUEST && names_other(a, ia))
			add_ia_status(a, ia, NOT_ON_LINK); /* RFC 8415 18.3.2 */
		else
			add_ia_address(a, ia);
	}
}

/* RFC 8415 18.3.7, 18.3.8: the address stays the guest's; what never was it is told apart. */
static void add_given_back(struct answer *a)
{
	const struct dhcpv6_request *r = a->req;

	add_status(a, SUCCESS);
	for (unsigned i = 0; i < r->ia_count; i++) {
		if (r->ias[i].kind != DHCPV6_OPT_IA_NA || names_other(a, &r->ias[i]))
			add_ia_status(a, &r->ias[i], NO_BINDING);
	}
}

/* ---- other options */

/* RFC 8415 18.3: those that the client asks for; all, if it doesn't say. */
static bool wanted(const struct dhcpv6_request *r, bool wants)
{
	return wants || !r->has_requested;
}

static void add_dns(struct answer *a)
{
	const struct dhcpv6_config *cfg = a->cfg;
	uint8_t *p;

	if (!cfg->dns_count || !wanted(a->req, a->req->wants_dns))
		return;
	p = add_option(a, DHCPV6_OPT_DNS, 16U * cfg->dns_count);
	for (unsigned i = 0; p && i < cfg->dns_count; i++)
		memcpy(p + 16 * i, cfg->dns[i].b, 16);
}

/* As many names as there is room for (RFC 8415 10: no compression). */
static void add_search(struct answer *a)
{
	const struct dhcpv6_config *cfg = a->cfg;
	size_t start = a->len, len;

	if (!wanted(a->req, a->req->wants_search) || !cfg->search_count ||
	    !add_option(a, DHCPV6_OPT_SEARCH, 0))
		return;
	for (unsigned i = 0; i < cfg->search_count; i++) {
		if (name_emit(a->bytes + a->len, sizeof(a->bytes) - a->len, cfg->search[i], &len) ==
		    0)
			a->len += len;
	}
	if (a->len == start + 4)
		a->len = start;
	else
		put16(a->bytes + start + 2, a->len - start - 4);
}

/* RFC 4704 6: we update no zone, and override a client that wants us to. */
static void add_fqdn(struct answer *a)
{
	const struct dhcpv6_request *r = a->req;
	uint8_t name[NAME_WIRE_MAX], *p;
	size_t len;

	if (!a->cfg->fqdn || (!r->has_fqdn && !wanted(r, r->wants_fqdn)) ||
	    name_emit(name, sizeof(name), a->cfg->fqdn, &len) < 0)
		return;
	p = add_option(a, DHCPV6_OPT_FQDN, 1 + len);
	if (!p)
		return;
	p[0] = r->has_fqdn && r->fqdn_flags & FQDN_S ? FQDN_O : 0;
	memcpy(p + 1, name, len);
}

/* ---- messages */

/* RFC 8415 16: which messages have which identifiers, and 18.4: by unicast come only those of
 * clients that were told so, which none was. */
static bool is_valid(const struct answer *a, bool unicast, bool *use_multicast)
{
	const struct dhcpv6_request *r = a->req;

	switch (r->type) {
	case DHCPV6_SOLICIT:
	case DHCPV6_CONFIRM:
	case DHCPV6_REBIND:
		return r->client_id && !r->server_id && !unicast;
	case DHCPV6_REQUEST:
	case DHCPV6_RENEW:
	case DHCPV6_RELEASE:
	case DHCPV6_DECLINE:
		*use_multicast = unicast;
		return r->client_id && is_ours(a);
	case DHCPV6_INFORMATION_REQUEST:
		return (!r->server_id || is_ours(a)) && !r->ia_count && !unicast;
	default:
		return false;
	}
}

/* RFC 8415 18.3.3; without any address there is nothing to be said. */
static bool confirm(struct answer *a)
{
	bool named = false, other = !has_address(a);

	for (unsigned i = 0; i < a->req->ia_count; i++) {
		named |= a->req->ias[i].addr_count > 0;
		other |= names_other(a, &a->req->ias[i]);
	}
	if (named)
		add_status(a, other ? NOT_ON_LINK : SUCCESS);
	return named;
}

/* Everything between the identifiers. false: no answer. */
static bool write_body(struct answer *a)
{
	switch (a->req->type) {
	case DHCPV6_RELEASE:
	case DHCPV6_DECLINE:
		add_given_back(a);
		return true;
	case DHCPV6_CONFIRM:
		return confirm(a);
	case DHCPV6_INFORMATION_REQUEST:
		return true;
	default:
		add_ias(a);
		return true;
	}
}

static bool tells_configuration(enum dhcpv6_type type)
{
	return type != DHCPV6_RELEASE && type != DHCPV6_DECLINE && type != DHCPV6_CONFIRM;
}

static bool write_answer(struct answer *a, bool use_multicast)
{
	const struct dhcpv6_request *r = a->req;
	bool commit = r->type == DHCPV6_SOLICIT && r->rapid_commit; /* RFC 8415 18.3.1 */

	put32(a->bytes, r->xid);
	a->bytes[0] = r->type == DHCPV6_SOLICIT && !commit ? DHCPV6_ADVERTISE : DHCPV6_REPLY;
	a->len = 4;
	add_server_id(a);
	if (use_multicast)
		add_status(a, USE_MULTICAST);
	else if (!write_body(a))
		return false;
	add_client_id(a);
	if (commit)
		(void)add_option(a, DHCPV6_OPT_RAPID_COMMIT, 0);
	if (use_multicast || !tells_configuration(r->type))
		return true;
	add_dns(a);
	add_search(a);
	add_fqdn(a);
	return true;
}

static int send_answer(struct tap *t, const struct answer *a, const struct ip_addr *to)
{
	struct udp_header udp = {.src_port = DHCPV6_SERVER_PORT, .dst_port = CLIENT_PORT};
	struct ip_header ip = {.src = a->cfg->our_link_local,
			       .dst = *to,
			       .proto = IPPROTO_UDP,
			       .ttl = 255,
			       .flow_label = a->req->xid & 0xfffff,
			       .dont_fragment = true};
	uint8_t header[UDP_LEN];
	struct iovec body[2] = {{header, sizeof(header)}, {(void *)(uintptr_t)a->bytes, a->len}};

	emit_udp(header, &udp, a->len);
	emit_l4_checksum(header, sizeof(header), a->bytes, a->len, &ip);
	return tap_send_ip(t, &ip, body, 2);
}

/* RFC 8415 7.1 */
static bool to_servers(const struct ip_addr *dst)
{
	static const struct ip_addr all_servers = {{0xff, 2, [13] = 1, [15] = 2}};

	return ip_equal(dst, &all_servers);
}

const char *dhcpv6_input(struct tap *t, const struct dhcpv6_config *cfg, const struct packet *p,
			 bool *gave)
{
	struct dhcpv6_request request;
	struct answer a = {.cfg = cfg, .req = &request, .our_mac = tap_our_mac(t)};
	bool unicast = !to_servers(&p->ip.dst), use_multicast = false;
	int r;

	*gave = false;
	if (p->gso != GSO_NONE || !ip_is_link_local(&p->ip.src) ||
	    (unicast && !ip_equal(&p->ip.dst, &cfg->our_link_local)) ||
	    dhcpv6_request_parse(p->payload, p->payload_len, &request) < 0 ||
	    !is_valid(&a, unicast, &use_multicast)) {
		count_drop(tap_counters(t), DROP_DHCP);
		return NULL;
	}
	if (!write_answer(&a, use_multicast))
		return NULL;
	r = send_answer(t, &a, &p->ip.src); /* if it is lost, the client asks again */
	if (r < 0) {
		log_debug("DHCPv6 answer not sent: %s", strerror(-r));
		return NULL;
	}
	*gave = a.gave && a.bytes[0] == DHCPV6_REPLY;
	return a.bytes[0] == DHCPV6_ADVERTISE ? "ADVERTISE" : "REPLY";
}
