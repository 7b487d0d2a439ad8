/*
 * The table of rows: each is one way in which a machine runs a collective, from the algorithm's plan to the kernel. The row runs; the plan that it
 * builds is its specification, to which checker and emulator hold it. Families: rows without a codelet (algo/rows_plain.def: hosts run the
 * plan's steps, GPUs a list that is lowered from them), codelets of the GPUs of one node (algo/rows_gpus.def), codelets over nodes
 * (algo/rows_nodes.def). Algorithms are in algo/algo_*.c. Pure.
 */
#ifndef ROW_H
#define ROW_H

#include "corale.h"
#include "plan/machine/machine.h"
#include "plan/machine/topo.h"

/* plan.codelet */
enum plan_codelet {
	CODELET_NONE, /* a plan, lowered */
	CODELET_ONE_SHOT, /* one exchange of packets, folded or copied; of blocks that have no room in pieces */
	CODELET_TWO_SHOT, /* reduce-scatter and all-gather of packets in one pass */
	CODELET_FIFO, /* one exchange of messages, folded or moved; broadcasts; point to point. Protocol DIRECT: into registered memory */
	CODELET_FIFO_TWO_SHOT, /* both exchanges of messages */
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

/* What a builder may look at: facts that all ranks share. */
struct algo_call {
	struct plan_key key;
	const struct topo *topo;
	size_t bytes; /* the size class's upper bound, of one block or vector */
	size_t wire_bytes; /* bytes of one element on the wire */
	uint8_t wire_type;
	uint32_t slot_bytes; /* the most that one message may carry */
	int slots; /* deepest queue */
	uint32_t chunk_bytes; /* forced chunk, or 0 */
	int max_channels;
	int most_at_once; /* ranks whose messages one fold waits for */
	int reproducible; /* only algorithms that see all contributions at once may apply */
};

enum row_traits {
	ROW_ALL_AT_ONCE =
	    1, /* folds nothing, or all contributions in rank order in one step: fit for CORALE_REPRODUCIBLE */
	ROW_FLAT = 2, /* ignores nodes */
	ROW_ON_HOSTS = 4, /* of no use to GPUs */
	ROW_ON_GPUS = 8, /* of no use to hosts, whose memory is one */
	ROW_OVER_NODES = 16, /* its codelet runs calls over nodes, and no others */
	ROW_SPARE = 32, /* is taken where no other row can run the call */
	ROW_BESIDE_CODELET =
	    64 /* lowered, it may be faster than a codelet that runs its collective over nodes */
};

struct row {
	/* Of the algorithm, as CORALE_ALGO says: "bruck" there names "bruck" and each "bruck_...", so a variant is called after what it is a variant of. */
	const char *name;
	corale_coll coll;
	int traits;
	const char *source; /* where the algorithm is described */
	/* 1 if its plan can serve the call (key, number of ranks, nodes). */
	int (*applicable)(const struct algo_call *call);
	/* Appends programs to a plan that the planner has initialized (key, wire type, chunk, channels = 1). */
	void (*build)(const struct algo_call *call, struct plan *plan);
	/* The rest is of rows with a codelet: */
	enum plan_engine engine; /* who moves the bytes: PLAN_SM, PLAN_CE */
	enum plan_protocol protocol;
	enum plan_codelet codelet;
	/* 1 if it can run the call. */
	int (*can)(const struct gpu_machine *machine, const struct plan_call *call);
	/* us, modelled, of a call that it can run; NULL: it is taken whenever it can. */
	double (*us)(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);
	enum rates_of pair, several; /* rates of two ranks, and of more */
	enum rates_block pair_block, several_block;
	const char
	    *differs; /* how the codelet's messages differ from the plan's; NULL: they are the plan's */
};

/* The table; *count rows. Those of one collective in the order of preference. */
const struct row *row_table(int *count);

/* The first row of a collective by an algorithm of that name, or -1. */
int row_find(corale_coll coll, const char *name);

/* The next row with a codelet of a collective behind row (NULL: the first one), or NULL. */
const struct row *row_next_codelet(corale_coll coll, const struct row *row);

/* Modelled time in us, or a negative value where the row can't run the call or settings exclude it. */
double row_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);

/* 1 if the call goes through scratch: all that copy engines do not store straight into registered memory, and long runs through
 * slots, which the window has little room for. */
int row_uses_scratch(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);

/* 1 if it stores into the peers' receive buffers, where memory says that all ranks' are registered. */
int row_stores_direct(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);

/* Bytes that leave one GPU at most. */
double row_sent(const struct row *row, const struct gpu_machine *machine, uint64_t bytes);

/* Bytes of one piece of a block or vector: a sender's packet area / exchanges, in whole turns of the grid where threads take turns, times
 * parts. words: packets are words. 0: there is too little room. */
uint64_t plan_packets_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks);

/* In how many chunks a broadcast by copies goes from rank to rank: all of one is there before it goes on, so many; but each costs the
 * same between two copies, so not too many. */
uint32_t plan_chain_chunks(const struct rates *rates, int ranks, uint64_t bytes);

/* "one_shot", "two_shot", "fifo", "fifo_two_shot", "copies"; CODELET_NONE: "lowered". */
const char *plan_codelet_name(enum plan_codelet codelet);
/* "LL", "LL128", "SENTINEL", "FIFO", "DIRECT", "CE"; "any", "granted". */
const char *plan_protocol_name(enum plan_protocol protocol);
/* The protocol of a row with a codelet that CORALE_PROTO names; 0: none. */
enum plan_protocol plan_protocol_forced(const char *name);
/* 1 if CORALE_PROTO says that no line is used. */
int plan_words_forced(const struct settings *settings);
/* What settings leave to codelets, and force, beside what the node's links do. */
void gpu_machine_apply(struct gpu_machine *machine, const struct settings *settings);
/* No call of the node runs by a codelet. */
void gpu_machine_refuse(struct gpu_machine *machine, enum plan_codelet codelet);

#endif
