/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce and reduce_scatter by copy engines. In step d rank r - d copies rank r's part of the vector into rank r's scratch. The part comes in pieces; each
 * is folded while the next one comes, so the first results leave early, and the last fold is small. Vectors larger than scratch go in rounds. The rest of a
 * round, folds of a reduce_scatter or results that an all_reduce takes out, goes on beside the next one.
 */
#include "copies.h"

#include "corale.h"

enum { FEW_FOLDING = 12 /* blocks: fewer are not faster than a link */ };
enum { INPUTS, RESULTS }; /* buffers of scratch; results of registered receive buffers need none */

struct sum {
	int gathers, staged; /* all_reduce; its results through scratch */
	int buffers;
	uint64_t part; /* bytes of a rank's part at most */
	uint32_t first_fold, last_fold, taken; /* numbers of jobs */
};

static struct sum sum_of(const struct copies *k)
{
	struct sum s = { .gathers = k->launch->coll == CORALE_ALL_REDUCE, .part = k->launch->bytes };
	s.staged = s.gathers && !k->call->record.target;
	s.buffers = s.staged ? 2 : 1;
	if (s.gathers)
		s.part = launch_copied_part(s.part, k->e->ranks);
	return s;
}

/* A piece of a rank's part: where in the vector or the blocks, which may be shorter than the part. */
static struct copy_span span_of(const struct copies *k, const struct sum *s, int rank, struct copy_piece p)
{
	const struct call *c = k->call;
	const size_t element = corale_type_bytes(c->record.type);
	const uint64_t begin = c->send_counts ? c->send_displs[rank] * element : (uint64_t)rank * s->part;
	uint64_t end = begin + (c->send_counts ? c->send_counts[rank] * element : s->part), at = begin + p.at;
	if (s->gathers && end > k->launch->bytes)
		end = k->launch->bytes;
	uint64_t left = at < end ? end - at : 0;
	return (struct copy_span){ at, left < p.bytes ? left : p.bytes };
}

/* Bytes that an all_reduce folds before it sends its first results. It folds the rest meanwhile. */
static uint64_t first_results(const struct copies *k, struct copy_piece all)
{
	return copy_next_piece(k, all, 0, k->e->ranks).bytes;
}

/* How many times as fast as their copies folds are, about; 0: no faster. */
static int fold_lead(const struct copies *k)
{
	int blocks = launch_folds(k->launch->machine, 0).blocks,
	    lead = k->e->ranks * blocks / LAUNCH_FOLDING_BLOCKS;
	return blocks < FEW_FOLDING ? 0 : lead < 2 ? 2 : lead;
}

/*
 * The next piece to fold. Pieces are ever smaller, so little is left to fold after the last copy: a fold has the time of the next piece's copies. Where folds
 * are no faster than copies, pieces are equal, so the first fold begins early. An all_reduce has a piece end where its first results do.
 */
static struct copy_piece next_folded(const struct copies *k, const struct sum *s, struct copy_piece all,
				     uint64_t done)
{
	const int lead = fold_lead(k);
	const uint64_t first = s->gathers ? first_results(k, all) : 0;
	struct copy_piece part = all;
	if (done < first)
		part.bytes = first;
	if (!lead)
		return copy_next_equal(k, part, done);
	return copy_next_piece(k, part, done, s->gathers || all.whole ? 0 : lead);
}

/* ---- Inputs ---------------------------------------------------------------------------------------------- */

static void scatter(struct copies *k, const struct sum *s, int d, struct copy_piece p)
{
	int to = copy_peer(k, d);
	struct copy_span x = span_of(k, s, to, p);
	copy_by_engine(k, copy_scratch(k, k->e->rank, to, INPUTS, s->buffers) + p.in, copy_sent(k) + x.at,
		       x.bytes, k->stream);
}

/* A piece goes to all ranks before the next one does: a fold has the time of all copies of a piece. */
static void scatter_all(struct copies *k, const struct sum *s, struct copy_piece all)
{
	const int steps = k->e->ranks - 1;
	uint64_t done = 0;
	do {
		struct copy_piece p = next_folded(k, s, all, done);
		for (int d = 1; d <= steps; d++)
			scatter(k, s, d, p);
		copy_arrival(k);
		done += p.bytes;
	} while (done < all.bytes);
}

/* done: the number by which the stream waits for the fold; 0: no stream waits. */
static void add_fold(struct copies *k, const struct sum *s, struct copy_piece p, uint32_t arrival,
		     uint32_t done)
{
	const struct engine *e = k->e;
	struct copy_span x = span_of(k, s, e->rank, p);
	int first = e->rank ? 0 : 1;
	struct codelet_job job = { .others = copy_scratch(k, first, e->rank, INPUTS, s->buffers) + p.in,
				   .stride = copy_scratch_bytes(k, s->buffers),
				   .own = copy_sent(k) + x.at,
				   .to = copy_received(k) + (s->gathers ? x.at : p.at),
				   .bytes = x.bytes,
				   .arrival = arrival,
				   .done = done };
	copy_add(k, &job);
}

