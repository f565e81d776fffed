/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/vnet.h"

#include <linux/virtio_net.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4 /* Linux 6.2 */
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

static uint16_t get_le16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static void put_le16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

/* Offsets of the header's fields. */
enum {
	VH_FLAGS,
	VH_GSO_TYPE,
	VH_HDR_LEN,
	VH_GSO_SIZE = 4,
	VH_CSUM_START = 6,
	VH_CSUM_OFFSET = 8,
	VH_NUM_BUFFERS = 10
};

_Static_assert(sizeof(struct virtio_net_hdr_v1) == VNET_LEN, "length of the header");

void vnet_write(uint8_t *h, const struct offload *off)
{
	static const uint8_t types[] = {
	    [GSO_NONE] = VIRTIO_NET_HDR_GSO_NONE,
	    [GSO_TCP4] = VIRTIO_NET_HDR_GSO_TCPV4,
	    [GSO_TCP6] = VIRTIO_NET_HDR_GSO_TCPV6,
	    [GSO_UDP] = VIRTIO_NET_HDR_GSO_UDP_L4,
	};

	memset(h, 0, VNET_LEN);
	if (off->csum_partial) {
		h[VH_FLAGS] = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		put_le16(h + VH_CSUM_START, off->csum_start);
		put_le16(h + VH_CSUM_OFFSET, off->csum_offset);
	}
	if (off->gso != GSO_NONE) {
		h[VH_GSO_TYPE] = types[off->gso];
		if (off->gso_ecn)
			h[VH_GSO_TYPE] |= VIRTIO_NET_HDR_GSO_ECN;
		put_le16(h + VH_HDR_LEN, off->header_len);
		put_le16(h + VH_GSO_SIZE, off->gso_size);
	}
}

void vnet_set_buffers(uint8_t *h, uint16_t count)
{
	put_le16(h + VH_NUM_BUFFERS, count);
}

static bool read_gso(const uint8_t *h, struct offload *off)
{
	switch (h[VH_GSO_TYPE] & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_NONE:
		off->gso = GSO_NONE;
		return true;
	case VIRTIO_NET_HDR_GSO_TCPV4:
		off->gso = GSO_TCP4;
		break;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		off->gso = GSO_TCP6;
		break;
	case VIRTIO_NET_HDR_GSO_UDP_L4:
		off->gso = GSO_UDP;
		break;
	default:
		return false; /* not among what was offered */
	}
	off->gso_ecn = h[VH_GSO_TYPE] & VIRTIO_NET_HDR_GSO_ECN;
	off->gso_size = get_le16(h + VH_GSO_SIZE);
	off->header_len = get_le16(h + VH_HDR_LEN);
	return off->gso_size > 0;
}

bool vnet_read(const uint8_t *h, size_t len, struct offload *off)
{
	*off = (struct offload){0};
	if (h[VH_FLAGS] & VIRTIO_NET_HDR_F_NEEDS_CSUM) {
		off->csum_partial = true;
		off->csum_start = get_le16(h + VH_CSUM_START);
		off->csum_offset = get_le16(h + VH_CSUM_OFFSET);
		if ((size_t)off->csum_start + off->csum_offset + 2 > len)
			return false;
	}
	return read_gso(h, off) && off->header_len <= len;
}
