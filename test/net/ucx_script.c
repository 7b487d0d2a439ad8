/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a byte string as a program of posts, messages, notes and failures of links over UCX. */
#include "ucx_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/ucx/ucx_link.h"
#include "ucx_world.h"

enum { POSTS = 48, COMMS = 4, LINKS = 3, OWN = 2 /* of the links: slots are the script's */, STEPS = 400 };
enum { OWN_DEPTH = 3, OWN_BYTES = 70001, PAYLOAD_BYTES = 1 << 17 };
enum action { POST, TAKE, PROGRESS, MESSAGE, TAG, AT_ONCE, LOSE_PEER, OPEN, CONTROL, FAIL, ACTIONS };
enum base { SLOT, NOTICE, ANSWER, NOTE, BASES };

/* A message from the script's memory. */
struct post {
	struct link *link;
	unsigned char *buf; /* NULL: none, or given back */
	size_t bytes;
};

struct script {
	const unsigned char *at, *end;
	struct ucx_world world;
	struct ucx_comm *comms[COMMS]; /* NULL: not open yet */
	struct link *links[COMMS][WORLD_RANKS][LINKS];
	int tried[COMMS][WORLD_RANKS][LINKS];
	struct link_memory memory[COMMS][WORLD_RANKS];
	uint32_t sequences[COMMS][WORLD_RANKS][LINKS];
	struct post posts[POSTS];
	int posted;
	unsigned char payload[PAYLOAD_BYTES]; /* of a peer's message; zeros behind what it says */
};

static const char *const schemes[COMMS] = { "am", "tag", "put", "am" };
static const int indexes[LINKS] = { 0, 5, 60 };
static const size_t sizes[] = { 0, 1, 300, UCX_EAGER_BYTES, UCX_EAGER_BYTES + 1, WORLD_SLOT_BYTES };

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

static unsigned char *allocate(size_t bytes, int value)
{
	unsigned char *memory = malloc(bytes ? bytes : 1);
	if (!memory)
		fault("no memory");
	memset(memory, value, bytes ? bytes : 1);
	return memory;
}

/* ---- The user of links: not under the lock ---- */

static struct link *link_of(struct script *s)
{
	const unsigned comm = take(s) % COMMS, peer = take(s) % WORLD_RANKS, index = take(s) % LINKS;
	struct ucx_comm *c = s->comms[comm];
	struct link **l = &s->links[comm][peer][index];
	struct link_memory *memory = index == OWN ? &s->memory[comm][peer] : NULL;
	if (!c || s->tried[comm][peer][index])
		return *l;
	s->tried[comm][peer][index] = 1;
	if (memory)
		*memory = (struct link_memory){ .depth = OWN_DEPTH,
						.bytes = OWN_BYTES,
						.in = allocate(OWN_DEPTH * OWN_BYTES, 0),
						.out = allocate(OWN_DEPTH * OWN_BYTES, 0) };
	const struct link_params params = {
		.peer = (int)peer, .index = indexes[index], .slots = &c->params.slots, .memory = memory
	};
	if (ucx_link_ops.open(&c->base, &params, l))
		*l = NULL;
	return *l;
}

/* Memory that was given back is freed, so that later uses are found; all: of closed communicators. */
static void reap(struct script *s, int all)
{
	for (int i = 0; i < s->posted; i++) {
		struct post *p = &s->posts[i];
		if (!p->buf || (!all && !ucx_link_ops.sent(p->link)))
			continue;
		if (fake_ucx_holds(p->buf))
			fault("a message's memory is given back, and UCX holds it");
		for (size_t k = 0; k < p->bytes; k++)
			if (p->buf[k] != 0x11)
				fault("a message's memory was written");
		free(p->buf);
		p->buf = NULL;
	}
}

static void post(struct script *s)
{
	static const unsigned char header[TRANSPORT_HEADER_BYTES];
	struct link *l = link_of(s);
	size_t bytes = take_size(s);
	const int borrows = (int)(take(s) % 2);
	if (!l || s->posted == POSTS || link_room(l) != 1)
		return;
	bytes = bytes < l->slot_bytes ? bytes : l->slot_bytes;
	if (!borrows) {
		memset(link_slot(l), 0x22, bytes);
		link_post(l, header, NULL, bytes);
		return;
	}
	struct post *p = &s->posts[s->posted++];
	*p = (struct post){ l, allocate(bytes, 0x11), bytes };
	link_post(l, header, p->buf, bytes);
}

static void take_message(struct script *s)
{
	static volatile unsigned sink;
	struct link *l = link_of(s);
	if (!l || link_ready(l) != 1)
		return;
	const struct link_message *m = link_next(l);
	if (m->bytes > l->slot_bytes)
		fault("a message is longer than its slot");
	for (size_t i = 0; i < m->bytes; i++)
		sink += m->data[i];
	link_release(l);
}

static void check_link(const struct link *l)
{
	const uint64_t arrived = atomic_load(&l->arrived), limit = atomic_load(&l->limit);
	if (arrived - link_taken(l) > (uint64_t)l->in_depth)
		fault("more messages have arrived than there are slots");
	if (limit > l->posted + (uint64_t)l->out_depth)
		fault("there is room for more messages than there are slots");
}

static void check_links(const struct script *s)
{
	for (int c = 0; c < COMMS; c++)
		for (int r = 0; r < WORLD_RANKS; r++)
			for (int index = 0; index < LINKS; index++)
				if (s->links[c][r][index])
					check_link(s->links[c][r][index]);
}

/* ---- The peers: under the lock ---- */

