/*
 * all_reduce and reduce_scatter by copy engines: every rank's part of the vector comes to it in the scratch that it has for each other
 * rank, in step d from rank r - d. The last step goes in pieces, each of which is folded while the next one comes; so the first of
 * the results go on at once, and the last fold is small. What scratch does not hold at a time goes in rounds, of which the next one's
 * inputs come while one is folded, and its results go on after them.
 */
#include "engine_cuda_copy.h"

#include "corale.h"

enum { INPUTS, RESULTS }; /* kinds of buffers of scratch; results of registered receive buffers need none */

struct sum {
	int gathers, staged; /* all_reduce; its results through scratch */
	int kinds, turns, buffers; /* of buffers; each kind's, that rounds take in turn; all */
	uint64_t part; /* bytes of a rank's part at most */
};

/* As much of all parts as a buffer holds. */
struct sum_round {
	struct copy_piece all;
	int turn;
	uint32_t first_fold, last_fold, last_take; /* numbers of jobs that the stream waits for */
};

static struct sum sum_of(const struct copies *k)
{
	struct sum s = { .gathers = k->call->coll == CORALE_ALL_REDUCE, .part = k->call->bytes };
	uint64_t ranks = (uint64_t)k->e->ranks;
	s.staged = s.gathers && !k->call->target;
	s.kinds = s.staged ? 2 : 1;
	if (s.gathers)
		s.part = codelet_round((s.part + ranks - 1) / ranks, COPY_ALIGN);
	s.turns = s.part > copy_scratch_bytes(k, s.kinds) ? 2 : 1;
	s.buffers = s.kinds * s.turns;
	return s;
}

static unsigned char *buffer_of(const struct copies *k, const struct sum *s, const struct sum_round *r,
				int sender, int receiver, int kind)
{
	return copy_scratch(k, sender, receiver, r->turn * s->kinds + kind, s->buffers);
}

/* A piece of a rank's part: where in the vector or the blocks. */
static struct copy_span span_of(const struct copies *k, const struct sum *s, int rank, struct copy_piece p)
{
	uint64_t end = ((uint64_t)rank + 1) * s->part, at = (uint64_t)rank * s->part + p.at;
	if (s->gathers && end > k->call->bytes)
		end = k->call->bytes;
	uint64_t left = at < end ? end - at : 0;
	return (struct copy_span){ at, left < p.bytes ? left : p.bytes };
}

/* ---- Inputs ---------------------------------------------------------------------------------------------- */

static void scatter(struct copies *k, const struct sum *s, const struct sum_round *r, int d,
		    struct copy_piece p)
{
	int to = copy_peer(k, d);
	struct copy_span x = span_of(k, s, to, p);
	copy_by_engine(k, buffer_of(k, s, r, k->e->rank, to, INPUTS) + p.in, copy_sent(k) + x.at, x.bytes);
}

static void scatter_all(struct copies *k, const struct sum *s, const struct sum_round *r)
{
	const int steps = k->e->ranks - 1;
	uint64_t done = 0;
	copy_barrier(k, 0);
	for (int d = 1; d < steps; d++) {
		scatter(k, s, r, d, r->all);
		copy_barrier(k, 0);
	}
	do {
		struct copy_piece p = copy_next_piece(k, steps, r->all, done);
		scatter(k, s, r, steps, p);
		copy_arrival(k);
		done += p.bytes;
	} while (done < r->all.bytes);
}

/* done: the number by which the stream waits for it; 0: it does not. */
static void add_fold(struct copies *k, const struct sum *s, const struct sum_round *r, struct copy_piece p,
		     uint32_t arrival, uint32_t done)
{
	const struct engine *e = k->e;
	struct copy_span x = span_of(k, s, e->rank, p);
	int first = e->rank ? 0 : 1;
	struct codelet_job job = { .others = buffer_of(k, s, r, first, e->rank, INPUTS) + p.in,
				   .stride = copy_scratch_bytes(k, s->buffers),
				   .own = copy_sent(k) + x.at,
				   .to = copy_received(k) + (s->gathers ? x.at : p.at),
				   .bytes = x.bytes,
				   .arrival = arrival,
				   .done = done };
	copy_add(k, &job);
}

/* Of an all_reduce the stream waits for the first fold and for the last one; of several rounds for the last one in any case. */
static void add_folds(struct copies *k, const struct sum *s, struct sum_round *r)
{
	uint64_t done = 0;
	int n = 0;
	do {
		struct copy_piece p = copy_next_piece(k, k->e->ranks - 1, r->all, done);
		done += p.bytes;
		int waited = (s->gathers && n == 0) || ((s->gathers || s->turns > 1) && done == r->all.bytes);
		k->done += (uint32_t)waited;
		r->first_fold = n ? r->first_fold : k->done;
		add_fold(k, s, r, p, copy_next_arrival(k, n++), waited ? k->done : 0);
	} while (done < r->all.bytes);
	r->last_fold = k->done;
}

/* ---- Results --------------------------------------------------------------------------------------------- */

