/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a vhost-user back end for a network device (vhost-user specification; virtio 1.2,
 * 5.1): features, memory and rings as the front end sets them. What goes through the rings is
 * vhost_net.c's business. Inside tap/ only. */
#ifndef TAP_VHOST_USER_H
#define TAP_VHOST_USER_H

#include <linux/virtio_net.h>

#include "tap/vhost_message.h"
#include "tap/virtqueue.h"

#ifndef VIRTIO_NET_F_GUEST_USO4 /* Linux 6.2; virtio 1.3, 5.1.3 */
#define VIRTIO_NET_F_GUEST_USO4 54
#define VIRTIO_NET_F_GUEST_USO6 55
#define VIRTIO_NET_F_HOST_USO   56
#endif

/* Odd rings are the guest's for sending, even ones its for receiving (virtio 1.2, 5.1.2). */
#define VHOST_PAIRS_MAX (VHOST_QUEUES_MAX / 2)

#define VHOST_PROTOCOL_FEATURES 30 /* VHOST_USER_F_PROTOCOL_FEATURES, a feature bit */

struct vhost_ring {
	struct virtqueue *queue; /* NULL while the ring is stopped */
	int kick, call, err;     /* eventfds, or -1 */
	bool enabled;            /* else frames from the guest are thrown away, and none go to it */

	/* What the front end said, of a ring that may still be stopped. */
	unsigned size;
	bool placed; /* addresses holds something */
	struct vhost_ring_addresses addresses;
	uint16_t next;
};

/* What the rings' user must know: a ring that runs has its kick descriptor and a queue; before
 * either changes or goes, ring_stopping() is called. */
struct vhost_user_events {
	int (*ring_started)(void *arg, unsigned index);
	void (*ring_stopping)(void *arg, unsigned index);
	void *arg;
};

struct vhost_user;

int vhost_user_new(const struct vhost_user_events *ev, struct vhost_user **out) must_check;
void vhost_user_free(struct vhost_user *v);

/* Back to the state without a front end: nothing mapped, no descriptor open. */
void vhost_user_reset(struct vhost_user *v);

/* Does what the message says, and answers on fd. Its descriptors are taken over, or closed with the
 * message. Negative errno: the front end broke the rules (-EPROTO) or can't be served; it must go.
 */
int vhost_user_handle(struct vhost_user *v, struct vhost_message *m, int fd) must_check;

/* VIRTIO_NET_F_* and others that the front end accepted. */
uint64_t vhost_user_features(const struct vhost_user *v);
bool vhost_user_has(const struct vhost_user *v, unsigned feature);

struct vhost_ring *vhost_user_ring(struct vhost_user *v, unsigned index);
struct vhost_memory *vhost_user_memory(struct vhost_user *v);

/* Tells the guest of what was published in the ring, or the front end of a broken one. */
void vhost_ring_call(struct vhost_ring *ring);
void vhost_ring_report_error(struct vhost_ring *ring);

#endif
