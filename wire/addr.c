/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

const struct ip_addr ip_any[IP_FAMILIES] = {
    [IP_V4] = {{[10] = 0xff, [11] = 0xff}},
    [IP_V6] = {{0}},
};
const struct ip_addr ip_loopback[IP_FAMILIES] = {
    [IP_V4] = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}},
    [IP_V6] = {{[15] = 1}},
};
const struct mac_addr mac_broadcast = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

struct ip_addr ip_from_v4(const void *four)
{
	struct ip_addr a = ip_any[IP_V4];

	memcpy(a.b + 12, four, 4);
	return a;
}

struct ip_addr ip_from_v6(const void *sixteen)
{
	struct ip_addr a;

	memcpy(a.b, sixteen, 16);
	return a;
}

bool ip_is_unspecified(const struct ip_addr *a)
{
	return ip_equal(a, &ip_any[ip_family(a)]);
}

bool ip_is_loopback(const struct ip_addr *a)
{
	return ip_is_v4(a) ? a->b[12] == 127 : ip_equal(a, &ip_loopback[IP_V6]);
}

bool ip_is_multicast(const struct ip_addr *a)
{
	return ip_is_v4(a) ? (a->b[12] & 0xf0) == 0xe0 : a->b[0] == 0xff;
}

bool ip_is_broadcast(const struct ip_addr *a)
{
	static const uint8_t ones[4] = {0xff, 0xff, 0xff, 0xff};

	return ip_is_v4(a) && !memcmp(a->b + 12, ones, sizeof(ones));
}

bool ip_is_link_local(const struct ip_addr *a)
{
	if (ip_is_v4(a))
		return a->b[12] == 169 && a->b[13] == 254;
	return a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

bool ip_is_unicast(const struct ip_addr *a)
{
	return !ip_is_unspecified(a) && !ip_is_multicast(a) && !ip_is_broadcast(a);
}

bool ip_same_prefix(const struct ip_addr *a, const struct ip_addr *b, unsigned len)
{
	const uint8_t *x = ip_bytes(a), *y = ip_bytes(b);
	unsigned bytes = len / 8, bits = len % 8;

	if (ip_family(a) != ip_family(b) || len > 8 * ip_bytes_len(a) || memcmp(x, y, bytes))
		return false;
	return !bits || !((x[bytes] ^ y[bytes]) >> (8 - bits));
}

int ip_parse(const char *text, struct ip_addr *out)
{
	char plain[IP_TEXT_MAX];
	size_t len = strlen(text);
	uint8_t b[16];

	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	if (len >= sizeof(plain))
		return -EINVAL;
	memcpy(plain, text, len);
	plain[len] = '\0';
	if (inet_pton(AF_INET, plain, b) == 1)
		*out = ip_from_v4(b);
	else if (inet_pton(AF_INET6, plain, b) == 1)
		*out = ip_from_v6(b);
	else
		return -EINVAL;
	return 0;
}

const char *ip_format(const struct ip_addr *a, char *buf)
{
	/* Can't fail: the family is known and the buffer holds the longest form. */
	if (!inet_ntop(ip_is_v4(a) ? AF_INET : AF_INET6, ip_bytes(a), buf, IP_TEXT_MAX))
		buf[0] = '\0';
	return buf;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int mac_parse(const char *text, struct mac_addr *out)
{
	struct mac_addr m;

	if (strlen(text) != MAC_TEXT_MAX - 1)
		return -EINVAL;
	for (int i = 0; i < 6; i++) {
		int high = hex_digit(text[3 * i]), low = hex_digit(text[3 * i + 1]);

		if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':'))
			return -EINVAL;
		m.b[i] = (uint8_t)(high << 4 | low);
	}
	*out = m;
	return 0;
}

const char *mac_format(const struct mac_addr *m, char *buf)
{
	snprintf(buf, MAC_TEXT_MAX, "%02x:%02x:%02x:%02x:%02x:%02x", m->b[0], m->b[1], m->b[2],
		 m->b[3], m->b[4], m->b[5]);
	return buf;
}

socklen_t endpoint_to_sockaddr(const struct endpoint *e, unsigned scope,
			       struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (ip_is_v4(&e->addr)) {
		in->sin_family = AF_INET;
		in->sin_port = htons(e->port);
		memcpy(&in->sin_addr, e->addr.b + 12, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(e->port);
	memcpy(&in6->sin6_addr, e->addr.b, 16);
	/* The kernel takes a scope only where it means something (RFC 4007): elsewhere a zero one.
	 */
	if (ip_is_link_local(&e->addr) || (ip_is_multicast(&e->addr) && (e->addr.b[1] & 0xf) <= 2))
		in6->sin6_scope_id = scope;
	return sizeof(*in6);
}

int endpoint_from_sockaddr(const struct sockaddr_storage *sa, struct endpoint *out)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;

	if (sa->ss_family == AF_INET) {
		out->addr = ip_from_v4(&in->sin_addr);
		out->port = ntohs(in->sin_port);
	} else if (sa->ss_family == AF_INET6) {
		out->addr = ip_from_v6(&in6->sin6_addr);
		out->port = ntohs(in6->sin6_port);
	} else {
		return -EAFNOSUPPORT;
	}
	return 0;
}
