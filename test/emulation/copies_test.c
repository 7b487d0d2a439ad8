/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls by copy engines on emulated GPUs: what the steps move, and that nothing is used before it is there or
 * overwritten while it is needed. Receive buffers are registered; every rank's calls follow each other without a pause, so the
 * next call's copies meet the last one's folds. What a rank sends is written on its stream just before a call; what it has received
 * is read there just after, and both buffers are overwritten. TAP. Usage: copies_test [SEED]. TEST_THIN in the environment: without four
 * ranks, and without the thousands of threads of lean blocks, which are too many for a sanitizer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/codelet/copies.h"
#include "base/log.h"
#include "test/helpers/thin.h"
#include "world.h"

enum {
	MOST_RANKS = 5,
	CALLS = 12, /* of a case, each with buffers of its own */
	LARGEST = 4, /* the call of most steps */
	REGION = 1,
	MANY_BLOCKS = 64, /* with so many copies have lean ones, and folds are faster than copies */
	LEAN = 130001, /* elements, of which those take several turns and leave some bytes */
	SEVERAL_CHUNKS = 5 << 20, /* elements, of which the model makes more than one chunk */
	CHUNK = 4096, /* of scratch: few bytes make many chunks */
	GUARD = 64,
	BLANK = 0x5a
};

struct test {
	struct world world;
	int ranks, in_place, staged; /* staged: through scratch, as if nothing was registered */
	corale_coll coll;
	size_t counts[CALLS]; /* int32s of a block or vector */
	int streamed; /* buffers are filled and read on the stream */
	unsigned char *recvs[MOST_RANKS], *scratch[MOST_RANKS]; /* registered */
	size_t scratch_bytes;
	unsigned char *results[MOST_RANKS]; /* what was in recvs after each call */
	unsigned char *blank; /* as large as the largest buffer */
	size_t launches[MOST_RANKS][CALLS],
	    launched[MOST_RANKS][CALLS]; /* of each call: the first, how many */
	size_t places[CALLS + 1]; /* of each call's receive buffer */
	int faults[MOST_RANKS];
	int drop; /* a rank that calls with another signature, or -1 */
};

/* In every case the low 32 bits of the epoch, which headers carry, begin again with the LARGEST call. */
static const uint64_t LATE_EPOCH = ((uint64_t)1 << 32) - 1 - LARGEST;

static uint64_t seed;
static int thin;

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
	unsigned char *memory = aligned_alloc(128, plan_round(bytes + 1, 128));
	if (!memory)
		abort();
	memset(memory, BLANK, bytes);
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
	const unsigned char *got = t->results[rank] + t->places[call];
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
		if (t->results[rank][i] != BLANK) {
			printf("# rank %d, call %d: byte %zu behind the buffer was written\n", rank, call,
			       i - t->places[call] - 4 * n);
			return 1;
		}
	return 0;
}

static size_t send_bytes(const struct test *t, int call)
{
	return 4 * t->counts[call] * (size_t)(sends_blocks(t) ? t->ranks : 1);
}

/* A call's buffers. */
struct buffers {
	unsigned char *source, *send_memory; /* what is sent, and where from unless in place */
	unsigned char *send, *recv;
};

static struct buffers buffers_of(const struct test *t, int rank, int call)
{
	struct buffers b = { .recv = t->recvs[rank] + t->places[call] };
	size_t bytes = send_bytes(t, call);
	b.source = make(bytes);
	b.send_memory = make(bytes);
	b.send = b.send_memory;
	if (t->in_place)
		b.send = t->coll == CORALE_ALL_GATHER ? b.recv + (size_t)rank * bytes : b.recv;
	if (t->coll != CORALE_BROADCAST || root_of(t, call) == rank)
		fill(t, rank, call, t->streamed ? b.source : b.send);
	return b;
}

