/* Calls by few blocks that read the ranks' buffers where they lie, as far as these are mapped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collectives.h"
#include "base/status.h"
#include "emulation_test.h"
#include "op_sets.h"
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
	struct test_call c = { .codelet = BY_BULK, .coll = coll, .zero_copy = 1 };
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
				      .max_blocks = 1 + (int)(test_seed + (uint64_t)ranks) % 2,
				      .window_bytes = 224 << 10,
				      .exports = kind,
				      .exports_apart = (int)(test_seed + (uint64_t)ranks / 2) % 2 };
}

/* Between others: by slots, packets and calls that are not zero-copy. */
static struct test_call other_call(int i)
{
	const struct test_call c = { .codelet = i % 3 == 0   ? BY_SLOTS
						: i % 3 == 1 ? BY_BULK
							     : BY_ONE_SHOT,
				     .coll = i % 2 ? CORALE_ALL_REDUCE : CORALE_ALL_GATHER,
				     .type = CORALE_INT32,
				     .count = i % 3 == 2 ? 100 : 3000 };
	return c;
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
	for (int ranks = 2; !faults && ranks <= most; ranks++)
		faults = run_of(ranks, kind, calls);
	return faults;
}

static int in_place_of(int ranks)
{
	struct script *s = script_new(params_of(ranks, EXPORTS_OPEN), test_seed);
	state_of_random = test_seed * 17 + (uint64_t)ranks;
	s->without_slots = 1;
	for (int i = 0; i < 2 * (int)COLLS; i++)
		script_add(s, draw_in_place(colls[i % COLLS], ranks));
	return script_run(s);
}

int test_zero_copy(void)
{
	const int faults = in_place_of(2) + in_place_of(3);
	return faults ? faults : run_all(EXPORTS_OPEN, test_thin ? 3 : 5, test_thin ? 16 : 64);
}

int test_zero_copy_late(void)
{
	return run_all(EXPORTS_LATE, test_thin ? 3 : 4, test_thin ? 24 : 90);
}

int test_zero_copy_refused(void)
{
	return run_all(EXPORTS_REFUSED, test_thin ? 2 : 3, test_thin ? 12 : 40);
}
