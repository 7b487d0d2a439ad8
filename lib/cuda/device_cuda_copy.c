/*
 * Programs for copy engines: the host walks each ahead of time and enqueues copies, waits and writes on a
 * stream, where they meet the kernels of this GPU and of its peers at the same flag words. Waits and writes that
 * follow each other go out as one batch.
 */
#include "device_cuda.h"

#include <stdlib.h>

#include "corale.h"
#include "base/log.h"

enum { MAX_BATCH = 128 };

struct issue {
	struct device *d;
	cudaStream_t stream;
	const struct plan *plan;
	const struct plan_env *env;
	const struct device_binding *binding;
	struct plan_action action;
	size_t element;
	int nfrom, nto, from[KERNELS_MAX_PEERS], to[KERNELS_MAX_PEERS]; /* windows; ALL leaves mine out */
	CUstreamBatchMemOpParams batch[MAX_BATCH];
	unsigned nbatch;
};

/* ---- Batches -------------------------------------------------------------------------------------------- */

static int flush(struct issue *x)
{
	if (!x->nbatch)
		return 0;
	int result = cuda_check_driver(x->d, x->d->driver.batch(x->stream, x->nbatch, x->batch, 0),
				       "queueing waits and writes");
	x->nbatch = 0;
	return result;
}

static int add(struct issue *x, CUstreamBatchMemOpType operation, const void *word, uint64_t value)
{
	int result = x->nbatch == MAX_BATCH ? flush(x) : 0;
	CUstreamBatchMemOpParams *op = &x->batch[x->nbatch++];
	*op = (CUstreamBatchMemOpParams){ .operation = operation };
	if (operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
		op->waitValue.address = (CUdeviceptr)word;
		op->waitValue.value64 = value;
		op->waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
	} else {
		op->writeValue.address = (CUdeviceptr)word;
		op->writeValue.value64 = value;
		op->writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
	}
	return result;
}

static int add_write(struct issue *x, const void *word, uint64_t value)
{
	return add(x, CU_STREAM_MEM_OP_WRITE_VALUE_64, word, value);
}

static int add_wait(struct issue *x, const void *word, uint64_t value)
{
	struct device *d = x->d;
	if (d->nawaited == d->max_awaited) {
		size_t more = d->max_awaited ? 2 * d->max_awaited : 256;
		struct cuda_awaited *grown = realloc(d->awaited, more * sizeof(*grown));
		if (!grown)
			return log_error(CORALE_ENOMEM, d->rank, "no memory for a list of %zu waits", more);
		d->awaited = grown;
		d->max_awaited = more;
	}
	d->awaited[d->nawaited++] = (struct cuda_awaited){ (CUdeviceptr)word, value };
	return add(x, CU_STREAM_MEM_OP_WAIT_VALUE_64, word, value);
}

/* ---- One action ----------------------------------------------------------------------------------------- */

static unsigned char *window(const struct issue *x, int peer)
{
	return (unsigned char *)x->d->windows[peer].base;
}

static size_t lane(const struct issue *x, int peer, int ring)
{
	return kernels_lane(&x->d->layout, peer, x->env->channel, ring);
}

static int list_peers(const struct issue *x, int who, int group, int *list)
{
	const struct plan_map *map = &x->env->map;
	if (who == PLAN_NONE)
		return 0;
	int n = who == PLAN_ALL ? plan_group_size(map, group, x->env->rank) : 1, used = 0;
	for (int i = 0; i < n; i++) {
		int rank =
		    who == PLAN_ALL ? plan_group_member(map, group, x->env->rank, x->action.rail, i) : who;
		if (who != PLAN_ALL || rank != x->env->rank)
			list[used++] = x->d->peer_of[rank];
	}
	return used;
}

/* Messages that are to be there, and room for those that go out. */
static int wait_ready(struct issue *x)
{
	const struct kernels_layout *layout = &x->d->layout;
	const struct plan_ring *ring = &x->plan->rings[x->action.to_ring];
	uint64_t depth = ring->sync == PLAN_PARITY ? (uint64_t)layout->slots : ring->depth;
	int result = 0;
	for (int i = 0; !result && i < x->nfrom; i++) {
		size_t l = lane(x, x->from[i], x->action.from_ring);
		uint64_t message = x->d->copy_counters.received[l];
		result = add_wait(x, &kernels_header(layout, window(x, x->d->me), l, message)->sequence,
				  message + 1);
	}
	for (int i = 0; !result && i < x->nto; i++) {
		size_t l = lane(x, x->to[i], x->action.to_ring);
		uint64_t message = x->d->copy_counters.sent[l];
		if (message >= depth)
			result = add_wait(x, kernels_consumed(layout, window(x, x->d->me), l),
					  message + 1 - depth);
	}
	return result;
}

static unsigned char *place(const struct issue *x, const struct plan_place *p)
{
	size_t scratch = (size_t)x->plan->scratch_cells * x->plan->chunk_bytes * (size_t)x->env->channel;
	if (p->space == PLAN_SCRATCH)
		return x->d->scratch + scratch + p->offset * x->element;
	const void *base = p->space == PLAN_SEND ? x->binding->send : x->binding->recv;
	return (unsigned char *)(uintptr_t)base + p->offset * x->element;
}

