/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory for the slots of messages between nodes, which network adapters reach (GPUDirect RDMA), and the kernel that shows whether they do. */
#include "engine_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { PROBES = 16 }; /* of an engine at most: of each rail two */

/* In case the host does not stop it. */
static const uint64_t probe_timeout_ns = 30000000000;

static int attribute_of(const struct engine *e, CUdevice_attribute attribute)
{
	int value = 0;
	if (e->driver.device_attribute(&value, attribute, e->ordinal) != CUDA_SUCCESS)
		value = 0;
	return value;
}

/*
 * As NCCL has it (ncclTopoNeedFlush): below compute capability 9.0, and where GPU and processor share page tables, as over C2C, the GPU may take a
 * word in pinned memory for newer than what the same adapter stored into its memory before.
 */
static int reads_back(const struct engine *e)
{
	return attribute_of(e, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 9 ||
	       attribute_of(e, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
}

/* The driver takes the request for capable memory without a word where it can't be met. */
static int is_capable(const struct engine *e, const void *memory)
{
	int capable = 0;
	return e->driver.pointer_attribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
					   (CUdeviceptr)(uintptr_t)memory) == CUDA_SUCCESS &&
	       capable;
}

int engine_slab_open(struct engine *e, size_t behind, struct engine_slab *out, char *why_not, size_t bytes)
{
	const size_t slots = plan_round(e->connections.bytes, 4096);
	if (!attribute_of(e, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)) {
		snprintf(why_not, bytes,
			 "the driver lets no adapter reach this GPU's memory (%s: it has no GPUDirect RDMA)",
			 e->gpu.name);
		return CORALE_ENOTSUP;
	}
	e->slab.bytes = slots + behind;
	const int ret = cuda_memory_alloc(engine_device(e), 1, &e->slab.bytes, &e->slab.at);
	if (ret) {
		snprintf(why_not, bytes, "%zu bytes of the GPU's memory for slots could not be made",
			 slots + behind);
		return ret;
	}
	e->bytes += e->slab.bytes;
	if (!is_capable(e, e->slab.at)) {
		snprintf(why_not, bytes,
			 "the driver made memory that no adapter reaches (not GPU_DIRECT_RDMA_CAPABLE)");
		engine_slab_close(e);
		return CORALE_ENOTSUP;
	}
	*out = (struct engine_slab){ e->slab.at, slots, e->slab.bytes, reads_back(e) };
	return 0;
}

void engine_slab_close(struct engine *e)
{
	if (!e->slab.at || e->slab.unbegun) /* a kernel will look there */
		return;
	cuda_memory_free(engine_device(e), e->slab.at, e->slab.bytes);
	e->bytes -= e->slab.bytes;
	e->slab.at = NULL;
}

void engine_slab_use(struct engine *e, uint32_t channels)
{
	struct remote *r = &e->remote.remote;
	for (int channel = 0; channel < REMOTE_ALL_CHANNELS; channel++)
		r->data[channel] = channels >> channel & 1 ? e->slab.at : r->memory;
}

/* ---- Memory that outlives its engine ------------------------------------------------------------------------- */

struct engine_kept {
	struct engine owner; /* what freeing needs of it */
	void *pinned, *slab;
	size_t slab_bytes;
};

struct engine_kept *engine_keep(struct engine *e, int slab_alone)
{
	struct engine_kept *k = e->captured || e->slab.unbegun ? NULL : calloc(1, sizeof *k);
	if (k) {
		k->owner.driver = e->driver;
		k->owner.context = e->context;
		k->owner.ordinal = e->ordinal;
		k->owner.world_rank = e->world_rank;
		k->pinned = slab_alone ? NULL : e->remote.remote.memory;
		k->slab = e->slab.at;
		k->slab_bytes = e->slab.bytes;
	}
	if (!slab_alone)
		e->remote.remote.memory = NULL;
	e->slab.at = NULL;
	return k;
}

void engine_free_kept(struct engine_kept *k)
{
	CUcontext ours;
	if (!k)
		return;
	const int is_there = k->owner.driver.push_context(k->owner.context) == CUDA_SUCCESS;
	if (is_there && k->slab)
		cuda_memory_free(engine_device(&k->owner), k->slab, k->slab_bytes);
	engine_pool_give(k->pinned); /* which may free it: in this context, rather than in one made for it */
	if (is_there)
		k->owner.driver.pop_context(&ours);
	free(k);
}

/* ---- Probes ------------------------------------------------------------------------------------------------ */

static int put_messages(struct engine *e, const struct engine_probe *p)
{
	uint64_t *words = malloc(PROBE_SLOT_BYTES);
	int ret = words ? 0 : log_error(CORALE_ENOMEM, e->world_rank, "no memory for a message");
	for (int m = 0; !ret && m < PROBE_MESSAGES; m++) {
		for (uint64_t i = 0; i < probe_bytes(m) / sizeof *words; i++)
			words[i] = probe_word(p->seed, m, i);
		ret = engine_put(e, p->out + (size_t)m * PROBE_SLOT_BYTES, words, probe_bytes(m));
	}
	free(words);
	return ret;
}

/* Of all kernels. */
static int make_words(struct engine *e, int senders)
{
	const size_t bytes = (size_t)PROBES * (size_t)senders * sizeof *e->slab.words;
	const int ret = engine_check(e, engine_pool_take(e, POOL_PINNED, bytes, (void **)&e->slab.words),
				     "allocating pinned memory for probes");
	e->slab.senders = ret ? 0 : senders;
	return ret;
}

/* Of the last kernel. */
static struct probe_words *words_of_last(const struct engine *e)
{
	return e->slab.words + (e->slab.probes - 1) * e->slab.senders;
}

static int launch(struct engine *e, const struct engine_probe *p)
{
	struct probe_args args = { p->in, NULL, probe_timeout_ns };
	cudaStream_t stream = NULL;
	int ret = e->slab.words ? 0 : make_words(e, p->senders);
	if (ret)
		return ret;
	if (e->slab.probes == PROBES)
		return log_error(CORALE_EINTERNAL, e->world_rank, "more than %d probes", PROBES);
	e->slab.probes++;
	args.words = words_of_last(e);
	for (int i = 0; i < p->senders; i++)
		args.words[i].seed = p->seeds[i];
	ret = engine_make_stream(e, 0, &stream);
	ret = ret ? ret : engine_check(e, codelets_probe(&args, p->senders, stream), "launching a probe");
	e->slab.probing = stream;
	return ret;
}

int engine_probe_begin(struct engine *e, const struct engine_probe *p, struct probe_words **words)
{
	int ret = put_messages(e, p);
	if (!ret && p->senders)
		ret = engine_fill(e, p->in, PROBE_POISON, (size_t)p->senders * PROBE_AREA);
	if (!ret && p->senders)
		ret = launch(e, p);
	*words = !ret && p->senders ? words_of_last(e) : NULL;
	return ret;
}

static int has_begun(const struct engine *e)
{
	int all = 1;
	for (int i = 0; i < e->slab.senders; i++)
		all &= __atomic_load_n(&words_of_last(e)[i].begun, __ATOMIC_RELAXED) != 0;
	return all;
}

/* Other work may keep the kernel from starting for as long as it likes: then nobody waits for it here. */
void engine_probe_end(struct engine *e)
{
	if (!e->slab.probing)
		return;
	for (int i = 0; i < e->slab.senders; i++)
		__atomic_store_n(&words_of_last(e)[i].arrived, PROBE_STOP, __ATOMIC_RELEASE);
	if (has_begun(e))
		engine_check(e, cudaStreamSynchronize(e->slab.probing), "waiting for a probe");
	else
		e->slab.unbegun++;
	cudaStreamDestroy(e->slab.probing);
	e->slab.probing = NULL;
}

void engine_slab_free(struct engine *e)
{
	e->slab.unbegun = 0;
	engine_pool_give(e->slab.words);
	e->slab.words = NULL;
	engine_slab_close(e);
}
