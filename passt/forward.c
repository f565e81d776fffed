/* SPDX-License-Identifier: BSD-3-Clause */
#include "passt/forward.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "core/log.h"
#include "passt/forward_state.h"

/* An instance whose namespace has gone ends within milliseconds, unless the machine is busy. */
#define RETRIES     50
#define RETRY_MSEC  10
/* Descriptors that the rest of the program needs at least, some flows included. */
#define FDS_RESERVE 128

static int failures_add(struct port_failures *f, const struct port_failure *e)
{
	struct port_failure *last = f->count ? &f->items[f->count - 1] : NULL;

	if (last && last->rule == e->rule && last->err == e->err && last->last + 1 == e->first) {
		last->last = e->last;
		return 0;
	}
	if (f->count == f->room) {
		unsigned room = f->room ? 2 * f->room : 16;
		struct port_failure *p = realloc(f->items, room * sizeof(*p));

		if (!p)
			return -ENOMEM;
		f->items = p;
		f->room = room;
	}
	f->items[f->count++] = *e;
	return 0;
}

/* Takes over fd, also on failure. */
static int adopt(struct forward *f, struct forward_rule *r, uint16_t port, int fd)
{
	struct open_port *p = calloc(1, sizeof(*p));
	int err;

	if (!p) {
		fd_close(&fd);
		return -ENOMEM;
	}
	p->owner = r;
	p->port = (struct forward_port){
	    .source = {.fd = fd}, .rule = &r->rule, .port = port, .side = r->side};
	list_init(&p->node);
	p->served = f->loop != NULL;
	err = p->served ? f->ops.serve(f->ops.arg, &p->port) : 0;
	if (err < 0) {
		fd_close(&p->port.source.fd);
		free(p);
		return err;
	}
	list_append(&r->ports, &p->node);
	r->count++;
	return 0;
}

void forward_close_port(struct forward *f, struct open_port *p)
{
	if (p->served)
		f->ops.unserve(f->ops.arg, &p->port);
	fd_close(&p->port.source.fd);
	list_remove(&p->node);
	p->owner->count--;
	free(p);
}

/* Up to FORWARD_BATCH ports: a descriptor or negative errno each. */
static void open_batch(const struct forward *f, const struct forward_rule *r, unsigned first,
		       unsigned last, int *results)
{
	int err = 0;

	if (r->side == FORWARD_NS)
		err =
		    f->ops.open_ns(f->ops.arg, &r->rule, (uint16_t)first, (uint16_t)last, results);
	for (unsigned port = first; port <= last; port++) {
		int *fd = &results[port - first];

		if (r->side == FORWARD_HOST)
			err = forward_open(&r->rule, (uint16_t)port, f->freebind, fd);
		if (err < 0)
			*fd = err;
	}
}

int forward_open_range(struct forward *f, struct forward_rule *r, uint16_t first, uint16_t last,
		       struct port_failures *failures)
{
	int results[FORWARD_BATCH], status = 0;

	for (unsigned from = first; from <= last; from += FORWARD_BATCH) {
		unsigned to = from + FORWARD_BATCH - 1 < last ? from + FORWARD_BATCH - 1 : last;

		open_batch(f, r, from, to, results);
		for (unsigned port = from; port <= to; port++) {
			int err = results[port - from];

			if (err >= 0)
				err = adopt(f, r, (uint16_t)port, err);
			if (err < 0 && status == 0)
				status = failures_add(
				    failures,
				    &(struct port_failure){r, (uint16_t)port, (uint16_t)port, err});
		}
		if (status < 0)
			return status;
	}
	return 0;
}

/* Before anything is opened: half of a range helps nobody, and what comes next would fail for a
 * reason that is hard to see. */
static int check_limit(const struct forward *f)
{
	struct rlimit limit;
	rlim_t ports = 0;

	for (unsigned i = 0; i < f->rule_count; i++) {
		const struct rule *r = &f->rules[i].rule;

		if (!r->scan)
			ports += r->last - r->first + 1U;
	}
	if (!ports || getrlimit(RLIMIT_NOFILE, &limit) < 0 || ports + FDS_RESERVE <= limit.rlim_cur)
		return 0;
	log_err("%llu ports to forward need %llu descriptors, and the limit is %llu (ulimit -Hn)",
		(unsigned long long)ports, (unsigned long long)ports + FDS_RESERVE,
		(unsigned long long)limit.rlim_cur);
	return -EMFILE;
}

