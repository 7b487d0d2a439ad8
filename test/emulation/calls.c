/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes calls on emulated GPUs and compares every element of their results with the host's folds in rank order. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "reduce/reduce.h"
#include "test/helpers/reference.h"
#include "test/helpers/replay.h"
#include "base/collectives.h"
#include "base/status.h"

enum { LEAD = 256, GUARD = 160, GUARD_BYTE = 0x5a, MOST_PRINTED = 3 };

static struct reference reference_of(const struct test_call *c, int ranks)
{
	return (struct reference){ .type = c->type,
				   .op = (corale_op)(coll_folds(c->coll) ? c->op : REFERENCE_COPY),
				   .ranks = ranks,
				   .data = c->seed % 3 ? REFERENCE_RANDOM : REFERENCE_SPECIAL,
				   .seed = c->seed };
}

/* Elements from one rank to another in an all_to_all_v, which may be a scatter_v's or gather_v's; in a reduce_scatter_v the same from each. */
static size_t edge_count(const struct test_call *c, int from, int to)
{
	const int folds = coll_folds_uneven(c->coll);
	const uint64_t form = folds ? 0 : c->seed % 5;
	if ((form == 3 && from != c->root) || (form == 4 && to != c->root))
		return 0;
	return ((size_t)(folds ? to : from * 3 + to) + c->seed) % 4 * c->count / 2;
}

/* Where a sender's block for a rank begins, with a gap of one element between blocks; for the rank behind the last: the end. */
static size_t edge_place(const struct test_call *c, int sender, int receiver, int sending)
{
	size_t at = 0;
	for (int r = 0; r < (sending ? receiver : sender); r++)
		at += (sending ? edge_count(c, sender, r) : edge_count(c, r, receiver)) + 1;
	return at;
}

static void set_edges(struct started *s)
{
	for (int r = 0; r < s->ranks; r++) {
		s->send_counts[r] = edge_count(s->call, s->rank, r);
		s->send_displs[r] = edge_place(s->call, s->rank, r, 1);
		s->recv_counts[r] = edge_count(s->call, r, s->rank);
		if (r == 0 && s->rank == 1) /* behind each block is room for one */
			s->recv_counts[r] += s->call->astray;
		s->recv_displs[r] = edge_place(s->call, r, s->rank, 0);
		if (coll_folds_uneven(s->call->coll)) {
			s->recv_counts[r] = r == s->rank ? s->recv_counts[r] : 0;
			s->recv_displs[r] = 0;
		}
	}
}

/* The record's count: of a reduce_scatter_v the largest. */
static size_t count_of(const struct started *s)
{
	size_t largest = 0;
	if (!coll_folds_uneven(s->call->coll))
		return s->call->count;
	for (int r = 0; r < s->ranks; r++)
		largest = s->send_counts[r] > largest ? s->send_counts[r] : largest;
	return largest;
}

/* What a rank contributes: the reference's elements, among them groups of which all bits are ones. */
static void contribute(const struct test_call *c, int ranks, int rank, size_t first, size_t count,
		       unsigned char *out)
{
	struct reference ref = reference_of(c, ranks);
	size_t bytes = corale_type_bytes(c->type);
	reference_fill(&ref, rank, first, count, out);
	for (size_t i = 0; i < count; i++)
		if (((first + i) / 16 + c->seed) % 29 == (size_t)rank)
			memset(out + i * bytes, 0xff, bytes);
}

/* The same, times the rank's scalar in a premultiplied sum. */
static void contribute_scaled(const struct test_call *c, int ranks, int rank, size_t first, size_t count,
			      unsigned char *out)
{
	struct reference ref = reference_of(c, ranks);
	struct reduce_spec spec = { c->type, (corale_op)c->op, ranks, { 0 } };
	struct reduce_input input = { out, REDUCE_SEND };
	contribute(c, ranks, rank, first, count, out);
	if (c->op != CORALE_NUM_OPS)
		return;
	reference_scalar(&ref, rank, spec.scalar);
	reduce_fold(&spec, out, &input, 1, count, 0);
}

static size_t send_count(const struct started *s)
{
	const struct test_call *c = s->call;
	return coll_is_uneven(c->coll) ? edge_place(c, s->rank, s->ranks, 1)
				       : c->count * coll_send_blocks(c->coll, s->ranks, s->rank, c->root);
}

