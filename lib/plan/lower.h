/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lowered plans: a plan resolved for one rank, as lists of operations, one list a program. An engine that can't afford to evaluate
 * expressions runs these: on a GPU one expression costs as much as the whole operation. Groups, peers, blocks, parts and predicates are
 * numbers; all loops are unrolled but those over chunks and, between nodes, those over a circle. What depends on the count (where parts, slices and chunks begin) stays
 * arithmetic, done once an operation and call (lowered_cut) and once a chunk (lowered_piece). So a list serves calls of all sizes, types
 * and operators, and all channels. Compiles as C99 and as CUDA.
 *
 * Source of the idea: schedules resolved ahead of time, as in MSCCL (Cowan et al., "MSCCLang", 2023), but made from one plan for all ranks.
 */
#ifndef LOWER_H
#define LOWER_H

#include "plan_eval.h"

enum {
	LOWERED_MOST_OPS = 256, /* of a program, where an engine has memory for no more */
	LOWERED_LINE = 128, /* bytes: places of slots and of scratch are multiples of it */
	LOWERED_MOST_RANKS = 72 /* whom a rank talks to, with those of its node */
};

enum { LOWERED_NO_CHUNK = -128, LOWERED_ONE_RUN = 15, LOWERED_BACK };

/* Beside a step's flags. */
enum {
	LOWERED_ALL = 64, /* from is ALL */
	LOWERED_BLOCKS = 128 /* the MOVE takes several whole blocks in one message; in no REPEAT */
};

/* Beside enum plan_op: operations that are done several times, one after the other, what they name one step further each time. */
enum { LOWERED_REPEAT = 32, LOWERED_AGAIN };

/* What of such an operation goes on by its stride, or-ed: spans, by block, with PIECES by piece; the ranks that it names. Parts do not: to cut one takes divisions. */
enum lowered_moves {
	LOWERED_SRC = 1,
	LOWERED_DST = 2,
	LOWERED_FROM = 4,
	LOWERED_TO = 8,
	LOWERED_PIECES = 16
};

/* What a loop over chunks counts. */
enum lowered_trips { LOWERED_CHUNKS, LOWERED_SEND_CHUNKS, LOWERED_RECV_CHUNKS };

struct lowered_span { /* 8 bytes; as struct plan_span, resolved */
	uint8_t space; /* enum plan_space */
	int8_t chunk; /* the loop's trip + this; LOWERED_NO_CHUNK: none */
	int16_t block, part, inner; /* PLAN_NONE: none */
};

struct lowered_op { /* 32 bytes */
	uint8_t op, flags; /* enum plan_op, plan_flags */
	uint8_t from_queue, to_queue;
	/* In the list's peers, in the order of folds. Of ALL, from holds this rank too, where its own span stands in the fold, to does not. */
	uint16_t from_first, to_first, from_count, to_count;
	union {
		uint8_t trips; /* LOOP: enum lowered_trips */
		uint8_t moves; /* in a REPEAT: enum lowered_moves; else 0 */
		/* Of several blocks: cells lie in runs of 2^run_bits, each followed by as many that are left out; LOWERED_ONE_RUN: in one;
		 * LOWERED_BACK: so, too, and the blocks of a buffer are those before the span's (PLAN_BACK). */
		uint8_t run_bits;
	};
	uint8_t ahead; /* trips that it goes before the others (lower_ahead); of a LOOP: the most in it */
	union {
		int16_t trips_peer; /* LOOP: whose edge */
		int16_t times; /* REPEAT: at least 2 */
		int16_t body; /* AGAIN: operations between the two */
		int16_t stride; /* in a REPEAT */
		int16_t blocks; /* of several: how many */
	};
	struct lowered_span src, dst;
};

struct lowered_peer {
	int16_t rank;
	uint16_t number; /* messages of its connection before it, if loops over chunks run once */
};

struct lowered {
	int nprograms, nops, npeers;
	int first[PLAN_MAX_PROGRAMS + 1]; /* operations of program p: first[p] .. first[p + 1] */
	struct lowered_op *ops;
	struct lowered_peer *peers;
};

/* What a call adds. */
struct lowered_call {
	size_t count, chunk, unit; /* elements, as in struct plan_env; chunk: of a cell, too */
	int parts, inner, channels; /* of the plan */
	int ranks;
	int chunks; /* of count */
	const size_t *send_counts, *send_displs, *recv_counts, *recv_displs; /* all_to_all_v, else NULL */
};

/* The slice of one channel that a span's chunks are cut from. */
struct lowered_slice {
	size_t at, length; /* elements from the start of its space */
	int chunks;
};

