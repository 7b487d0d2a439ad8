/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fused kernels of the GPU engine, compiled for the processor and run on emulated GPUs (gpu.h): results of all
 * codelets, sequences of calls, sends and receives, failures. TAP: a case a line.
 * Usage: emulation_test [SEED [WORD]]: only cases whose name holds WORD. TEST_THIN in the environment: less of all, without a WORD half of them.
 */
#include "emulation_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "script.h"
#include "test/helpers/thin.h"
#include "test/helpers/op_sets.h"
#include "base/collectives.h"
#include "base/status.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

uint64_t test_seed;
int test_thin;

/* ---- Each collective by each codelet ------------------------------------------------------------------------------ */

static const corale_type types[] = { CORALE_FLOAT32, CORALE_INT32,   CORALE_BFLOAT16,    CORALE_FLOAT64,
				     CORALE_INT8,    CORALE_FLOAT16, CORALE_FLOAT8_E4M3, CORALE_UINT64,
				     CORALE_INT16,   CORALE_UINT16 };

static int most_ranks(int most)
{
	return test_thin && most > 3 ? 3 : most;
}

/* Calls of one kind, of counts and types in turn; every third one has odd addresses. */
static void add_calls(struct script *s, struct test_call c, const size_t *counts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t t = 0; t < COUNT(types); t += (size_t)(test_thin ? 3 : 1)) {
			size_t turn = t + i;
			c.type = types[turn % COUNT(types)];
			c.op = coll_folds(c.coll) ? op_of_codelets(c.type, turn + i) : 0;
			c.count = counts[i];
			c.root = (int)(turn % (size_t)s->params.ranks);
			c.send_shift = turn % 3 == 2 ? 1 + (unsigned)turn % 15 : 0;
			c.recv_shift = turn % 4 == 3 ? 4 * (unsigned)(turn % 5) : 0;
			if (c.coll == CORALE_ALL_TO_ALL)
				c.in_place = turn % 2;
			else if (c.coll == CORALE_REDUCE_SCATTER)
				c.in_place = turn % 3 ? (turn % 2 ? CALL_AT_FRONT : 0) : 1;
			script_add(s, c);
		}
}

static int run_calls(struct world_params p, int last_ranks, struct test_call c, const size_t *counts,
		     size_t n)
{
	int faults = 0, more = 0;
	for (p.ranks = 2; more >= 0 && p.ranks <= most_ranks(last_ranks); p.ranks++) {
		struct script *s = script_new(p, test_seed);
		s->most_pause = 300;
		add_calls(s, c, counts, n);
		more = script_run(s);
		faults = more < 0 ? -1 : faults + more;
	}
	return faults;
}

static const size_t few[] = { 1, 3, 31, 100 }, some[] = { 2, 30, 500, 1500 };
static const struct world_params room = { .max_blocks = 8, .window_bytes = 2 << 20 };

static int packets(corale_coll coll)
{
	struct test_call c = { .codelet = &one_shot_codelet, .coll = coll };
	int faults = run_calls(room, 6, c, few, COUNT(few));
	return faults ? faults : run_calls(room, 3, c, some, test_thin ? 2 : COUNT(some));
}

static int all_reduce_packets(void)
{
	return packets(CORALE_ALL_REDUCE);
}

static int reduce_scatter_packets(void)
{
	return packets(CORALE_REDUCE_SCATTER);
}

static int all_gather_packets(void)
{
	return packets(CORALE_ALL_GATHER);
}

static int all_to_all_packets(void)
{
	return packets(CORALE_ALL_TO_ALL);
}

static int broadcast_packets(void)
{
	return packets(CORALE_BROADCAST);
}

/* Fewer threads than vectors. */
static int few_blocks(void)
{
	static const size_t counts[] = { 1000, 3000 };
	struct world_params p = { .max_blocks = 2, .window_bytes = 4 << 20 };
	struct test_call c = { .codelet = &one_shot_codelet, .coll = CORALE_ALL_REDUCE };
	int faults = run_calls(p, 2, c, counts, test_thin ? 1 : 2);
	c.coll = CORALE_ALL_TO_ALL;
	return faults ? faults : run_calls(p, 2, c, counts, 1);
}

