/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls by few blocks that read the ranks' buffers where they lie, as far as these are mapped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collectives.h"
#include "base/status.h"
#include "emulation_test.h"
#include "test/helpers/op_sets.h"
#include "script.h"

static const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_REDUCE_SCATTER, CORALE_REDUCE,
				     CORALE_ALL_GATHER, CORALE_ALL_TO_ALL,     CORALE_GATHER,
				     CORALE_SCATTER,    CORALE_BROADCAST };

enum { COLLS = sizeof colls / sizeof *colls };

static uint64_t state_of_random;

static size_t draw(size_t below)
{
	state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(state_of_random >> 33) % below;
}

static struct test_call draw_call(corale_coll coll, int ranks)
{
	static const size_t most[] = { 8, 400, 4000, 12000 };
	struct test_call c = { .codelet = &bulk_codelet, .coll = coll, .zero_copy = 1 };
	const int odd = !draw(4);
	c.type = type_of_codelets(draw(CORALE_NUM_TYPES));
	c.op = coll_folds(coll) ? op_of_codelets(c.type, draw(CORALE_NUM_OPS + 1)) : 0;
	c.count = 1 + draw(most[draw(test_thin ? 3 : 4)]);
	c.root = (int)draw((size_t)ranks);
	c.in_place = !draw(3);
	c.in_place <<= coll == CORALE_REDUCE_SCATTER && draw(2); /* CALL_AT_FRONT */
	c.send_shift = odd ? (unsigned)draw(64) : 0;
	c.recv_shift = odd ? (unsigned)draw(64) : 0;
	c.alone = draw(2) ? 1 + (int)draw((size_t)ranks) : 0;
	return c;
}

/* One whose ranks all can read what they need, and need no slots besides. */
static struct test_call draw_in_place(corale_coll coll, int ranks)
{
	struct test_call c = draw_call(coll, ranks);
	c.op = c.op == CORALE_NUM_OPS ? CORALE_SUM : c.op;
	c.in_place = coll == CORALE_ALL_TO_ALL || c.in_place == CALL_AT_FRONT ? 0 : c.in_place;
	c.coll = coll == CORALE_REDUCE && ranks > 2 ? CORALE_ALL_REDUCE : coll;
	return c;
}

static struct world_params params_of(int ranks, enum exports_kind kind)
{
	return (struct world_params){ .ranks = ranks,
				      .max_blocks = 1 + (int)((test_seed + (uint64_t)ranks) % 2),
				      .window_bytes = (size_t)(ranks > 5 ? 320 : 224) << 10,
				      .exports = kind,
				      .read_blocks = 1 + (int)(test_seed / 2 % 2),
				      .exports_apart = (int)((test_seed + (uint64_t)ranks / 2) % 2) };
}

/* Between others: by slots, packets and calls that are not zero-copy. */
static struct test_call other_call(int i)
{
	const corale_coll coll = i % 2 ? CORALE_ALL_REDUCE : CORALE_ALL_GATHER;
	return call_by(i % 3 == 0   ? test_slots_codelet(coll)
		       : i % 3 == 1 ? &bulk_codelet
				    : &one_shot_codelet,
		       coll, CORALE_INT32, i % 3 == 2 ? 100 : 3000);
}

static int run_of(int ranks, enum exports_kind kind, int calls)
{
	struct script *s = script_new(params_of(ranks, kind), test_seed);
	state_of_random = test_seed * 91 + (uint64_t)ranks;
	s->most_pause = kind == EXPORTS_OPEN ? 300 : 3000;
	for (int i = 0; i < calls; i++)
		script_add(s, kind != EXPORTS_OPEN && i % 4 == 3 ? other_call(i / 4)
								 : draw_call(colls[i % COLLS], ranks));
	return script_run(s);
}

static int run_all(enum exports_kind kind, int most, int calls)
{
	int faults = 0;
	if (test_thin)
		return run_of(2 + (int)(test_seed % 2), kind, 16);
	for (int ranks = 2; !faults && ranks <= most; ranks++)
		faults = run_of(ranks, kind, calls);
	return faults;
}

static int in_place_of(int ranks)
{
	struct script *s = script_new(params_of(ranks, EXPORTS_OPEN), test_seed);
	state_of_random = test_seed * 17 + (uint64_t)ranks;
	s->without_slots = 1;
	for (int i = 0; i < (test_thin ? 1 : 2) * (int)COLLS; i++)
		script_add(s, draw_in_place(colls[i % COLLS], ranks));
	return script_run(s);
}

