/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent's answers to the engine's requests for sockets. */
#ifndef PASTA_AGENT_SOCKETS_H
#define PASTA_AGENT_SOCKETS_H

#include "pasta/agent_message.h"

/* Answers an AGENT_MAKE or AGENT_LISTEN. 0, or negative errno if the engine can't be answered. */
int agent_sockets_serve(int sock, const struct agent_message *request) must_check;

#endif
