/* SPDX-License-Identifier: BSD-3-Clause */
/* --trace: a line for each frame. Inside tap/ only. */
#ifndef TAP_TRACE_H
#define TAP_TRACE_H

#include <sys/uio.h>

/* Logs, at trace level, length, protocol, addresses and ports of a frame, as far as it has them;
 * way says where it goes. The frame may be anything. */
void trace_frame(const char *way, const struct iovec *iov, int iov_count);

#endif