/* By teams of warps, but for some ranks: collectives between them. */
static int edges_of(int ranks, enum exports_kind kind)
{
	struct world_params p = params_of(ranks, kind);
	p.window_bytes = (size_t)ranks << 17;
	p.lists_ranks = test_seed % 2 ? 1u << test_seed / 2 % (unsigned)ranks : 0;
	struct script *s = script_new(p, test_seed);
	state_of_random = test_seed * 53 + (uint64_t)ranks;
	s->most_pause = kind == EXPORTS_OPEN ? 300 : 3000;
	for (int i = 0; i < (test_thin ? 8 : 40); i++) {
		struct test_call c = draw_call(CORALE_ALL_TO_ALL_V, ranks);
		c.codelet = &fifo_codelet;
		c.in_place = 0;
		script_add(s, i % 5 == 4 ? other_call(i / 5) : c);
	}
	return script_run(s);
}

static int run_edges(enum exports_kind kind, int most)
{
	int faults = 0;
	for (int ranks = 2; !faults && ranks <= (test_thin ? 2 + (int)(test_seed % 2) : most); ranks++)
		faults = edges_of(ranks, kind);
	return faults;
}

int test_zero_copy_edges(void)
{
	return run_edges(EXPORTS_OPEN, 5);
}

int test_zero_copy_edges_late(void)
{
	return run_edges(EXPORTS_LATE, 4);
}

int test_zero_copy(void)
{
	int faults = in_place_of(2);
	faults = faults ? faults : in_place_of(3);
	faults = faults ? faults : run_all(EXPORTS_OPEN, 5, 64);
	return faults || test_thin ? faults : run_of(8, EXPORTS_OPEN, COLLS);
}

int test_zero_copy_late(void)
{
	return run_all(EXPORTS_LATE, 4, 90);
}

int test_zero_copy_refused(void)
{
	return run_all(EXPORTS_REFUSED, 3, 40);
}

/* ---- Ranks that fail ---------------------------------------------------------------------------------------------- */

enum { EPOCH = 1, ALL_PHASES = 1 << 10 };

/* The last rank's kernel is played by its host: it comes so far, and no further. */
struct failing {
	struct world world;
	struct test_call call;
	struct started started[3];
	int phases; /* that the last rank ends; < 0: it never comes */
	int code; /* what the others shall have; of an abort: rank 0 gives up alone */
	int faults[3];
};

static unsigned char *window(struct failing *f, int rank)
{
	return f->world.windows + (size_t)rank * f->world.engines[rank].stride;
}

static void store_packet(unsigned char *to, uint64_t word)
{
	const uint32_t packet[] = { (uint32_t)word, EPOCH, (uint32_t)(word >> 32), EPOCH };
	for (int i = 0; i < 4; i++)
		__atomic_store_n((uint32_t *)(void *)to + i, packet[i], __ATOMIC_RELAXED);
}

static uint64_t *flag(struct failing *f, int sender, int receiver)
{
	return (uint64_t *)(void *)(window(f, receiver) + f->world.layout.flags) +
	       sender * CODELET_MAX_BLOCKS;
}

static uint64_t ref_word(const struct export_ref *r)
{
	return r->offset | r->number % EXPORTS_ROOM << EXPORTS_OFFSET_BITS;
}

/* A rank's header and refs, for another one. */
static void play_refs(struct failing *f, int rank, int to, const struct codelet_zero_copy *z)
{
	const struct codelet_layout *l = &f->world.layout;
	const size_t index = (size_t)((EPOCH & 1) * f->world.ranks + rank);
	unsigned char *refs = window(f, to) + l->refs + index * sizeof(struct codelet_refs);
	store_packet(window(f, to) + l->headers + index * sizeof(struct codelet_header),
		     call_signature(&f->call));
	store_packet(refs + (int)CODELET_REF_SEND * 16, ref_word(&z->send));
	store_packet(refs + (int)CODELET_REF_RECV * 16, ref_word(&z->recv));
	store_packet(refs + (int)CODELET_REF_NEED * 16,
		     (z->send.number > z->recv.number ? z->send.number : z->recv.number) | (uint64_t)1 << 32);
	for (int i = CODELET_REF_OPENED; i < CODELET_REFS; i++)
		store_packet(refs + i * 16, ~(uint64_t)0);
}

