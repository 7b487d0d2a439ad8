/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host side and the fused kernels of one GPU node agree on: the layout of a window, the arguments of each
 * kernel, and the launchers. Compiles as C and as CUDA.
 *
 * A codelet runs a whole plan of a known shape in one launch. Its messages are those of the plan; what differs is how a
 * message carries its readiness:
 *   words   16-byte packets, ready when no 32-bit word is all ones (floats only: such a word is a NaN, which the sender
 *           replaces by another; the receiver refills the packet with ones after reading)
 *   lines   128-byte lines of 8 lanes, 120 bytes of data, then the epoch and the call's tag
 *   slots   a message of many bytes, then a flag {epoch, number} in a place of its own
 * Words and lines are double buffered, by the parity of the epoch. Two halves suffice: a rank that has finished a call has a
 * signal (a line or a header) from every rank, so no rank is two calls ahead of another. A refilled packet is empty before a
 * peer's store two calls later, because that store follows a signal of the call between, which this rank sends after refilling.
 *
 * Windows of all ranks are mapped at one distance from each other, so that a kernel needs one pointer and a stride. Others
 * write into a window; only its owner reads it.
 */
#ifndef CODELETS_H
#define CODELETS_H

#include <stddef.h>
#include <stdint.h>

#include "exports.h"
#include "remote.h"
#include "base/status.h"
#include "base/types.h"
#include "plan/lower.h"
#include "plan/plan_eval.h"
#include "plan/codelet/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	CODELET_MAX_RANKS = LOWERED_MOST_RANKS,
	CODELET_MAX_BLOCKS = LAUNCH_MAX_BLOCKS, /* of one launch */
	CODELET_MAX_MESSAGES = 160, /* of one launch */
	CODELET_CHANNELS = LAUNCH_CHANNELS, /* of a message between two ranks at most */
	CODELET_LINE = LAUNCH_LINE,
	CODELET_NUMBER_BITS = 20, /* of a message's number in its epoch, where a flag has it beside that */
	CODELET_LINE_DATA = LAUNCH_LINE_DATA,
	CODELET_FEW_RANKS = PLAN_FEW_RANKS /* ranks at most of kernels that have a pointer for each */
};

/*
 * Sends and receives in lines: a message's slots, of four lines, go to the rings of the pair in turn. A warp looks after a ring;
 * that of a channel are as many as a block has warps.
 */
enum {
	CODELET_SLOT_LINES = 4,
	CODELET_LINE_SLOT = CODELET_SLOT_LINES * CODELET_LINE,
	CODELET_WORD_SLOT_DATA = CODELET_LINE_SLOT / 2 - 8, /* where it is filled with words */
	CODELET_CHANNEL_RINGS = PLAN_CODELET_THREADS / 32,
	CODELET_RING_CHANNELS = 64, /* at most */
	CODELET_RING_DEPTH = 4, /* slots of a ring at least, */
	CODELET_FILLED_DEPTH = 6 /* and before there are more rings; 64 at most */
};

/* One ring of a pair as one of its ends sees it, in GPU memory behind its codelet_state: by [peer][ring]. */
struct codelet_ring_end {
	uint64_t sent, received; /* slots, by this end */
	uint16_t send_at, receive_at; /* the slot's place in the ring that comes next */
	uint16_t unsignalled; /* taken out, and not yet signalled */
	uint16_t pad;
};

/* What its receiver has taken out, which says so in the sender's window, not for each slot: by [receiver][ring]. A sector each, as a warp polls each. */
struct codelet_ring_taken {
	uint64_t slots;
	uint64_t pad[3];
};

/* Flags and acknowledgements of their own, each word written by one rank only. */
enum codelet_ring {
	CODELET_FIRST,
	CODELET_SECOND,
	CODELET_PAIRS,
	CODELET_LOWERED, /* one a ring of the plan */
	CODELET_RINGS = CODELET_LOWERED + PLAN_MAX_QUEUES
};

struct codelet_layout {
	uint32_t ranks;
	uint64_t headers, refs, flags, acks, grants, message_refs, rings_taken, words, lines, rings,
	    slots; /* offsets in a window */
	uint64_t bytes; /* of all */
	uint64_t words_bytes, lines_bytes; /* of one sender in one half */
	uint32_t pair_rings, ring_depth; /* of one sender; slots of a ring */
	uint64_t slots_bytes; /* of one sender */
};

