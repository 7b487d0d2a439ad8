/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds for each store of a kernel into another rank's memory the exchange, the pair of ranks and the place in their vector. */
#include "recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_eval.h"
#include "base/collectives.h"
#include "base/status.h"

enum { VECTOR = 16, EMPTY = -1, HEADER_HALVES = 2, LINE_VECTORS = 8, MOST_PRINTED = 4 };

/* ---- Launches -------------------------------------------------------------------------------------------------- */

struct recorded_launch {
	const struct codelet_args *args; /* first in every kernel's */
	unsigned blocks;
	int rank, number; /* of the rank's, from 0 */
	size_t at; /* of its vector or blocks */
	size_t sent[GPU_MAX_HOSTS]; /* packets to each rank */
};

static size_t pieces_of(const struct recorded_launch *l)
{
	return l->args->pieces ? l->args->pieces : 1;
}

static struct piece piece_of(const struct recorded_launch *l, size_t i)
{
	size_t piece = pieces_of(l) > 1 ? l->args->piece : l->args->bytes, left = l->args->bytes - i * piece;
	return (struct piece){ l->at + i * piece, left < piece ? left : piece };
}

static struct recorded_launch *read_launches(size_t *n)
{
	const struct gpu_launched *l = gpu_launches(n);
	struct recorded_launch *all = calloc(*n + 1, sizeof(*all));
	size_t at[GPU_MAX_HOSTS] = { 0 };
	int numbers[GPU_MAX_HOSTS] = { 0 };
	if (!all)
		abort();
	for (size_t i = 0; i < *n; i++) {
		const struct codelet_args *a = l[i].args;
		int r = l[i].rank;
		all[i] = (struct recorded_launch){ a, l[i].blocks, r, numbers[r]++, at[r], { 0 } };
		at[r] += a->bytes;
	}
	return all;
}

static int same_pieces(const struct recorded_launch *a, const struct recorded_launch *b)
{
	return a->at == b->at && a->args->bytes == b->args->bytes && a->args->piece == b->args->piece;
}

int recorded_pieces(const struct started *ranks, struct piece pieces[RECORDED_PIECES])
{
	size_t n, used = 0, launches = 0;
	struct recorded_launch *all = read_launches(&n);
	const struct recorded_launch *firsts[RECORDED_PIECES];
	for (size_t i = 0; i < n; i++) {
		if (all[i].rank || used + pieces_of(&all[i]) > RECORDED_PIECES)
			continue;
		firsts[launches++] = &all[i];
		for (size_t p = 0; p < pieces_of(&all[i]); p++)
			pieces[used++] = piece_of(&all[i], p);
	}
	int good = n == launches * (size_t)ranks[0].ranks;
	for (size_t i = 0; good && i < n; i++)
		good = all[i].number < (int)launches && same_pieces(&all[i], firsts[all[i].number]);
	free(all);
	return good ? (int)used : 0;
}

/* ---- Stores ---------------------------------------------------------------------------------------------------- */

struct reader {
	const struct world *world;
	const struct started *started;
	const struct test_call *call;
	uint64_t first_epoch;
	const struct traffic *planned;
	struct traffic *seen;
	struct recorded_launch *launches;
	unsigned char
	    *turns; /* of each vector of all slots, or of all packets: messages that lay there so far */
	size_t slots_bytes; /* of one rank: in its window and in its scratch */
	int faults;
};

/* One store, and where its data belongs. */
struct item {
	const struct gpu_store *store;
	struct recorded_launch *launch;
	size_t number; /* of the launch's piece */
	int owner, exchange, from, to; /* owner: of the memory */
	size_t begin, bytes; /* of the message that it is part of, in the vector */
	size_t at; /* of the store, from the message's begin on */
};

static void complain(struct reader *r, const struct item *m, const char *what)
{
	if (r->faults++ < MOST_PRINTED)
		printf("# rank %d stored a vector in rank %d's memory: %s\n", m->launch->rank, m->owner,
		       what);
}

/* A group of sends and receives. */
static int is_group(const struct test_call *c)
{
	return !c->codelet;
}

