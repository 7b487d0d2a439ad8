/*
 * Calls whose data copy engines move, straight into the peers' registered memory, in steps with a barrier of one warp between
 * them. In a step every rank sends to at most one other and hears from at most one, because two senders to one receiver halve
 * each other. Everything is in the order of the user's stream; what may run beside it (a rank's own block, the folds)
 * has a stream of the engine, which a captured graph takes in by events. Nothing here waits on the host.
 *
 * Sums go through scratch: two buffers of a chunk from each other rank, so that one is folded while the other one fills. The order is
 * RS0 RS1 AG0 RS2 AG1 ...; a barrier after each of them says that its chunk is there, and that the chunk before it is folded.
 */
#include "engine_cuda.h"

#include <string.h>

#include "corale.h"
#include "log.h"

enum { COPY_ALIGN = 512, FOLD_BLOCKS = 64 };
#define COPY_CHUNK ((uint64_t)128 << 20) /* of one rank; larger ones gain nothing */
#define LEAST_CHUNK ((uint64_t)4 << 20) /* below, scratch is not worth its steps */
#define WHOLE_CHUNK ((uint64_t)4 << 20) /* up to here one chunk is as fast as two */

/* A call on its way onto the stream. */
struct copies {
	struct engine *e;
	const struct engine_call *call;
	cudaStream_t stream,
	    beside; /* beside: the engine's, or the same where another capture holds that one */
	struct codelet_barrier barrier;
	int error; /* the first; then nothing more is enqueued */
};

struct span {
	uint64_t at, bytes;
};

/* ---- What is enqueued ------------------------------------------------------------------------------------ */

static void keep(struct copies *k, int error)
{
	k->error = k->error ? k->error : error;
}

static void copy(struct copies *k, void *to, const void *from, uint64_t bytes)
{
	if (bytes && !k->error)
		keep(k, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, k->stream));
}

static void barrier(struct copies *k, int last)
{
	k->barrier.last = (uint32_t)last;
	if (!k->error)
		keep(k, codelets_barrier(&k->barrier, k->stream));
	k->barrier.step++;
}

/* What comes next beside comes after what the stream has so far. */
static void fork_beside(struct copies *k)
{
	if (k->beside == k->stream || k->error)
		return;
	keep(k, cudaEventRecord(k->e->ready, k->stream));
	keep(k, cudaStreamWaitEvent(k->beside, k->e->ready, 0));
}

static void mark_beside(struct copies *k, int mark)
{
	if (k->beside != k->stream && !k->error)
		keep(k, cudaEventRecord(k->e->marks[mark], k->beside));
}

static void wait_beside(struct copies *k, int mark)
{
	if (k->beside != k->stream && !k->error)
		keep(k, cudaStreamWaitEvent(k->stream, k->e->marks[mark], 0));
}

/* This rank's own block. */
static void copy_own(struct copies *k, void *to, const void *from, uint64_t bytes)
{
	if (to == from || !bytes)
		return;
	fork_beside(k);
	if (!k->error)
		keep(k, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, k->beside));
	mark_beside(k, 0);
}

static void wait_own(struct copies *k, const void *to, const void *from, uint64_t bytes)
{
	if (to != from && bytes)
		wait_beside(k, 0);
}

/* The receive buffer of a rank, as it is mapped here. */
static unsigned char *target_of(const struct copies *k, int rank)
{
	return engine_region_of(k->e, k->call->target)->peers[rank] + engine_offset_of(k->call->target);
}

static const unsigned char *sent(const struct copies *k)
{
	return k->call->send;
}

static unsigned char *received(const struct copies *k)
{
	return k->call->recv;
}

static int after(const struct engine *e, int distance)
{
	return (e->rank + distance) % e->ranks;
}

/* ---- Blocks ---------------------------------------------------------------------------------------------- */

static void all_blocks(struct copies *k, int gather)
{
	uint64_t bytes = k->call->bytes, mine = (uint64_t)k->e->rank * bytes;
	const unsigned char *own = sent(k) + (gather ? 0 : mine);
	copy_own(k, received(k) + mine, own, bytes);
	barrier(k, 0);
	for (int d = 1; d < k->e->ranks; d++) {
		int to = after(k->e, d);
		copy(k, target_of(k, to) + mine, gather ? own : sent(k) + (uint64_t)to * bytes, bytes);
		barrier(k, d == k->e->ranks - 1);
	}
	wait_own(k, received(k) + mine, own, bytes);
}

