/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/agent_message.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MAX 4 /* room for more than any row allows, so that surplus ones are seen and closed   \
		   */

struct message_row {
	enum agent_direction direction;
	unsigned fds;
	bool (*valid)(const struct agent_message *m);
};

static bool ready_valid(const struct agent_message *m)
{
	const uint32_t features =
	    AGENT_FEATURE_CSUM | AGENT_FEATURE_TCP_GSO | AGENT_FEATURE_UDP_GSO;

	return !(m->ready.features & ~features) && !(m->ready.unsupported >> IP_FAMILIES);
}

static bool exited_valid(const struct agent_message *m)
{
	return m->exited.status <= 255 && m->exited.has_terminal <= 1;
}

static bool release_valid(const struct agent_message *m)
{
	(void)m;
	return true;
}

/* The four that the engine passes on: a subverted engine can do to the command what Ctrl-C can, no
 * more. */
static bool signal_valid(const struct agent_message *m)
{
	return m->signal.from_terminal <= 1 &&
	       (m->signal.number == SIGTERM || m->signal.number == SIGINT ||
		m->signal.number == SIGHUP || m->signal.number == SIGQUIT);
}

static const struct message_row rows[AGENT_TYPES] = {
    [AGENT_READY] = {AGENT_TO_ENGINE, 1, ready_valid},
    [AGENT_EXITED] = {AGENT_TO_ENGINE, 0, exited_valid},
    [AGENT_RELEASE] = {ENGINE_TO_AGENT, 0, release_valid},
    [AGENT_SIGNAL] = {ENGINE_TO_AGENT, 0, signal_valid},
};

int agent_message_send(int sock, const struct agent_message *m, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	do {
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Moves all descriptors out of the control messages. Returns how many came; those past the first
 * are closed. */
static unsigned collect_fds(struct msghdr *msg, int *first)
{
	unsigned count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (count++ == 0)
				*first = fd;
			else
				close(fd);
		}
	}
	return count;
}

static bool message_fits(const struct agent_message *m, enum agent_direction direction,
			 unsigned fds)
{
	const struct message_row *row;

	if (m->type == 0 || m->type >= AGENT_TYPES)
		return false;
	row = &rows[m->type];
	return row->direction == direction && row->fds == fds && row->valid(m);
}

int agent_message_receive(int sock, enum agent_direction direction, struct agent_message *m,
			  int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	cleanup_fd int first = -1;
	unsigned fds;
	ssize_t n;

	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	fds = collect_fds(&msg, &first);
	if (n == 0)
		return -ECONNRESET;
	if (n != sizeof(*m) || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    !message_fits(m, direction, fds))
		return -EBADMSG;
	*fd = take_fd(&first);
	return 0;
}

void agent_ready_pack(struct agent_message *m, const struct tap_features *features,
		      const struct netconf_result *result)
{
	*m = (struct agent_message){.type = AGENT_READY};
	m->ready.features = (features->csum ? AGENT_FEATURE_CSUM : 0) |
			    (features->tcp_gso ? AGENT_FEATURE_TCP_GSO : 0) |
			    (features->udp_gso ? AGENT_FEATURE_UDP_GSO : 0);
	for (unsigned f = 0; f < IP_FAMILIES; f++)
		m->ready.unsupported |= result->family_unsupported[f] ? 1u << f : 0;
	memcpy(m->ready.mac, result->mac.b, sizeof(m->ready.mac));
	memcpy(m->ready.link_local, result->link_local.b, sizeof(m->ready.link_local));
}

void agent_ready_unpack(const struct agent_message *m, struct tap_features *features,
			struct netconf_result *result)
{
	*features = (struct tap_features){.csum = m->ready.features & AGENT_FEATURE_CSUM,
					  .tcp_gso = m->ready.features & AGENT_FEATURE_TCP_GSO,
					  .udp_gso = m->ready.features & AGENT_FEATURE_UDP_GSO};
	*result = (struct netconf_result){0};
	for (unsigned f = 0; f < IP_FAMILIES; f++)
		result->family_unsupported[f] = m->ready.unsupported & 1u << f;
	memcpy(result->mac.b, m->ready.mac, sizeof(result->mac.b));
	memcpy(result->link_local.b, m->ready.link_local, sizeof(result->link_local.b));
}
