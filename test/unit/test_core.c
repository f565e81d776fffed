/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers, hash, cursor, list, loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/cursor.h"
#include "core/hash.h"
#include "core/loop.h"

/* Timers. */

struct probe {
	struct timer timer;
	unsigned ran;
	usec_t at;
	struct timers *again; /* set once more, one second later, when it runs */
};

static void probe_expire(struct timer *t, usec_t now)
{
	struct probe *p = container_of(t, struct probe, timer);

	assert_true(t->when == USEC_NEVER);
	p->ran++;
	p->at = now;
	if (p->again)
		assert_int_equal(timer_set(p->again, t, now + USEC_SEC), 0);
}

static struct timers *timers(void)
{
	struct timers *ts;

	assert_int_equal(timers_new(&ts), 0);
	return ts;
}

static void timer_runs_once_when_due(void **state)
{
	struct timers *ts = timers();
	struct probe p = {0};

	(void)state;
	timer_init(&p.timer, probe_expire);
	assert_true(timers_next(ts) == USEC_NEVER);
	assert_int_equal(timer_set(ts, &p.timer, 100), 0);
	assert_int_equal(timers_next(ts), 100);
	timers_run(ts, 99);
	assert_int_equal(p.ran, 0);
	timers_run(ts, 100);
	assert_int_equal(p.ran, 1);
	timers_run(ts, 1000);
	assert_int_equal(p.ran, 1);
	assert_true(timers_next(ts) == USEC_NEVER);
	timers_free(ts);
}

static void timer_moved_later_wakes_nobody_early(void **state)
{
	struct timers *ts = timers();
	struct probe p = {0};

	(void)state;
	timer_init(&p.timer, probe_expire);
	assert_int_equal(timer_set(ts, &p.timer, 100), 0);
	assert_int_equal(timer_set(ts, &p.timer, 500), 0);
	assert_int_equal(p.timer.heaped, 100); /* the heap was not touched */
	timers_run(ts, 100);
	assert_int_equal(p.ran, 0);
	timer_off(&p.timer);
	assert_true(timers_next(ts) == USEC_NEVER);
	assert_int_equal(timer_set(ts, &p.timer, 200), 0);
	assert_int_equal(timer_set(ts, &p.timer, 500), 0);
	assert_int_equal(timers_next(ts), 500);
	timers_run(ts, 500);
	assert_int_equal(p.ran, 1);
	timers_free(ts);
}

static void timer_moved_earlier_runs_earlier(void **state)
{
	struct timers *ts = timers();
	struct probe p = {0}, other = {0};

	(void)state;
	timer_init(&p.timer, probe_expire);
	timer_init(&other.timer, probe_expire);
	assert_int_equal(timer_set(ts, &other.timer, 200), 0);
	assert_int_equal(timer_set(ts, &p.timer, 300), 0);
	assert_int_equal(timer_set(ts, &p.timer, 900), 0);
	assert_int_equal(timer_set(ts, &p.timer, 50), 0);
	assert_int_equal(timers_next(ts), 50);
	timers_run(ts, 60);
	assert_int_equal(p.ran, 1);
	assert_int_equal(other.ran, 0);
	timers_run(ts, 1000);
	assert_int_equal(p.ran, 1);
	assert_int_equal(other.ran, 1);
	timers_free(ts);
}

static void timer_off_and_dropped_do_not_run(void **state)
{
	struct timers *ts = timers();
	struct probe off = {0}, dropped = {0};

	(void)state;
	timer_init(&off.timer, probe_expire);
	timer_init(&dropped.timer, probe_expire);
	assert_int_equal(timer_set(ts, &off.timer, 10), 0);
	assert_int_equal(timer_set(ts, &dropped.timer, 20), 0);
	timer_off(&off.timer);
	timer_drop(ts, &dropped.timer);
	timer_drop(ts, &dropped.timer); /* harmless */
	timers_run(ts, 1000);
	assert_int_equal(off.ran + dropped.ran, 0);
	assert_true(timers_next(ts) == USEC_NEVER);
	assert_int_equal(timer_set(ts, &off.timer, 2000), 0); /* usable again */
	timers_run(ts, 2000);
	assert_int_equal(off.ran, 1);
	timers_free(ts);
}

static void timer_may_set_itself_again(void **state)
{
	struct timers *ts = timers();
	struct probe p = {.again = ts};

	(void)state;
	timer_init(&p.timer, probe_expire);
	assert_int_equal(timer_set(ts, &p.timer, 1), 0);
	timers_run(ts, 5);
	assert_int_equal(p.ran, 1);
	assert_int_equal(timers_next(ts), 5 + USEC_SEC);
	timer_drop(ts, &p.timer);
	timers_free(ts);
}