/* Until here the call's receive buffer is nobody's. */
static void write_buffers(const struct test *t, int call, const struct buffers *b)
{
	if (!t->streamed)
		return;
	cudaMemcpyAsync(b->recv, t->blank, t->places[call + 1] - t->places[call], cudaMemcpyDefault, NULL);
	cudaMemcpyAsync(b->send, b->source, send_bytes(t, call), cudaMemcpyDefault, NULL);
}

static void read_buffers(const struct test *t, int rank, int call, const struct buffers *b)
{
	size_t bytes = t->places[call + 1] - t->places[call];
	if (!t->streamed)
		return;
	cudaMemcpyAsync(t->results[rank] + t->places[call], b->recv, bytes, cudaMemcpyDefault, NULL);
	cudaMemcpyAsync(b->send, t->blank, send_bytes(t, call), cudaMemcpyDefault, NULL);
	cudaMemcpyAsync(b->recv, t->blank, bytes, cudaMemcpyDefault, NULL);
}

static struct launch launch_for(const struct test *t, const struct engine *e, int call, int direct)
{
	struct launch l = { .machine = &e->machine,
			    .codelet = &copies_codelet,
			    .coll = t->coll,
			    .bytes = 4 * t->counts[call],
			    .direct = direct != 0,
			    .scratch = 1 };
	launch_cut(&l);
	return l;
}

static int start(struct test *t, int rank, int i, const struct buffers *b)
{
	size_t first, end;
	gpu_launches(&first);
	struct engine *e = &t->world.engines[rank];
	const struct call call = {
		.record = { .coll = t->coll,
			    .type = CORALE_INT32,
			    .op = CORALE_SUM,
			    .count = t->counts[i],
			    .root = root_of(t, i),
			    .signature = (uint64_t)(i + 1) * 77 + (rank == t->drop && i == 1),
			    .target = t->staged
					  ? 0
					  : (uint64_t)(REGION + 1) << ENGINE_TARGET_SHIFT | t->places[i] },
		.send = b->send,
		.recv = b->recv
	};
	struct gpu_launch launch = { .cut = launch_for(t, e, i, !t->staged) };
	cuda_copies.fill(e, &launch);
	int ret = cuda_copies.run(e, &call, &launch, NULL);
	gpu_launches(&end); /* nobody else has gone on */
	t->launches[rank][i] = first;
	t->launched[rank][i] = end - first;
	return ret;
}

static void play(int rank, void *arg)
{
	struct test *t = arg;
	struct buffers buffers[CALLS];
	for (int i = 0; i < CALLS; i++) {
		buffers[i] = buffers_of(t, rank, i);
		write_buffers(t, i, &buffers[i]);
		t->faults[rank] += start(t, rank, i, &buffers[i]) != 0;
		read_buffers(t, rank, i, &buffers[i]);
		if (!gpu_random(3))
			gpu_pause(gpu_random(3000));
	}
	gpu_synchronize();
	int code = t->world.engines[rank].failure->code;
	if (code != (t->drop < 0 ? 0 : CORALE_EMISMATCH)) {
		printf("# rank %d: %s\n", rank, corale_strerror(code));
		t->faults[rank]++;
	}
	for (int i = 0; i < CALLS; i++) {
		t->faults[rank] += t->drop < 0 && check(t, rank, i);
		free(buffers[i].source);
		free(buffers[i].send_memory);
	}
}

/* Whether a kernel of a call ends its epoch. */
static int is_end(const struct gpu_launched *l)
{
	if (l->bytes == sizeof(struct codelet_step))
		return ((const struct codelet_step *)l->args)->last != 0;
	return l->bytes == sizeof(struct codelet_work) && ((const struct codelet_work *)l->args)->last;
}

/* One barrier or work of a call ends its epoch. Others do no harm where the ranks still agree, but then epochs count no calls. */
static int check_ends(const struct test *t, int rank, int call)
{
	size_t n, ends = 0;
	const struct gpu_launched *l = gpu_launches(&n);
	for (size_t i = 0; i < t->launched[rank][call]; i++)
		ends += is_end(&l[t->launches[rank][call] + i]) != 0;
	if (ends == 1)
		return 0;
	printf("# rank %d, call %d: %zu kernels end it\n", rank, call, ends);
	return 1;
}