/*
 * Lists of a plan for a rank (and a root, or peer); lowered_free frees them. CORALE_ENOMEM; CORALE_ENOTSUP: something but a chunk depends on a
 * chunk's number, or a program has more than most operations (0: any number); *why says what.
 * rolls: messages are not numbered, as between nodes, so lists need not grow with the ranks. A loop of a plan whose trips differ in one step alone, that
 * of a circle (of ranks, parts or pieces), is a REPEAT: its steps once, then AGAIN. Its ranks stand one turn behind the other in the list's peers. REPEATs hold no
 * other ones; either may hold a loop over chunks.
 */
int lower_within(const struct plan *plan, const struct plan_map *map, int rank, int root, int rolls, int most,
		 struct lowered *out, const char **why);

PLAN_FN int lower_plan(const struct plan *plan, const struct plan_map *map, int rank, int root,
		       struct lowered *out, const char **why)
{
	return lower_within(plan, map, rank, root, 0, 0, out, why);
}

PLAN_FN int lower_plan_rolled(const struct plan *plan, const struct plan_map *map, int rank, int root,
			      struct lowered *out, const char **why)
{
	return lower_within(plan, map, rank, root, 1, 0, out, why);
}

void lowered_free(struct lowered *lowered);
/* How often operation i is done where each loop over chunks runs once. */
int lowered_times(const struct lowered *list, int i);

/*
 * Sends that wait for nothing of their loop go so many trips ahead of it, where all their peers are first_far or more: so many messages are on
 * their way while the loop waits for those that come. Each connection has its messages in the same order as before, and a trip writes no chunk
 * of a later one. Nobody waits for room in a circle if a connection holds `ahead` messages more than its receiver may have taken without signalling
 * (link.h), and one: the rank that is last finds room.
 */
void lower_ahead(struct lowered *lowered, int first_far, int ahead);
/* Whether lists are within these limits: looked up on a few ranks of each kind, as plans are alike on all nodes of a size. */
int lower_fits(const struct plan *plan, const struct plan_map *map);

/* Whether a rank receives something from each other one. */
int lowered_receives_from_all(const struct lowered *lowered, int rank, int ranks);

struct lowered_messages {
	uint16_t most[PLAN_MAX_QUEUES]; /* of a queue, from one rank to one other */
	int all_receive_from_all; /* each rank receives something from each other one */
};

/*
 * What all ranks' lists have in common where every loop over chunks runs once: the most messages of each queue that one rank sends to one
 * other. 0, CORALE_ENOMEM; CORALE_ENOTSUP as of lower_plan, and where programs of one rank wait for each other by tokens.
 */
int lower_messages(const struct plan *plan, const struct plan_map *map, int root,
		   struct lowered_messages *out);

void lowered_call_init(struct lowered_call *call, const struct plan *plan, const struct plan_env *env);

PLAN_FN int lowered_wrap(int at, int n)
{
	return (at %= n) < 0 ? at + n : at;
}

PLAN_FN void lowered_step_span(const struct lowered_call *c, struct lowered_span *span, int pieces, int by)
{
	if (pieces)
		span->inner = (int16_t)lowered_wrap(span->inner + by, c->inner);
	else
		span->block = (int16_t)lowered_wrap(span->block + by, c->ranks);
}

/* An operation of a REPEAT goes so many times on, or back. A slice that was cut before begins a count further for each block. */
PLAN_FN void lowered_step(const struct lowered_call *c, struct lowered_op *op, int times)
{
	if (op->moves & LOWERED_SRC)
		lowered_step_span(c, &op->src, op->moves & LOWERED_PIECES, times * op->stride);
	if (op->moves & LOWERED_DST)
		lowered_step_span(c, &op->dst, op->moves & LOWERED_PIECES, times * op->stride);
	if (op->moves & LOWERED_FROM)
		op->from_first = (uint16_t)(op->from_first + times * op->from_count);
	if (op->moves & LOWERED_TO)
		op->to_first = (uint16_t)(op->to_first + times * op->to_count);
}

PLAN_FN int lowered_blocks(const struct lowered_op *op)
{
	return op->flags & LOWERED_BLOCKS ? op->blocks : 1;
}

/* Of several blocks: how many lie together in the span from number `done` on, and the first of them. Behind a buffer's last block is its first one.
 * Of a message the number is the block. */
