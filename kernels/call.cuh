/*
 * What the fused kernels share: the user's data in 16-byte vectors, packets, headers, the one wait that ends by itself, and
 * the epoch's end.
 *
 * Memory order. A packet carries its own readiness, so relaxed accesses at system scope are enough: 32-bit words of
 * a sentinel packet, 64-bit halves of a header, and lines that eight lanes of one warp store and load in one
 * instruction. Slots: all threads store the data; the block's barrier; one thread fences and stores the flag. The other end: one thread reads
 * the flag and fences; the block's barrier; all threads load.
 */
#ifndef CALL_CUH
#define CALL_CUH

#include "codelets.h"
#include "corale.h"
#include "sync.cuh"
#include "vector.cuh"

__device__ static inline void call_wait_for_previous(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ static inline vector load_shared(const void *from)
{
	vector v;
	asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(from)
		     : "memory");
	return v;
}

__device__ static inline void store_shared(void *to, vector v)
{
	asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};"
		     :
		     : "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
		     : "memory");
}

/* ---- The user's data ------------------------------------------------------------------------------------ */

/* Up to 16 bytes at any address; the rest is zero. */
__device__ static __noinline__ vector load_odd(const unsigned char *from, unsigned bytes)
{
	uint32_t w[4] = { 0, 0, 0, 0 };
	if (((uintptr_t)from | bytes) % 4 == 0) {
#pragma unroll
		for (unsigned i = 0; i < 4; i++)
			if (4 * i < bytes)
				w[i] = ((const uint32_t *)from)[i];
	} else {
#pragma unroll
		for (unsigned i = 0; i < 16; i++)
			if (i < bytes)
				w[i / 4] |= (uint32_t)from[i] << 8 * (i % 4);
	}
	return make_uint4(w[0], w[1], w[2], w[3]);
}

__device__ static __noinline__ void store_odd(unsigned char *to, vector v, unsigned bytes)
{
	const uint32_t w[4] = { v.x, v.y, v.z, v.w };
	if (((uintptr_t)to | bytes) % 4 == 0) {
#pragma unroll
		for (unsigned i = 0; i < 4; i++)
			if (4 * i < bytes)
				((uint32_t *)to)[i] = w[i];
	} else {
#pragma unroll
		for (unsigned i = 0; i < 16; i++)
			if (i < bytes)
				to[i] = (unsigned char)(w[i / 4] >> 8 * (i % 4));
	}
}

__device__ static inline vector load_user(const unsigned char *from, unsigned bytes)
{
	if (bytes == 16 && (uintptr_t)from % 16 == 0)
		return *(const vector *)from;
	if (bytes % 8 == 0 && (uintptr_t)from % 8 == 0) { /* lines are cut at multiples of 8 */
		uint2 low = ((const uint2 *)from)[0];
		uint2 high = bytes == 16 ? ((const uint2 *)from)[1] : make_uint2(0, 0);
		return make_uint4(low.x, low.y, high.x, high.y);
	}
	return load_odd(from, bytes);
}

__device__ static inline void store_user(unsigned char *to, vector v, unsigned bytes)
{
	if (bytes == 16 && (uintptr_t)to % 16 == 0) {
		*(vector *)to = v;
	} else if (bytes % 8 == 0 && (uintptr_t)to % 8 == 0) {
		((uint2 *)to)[0] = make_uint2(v.x, v.y);
		if (bytes == 16)
			((uint2 *)to)[1] = make_uint2(v.z, v.w);
	} else {
		store_odd(to, v, bytes);
	}
}

/* ---- Windows -------------------------------------------------------------------------------------------- */

__device__ static inline unsigned char *window_of(const codelet_args &a, int rank)
{
	return a.windows + (uint64_t)rank * a.stride;
}

/* What sender has in receiver's window, in the half of an epoch. */
__device__ static inline unsigned char *packets_of(const codelet_args &a, int sender, int receiver, uint32_t half)
{
	uint32_t others = (uint32_t)a.ranks - 1;
	return window_of(a, receiver) + a.area +
	       (half * others + codelet_index(sender, receiver, a.ranks)) * a.area_bytes;
}

__device__ static inline unsigned char *slots_of(const codelet_args &a, int sender, int receiver)
{
	return window_of(a, receiver) + a.area + codelet_index(sender, receiver, a.ranks) * a.area_bytes;
}

__device__ static inline codelet_header *header_of(const codelet_args &a, int sender, int receiver, uint32_t half)
{
	return (codelet_header *)(window_of(a, receiver) + a.headers) + (half * (uint32_t)a.ranks + (uint32_t)sender);
}

/* Peers in an order in which no two ranks begin with the same one. */
__device__ static inline int peer_after(const codelet_args &a, int k)
{
	int peer = a.rank + k;
	return peer < a.ranks ? peer : peer - a.ranks;
}