/* ---- Broadcasts ------------------------------------------------------------------------------------------ */

/*
 * The root sends each of the m others a piece in turn, and these pass their pieces on among themselves. In step i of a cycle
 * the root sends to other i, and other u sends to other v with u + v = 2i modulo M, M odd: every other receives
 * from one, and in a cycle each has sent its piece to all. Pieces of place u go on in the steps after step u, so in steps
 * before u those of the cycle before.
 */
struct spread {
	int others, period, cycles, root;
	uint64_t piece;
};

static struct spread spread_of(const struct copies *k)
{
	struct spread s = { .others = k->e->ranks - 1, .root = k->call->root };
	double more_us;
	s.period = s.others | 1;
	s.cycles = plan_codelet_cycles(k->e->ranks, k->call->bytes, &more_us);
	s.piece = codelet_round(k->call->bytes / ((uint64_t)s.cycles * (uint64_t)s.others) + 1, COPY_ALIGN);
	return s;
}

static struct span piece_of(const struct copies *k, const struct spread *s, int cycle, int other)
{
	uint64_t all = k->call->bytes,
		 at = ((uint64_t)cycle * (uint64_t)s->others + (uint64_t)other) * s->piece;
	at = at < all ? at : all;
	return (struct span){ at, all - at < s->piece ? all - at : s->piece };
}

static void send_piece(struct copies *k, const struct spread *s, int cycle, int piece, int to,
		       const unsigned char *from)
{
	if (cycle < 0 || cycle >= s->cycles || to >= s->others)
		return;
	struct span p = piece_of(k, s, cycle, piece);
	copy(k, target_of(k, (s->root + 1 + to) % k->e->ranks) + p.at, from + p.at, p.bytes);
}

static void broadcast(struct copies *k)
{
	const struct spread s = spread_of(k);
	int root = k->e->rank == s.root, me = (k->e->rank - s.root - 1 + k->e->ranks) % k->e->ranks;
	int steps = s.cycles * s.period + s.others - 1;
	if (root)
		copy_own(k, received(k), sent(k), k->call->bytes);
	barrier(k, 0);
	for (int t = 0; t < steps; t++) {
		int cycle = t / s.period, i = t % s.period, to = (2 * i - me + 2 * s.period) % s.period;
		if (root)
			send_piece(k, &s, cycle, i, i, sent(k));
		else if (to != me)
			send_piece(k, &s, i > me ? cycle : cycle - 1, me, to, received(k));
		barrier(k, t == steps - 1);
	}
	if (root)
		wait_own(k, received(k), sent(k), k->call->bytes);
}

/* ---- Sums ------------------------------------------------------------------------------------------------ */

struct sum {
	int gathers; /* all_reduce */
	uint64_t part, chunk; /* bytes of a rank's part at most, and of a chunk of it */
	int chunks;
};

