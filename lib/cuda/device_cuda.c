/*
 * The CUDA engine: starts calls, and hears of failures.
 */
#include "device_cuda.h"

#include <string.h>
#include <time.h>

#include "corale.h"
#include "base/log.h"

/* ---- Running ------------------------------------------------------------------------------------------- */

/* What it replaces stays until the end: freeing would wait for calls in progress, and those for us. */
static int grow_scratch(struct device *d, const struct plan *plan)
{
	size_t bytes = (size_t)plan->scratch_cells * plan->chunk_bytes * plan->channels;
	void *scratch = NULL;
	if (bytes <= d->scratch_bytes)
		return 0;
	if (d->nretired == CUDA_MAX_RETIRED)
		return log_error(CORALE_ENOMEM, d->rank, "scratch memory has grown too often");
	int result = cuda_check(d, cudaMalloc(&scratch, bytes), "allocating scratch memory");
	if (result)
		return result;
	d->retired[d->nretired++] = d->scratch;
	d->scratch = scratch;
	d->scratch_bytes = bytes;
	d->bytes += bytes;
	return 0;
}

/* The most that one message carries: a chunk, or a piece of one where all messages are inner pieces. */
static size_t message_bytes(const struct plan *plan)
{
	for (int i = 0; i < plan->nsteps; i++) {
		const struct plan_step *step = &plan->steps[i];
		const struct plan_span *span = step->src.space ? &step->src : &step->dst;
		if (step->op == PLAN_MOVE && (step->from || step->to) && !span->inner)
			return plan->chunk_bytes;
	}
	return plan->chunk_bytes / (uint32_t)plan->inner;
}

static int fits(const struct device *d, const struct plan *plan, const struct device_binding *b)
{
	if (!kernels_offer(plan->key.type, b->op, plan->wire_type))
		return log_error(CORALE_ENOTSUP, d->rank, "the CUDA engine has no code for %s of %s yet",
				 corale_op_name(b->op), corale_type_name((corale_type)plan->key.type));
	for (int r = 0; r < d->map.ranks; r++)
		if (d->peer_of[r] < 0)
			return log_error(CORALE_ENOTSUP, d->rank,
					 "rank %d is on another host: not on the CUDA engine yet", r);
	int deepest = 0;
	for (int i = 0; i < plan->nrings; i++)
		deepest = plan->rings[i].depth > deepest ? plan->rings[i].depth : deepest;
	size_t bytes = message_bytes(plan);
	if (plan->channels > d->layout.channels || deepest > d->layout.slots || bytes > d->layout.slot_bytes)
		return log_error(
		    CORALE_ENOTSUP, d->rank,
		    "the plan needs %d channels, %d slots of %zu bytes; the window has %d, %d of %zu",
		    plan->channels, deepest, bytes, d->layout.channels, d->layout.slots,
		    d->layout.slot_bytes);
	return 0;
}

static void fill_args(const struct device *d, const struct plan *plan, const struct plan_env *env,
		      const struct device_binding *b, struct kernels_steps *args)
{
	args->plan = *plan;
	args->env = *env;
	args->env.map = cuda_map_at(d, d->device_ints);
	args->layout = d->layout;
	for (int i = 0; i < KERNELS_MAX_PEERS; i++)
		args->windows[i] = d->windows[i].bytes ? (unsigned char *)d->windows[i].base : NULL;
	args->peer_of = d->device_ints + 3 * (size_t)d->map.ranks;
	args->counters = d->counters;
	args->progress = d->progress;
	args->send = b->send;
	args->recv = b->recv;
	args->scratch = d->scratch;
	args->signature = b->signature;
	args->timeout_ns = (uint64_t)(d->timeout_s * 1e9);
	args->stall_ns = b->stall_us * 1000ull;
	args->abort = d->abort;
	args->failure = d->failure;
	args->type = plan->key.type;
	args->op = b->op;
}

/*
 * How many blocks share each program: as many as the plan asks for, but all of a call must be resident at a time.
 * No peer can tell, so every GPU chooses for itself. 0 if even one a program and channel are too many.
 */
static int choose_widths(const struct device *d, struct kernels_steps *args)
{
	const struct plan *plan = &args->plan;
	for (int most = KERNELS_MAX_WIDTH; most; most /= 2) {
		int blocks = 0;
		for (int p = 0; p < plan->nprograms; p++) {
			int width = plan->programs[p].width < most ? plan->programs[p].width : most;
			args->width[p] = (uint8_t)width;
			blocks += args->programs >> p & 1 ? width : 0;
		}
		if (blocks * plan->channels <= d->most_blocks)
			return 1;
	}
	return 0;
}

/* The programs that copy engines run: as many as there are streams, because each may wait for another. */
static uint32_t choose_copies(const struct plan *plan, const struct device_binding *b)
{
	uint32_t mask = 0;
	int n = 0;
	for (int p = 0; b->copy_engines && plan->channels == 1 && p < plan->nprograms; p++) {
		if (plan->programs[p].engine != PLAN_CE || n == CUDA_COPY_STREAMS)
			continue;
		mask |= 1u << p;
		n++;
	}
	return mask;
}

