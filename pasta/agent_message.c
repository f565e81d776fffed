/* SPDX-License-Identifier: BSD-3-Clause */
#include "pasta/agent_message.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

struct message_row {
	enum agent_direction direction;
	/* Descriptors that come with it, or negative if its values are not valid. */
	int (*fds)(const struct agent_message *m);
};

static int ready_fds(const struct agent_message *m)
{
	const uint32_t features =
	    AGENT_FEATURE_CSUM | AGENT_FEATURE_TCP_GSO | AGENT_FEATURE_UDP_GSO;
	const uint32_t parts =
	    AGENT_PART_TAP | AGENT_PART_DIAG | AGENT_PART_STAT(IP_V4) | AGENT_PART_STAT(IP_V6);

	if (m->ready.features & ~features || m->ready.unsupported >> IP_FAMILIES ||
	    m->ready.parts & ~parts)
		return -1;
	return 1 + __builtin_popcount(m->ready.parts);
}

static int exited_fds(const struct agent_message *m)
{
	return m->exited.status <= 255 && m->exited.has_terminal <= 1 ? 0 : -1;
}

static int release_fds(const struct agent_message *m)
{
	(void)m;
	return 0;
}

/* The four that the engine passes on: a subverted engine can do to the command what Ctrl-C can, no
 * more. */
static int signal_fds(const struct agent_message *m)
{
	bool known = m->signal.number == SIGTERM || m->signal.number == SIGINT ||
		     m->signal.number == SIGHUP || m->signal.number == SIGQUIT;

	return known && m->signal.from_terminal <= 1 ? 0 : -1;
}

static bool sockets_valid(const struct agent_message *m)
{
	return m->sockets.kind < AGENT_SOCKET_KINDS && m->sockets.count <= AGENT_FDS_MAX;
}

/* A subverted engine can have sockets and listeners of the namespace, with which it shares a
 * network anyway. */
static int make_fds(const struct agent_message *m)
{
	return sockets_valid(m) && m->sockets.count > 0 && !m->sockets.error ? 0 : -1;
}

static bool is_errno(uint32_t e)
{
	return e < 4096; /* MAX_ERRNO of the kernel */
}

/* What the sockets are is looked at where they are taken in (ns_sockets.c). */
static int sockets_fds(const struct agent_message *m)
{
	return sockets_valid(m) && is_errno(m->sockets.error) ? (int)m->sockets.count : -1;
}

static int listen_fds(const struct agent_message *m)
{
	bool proto = m->listen.proto == IPPROTO_TCP || m->listen.proto == IPPROTO_UDP;
	bool ports = m->listen.first > 0 && m->listen.first <= m->listen.last &&
		     m->listen.last - m->listen.first < AGENT_FDS_MAX;
	bool name = memchr(m->listen.ifname, '\0', sizeof(m->listen.ifname));

	return proto && ports && name && m->listen.dual_stack <= 1 ? 0 : -1;
}

static int listening_fds(const struct agent_message *m)
{
	int sockets = 0;

	if (m->listening.count > AGENT_FDS_MAX)
		return -1;
	for (unsigned i = 0; i < m->listening.count; i++) {
		if (!is_errno(m->listening.error[i]))
			return -1;
		sockets += !m->listening.error[i];
	}
	return sockets;
}

static const struct message_row rows[AGENT_TYPES] = {
    [AGENT_READY] = {AGENT_TO_ENGINE, ready_fds},
    [AGENT_EXITED] = {AGENT_TO_ENGINE, exited_fds},
    [AGENT_RELEASE] = {ENGINE_TO_AGENT, release_fds},
    [AGENT_SIGNAL] = {ENGINE_TO_AGENT, signal_fds},
    [AGENT_MAKE] = {ENGINE_TO_AGENT, make_fds},
    [AGENT_SOCKETS] = {AGENT_TO_ENGINE, sockets_fds},
    [AGENT_LISTEN] = {ENGINE_TO_AGENT, listen_fds},
    [AGENT_LISTENING] = {AGENT_TO_ENGINE, listening_fds},
};

/* One more than any message carries, so that a surplus is seen. */
union fd_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE((AGENT_FDS_MAX + 1) * sizeof(int))];
};

void agent_fds_close(struct agent_fds *fds)
{
	for (unsigned i = 0; i < fds->count; i++)
		fd_close(&fds->fd[i]);
	fds->count = 0;
}

int agent_message_send(int sock, const struct agent_message *m, const int *fd, unsigned count)
{
	union fd_control control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (count > AGENT_FDS_MAX)
		return -EINVAL;
	if (count) {
		struct cmsghdr *c;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fd, count * sizeof(int));
	}
	do {
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Moves all descriptors out of the control messages. Returns how many came; those for which there
 * is no room are closed. */
static unsigned collect_fds(struct msghdr *msg, struct agent_fds *fds)
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
			if (count++ < AGENT_FDS_MAX)
				fds->fd[fds->count++] = fd;
			else
				close(fd);
		}
	}
	return count;
}

/* cut: the kernel could not give us all of the descriptors that were sent, which is so when there
 * is no room for them in our table (unix(7), SCM_RIGHTS). */
static int check(const struct agent_message *m, enum agent_direction direction, unsigned fds,
		 bool cut)
{
	const struct message_row *row;
	int want;

	if (m->type == 0 || m->type >= AGENT_TYPES)
		return -EBADMSG;
	row = &rows[m->type];
	want = row->direction == direction ? row->fds(m) : -1;
	if (want < 0)
		return -EBADMSG;
	if (cut)
		return fds < (unsigned)want ? -EMFILE : -EBADMSG;
	return fds == (unsigned)want ? 0 : -EBADMSG;
}

int agent_message_receive(int sock, enum agent_direction direction, bool wait,
			  struct agent_message *m, struct agent_fds *fds)
{
	union fd_control control;
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	unsigned count;
	ssize_t n;
	int r;

	fds->count = 0;
	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	count = collect_fds(&msg, fds);
	if (n == 0)
		r = -ECONNRESET;
	else if (n != sizeof(*m) || msg.msg_flags & MSG_TRUNC)
		r = -EBADMSG;
	else
		r = check(m, direction, count, msg.msg_flags & MSG_CTRUNC);
	if (r < 0)
		agent_fds_close(fds);
	return r;
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

void agent_listen_pack(struct agent_message *m, const struct rule *rule, uint16_t first,
		       uint16_t last)
{
	*m = (struct agent_message){.type = AGENT_LISTEN,
				    .listen = {.proto = rule->proto,
					       .dual_stack = rule->dual_stack,
					       .first = first,
					       .last = last}};
	memcpy(m->listen.addr, rule->addr.b, sizeof(m->listen.addr));
	memcpy(m->listen.ifname, rule->ifname, sizeof(m->listen.ifname));
}

void agent_listen_unpack(const struct agent_message *m, struct rule *rule)
{
	*rule = (struct rule){.proto = m->listen.proto,
			      .dual_stack = m->listen.dual_stack,
			      .first = m->listen.first,
			      .last = m->listen.last};
	memcpy(rule->addr.b, m->listen.addr, sizeof(rule->addr.b));
	memcpy(rule->ifname, m->listen.ifname, sizeof(rule->ifname));
}
