/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plan: one collective call as plain data, the same text for all ranks. Rank, root, count and
 * buffers enter by arithmetic when it is run (plan_eval.h), so a plan holds no pointer and no count,
 * stays under 4 KB whatever the number of ranks, and travels to a GPU by value.
 *
 * Words
 *   group    WORLD, NODE (ranks of my node) or RAIL (one rank of each node: rail r is the ranks
 *            with local rank r mod size of their node).
 *   queue     a first-in-first-out path for messages, one instance per channel and ordered pair of
 *            ranks (or from one rank to ALL of a group). The sender blocks while depth messages are
 *            unread. Whether a pair talks through a mapped window or the transport is the engine's
 *            matter; a queue to oneself carries tokens between the programs of one rank.
 *   program  a list of steps that one execution context of a channel runs in order.
 *   step     MOVE   fold the messages of `from` and the local span src (rank order when from is ALL),
 *                   write the result to the local span dst and/or send it as a message to `to`
 *            SIGNAL send a message without payload;  WAIT  receive one and drop its payload
 *            LOOP / END  repeat; the loop's variable is its nesting depth (0, 1, ...); a loop whose predicate
 *                   is false runs not at all
 *   span     where elements are: space, optional block, part, chunk, inner; see struct plan_span. A step may take several
 *            blocks: its span's block and those behind it (or before it), which after a buffer's last block are its first ones. A fold may
 *            take several cells as sources: src's and those behind it, which after the last cell are the first ones.
 *   chunk    what one message carries at most: chunk_bytes.
 *
 * A step is skipped if its predicate is false or any of its expressions is "none" (negative); a
 * chunk index beyond the call's chunks counts as none. So a plan for uneven nodes has no special cases.
 */
#ifndef PLAN_H
#define PLAN_H

#include <stddef.h>
#include <stdint.h>

enum {
	PLAN_MAX_EXPRS = 48,
	PLAN_MAX_STEPS = 48,
	PLAN_MAX_QUEUES = 4,
	PLAN_MAX_PROGRAMS = 6,
	PLAN_MAX_LOOPS = 4, /* nesting */
	/* Parts, channels and inner pieces start at multiples of this, counted from the vector's start. */
	PLAN_UNIT_BYTES = 64
};

enum plan_group { PLAN_WORLD, PLAN_NODE, PLAN_RAIL };
enum plan_op { PLAN_MOVE, PLAN_SIGNAL, PLAN_WAIT, PLAN_LOOP, PLAN_END };
enum plan_space { PLAN_NOWHERE, PLAN_SEND, PLAN_RECV, PLAN_SCRATCH };
/* What runs a program on GPUs; on hosts threads run all. */
enum plan_engine { PLAN_SM, PLAN_CE, PLAN_NET };
/*
 * PARITY: the sender need not wait for room. The checker proves that safe as long as only calls with PARITY queues use
 * the slots: an engine that makes use of it keeps them apart from those of CREDIT queues. Waiting is right as well.
 */
enum plan_sync { PLAN_CREDIT, PLAN_PARITY };

/* Bytes; chunks are multiples of this, and none is shorter: whole units of every type. */
enum { PLAN_CHUNK_GRAIN = 512 };
enum { PLAN_NONE = -1, PLAN_ALL = -2 }; /* values of a rank in an action */
enum { PLAN_EXPR_NONE = 0, PLAN_EXPR_ALL = 255 }; /* expression indices with a meaning of their own */

/*
 * How a base makes its value, and so what stride, var, wrap, radix, digit, a and b of an expression mean. Members that a form does not name are 0.
 * "The variable" is that of loop var; an expression depends on it where stride is not 0, and by the last three forms always or through a and b.
 */
enum plan_form {
	PLAN_TERM, /* base + stride * variable + offset; modulo the size of group if wrap is set */
	PLAN_BESIDE, /* base + offset */
	PLAN_ALONE, /* the base, without an offset */
	PLAN_AT_STEP, /* the base's value at step or level stride * variable + offset */
	/* By a distance, digit * radix^round with 0 < digit < radix. The variable is the round; wrap: as many before the last one. What stride and
	 * offset do the base says. */
	PLAN_BY_DISTANCE,
	PLAN_OF_VARIABLE, /* the variable and operand a */
	PLAN_OF_OPERANDS /* a, and b where the base has two */
};

