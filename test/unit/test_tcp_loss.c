/* SPDX-License-Identifier: BSD-3-Clause */
/* Five megabytes each way at once over a link that drops, doubles and reorders, seeded: what
 * arrives is what was sent, and the connection ends as it should. The guest here is a small TCP of
 * its own. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tcp_script.h"

#define LENGTH   (5u << 20)
#define LONGEST  (20 * GUEST_MSS) /* of a frame from the guest */
#define STEPS    200000
#define TIME_OUT (250 * USEC_MSEC)

static uint8_t upload[LENGTH], download[LENGTH], uploaded[LENGTH], downloaded[LENGTH];
static bool arrived[LENGTH];

struct faults {
	unsigned drop, twice, late; /* of 1000 */
	uint64_t seed;
};

struct guest {
	struct script *s;
	struct faults faults;
	uint32_t base, una, nxt, window; /* of what it sends; the first byte is base */
	uint32_t their_base, rcv;        /* of what it gets */
	unsigned dups;
	usec_t progress; /* when una moved last */
	bool fin_sent, fin_got;
	size_t peer_sent, peer_got;
	bool peer_shut, peer_end;
	/* One frame each way that waits to come after its successor. */
	struct tcp_header held_header;
	uint32_t held_at, held_len;
	bool held;
};

/* SplitMix64 (Steele, Lea, Flood 2014). */
static unsigned chance(struct guest *g)
{
	uint64_t z = g->faults.seed += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (unsigned)((z ^ z >> 31) % 1000);
}

static void hand_in(struct guest *g, const struct tcp_header *h, uint32_t at, uint32_t len)
{
	give_header(g->s, h, upload + at, len);
}

/* A segment of the guest through the faults. */
static void emit(struct guest *g, uint8_t flags, uint32_t seq, uint32_t len)
{
	struct tcp_header h = {.flags = flags | TCP_ACK, .seq = seq, .ack = g->rcv};
	uint32_t at = len ? seq - g->base : 0;
	unsigned c = chance(g);

	if (c < g->faults.drop)
		return;
	c = chance(g);
	if (c < g->faults.late && !g->held) {
		g->held = true;
		g->held_header = h;
		g->held_at = at;
		g->held_len = len;
		return;
	}
	hand_in(g, &h, at, len);
	if (chance(g) < g->faults.twice)
		hand_in(g, &h, at, len);
	if (g->held) {
		g->held = false;
		hand_in(g, &g->held_header, g->held_at, g->held_len);
	}
}

static void send_from(struct guest *g, uint32_t seq, uint32_t most)
{
	uint32_t left = g->base + LENGTH - seq, len = left < most ? left : most;

	if (len)
		emit(g, TCP_PSH, seq, len);
	else if (g->fin_sent)
		emit(g, TCP_FIN, seq, 0);
}

static void guest_acked(struct guest *g)
{
	const struct tcp_header *h = &g->s->got.tcp;

	if (seq_lt(g->una, h->ack) && seq_leq(h->ack, g->base + LENGTH + g->fin_sent)) {
		g->una = h->ack;
		g->nxt = seq_max(g->nxt, g->una);
		g->dups = 0;
		g->progress = g->s->now;
	} else if (h->ack == g->una && !g->s->got.payload_len && ++g->dups == 3) {
		send_from(g, g->una, LONGEST);
	}
	g->window = h->ack + got_window(g->s);
}

static void guest_data(struct guest *g)
{
	const struct packet *p = &g->s->got;
	uint32_t at = p->tcp.seq - g->their_base;
	bool fin = p->tcp.flags & TCP_FIN;

	if (!p->payload_len && !fin)
		return;
	for (uint32_t i = 0; i < p->payload_len; i++) {
		assert_true(at + i < LENGTH);
		downloaded[at + i] = p->payload[i];
		arrived[at + i] = true;
	}
	while (g->rcv - g->their_base < LENGTH && arrived[g->rcv - g->their_base])
		g->rcv++;
	if (fin && at + p->payload_len == LENGTH && g->rcv == g->their_base + LENGTH) {
		g->rcv++;
		g->fin_got = true;
	}
	emit(g, 0, g->nxt, 0);
}

/* Everything that came for the guest, through the faults. */
static bool guest_receives(struct guest *g)
{
	bool any = false;

	while (take(g->s)) {
		any = true;
		if (chance(g) < g->faults.drop)
			continue;
		/* A reset may only answer what comes late, when all is over. */
		if (g->s->got.tcp.flags & TCP_RST && !tcp_flow_count(g->s->tcp))
			continue;
		assert_int_equal(g->s->got.tcp.flags & (TCP_RST | TCP_SYN), 0);
		guest_acked(g);
		guest_data(g);
	}
	return any;
}

