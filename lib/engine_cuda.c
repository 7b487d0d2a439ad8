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

static int failure(const struct engine *e, struct engine_failure *out)
{
	const volatile struct codelet_failure *f = e->failure;
	int code = f->code;
	if (!code)
		return 0;
	__sync_synchronize(); /* the kernel wrote code last */
	*out = (struct engine_failure){ code, f->peer, f->epoch, f->expected, f->got };
	return code;
}

static size_t memory(const struct engine *e)
{
	return e->bytes;
}

const struct engine_ops engine_cuda = {
	.name = "cuda",
	.available = cuda_available,
	.open = engine_open,
	.uuid = uuid,
	.window_fd = engine_window_fd,
	.connect = engine_connect,
	.describe = describe,
	.words = words,
	.run = engine_run,
	.run_messages = engine_run_messages,
	.failure = failure,
	.abort = engine_abort,
	.memory = memory,
	.alloc = engine_alloc,
	.free = engine_free,
	.share = engine_share,
	.attach = engine_attach,
	.detach = engine_detach,
	.scratch_bytes = engine_scratch_bytes,
	.keep_scratch = engine_keep_scratch,
	.find = engine_find,
	.is_exported = engine_is_exported,
	.verify = engine_verify,
	.close = engine_close,
};
