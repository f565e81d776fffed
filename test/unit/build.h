/* SPDX-License-Identifier: BSD-3-Clause */
/* What several unit tests need: addresses from text, frames from plain values, and bytes that end
 * flush at an unreadable page, so that one byte read too many is a crash. */
#ifndef TEST_UNIT_BUILD_H
#define TEST_UNIT_BUILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <net/ethernet.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/emit.h"
#include "wire/packet.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct mac_addr our_mac = {{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}};
static const struct mac_addr guest_mac = {{0x02, 0, 0, 0, 0, 0x07}};

/* The same script runs for both families with these. */
static const struct {
	const char *guest, *peer;
} pairs[IP_FAMILIES] = {
    [IP_V4] = {"192.0.2.2", "198.51.100.7"}, [IP_V6] = {"2001:db8::2", "2001:db8:1::7"}};

static inline struct ip_addr ip(const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_parse(text, &a), 0);
	return a;
}

struct edge {
	uint8_t *map, *data;
	size_t map_len;
};

static inline struct edge edge_copy(const void *bytes, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (len + page - 1) / page * page;
	struct edge e = {.map_len = room + page};

	e.map = mmap(NULL, e.map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(e.map, MAP_FAILED);
	assert_int_equal(mprotect(e.map + room, page, PROT_NONE), 0);
	e.data = e.map + room - len;
	if (len)
		memcpy(e.data, bytes, len);
	return e;
}

static inline void edge_free(struct edge *e)
{
	assert_int_equal(munmap(e->map, e->map_len), 0);
}

static inline struct ip_header guest_ip(enum ip_family family, uint8_t proto)
{
	return (struct ip_header){.src = ip(pairs[family].guest),
				  .dst = ip(pairs[family].peer),
				  .proto = proto,
				  .ttl = 64};
}

static inline size_t put_eth(uint8_t *p, const struct ip_header *h)
{
	return emit_eth(p, &our_mac, &guest_mac, ip_is_v4(&h->src) ? ETHERTYPE_IP : ETHERTYPE_IPV6);
}

/* A frame from the guest with an IP packet of any payload. */
static inline size_t put_ip(uint8_t *p, const struct ip_header *h, const void *payload, size_t len)
{
	size_t n = put_eth(p, h);

	n += emit_ip(p + n, h, len);
	if (len)
		memcpy(p + n, payload, len);
	return n + len;
}

static inline size_t put_tcp(uint8_t *p, const struct ip_header *h, const struct tcp_header *tcp,
			     const void *payload, size_t len)
{
	uint8_t l4[60 + 65536];
	size_t n = emit_tcp(l4, tcp);

	emit_l4_checksum(l4, n, payload, len, h);
	if (len)
		memcpy(l4 + n, payload, len);
	return put_ip(p, h, l4, n + len);
}

static inline size_t put_udp(uint8_t *p, const struct ip_header *h, const struct udp_header *udp,
			     const void *payload, size_t len)
{
	uint8_t l4[8 + 65536];
	size_t n = emit_udp(l4, udp, len);

	emit_l4_checksum(l4, n, payload, len, h);
	if (len)
		memcpy(l4 + n, payload, len);
	return put_ip(p, h, l4, n + len);
}

/* An ICMP or ICMPv6 message, whose first eight bytes are type, code and rest. */
static inline size_t put_icmp(uint8_t *p, const struct ip_header *h, uint8_t type, uint8_t code,
			      uint32_t rest, const void *payload, size_t len)
{
	uint8_t l4[8 + 65536];
	size_t n = emit_icmp(l4, type, code, rest);

	emit_l4_checksum(l4, n, payload, len, h);
	if (len)
		memcpy(l4 + n, payload, len);
	return put_ip(p, h, l4, n + len);
}

/* Bytes that tell where they were. */
static inline void fill(uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + i / 251);
}

#endif