/* A line: two packets that each hold the low 32 bits of their epoch twice; but in epoch_b the high ones are mixed. */
struct codelet_header {
	uint32_t signature_low, epoch_a, signature_high, epoch_b;
	uint32_t typed_bytes_low, epoch_c, typed_bytes_high, epoch_d; /* a message between two ranks holds */
	/* of copies, by sequence: {epoch, step}, which only grows; in the line of half 0 */
	uint64_t steps[5];
	uint32_t pad[2];
	/* of a lowered all_to_all_v: what the edge from this sender holds, with the call's epoch as a header has it */
	uint32_t edge_low, epoch_e, edge_high, epoch_f;
	uint32_t pad_to_line[8];
};

/*
 * What one end of a message between two ranks says of a channel to the other end, in that one's window, for each rank and channel: two packets of a word each, with the
 * message's epoch. A grant, to the sender: first, where it may store the channel: a target in the receiver's registered memory, (region + 1) << CODELET_TARGET_SHIFT | offset of
 * its buffer; or, below that, the channel's slots: lines of one << 32 | where they begin in the receiver's slots, in lines. Second, codelet_typed_bytes of the message; a sender
 * of another may not store. A ref, to a receiver that may read the message (codelet_may_be_read): first, index and offset of the export where it lies; second, its number, 0: in none.
 */
struct codelet_channel_words {
	uint32_t first[4], second[4];
};

enum { CODELET_TARGET_SHIFT = 48 };

/* The first words of a window: set by whoever fails first. */
struct codelet_control {
	uint64_t abort; /* 0, or rank + 1 << 32 | -code */
};

/* What went wrong first on this GPU, in host memory that kernels write; code last. */
struct codelet_failure {
	int32_t code, peer;
	uint64_t epoch, expected, got; /* signatures */
	uint32_t number; /* of the call that failed, as its args say */
	uint32_t of_message; /* expected and got are codelet_typed_bytes */
};

enum codelet_abort_word { CODELET_LOCAL_ABORT = 1 << 30 /* the other ranks' windows are not told */ };

/* In this GPU's own memory; never reset. A block reads its own entries only, so no block waits for another. */
struct codelet_state {
	uint64_t epochs[CODELET_MAX_BLOCKS];
	/* Of each channel: messages of each ordered pair. */
	uint64_t pair_sent[CODELET_CHANNELS][CODELET_MAX_RANKS];
	uint64_t pair_received[CODELET_CHANNELS][CODELET_MAX_RANKS];
	/* For waits that last. */
	const uint32_t *
	    host_abort; /* in host memory: non-zero, -code perhaps with CODELET_LOCAL_ABORT, ends all waits */
	const uint32_t *hold; /* in host memory: while it is set a kernel that has failed does not end */
	uint64_t *
	    waits; /* by rank, in host memory: {a call's number, 32 bits of time}; changes while a kernel waits for the rank */
	struct codelet_failure *failure; /* in host memory */
	uint64_t timeout_ns;
	uint32_t recorded;
	struct codelet_control alone; /* in place of a window where there is no other rank */
	uint32_t holder; /* the last launch of which a thread has begun to hold the stream */
	uint64_t
	    agreed; /* the last epoch of which the first block has had all headers; for the others, over windows in host memory */
	uint64_t done; /* what the launches that are counted have added: see codelet_args.counted */
	/* Blocks that have ended a job that is waited for, by its number's parity; 0 in between. */
	uint32_t worked[2];
};

/* Made by the host, so that a small call has few instructions before its first store and between arrival and result. */
struct codelet_few_ranks {
	/* In half 0: my packets' places at ranks rank + 1, rank + 2, ...; the other ranks' packets here, in rank order. */
	unsigned char *out[CODELET_FEW_RANKS - 1];
	const unsigned char *in[CODELET_FEW_RANKS - 1];
	uint32_t half; /* bytes from half 0 to half 1 */
	/* Of a two-shot: where each rank's part of a piece begins, and the end; of the last piece. */
	uint32_t part_at[CODELET_FEW_RANKS + 1], last_at[CODELET_FEW_RANKS + 1];
};

/*
 * A call that may be zero-copy: all ranks know that from facts that they share. Whether it is one is what each block decides from what all ranks say of their buffers
 * (codelet_refs), so all decide alike. What this rank knows alone (buffers in no export, results that overwrite) is in these fields.
 */
