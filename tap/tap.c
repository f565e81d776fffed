/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/tap.h"

#include <errno.h>
#include <net/ethernet.h>
#include <stdlib.h>

#include "core/hash.h"
#include "tap/pcap.h"
#include "tap/software.h"
#include "tap/trace.h"

#define MTU_MIN 68    /* RFC 791 3.2 */
#define MTU_MAX 65535 /* the length field */

struct tap {
	struct tap_link *link;
	struct mac_addr our_mac, guest_mac;
	size_t mtu;
	struct counters *counters;
	struct software *software; /* NULL if the link does everything itself */
	int pcap_fd;
	uint32_t next_id; /* of packets that may be fragmented */
};

static int link_send(struct tap *t, const struct tap_out *frames, unsigned n, unsigned *sent);

int tap_new(struct tap_link *link, const struct tap_config *cfg, struct counters *counters,
	    struct tap **out)
{
	struct tap *t = calloc(1, sizeof(*t));
	struct hash_key random = {0};
	int r;

	if (!t) {
		link->ops->free(link);
		return -ENOMEM;
	}
	link->counters = counters;
	*t = (struct tap){.link = link,
			  .our_mac = cfg->our_mac,
			  .guest_mac = cfg->guest_mac,
			  .mtu = !cfg->mtu || cfg->mtu > MTU_MAX ? MTU_MAX
				 : cfg->mtu < MTU_MIN            ? MTU_MIN
								 : cfg->mtu,
			  .counters = counters,
			  .pcap_fd = -1};
	r = hash_key_random(&random);
	t->next_id = (uint32_t)random.k[0]; /* RFC 7739: not the same in every instance */
	if (r == 0 && !(link->features.csum && link->features.tcp_gso))
		r = software_new(&link->features, link_send, t, &t->software);
	if (r < 0) {
		tap_free(t);
		return r;
	}
	*out = t;
	return 0;
}

void tap_free(struct tap *t)
{
	if (!t)
		return;
	t->link->ops->free(t->link);
	software_free(t->software);
	fd_close(&t->pcap_fd);
	free(t);
}

int tap_start(struct tap *t, struct loop *loop, const struct tap_events *ev)
{
	return t->link->ops->start(t->link, loop, ev);
}

int tap_attach(struct tap *t, int fd)
{
	if (t->link->ops->attach)
		return t->link->ops->attach(t->link, fd);
	fd_close(&fd);
	return -EOPNOTSUPP;
}

const struct tap_features *tap_features(const struct tap *t)
{
	return &t->link->features;
}

bool tap_tells_room(const struct tap *t)
{
	return t->link->tells_room;
}

size_t tap_mtu(const struct tap *t)
{
	return t->mtu;
}

struct counters *tap_counters(struct tap *t)
{
	return t->counters;
}

bool tap_learn_mac(struct tap *t, const struct mac_addr *mac)
{
	/* A group address can't be anybody's source (IEEE 802.3 3.2.3): it would turn all our
	 * frames into floods. */
	if (mac->b[0] & 1 || mac_equal(mac, &t->guest_mac))
		return false;
	t->guest_mac = *mac;
	return true;
}

const struct mac_addr *tap_our_mac(const struct tap *t)
{
	return &t->our_mac;
}

int tap_pcap_start(struct tap *t, int fd)
{
	int r = pcap_write_header(fd);

	if (r < 0) {
		fd_close(&fd);
		return r;
	}
	fd_close(&t->pcap_fd);
	t->pcap_fd = fd;
	return 0;
}

static void capture(struct tap *t, const struct iovec *iov, int iov_count)
{
	int r = pcap_write_frame(t->pcap_fd, iov, iov_count);

	if (r == 0)
		return;
	/* The user has no other way to learn that the file ends here, and it can happen only once.
	 */
	log_warn("Capture stopped: %s", strerror(-r));
	fd_close(&t->pcap_fd);
}

int tap_receive(struct tap *t, struct tap_frame *frames, unsigned max, unsigned *count)
{
	unsigned n = 0;
	int r = t->link->ops->receive(t->link, frames, max, &n);

	if (r < 0)
		return r;
	t->counters->rx_frames += n;
	for (unsigned i = 0; i < n; i++) {
		struct iovec iov = {.iov_base = (void *)(uintptr_t)frames[i].data,
				    .iov_len = frames[i].len};

		t->counters->rx_bytes += frames[i].len;
		if (t->pcap_fd >= 0)
			capture(t, &iov, 1);
		if (log_threshold() >= LOG_LEVEL_TRACE)
			trace_frame("From the guest", &iov, 1);
	}
	*count = n;
	return 0;
}

/* What is counted and captured is what the link was given in the end. */
static int link_send(struct tap *t, const struct tap_out *frames, unsigned n, unsigned *sent)
{
	unsigned done = 0;
	int r = t->link->ops->send(t->link, frames, n, &done);

	if (r < 0)
		return r;
	t->counters->tx_frames += done;
	for (unsigned i = 0; i < done; i++) {
		for (int v = 0; v < frames[i].iov_count; v++)
			t->counters->tx_bytes += frames[i].iov[v].iov_len;
		if (t->pcap_fd >= 0)
			capture(t, frames[i].iov, frames[i].iov_count);
		if (log_threshold() >= LOG_LEVEL_TRACE)
			trace_frame("To the guest", frames[i].iov, frames[i].iov_count);
	}
	*sent = done;
	return 0;
}

