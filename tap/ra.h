/* SPDX-License-Identifier: BSD-3-Clause */
/* Unsolicited router advertisements (RFC 4861 6.2.4), while there is a guest. */
#ifndef TAP_RA_H
#define TAP_RA_H

#include "core/loop.h"
#include "tap/ndp.h"

struct ra;

/* loop, tap and cfg outlive it. Nothing is sent before ra_start(). 0 or negative errno. */
int ra_new(struct loop *loop, struct tap *tap, const struct ndp_config *cfg,
	   struct ra **out) must_check;
void ra_free(struct ra *ra);

/* A guest is there: an advertisement within a second, two more 3 to 16 seconds apart, then one each
 * 200 to 600 seconds. */
void ra_start(struct ra *ra, usec_t now);

/* It has gone. */
void ra_stop(struct ra *ra);

#endif