static int all_reduce_two_shot(void)
{
	struct test_call c = { .codelet = &two_shot_codelet, .coll = CORALE_ALL_REDUCE };
	int faults = run_calls(room, 6, c, few, COUNT(few));
	return faults ? faults : run_calls(room, 3, c, some, test_thin ? 2 : COUNT(some));
}

/* Larger than the packets' room: several pieces. */
static int all_reduce_pieces(void)
{
	static const size_t counts[] = { 5000, 12000 };
	struct world_params p = { .max_blocks = 1, .window_bytes = 224 << 10 };
	struct test_call c = { .codelet = &two_shot_codelet, .coll = CORALE_ALL_REDUCE };
	return run_calls(p, 3, c, counts, test_thin ? 1 : 2);
}

/* ---- Slots and edges: few bytes a slot, so that messages take turns in them ---------------------------------------- */

static const size_t many[] = { 1, 10000, 33, 3000 }; /* the second one takes several rounds */

static int slots_into(corale_coll coll, const struct codelet *codelet, int blocks, int registered)
{
	struct world_params p = { .max_blocks = blocks,
				  .window_bytes = (size_t)(test_thin ? 192 : 224) << 10 };
	struct test_call c = {
		.codelet = codelet, .coll = coll, .place = (size_t)registered, .in_place = registered > 1
	};
	return run_calls(p, test_thin ? 2 : 3, c, many, test_thin ? 2 : COUNT(many));
}

static int slots(corale_coll coll, const struct codelet *codelet, int blocks)
{
	return slots_into(coll, codelet, blocks, 0);
}

static int all_reduce_slots(void)
{
	int faults = slots(CORALE_ALL_REDUCE, &bulk_codelet, 1);
	return faults || test_thin ? faults : slots(CORALE_ALL_REDUCE, &bulk_codelet, 2);
}

static int edges_of_counts(void)
{
	return slots(CORALE_ALL_TO_ALL_V, &fifo_codelet, test_thin ? 1 : 2);
}

static int edges(void)
{
	static const corale_coll colls[] = { CORALE_ALL_GATHER, CORALE_ALL_TO_ALL, CORALE_BROADCAST,
					     CORALE_ALL_TO_ALL_V };
	int faults = 0;
	for (size_t i = 0; !faults && i < COUNT(colls); i++)
		faults = slots(colls[i], &fifo_codelet, test_thin ? 1 : 2);
	return faults;
}

/* By few blocks. */
static int bulk(void)
{
	static const corale_coll colls[] = { CORALE_ALL_GATHER, CORALE_ALL_TO_ALL, CORALE_REDUCE_SCATTER,
					     CORALE_ALL_REDUCE, CORALE_BROADCAST,  CORALE_REDUCE,
					     CORALE_GATHER,     CORALE_SCATTER },
				 direct[] = { CORALE_ALL_GATHER, CORALE_ALL_TO_ALL, CORALE_BROADCAST,
					      CORALE_ALL_REDUCE };
	int faults = 0;
	for (size_t i = 0; !faults && i < COUNT(colls); i++)
		for (int blocks = 1; !faults && blocks <= (test_thin ? 1 : 2); blocks++)
			faults = slots(colls[i], &bulk_codelet, blocks);
	faults = faults ? faults : slots(CORALE_BROADCAST, &chain_codelet, 2);
	for (size_t i = 0; !faults && i < COUNT(direct); i++)
		faults = slots_into(direct[i], &bulk_codelet, test_thin ? 1 : 2, 1 + test_seed % 2);
	return faults ? faults : slots_into(CORALE_BROADCAST, &chain_codelet, 1, 1 + test_seed % 2);
}

