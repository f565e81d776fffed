/* SPDX-License-Identifier: BSD-3-Clause */
/* What engine and agent say to each other, over a SOCK_SEQPACKET pair: messages of one size, each
 * of a type that has a row in the table (direction, descriptors, validator). Neither side believes
 * the other: a message that fits no row, or comes from the wrong side, or with a wrong number of
 * descriptors, is refused and its descriptors are closed. */
#ifndef PASTA_AGENT_MESSAGE_H
#define PASTA_AGENT_MESSAGE_H

#include "core/fd.h"
#include "pasta/netconf.h"
#include "tap/tap.h"

enum agent_message_type {
	AGENT_READY = 1, /* to the engine: the network is set up; carries the tun descriptor */
	AGENT_EXITED,    /* to the engine: the command ended, and the agent is about to */
	AGENT_RELEASE,   /* to the agent: let the command start */
	AGENT_SIGNAL,    /* to the agent: pass a signal on to the command */
	AGENT_TYPES
};

/* Only fixed-width integers: any bytes whatever are valid values for the validator to look at. */
struct agent_message {
	uint32_t type;
	union {
		struct {
			uint32_t features;    /* AGENT_FEATURE_* */
			uint32_t unsupported; /* bit n: family n */
			uint8_t mac[6];
			uint8_t link_local[16];
		} ready;
		struct {
			uint32_t status; /* as a shell has it: N, or 128 + signal */
			uint32_t
			    has_terminal; /* 1: the terminal's foreground group is one inside */
		} exited;
		struct {
			uint32_t number;
			uint32_t
			    from_terminal; /* 1: the foreground group was signalled by the kernel */
		} signal;
	};
};

#define AGENT_FEATURE_CSUM    1u
#define AGENT_FEATURE_TCP_GSO 2u
#define AGENT_FEATURE_UDP_GSO 4u

enum agent_direction { AGENT_TO_ENGINE, ENGINE_TO_AGENT };

/* Sends m, with fd if that is not negative (the caller keeps it). Never raises SIGPIPE. 0 or
 * negative errno. */
int agent_message_send(int sock, const struct agent_message *m, int fd) must_check;

/* Receives one message that goes in this direction. *fd: the descriptor that came, or -1; the
 * caller's, close-on-exec. 0; -ECONNRESET if the other side is gone; -EBADMSG for what it should
 * not have sent; other negative errno. */
int agent_message_receive(int sock, enum agent_direction direction, struct agent_message *m,
			  int *fd) must_check;

/* READY from and to plain values. */
void agent_ready_pack(struct agent_message *m, const struct tap_features *features,
		      const struct netconf_result *result);
void agent_ready_unpack(const struct agent_message *m, struct tap_features *features,
			struct netconf_result *result);

#endif