/* Against a model: each timer has run exactly if its last deadline has passed. */
static void many_timers_in_any_order(void **state)
{
	enum { N = 300, STEPS = 4000 };
	struct timers *ts = timers();
	struct probe *p = calloc(N, sizeof(*p));
	unsigned seed = 12345, fired[N] = {0};
	usec_t when[N], now = 0;

	(void)state;
	assert_non_null(p);
	for (int i = 0; i < N; i++) {
		timer_init(&p[i].timer, probe_expire);
		when[i] = USEC_NEVER;
	}
	for (int s = 0; s < STEPS; s++) {
		int i;

		seed = seed * 1103515245 + 12345;
		i = (int)(seed >> 8) % N;
		switch (seed >> 28) {
		case 0:
			timer_off(&p[i].timer);
			when[i] = USEC_NEVER;
			break;
		case 1:
			timer_drop(ts, &p[i].timer);
			when[i] = USEC_NEVER;
			break;
		case 2:
		case 3:
			now += seed >> 16 & 0xff;
			timers_run(ts, now);
			for (int k = 0; k < N; k++) {
				if (when[k] <= now) {
					fired[k]++;
					when[k] = USEC_NEVER;
				}
				assert_int_equal(p[k].ran, fired[k]);
				assert_true(p[k].timer.when == when[k]);
			}
			break;
		default:
			when[i] = now + 1 + (seed >> 12 & 0x3ff);
			assert_int_equal(timer_set(ts, &p[i].timer, when[i]), 0);
		}
		for (int k = 0; k < N; k++)
			assert_true(when[k] >= timers_next(ts));
	}
	timers_free(ts);
	free(p);
}

/* Hash. */

static void siphash_is_the_published_one(void **state)
{
	/* Appendix A of the paper: key 00 01 .. 0f, message 00 01 .. 0e. */
	struct hash_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
	uint8_t message[15];

	(void)state;
	for (uint8_t i = 0; i < sizeof(message); i++)
		message[i] = i;
	assert_true(hash_bytes(&key, message, sizeof(message)) == 0xa129ca6149be45e5);
	assert_true(hash_bytes(&key, message, 0) == 0x726fdb47dd0e0e31);
	assert_true(hash_bytes(&key, message, 8) == 0x93f5f5799a932462);
}

static void random_keys_differ(void **state)
{
	struct hash_key a, b;

	(void)state;
	assert_int_equal(hash_key_random(&a), 0);
	assert_int_equal(hash_key_random(&b), 0);
	assert_memory_not_equal(&a, &b, sizeof(a));
}

struct member {
	struct hash_node node;
	unsigned value;
};

static struct member *look_up(struct hash_table *t, uint64_t hash, unsigned value)
{
	struct hash_node *n = NULL;

	while ((n = hash_table_find(t, hash, n))) {
		struct member *m = container_of(n, struct member, node);

		if (m->value == value)
			return m;
	}
	return NULL;
}

static void take_odd(struct hash_node *n, void *arg)
{
	struct member *m = container_of(n, struct member, node);

	if (m->value % 2)
		hash_table_remove(arg, n);
}

static void table_grows_and_keeps_everything(void **state)
{
	enum { N = 5000 };
	struct hash_table *t;
	struct member *m = calloc(N, sizeof(*m));

	(void)state;
	assert_non_null(m);
	assert_int_equal(hash_table_new(&t), 0);
	assert_null(hash_table_find(t, 1, NULL)); /* before there are slots */
	for (unsigned i = 0; i < N; i++) {
		m[i].value = i;
		assert_int_equal(hash_table_add(t, &m[i].node, i / 3), 0); /* three to a hash */
	}
	assert_int_equal(hash_table_count(t), N);
	for (unsigned i = 0; i < N; i++)
		assert_ptr_equal(look_up(t, i / 3, i), &m[i]);
	assert_null(look_up(t, 0, 3));
	hash_table_foreach(t, take_odd, t);
	assert_int_equal(hash_table_count(t), N / 2);
	for (unsigned i = 0; i < N; i++)
		assert_ptr_equal(look_up(t, i / 3, i), i % 2 ? NULL : &m[i]);
	hash_table_free(t);
	free(m);
}

/* Cursor. */

