/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NCCL door's calls without a GPU, by ranks that are processes and ranks that are threads: each collective, type and operator
 * against the reference, groups, and more sends and receives than Corale starts at a time.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "nccl_world.h"
#include "test/helpers/reference.h"
#include "test/helpers/reference_type.h"
#include "test/helpers/thin.h"

enum { GUARD = 32, POISON = 0xa5, RIM = 0x5a, AWAIT_MS = 2000 };

static size_t type_bytes(ncclDataType_t type)
{
	return (size_t)reference_type(world_type(type))->bytes;
}

/* ---- One collective ------------------------------------------------------------------------------------------- */

enum coll {
	ALL_REDUCE,
	REDUCE,
	REDUCE_SCATTER,
	ALL_GATHER,
	BROADCAST,
	BCAST,
	ALL_TO_ALL,
	GATHER,
	SCATTER,
	COLLS
};
static const struct {
	const char *name;
	int folds, has_root, send_blocks, recv_blocks;
} colls[COLLS] = {
	[ALL_REDUCE] = { "AllReduce", 1, 0, 0, 0 },
	[REDUCE] = { "Reduce", 1, 1, 0, 0 },
	[REDUCE_SCATTER] = { "ReduceScatter", 1, 0, 1, 0 },
	[ALL_GATHER] = { "AllGather", 0, 0, 0, 1 },
	[BROADCAST] = { "Broadcast", 0, 1, 0, 0 },
	[BCAST] = { "Bcast", 0, 1, 0, 0 },
	[ALL_TO_ALL] = { "AlltoAll", 0, 0, 1, 1 },
	[GATHER] = { "Gather", 0, 1, 0, 1 },
	[SCATTER] = { "Scatter", 0, 1, 1, 0 },
};

struct trial {
	enum coll coll;
	ncclDataType_t type;
	int op; /* ncclNumOps: premultiplied, by a scalar on the host; + 1: 'on the device' */
	size_t count;
	int root, in_place, hinted; /* hinted: by the function with a ncclCollConfig_t */
	enum reference_data data;
	uint64_t seed;
};

struct buffers {
	unsigned char *send, *recv; /* with a rim of GUARD bytes each */
	size_t bytes; /* of each */
};

static int sends(const struct world_rank *me, const struct trial *t)
{
	return (t->coll != BROADCAST && t->coll != BCAST && t->coll != SCATTER) || me->rank == t->root;
}

static int receives(const struct world_rank *me, const struct trial *t)
{
	return (t->coll != REDUCE && t->coll != GATHER) || me->rank == t->root;
}

static size_t send_elements(const struct world_rank *me, const struct trial *t)
{
	return sends(me, t) ? (colls[t->coll].send_blocks ? (size_t)me->size : 1) * t->count : 0;
}

static size_t recv_elements(const struct world_rank *me, const struct trial *t)
{
	return receives(me, t) ? (colls[t->coll].recv_blocks ? (size_t)me->size : 1) * t->count : 0;
}

static ncclResult_t call_hinted(const struct trial *t, const void *send, void *recv, ncclRedOp_t op,
				ncclComm_t comm)
{
	ncclCollConfig_t hints = NCCL_COLLCONFIG_INITIALIZER;
	const ncclCollConfig_t *config = t->seed % 2 ? &hints : NULL;
	hints.maxCTAs = 4;
	hints.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
	switch (t->coll) {
	case ALL_REDUCE:
		return ncclAllReduceConfig(send, recv, t->count, t->type, op, comm, NULL, config);
	case REDUCE:
		return ncclReduceConfig(send, recv, t->count, t->type, op, t->root, comm, NULL, config);
	case REDUCE_SCATTER:
		return ncclReduceScatterConfig(send, recv, t->count, t->type, op, comm, NULL, config);
	case ALL_GATHER:
		return ncclAllGatherConfig(send, recv, t->count, t->type, comm, NULL, config);
	case ALL_TO_ALL:
		return ncclAlltoAllConfig(send, recv, t->count, t->type, comm, NULL, config);
	case GATHER:
		return ncclGatherConfig(send, recv, t->count, t->type, t->root, comm, NULL, config);
	case SCATTER:
		return ncclScatterConfig(send, recv, t->count, t->type, t->root, comm, NULL, config);
	default:
		return ncclBroadcastConfig(send, recv, t->count, t->type, t->root, comm, NULL, config);
	}
}

