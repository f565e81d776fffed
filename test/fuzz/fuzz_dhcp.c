/* SPDX-License-Identifier: BSD-3-Clause */
/* DHCP messages of any content, to servers with little and with much to say. Input: a byte that
 * chooses the configuration, then the payload of a UDP packet. Whatever is answered is no longer
 * than the client takes, has sound options, and names the one address or none. */
#include <stdlib.h>

#include "core/cursor.h"
#include "tap/dhcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

#define LABEL "123456789.123456789.123456789.123456789.123456789.123456789."
static const struct ip_addr address = {{[10] = 0xff, 0xff, 192, 0, 2, 2}};
static const struct ip_addr gateway = {{[10] = 0xff, 0xff, 192, 0, 2, 1}};

static struct dhcp_config config(uint8_t kind)
{
	static const char *const names[] = {LABEL LABEL LABEL "a.example",
					    LABEL LABEL "b.example",
					    LABEL "c.example",
					    "example",
					    "..",
					    LABEL LABEL "other"};
	struct dhcp_config c = {.address = address,
				.gateway = gateway,
				.prefix_len = kind & 1 ? 24 : 32,
				.mtu = kind & 2 ? 65520 : 0,
				.dns = {gateway, gateway, gateway},
				.dns_count = kind & 4 ? 3 : 0,
				.hostname = kind & 8 ? LABEL LABEL LABEL "guest" : NULL,
				.fqdn = kind & 16 ? LABEL LABEL "example" : NULL};

	while (kind >> 5 > c.search_count && c.search_count < DHCP_SEARCH_MAX) {
		c.search[c.search_count] = names[c.search_count];
		c.search_count++;
	}
	return c;
}

/* Options of one field; the length of its padding is not ours to say. */
static void check_options(struct cursor c, uint8_t *overload, uint8_t *type)
{
	for (;;) {
		uint8_t code = cursor_u8(&c), len;
		const uint8_t *value;

		require(!c.bad && code);
		if (code == 255)
			break;
		len = cursor_u8(&c);
		value = cursor_bytes(&c, len);
		require(value && (len || code == 80 || code == 61));
		if (code == 52)
			*overload = value[0];
		if (code == 53)
			*type = value[0];
	}
	while (cursor_left(&c))
		require(!cursor_u8(&c));
}

static void check_reply(const uint8_t *frame, size_t len, const struct dhcp_config *cfg)
{
	static const uint8_t cookie[] = {99, 130, 83, 99};
	static const struct offload none;
	uint8_t overload = 0, type = 0;
	struct ip_addr yiaddr;
	enum drop_reason why;
	const uint8_t *m;
	struct packet p;

	require(packet_parse(frame, len, &none, &p, &why) == 0 && p.kind == PACKET_UDP);
	require(p.payload_len >= 300 && p.payload_len <= 1472 && p.udp.src_port == 67);
	m = p.payload;
	yiaddr = ip_from_v4(m + 16);
	require(m[0] == 2 && (ip_is_unspecified(&yiaddr) || ip_equal(&yiaddr, &cfg->address)));
	if (memcmp(m + 236, cookie, sizeof(cookie)))
		return;
	check_options(cursor_init(m + 240, p.payload_len - 240), &overload, &type);
	require(!overload || type);
	if (overload & 1)
		check_options(cursor_init(m + 108, 128), &overload, &type);
	if (overload & 2)
		check_options(cursor_init(m + 44, 64), &overload, &type);
	require(type == 0 || type == 2 || type == 5 || type == 6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tap_features able = {.csum = true};
	static const struct tap_config tc = {.mtu = 1500};
	struct dhcp_config cfg = config(size ? data[0] : 0);
	struct counters counters = {0};
	struct packet p = {.kind = PACKET_UDP,
			   .payload = data + (size ? 1 : 0),
			   .payload_len = size ? size - 1 : 0};
	struct tap_link *link = NULL;
	uint8_t frame[2048];
	struct tap *tap = NULL;
	const char *answered;
	size_t len;

	p.ip.src = p.ip.dst = ip_any[IP_V4];
	require(mem_link_new(&able, &link) == 0 && tap_new(link, &tc, &counters, &tap) == 0);
	answered = dhcp_input(tap, &cfg, &p);
	len = mem_link_fetch(link, frame, sizeof(frame), NULL);
	require(!answered == !len);
	if (len)
		check_reply(frame, len, &cfg);
	require(mem_link_fetch(link, frame, sizeof(frame), NULL) == 0);
	tap_free(tap);
	return 0;
}
