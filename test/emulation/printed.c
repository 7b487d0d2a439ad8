/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What corale-plan prints of a launch is what is launched: for each row of the GPUs of one node, in each class of memory that it takes, from addresses that
 * are aligned to 16 bytes, to 4 and not at all. The engine logs the launch that it has prepared; the emulator notes the blocks and threads of its kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "calls.h"
#include "emulation_test.h"
#include "script.h"

enum { MOST_RANKS = 5, TEXT = 512, PLACE = 128, WINDOW = 1 << 20, CHUNK = 8192 };

struct printed {
	struct world world;
	struct test_call call;
	struct started started[MOST_RANKS];
	int errors[MOST_RANKS];
};

static char logged[TEXT]; /* rank 0's last launch */

static void keep_line(enum log_level level, int rank, const char *text)
{
	if (rank == 0 && !strncmp(text, "launch: ", 8))
		snprintf(logged, sizeof logged, "%s", text);
}

static void play(int rank, void *arg)
{
	struct printed *p = arg;
	p->errors[rank] = call_start(&p->started[rank], &p->world, rank, &p->call, call_signature(&p->call));
	gpu_synchronize();
}

/* Of a block or vector, or of rank 0's longest edge. */
static uint64_t bytes_of(const struct printed *p)
{
	const struct started *s = &p->started[0];
	size_t most = p->call.count;
	for (int r = 1; p->call.coll == CORALE_ALL_TO_ALL_V && r < s->ranks; r++)
		most = r == 1 || s->send_counts[r] > most ? s->send_counts[r] : most;
	return most * corale_type_bytes(p->call.type);
}

/* A kernel of rank 0 has that grid. */
static int was_launched(const struct launch *planned)
{
	size_t n;
	const struct gpu_launched *l = gpu_launches(&n);
	for (size_t i = 0; i < n; i++)
		if (l[i].rank == 0 && (int)l[i].blocks == planned->grid.blocks &&
		    (int)l[i].threads == planned->grid.threads)
			return 1;
	return 0;
}

/* Counts of all_to_all_v differ: what is printed is of equal ones, of which a rank has its own if it has any. */
static int has_edges_as_printed(const struct printed *p)
{
	return p->call.coll != CORALE_ALL_TO_ALL_V || !p->started[0].send_counts[0] == !bytes_of(p);
}

static int compare(const struct printed *p, const struct row *row, int memory)
{
	char text[TEXT], line[2 * TEXT];
	const struct plan_call call = { row->coll, bytes_of(p), type_in_words(p->call.type), memory,
					plan_alignment_of(p->started[0].send, p->started[0].recv) };
	const struct launch planned = launch_of(row, &p->world.engines[0].machine, &call);
	launch_print(&planned, text, sizeof text);
	snprintf(line, sizeof line, "launch: %s of %llu bytes: %s", corale_coll_name(row->coll),
		 (unsigned long long)call.bytes, text);
	if (!strcmp(line, logged) && was_launched(&planned))
		return 0;
	size_t n;
	const struct gpu_launched *l = gpu_launches(&n);
	for (size_t i = 0; i < n; i++)
		printf("# rank %d: %u blocks of %u threads\n", l[i].rank, l[i].blocks, l[i].threads);
	printf("# %s %s, memory %d, alignment %d:\n# corale-plan: %s\n# launched:    %s\n", row->name,
	       plan_protocol_name(row->protocol), memory, call.unaligned, line, logged);
	return 1;
}

static int run(const struct row *row, int ranks, int memory, struct test_call call)
{
	struct world_params params = { .ranks = ranks,
				       .max_blocks = test_thin ? 1 : 4,
				       .window_bytes = WINDOW,
				       .scratch_chunk = CHUNK };
	struct printed *p = calloc(1, sizeof *p);
	int faults = 0;
	p->call = call;
	if (call.place)
		params.registered_bytes = PLACE + call_room(&call, ranks);
	if (world_open(&p->world, &params))
		abort();
	logged[0] = '\0';
	gpu_record(NULL, 0);
	if (gpu_run(ranks, play, p, call.seed))
		return -1;
	faults = has_edges_as_printed(p) ? compare(p, row, memory) : 0;
	gpu_record_end();
	for (int r = 0; r < ranks; r++) {
		faults += script_print_failure(&p->world.engines[r]) || p->errors[r];
		faults += call_finish(&p->started[r]);
	}
	world_close(&p->world);
	free(p);
	return faults;
}

static int run_row(const struct row *row, int ranks, int memory, unsigned shift, size_t bytes)
{
	const corale_type type = row->protocol == PLAN_SENTINEL ? CORALE_FLOAT32 : CORALE_INT32;
	const struct gpu_machine machine = { .rates = rates_of_default_gpu(),
					     .ranks = ranks,
					     .max_blocks = test_thin ? 1 : 4,
					     .forced = (int)row->protocol,
					     .slots_bytes = 4096,
					     .lines_bytes = 4096,
					     .words_bytes = 4096 };
	const struct plan_call asked = { row->coll, coll_has_data(row->coll) ? bytes : 0, type_in_words(type),
					 memory, PLAN_ALIGNED_16 };
	if (coll_is_pair(row->coll) || row_us(row, &machine, &asked) < 0)
		return 0;
	return run(row, ranks, memory,
		   (struct test_call){ .codelet = codelet_kind(row),
				       .coll = row->coll,
				       .type = type,
				       .count = coll_has_data(row->coll) ? bytes / 4 : 0,
				       .send_shift = shift,
				       .recv_shift = shift,
				       .place = row_stores_direct(row, &machine, &asked) ? PLACE : 0,
				       .scratch = row_uses_scratch(row, &machine, &asked),
				       .seed = test_seed + bytes });
}

int test_printed(void)
{
	static const int classes[] = { 0, PLAN_MEMORY_SCRATCH,
				       PLAN_MEMORY_SCRATCH | PLAN_MEMORY_REGISTERED | PLAN_MEMORY_EXPORTED };
	static const unsigned shifts[] = { 0, 4, 1 };
	int rows, faults = 0;
	const struct row *table = row_table(&rows);
	log_set_writer(keep_line);
	log_level = LOG_TRACE;
	for (int i = 0; !faults && i < rows * 18; i++) {
		const struct row *row = &table[i / 18];
		const size_t bytes = i % 2 ? 100 : 20000;
		if (row->codelet && !(row->traits & ROW_OVER_NODES) && (!test_thin || i % 31 == 0))
			faults = run_row(row, test_thin || i % 4 < 2 ? 2 : MOST_RANKS, classes[i / 2 % 3],
					 shifts[i / 6 % 3], bytes);
	}
	log_level = LOG_ERROR;
	log_set_writer(NULL);
	return faults;
}
