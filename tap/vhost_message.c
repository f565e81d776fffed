/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/vhost_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Flags of the header. */
#define FLAGS_VERSION   1U
#define FLAG_REPLY      4U
#define FLAG_NEED_REPLY 8U

struct header {
	uint32_t request, flags, size;
};

_Static_assert(sizeof(struct header) == sizeof(((struct vhost_receiver *)0)->header), "header");

/* True if payload and descriptors are such as this kind may have. */
typedef bool (*validator)(const struct vhost_message *m, uint32_t size);

static bool is_plain(const struct vhost_message *m, uint32_t size)
{
	(void)m;
	(void)size;
	return true;
}

static bool is_state(const struct vhost_message *m, uint32_t size)
{
	(void)size;
	return m->payload.state.index < VHOST_QUEUES_MAX;
}

static bool is_flag(const struct vhost_message *m, uint32_t size)
{
	return is_state(m, size) && m->payload.state.num <= 1;
}

static bool is_base(const struct vhost_message *m, uint32_t size)
{
	return is_state(m, size) && m->payload.state.num <= UINT16_MAX;
}

static bool is_addresses(const struct vhost_message *m, uint32_t size)
{
	(void)size;
	return m->payload.addresses.index < VHOST_QUEUES_MAX && m->payload.addresses.flags <= 1;
}

/* A table has as many descriptors as regions, and says so. */
static bool is_memory(const struct vhost_message *m, uint32_t size)
{
	uint32_t count = m->payload.memory.count;

	return count <= VHOST_FDS_MAX && m->fd_count == count &&
	       size >= offsetof(struct vhost_memory_table, regions[count]);
}

static bool is_ring_fd(const struct vhost_message *m, uint32_t size)
{
	uint64_t n = m->payload.number;

	(void)size;
	return !(n & ~(uint64_t)(VHOST_RING_INDEX | VHOST_RING_NO_FD)) &&
	       (n & VHOST_RING_INDEX) < VHOST_QUEUES_MAX &&
	       m->fd_count == (n & VHOST_RING_NO_FD ? 0 : 1);
}

/* RFC 791 3.2: below 68 there is no IP; above, nothing that a length field could say. */
static bool is_mtu(const struct vhost_message *m, uint32_t size)
{
	(void)size;
	return m->payload.number >= 68 && m->payload.number <= 65535;
}

static bool is_status(const struct vhost_message *m, uint32_t size)
{
	(void)size;
	return m->payload.number <= 0xff;
}

/* One row a kind of message. */
struct kind {
	const char *name;
	uint8_t size_min, fds_min, fds_max;
	uint16_t size_max;
	validator valid;
};

#define KIND(name, type, fds, check)                                                               \
	[VHOST_##name] = {#name, sizeof(type), fds, fds, sizeof(type), check}
#define KIND_EMPTY(name) [VHOST_##name] = {#name, 0, 0, 0, 0, is_plain}

static const struct kind kinds[VHOST_REQUEST_END] = {
    KIND_EMPTY(GET_FEATURES),
    KIND(SET_FEATURES, uint64_t, 0, is_plain),
    KIND_EMPTY(SET_OWNER),
    KIND_EMPTY(RESET_OWNER),
    [VHOST_SET_MEM_TABLE] = {"SET_MEM_TABLE", 8, 0, VHOST_FDS_MAX,
			     sizeof(struct vhost_memory_table), is_memory},
    KIND(SET_LOG_BASE, struct vhost_log, 1, is_plain),
    /* An eventfd to tell of writes by, of which nobody makes use. */
    [VHOST_SET_LOG_FD] = {"SET_LOG_FD", 0, 1, 1, sizeof(uint64_t), is_plain},
    KIND(SET_VRING_NUM, struct vhost_ring_state, 0, is_state),
    KIND(SET_VRING_ADDR, struct vhost_ring_addresses, 0, is_addresses),
    KIND(SET_VRING_BASE, struct vhost_ring_state, 0, is_base),
    KIND(GET_VRING_BASE, struct vhost_ring_state, 0, is_state),
    [VHOST_SET_VRING_KICK] = {"SET_VRING_KICK", 8, 0, 1, 8, is_ring_fd},
    [VHOST_SET_VRING_CALL] = {"SET_VRING_CALL", 8, 0, 1, 8, is_ring_fd},
    [VHOST_SET_VRING_ERR] = {"SET_VRING_ERR", 8, 0, 1, 8, is_ring_fd},
    KIND_EMPTY(GET_PROTOCOL_FEATURES),
    KIND(SET_PROTOCOL_FEATURES, uint64_t, 0, is_plain),
    KIND_EMPTY(GET_QUEUE_NUM),
    KIND(SET_VRING_ENABLE, struct vhost_ring_state, 0, is_flag),
    KIND(SEND_RARP, uint64_t, 0, is_plain),
    KIND(NET_SET_MTU, uint64_t, 0, is_mtu),
    KIND_EMPTY(GET_MAX_MEM_SLOTS),
    KIND(ADD_MEM_REG, struct vhost_one_region, 1, is_plain),
    /* Some front ends send the region's descriptor along (specification of REM_MEM_REG). */
    [VHOST_REM_MEM_REG] = {"REM_MEM_REG", sizeof(struct vhost_one_region), 0, 1,
			   sizeof(struct vhost_one_region), is_plain},
    KIND(SET_STATUS, uint64_t, 0, is_status),
    KIND_EMPTY(GET_STATUS),
};

const char *vhost_request_name(enum vhost_request request)
{
	return request < VHOST_REQUEST_END && kinds[request].name ? kinds[request].name : "unknown";
}

void vhost_receiver_init(struct vhost_receiver *r)
{
	*r = (struct vhost_receiver){0};
}

void vhost_receiver_reset(struct vhost_receiver *r)
{
	for (unsigned i = 0; i < r->message.fd_count; i++)
		fd_close(&r->message.fds[i]);
	vhost_receiver_init(r);
}

/* Takes the descriptors of one recvmsg(2). More than there is room for are closed by the kernel,
 * which says so. */
static int take_fds(struct vhost_message *m, struct msghdr *msg)
{
	int r = msg->msg_flags & MSG_CTRUNC ? -EPROTO : 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (m->fd_count < VHOST_FDS_MAX) {
				m->fds[m->fd_count++] = fd;
			} else {
				fd_close(&fd);
				r = -EPROTO;
			}
		}
	}
	return r;
}