/* Operands are indices of expressions: of PLAN_RANK_AT simple ones or PLAN_RAIL_OF, of others simple ones. Which form a base has, and all else that
 * depends on it but its value (plan_eval.h), is in plan_bases. */
enum plan_base {
	PLAN_CONST, /* 0 */
	PLAN_ME, /* my index in group */
	PLAN_AHEAD, /* - my index in group: with wrap and offset i how far the member i is ahead of me */
	PLAN_ROOT, /* the root's (of send and recv: the peer's) index in group */
	PLAN_OTHERS, /* (my index + stride * variable + offset) mod size of group, as an index among all but the root; none: the root */
	PLAN_SIZE, /* size of group */
	PLAN_OWNED, /* parts a rank of my node owns at most: ceil(largest node / my node) */
	PLAN_CHUNKS, /* chunks of the call */
	PLAN_DOUBLING_STEPS, /* floor(log2(size of group)) */
	PLAN_DOUBLING_GIVE, /* recursive doubling: whom I hand my data to before and get the result from after it, or none */
	PLAN_DOUBLING_TAKE, /* the other end of that, or none */
	PLAN_DOUBLING, /* my partner in a step of it, none if I sit it out */
	/* Recursive halving with the partners of doubling: a member that knows a window after step s - 1 keeps one half of it in step s and
	 * gives the other one. Numbers of windows, see struct plan_span; none if I sit it out. */
	PLAN_HALVING_KEPT, /* my window after a step; before the first step (-1) the whole */
	PLAN_HALVING_GIVEN, /* the other half: my partner's window after that step */
	PLAN_POSITION, /* how far I am behind the root in group: (my index - the root's) mod size */
	/* The binomial tree over the positions of a group: the children of position p are p + 2^level, for all levels
	 * with 2^level below the lowest set bit of p, for the root for all levels. */
	PLAN_TREE_PARENT, /* my parent, none for the root */
	PLAN_TREE_CHILD, /* my child of a level, or none */
	PLAN_TREE_BLOCKS, /* members of that child's subtree, which are the positions from the child's on; or none */
	PLAN_TREE_OWN, /* members of my own subtree */
	/* ceil(log(size of group)) to the base radix: rounds in which the distances of all digits reach every member; of 2 the levels of the tree,
	 * and so the children of its root. */
	PLAN_ROUNDS,
	/* Rounds over distances: a member has radix^round blocks, its own first, sends these to the members that are a distance away, one for each
	 * digit, and gets as many from other ones, but no more than are missing. */
	PLAN_BRUCK_PEER, /* (my index + stride * distance + offset) mod size of group; none: no member is so far away */
	PLAN_BRUCK_BLOCKS, /* min(radix^round, size of group - distance), times stride if that is above 0, + offset; none: these are none */
	PLAN_BRUCK_DISTANCE, /* distance, times stride if that is above 0, + offset */
	PLAN_BRUCK_SET, /* numbers below size of group that have the distance's bit, + offset; of radix 2 */
	PLAN_SIMPLE_BASES,
	/* The (variable)-th part that local rank a of my node owns: a + variable * size of my node; none from the
	 * largest node's size on. */
	PLAN_RAIL_OF = PLAN_SIMPLE_BASES,
	PLAN_SEND_CHUNKS, /* chunks of the edge to rank a (all_to_all_v) */
	PLAN_RECV_CHUNKS, /* chunks of the edge from rank a */
	PLAN_RANK_AT, /* rank at node a, local rank b; none if that node is smaller */
	PLAN_BASES
};

struct plan_expr { /* 16 bytes */
	uint8_t base, group, var, wrap;
	int8_t stride;
	uint8_t a, b, radix, digit, pad[3];
	int32_t offset;
};

/* To the cost model: which messages a step waits for that receives from a rank with this base. */
enum plan_wait {
	PLAN_WAIT_PASSED, /* each, if the step passes it on; else the first of each chunk */
	PLAN_WAIT_EACH, /* each: its sender has had to wait for one more rank than the one before */
	PLAN_WAIT_FIRST /* the first of each chunk: the others are sent at the same time */
};

