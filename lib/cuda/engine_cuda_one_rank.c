/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a communicator of one rank: a copy within the GPU, or nothing. */
#include "engine_cuda.h"

#include "base/collectives.h"

int engine_has_one_rank(const struct engine *e, const struct call *c)
{
	const int premultiplied = coll_folds(c->record.coll) && c->record.op >= CORALE_NUM_OPS;
	return e->world_ranks == 1 && !premultiplied;
}

/* What a call moves from the rank to itself; to == from: nothing. */
struct own {
	const unsigned char *from;
	unsigned char *to;
	size_t bytes;
};

static struct own own_of(const struct call *c)
{
	struct own o = { c->send, c->recv, call_bytes(c) };
	const size_t element = corale_type_bytes(c->record.type);
	if (!c->send_counts)
		return o;
	o.bytes = c->send_counts[0] * element;
	if (o.bytes) {
		o.from += c->send_displs[0] * element;
		o.to += c->recv_displs[0] * element;
	}
	return o;
}

static int is_nothing(struct own o)
{
	return !o.bytes || o.from == o.to;
}

static int copy(const struct engine *e, struct own o, cudaStream_t stream)
{
	if (is_nothing(o))
		return 0;
	return engine_check(e, cudaMemcpyAsync(o.to, o.from, o.bytes, cudaMemcpyDefault, stream),
			    "copying what one rank sends itself");
}

/* For calls on other streams, and the end of the engine; those of a capture find the stream itself. */
static int mark(struct engine *e, cudaStream_t stream)
{
	return e->last_captures ? 0
				: engine_check(e, cudaEventRecord(e->copied, stream), "recording an event");
}

int engine_one_rank_is_done(const struct call *c)
{
	return is_nothing(own_of(c));
}

int engine_run_one_rank(struct engine *e, const struct call *c, cudaStream_t stream)
{
	const int ret = copy(e, own_of(c), stream);
	return ret ? ret : mark(e, stream); /* behind a follower, if there was one */
}

int engine_send_one_rank(struct engine *e, const struct call *m, int n, cudaStream_t stream)
{
	int ret = 0;
	for (int i = 0; !ret && i < n; i++)
		ret = copy(e, own_of(&m[i]), stream);
	return ret ? ret : mark(e, stream);
}
