/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap/vhost_user.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vhost_types.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"

#define BIT(n) (1ULL << (n))

/* CTRL_VQ belongs to the front end, which answers it itself, but lets the guest have it, and
 * several queues by it, only if we don't object. */
#define FEATURES                                                                                   \
	(BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_MTU) |           \
	 BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) |                             \
	 BIT(VIRTIO_NET_F_GUEST_ECN) | BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) | \
	 BIT(VIRTIO_NET_F_HOST_ECN) | BIT(VIRTIO_NET_F_MRG_RXBUF) | BIT(VIRTIO_NET_F_STATUS) |     \
	 BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_MQ) | BIT(VIRTIO_NET_F_GUEST_USO4) |         \
	 BIT(VIRTIO_NET_F_GUEST_USO6) | BIT(VIRTIO_NET_F_HOST_USO) | BIT(VHOST_F_LOG_ALL) |        \
	 BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VIRTIO_RING_F_EVENT_IDX) |                         \
	 BIT(VHOST_PROTOCOL_FEATURES) | BIT(VIRTIO_F_VERSION_1))

/* Numbers of the specification's "Protocol features". */
enum {
	PROTOCOL_MQ = 0,
	PROTOCOL_LOG_SHMFD = 1,
	PROTOCOL_RARP = 2,
	PROTOCOL_REPLY_ACK = 3,
	PROTOCOL_NET_MTU = 4,
	PROTOCOL_CONFIGURE_MEM_SLOTS = 15,
	PROTOCOL_STATUS = 16,
};
#define PROTOCOL_FEATURES                                                                          \
	(BIT(PROTOCOL_MQ) | BIT(PROTOCOL_LOG_SHMFD) | BIT(PROTOCOL_RARP) |                         \
	 BIT(PROTOCOL_REPLY_ACK) | BIT(PROTOCOL_NET_MTU) | BIT(PROTOCOL_CONFIGURE_MEM_SLOTS) |     \
	 BIT(PROTOCOL_STATUS))

struct vhost_user {
	struct vhost_user_events events;
	struct vhost_memory *memory;
	uint64_t features, protocol_features, status;
	struct vhost_ring rings[VHOST_QUEUES_MAX];
};

struct answer {
	bool wanted;
	union vhost_payload payload;
	uint32_t size;
};

static void init(struct vhost_user *v)
{
	v->features = v->protocol_features = v->status = 0;
	for (unsigned i = 0; i < VHOST_QUEUES_MAX; i++)
		v->rings[i] = (struct vhost_ring){.kick = -1, .call = -1, .err = -1};
}

int vhost_user_new(const struct vhost_user_events *ev, struct vhost_user **out)
{
	struct vhost_user *v = calloc(1, sizeof(*v));
	int r;

	if (!v)
		return -ENOMEM;
	v->events = *ev;
	init(v);
	r = vhost_memory_new(&v->memory);
	if (r < 0) {
		free(v);
		return r;
	}
	*out = v;
	return 0;
}

bool vhost_user_has(const struct vhost_user *v, unsigned feature)
{
	return v->features & BIT(feature);
}

uint64_t vhost_user_features(const struct vhost_user *v)
{
	return v->features;
}

struct vhost_ring *vhost_user_ring(struct vhost_user *v, unsigned index)
{
	return &v->rings[index];
}

struct vhost_memory *vhost_user_memory(struct vhost_user *v)
{
	return v->memory;
}

static void stop_ring(struct vhost_user *v, unsigned i)
{
	struct vhost_ring *ring = &v->rings[i];

	if (!ring->queue)
		return;
	v->events.ring_stopping(v->events.arg, i);
	ring->next = virtqueue_next(ring->queue);
	virtqueue_free(ring->queue);
	ring->queue = NULL;
}

static void stop_rings(struct vhost_user *v)
{
	for (unsigned i = 0; i < VHOST_QUEUES_MAX; i++)
		stop_ring(v, i);
}

/* Starts a ring of which everything is known; one that waits for more is left alone. */
static int start_ring(struct vhost_user *v, unsigned i)
{
	struct vhost_ring *ring = &v->rings[i];
	struct virtqueue_config cfg = {.memory = v->memory,
				       .descriptors = ring->addresses.descriptors,
				       .available = ring->addresses.available,
				       .used = ring->addresses.used,
				       .size = ring->size,
				       .next = ring->next,
				       .to_guest = i % 2 == 0,
				       .event_index = vhost_user_has(v, VIRTIO_RING_F_EVENT_IDX),
				       .indirect = vhost_user_has(v, VIRTIO_RING_F_INDIRECT_DESC)};
	int r;

	if (ring->queue || ring->kick < 0 || !ring->size || !ring->placed)
		return 0;
	r = virtqueue_new(&cfg, &ring->queue);
	if (r < 0)
		return r;
	r = v->events.ring_started(v->events.arg, i);
	if (r < 0) {
		virtqueue_free(ring->queue);
		ring->queue = NULL;
	}
	return r;
}

