/* SPDX-License-Identifier: BSD-3-Clause */
/* DHCPv6 messages of any content, to servers with little and with much to say. Input: a byte that
 * chooses configuration and destination, then the payload of a UDP packet. Whatever is answered
 * fits a packet of 1280 bytes, has sound options, and names no address but the one, or life times
 * of 0. */
#include <stdlib.h>

#include "core/cursor.h"
#include "tap/dhcpv6.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

#define LABEL "123456789.123456789.123456789.123456789.123456789.123456789."
static const struct ip_addr address = {{0x20, 1, 0xd, 0xb8, [15] = 2}};
static const struct ip_addr server = {{0xfe, 0x80, [15] = 1}};
static const struct ip_addr client = {{0xfe, 0x80, [15] = 7}};
static const struct ip_addr all_servers = {{0xff, 2, [13] = 1, [15] = 2}};

static struct dhcpv6_config config(uint8_t kind)
{
	struct dhcpv6_config c = {.address = kind & 1 ? address : ip_any[IP_V6],
				  .our_link_local = server,
				  .duid_time = 0x01020304,
				  .dns = {server, address, server},
				  .dns_count = kind & 2 ? 3 : 0,
				  .search = {LABEL LABEL LABEL "a", "..", LABEL LABEL LABEL "b",
					     LABEL LABEL LABEL "c", LABEL LABEL LABEL "d",
					     LABEL LABEL LABEL "e"},
				  .search_count = kind & 4 ? DHCPV6_SEARCH_MAX : 0,
				  .fqdn = kind & 8 ? LABEL LABEL LABEL "guest.example" : NULL};

	return c;
}

/* Options of a message, or of an association. */
static void check_options(struct cursor c, bool inside)
{
	while (cursor_left(&c)) {
		unsigned code = cursor_u16(&c), len = cursor_u16(&c);
		const uint8_t *value = cursor_bytes(&c, len);

		require(!c.bad && (value || !len));
		if (code == 3 || code == 25) {
			require(!inside && len >= 12);
			check_options(cursor_init(value + 12, len - 12), true);
		} else if (code == 4) {
			require(!inside && len >= 4);
			check_options(cursor_init(value + 4, len - 4), true);
		} else if (code == 5) {
			bool is_dead = !memcmp(value + 16, "\0\0\0\0\0\0\0\0", 8);

			require(inside && len == 24);
			require(is_dead || !memcmp(value, address.b, 16));
		} else if (code == 13) {
			require(len > 2);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tap_features able = {.csum = true};
	static const struct tap_config tc = {.mtu = 1500};
	static const struct offload none;
	uint8_t kind = size ? data[0] : 0;
	struct dhcpv6_config cfg = config(kind);
	struct counters counters = {0};
	struct packet p = {.kind = PACKET_UDP,
			   .payload = data + (size ? 1 : 0),
			   .payload_len = size ? size - 1 : 0};
	struct tap_link *link = NULL;
	struct tap *tap = NULL;
	uint8_t frame[2048];
	enum drop_reason why;
	const char *answered;
	struct packet reply;
	bool gave;
	size_t len;

	p.ip.src = client;
	p.ip.dst = kind & 16 ? server : all_servers;
	require(mem_link_new(&able, &link) == 0 && tap_new(link, &tc, &counters, &tap) == 0);
	answered = dhcpv6_input(tap, &cfg, &p, &gave);
	len = mem_link_fetch(link, frame, sizeof(frame), NULL);
	require(!answered == !len && (!gave || (kind & 1 && answered)));
	if (len) {
		require(len <= 14 + 1280);
		require(packet_parse(frame, len, &none, &reply, &why) == 0);
		require(reply.kind == PACKET_UDP && reply.payload_len > 4);
		require(reply.payload[0] == 2 || reply.payload[0] == 7);
		check_options(cursor_init(reply.payload + 4, reply.payload_len - 4), false);
	}
	require(mem_link_fetch(link, frame, sizeof(frame), NULL) == 0);
	tap_free(tap);
	return 0;
}
