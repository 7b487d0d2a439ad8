/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA communicators under stress: very many tiny calls with random delays, random calls on several streams and
 * communicators at once, chains over streams, threads, graphs in any order. Every result is checked.
 *
 * Usage: mpirun -n RANKS test/gpus/cuda_stress [--seconds S] [--calls N] [--words N] [--parts A,B] [--seed N]
 * S (default 10): of each part that has no end of its own, and at most 6 times as much of a tiny part.
 * --calls (default 1000000): of each of the tiny parts. --words (default 2): of 4 bytes, of each call in "burst" and "replayed".
 */
#include "cuda_stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_delay.h"

enum { RESERVE_S = 120, TINY_FACTOR = 6 };

static const struct part {
	const char *name;
	void (*run)(struct stress *s);
	int benches, tiny;
} parts[] = {
	{ "tiny", stress_tiny, 1, 1 },         { "burst", stress_burst, 1, 1 },
	{ "replayed", stress_replayed, 1, 1 }, { "chain", stress_chain, 1, 0 },
	{ "mix", stress_mix, 1, 0 },           { "two", stress_two, 2, 0 },
	{ "graphs", stress_graphs, 2, 0 },     { "threads", stress_threads, 2, 0 },
	{ "outlived", stress_outlived, 1, 0 },
};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

int stress_over(struct stress *s)
{
	for (int i = 0; i < 2 && s->broken; i++)
		if (s->benches[i].comm)
			corale_comm_abort(s->benches[i].comm);
	return cuda_world_largest(s->broken != 0 || (s->world.rank == 0 && clock_s() > s->end));
}

static int is_wanted(const char *list, const char *name)
{
	size_t length = strlen(name);
	if (!list)
		return 1;
	for (const char *at = list; (at = strstr(at, name)) != NULL; at++)
		if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
			return 1;
	return 0;
}

static void run_part(struct stress *s, const struct part *part, double seconds)
{
	char note[100];
	int missing = 0;
	cuda_world_begin(&s->world, part->name);
	double begin = clock_s();
	s->broken = 0;
	s->state = cuda_world_hash(s->seed, (uint64_t)(part - parts));
	s->end = begin + seconds * (part->tiny ? TINY_FACTOR : 1);
	for (int i = 0; i < part->benches; i++) {
		s->benches[i].comm = cuda_world_comm(&s->world, 0);
		missing |= !s->benches[i].comm;
	}
	if (!cuda_world_largest(missing)) {
		part->run(s);
		for (int i = 0; i < part->benches; i++)
			cuda_bench_free(&s->benches[i]);
	}
	for (int i = 0; i < part->benches; i++) {
		corale_comm_destroy(s->benches[i].comm);
		s->benches[i].comm = NULL;
	}
	int cut = part->tiny && s->world.cases < s->calls;
	snprintf(note, sizeof(note), "%.1f s%s", clock_s() - begin, cut ? ", CUT by the time limit" : "");
	cuda_world_end(&s->world, note);
}

static int open_stress(struct stress *s)
{
	for (int i = 0; i < STRESS_STREAMS; i++)
		if (!cuda_world_good(&s->world,
				     cudaStreamCreateWithFlags(&s->streams[i], cudaStreamNonBlocking),
				     "cudaStreamCreate"))
			return -1;
	if (!cuda_world_good(&s->world, cuda_delay_load(), "loading the test's kernels"))
		return -1;
	s->own = cuda_world_hash(s->seed, 100 + (uint64_t)s->world.rank);
	return cuda_bench_open(&s->world, &s->benches[0], s->seed) ||
	       cuda_bench_open(&s->world, &s->benches[1], s->seed + 1);
}

int main(int argc, char **argv)
{
	static struct stress s = { .calls = 1000000, .words = 2, .seed = 1 };
	const char *list = NULL;
	double seconds = 10;
	for (int i = 1; i < argc; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (value && !strcmp(argv[i], "--seconds"))
			seconds = atof(value);
		else if (value && !strcmp(argv[i], "--calls"))
			s.calls = atol(value);
		else if (value && !strcmp(argv[i], "--words") && atoi(value) > 0)
			s.words = atoi(value);
		else if (value && !strcmp(argv[i], "--parts"))
			list = value;
		else if (value && !strcmp(argv[i], "--seed"))
			s.seed = strtoull(value, NULL, 0);
		else
			return fprintf(stderr,
				       "usage: %s [--seconds S] [--calls N] [--words N] [--parts A,B] "
				       "[--seed N]\n",
				       argv[0]),
			       2;
	}
	cuda_world_open(&s.world, &argc, &argv, "cuda_stress",
			(unsigned int)(seconds * (PARTS + 3 * TINY_FACTOR)) + RESERVE_S);
	cuda_world_fold_in_order();
	if (open_stress(&s))
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = 0; i < PARTS; i++)
		if (is_wanted(list, parts[i].name))
			run_part(&s, &parts[i], seconds);
	cuda_bench_close(&s.benches[0]);
	cuda_bench_close(&s.benches[1]);
	return cuda_world_close(&s.world);
}