static ncclResult_t call(const struct trial *t, const void *send, void *recv, ncclRedOp_t op, ncclComm_t comm)
{
	if (t->hinted)
		return call_hinted(t, send, recv, op, comm);
	switch (t->coll) {
	case ALL_REDUCE:
		return ncclAllReduce(send, recv, t->count, t->type, op, comm, NULL);
	case REDUCE:
		return ncclReduce(send, recv, t->count, t->type, op, t->root, comm, NULL);
	case REDUCE_SCATTER:
		return ncclReduceScatter(send, recv, t->count, t->type, op, comm, NULL);
	case ALL_GATHER:
		return ncclAllGather(send, recv, t->count, t->type, comm, NULL);
	case BROADCAST:
		return ncclBroadcast(send, recv, t->count, t->type, t->root, comm, NULL);
	case BCAST:
		return ncclBcast(recv, t->count, t->type, t->root, comm, NULL);
	case ALL_TO_ALL:
		return ncclAlltoAll(send, recv, t->count, t->type, comm, NULL);
	case GATHER:
		return ncclGather(send, recv, t->count, t->type, t->root, comm, NULL);
	default:
		return ncclScatter(send, recv, t->count, t->type, t->root, comm, NULL);
	}
}

/* Premultiplied sums are destroyed behind the call; in a group before it has started. */
static ncclResult_t call_with_op(struct world_rank *me, const struct trial *t, const struct reference *ref,
				 const void *send, void *recv)
{
	unsigned char scalar[8];
	ncclRedOp_t op = (ncclRedOp_t)t->op;
	if (!colls[t->coll].folds || t->op < ncclNumOps)
		return call(t, send, recv, op, me->comm);
	const int grouped = t->seed % 3 == 0;
	reference_scalar(ref, me->rank, scalar);
	if (grouped)
		ncclGroupStart();
	WORLD_OK(me, ncclRedOpCreatePreMulSum(&op, scalar, t->type,
					      t->op > ncclNumOps ? ncclScalarDevice : ncclScalarHostImmediate,
					      me->comm));
	memset(scalar, 0xff, sizeof scalar);
	ncclResult_t result = call(t, send, recv, op, me->comm);
	WORLD_OK(me, ncclRedOpDestroy(op, me->comm));
	if (grouped)
		result = ncclGroupEnd();
	return result;
}

static size_t check(const struct world_rank *me, const struct trial *t, const struct reference *ref,
		    const unsigned char *recv, struct reference_fault *fault)
{
	const size_t block = t->count * type_bytes(t->type), mine = (size_t)me->rank * t->count;
	size_t wrong = 0;
	if (!receives(me, t))
		return 0;
	switch (t->coll) {
	case ALL_REDUCE:
	case REDUCE:
		return reference_check_fold(ref, 0, t->count, recv, fault);
	case REDUCE_SCATTER:
		return reference_check_fold(ref, mine, t->count, recv, fault);
	case BROADCAST:
	case BCAST:
		return reference_check_copy(ref, t->root, 0, t->count, recv, fault);
	case SCATTER:
		return reference_check_copy(ref, t->root, mine, t->count, recv, fault);
	default:
		for (int r = 0; r < me->size; r++)
			wrong += reference_check_copy(ref, r, t->coll == ALL_TO_ALL ? mine : 0, t->count,
						      recv + (size_t)r * block, fault);
		return wrong;
	}
}

static unsigned char *poison(unsigned char *memory, size_t bytes)
{
	memset(memory, RIM, bytes + 2 * GUARD);
	memset(memory + GUARD, POISON, bytes);
	return memory + GUARD;
}

static int has_rim(const unsigned char *start, size_t bytes)
{
	for (size_t i = 0; i < GUARD; i++)
		if (start[-1 - (long)i] != RIM || start[bytes + i] != RIM)
			return 0;
	return 1;
}

/* In place as NCCL has it: the smaller buffer is the rank's block of the larger one. */
static void put_in_place(const struct world_rank *me, const struct trial *t, unsigned char **send,
			 unsigned char **recv)
{
	const size_t offset = (size_t)me->rank * t->count * type_bytes(t->type);
	if (colls[t->coll].send_blocks && !colls[t->coll].recv_blocks)
		*recv = *send + offset;
	else
		*send = *recv + (colls[t->coll].recv_blocks && !colls[t->coll].send_blocks ? offset : 0);
}

static int is_in_place(const struct world_rank *me, const struct trial *t)
{
	return t->coll == BCAST || (t->in_place && sends(me, t) && receives(me, t));
}

