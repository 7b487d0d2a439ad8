/* SPDX-License-Identifier: BSD-3-Clause */
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

/* Threads that a multiprocessor holds at most. */
#if __CUDA_ARCH__ == 750
enum { SM_THREADS = 1024 };
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ == 1200
enum { SM_THREADS = 1536 };
#else
enum { SM_THREADS = 2048 };
#endif

/* ---- The user's data ------------------------------------------------------------------------------------ */

/* Up to 16 bytes at any address; the rest is zero. */
__device__ static __noinline__ vector load_bytes(const unsigned char *from, unsigned bytes)
{
	uint32_t w[4] = { 0, 0, 0, 0 };
#pragma unroll
	for (unsigned i = 0; i < 16; i++)
		if (i < bytes)
			w[i / 4] |= (uint32_t)from[i] << 8 * (i % 4);
	return make_uint4(w[0], w[1], w[2], w[3]);
}

__device__ static __noinline__ void store_bytes(unsigned char *to, vector v, unsigned bytes)
{
	const uint32_t w[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
	for (unsigned i = 0; i < 16; i++)
		if (i < bytes)
			to[i] = (unsigned char)(w[i / 4] >> 8 * (i % 4));
}

/* The same in whole words at multiples of 4: small rather than fast. */
__device__ static inline vector load_few(const unsigned char *from, unsigned bytes)
{
	const uint32_t *w = (const uint32_t *)from;
	return make_uint4(bytes > 0 ? w[0] : 0, bytes > 4 ? w[1] : 0, bytes > 8 ? w[2] : 0, bytes > 12 ? w[3] : 0);
}

__device__ static inline void store_few(unsigned char *to, vector v, unsigned bytes)
{
	uint32_t *w = (uint32_t *)to;
	if (bytes > 0)
		w[0] = v.x;
	if (bytes > 4)
		w[1] = v.y;
	if (bytes > 8)
		w[2] = v.z;
	if (bytes > 12)
		w[3] = v.w;
}

/* The same, fast where a whole vector is aligned. */
__device__ static inline vector load_words(const unsigned char *from, unsigned bytes)
{
	return bytes == 16 && (uintptr_t)from % 16 == 0 ? *(const vector *)from : load_few(from, bytes);
}

__device__ static inline void store_words(unsigned char *to, vector v, unsigned bytes)
{
	if (bytes == 16 && (uintptr_t)to % 16 == 0)
		*(vector *)to = v;
	else
		store_few(to, v, bytes);
}

/* UNALIGNED: addresses or sizes may be no multiples of 4. */
template <bool UNALIGNED> __device__ static inline vector load_user(const unsigned char *from, unsigned bytes)
{
	if (UNALIGNED && (((uintptr_t)from | bytes) & 3))
		return load_bytes(from, bytes);
	return load_words(from, bytes);
}

template <bool UNALIGNED> __device__ static inline void store_user(unsigned char *to, vector v, unsigned bytes)
{
	if (UNALIGNED && (((uintptr_t)to | bytes) & 3))
		store_bytes(to, v, bytes);
	else
		store_words(to, v, bytes);
}

/* A premultiplied sum's scalar. After sync_previous_kernel: kernels before this one may write it, and the caches of a multiprocessor may
 * hold an older one. */
template <int TYPE> __device__ static inline uint64_t scalar_of(const codelet_args &a)
{
	const void *at = a.scalar_at;
	if (!at)
		return a.scalar;
	switch (vector_element_bytes<TYPE>) {
	case 1:
		return __ldcg((const uint8_t *)at);
	case 2:
		return __ldcg((const uint16_t *)at);
	case 4:
		return __ldcg((const uint32_t *)at);
	default:
		return __ldcg((const uint64_t *)at);
	}
}

/* This rank's input of a premultiplied sum, times its scalar. */
template <int TYPE> __device__ static inline vector premultiply(const codelet_args &a, vector v)
{
	return vector_premultiply<TYPE>(v, scalar_of<TYPE>(a));
}

/*
 * Folds n inputs in their order: one of each rank, or the sources of an operation. load(k) brings input k; BATCH of them are under way at a time.
 */
template <int BATCH, class Sum, class Load> __device__ static __forceinline__ void fold_ranks(Sum *sum, int n, int op, Load load)
{
	for (int first = 0; first < n; first += BATCH) {
		vector v[BATCH];
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (first + k < n)
				v[k] = load(first + k);
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			if (first + k == 0)
				sum->start(v[k]);
			else if (first + k < n)
				sum->add(v[k], op);
		}
	}
}