static int copy_data(struct issue *x)
{
	const struct plan_action *a = &x->action;
	const struct kernels_layout *layout = &x->d->layout;
	const unsigned char *source = NULL;
	size_t bytes = a->count * x->element;
	if (a->op != PLAN_MOVE || !bytes)
		return 0;
	if (a->src.space) {
		source = place(x, &a->src);
	} else if (x->nfrom == 1 && x->from[0] != x->d->me) {
		size_t l = lane(x, x->from[0], a->from_ring);
		source = kernels_payload(layout, window(x, x->d->me), l, x->d->copy_counters.received[l]);
	}
	if (!source || (a->src.space && x->nfrom && x->from[0] != x->d->me))
		return log_error(CORALE_ENOTSUP, x->d->rank, "the plan lets a copy engine fold %d messages",
				 x->nfrom);
	int result = flush(x);
	unsigned char *target = a->dst.space ? place(x, &a->dst) : NULL;
	if (!result && target && target != source)
		result = cuda_check(
		    x->d, cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, x->stream),
		    "queueing a copy");
	for (int i = 0; !result && i < x->nto; i++) {
		if (x->to[i] == x->d->me)
			continue;
		uint64_t message = x->d->copy_counters.sent[lane(x, x->to[i], a->to_ring)];
		target = kernels_payload(layout, window(x, x->to[i]), lane(x, x->d->me, a->to_ring), message);
		result = cuda_check(
		    x->d, cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, x->stream),
		    "queueing a copy");
	}
	return result;
}

/* Tells the receivers that the message is there, and the senders that theirs were read. */
static int publish(struct issue *x)
{
	const struct kernels_layout *layout = &x->d->layout;
	const struct plan_action *a = &x->action;
	int result = 0;
	for (int i = 0; !result && i < x->nto; i++) {
		uint64_t message = x->d->copy_counters.sent[lane(x, x->to[i], a->to_ring)]++;
		struct kernels_header *header =
		    kernels_header(layout, window(x, x->to[i]), lane(x, x->d->me, a->to_ring), message);
		int carries = a->op == PLAN_MOVE && x->to[i] != x->d->me;
		result = add_write(x, &header->signature, x->binding->signature);
		if (!result)
			result = add_write(x, &header->bytes, carries ? a->count * x->element : 0);
		if (!result)
			result = add_write(x, &header->sequence, message + 1);
	}
	for (int i = 0; !result && i < x->nfrom; i++) {
		uint64_t read = ++x->d->copy_counters.received[lane(x, x->from[i], a->from_ring)];
		size_t l = lane(x, x->d->me, a->from_ring);
		result = add_write(x, kernels_consumed(layout, window(x, x->from[i]), l), read);
	}
	return result;
}

int cuda_issue_copies(struct device *d, const struct plan *plan, const struct plan_env *env,
		      const struct device_binding *binding, int program, cudaStream_t stream)
{
	struct plan_env here = *env;
	struct plan_cursor cursor;
	int result = 0;
	struct issue *x = malloc(sizeof(*x));
	if (!x)
		return log_error(CORALE_ENOMEM, d->rank, "no memory to issue copies");
	here.channel = 0;
	*x = (struct issue){ .d = d,
			     .stream = stream,
			     .plan = plan,
			     .env = &here,
			     .binding = binding,
			     .element = corale_type_bytes((corale_type)plan->key.type) };
	plan_cursor_start(&cursor, plan, program);
	while (!result && plan_cursor_next(&cursor, plan, &here, &x->action)) {
		x->nfrom = list_peers(x, x->action.from, x->action.from_group, x->from);
		x->nto = list_peers(x, x->action.to, x->action.to_group, x->to);
		result = wait_ready(x);
		if (!result)
			result = copy_data(x);
		if (!result)
			result = publish(x);
	}
	if (!result)
		result = flush(x);
	free(x);
	return result;
}

/* ---- Letting go ------------------------------------------------------------------------------------------- */

int cuda_release_copies(struct device *d)
{
	CUstreamBatchMemOpParams op = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64 };
	int result = 0;
	cudaSetDevice(d->ordinal); /* the caller may be any thread */
	op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
	for (int i = 0; !result && i < d->layout.peers;
	     i++) { /* what drains from here on is no message: tell everybody */
		struct kernels_control *control = (struct kernels_control *)d->windows[i].base;
		if (!d->windows[i].bytes)
			continue;
		op.writeValue.address = (CUdeviceptr)&control->abort;
		op.writeValue.value64 = (uint64_t)(d->me + 1) << 32 | (uint64_t)-CORALE_EABORTED;
		result = cuda_check_driver(d, d->driver.batch(d->release_stream, 1, &op, 0),
					   "telling peers of a failure");
	}
	for (size_t i = 0; !result && i < d->nawaited; i++) {
		op.writeValue.address = d->awaited[i].word;
		op.writeValue.value64 = d->awaited[i].value + (1ull << 62);
		result =
		    cuda_check_driver(d, d->driver.batch(d->release_stream, 1, &op, 0), "releasing a wait");
	}
	return result;
}
