/* SPDX-License-Identifier: BSD-3-Clause */
#include "host/netlink.h"

#include <errno.h>
#include <netlink/attr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define DUMP_TRIES   8 /* a table that changes all the time is taken as it is in the end */
/* The kernel makes dump datagrams of 32 KiB at most (af_netlink). */
#define RECEIVE_ROOM (64 << 10)
#define SOCKET_ROOM  (1 << 20)
/* Requests a datagram: their errors have room in the smallest usual receive buffer. */
#define CHUNK_MAX    128
#define CHUNK_BYTES  (48 << 10)

int netlink_errno(int nl_error)
{
	static const struct {
		int nl, sys;
	} table[] = {
	    {NLE_INTR, EINTR},          {NLE_NOMEM, ENOMEM},
	    {NLE_AGAIN, EAGAIN},        {NLE_PERM, EPERM},
	    {NLE_NOACCESS, EACCES},     {NLE_AF_NOSUPPORT, EAFNOSUPPORT},
	    {NLE_NODEV, ENODEV},        {NLE_OPNOTSUPP, EOPNOTSUPP},
	    {NLE_EXIST, EEXIST},        {NLE_BUSY, EBUSY},
	    {NLE_RANGE, ERANGE},        {NLE_INVAL, EINVAL},
	    {NLE_OBJ_NOTFOUND, ENOENT},
	};

	if (nl_error >= 0)
		return 0;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].nl == -nl_error)
			return -table[i].sys;
	}
	return -EIO;
}

int netlink_open(struct nl_sock **out)
{
	struct nl_sock *sk = nl_socket_alloc();
	int on = 1, err;

	if (!sk)
		return -ENOMEM;
	err = nl_connect(sk, NETLINK_ROUTE);
	if (!err)
		err = nl_socket_set_buffer_size(sk, SOCKET_ROOM, SOCKET_ROOM);
	if (!err)
		err = nl_socket_set_msg_buf_size(sk, RECEIVE_ROOM);
	if (err) {
		nl_socket_free(sk);
		return netlink_errno(err);
	}
	nl_socket_disable_msg_peek(sk);
	/* Kernel 4.20 and 4.3: without them dumps are filtered here, and errors quote the whole
	 * request. */
	(void)setsockopt(nl_socket_get_fd(sk), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on,
			 sizeof(on));
	(void)setsockopt(nl_socket_get_fd(sk), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
	*out = sk;
	return 0;
}

int netlink_list_append(struct netlink_list *list, const struct nlmsghdr *msg)
{
	int len = (int)NLMSG_ALIGN(msg->nlmsg_len);

	if (list->room - list->len < len) {
		int room = list->room ? 2 * list->room : 4096;
		void *p;

		while (room - list->len < len)
			room *= 2;
		p = realloc(list->first, (size_t)room);
		if (!p)
			return -ENOMEM;
		list->first = p;
		list->room = room;
	}
	memset((char *)list->first + list->len + len - NLMSG_ALIGNTO, 0, NLMSG_ALIGNTO);
	memcpy((char *)list->first + list->len, msg, msg->nlmsg_len);
	list->len += len;
	return 0;
}

void netlink_list_free(struct netlink_list *list)
{
	free(list->first);
	*list = (struct netlink_list){0};
}

/* Requests are numbered by us, not by libnl, which would miss its own numbers. */
static int any_sequence(struct nl_msg *msg, void *arg)
{
	(void)msg;
	(void)arg;
	return NL_OK;
}

struct dump {
	netlink_keep_fn keep;
	void *arg;
	struct netlink_list *out;
	int error;
	bool refused;
};

static int dump_valid(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *h = nlmsg_hdr(msg);
	struct dump *d = arg;

	if (!d->error && d->keep(h, d->arg))
		d->error = netlink_list_append(d->out, h);
	return NL_OK;
}

/* The kernel refuses the dump: nothing there to be seen. */
static int dump_refused(struct sockaddr_nl *from, struct nlmsgerr *e, void *arg)
{
	struct dump *d = arg;

	(void)from;
	(void)e;
	d->refused = true;
	return NL_STOP;
}

static int dump_once(struct nl_sock *sk, struct nl_msg *request, struct dump *d)
{
	struct nl_cb *cb = nl_cb_alloc(NL_CB_DEFAULT);
	int err;

	if (!cb)
		return -NLE_NOMEM;
	nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, dump_valid, d);
	nl_cb_set(cb, NL_CB_SEQ_CHECK, NL_CB_CUSTOM, any_sequence, NULL);
	nl_cb_err(cb, NL_CB_CUSTOM, dump_refused, d);
	nlmsg_hdr(request)->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	err = nl_sendto(sk, nlmsg_hdr(request), nlmsg_hdr(request)->nlmsg_len);
	if (err >= 0)
		err = nl_recvmsgs(sk, cb);
	nl_cb_put(cb);
	return err;
}