static struct sum sum_of(const struct copies *k)
{
	struct sum s = { .gathers = k->call->coll == CORALE_ALL_REDUCE };
	uint64_t ranks = (uint64_t)k->e->ranks, bytes = k->call->bytes, most = k->e->scratch_chunk;
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
static struct span chunk_of(const struct copies *k, const struct sum *s, int rank, int c)
{
	uint64_t first = (uint64_t)rank * s->part, at = (uint64_t)c * s->chunk;
	uint64_t all = s->gathers ? k->call->bytes : first + s->part;
	first = first < all ? first : all;
	uint64_t part = all - first < s->part ? all - first : s->part;
	at = at < part ? at : part;
	return (struct span){ first + at, part - at < s->chunk ? part - at : s->chunk };
}

/* Where a chunk from `sender` lies in the scratch of `receiver`. */
static unsigned char *scratch_of(const struct copies *k, int sender, int receiver, int c)
{
	const struct engine *e = k->e;
	uint64_t slot = (uint64_t)(c % 2) * (uint64_t)(e->ranks - 1) + codelet_index(sender, receiver);
	return e->regions[e->scratch_region].peers[receiver] + slot * e->scratch_chunk;
}

static void scatter(struct copies *k, const struct sum *s, int c)
{
	for (int d = 1; d < k->e->ranks; d++) {
		int to = after(k->e, d);
		struct span x = chunk_of(k, s, to, c);
		copy(k, scratch_of(k, k->e->rank, to, c), sent(k) + x.at, x.bytes);
	}
}

static void fold(struct copies *k, const struct sum *s, int c)
{
	const struct engine *e = k->e;
	struct span x = chunk_of(k, s, e->rank, c);
	int first = e->rank ? 0 : 1, blocks = e->max_blocks < FOLD_BLOCKS ? e->max_blocks : FOLD_BLOCKS;
	uint64_t to = s->gathers ? x.at : (uint64_t)c * s->chunk;
	struct codelet_chunk chunk = { .others = scratch_of(k, first, e->rank, c),
				       .stride = e->scratch_chunk,
				       .own = sent(k) + x.at,
				       .to = received(k) + to,
				       .bytes = x.bytes,
				       .rank = e->rank,
				       .ranks = e->ranks,
				       .op = k->call->op };
	fork_beside(k);
	if (x.bytes && !k->error)
		keep(k, codelets_fold_chunk(&chunk, blocks, (int)k->call->type, k->beside));
	mark_beside(k, c % 2);
}

static void gather(struct copies *k, const struct sum *s, int c)
{
	struct span x = chunk_of(k, s, k->e->rank, c);
	wait_beside(k, c % 2);
	for (int d = 1; d < k->e->ranks; d++)
		copy(k, target_of(k, after(k->e, d)) + x.at, received(k) + x.at, x.bytes);
	barrier(k, c == s->chunks - 1);
}

static void sums(struct copies *k)
{
	const struct sum s = sum_of(k);
	barrier(k, 0);
	for (int c = 0; c < s.chunks; c++) {
		scatter(k, &s, c);
		if (!s.gathers && c)
			wait_beside(k, (c - 1) % 2);
		barrier(k, !s.gathers && c == s.chunks - 1);
		fold(k, &s, c);
		if (s.gathers && c)
			gather(k, &s, c - 1);
	}
	if (s.gathers)
		gather(k, &s, s.chunks - 1);
	else
		wait_beside(k, (s.chunks - 1) % 2);
}

/* ---- The call -------------------------------------------------------------------------------------------- */

int engine_run_copies(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct copies k = { .e = e, .call = c, .stream = stream };
	k.barrier.args = (struct codelet_args){ .windows = (unsigned char *)e->base,
						.stride = (uint32_t)e->stride,
						.state = e->state,
						.signature = c->signature,
						.headers = (uint32_t)e->layout.headers,
						.flags = (uint32_t)e->layout.flags,
						.rank = e->rank,
						.ranks = e->ranks };
	int ret = engine_choose_beside(e, stream, &k.beside);
	if (ret)
		return ret;
	switch (c->coll) {
	case CORALE_ALL_GATHER:
	case CORALE_ALL_TO_ALL:
		all_blocks(&k, c->coll == CORALE_ALL_GATHER);
		break;
	case CORALE_BROADCAST:
		broadcast(&k);
		break;
	default:
		sums(&k);
	}
	return engine_check(e, k.error, "enqueueing copies and their barriers");
}

/* ---- What it needs --------------------------------------------------------------------------------------- */

size_t engine_scratch_bytes(const struct engine *e)
{
	uint64_t buffers = 2 * (uint64_t)(e->ranks - 1), window = e->layout.bytes;
	uint64_t left = e->memory_cap > window ? e->memory_cap - window : 0, chunk = left / buffers;
	chunk = chunk < COPY_CHUNK ? chunk / ENGINE_SCRATCH_UNIT * ENGINE_SCRATCH_UNIT : COPY_CHUNK;
	return chunk < LEAST_CHUNK ? 0 : (size_t)(chunk * buffers);
}

void engine_keep_scratch(struct engine *e, void *memory, int region)
{
	e->scratch = memory;
	e->scratch_region = region;
	e->scratch_chunk = engine_scratch_bytes(e) / (2 * (size_t)(e->ranks - 1));
	e->bytes += engine_scratch_bytes(e);
	log_line(LOG_INFO, e->rank, "copy engines: %zu bytes of scratch for sums, in chunks of %zu",
		 engine_scratch_bytes(e), e->scratch_chunk);
}
