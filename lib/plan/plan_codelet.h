/*
 * Which fused codelet runs a call on the GPUs of one node. Pure: a function of the call's key and of facts that
 * all ranks share, from modelled times whose constants were measured (docs/performance.md).
 */
#ifndef PLAN_CODELET_H
#define PLAN_CODELET_H

#include <stdint.h>

#include "base/settings.h"
#include "corale.h"

enum plan_codelet {
	CODELET_NONE, /* a plan, lowered */
	CODELET_PACKETS, /* one exchange of packets, folded or copied; of blocks that have no room in pieces */
	CODELET_TWO_SHOT, /* reduce-scatter and all-gather of packets in one pass */
	CODELET_SLOTS, /* one exchange through slots: folded, or copied by blocks that belong to edges */
	CODELET_SLOTS_TWO_SHOT, /* both exchanges through slots */
	CODELET_COPIES, /* copy engines, into registered receive buffers or through scratch */
	CODELET_KINDS
};

enum { PLAN_CODELET_THREADS = 512 }; /* of a block at most */
enum { PLAN_NEAR_RANKS = 4 }; /* at most, of kernels that keep every rank's packet in registers */

/* What all ranks share. */
struct plan_node {
	int ranks;
	int max_blocks; /* plan_codelet_most_blocks, or the most that are resident at a time */
	int zero_ctas; /* CORALE_CTA_POLICY=zero: what is only moved goes by copy engines */
	uint32_t forced; /* codelets, a bit each (CORALE_PROTO); 0: none is */
	int words_only; /* CORALE_PROTO=LL: no codelet but all_to_all_v's, and small messages by words that carry their flag */
	uint8_t refused[CORALE_NUM_COLLS]; /* codelets, a bit each, that settings exclude */
	uint64_t words_bytes, lines_bytes; /* of one sender, in one half of a window */
	uint64_t slots_bytes; /* of one sender */
};

/* What settings leave to codelets, and force. */
void plan_codelet_settings(struct plan_node *node, const struct settings *settings);

/* What a call may use, or-ed: its receive buffer, because it is registered on all ranks; scratch. Exported: registered in a way that
 * copy engines store into at the link's speed; if not, they are better off with scratch. */
enum plan_memory { PLAN_MEMORY_REGISTERED = 1, PLAN_MEMORY_SCRATCH = 2, PLAN_MEMORY_EXPORTED = 4 };

/* A row of the choice: modelled time in us of a call of so many bytes (of a block or vector), or a negative value where the
 * codelet can't run it. words: the type's folds travel in words. memory: of enum plan_memory. */
double plan_codelet_time(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			 uint64_t bytes, int words, int memory);

/* Whether there is a codelet for the collective at all; others run lowered. */
int plan_codelet_knows(corale_coll coll);

/* The codelet of least modelled time, among the forced ones where they can run the call. */
enum plan_codelet plan_codelet_choose(const struct plan_node *node, corale_coll coll, uint64_t bytes,
				      int words, int memory);

/* The most blocks of a kernel, 0: all that the GPU has room for. given: by the caller, 0: none. efficient: where none is given, as
 * few as are right beside computing. */
int plan_codelet_most_blocks(int given, int efficient);

/* Bytes of a block or vector that go by packets at a time: so many parts of what one sender has of their room, which so many exchanges
 * share, and where threads take turns a whole number of them. words: packets are words. 0: there is too little room. */
uint64_t plan_codelet_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks);

/* In how many chunks a broadcast by copies goes from rank to rank: all of one is there before it goes on, so many; but each costs the
 * same between two copies, so not too many. */
uint32_t plan_codelet_chunks(int ranks, uint64_t bytes);

/* 1 if the call goes through scratch: all that copy engines do not store straight into registered memory, and long runs through
 * slots, which the window has little room for. */
int plan_codelet_scratch(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			 uint64_t bytes, int memory);

/* 1 if the codelet stores into the peers' receive buffers, where memory says that all ranks' are registered. */
int plan_codelet_direct(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			int memory);

/* The algorithm (its name in the algorithm table) whose plan a codelet runs. */
const char *plan_codelet_algo(enum plan_codelet codelet, corale_coll coll);

/* "packets", "two_shot", "slots", "slots_two_shot", "copies"; CODELET_NONE: "lowered". */
const char *plan_codelet_name(enum plan_codelet codelet);
/* The codelets that CORALE_PROTO names, a bit each: by a protocol (LL128, SENTINEL, FIFO, DIRECT, CE) or by name; 0: none. */
uint32_t plan_codelet_forced(const char *name);

#endif