/* Issues the programs of mask, each on a stream of its own between the two events that tie it to the caller's. */
static int run_copies(struct device *d, const struct plan *plan, const struct plan_env *env,
		      const struct device_binding *b, uint32_t mask, void *stream)
{
	struct plan_env host_env = *env;
	int result = 0;
	host_env.map = cuda_map_at(d, d->ints);
	for (int p = 0, n = 0; !result && p < plan->nprograms; p++) {
		if (!(mask >> p & 1))
			continue;
		result = cuda_check(d, cudaStreamWaitEvent(d->copy_streams[n], d->begin, 0),
				    "waiting for an event");
		if (!result)
			result = cuda_issue_copies(d, plan, &host_env, b, p, d->copy_streams[n]);
		if (!result)
			result = cuda_check(d, cudaEventRecord(d->ends[n], d->copy_streams[n]),
					    "recording an event");
		if (!result)
			result =
			    cuda_check(d, cudaStreamWaitEvent(stream, d->ends[n], 0), "waiting for an event");
		n++;
	}
	return result;
}

static int run(struct device *d, const struct plan *plan, const struct plan_env *env,
	       const struct device_binding *b, void *stream)
{
	struct kernels_steps args;
	if (d->failure->code)
		return CORALE_ECOMM;
	uint32_t copies = choose_copies(plan, b);
	int result = fits(d, plan, b);
	if (!result)
		result = grow_scratch(d, plan);
	if (result)
		return result;
	fill_args(d, plan, env, b, &args);
	args.programs = ((1u << plan->nprograms) - 1) & ~copies;
	args.call = ++d->calls;
	if (!choose_widths(d, &args))
		return log_error(CORALE_ENOTSUP, d->rank,
				 "%d programs of %d channels are too many for the %d processors of GPU %d",
				 plan->nprograms, plan->channels, d->most_blocks, d->ordinal);
	d->nawaited = 0;
	result = cuda_check(d, cudaEventRecord(d->begin, stream), "recording an event");
	if (!result && args.programs) /* before the copies, which queue for as long as they wait */
		result =
		    cuda_check(d, (cudaError_t)kernels_launch_steps(&args, stream), "launching a kernel");
	return result ? result : run_copies(d, plan, env, b, copies, stream);
}

static int failure(struct device *d, struct device_failure *out)
{
	const volatile struct kernels_failure *f = d->failure;
	int code = f->code;
	if (!code)
		return 0;
	__sync_synchronize(); /* the kernel wrote code last */
	*out = (struct device_failure){ .code = code,
					.peer = f->peer,
					.program = f->program,
					.channel = f->channel,
					.ring = f->ring,
					.sending = f->sending,
					.message = f->message,
					.expected = f->expected,
					.got = f->got };
	return code;
}

static int query(struct device *d, void *stream)
{
	struct device_failure f;
	if (failure(d, &f))
		cuda_abort(d);
	cudaError_t error = cudaStreamQuery(stream);
	if (error == cudaErrorNotReady)
		return CORALE_INPROGRESS;
	int result = cuda_check(d, error, "running a call");
	return result ? result : failure(d, &f);
}

int cuda_abort(struct device *d)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	int64_t now_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	*(volatile uint32_t *)d->abort = (uint32_t)-CORALE_EABORTED;
	if (d->released_ms && now_ms - d->released_ms < CUDA_RELEASE_MS)
		return 0;
	d->released_ms = now_ms;
	return cuda_release_copies(d);
}

static size_t memory(const struct device *d)
{
	return d->bytes;
}

/* ---- For programs ---------------------------------------------------------------------------------------- */

static int alloc(struct device *d, size_t bytes, void **out)
{
	return cuda_check(d, cudaMalloc(out, bytes), "allocating memory");
}

static void free_memory(struct device *d, void *memory)
{
	cuda_check(d, cudaFree(memory), "freeing memory");
}

static int copy(struct device *d, void *to, const void *from, size_t bytes)
{
	return cuda_check(d, cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying memory");
}

static int stream_create(struct device *d, void **stream)
{
	return cuda_check(d, cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking),
			  "making a stream");
}

static void stream_destroy(struct device *d, void *stream)
{
	cuda_check(d, cudaStreamDestroy(stream), "destroying a stream");
}

const struct device_ops device_cuda = {
	.name = "cuda",
	.available = cuda_available,
	.count = cuda_count,
	.open = cuda_open,
	.window_fd = cuda_window_fd,
	.connect = cuda_connect,
	.run = run,
	.query = query,
	.failure = failure,
	.abort = cuda_abort,
	.memory = memory,
	.close = cuda_close,
	.alloc = alloc,
	.free = free_memory,
	.copy = copy,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
};