/* After a change of memory or features. A ring that lies nowhere any more stays stopped until it is
 * told another place. */
static int start_rings(struct vhost_user *v)
{
	for (unsigned i = 0; i < VHOST_QUEUES_MAX; i++) {
		int r = start_ring(v, i);

		if (r < 0 && r != -EFAULT)
			return r;
	}
	return 0;
}

void vhost_user_reset(struct vhost_user *v)
{
	stop_rings(v);
	for (unsigned i = 0; i < VHOST_QUEUES_MAX; i++) {
		fd_close(&v->rings[i].kick);
		fd_close(&v->rings[i].call);
		fd_close(&v->rings[i].err);
	}
	vhost_memory_clear(v->memory);
	vhost_memory_drop_log(v->memory);
	init(v);
}

void vhost_user_free(struct vhost_user *v)
{
	if (!v)
		return;
	vhost_user_reset(v);
	vhost_memory_free(v->memory);
	free(v);
}

static void answer_number(struct answer *a, uint64_t n)
{
	a->wanted = true;
	a->payload.number = n;
	a->size = sizeof(n);
}

static int get_features(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)v;
	(void)m;
	answer_number(a, FEATURES);
	return 0;
}

static int get_protocol_features(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)v;
	(void)m;
	answer_number(a, PROTOCOL_FEATURES);
	return 0;
}

static int get_queue_num(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)v;
	(void)m;
	answer_number(a, VHOST_PAIRS_MAX);
	return 0;
}

static int get_slots(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)v;
	(void)m;
	answer_number(a, VHOST_REGIONS_MAX);
	return 0;
}

static int get_status(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)m;
	answer_number(a, v->status);
	return 0;
}

/* Without VERSION_1 headers would be shorter and in the guest's byte order. */
static int set_features(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	uint64_t f = m->payload.number;

	(void)a;
	if (f & ~FEATURES || !(f & BIT(VIRTIO_F_VERSION_1)))
		return -EPROTO;
	stop_rings(v);
	v->features = f;
	vhost_memory_enable_log(v->memory, f & BIT(VHOST_F_LOG_ALL));
	return start_rings(v);
}

static int set_protocol_features(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)a;
	if (m->payload.number & ~PROTOCOL_FEATURES)
		return -EPROTO;
	v->protocol_features = m->payload.number;
	return 0;
}

static int take_note(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)v;
	(void)m;
	(void)a;
	return 0;
}

static int reset_owner(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)m;
	(void)a;
	stop_rings(v);
	return 0;
}

static int set_status(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)a;
	v->status = m->payload.number;
	if (!v->status) /* virtio 1.2, 2.1.2: a reset */
		stop_rings(v);
	return 0;
}

static int set_memory(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)a;
	stop_rings(v);
	vhost_memory_clear(v->memory);
	for (unsigned i = 0; i < m->payload.memory.count; i++) {
		int r =
		    vhost_memory_add(v->memory, &m->payload.memory.regions[i], take_fd(&m->fds[i]));

		if (r < 0)
			return r;
	}
	return start_rings(v);
}

static int add_region(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	int r = vhost_memory_add(v->memory, &m->payload.region.region, take_fd(&m->fds[0]));

	(void)a;
	return r < 0 ? r : start_rings(v);
}

static int remove_region(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)a;
	stop_rings(v); /* one of them may lie there */
	vhost_memory_remove(v->memory, &m->payload.region.region);
	return start_rings(v);
}

static int set_log(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	a->wanted = true;
	return vhost_memory_set_log(v->memory, take_fd(&m->fds[0]), m->payload.log.size,
				    m->payload.log.offset);
}

static int set_size(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	const struct vhost_ring_state *s = &m->payload.state;

	(void)a;
	if (!s->num || s->num > VIRTQUEUE_SIZE_MAX || s->num & (s->num - 1))
		return -EPROTO;
	stop_ring(v, s->index);
	v->rings[s->index].size = s->num;
	return start_ring(v, s->index);
}

static int set_addresses(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	const struct vhost_ring_addresses *s = &m->payload.addresses;

	(void)a;
	stop_ring(v, s->index);
	v->rings[s->index].addresses = *s;
	v->rings[s->index].placed = true;
	return start_ring(v, s->index);
}

static int set_base(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	const struct vhost_ring_state *s = &m->payload.state;

	(void)a;
	stop_ring(v, s->index);
	v->rings[s->index].next = (uint16_t)s->num;
	return start_ring(v, s->index);
}

/* Stops the ring, until there is another kick descriptor (vhost-user specification, "Ring states").
 */