/* One call after the other, each with other slots in the same room. */
static int slots_cut_anew(void)
{
	static const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_ALL_GATHER, CORALE_REDUCE_SCATTER,
					     CORALE_BROADCAST,  CORALE_ALL_TO_ALL, CORALE_ALL_TO_ALL_V };
	struct world_params p = { .ranks = test_thin ? 2 : 3, .max_blocks = 1, .window_bytes = 224 << 10 };
	struct script *s = script_new(p, test_seed);
	for (int i = 0; i < (test_thin ? 2 : 6); i++)
		for (size_t k = 0; k < COUNT(colls); k++)
			script_add(s, call_by(i % 2 && k < 3 ? &bulk_codelet : test_slots_codelet(colls[k]),
					      colls[k], CORALE_FLOAT32, 8000 + 100 * k));
	return script_run(s);
}

/* The others store into the receive buffer themselves; in place too. */
static int registered(void)
{
	static const corale_coll colls[] = { CORALE_ALL_GATHER, CORALE_ALL_TO_ALL, CORALE_BROADCAST };
	int faults = 0;
	for (size_t i = 0; !faults && i < COUNT(colls); i++)
		faults = slots_into(colls[i], &fifo_codelet, test_thin ? 1 : 2, 1 + test_seed % 2);
	return faults;
}

/* ---- Mixed calls ---------------------------------------------------------------------------------------------------- */

static uint64_t state_of_random;

static size_t draw(size_t below)
{
	state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(state_of_random >> 33) % below;
}

/* The row of a codelet that can run a call, or NULL. */
static const struct row *row_of(const struct gpu_machine *machine, const struct test_call *c, int memory)
{
	const struct plan_call key = { c->coll, c->count * corale_type_bytes(c->type), type_in_words(c->type),
				       memory, PLAN_ALIGNED_16 };
	const struct row *row = NULL;
	while ((row = row_next_codelet(c->coll, row)))
		if (codelet_kind(row) == c->codelet && row_us(row, machine, &key) >= 0)
			break;
	return row;
}

static struct test_call draw_call(const struct gpu_machine *machine)
{
	static const size_t most[] = { 4, 60, 500, 5000 };
	struct test_call c = { .type = type_of_codelets(draw(CORALE_NUM_TYPES)) };
	do {
		c.coll = (corale_coll)draw(CORALE_ALL_TO_ALL_V + 1);
		c.codelet = codelet_list[draw(CODELETS)];
		c.count = draw(most[draw(test_thin ? 3 : 4)]);
	} while (c.codelet->engine != PLAN_SM || !row_of(machine, &c, 0));
	c.op = coll_folds(c.coll) ? op_of_codelets(c.type, draw(CORALE_NUM_OPS + 1)) : 0;
	c.root = (int)draw((size_t)machine->ranks);
	c.in_place = c.coll != CORALE_ALL_TO_ALL_V && !draw(3);
	c.in_place <<= c.coll == CORALE_REDUCE_SCATTER && draw(2); /* CALL_AT_FRONT */
	c.send_shift = draw(3) ? 0 : (unsigned)draw(64);
	c.recv_shift = draw(3) ? 0 : (unsigned)draw(64);
	const struct row *registered = row_of(machine, &c, PLAN_MEMORY_REGISTERED);
	const struct plan_call key = { .coll = c.coll, .memory = PLAN_MEMORY_REGISTERED };
	c.place = registered && row_stores_direct(registered, machine, &key) && draw(2);
	return c;
}

static int mixed(struct world_params p, int calls, unsigned streams)
{
	struct script *s = script_new(p, test_seed);
	struct codelet_layout l;
	codelet_layout_init(&l, p.ranks, p.window_bytes);
	struct gpu_machine machine = { .rates = rates_of_default_gpu(),
				       .ranks = p.ranks,
				       .max_blocks = p.max_blocks,
				       .forced = PLAN_BULK,
				       .words_bytes = l.words_bytes,
				       .lines_bytes = l.lines_bytes,
				       .slots_bytes = l.slots_bytes };
	state_of_random = test_seed * 77 + (uint64_t)p.ranks;
	s->most_pause = 3000;
	s->streams = streams;
	while (s->n < calls)
		script_add(s, draw_call(&machine));
	return script_run(s);
}