/* ---- Failure -------------------------------------------------------------------------------------------- */

__device__ static __noinline__ void call_fail(const codelet_args &a, int code, int peer, uint64_t epoch,
					      uint64_t expected, uint64_t got)
{
	codelet_failure *f = a.state->failure;
	if (atomicCAS(&a.state->recorded, 0u, 1u))
		return;
	f->peer = peer;
	f->epoch = epoch;
	f->expected = expected;
	f->got = got;
	sync_fence();
	*(volatile int32_t *)&f->code = code;
	uint64_t word = (uint64_t)(a.rank + 1) << 32 | (uint32_t)-code;
	for (int r = 0; r < a.ranks; r++)
		sync_store_relaxed(&((codelet_control *)window_of(a, r))->abort, word);
}

enum { CALL_SPINS_PER_LOOK = 1024, CALL_LOOKS_PER_HOST = 64 };

/* A wait that lasts: true if it must end. spins counts its turns, start is its own memory. */
__device__ static __noinline__ bool call_stop(const codelet_args &a, uint32_t spins, uint64_t *start, int peer,
					      uint64_t epoch)
{
	const codelet_control *control = (const codelet_control *)window_of(a, a.rank);
	uint64_t abort = sync_load_relaxed(&control->abort);
	if (abort) {
		call_fail(a, -(int)(uint32_t)abort, (int)(abort >> 32) - 1, epoch, 0, 0);
		return true;
	}
	if (spins / CALL_SPINS_PER_LOOK % CALL_LOOKS_PER_HOST)
		return false;
	uint32_t told = sync_load_host(a.state->host_abort);
	if (told) {
		call_fail(a, -(int)told, a.rank, epoch, 0, 0);
		return true;
	}
	uint64_t now = sync_now_ns(), timeout = a.state->timeout_ns;
	*start = *start ? *start : now;
	if (!timeout || now - *start < timeout)
		return false;
	call_fail(a, CORALE_ETIMEDOUT, peer, epoch, 0, 0);
	return true;
}

/* ---- Headers -------------------------------------------------------------------------------------------- */

/* By the first threads of the first block: one line to each other rank. */
__device__ static inline void send_headers(const codelet_args &a, uint64_t epoch)
{
	if (blockIdx.x)
		return;
	vector packet = make_uint4((uint32_t)a.signature, (uint32_t)epoch, (uint32_t)(a.signature >> 32), (uint32_t)epoch);
	for (int k = 1 + (int)threadIdx.x; k < a.ranks; k += (int)blockDim.x)
		store_shared(header_of(a, a.rank, peer_after(a, k), epoch & 1), packet);
}

/* By one warp together: 1 once all headers of this epoch are here and agree, 0 while some are missing, -1 after a mismatch. */
__device__ static inline int headers_heard(const codelet_args &a, uint64_t epoch)
{
	bool here = true;
	for (int r = (int)threadIdx.x % 32; r < a.ranks; r += 32) {
		if (r == a.rank)
			continue;
		vector h = load_shared(header_of(a, r, a.rank, epoch & 1));
		bool came = h.y == (uint32_t)epoch && h.w == (uint32_t)epoch;
		if (came && (h.x != (uint32_t)a.signature || h.z != (uint32_t)(a.signature >> 32))) {
			call_fail(a, CORALE_EMISMATCH, r, epoch, a.signature, (uint64_t)h.z << 32 | h.x);
			came = false;
			return -1;
		}
		here = here && came;
	}
	return here;
}

/* Waits, the first warp for all, until all ranks are known to make this call. */
__device__ static inline bool hear_all(const codelet_args &a, uint64_t epoch, uint64_t *start)
{
	bool good = true;
	if (threadIdx.x < 32) {
		for (uint32_t spins = 1;; spins++) {
			int heard = headers_heard(a, epoch);
			bool stop = spins % CALL_SPINS_PER_LOOK == 0 && threadIdx.x == 0 &&
				    call_stop(a, spins, start, a.rank, epoch);
			good = !__any_sync(~0u, heard < 0 || stop);
			if (!good || __all_sync(~0u, heard > 0))
				break;
		}
	}
	return __syncthreads_and(good);
}

/* ---- Epochs --------------------------------------------------------------------------------------------- */

__device__ static inline uint64_t call_epoch(const codelet_args &a)
{
	return a.state->epochs[blockIdx.x] + 1;
}

/* Every block ends the epoch for itself and for those that this launch does not have, whatever grid comes next. */
__device__ static inline void call_end(const codelet_args &a, uint64_t epoch)
{
	if (blockDim.x > 32)
		__syncthreads(); /* all warps have read it */
	for (uint32_t b = blockIdx.x + threadIdx.x * gridDim.x; b < CODELET_MAX_BLOCKS; b += blockDim.x * gridDim.x)
		a.state->epochs[b] = epoch;
}

#endif