struct codelet_zero_copy {
	const struct exports *const
	    *exports; /* by rank of the node, in GPU memory; NULL: the call goes through slots */
	const struct exports_own *own;
	struct export_ref send, recv; /* number 0: in no export */
	uint32_t read; /* which of them peers read: CODELET_READS_SEND, CODELET_READS_RECV */
	uint32_t
	    cannot; /* 1: peers may not read them, as for a result that overwrites what they have yet to read */
	uint32_t refs; /* offset in a window: codelet_layout.refs */
	uint32_t channels; /* where buffers are read: other blocks have nothing to do then */
};

enum { CODELET_READS_SEND = 1, CODELET_READS_RECV = 2 };

/* A rank's buffers that others read: inputs, and results that are passed on. */
static inline uint32_t codelet_read_by_peers(corale_coll coll, int is_root, int ranks)
{
	switch (coll) {
	case CORALE_ALL_REDUCE:
		return CODELET_READS_SEND | CODELET_READS_RECV;
	case CORALE_BROADCAST:
		return is_root ? CODELET_READS_SEND : ranks > 2 ? CODELET_READS_RECV : 0;
	case CORALE_SCATTER:
		return is_root ? CODELET_READS_SEND : 0;
	case CORALE_REDUCE: /* of two ranks the root folds; of more the others do */
		return is_root && ranks == 2 ? 0 : CODELET_READS_SEND;
	case CORALE_GATHER:
		return is_root ? 0 : CODELET_READS_SEND;
	default:
		return CODELET_READS_SEND;
	}
}

/*
 * What a rank tells each other one of its buffers, and which exports it has open: packets of 8 bytes of data that hold their epoch twice, as headers do. By the
 * epoch's parity and the sender, in every window, the sender's own too, from where its other blocks read it: what all ranks see is the same.
 */
enum codelet_ref {
	CODELET_REF_SEND, /* export_ref.offset, and its index above EXPORTS_OFFSET_BITS */
	CODELET_REF_RECV,
	CODELET_REF_NEED, /* low: the highest number of the buffers that peers read; high: 1 if these are all usable */
	CODELET_REF_OPENED, /* from here on, two ranks a packet: exports.opened, 32 bits at most */
	CODELET_REFS = CODELET_REF_OPENED + EXPORTS_MOST_RANKS / 2
};

struct codelet_refs {
	uint32_t packets[16][4];
};
static_assert((int)CODELET_REFS <= 16, "packets of a rank");
static_assert((int)EXPORTS_MOST_RANKS == (int)LAUNCH_ZERO_COPY_RANKS, "ranks of a call");

struct codelet_args {
	struct codelet_few_ranks few_ranks;
	const unsigned char *send;
	unsigned char *recv;
	struct codelet_state *state;
	int32_t rank, ranks, root; /* root: the only rank that sends, or -1 */
	int32_t op; /* codelet_op */
	uint64_t bytes; /* of a block or vector */
	uint64_t send_block, recv_block; /* bytes from one rank's block to the next one's; 0: one for all */
	uint32_t piece, pieces; /* of packets: bytes of all but the last; each has an epoch */
	uint32_t tag; /* what lines carry of the signature */
	/* Of a call that is not captured: each block, of an exchange of few ranks (codelets_one_shot_few) each warp, adds one to codelet_state.done as the last
	 * thing that it does. What fails adds nothing. */
	uint32_t counted;
	uint32_t follows; /* the kernel before it on the stream is codelets_follow's */
	uint64_t signature;
	uint64_t scalar; /* of a premultiplied sum: the element's bits */
	uint32_t number; /* the host's, for what fails */
	uint32_t launch; /* differs from launch to launch; 0: if it fails it does not hold its stream */
	unsigned char *windows; /* rank r's at windows + r * stride */
	uint32_t stride;
	uint32_t slot_bytes; /* of one message in slots */
	uint32_t depth; /* messages in flight in a channel's slots */
	uint32_t headers, flags, acks, area, area_bytes; /* offsets; area: words, lines or slots */
	uint32_t
	    one_polls; /* windows lie in host memory, where a word has one warp of a block that polls it */
	/* By rank: registered memory that holds recv at peers_at, or NULL: through slots. */
	unsigned char *const *peers;
	uint64_t peers_at;
	unsigned char *const *slots; /* by rank: scratch for slots, or NULL: those of the window */
	const void
	    *scalar_at; /* where the scalar lies in memory, which is read when the kernel runs, or NULL */
	struct codelet_zero_copy zero_copy;
};

/*
 * The operator in a kernel's arguments: op_kind. Where signed and unsigned integers share kernels, min, max and avg of unsigned ones have CODELET_UNSIGNED.
 * Where one kernel folds several types (type_folds_lowered), the type is above CODELET_OP_BITS.
 */