static int uses_packets(const struct test_call *c)
{
	return c->codelet == &one_shot_codelet || c->codelet == &two_shot_codelet;
}

/* Of two ranks the root folds all. */
static int is_two_shot(const struct reader *r)
{
	const struct test_call *c = r->call;
	if (c->codelet != &bulk_codelet && c->codelet != &fifo_codelet)
		return c->codelet == &two_shot_codelet;
	return c->coll == CORALE_ALL_REDUCE || c->coll == CORALE_BROADCAST ||
	       (c->coll == CORALE_REDUCE && r->world->ranks > 2);
}

static int in_words(const struct test_call *c)
{
	return c->codelet == &two_shot_codelet && coll_folds(c->coll) && type_in_words(c->type);
}

static void cut(struct item *m, size_t unit, size_t n, size_t i)
{
	size_t begin;
	m->bytes = plan_cut(m->bytes, unit, n, i, &begin);
	m->begin += begin;
}

/* The block or part of a vector that a rank sends another one in an exchange; nothing where only its header goes. */
static void set_message(const struct reader *r, struct item *m)
{
	const struct codelet_args *a = m->launch->args;
	int two_shot = is_two_shot(r), owner = m->exchange ? m->from : m->to;
	size_t ranks = (size_t)a->ranks;
	struct piece piece = piece_of(m->launch, m->number);
	m->begin = piece.at;
	m->bytes = piece.bytes;
	if (two_shot && a->root < 0)
		cut(m, PLAN_UNIT_BYTES, ranks, (size_t)owner);
	else if (two_shot && owner != a->root) /* who has no part */
		cut(m, PLAN_UNIT_BYTES, ranks - 1, (size_t)(owner - (owner > a->root)));
	else if (two_shot || (a->root >= 0 && uses_packets(r->call) && m->from != a->root))
		m->bytes = 0;
}

/* The root hears of everybody by the first line of the part that it dealt to them, of a vector in pieces by all of it. */
static int is_heard_of(const struct reader *r, const struct item *m)
{
	return r->call->codelet == &two_shot_codelet && r->call->coll == CORALE_BROADCAST &&
	       m->to == r->call->root;
}

static void check_heard_of(struct reader *r, const struct item *m, const void *value, size_t bytes)
{
	const unsigned char *dealt = traffic_data(r->planned, 0, m->to, m->from, m->begin + m->at);
	if (bytes && memcmp(dealt, value, bytes))
		complain(r, m, "the root gets other data than it dealt");
	if (bytes && m->at >= CODELET_LINE_DATA && pieces_of(m->launch) == 1)
		complain(r, m, "the root gets more than a line of what it dealt");
}

/* The first `bytes` of a vector are the message's from m->at on. */
static void add(struct reader *r, const struct item *m, const void *value, size_t bytes)
{
	if (m->from != m->launch->rank)
		complain(r, m, "the place is another rank's");
	else if (m->from == m->to)
		complain(r, m, "it sends to itself");
	else if (is_heard_of(r, m))
		check_heard_of(r, m, value, bytes);
	else if (bytes && traffic_add(r->seen, m->exchange, m->from, m->to, m->begin + m->at, value, bytes))
		complain(r, m, "it lies behind the end of the vector");
}

/* How much of so many bytes from m->at on is the message's. */
static size_t clipped(const struct item *m, size_t bytes)
{
	size_t left = m->at < m->bytes ? m->bytes - m->at : 0;
	return left < bytes ? left : bytes;
}

/* ---- Packets --------------------------------------------------------------------------------------------------- */

static int is_filled(const unsigned char *bytes, size_t n, int value)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != (unsigned char)value)
			return 0;
	return 1;
}

/* What words send in place of a word of all ones. */
static uint32_t hidden_word(corale_type type)
{
	size_t bytes = corale_type_bytes(type);
	return bytes == 1 ? 0x7f7f7f7f : bytes == 2 ? 0x7fff7fff : 0x7fffffff;
}