static void complain(struct world_rank *me, const struct trial *t, const char *what)
{
	world_fault(me, "%s %s op %d count %zu root %d%s%s data %d seed %llu: %s", colls[t->coll].name,
		    world_type_name(t->type), t->op, t->count, t->root, t->in_place ? ", in place" : "",
		    t->hinted ? ", with hints" : "", (int)t->data, (unsigned long long)t->seed, what);
}

static void run_trial(struct world_rank *me, const struct trial *t, const struct buffers *b)
{
	struct reference ref = { world_type(t->type),
				 colls[t->coll].folds ? world_op(t->op) : (corale_op)REFERENCE_COPY, me->size,
				 t->data, t->seed };
	struct reference_fault fault = { 0 };
	const size_t send_bytes = send_elements(me, t) * type_bytes(t->type),
		     recv_bytes = recv_elements(me, t) * type_bytes(t->type);
	unsigned char *send = poison(b->send, send_bytes), *recv = poison(b->recv, recv_bytes);
	unsigned char *send_start = send, *recv_start = recv;
	char what[200];
	if (is_in_place(me, t))
		put_in_place(me, t, &send, &recv);
	if (sends(me, t))
		reference_fill(&ref, me->rank, 0, send_elements(me, t), send);
	const uint64_t before = reference_digest(send_start, send_bytes);
	const int null = t->seed % 2; /* a buffer without meaning for this rank */
	const ncclResult_t result = call_with_op(me, t, &ref, sends(me, t) || !null ? send : NULL,
						 receives(me, t) || !null ? recv : NULL);
	if (result != ncclSuccess) {
		complain(me, t, ncclGetLastError(NULL));
		return;
	}
	const size_t wrong = check(me, t, &ref, recv, &fault);
	if (wrong) {
		snprintf(what, sizeof what, "%zu wrong, one at %zu: %s, expected %s", wrong, fault.index,
			 fault.got, fault.expected);
		complain(me, t, what);
	}
	if (!has_rim(send_start, send_bytes) || !has_rim(recv_start, recv_bytes))
		complain(me, t, "wrote outside of its buffers");
	if (!is_in_place(me, t) && reference_digest(send_start, send_bytes) != before)
		complain(me, t, "changed its send buffer");
}

static const size_t counts[] = { 0, 1, 17, 1003 };
enum { COUNTS = sizeof counts / sizeof *counts, MOST = 1003 };

static int is_float(ncclDataType_t type)
{
	return reference_type(world_type(type))->digits != 0;
}

static struct trial trial_of(const struct world_rank *me, enum coll coll, int type, int op, int count,
			     uint64_t seed)
{
	return (struct trial){ .coll = coll,
			       .type = (ncclDataType_t)type,
			       .op = op,
			       .count = counts[count],
			       .root = (int)(seed % (uint64_t)me->size),
			       .in_place = (int)(seed / 2 % 2),
			       .hinted = seed % 5 == 0 && coll != BCAST,
			       .data = is_float((ncclDataType_t)type) ? (enum reference_data)(seed % 3)
								      : REFERENCE_EXACT,
			       .seed = seed };
}

/* Every collective, type and operator; in place and apart take turns, and all counts come to both. */
static void matrix(struct world_rank *me)
{
	struct buffers b = { .bytes = (size_t)me->size * MOST * 8 + 2 * GUARD };
	b.send = malloc(b.bytes);
	b.recv = malloc(b.bytes);
	if (!b.send || !b.recv)
		abort();
	me->comm = world_comm(me, 0);
	uint64_t seed = 0;
	const uint64_t stride = (uint64_t)thin_step(), first = (uint64_t)thin_first(thin_step());
	for (int coll = 0; coll < COLLS; coll++)
		for (int type = 0; type < ncclNumTypes; type++)
			for (int op = 0; op < (colls[coll].folds ? ncclNumOps + 2 : 1); op++)
				for (int count = 0; count < COUNTS; count++)
					for (int twice = 0; twice < 2; twice++) {
						struct trial t =
						    trial_of(me, (enum coll)coll, type, op, count, ++seed);
						t.in_place = twice;
						if (seed % stride == first && thin_takes(seed, 4))
							run_trial(me, &t, &b);
					}
	WORLD_OK(me, ncclCommDestroy(me->comm));
	free(b.send);
	free(b.recv);
}

