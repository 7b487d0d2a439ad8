/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include <stdint.h>

#include "arena.h"
#include "base/log.h"
#include "base/sort.h"
#include "gpu_call.h"
#include "start.h"

_Static_assert(sizeof(struct grouped) <= SORT_MOST_BYTES, "can be sorted");

int grouped_no_memory(int rank, const char *what, size_t n)
{
	return log_error(CORALE_ENOMEM, rank, "no memory for %s of %zu calls", what, n);
}

/* Communicators in an order that all their ranks share; of each the ranks that this thread drives, one after the other. */
static int by_comm(const struct grouped *a, const struct grouped *b)
{
	const int ret = sort_differ(a->comm->id, b->comm->id);
	return ret ? ret : a->comm->rank - b->comm->rank;
}

/* A rank's calls in the order in which they were made. */
static int compare_made(const void *x, const void *y)
{
	const struct grouped *a = x, *b = y;
	const int ret = by_comm(a, b);
	return ret ? ret : sort_differ(a->order, b->order);
}

/* A wave of all ranks of a communicator before the next one of any; collectives behind all waves. */
static int compare_on_gpus(const struct grouped *a, const struct grouped *b)
{
	int ret = sort_differ(a->comm->id, b->comm->id);
	ret = ret ? ret : sort_differ(a->wave, b->wave);
	return ret ? ret : compare_made(a, b);
}

/* In which they start: by dispatch, stream, communicator and rank; sends and receives first. */
static int compare_started(const void *x, const void *y)
{
	const struct grouped *a = x, *b = y;
	if (a->dispatch != b->dispatch)
		return a->dispatch < b->dispatch ? -1 : 1;
	if (a->dispatch == DISPATCH_GPU)
		return compare_on_gpus(a, b);
	if (a->dispatch == DISPATCH_SINGLE)
		return sort_differ(a->order, b->order);
	int ret = sort_differ((uintptr_t)a->stream, (uintptr_t)b->stream);
	ret = ret ? ret : by_comm(a, b);
	ret = ret ? ret : call_is_pair(&b->call) - call_is_pair(&a->call);
	return ret ? ret : sort_differ(a->order, b->order);
}

size_t grouped_pairs(const struct grouped *g, size_t n)
{
	size_t pairs = 0;
	for (size_t i = 0; i < n; i++)
		pairs += (size_t)call_is_pair(&g[i].call);
	return pairs;
}

/* A group of a communicator starts as one, which a graph's part and an eager part can't. */
static int admit_together(struct grouped *g, size_t n)
{
	const struct comm *comm = g->comm;
	for (size_t i = 0; i < n; i++) {
		int ret = gpu_admit(g->comm, &g[i].call, g[i].stream);
		if (ret)
			return ret;
		if (g[i].call.admission.capture != g->call.admission.capture)
			return log_error(
			    CORALE_ENOTSUP, comm->rank,
			    "a group's calls of one communicator are on streams of which one is captured "
			    "(%s) and another is not, or is in another capture (%s): put them into groups of "
			    "their own",
			    corale_coll_name(g[g->call.admission.capture ? 0 : i].call.record.coll),
			    corale_coll_name(g[g->call.admission.capture ? i : 0].call.record.coll));
	}
	return 0;
}

/* Chooses the dispatch of one communicator's calls, and refuses what has none: nothing was started yet. */
static int check_comm(struct grouped *g, size_t n, struct call *batch)
{
	const struct comm *comm = g->comm;
	size_t pairs = 0, streams = 0;
	for (size_t i = 0; i < n; i++) {
		if (call_is_pair(&g[i].call))
			batch[pairs++] = g[i].call;
		streams += g[i].stream != g->stream;
	}
	enum dispatch dispatch = comm->gpu   ? DISPATCH_GPU
				 : streams   ? DISPATCH_SINGLE
				 : g->stream ? DISPATCH_STREAM
					     : DISPATCH_BLOCKING;
	for (size_t i = 0; i < n; i++)
		g[i].dispatch = dispatch;
	if (pairs && dispatch == DISPATCH_SINGLE)
		return log_error(CORALE_ENOTSUP, comm->rank,
				 "sends and receives of one communicator and group, or these and its "
				 "collectives, are on several host streams: put them on one");
	int ret = self_check(comm, batch, (int)pairs);
	return ret || !comm->gpu ? ret : admit_together(g, n);
}

size_t grouped_of_comm(const struct grouped *g, size_t n)
{
	size_t same = 1;
	while (same < n && g[same].comm == g->comm && g[same].dispatch == g->dispatch &&
	       g[same].wave == g->wave)
		same++;
	return same;
}

/* Sends and receives of all ranks of a communicator on GPUs. */
static int cut_waves(struct grouped *g, size_t n)
{
	const struct comm *comm = g->comm;
	const size_t pairs = grouped_pairs(g, n);
	for (size_t i = 0; i < n; i++)
		if (call_is_pair(&g[i].call))
			g[i].wave = 0;
	if (pairs <= ENGINE_MOST_GROUPED) /* no rank can have more than one wave takes */
		return 0;
	const struct arena_mark mark = arena_mark();
	struct wave_call *calls = arena_take(pairs * sizeof *calls);
	uint32_t *used = arena_take((size_t)comm->size * sizeof *used);
	if (!calls || !used)
		return grouped_no_memory(comm->rank, "waves", pairs);
	for (size_t i = 0, p = 0; i < n; i++)
		if (call_is_pair(&g[i].call))
			calls[p++] = (struct wave_call){ .rank = g[i].comm->rank,
							 .peer = g[i].call.record.root,
							 .receives = g[i].call.record.coll == CORALE_RECV,
							 .order = (uint32_t)i };
	waves_cut(calls, pairs, comm->size, ENGINE_MOST_GROUPED, used);
	for (size_t p = 0; p < pairs; p++)
		g[calls[p].order].wave = calls[p].wave;
	arena_release(mark);
	return 0;
}

static int cut_all_waves(struct grouped *g, size_t n)
{
	int ret = 0;
	for (size_t i = 0, same; !ret && i < n; i += same) {
		for (same = 1; i + same < n && g[i + same].comm->id == g[i].comm->id; same++)
			;
		if (g[i].comm->gpu && grouped_pairs(&g[i], same))
			ret = cut_waves(&g[i], same);
	}
	return ret;
}

int grouped_arrange(struct grouped *g, size_t n, struct call *batch)
{
	int ret = 0;
	sort_items(g, n, sizeof *g, compare_made);
	for (size_t i = 0, size; !ret && i < n; i += size) {
		size = grouped_of_comm(&g[i], n - i);
		ret = check_comm(&g[i], size, batch);
		if (ret)
			comm_keep_error(g[i].comm);
	}
	ret = ret ? ret : cut_all_waves(g, n);
	if (!ret)
		sort_items(g, n, sizeof *g, compare_started);
	return ret;
}
