/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of rows: each is one way to run a collective, from the algorithm's plan to the kernel. The plan that a row builds is its specification: checker and
 * emulator compare the row with it. Rows without a codelet are in algo/rows_plain.def: hosts run the plan's steps, GPUs a list that is lowered from them. Rows
 * that a codelet of GPUs runs are in algo/rows_gpus.def. Builders of plans are in algo/algo_*.c. Pure.
 */
#ifndef ROW_H
#define ROW_H

#include "codelet.h"
#include "corale.h"
#include "plan/machine/machine.h"
#include "plan/machine/topo.h"

/* plan.protocol: how a receiver knows that a message has arrived. */
enum plan_protocol {
	PLAN_ANY_PROTOCOL, /* of hosts; lowered: each call's, by the size of its messages */
	PLAN_LL, /* words of 8 bytes with a flag; lowered plans alone */
	PLAN_LL128, /* lines of 128 bytes with a flag */
	PLAN_SENTINEL, /* words in which all ones mean empty */
	PLAN_FIFO, /* slots and flags */
	PLAN_COPIED, /* copy engines ("CE") */
	PLAN_BULK, /* slots and flags, by few blocks */
	PLAN_GRANTED, /* LL128 or FIFO: the receiver chooses when the call runs */
	PLAN_PROTOCOLS
};

struct row;
struct algo_rounds;
typedef void algo_rounds_build(struct plan *plan, const struct algo_rounds *rounds);

/* What a builder may depend on: facts that all ranks share. */
struct algo_call {
	const struct row *row; /* whose plan it is */
	struct plan_key key;
	const struct topo *topo;
	size_t bytes; /* the size class's upper bound, of one block or vector */
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
	/* Appends programs to a plan that the planner has initialized (key, chunk, channels = 1). */
	void (*build)(const struct algo_call *call, struct plan *plan);
	/* Of a builder of several rows, this one's: between the ranks of a group, or of a rail; between nodes. */
	algo_rounds_build *rounds;
	enum algo_between { ALGO_CHAIN, ALGO_FLAT, ALGO_TREE } between;
	/* The rest is of rows that a codelet of GPUs runs: */
	enum plan_protocol protocol;
	const struct codelet *codelet; /* NULL: hosts run the plan, GPUs the plan lowered */
	const char *differs; /* how the codelet's messages differ from the plan's; NULL: not at all */
};

/* The table; *count rows. Those of one collective in the order of preference. */
const struct row *row_table(int *count);

/* The next row with a codelet of a collective behind row (NULL: the first one), or NULL. */
const struct row *row_next_codelet(corale_coll coll, const struct row *row);

/* Modelled time in us, or a negative value where the row can't run the call or settings exclude it. */
double row_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);

/* 1 if the call's receive buffer is registered on all ranks. */
int row_is_registered(const struct plan_call *call);
/* 1 if copies go straight into receive buffers. Into some registered buffers they are slow: these are used only without scratch, or where no blocks may
 * move data. */
int row_copies_direct(const struct gpu_machine *machine, const struct plan_call *call);
/* 1 if the call goes through scratch: calls by copy engines that do not go straight into registered memory, and long runs through slots, for which the
 * window is too small. */
int row_uses_scratch(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);

/* 1 if it stores into the peers' receive buffers, where memory says that all ranks' are registered. */
int row_stores_direct(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);

/* "LL", "LL128", "SENTINEL", "FIFO", "CE", "BULK"; "any", "granted". */
const char *plan_protocol_name(enum plan_protocol protocol);
/* 1 if a row moves data by a protocol: FIFO has two shapes, one of which has a name of its own, BULK. */
int row_is_by(const struct row *row, int protocol);
/* The protocol that CORALE_PROTO names: LL, or that of a row with a codelet; 0: none. */
enum plan_protocol plan_protocol_forced(const char *name);
/* 1 if CORALE_PROTO says that no line is used. */
int plan_words_forced(const struct settings *settings);
/* Applies settings that exclude or force codelets; the node's links exclude others. */
void gpu_machine_apply(struct gpu_machine *machine, const struct settings *settings);
/* No call of the machine runs by this codelet. */
void gpu_machine_refuse(struct gpu_machine *machine, const struct codelet *codelet);

#endif
