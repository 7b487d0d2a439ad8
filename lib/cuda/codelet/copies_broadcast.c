/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts by copy engines: chunks go from rank to rank. Copies go straight into registered memory, else through scratch, out of which each rank passes a
 * chunk on and takes it.
 *
 * The root copies the chunks without a gap, and signals them on a second stream. All others copy on two streams in turn: one copies while the other signals
 * and waits. The step between two chunks of a stream signals the first one, and waits until the second one has arrived.
 */
#include "copies.h"

enum { STREAMS = 2 };

struct chain {
	int before, after; /* the neighbours, or -1 */
	uint32_t chunks; /* so far; each is a step of its stream */
	cudaStream_t streams[STREAMS], copies[STREAMS]; /* of steps; of copies */
	struct codelet_step steps[STREAMS]; /* the next ones */
};

static struct chain chain_of(const struct copies *k)
{
	const int ranks = k->e->ranks, index = (k->e->rank - k->call->record.root + ranks) % ranks;
	struct chain c = { .before = index > 0 ? copy_peer(k, -1) : -1,
			   .after = index < ranks - 1 ? copy_peer(k, 1) : -1,
			   .streams = { index ? k->stream : k->second, k->second },
			   .copies = { k->stream, index ? k->second : k->stream } };
	for (int i = 0; i < STREAMS; i++)
		c.steps[i] =
		    (struct codelet_step){ .args = k->barrier.args,
					   .sequence = i ? CODELET_SECOND_ARRIVALS : CODELET_ARRIVALS,
					   .of = c.before + 1 };
	return c;
}

/* Where in a rank's receive buffer or scratch. */
static unsigned char *chunk_at(const struct copies *k, int rank, struct copy_piece p)
{
	return k->call->record.target ? copy_target(k, rank) + p.at
				      : copy_scratch(k, rank ? 0 : 1, rank, 0, 1) + p.in;
}

static const unsigned char *source_of(const struct copies *k, const struct chain *c, struct copy_piece p)
{
	return c->before < 0 ? copy_sent(k) + p.at : chunk_at(k, k->e->rank, p);
}

/* In scratch the last chunks are ever smaller. */
static struct copy_piece next_chunk(const struct copies *k, struct copy_piece round, uint64_t done)
{
	struct copy_piece p = copy_next_taken(k, k->call->record.target ? 0 : k->e->ranks - 1, round, done);
	p.bytes = p.bytes < k->launch->message ? p.bytes : k->launch->message;
	return p;
}

/* ---- Steps and copies ---------------------------------------------------------------------------------------- */

static void step(struct copies *k, const struct codelet_step *s, cudaStream_t stream)
{
	if (s->signal || s->wait)
		copy_step(k, s, stream);
}

static void send_chunk(struct copies *k, struct chain *c, int i, struct copy_piece p)
{
	copy_by_engine(k, chunk_at(k, c->after, p), source_of(k, c, p), p.bytes, c->copies[i]);
	c->steps[i].signal = c->chunks;
}

static void pass(struct copies *k, struct chain *c, struct copy_piece p)
{
	const int i = (int)(c->chunks++ % STREAMS);
	if (c->before < 0) {
		send_chunk(k, c, i, p);
		copy_order(k, c->copies[i], c->streams[i]);
		step(k, &c->steps[i], c->streams[i]);
		return;
	}
	c->steps[i].wait = c->chunks;
	if (c->after >= 0) {
		step(k, &c->steps[i], c->streams[i]);
		send_chunk(k, c, i, p);
	}
}

/* Signals the last chunks; the last rank waits for them, if none of its work does. */
static void pass_end(struct copies *k, const struct chain *c)
{
	for (int i = 0; i < STREAMS && c->before >= 0; i++) {
		struct codelet_step last = c->steps[i];
		if (c->after >= 0 || !k->call->record.target)
			last.wait = 0;
		step(k, &last, c->streams[i]);
	}
}

/* Signals that a round's scratch is free: every chunk was passed on and taken out. */
static void signal_taken(struct copies *k, uint32_t round)
{
	const struct codelet_step step = { .args = k->barrier.args,
					   .sequence = CODELET_TAKEN,
					   .signal = round };
	copy_order(k, k->stream, k->work);
	copy_order(k, k->second, k->work);
	copy_step(k, &step, k->work);
}

static void wait_taken(struct copies *k, const struct chain *c, uint32_t round)
{
	const struct codelet_step step = {
		.args = k->barrier.args, .sequence = CODELET_TAKEN, .wait = round, .of = c->after + 1
	};
	for (int i = 0; i < STREAMS && c->after >= 0; i++)
		if (i == 0 || c->copies[i] != c->copies[0])
			copy_step(k, &step, c->copies[i]);
}

/* ---- The work ---------------------------------------------------------------------------------------------- */

/* Takes chunks out of scratch. The root copies its own block chunk by chunk: all at once would slow down the chunks that leave. */
static void add_work(struct copies *k, const struct chain *c, struct copy_piece round)
{
	const int root = c->before < 0;
	struct copy_piece p;
	uint32_t number = c->chunks;
	for (uint64_t done = 0; done < round.bytes; done += p.bytes, number++) {
		p = next_chunk(k, round, done);
		struct codelet_job job = { .own = source_of(k, c, p),
					   .to = copy_received(k) + p.at,
					   .bytes = p.bytes,
					   .sequence = c->steps[number % STREAMS].sequence,
					   .arrival = number + 1,
					   .of = (root ? k->e->rank : c->before) + 1 };
		if (job.own != job.to)
			copy_add(k, &job);
	}
}

static void add_own(struct copies *k)
{
	struct codelet_job job = { .own = copy_sent(k), .to = copy_received(k), .bytes = k->launch->bytes };
	if (k->e->rank == k->call->record.root && job.own != job.to)
		copy_add(k, &job);
}

/* ---- The call ---------------------------------------------------------------------------------------------- */

static void run_round(struct copies *k, struct chain *c, struct copy_piece round)
{
	if (k->call->record.target)
		add_own(k);
	else
		add_work(k, c, round);
	copy_start_work(k, 0);
	struct copy_piece p;
	for (uint64_t done = 0; done < round.bytes; done += p.bytes) {
		p = next_chunk(k, round, done);
		pass(k, c, p);
		k->arrival.signal =
		    c->chunks + 1; /* what a job waits for depends on nothing behind it here */
		copy_more_work(k, 0);
	}
	pass_end(k, c);
	copy_clear_work(k);
}

void copy_broadcast(struct copies *k)
{
	struct chain c = chain_of(k);
	const uint64_t all = k->launch->bytes;
	uint64_t at = 0;
	copy_barrier(k, 0);
	copy_order(k, k->stream, k->second);
	for (uint32_t n = 1; n == 1 || at < all; n++) {
		struct copy_piece round = copy_round_of_half(at, all, k->launch->piece, n);
		at += round.bytes;
		if (n > 2)
			wait_taken(k, &c, n - 2);
		run_round(k, &c, round);
		if (at < all)
			signal_taken(k, n);
	}
	copy_wait_work(k);
	copy_step(k, &(struct codelet_step){ .args = k->barrier.args, .last = 1 }, k->stream);
}
