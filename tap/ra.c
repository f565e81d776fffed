/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/ra.h"

#include <errno.h>
#include <stdlib.h>

#include "core/hash.h"

/* RFC 4861 6.2.1, 10: MinRtrAdvInterval, MaxRtrAdvInterval, MIN_DELAY_BETWEEN_RAS,
 * MAX_INITIAL_RTR_ADVERT_INTERVAL, MAX_INITIAL_RTR_ADVERTISEMENTS. */
#define LEAST         (200 * USEC_SEC)
#define MOST          (600 * USEC_SEC)
#define INITIAL_LEAST (3 * USEC_SEC)
#define INITIAL_MOST  (16 * USEC_SEC)
#define INITIAL_COUNT 3
#define FIRST_MOST    USEC_SEC /* nothing was sent before that it could follow too soon */

struct ra {
	struct loop *loop;
	struct tap *tap;
	const struct ndp_config *cfg;
	struct timer timer;
	struct hash_key key;
	uint64_t drawn; /* numbers so far */
	unsigned sent;  /* since the guest came, at most INITIAL_COUNT */
};

/* Uniform, so that several routers don't fall into step (RFC 4861 6.2.4). */
static usec_t draw(struct ra *ra, usec_t least, usec_t most)
{
	ra->drawn++;
	return least + hash_bytes(&ra->key, &ra->drawn, sizeof(ra->drawn)) % (most - least);
}

static void plan_next(struct ra *ra, usec_t now)
{
	usec_t wait = !ra->sent                  ? draw(ra, 0, FIRST_MOST)
		      : ra->sent < INITIAL_COUNT ? draw(ra, INITIAL_LEAST, INITIAL_MOST)
						 : draw(ra, LEAST, MOST);

	if (timer_set(loop_timers(ra->loop), &ra->timer, now + wait) < 0)
		log_debug("No memory for router advertisements: they are sent when asked for");
}

static void on_time(struct timer *timer, usec_t now)
{
	struct ra *ra = container_of(timer, struct ra, timer);

	ndp_advertise(ra->tap, ra->cfg);
	if (ra->sent < INITIAL_COUNT)
		ra->sent++;
	plan_next(ra, now);
}

int ra_new(struct loop *loop, struct tap *tap, const struct ndp_config *cfg, struct ra **out)
{
	struct ra *ra = calloc(1, sizeof(*ra));
	int r;

	if (!ra)
		return -ENOMEM;
	ra->loop = loop;
	ra->tap = tap;
	ra->cfg = cfg;
	timer_init(&ra->timer, on_time);
	r = hash_key_random(&ra->key);
	if (r < 0) {
		free(ra);
		return r;
	}
	*out = ra;
	return 0;
}

void ra_free(struct ra *ra)
{
	if (!ra)
		return;
	timer_drop(loop_timers(ra->loop), &ra->timer);
	free(ra);
}

void ra_start(struct ra *ra, usec_t now)
{
	ra->sent = 0;
	plan_next(ra, now);
}

void ra_stop(struct ra *ra)
{
	timer_off(&ra->timer);
}
