/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the GPU engine: counts calls instead of running them, and refuses what a test tells it to. */
#define _GNU_SOURCE
#include "fake_engine.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cuda/engine.h"
#include "fake_gpu_memory.h"
#include "net/connections.h"

struct engine {
	struct engine_params params;
	struct engine_own_gpu gpu;
	int blocks; /* of a kernel at most */
	_Atomic uint32_t waits; /* the call whose kernels wait; 0: none */
	struct remote remote;
	struct fake_gpu_memory slab; /* bytes 0: none */
	uint32_t slab_channels; /* whose slots lie there */
	/* what stands for the kernel that looks at probes' messages */
	pthread_t prober;
	const unsigned char *probe_in;
	struct probe_words *probe_words;
	int probe_senders; /* 0: none runs */
};

enum { AREA = 64 << 10, SLOTS = 1 << 20 };

int fake_engine_has_late_kernels, fake_engine_reads_back;
int fake_engine_blocks = 16, fake_engine_gpu;
_Thread_local int fake_engine_own_gpu;
_Atomic int fake_engine_connect_fails, fake_engine_trials;
int fake_engine_lies_to, fake_engine_link = ENGINE_NVLINK;

/* ---- Coming and going ------------------------------------------------------------------------------------- */

static int available(char *why_not, size_t bytes)
{
	return 1;
}

static int open_engine(const struct engine_params *p, struct engine **out)
{
	struct engine *e = calloc(1, sizeof *e);
	if (!e)
		abort();
	e->params = *p;
	e->gpu = (struct engine_own_gpu){ { .pci = FAKE_ENGINE_PCI }, "NVIDIA H200", 132, 0 };
	const int gpu = fake_engine_gpu ? fake_engine_gpu : fake_engine_own_gpu;
	e->gpu.id.uuid[0] = (unsigned char)(gpu ? gpu : 1 + p->world_rank);
	e->blocks = p->max_blocks && p->max_blocks < fake_engine_blocks ? p->max_blocks : fake_engine_blocks;
	if (p->world_ranks > p->ranks) {
		e->remote = connections_shape(p->world_ranks, p->nodes, p->most_ranks, p->least_ranks,
					      p->pinned_bytes);
		e->remote.peers = p->world_ranks - p->ranks;
		e->remote.memory = calloc(1, connections_bytes(&e->remote, p->pinned_bytes));
		remote_set_data(&e->remote, e->remote.memory);
	}
	*out = e;
	return 0;
}

static void close_engine(struct engine *e)
{
	free(e->remote.memory);
	if (e->slab.bytes)
		fake_gpu_memory_unmap(&e->slab);
	free(e);
}

static int enter(const struct engine *e)
{
	return 0;
}

static void leave(const struct engine *e, int entered)
{
}

static int spare_captures(void)
{
	return 0;
}

static void end_spare(int mode)
{
}

static const struct engine_own_gpu *own_gpu(const struct engine *e)
{
	return &e->gpu;
}

static void links(const struct engine_identity *gpus, int n, enum engine_link *out)
{
	for (int i = 0; i < n; i++)
		out[i] = (enum engine_link)fake_engine_link;
}

static int window_fds(struct engine *e, int zero_copy, int fds[ENGINE_FDS])
{
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	fds[ENGINE_WINDOW_FD] = fd;
	return fd < 0 ? log_error(CORALE_ESYSTEM, e->params.world_rank, "no /dev/null") : 0;
}

static void share_machine(struct engine *e, int max_blocks, const struct rates *rates, int words_only,
			  int forced)
{
	e->blocks = max_blocks;
}

/* Of the thread's rank, if it has said so. */
static void identify(struct engine_identity *out)
{
	*out = (struct engine_identity){ .pci = FAKE_ENGINE_PCI };
	out->uuid[0] = (unsigned char)(fake_engine_gpu ? fake_engine_gpu : fake_engine_own_gpu);
}

static int host_window_works(int ranks, size_t bytes, char *why, size_t why_bytes)
{
	return 1;
}

static int try_peers(struct engine *e, uint64_t seed, double timeout_s, unsigned char *wrong)
{
	fake_engine_trials++;
	if (wrong && fake_engine_lies_to && e->params.rank == fake_engine_lies_to)
		wrong[0] = 1;
	for (int r = 0; wrong && fake_engine_lies_to == FAKE_ENGINE_ALL && r < e->params.ranks; r++)
		wrong[r] = r != e->params.rank;
	return 0;
}

static int connect_engines(struct engine *e, const int *fds, int zero_copy)
{
	return fake_engine_connect_fails && !e->params.world_rank
		   ? log_error(fake_engine_connect_fails, 0, "the windows of peers can't be mapped")
		   : 0;
}

static struct remote remote(const struct engine *e, size_t *bytes)
{
	if (bytes)
		*bytes = connections_bytes(&e->remote, e->params.pinned_bytes);
	return e->remote;
}

static void set_proxy(struct engine *e, struct proxy *proxy, const int *index_of)
{
}

struct engine_kept {
	unsigned char *memory;
	struct fake_gpu_memory slab;
};

