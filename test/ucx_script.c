#include "ucx_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ucx_world.h"

enum { POSTS = 48, COMMS = 4, LANES = 3, STEPS = 400 };
enum action { SEND, RECV, PROGRESS, MESSAGE, TAG, AT_ONCE, LOSE_PEER, OPEN, CONTROL, FAIL, ACTIONS };
enum base { NEW_EAGER, NEW_RTS, ANSWER, NOTE, BASES };

struct post {
	struct transport_request request;
	unsigned char *buf; /* NULL: none, or done */
	size_t bytes;
	int sends;
};

struct script {
	const unsigned char *at, *end;
	struct ucx_world world;
	struct ucx_comm *comms[COMMS]; /* NULL: not open yet */
	uint32_t sequences[COMMS][WORLD_RANKS][TRANSPORT_MAX_LANES];
	struct post posts[POSTS];
	int posted;
};

static const char *const ways[COMMS] = { "am", "tag", "put", "am" };
static const size_t sizes[] = { 0, 1, 300, UCX_EAGER_BYTES, UCX_EAGER_BYTES + 1, 100000 };

static void fault(const char *what)
{
	fprintf(stderr, "ucx_script: %s\n", what);
	abort();
}

static unsigned take(struct script *s)
{
	return s->at < s->end ? *s->at++ : 0;
}

static size_t take_size(struct script *s)
{
	return sizes[take(s) % (sizeof(sizes) / sizeof(sizes[0]))];
}

static uint64_t id_of(int comm)
{
	return 1000 + (uint64_t)comm;
}

/* Requests that are done: their buffers are freed, so that later uses are found. */
static void reap(struct script *s)
{
	for (int i = 0; i < s->posted; i++) {
		struct post *p = &s->posts[i];
		if (!p->buf || !p->request.done)
			continue;
		if (fake_ucx_holds(p->buf))
			fault("a request is done, and UCX holds its buffer");
		for (size_t k = 0; p->sends && k < p->bytes; k++)
			if (p->buf[k] != 0x11)
				fault("the buffer of a send was written");
		free(p->buf);
		p->buf = NULL;
	}
}

static void post(struct script *s, int sends)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	struct ucx_comm *c = s->comms[take(s) % COMMS];
	int peer = (int)(take(s) % WORLD_RANKS), lane = (int)(take(s) % LANES), ret;
	size_t bytes = take_size(s);

	if (!c || s->posted == POSTS)
		return;
	struct post *p = &s->posts[s->posted++];
	p->bytes = bytes;
	p->sends = sends;
	if (!(p->buf = malloc(bytes ? bytes : 1)))
		fault("no memory");
	memset(p->buf, 0x11, bytes ? bytes : 1);
	if (c->failure)
		ret = c->failure;
	else if (sends)
		ret = ucx_message_send(c, peer, lane, header, p->buf, bytes, &p->request);
	else
		ret = ucx_message_recv(c, peer, lane, p->buf, bytes, &p->request);
	if (ret)
		p->request.done = 1;
}

/* What a peer says next to one of the library's last messages; crossed: what it says to the other kind. */
static size_t make_answer(struct script *s, struct ucx_wire *wire, int crossed)
{
	unsigned count = fake_ucx_count(), back = 1 + take(s) % 8;

	if (count < back)
		return 0;
	*wire = fake_ucx_sent(count - back)->wire;
	uint32_t from = wire->from;
	wire->from = wire->to;
	wire->to = from;
	if (crossed && wire->kind == UCX_RTS)
		wire->recv_id = wire->send_id;
	else if (crossed)
		wire->send_id = wire->recv_id;
	if ((wire->kind == UCX_RTS) != crossed) {
		wire->kind = UCX_CTS;
		if (!crossed)
			wire->recv_id = 77;
		wire->bytes = wire->way == UCX_WAY_PUT ? 40 : 0;
		return wire->bytes;
	}
	wire->kind = wire->way == UCX_WAY_PUT ? UCX_FIN : take(s) % 8 ? UCX_DATA : UCX_GONE;
	wire->bytes = wire->kind == UCX_GONE ? 0 : take_size(s);
	wire->way = 0;
	return wire->kind == UCX_DATA ? wire->bytes : 0;
}

