/*
 * Which fused codelet runs a call on the GPUs of one node. Pure: a function of the call's key and of facts that
 * all ranks share, from modelled times whose constants were measured (docs/performance.md).
 */
#ifndef PLAN_CODELET_H
#define PLAN_CODELET_H

#include <stdint.h>

#include "corale.h"

enum plan_codelet {
	CODELET_NONE, /* the step executor */
	CODELET_PACKETS, /* one exchange of packets, folded or copied */
	CODELET_TWO_SHOT, /* reduce-scatter and all-gather of packets in one pass */
	CODELET_SLOTS, /* one exchange through slots: folded, or copied by blocks that belong to edges */
	CODELET_SLOTS_TWO_SHOT, /* both exchanges through slots */
	CODELET_COPIES, /* copy engines, into registered receive buffers; sums through scratch */
	CODELET_KINDS
};

enum { PLAN_CODELET_THREADS = 512 }; /* of a block at most */
enum { PLAN_NEAR_RANKS = 4 }; /* at most, of kernels that keep every rank's packet in registers */

/* What all ranks share. */
struct plan_node {
	int ranks;
	int max_blocks; /* CORALE_MAX_CTAS, or the most that are resident at a time */
	int zero_ctas; /* CORALE_CTA_POLICY=zero: what is only moved goes by copy engines */
	int forced; /* a codelet (CORALE_PROTO), or CODELET_NONE */
	uint64_t words_bytes, lines_bytes; /* of one sender, in one half of a window */
};

/* A row of the choice: modelled time in us of a call of so many bytes (of a block or vector), or a negative value where the
 * codelet can't run it. words: the type's folds travel in words. direct: the call is one that CODELET_COPIES can run: its
 * receive buffer is registered on all ranks (or is not stored into by others), and a sum has scratch. */
double plan_codelet_time(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			 uint64_t bytes, int words, int direct);

/* The codelet of least modelled time, among the forced ones where they can run the call. */
enum plan_codelet plan_codelet_choose(const struct plan_node *node, corale_coll coll, uint64_t bytes,
				      int words, int direct);

/* Bytes that go by CODELET_TWO_SHOT at a time, so many parts of what one sender has of packets' room, and where threads take turns a
 * whole number of them. words: packets are words. */
uint64_t plan_codelet_piece(uint64_t area_bytes, int words, uint64_t parts, int max_blocks);

/* Of a broadcast by copies: in how many cycles of pieces, and what it then takes longer than its bytes on one link. */
int plan_codelet_cycles(int ranks, uint64_t bytes, double *more_us);

/* 1 if the call goes better through scratch than through the window: long runs through slots. direct: the receive buffers are
 * registered. */
int plan_codelet_scratch(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			 uint64_t bytes, int direct);

/* 1 if the codelet stores into the peers' receive buffers, where all ranks' are registered. */
int plan_codelet_direct(enum plan_codelet codelet, corale_coll coll);

/* "packets", "two_shot", "slots", "slots_two_shot", "copies"; CODELET_NONE: "steps". */
const char *plan_codelet_name(enum plan_codelet codelet);
/* CODELET_NONE when no codelet has that name. */
enum plan_codelet plan_codelet_named(const char *name);

#endif