static void spread(struct copies *k, const struct sum *s, const struct sum_round *r, int d,
		   struct copy_piece p)
{
	struct copy_span x = span_of(k, s, k->e->rank, p);
	int to = copy_peer(k, d);
	unsigned char *place =
	    s->staged ? buffer_of(k, s, r, k->e->rank, to, RESULTS) + p.in : copy_target(k, to) + x.at;
	copy_by_engine(k, place, copy_received(k) + x.at, x.bytes);
}

static void add_take(struct copies *k, const struct sum *s, const struct sum_round *r, int d,
		     struct copy_piece p, uint32_t arrival)
{
	int from = copy_peer(k, -d);
	struct copy_span x = span_of(k, s, from, p);
	struct codelet_job job = { .own = buffer_of(k, s, r, from, k->e->rank, RESULTS) + p.in,
				   .to = copy_received(k) + x.at,
				   .bytes = x.bytes,
				   .arrival = arrival };
	copy_add(k, &job);
}

static void add_takes(struct copies *k, const struct sum *s, struct sum_round *r)
{
	int number = 0;
	for (int d = 1; d < k->e->ranks; d++) {
		uint64_t done = 0;
		do {
			struct copy_piece p = copy_next_piece(k, d, r->all, done);
			add_take(k, s, r, d, p, copy_next_arrival(k, number++));
			done += p.bytes;
		} while (done < r->all.bytes);
	}
	if (s->turns > 1)
		k->job[k->jobs - 1].done = r->last_take = ++k->done;
}

/* The first step begins with what was folded first. Into scratch the last one goes in pieces. */
static void gather_step(struct copies *k, const struct sum *s, const struct sum_round *r, int d)
{
	const int steps = k->e->ranks - 1, taken = s->staged && d == steps;
	uint64_t done = 0;
	for (int n = 0; !n || done < r->all.bytes; n++) {
		int cut = taken || (d == 1 && !n);
		struct copy_piece p = copy_next_piece(k, cut ? steps : 0, r->all, done);
		if (d == 1 && n < 2)
			copy_wait_job(k, n ? r->last_fold : r->first_fold);
		done += p.bytes;
		spread(k, s, r, d, p);
		if (taken)
			copy_arrival(k);
	}
}

static void gather_all(struct copies *k, const struct sum *s, const struct sum_round *r, int last)
{
	const int steps = k->e->ranks - 1;
	for (int d = 1; d <= steps; d++) {
		gather_step(k, s, r, d);
		if (s->staged && d < steps)
			copy_arrival(k);
		if (!s->staged || d < steps)
			copy_barrier(k, last && d == steps);
	}
}

/* ---- Rounds ---------------------------------------------------------------------------------------------- */

/* last: nothing comes after its folds. */
static void fold_round(struct copies *k, const struct sum *s, struct sum_round *r, int last)
{
	add_folds(k, s, r);
	copy_start_work(k, last);
	scatter_all(k, s, r);
	copy_more_work(k, last);
}

static void gather_round(struct copies *k, const struct sum *s, struct sum_round *r, int last)
{
	if (s->staged)
		add_takes(k, s, r);
	copy_more_work(k, last && s->staged);
	gather_all(k, s, r, last);
	copy_more_work(k, last && s->staged);
	k->jobs = k->launched = 0;
}

/* Before round n's inputs come and the results of the one before: the buffers in which they find their turn are empty, because what
 * came there was folded before it was gathered, or is waited for here. */
static void await_turn(struct copies *k, const struct sum *s, const struct sum_round rounds[3], int n)
{
	if (s->staged && n > 3)
		copy_wait_job(k, rounds[(n - 3) % 3].last_take);
	if (!s->gathers && n > 2)
		copy_wait_job(k, rounds[(n - 2) % 3].last_fold);
}

/* The same for the results of the last round, no inputs being left. */
static void await_last_turn(struct copies *k, const struct sum *s, const struct sum_round rounds[3], int n)
{
	if (!s->staged || n < 3)
		return;
	copy_wait_job(k, rounds[(n - 2) % 3].last_take);
	copy_barrier(k, 0);
}

void copy_sums(struct copies *k)
{
	const struct sum s = sum_of(k);
	const uint64_t room = copy_scratch_bytes(k, s.buffers);
	struct sum_round rounds[3]; /* round n at n % 3 */
	uint64_t at = 0;
	int n = 0;
	do {
		struct sum_round *r = &rounds[++n % 3];
		await_turn(k, &s, rounds, n);
		*r = (struct sum_round){ .all = copy_round(at, s.part, room), .turn = n % s.turns };
		at += r->all.bytes;
		r->all.whole = at < s.part;
		fold_round(k, &s, r, at == s.part && !s.gathers);
		if (s.gathers && n > 1)
			gather_round(k, &s, &rounds[(n - 1) % 3], 0);
	} while (at < s.part);
	if (s.gathers) {
		await_last_turn(k, &s, rounds, n);
		gather_round(k, &s, &rounds[n % 3], 1);
	}
	copy_wait_work(k);
}