static void cursor_reads_and_sticks(void **state)
{
	const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	uint8_t copy[4];

	(void)state;
	assert_int_equal(cursor_u8(&c), 1);
	assert_int_equal(cursor_u16(&c), 0x0203);
	assert_int_equal(cursor_u32(&c), 0x04050607);
	assert_int_equal(cursor_left(&c), 3);
	assert_false(c.bad);
	cursor_copy(&c, copy, sizeof(copy));
	assert_true(c.bad);
	assert_int_equal(copy[0] | copy[1] | copy[2] | copy[3], 0);
	assert_int_equal(cursor_u8(&c), 0); /* three are left, but it sticks */
	assert_null(cursor_bytes(&c, 0));
}

static void cursor_limit_hides_the_rest(void **state)
{
	const uint8_t bytes[] = {1, 2, 3, 4};
	struct cursor c = cursor_init(bytes, sizeof(bytes));

	(void)state;
	cursor_limit(&c, 2);
	assert_int_equal(cursor_u16(&c), 0x0102);
	assert_false(c.bad);
	assert_ptr_equal(cursor_bytes(&c, 0), bytes + 2);
	assert_int_equal(cursor_u8(&c), 0);
	assert_true(c.bad);
	c = cursor_init(bytes, sizeof(bytes));
	cursor_limit(&c, 5);
	assert_true(c.bad);
}

/* List. */

static void list_keeps_order(void **state)
{
	struct list head, a, b, c, *seen[3];
	int n = 0;

	(void)state;
	list_init(&head);
	list_init(&a);
	list_init(&b);
	list_init(&c);
	assert_true(list_empty(&head));
	list_append(&head, &a);
	list_append(&head, &b);
	list_append(&head, &c);
	list_foreach_safe (node, &head) {
		seen[n++] = node;
		if (node == &b)
			list_remove(node);
	}
	assert_int_equal(n, 3);
	assert_ptr_equal(seen[0], &a);
	assert_ptr_equal(seen[1], &b);
	assert_ptr_equal(seen[2], &c);
	assert_ptr_equal(a.next, &c);
	list_remove(&b); /* harmless */
	list_remove(&a);
	list_remove(&c);
	assert_true(list_empty(&head));
}

/* Loop. */

struct watched {
	struct loop_source src;
	struct loop *loop;
	struct watched *victim; /* removed when this one is ready */
	unsigned ran;
	int peer;
	uint32_t events;
};

static void watched_ready(struct loop_source *src, uint32_t events, usec_t now)
{
	struct watched *w = container_of(src, struct watched, src);

	(void)now;
	w->ran++;
	w->events = events;
	if (w->victim)
		loop_remove(w->loop, &w->victim->src);
}

static void watch(struct watched *w, struct loop *l)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	*w = (struct watched){
	    .src = {.fd = fds[0], .ready = watched_ready}, .loop = l, .peer = fds[1]};
	assert_int_equal(loop_add(l, &w->src, EPOLLIN), 0);
	assert_int_equal(write(w->peer, "x", 1), 1);
}

static void unwatch(struct watched *w)
{
	loop_remove(w->loop, &w->src);
	fd_close(&w->src.fd);
	fd_close(&w->peer);
}

static void source_removed_within_a_batch_is_not_called(void **state)
{
	struct loop *l;
	struct watched a, b;

	(void)state;
	assert_int_equal(loop_new(&l), 0);
	watch(&a, l);
	watch(&b, l);
	a.victim = &b;
	b.victim = &a; /* whichever comes first takes the other out */
	assert_int_equal(loop_turn(l, 1, 0), 0);
	assert_int_equal(a.ran + b.ran, 1);
	unwatch(&a);
	unwatch(&b);
	loop_free(l);
}

static void source_may_remove_itself(void **state)
{
	struct loop *l;
	struct watched a;

	(void)state;
	assert_int_equal(loop_new(&l), 0);
	watch(&a, l);
	a.victim = &a;
	assert_int_equal(loop_turn(l, 1, 0), 0);
	assert_int_equal(loop_turn(l, 2, 0), 0);
	assert_int_equal(a.ran, 1);
	assert_int_equal(a.events, EPOLLIN);
	unwatch(&a);
	loop_free(l);
}