/* The other rank whose buffer or scratch that is; -1: none's. */
static int owner(const struct test *t, int rank, const unsigned char *to)
{
	for (int r = 0; to && r < t->ranks; r++)
		if (r != rank && ((to >= t->recvs[r] && to < t->recvs[r] + t->places[CALLS]) ||
				  (to >= t->scratch[r] && to < t->scratch[r] + t->scratch_bytes)))
			return r;
	return -1;
}

/* Who the n-th copy of a rank's call goes to; -1: it has fewer. */
static int receiver(const struct test *t, int rank, int call, size_t n)
{
	size_t all;
	const struct gpu_launched *l = gpu_launches(&all) + t->launches[rank][call];
	for (size_t i = 0; i < t->launched[rank][call]; i++) {
		struct world_copy copy;
		int to = world_copied(&l[i], &copy) ? owner(t, rank, copy.to) : -1;
		if (to >= 0 && n-- == 0)
			return to;
	}
	return -1;
}

/* Whether all ranks copy equally much. Along a broadcast's chain they do not, and the last ones of uneven parts may be empty. */
static int is_even(const struct test *t, int call)
{
	return t->coll != CORALE_BROADCAST &&
	       (t->coll != CORALE_ALL_REDUCE || 4 * t->counts[call] % ((size_t)t->ranks * COPY_ALIGN) == 0);
}

/* Ranks stay in step only if their n-th copies go to different ranks. */
static int check_steps(const struct test *t, int call)
{
	int seen[MOST_RANKS] = { 0 }, step = 1, more = is_even(t, call);
	for (; more; step++)
		for (int r = 0; r < t->ranks; r++) {
			int to = receiver(t, r, call, (size_t)step - 1);
			more = more && to >= 0;
			if (to < 0 || seen[to]++ < step)
				continue;
			printf("# call %d, step %d: two ranks copy to rank %d\n", call, step, to);
			return 1;
		}
	return 0;
}

/* What one rank copies to another one, at most. */
static uint64_t most_copied(const struct test *t, int call)
{
	size_t all;
	uint64_t most = 0;
	const struct gpu_launched *launches = gpu_launches(&all);
	for (int r = 0; r < t->ranks; r++) {
		uint64_t to[MOST_RANKS] = { 0 };
		for (size_t i = 0; i < t->launched[r][call]; i++) {
			const struct gpu_launched *l = &launches[t->launches[r][call] + i];
			struct world_copy copy;
			int peer = world_copied(l, &copy) ? owner(t, r, copy.to) : -1;
			if (peer < 0)
				continue;
			to[peer] += copy.bytes;
			most = to[peer] > most ? to[peer] : most;
		}
	}
	return most;
}