/* Larger ones: all ways that Corale has for a call. */
static void large(struct world_rank *me)
{
	const size_t count = 70001;
	struct buffers b = { .bytes = (size_t)me->size * count * 8 + 2 * GUARD };
	b.send = malloc(b.bytes);
	b.recv = malloc(b.bytes);
	if (!b.send || !b.recv)
		abort();
	me->comm = world_comm(me, 0);
	uint64_t seed = 1000;
	for (int coll = thin_first(3); coll<COLLS; coll += thin_step()> 1 ? 3 : 1)
		for (int i = 0; i < 2; i++) {
			struct trial t =
			    trial_of(me, (enum coll)coll, i ? ncclFloat32 : ncclBfloat16, ncclSum, 0, ++seed);
			t.count = count;
			run_trial(me, &t, &b);
		}
	WORLD_OK(me, ncclCommDestroy(me->comm));
	free(b.send);
	free(b.recv);
}

/* ---- Pinned sums ----------------------------------------------------------------------------------------------- */

enum { WHOLE = 1 << 20 };

/* Elements of one vector in calls of every size, from any offset, have the bits that one call gives them. */
static void parts(struct world_rank *me, ncclDataType_t type)
{
	const size_t bytes = type_bytes(type);
	const struct reference ref = { world_type(type), CORALE_SUM, me->size, REFERENCE_RANDOM,
				       (uint64_t)type };
	unsigned char *send = malloc(3 * WHOLE * bytes), *whole = send + WHOLE * bytes,
		      *part = whole + WHOLE * bytes;
	uint32_t random = 12345;
	if (!send)
		abort();
	reference_fill(&ref, me->rank, 0, WHOLE, send);
	WORLD_OK(me, ncclAllReduce(send, whole, WHOLE, type, ncclSum, me->comm, NULL));
	for (size_t most = 1; most < WHOLE; most *= 2)
		for (int i = 0; i < 2; i++) {
			random = random * 1664525u + 1013904223u;
			const size_t count = most + (i ? random >> 8 : 0) % most,
				     first = (random >> 4) % (WHOLE - count);
			WORLD_OK(me, ncclAllReduce(send + first * bytes, part, count, type, ncclSum, me->comm,
						   NULL));
			if (memcmp(part, whole + first * bytes, count * bytes))
				world_fault(me,
					    "AllReduce %s of %zu from element %zu on: other bits than of %d",
					    world_type_name(type), count, first, WHOLE);
		}
	free(send);
}

static void pinned_sums(struct world_rank *me)
{
	me->comm = world_comm(me, 0);
	parts(me, ncclFloat32);
	parts(me, ncclBfloat16);
	WORLD_OK(me, ncclCommDestroy(me->comm));
}

/* ---- Sends and receives ---------------------------------------------------------------------------------------- */

/* Byte i of message k from one rank to another. */
static unsigned char byte_of(int from, int to, int k, size_t i)
{
	const uint32_t x =
	    ((uint32_t)from * 131 + (uint32_t)to * 17 + (uint32_t)k) * 2654435761u + (uint32_t)i * 40503u;
	return (unsigned char)(x >> 13);
}

/* How many messages go from one rank to another, and how long they are: the same on all ranks. */
static int messages_of(int from, int to, int size, int most)
{
	return (from * 7 + to * 3) % size * most / size;
}

static size_t length_of(int from, int to, int k)
{
	static const size_t lengths[] = { 0, 1, 64, 1000, 20011, 3, 0, 333 };
	return lengths[(from + 3 * to + k) % 8];
}

struct message {
	int peer, k, sends;
	size_t bytes;
	unsigned char *at;
};

/* Fills the rank's messages in a random order that keeps those of each pair in theirs; returns how many. */
static int draw_messages(struct world_rank *me, int most, struct message *list)
{
	int next[2][WORLD_RANKS] = { { 0 } }, left = 0, n = 0;
	for (int r = 0; r < me->size; r++)
		left += messages_of(me->rank, r, me->size, most) + messages_of(r, me->rank, me->size, most);
	while (left > 0) {
		const int peer = (int)(world_random(me) % (uint32_t)me->size),
			  sending = (int)(world_random(me) % 2);
		const int from = sending ? me->rank : peer, to = sending ? peer : me->rank;
		const int k = next[sending][peer];
		if (k == messages_of(from, to, me->size, most))
			continue;
		const size_t bytes = length_of(from, to, k);
		list[n] = (struct message){ peer, k, sending, bytes, malloc(bytes + 1) };
		if (!list[n].at)
			abort();
		for (size_t i = 0; i <= bytes; i++)
			list[n].at[i] = sending && i < bytes ? byte_of(from, to, k, i) : POISON;
		next[sending][peer]++;
		n++;
		left--;
	}
	return n;
}