static bool guest_sends(struct guest *g)
{
	bool any = false;

	while (seq_lt(g->nxt, g->base + LENGTH) && seq_lt(g->nxt, g->window)) {
		uint32_t most = 1 + chance(g) * (LONGEST - 1) / 1000, room = g->window - g->nxt;

		most = most < room ? most : room;
		send_from(g, g->nxt, most);
		g->nxt += g->base + LENGTH - g->nxt < most ? g->base + LENGTH - g->nxt : most;
		any = true;
	}
	if (g->nxt == g->base + LENGTH && !g->fin_sent) {
		g->fin_sent = true;
		send_from(g, g->nxt++, 0);
	}
	if (g->una != g->nxt && g->s->now - g->progress > TIME_OUT) {
		g->progress = g->s->now;
		g->dups = 0;
		send_from(g, g->una, LONGEST);
		any = true;
	}
	return any;
}

static bool peer_works(struct guest *g)
{
	bool any = false;
	ssize_t n;

	while (g->peer_sent < LENGTH) {
		n = send(g->s->peer, download + g->peer_sent, LENGTH - g->peer_sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0) {
			assert_int_equal(errno, EAGAIN);
			break;
		}
		g->peer_sent += (size_t)n;
		any = true;
	}
	if (g->peer_sent == LENGTH && !g->peer_shut) {
		g->peer_shut = true;
		assert_int_equal(shutdown(g->s->peer, SHUT_WR), 0);
	}
	while (!g->peer_end) {
		n = recv(g->s->peer, uploaded + g->peer_got,
			 LENGTH - g->peer_got ? LENGTH - g->peer_got : 1, MSG_DONTWAIT);
		if (n < 0) {
			assert_int_equal(errno, EAGAIN);
			break;
		}
		g->peer_got += (size_t)n;
		g->peer_end = n == 0;
		any = true;
	}
	return any;
}

/* seconds: of the script's clock, at most: so recovery can't live on time-outs alone. */
static void transfer(struct script *s, const struct faults *faults, unsigned seconds)
{
	struct guest g = {.s = s, .faults = *faults};
	usec_t begun = s->now;

	fill(upload, LENGTH);
	for (uint32_t i = 0; i < LENGTH; i++)
		download[i] = (uint8_t)(upload[i] ^ 0x5a);
	memset(uploaded, 0, LENGTH);
	memset(downloaded, 0, LENGTH);
	memset(arrived, 0, LENGTH);
	s->scale = 7;
	s->window = 1u << 20;
	script_reach(s, FLOW_ESTABLISHED);
	g.base = g.una = g.nxt = s->seq;
	g.their_base = g.rcv = s->ack;
	g.window = script_flow(s)->rcv_edge;
	g.progress = s->now;
	for (int i = 0; i < STEPS && tcp_flow_count(s->tcp); i++) {
		bool busy = guest_sends(&g);

		turn(s);
		busy |= guest_receives(&g);
		busy |= peer_works(&g);
		if (!busy)
			s->now += 10 * USEC_MSEC;
	}
	assert_int_equal(tcp_flow_count(s->tcp), 0);
	while (!g.peer_end)
		(void)peer_works(&g);
	assert_int_equal(g.peer_got, LENGTH);
	assert_memory_equal(uploaded, upload, LENGTH);
	assert_int_equal(g.rcv, g.their_base + LENGTH + 1);
	assert_memory_equal(downloaded, download, LENGTH);
	assert_true(s->now - begun < seconds * USEC_SEC);
}

static void clean(struct script *s)
{
	transfer(s, &(struct faults){.seed = 1}, 1);
}

static void lossy(struct script *s)
{
	transfer(s, &(struct faults){.drop = 30, .seed = 2}, 10);
}

static void unruly(struct script *s)
{
	transfer(s, &(struct faults){.drop = 20, .twice = 50, .late = 100, .seed = 3}, 10);
}

static void terrible(struct script *s)
{
	transfer(s, &(struct faults){.drop = 200, .twice = 100, .late = 200, .seed = 4}, 120);
}

#define EACH(name)                                                                                 \
	static void each_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		script_each(name);                                                                 \
	}
EACH(clean)
EACH(lossy)
EACH(unruly)
EACH(terrible)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_clean),
	    cmocka_unit_test(each_lossy),
	    cmocka_unit_test(each_unruly),
	    cmocka_unit_test(each_terrible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
