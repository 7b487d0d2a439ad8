/* SPDX-License-Identifier: BSD-3-Clause */
/* all_gather and all_to_all by copy engines: the block for rank r + d goes in step d. */
#include "copies.h"

#include "base/collectives.h"

static const unsigned char *block_for(const struct copies *k, int rank)
{
	return copy_sent(k) + (coll_sends_each(k->launch->coll) ? (uint64_t)rank * k->launch->bytes : 0);
}

static unsigned char *block_from(const struct copies *k, int rank)
{
	return copy_received(k) + (uint64_t)rank * k->launch->bytes;
}

static void direct(struct copies *k)
{
	uint64_t bytes = k->launch->bytes, mine = (uint64_t)k->e->rank * bytes;
	copy_own(k, block_from(k, k->e->rank), block_for(k, k->e->rank), bytes, k->e->ranks - 1);
	copy_barrier(k, 0);
	for (int d = 1; d < k->e->ranks; d++) {
		int to = copy_peer(k, d);
		copy_by_engine(k, copy_target(k, to) + mine, block_for(k, to), bytes, k->stream);
	}
	copy_barrier(k, 1);
	copy_order(k, k->second, k->stream);
}

/* ---- Through scratch -------------------------------------------------------------------------------------- */

static void send(struct copies *k, int d, struct copy_piece p)
{
	int to = copy_peer(k, d);
	copy_by_engine(k, copy_scratch(k, k->e->rank, to, 0, 1) + p.in, block_for(k, to) + p.at, p.bytes,
		       k->stream);
}

/* Copies as much of the own block as arrives from one other rank: more would delay that data. */
static void add_own(struct copies *k, struct copy_piece round)
{
	int me = k->e->rank;
	struct codelet_job job = { .own = block_for(k, me) + round.at,
				   .to = block_from(k, me) + round.at,
				   .bytes = round.bytes };
	if (job.own != job.to)
		copy_add(k, &job);
}

static void add_take(struct copies *k, int d, struct copy_piece p, uint32_t arrival)
{
	int from = copy_peer(k, -d);
	struct codelet_job job = { .own = copy_scratch(k, from, k->e->rank, 0, 1) + p.in,
				   .to = block_from(k, from) + p.at,
				   .bytes = p.bytes,
				   .arrival = arrival };
	copy_add(k, &job);
}

static void add_jobs(struct copies *k, struct copy_piece round)
{
	int number = 0;
	add_own(k, round);
	for (int d = 1; d < k->e->ranks; d++) {
		uint64_t done = 0;
		do {
			struct copy_piece p = copy_next_taken(k, d, round, done);
			add_take(k, d, p, copy_next_arrival(k, number++));
			done += p.bytes;
		} while (done < round.bytes);
	}
}

static void send_all(struct copies *k, struct copy_piece round)
{
	for (int d = 1; d < k->e->ranks; d++) {
		uint64_t done = 0;
		do {
			struct copy_piece p = copy_next_taken(k, d, round, done);
			send(k, d, p);
			copy_arrival(k);
			done += p.bytes;
		} while (done < round.bytes);
	}
}

void copy_all_blocks(struct copies *k)
{
	if (k->call->record.target)
		direct(k);
	else
		copy_in_rounds(k, add_jobs, send_all);
}