static size_t recv_count(const struct started *s)
{
	const struct test_call *c = s->call;
	if (coll_folds_uneven(c->coll))
		return edge_count(c, 0, s->rank);
	return coll_is_uneven(c->coll) ? edge_place(c, s->ranks, s->rank, 0)
				       : c->count * coll_recv_blocks(c->coll, s->ranks, s->rank, c->root);
}

/* The call's shifts and what is in place hold here. */
static int holds_here(const struct started *s)
{
	return !s->call->alone || s->call->alone - 1 == s->rank;
}

/* One buffer is a part of the other. */
static int is_in_place(const struct started *s)
{
	return s->call->in_place && holds_here(s) && send_count(s) && recv_count(s);
}

static int is_within_send(const struct started *s)
{
	return is_in_place(s) && send_count(s) > recv_count(s);
}

int call_runs_in_host(const struct test_call *c)
{
	return !c->zero_copy && (!c->codelet || c->codelet == &bulk_codelet || c->codelet == &chain_codelet ||
				 coll_is_uneven(c->coll));
}

uint64_t call_signature(const struct test_call *c)
{
	uint64_t x =
	    (uint64_t)c->coll | (uint64_t)c->type << 8 | (uint64_t)c->op << 16 | (uint64_t)c->count << 24;
	return (x + c->seed) * 0x9e3779b97f4a7c15u | 1;
}

size_t call_room(const struct test_call *c, int ranks)
{
	struct started s = { .call = c, .ranks = ranks };
	size_t most = 0;
	for (s.rank = 0; s.rank < ranks; s.rank++)
		most = recv_count(&s) > most ? recv_count(&s) : most;
	return plan_round(most * corale_type_bytes(c->type) + c->recv_shift + LEAD + GUARD, 128);
}

static unsigned char *make_buffer(const struct started *s, unsigned char **memory, size_t bytes,
				  unsigned shift)
{
	size_t all = plan_round(LEAD + shift + bytes + GUARD, 128);
	*memory = s->call->zero_copy ? exports_take(s->rank, all) : aligned_alloc(128, all);
	if (!*memory)
		abort();
	memset(*memory, GUARD_BYTE, all);
	return *memory + LEAD + shift;
}

static void fill_all(struct started *s, unsigned char *registered)
{
	const struct test_call *c = s->call;
	const unsigned recv_shift = holds_here(s) ? c->recv_shift : 0,
		       send_shift = holds_here(s) ? c->send_shift : 0;
	size_t bytes = corale_type_bytes(c->type), all_send = send_count(s) * bytes;
	if (c->place) {
		s->recv = registered + c->place + LEAD + c->recv_shift;
		memset(registered + c->place, GUARD_BYTE, call_room(c, s->ranks));
	} else {
		s->recv = make_buffer(s, &s->recv_memory, recv_count(s) * bytes, recv_shift);
	}
	if (is_in_place(s) && !is_within_send(s))
		s->send = s->recv + coll_recv_own(c->coll, s->rank) * c->count * bytes;
	else
		s->send = make_buffer(s, &s->send_memory, all_send, send_shift);
	const size_t own = coll_is_uneven(c->coll) ? edge_place(c, s->rank, s->rank, 1)
						   : coll_send_own(c->coll, s->rank) * c->count;
	if (is_within_send(s))
		s->recv = s->send + (c->in_place == CALL_AT_FRONT ? 0 : own) * bytes;
	contribute(c, s->ranks, s->rank, 0, send_count(s), s->send);
}

void call_fill(struct started *s, struct world *w, int rank, const struct test_call *c)
{
	*s = (struct started){ .scalar = ~0ull,
			       .scalars = { 0, ~1ull },
			       .call = c,
			       .rank = rank,
			       .ranks = w->ranks,
			       .map = &w->topo->map };
	set_edges(s);
	fill_all(s, c->place ? w->registered[rank] : NULL);
}

/* In the order of the stream. */
static void copy_scalar(struct started *s, int behind, void *stream)
{
	cudaMemcpyAsync(&s->scalar, &s->scalars[behind], sizeof s->scalar, cudaMemcpyDefault, stream);
}

