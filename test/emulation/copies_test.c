/*
 * Calls by copy engines on emulated GPUs: what the steps move, and that nothing is used before it is there or
 * overwritten while it is needed. Receive buffers are registered; every rank's calls follow each other without a pause, so the
 * next call's copies meet the last one's folds. TAP. Usage: copies_test [SEED]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "world.h"

enum {
	MOST_RANKS = 5,
	CALLS = 12, /* of a case, each with buffers of its own */
	LARGEST = 4, /* the call of most steps */
	REGION = 1,
	SEVERAL_CYCLES = 12 << 20, /* elements, of which the model makes more than one cycle of pieces */
	CHUNK = 4096, /* of scratch: few bytes make many chunks */
	GUARD = 64
};

struct test {
	struct world world;
	int ranks, in_place, staged; /* staged: through scratch, as if nothing was registered */
	corale_coll coll;
	size_t counts[CALLS]; /* int32s of a block or vector */
	unsigned char *recvs[MOST_RANKS], *scratch[MOST_RANKS]; /* registered */
	size_t places[CALLS + 1]; /* of each call's receive buffer */
	int faults[MOST_RANKS];
	int drop; /* a rank that calls with another signature, or -1 */
};

/* In every case the low 32 bits of the epoch, which headers carry, begin again with the LARGEST call. */
static const uint64_t LATE_EPOCH = ((uint64_t)1 << 32) - 1 - LARGEST;

static uint64_t seed = 1;

/* Element i of what a rank sends in a call. */
static int32_t element(int rank, int call, size_t i)
{
	return (int32_t)(i * 2654435761u + (size_t)rank * 40503u + (size_t)call * 977u + (size_t)seed);
}

static int sends_blocks(const struct test *t)
{
	return t->coll == CORALE_ALL_TO_ALL || t->coll == CORALE_REDUCE_SCATTER;
}

static int receives_blocks(const struct test *t)
{
	return t->coll == CORALE_ALL_TO_ALL || t->coll == CORALE_ALL_GATHER;
}

static int root_of(const struct test *t, int call)
{
	return call % t->ranks;
}

static int32_t expected(const struct test *t, int rank, int call, size_t i)
{
	size_t n = t->counts[call];
	int32_t sum = 0;
	switch (t->coll) {
	case CORALE_ALL_GATHER:
		return element((int)(i / n), call, i % n);
	case CORALE_ALL_TO_ALL:
		return element((int)(i / n), call, (size_t)rank * n + i % n);
	case CORALE_BROADCAST:
		return element(root_of(t, call), call, i);
	default:
		for (int r = 0; r < t->ranks; r++)
			sum = (int32_t)((uint32_t)sum +
					(uint32_t)element(
					    r, call,
					    i + (t->coll == CORALE_REDUCE_SCATTER ? (size_t)rank * n : 0)));
		return sum;
	}
}

static unsigned char *make(size_t bytes)
{
	unsigned char *memory = aligned_alloc(128, codelet_round(bytes + 1, 128));
	if (!memory)
		abort();
	memset(memory, 0x5a, bytes);
	return memory;
}

static void fill(const struct test *t, int rank, int call, unsigned char *to)
{
	size_t n = t->counts[call] * (size_t)(sends_blocks(t) ? t->ranks : 1);
	for (size_t i = 0; i < n; i++) {
		int32_t value = element(rank, call, i);
		memcpy(to + 4 * i, &value, 4);
	}
}

static int check(const struct test *t, int rank, int call)
{
	size_t n = t->counts[call] * (size_t)(receives_blocks(t) ? t->ranks : 1);
	const unsigned char *got = t->recvs[rank] + t->places[call];
	for (size_t i = 0; i < n; i++) {
		int32_t value, wanted = expected(t, rank, call, i);
		memcpy(&value, got + 4 * i, 4);
		if (value == wanted)
			continue;
		printf("# rank %d, call %d, %s of %zu: element %zu is %d, expected %d\n", rank, call,
		       corale_coll_name(t->coll), t->counts[call], i, (int)value, (int)wanted);
		return 1;
	}
	for (size_t i = t->places[call] + 4 * n; i < t->places[call + 1]; i++)
		if (t->recvs[rank][i] != 0x5a) {
			printf("# rank %d, call %d: byte %zu behind the buffer was written\n", rank, call,
			       i - t->places[call] - 4 * n);
			return 1;
		}
	return 0;
}