static void check_messages(struct world_rank *me, struct message *list, int n)
{
	for (int m = 0; m < n; m++) {
		size_t wrong = 0;
		for (size_t i = 0; !list[m].sends && i < list[m].bytes; i++)
			wrong += list[m].at[i] != byte_of(list[m].peer, me->rank, list[m].k, i);
		if (wrong || list[m].at[list[m].bytes] != POISON)
			world_fault(me, "message %d from rank %d: %zu of %zu bytes wrong", list[m].k,
				    list[m].peer, wrong, list[m].bytes);
		free(list[m].at);
	}
}

static void exchange(struct world_rank *me, int most)
{
	struct message *list = calloc((size_t)(2 * most * me->size + 1), sizeof *list);
	float sum = 1, total = 0;
	const int n = draw_messages(me, most, list);
	WORLD_OK(me, ncclGroupStart());
	for (int m = 0; m < n; m++) {
		if (list[m].sends)
			WORLD_OK(me,
				 ncclSend(list[m].at, list[m].bytes, ncclInt8, list[m].peer, me->comm, NULL));
		else
			WORLD_OK(
			    me, ncclRecv(list[m].at, list[m].bytes, ncclUint8, list[m].peer, me->comm, NULL));
		if (m == n / 2) /* a collective in the same group */
			WORLD_OK(me, ncclAllReduce(&sum, &total, 1, ncclFloat, ncclSum, me->comm, NULL));
	}
	WORLD_OK(me, ncclGroupEnd());
	if (total != (float)me->size)
		world_fault(me, "the collective in the group: %g", (double)total);
	check_messages(me, list, n);
	free(list);
}

/* Some ranks have about 30, 300 and 1,000 of them, others fewer; 160 is where waves begin. */
static void many_messages(struct world_rank *me)
{
	me->comm = world_comm(me, 0);
	exchange(me, 8);
	exchange(me, 90);
	if (thin_step() == 1)
		exchange(me, 300);
	world_check(me, me->comm, "after the messages");
	WORLD_OK(me, ncclCommDestroy(me->comm));
}