int netlink_dump(struct nl_sock *sk, struct nl_msg *request, netlink_keep_fn keep, void *arg,
		 struct netlink_list *out)
{
	struct dump d = {.keep = keep, .arg = arg, .out = out};
	int before = out->len, err;

	if (!request)
		return -ENOMEM;
	for (int i = 0; i < DUMP_TRIES; i++) {
		out->len = before;
		err = dump_once(sk, request, &d);
		if (err != -NLE_DUMP_INTR)
			break;
	}
	nlmsg_free(request);
	if (d.error)
		return d.error;
	return d.refused || err == -NLE_DUMP_INTR ? 0 : netlink_errno(err);
}

int netlink_batch_add(struct netlink_batch *batch, struct nl_msg *msg)
{
	struct nlmsghdr *h;
	int err;

	if (!msg)
		return -ENOMEM;
	if (batch->count == batch->room) {
		unsigned room = batch->room ? 2 * batch->room : 64;
		struct netlink_item *p = realloc(batch->items, room * sizeof(*p));

		if (!p) {
			nlmsg_free(msg);
			return -ENOMEM;
		}
		batch->items = p;
		batch->room = room;
	}
	h = nlmsg_hdr(msg);
	h->nlmsg_flags |= NLM_F_REQUEST;
	h->nlmsg_seq = batch->count;
	h->nlmsg_pid = 0;
	batch->items[batch->count] =
	    (struct netlink_item){.offset = batch->list.len, .status = NETLINK_PENDING};
	err = netlink_list_append(&batch->list, h);
	if (!err)
		batch->count++;
	nlmsg_free(msg);
	return err;
}

struct nlmsghdr *netlink_batch_message(const struct netlink_batch *batch, unsigned number)
{
	return (void *)((char *)batch->list.first + batch->items[number].offset);
}

struct answers {
	struct netlink_batch *batch;
	unsigned last; /* number of the request that ends the datagram: the only one to be
			  acknowledged */
	bool done;
};

static int answer_ack(struct nl_msg *msg, void *arg)
{
	struct answers *a = arg;

	if (nlmsg_hdr(msg)->nlmsg_seq == a->last)
		a->done = true;
	return NL_SKIP;
}

static int answer_error(struct sockaddr_nl *from, struct nlmsgerr *e, void *arg)
{
	struct answers *a = arg;
	unsigned number = e->msg.nlmsg_seq;

	(void)from;
	if (number < a->batch->count)
		a->batch->items[number].status = e->error;
	if (number == a->last)
		a->done = true;
	return NL_SKIP;
}

/* One datagram and its answers. The kernel works through it inside sendto(2), in order, and answers
 * each error. */
static int send_chunk(struct nl_sock *sk, struct netlink_list *chunk, struct answers *a)
{
	struct nl_cb *cb;
	int err;

	err = nl_sendto(sk, chunk->first, (size_t)chunk->len);
	if (err < 0)
		return netlink_errno(err);
	cb = nl_cb_alloc(NL_CB_DEFAULT);
	if (!cb)
		return -ENOMEM;
	nl_cb_set(cb, NL_CB_ACK, NL_CB_CUSTOM, answer_ack, a);
	nl_cb_set(cb, NL_CB_SEQ_CHECK, NL_CB_CUSTOM, any_sequence, NULL);
	nl_cb_err(cb, NL_CB_CUSTOM, answer_error, a);
	for (err = 0; err >= 0 && !a->done;)
		err = nl_recvmsgs(sk, cb);
	nl_cb_put(cb);
	return err < 0 ? netlink_errno(err) : 0;
}