enum { CODELET_UNSIGNED = 16, CODELET_OP_BITS = 8 };
static_assert((int)CORALE_NUM_OPS < (int)CODELET_UNSIGNED, "a bit of its own");

static inline int codelet_op(corale_type type, corale_op op)
{
	const int by_sign = op == CORALE_MIN || op == CORALE_MAX || op == CORALE_AVG;
	const int is_unsigned = type_shares_kernels(type) && type_rows[type].kind == TYPE_UNSIGNED;
	if (type_folds_lowered(type, op_kind(op)))
		return (int)op | (int)type << CODELET_OP_BITS;
	return op_kind(op) | (by_sign && is_unsigned ? CODELET_UNSIGNED : 0);
}

/* Of such an operator. */
PLAN_FN int codelet_op_type(int op)
{
	return op >> CODELET_OP_BITS;
}

PLAN_FN int codelet_op_kind(int op)
{
	return op & ((1 << CODELET_OP_BITS) - 1);
}

/* One message between two ranks, or within one (then both pointers are set). */
struct codelet_message {
	unsigned char *data; /* sent from, or received into */
	const unsigned char *from; /* of a copy within the rank */
	uint64_t bytes;
	int16_t peer;
	uint8_t sending, more; /* more: the next message is of the same pair and direction */
	uint32_t typed_bytes_high; /* of codelet_typed_bytes */
};

enum {
	CODELET_TYPE_SHIFT_IN_LINE = 27,
	CODELET_TYPE_SHIFT = CODELET_TYPE_SHIFT_IN_LINE + 32 /* where the type begins */
};

/* What both ends of a message must agree on: its type above its bytes. In a line it has 32 bits. */
PLAN_FN uint32_t codelet_typed_bytes_high(int type, uint64_t bytes)
{
	return (uint32_t)type << CODELET_TYPE_SHIFT_IN_LINE | (uint32_t)(bytes >> 32);
}

PLAN_FN uint64_t codelet_typed_bytes(const struct codelet_message *m)
{
	return (uint64_t)m->typed_bytes_high << 32 | (uint32_t)m->bytes;
}

PLAN_FN uint32_t codelet_typed_bytes_in_line(const struct codelet_message *m)
{
	return m->typed_bytes_high | (uint32_t)m->bytes;
}

PLAN_FN uint64_t codelet_typed_bytes_of_line(uint32_t typed_bytes)
{
	const uint32_t bytes = typed_bytes & ((1u << CODELET_TYPE_SHIFT_IN_LINE) - 1);
	return (uint64_t)(typed_bytes - bytes) << 32 | bytes;
}

enum {
	CODELET_MAX_LISTS = CODELET_MAX_MESSAGES,
	CODELET_THREADS = PLAN_CODELET_THREADS,
	CODELET_WORK_THREADS = LAUNCH_WORK_THREADS, /* of jobs, at most */
	CODELET_BULK_THREADS = LAUNCH_BULK_THREADS
};

/* What a group's messages are. */
enum codelet_pairs {
	CODELET_NO_PAIRS, /* of an all_to_all_v: in slots */
	CODELET_LINE_PAIRS, /* sends and receives: in lines, in slots or into their buffers */
	CODELET_WORD_PAIRS /* the same over a link that tears lines: in words of 8 bytes instead */
};

/* Messages that start together. Of the blocks of a list, b runs channels b, b + blocks, ... of each message. */
struct codelet_group {
	struct codelet_args args;
	uint16_t lists, many_blocks,
	    blocks; /* the first `many_blocks` lists have so many blocks, the others one */
	uint16_t most_channels; /* of any message; the slots are cut for them */
	uint16_t pairs; /* enum codelet_pairs; sends and receives are counted per ordered pair */
	uint16_t rings, depth; /* of lines, of a pair; slots of a ring */
	uint16_t teams; /* bulk_p2p runs it: all of `blocks` serve all lists; */
	uint16_t sending; /* so many of these, the first ones, send long messages; */
	uint16_t
	    sends_wait; /* 1: the buffers of all of these are in exports, so that receivers read them: few warps send */
	uint16_t in_lines; /* so many, the last ones, have short ones */
	uint32_t short_bytes; /* at most, of a message in lines whatever its receiver's buffer; */
	uint32_t long_bytes; /* of one in lines to a receiver without a registered buffer */
	uint64_t read_bytes; /* at least, of a message that its receiver may read where it lies; 0: of none */
	uint32_t rings_taken, ring_slots; /* offsets */
};