/* As much as corale-plan says. */
static int check_bytes(const struct test *t, int call)
{
	const struct launch launch =
	    launch_for(t, t->world.engines, call, !t->staged && t->coll != CORALE_REDUCE_SCATTER);
	uint64_t planned = launch_to_peer(&launch), copied = most_copied(t, call);
	if (planned == copied)
		return 0;
	printf("# call %d: up to %llu bytes are copied to a rank, %llu are planned\n", call,
	       (unsigned long long)copied, (unsigned long long)planned);
	return 1;
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
	struct world_params p = { .ranks = ranks,
				  .max_blocks = largest && !thin ? MANY_BLOCKS : 2,
				  .window_bytes = 1 << 20,
				  .first_epoch = LATE_EPOCH };
	size_t most = 0;
	int faults = 0;
	if (world_open(&t.world, &p))
		return 1;
	for (int i = 0; i < CALLS; i++) {
		t.counts[i] = drop < 0 ? some[i] : some[i] % 100 + 1;
		if (largest)
			t.counts[i] = i == LARGEST ? largest : 0;
		size_t blocks = receives_blocks(&t) || in_place ? (size_t)ranks : 1;
		most = send_bytes(&t, i) > most ? send_bytes(&t, i) : most;
		t.places[i + 1] = t.places[i] + plan_round(4 * t.counts[i] * blocks + GUARD, 128);
	}
	t.streamed = !largest && drop < 0;
	t.blank = make(most > t.places[CALLS] ? most : t.places[CALLS]);
	share(&t, REGION, t.recvs, t.places[CALLS]);
	for (int r = 0; r < ranks; r++)
		t.results[r] = t.streamed ? make(t.places[CALLS]) : t.recvs[r];
	t.scratch_bytes = 2 * (size_t)(ranks - 1) * CHUNK;
	share(&t, 0, t.scratch, t.scratch_bytes);
	for (int r = 0; r < ranks; r++)
		engine_use_scratch(&t.world.engines[r], 0, (size_t)2 * CHUNK);
	gpu_record(NULL, 0); /* launches alone */
	if (gpu_run(ranks, play, &t, seed))
		return -1;
	for (int i = 0; i < ranks * CALLS; i++)
		faults += check_ends(&t, i / CALLS, i % CALLS);
	for (int i = 0; i < CALLS; i++)
		faults += check_steps(&t, i) + check_bytes(&t, i);
	gpu_record_end();
	for (int r = 0; r < ranks; r++) {
		faults += t.faults[r];
		if (t.streamed)
			free(t.results[r]);
		free(t.recvs[r]);
		free(t.scratch[r]);
	}
	free(t.blank);
	world_close(&t.world);
	return faults;
}

/* All numbers of ranks, in place and not; thin: the fewest or the most, in place or not, by the seed. */
static int run_all(corale_coll coll, int staged)
{
	int faults = 0, places = coll != CORALE_ALL_TO_ALL && coll != CORALE_REDUCE_SCATTER ? 2 : 1;
	for (int ranks = 2; ranks <= MOST_RANKS; ranks += thin ? MOST_RANKS - 2 : 1)
		for (int in_place = 0; in_place < places; in_place++) {
			const int left_out =
			    thin && places == 2 && (seed + (ranks == 2)) % 2 != (uint64_t)in_place;
			if (!left_out && thin_keeps((uint64_t)(4 * coll + 2 * staged + (ranks == 2)), 2))
				faults += run(coll, ranks, in_place, staged, -1, 0) != 0;
		}
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
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : thin_seed();
	thin = thin_step() > 1;
	log_open(LOG_ERROR, NULL);
	printf("1..%d\n", 2 * COLLS + 5);
	for (int c = 0; c < COLLS; c++)
		failed |= report(++number, run_all(colls[c], 0), corale_coll_name(colls[c]), " by copies");
	for (int c = 0; colls[c] != CORALE_REDUCE_SCATTER; c++) /* which has no other way */
		failed |= report(++number, run_all(colls[c], 1), corale_coll_name(colls[c]),
				 " by copies through scratch");
	failed |= report(++number, run(CORALE_BROADCAST, 4, 0, 0, -1, SEVERAL_CHUNKS),
			 "a broadcast in several chunks", "");
	failed |=
	    report(++number, run(CORALE_ALL_GATHER, 2, 0, 0, -1, LEAN), "own blocks by lean blocks", "");
	failed |= report(++number, run(CORALE_ALL_TO_ALL, 3, 0, 1, -1, LEAN / 100),
			 "out of scratch by lean blocks", "");
	failed |= report(++number, run(CORALE_ALL_REDUCE, 3, 0, 1, -1, LEAN / 10),
			 "an all_reduce by many blocks", "");
	failed |= report(++number, run(CORALE_REDUCE_SCATTER, 3, 0, 0, -1, LEAN / 10),
			 "a reduce_scatter by many blocks", "");
	failed |= report(++number, run(CORALE_ALL_GATHER, 3, 0, 0, 1, 0),
			 "another call ends the barriers of copies", "");
	return failed;
}
