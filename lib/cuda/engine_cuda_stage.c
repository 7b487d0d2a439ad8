/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordinary host memory, or memory of another GPU, in a call: memory of the GPU stands in for it. The call's stream allocates it, copies in what is sent,
 * runs the call, copies out what was received and frees it, so that order and reuse are the stream's.
 */
#include <string.h>

#include "engine_cuda.h"
#include "base/wait.h"
#include "base/collectives.h"

enum { SPIN_NS = 20000 /* as the host's waits */ };

/* ---- Steps on the stream -------------------------------------------------------------------------------- */

/* Whether a call, or a message, receives into ordinary memory. */
static int waits(const struct call *c)
{
	return (c->admission.plain & (ENGINE_PLAIN_RECV | ENGINE_PLAIN_RECV << ENGINE_OTHER_GPU)) ==
	       ENGINE_PLAIN_RECV;
}

/* Of n messages, or one call. The thread may wait for the stream. */
static int begin(struct stage *s, struct engine *e, const struct call *calls, int n, cudaStream_t stream)
{
	*s = (struct stage){ .engine = e, .stream = stream, .memory = e->staged->memory };
	for (int i = 0; i < n; i++)
		s->waits |= waits(&calls[i]);
	e->staging = 1;
	int ret = engine_order(e, stream, 0);
	e->staging = 0;
	return ret;
}

/* Memory of the GPU for so many bytes. */
static int reserve(struct stage *s, uint64_t bytes, unsigned char **out)
{
	void **memory = s->memory ? &s->memory[s->allocated] : &s->copy;
	int ret = engine_check(s->engine, cudaMallocAsync(memory, bytes, s->stream),
			       "allocating GPU memory for the copy of a buffer");
	s->allocated += !ret;
	*out = *memory;
	return ret;
}

static int copy_in(struct stage *s, void *device, const void *host, uint64_t bytes)
{
	if (!bytes)
		return 0;
	return engine_check(s->engine, cudaMemcpyAsync(device, host, bytes, cudaMemcpyDefault, s->stream),
			    "copying from ordinary host memory or another GPU");
}

static void copy_back_later(struct stage *s, void *host, const void *device, uint64_t bytes)
{
	if (bytes)
		s->engine->staged->back[s->backs++] = (struct stage_back){ host, device, bytes };
}

static int poll_stream(void *arg)
{
	const struct stage *s = arg;
	return s->engine->driver.stream_query(s->stream) != (CUresult)cudaErrorNotReady;
}

/* The error of the call; what it received is not looked at before. */
static int wait_for_call(struct stage *s)
{
	const int mode = engine_spare_captures(); /* else waiting ends the program's captures */
	if (hook_is_set()) /* the driver's wait does not call it */
		wait_until(&(struct wait_policy){ .spin_ns = SPIN_NS }, poll_stream, s);
	int ret = engine_check(s->engine, cudaStreamSynchronize(s->stream),
			       "waiting for a call that receives into ordinary host memory");
	engine_end_spare(mode);
	return ret ? ret : engine_failed(s->engine);
}

int engine_stage_end(struct stage *s, int ret)
{
	s->engine->staging = 0;
	if (!ret && s->waits)
		ret = wait_for_call(s);
	const struct stage_back *back = s->engine->staged->back;
	for (int i = 0; !ret && i < s->backs; i++)
		ret = engine_check(s->engine,
				   cudaMemcpyAsync(back[i].host, back[i].device, back[i].bytes,
						   cudaMemcpyDefault, s->stream),
				   "copying to ordinary host memory or another GPU");
	for (int i = 0; i < s->allocated; i++) {
		void *memory = s->memory ? s->memory[i] : s->copy;
		int freed = engine_check(s->engine, cudaFreeAsync(memory, s->stream), "freeing GPU memory");
		ret = ret ? ret : freed;
	}
	return ret;
}

