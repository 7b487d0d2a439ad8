/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA engine: its table of functions, and queries that any thread may make. */
#include "cuda_codelet.h"

#include <time.h>

#include "base/log.h"

static const struct engine_own_gpu *own_gpu(const struct engine *e)
{
	return &e->gpu;
}

static struct remote remote(const struct engine *e, size_t *bytes)
{
	if (bytes)
		*bytes = e->connections.bytes;
	return e->remote.remote;
}

static void set_proxy(struct engine *e, struct proxy *proxy, const int *index_of)
{
	e->connections.proxy = proxy;
	e->index_of = index_of;
}

static void describe(const struct engine *e, struct gpu_machine *machine)
{
	const struct gpu_machine *own = &e->machine;
	machine->rates = own->rates;
	machine->ranks = own->ranks;
	machine->max_blocks = own->max_blocks;
	machine->resident = own->resident;
	machine->words_only = own->words_only;
	machine->host_window = own->host_window;
	machine->words_bytes = own->words_bytes;
	machine->lines_bytes = own->lines_bytes;
	machine->slots_bytes = own->slots_bytes;
	machine->rings_bytes = own->rings_bytes;
	machine->scratch_bytes = own->scratch_bytes;
	machine->zero_copy = own->zero_copy;
}

static int captures(const struct engine *e)
{
	return e->last_captures;
}

/* Takes the type out of typed bytes, which leaves the bytes. */
static corale_type take_type(uint64_t *typed_bytes)
{
	corale_type type = (corale_type)(*typed_bytes >> CODELET_TYPE_SHIFT);
	*typed_bytes &= ((uint64_t)1 << CODELET_TYPE_SHIFT) - 1;
	return type;
}

static int failure(const struct engine *e, struct engine_failure *out)
{
	const volatile struct codelet_failure *f = e->failure;
	int code = engine_failed(e);
	if (!code)
		return 0;
	__sync_synchronize(); /* the kernel wrote code last */
	*out = (struct engine_failure){ .code = code,
					.peer = f->peer,
					.epoch = f->epoch,
					.expected = f->expected,
					.got = f->got,
					.number = f->number,
					.of_message = f->of_message != 0 };
	if (out->of_message) {
		out->expected_type = take_type(&out->expected);
		out->got_type = take_type(&out->got);
	}
	return code;
}

static uint64_t waits(const struct engine *e, int rank)
{
	return rank < e->ranks ? __atomic_load_n(&e->waits[rank], __ATOMIC_RELAXED) : 0;
}

static size_t memory(const struct engine *e)
{
	return e->bytes;
}

static size_t pinned_memory(const struct engine *e)
{
	return e->connections.bytes + (e->machine.host_window ? e->stride : 0);
}

/* ---- On the engine's GPU, whichever is current ----------------------------------------------------------- */

/* 1 if leave has to pop the engine's context. */
static int enter(const struct engine *e)
{
	CUcontext now = NULL;
	if (e->driver.current_context(&now) == CUDA_SUCCESS && now == e->context)
		return 0;
	return e->driver.push_context(e->context) == CUDA_SUCCESS;
}

static void leave(const struct engine *e, int entered)
{
	CUcontext ours;
	if (entered)
		e->driver.pop_context(&ours);
}

static int refuse(const struct engine *e)
{
	return log_error(CORALE_EPEER, e->world_rank,
			 "another rank has destroyed the communicator: no further collective can end");
}

/* Of a call. Threads that unmap a rank's memory wait until `calling` is 0, so they see all that is enqueued here. */
static int begin(struct engine *e)
{
	const struct timespec pause = { 0, 20000 };
	atomic_store(&e->calling, 1);
	while (e->exporter && exporter_closes(e->exporter)) {
		atomic_store(&e->calling, 0);
		nanosleep(&pause, NULL);
		atomic_store(&e->calling, 1);
	}
	return enter(e);
}

/* A launch that has failed may be among those that were counted. */
static int end(struct engine *e, int entered, int ret)
{
	leave(e, entered);
	e->lost_count |= ret && ret != CORALE_ECOMM;
	atomic_store_explicit(&e->calling, 0, memory_order_release);
	return ret;
}

static int admit(struct engine *e, const struct call *call, void *stream, struct admission *out)
{
	const int entered = enter(e), ret = engine_admit(e, call, stream, out);
	leave(e, entered);
	return ret;
}

static int run(struct engine *e, const struct call *call, const struct gpu_launch *launch, void *stream)
{
	const int entered = begin(e);
	return end(e, entered, atomic_load(&e->closed) ? refuse(e) : engine_run(e, call, launch, stream));
}

static int run_messages(struct engine *e, const struct call *messages, int n, void *stream)
{
	const int entered = begin(e);
	return end(e, entered, engine_run_messages(e, messages, n, stream));
}

/* As enter, and with captures relaxed: memory may be allocated and freed, and work awaited, while any thread captures. */
struct visit {
	int entered;
	int mode; /* the thread's own */
};

static struct visit visit(const struct engine *e)
{
	struct visit v = { .mode = engine_spare_captures() };
	v.entered = e && enter(e);
	return v;
}

static int end_visit(const struct engine *e, struct visit v, int ret)
{
	if (e)
		leave(e, v.entered);
	engine_end_spare(v.mode);
	return ret;
}

static int load(void)
{
	int error = engine_load_codelets();
	error = error ? error : codelets_load_order();
	return error ? error : codelets_load_probe();
}

