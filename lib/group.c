#include <stdlib.h>
#include <string.h>

#include "coll.h"
#include "log.h"
#include "sequence.h"

struct grouped {
	struct comm *comm;
	struct corale_stream *stream;
	struct call call;
	int order; /* in which it was made */
	size_t *counts; /* the copied arrays of an all_to_all_v */
};

/* The open group of this thread. */
struct group {
	int depth, error; /* error: of the first call that was refused */
	size_t ncalls, room;
	struct grouped *calls;
};

static _Thread_local struct group group;

/* The caller's arrays may go before the group ends. */
static int copy_counts(struct grouped *g)
{
	size_t n = (size_t)g->comm->size;
	const size_t **arrays[] = { &g->call.send_counts, &g->call.send_displs, &g->call.recv_counts,
				    &g->call.recv_displs };
	if (!g->call.send_counts)
		return 0;
	g->counts = malloc(4 * n * sizeof *g->counts);
	if (!g->counts)
		return log_error(CORALE_ENOMEM, g->comm->rank, "no memory for the counts of an all_to_all_v");
	for (size_t i = 0; i < 4; i++) {
		memcpy(g->counts + i * n, *arrays[i], n * sizeof *g->counts);
		*arrays[i] = g->counts + i * n;
	}
	return 0;
}

int group_append(struct comm *comm, const struct call *call, struct corale_stream *stream, int refused,
		 int *ret)
{
	if (!group.depth)
		return 0;
	*ret = refused;
	if (!refused && group.ncalls == group.room) {
		size_t room = group.room ? 2 * group.room : 16;
		struct grouped *calls = realloc(group.calls, room * sizeof *calls);
		if (calls) {
			group.calls = calls;
			group.room = room;
		} else {
			*ret =
			    log_error(CORALE_ENOMEM, comm->rank, "no memory for %zu calls in a group", room);
		}
	}
	if (!*ret) {
		group.calls[group.ncalls] = (struct grouped){ comm, stream, *call, (int)group.ncalls, NULL };
		*ret = copy_counts(&group.calls[group.ncalls]);
		if (!*ret)
			call_keep(call);
	}
	group.ncalls += !*ret;
	group.error = group.error ? group.error : *ret;
	return 1;
}

int corale_group_begin(void)
{
	group.depth++;
	return 0;
}

static int is_pair(const struct call *call)
{
	return call->coll == CORALE_SEND || call->coll == CORALE_RECV;
}

/* By communicator (in an order that all its ranks share, so that groups over several cannot deadlock), sends and
 * receives first, then as made. */
static int compare(const void *x, const void *y)
{
	const struct grouped *a = x, *b = y;
	if (a->comm->id != b->comm->id)
		return a->comm->id < b->comm->id ? -1 : 1;
	if (is_pair(&a->call) != is_pair(&b->call))
		return is_pair(&b->call) - is_pair(&a->call);
	return a->order - b->order;
}

/* Sends and receives of one communicator that start together: all of them, on the stream of the first. */
static size_t batch_of(const struct grouped *g, size_t n)
{
	size_t batch = 1;
	while (is_pair(&g[0].call) && batch < n && g[batch].comm == g[0].comm && is_pair(&g[batch].call))
		batch++;
	return batch;
}

/* They start together on the first one's stream: what is on the others comes before, or after. */
static int join(const struct grouped *g, size_t n, int after)
{
	int ret = 0;
	for (size_t i = 1; !ret && i < n; i++)
		if (g[i].stream != g[i - 1].stream && g[i].stream != g->stream)
			ret = sequence_join(g->comm, after ? g->stream : g[i].stream,
					    after ? g[i].stream : g->stream);
	return ret;
}

static int run_group(struct grouped *g, size_t n)
{
	int ret = 0;
	struct call *batch = calloc(n, sizeof *batch);
	if (!batch)
		return log_error(CORALE_ENOMEM, -1, "no memory for a group of %zu calls", n);
	for (size_t i = 0, size; i < n; i += size) {
		size = batch_of(&g[i], n - i);
		for (size_t k = 0; k < size; k++)
			batch[k] = g[i + k].call;
		int one = join(&g[i], size, 0);
		if (!one)
			one = sequence_submit(g[i].comm, batch, (int)size, g[i].stream);
		if (!one)
			one = join(&g[i], size, 1);
		if (one)
			comm_keep_error(g[i].comm);
		ret = ret ? ret : one;
	}
	free(batch);
	return ret;
}

int corale_group_end(void)
{
	if (!group.depth)
		return log_error(CORALE_EINVAL, -1,
				 "corale_group_end without corale_group_begin in this thread");
	if (--group.depth)
		return 0;
	struct group g = group;
	group = (struct group){ 0 };
	int ret = g.error;
	if (!ret && g.ncalls) {
		qsort(g.calls, g.ncalls, sizeof *g.calls, compare);
		ret = run_group(g.calls, g.ncalls);
	}
	for (size_t i = 0; i < g.ncalls; i++) {
		call_let_go(&g.calls[i].call);
		free(g.calls[i].counts);
	}
	free(g.calls);
	return ret;
}