PLAN_FN int codelet_group_blocks(const struct codelet_group *g)
{
	return g->teams ? g->blocks : g->many_blocks * g->blocks + (g->lists - g->many_blocks);
}

/* Of messages between nodes, in this GPU's own memory; never reset. */
struct remote_call_counts {
	uint64_t calls; /* begun */
	uint32_t blocks; /* of the call under way that have ended */
	uint32_t pad;
	struct {
		uint64_t messages[2][REMOTE_CONNECTIONS]; /* of earlier calls, by enum remote_direction */
		uint64_t free
		    [REMOTE_CONNECTIONS]; /* the proxy's word, as it was last seen: to load that takes a microsecond */
	} peers[];
};

/* Messages to and from ranks of other nodes. A peer's number is its seat: that of a rank of this node, or args.ranks and up those of others. */
struct remote_calls {
	struct remote remote;
	struct remote_call_counts *counts;
	const remote_offset *offsets; /* by remote_end_index, in GPU memory */
};

/* Each list in order, all lists at once. Of pairs, args.area_bytes is one of the equal rooms that the lists which need slots share. */
struct codelet_p2p {
	struct codelet_group group;
	uint32_t grants, message_refs, rooms; /* of pairs: offsets; how many rooms */
	uint8_t begins, ends; /* a call with messages to other nodes, which may have several launches */
	struct remote_calls remote;
	unsigned char *const *regions; /* of pairs: registered memory, a row of all ranks a region */
	uint32_t first[CODELET_MAX_LISTS]; /* of each list's messages */
	struct codelet_message messages[CODELET_MAX_MESSAGES];
	/* Of receives: buffers as targets; or lines of a slot << 32 | the number of a room. Of sends: the number of the buffer's export, or 0. */
	uint64_t places[CODELET_MAX_MESSAGES];
};

enum { CODELET_FEW_MESSAGES = 8 };

/* Lists of one small message each. */
struct codelet_few_messages {
	struct codelet_group group;
	struct codelet_message messages[CODELET_FEW_MESSAGES];
};

/*
 * How far a rank has come with a call's copies: counters {epoch, step} in the windows of all ranks. Each sequence is written by one stream
 * only, so its counters never decrease: arrivals, those of a second stream, barriers, what has been taken out of scratch. WORKED is written
 * by this rank's own work, to this rank alone.
 */
enum codelet_sequence {
	CODELET_ARRIVALS,
	CODELET_SECOND_ARRIVALS,
	CODELET_BARRIERS,
	CODELET_TAKEN,
	CODELET_WORKED
};

/* What one warp does between copies: signals a step, then waits for one. */
struct codelet_step {
	struct codelet_args args;
	uint32_t sequence, signal, wait; /* steps; 0: none */
	int32_t of; /* whose step is waited for: rank + 1; 0: all ranks' */
	uint32_t headers; /* the first of a call, which sends headers and waits for those of all ranks */
	uint32_t last; /* it ends the call's epoch */
};

/* A piece of work beside copies: the fold of all ranks in their order, or a copy within the GPU. */
struct codelet_job {
	const unsigned char *others; /* the other ranks' inputs, in rank order, NULL: a copy; */
	uint64_t stride; /* so many bytes from each other */
	const unsigned char *own;
	unsigned char *to;
	uint64_t bytes;
	uint32_t sequence, arrival; /* the step before which it can't begin; 0: none */
	int32_t of; /* whose: rank + 1; 0: all ranks' */
	uint32_t done; /* the step of the own work that it ends; 0: nobody waits for it */
};

enum { CODELET_JOBS = 32 };

/* Jobs in their order, all by the same blocks: these find their place on a busy GPU once. */
struct codelet_work {
	struct codelet_args args;
	uint32_t jobs, last; /* last: it ends the call's epoch */
	uint32_t tiles; /* lean copies are made by the copy unit, where there is one */
	struct codelet_job job[CODELET_JOBS];
};

enum {
	CODELET_LOWERED_OPS = LOWERED_MOST_OPS /* of a program at most */,
	CODELET_LOWERED_PEERS = 2048, /* of a list */
	CODELET_FEW_FAR = 8
};