/* By so many ranks, from first to last, one world after the other. */
static int mixed_of(int first, int last, size_t window_bytes, int calls, unsigned streams)
{
	int faults = 0;
	for (int ranks = first; !faults && ranks <= last; ranks++)
		faults = mixed((struct world_params){ .ranks = ranks,
						      .max_blocks = test_thin ? 1 : 2,
						      .window_bytes = window_bytes },
			       calls, streams);
	return faults;
}

static int mixed_calls(void)
{
	return mixed_of(2, test_thin ? 2 : 5, 320 << 10, test_thin ? 24 : 70, 0);
}

/* Sanitizers have no room for so many threads: fewer there. */
static int mixed_calls_of_many(void)
{
	return mixed_of(6, test_thin ? 6 : 8, 640 << 10, test_thin ? 8 : 40, 0);
}

/* The same, each on any of a rank's streams. */
static int mixed_streams(void)
{
	return mixed_of(2, test_thin ? 2 : 3, 320 << 10, test_thin ? 24 : 70, test_thin ? 2 : GPU_STREAMS);
}

static struct test_call draw_pieces(int ranks)
{
	static const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_BROADCAST, CORALE_ALL_GATHER,
					     CORALE_REDUCE_SCATTER, CORALE_ALL_TO_ALL };
	int kind = (int)draw(COUNT(colls)), small = !draw(3), odd = !draw(3);
	kind = kind == 1 && ranks > CODELET_FEW_RANKS ? 0 : kind; /* no such broadcast */
	return (struct test_call){ .codelet = kind < 2 ? &two_shot_codelet : &one_shot_codelet,
				   .coll = colls[kind],
				   .type = draw(3) ? CORALE_FLOAT32 : CORALE_INT32,
				   .count = small ? draw(200) : 2000 + draw(9000),
				   .root = (int)draw((size_t)ranks),
				   .in_place = (int)draw(2),
				   .send_shift = odd ? (unsigned)draw(64) : 0 };
}

/* Calls of several pieces, the last one often short, and small calls between: each rank in its own time. */
static int calls_in_pieces(void)
{
	struct world_params p = { .ranks = 2 + (int)(test_seed % 4),
				  .max_blocks = 2,
				  .window_bytes = 320 << 10 };
	struct script *s = script_new(p, test_seed);
	state_of_random = test_seed * 33;
	s->most_pause = 2000;
	for (int i = 0; i < (test_thin ? 6 : 40); i++)
		script_add(s, draw_pieces(p.ranks));
	return script_run(s);
}

/* The low 32 bits of the epoch, which packets carry, begin again. */
static const struct world_params late = {
	.ranks = 3, .max_blocks = 2, .window_bytes = 320 << 10, .first_epoch = ((uint64_t)1 << 32) - 9
};

static int packets_wrap(void)
{
	struct script *s = script_new(late, test_seed);
	for (int i = 0; i < 18; i++)
		script_add(s, call_by(i % 3 ? &one_shot_codelet : &two_shot_codelet,
				      i % 3 == 2 ? CORALE_ALL_GATHER : CORALE_ALL_REDUCE,
				      i % 2 ? CORALE_INT32 : CORALE_FLOAT32, 100));
	return script_run(s);
}

/* An edge's count may be old, or none, and then looks ahead of half of all epochs. */
static int slots_wrap(void)
{
	static const corale_coll colls[] = { CORALE_ALL_TO_ALL_V, CORALE_ALL_TO_ALL, CORALE_REDUCE_SCATTER };
	static const uint64_t firsts[] = { ((uint64_t)1 << 31) + 9, ((uint64_t)1 << 32) - 9 };
	int faults = 0;
	for (size_t f = 0; !faults && f < COUNT(firsts); f++) {
		struct world_params p = late;
		p.first_epoch = firsts[f];
		struct script *s = script_new(p, test_seed);
		for (int i = 0; i < 18; i++)
			script_add(
			    s, call_by(test_slots_codelet(colls[i % 3]), colls[i % 3], CORALE_INT32, 3000));
		faults = script_run(s);
	}
	return faults;
}