static size_t put_grant(struct script *s, unsigned index)
{
	const struct ucx_grant grant = { .address = 4096,
					 .tag = 1000,
					 .depth = WORLD_DEPTH,
					 .slot_bytes =
					     index == (unsigned)indexes[OWN] ? OWN_BYTES : WORLD_SLOT_BYTES };
	memcpy(s->payload, &grant, sizeof(grant));
	return sizeof(grant) + 24;
}

static size_t put_sums(struct script *s)
{
	const size_t n = take(s) % 4;
	for (size_t i = 0; i < n; i++) {
		const struct ucx_sum sum = { (uint64_t)indexes[take(s) % LINKS], take(s) % 8 };
		memcpy(s->payload + i * sizeof(sum), &sum, sizeof(sum));
	}
	return n * sizeof(struct ucx_sum);
}

/* What a peer says next to one of the library's last messages. */
static size_t make_answer(struct script *s, struct ucx_wire *wire)
{
	unsigned count = fake_ucx_count(), back = 1 + take(s) % 8;
	if (count < back)
		return 0;
	*wire = fake_ucx_sent(count - back)->wire;
	const uint32_t from = wire->from;
	wire->from = wire->to;
	wire->to = from;
	switch (wire->kind) {
	case UCX_WANT:
		wire->kind = UCX_GRANT;
		return wire->bytes = put_grant(s, wire->index);
	case UCX_GRANT:
		wire->kind = UCX_SLOT;
		return wire->bytes = take_size(s);
	default:
		wire->kind = UCX_CREDIT;
		wire->number = wire->sequence + 1;
		return wire->bytes = 0;
	}
}

static size_t make_note(struct script *s, struct ucx_wire *wire)
{
	static const enum ucx_kind kinds[] = { UCX_HELLO, UCX_CONTROL, UCX_BYE,
					       UCX_WANT,  UCX_GRANT,   UCX_CREDIT };
	wire->kind = (uint8_t)kinds[take(s) % 6];
	wire->number = take(s) % 8;
	if (wire->kind < UCX_WANT)
		wire->index = 0;
	if (wire->kind == UCX_CONTROL)
		wire->bytes = take(s) % (TRANSPORT_CONTROL_BYTES + 1);
	else if (wire->kind == UCX_BYE)
		wire->bytes = put_sums(s);
	else if (wire->kind == UCX_GRANT)
		wire->bytes = put_grant(s, wire->index);
	return wire->bytes;
}

/* A message as it should be; returns its payload's bytes. */
static size_t make_message(struct script *s, struct ucx_wire *wire)
{
	const enum base base = take(s) % BASES;
	const unsigned comm = take(s) % COMMS, from = take(s) % WORLD_RANKS, index = take(s);
	*wire = (struct ucx_wire){ .comm_id = id_of((int)comm), .from = from };
	if (base == ANSWER)
		return make_answer(s, wire);
	wire->index = (uint16_t)(index == 255 ? UCX_PROBE_LINK : indexes[index % LINKS]);
	if (base == NOTE)
		return make_note(s, wire);
	wire->kind = base == SLOT ? UCX_SLOT : UCX_NOTICE;
	wire->bytes = base == SLOT ? take_size(s) : UCX_EAGER_BYTES + 1 + take(s);
	wire->scheme = base == SLOT ? 0 : (uint8_t)(take(s) % UCX_SCHEMES);
	wire->sequence = s->sequences[comm][from][index % LINKS]++ + take(s) / 128;
	return base == SLOT ? wire->bytes : 0;
}

static void message(struct script *s)
{
	struct ucx_wire wire;
	memset(s->payload, 0, UCX_GRANT_BYTES);
	size_t bytes = make_message(s, &wire), header_bytes = sizeof(wire);
	unsigned changes = take(s), attr = take(s);

	for (unsigned i = 0; changes >= 128 && i <= changes % 3; i++) {
		unsigned at = take(s) % (sizeof(wire) + sizeof(struct ucx_grant));
		unsigned char *byte =
		    at < sizeof(wire) ? (unsigned char *)&wire + at : s->payload + at - sizeof(wire);
		*byte ^= (unsigned char)take(s);
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
	fake_ucx_deliver(s->world.worker, &wire, header_bytes, attr & 4 ? NULL : s->payload, bytes, flag);
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
		ucx_comm_note(c, peer, 0, UCX_CONTROL, 0, text, take(s) % sizeof(text));
}

static void fail_comm(struct script *s)
{
	struct ucx_comm *c = s->comms[take(s) % COMMS];
	if (!c || take(s) % 16)
		return;
	ucx_comm_fail(c, CORALE_EABORTED);
}

/* ---- */

static void open_comm(struct script *s, int i)
{
	if (!s->comms[i])
		s->comms[i] = ucx_world_comm(&s->world, id_of(i), schemes[i]);
}

static void step_of_peers(struct script *s, enum action action)
{
	ucx_lock(s->world.worker);
	if (action == MESSAGE)
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

static void step(struct script *s)
{
	const enum action action = take(s) % ACTIONS;
	if (action == OPEN)
		open_comm(s, (int)(take(s) % COMMS));
	else if (action == POST)
		post(s);
	else if (action == TAKE)
		take_message(s);
	else if (action != PROGRESS)
		step_of_peers(s, action);
	else
		for (unsigned n = take(s) % 8; n; n--)
			ucx_progress(s->world.worker);
}

static void free_memory(struct script *s)
{
	for (int c = 0; c < COMMS; c++)
		for (int r = 0; r < WORLD_RANKS; r++) {
			free(s->memory[c][r].in);
			free(s->memory[c][r].out);
		}
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
		reap(s, 0);
		check_links(s);
	}
	ucx_world_close(&s->world);
	reap(s, 1);
	if (fake_ucx_kept())
		fault("payloads are kept after all is closed");
	free_memory(s);
	free(s);
}
