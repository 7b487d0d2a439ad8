/*
 * all_reduce and reduce_scatter by copy engines: every rank's part of the vector comes to it in the scratch that it has for each other
 * rank, in step d from rank r - d. The last step goes in pieces, each of which is folded while the next one comes; so the first of
 * the results go on at once, and the last fold is small. What scratch does not hold at a time goes in rounds.
 */
#include "engine_cuda_copy.h"

#include "corale.h"

enum { INPUTS, RESULTS }; /* buffers of scratch; results of registered receive buffers need none */

struct sum {
	int gathers, staged; /* all_reduce; its results through scratch */
	int buffers;
	uint64_t part; /* bytes of a rank's part at most */
};

/* Of every rank's part, as much as there is of it: from `at`, in scratch from `in`. */
struct piece {
	uint64_t at, in, bytes;
};

static struct sum sum_of(const struct copies *k)
{
	struct sum s = { .gathers = k->call->coll == CORALE_ALL_REDUCE, .part = k->call->bytes };
	uint64_t ranks = (uint64_t)k->e->ranks;
	s.staged = s.gathers && !k->call->target;
	s.buffers = s.staged ? 2 : 1;
	if (s.gathers)
		s.part = codelet_round((s.part + ranks - 1) / ranks, COPY_ALIGN);
	return s;
}

/* A piece of a rank's part: where in the vector or the blocks. */
static struct copy_span span_of(const struct copies *k, const struct sum *s, int rank, struct piece p)
{
	uint64_t end = ((uint64_t)rank + 1) * s->part, at = (uint64_t)rank * s->part + p.at;
	if (s->gathers && end > k->call->bytes)
		end = k->call->bytes;
	uint64_t left = at < end ? end - at : 0;
	return (struct copy_span){ at, left < p.bytes ? left : p.bytes };
}

/* ---- Inputs ---------------------------------------------------------------------------------------------- */

static void scatter(struct copies *k, const struct sum *s, int d, struct piece p)
{
	int to = copy_peer(k, d);
	struct copy_span x = span_of(k, s, to, p);
	copy_by_engine(k, copy_scratch(k, k->e->rank, to, INPUTS, s->buffers) + p.in, copy_sent(k) + x.at,
		       x.bytes);
}

static void fold(struct copies *k, const struct sum *s, struct piece p, enum copy_blocks blocks)
{
	const struct engine *e = k->e;
	struct copy_span x = span_of(k, s, e->rank, p);
	int first = e->rank ? 0 : 1;
	struct codelet_chunk chunk = { .others = copy_scratch(k, first, e->rank, INPUTS, s->buffers) + p.in,
				       .stride = copy_scratch_bytes(k, s->buffers),
				       .own = copy_sent(k) + x.at,
				       .to = copy_received(k) + (s->gathers ? x.at : p.at),
				       .bytes = x.bytes,
				       .rank = e->rank,
				       .ranks = e->ranks,
				       .op = k->call->op };
	copy_fold(k, &chunk, blocks);
}

static void scatter_last(struct copies *k, const struct sum *s, int d, struct piece all, int last)
{
	uint64_t done = 0;
	do {
		struct piece p = { all.at + done, done, copy_next_piece(k, all.bytes - done) };
		int first = !done;
		done += p.bytes;
		scatter(k, s, d, p);
		copy_arrival(k, last && done == all.bytes);
		fold(k, s, p, done == all.bytes ? COPY_MANY : COPY_FOLDS);
		copy_mark(k, first ? MARK_FIRST_FOLD : MARK_FOLD);
	} while (done < all.bytes);
	copy_mark(k, MARK_FOLD);
}

static void scatter_all(struct copies *k, const struct sum *s, struct piece all, int last)
{
	int d = 1;
	copy_barrier(k, 0);
	for (; d < k->e->ranks - 1; d++) {
		scatter(k, s, d, all);
		copy_barrier(k, 0);
	}
	scatter_last(k, s, d, all, last);
}

/* ---- Results --------------------------------------------------------------------------------------------- */

static void spread(struct copies *k, const struct sum *s, int d, struct piece p)
{
	struct copy_span x = span_of(k, s, k->e->rank, p);
	int to = copy_peer(k, d);
	unsigned char *place = s->staged ? copy_scratch(k, k->e->rank, to, RESULTS, s->buffers) + p.in
					 : copy_target(k, to) + x.at;
	copy_by_engine(k, place, copy_received(k) + x.at, x.bytes);
}

static void take(struct copies *k, const struct sum *s, int d, struct piece p, enum copy_blocks blocks)
{
	int from = copy_peer(k, -d);
	struct copy_span x = span_of(k, s, from, p);
	copy_beside(k, copy_received(k) + x.at, copy_scratch(k, from, k->e->rank, RESULTS, s->buffers) + p.in,
		    x.bytes, blocks);
}

/* Taken out while it comes: then in pieces. The first step begins with what was folded first. */
static void gather(struct copies *k, const struct sum *s, int d, struct piece all, int last)
{
	int taken = s->staged && d == k->e->ranks - 1;
	uint64_t done = 0;
	do {
		int cut = taken || (d == 1 && !done);
		struct piece p = { all.at + done, done,
				   cut ? copy_next_piece(k, all.bytes - done) : all.bytes - done };
		if (d == 1)
			copy_wait(k, done ? MARK_FOLD : MARK_FIRST_FOLD);
		done += p.bytes;
		spread(k, s, d, p);
		if (taken) {
			copy_arrival(k, last && done == all.bytes);
			take(k, s, d, p, done == all.bytes ? COPY_MANY : COPY_FEW);
		}
	} while (done < all.bytes);
	if (!taken)
		copy_barrier(k, last && d == k->e->ranks - 1);
}

static void gather_all(struct copies *k, const struct sum *s, struct piece all, int last)
{
	for (int d = 1; d < k->e->ranks; d++) {
		gather(k, s, d, all, last);
		if (s->staged && d < k->e->ranks - 1) {
			copy_fork(k);
			take(k, s, d, all, COPY_FEW);
		}
	}
	if (!s->staged)
		return;
	copy_mark(k, MARK_TAKEN);
	copy_wait(k, MARK_TAKEN);
}

void copy_sums(struct copies *k)
{
	const struct sum s = sum_of(k);
	const uint64_t room = copy_scratch_bytes(k, s.buffers);
	uint64_t at = 0;
	do {
		struct piece all = { at, 0, s.part - at < room ? s.part - at : room };
		at += all.bytes;
		int last = at == s.part;
		scatter_all(k, &s, all, last && !s.gathers);
		if (s.gathers)
			gather_all(k, &s, all, last);
		else
			copy_wait(k, MARK_FOLD);
	} while (at < s.part);
}