PLAN_FN int lowered_together(const struct lowered_call *c, const struct lowered_op *op,
			     const struct lowered_span *span, int done, int *block)
{
	int most = op->blocks - done;
	*block = span->block + done;
	if (span->space == PLAN_SCRATCH) {
		const int before = done >> op->run_bits << op->run_bits,
			  run = before + (1 << op->run_bits) - done;
		*block += before;
		most = run < most ? run : most;
	} else if (span->space && op->run_bits == LOWERED_BACK) {
		*block = lowered_wrap(span->block - done, c->ranks);
		most = 1;
	} else if (*block >= c->ranks) {
		*block -= c->ranks;
	} else if (span->space && most > c->ranks - *block) {
		most = c->ranks - *block;
	}
	return most;
}

PLAN_FN int lowered_chunks(const struct lowered_call *c, size_t count)
{
	return plan_chunks_of(count, c->unit, c->parts, c->channels, c->chunk);
}

/* Trips of a loop over chunks. */
PLAN_FN int lowered_count_trips(const struct lowered_call *c, const struct lowered_op *loop)
{
	if (loop->trips == LOWERED_CHUNKS)
		return c->chunks + loop->src.chunk;
	const size_t *counts = loop->trips == LOWERED_SEND_CHUNKS ? c->send_counts : c->recv_counts;
	return counts ? lowered_chunks(c, counts[loop->trips_peer]) : c->chunks;
}

PLAN_FN void lowered_cut(const struct lowered_call *c, const struct lowered_span *span, int channel,
			 struct lowered_slice *slice)
{
	size_t begin;
	slice->at = 0;
	slice->length = c->count;
	slice->chunks = c->chunks;
	if (span->block >= 0 && span->space == PLAN_SEND && c->send_counts) {
		slice->at = c->send_displs[span->block];
		slice->length = c->send_counts[span->block];
	} else if (span->block >= 0 && span->space == PLAN_RECV && c->recv_counts) {
		slice->at = c->recv_displs[span->block];
		slice->length = c->recv_counts[span->block];
	} else if (span->block >= 0 && span->space != PLAN_SCRATCH) {
		slice->at = (size_t)span->block * c->count;
	}
	if (slice->length != c->count)
		slice->chunks = lowered_chunks(c, slice->length);
	if (span->part >= 0) {
		slice->length =
		    plan_cut(slice->length, c->unit, (size_t)c->parts, (size_t)span->part, &begin);
		slice->at += begin;
	}
	if (span->chunk != LOWERED_NO_CHUNK) {
		slice->length =
		    plan_cut(slice->length, c->unit, (size_t)c->channels, (size_t)channel, &begin);
		slice->at += begin;
	}
}

/* A span in one trip of the loop: *at from the start of its space, elements returned; -1: the operation is skipped. */
PLAN_FN ptrdiff_t lowered_piece(const struct lowered_call *c, const struct lowered_span *span,
				const struct lowered_slice *slice, int trip, size_t *at)
{
	size_t length = slice->length, in_chunk = 0;
	*at = slice->at;
	if (span->space == PLAN_NOWHERE)
		return 0;
	if (span->chunk != LOWERED_NO_CHUNK) {
		int chunk = trip + span->chunk;
		if (chunk < 0 || chunk >= slice->chunks)
			return -1;
		size_t first = (size_t)chunk * c->chunk;
		first = first < length ? first : length;
		*at += first;
		length = length - first < c->chunk ? length - first : c->chunk;
	}
	if (span->inner >= 0) {
		length = plan_cut_inner(length, c->unit, c->inner, span->inner, &in_chunk);
		*at += in_chunk;
	}
	if (span->space == PLAN_SCRATCH)
		*at = (size_t)span->block * c->chunk + in_chunk;
	return (ptrdiff_t)length;
}

/* Turns of a loop that differ by a step along a circle alone (lower_plan_rolled). */

/* The last n operations of a list, against those from first on: sets what these step by, if all differ by one step along a circle: 1, else 0. */
int lower_roll_start(struct lowered *list, const struct plan *plan, const struct plan_map *map, int first,
		     int n);
/* Whether the last n operations are those from first on, stepped so many times. */
int lower_roll_follows(const struct lowered *list, const struct plan *plan, const struct plan_map *map,
		       int first, int n, int times);

/* What a lowered call needs of a window where its messages go through slots: the size of a slot, of all slots, and of scratch. */

struct lowered_room {
	uint64_t message; /* bytes of the largest one */
	uint32_t slot; /* bytes, a multiple of LAUNCH_LINE */
	uint32_t slots; /* of all queues and channels, from one rank to one other */
	uint64_t scratch; /* bytes of a channel */
	uint64_t bytes; /* of all slots, and of all channels' scratch behind those of one rank */
};

/* From the plan's steps, which all ranks share, not from one rank's list: all ranks place slots alike. */
void lowered_room_init(struct lowered_room *room, const struct plan *plan, const struct lowered_call *call);

#endif
