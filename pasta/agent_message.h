/* SPDX-License-Identifier: BSD-3-Clause */
/* What engine and agent say to each other, over a SOCK_SEQPACKET pair: messages of one size, each
 * of a type that has a row in the table (direction, descriptors, validator). Neither side believes
 * the other: a message that fits no row, or comes from the wrong side, or with a wrong number of
 * descriptors, is refused and its descriptors are closed. */
#ifndef PASTA_AGENT_MESSAGE_H
#define PASTA_AGENT_MESSAGE_H

#include <sys/socket.h>

#include "core/fd.h"
#include "nat/rules.h"
#include "pasta/netconf.h"
#include "tap/tap.h"

enum agent_message_type {
	/* To the engine: the network is set up; carries a socket to know the namespace by, the tun
	 * descriptor, and what shows who listens there. */
	AGENT_READY = 1,
	AGENT_EXITED,    /* to the engine: the command ended, and the agent is about to */
	AGENT_RELEASE,   /* to the agent: let the command start */
	AGENT_SIGNAL,    /* to the agent: pass a signal on to the command */
	AGENT_MAKE,      /* to the agent: make sockets */
	AGENT_SOCKETS,   /* to the engine: the answer, with the sockets */
	AGENT_LISTEN,    /* to the agent: open the sockets of a rule */
	AGENT_LISTENING, /* to the engine: the answer, with those that could be had */
	AGENT_TYPES
};

/* A message can carry 253 (unix(7)). */
#define AGENT_FDS_MAX 128

/* Sockets without an address, by kind. */
enum agent_socket_kind {
	AGENT_TCP_V4,
	AGENT_TCP_V6,
	AGENT_UDP_V4,
	AGENT_UDP_V6,
	AGENT_SOCKET_KINDS
};

/* AF_INET or AF_INET6, SOCK_STREAM or SOCK_DGRAM. */
static inline int agent_socket_family(enum agent_socket_kind kind)
{
	return kind == AGENT_TCP_V4 || kind == AGENT_UDP_V4 ? AF_INET : AF_INET6;
}

static inline int agent_socket_type(enum agent_socket_kind kind)
{
	return kind == AGENT_TCP_V4 || kind == AGENT_TCP_V6 ? SOCK_STREAM : SOCK_DGRAM;
}

/* Only fixed-width integers: any bytes whatever are valid values for the validator to look at. */
struct agent_message {
	uint32_t type;
	union {
		struct {
			uint32_t features;    /* AGENT_FEATURE_* */
			uint32_t unsupported; /* bit n: family n */
			uint32_t parts;       /* AGENT_PART_*: descriptors behind the first one */
			uint8_t mac[6];
			uint8_t link_local[16];
		} ready;
		struct {
			uint32_t status; /* as a shell has it: N, or 128 + signal */
			/* 1: the terminal's foreground group is one inside */
			uint32_t has_terminal;
		} exited;
		struct {
			uint32_t number;
			/* 1: the foreground group was signalled by the kernel */
			uint32_t from_terminal;
		} signal;
		struct {
			uint32_t kind;  /* enum agent_socket_kind */
			uint32_t count; /* asked for, or there */
			uint32_t error; /* errno that kept the others from being made, or 0 */
		} sockets;              /* MAKE (without error) and SOCKETS */
		struct {
			uint32_t serial; /* of the request */
			uint8_t proto, dual_stack;
			uint8_t addr[16];
			char ifname[IF_NAMESIZE];
			uint16_t first, last;
		} listen;
		struct {
			uint32_t serial;
			uint32_t count;
			/* A port: 0, and there is a socket; or errno */
			uint16_t error[AGENT_FDS_MAX];
		} listening;
	};
};

#define AGENT_FEATURE_CSUM    1u
#define AGENT_FEATURE_TCP_GSO 2u
#define AGENT_FEATURE_UDP_GSO 4u

/* In this order. */
#define AGENT_PART_TAP     1u
#define AGENT_PART_DIAG    2u          /* NETLINK_SOCK_DIAG */
#define AGENT_PART_STAT(f) (4u << (f)) /* sockstat of family f */

/* Descriptors that come with a message, in order; -1 for one that was taken out. */
struct agent_fds {
	unsigned count;
	int fd[AGENT_FDS_MAX];
};

void agent_fds_close(struct agent_fds *fds);
#define cleanup_agent_fds __attribute__((cleanup(agent_fds_close)))

enum agent_direction { AGENT_TO_ENGINE, ENGINE_TO_AGENT };

/* Sends m, with count descriptors (the caller keeps them). Never raises SIGPIPE. 0 or negative
 * errno. */
int agent_message_send(int sock, const struct agent_message *m, const int *fd,
		       unsigned count) must_check;

/* Receives one message that goes in this direction, waiting for it if wait says so (as long as
 * SO_RCVTIMEO of the socket). fds: what came with it, the caller's, close-on-exec. 0; -EAGAIN;
 * -ECONNRESET if the other side is gone; -EMFILE if m came without its descriptors, as this process
 * may have no more; -EBADMSG for what should not have been sent; other negative errno. Nothing is
 * in fds after a failure. */
int agent_message_receive(int sock, enum agent_direction direction, bool wait,
			  struct agent_message *m, struct agent_fds *fds) must_check;

/* READY from and to plain values. */
void agent_ready_pack(struct agent_message *m, const struct tap_features *features,
		      const struct netconf_result *result);
void agent_ready_unpack(const struct agent_message *m, struct tap_features *features,
			struct netconf_result *result);

/* LISTEN from and to the rule (what of it concerns listening) and its ports. */
void agent_listen_pack(struct agent_message *m, const struct rule *rule, uint16_t first,
		       uint16_t last);
void agent_listen_unpack(const struct agent_message *m, struct rule *rule);

#endif
