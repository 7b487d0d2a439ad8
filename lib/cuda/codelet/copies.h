/*
 * Calls whose data copy engines move: what their files share. Copies are in the order of the user's stream; a broadcast's are on two.
 * Beside it, on streams of the engine, go the arrivals, which tell the other ranks of them, and the work: a rank's own block, folds,
 * what is taken out of scratch. The work of a round is known before its copies and launched first; each job waits for its arrival.
 */
#ifndef CODELET_COPIES_H
#define CODELET_COPIES_H

#include "cuda_codelet.h"

/* Of offsets in scratch; of a round's jobs. */
enum { COPY_ALIGN = LAUNCH_COPY_ALIGN, COPY_JOBS = 2 * CODELET_MAX_RANKS };

/* A call on its way onto the stream. */
struct copies {
	struct engine *e;
	const struct call *call;
	const struct launch *launch;
	int unaligned; /* addresses are no multiples of 16 */
	/* the last two: the engine's, or the first again where another capture holds those */
	cudaStream_t stream, second, work;
	struct codelet_step barrier, arrival; /* the next ones */
	struct codelet_job job[COPY_JOBS]; /* of the round */
	int jobs, launched;
	uint32_t done; /* the number of the last job that is waited for */
	int error; /* the first; then nothing more is enqueued */
};

struct copy_span {
	uint64_t at, bytes;
};

/* Of every block or part, as much as there is of it: from `at`, in scratch from `in`. whole: what is done with it goes on beside the
 * round that follows, so it need not come in pieces. */
struct copy_piece {
	uint64_t at, in, bytes;
	int whole;
};

/* ---- copies.c: what is enqueued */

/* What comes next on a stream comes after what the first one has so far. */
void copy_order(struct copies *k, cudaStream_t first, cudaStream_t then);
/* By a copy engine. */
void copy_by_engine(struct copies *k, void *to, const void *from, uint64_t bytes, cudaStream_t stream);
void copy_step(struct copies *k, const struct codelet_step *step, cudaStream_t stream);
/* All ranks have come so far. last: the call needs no more of them. */
void copy_barrier(struct copies *k, int last);
/* Signals all ranks that this one's copies so far have arrived. */
void copy_arrival(struct copies *k);
/* The number of the n-th arrival from now; 0 is the next. */
uint32_t copy_next_arrival(const struct copies *k, int n);
/* What a rank keeps, of which so many times as much leaves it meanwhile: on the second stream. */
void copy_own(struct copies *k, void *to, const void *from, uint64_t bytes, int times);

/* ---- The work of a round: jobs in the order of their arrivals */

void copy_add(struct copies *k, const struct codelet_job *job);
/*
 * Launches the first kernel of it; each other one behind all copies for which the jobs before wait, on any rank: streams may share a
 * channel, in which a kernel that waits for its turn holds up all that is enqueued behind it. Where one stream is all there is, each
 * is behind the copies for which its own jobs wait. So more is launched after every part of the copies. last: nothing else of the
 * call comes after the work.
 */
void copy_start_work(struct copies *k, int last);
void copy_more_work(struct copies *k, int last);
/* A stream waits for the job that has this number; the user's for all. */
void copy_wait_job(struct copies *k, uint32_t done, cudaStream_t stream);
void copy_wait_work(struct copies *k);
/* Forgets the jobs of a round, which are all launched. */
void copy_clear_work(struct copies *k);

/* ---- Addresses */

/* The receive buffer of a rank, as it is mapped here. */
unsigned char *copy_target(const struct copies *k, int rank);
/* Buffer b of `buffers` in the scratch of `receiver` that `sender` copies into, and the bytes of each. */
unsigned char *copy_scratch(const struct copies *k, int sender, int receiver, int b, int buffers);
uint64_t copy_scratch_bytes(const struct copies *k, int buffers);

/* ---- Rounds and pieces */

/* As much of `all` bytes from `at` as fits into so much room of the scratch. */
struct copy_piece copy_round(uint64_t at, uint64_t all, uint64_t room);
/* The same of rounds that go on beside the one before, in the other half of the scratch: the n-th, from 1 on. */
struct copy_piece copy_round_of_half(uint64_t at, uint64_t all, uint64_t room, uint32_t n);
/* The next piece of a round of which so much is done: it leaves one part in so many of what is left; 0, or where that is little: nothing. */
struct copy_piece copy_next_piece(const struct copies *k, struct copy_piece round, uint64_t done, int leaves);
/* The same in equal ones, where the work is slower than copies. */
struct copy_piece copy_next_equal(const struct copies *k, struct copy_piece round, uint64_t done);
/* The same of what is taken out in step d: if that is the last one, ever smaller pieces, so that little work is left behind them. */
struct copy_piece copy_next_taken(const struct copies *k, int d, struct copy_piece round, uint64_t done);

/* Adds or sends what a round has. */
typedef void copy_part(struct copies *k, struct copy_piece round);
/* Calls of which all that comes is taken out of scratch or folded, nothing else. Of several rounds, each behind a barrier, one comes
 * while there is work on the one before: each has half of the scratch. */
void copy_in_rounds(struct copies *k, copy_part *add, copy_part *send);

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
