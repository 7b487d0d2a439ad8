/*
 * The fused kernels of the GPU engine, compiled for the processor and run on emulated GPUs (gpu.h): results of all
 * codelets, sequences of calls, sends and receives, failures. TAP: a case per line.
 * Usage: emulation_test [SEED [WORD]]: only cases whose name holds WORD.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "log.h"

enum { MOST_CALLS = 256, MOST_RANKS = 8 };

static uint64_t seed = 1;

/* ---- Scripts: calls that all ranks make one after the other ---------------------------------------------------- */

struct script {
	struct world world;
	struct call calls[MOST_CALLS];
	int n;
	unsigned most_pause; /* turns between two calls of a rank at most */
	int faults[MOST_RANKS];
};

/* Waits for the calls from done on; all but the first MOST_CALLS are checked. */
static int finish_calls(struct script *s, int rank, struct started *started, int *done, int made)
{
	struct engine *e = &s->world.engines[rank];
	int faults = 0;
	gpu_synchronize();
	if (e->failure->code) {
		printf("# rank %d: the engine failed: %s, peer %d, epoch %llu, expected %llx, got %llx\n",
		       rank, corale_strerror(e->failure->code), e->failure->peer,
		       (unsigned long long)e->failure->epoch, (unsigned long long)e->failure->expected,
		       (unsigned long long)e->failure->got);
		faults++;
	}
	for (; *done < made; ++*done)
		faults += call_finish(&started[*done]);
	return faults;
}

static void play(int rank, void *arg)
{
	struct script *s = arg;
	struct started *started = calloc(MOST_CALLS, sizeof(*started));
	int done = 0, i;
	for (i = 0; started && i < s->n; i++) {
		const struct call *c = &s->calls[i];
		if (s->most_pause && !gpu_random(3))
			gpu_pause(gpu_random(s->most_pause));
		int ret = call_start(&started[i], &s->world, rank, c, call_signature(c));
		if (ret) {
			printf("# rank %d: call %d: %s\n", rank, i, corale_strerror(ret));
			s->faults[rank]++;
			break;
		}
		if (!gpu_random(3))
			s->faults[rank] += finish_calls(s, rank, started, &done, i + 1);
	}
	s->faults[rank] += finish_calls(s, rank, started, &done, i);
	free(started);
}

static int run_script(struct script *s, const struct world_params *p)
{
	int faults = 0;
	if (world_open(&s->world, p))
		return 1;
	memset(s->faults, 0, sizeof(s->faults));
	if (gpu_run(p->ranks, play, s, seed))
		return -1;
	for (int r = 0; r < p->ranks; r++)
		faults += s->faults[r];
	world_close(&s->world);
	return faults;
}

static void add(struct script *s, struct call c)
{
	if (s->n == MOST_CALLS)
		abort();
	c.seed = seed * 1000 + (uint64_t)s->n;
	s->calls[s->n++] = c;
}

/* ---- Each collective by each codelet ------------------------------------------------------------------------------ */

static const corale_type some_types[] = { CORALE_FLOAT32, CORALE_INT32, CORALE_BFLOAT16, CORALE_FLOAT64,
					  CORALE_INT8 };

static int all_reduce_one_shot(void)
{
	static const size_t counts[] = { 1, 2, 3, 30, 31, 300, 1000 };
	int faults = 0;
	for (int ranks = 2; faults >= 0 && ranks <= 4; ranks++) {
		struct script *s = calloc(1, sizeof(*s));
		for (size_t t = 0; t < sizeof(some_types) / sizeof(*some_types); t++)
			for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
				add(s, (struct call){ .codelet = CODELET_PACKETS,
						      .coll = CORALE_ALL_REDUCE,
						      .type = some_types[t],
						      .op = (int)((t + i) % (CORALE_NUM_OPS + 1)),
						      .count = counts[i],
						      .send_shift = i % 3 == 2 ? 1 : 0 });
		int more = run_script(
		    s, &(struct world_params){ .ranks = ranks, .max_blocks = 4, .window_bytes = 1 << 20 });
		faults = more < 0 ? -1 : faults + more;
		free(s);
	}
	return faults;
}

/* ---- All of them --------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{ "all_reduce in one exchange", all_reduce_one_shot },
};

int main(int argc, char **argv)
{
	int ncases = (int)(sizeof(cases) / sizeof(*cases)), failed = 0;
	const char *word = argc > 2 ? argv[2] : "";
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	log_open(LOG_ERROR, NULL);
	printf("1..%d\n", ncases);
	for (int i = 0; i < ncases; i++) {
		if (!strstr(cases[i].name, word)) {
			printf("ok %d - %s # SKIP not asked for\n", i + 1, cases[i].name);
			continue;
		}
		int faults = cases[i].run();
		printf("%s %d - %s\n", faults ? "not ok" : "ok", i + 1, cases[i].name);
		fflush(stdout);
		failed |= faults != 0;
		if (faults < 0) {
			printf("Bail out! kernels that do not end can't be left\n");
			return 1;
		}
	}
	return failed;
}