static void play(int rank, void *arg)
{
	struct test *t = arg;
	struct engine *e = &t->world.engines[rank];
	unsigned char *sends[CALLS];
	for (int i = 0; i < CALLS; i++) {
		size_t bytes = 4 * t->counts[i];
		unsigned char *recv = t->recvs[rank] + t->places[i];
		sends[i] = make(bytes * (size_t)(sends_blocks(t) ? t->ranks : 1));
		unsigned char *send = sends[i];
		if (t->in_place)
			send = t->coll == CORALE_ALL_GATHER ? recv + (size_t)rank * bytes : recv;
		if (t->coll != CORALE_BROADCAST || root_of(t, i) == rank)
			fill(t, rank, i, send);
		struct engine_call call = {
			.codelet = CODELET_COPIES,
			.coll = t->coll,
			.type = CORALE_INT32,
			.op = CORALE_SUM,
			.send = send,
			.recv = recv,
			.bytes = bytes,
			.root = root_of(t, i),
			.signature = (uint64_t)(i + 1) * 77 + (rank == t->drop && i == 1),
			.target = t->staged ? 0 : (uint64_t)(REGION + 1) << ENGINE_TARGET_SHIFT | t->places[i]
		};
		t->faults[rank] += engine_run_copies(e, &call, NULL) != 0;
		if (!gpu_random(3))
			gpu_pause(gpu_random(3000));
	}
	gpu_synchronize();
	int code = e->failure->code;
	if (code != (t->drop < 0 ? 0 : CORALE_EMISMATCH)) {
		printf("# rank %d: %s\n", rank, corale_strerror(code));
		t->faults[rank]++;
	}
	for (int i = 0; i < CALLS; i++) {
		t->faults[rank] += t->drop < 0 && check(t, rank, i);
		free(sends[i]);
	}
}

/* Every rank's memory, known to all of them. */
static void share(struct test *t, int region, unsigned char **memory, size_t bytes)
{
	for (int r = 0; r < t->ranks; r++)
		memory[r] = make(bytes);
	for (int r = 0; r < t->ranks; r++)
		t->world.engines[r].regions[region] =
		    (struct engine_region){ .begin = memory[r], .bytes = bytes, .peers = memory };
}

static int run(corale_coll coll, int ranks, int in_place, int staged, int drop, size_t largest)
{
	static const size_t some[CALLS] = { 1, 5000, 3, 4096, 16384, 0, 1024, 12345, 127, 9999, 2048, 700 };
	struct test t = {
		.ranks = ranks, .in_place = in_place, .staged = staged, .coll = coll, .drop = drop
	};
	struct world_params p = {
		.ranks = ranks, .max_blocks = 2, .window_bytes = 1 << 20, .first_epoch = LATE_EPOCH
	};
	int faults = 0;
	if (world_open(&t.world, &p))
		return 1;
	for (int i = 0; i < CALLS; i++) {
		t.counts[i] = drop < 0 ? some[i] : some[i] % 100 + 1;
		if (largest)
			t.counts[i] = i == LARGEST ? largest : 0;
		size_t blocks = receives_blocks(&t) || in_place ? (size_t)ranks : 1;
		t.places[i + 1] = t.places[i] + codelet_round(4 * t.counts[i] * blocks + GUARD, 128);
	}
	share(&t, REGION, t.recvs, t.places[CALLS]);
	share(&t, 0, t.scratch, 2 * (size_t)(ranks - 1) * CHUNK);
	for (int r = 0; r < ranks; r++)
		t.world.engines[r].scratch_chunk = CHUNK;
	if (gpu_run(ranks, play, &t, seed))
		return -1;
	for (int r = 0; r < ranks; r++) {
		faults += t.faults[r];
		free(t.recvs[r]);
		free(t.scratch[r]);
	}
	world_close(&t.world);
	return faults;
}

/* All numbers of ranks, in place and not. */
static int run_all(corale_coll coll, int staged)
{
	int faults = 0, places = coll != CORALE_ALL_TO_ALL && coll != CORALE_REDUCE_SCATTER ? 2 : 1;
	int most = staged && coll == CORALE_BROADCAST ? 2 : MOST_RANKS;
	for (int ranks = 2; ranks <= most; ranks++)
		for (int in_place = 0; in_place < places; in_place++)
			faults += run(coll, ranks, in_place, staged, -1, 0) != 0;
	return faults;
}

static int report(int number, int faults, const char *what, const char *how)
{
	printf("%s %d - %s%s\n", faults ? "not ok" : "ok", number, what, how);
	fflush(stdout);
	return faults != 0;
}

int main(int argc, char **argv)
{
	static const corale_coll colls[] = { CORALE_ALL_GATHER, CORALE_ALL_TO_ALL, CORALE_BROADCAST,
					     CORALE_ALL_REDUCE, CORALE_REDUCE_SCATTER };
	enum { COLLS = sizeof(colls) / sizeof(*colls) };
	int number = 0, failed = 0;
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	log_open(LOG_ERROR, NULL);
	printf("1..%d\n", 2 * COLLS + 1);
	for (int c = 0; c < COLLS; c++)
		failed |= report(++number, run_all(colls[c], 0), corale_coll_name(colls[c]), " by copies");
	for (int c = 0; colls[c] != CORALE_REDUCE_SCATTER; c++) /* which has no other way */
		failed |= report(++number, run_all(colls[c], 1), corale_coll_name(colls[c]),
				 " by copies through scratch");
	failed |= report(++number, run(CORALE_BROADCAST, 4, 0, 0, -1, SEVERAL_CYCLES),
			 "a broadcast in several cycles", "");
	failed |= report(++number, run(CORALE_ALL_GATHER, 3, 0, 0, 1, 0),
			 "another call ends the barriers of copies", "");
	return failed;
}
