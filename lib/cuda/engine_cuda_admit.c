/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a call can be enqueued: asked before any call of its group is, and before its record is published. */
#include "engine_cuda.h"

#include "base/collectives.h"
#include "base/log.h"

static int refuse(const struct engine *e, const struct call *c, const char *why)
{
	return log_error(CORALE_ENOTSUP, e->world_rank, "%s: %s", corale_coll_name(c->record.coll), why);
}

/* ---- Streams -------------------------------------------------------------------------------------------- */

/* Asking leaves a capture whole; enqueueing in these cases would not. */
static int find_capture(const struct engine *e, const struct call *c, cudaStream_t stream, uint64_t *capture)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t found = 0;
	CUresult error = e->driver.capture_info(stream, &status, &found, NULL, NULL, NULL);
	if (error == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		return refuse(
		    e, c,
		    "it is on the default stream, and a stream that waits for the default stream is being "
		    "captured: use streams of cudaStreamNonBlocking, or wait until the capture has ended");
	if (error == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return refuse(
		    e, c, "the capture of its stream was invalidated: end it first (cudaStreamEndCapture)");
	*capture = status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? found : 0;
	return engine_check_driver(e, error, "asking whether a stream is captured");
}

/* The last call's stream must be one that this thread can name. */
static int check_last(const struct engine *e, const struct call *c, uint64_t capture)
{
	const struct engine_last *last = &e->last_captured;
	unsigned long long id;
	if (last->capture != capture || last->stream != cudaStreamPerThread)
		return 0;
	int ret = engine_stream_id(e, cudaStreamPerThread, capture, &id);
	if (ret || id == last->id)
		return ret;
	return refuse(
	    e, c,
	    "the communicator's last call is in the same capture, on cudaStreamPerThread of another thread, "
	    "so this one can't come after it: give such calls a stream that both threads name");
}

/* ---- Buffers -------------------------------------------------------------------------------------------- */

/* What CUDA knows of an address. */
struct kind {
	unsigned type; /* CUmemorytype; 0: of ordinary host memory */
	unsigned is_managed;
	int ordinal; /* of its GPU */
	CUcontext context; /* that it was allocated in; NULL: in none, so that all of its GPU reach it */
};

/* Asked at each call: where memory of a GPU was freed there may be ordinary memory now. */
static int find_kind(const struct engine *e, const void *memory, struct kind *kind)
{
	CUpointer_attribute asked[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT };
	void *answers[] = { &kind->type, &kind->is_managed, &kind->ordinal, &kind->context };
	*kind = (struct kind){ 0 };
	return engine_check_driver(e, e->driver.pointer_attributes(4, asked, answers, (CUdeviceptr)memory),
				   "asking what a buffer is");
}

static void warn_other_gpu(const struct engine *e, const struct call *c, const void *memory, int ordinal)
{
	static _Atomic int warned; /* once a process */
	if (!atomic_exchange(&warned, 1))
		log_line(LOG_WARN, e->world_rank,
			 "%s: the buffer at %p is memory of GPU %d, the communicator is on GPU %d: such "
			 "buffers are copied through memory of that one, which costs the call as much of its "
			 "memory and a copy over the link between the GPUs; later calls do not say so",
			 corale_coll_name(c->record.coll), memory, ordinal, e->ordinal);
}

/* The engine's context, which is current, may reach memory of another one of its GPU, as of one with fewer processors (cuCtxFromGreenCtx). */
static int is_out_of_reach(const struct engine *e, const struct kind *kind, const void *memory)
{
	CUdeviceptr reached = 0;
	if (kind->type != CU_MEMORYTYPE_DEVICE || kind->is_managed || kind->ordinal != e->ordinal ||
	    !kind->context || kind->context == e->context)
		return 0;
	return e->driver.pointer_attribute(&reached, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
					   (CUdeviceptr)memory) != CUDA_SUCCESS ||
	       !reached;
}

static int refuse_context(const struct engine *e, const struct call *c, const void *memory)
{
	return log_error(CORALE_EINVAL, e->world_rank,
			 "%s: the buffer at %p is in memory of GPU %d that belongs to another CUDA context "
			 "than the one that was current when the communicator was made, whose kernels do not "
			 "reach it: make communicator and buffer in one context",
			 corale_coll_name(c->record.coll), memory, e->ordinal);
}

/* Adds the bit if memory is ordinary host memory, or another GPU's, which has one more bit. */
static int find_plain(const struct engine *e, const struct call *c, const void *memory, int bit, int *plain)
{
	struct kind kind;
	int ret = memory ? find_kind(e, memory, &kind) : 0;
	if (!memory || ret)
		return ret;
	if (is_out_of_reach(e, &kind, memory))
		return refuse_context(e, c, memory);
	const int other = kind.type == CU_MEMORYTYPE_DEVICE && !kind.is_managed && kind.ordinal != e->ordinal;
	if (other)
		warn_other_gpu(e, c, memory, kind.ordinal);
	*plain |= other ? bit | bit << ENGINE_OTHER_GPU : kind.type ? 0 : bit;
	return 0;
}

/* Of the buffers that the call uses. */
static int find_all_plain(const struct engine *e, const struct call *c, int *plain)
{
	const int is_root = c->record.root == e->world_rank,
		  reads = is_root || !coll_table[c->record.coll].root_sends,
		  writes = is_root || !coll_table[c->record.coll].root_receives;
	if ((!call_bytes(c) && !c->send_counts) || (engine_has_one_rank(e, c) && engine_one_rank_is_done(c)))
		return 0;
	int ret = reads ? find_plain(e, c, c->send, ENGINE_PLAIN_SEND, plain) : 0;
	if (ret || !writes)
		return ret;
	if (!reads || c->recv != c->send)
		return find_plain(e, c, c->recv, ENGINE_PLAIN_RECV, plain);
	*plain |= *plain << 1; /* of a send buffer so far */
	return 0;
}

/* A kernel reads it when it runs, so it can't be copied for it as buffers are. */
static int check_scalar(const struct engine *e, const struct call *c)
{
	struct kind kind = { .type = CU_MEMORYTYPE_DEVICE, .ordinal = e->ordinal };
	int ret = c->scalar_at && (call_bytes(c) || c->send_counts) ? find_kind(e, c->scalar_at, &kind) : 0;
	if (!ret && is_out_of_reach(e, &kind, c->scalar_at))
		return refuse_context(e, c, c->scalar_at);
	if (ret || (kind.type &&
		    (kind.type != CU_MEMORYTYPE_DEVICE || kind.is_managed || kind.ordinal == e->ordinal)))
		return ret;
	return log_error(CORALE_EINVAL, e->world_rank,
			 "%s: the scalar of its premultiplied sum, at %p, is %s, which no kernel of GPU %d "
			 "can read: give memory of that GPU, or use corale_op_create_premul_sum",
			 corale_coll_name(c->record.coll), c->scalar_at,
			 kind.type ? "memory of another GPU" : "in ordinary host memory", e->ordinal);
}

int engine_admit(struct engine *e, const struct call *c, void *stream, struct admission *out)
{
	*out = (struct admission){ 0 };
	int ret = find_capture(e, c, stream, &out->capture);
	if (!ret)
		ret = find_all_plain(e, c, &out->plain);
	if (!ret)
		ret = check_scalar(e, c);
	if (ret || !out->capture)
		return ret;
	if (out->plain)
		return refuse(e, c,
			      "a buffer in ordinary host memory or on another GPU can't be part of a graph, "
			      "because it is copied when the call is made: use memory of this GPU or pinned "
			      "memory (cudaMallocHost, cudaHostRegister) in captured calls");
	return check_last(e, c, out->capture);
}