/* ---- Collectives of one count --------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct engine *e, const struct call *c, int sending)
{
	return call_bytes(c) *
	       (sending ? coll_send_blocks(c->record.coll, e->world_ranks, e->world_rank, c->record.root)
			: coll_recv_blocks(c->record.coll, e->world_ranks, e->world_rank, c->record.root));
}

/* Both buffers are copied. In place one of them is within the other, and the larger one's place holds both. */
static int stage_in_place(struct stage *s, struct call *c, uint64_t send, uint64_t recv)
{
	unsigned char *memory, *sent, *received;
	uintptr_t from = (uintptr_t)c->send, to = (uintptr_t)c->recv;
	int ret = reserve(s, send > recv ? send : recv, &memory);
	if (ret)
		return ret;
	sent = memory + (from > to ? from - to : 0);
	received = memory + (to > from ? to - from : 0);
	ret = copy_in(s, sent, c->send, send);
	copy_back_later(s, c->recv, received, recv);
	c->send = sent;
	c->recv = received;
	return ret;
}

/* What is only read: its place becomes that of the copy. */
static int stage_source(struct stage *s, const void **source, uint64_t bytes)
{
	unsigned char *memory;
	int ret = reserve(s, bytes, &memory);
	if (!ret)
		ret = copy_in(s, memory, *source, bytes);
	*source = memory;
	return ret;
}

static int stage_recv(struct stage *s, struct call *c, uint64_t bytes)
{
	unsigned char *memory;
	int ret = reserve(s, bytes, &memory);
	if (!ret)
		copy_back_later(s, c->recv, memory, bytes);
	c->recv = memory;
	return ret;
}

static int stage_blocks(struct stage *s, struct call *c)
{
	uint64_t send = bytes_of(s->engine, c, 1), recv = bytes_of(s->engine, c, 0);
	uintptr_t from = (uintptr_t)c->send, to = (uintptr_t)c->recv;
	const int plain = c->admission.plain, both = ENGINE_PLAIN_SEND | ENGINE_PLAIN_RECV;
	if ((plain & both) == both && from < to + recv && to < from + send)
		return stage_in_place(s, c, send, recv);
	int ret = plain & ENGINE_PLAIN_SEND ? stage_source(s, &c->send, send) : 0;
	return !ret && plain & ENGINE_PLAIN_RECV ? stage_recv(s, c, recv) : ret;
}

/* ---- Collectives with counts ---------------------------------------------------------------------------- */

/* The bytes from the first to the last element of all blocks. What lies between blocks is not touched. */
static uint64_t extent(const size_t *counts, const size_t *displs, int ranks, size_t element, uint64_t *first)
{
	uint64_t low = UINT64_MAX, high = 0;
	for (int r = 0; r < ranks; r++) {
		uint64_t end = displs[r] + counts[r];
		if (!counts[r])
			continue;
		low = displs[r] < low ? displs[r] : low;
		high = end > high ? end : high;
	}
	*first = high ? low * element : 0;
	return high ? (high - low) * element : 0;
}

/* One buffer; where its copy would begin, blocks' displacements being those of the caller. */
static int stage_buffer_v(struct stage *s, const struct call *c, int sending, uintptr_t *begin)
{
	const int ranks = s->engine->world_ranks;
	const size_t element = corale_type_bytes(c->record.type),
		     *counts = sending ? c->send_counts : c->recv_counts,
		     *displs = sending ? c->send_displs : c->recv_displs;
	unsigned char *memory;
	uint64_t first, bytes = extent(counts, displs, ranks, element, &first);
	int ret = bytes ? reserve(s, bytes, &memory) : 0;
	if (ret || !bytes)
		return ret;
	for (int r = 0; !ret && r < ranks; r++) {
		const uint64_t at = displs[r] * element, n = counts[r] * element;
		if (n && sending)
			ret = copy_in(s, memory + (at - first), (const unsigned char *)c->send + at, n);
		else if (n)
			copy_back_later(s, (unsigned char *)c->recv + at, memory + (at - first), n);
	}
	*begin = (uintptr_t)memory - first;
	return ret;
}

static int stage_blocks_v(struct stage *s, struct call *c)
{
	uintptr_t send = (uintptr_t)c->send, recv = (uintptr_t)c->recv;
	int ret = c->admission.plain & ENGINE_PLAIN_SEND ? stage_buffer_v(s, c, 1, &send) : 0;
	if (!ret && c->admission.plain & ENGINE_PLAIN_RECV)
		ret = stage_buffer_v(s, c, 0, &recv);
	c->send = (const void *)send;
	c->recv = (void *)recv;
	return ret;
}