static void add_words(struct reader *r, struct item *m, size_t number)
{
	uint32_t words[VECTOR / 4], hidden = hidden_word(r->call->type);
	m->at = number * VECTOR;
	size_t n = clipped(m, VECTOR);
	if (!n && pieces_of(m->launch) == 1)
		complain(r, m, "a packet without data");
	memcpy(words, m->store->value, VECTOR);
	for (size_t i = 0; i < n / 4; i++) {
		const unsigned char *planned =
		    traffic_data(r->planned, m->exchange, m->from, m->to, m->begin + m->at + i * 4);
		if (words[i] == (uint32_t)EMPTY)
			complain(r, m, "a packet's word is the sign of an empty one");
		if (words[i] == hidden && is_filled(planned, 4, EMPTY))
			words[i] = (uint32_t)EMPTY;
	}
	add(r, m, words, n);
}

static uint64_t epoch_of(const struct reader *r, const struct recorded_launch *l)
{
	return r->first_epoch + 1 + (uint64_t)l->number;
}

/* Lines of a group say which slot of the ring theirs is, and the message's bytes. */
static void check_line_end(struct reader *r, const struct item *m)
{
	uint64_t signature = call_signature(r->call);
	uint32_t end[2], tag = (uint32_t)(signature >> 32) ^ (uint32_t)signature;
	uint32_t number =
	    (uint32_t)(is_group(r->call) ? 2 * m->number + 1 : epoch_of(r, m->launch) + m->number);
	memcpy(end, m->store->value + 8, sizeof(end));
	if (end[0] != number || end[1] != (is_group(r->call) ? m->bytes : tag))
		complain(r, m, "the end of a line has another epoch or tag");
}

static void add_line(struct reader *r, struct item *m, size_t number)
{
	const size_t lane = number % LINE_VECTORS, line = number / LINE_VECTORS * CODELET_LINE_DATA,
		     room = lane == LINE_VECTORS - 1 ? 8 : VECTOR;
	/* Of every second line the first 8 bytes come last. */
	size_t turned =
	    number / LINE_VECTORS % 2 ? (lane == LINE_VECTORS - 1 ? 0 : 8 + lane * VECTOR) : lane * VECTOR;
	m->at = line + turned;
	size_t n = clipped(m, room);
	if (room == 8)
		check_line_end(r, m);
	if (line && line >= m->bytes && pieces_of(m->launch) == 1)
		complain(r, m, "a line without data");
	if (!is_filled(m->store->value + n, room - n, 0))
		complain(r, m, "a line has other bytes beyond its data");
	add(r, m, m->store->value, n);
}

/* at: from the begin of all packets in the owner's window. */
static void read_packet(struct reader *r, struct item *m, size_t at)
{
	const struct codelet_args *a = m->launch->args;
	size_t sender = at / a->area_bytes, others = (size_t)a->ranks - 1, in = at % a->area_bytes;
	size_t exchange_bytes = is_two_shot(r) ? a->area_bytes / 2 : a->area_bytes;
	if (m->owner == m->launch->rank) {
		if (!in_words(r->call) || !is_filled(m->store->value, VECTOR, EMPTY))
			complain(r, m, "its own packets");
		return;
	}
	size_t half = sender / others ^ (epoch_of(r, m->launch) & 1), pieces = pieces_of(m->launch);
	if (pieces > 1) /* each has an epoch: they take turns */
		m->number = half + 2 * r->turns[((size_t)m->owner * 2 * r->slots_bytes + at) / VECTOR]++;
	if (m->number >= pieces || (pieces == 1 && half)) {
		complain(r, m, "the other half");
		return;
	}
	m->exchange = in >= exchange_bytes;
	m->from = (int)(sender % others) + ((int)(sender % others) >= m->owner);
	m->to = m->owner;
	m->launch->sent[m->to]++;
	set_message(r, m);
	if (in_words(r->call))
		add_words(r, m, in % exchange_bytes / VECTOR);
	else
		add_line(r, m, in % exchange_bytes / VECTOR);
}

/* Of what a rank sends at most in an exchange of a piece. */
static size_t most_packets(const struct reader *r, const struct recorded_launch *l)
{
	const struct codelet_args *a = l->args;
	size_t parts = is_two_shot(r) ? (size_t)(a->ranks - (a->root >= 0)) : 1, begin;
	size_t bytes = plan_cut(a->piece, PLAN_UNIT_BYTES, parts, 0, &begin);
	if (in_words(r->call))
		return (bytes + VECTOR - 1) / VECTOR;
	return (bytes + CODELET_LINE_DATA - 1) / CODELET_LINE_DATA * LINE_VECTORS;
}

