/*
 * all_reduce and reduce_scatter by copy engines, in chunks of every rank's part. Each goes through scratch, of which there are two
 * buffers for each other rank: one is folded while the other one fills. The order is RS0 RS1 AG0 RS2 AG1 ...; a barrier after each
 * of them says that its chunk is there, and that the chunk before it is folded. Where the receive buffers are not registered, two more
 * buffers take the folded chunks.
 */
#include "engine_cuda_copy.h"

#include "corale.h"

#define WHOLE_CHUNK ((uint64_t)4 << 20) /* up to here one chunk is as fast as two */

struct sum {
	int gathers, staged; /* all_reduce; through scratch */
	int buffers;
	uint64_t part, chunk; /* bytes of a rank's part at most, and of a chunk of it */
	int chunks;
};

static struct sum sum_of(const struct copies *k)
{
	struct sum s = { .gathers = k->call->coll == CORALE_ALL_REDUCE };
	uint64_t ranks = (uint64_t)k->e->ranks, bytes = k->call->bytes, most;
	s.staged = s.gathers && !k->call->target;
	s.buffers = s.staged ? 4 : 2;
	most = copy_scratch_bytes(k, s.buffers);
	s.part = s.gathers ? codelet_round((bytes + ranks - 1) / ranks, COPY_ALIGN) : bytes;
	s.chunk = codelet_round(s.part > WHOLE_CHUNK ? (s.part + 1) / 2 : s.part, COPY_ALIGN);
	if (s.chunk > most) { /* equal ones */
		uint64_t n = (s.part + most - 1) / most;
		s.chunk = codelet_round((s.part + n - 1) / n, COPY_ALIGN);
	}
	s.chunks = s.chunk ? (int)((s.part + s.chunk - 1) / s.chunk) : 1;
	return s;
}

/* Chunk c of a rank's part of the vector or of the blocks. */
static struct copy_span chunk_of(const struct copies *k, const struct sum *s, int rank, int c)
{
	uint64_t first = (uint64_t)rank * s->part, at = (uint64_t)c * s->chunk;
	uint64_t all = s->gathers ? k->call->bytes : first + s->part;
	first = first < all ? first : all;
	uint64_t part = all - first < s->part ? all - first : s->part;
	at = at < part ? at : part;
	return (struct copy_span){ first + at, part - at < s->chunk ? part - at : s->chunk };
}

static void scatter(struct copies *k, const struct sum *s, int c)
{
	for (int d = 1; d < k->e->ranks; d++) {
		int to = copy_peer(k, d);
		struct copy_span x = chunk_of(k, s, to, c);
		copy_by_engine(k, copy_scratch(k, k->e->rank, to, c % 2, s->buffers), copy_sent(k) + x.at,
			       x.bytes);
	}
}

static void fold(struct copies *k, const struct sum *s, int c)
{
	const struct engine *e = k->e;
	struct copy_span x = chunk_of(k, s, e->rank, c);
	uint64_t to = s->gathers ? x.at : (uint64_t)c * s->chunk;
	struct codelet_chunk chunk = { .others = copy_scratch(k, e->rank ? 0 : 1, e->rank, c % 2, s->buffers),
				       .stride = copy_scratch_bytes(k, s->buffers),
				       .own = copy_sent(k) + x.at,
				       .to = copy_received(k) + to,
				       .bytes = x.bytes,
				       .rank = e->rank,
				       .ranks = e->ranks,
				       .op = k->call->op };
	copy_fork(k);
	copy_fold(k, &chunk);
	copy_mark(k, c % 2 ? MARK_FOLD_ODD : MARK_FOLD);
}

static void wait_fold(struct copies *k, int c)
{
	copy_wait(k, c % 2 ? MARK_FOLD_ODD : MARK_FOLD);
}

/* ---- The folded chunks ------------------------------------------------------------------------------------ */

/* Piece p of my folded chunk to all others. */
static void spread(struct copies *k, const struct sum *s, int c, struct copy_span p)
{
	struct copy_span x = chunk_of(k, s, k->e->rank, c);
	uint64_t left = p.at < x.bytes ? x.bytes - p.at : 0, bytes = left < p.bytes ? left : p.bytes;
	for (int d = 1; d < k->e->ranks; d++) {
		int to = copy_peer(k, d);
		unsigned char *place = s->staged
					   ? copy_scratch(k, k->e->rank, to, 2 + c % 2, s->buffers) + p.at
					   : copy_target(k, to) + x.at + p.at;
		copy_by_engine(k, place, copy_received(k) + x.at + p.at, bytes);
	}
}

static void take(struct copies *k, const struct sum *s, int c, struct copy_span p, enum copy_blocks blocks)
{
	for (int d = 1; d < k->e->ranks; d++) {
		int from = copy_peer(k, -d);
		struct copy_span x = chunk_of(k, s, from, c);
		uint64_t left = p.at < x.bytes ? x.bytes - p.at : 0;
		copy_beside(k, copy_received(k) + x.at + p.at,
			    copy_scratch(k, from, k->e->rank, 2 + c % 2, s->buffers) + p.at,
			    left < p.bytes ? left : p.bytes, blocks);
	}
}

/* Taken out while it comes. */
static void gather_last(struct copies *k, const struct sum *s, int c)
{
	uint64_t done = 0;
	do {
		struct copy_span p = { done, copy_next_piece(k, s->chunk - done) };
		done += p.bytes;
		spread(k, s, c, p);
		copy_arrival(k, done == s->chunk);
		take(k, s, c, p, done == s->chunk ? COPY_MANY : COPY_FEW);
	} while (done < s->chunk);
	copy_mark(k, MARK_TAKEN);
	copy_wait(k, MARK_TAKEN);
}

static void gather(struct copies *k, const struct sum *s, int c)
{
	struct copy_span whole = { 0, s->chunk };
	int last = c == s->chunks - 1;
	wait_fold(k, c);
	if (s->staged && last) {
		gather_last(k, s, c);
		return;
	}
	spread(k, s, c, whole);
	if (s->staged && c) /* the barrier lets chunk c + 1 into the place of chunk c - 1 */
		copy_wait(k, MARK_TAKEN);
	copy_barrier(k, last);
	if (!s->staged)
		return;
	copy_fork(k);
	take(k, s, c, whole, COPY_FEW);
	copy_mark(k, MARK_TAKEN);
}

void copy_sums(struct copies *k)
{
	const struct sum s = sum_of(k);
	copy_barrier(k, 0);
	for (int c = 0; c < s.chunks; c++) {
		scatter(k, &s, c);
		if (!s.gathers && c)
			wait_fold(k, c - 1);
		copy_barrier(k, !s.gathers && c == s.chunks - 1);
		fold(k, &s, c);
		if (s.gathers && c)
			gather(k, &s, c - 1);
	}
	if (s.gathers)
		gather(k, &s, s.chunks - 1);
	else
		wait_fold(k, s.chunks - 1);
}
