/* The CUDA engine of fused codelets: its table of functions, and what any thread may ask. */
#include "engine_cuda.h"

static void uuid(const struct engine *e, unsigned char out[ENGINE_UUID_BYTES])
{
	for (int i = 0; i < ENGINE_UUID_BYTES; i++)
		out[i] = e->uuid[i];
}

static void describe(const struct engine *e, struct plan_node *node)
{
	node->ranks = e->ranks;
	node->max_blocks = e->max_blocks;
	node->words_bytes = e->layout.words_bytes;
	node->lines_bytes = e->layout.lines_bytes;
}

static int words(corale_type type)
{
	return codelets_words(type);
}

/* Leaves the bytes. */
static corale_type take_type(uint64_t *what)
{
	corale_type type = (corale_type)(*what >> CODELET_WHAT_SHIFT);
	*what &= ((uint64_t)1 << CODELET_WHAT_SHIFT) - 1;
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

static size_t memory(const struct engine *e)
{
	return e->bytes;
}

/* ---- On the engine's GPU, whichever is current ----------------------------------------------------------- */

/* Whether leave has to undo it. */
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

static int run(struct engine *e, const struct engine_call *call, void *stream)
{
	int entered = enter(e), ret = engine_run(e, call, stream);
	leave(e, entered);
	return ret;
}

static int run_messages(struct engine *e, const struct engine_message *messages, int n, void *stream)
{
	int entered = enter(e), ret = engine_run_messages(e, messages, n, stream);
	leave(e, entered);
	return ret;
}

static int join(struct engine *e, void *before, void *after)
{
	int entered = enter(e), ret = engine_join(e, before, after);
	leave(e, entered);
	return ret;
}

static int alloc(struct engine *e, size_t bytes, void **out)
{
	int entered = enter(e), ret = engine_alloc(e, bytes, out);
	leave(e, entered);
	return ret;
}

static void free_memory(struct engine *e, void *memory, int used)
{
	int entered = enter(e);
	engine_free(e, memory, used);
	leave(e, entered);
}

static int share(struct engine *e, const void *buffer, size_t bytes,
		 unsigned char handle[ENGINE_HANDLE_BYTES], int *fd)
{
	int entered = enter(e), ret = engine_share(e, buffer, bytes, handle, fd);
	leave(e, entered);
	return ret;
}

static int attach(struct engine *e, const unsigned char *handles, size_t stride, const int *fds, void *buffer,
		  int *region)
{
	int entered = enter(e), ret = engine_attach(e, handles, stride, fds, buffer, region);
	leave(e, entered);
	return ret;
}

static void detach(struct engine *e, int region, int used)
{
	int entered = enter(e);
	engine_detach(e, region, used);
	leave(e, entered);
}

static int verify(const struct engine *e, uint64_t target)
{
	int entered = enter(e), ret = engine_verify(e, target);
	leave(e, entered);
	return ret;
}

static void close(struct engine *e)
{
	const struct engine place = { .driver = e->driver };
	int entered = enter(e);
	engine_close(e);
	leave(&place, entered);
}

const struct engine_ops engine_cuda = {
	.name = "cuda",
	.available = cuda_available,
	.open = engine_open,
	.uuid = uuid,
	.reaches = engine_reaches,
	.window_fd = engine_window_fd,
	.limit = engine_limit,
	.connect = engine_connect,
	.describe = describe,
	.words = words,
	.run = run,
	.run_messages = run_messages,
	.join = join,
	.failure = failure,
	.abort = engine_abort,
	.memory = memory,
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
	.close = close,
};