/* All packets of all pieces, be they empty. */
static void check_sent(struct reader *r, const struct recorded_launch *l)
{
	const struct codelet_args *a = l->args;
	int exchanges = is_two_shot(r) && a->root < 0 ? 2 : 1;
	size_t planned = pieces_of(l) * most_packets(r, l) * (size_t)exchanges;
	for (int to = 0; to < a->ranks; to++) {
		int hears = to != l->rank;
		if (l->sent[to] == (hears ? planned : 0))
			continue;
		if (r->faults++ < MOST_PRINTED)
			printf("# rank %d sent rank %d %zu packets in %zu pieces, not %zu\n", l->rank, to,
			       l->sent[to], pieces_of(l), hears ? planned : 0);
	}
}

static void set_edge(const struct reader *r, struct item *m)
{
	m->begin = 0;
	m->bytes = r->started[m->from].send_counts[m->to] * corale_type_bytes(r->call->type);
}

/* at: from the begin of all rings in the owner's window; a pair's only message goes round each of them from its first slot on. */
static void read_send(struct reader *r, struct item *m, size_t at)
{
	const struct codelet_layout *l = &r->world->layout;
	size_t slot = at / CODELET_LINE_SLOT, ring = slot / l->ring_depth, sender = ring / l->pair_rings;
	size_t turn = r->turns[(((size_t)m->owner * 2 + 1) * r->slots_bytes + at) /
			       VECTOR]++; /* groups have no scratch */
	m->from = (int)sender + ((int)sender >= m->owner);
	m->to = m->owner;
	set_edge(r, m);
	m->number = turn * l->ring_depth + slot % l->ring_depth;
	slot = m->number * l->pair_rings + ring % l->pair_rings;
	add_line(r, m, slot * CODELET_SLOT_LINES * LINE_VECTORS + at % CODELET_LINE_SLOT / VECTOR);
}

/* ---- Slots ----------------------------------------------------------------------------------------------------- */

/* Of slot `number` of a sender: of which exchange and channel it is, how many there are; which of the channel's. */
struct slot {
	size_t second, channel, depth, number;
};

static struct slot slot_of(const struct reader *r, const struct item *m, size_t number)
{
	const struct codelet_args *a = m->launch->args;
	size_t channels = m->launch->blocks;
	struct slot s = { .depth = a->depth };
	if (r->call->coll == CORALE_ALL_TO_ALL_V)
		channels = ((const struct codelet_group *)a)->most_channels;
	s.number = number % s.depth;
	s.channel = number / s.depth % channels;
	s.second = number / s.depth / channels;
	return s;
}

/* The channel's piece of the message. */
static void cut_channel(const struct reader *r, struct item *m, size_t channel)
{
	size_t channels = m->launch->blocks;
	if (r->call->coll == CORALE_ALL_TO_ALL_V) {
		const struct codelet_group *g = (const struct codelet_group *)m->launch->args;
		set_edge(r, m);
		channels = codelet_channels(g, m->bytes);
	}
	cut(m, CODELET_LINE, channels, channel);
}

/* at: from the begin of all slots of the owner; the slots of scratch are counted behind those of the window. */
static void read_slot(struct reader *r, struct item *m, size_t at, int scratch)
{
	const struct codelet_args *a = m->launch->args;
	size_t sender = at / a->area_bytes, in = at % a->area_bytes;
	size_t place = ((size_t)m->owner * 2 + (size_t)scratch) * r->slots_bytes + at;
	const int chain = r->call->codelet == &chain_codelet; /* one sender has the areas of all */
	if (chain)
		in = at;
	struct slot s = slot_of(r, m, in / a->slot_bytes);
	m->exchange = (int)s.second;
	m->from = chain ? (m->owner + a->ranks - 1) % a->ranks : (int)sender + ((int)sender >= m->owner);
	m->to = m->owner;
	if (s.second > (size_t)is_two_shot(r) || m->owner == m->launch->rank) {
		complain(r, m, "no slot of this call");
		return;
	}
	size_t number = s.number + s.depth * r->turns[place / VECTOR]++;
	set_message(r, m);
	m->at = in % a->slot_bytes;
	cut_channel(r, m, s.channel);
	m->at += number * a->slot_bytes;
	size_t n = clipped(m, VECTOR);
	if (!n)
		complain(r, m, "a slot beyond the message");
	add(r, m, m->store->value, n);
}