/* Without elements there need be no buffer. */
static unsigned char *buffer_of(const struct started *s, unsigned char *buffer, const size_t *counts)
{
	size_t all = !coll_is_uneven(s->call->coll);
	for (int r = 0; r < s->ranks; r++)
		all += counts[r];
	return all ? buffer : NULL;
}

int call_start_on(struct started *s, struct world *w, int rank, const struct test_call *c, uint64_t signature,
		  void *stream)
{
	call_fill(s, w, rank, c);
	const struct engine *e = &w->engines[rank];
	const int folds_uneven = coll_folds_uneven(c->coll);
	const corale_coll launched = folds_uneven ? CORALE_REDUCE_SCATTER : c->coll;
	const size_t element = corale_type_bytes(c->type),
		     largest = count_of(s) / (c->rounds ? c->rounds : 1) + 1,
		     count = folds_uneven ? plan_round(largest * element, 16) / element : c->count;
	struct call call = { .record = { .coll = c->coll,
					 .type = c->type,
					 .op = (corale_op)c->op,
					 .count = count_of(s),
					 .signature = signature,
					 .root = c->root },
			     .send = buffer_of(s, s->send, s->send_counts),
			     .recv = buffer_of(s, s->recv, s->recv_counts),
			     .number = c->number };
	struct gpu_launch prepared = { .cut.machine = &e->machine };
	struct launch *launch = &prepared.cut;
	*launch = (struct launch){ .machine = &e->machine,
				   .codelet = codelet_of_kind(c->codelet, launched),
				   .coll = launched,
				   .bytes = coll_is_uneven(launched) ? 0 : count * element,
				   .words = type_in_words(c->type) != 0,
				   .unaligned = (uint8_t)plan_alignment_of(s->send, s->recv),
				   .direct = c->place != 0,
				   .scratch = c->scratch && e->machine.scratch_bytes,
				   .single_channel = c->single_channel,
				   .zero_copy = c->zero_copy != 0 };
	if (c->codelet)
		launch_cut(launch);
	if (c->place)
		call.record.target =
		    ((uint64_t)1 << ENGINE_TARGET_SHIFT) | (uint64_t)(s->recv - w->registered[rank]);
	struct reference ref = reference_of(c, w->ranks);
	if (c->op == CORALE_NUM_OPS)
		reference_scalar(&ref, rank, c->scalar_changes ? &s->scalars[0] : &call.scalar);
	if (c->scalar_changes) {
		call.scalar_at = &s->scalar;
		copy_scalar(s, 0, stream);
	}
	if (coll_is_uneven(c->coll)) {
		call.send_counts = s->send_counts;
		call.send_displs = s->send_displs;
		call.recv_counts = s->recv_counts;
		call.recv_displs = s->recv_displs;
	}
	struct plan_key key = planner_key(launched, count, c->type, (corale_op)c->op);
	int ret = c->codelet ? 0
			     : world_plan(w, &key, c->row, c->single_channel, rank, c->root, &s->plan,
					  &launch->list, &s->messages);
	launch->plan = c->codelet ? NULL : &s->plan;
	launch->messages = c->in_lines && s->messages.most[0] ? &s->messages : NULL;
	engine_prepare(e, &prepared);
	ret = ret ? ret : engine_run(&w->engines[rank], &call, &prepared, stream);
	if (c->scalar_changes)
		copy_scalar(s, 1, stream);
	return ret;
}

int call_start(struct started *s, struct world *w, int rank, const struct test_call *c, uint64_t signature)
{
	return call_start_on(s, w, rank, c, signature, NULL);
}

/* ---- What a rank must have received --------------------------------------------------------------------------- */

/* Elements [first, first + count) of the fold of all ranks' in their order. */
static void expect_fold(const struct started *s, size_t first, size_t count, unsigned char *expected)
{
	const struct test_call *c = s->call;
	struct reduce_input inputs[GPU_MAX_HOSTS];
	size_t bytes = count * corale_type_bytes(c->type);
	unsigned char *all = malloc((size_t)s->ranks * bytes + 1);
	if (!all)
		abort();
	for (int r = 0; r < s->ranks; r++) {
		unsigned char *own = all + (size_t)r * bytes;
		contribute_scaled(c, s->ranks, r, first, count, own);
		inputs[r] = (struct reduce_input){ own, REDUCE_LOCAL };
	}
	struct reduce_spec spec = { c->type, (corale_op)c->op, s->ranks, { 0 } };
	reduce_fold(&spec, expected, inputs, s->ranks, count, 1);
	free(all);
}