/* How the value differs from rank to rank where all nodes have one size. */
enum plan_symmetry {
	PLAN_UNLIKE, /* nothing is known */
	PLAN_ROTATED, /* the circle of the group looks the same from each member */
	PLAN_EQUAL /* not at all, or as the expressions that are its operands do */
};

/* All that the base of an expression decides beside its value. */
struct plan_base_info {
	/* As text: m my index, r the root's and s the size of group by their names, v stride * variable + offset, i the variable, d the distance, p the
	 * power of the radix, x a radix that is not 2, + the sign of stride, a and b operands, ( and ) parentheses if there is an offset, each behind a %. */
	const char *text;
	enum plan_form form;
	int operands;
	enum plan_wait wait;
	enum plan_symmetry symmetry;
	int counts_chunks; /* a loop with so many trips is one over chunks */
	int is_window; /* as an inner index: of a window, see struct plan_span */
};
extern const struct plan_base_info plan_bases[PLAN_BASES];

/*
 * A span of elements. All members but space are expression indices, PLAN_EXPR_NONE when absent.
 * From the outside in: [block of count elements] -> [one of the plan's parts] -> my channel's slice
 * -> [one chunk] -> [one of the plan's inner pieces]. In SCRATCH, block is a cell (one chunk each);
 * where steps take several blocks a cell is a block.
 *
 * An inner index from the plan's number of pieces on is that number plus w - 1, which means window w of the chunk: 1 is
 * the whole, 2 w and 2 w + 1 are the halves of w. So where there is one piece, w is the index.
 */
struct plan_span {
	uint8_t space, block, part, chunk, inner;
};

enum plan_flags {
	PLAN_REDUCE = 1, /* fold with the call's operator; without it a MOVE has one source */
	PLAN_FINAL = 2, /* all contributions are in: divide for avg, round to the call's type */
	/* The spans that hold the message (src of a plain move, dst) are not written again, in place or not, before it
	 * was read: it may be sent by reference. */
	PLAN_STABLE = 4,
	/* dst is not read or written before in this call, in place or not: the message may land in it early. */
	PLAN_FRESH = 8,
	/* Of several blocks: those of a buffer are its span's block and those before it; before the first one is the last. */
	PLAN_BACK = 64
};
enum plan_pred { PLAN_ALWAYS, PLAN_EQ, PLAN_NE, PLAN_LT, PLAN_GE };

struct plan_step { /* 32 bytes */
	uint8_t op, flags;
	uint8_t pred, pred_a, pred_b; /* a EQ/NE/LT/GE b, expressions (here PLAN_EXPR_NONE reads as 0) */
	/* from, to: expression: index in the group, PLAN_EXPR_NONE, PLAN_EXPR_ALL */
	uint8_t from_group, from, from_queue;
	uint8_t to_group, to, to_queue;
	uint8_t rail; /* expression: which rail, for groups RAIL; PLAN_EXPR_NONE: my local rank */
	uint8_t trips; /* LOOP: expression */
	struct plan_span src, dst;
	/* Expressions. blocks: how many whole blocks a MOVE takes, in a message half of all at most; PLAN_EXPR_NONE: one, or what the span cuts from
	 * it. run: of several cells, how many lie in a run that is followed by as many that are left out; PLAN_EXPR_NONE: all lie in one. */
	uint8_t blocks, run;
	/* Expression: how many cells a fold takes, in their order, each as long as src; PLAN_EXPR_NONE: src alone. */
	uint8_t cells;
	uint8_t pad[6];
};

struct plan_queue {
	uint8_t sync; /* enum plan_sync */
	uint8_t depth; /* messages in flight at most */
	uint8_t all; /* set by plan_finish: its messages go to ALL (then none goes to a single peer) */
	uint8_t folded; /* set by plan_finish: some of its messages are folded, not only copied */
};

struct plan_program {
	uint8_t engine, first, steps;
	/* Blocks of a GPU that share the elements of each action, >= 1; a host needs but one thread. */
	uint8_t width;
};

