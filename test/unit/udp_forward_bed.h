/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of inbound UDP share: a rule's port, and two network namespaces, the second of
 * which has the guest's addresses. */
#ifndef TEST_UNIT_UDP_FORWARD_BED_H
#define TEST_UNIT_UDP_FORWARD_BED_H

#include "test/unit/udp_bed.h"

#define PORT   5000
#define TARGET 6000

/* One more address of the host, by family. */
static const char *const second[IP_FAMILIES] = {"198.51.100.10", "2001:db8::10"};

/* The namespaces, and what gives sockets in them. */
struct nets {
	struct side_sockets sides;
	int ns[FORWARD_SIDES];
	int failing; /* calls that fail with EMFILE first */
};

static struct nets nets;

static inline void go_to(enum forward_side side)
{
	assert_int_equal(setns(nets.ns[side], CLONE_NEWNET), 0);
}

static inline int get_socket(struct side_sockets *s, enum forward_side side, int family, int type,
			     int *fd)
{
	struct nets *n = container_of(s, struct nets, sides);

	if (n->failing) {
		n->failing--;
		return -EMFILE;
	}
	go_to(side);
	*fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	go_to(FORWARD_HOST);
	return *fd < 0 ? -errno : 0;
}

static inline int service_on(enum forward_side side, const char *addr, uint16_t port)
{
	int fd;

	go_to(side);
	fd = service(addr, port);
	go_to(FORWARD_HOST);
	return fd;
}

/* A bed with one rule: PORT to TARGET on the other side, listening on addr, NULL: on everything. */
struct forward_bed {
	struct bed *b;
	struct rule rule;
	struct forward_port port;
};

static inline struct forward_bed forward_bed_new(const struct names *n, const struct bed_options *o,
						 const char *addr, enum forward_side side)
{
	struct forward_bed fb = {.b = bed_new(n, o)};

	fb.rule = (struct rule){.proto = IPPROTO_UDP,
				.dual_stack = !addr,
				.addr = addr ? ip(addr) : ip_any[IP_V6],
				.first = PORT,
				.last = PORT,
				.target = ip_any[IP_V6],
				.target_first = TARGET};
	fb.port = (struct forward_port){.port = PORT, .side = side};
	go_to(side);
	assert_int_equal(forward_open(&fb.rule, PORT, false, &fb.port.source.fd), 0);
	go_to(FORWARD_HOST);
	return fb;
}

/* Not in forward_bed_new() because the rule must stay where it is. */
static inline struct bed *serve(struct forward_bed *fb)
{
	fb->port.rule = &fb->rule;
	assert_int_equal(udp_listen(fb->b->udp, &fb->port), 0);
	return fb->b;
}

static inline void forward_bed_free(struct forward_bed *fb)
{
	udp_unlisten(fb->b->udp, &fb->port);
	udp_unlisten(fb->b->udp, &fb->port);
	close(fb->port.source.fd);
	bed_free(fb->b);
}

static inline void send_to(int fd, const char *addr, uint16_t port, const char *text)
{
	struct endpoint e = {.addr = ip(addr), .port = port};
	socklen_t len = endpoint_to_sockaddr(&e, 1, &got.address);

	assert_int_equal(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&got.address, len),
			 strlen(text));
}

static inline void receive_text_from(int fd, const char *from, uint16_t port, const char *text)
{
	struct ip_addr a = ip(from);

	receive_text(fd, text);
	assert_memory_equal(got.from.addr.b, a.b, 16);
	assert_int_equal(got.from.port, port);
}

static inline void expect_flows(struct bed *b, usec_t at, size_t count)
{
	b->now = at;
	assert_int_equal(loop_turn(b->loop, at, 0), 0);
	assert_int_equal(udp_flow_count(b->udp), count);
}

static inline int enter_both(void **state)
{
	enter(state);
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct ip_addr a = ip(second[f]);

		own_net_add(&a);
	}
	nets.sides.get = get_socket;
	nets.ns[FORWARD_HOST] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	own_net_enter();
	for (int f = 0; f < IP_FAMILIES; f++) {
		struct ip_addr a = ip(names[f].guest);

		own_net_add(&a);
	}
	nets.ns[FORWARD_NS] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_true(nets.ns[FORWARD_HOST] >= 0 && nets.ns[FORWARD_NS] >= 0);
	go_to(FORWARD_HOST);
	return 0;
}

#endif