/* Where sums are passed on: what the plan gives, run by one thread for all ranks. */
static void expect_replay(const struct started *s, unsigned char *expected)
{
	const struct test_call *c = s->call;
	void *send[GPU_MAX_HOSTS], *recv[GPU_MAX_HOSTS];
	size_t bytes = corale_type_bytes(c->type), in = send_count(s), out = recv_count(s);
	for (int r = 0; r < s->ranks; r++) {
		send[r] = malloc(in * bytes + 1);
		recv[r] = malloc(out * bytes + 1);
		if (!send[r] || !recv[r])
			abort();
		contribute_scaled(c, s->ranks, r, 0, in, send[r]);
	}
	if (replay(&s->plan, s->map, c->root, c->count, send, recv))
		abort();
	memcpy(expected, recv[s->rank], out * bytes);
	for (int r = 0; r < s->ranks; r++) {
		free(send[r]);
		free(recv[r]);
	}
}

static int passes_sums_on(const struct test_call *c)
{
	int rows;
	return !c->codelet && coll_folds(c->coll) && !(row_table(&rows)[c->row].traits & ROW_ALL_AT_ONCE);
}

static void expect_all(const struct started *s, unsigned char *expected)
{
	const struct test_call *c = s->call;
	size_t bytes = c->count * corale_type_bytes(c->type);
	if (!recv_count(s))
		return;
	if (passes_sums_on(c))
		expect_replay(s, expected);
	else if (coll_folds(c->coll))
		expect_fold(s,
			    coll_is_uneven(c->coll)    ? edge_place(c, 0, s->rank, 1)
			    : coll_sends_each(c->coll) ? (size_t)s->rank * c->count
						       : 0,
			    coll_is_uneven(c->coll) ? recv_count(s) : c->count, expected);
	else if (coll_is_uneven(c->coll))
		for (int r = 0; r < s->ranks; r++)
			contribute(c, s->ranks, r, edge_place(c, r, s->rank, 1), s->recv_counts[r],
				   expected + s->recv_displs[r] * corale_type_bytes(c->type));
	else
		for (int r = 0; r < (coll_receives_each(c->coll) ? s->ranks : 1); r++)
			contribute(c, s->ranks, coll_receives_each(c->coll) ? r : c->root,
				   coll_sends_each(c->coll) ? (size_t)s->rank * c->count : 0, c->count,
				   expected + (size_t)r * bytes);
}

static int print_faults(const struct started *s, const unsigned char *expected, size_t bytes)
{
	const struct test_call *c = s->call;
	int faults = 0;
	for (size_t i = 0; i < bytes; i++)
		if (s->recv[i] != expected[i] && faults++ < MOST_PRINTED)
			printf("# rank %d: %s, %s of %zu %s, op %d: byte %zu is 0x%02x, expected 0x%02x\n",
			       s->rank, corale_coll_name(c->coll), codelet_kind_name(c->codelet), c->count,
			       corale_type_name(c->type), c->op, i, s->recv[i], expected[i]);
	/* What is within the send buffer has other blocks around it. */
	for (size_t i = 0; i < GUARD && !is_within_send(s); i++) {
		const unsigned char *before = s->recv - 1 - i, *behind = s->recv + bytes + i;
		if ((*before != GUARD_BYTE || *behind != GUARD_BYTE) && faults++ < MOST_PRINTED)
			printf("# rank %d: %s, %s: a byte %zu off the receive buffer was written\n", s->rank,
			       corale_coll_name(c->coll), codelet_kind_name(c->codelet), i + 1);
	}
	return faults;
}

int call_finish(struct started *s)
{
	size_t bytes = recv_count(s) * corale_type_bytes(s->call->type);
	unsigned char *expected = malloc(bytes + 1);
	if (!expected)
		abort();
	memset(expected, GUARD_BYTE, bytes); /* what is not received is not written */
	expect_all(s, expected);
	int faults = print_faults(s, expected, bytes);
	free(expected);
	call_drop(s);
	return faults;
}

void call_drop(struct started *s)
{
	if (!exports_give(s->send_memory))
		free(s->send_memory);
	if (!exports_give(s->recv_memory))
		free(s->recv_memory);
}