static int open_fixed(struct forward *f, struct port_failures *failures)
{
	int err = 0;

	for (unsigned i = 0; !err && i < f->rule_count; i++) {
		struct forward_rule *r = &f->rules[i];

		if (!r->rule.scan)
			err = forward_open_range(f, r, r->rule.first, r->rule.last, failures);
	}
	return err;
}

/* true if nothing is wrong but that ports are in use. */
static bool worth_waiting(const struct port_failures *failures)
{
	bool in_use = false;

	for (unsigned i = 0; i < failures->count; i++) {
		const struct port_failure *e = &failures->items[i];

		if (e->rule->rule.weak)
			continue;
		if (e->err != -EADDRINUSE)
			return false;
		in_use = true;
	}
	return in_use;
}

/* Tries once more what failed; the rest of a range only if its first port is free by now. */
static int try_again(struct forward *f, struct port_failures *failures)
{
	struct port_failures left = {0}, unused = {0};
	int err = 0;

	for (unsigned i = 0; !err && i < failures->count; i++) {
		const struct port_failure *e = &failures->items[i];
		unsigned before = e->rule->count;

		if (!e->rule->rule.weak)
			err = forward_open_range(f, e->rule, e->first, e->first, &unused);
		if (!err && e->rule->count == before)
			err = failures_add(&left, e);
		else if (!err && e->first < e->last)
			err = forward_open_range(f, e->rule, (uint16_t)(e->first + 1), e->last,
						 &left);
	}
	free(unused.items);
	free(failures->items);
	*failures = left;
	return err;
}

static int open_all(struct forward *f)
{
	struct port_failures failures = {0};
	int err = open_fixed(f, &failures);

	if (!err)
		err = forward_scan_start(f, &failures);
	for (int i = 0; !err && i < RETRIES && worth_waiting(&failures); i++) {
		poll(NULL, 0, RETRY_MSEC);
		err = try_again(f, &failures);
	}
	if (err < 0)
		log_err("Can't open the ports to forward: %s", strerror(-err));
	else
		err = forward_report_failures(f, &failures);
	free(failures.items);
	return err;
}

int forward_new(const struct rule_table tables[FORWARD_SIDES], bool freebind,
		const struct forward_ops *ops, struct forward **out)
{
	unsigned count = tables[FORWARD_HOST].count + tables[FORWARD_NS].count;
	struct forward *f = calloc(1, sizeof(*f));
	int r;

	if (f)
		f->rules = calloc(count ? count : 1, sizeof(*f->rules));
	if (!f || !f->rules) {
		log_err("Can't open the ports to forward: %s", strerror(ENOMEM));
		free(f);
		return -ENOMEM;
	}
	f->ops = *ops;
	f->freebind = freebind;
	f->host_ports = (struct ports_view){-1, {-1, -1}};
	for (int side = 0; side < FORWARD_SIDES; side++) {
		for (unsigned i = 0; i < tables[side].count; i++) {
			struct forward_rule *rule = &f->rules[f->rule_count++];

			rule->rule = tables[side].rules[i];
			rule->side = (enum forward_side)side;
			list_init(&rule->ports);
		}
	}
	r = check_limit(f);
	if (!r)
		r = open_all(f);
	if (r < 0) {
		forward_free(f);
		return r;
	}
	*out = f;
	return 0;
}

int forward_serve(struct forward *f, struct loop *loop)
{
	f->loop = loop;
	for (unsigned i = 0; i < f->rule_count; i++) {
		list_foreach (n, &f->rules[i].ports) {
			struct open_port *p = container_of(n, struct open_port, node);
			int r = f->ops.serve(f->ops.arg, &p->port);

			if (r < 0)
				return r;
			p->served = true;
		}
	}
	return forward_scan_serve(f);
}

unsigned forward_port_count(const struct forward *f, enum forward_side side)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->rule_count; i++)
		n += f->rules[i].side == side ? f->rules[i].count : 0;
	return n;
}

void forward_free(struct forward *f)
{
	if (!f)
		return;
	for (unsigned i = 0; i < f->rule_count; i++) {
		list_foreach_safe (n, &f->rules[i].ports)
			forward_close_port(f, container_of(n, struct open_port, node));
	}
	forward_scan_stop(f);
	free(f->rules);
	free(f);
}
