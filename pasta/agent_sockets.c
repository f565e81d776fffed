/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/agent_sockets.h"

#include <errno.h>

#include "nat/forward.h"

/* ETOOMANYREFS: the user's processes have more descriptors under way than RLIMIT_NOFILE (unix(7)).
 * That passes, so the engine is told and the agent goes on. */
static int make(int sock, const struct agent_message *request)
{
	enum agent_socket_kind kind = request->sockets.kind;
	int family = agent_socket_family(kind);
	int type = agent_socket_type(kind) | SOCK_CLOEXEC | SOCK_NONBLOCK;
	struct agent_message m = {.type = AGENT_SOCKETS, .sockets = {.kind = kind}};
	struct agent_fds fds cleanup_agent_fds = {0};
	int r;

	while (fds.count < request->sockets.count) {
		int fd = socket(family, type, 0);

		if (fd < 0) {
			m.sockets.error = (uint32_t)errno;
			break;
		}
		fds.fd[fds.count++] = fd;
	}
	m.sockets.count = fds.count;
	r = agent_message_send(sock, &m, fds.fd, fds.count);
	if (r == -ETOOMANYREFS) {
		m.sockets.count = 0;
		m.sockets.error = ETOOMANYREFS;
		r = agent_message_send(sock, &m, NULL, 0);
	}
	return r;
}

static int listen_on(int sock, const struct agent_message *request)
{
	struct agent_message m = {.type = AGENT_LISTENING,
				  .listening = {.serial = request->listen.serial}};
	struct agent_fds fds cleanup_agent_fds = {0};
	struct rule rule;
	int r;

	agent_listen_unpack(request, &rule);
	for (unsigned port = rule.first; port <= rule.last; port++) {
		int fd;

		r = forward_open(&rule, (uint16_t)port, false, &fd);
		m.listening.error[m.listening.count++] = (uint16_t)-r;
		if (r == 0)
			fds.fd[fds.count++] = fd;
	}
	r = agent_message_send(sock, &m, fds.fd, fds.count);
	if (r == -ETOOMANYREFS) {
		for (unsigned i = 0; i < m.listening.count; i++)
			m.listening.error[i] = ETOOMANYREFS;
		r = agent_message_send(sock, &m, NULL, 0);
	}
	return r;
}

int agent_sockets_serve(int sock, const struct agent_message *request)
{
	return request->type == AGENT_MAKE ? make(sock, request) : listen_on(sock, request);
}