static void play_rank(struct failing *f, int rank)
{
	struct started *s = &f->started[rank];
	struct codelet_zero_copy z = { .exports = NULL };
	call_fill(s, &f->world, rank, &f->call);
	const struct call c = { .record = { .coll = f->call.coll }, .send = s->send, .recv = s->recv };
	engine_name_buffers(&f->world.engines[rank], &c, &z);
	for (int to = 0; f->phases >= 0 && to < rank; to++)
		play_refs(f, rank, to, &z);
	for (int to = 0; f->phases > 0 && f->phases != ALL_PHASES && to < rank; to++)
		__atomic_store_n(flag(f, rank, to),
				 ((uint64_t)EPOCH << CODELET_NUMBER_BITS) + (uint64_t)f->phases,
				 __ATOMIC_RELAXED);
}

/* The reader has folded, and waits for what the owner has; that has given up, and says that it has come to the end. */
static void give_up_late(struct failing *f, int rank)
{
	const uint64_t end = ((uint64_t)EPOCH << CODELET_NUMBER_BITS) + 2;
	while (__atomic_load_n(flag(f, 0, rank), __ATOMIC_RELAXED) < end - 1)
		gpu_pause(1);
	__atomic_store_n(&((struct codelet_control *)(void *)window(f, 0))->abort,
			 (uint64_t)(rank + 1) << 32 | (uint32_t)-CORALE_EABORTED, __ATOMIC_RELAXED);
	__atomic_store_n(flag(f, rank, 0), end, __ATOMIC_RELAXED);
}

static void fail(int rank, void *arg)
{
	struct failing *f = arg;
	struct started *s = &f->started[rank];
	if (rank == f->world.ranks - 1) {
		play_rank(f, rank);
		if (f->phases == ALL_PHASES)
			give_up_late(f, rank);
		gpu_synchronize();
		return;
	}
	f->faults[rank] = call_start(s, &f->world, rank, &f->call, call_signature(&f->call)) != 0;
	if (rank == 0 && f->code == CORALE_EABORTED && f->phases != ALL_PHASES) {
		gpu_pause(1000 + gpu_random(3000));
		world_quit(&f->world, rank, f->code);
	}
	gpu_synchronize();
}

/* The first rank that fails names the one that is to blame, and others name that rank. */
static int expect_failures(struct failing *f)
{
	const int last = f->world.ranks - 1;
	const int blamed = f->code == CORALE_ETIMEDOUT || f->phases == ALL_PHASES ? last : 0;
	int faults = !((struct codelet_control *)(void *)window(f, last))->abort, named = 0;
	for (int r = 0; r < last; r++) {
		faults += f->faults[r] || f->world.engines[r].failure->code != f->code;
		named += f->world.engines[r].failure->peer == blamed;
	}
	faults += !named;
	for (int r = 0; faults && r < last; r++)
		printf(
		    "# %d ranks, the last one ends %d phases: rank %d has '%s', peer %d, expected '%s', %d\n",
		    last + 1, f->phases, r, corale_strerror(f->world.engines[r].failure->code),
		    f->world.engines[r].failure->peer, corale_strerror(f->code), blamed);
	return faults;
}

static int run_failing(int ranks, int phases, int code)
{
	struct failing f = { .call = { .codelet = &bulk_codelet,
				       .coll = CORALE_ALL_REDUCE,
				       .type = CORALE_FLOAT32,
				       .count = 3000,
				       .zero_copy = 1 },
			     .phases = phases,
			     .code = code };
	struct world_params p = params_of(ranks, EXPORTS_OPEN);
	p.max_blocks = 1;
	p.exports_apart = 1;
	p.timeout_ns = code == CORALE_ETIMEDOUT ? 1000000 : 0;
	if (world_open(&f.world, &p))
		return 1;
	if (gpu_run(ranks, fail, &f, test_seed))
		return -1;
	const int faults = expect_failures(&f);
	for (int r = 0; r < ranks; r++)
		call_drop(&f.started[r]);
	world_close(&f.world);
	return faults;
}

int test_zero_copy_failures(void)
{
	int faults = run_failing(2, ALL_PHASES, CORALE_EABORTED);
	for (int phases = -1; !faults && phases < 2; phases++) {
		faults = run_failing(test_thin ? 2 : 3, phases, CORALE_EABORTED);
		faults = faults ? faults : run_failing(test_thin ? 2 : 3, phases, CORALE_ETIMEDOUT);
	}
	return faults;
}

/* ---- Ends of a message that give up -------------------------------------------------------------------------------- */

enum {
	MESSAGE_BYTES = 1000000 /* several moves of its reader */,
	POISON = 0xc3,
	NOBODY = 2,
	RANKS_OF_MESSAGE = 2
};

struct giving_up {
	struct world world;
	int quits; /* the rank; NOBODY; -1: rank 0's kernel is played by its host, which gives up */
	unsigned most_pause;
	unsigned char *send, *recv;
	int faults[2];
};