static void events_can_be_changed(void **state)
{
	struct loop *l;
	struct watched a;

	(void)state;
	assert_int_equal(loop_new(&l), 0);
	watch(&a, l);
	assert_int_equal(loop_modify(l, &a.src, 0), 0);
	assert_int_equal(loop_turn(l, 1, 0), 0);
	assert_int_equal(a.ran, 0);
	assert_int_equal(loop_modify(l, &a.src, EPOLLIN), 0);
	assert_int_equal(loop_turn(l, 2, 0), 0);
	assert_int_equal(a.ran, 1);
	assert_int_equal(loop_add(l, &a.src, EPOLLIN), -EEXIST);
	unwatch(&a);
	loop_free(l);
}

struct job {
	struct loop_task task;
	struct loop *loop;
	struct job *next; /* put off when this one runs */
	unsigned ran;
	usec_t at;
};

static void job_run(struct loop_task *task, usec_t now)
{
	struct job *j = container_of(task, struct job, task);

	j->ran++;
	j->at = now;
	if (j->next) {
		loop_defer(j->loop, &j->next->task);
		j->next = NULL;
	}
}

static void deferred_work_runs_once_at_the_end_of_the_turn(void **state)
{
	struct loop *l;
	struct job a = {0}, b = {0}, never = {0};

	(void)state;
	assert_int_equal(loop_new(&l), 0);
	a.loop = l;
	a.next = &b;
	loop_task_init(&a.task, job_run);
	loop_task_init(&b.task, job_run);
	loop_task_init(&never.task, job_run);
	loop_undefer(&a.task); /* harmless */
	loop_defer(l, &a.task);
	loop_defer(l, &a.task);
	loop_defer(l, &never.task);
	loop_undefer(&never.task);
	assert_int_equal(a.ran, 0);
	assert_int_equal(loop_turn(l, 77, 0), 0);
	assert_int_equal(a.ran, 1);
	assert_int_equal(a.at, 77);
	assert_int_equal(b.ran, 0); /* put off by a task: it waits for the next turn, */
	assert_int_equal(never.ran, 0);
	assert_int_equal(loop_turn(l, 78, 60000), 0); /* which does not wait */
	assert_int_equal(a.ran, 1);
	assert_int_equal(b.ran, 1);
	assert_int_equal(b.at, 78);
	assert_int_equal(loop_turn(l, 79, 0), 0);
	assert_int_equal(a.ran + b.ran, 2);
	loop_free(l);
}

struct stopper {
	struct timer timer;
	struct loop *loop;
};

static void stopper_expire(struct timer *t, usec_t now)
{
	(void)now;
	loop_stop(container_of(t, struct stopper, timer)->loop, 7);
}

static void loop_runs_timers_until_stopped(void **state)
{
	struct stopper s;

	(void)state;
	assert_int_equal(loop_new(&s.loop), 0);
	timer_init(&s.timer, stopper_expire);
	assert_int_equal(timer_set(loop_timers(s.loop), &s.timer, 1), 0); /* long past */
	assert_int_equal(loop_run(s.loop), 7);
	loop_free(s.loop);
}

/* Descriptors. */

static void descriptors_have_owners(void **state)
{
	int fds[2], taken;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	{
		cleanup_fd int in = fds[0];
		cleanup_fd int out = fds[1];

		assert_true(fcntl(in, F_GETFD) >= 0);
		taken = take_fd(&out);
		assert_int_equal(out, -1);
	}
	assert_int_equal(fcntl(fds[0], F_GETFD), -1);
	assert_true(fcntl(taken, F_GETFD) >= 0);
	fd_close(&taken);
	assert_int_equal(taken, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(timer_runs_once_when_due),
	    cmocka_unit_test(timer_moved_later_wakes_nobody_early),
	    cmocka_unit_test(timer_moved_earlier_runs_earlier),
	    cmocka_unit_test(timer_off_and_dropped_do_not_run),
	    cmocka_unit_test(timer_may_set_itself_again),
	    cmocka_unit_test(many_timers_in_any_order),
	    cmocka_unit_test(siphash_is_the_published_one),
	    cmocka_unit_test(random_keys_differ),
	    cmocka_unit_test(table_grows_and_keeps_everything),
	    cmocka_unit_test(cursor_reads_and_sticks),
	    cmocka_unit_test(cursor_limit_hides_the_rest),
	    cmocka_unit_test(list_keeps_order),
	    cmocka_unit_test(source_removed_within_a_batch_is_not_called),
	    cmocka_unit_test(source_may_remove_itself),
	    cmocka_unit_test(events_can_be_changed),
	    cmocka_unit_test(deferred_work_runs_once_at_the_end_of_the_turn),
	    cmocka_unit_test(loop_runs_timers_until_stopped),
	    cmocka_unit_test(descriptors_have_owners),
	};

	return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