/* A message as it should be; returns its payload's bytes. */
static size_t make_message(struct script *s, struct ucx_wire *wire)
{
	enum base base = take(s) % BASES;
	unsigned comm = take(s) % COMMS, from = take(s) % WORLD_RANKS, lane = take(s);

	*wire = (struct ucx_wire){ .comm_id = id_of((int)comm), .from = from };
	if (base == ANSWER)
		return make_answer(s, wire, lane == 255);
	if (base == NOTE) {
		static const enum ucx_kind kinds[] = { UCX_HELLO, UCX_CONTROL, UCX_BYE, UCX_CONTROL };
		wire->kind = (uint8_t)kinds[take(s) % 4];
		wire->bytes = wire->kind == UCX_CONTROL ? take(s) % (TRANSPORT_CONTROL_BYTES + 1) : 0;
		return wire->bytes;
	}
	lane = take(s) % 8 == 7 ? UCX_PROBE_LANE : lane % LANES;
	wire->lane = (uint16_t)lane;
	if (lane < LANES)
		wire->sequence = s->sequences[comm][from][lane]++;
	wire->kind = base == NEW_RTS ? UCX_RTS : UCX_EAGER;
	wire->bytes = take_size(s);
	wire->way = (uint8_t)(take(s) % UCX_WAYS);
	wire->send_id = 55;
	return base == NEW_RTS ? 0 : wire->bytes;
}

static void message(struct script *s)
{
	struct ucx_wire wire;
	size_t bytes = make_message(s, &wire), header_bytes = sizeof(wire);
	unsigned changes = take(s), attr = take(s);
	static unsigned char zeros[1 << 17];

	for (unsigned i = 0; changes >= 128 && i <= changes % 3; i++) {
		unsigned at = take(s) % sizeof(wire);
		((unsigned char *)&wire)[at] ^= (unsigned char)take(s);
	}
	if (attr & 16)
		bytes = take_size(s);
	if (attr & 32)
		bytes = take(s);
	if (attr & 8) /* a lie of which nothing is to be seen */
		wire.bytes = bytes;
	if ((attr & 0xc0) == 0xc0)
		header_bytes = take(s);
	uint64_t flag = attr & 2 ? UCP_AM_RECV_ATTR_FLAG_DATA : 0;
	if (attr & 1)
		flag = UCP_AM_RECV_ATTR_FLAG_RNDV;
	fake_ucx_deliver(s->world.worker, &wire, header_bytes, attr & 4 ? NULL : zeros, bytes, flag);
}

static void lose_peer(struct script *s)
{
	struct ucx_comm *c = s->comms[take(s) % COMMS];
	unsigned peer = take(s) % WORLD_RANKS;
	if (c && c->peers[peer])
		ucx_endpoint_abandon(c->peers[peer]->endpoint, CORALE_EPEER, "the script lost it");
}

static void control(struct script *s)
{
	struct ucx_comm *c = s->comms[take(s) % COMMS];
	int peer = (int)(take(s) % WORLD_RANKS);
	unsigned char text[TRANSPORT_CONTROL_BYTES] = { 0 };
	struct ucx_peer *p;
	if (c && !ucx_comm_peer(c, peer, &p) && p->state == UCX_PEER_FINE)
		ucx_message_note(c, peer, 0, UCX_CONTROL, 0, text, take(s) % sizeof(text));
}

/* Not under the lock. */
static void open_comm(struct script *s, int i)
{
	if (!s->comms[i])
		s->comms[i] = ucx_world_comm(&s->world, id_of(i), ways[i]);
}

static void fail_comm(struct script *s)
{
	struct ucx_comm *c = s->comms[take(s) % COMMS];
	if (!c || take(s) % 16)
		return;
	c->failure = CORALE_EABORTED;
	ucx_comm_drop(c, -1, c->failure);
}

static void step(struct script *s)
{
	enum action action = take(s) % ACTIONS;

	if (action == OPEN) {
		open_comm(s, (int)(take(s) % COMMS));
		return;
	}
	if (action == PROGRESS) {
		for (unsigned n = take(s) % 8; n; n--)
			ucx_progress(s->world.worker);
		return;
	}
	ucx_lock(s->world.worker);
	if (action == SEND || action == RECV)
		post(s, action == SEND);
	else if (action == MESSAGE)
		message(s);
	else if (action == TAG)
		fake_ucx_deliver_tag(0, take_size(s));
	else if (action == AT_ONCE)
		fake_ucx_send_at_once((int)(take(s) % 2));
	else if (action == LOSE_PEER)
		lose_peer(s);
	else if (action == CONTROL)
		control(s);
	else
		fail_comm(s);
	ucx_unlock(s->world.worker);
}

void ucx_script_run(const unsigned char *bytes, size_t n)
{
	struct script *s = calloc(1, sizeof(*s));
	if (!s)
		fault("no memory");
	s->at = bytes;
	s->end = bytes + n;
	fake_ucx_reset(0);
	ucx_world_open(&s->world);
	for (int i = 0; i < COMMS - 1; i++)
		open_comm(s, i);
	for (int i = 0; i < STEPS && s->at < s->end; i++) {
		step(s);
		reap(s);
	}
	ucx_world_close(&s->world);
	reap(s);
	for (int i = 0; i < s->posted; i++)
		if (s->posts[i].buf)
			fault("a request is not done after its communicator is closed");
	if (fake_ucx_kept())
		fault("payloads are kept after all is closed");
	free(s);
}
