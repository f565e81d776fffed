/* SPDX-License-Identifier: BSD-3-Clause */
/* The header that travels in front of a frame on tun devices and virtqueues: struct
 * virtio_net_hdr_v1, little-endian (virtio 1.2, 5.1.6; linux/virtio_net.h). Inside tap/ only. */
#ifndef TAP_VNET_H
#define TAP_VNET_H

#include "wire/packet.h"

#define VNET_LEN 12 /* with num_buffers */

/* Writes VNET_LEN bytes; num_buffers is 0. */
void vnet_write(uint8_t *h, const struct offload *off);

/* num_buffers of a header to the guest. */
void vnet_set_buffers(uint8_t *h, uint16_t count);

/* Reads the header of a frame of len bytes from the guest, whose root can put anything there
 * (PACKET_VNET_HDR in packet(7)):
 * offsets and sizes are checked, and header_len is never more than a hint. False: the frame is to
 * be dropped. */
bool vnet_read(const uint8_t *h, size_t len, struct offload *off);

#endif
