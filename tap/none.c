/* SPDX-License-Identifier: BSD-3-Clause */
/* The link that isn't there, for a stack that only connects loopback with loopback. */
#include <errno.h>
#include <stdlib.h>

#include "tap/tap.h"

static int none_start(struct tap_link *link, struct loop *loop, const struct tap_events *ev)
{
	(void)link;
	(void)loop;
	(void)ev;
	return 0;
}

static int none_receive(struct tap_link *link, struct tap_frame *frames, unsigned max,
			unsigned *count)
{
	(void)link;
	(void)frames;
	(void)max;
	*count = 0;
	return 0;
}

static int none_send(struct tap_link *link, const struct tap_out *frames, unsigned n,
		     unsigned *sent)
{
	(void)link;
	(void)frames;
	(void)n;
	*sent = 0; /* full for good */
	return 0;
}

static void none_free(struct tap_link *link)
{
	free(link);
}

int none_link_new(struct tap_link **out)
{
	static const struct tap_ops ops = {
	    .start = none_start, .receive = none_receive, .send = none_send, .free = none_free};
	struct tap_link *link = calloc(1, sizeof(*link));

	if (!link)
		return -ENOMEM;
	link->ops = &ops;
	*out = link;
	return 0;
}