/* What all ranks of a call share and what decides the plan. Compared with memcmp: always memset to 0 first. */
struct plan_key {
	uint8_t coll; /* corale_coll */
	uint8_t type; /* corale_type */
	uint8_t op; /* corale_op; any premultiplied sum is CORALE_NUM_OPS */
	uint8_t size_class; /* smallest s with total bytes <= 2^s; see planner.h */
};

struct plan {
	struct plan_key key;
	uint8_t algo; /* row of the algorithm table */
	uint8_t codelet; /* codelet.index: what runs it on GPUs; 0: the step executor of hosts, or lowered */
	uint8_t protocol; /* enum plan_protocol: how that codelet's messages say that they are there */
	uint8_t channels; /* slices of every part, run side by side */
	uint8_t nexprs, nsteps, nqueues, nprograms;
	/* Set by plan_finish: some steps take several blocks; then there is one channel, and chunk_bytes are no less than a message. */
	uint8_t spans;
	int32_t parts, inner; /* how PLAN part and inner indices cut a vector, >= 1 */
	uint32_t chunk_bytes;
	uint32_t scratch_cells; /* cells of chunk_bytes per channel; blocks where steps take several */
	struct plan_queue queues[PLAN_MAX_QUEUES];
	struct plan_program programs[PLAN_MAX_PROGRAMS];
	struct plan_expr exprs[PLAN_MAX_EXPRS]; /* [0] stands for absent */
	struct plan_step steps[PLAN_MAX_STEPS];
};

/* The shared map rank -> (node, local rank), as arrays that host and device code can index. */
struct plan_map {
	int ranks, nodes, max_node_size;
	const int *node_of, *local_of, *node_first, *member;
};

/* ---- Building (used by the algo_*.c files) ----------------------------------- */
/*
 * Builders append to a plan that plan_init has cleared; equal expressions share an index. A full table
 * marks the plan broken (plan_finish then returns CORALE_EINTERNAL), so builders need no error checks.
 */
void plan_init(struct plan *plan, const struct plan_key *key);
uint8_t plan_expr(struct plan *plan, struct plan_expr expr);
uint8_t plan_const(struct plan *plan, int value);
/* A base with stride * variable + offset; my index wraps around the group, other bases do not */
uint8_t plan_term(struct plan *plan, enum plan_base base, enum plan_group group, int var, int stride,
		  int offset);
/* (my index + stride * variable + offset) mod size of group */
uint8_t plan_shift(struct plan *plan, enum plan_group group, int var, int stride, int offset);
/* variable + offset */
uint8_t plan_var(struct plan *plan, int var, int offset);
uint8_t plan_base(struct plan *plan, enum plan_base base, enum plan_group group, int offset);
/* Rounds over distances by powers of radix among the group */
uint8_t plan_rounds(struct plan *plan, enum plan_group group, int radix, int offset);
uint8_t plan_queue(struct plan *plan, enum plan_sync sync, int depth);
void plan_program(struct plan *plan, enum plan_engine engine);
void plan_width(struct plan *plan, int width); /* of the program last begun; 1 unless said */
int plan_loop(struct plan *plan, uint8_t trips); /* returns the loop's variable */
int plan_loop_if(struct plan *plan, uint8_t trips, enum plan_pred pred, uint8_t a, uint8_t b);
void plan_end(struct plan *plan);
void plan_step(struct plan *plan, struct plan_step step);
int plan_finish(struct plan *plan); /* structural checks: loops closed, tables not full, indices in range */

/* Whether an expression's value depends on a loop's variable. */
int plan_depends(const struct plan *plan, int e, int var);
/* Whether it is my own index. */
int plan_is_self(const struct plan_expr *expr);

struct plan_env; /* plan_eval.h */
/* Everything but rank and channel that a plan needs besides itself to be read (plan_eval.h). */
void plan_env_init(struct plan_env *env, const struct plan *plan, const struct plan_map *map, int rank,
		   int root, size_t count);
/* Adds a v-form's arrays, by rank: send counts and displacements, receive counts and displacements; NULL: the rank has none. own: of its own block. */
void plan_env_uneven(struct plan_env *env, const struct plan *plan, const size_t *const arrays[4],
		     size_t own);

#endif
