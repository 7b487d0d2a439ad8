/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls whose data copy engines move, in steps. In a step every rank sends to one other rank at most and receives from one at most, because two senders to
 * one receiver share its link. One barrier of one warp begins a call or round. Copies take equally long, so ranks stay in step without more barriers.
 * Broadcasts go from rank to rank, without steps. Nothing here waits on the host.
 *
 * Copies go straight into registered memory, else into the receiver's scratch. A kernel takes data out of scratch beside the copies that follow. The last
 * pieces are ever smaller, so little is left to take out after the last copy.
 */
#include "copies.h"

#include <string.h>

#include "corale.h"
#include "base/log.h"

enum {
	FIRST_PIECES = 32,
	LAST_PIECES = 8
}; /* of a chunk of scratch: more is divided, of a round at first, and of what is left of it */

_Static_assert((int)ENGINE_COPY_JOBS / 2 == (int)LAUNCH_MOST_CHUNKS,
	       "a job for each chunk of a round, and for its last smaller ones");

/* ---- What is enqueued ------------------------------------------------------------------------------------ */

static void keep(struct copies *k, int error)
{
	k->error = k->error ? k->error : error;
}

void copy_by_engine(struct copies *k, void *to, const void *from, uint64_t bytes, cudaStream_t stream)
{
	if (bytes && !k->error)
		keep(k, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

void copy_step(struct copies *k, const struct codelet_step *given, cudaStream_t stream)
{
	struct codelet_step step = *given;
	step.args.launch = engine_next_launch(k->e);
	engine_count(k->e, 1);
	if (!k->error)
		keep(k, codelets_step(&step, stream));
}

static void launch_work(struct copies *k, struct codelet_work *work, struct grid grid, int type,
			cudaStream_t stream)
{
	work->args.launch = engine_next_launch(k->e);
	engine_count(k->e, grid.blocks);
	if (!k->error)
		keep(k, codelets_work(work, grid, type, stream));
}

void copy_barrier(struct copies *k, int last)
{
	struct codelet_step *b = &k->barrier;
	b->headers = b->signal == 0;
	b->last = (uint32_t)last;
	b->wait = b->signal;
	copy_step(k, b, k->stream);
	b->signal++;
}

void copy_order(struct copies *k, cudaStream_t first, cudaStream_t then)
{
	if (first == then || k->error)
		return;
	keep(k, cudaEventRecord(k->e->ready, first));
	keep(k, cudaStreamWaitEvent(then, k->e->ready, 0));
}

void copy_arrival(struct copies *k)
{
	copy_order(k, k->stream, k->second);
	copy_step(k, &k->arrival, k->second);
	k->arrival.signal++;
}

uint32_t copy_next_arrival(const struct copies *k, int n)
{
	return k->arrival.signal + (uint32_t)n;
}

void copy_own(struct copies *k, void *to, const void *from, uint64_t bytes, int times)
{
	struct codelet_work work = { .args = k->barrier.args, .jobs = 1, .tiles = 1 };
	work.job[0] = (struct codelet_job){ .own = from, .to = to, .bytes = bytes };
	const struct grid grid = launch_own(k->launch->machine, times, k->unaligned);
	copy_order(k, k->stream, k->second);
	if (bytes && to != from)
		launch_work(k, &work, grid, -1, k->second);
}

/* ---- The work of a round --------------------------------------------------------------------------------- */

void copy_add(struct copies *k, const struct codelet_job *job)
{
	k->job[k->jobs++] = *job;
}

static int is_fold(const struct codelet_job *job)
{
	return job->others != NULL;
}

/* How many of the next jobs one kernel does: all folds or all copies. */
static int next_jobs(const struct copies *k)
{
	const struct codelet_job *job = k->job + k->launched;
	int same = 1, most = k->jobs - k->launched;
	while (same < most && same < CODELET_JOBS && is_fold(&job[same]) == is_fold(job))
		same++;
	return same;
}

static void launch_some(struct copies *k, int last)
{
	struct codelet_work work = { .args = k->barrier.args };
	const struct codelet_job *job = k->job + k->launched;
	int n = next_jobs(k), folds = is_fold(job);
	const struct grid grid = folds ? launch_folds(k->launch->machine, k->unaligned)
				       : launch_taken(k->launch->machine, k->unaligned);
	k->launched += n;
	work.jobs = (uint32_t)n;
	work.last = (uint32_t)(last && k->launched == k->jobs);
	memcpy(work.job, job, (size_t)n * sizeof(*work.job));
	launch_work(k, &work, grid, folds ? (int)k->call->record.type : -1, k->work);
}

/* 1 if all copies for which the first n jobs wait are enqueued. */
static int is_enqueued(const struct copies *k, int n)
{
	return n == 0 || k->job[n - 1].arrival < k->arrival.signal;
}

/* On a stream of its own the next kernel may queue behind earlier ones. On the user's stream it would hold up the copies for which it waits. */
static int may_launch(const struct copies *k)
{
	return is_enqueued(k, k->work == k->stream ? k->launched + next_jobs(k) : k->launched);
}

void copy_more_work(struct copies *k, int last)
{
	while (k->launched < k->jobs && may_launch(k))
		launch_some(k, last);
}

void copy_start_work(struct copies *k, int last)
{
	copy_order(k, k->stream, k->work);
	copy_more_work(k, last);
}

void copy_wait_job(struct copies *k, uint32_t done, cudaStream_t stream)
{
	struct codelet_step step = {
		.args = k->barrier.args, .sequence = CODELET_WORKED, .wait = done, .of = k->e->rank + 1
	};
	if (k->work != stream)
		copy_step(k, &step, stream);
}

void copy_wait_work(struct copies *k)
{
	copy_order(k, k->second, k->stream);
	copy_order(k, k->work, k->stream);
	copy_clear_work(k);
}

void copy_clear_work(struct copies *k)
{
	k->jobs = k->launched = 0;
}

/* ---- Addresses --------------------------------------------------------------------------------------------- */

unsigned char *copy_target(const struct copies *k, int rank)
{
	return engine_region_of(k->e, k->call->record.target)->peers[rank] +
	       engine_offset_of(k->call->record.target);
}

uint64_t copy_scratch_bytes(const struct copies *k, int buffers)
{
	return launch_scratch_part(k->launch->machine->scratch_bytes, buffers);
}

unsigned char *copy_scratch(const struct copies *k, int sender, int receiver, int b, int buffers)
{
	const struct engine *e = k->e;
	uint64_t slot = (uint64_t)b * (uint64_t)(e->ranks - 1) + codelet_index(sender, receiver);
	return e->regions[e->scratch_region].peers[receiver] + slot * copy_scratch_bytes(k, buffers);
}

/* ---- Rounds and pieces ----------------------------------------------------------------------------------- */

struct copy_piece copy_round(uint64_t at, uint64_t all, uint64_t room)
{
	const uint64_t left = all - at;
	return (struct copy_piece){ .at = at, .bytes = left < room ? left : room, .whole = left > room };
}

struct copy_piece copy_round_of_half(uint64_t at, uint64_t all, uint64_t room, uint32_t n)
{
	struct copy_piece round = copy_round(at, all, room);
	round.in = n % 2 ? 0 : room;
	return round;
}

static struct copy_piece piece_of(struct copy_piece round, uint64_t done, uint64_t bytes)
{
	const uint64_t left = round.bytes - done;
	return (struct copy_piece){ .at = round.at + done,
				    .in = round.in + done,
				    .bytes = bytes < left ? bytes : left };
}

/* Of the scratch that another rank has: one of its two buffers. */
static uint64_t chunk_of(const struct copies *k)
{
	return k->launch->machine->scratch_bytes / 2;
}

struct copy_piece copy_next_piece(const struct copies *k, struct copy_piece round, uint64_t done, int leaves)
{
	uint64_t left = round.bytes - done, next = left;
	if (leaves && left > chunk_of(k) / (done ? LAST_PIECES : FIRST_PIECES))
		next = plan_round(left - left / (uint64_t)leaves, COPY_ALIGN);
	return piece_of(round, done, next);
}

struct copy_piece copy_next_equal(const struct copies *k, struct copy_piece round, uint64_t done)
{
	const uint64_t most = chunk_of(k) / LAST_PIECES, least = most / 2;
	const uint64_t bytes = plan_round(round.bytes / LAST_PIECES, COPY_ALIGN);
	return piece_of(round, done, bytes < least ? least : bytes < most ? bytes : most);
}

struct copy_piece copy_next_taken(const struct copies *k, int d, struct copy_piece round, uint64_t done)
{
	return copy_next_piece(k, round, done, d == k->e->ranks - 1 && !round.whole ? 2 : 0);
}

void copy_in_rounds(struct copies *k, copy_part *add, copy_part *send)
{
	const uint64_t all = k->launch->bytes;
	uint64_t at = 0;
	for (uint32_t n = 1; n == 1 || at < all; n++) {
		struct copy_piece round = copy_round_of_half(at, all, k->launch->piece, n);
		at += round.bytes;
		add(k, round);
		k->job[k->jobs - 1].done = k->launch->pieces > 1 ? n : 0;
		copy_start_work(k, at == all);
		if (n > 2) /* what came there before has been taken out */
			copy_wait_job(k, n - 2, k->stream);
		copy_barrier(k, 0);
		send(k, round);
		copy_more_work(k, at == all);
		copy_clear_work(k);
	}
	copy_wait_work(k);
}

/* ---- The call -------------------------------------------------------------------------------------------- */

static void fill(const struct engine *e, struct gpu_launch *l)
{
	l->args = e->args[AREA_SLOTS];
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	struct copies k = { .e = e,
			    .call = c,
			    .launch = &l->cut,
			    .unaligned = launch_copies_unaligned(&l->cut),
			    .job = e->jobs,
			    .stream = stream };
	k.barrier.args = l->args;
	engine_patch_args(e, c, &k.barrier.args);
	k.barrier.sequence = CODELET_BARRIERS;
	k.arrival.args = k.barrier.args;
	k.arrival.signal = 1;
	engine_begin_launch(e, &l->cut, 0);
	engine_choose_streams(e, stream, &k.second, &k.work);
	switch (c->record.coll) {
	case CORALE_ALL_GATHER:
	case CORALE_ALL_TO_ALL:
		copy_all_blocks(&k);
		break;
	case CORALE_BROADCAST:
		copy_broadcast(&k);
		break;
	case CORALE_ALL_REDUCE:
	case CORALE_REDUCE_SCATTER:
		copy_sums(&k);
		break;
	default:
		return log_error(CORALE_EINTERNAL, e->world_rank, "%s: copy engines have no schedule for it",
				 corale_coll_name(c->record.coll));
	}
	return engine_check(e, k.error, "enqueueing copies and their barriers");
}

const struct cuda_codelet cuda_copies = { codelets_load_copies, fill, CODELET_OVERWRITES, run };