/* How the messages of a lowered plan carry their readiness. */
enum lowered_form {
	LOWERED_FIFO, /* slots, flags and credits */
	LOWERED_LL128, /* lines of 128 bytes that arrive whole: over NVLink. No loop over chunks runs more than once */
	LOWERED_LL, /* the same by words of 8 bytes, half of which is the flag: over any link */
	LOWERED_FAR /* the same, data behind one flag at the slot's end: over windows in host memory */
};

/* A lowered plan: a block for each program and channel. */
struct codelet_lowered {
	struct codelet_args args; /* slot_bytes: from one slot to the next; area: the slots */
	struct lowered_call call;
	const struct lowered_op *ops; /* in GPU memory, with the peers */
	const struct lowered_peer *peers;
	uint16_t first[PLAN_MAX_PROGRAMS + 1]; /* operations of each program */
	uint32_t channels;
	/* Slots of a queue; where a ring's begin, in slots. Where messages are packets a queue has a place for each of a call's, in
	 * each of two halves. */
	uint32_t depth[PLAN_MAX_QUEUES], ring_at[PLAN_MAX_QUEUES];
	uint16_t form, npeers; /* enum lowered_form; of the list */
	/* Ranks of other nodes in the list: peer args.ranks + k of it is number far_peers[k] among them. */
	const int16_t *far_peers;
	int16_t few_far[CODELET_FEW_FAR]; /* the same, where they are so few */
	uint16_t nfar;
	uint16_t first_channel; /* of its connections to them */
	uint16_t threads; /* of a block; in slots at least two for each rank of the list */
	uint8_t all_receive_from_all,
	    receives_from_all; /* each rank, and this one, receive something from each other one */
	uint8_t element; /* bytes of one, where type_folds_lowered: by slots only; else 0 */
	int32_t world; /* ranks of all nodes */
	uint32_t
	    epochs; /* of this call, for its messages' numbers; odd, as halves and headers of calls take turns */
	struct remote_calls remote;
	unsigned char *scratch;
	uint64_t scratch_bytes; /* of a channel */
};

/* A lowered all_to_all_v, through slots. All of its call is in bytes: counts and displacements, by rank, too. */
struct codelet_lowered_all_to_all_v {
	struct codelet_lowered plan;
	int32_t type; /* for codelet_typed_bytes */
	size_t send_counts[CODELET_MAX_RANKS], send_displs[CODELET_MAX_RANKS];
	size_t recv_counts[CODELET_MAX_RANKS], recv_displs[CODELET_MAX_RANKS];
};

/* Whether a place that is granted is a target in registered memory. */
PLAN_FN int codelet_is_target(uint64_t place)
{
	return place >> CODELET_TARGET_SHIFT != 0;
}

/* Lines of a message; 1 at least. */
PLAN_FN uint64_t codelet_lines(uint64_t bytes)
{
	return bytes ? (bytes + CODELET_LINE_DATA - 1) / CODELET_LINE_DATA : 1;
}

/* Data of a slot of lines between two ranks. Of words half is data, and the first 8 bytes of that say the message's type and bytes. */
PLAN_FN uint32_t codelet_line_slot_data(const struct codelet_group *g)
{
	return g->pairs == CODELET_WORD_PAIRS ? (uint32_t)CODELET_WORD_SLOT_DATA
					      : (uint32_t)CODELET_SLOT_LINES * CODELET_LINE_DATA;
}

/* Slots of lines of a message; 1 at least. */
PLAN_FN uint64_t codelet_line_slots(const struct codelet_group *g, uint64_t bytes)
{
	const uint32_t data = codelet_line_slot_data(g);
	return bytes ? (bytes + data - 1) / data : 1;
}

/* What a pair's rings hold at a time, in lines. */
PLAN_FN uint64_t codelet_rings_room(uint64_t rings, uint64_t depth)
{
	return rings * depth * CODELET_SLOT_LINES * CODELET_LINE_DATA;
}

/* Whether a message of a group travels in lines, whatever its receiver's buffer. */
PLAN_FN int codelet_in_lines(const struct codelet_group *g, uint64_t bytes)
{
	return g->pairs && bytes <= g->short_bytes && bytes >> CODELET_TYPE_SHIFT_IN_LINE == 0;
}

/* Whether one does that has no registered buffer. */
PLAN_FN int codelet_in_long_lines(const struct codelet_group *g, uint64_t bytes)
{
	return g->pairs && bytes <= g->long_bytes && bytes >> CODELET_TYPE_SHIFT_IN_LINE == 0;
}

/* Whether its receiver may read a message where it lies: then it goes in no lines, and a channel is granted when its sender has said where that is. */
PLAN_FN int codelet_may_be_read(const struct codelet_group *g, uint64_t bytes)
{
	return g->read_bytes && bytes >= g->read_bytes;
}