static unsigned char content(size_t i)
{
	return (unsigned char)(i * 7 + i / 251 + test_seed);
}

/* What rank 0 says of a channel to rank 1: in the area of refs or of grants. */
static void play_words(const struct world *w, uint64_t area, int channel, uint64_t first, uint64_t second)
{
	unsigned char *words =
	    w->windows + w->engines[1].stride + area + (size_t)channel * sizeof(struct codelet_channel_words);
	store_packet(words, first);
	store_packet(words + 16, second);
}

static uint64_t typed_bytes(void)
{
	return (uint64_t)codelet_typed_bytes_high(CORALE_UINT8, MESSAGE_BYTES) << 32 | MESSAGE_BYTES;
}

static void play_count(const struct world *w)
{
	store_packet(w->windows + w->engines[1].stride + w->layout.headers +
			 2 * sizeof(struct codelet_header) + 16,
		     typed_bytes());
}

/* Of so many channels. */
static void play_refs_of_message(const struct world *w, const unsigned char *send, int channels)
{
	struct codelet_zero_copy z = { .exports = NULL };
	const struct call c = { .record.coll = CORALE_GATHER, .send = send };
	engine_name_buffers(&w->engines[0], &c, &z);
	for (int channel = 0; channel < channels; channel++)
		play_words(w, w->layout.message_refs, channel, ref_word(&z.send), z.send.number);
}

/* A sender's count and ref, as far as it comes; then its buffer is the program's again. */
static void play_sender(struct giving_up *g)
{
	unsigned char *window = g->world.windows + g->world.engines[1].stride;
	play_count(&g->world);
	play_refs_of_message(&g->world, g->send, 1);
	gpu_pause(gpu_random(g->most_pause));
	__atomic_store_n(&((struct codelet_control *)(void *)window)->abort,
			 (uint64_t)1 << 32 | (uint32_t)-CORALE_EABORTED, __ATOMIC_SEQ_CST);
	memset(g->send, POISON, MESSAGE_BYTES);
}

static void check_received(struct giving_up *g)
{
	const int code = g->world.engines[1].failure->code;
	for (size_t i = 0; !code && i < MESSAGE_BYTES; i++)
		if (g->recv[i] != content(i)) {
			printf("# a receive that succeeded has byte %zu as 0x%02x, expected 0x%02x\n", i,
			       g->recv[i], content(i));
			g->faults[1] = 1;
			return;
		}
	if (code && code != CORALE_EABORTED)
		g->faults[1] = 1;
}

static void give_up(int rank, void *arg)
{
	struct giving_up *g = arg;
	const struct call m = rank ? world_receive(0, g->recv, MESSAGE_BYTES, CORALE_UINT8)
				   : world_send(1, g->send, MESSAGE_BYTES, CORALE_UINT8);
	if (!rank && g->quits < 0) {
		play_sender(g);
		return;
	}
	g->faults[rank] += engine_run_messages(&g->world.engines[rank], &m, 1, NULL) != 0;
	if (rank == g->quits) {
		gpu_pause(gpu_random(g->most_pause));
		world_quit(&g->world, rank, CORALE_EABORTED);
	}
	gpu_synchronize();
	if (rank)
		check_received(g);
	else
		memset(g->send, POISON, MESSAGE_BYTES);
}

/* by_lists: the sender's kernel is p2p. */
static int run_giving_up(int quits, unsigned most_pause, int by_lists, uint64_t seed)
{
	struct giving_up g = { .quits = quits, .most_pause = most_pause };
	struct world_params p = params_of(2, EXPORTS_OPEN);
	p.max_blocks = 1;
	p.exports_apart = 1;
	p.lists_ranks = (unsigned)by_lists;
	if (world_open(&g.world, &p))
		return 1;
	g.send = exports_take(0, MESSAGE_BYTES);
	g.recv = exports_take(1, MESSAGE_BYTES);
	for (size_t i = 0; i < MESSAGE_BYTES; i++)
		g.send[i] = content(i);
	if (gpu_run(2, give_up, &g, seed))
		return -1;
	world_close(&g.world);
	return g.faults[0] + g.faults[1];
}

int test_read_failures(void)
{
	int faults = run_giving_up(NOBODY, 1, 0, test_seed);
	faults = faults ? faults : run_giving_up(NOBODY, 1, 1, test_seed);
	for (unsigned i = 0; !faults && i < (test_thin ? 6 : 16); i++) {
		const uint64_t seed = test_seed * 100 + i;
		faults = run_giving_up(-1, 8u << i % 12, 0, seed);
		faults = faults || i % 2 ? faults : run_giving_up((int)(i / 2 % 2), 1u << i, i / 4 % 2, seed);
	}
	return faults;
}

