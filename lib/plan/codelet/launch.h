/*
 * Launches: which kernel runs a call, by how many blocks and threads, in how many pieces or rounds, and what its messages
 * carry. What the engine launches and what corale-plan prints are both this. Pure: of facts that all ranks share but for the addresses of
 * a rank's buffers, which choose among kernels that send the same bytes.
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan_eval.h"
#include "row.h"

struct lowered_messages;

/* What kernels and launches agree on. */
enum {
	LAUNCH_LINE = 128,
	LAUNCH_LINE_DATA = 120, /* of a line */
	LAUNCH_LONG_THREADS = 768, /* of a block of two ranks' packets that takes turns */
	LAUNCH_WORK_THREADS = 1024, /* of work beside copies, at most */
	LAUNCH_WARP_GROUPS = 4, /* of a block in a broadcast */
	LAUNCH_LEAST_DEPTH = 2, /* messages in flight of such a group, at least */
	LAUNCH_LANES = 128, /* of a message between two ranks at most */
	LAUNCH_SLOT_DEPTH = 2, /* messages in flight of a lane */
	LAUNCH_LANE_BYTES = 32 << 10, /* of a message, from which it has another lane */
	LAUNCH_MAX_BLOCKS = 160, /* whose epochs are counted */
	LAUNCH_WHOLE_PIECE = 0x7fffff80, /* bytes at a time of one message into a buffer */
	LAUNCH_COPY_ALIGN = 512, /* of places in scratch, and of parts that copies move */
	LAUNCH_FOLDING_BLOCKS = 32, /* which together fold faster than a link; two fit on an SM */
	LAUNCH_MOST_CHUNKS = 72 /* of a broadcast's round */
};

enum plan_kernel {
	KERNEL_ONE_SHOT_FEW, /* packets of at most PLAN_FEW_RANKS ranks, one a thread */
	KERNEL_ONE_SHOT_FEW_LONG, /* threads take turns */
	KERNEL_TWO_SHOT_FEW, /* a broadcast: scatter, then all-gather */
	KERNEL_ONE_SHOT, /* packets of any number of ranks, from any address */
	KERNEL_TWO_SHOT,
	KERNEL_FIFO_REDUCE, /* all_reduce and reduce_scatter, through slots */
	KERNEL_DIRECT, /* all_reduce into registered memory */
	KERNEL_FIFO_MOVES, /* what is only moved, through slots or into registered memory */
	KERNEL_SCATTER_ALLGATHER, /* broadcast, the same */
	KERNEL_P2P, /* messages between two ranks: all_to_all_v; over nodes all_to_all, too */
	KERNEL_COPIES, /* copy engines; kernels do the work beside them */
	KERNEL_LOWERED,
	KERNELS
};

struct grid {
	int blocks, threads;
};

/*
 * A row prepared for a key: what calls like one another have in common of their launches. Its engine adds the arguments. Of a call over nodes, or
 * one that no codelet runs, what is cut here stays empty.
 */
struct launch {
	const struct gpu_machine *machine;
	enum plan_codelet codelet; /* CODELET_NONE: by the plan, lowered */
	corale_coll coll;
	uint64_t bytes; /* of a block or vector */
	uint8_t words; /* plan_in_words of its type */
	uint8_t odd; /* an address or a size is no multiple of 4 */
	uint8_t direct; /* peers store into receive buffers: row_stores_direct */
	uint8_t scratch; /* it goes through scratch, and there is some */
	/* Cut from that: */
	enum plan_kernel kernel;
	struct grid grid; /* of copies: of the work beside them */
	uint64_t piece,
	    pieces; /* bytes of a block, vector or part at a time, each with an epoch or a round of copies; how many */
	uint64_t
	    message; /* bytes of a message through slots, or of a chunk of a chain of copies, at most; 0: there are none */
	uint32_t depth; /* messages in flight of a lane or warp group */
	/* Lowered: */
	const struct plan *plan;
	int list; /* the number that the engine gave it */
	int narrow; /* its messages between nodes go by the lanes of narrow plans */
	const struct lowered_messages *messages; /* NULL: they go through slots */
};

/* Of calls by a row with a codelet whose buffers' addresses are even, cut. */
struct launch launch_of(const struct row *row, const struct gpu_machine *machine,
			const struct plan_call *call);

/* Kernel, grid, pieces and messages, from what stands before them. A few divisions. */
void launch_cut(struct launch *launch);

/* Bytes that one rank sends another one in the call, at most; a barrier sends none. May walk all messages. */
uint64_t launch_to_peer(const struct launch *launch);

/* "kernel two_shot_few, 64 blocks of 256 threads, 1 piece of 1048576 bytes, up to 524288 bytes to a peer", or what a lowered plan says; returns the length it needs, like snprintf. */
size_t launch_print(const struct launch *launch, char *buf, size_t bytes);

/* ---- Point to point: what both ends of a message cut alike. pairs: sends and receives, rather than an all_to_all_v. */

/* With messages to and from every other rank, all blocks must be resident at a time: so many have each list of messages. */
int launch_blocks_of_lists(const struct gpu_machine *machine, int pairs, int lists, int narrow);
int launch_most_lanes(const struct gpu_machine *machine, int pairs);
/* Bytes of a slot where so much room is cut for so many lanes of so many rings; at most so many bytes. */
uint64_t launch_slot_bytes(uint64_t room, int lanes, int rings, uint32_t depth, uint64_t most);
uint64_t launch_p2p_slot_bytes(uint64_t room, int lanes);

/* ---- Copies */

/* Bytes of scratch for one sender (gpu_machine.scratch_bytes), two chunks; 0: the cap has no room. window: bytes that the cap counts already. */
uint64_t launch_scratch_bytes(int ranks, uint64_t window, uint64_t memory_cap);
/* Of the scratch that one other rank has, each of so many buffers. */
uint64_t launch_scratch_part(uint64_t scratch_bytes, int buffers);
/* Bytes of each rank's part of an all_reduce by copies. */
uint64_t launch_copied_part(uint64_t bytes, int ranks);
/* Work beside copies. odd: addresses are no multiples of 16. own: what a rank keeps, of which so many times as much leaves it. */
struct grid launch_folds(const struct gpu_machine *machine, int odd);
struct grid launch_taken(const struct gpu_machine *machine, int odd);
struct grid launch_own(const struct gpu_machine *machine, int times, int odd);

#endif