/* ---- What receivers of a group grant ----------------------------------------------------------------------------- */

/* A rank's only launch. */
static const struct codelet_p2p *group_of(const struct reader *r, int rank)
{
	const struct recorded_launch *l = r->launches;
	while (l->rank != rank)
		l++;
	return (const struct codelet_p2p *)l->args;
}

/* The list whose messages come through a room, or NULL. */
static const struct codelet_message *list_of_room(const struct codelet_p2p *e, size_t room,
						  size_t *slot_bytes)
{
	for (int i = 0; i < e->group.lists && e->rooms; i++) {
		const struct codelet_message *m = &e->messages[e->first[i]];
		const uint64_t place = e->places[e->first[i]];
		*slot_bytes = (place >> 32) * CODELET_LINE;
		if (!m->sending && m->peer != e->group.args.rank && !codelet_is_target(place) &&
		    !codelet_in_long_lines(&e->group, m->bytes) && (uint32_t)place == room)
			return m;
	}
	return NULL;
}

/* at: from the begin of the owner's slots, which its rooms share. A channel has room for `depth` of the longest slots, and begins with those of its message. */
static void read_room(struct reader *r, struct item *m, size_t at)
{
	const struct codelet_p2p *e = group_of(r, m->owner);
	const struct codelet_args *a = &e->group.args;
	const size_t room = (size_t)a->depth * a->slot_bytes, in = at % a->area_bytes, channel = in / room;
	size_t place = (size_t)m->owner * 2 * r->slots_bytes + at, slot_bytes;
	const struct codelet_message *list = list_of_room(e, at / a->area_bytes, &slot_bytes);
	m->to = m->owner;
	if (!list || channel >= e->group.most_channels || in % room >= a->depth * slot_bytes) {
		complain(r, m, "no room of this group");
		return;
	}
	m->from = list->peer;
	set_edge(r, m);
	cut(m, CODELET_LINE, codelet_channels(&e->group, m->bytes), channel);
	m->at = (in % room / slot_bytes + a->depth * r->turns[place / VECTOR]++) * slot_bytes +
		in % room % slot_bytes;
	size_t n = clipped(m, VECTOR);
	if (!n)
		complain(r, m, "a slot beyond the message");
	add(r, m, m->store->value, n);
}

/* at: from the begin of the grants in the owner's window. */
static void check_grant(struct reader *r, const struct item *m, size_t at)
{
	size_t receiver = at / (CODELET_CHANNELS * sizeof(struct codelet_channel_words));
	if (!is_group(r->call) || receiver != (size_t)m->launch->rank || m->owner == m->launch->rank)
		complain(r, m, "another rank's grant");
}

/* ---- Registered memory ------------------------------------------------------------------------------------------ */

/* Of a group, whose blocks lie as its receiver says. */
static void set_direct_edge(struct reader *r, struct item *m)
{
	size_t begin = r->started[m->to].recv_displs[m->from] * corale_type_bytes(r->call->type);
	set_edge(r, m);
	if (m->at < begin || m->at - begin + VECTOR > m->bytes)
		complain(r, m, "another rank's block");
	m->at -= begin;
}

/* at: from the begin of the owner's receive buffer. */
static void read_direct(struct reader *r, struct item *m, size_t at)
{
	size_t block = m->launch->args->recv_block;
	if (m->owner == m->launch->rank) /* its own results */
		return;
	m->exchange = is_two_shot(r);
	m->from = m->launch->rank;
	m->to = m->owner;
	if (r->call->coll == CORALE_BROADCAST && r->call->codelet != &chain_codelet)
		m->exchange = m->from != r->call->root;
	m->begin = 0;
	m->bytes = r->seen->bytes;
	m->at = at;
	if (is_group(r->call))
		set_direct_edge(r, m);
	if (block && at / block != (size_t)m->from)
		complain(r, m, "another rank's block");
	if (block)
		m->at = at % block;
	add(r, m, m->store->value, VECTOR);
}