/* ---- Windows -------------------------------------------------------------------------------------------- */

__device__ static inline unsigned char *window_of(const codelet_args &a, int rank)
{
	return a.windows + (uint64_t)(uint32_t)rank * a.stride;
}

/* What sender has in receiver's window, in the half of an epoch. */
__device__ static inline unsigned char *packets_of(const codelet_args &a, int sender, int receiver, uint32_t half)
{
	uint32_t others = (uint32_t)a.ranks - 1;
	return window_of(a, receiver) + a.area + (uint64_t)(half * others + codelet_index(sender, receiver)) * a.area_bytes;
}

/* What rank 0 has in my window; codelet_index gives the others. */
__device__ static inline unsigned char *inbox_of(const codelet_args &a, uint32_t half)
{
	return window_of(a, a.rank) + a.area + (uint64_t)(half * ((uint32_t)a.ranks - 1)) * a.area_bytes;
}

__device__ static inline unsigned char *slots_of(const codelet_args &a, int sender, int receiver)
{
	unsigned char *area = a.slots ? a.slots[receiver] : window_of(a, receiver) + a.area;
	return area + (uint64_t)codelet_index(sender, receiver) * a.area_bytes;
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

enum : uint32_t { CALL_ABORTED = 1u << 31 }; /* in an epoch: no packet has it */

/* ---- Failure -------------------------------------------------------------------------------------------- */

/*
 * A kernel that has failed keeps its stream while the host says so: nothing behind it on the stream runs on what it has not made. One thread
 * of a launch is enough; the other blocks end.
 */
__device__ static inline void call_hold(const codelet_args &a)
{
	const uint32_t *hold = a.state->hold;
	if (!a.launch || !sync_load_host(hold) || atomicExch(&a.state->holder, a.launch) == a.launch)
		return;
	while (sync_load_host(hold))
		sync_nap();
}

/*
 * The first failure of this GPU: for all peers, the kernels to come, and the host, which knows it last: when the program has its buffers back, peers that read them have been
 * told, of a local abort too.
 */
template <bool OF_MESSAGE>
__device__ static inline void call_record(const codelet_args &a, int code, int peer, uint64_t epoch, uint64_t expected, uint64_t got)
{
	codelet_failure *f = a.state->failure;
	if (atomicCAS(&a.state->recorded, 0u, 1u))
		return;
	f->peer = peer;
	f->epoch = epoch;
	f->expected = expected;
	f->got = got;
	f->number = a.number;
	f->of_message = OF_MESSAGE;
	/* Invalidates the epochs: packets of later kernels match no peer, and no peer's match here. The highest bit keeps them
	 * invalid where another block is just ending its call: see call_end. */
#pragma unroll 1
	for (int b = 0; b < CODELET_MAX_BLOCKS; b++)
		atomicXor((unsigned long long *)&a.state->epochs[b],
			  1ull << 63 | CALL_ABORTED >> 1 | (uint32_t)(a.rank + 1) << 20);
	const uint64_t word = (uint64_t)(a.rank + 1) << 32 | (uint32_t)-code;
	const bool local = !a.zero_copy.exports && sync_load_host(a.state->host_abort) & CODELET_LOCAL_ABORT;
	for (int r = local ? a.rank : 0; r < (local ? a.rank + 1 : a.ranks); r++)
		sync_store_relaxed(&((codelet_control *)window_of(a, r))->abort, word);
	sync_fence();
	*(volatile int32_t *)&a.state->failure->code = -(int32_t)(uint32_t)word;
}

/* Every kernel that ends because the communicator has failed ends by this. OF_MESSAGE: expected and got are codelet_typed_bytes. No argument,
 * which all that call this would have to hold. */
template <bool OF_MESSAGE = false>
__device__ static __noinline__ void call_fail(const codelet_args &a, int code, int peer, uint64_t epoch, uint64_t expected, uint64_t got)
{
	call_record<OF_MESSAGE>(a, code, peer, epoch, expected, got);
	call_hold(a);
}

enum { CALL_SPINS_PER_LOOK = 1024, CALL_LOOKS_PER_HOST = 16 };
enum { CALL_LONG_NS = 50000000 /* a wait that is noted for the host */, CALL_NOTE_SHIFT = 20 /* of its time, whose unit is about a millisecond */ };

/* For whom a kernel waits: a rank of this node that has not come, or another number: none that is known. */
__device__ static inline void call_note(const codelet_args &a, int peer, uint64_t now)
{
	if ((unsigned)peer < (unsigned)a.ranks && peer != a.rank)
		sync_store_relaxed(&a.state->waits[peer], (uint64_t)a.number << 32 | (uint32_t)(now >> CALL_NOTE_SHIFT));
}

/* What a packet says besides its epoch. */
__device__ static inline uint64_t word_of(vector packet)
{
	return (uint64_t)packet.z << 32 | packet.x;
}

/*
 * The second word that says the epoch mixes its high bits in. They distinguish a header of 2^32 epochs ago, and one that was never stored, from
 * one of now: a rank that is always the last to come may have sent none since then.
 */
__device__ static inline vector epoch_packet(uint64_t word, uint64_t epoch)
{
	return make_uint4((uint32_t)word, (uint32_t)epoch, (uint32_t)(word >> 32), (uint32_t)(epoch ^ epoch >> 32));
}

__device__ static inline vector header_packet(const codelet_args &a, uint64_t epoch)
{
	return epoch_packet(a.signature, epoch);
}

__device__ static inline bool header_is_of(vector h, uint64_t epoch)
{
	return h.y == (uint32_t)epoch && (h.w ^ h.y) == (uint32_t)(epoch >> 32);
}

/* Whether rank r has made another call in this one's turn; *got is its signature. */
__device__ static inline bool differs(const codelet_args &a, uint64_t epoch, int r, uint64_t *got)
{
	vector h = sync_load_packet(header_of(a, r, a.rank, epoch & 1));
	*got = word_of(h);
	return header_is_of(h, epoch) && *got != a.signature;
}

__device__ static inline uint64_t abort_word(const codelet_args &a)
{
	return sync_load_relaxed(&((const codelet_control *)window_of(a, a.rank))->abort);
}

/*
 * Whether a wait must end that has stopped or not; one that lasts is noted. start: when it began, 0 at the first look. A thread that waits for itself
 * keeps that in 32 bits, in the unit of notes, because kernels of slots need fewer registers so; with it kernels of packets spill more.
 */
template <bool DEADLINE, class Peer> __device__ static inline bool look_at_clock(const codelet_args &a, uint32_t *start, bool stop, Peer peer)
{
	const uint64_t ns = sync_now_ns(), timeout = DEADLINE ? a.state->timeout_ns : 0;
	const uint32_t now = (uint32_t)(ns >> CALL_NOTE_SHIFT), units = *start ? now - *start : 0;
	const uint64_t waited = (uint64_t)units << CALL_NOTE_SHIFT;
	*start = now - units;
	if (!stop && waited > CALL_LONG_NS)
		call_note(a, peer(), ns);
	return stop || sync_load_host(a.state->host_abort) || (timeout && waited > timeout);
}

template <bool DEADLINE, class Peer> __device__ static inline bool look_at_clock(const codelet_args &a, uint64_t *start, bool stop, Peer peer)
{
	const uint64_t now = sync_now_ns(), timeout = DEADLINE ? a.state->timeout_ns : 0, since = *start;
	if (!since)
		*start = now;
	else if (!stop && now - since > CALL_LONG_NS)
		call_note(a, peer(), now);
	return stop || sync_load_host(a.state->host_abort) || (timeout && since && now - since > timeout);
}

/*
 * One look of a wait: whether it must end; call_explain then says why. start: 0 at the first one. headers: this call has them, so another call of
 * a peer shows; the lanes of a warp share the ranks. Notes are stored here, without a function call, for which a kernel would need more registers.
 */
template <bool DEADLINE, class Time, class Peer>
__device__ static inline bool call_look(const codelet_args &a, uint32_t spins, Time *start, uint64_t epoch, bool headers, Peer peer)
{
	bool stop = abort_word(a) != 0;
	for (int r = (int)threadIdx.x % 32; headers && r < a.ranks; r += 32) {
		uint64_t got;
		stop = stop || (r != a.rank && differs(a, epoch, r, &got));
	}
	if (spins / CALL_SPINS_PER_LOOK % CALL_LOOKS_PER_HOST == 0) {
		stop = look_at_clock<DEADLINE>(a, start, stop, peer);
	}
	return stop;
}

/* Why the wait for a peer (as call_note has it) ended, for the host and all peers. */
__device__ static __noinline__ void call_explain(const codelet_args &a, int peer, uint64_t epoch, bool headers)
{
	uint64_t abort = abort_word(a), got;
	uint32_t host = sync_load_host(a.state->host_abort);
	for (int r = 0; headers && r < a.ranks; r++) {
		if (r != a.rank && differs(a, epoch, r, &got)) {
			call_fail(a, CORALE_EMISMATCH, r, epoch, a.signature, got);
			return;
		}
	}
	if (abort)
		call_fail(a, -(int)(uint32_t)abort, (int)(abort >> 32) - 1, epoch, 0, 0);
	else if (host)
		call_fail(a, -(int)(host & ~(uint32_t)CODELET_LOCAL_ABORT), a.rank, epoch, 0, 0);
	else
		call_fail(a, CORALE_ETIMEDOUT, peer < 0 ? a.rank : peer, epoch, 0, 0);
}

/* Who waits: a thread for itself, or a warp until all of its lanes are ready. */
struct one_thread {
	typedef uint32_t time;
	__device__ static __forceinline__ bool any(bool mine)
	{
		return mine;
	}
	__device__ static __forceinline__ bool all(bool mine)
	{
		return mine;
	}
	__device__ static __forceinline__ bool explains(int)
	{
		return true;
	}
};

struct one_warp {
	typedef uint64_t time;
	__device__ static __forceinline__ bool any(bool mine)
	{
		return __any_sync(~0u, mine);
	}
	__device__ static __forceinline__ bool all(bool mine)
	{
		return __all_sync(~0u, mine);
	}
	/* The first lane that knows for whom it waits. */
	__device__ static __forceinline__ bool explains(int peer)
	{
		const unsigned known = __ballot_sync(~0u, peer >= 0);
		return (int)threadIdx.x % 32 == (known ? __ffs((int)known) - 1 : 0);
	}
};

/* A warp that waits for one peer: of fewer registers. */
struct one_warp_one_peer : one_warp {
	__device__ static __forceinline__ bool explains(int)
	{
		return threadIdx.x % 32 == 0;
	}
};

struct no_check {
	__device__ bool operator()() const
	{
		return true;
	}
};

/*
 * The one wait of all kernels: until ready(). False if that can not come: the call has failed, a peer has made another call (headers: this call has
 * them), or the deadline has passed; the reason is recorded then. All threads of the group call ready(), and every CALL_SPINS_PER_LOOK turns
 * check(), which is false for all of them if it has found another reason, and recorded it. peer(): for whom this thread waits, as call_note has it.
 */
template <class Group, bool DEADLINE = true, class Ready, class Peer, class Check = no_check>
__device__ static __forceinline__ bool wait_until(const codelet_args &a, uint64_t epoch, bool headers, Ready ready, Peer peer, Check check = {})
{
	typename Group::time start = 0;
	for (uint32_t spins = 1; !Group::all(ready()); spins++) {
		if (spins % CALL_SPINS_PER_LOOK)
			continue;
		if (!check())
			return false;
		if (!Group::any(call_look<DEADLINE>(a, spins, &start, epoch, headers, peer)))
			continue;
		const int awaited = peer();
		if (Group::explains(awaited))
			call_explain(a, awaited, epoch, headers);
		return false;
	}
	return true;
}

/*
 * Whether the communicator had failed, here or on another rank, before this kernel began: 0, or CALL_ABORTED. Then what it waits for
 * never comes, so that it ends by call_look before it stores or folds anything. Loaded beside the epoch and looked at with the data,
 * it costs no time of its own; a test at once would cost a small call 5 %.
 */

__device__ static inline uint32_t call_aborted(const codelet_args &a)
{
	if (a.ranks == 1)
		return 0;
	return sync_load_host((const uint32_t *)&((const codelet_control *)window_of(a, a.rank))->abort) ? (uint32_t)CALL_ABORTED : 0;
}

/*
 * The same, of kernels that run over windows in host memory: there loads of one word come one after the other, a microsecond each, so that one warp's is all. Other warps wait for what
 * does not come either, and end by call_look.
 */
__device__ static inline uint32_t kernel_aborted(const codelet_args &a)
{
	return a.one_polls && (blockIdx.x || threadIdx.x >= 32) ? 0 : call_aborted(a);
}

/* The same for messages, which wait for no headers: over windows in host memory other warps look whether this GPU has recorded a failure. A replay runs
 * on another stream beside the kernel that failed, and may not count what that one counts. */
__device__ static inline uint32_t messages_aborted(const codelet_args &a)
{
	return kernel_aborted(a) | (a.one_polls && sync_load_host(&a.state->recorded) ? (uint32_t)CALL_ABORTED : 0);
}

/* ---- Headers -------------------------------------------------------------------------------------------- */

/* By the first threads of the first block: one line to each other rank. */
__device__ static inline void send_headers(const codelet_args &a, uint64_t epoch)
{
	if (blockIdx.x)
		return;
#pragma unroll 1
	for (int k = 1 + (int)threadIdx.x; k < a.ranks; k += (int)blockDim.x)
		sync_store_packet(header_of(a, a.rank, peer_after(a, k), epoch & 1), header_packet(a, epoch));
}

__device__ static inline bool header_agrees(const codelet_args &a, uint64_t epoch, int r)
{
	vector h = sync_load_packet(header_of(a, r, a.rank, epoch & 1));
	return header_is_of(h, epoch) && h.x == (uint32_t)a.signature && h.z == (uint32_t)(a.signature >> 32);
}

/* Each lane of a warp looks after some ranks: true if their headers of this epoch are here and agree, and nobody has failed. */
__device__ static inline bool headers_arrived(const codelet_args &a, uint64_t epoch)
{
	bool arrived = kernel_aborted(a) == 0;
#pragma unroll 1
	for (int r = (int)threadIdx.x % 32; r < a.ranks; r += 32)
		arrived = arrived && (r == a.rank || header_agrees(a, epoch, r));
	return arrived;
}

/* The last of a lane's ranks whose header of this epoch is not here, or is another one; -1: none. */
__device__ static inline int rank_without_header(const codelet_args &a, uint64_t epoch)
{
	int lacking = -1;
#pragma unroll 1
	for (int r = (int)threadIdx.x % 32; r < a.ranks; r += 32)
		lacking = r == a.rank || header_agrees(a, epoch, r) ? lacking : r;
	return lacking;
}

/* ---- Epochs --------------------------------------------------------------------------------------------- */

enum { CALL_NUMBER_BITS = CODELET_NUMBER_BITS }; /* of a word: what is left counts more calls than a machine lives */

/* A word that only grows: {epoch, number within its call}. Of a call with larger numbers the epochs behind it are its own, too. */
__device__ static inline uint64_t call_word(uint64_t epoch, uint64_t number)
{
	return (epoch << CALL_NUMBER_BITS) + number;
}

__device__ static inline uint64_t call_epoch(const codelet_args &a)
{
	return sync_load_relaxed(&a.state->epochs[blockIdx.x]) + 1;
}

/* The last thing that each warp does, after the last loads and stores of all its threads, where warps do not wait for each other. */
__device__ static inline void call_count_warp(const codelet_args &a)
{
	__syncwarp();
	if (a.counted && threadIdx.x % 32 == 0)
		sync_count(&a.state->done);
}

/* The same of a block of which only the first warp has done anything since a barrier. */
__device__ static inline void call_count(const codelet_args &a)
{
	if (threadIdx.x < 32)
		call_count_warp(a);
}

/*
 * Every block ends the epoch for itself and for those that this launch does not have, whatever grid comes next. Epochs
 * only grow: what call_fail has made of one in the meantime stays. LAST: it is the last thing that the block does.
 */
template <bool LAST = true> __device__ static inline void call_end(const codelet_args &a, uint64_t epoch)
{
	if (blockDim.x > 32) /* all threads have read it */
		__syncthreads();
	else
		__syncwarp();
	if (LAST && threadIdx.x >= 32)
		return;
	const uint32_t threads = LAST ? 32 : blockDim.x;
#pragma unroll 1
	for (uint32_t b = blockIdx.x + threadIdx.x * gridDim.x; b < CODELET_MAX_BLOCKS; b += threads * gridDim.x)
		atomicMax((unsigned long long *)&a.state->epochs[b], (unsigned long long)epoch);
	if (LAST)
		call_count_warp(a);
}

#endif
