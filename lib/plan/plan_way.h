/*
 * The ways in which the GPUs of one node run a call: a row each beside the host's algorithms. A row names the algorithm whose plan it runs,
 * who moves the bytes, how they say that they are there, and the codelet that does it. What no row runs, or none
 * that settings allow, is lowered (lower.h). Pure: functions of a call and of facts that all ranks share, from modelled times (rates.h).
 */
#ifndef PLAN_WAY_H
#define PLAN_WAY_H

#include <stdint.h>

#include "base/settings.h"
#include "corale.h"
#include "plan.h"
#include "rates.h"

/* plan.codelet */
enum plan_codelet {
	CODELET_NONE, /* a plan, lowered */
	CODELET_PACKETS, /* one exchange of packets, folded or copied; of blocks that have no room in pieces */
	CODELET_TWO_SHOT, /* reduce-scatter and all-gather of packets in one pass */
	CODELET_SLOTS, /* one exchange through slots: folded, or copied by blocks that belong to edges */
	CODELET_SLOTS_TWO_SHOT, /* both exchanges through slots */
	CODELET_COPIES, /* copy engines, into registered receive buffers or through scratch */
	CODELET_KINDS
};

/* plan.protocol: how a message says that it is there. */
enum plan_protocol {
	PLAN_ANY_PROTOCOL, /* of hosts; lowered: each call's, by the size of its messages */
	PLAN_LL, /* words of 8 bytes with a flag; lowered plans alone */
	PLAN_LL128, /* lines of 128 bytes with a flag */
	PLAN_SENTINEL, /* words in which all ones mean empty */
	PLAN_FIFO, /* slots and flags */
	PLAN_DIRECT, /* stores into registered memory, and flags */
	PLAN_COPIED, /* copy engines ("CE") */
	PLAN_GRANTED, /* LL128, FIFO or DIRECT: the receiver says which when the call runs */
	PLAN_PROTOCOLS
};

enum { PLAN_CODELET_THREADS = 512 }; /* of a block at most */
enum { PLAN_NEAR_RANKS = 4 }; /* at most, of kernels that keep every rank's packet in registers */

/* What all ranks share. */
struct plan_node {
	const struct rates *rates; /* of their GPUs' class */
	int ranks;
	int max_blocks; /* plan_most_blocks, or the most that are resident at a time */
	int zero_ctas; /* CORALE_CTA_POLICY=zero: what is only moved goes by copy engines */
	uint32_t forced; /* codelets, a bit each (CORALE_PROTO); 0: none is */
	/* A link that tears lines, or CORALE_PROTO=LL: no codelet but all_to_all_v's, and small messages by words that carry their flag. */
	int words_only;
	uint8_t
	    refused[CORALE_NUM_COLLS]; /* codelets, a bit each, that settings or the node's GPUs exclude */
	uint64_t words_bytes, lines_bytes; /* of one sender, in one half of a window */
	uint64_t slots_bytes; /* of one sender */
	uint64_t scratch_bytes; /* of one sender; 0: there is none */
	int resident; /* blocks that run at a time for sure */
};

/* What settings leave to codelets, and force, beside what the node's links do. */
void plan_node_settings(struct plan_node *node, const struct settings *settings);
/* No call of the node runs by a codelet. */
void plan_node_refuse(struct plan_node *node, enum plan_codelet codelet);

/* What a call may use, or-ed: its receive buffer, because it is registered on all ranks; scratch. Exported: registered in a way that
 * copy engines store into at the link's speed; if not, they are better off with scratch. */
enum plan_memory { PLAN_MEMORY_REGISTERED = 1, PLAN_MEMORY_SCRATCH = 2, PLAN_MEMORY_EXPORTED = 4 };

/* A call as the choice of its way sees it. */
struct plan_call {
	corale_coll coll;
	uint64_t bytes; /* of a block or vector */
	int words; /* plan_in_words of its type */
	int memory; /* of enum plan_memory */
};

struct plan_way {
	corale_coll coll;
	const char *algo; /* whose plan it runs: a name of the algorithm table */
	enum plan_engine engine; /* who moves the bytes: PLAN_SM, PLAN_CE */
	enum plan_protocol protocol;
	enum plan_codelet codelet;
	/* 1 if it can run the call. */
	int (*can)(const struct plan_node *node, const struct plan_call *call);
	/* us, modelled, of a call that it can run. */
	double (*us)(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call);
	enum rates_of pair, several; /* rates of two ranks, and of more */
	enum rates_block pair_block, several_block;
	/* By hand: what the algorithm's plan doesn't say of its messages; NULL: it says all. */
	const char *lacks;
};

/* The rows of a collective in the order of preference; *count may be 0. */
const struct plan_way *plan_ways(corale_coll coll, int *count);

/* Modelled time in us, or a negative value where the way can't run the call or settings exclude it. */
double plan_way_time(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call);

/* The way of least modelled time, among the forced ones where they can run the call; NULL: it is lowered. Well below a microsecond. */
const struct plan_way *plan_way_choose(const struct plan_node *node, const struct plan_call *call);

/* 1 if the call goes through scratch: all that copy engines do not store straight into registered memory, and long runs through
 * slots, which the window has little room for. */
int plan_way_scratch(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call);

/* 1 if it stores into the peers' receive buffers, where memory says that all ranks' are registered. */
int plan_way_direct(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call);

/* 1 if the folds of a type travel in words, which have a value that no sum is; 0: in lines, as all moves do. */
int plan_in_words(corale_type type);

/* Bytes that leave one GPU at most. */
double plan_way_sent(const struct plan_way *way, const struct plan_node *node, uint64_t bytes);

/* Bytes of a block or vector that go by packets at a time: so many parts of what one sender has of their room, which so many exchanges
 * share, and where threads take turns a whole number of them. words: packets are words. 0: there is too little room. */
uint64_t plan_packets_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks);

/* In how many chunks a broadcast by copies goes from rank to rank: all of one is there before it goes on, so many; but each costs the
 * same between two copies, so not too many. */
uint32_t plan_chain_chunks(const struct rates *rates, int ranks, uint64_t bytes);

/* The most blocks of a kernel, 0: all that the GPU has room for. given: by the caller, 0: none. efficient: where none is given, as
 * few as are right beside computing. */
int plan_most_blocks(int given, int efficient);

/* "packets", "two_shot", "slots", "slots_two_shot", "copies"; CODELET_NONE: "lowered". */
const char *plan_codelet_name(enum plan_codelet codelet);
/* "LL", "LL128", "SENTINEL", "FIFO", "DIRECT", "CE"; "any", "granted". */
const char *plan_protocol_name(enum plan_protocol protocol);
/* The codelets that CORALE_PROTO names, a bit each: by a protocol that rows have, or by name; 0: none. */
uint32_t plan_codelets_forced(const char *name);
/* 1 if CORALE_PROTO says that no line is used. */
int plan_words_forced(const struct settings *settings);

#endif
