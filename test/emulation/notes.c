/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kernel that waits long tells its host: for which rank, and in which call. */
#include <stdio.h>
#include <string.h>

#include "emulation_test.h"
#include "plan/codelet/row.h"
#include "script.h"
#include "test/helpers/row_find.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { NUMBER = 7, LONG_MESSAGE = 40000, SHORT_MESSAGE = 40 };

/* The last rank comes when all others have told of it twice. Sends and receives are from rank 0 to the last one. */
struct late {
	struct world world;
	struct test_call call;
	int message, sending; /* bytes, 0: a collective; rank 0 sends */
	int faults[GPU_MAX_HOSTS];
};

static uint64_t note_of(const struct late *l, int rank, int peer)
{
	return __atomic_load_n(&l->world.engines[rank].waits[peer], __ATOMIC_RELAXED);
}

static void await_notes(const struct late *l, int last)
{
	for (int r = 0; r < last; r++) {
		uint64_t first;
		while (!(first = note_of(l, r, last)))
			gpu_pause(100);
		while (note_of(l, r, last) == first)
			gpu_pause(100);
	}
}

/* Nobody is named but the rank that is late. */
static void check_notes(struct late *l, int rank, int last)
{
	for (int peer = 0; peer < l->world.ranks; peer++) {
		const uint64_t note = note_of(l, rank, peer);
		if (peer == last ? note >> 32 == NUMBER && note << 32 : !note)
			continue;
		printf("# %s by %s, message %d, rank %d: the note for rank %d is %llx\n",
		       corale_coll_name(l->call.coll), codelet_kind_name(l->call.codelet), l->message, rank,
		       peer, (unsigned long long)note);
		l->faults[rank]++;
	}
}

static void run_message(struct late *l, int rank)
{
	static unsigned char data[2][LONG_MESSAGE];
	const int sends = rank ? !l->sending : l->sending;
	const int peer = rank ? 0 : l->world.ranks - 1;
	const uint64_t bytes = (uint64_t)l->message;
	struct call m = sends ? world_send(peer, data[rank != 0], bytes, CORALE_INT32)
			      : world_receive(peer, data[rank != 0], bytes, CORALE_INT32);
	m.number = NUMBER;
	memset(data[rank != 0], sends ? 3 : 4, LONG_MESSAGE);
	l->faults[rank] += engine_run_messages(&l->world.engines[rank], &m, 1, NULL) != 0;
	gpu_synchronize();
	l->faults[rank] += data[rank != 0][l->message - 1] != 3;
}

static void come_late(int rank, void *arg)
{
	struct late *l = arg;
	const int last = l->world.ranks - 1;
	struct started started;
	if (rank == last)
		await_notes(l, last);
	if (l->message) {
		run_message(l, rank);
	} else {
		l->faults[rank] +=
		    call_start(&started, &l->world, rank, &l->call, call_signature(&l->call)) != 0;
		gpu_synchronize();
		l->faults[rank] += call_finish(&started);
	}
	l->faults[rank] += script_print_failure(&l->world.engines[rank]);
	if (rank != last)
		check_notes(l, rank, last);
}

static int run_late(struct late l, int ranks)
{
	struct world_params p = { .ranks = ranks,
				  .max_blocks = 1,
				  .window_bytes = 224 << 10,
				  .scratch_chunk = l.call.codelet == &copies_codelet ? 4096 : 0 };
	int faults = 0;
	l.call.number = NUMBER;
	if (world_open(&l.world, &p))
		return 1;
	if (gpu_run(ranks, come_late, &l, test_seed))
		return -1;
	for (int r = 0; r < ranks; r++)
		faults += l.faults[r];
	world_close(&l.world);
	return faults;
}

int test_notes(void)
{
	const struct late lates[] = {
		{ .call = call_by(&one_shot_codelet, CORALE_ALL_REDUCE, CORALE_FLOAT32, 20) },
		{ .call = call_by(&one_shot_codelet, CORALE_ALL_GATHER, CORALE_INT8, 21) },
		{ .call = call_by(&two_shot_codelet, CORALE_ALL_REDUCE, CORALE_FLOAT32, 100) },
		{ .call = { .codelet = &two_shot_codelet,
			    .coll = CORALE_ALL_REDUCE,
			    .type = CORALE_FLOAT16,
			    .send_shift = 1,
			    .count = 100 } },
		{ .call = call_by(&fifo_codelet, CORALE_ALL_GATHER, CORALE_INT32, 2000) },
		{ .call = call_by(&fifo_codelet, CORALE_ALL_TO_ALL_V, CORALE_INT32, 1000) },
		{ .call = call_by(&bulk_codelet, CORALE_ALL_GATHER, CORALE_INT32, 2000) },
		{ .call = call_by(&copies_codelet, CORALE_ALL_GATHER, CORALE_INT32, 300) },
		{ .call = call_lowered(CORALE_ALL_REDUCE, "ring", CORALE_INT32, 50) },
		{ .call = { .coll = CORALE_ALL_GATHER,
			    .row = row_find(CORALE_ALL_GATHER, "oneshot"),
			    .type = CORALE_INT32,
			    .count = 50,
			    .in_lines = 1 } },
		{ .message = SHORT_MESSAGE },
		{ .message = LONG_MESSAGE },
		{ .message = LONG_MESSAGE, .sending = 1 },
	};
	int faults = 0;
	for (size_t i = 0; faults >= 0 && i < COUNT(lates); i++) {
		if (test_thin && (i + test_seed) % 4) /* long waits */
			continue;
		const int more = run_late(lates[i], lates[i].message || i % 4 ? 2 : 3);
		faults = more < 0 ? -1 : faults + more;
	}
	return faults;
}
