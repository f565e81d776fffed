/* SPDX-License-Identifier: BSD-3-Clause */
/* Domain names as labels (RFC 1035 3.1), as DHCP, DHCPv6 and router advertisements carry them. */
#ifndef WIRE_NAME_H
#define WIRE_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "core/fd.h"

#define NAME_WIRE_MAX 255 /* RFC 1035 2.3.4 */

/* Writes text ("a.example", a dot behind allowed) as labels with the empty one at the end, without
 * compression. 0 with the number of bytes in *len; -EINVAL if it is no name; -ENOBUFS if it takes
 * more than room. */
int name_emit(uint8_t *p, size_t room, const char *text, size_t *len) must_check;

/* Several names, one behind the other; a name whose end occurred before points there (RFC 1035
 * 4.1.4, offsets from base as RFC 3397 2 has it): at is where in base this one starts. Otherwise as
 * name_emit(), room being what follows at. */
int name_emit_compressed(uint8_t *base, size_t at, size_t room, const char *text,
			 size_t *len) must_check;

#endif
