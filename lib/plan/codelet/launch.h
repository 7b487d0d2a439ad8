/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches: which kernel runs a call, by how many blocks and threads, in how many pieces or rounds, and how large its messages are. The engine launches what
 * is computed here, and corale-plan prints it: the same for equal machines, settings and alignments. Pure: it depends on facts that all ranks share, and on
 * the alignment of a rank's own buffers, which chooses among kernels that send the same bytes.
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan_eval.h"
#include "row.h"

struct lowered_messages;

/* Shared by kernels and launches. */
enum {
	LAUNCH_LINE = 128,
	LAUNCH_LINE_DATA = 120, /* of a line */
	LAUNCH_LONG_THREADS = 768, /* of a block of two ranks' packets that takes turns */
	LAUNCH_WORK_THREADS = 1024, /* of work beside copies, at most */
	LAUNCH_BULK_THREADS = 640, /* of a block: 20 warps */
	LAUNCH_BULK_BLOCKS =
	    32, /* by teams of warps, each of which fills an SM, at most; calls that fold have as many as there may be */
	LAUNCH_ZERO_COPY_BLOCKS = 16, /* at most, of calls that read the peers' buffers: more gain nothing; */
	LAUNCH_ZERO_COPY_MOVES =
	    10, /* of blocks of data, which they load once and do not fold: the others copy the rank's own */
	LAUNCH_ZERO_COPY_RANKS = 16, /* of a node at most */
	LAUNCH_CHANNELS = 128, /* of a message between two ranks at most */
	LAUNCH_SLOT_DEPTH = 2, /* messages in flight of a channel */
	LAUNCH_CHANNEL_BYTES = 32 << 10, /* of a message, from which it has another channel */
	LAUNCH_MAX_BLOCKS = 160, /* whose epochs are counted */
	LAUNCH_WHOLE_PIECE = 0x7fffff80, /* bytes at a time of one message into a buffer */
	LAUNCH_COPY_ALIGN = 512, /* of places in scratch, and of parts that copies move */
	LAUNCH_FOLDING_BLOCKS = 32, /* together they fold faster than a link; two fit on an SM */
	LAUNCH_MOST_CHUNKS = 72 /* of a broadcast's round */
};

/* Variants of codelets that have several kernels. */
enum {
	ONE_SHOT_ANY,
	ONE_SHOT_FEW,
	ONE_SHOT_FEW_LONG
}; /* any ranks and addresses; few ranks, a packet a thread; threads take turns */
enum { TWO_SHOT_ANY, TWO_SHOT_FEW }; /* few ranks, and all broadcasts */
enum { FIFO_MOVES, FIFO_BROADCAST };
enum { BULK_REDUCE, BULK_MOVES, BULK_BROADCAST };
enum { P2P_LISTS, P2P_BULK }; /* lists of messages with blocks of their own; all blocks serve all lists */

struct grid {
	int blocks, threads;
};

/*
 * A row prepared for a key: what launches of equal calls have in common. The engine adds the arguments. The fields that a codelet cuts stay empty where a
 * lowered plan runs the call.
 */
struct launch {
	const struct gpu_machine *machine;
	const struct codelet *codelet;
	corale_coll coll;
	uint64_t bytes; /* of a block or vector */
	uint8_t words; /* type_in_words of its type */
	uint8_t unaligned; /* enum plan_alignment, of the rank's own buffers */
	uint8_t direct; /* peers store into receive buffers: row_stores_direct */
	uint8_t scratch; /* it goes through scratch, and there is some */
	uint8_t
	    zero_copy; /* 0: no rank reads another one's buffers; else they do where these are mapped, of collectives by so many CUDA blocks */
	/* Cut from that: */
	uint8_t variant; /* of the codelet's kernels */
	struct grid grid; /* of copies: of the work beside them */
	uint64_t piece,
	    pieces; /* bytes of a block, vector or part at a time, each with an epoch or a round of copies; how many */
	uint64_t message; /* most bytes of a message through slots, or a chunk of copies; 0: none */
	uint32_t depth; /* messages in flight of a channel */
	/* Lowered: */
	const struct plan *plan;
	int list; /* the number that the engine gave it */
	int single_channel; /* its messages between nodes go by the connections of plans of one channel */
	const struct lowered_messages *messages; /* NULL: they go through slots */
};

