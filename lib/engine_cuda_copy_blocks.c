/* all_gather and all_to_all by copy engines: the block for rank r + d goes in step d. */
#include "engine_cuda_copy.h"

#include "corale.h"

static const unsigned char *block_for(const struct copies *k, int rank)
{
	return copy_sent(k) + (k->call->coll == CORALE_ALL_GATHER ? 0 : (uint64_t)rank * k->call->bytes);
}

static unsigned char *block_from(const struct copies *k, int rank)
{
	return copy_received(k) + (uint64_t)rank * k->call->bytes;
}

static void direct(struct copies *k)
{
	uint64_t bytes = k->call->bytes, mine = (uint64_t)k->e->rank * bytes;
	copy_own(k, block_from(k, k->e->rank), block_for(k, k->e->rank), bytes, k->e->ranks - 1);
	copy_barrier(k, 0);
	for (int d = 1; d < k->e->ranks; d++) {
		int to = copy_peer(k, d);
		copy_by_engine(k, copy_target(k, to) + mine, block_for(k, to), bytes);
		copy_barrier(k, d == k->e->ranks - 1);
	}
	copy_wait(k, MARK_OWN);
}

/* ---- Through scratch -------------------------------------------------------------------------------------- */

/* A piece of all blocks: from `at` of a block, `in` of the scratch. */
struct piece {
	uint64_t at, in, bytes;
};

static void send(struct copies *k, int d, struct piece p)
{
	int to = copy_peer(k, d);
	copy_by_engine(k, copy_scratch(k, k->e->rank, to, 0, 1) + p.in, block_for(k, to) + p.at, p.bytes);
}

static void take(struct copies *k, int d, struct piece p, enum copy_blocks blocks)
{
	int from = copy_peer(k, -d);
	copy_beside(k, block_from(k, from) + p.at, copy_scratch(k, from, k->e->rank, 0, 1) + p.in, p.bytes,
		    blocks);
}

/* The last step, in pieces: the ranks need no barrier to stay in step, only to know what has arrived. */
static void last_step(struct copies *k, int d, struct piece all, int last)
{
	uint64_t done = 0;
	do {
		struct piece p = { all.at + done, done, copy_next_piece(k, all.bytes - done) };
		done += p.bytes;
		send(k, d, p);
		copy_arrival(k, last && done == all.bytes);
		take(k, d, p, done == all.bytes ? COPY_MANY : COPY_FEW);
	} while (done < all.bytes);
}

/* As much of all blocks as scratch holds. */
static void round_of(struct copies *k, struct piece p, int last)
{
	int d = 1;
	copy_barrier(k, 0);
	for (; d < k->e->ranks - 1; d++) {
		send(k, d, p);
		copy_barrier(k, 0);
		copy_fork(k);
		take(k, d, p, COPY_FEW);
	}
	last_step(k, d, p, last);
	copy_mark(k, MARK_TAKEN);
	copy_wait(k, MARK_TAKEN);
}

static void staged(struct copies *k)
{
	uint64_t all = k->call->bytes, room = copy_scratch_bytes(k, 1), at = 0;
	copy_fork(k); /* what is taken out waits for it */
	copy_beside(k, block_from(k, k->e->rank), block_for(k, k->e->rank), all, COPY_FEW);
	do {
		uint64_t bytes = all - at < room ? all - at : room;
		round_of(k, (struct piece){ at, 0, bytes }, at + bytes == all);
		at += bytes;
	} while (at < all);
}

void copy_all_blocks(struct copies *k)
{
	if (k->call->target)
		direct(k);
	else
		staged(k);
}