/* NCCL compares bytes, not types, of what is only moved. */
static void types_of_messages(struct world_rank *me)
{
	enum { N = 33 };
	const int next = (me->rank + 1) % me->size, before = (me->rank + me->size - 1) % me->size;
	float mine[N], got[N + 1], all[8 * N];
	me->comm = world_comm(me, 0);
	for (int i = 0; i < N; i++)
		mine[i] = (float)(me->rank * 100 + i);
	for (int odd = 0; odd < 2; odd++) {
		got[N] = -1;
		WORLD_OK(me, ncclGroupStart());
		WORLD_OK(me, odd ? ncclSend(mine, N, ncclFloat32, next, me->comm, NULL)
				 : ncclSend(mine, 4 * N, ncclInt8, next, me->comm, NULL));
		WORLD_OK(me, odd ? ncclRecv(got, 2 * N, ncclBfloat16, before, me->comm, NULL)
				 : ncclRecv(got, N, ncclFloat32, before, me->comm, NULL));
		WORLD_OK(me, ncclGroupEnd());
		for (int i = 0; i < N; i++)
			if (got[i] != (float)(before * 100 + i))
				world_fault(me, "element %d: %g", i, (double)got[i]);
		if (got[N] != -1.0f)
			world_fault(me, "more was received than was asked for");
	}
	/* The same for collectives that only move: ranks may name different types. */
	WORLD_OK(me, me->rank % 2 ? ncclAllGather(mine, all, N, ncclFloat32, me->comm, NULL)
				  : ncclAllGather(mine, all, 4 * N, ncclUint8, me->comm, NULL));
	for (int r = 0; r < me->size; r++)
		for (int i = 0; i < N; i++)
			if (all[r * N + i] != (float)(r * 100 + i))
				world_fault(me, "block %d element %d: %g", r, i, (double)all[r * N + i]);
	WORLD_OK(me, ncclCommDestroy(me->comm));
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

enum { COMMS = 4 };

/* Nested groups over four communicators, in another order on each rank; each has collectives and a ring of sends. */
static void nested_groups(struct world_rank *me)
{
	ncclComm_t comms[COMMS];
	int in[COMMS], out[COMMS], ring[COMMS], all[COMMS][8];
	for (int c = 0; c < COMMS; c++)
		comms[c] = world_comm(me, c);
	for (int round = 0; round < 12; round++) {
		WORLD_OK(me, ncclGroupStart());
		for (int i = 0; i < COMMS; i++) {
			const int c = (i * (1 + 2 * (me->rank & 1)) + me->rank + round) % COMMS;
			in[c] = 1000 * c + me->rank + round;
			out[c] = ring[c] = -1;
			WORLD_OK(me, ncclGroupStart());
			if (me->rank & 2)
				WORLD_OK(me, ncclRecv(&ring[c], 1, ncclInt,
						      (me->rank + me->size - 1) % me->size, comms[c], NULL));
			WORLD_OK(me, ncclAllReduce(&in[c], &out[c], 1, ncclInt, ncclMax, comms[c], NULL));
			WORLD_OK(me, ncclSend(&in[c], 1, ncclInt, (me->rank + 1) % me->size, comms[c], NULL));
			WORLD_OK(me, ncclGroupEnd());
			if (!(me->rank & 2))
				WORLD_OK(me, ncclRecv(&ring[c], 1, ncclInt,
						      (me->rank + me->size - 1) % me->size, comms[c], NULL));
			WORLD_OK(me, ncclAllGather(&in[c], all[c], 1, ncclInt, comms[c], NULL));
		}
		WORLD_OK(me, ncclGroupEnd());
		for (int c = 0; c < COMMS; c++) {
			const int base = 1000 * c + round;
			if (out[c] != base + me->size - 1 ||
			    ring[c] != base + (me->rank + me->size - 1) % me->size)
				world_fault(me, "communicator %d: max %d, ring %d", c, out[c], ring[c]);
			for (int r = 0; r < me->size; r++)
				if (all[c][r] != base + r)
					world_fault(me, "communicator %d: gathered %d of rank %d", c,
						    all[c][r], r);
		}
	}
	for (int c = 0; c < COMMS; c++)
		WORLD_OK(me, ncclCommDestroy(comms[c]));
}

/* Four communicators with waves in one group, uneven between ranks. */
static void waves_of_communicators(struct world_rank *me)
{
	ncclComm_t comms[COMMS];
	struct message *lists[COMMS];
	int n[COMMS];
	for (int c = 0; c < COMMS; c++)
		comms[c] = world_comm(me, c);
	WORLD_OK(me, ncclGroupStart());
	for (int i = 0; i < COMMS; i++) {
		const int c = (i + me->rank) % COMMS, most = 60 + 40 * c;
		lists[c] = calloc((size_t)(2 * most * me->size + 1), sizeof **lists);
		n[c] = draw_messages(me, most, lists[c]);
		for (int m = 0; m < n[c]; m++) {
			const struct message *one = &lists[c][m];
			WORLD_OK(me,
				 one->sends
				     ? ncclSend(one->at, one->bytes, ncclInt8, one->peer, comms[c], NULL)
				     : ncclRecv(one->at, one->bytes, ncclInt8, one->peer, comms[c], NULL));
		}
	}
	WORLD_OK(me, ncclGroupEnd());
	for (int c = 0; c < COMMS; c++) {
		check_messages(me, lists[c], n[c]);
		free(lists[c]);
		WORLD_OK(me, ncclCommDestroy(comms[c]));
	}
}

/* ---- One thread that drives several ranks -------------------------------------------------------------------------- */

enum { DRIVEN = 4 };

static void drive_sends(struct world_rank *me, ncclComm_t *comms, int n)
{
	enum { MESSAGES = 70 };
	static int in[DRIVEN][MESSAGES], got[DRIVEN][DRIVEN][MESSAGES];
	int sum_in[DRIVEN], sum[DRIVEN], all[DRIVEN][DRIVEN];
	WORLD_OK(me, ncclGroupStart());
	for (int r = 0; r < n; r++) {
		sum_in[r] = r + 1;
		WORLD_OK(me, ncclAllReduce(&sum_in[r], &sum[r], 1, ncclInt, ncclSum, comms[r], NULL));
		for (int m = 0; m < MESSAGES; m++)
			in[r][m] = r * 1000 + m;
		for (int m = 0; m < MESSAGES; m++)
			for (int p = 0; p < n; p++)
				WORLD_OK(me, ncclSend(&in[r][m], 1, ncclInt, (p + r) % n, comms[r], NULL));
	}
	for (int r = n - 1; r >= 0; r--) {
		for (int p = 0; p < n; p++)
			for (int m = 0; m < MESSAGES; m++)
				WORLD_OK(me, ncclRecv(&got[r][p][m], 1, ncclInt, p, comms[r], NULL));
		WORLD_OK(me, ncclAllGather(&sum_in[r], all[r], 1, ncclInt, comms[r], NULL));
	}
	WORLD_OK(me, ncclGroupEnd());
	for (int r = 0; r < n; r++) {
		if (sum[r] != n * (n + 1) / 2)
			world_fault(me, "rank %d: sum %d", r, sum[r]);
		for (int p = 0; p < n; p++) {
			if (all[r][p] != p + 1)
				world_fault(me, "rank %d: gathered %d of %d", r, all[r][p], p);
			for (int m = 0; m < MESSAGES; m++)
				if (got[r][p][m] != p * 1000 + m)
					world_fault(me, "rank %d: message %d of %d is %d", r, m, p,
						    got[r][p][m]);
		}
	}
}

static void drive_large(struct world_rank *me, ncclComm_t *comms, int n)
{
	enum { COUNT = 50001 };
	float *in[DRIVEN], *out[DRIVEN];
	for (int r = 0; r < n; r++) {
		in[r] = malloc(COUNT * sizeof(float));
		out[r] = calloc(COUNT, sizeof(float));
		for (int i = 0; i < COUNT; i++)
			in[r][i] = (float)(i % 1000 + r);
	}
	WORLD_OK(me, ncclGroupStart());
	for (int r = 0; r < n; r++)
		WORLD_OK(me, ncclAllReduce(in[r], out[r], COUNT, ncclFloat, ncclSum, comms[r], NULL));
	WORLD_OK(me, ncclGroupEnd());
	for (int r = 0; r < n; r++) {
		for (int i = 0; i < COUNT; i++)
			if (out[r][i] != (float)(n * (i % 1000) + n * (n - 1) / 2)) {
				world_fault(me, "rank %d element %d: %g", r, i, (double)out[r][i]);
				break;
			}
		free(in[r]);
		free(out[r]);
	}
}

static void destroy_all(struct world_rank *me, ncclComm_t *comms, int n, int grouped)
{
	if (grouped)
		WORLD_OK(me, ncclGroupStart());
	for (int r = 0; r < n; r++)
		WORLD_OK(me, ncclCommDestroy(comms[r]));
	if (grouped)
		WORLD_OK(me, ncclGroupEnd());
}

static void one_thread(struct world_rank *me)
{
	ncclComm_t comms[DRIVEN];
	for (int grouped = 0; grouped < 2; grouped++) {
		if (grouped) {
			WORLD_OK(me, ncclGetUniqueId(&me->world->ids[0]));
			WORLD_OK(me, ncclGroupStart());
			for (int r = 0; r < DRIVEN; r++)
				WORLD_OK(me, ncclCommInitRank(&comms[r], DRIVEN, me->world->ids[0], r));
			WORLD_OK(me, ncclGroupEnd());
		} else {
			WORLD_OK(me, ncclCommInitAll(comms, DRIVEN, NULL));
		}
		drive_sends(me, comms, DRIVEN);
		drive_large(me, comms, DRIVEN);
		destroy_all(me, comms, DRIVEN, grouped);
	}
}

/* Two processes that drive four ranks each, so that waves of a process's ranks meet those of the other's. */
static void two_drivers(struct world_rank *me)
{
	enum { RANKS = 2 * DRIVEN, MOST_SENT = 120 };
	struct world_rank driven[DRIVEN];
	struct message *lists[DRIVEN];
	int n[DRIVEN];
	world_id(me, 0);
	WORLD_OK(me, ncclGroupStart());
	for (int i = 0; i < DRIVEN; i++) {
		const int rank = me->rank + 2 * i; /* theirs lie between ours */
		driven[i] = (struct world_rank){ me->world, rank, RANKS, NULL, (unsigned)rank + 5 };
		WORLD_OK(me, ncclCommInitRank(&driven[i].comm, RANKS, me->world->ids[0], rank));
	}
	WORLD_OK(me, ncclGroupEnd());
	WORLD_OK(me, ncclGroupStart());
	for (int i = 0; i < DRIVEN; i++) {
		lists[i] = calloc(2 * MOST_SENT * RANKS, sizeof **lists);
		n[i] = draw_messages(&driven[i], MOST_SENT, lists[i]);
		for (int m = 0; m < n[i]; m++) {
			const struct message *one = &lists[i][m];
			WORLD_OK(me, one->sends ? ncclSend(one->at, one->bytes, ncclInt8, one->peer,
							   driven[i].comm, NULL)
						: ncclRecv(one->at, one->bytes, ncclInt8, one->peer,
							   driven[i].comm, NULL));
		}
	}
	WORLD_OK(me, ncclGroupEnd());
	for (int i = 0; i < DRIVEN; i++) {
		check_messages(&driven[i], lists[i], n[i]);
		free(lists[i]);
	}
	WORLD_OK(me, ncclGroupStart());
	for (int i = 0; i < DRIVEN; i++)
		WORLD_OK(me, ncclCommDestroy(driven[i].comm));
	WORLD_OK(me, ncclGroupEnd());
}

/* ---- Threads that take turns ------------------------------------------------------------------------------------------ */

struct turn {
	struct world_rank *me;
	int round;
};

static void *one_turn(void *arg)
{
	const struct turn *turn = arg;
	int in = turn->me->rank + turn->round, out = -1;
	WORLD_OK(turn->me, ncclGroupStart());
	WORLD_OK(turn->me, ncclAllReduce(&in, &out, 1, ncclInt, ncclMin, turn->me->comm, NULL));
	WORLD_OK(turn->me, ncclGroupEnd());
	if (out != turn->round)
		world_fault(turn->me, "round %d: %d", turn->round, out);
	return NULL;
}

/* A pool: each call of a communicator comes from another thread, and two communicators are used side by side. */
static void thread_pools(struct world_rank *me)
{
	struct world_rank other = *me;
	me->comm = world_comm(me, 0);
	other.comm = world_comm(me, 1);
	for (int round = 0; round < 40; round++) {
		struct turn turns[2] = { { me, round }, { &other, round } };
		pthread_t threads[2];
		for (int i = 0; i < 2; i++)
			if (pthread_create(&threads[i], NULL, one_turn, &turns[i]))
				abort();
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}
	WORLD_OK(me, ncclCommDestroy(me->comm));
	WORLD_OK(me, ncclCommDestroy(other.comm));
}

/* ---- Descriptors ---- */

static int count_descriptors(void)
{
	int n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A communicator keeps none, here or where the id was made, and the limit is raised as NCCL does. */
static void descriptors(struct world_rank *me)
{
	enum { MADE = 12, FEW = 4 };
	ncclComm_t comms[MADE], child;
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < 256 ? limit.rlim_max : 256;
	setrlimit(RLIMIT_NOFILE, &limit);
	comms[0] = world_comm(me, 0);
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur != limit.rlim_max)
		world_fault(me, "at most %llu descriptors; the limit should be raised to %llu",
			    (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
	world_barrier(me);
	const int before = count_descriptors();
	for (int i = 1; i < MADE; i++)
		comms[i] = world_comm(me, i);
	WORLD_OK(me, ncclCommSplit(comms[1], 0, 0, &child, NULL));
	for (int left = AWAIT_MS; count_descriptors() > before + FEW && left > 0; left--)
		clock_sleep_ms(1); /* the listener hears that ranks have left */
	const int after = count_descriptors();
	if (after > before + FEW)
		world_fault(me, "%d communicators took %d descriptors", MADE, after - before);
	world_check(me, child, "a child of a parent whose bootstrap rests");
	WORLD_OK(me, ncclCommDestroy(child));
	for (int i = 0; i < MADE; i++) {
		world_check(me, comms[i], "one of many");
		WORLD_OK(me, ncclCommDestroy(comms[i]));
	}
}

static const struct world_case cases[] = {
	{ "every collective, type and operator", 8, WORLD_BOTH, matrix, NULL, 0 },
	{ "the same on three ranks", 3, WORLD_BOTH, matrix, NULL, 0 },
	{ "the same on one rank", 1, WORLD_PROCESSES, matrix, NULL, 0 },
	{ "large buffers", 5, WORLD_BOTH, large, NULL, 0 },
	{ "pinned sums", 7, WORLD_BOTH, pinned_sums,
	  "NCCL_MIN_NCHANNELS=1 NCCL_MAX_NCHANNELS=1 NCCL_PROTO=Simple NCCL_ALGO=allreduce:tree", 0 },
	{ "many sends and receives", 8, WORLD_BOTH, many_messages, NULL, 0 },
	{ "bytes are compared, not types", 4, WORLD_BOTH, types_of_messages, NULL, 0 },
	{ "nested groups over four communicators", 8, WORLD_BOTH, nested_groups, NULL, 0 },
	{ "waves of four communicators", 6, WORLD_BOTH, waves_of_communicators, NULL, 0 },
	{ "one thread, four ranks", 1, WORLD_PROCESSES, one_thread, NULL, 0 },
	{ "two threads, four ranks each", 2, WORLD_BOTH, two_drivers, NULL, 0 },
	{ "thread pools", 4, WORLD_BOTH, thread_pools, NULL, 0 },
	{ "descriptors", 3, WORLD_PROCESSES, descriptors, NULL, 0 },
};

int main(int argc, char **argv)
{
	return world_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