/* Sends frame by frame those that need work first. */
static int send_mixed(struct tap *t, const struct tap_out *frames, unsigned n, unsigned *sent)
{
	const struct tap_features *features = &t->link->features;
	unsigned i = 0, done;

	for (bool taken = true; taken && i < n; i += done) {
		unsigned run = 0;
		int r;

		while (i + run < n && !software_needed(features, &frames[i + run]))
			run++;
		done = 0;
		if (run) {
			r = link_send(t, frames + i, run, &done);
			taken = done == run;
		} else {
			r = software_send(t->software, &frames[i], &taken);
			if (r == -EINVAL) { /* a fault of ours, at the cost of one frame */
				count_drop(t->counters, DROP_LINK_ERROR);
				taken = true;
				r = 0;
			}
			done = taken;
		}
		if (r < 0)
			return r;
	}
	*sent = i;
	return 0;
}

int tap_send(struct tap *t, const struct tap_out *frames, unsigned n, unsigned *sent)
{
	unsigned done = 0;
	int r = t->software ? send_mixed(t, frames, n, &done) : link_send(t, frames, n, &done);

	if (r < 0)
		return r;
	t->counters->dropped[DROP_LINK_FULL] += n - done;
	*sent = done;
	return 0;
}

size_t tap_emit_eth(const struct tap *t, uint8_t *p, enum ip_family family)
{
	return emit_eth(p, &t->guest_mac, &t->our_mac,
			family == IP_V4 ? ETHERTYPE_IP : ETHERTYPE_IPV6);
}

/* Copies to out what lies at at .. at + len of in; both have room for TAP_IOV_MAX parts. Number of
 * parts. */
static int slice(const struct iovec *in, int in_count, size_t at, size_t len, struct iovec *out)
{
	int n = 0;

	for (int i = 0; i < in_count && len; i++) {
		size_t part;

		if (at >= in[i].iov_len) {
			at -= in[i].iov_len;
			continue;
		}
		part = in[i].iov_len - at < len ? in[i].iov_len - at : len;
		out[n++] =
		    (struct iovec){.iov_base = (uint8_t *)in[i].iov_base + at, .iov_len = part};
		len -= part;
		at = 0;
	}
	return n;
}

/* Sends one packet with header h and len bytes of body from at on. */
static int send_part(struct tap *t, const struct ip_header *h, const struct tap_out *body,
		     size_t at, size_t len)
{
	uint8_t headers[EMIT_HEADERS_MAX];
	struct iovec iov[TAP_IOV_MAX];
	struct tap_out f = {.iov = iov};
	size_t n = tap_emit_eth(t, headers, ip_family(&h->src));
	unsigned sent = 0;
	int r;

	n += emit_ip(headers + n, h, len);
	iov[0] = (struct iovec){.iov_base = headers, .iov_len = n};
	f.iov_count = 1 + slice(body->iov, body->iov_count, at, len, iov + 1);
	r = tap_send(t, &f, 1, &sent);
	if (r < 0)
		return r;
	return sent ? 0 : -ENOBUFS;
}

/* RFC 791 3.2, RFC 8200 4.5: every fragment but the last carries a multiple of eight bytes. */
static int send_fragments(struct tap *t, struct ip_header *h, const struct tap_out *body,
			  size_t len)
{
	size_t headers_len = ip_is_v4(&h->src) ? 20 : 48;
	size_t most = (t->mtu - headers_len) / 8 * 8;

	h->is_fragment = true;
	for (size_t at = 0; at < len; at += most) {
		size_t part = len - at < most ? len - at : most;
		int r;

		h->fragment_offset = (uint16_t)at;
		h->more_fragments = at + part < len;
		r = send_part(t, h, body, at, part);
		if (r < 0)
			return r;
	}
	return 0;
}

int tap_send_ip(struct tap *t, const struct ip_header *ip, const struct iovec *body, int iov_count)
{
	bool v4 = ip_is_v4(&ip->src);
	struct tap_out f = {.iov = body, .iov_count = iov_count};
	struct ip_header h = *ip;
	size_t len = 0;

	if (iov_count >= TAP_IOV_MAX)
		return -EINVAL;
	for (int i = 0; i < iov_count; i++)
		len += body[i].iov_len;
	if (len > (v4 ? 65535U - 20U : 65535U))
		return -EMSGSIZE;
	h.is_fragment = h.more_fragments = false;
	h.fragment_offset = 0;
	/* RFC 6864: only a packet that may be cut to pieces on its way needs an id. */
	h.fragment_id = h.dont_fragment ? 0 : t->next_id++;
	if (len + (v4 ? 20 : 40) <= t->mtu)
		return send_part(t, &h, &f, 0, len);
	if (h.dont_fragment)
		return -EMSGSIZE;
	return send_fragments(t, &h, &f, len);
}
