/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a call to its plan: size class, candidates, cost, choice. Pure and deterministic: equal on all ranks
 * because it sees only what communicator creation has compared.
 */
#ifndef PLANNER_H
#define PLANNER_H

#include "plan/codelet/row.h"
#include "plan/cost/cost.h"
#include "corale.h"

/* Sources of one fold, and so the ranks of a node at most. */
enum { PLANNER_MOST_AT_ONCE = 1024 };

/* The planner's view of settings and machine; made once per communicator. */
struct planner {
	const struct topo *topo;
	uint32_t slot_bytes, chunk_bytes;
	int slots, max_channels, reproducible;
	int most_at_once; /* ranks whose messages one fold waits for; 0: PLANNER_MOST_AT_ONCE */
	int most_channels; /* 0: no more limit than max_channels */
	int by_nodes; /* rows that know nodes are preferred */
	int gpus; /* plans are lowered, a block a program and channel, max_channels blocks at most */
	/* Between nodes: calls of up to this size class have plans of one channel, made by another planner; -1: none. */
	int single_class;
	const struct planner *single;
	size_t connection_ends; /* between nodes: as many ends of connections has a rank memory for */
	const struct planner_room *room; /* which rows have room for theirs (planner_room.h); NULL: all */
	const struct gpu_machine *machine; /* of GPUs: what their rows depend on; NULL: of hosts */
	char algo[256]; /* CORALE_ALGO, already checked by planner_check_algo */
};

void planner_init(struct planner *planner, const struct topo *topo, const struct settings *settings);
/* For one node's GPUs. machine stays the caller's, and is read by each choice. */
void planner_init_gpus(struct planner *planner, const struct topo *topo, const struct settings *settings,
		       const struct gpu_machine *machine);
/* Of plans between nodes: bytes of a message and channels at most, as connections have; blocks of a kernel. */
void planner_limit_remote(struct planner *planner, uint32_t slot_bytes, int channels, int blocks);

/* Checks a CORALE_ALGO text ("ring", "all_reduce:ring,broadcast:flat", "^ring"); 0, or CORALE_ESETTING with the
 * reason in error. */
int planner_check_algo(const char *text, char *error, size_t error_bytes);

/* The planner of calls of a key's size. */
static inline const struct planner *planner_of(const struct planner *planner, const struct plan_key *key)
{
	return planner->single && key->size_class <= planner->single_class ? planner->single : planner;
}

/* The key of a call; count as in corale.h (elements of one block or vector; send/recv: of the message). */
struct plan_key planner_key(corale_coll coll, size_t count, corale_type type, corale_op op);

/*
 * The choice of a row, the only one: for hosts, GPUs of a node and GPUs over nodes. planner_codelet: the row with a codelet of least modelled time,
 * among the forced ones where they can run the call; NULL: none can. Then, where a lowered plan is sure to be faster (planner_lowers), and on hosts, the
 * cheapest row without a codelet that CORALE_ALGO names, or where none of these applies the cheapest that it does not exclude (planner_plan_plain).
 */
const struct row *planner_codelet(const struct gpu_machine *machine, const struct plan_call *call);

/* Whether plans fit into lists (lower_fits), by a hash of what is lowered: of many ranks that takes longer than all else. All zero: none is known. */
struct planner_fits {
	int assumed; /* all do: what the model likes best, whether it can run or not */
	int n;
	struct planner_fit {
		uint64_t plan;
		int fits;
	} known[32];
};

/*
 * Whether a call that a row with a codelet can run is sure to be faster by a lowered plan, *out, cut for it: than what the row's measured rates say, and by
 * more than walks and rates are ever apart than the walk of its plan. Only where the rates cover so many ranks, and no setting says what is to move the
 * bytes. 1, 0, or an error.
 */
int planner_lowers(const struct planner *planner, const struct plan_key *key, const struct row *row,
		   const struct plan_call *call, struct planner_fits *fits, struct plan *out, char *error,
		   size_t error_bytes);

/* The plan of the row without a codelet that is chosen; fits: what earlier calls have found on this machine. 0, CORALE_ENOTSUP (nothing applies; error says
 * why), CORALE_EINTERNAL. */
int planner_plan_plain(const struct planner *planner, const struct plan_key *key, struct planner_fits *fits,
		       struct plan *out, char *error, size_t error_bytes);

/* The planner of a row's calls of a key's size. Small ones have one channel, but for those whose messages, of several blocks, are too long for
 * its connections. */
const struct planner *planner_for(const struct planner *planner, const struct plan_key *key, int row);

/* The plan of a row of the table, whatever else could run the call; CORALE_ENOTSUP if it does not apply. */
int planner_build(const struct planner *planner, const struct plan_key *key, int row, struct plan *out);
/* The same cut as is said, which takes no time of the model. */
int planner_build_cut(const struct planner *planner, const struct plan_key *key, int row, int channels,
		      uint32_t chunk_bytes, struct plan *out);
/* The same with all channels that the call is worth, and the longest chunk. */
int planner_build_steps(const struct planner *planner, const struct plan_key *key, int row, struct plan *out);
/* Of its steps, without key and cut. */
uint64_t plan_hash_steps(const struct plan *plan);
/* The same of a row with a codelet as it runs a call. */
int planner_build_codelet(const struct planner *planner, const struct plan_key *key, const struct row *row,
			  const struct plan_call *call, struct plan *out);

/* The most elements that a call of a key has. */
static inline size_t planner_class_count(const struct plan_key *key)
{
	return ((size_t)1 << key->size_class) / corale_type_bytes((corale_type)key->type);
}

/* The same by this planner, be the call small or not, and what the plan costs with the most elements of the key. Where that is most_ns or more, *cost is so too, but no more is sure
 * of it, nor of the plan's chunk. */
int planner_build_priced(const struct planner *planner, const struct plan_key *key, int row, double most_ns,
			 struct plan *out, struct plan_cost *cost);

/* CORALE_ALGO: which rows of the algorithm table a text allows. */

/* text has passed planner_check_algo. A collective that a text does not speak of may use all its rows. */
int planner_algo_allows(const char *text, int row);
/* Whether it excludes a row by ^name. */
int planner_algo_excludes(const char *text, int row);

#endif