static int get_base(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	unsigned i = m->payload.state.index;

	stop_ring(v, i);
	fd_close(&v->rings[i].kick);
	a->wanted = true;
	a->payload.state = (struct vhost_ring_state){.index = i, .num = v->rings[i].next};
	a->size = sizeof(a->payload.state);
	return 0;
}

static int set_kick(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	unsigned i = m->payload.number & VHOST_RING_INDEX;

	(void)a;
	if (!m->fd_count)
		return -EPROTO; /* we don't look without being called */
	stop_ring(v, i);
	fd_close(&v->rings[i].kick);
	v->rings[i].kick = take_fd(&m->fds[0]);
	return start_ring(v, i);
}

/* A descriptor that we write to must never make us wait, whatever it is. */
static int replace_fd(int *place, struct vhost_message *m)
{
	fd_close(place);
	if (m->fd_count) {
		int flags = fcntl(m->fds[0], F_GETFL);

		if (flags < 0 ||
		    (!(flags & O_NONBLOCK) && fcntl(m->fds[0], F_SETFL, flags | O_NONBLOCK) < 0))
			return -errno;
		*place = take_fd(&m->fds[0]);
	}
	return 0;
}

static int set_call(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)a;
	return replace_fd(&v->rings[m->payload.number & VHOST_RING_INDEX].call, m);
}

static int set_err(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	(void)a;
	return replace_fd(&v->rings[m->payload.number & VHOST_RING_INDEX].err, m);
}

static int set_enable(struct vhost_user *v, struct vhost_message *m, struct answer *a)
{
	unsigned i = m->payload.state.index;

	(void)a;
	stop_ring(v, i);
	v->rings[i].enabled = m->payload.state.num;
	return start_rings(v);
}

typedef int (*handler)(struct vhost_user *v, struct vhost_message *m, struct answer *a);

static const handler handlers[VHOST_REQUEST_END] = {
    [VHOST_GET_FEATURES] = get_features,
    [VHOST_SET_FEATURES] = set_features,
    [VHOST_SET_OWNER] = take_note,
    [VHOST_RESET_OWNER] = reset_owner,
    [VHOST_SET_MEM_TABLE] = set_memory,
    [VHOST_SET_LOG_BASE] = set_log,
    [VHOST_SET_LOG_FD] = take_note,
    [VHOST_SET_VRING_NUM] = set_size,
    [VHOST_SET_VRING_ADDR] = set_addresses,
    [VHOST_SET_VRING_BASE] = set_base,
    [VHOST_GET_VRING_BASE] = get_base,
    [VHOST_SET_VRING_KICK] = set_kick,
    [VHOST_SET_VRING_CALL] = set_call,
    [VHOST_SET_VRING_ERR] = set_err,
    [VHOST_GET_PROTOCOL_FEATURES] = get_protocol_features,
    [VHOST_SET_PROTOCOL_FEATURES] = set_protocol_features,
    [VHOST_GET_QUEUE_NUM] = get_queue_num,
    [VHOST_SET_VRING_ENABLE] = set_enable,
    /* Nobody between us and the host's sockets has learnt where the guest is. */
    [VHOST_SEND_RARP] = take_note,
    /* What we send the guest is bounded by --mtu. */
    [VHOST_NET_SET_MTU] = take_note,
    [VHOST_GET_MAX_MEM_SLOTS] = get_slots,
    [VHOST_ADD_MEM_REG] = add_region,
    [VHOST_REM_MEM_REG] = remove_region,
    [VHOST_SET_STATUS] = set_status,
    [VHOST_GET_STATUS] = get_status,
};

/* Failures that say nothing against the front end, which lives on if it wants to hear of them. */
static bool is_shortage(int err)
{
	return err == -ENOMEM || err == -ENOSPC || err == -EMFILE || err == -ENFILE;
}

int vhost_user_handle(struct vhost_user *v, struct vhost_message *m, int fd)
{
	struct answer a = {0};
	int r = handlers[m->request](v, m, &a);
	bool ack = m->need_reply && v->protocol_features & BIT(PROTOCOL_REPLY_ACK);

	if (!a.wanted && ack)
		answer_number(&a, r < 0);
	if (r < 0 && !(ack && is_shortage(r))) {
		log_debug("vhost-user: %s: %s", vhost_request_name(m->request), strerror(-r));
		return r;
	}
	return a.wanted ? vhost_reply(fd, m->request, &a.payload, a.size) : 0;
}

static void signal_fd(int fd)
{
	uint64_t one = 1;

	/* Full means that the other side has not looked for a long time, and will find this, too;
	 * any other failure is its own fault. */
	if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
		return;
}

void vhost_ring_call(struct vhost_ring *ring)
{
	signal_fd(ring->call);
}

void vhost_ring_report_error(struct vhost_ring *ring)
{
	signal_fd(ring->err);
}