/* Rooms of different sizes, which do not always hold as many messages as warp groups would like. */
static int long_broadcasts(void)
{
	int faults = 0;
	for (size_t kib = 100; !faults && kib <= 3000; kib += test_thin ? 3 * kib : kib / 4) {
		int ranks = kib > 100 ? 3 : 1;
		struct world_params p = { .ranks = ranks, .max_blocks = 2, .window_bytes = kib << 10 };
		struct script *s = script_new(p, test_seed);
		for (int i = 0; i < 3; i++)
			script_add(s, (struct test_call){ .codelet = &fifo_codelet,
							  .coll = CORALE_BROADCAST,
							  .type = CORALE_INT32,
							  .count = 120000,
							  .root = i % ranks });
		faults = script_run(s);
		if (faults)
			printf("# windows of %zu KiB\n", kib);
	}
	return faults;
}

/* ---- All of them ---------------------------------------------------------------------------------------------------- */

/* A case may be another one again. */
enum {
	BY_TEAMS = 1, /* with messages between two ranks by few blocks */
	IN_HOST = 2 /* with windows in host memory, where one warp polls a word */
};

static const struct emulated_case {
	const char *name;
	int (*run)(void);
	int how; /* 0: as it is */
} cases[] = {
	{ "all_reduce in one exchange", all_reduce_packets, 0 },
	{ "reduce_scatter in one exchange", reduce_scatter_packets, 0 },
	{ "all_gather in one exchange", all_gather_packets, 0 },
	{ "all_to_all in one exchange", all_to_all_packets, 0 },
	{ "broadcast in one exchange", broadcast_packets, 0 },
	{ "fewer threads than vectors", few_blocks, 0 },
	{ "all_reduce in two exchanges", all_reduce_two_shot, 0 },
	{ "all_reduce beyond the packets' room", all_reduce_pieces, 0 },
	{ "edges", edges, 0 },
	{ "bulk", bulk, 0 },
	{ "teams: edges", edges_of_counts, BY_TEAMS },
	{ "teams: mixed calls with delays", mixed_calls, BY_TEAMS },
	{ "teams: mixed calls of six to eight ranks", mixed_calls_of_many, BY_TEAMS },
	{ "teams: groups of sends and receives", test_messages, BY_TEAMS },
	{ "teams: groups of receives into registered memory", test_messages_registered, BY_TEAMS },
	{ "teams: groups of sends and receives in many channels", test_messages_in_channels, BY_TEAMS },
	{ "teams: long messages", test_long_messages, BY_TEAMS },
	{ "teams: messages in any order", test_any_order, BY_TEAMS },
	{ "teams: messages over a link that tears lines", test_messages_torn, BY_TEAMS },
	{ "teams: messages of a pair beyond 32 bits", test_late_messages, BY_TEAMS },
	{ "teams: sends and receives in turn with collectives", test_pairs_in_turn, BY_TEAMS },
	{ "teams: a receive long after its send", test_late_receiver, BY_TEAMS },
	{ "teams: a receive while others go on to a collective", test_slots_in_use, BY_TEAMS },
	{ "teams: a send without its receive, and the other way round", test_one_end, BY_TEAMS },
	{ "teams: a message of another size or type", test_other_message, BY_TEAMS },
	{ "teams: a receive of fewer bytes", test_fewer_bytes, BY_TEAMS },
	{ "zero-copy", test_zero_copy, 0 },
	{ "zero-copy: exports that are late or leave", test_zero_copy_late, 0 },
	{ "zero-copy: an export that is never mapped", test_zero_copy_refused, 0 },
	{ "zero-copy: owners that give up", test_zero_copy_failures, 0 },
	{ "zero-copy: calls replayed while exports open and die", test_zero_copy_replays, 0 },
	{ "zero-copy: messages replayed while exports open and die", test_read_replays, BY_TEAMS },
	{ "zero-copy: edges", test_zero_copy_edges, BY_TEAMS },
	{ "zero-copy: edges, with exports that are late or leave", test_zero_copy_edges_late, BY_TEAMS },
	{ "zero-copy: ends of a message that give up", test_read_failures, BY_TEAMS },
	{ "zero-copy: ends of a message that stop at each step", test_read_stops, BY_TEAMS },
	{ "zero-copy: messages", test_read_messages, BY_TEAMS },
	{ "zero-copy: messages, with exports that are late or leave", test_read_messages_late, BY_TEAMS },
	{ "zero-copy: messages, with an export that is never mapped", test_read_messages_refused, BY_TEAMS },
	{ "slots cut anew", slots_cut_anew, 0 },
	{ "host memory: teams", bulk, IN_HOST },
	{ "host memory: all_reduce through slots", all_reduce_slots, IN_HOST },
	{ "host memory: edges", edges, IN_HOST },
	{ "host memory: slots cut anew", slots_cut_anew, IN_HOST },
	{ "host memory: every plan, lowered", test_lowered_by_words, IN_HOST },
	{ "host memory: messages", test_messages_torn, IN_HOST },
	{ "host memory: teams: messages", test_messages_torn, BY_TEAMS | IN_HOST },
	{ "host memory: sends and receives in turn with collectives", test_pairs_in_turn, IN_HOST },
	{ "host memory: calls in turn, of three, four and eight ranks", test_host_turns, IN_HOST },
	{ "host memory: groups of three, four and eight ranks", test_host_groups, IN_HOST },
	{ "host memory: long messages", test_long_messages, IN_HOST },
	{ "host memory: teams: long messages", test_long_messages, BY_TEAMS | IN_HOST },
	{ "host memory: a receive while others go on to a collective", test_slots_in_use, IN_HOST },
	{ "host memory: a send without its receive, and the other way round", test_one_end, IN_HOST },
	{ "host memory: a message of another size or type", test_other_message, IN_HOST },
	{ "host memory: counts of an edge that differ, lowered", test_lowered_counts, IN_HOST },
	{ "host memory: a rank that makes another call", test_mismatch, IN_HOST },
	{ "host memory: kernels after a failure", test_replay, IN_HOST },
	{ "host memory: a rank that never comes", test_absent, IN_HOST },
	{ "host memory: an abort", test_abort, IN_HOST },
	{ "host memory: streams held after a mismatch", test_hold_mismatch, IN_HOST },
	{ "host memory: streams held after a deadline", test_hold_absent, IN_HOST },
	{ "host memory: streams held after an abort", test_hold_abort, IN_HOST },
	{ "host memory: a rank that gives up alone", test_quit, IN_HOST },
	{ "host memory: remote: every plan", test_remote_lowered, IN_HOST },
	{ "host memory: remote: groups of sends and receives", test_remote_messages, IN_HOST },
	{ "host memory: remote: calls of all kinds in turn", test_remote_in_turn, IN_HOST },
	{ "host memory: remote: few bytes from many nodes", test_remote_many, IN_HOST },
	{ "host memory: remote: a rank that makes another call", test_remote_mismatch, IN_HOST },
	{ "host memory: remote: a rank that never comes", test_remote_absent, IN_HOST },
	{ "host memory: remote: kernels after a failure", test_remote_replay, IN_HOST },
	{ "host memory: remote: a message of another size or type", test_remote_other_message, IN_HOST },
	{ "host memory: remote: a send without its receive, and the other way round", test_remote_one_end,
	  IN_HOST },
	{ "into registered memory", registered, 0 },
	{ "broadcasts from every root", test_broadcasts, 0 },
	{ "slots in scratch", test_scratch, 0 },
	{ "slots in scratch after copies", test_after_copies, 0 },
	{ "premultiplied sums", test_premultiplied, 0 },
	{ "uneven sums", test_uneven_sums, 0 },
	{ "every plan, lowered", test_lowered, 0 },
	{ "every plan, lowered, over a link that tears lines", test_lowered_by_words, 0 },
	{ "lowered plans in turn with codelets", test_lowered_in_turn, 0 },
	{ "lowered plans of a root, one after the other", test_lowered_rooted, 0 },
	{ "counts of an edge that differ, lowered", test_lowered_counts, 0 },
	{ "more messages than an epoch numbers, lowered", test_lowered_many_messages, 0 },
	{ "remote: every plan", test_remote_lowered, 0 },
	{ "remote: groups of sends and receives", test_remote_messages, 0 },
	{ "remote: calls of all kinds in turn", test_remote_in_turn, 0 },
	{ "remote: few bytes from many nodes", test_remote_many, 0 },
	{ "remote: a rank that makes another call", test_remote_mismatch, 0 },
	{ "remote: a rank that never comes", test_remote_absent, 0 },
	{ "remote: kernels after a failure", test_remote_replay, 0 },
	{ "remote: a message of another size or type", test_remote_other_message, 0 },
	{ "remote: a send without its receive, and the other way round", test_remote_one_end, 0 },
	{ "groups of sends and receives", test_messages, 0 },
	{ "groups of receives into registered memory", test_messages_registered, 0 },
	{ "groups of sends and receives in many channels", test_messages_in_channels, 0 },
	{ "long messages of two ranks", test_long_messages, 0 },
	{ "messages in any order", test_any_order, 0 },
	{ "groups of sends and receives over a link that tears lines", test_messages_torn, 0 },
	{ "lines over that link", test_lines_torn, 0 },
	{ "messages of a pair beyond 32 bits", test_late_messages, 0 },
	{ "sends and receives in turn with collectives", test_pairs_in_turn, 0 },
	{ "a receive long after its send", test_late_receiver, 0 },
	{ "rooms for one sender, two and three", test_rooms, 0 },
	{ "a receive while others go on to a collective", test_slots_in_use, 0 },
	{ "a send without its receive, and the other way round", test_one_end, 0 },
	{ "a receive of fewer bytes into registered memory", test_fewer_bytes, 0 },
	{ "lines of another number of bytes", test_other_lines, 0 },
	{ "mixed calls with delays", mixed_calls, 0 },
	{ "mixed calls of six to eight ranks", mixed_calls_of_many, 0 },
	{ "mixed calls on any stream", mixed_streams, 0 },
	{ "sends and plans on any stream", test_any_stream, 0 },
	{ "streams that are new", test_new_streams, 0 },
	{ "a failure before the call on another stream", test_hold_followed, 0 },
	{ "calls in pieces", calls_in_pieces, 0 },
	{ "epochs of packets beyond 32 bits", packets_wrap, 0 },
	{ "headers from 2^32 epochs before", test_old_headers, 0 },
	{ "a network's first messages", test_probes, 0 },
	{ "pieces are copied", test_pieces, 0 },
	{ "a rank that makes another call", test_mismatch, 0 },
	{ "a message of another size or type", test_other_message, 0 },
	{ "kernels after a failure", test_replay, 0 },
	{ "a rank that never comes", test_absent, 0 },
	{ "an abort", test_abort, 0 },
	{ "streams held after a mismatch", test_hold_mismatch, 0 },
	{ "streams held after a deadline", test_hold_absent, 0 },
	{ "streams held after an abort", test_hold_abort, 0 },
	{ "a rank that gives up alone", test_quit, 0 },
	{ "notes of long waits", test_notes, 0 },
	{ "epochs of slots beyond 32 bits", slots_wrap, 0 },
	{ "long broadcasts", long_broadcasts, 0 },
	{ "broadcasts in slots from every root", test_broadcasts_in_slots, 0 },
	{ "what is printed is launched", test_printed, 0 },
	{ "one rank launches at most a copy", test_alone, 0 },
	{ "one rank's messages to itself", test_messages_alone, 0 },
	{ "one rank's calls on several streams", test_streams_alone, 0 },
};

static int run_case(const struct emulated_case *c)
{
	world_forced = c->how & BY_TEAMS ? PLAN_BULK : 0;
	world_in_host = c->how & IN_HOST;
	return c->run();
}

int main(int argc, char **argv)
{
	int failed = 0;
	const char *word = argc > 2 ? argv[2] : "";
	test_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : thin_seed();
	test_thin = thin_step() > 1;
	log_open(LOG_ERROR, NULL);
	int number = 0;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (*word ? !strstr(cases[i].name, word) : !thin_takes_case(i))
			continue;
		int faults = run_case(&cases[i]);
		failed |= faults != 0;
		if (script_report(cases[i].name, ++number, faults))
			return 1;
	}
	printf("1..%d\n", number);
	return failed;
}