int engine_stage_call(struct stage *s, struct engine *e, struct call *c, cudaStream_t stream)
{
	int ret = begin(s, e, c, 1, stream);
	if (!ret)
		ret = c->send_counts ? stage_blocks_v(s, c) : stage_blocks(s, c);
	e->staging = s->waits = s->waits && s->backs; /* this thread waits for the call */
	return ret;
}

/* ---- In place ------------------------------------------------------------------------------------------- */

/* A graph may be replayed at any time, so its copy stays; sizes double, so that all take little more than the last one. */
static int reserve_for_graphs(struct engine *e, uint64_t least, unsigned char **out)
{
	uint64_t bytes = 1;
	void *memory = e->graph_copy;
	*out = memory;
	if (least <= e->graph_copy_bytes)
		return 0;
	while (bytes < least)
		bytes *= 2;
	const int mode = engine_spare_captures();
	int ret = engine_check(e, cudaMalloc(&memory, bytes),
			       "allocating the copy of what a captured call in place sends");
	engine_end_spare(mode);
	if (ret)
		return ret;
	*out = e->graph_copy = memory;
	e->graph_copy_bytes = bytes;
	e->bytes += bytes;
	return 0;
}

int engine_stage_copy(struct stage *s, void *to, const void *from, uint64_t bytes, const char *what)
{
	return bytes ? engine_check(s->engine, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s->stream),
				    what)
		     : 0;
}

/* Each rank's block of what is sent: to where it would lie if the buffer began at `copy`. */
static int copy_blocks(struct stage *s, const struct call *c, uintptr_t copy)
{
	const size_t element = corale_type_bytes(c->record.type);
	int ret = 0;
	for (int r = 0; !ret && r < s->engine->world_ranks; r++) {
		const uint64_t at = c->send_displs[r] * element;
		ret = engine_stage_copy(s, (void *)(copy + at), (const unsigned char *)c->send + at,
					c->send_counts[r] * element, "copying what a call in place sends");
	}
	return ret;
}

int engine_stage_reserve(struct stage *s, const struct call *c, uint64_t bytes, unsigned char **out)
{
	s->engine->follows = 0; /* the kernel comes behind a copy */
	return c->admission.capture ? reserve_for_graphs(s->engine, bytes, out) : reserve(s, bytes, out);
}

int engine_copy_call(struct stage *s, struct engine *e, struct call *c, cudaStream_t stream)
{
	uint64_t first = 0, bytes = bytes_of(e, c, 1);
	unsigned char *copy;
	*s = (struct stage){ .engine = e, .stream = stream };
	if (c->send_counts)
		bytes = extent(c->send_counts, c->send_displs, e->world_ranks,
			       corale_type_bytes(c->record.type), &first);
	int ret = bytes ? engine_stage_reserve(s, c, bytes, &copy) : 0;
	if (ret || !bytes)
		return ret;
	const uintptr_t begin = (uintptr_t)copy - first;
	ret = c->send_counts
		  ? copy_blocks(s, c, begin)
		  : engine_stage_copy(s, copy, c->send, bytes, "copying what a call in place sends");
	c->send = (const void *)begin;
	return ret;
}

/* ---- Groups of sends and receives ----------------------------------------------------------------------- */

static int stage_message(struct stage *s, struct call *m)
{
	const uint64_t bytes = call_bytes(m);
	int ret = m->admission.plain & ENGINE_PLAIN_SEND ? stage_source(s, &m->send, bytes) : 0;
	if (ret || !(m->admission.plain & ENGINE_PLAIN_RECV))
		return ret;
	m->record.target = 0; /* no peer maps it */
	return stage_recv(s, m, bytes);
}

int engine_stage_messages(struct stage *s, struct engine *e, const struct call *m, int n, cudaStream_t stream,
			  struct call **staged)
{
	int ret = begin(s, e, m, n, stream);
	*staged = memcpy(e->staged->messages, m, (size_t)n * sizeof *m);
	for (int i = 0; !ret && i < n; i++)
		ret = stage_message(s, *staged + i);
	e->staging = s->waits = s->waits && s->backs;
	return ret;
}