/* ---- All of it -------------------------------------------------------------------------------------------------- */

static int lies_in(const unsigned char *at, const unsigned char *begin, size_t bytes)
{
	return begin && at >= begin && at < begin + bytes;
}

/* at: in the owner's window. */
static void read_window(struct reader *r, struct item *m, size_t at)
{
	const struct codelet_args *a = m->launch->args;
	const struct codelet_layout *l = &r->world->layout;
	size_t others = (size_t)a->ranks - 1;
	if (at >= a->headers && at < l->flags) {
		size_t line = (at - a->headers) / CODELET_LINE;
		if (line % (size_t)a->ranks != (size_t)m->launch->rank || m->owner == m->launch->rank)
			complain(r, m, "another rank's header");
	} else if (at >= l->grants && at < l->message_refs) {
		check_grant(r, m, at - l->grants);
	} else if (at >= a->area && uses_packets(r->call) && at - a->area < 2 * others * a->area_bytes) {
		read_packet(r, m, at - a->area);
	} else if (is_group(r->call) && at >= l->slots) {
		read_room(r, m, at - l->slots);
	} else if (at >= a->area && !uses_packets(r->call) && !a->slots &&
		   at - a->area < others * a->area_bytes) {
		read_slot(r, m, at - a->area, 0);
	} else if (is_group(r->call) && at >= l->rings && at < l->slots) {
		read_send(r, m, at - l->rings);
	} else {
		complain(r, m, "neither a header, nor a packet, nor a slot of this call");
	}
}

/* Bytes of one rank's scratch. */
static size_t scratch_bytes(const struct world *w)
{
	return w->scratch ? w->engines->regions[1].bytes : 0;
}

static void read_store(struct reader *r, const struct gpu_store *store)
{
	const struct world *w = r->world;
	struct item m = { .store = store, .launch = &r->launches[store->launch] };
	const struct codelet_args *a = m.launch->args;
	for (m.owner = 0; m.owner < w->ranks; m.owner++) {
		const unsigned char *window = w->windows + (size_t)m.owner * w->engines->stride;
		if (lies_in(store->to, window, w->engines->stride)) {
			read_window(r, &m, (size_t)(store->to - window));
			return;
		}
		if (w->registered &&
		    lies_in(store->to, r->started[m.owner].recv, w->engines->regions[0].bytes)) {
			read_direct(r, &m, (size_t)(store->to - r->started[m.owner].recv));
			return;
		}
		if (w->scratch && a->slots && lies_in(store->to, w->scratch[m.owner], scratch_bytes(w))) {
			read_slot(r, &m, (size_t)(store->to - w->scratch[m.owner]), 1);
			return;
		}
	}
	m.owner = -1;
	complain(r, &m, "it belongs to nothing");
}

void recorded_begin(const struct world *w, int copies)
{
	if (!copies)
		gpu_record(w->windows, (size_t)w->ranks * w->engines->stride);
	for (int r = 0; r < w->ranks; r++) {
		if (w->registered)
			gpu_record(w->registered[r], w->engines->regions[0].bytes);
		if (w->scratch)
			gpu_record(w->scratch[r], scratch_bytes(w));
	}
}

int recorded_read(const struct world *w, const struct started *ranks, uint64_t first_epoch,
		  const struct traffic *planned, struct traffic *seen)
{
	size_t nlaunches, nstores;
	const struct gpu_store *stores = gpu_stores(&nstores);
	struct reader r = { .world = w,
			    .started = ranks,
			    .call = ranks[0].call,
			    .first_epoch = first_epoch,
			    .planned = planned,
			    .seen = seen,
			    .launches = read_launches(&nlaunches) };
	r.slots_bytes = w->engines->stride > scratch_bytes(w) ? w->engines->stride : scratch_bytes(w);
	r.turns = calloc(2 * (size_t)w->ranks * r.slots_bytes / VECTOR, 1);
	if (!r.turns)
		abort();
	for (size_t i = 0; i < nstores; i++)
		read_store(&r, &stores[i]);
	for (size_t i = 0; i < nlaunches; i++)
		if (uses_packets(r.call) && pieces_of(&r.launches[i]) > 1)
			check_sent(&r, &r.launches[i]);
	free(r.turns);
	free(r.launches);
	return r.faults;
}