/* Reads at most len bytes: never more than belongs to this message, so that descriptors can't be
 * another one's. 1: some came. */
static int read_some(struct vhost_receiver *r, int fd, void *to, size_t len)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(int) * VHOST_FDS_MAX)];
	} control;
	struct iovec iov = {.iov_base = to, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int e;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	e = take_fds(&r->message, &msg);
	if (e < 0)
		return e;
	if (!n)
		return -EPIPE;
	r->got += (size_t)n;
	return 1;
}

static int check_header(struct vhost_receiver *r)
{
	struct header h;
	const struct kind *k;

	memcpy(&h, r->header, sizeof(h));
	if (h.request >= VHOST_REQUEST_END || !kinds[h.request].name ||
	    (h.flags & ~FLAG_NEED_REPLY) != FLAGS_VERSION)
		return -EPROTO;
	k = &kinds[h.request];
	if (h.size < k->size_min || h.size > k->size_max)
		return -EPROTO;
	r->message.request = (enum vhost_request)h.request;
	r->message.need_reply = h.flags & FLAG_NEED_REPLY;
	r->wanted = sizeof(h) + h.size;
	return 0;
}

static int check_message(const struct vhost_receiver *r)
{
	const struct vhost_message *m = &r->message;
	const struct kind *k = &kinds[m->request];

	if (m->fd_count < k->fds_min || m->fd_count > k->fds_max)
		return -EPROTO;
	return k->valid(m, (uint32_t)(r->wanted - sizeof(r->header))) ? 1 : -EPROTO;
}

int vhost_receive(struct vhost_receiver *r, int fd)
{
	const size_t header = sizeof(r->header);

	if (r->wanted && r->got == r->wanted)
		vhost_receiver_reset(r); /* the one before */
	for (;;) {
		int e;

		if (r->got < header)
			e = read_some(r, fd, r->header + r->got, header - r->got);
		else
			e = read_some(r, fd, (uint8_t *)&r->message.payload + r->got - header,
				      r->wanted - r->got);
		if (e == 1 && r->got == header)
			e = check_header(r) < 0 ? -EPROTO : 1;
		if (e < 1)
			return e;
		if (r->wanted && r->got == r->wanted)
			return check_message(r);
	}
}

int vhost_reply(int fd, enum vhost_request request, const void *payload, uint32_t size)
{
	struct header h = {.request = request, .flags = FLAGS_VERSION | FLAG_REPLY, .size = size};
	struct iovec iov[2] = {{.iov_base = &h, .iov_len = sizeof(h)},
			       {.iov_base = (void *)(uintptr_t)payload, .iov_len = size}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = size ? 2 : 1};
	ssize_t n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return -errno;
	return (size_t)n == sizeof(h) + size ? 0 : -EAGAIN;
}