/* The stream of an all_reduce waits for the first fold and for the last one. */
static void add_folds(struct copies *k, struct sum *s, struct copy_piece all)
{
	uint64_t done = 0;
	int n = 0;
	s->first_fold = k->done + 1;
	do {
		struct copy_piece p = next_folded(k, s, all, done);
		done += p.bytes;
		int waited = s->gathers && (done == first_results(k, all) || done == all.bytes);
		add_fold(k, s, p, copy_next_arrival(k, n++), waited ? ++k->done : 0);
	} while (done < all.bytes);
	s->last_fold = k->done;
}

/* ---- Results --------------------------------------------------------------------------------------------- */

static void spread(struct copies *k, const struct sum *s, int d, struct copy_piece p)
{
	struct copy_span x = span_of(k, s, k->e->rank, p);
	int to = copy_peer(k, d);
	unsigned char *at = s->staged ? copy_scratch(k, k->e->rank, to, RESULTS, s->buffers) + p.in
				      : copy_target(k, to) + x.at;
	copy_by_engine(k, at, copy_received(k) + x.at, x.bytes, k->stream);
}

/* The next piece of results: in the first step what was folded first; in the last step, into scratch, in pieces. */
static struct copy_piece next_spread(const struct copies *k, const struct sum *s, int d,
				     struct copy_piece all, uint64_t done)
{
	if (d > 1 || done)
		return copy_next_taken(k, s->staged ? d : 0, all, done);
	all.bytes = first_results(k, all);
	return all;
}

static void add_take(struct copies *k, const struct sum *s, int d, struct copy_piece p, uint32_t arrival)
{
	int from = copy_peer(k, -d);
	struct copy_span x = span_of(k, s, from, p);
	struct codelet_job job = { .own = copy_scratch(k, from, k->e->rank, RESULTS, s->buffers) + p.in,
				   .to = copy_received(k) + x.at,
				   .bytes = x.bytes,
				   .arrival = arrival };
	copy_add(k, &job);
}

/* Takes out a step at a time, the last step by pieces. The next round waits for the last piece. */
static void add_takes(struct copies *k, struct sum *s, struct copy_piece all)
{
	const int steps = k->e->ranks - 1;
	int number = 0;
	for (int d = 1; d <= steps; d++) {
		uint64_t done = 0;
		do {
			struct copy_piece p = d < steps ? all : next_spread(k, s, d, all, done);
			add_take(k, s, d, p, copy_next_arrival(k, number++));
			done += p.bytes;
		} while (done < all.bytes);
	}
	if (all.whole)
		s->taken = k->job[k->jobs - 1].done = ++k->done;
}

/* Waits on a second stream, so that no kernel comes between two copies. */
static void await_fold(struct copies *k, uint32_t fold)
{
	copy_wait_job(k, fold, k->second);
	copy_order(k, k->second, k->stream);
}

static void gather_step(struct copies *k, const struct sum *s, int d, struct copy_piece all)
{
	const int steps = k->e->ranks - 1, taken = s->staged && d == steps;
	uint64_t done = 0;
	for (int n = 0; !n || done < all.bytes; n++) {
		struct copy_piece p = next_spread(k, s, d, all, done);
		if (d == 1 && n < 2)
			await_fold(k, n ? s->last_fold : s->first_fold);
		done += p.bytes;
		spread(k, s, d, p);
		if (taken)
			copy_arrival(k);
	}
}

static void gather_all(struct copies *k, const struct sum *s, struct copy_piece all)
{
	const int steps = k->e->ranks - 1;
	for (int d = 1; d <= steps; d++) {
		gather_step(k, s, d, all);
		if (s->staged && d < steps)
			copy_arrival(k);
	}
}

/* As much of all parts as scratch holds. Where results go through scratch, the jobs that take out those of the last round end the call. */
static void sum_round(struct copies *k, struct sum *s, struct copy_piece all)
{
	const int last = s->staged && !all.whole;
	add_folds(k, s, all);
	copy_start_work(k, 0);
	copy_barrier(k, 0);
	if (s->taken) /* then arrivals say that the next results may come, too */
		copy_wait_job(k, s->taken, k->second);
	scatter_all(k, s, all);
	if (s->staged)
		add_takes(k, s, all);
	copy_more_work(k, last);
	gather_all(k, s, all);
	copy_more_work(k, last);
	copy_clear_work(k);
}

static void all_reduce(struct copies *k, struct sum *s)
{
	uint64_t at = 0;
	do {
		struct copy_piece all = copy_round(at, s->part, k->launch->piece);
		at += all.bytes;
		sum_round(k, s, all);
	} while (at < s->part);
	if (!s->staged)
		copy_barrier(k, 1);
	copy_wait_work(k);
}

/* ---- reduce_scatter -------------------------------------------------------------------------------------- */

static void add_part(struct copies *k, struct copy_piece round)
{
	struct sum s = sum_of(k);
	add_folds(k, &s, round);
}

static void send_parts(struct copies *k, struct copy_piece round)
{
	const struct sum s = sum_of(k);
	scatter_all(k, &s, round);
}

void copy_sums(struct copies *k)
{
	struct sum s = sum_of(k);
	if (s.gathers)
		all_reduce(k, &s);
	else
		copy_in_rounds(k, add_part, send_parts);
}