/* Channels that share a message: by its bytes alone, so that both ends agree. */
PLAN_FN uint32_t codelet_channels(const struct codelet_group *g, uint64_t bytes)
{
	uint64_t channels = bytes / LAUNCH_CHANNEL_BYTES + 1, most = g->most_channels;
	if (codelet_in_long_lines(g, bytes)) {
		channels = (codelet_line_slots(g, bytes) + CODELET_CHANNEL_RINGS - 1) / CODELET_CHANNEL_RINGS;
		most = (g->rings + (uint32_t)CODELET_CHANNEL_RINGS - 1) / CODELET_CHANNEL_RINGS;
	}
	return (uint32_t)(channels < most ? channels : most);
}

/* The place of what `sender` sends in the window of `receiver`, in rank order: a rank sends nothing to itself. */
PLAN_FN uint32_t codelet_index(int sender, int receiver)
{
	return (uint32_t)(sender - (sender > receiver));
}

/* Whether an address or a size is no multiple of 4. */
PLAN_FN int codelet_is_unaligned(const struct codelet_args *a)
{
	uintptr_t all = (uintptr_t)a->send | (uintptr_t)a->recv | a->bytes | a->send_block | a->recv_block;
	return (all & 3) != 0;
}

/* Where part `part` of a two-shot's vector begins: cut as in plans, in whole units. */
PLAN_FN uint32_t codelet_part(uint32_t bytes, uint32_t ranks, uint32_t part)
{
	uint32_t units = (bytes + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES, each = units / ranks,
		 more = units % ranks;
	uint32_t at = (part * each + (part < more ? part : more)) * PLAN_UNIT_BYTES;
	return at < bytes ? at : bytes;
}

/* How many rings so many slots make, whole channels of them where there are several channels. */
PLAN_FN uint32_t codelet_cut_rings(uint64_t slots)
{
	uint64_t rings = slots / CODELET_FILLED_DEPTH,
		 most = (uint64_t)CODELET_RING_CHANNELS * CODELET_CHANNEL_RINGS;
	if (rings > CODELET_CHANNEL_RINGS)
		rings = rings / CODELET_CHANNEL_RINGS * CODELET_CHANNEL_RINGS;
	return (uint32_t)(rings < 1 ? 1 : rings < most ? rings : most);
}

/* At most so many bytes of packets: whole turns, if there is one. That is what a GPU has under way, a vector a thread. */
PLAN_FN uint64_t codelet_turns(uint64_t bytes)
{
	const uint64_t turn = 128 * (uint64_t)CODELET_THREADS * 16, unit = bytes < turn ? 4096 : turn;
	return bytes / unit * unit;
}

/*
 * Divides about `budget` bytes; the same on all ranks. Of words there are two halves and in each two exchanges, in which every other rank
 * sends a part of a two-shot's piece: pieces have one size whatever the number of ranks. What packets don't need makes longer slots:
 * sends of 2 GPUs, 2 GB, by slots of 80 KB 5957 us, of 104 KB 5891.
 */
PLAN_FN void codelet_layout_init(struct codelet_layout *l, int ranks, uint64_t budget)
{
	uint64_t others = (uint64_t)(ranks > 1 ? ranks - 1 : 1), at = CODELET_LINE;
	l->ranks = (uint32_t)ranks;
	l->headers = at;
	at += 2 * (uint64_t)ranks * CODELET_LINE;
	l->refs = at;
	at += ranks <= EXPORTS_MOST_RANKS ? 2 * (uint64_t)ranks * sizeof(struct codelet_refs) : 0;
	l->flags = at;
	at += (uint64_t)CODELET_RINGS * (uint64_t)ranks * CODELET_MAX_BLOCKS * 8;
	l->acks = at;
	at += (uint64_t)CODELET_RINGS * (uint64_t)ranks * CODELET_MAX_BLOCKS * 8;
	l->grants = at;
	at += (uint64_t)ranks * CODELET_CHANNELS * sizeof(struct codelet_channel_words);
	l->message_refs = at;
	at += ranks <= EXPORTS_MOST_RANKS
		  ? (uint64_t)ranks * CODELET_CHANNELS * sizeof(struct codelet_channel_words)
		  : 0;
	uint64_t rest = budget > at ? budget - at : 0, slots = rest / 16 / others / CODELET_LINE_SLOT;
	if (slots < CODELET_RING_DEPTH)
		slots = CODELET_RING_DEPTH;
	l->pair_rings = codelet_cut_rings(slots);
	l->ring_depth = (uint32_t)(slots / l->pair_rings < 64 ? slots / l->pair_rings : 64);
	l->rings_taken = at;
	at += (uint64_t)ranks * l->pair_rings * sizeof(struct codelet_ring_taken);
	at = plan_round(at, 4096);
	rest = budget > at ? budget - at : 0;
	l->words_bytes = 2 * codelet_turns(rest * 2 / 15 / (others + 1));
	l->lines_bytes = codelet_turns(rest * 2 / 19 / others);
	l->words = at;
	at += 2 * others * l->words_bytes;
	l->lines = at;
	at += 2 * others * l->lines_bytes;
	l->rings = at;
	at += plan_round(others * l->pair_rings * l->ring_depth * CODELET_LINE_SLOT, 4096);
	l->slots = at;
	l->slots_bytes = (budget > at ? budget - at : 0) / others / 4096 * 4096;
	l->bytes = at + others * l->slots_bytes;
}

/* Of a rank's codelet_state, with the ends of its rings. */
static inline size_t codelet_state_bytes(const struct codelet_layout *l)
{
	return sizeof(struct codelet_state) +
	       (size_t)l->ranks * l->pair_rings * sizeof(struct codelet_ring_end);
}

/* What is launched behind it on a stream comes after all that had been counted when it was launched. */
struct codelet_follow {
	struct codelet_args args; /* what all kernels have */
	uint64_t until; /* of codelet_state.done */
};

/* Each loads its file's kernels, so that no later launch waits for it. 0 or a cudaError_t. */
int codelets_load_one_shot(void);
int codelets_load_two_shot(void);
int codelets_load_p2p(void);
int codelets_load_bulk_moves(void);
int codelets_load_bulk_reduce(void);
int codelets_load_bulk_broadcast(void);
int codelets_load_bulk_p2p(void);
int codelets_load_chain(void);
int codelets_load_copies(void);
int codelets_load_lowered(void);
int codelets_load_order(void);

/* Each starts one kernel on a stream; 0 or a cudaError_t. type: corale_type. */
/* few: at most CODELET_FEW_RANKS ranks, addresses and sizes multiples of 4, one vector a thread of an exchange. */
int codelets_one_shot_few(const struct codelet_args *a, struct grid grid, int type, int folds, void *stream);
/* The same for many packets: each thread takes turns. No root; folds are those of blocks. */
int codelets_one_shot_few_long(const struct codelet_args *args, struct grid grid, int type, int folds,
			       void *stream);
int codelets_two_shot_few(const struct codelet_args *args, struct grid grid, int type, void *stream);
int codelets_one_shot(const struct codelet_args *args, struct grid grid, int type, int folds, void *stream);
int codelets_two_shot(const struct codelet_args *args, struct grid grid, int type, void *stream);
/* Through slots, or from the ranks' buffers: all_reduce, reduce_scatter, reduce; all_gather, all_to_all, gather, scatter; broadcast.
 * many: the shape for many blocks, through slots alone, without gather and scatter. */
int codelets_bulk_reduce(const struct codelet_args *args, struct grid grid, int type, void *stream);
int codelets_bulk_moves(const struct codelet_args *args, struct grid grid, int many, void *stream);
int codelets_bulk_broadcast(const struct codelet_args *args, struct grid grid, int many, void *stream);
int codelets_chain(const struct codelet_args *args, struct grid grid, void *stream);
/* Chooses the kernel: few small messages have one with fewer arguments and threads. */
int codelets_p2p(const struct codelet_p2p *args, void *stream);
/* The same for long messages, by few blocks. */
int codelets_bulk_p2p(const struct codelet_p2p *args, struct grid grid, void *stream);
int codelets_step(const struct codelet_step *args, void *stream);
/* type: of jobs that are folds; -1: all are copies. Blocks of one warp are lean. */
int codelets_work(const struct codelet_work *args, struct grid grid, int type, void *stream);
/* any plan; one of an all_to_all_v, whose counts differ by peer */
int codelets_lowered(const struct codelet_lowered *args, int blocks, int type, void *stream);
int codelets_lowered_all_to_all_v(const struct codelet_lowered_all_to_all_v *args, int blocks, void *stream);
int codelets_lowered_packets(const struct codelet_lowered *args, int blocks, int type, void *stream);
int codelets_follow(const struct codelet_follow *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif
