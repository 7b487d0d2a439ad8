/*
 * Ordinary host memory in a call: memory of the GPU stands in for it. The call's stream allocates it, copies in what is sent,
 * runs the call, copies out what was received and frees it, so that order and reuse are the stream's.
 */
#include <string.h>

#include "engine_cuda.h"
#include "base/log.h"
#include "base/collectives.h"

enum { STAGE_MOST = 2 * ENGINE_MOST_GROUPED };

/* What was received, to be copied to its place. */
struct stage_back {
	void *host;
	const void *device;
	uint64_t bytes;
};

struct stage {
	struct engine *engine;
	cudaStream_t stream;
	const char *name; /* of the call */
	void *memory[STAGE_MOST];
	struct stage_back back[STAGE_MOST];
	int allocated, backs;
};

int engine_is_plain(struct engine *e, const void *memory)
{
	struct cudaPointerAttributes attributes;
	uintptr_t granule = (uintptr_t)memory >> ENGINE_GRANULE_SHIFT;
	int ret = engine_check(e, cudaPointerGetAttributes(&attributes, memory), "asking what a buffer is");
	if (ret)
		return ret;
	if (attributes.type == cudaMemoryTypeDevice && attributes.device != e->ordinal)
		return log_error(
		    CORALE_EINVAL, e->world_rank,
		    "a buffer at %p is memory of GPU %d, the communicator is on GPU %d: give memory of "
		    "that one, or of the host",
		    memory, attributes.device, e->ordinal);
	if (attributes.type == cudaMemoryTypeDevice)
		e->known[granule % ENGINE_KNOWN] = granule;
	return attributes.type == cudaMemoryTypeUnregistered;
}

/* ---- Steps on the stream -------------------------------------------------------------------------------- */

static int begin(struct stage *s, struct engine *e, const char *name, cudaStream_t stream)
{
	unsigned long long capture;
	*s = (struct stage){ .engine = e, .stream = stream, .name = name };
	int ret = engine_capture_of(e, stream, &capture);
	if (!ret && capture)
		ret =
		    log_error(CORALE_ENOTSUP, e->world_rank,
			      "%s: a buffer in ordinary host memory can't be part of a graph, because it is "
			      "copied when the call is made: use memory of a GPU or pinned memory "
			      "(cudaMallocHost, cudaHostRegister) in captured calls",
			      name);
	return ret ? ret : engine_order(e, stream);
}

/* Memory of the GPU for so many bytes. */
static int reserve(struct stage *s, uint64_t bytes, unsigned char **out)
{
	void **memory = &s->memory[s->allocated];
	int ret = engine_check(s->engine, cudaMallocAsync(memory, bytes, s->stream),
			       "allocating GPU memory for a buffer in ordinary host memory");
	s->allocated += !ret;
	*out = *memory;
	return ret;
}

static int copy_in(struct stage *s, void *device, const void *host, uint64_t bytes)
{
	if (!bytes)
		return 0;
	return engine_check(s->engine,
			    cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, s->stream),
			    "copying from ordinary host memory");
}

static void copy_back_later(struct stage *s, void *host, const void *device, uint64_t bytes)
{
	if (bytes)
		s->back[s->backs++] = (struct stage_back){ host, device, bytes };
}

/* ret: of the call. What was not started is not copied back; the memory is freed in any case. */
static int end(struct stage *s, int ret)
{
	for (int i = 0; !ret && i < s->backs; i++)
		ret = engine_check(s->engine,
				   cudaMemcpyAsync(s->back[i].host, s->back[i].device, s->back[i].bytes,
						   cudaMemcpyDeviceToHost, s->stream),
				   "copying to ordinary host memory");
	if (!ret && s->backs) /* the copies have waited for the call */
		ret = engine_failed(s->engine);
	for (int i = 0; i < s->allocated; i++) {
		int freed =
		    engine_check(s->engine, cudaFreeAsync(s->memory[i], s->stream), "freeing GPU memory");
		ret = ret ? ret : freed;
	}
	return ret;
}

/* ---- Collectives of one count --------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct engine *e, const struct engine_call *c, int sending)
{
	return c->bytes * (sending ? coll_send_blocks(c->coll, e->world_ranks, e->world_rank, c->root)
				   : coll_recv_blocks(c->coll, e->world_ranks, e->world_rank, c->root));
}

/* Both buffers are host memory. In place one of them is within the other, and the larger one's place holds both. */
static int stage_in_place(struct stage *s, struct engine_call *c, uint64_t send, uint64_t recv)
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

static int stage_send(struct stage *s, struct engine_call *c, uint64_t bytes)
{
	unsigned char *memory;
	int ret = reserve(s, bytes, &memory);
	if (!ret)
		ret = copy_in(s, memory, c->send, bytes);
	c->send = memory;
	return ret;
}

static int stage_recv(struct stage *s, struct engine_call *c, uint64_t bytes)
{
	unsigned char *memory;
	int ret = reserve(s, bytes, &memory);
	if (!ret)
		copy_back_later(s, c->recv, memory, bytes);
	c->recv = memory;
	return ret;
}

static int stage_blocks(struct stage *s, struct engine_call *c, int send_plain, int recv_plain)
{
	uint64_t send = bytes_of(s->engine, c, 1), recv = bytes_of(s->engine, c, 0);
	uintptr_t from = (uintptr_t)c->send, to = (uintptr_t)c->recv;
	if (send_plain && recv_plain && from < to + recv && to < from + send)
		return stage_in_place(s, c, send, recv);
	int ret = send_plain ? stage_send(s, c, send) : 0;
	return ret || !recv_plain ? ret : stage_recv(s, c, recv);
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

static int stage_send_v(struct stage *s, struct engine_call *c)
{
	const int ranks = s->engine->world_ranks;
	size_t element = corale_type_bytes(c->type);
	const unsigned char *host = c->send;
	unsigned char *memory;
	uint64_t first, bytes = extent(c->send_counts, c->send_displs, ranks, element, &first);
	int ret = bytes ? reserve(s, bytes, &memory) : 0;
	for (int r = 0; !ret && bytes && r < ranks; r++) {
		uint64_t at = c->send_displs[r] * element;
		if (c->send_counts[r])
			ret = copy_in(s, memory + (at - first), host + at, c->send_counts[r] * element);
	}
	if (!ret && bytes)
		c->send = (void *)((uintptr_t)memory - first);
	return ret;
}

static int stage_recv_v(struct stage *s, struct engine_call *c)
{
	const int ranks = s->engine->world_ranks;
	size_t element = corale_type_bytes(c->type);
	unsigned char *host = c->recv, *memory;
	uint64_t first, bytes = extent(c->recv_counts, c->recv_displs, ranks, element, &first);
	int ret = bytes ? reserve(s, bytes, &memory) : 0;
	for (int r = 0; !ret && bytes && r < ranks; r++) {
		uint64_t at = c->recv_displs[r] * element;
		if (c->recv_counts[r])
			copy_back_later(s, host + at, memory + (at - first), c->recv_counts[r] * element);
	}
	if (!ret && bytes)
		c->recv = (void *)((uintptr_t)memory - first);
	return ret;
}

int engine_stage_call(struct engine *e, const struct engine_call *c, int send_plain, int recv_plain,
		      cudaStream_t stream, engine_launch_call *launch)
{
	struct stage s;
	struct engine_call staged = *c;
	int ret = begin(&s, e, corale_coll_name(c->coll), stream);
	if (!ret && !c->send_counts)
		ret = stage_blocks(&s, &staged, send_plain, recv_plain);
	if (!ret && c->send_counts && send_plain)
		ret = stage_send_v(&s, &staged);
	if (!ret && c->send_counts && recv_plain)
		ret = stage_recv_v(&s, &staged);
	e->staging = s.backs > 0; /* the copies back wait for the call, and the thread for them */
	ret = ret ? ret : launch(e, &staged, stream);
	e->staging = 0;
	return end(&s, ret);
}

/* ---- Groups of sends and receives ----------------------------------------------------------------------- */

static int stage_message(struct stage *s, struct engine_message *m)
{
	unsigned char *memory;
	int data = engine_is_plain(s->engine, m->data),
	    from = m->from ? engine_is_plain(s->engine, m->from) : 0;
	int ret = data < 0 ? data : from < 0 ? from : 0;
	if (!ret && from) {
		ret = reserve(s, m->bytes, &memory);
		if (!ret)
			ret = copy_in(s, memory, m->from, m->bytes);
		m->from = memory;
	}
	if (ret || !data)
		return ret;
	ret = reserve(s, m->bytes, &memory);
	if (!ret && m->sending)
		ret = copy_in(s, memory, m->data, m->bytes);
	else if (!ret)
		copy_back_later(s, m->data, memory, m->bytes);
	m->data = memory;
	m->target = 0; /* no peer maps it */
	return ret;
}

int engine_stage_messages(struct engine *e, const struct engine_message *messages, int n, cudaStream_t stream,
			  engine_launch_messages *launch)
{
	struct stage s;
	struct engine_message staged[ENGINE_MOST_GROUPED];
	int ret = begin(&s, e, "a group of sends and receives", stream);
	memcpy(staged, messages, (size_t)n * sizeof(*messages));
	for (int i = 0; !ret && i < n; i++)
		ret = messages[i].bytes ? stage_message(&s, &staged[i]) : 0;
	e->staging = s.backs > 0;
	ret = ret ? ret : launch(e, staged, n, stream);
	e->staging = 0;
	return end(&s, ret);
}
