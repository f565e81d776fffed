/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums and TCP segmentation for links that can't do them. Inside tap/ only. */
#ifndef TAP_SOFTWARE_H
#define TAP_SOFTWARE_H

#include "tap/tap.h"

struct software;

/* Where finished frames go: as tap_ops.send. */
typedef int (*software_sink)(struct tap *t, const struct tap_out *frames, unsigned n,
			     unsigned *sent);

int software_new(const struct tap_features *features, software_sink sink, struct tap *t,
		 struct software **out) must_check;
void software_free(struct software *s);

/* true if the link can't take f as it is. */
bool software_needed(const struct tap_features *features, const struct tap_out *f);

/* Does what the link can't and sends the result. *taken is false if the link was full before the
 * first piece; pieces that found no room after it are lost, like segments on a wire. 0 or negative
 * errno: the link's, or -EINVAL if the frame's headers are not what f->off says. */
int software_send(struct software *s, const struct tap_out *f, bool *taken) must_check;

#endif
