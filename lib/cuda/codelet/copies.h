/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of calls by copy engines share. Copies are enqueued on the user's stream; a broadcast's on two. On streams of the engine run the arrivals,
 * which signal the other ranks that copies are complete, and the work: a rank's own block, folds, copies out of scratch. The work of a round is launched before
 * its copies; each job waits for its arrival.
 *
 * Two senders to one receiver halve each other, so a step of copies is a permutation; copies of equal length keep the ranks in step, where a barrier would cost 10 us.
 * Straight into registered memory that came by descriptors, else into the receiver's scratch, in rounds if need be, and by halves where all is only taken out. The last
 * pieces get smaller, so that little work is left behind the last copy. When a call fails, copies behind it still run: what registered memory then holds is undefined.
 */
#ifndef CODELET_COPIES_H
#define CODELET_COPIES_H

#include "cuda_codelet.h"

enum { COPY_ALIGN = LAUNCH_COPY_ALIGN }; /* of offsets in scratch */

/* A call on its way onto the stream. */
struct copies {
	struct engine *e;
	const struct call *call;
	const struct launch *launch;
	int unaligned; /* addresses are no multiples of 16 */
	/* the last two: the engine's, or the first again where another capture holds those */
	cudaStream_t stream, second, work;
	struct codelet_step barrier, arrival; /* the next ones */
	struct codelet_job *job; /* of the round: the engine's */
	int jobs, launched;
	uint32_t done; /* the number of the last job that is waited for */
	int error; /* the first; then nothing more is enqueued */
};

struct copy_span {
	uint64_t at, bytes;
};

/* A piece of every block or part: from `at` on, in scratch from `in` on. whole: its work goes on beside the next round, so it need not come in
 * pieces. */
struct copy_piece {
	uint64_t at, in, bytes;
	int whole;
};

/* ---- copies.c: what is enqueued */

/* Later work of the stream `then` waits for what `first` has so far. */
void copy_order(struct copies *k, cudaStream_t first, cudaStream_t then);
/* By a copy engine. */
void copy_by_engine(struct copies *k, void *to, const void *from, uint64_t bytes, cudaStream_t stream);
void copy_step(struct copies *k, const struct codelet_step *step, cudaStream_t stream);
/* A barrier of all ranks. last: the call needs no more of them. */
void copy_barrier(struct copies *k, int last);
/* Signals all ranks that this one's copies so far have arrived. */
void copy_arrival(struct copies *k);
/* The number of the n-th arrival from now; 0 is the next. */
uint32_t copy_next_arrival(const struct copies *k, int n);
/* Copies the rank's own block on the second stream, while so many times as much leaves the rank. */
void copy_own(struct copies *k, void *to, const void *from, uint64_t bytes, int times);

/* ---- The work of a round: jobs in the order of their arrivals */

void copy_add(struct copies *k, const struct codelet_job *job);
/*
 * Launches the first kernel of the work. Each later one follows all copies for which the jobs before it wait, on any rank, because streams may share a
 * hardware channel, in which a kernel that waits for its turn holds up all that is enqueued behind it. With one stream only, a kernel follows the copies
 * for which its own jobs wait. So copy_more_work is called after every part of the copies. last: the work ends the call.
 */
void copy_start_work(struct copies *k, int last);
void copy_more_work(struct copies *k, int last);
/* A stream waits for the job of this number; the user's stream for all. */
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

/* A round: of `all` bytes, from `at` on, as much as fits into so much room of scratch. */
struct copy_piece copy_round(uint64_t at, uint64_t all, uint64_t room);
/* The same, where the n-th round, from 1, goes on beside the one before, in the other half of scratch. */
struct copy_piece copy_round_of_half(uint64_t at, uint64_t all, uint64_t room, uint32_t n);
/* The next piece of a round of which so much is done. It leaves 1/leaves of the rest; nothing where leaves is 0 or the rest is small. */
struct copy_piece copy_next_piece(const struct copies *k, struct copy_piece round, uint64_t done, int leaves);
/* The same in equal pieces, where the work is slower than copies. */
struct copy_piece copy_next_equal(const struct copies *k, struct copy_piece round, uint64_t done);
/* The same of data taken out in step d: in the last step ever smaller pieces, so that little work follows the last copy. */
struct copy_piece copy_next_taken(const struct copies *k, int d, struct copy_piece round, uint64_t done);

/* Adds or sends what a round has. */
typedef void copy_part(struct copies *k, struct copy_piece round);
/* Runs calls whose every arrival is taken out of scratch or folded. Rounds begin with a barrier. One arrives while the one before is worked on, so each has
 * half of scratch. */
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
