/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the choice of a row looks at besides topology and settings: the GPUs of a node as all ranks share them, and a call. Pure data; rows that
 * run calls are in row.h.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

#include "base/settings.h"
#include "corale.h"
#include "rates.h"

enum { PLAN_CODELET_THREADS = 512 }; /* of a block at most */
/*
 * Over windows in host memory, where nothing else is said; at most. More take 10 to 15 % off calls of many MB, but each end of a program's kernel waits for what they store: of
 * 1 us, 2,000 took 2.1 ms alone, 4.5 beside calls with 8 blocks, 17 with 16 (2 H200).
 */
enum { PLAN_HOST_WINDOW_BLOCKS = 8, PLAN_MOST_HOST_WINDOW_BLOCKS = 16 };
enum { PLAN_FEW_RANKS = 4 }; /* at most, of kernels that keep every rank's packet in registers */

/* The GPUs of one node: all that rows and launches depend on, equal on all ranks. */
struct gpu_machine {
	const struct rates *rates; /* of their GPUs' class */
	int ranks;
	int max_blocks; /* most of a kernel: the least of all ranks (docs/design.md, "How many blocks") */
	int zero_ctas; /* CORALE_CTA_POLICY=zero: what is only moved goes by copy engines */
	int forced; /* enum plan_protocol: whose rows run all calls that they can (CORALE_PROTO); 0: none */
	/* A link that tears lines, or CORALE_PROTO=LL: no codelet but all_to_all_v's, and small messages by words that carry their flag. */
	int words_only;
	int host_window; /* windows lie in host memory, where only few threads may poll; words_only too */
	uint32_t refused[CORALE_NUM_COLLS]; /* a bit each: codelets that settings or GPUs exclude */
	uint64_t words_bytes, lines_bytes; /* of one sender, in one half of a window */
	uint64_t slots_bytes; /* of one sender */
	uint64_t rings_bytes; /* of messages of two ranks that go in lines, at a time */
	uint64_t scratch_bytes; /* of one sender; 0: there is none */
	int resident; /* blocks that run at a time for sure */
	int over_nodes; /* the call's ranks are on several nodes: ranks are those of one */
	int zero_copy; /* blocks, at most, by which the ranks of the node read each other's buffers where they have mapped them; 0: they don't */
	int many_far; /* a rank has more peers on other nodes than a list of messages, or several on one */
};

/* What a call may use, or-ed: its receive buffer, because it is registered on all ranks; scratch. Exported: registered in a way that
 * copy engines store into at the link's speed; if not, they are better off with scratch. */
enum plan_memory {
	PLAN_MEMORY_REGISTERED = 1,
	PLAN_MEMORY_SCRATCH = 2,
	PLAN_MEMORY_EXPORTED = 4,
	PLAN_MEMORY_CLASSES = 8
};

/* Of a rank's own buffers: what their addresses are multiples of. It chooses among kernels that send the same bytes. */
enum plan_alignment { PLAN_ALIGNED_16, PLAN_ALIGNED_4, PLAN_UNALIGNED };

static inline enum plan_alignment plan_alignment_of(const void *send, const void *recv)
{
	const uintptr_t all = (uintptr_t)send | (uintptr_t)recv;
	return all % 16 == 0 ? PLAN_ALIGNED_16 : all % 4 == 0 ? PLAN_ALIGNED_4 : PLAN_UNALIGNED;
}

/* A call as the choice of its row sees it, and its launch. */
struct plan_call {
	corale_coll coll;
	uint64_t bytes; /* of a block or vector */
	int words; /* type_in_words of its type */
	int memory; /* of enum plan_memory */
	int unaligned; /* enum plan_alignment: the launch's alone, as ranks may differ */
};

/* What says how many blocks a kernel has at most; 0: nothing. */
struct plan_blocks_asked {
	int given; /* by the caller: goes first */
	int usual; /* over windows in GPU memory, where none is given */
	int least; /* raises what is usual, or efficient */
	int efficient; /* where none is given, as few as are right beside computing */
	int in_host; /* windows lie in host memory */
};

/* 0: all that the GPU has room for. */
int plan_most_blocks(const struct plan_blocks_asked *asked);

#endif