/* ---- Ends of a message that stop ------------------------------------------------------------------------------------ */

/* Rank 0's kernel is played by its host, which comes as far as that. */
enum stop {
	SENDS_NOTHING,
	SENDS_COUNT,
	SENDS_HALF_A_REF, /* the first packet's word has come, and not the second one's */
	SENDS_ONE_REF, /* its first channel can be read */
	SENDS_REFS_ONLY, /* of all channels, and no count */
	TAKES_NOTHING,
	TAKES_SLOTS, /* grants the first channel slots, and empties none */
	TAKES_ONE, /* has read the first channel */
	STOPS
};

struct stopping {
	struct world world;
	enum stop stop;
	int code, faults;
	unsigned char *own, *other; /* rank 1's buffer, and rank 0's */
};

enum { CHANNELS = 2, GRANTED_LINES = 32 };

static void play_until(struct stopping *s)
{
	const struct world *w = &s->world;
	const struct codelet_layout *l = &w->layout;
	unsigned char *window = w->windows + w->engines[1].stride;
	if (s->stop == SENDS_COUNT || s->stop == SENDS_HALF_A_REF || s->stop == SENDS_ONE_REF)
		play_count(w);
	if (s->stop == SENDS_HALF_A_REF)
		store_packet(window + l->message_refs, 0);
	if (s->stop == SENDS_ONE_REF || s->stop == SENDS_REFS_ONLY)
		play_refs_of_message(w, s->other, s->stop == SENDS_ONE_REF ? 1 : CHANNELS);
	if (s->stop == TAKES_SLOTS)
		play_words(w, l->grants, 0, (uint64_t)GRANTED_LINES << 32, typed_bytes());
	if (s->stop == TAKES_ONE)
		__atomic_store_n((uint64_t *)(void *)(window + l->acks) +
				     (size_t)CODELET_PAIRS * RANKS_OF_MESSAGE * CODELET_MAX_BLOCKS,
				 ((uint64_t)EPOCH << CODELET_NUMBER_BITS) + 2, __ATOMIC_RELEASE);
}

static void stop(int rank, void *arg)
{
	struct stopping *s = arg;
	const struct call m = s->stop < TAKES_NOTHING ? world_receive(0, s->own, MESSAGE_BYTES, CORALE_UINT8)
						      : world_send(0, s->own, MESSAGE_BYTES, CORALE_UINT8);
	if (!rank) {
		play_until(s);
		return;
	}
	s->faults += engine_run_messages(&s->world.engines[1], &m, 1, NULL) != 0;
	if (s->code == CORALE_EABORTED) {
		gpu_pause(20000);
		world_abort(&s->world, 1, s->code);
	}
	gpu_synchronize();
}

static int run_stopping(enum stop at, int code, int by_lists)
{
	struct stopping s = { .stop = at, .code = code };
	struct world_params p = params_of(RANKS_OF_MESSAGE, EXPORTS_OPEN);
	p.max_blocks = CHANNELS;
	p.window_bytes = 1 << 20; /* slots for both channels */
	p.exports_apart = 1;
	p.lists_ranks = by_lists ? 1u << 1 : 0;
	p.timeout_ns = code == CORALE_ETIMEDOUT ? 10000000 : 0;
	if (world_open(&s.world, &p))
		return 1;
	s.own = exports_take(1, MESSAGE_BYTES);
	s.other = exports_take(0, MESSAGE_BYTES);
	if (gpu_run(RANKS_OF_MESSAGE, stop, &s, test_seed))
		return -1;
	const struct codelet_failure *f = s.world.engines[1].failure;
	const int good = f->code == code && (code == CORALE_EABORTED || f->peer == 0) && f->epoch == EPOCH;
	if (!good)
		printf("# rank 0 stops at step %d%s: rank 1 has '%s', peer %d, message %d, expected '%s'\n",
		       (int)at, by_lists ? ", by lists" : "", corale_strerror(f->code), f->peer,
		       (int)f->epoch, corale_strerror(code));
	world_close(&s.world);
	return s.faults + !good;
}

/* A receiver by lists reads nothing. */
int test_read_stops(void)
{
	int faults = 0;
	for (int at = 0; !faults && at < STOPS; at++)
		for (int by_lists = 0; !faults && by_lists <= (at >= TAKES_NOTHING); by_lists++) {
			faults = run_stopping((enum stop)at, CORALE_ETIMEDOUT, by_lists);
			faults = faults ? faults : run_stopping((enum stop)at, CORALE_EABORTED, by_lists);
		}
	return faults;
}