/* ---- Copy engines ----------------------------------------------------------------------------------------------- */

/* A copy of data, from where it lies. */
struct copied {
	struct world_copy copy;
	int rank, exchange;
	size_t at; /* in the block or vector */
	int block; /* whose it is; -1: everybody's */
};

struct copies_reader {
	const struct started *started;
	struct traffic *seen;
	struct copied *all; /* by launch */
	size_t bytes[GPU_MAX_HOSTS]; /* copied so far, by rank */
	int faults;
};

static void complain_of_copy(struct copies_reader *r, int rank, int owner, const char *what)
{
	if (r->faults++ < MOST_PRINTED)
		printf("# rank %d stored into rank %d's memory: %s\n", rank, owner, what);
}

/* A broadcast goes on in its order, out of whatever memory; else contributions lie in the send buffer, results where they are received. */
static void place_copy(struct copies_reader *r, struct copied *c, int rank, const struct started *s)
{
	size_t block = s->call->count * corale_type_bytes(s->call->type), end = block;
	c->rank = rank;
	c->at = r->bytes[rank];
	c->block = -1;
	r->bytes[rank] += c->copy.bytes;
	if (s->call->coll == CORALE_BROADCAST)
		return;
	end *= coll_send_blocks(s->call->coll, s->ranks, rank, s->call->root);
	c->exchange = !lies_in(c->copy.from, s->send, end);
	c->at = (size_t)(c->copy.from - (c->exchange ? s->recv : s->send));
	if (coll_sends_each(s->call->coll) && block) {
		c->block = (int)(c->at / block);
		c->at %= block;
	}
}

static void read_copied(struct copies_reader *r, const struct copied *c, int owner,
			const struct gpu_store *store)
{
	size_t done = (size_t)(store->to - c->copy.to), left = c->copy.bytes - done;
	if (c->block >= 0 && c->block != owner)
		complain_of_copy(r, c->rank, owner, "a block for another rank");
	else if (traffic_add(r->seen, c->exchange, c->rank, owner, c->at + done, store->value,
			     left < VECTOR ? left : VECTOR))
		complain_of_copy(r, c->rank, owner, "what lies behind the end of the vector");
}

static int owner_of(const struct world *w, const unsigned char *at)
{
	for (int r = 0; r < w->ranks; r++)
		if ((w->registered && lies_in(at, w->registered[r], w->engines->regions[0].bytes)) ||
		    (w->scratch && lies_in(at, w->scratch[r], scratch_bytes(w))))
			return r;
	return -1;
}

int recorded_copies(const struct world *w, const struct started *ranks, struct traffic *seen)
{
	size_t nlaunches, nstores;
	const struct gpu_launched *launches = gpu_launches(&nlaunches);
	const struct gpu_store *stores = gpu_stores(&nstores);
	struct copies_reader r = { .started = ranks,
				   .seen = seen,
				   .all = calloc(nlaunches + 1, sizeof(*r.all)) };
	if (!r.all)
		abort();
	for (size_t i = 0; i < nlaunches; i++)
		if (world_copied(&launches[i], &r.all[i].copy))
			place_copy(&r, &r.all[i], launches[i].rank, &ranks[launches[i].rank]);
	for (size_t i = 0; i < nstores; i++) {
		size_t l = stores[i].launch;
		int owner = owner_of(w, stores[i].to);
		if (owner == launches[l].rank) /* its own results */
			continue;
		if (r.all[l].copy.to)
			read_copied(&r, &r.all[l], owner, &stores[i]);
		else
			complain_of_copy(&r, launches[l].rank, owner, "a kernel did, not a copy engine");
	}
	free(r.all);
	return r.faults;
}

void recorded_end(void)
{
	gpu_record_end();
}
