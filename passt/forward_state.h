/* SPDX-License-Identifier: BSD-3-Clause */
/* For the files of forward.h only. */
#ifndef PASST_FORWARD_STATE_H
#define PASST_FORWARD_STATE_H

#include "passt/forward.h"

/* A rule and its sockets. */
struct forward_rule {
	struct rule rule;
	enum forward_side side;
	struct list ports; /* of struct open_port */
	unsigned count;
	struct port_set *failed; /* scan: could not be had, not tried again before long */
	bool any_failed;
};

struct open_port {
	struct list node;
	struct forward_rule *owner;
	struct forward_port port;
	bool served;
};

/* What could not be opened: neighbouring ports with the same reason are one. */
struct port_failure {
	struct forward_rule *rule;
	uint16_t first, last;
	int err;
};

/* All zero: empty. */
struct port_failures {
	struct port_failure *items;
	unsigned count, room;
};

/* What listens on a side, less what we do there ourselves; UDP with TCP's. */
struct port_sight {
	struct port_set tcp, udp;
};

struct forward {
	struct forward_ops ops;
	bool freebind;
	struct forward_rule *rules; /* of both sides */
	unsigned rule_count;
	struct loop *loop; /* from forward_serve() on */

	/* auto: nothing of it is used without rules that scan. */
	bool scans[FORWARD_SIDES][2]; /* by side of the rules; TCP, UDP */
	struct ports_view host_ports;
	const struct ports_view *views[FORWARD_SIDES]; /* NULL: can't be looked at */
	struct ports_counters counters[FORWARD_SIDES];
	bool stale[FORWARD_SIDES];      /* not looked at since they changed */
	unsigned lively[FORWARD_SIDES]; /* ticks at which to look, whatever they say */
	unsigned host_credit;           /* looks at the host for their sake */
	struct port_sight *sights[FORWARD_SIDES];
	struct timer timer;
	unsigned ticks;
};

/* Opens ports first..last of a rule, adding to failures what can't be had. 0 or -ENOMEM. */
int forward_open_range(struct forward *f, struct forward_rule *r, uint16_t first, uint16_t last,
		       struct port_failures *failures) must_check;
void forward_close_port(struct forward *f, struct open_port *p);

/* Prepares for rules that scan, if there are any, and opens what listens now. 0 or -ENOMEM. */
int forward_scan_start(struct forward *f, struct port_failures *failures) must_check;
/* Keeps them up to date. 0 or negative errno. */
int forward_scan_serve(struct forward *f) must_check;
void forward_scan_stop(struct forward *f);

/* Tells the user. -EADDRINUSE or the like if the program can't go on. */
int forward_report_failures(const struct forward *f,
			    const struct port_failures *failures) must_check;

#endif
