/*
 * Calls whose data copy engines move: what their files share. Everything is in the order of the user's stream; what may run beside it
 * (a rank's own block, folds, what is taken out of scratch) has a stream of the engine.
 */
#ifndef ENGINE_CUDA_COPY_H
#define ENGINE_CUDA_COPY_H

#include "engine_cuda.h"

/* Of places in scratch. */
enum { COPY_ALIGN = 512 };

/* What the user's stream waits for at times: the event behind the last one of a kind beside it. */
enum copy_mark { MARK_OWN, MARK_FIRST_FOLD, MARK_FOLD, MARK_TAKEN };

/* Of kernels beside copies: these need memory's bandwidth too, so few of those. Of the last one, which is waited for, many. */
enum copy_blocks { COPY_FEW = 32, COPY_FOLDS = 64, COPY_MANY = 128 };

/* A call on its way onto the stream. */
struct copies {
	struct engine *e;
	const struct engine_call *call;
	cudaStream_t stream,
	    beside; /* beside: the engine's, or the same where another capture holds that one */
	struct codelet_barrier barrier, arrival; /* the next on the stream, and beside it */
	int error; /* the first; then nothing more is enqueued */
};

struct copy_span {
	uint64_t at, bytes;
};

/* ---- engine_cuda_copy.c: what is enqueued */

/* By a copy engine. */
void copy_by_engine(struct copies *k, void *to, const void *from, uint64_t bytes);
/* All ranks have come so far. last: the call needs no more of them. */
void copy_barrier(struct copies *k, int last);
/* What comes next beside the stream comes after what it has so far. */
void copy_fork(struct copies *k);
/* The same, and after what all ranks have enqueued on theirs before their arrival of this number. last: as above. */
void copy_arrival(struct copies *k, int last);
/* The stream waits for what is beside it up to a mark. */
void copy_mark(struct copies *k, enum copy_mark mark);
void copy_wait(struct copies *k, enum copy_mark mark);
/* Within the GPU, beside the stream. */
void copy_beside(struct copies *k, void *to, const void *from, uint64_t bytes, enum copy_blocks blocks);
/* What a rank keeps, of which so many times as much leaves it meanwhile; marked. */
void copy_own(struct copies *k, void *to, const void *from, uint64_t bytes, int times);
void copy_fold(struct copies *k, const struct codelet_chunk *chunk, enum copy_blocks blocks);

/* The receive buffer of a rank, as it is mapped here. */
unsigned char *copy_target(const struct copies *k, int rank);
/* Buffer b of `buffers` in the scratch of `receiver` that `sender` copies into, and the bytes of each. */
unsigned char *copy_scratch(const struct copies *k, int sender, int receiver, int b, int buffers);
uint64_t copy_scratch_bytes(const struct copies *k, int buffers);

/* Where there are `left` bytes for one receiver that takes them out while the next ones come: how many go next. */
uint64_t copy_next_piece(const struct copies *k, uint64_t left);

static inline int copy_peer(const struct copies *k, int distance)
{
	return (k->e->rank + distance + k->e->ranks) % k->e->ranks;
}

static inline const unsigned char *copy_sent(const struct copies *k)
{
	return k->call->send;
}

static inline unsigned char *copy_received(const struct copies *k)
{
	return k->call->recv;
}

/* ---- one file each */

void copy_all_blocks(struct copies *k);
void copy_broadcast(struct copies *k);
void copy_sums(struct copies *k);

#endif
