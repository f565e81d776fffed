/* SPDX-License-Identifier: BSD-3-Clause */
/* When router advertisements are sent unasked (RFC 4861 6.2.4); what is in one, test_neighbour. */
#include "test/unit/build.h"

#include "tap/ra.h"

struct bench {
	struct loop *loop;
	struct tap *tap;
	struct tap_link *link;
	struct counters counters;
	struct ndp_config ndp;
	struct ra *ra;
};

static void bench_init(struct bench *b)
{
	static const struct tap_features able = {.csum = true, .tcp_gso = true};
	struct tap_config cfg = {.our_mac = our_mac, .guest_mac = guest_mac, .mtu = 1500};

	*b = (struct bench){
	    .ndp = {.ra_on = true, .our_link_local = ip("fe80::1"), .prefix = ip("2001:db8::2")}};
	assert_int_equal(loop_new(&b->loop), 0);
	assert_int_equal(mem_link_new(&able, &b->link), 0);
	assert_int_equal(tap_new(b->link, &cfg, &b->counters, &b->tap), 0);
	assert_int_equal(ra_new(b->loop, b->tap, &b->ndp, &b->ra), 0);
}

static void bench_end(struct bench *b)
{
	ra_free(b->ra);
	tap_free(b->tap);
	assert_int_equal(timers_next(loop_timers(b->loop)), USEC_NEVER);
	loop_free(b->loop);
}

/* Whether an advertisement to all nodes was sent; nothing else may be. */
static bool sent(struct bench *b)
{
	static const struct offload none;
	uint8_t frame[2048];
	enum drop_reason why;
	struct packet p;
	size_t len = mem_link_fetch(b->link, frame, sizeof(frame), NULL);
	struct ip_addr all = ip("ff02::1");

	if (!len)
		return false;
	assert_int_equal(packet_parse(frame, len, &none, &p, &why), 0);
	assert_int_equal(p.icmp.type, 134);
	assert_true(ip_equal(&p.ip.dst, &all));
	assert_int_equal(mem_link_fetch(b->link, frame, sizeof(frame), NULL), 0);
	return true;
}

/* Goes on to the next one: how long that took. */
static usec_t wait_for_next(struct bench *b, usec_t *now)
{
	usec_t due = timers_next(loop_timers(b->loop)), waited = due - *now;

	assert_int_not_equal(due, USEC_NEVER);
	assert_int_equal(loop_turn(b->loop, due - 1, 0), 0);
	assert_false(sent(b));
	assert_int_equal(loop_turn(b->loop, due, 0), 0);
	assert_true(sent(b));
	*now = due;
	return waited;
}

static void none_before_a_guest(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	assert_int_equal(timers_next(loop_timers(b.loop)), USEC_NEVER);
	bench_end(&b);
}

static void soon_then_seldom(void **state)
{
	usec_t now = 5 * USEC_SEC, least = USEC_NEVER, most = 0;
	struct bench b;

	(void)state;
	bench_init(&b);
	for (int guest = 0; guest < 100; guest++) {
		ra_start(b.ra, now);
		assert_in_range(wait_for_next(&b, &now), 0, USEC_SEC);
		for (int i = 0; i < 2; i++)
			assert_in_range(wait_for_next(&b, &now), 3 * USEC_SEC, 16 * USEC_SEC);
	}
	for (int i = 0; i < 200; i++) {
		usec_t waited = wait_for_next(&b, &now);

		assert_in_range(waited, 200 * USEC_SEC, 600 * USEC_SEC);
		least = waited < least ? waited : least;
		most = waited > most ? waited : most;
	}
	/* Drawn from the whole range. */
	assert_true(least < 240 * USEC_SEC && most > 560 * USEC_SEC);
	bench_end(&b);
}

static void guests_come_and_go(void **state)
{
	usec_t now = 0;
	struct bench b;

	(void)state;
	bench_init(&b);
	ra_start(b.ra, now);
	for (int i = 0; i < 4; i++)
		wait_for_next(&b, &now);
	ra_stop(b.ra);
	assert_int_equal(loop_turn(b.loop, now + 3600 * USEC_SEC, 0), 0);
	assert_false(sent(&b));
	now += 3600 * USEC_SEC;
	ra_start(b.ra, now);
	assert_in_range(wait_for_next(&b, &now), 0, USEC_SEC);
	bench_end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(none_before_a_guest),
	    cmocka_unit_test(soon_then_seldom),
	    cmocka_unit_test(guests_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
