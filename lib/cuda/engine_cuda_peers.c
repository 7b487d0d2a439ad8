/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the peers' windows can be written and read, tried by copy engine: on some boards access that the driver grants loses bytes or never ends. */
#include "engine_cuda.h"

#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/log.h"

enum { TRIED_BYTES = 64 << 10, TRIED_WORDS = TRIED_BYTES / 8, PATIENCE_S = 60 /* at most */ };

/* What rank `from` stores in the window of rank `to`. */
static uint64_t pattern(uint64_t seed, int from, int to, int i)
{
	const uint64_t of[] = { seed, (uint64_t)from << 32 | (uint32_t)to, (uint64_t)i };
	return hash_bytes(hash_start, of, sizeof of);
}

/* In its slots there, which no call uses yet. */
static void *slots_of(const struct engine *e, int from, int to)
{
	return (char *)e->base + (size_t)to * e->stride + e->layout.slots +
	       (size_t)codelet_index(from, to) * e->layout.slots_bytes;
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* CORALE_ETIMEDOUT: it does not end. Then nothing that it uses may be freed. CORALE_EDEVICE: CUDA refuses it. */
static int copy(struct engine *e, void *to, const void *from, int peer, double until, cudaStream_t stream)
{
	cudaError_t error = cudaMemcpyAsync(to, from, TRIED_BYTES, cudaMemcpyDefault, stream);
	if (error == cudaSuccess)
		do
			error = cudaStreamQuery(stream);
		while (error == cudaErrorNotReady && now_s() <= until);
	if (error == cudaSuccess)
		return 0;
	if (error != cudaErrorNotReady) {
		cudaGetLastError();
		log_line(LOG_INFO, e->world_rank, "a copy between GPU %s and that of local rank %d: %s",
			 e->gpu.id.pci, peer, cudaGetErrorString(error));
		return CORALE_EDEVICE;
	}
	e->hangs = 1;
	return log_error(CORALE_ETIMEDOUT, e->world_rank,
			 "a copy between GPU %s and that of local rank %d of this node did not end: peer "
			 "access does not work "
			 "between them, though the driver grants it; set CORALE_P2P=no",
			 e->gpu.id.pci, peer);
}

static int is_wrong(const uint64_t *words, uint64_t seed, int from, int to)
{
	for (int i = 0; i < TRIED_WORDS; i++)
		if (words[i] != pattern(seed, from, to, i))
			return 1;
	return 0;
}

static int write_peer(struct engine *e, uint64_t seed, int peer, uint64_t *words, double until, void *gpu,
		      cudaStream_t stream)
{
	for (int i = 0; i < TRIED_WORDS; i++)
		words[i] = pattern(seed, e->rank, peer, i);
	int ret = copy(e, gpu, words, peer, until, stream);
	return ret ? ret : copy(e, slots_of(e, e->rank, peer), gpu, peer, until, stream);
}

/* What the peer has stored here, and what lies there, which this GPU's copy engine loads as it does in calls. */
static int read_peer(struct engine *e, uint64_t seed, int peer, uint64_t *words, double until, void *gpu,
		     cudaStream_t stream, unsigned char *wrong)
{
	int ret = copy(e, words, slots_of(e, peer, e->rank), peer, until, stream);
	*wrong = (unsigned char)(!ret && is_wrong(words, seed, peer, e->rank));
	memset(words, 0, TRIED_BYTES);
	ret = ret ? ret : copy(e, gpu, words, peer, until, stream);
	ret = ret ? ret : copy(e, gpu, slots_of(e, e->rank, peer), peer, until, stream);
	ret = ret ? ret : copy(e, words, gpu, peer, until, stream);
	*wrong |= (unsigned char)(!ret && is_wrong(words, seed, e->rank, peer));
	return ret;
}

int engine_try_peers(struct engine *e, uint64_t seed, double timeout_s, unsigned char *wrong)
{
	cudaStream_t stream = NULL;
	void *words = NULL, *gpu = NULL;
	const double until = now_s() + (timeout_s > 0 && timeout_s < PATIENCE_S ? timeout_s : PATIENCE_S);
	const int mode = engine_spare_captures();
	int ret = engine_make_stream(e, 0, &stream);
	ret = ret ? ret
		  : engine_check(e, engine_pool_take(e, POOL_PINNED, TRIED_BYTES, &words),
				 "allocating pinned memory");
	ret = ret ? ret : engine_malloc(e, TRIED_BYTES, &gpu);
	for (int k = 1; !ret && k < e->ranks; k++) {
		const int peer = (e->rank + k) % e->ranks;
		ret = wrong ? read_peer(e, seed, peer, words, until, gpu, stream, &wrong[peer])
			    : write_peer(e, seed, peer, words, until, gpu, stream);
		if (ret == CORALE_EDEVICE) { /* of what was not written the peer knows */
			if (wrong)
				wrong[peer] = 1;
			ret = 0;
		}
	}
	if (!e->hangs) {
		engine_pool_give(words);
		if (gpu)
			engine_mfree(e, gpu, TRIED_BYTES);
		if (stream)
			cudaStreamDestroy(stream);
	}
	engine_end_spare(mode);
	return ret;
}
