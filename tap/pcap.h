/* SPDX-License-Identifier: BSD-3-Clause */
/* Capture files, classic format 2.4 (draft-ietf-opsawg-pcap). Inside tap/ only. */
#ifndef TAP_PCAP_H
#define TAP_PCAP_H

#include <sys/uio.h>

#include "core/fd.h"

/* Writes the file header. 0 or negative errno. */
int pcap_write_header(int fd) must_check;

/* Appends a record with the frame in iov (at most TAP_IOV_MAX + 1 parts), stamped with the present
 * time. 0 or negative errno; the file may then end in part of a record, and nothing more may be
 * written to it. */
int pcap_write_frame(int fd, const struct iovec *iov, int iov_count) must_check;

#endif
