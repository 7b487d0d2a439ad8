/*
 * Calls whose data copy engines move, in steps with a barrier of one warp between them. In a step every rank sends to at most
 * one other and hears from at most one, because two senders to one receiver halve each other. Nothing here waits on the host.
 *
 * Into registered memory copies go straight. All else goes into scratch of the receiver, who takes it out beside the copies that
 * follow: the last pieces are ever smaller, so that little is left to be taken out after the last one.
 */
#include "engine_cuda_copy.h"

#include <string.h>

#include "corale.h"
#include "log.h"

/* OWN: few small blocks, which find room beside a kernel that fills the GPU; together as fast as a copy engine. */
enum { OWN_BLOCKS = 48, OWN_THREADS = 96 };
enum { ARRIVALS = 1, LAST_PIECES = 8 /* at least, of a chunk of scratch */ };
#define COPY_CHUNK ((uint64_t)128 << 20) /* of one rank; larger ones gain nothing */
#define LEAST_CHUNK ((uint64_t)4 << 20) /* below, scratch is not worth its steps */

/* ---- What is enqueued ------------------------------------------------------------------------------------ */

static void keep(struct copies *k, int error)
{
	k->error = k->error ? k->error : error;
}

void copy_by_engine(struct copies *k, void *to, const void *from, uint64_t bytes)
{
	if (bytes && !k->error)
		keep(k, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, k->stream));
}

static void meet(struct copies *k, struct codelet_barrier *b, int last, cudaStream_t stream)
{
	b->last = (uint32_t)last;
	if (!k->error)
		keep(k, codelets_barrier(b, stream));
	b->step++;
}

void copy_barrier(struct copies *k, int last)
{
	meet(k, &k->barrier, last, k->stream);
}

void copy_fork(struct copies *k)
{
	if (k->beside == k->stream || k->error)
		return;
	keep(k, cudaEventRecord(k->e->ready, k->stream));
	keep(k, cudaStreamWaitEvent(k->beside, k->e->ready, 0));
}

void copy_arrival(struct copies *k, int last)
{
	copy_fork(k);
	meet(k, &k->arrival, last, k->beside);
}

void copy_mark(struct copies *k, enum copy_mark mark)
{
	if (k->beside != k->stream && !k->error)
		keep(k, cudaEventRecord(k->e->marks[mark], k->beside));
}

void copy_wait(struct copies *k, enum copy_mark mark)
{
	if (k->beside != k->stream && !k->error)
		keep(k, cudaStreamWaitEvent(k->stream, k->e->marks[mark], 0));
}

static int most(const struct copies *k, int blocks)
{
	return k->e->max_blocks < blocks ? k->e->max_blocks : blocks;
}

static void copy_within(struct copies *k, void *to, const void *from, uint64_t bytes,
			struct codelet_shape shape)
{
	struct codelet_chunk chunk = { .own = from, .to = to, .bytes = bytes };
	if (bytes && to != from && !k->error)
		keep(k, codelets_copy_chunk(&chunk, shape, k->beside));
}

void copy_beside(struct copies *k, void *to, const void *from, uint64_t bytes, enum copy_blocks blocks)
{
	copy_within(k, to, from, bytes,
		    (struct codelet_shape){ most(k, (int)blocks), CODELET_CHUNK_THREADS });
}

void copy_own(struct copies *k, void *to, const void *from, uint64_t bytes, int times)
{
	copy_fork(k);
	copy_within(k, to, from, bytes,
		    (struct codelet_shape){ most(k, OWN_BLOCKS / times + 1), OWN_THREADS });
	copy_mark(k, MARK_OWN);
}

void copy_fold(struct copies *k, const struct codelet_chunk *chunk, enum copy_blocks blocks)
{
	if (chunk->bytes && !k->error)
		keep(k, codelets_fold_chunk(chunk, most(k, (int)blocks), (int)k->call->type, k->beside));
}

/* ---- Places ---------------------------------------------------------------------------------------------- */

unsigned char *copy_target(const struct copies *k, int rank)
{
	return engine_region_of(k->e, k->call->target)->peers[rank] + engine_offset_of(k->call->target);
}

uint64_t copy_scratch_bytes(const struct copies *k, int buffers)
{
	return 2 * k->e->scratch_chunk / (uint64_t)buffers / COPY_ALIGN * COPY_ALIGN;
}

unsigned char *copy_scratch(const struct copies *k, int sender, int receiver, int b, int buffers)
{
	const struct engine *e = k->e;
	uint64_t slot = (uint64_t)b * (uint64_t)(e->ranks - 1) + codelet_index(sender, receiver);
	return e->regions[e->scratch_region].peers[receiver] + slot * copy_scratch_bytes(k, buffers);
}

uint64_t copy_next_piece(const struct copies *k, uint64_t left)
{
	return left <= k->e->scratch_chunk / LAST_PIECES ? left : codelet_round(left / 2, COPY_ALIGN);
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
	k.arrival = k.barrier;
	k.arrival.sequence = ARRIVALS;
	k.arrival.step = 1;
	int ret = engine_choose_beside(e, stream, &k.beside);
	if (ret)
		return ret;
	switch (c->coll) {
	case CORALE_ALL_GATHER:
	case CORALE_ALL_TO_ALL:
		copy_all_blocks(&k);
		break;
	case CORALE_BROADCAST:
		copy_broadcast(&k);
		break;
	default:
		copy_sums(&k);
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
	log_line(LOG_INFO, e->rank, "copy engines: %zu bytes of scratch, in chunks of %zu",
		 engine_scratch_bytes(e), e->scratch_chunk);
}