static int open(const struct engine_params *params, struct engine **out)
{
	const struct visit v = visit(NULL);
	return end_visit(NULL, v, engine_open(params, load, out));
}

static int host_window_works(int ranks, size_t bytes, char *why, size_t why_bytes)
{
	const struct visit v = visit(NULL);
	return end_visit(NULL, v, engine_host_window_works(ranks, bytes, why, why_bytes));
}

static void free_kept(struct engine_kept *kept)
{
	struct visit v = visit(NULL);
	engine_free_kept(kept);
	end_visit(NULL, v, 0);
}

static int health(struct engine *e)
{
	const struct visit v = visit(e);
	return end_visit(e, v, engine_health(e));
}

static int finish(struct engine *e)
{
	struct visit v = visit(e);
	engine_release(e);
	return end_visit(e, v, engine_wait_own(e));
}

static int unmap(struct engine *e, int rank, int failed)
{
	const struct timespec pause = { 0, 1000000 };
	struct visit v = visit(e);
	atomic_store(&e->closed, 1);
	while (atomic_load(&e->calling))
		nanosleep(&pause, NULL);
	int ret = 0;
	if (failed) {
		engine_release(e);
		engine_end_kernels(e, CORALE_ECOMM);
		ret = engine_wait_own(e);
	}
	return end_visit(e, v, ret ? ret : engine_forget_rank(e, rank));
}

static int add_list(struct engine *e, struct lowered *lowered, int *list)
{
	const struct visit v = visit(e);
	return end_visit(e, v, engine_add_list(e, lowered, list));
}

static int join(struct engine *e, void *before, void *after)
{
	int entered = enter(e), ret = engine_join(e, before, after);
	leave(e, entered);
	return ret;
}

static int alloc(struct engine *e, size_t bytes, void **out)
{
	const struct visit v = visit(e);
	return end_visit(e, v, engine_alloc(e, bytes, out));
}

static void free_memory(struct engine *e, void *memory, int used)
{
	struct engine outlived = { .rank = -1 };
	char why_not[160]; /* it was there when the memory was made */
	struct visit v = visit(e);
	if (e || cuda_load_driver(&outlived.driver, why_not, sizeof why_not))
		engine_free(e ? e : &outlived, memory, used);
	end_visit(e, v, 0);
}

static int share(struct engine *e, const void *buffer, size_t bytes,
		 unsigned char handle[ENGINE_HANDLE_BYTES], int *fd)
{
	const struct visit v = visit(e);
	return end_visit(e, v, engine_share(e, buffer, bytes, handle, fd));
}

static int attach(struct engine *e, const unsigned char *handles, size_t stride, const int *fds, void *buffer,
		  int *region)
{
	const struct visit v = visit(e);
	return end_visit(e, v, engine_attach(e, handles, stride, fds, buffer, region));
}

static void detach(struct engine *e, int region, int used)
{
	struct visit v = visit(e);
	engine_detach(e, region, used);
	end_visit(e, v, 0);
}

static int verify(const struct engine *e, uint64_t target)
{
	const struct visit v = visit(e);
	return end_visit(e, v, engine_verify(e, target));
}

static void publish(struct engine *e, const void *buffer, size_t bytes)
{
	const struct visit v = visit(e);
	if (e->machine.zero_copy)
		exporter_find(e->exporter, buffer, bytes, 1);
	end_visit(e, v, 0);
}

static void close(struct engine *e)
{
	const struct engine closed = { .driver = e->driver };
	struct visit v = visit(e);
	engine_close(e);
	end_visit(&closed, v, 0);
}

const struct engine_process_ops engine_process = {
	.available = cuda_available,
	.count = cuda_count,
	.gpu = cuda_gpu,
	.gpu_links = cuda_links,
	.versions = cuda_versions,
	.memory_kind = engine_memory_kind,
	.spare_captures = engine_spare_captures,
	.end_spare = engine_end_spare,
	.identify = engine_identify,
	.links = engine_links,
	.host_window_works = host_window_works,
};

const struct engine_memory_ops engine_memory = {
	.remote = remote,
	.keep = engine_keep,
	.free_kept = free_kept,
	.slab_open = engine_slab_open,
	.slab_use = engine_slab_use,
	.unmap = unmap,
	.memory = memory,
	.pinned_memory = pinned_memory,
	.alloc = alloc,
	.free = free_memory,
	.share = share,
	.attach = attach,
	.detach = detach,
	.scratch_bytes = engine_scratch_bytes,
	.keep_scratch = engine_keep_scratch,
	.find = engine_find,
	.is_exported = engine_is_exported,
	.verify = verify,
	.publish = publish,
};

const struct engine_ops engine_cuda = {
	.open = open,
	.own_gpu = own_gpu,
	.enter = enter,
	.leave = leave,
	.window_fds = engine_window_fds,
	.share_machine = engine_share_machine,
	.connect = engine_connect,
	.try_peers = engine_try_peers,
	.describe = describe,
	.set_proxy = set_proxy,
	.probe_begin = engine_probe_begin,
	.probe_end = engine_probe_end,
	.add_list = add_list,
	.admit = admit,
	.prepare = engine_prepare,
	.run = run,
	.captures = captures,
	.run_messages = run_messages,
	.join = join,
	.failure = failure,
	.waits = waits,
	.health = health,
	.stop = engine_stop,
	.quit = engine_quit,
	.release = engine_release,
	.abort = engine_abort,
	.finish = finish,
	.close = close,
};