_Atomic int fake_engine_kept;

static struct engine_kept *keep(struct engine *e, int slab_alone)
{
	struct engine_kept *k = calloc(1, sizeof *k);
	if (!k)
		abort();
	k->memory = slab_alone ? NULL : e->remote.memory;
	k->slab = e->slab;
	if (!slab_alone)
		e->remote.memory = NULL;
	e->slab.bytes = 0;
	fake_engine_kept++;
	return k;
}

static void free_kept(struct engine_kept *k)
{
	fake_engine_kept--;
	free(k->memory);
	if (k->slab.bytes)
		fake_gpu_memory_unmap(&k->slab);
	free(k);
}

/* ---- Slots in memory that stands for a GPU's --------------------------------------------------------------- */

static int slab_open(struct engine *e, size_t behind, struct engine_slab *out, char *why_not, size_t bytes)
{
	const size_t slots = (connections_bytes(&e->remote, e->params.pinned_bytes) + 4095) / 4096 * 4096;
	if (fake_gpu_memory_map(&e->slab, slots + behind))
		abort();
	*out = (struct engine_slab){ e->slab.address, slots, e->slab.bytes, fake_engine_reads_back };
	return 0;
}

static void slab_use(struct engine *e, uint32_t channels)
{
	e->slab_channels = channels;
	for (int c = 0; c < REMOTE_ALL_CHANNELS; c++)
		e->remote.data[c] = channels >> c & 1 ? e->slab.address : e->remote.memory;
}

struct remote fake_engine_remote(const struct engine *e)
{
	struct remote r = e->remote;
	for (int c = 0; c < REMOTE_ALL_CHANNELS; c++)
		r.data[c] = e->slab_channels >> c & 1 ? e->slab.readable : r.memory;
	return r;
}

static int is_whole(const unsigned char *slot, uint64_t seed, int message)
{
	int whole = 1;
	for (uint64_t i = 0; i < probe_bytes(message) / 8; i++)
		whole &= ((const uint64_t *)(const void *)slot)[i] == probe_word(seed, message, i);
	return whole;
}

/* As kernels/probe.cu; a message of all senders at a time. */
static void *look_at_probes(void *arg)
{
	struct engine *e = arg;
	if (fake_engine_has_late_kernels)
		return NULL;
	for (int m = 0; m < PROBE_MESSAGES; m++)
		for (int s = 0; s < e->probe_senders; s++) {
			struct probe_words *w = &e->probe_words[s];
			const unsigned char *slot =
			    e->probe_in + (size_t)s * PROBE_AREA + (size_t)m * PROBE_SLOT_BYTES;
			w->begun = 1;
			while (__atomic_load_n(&w->arrived, __ATOMIC_ACQUIRE) <= (uint64_t)m)
				sched_yield();
			if (w->arrived == PROBE_STOP)
				return NULL;
			if (!is_whole(slot, w->seed, m))
				__atomic_fetch_or(&w->wrong, 1u << m, __ATOMIC_RELAXED);
			__atomic_store_n(&w->checked, (uint64_t)m + 1, __ATOMIC_RELEASE);
		}
	return NULL;
}

static int probe_begin(struct engine *e, const struct engine_probe *p, struct probe_words **words)
{
	unsigned char *out = e->slab.readable + (p->out - e->slab.address);
	for (int m = 0; m < PROBE_MESSAGES; m++)
		for (uint64_t i = 0; i < probe_bytes(m) / 8; i++)
			((uint64_t *)(void *)(out + (size_t)m * PROBE_SLOT_BYTES))[i] =
			    probe_word(p->seed, m, i);
	e->probe_in = e->slab.readable + (p->in - e->slab.address);
	memset((void *)(uintptr_t)e->probe_in, PROBE_POISON, (size_t)p->senders * PROBE_AREA);
	e->probe_words = calloc((size_t)p->senders + 1, sizeof *e->probe_words);
	if (!e->probe_words)
		abort();
	for (int s = 0; s < p->senders; s++)
		e->probe_words[s].seed = p->seeds[s];
	*words = e->probe_words;
	e->probe_senders = p->senders;
	if (p->senders && pthread_create(&e->prober, NULL, look_at_probes, e))
		abort();
	return 0;
}

static void probe_end(struct engine *e)
{
	for (int s = 0; s < e->probe_senders; s++)
		__atomic_store_n(&e->probe_words[s].arrived, PROBE_STOP, __ATOMIC_RELEASE);
	if (e->probe_senders)
		pthread_join(e->prober, NULL);
	e->probe_senders = 0;
	free(e->probe_words);
	e->probe_words = NULL;
}

static void describe(const struct engine *e, struct gpu_machine *node)
{
	node->rates = rates_of_gpu(e->gpu.name);
	node->ranks = e->params.ranks;
	node->max_blocks = node->resident = e->blocks;
	node->words_bytes = node->lines_bytes = AREA;
	node->slots_bytes = SLOTS;
}

static int add_list(struct engine *e, struct lowered *lowered, int *list)
{
	lowered_free(lowered);
	*list = 0;
	return 0;
}