int netlink_batch_send(struct nl_sock *sk, struct netlink_batch *batch)
{
	struct answers a = {.batch = batch};
	struct netlink_list chunk = {0};
	struct nlmsghdr *last = NULL;
	unsigned in_chunk = 0;
	int err = 0;

	for (unsigned i = 0; i <= batch->count && !err; i++) {
		bool end = i == batch->count;

		if (in_chunk && (end || in_chunk == CHUNK_MAX || chunk.len > CHUNK_BYTES)) {
			last->nlmsg_flags |= NLM_F_ACK;
			a.done = false;
			err = send_chunk(sk, &chunk, &a);
			in_chunk = 0;
			chunk.len = 0;
		}
		if (err || end || batch->items[i].status != NETLINK_PENDING)
			continue;
		a.last = i;
		err = netlink_list_append(&chunk, netlink_batch_message(batch, i));
		last = (void *)((char *)chunk.first + chunk.len -
				NLMSG_ALIGN(netlink_batch_message(batch, i)->nlmsg_len));
		batch->items[i].status = 0;
		in_chunk++;
	}
	netlink_list_free(&chunk);
	return err;
}

void netlink_batch_free(struct netlink_batch *batch)
{
	netlink_list_free(&batch->list);
	free(batch->items);
	*batch = (struct netlink_batch){0};
}

uint32_t netlink_u32(const struct nlattr *attr)
{
	return attr && nla_len(attr) >= 4 ? nla_get_u32(attr) : 0;
}

struct ip_addr netlink_addr(const struct nlattr *attr, enum ip_family family)
{
	if (!attr || nla_len(attr) < (family == IP_V4 ? 4 : 16))
		return ip_any[family];
	return family == IP_V4 ? ip_from_v4(nla_data(attr)) : ip_from_v6(nla_data(attr));
}

void netlink_hops_init(struct netlink_hops *it, struct nlmsghdr *msg)
{
	struct rtmsg *rtm = nlmsg_data(msg);

	*it = (struct netlink_hops){.family = netlink_family(rtm->rtm_family)};
	if (nlmsg_parse(msg, sizeof(*rtm), it->tb, RTA_MAX, NULL) < 0)
		memset(it->tb, 0, sizeof(it->tb));
	if (it->tb[RTA_MULTIPATH]) {
		it->single_seen = true;
		it->next = nla_data(it->tb[RTA_MULTIPATH]);
		it->left = nla_len(it->tb[RTA_MULTIPATH]);
	}
}

bool netlink_hops_next(struct netlink_hops *it, struct netlink_hop *hop)
{
	struct rtnexthop *nh = it->next;
	int len;

	if (!it->single_seen) {
		it->single_seen = true;
		*hop = (struct netlink_hop){
		    .ifindex = netlink_u32(it->tb[RTA_OIF]),
		    .weight = 1,
		    .gateway = netlink_addr(it->tb[RTA_GATEWAY], it->family),
		};
		return true;
	}
	if (it->left < (int)sizeof(*nh) || nh->rtnh_len < sizeof(*nh) || nh->rtnh_len > it->left)
		return false;
	len = nh->rtnh_len - (int)sizeof(*nh);
	*hop = (struct netlink_hop){
	    .ifindex = (unsigned)nh->rtnh_ifindex,
	    .weight = nh->rtnh_hops + 1u, /* the kernel counts from 0 */
	    .gateway = netlink_addr(nla_find((void *)RTNH_DATA(nh), len, RTA_GATEWAY), it->family),
	    .raw = nh,
	};
	it->left -= (int)RTNH_ALIGN(nh->rtnh_len);
	it->next = RTNH_NEXT(nh);
	return true;
}