/* Of a call by a row with a codelet, cut: a few divisions. */
struct launch launch_of(const struct row *row, const struct gpu_machine *machine,
			const struct plan_call *call);

/* Variant, grid, pieces and messages, from the fields before them. */
void launch_cut(struct launch *launch);

/* Bytes that one rank sends another one in the call, at most; a barrier sends none. Of some codelets it walks all messages. */
uint64_t launch_to_peer(const struct launch *launch);

/* "kernel two_shot_few, 64 blocks of 256 threads, 1 piece of 1048576 bytes, up to 524288 bytes to a peer", or what a lowered plan says; returns the length it needs, like snprintf. */
size_t launch_print(const struct launch *launch, char *buf, size_t bytes);

/* ---- Point to point: what both ends of a message cut alike. pairs: sends and receives, rather than an all_to_all_v. */

/* Blocks of each list, where lists to and from every other rank must all be resident at a time. */
int launch_blocks_of_lists(const struct gpu_machine *machine, int pairs, int many_blocks, int one_block);
int launch_most_channels(const struct gpu_machine *machine, int pairs);
/* Messages in flight of a channel, and bytes of each. */
int launch_p2p_depth(const struct gpu_machine *machine);
uint64_t launch_p2p_slot_bytes(const struct gpu_machine *machine, uint64_t room, int channels);
/* Of those that its receiver cuts a message of so many bytes into, where slots have room for slot_bytes. */
uint64_t launch_p2p_message(const struct gpu_machine *machine, uint64_t bytes, uint32_t channels,
			    uint64_t slot_bytes);
/* Most bytes of a message that goes in lines (or words, over links that tear lines) whatever its receiver's buffer; and where that is not registered. */
uint64_t launch_short_lines(const struct gpu_machine *machine);
uint64_t launch_long_lines(const struct gpu_machine *machine);
/* Least bytes of a message that its receiver may read in the sender's buffer; more than launch_long_lines. 0: none. */
uint64_t launch_read_messages(const struct gpu_machine *machine);
/* Whether a message between two ranks of a node is one, where its receiver's launch is run by teams of warps. */
int launch_reads_message(const struct gpu_machine *machine, uint64_t bytes);
/* 1 if teams of warps run a launch whose longest message has so many bytes; each end may choose for itself. */
int launch_p2p_by_teams(const struct gpu_machine *machine, uint64_t bytes);

/* ---- Copies */

/* Bytes of scratch for one sender (gpu_machine.scratch_bytes), two chunks; 0: no room within the cap. window: bytes that the cap counts already. */
uint64_t launch_scratch_bytes(int ranks, uint64_t window, uint64_t memory_cap);
/* Bytes of a buffer, where one other rank's scratch is cut into so many. */
uint64_t launch_scratch_part(uint64_t scratch_bytes, int buffers);
/* Bytes of each rank's part of an all_reduce by copies. */
uint64_t launch_copied_part(uint64_t bytes, int ranks);
/* Chunks in which a broadcast goes from rank to rank. A rank passes on whole chunks, so many small ones start the next rank early; but each one costs a
 * gap between two copies. */
uint32_t launch_chain_chunks(const struct rates *rates, int ranks, uint64_t bytes);
/* 1 if parts that kernels work on begin at addresses that are no multiples of 16. */
int launch_copies_unaligned(const struct launch *launch);
/* The grid of work beside copies. unaligned: addresses are no multiples of 16. own: the rank's own block, while so many times as much leaves the rank. */
struct grid launch_folds(const struct gpu_machine *machine, int unaligned);
struct grid launch_taken(const struct gpu_machine *machine, int unaligned);
struct grid launch_own(const struct gpu_machine *machine, int times, int unaligned);

#endif