/* ---- Calls ------------------------------------------------------------------------------------------------ */

static int admit(struct engine *e, const struct call *call, void *stream, struct admission *out)
{
	const struct fake_stream *s = stream;
	*out = (struct admission){ .capture = s->capture };
	return s->refuses ? log_error(s->refuses, e->params.world_rank, "the stream takes no call") : 0;
}

static int enqueue(const struct engine *e, struct fake_stream *stream)
{
	if (stream->fails)
		return log_error(stream->fails, e->params.world_rank, "the call can't be enqueued");
	atomic_fetch_add(&stream->calls, 1);
	return 0;
}

static void prepare(const struct engine *e, struct gpu_launch *launch)
{
}

static int run(struct engine *e, const struct call *call, const struct gpu_launch *launch, void *stream)
{
	const size_t *const arrays[4] = { call->send_counts, call->send_displs, call->recv_counts,
					  call->recv_displs };
	struct fake_stream *s = stream;
	for (int i = 0; s && i < 4; i++)
		for (int r = 0; arrays[i] && r < e->params.world_ranks && r < FAKE_ENGINE_RANKS; r++)
			s->edges[i][r] = arrays[i][r];
	if (s && !call->send_counts && call->record.root < FAKE_ENGINE_RANKS) {
		s->edges[0][call->record.root] = call->record.count;
		s->edges[1][call->record.root] = (size_t)(uintptr_t)call->send;
	}
	if (s) {
		s->lowered = launch->cut.plan != NULL;
		s->coll = launch->cut.coll;
		s->bytes = launch->cut.bytes;
		s->signature = call->record.signature;
		e->waits = s->waits ? call->number : 0;
	}
	return enqueue(e, stream);
}

static int run_messages(struct engine *e, const struct call *messages, int n, void *stream)
{
	return enqueue(e, stream);
}

static int captures(const struct engine *e)
{
	return 0;
}

/* As CUDA does between a captured stream and another one. */
static int join(struct engine *e, void *before, void *after)
{
	struct fake_stream *a = before, *b = after;
	atomic_fetch_add(&a->joins, 1);
	return a->capture == b->capture
		   ? 0
		   : log_error(CORALE_EDEVICE, e->params.world_rank, "the capture was invalidated");
}

/* ---- Nothing fails ---------------------------------------------------------------------------------------- */

static int failure(const struct engine *e, struct engine_failure *out)
{
	return 0;
}

static uint64_t waits(const struct engine *e, int rank)
{
	static _Atomic uint32_t notes;
	return e->waits ? (uint64_t)e->waits << 32 | ++notes : 0;
}

static int nothing(struct engine *e)
{
	return 0;
}

static void release(struct engine *e)
{
}

static void stop(struct engine *e, int code)
{
}

static int unmap(struct engine *e, int rank, int failed)
{
	return 0;
}

/* ---- Memory: no peer maps any ----------------------------------------------------------------------------- */

static size_t memory(const struct engine *e)
{
	return 0;
}

static int alloc(struct engine *e, size_t bytes, void **out)
{
	*out = malloc(bytes);
	return *out ? 0 : log_error(CORALE_ENOMEM, e->params.world_rank, "no memory");
}

static void free_memory(struct engine *e, void *memory, int used)
{
	free(memory);
}

static int share(struct engine *e, const void *buffer, size_t bytes,
		 unsigned char handle[ENGINE_HANDLE_BYTES], int *fd)
{
	return CORALE_ENOTSUP;
}

static size_t scratch_bytes(const struct engine *e)
{
	return 0;
}

static uint64_t find(const struct engine *e, const void *buffer, size_t bytes)
{
	return 0;
}

static void publish(struct engine *e, const void *buffer, size_t bytes)
{
}

const struct engine_process_ops engine_process = {
	.available = available,
	.spare_captures = spare_captures,
	.end_spare = end_spare,
	.identify = identify,
	.links = links,
	.host_window_works = host_window_works,
};

const struct engine_memory_ops engine_memory = {
	.remote = remote,
	.keep = keep,
	.free_kept = free_kept,
	.slab_open = slab_open,
	.slab_use = slab_use,
	.unmap = unmap,
	.memory = memory,
	.alloc = alloc,
	.free = free_memory,
	.share = share,
	.scratch_bytes = scratch_bytes,
	.find = find,
	.publish = publish,
};

const struct engine_ops engine_cuda = {
	.open = open_engine,
	.close = close_engine,
	.enter = enter,
	.leave = leave,
	.own_gpu = own_gpu,
	.try_peers = try_peers,
	.window_fds = window_fds,
	.share_machine = share_machine,
	.connect = connect_engines,
	.set_proxy = set_proxy,
	.probe_begin = probe_begin,
	.probe_end = probe_end,
	.describe = describe,
	.add_list = add_list,
	.admit = admit,
	.prepare = prepare,
	.run = run,
	.run_messages = run_messages,
	.captures = captures,
	.join = join,
	.failure = failure,
	.waits = waits,
	.health = nothing,
	.finish = nothing,
	.release = release,
	.stop = stop,
	.quit = stop,
	.abort = stop,
};
