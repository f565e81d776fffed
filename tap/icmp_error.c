/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/icmp_error.h"

#include <errno.h>

#define LIMIT_PERIOD (100 * USEC_MSEC)
#define LIMIT_COUNT  100

/* The longest error: RFC 1812 4.3.2.3, RFC 4443 2.4 (c). */
static const size_t longest[IP_FAMILIES] = {[IP_V4] = 576, [IP_V6] = 1280};

int icmp_error_send(struct tap *t, const struct icmp_error *e, const struct ip_header *ip,
		    const void *quoted, size_t quoted_len)
{
	enum ip_family family = ip_family(&ip->src);
	struct ip_header h = {.src = e->from,
			      .dst = ip->src,
			      .proto = family == IP_V4 ? IPPROTO_ICMP : IPPROTO_ICMPV6,
			      .ttl = 255};
	size_t ip_len = family == IP_V4 ? 20 : 40, most = longest[family] - ip_len - 8 - ip_len;
	struct ip_header original = *ip;
	uint8_t body[1280];
	struct iovec iov = {.iov_base = body};

	if (!ip_is_unicast(&ip->src) || !ip_is_unicast(&ip->dst))
		return 0;
	original.is_fragment = original.more_fragments =
	    false; /* what was reassembled is quoted as it was meant */
	original.fragment_offset = 0;
	iov.iov_len = emit_icmp(body, e->type, e->code, e->info);
	iov.iov_len += emit_ip(body + iov.iov_len, &original, quoted_len);
	if (quoted_len < most)
		most = quoted_len;
	if (most)
		memcpy(body + iov.iov_len, quoted, most);
	iov.iov_len += most;
	emit_l4_checksum(body, 8, body + 8, iov.iov_len - 8, &h);
	return tap_send_ip(t, &h, &iov, 1);
}

/* ICMP: RFC 792, RFC 1812 5.2.7.1. ICMPv6: RFC 4443 3.1. Chosen so that the guest's system gives
 * its program the same errno. */
bool icmp_error_from_errno(int err, enum ip_family family, uint8_t proto, struct icmp_error *out)
{
	static const struct {
		int err;
		uint8_t code[IP_FAMILIES]; /* of "destination unreachable" */
	} table[] = {
	    {ECONNREFUSED, {3, 4}}, {EHOSTUNREACH, {1, 3}}, {EHOSTDOWN, {1, 3}},
	    {ETIMEDOUT, {1, 3}},    {ENETUNREACH, {0, 0}},  {ENETDOWN, {0, 0}},
	    {EACCES, {13, 1}},      {EPERM, {13, 1}},
	};

	if (err == ECONNREFUSED && proto != IPPROTO_UDP)
		return false;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		if (table[i].err == err) {
			out->type = family == IP_V4 ? 3 : 1;
			out->code = table[i].code[family];
			out->info = 0;
			return true;
		}
	}
	return false;
}

bool icmp_error_pass(struct icmp_error_limit *limit, usec_t now)
{
	if (now - limit->since >= LIMIT_PERIOD)
		*limit = (struct icmp_error_limit){.since = now};
	return limit->count++ < LIMIT_COUNT;
}
