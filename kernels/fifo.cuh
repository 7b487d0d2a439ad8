/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of many bytes: the slots of a connection, their flags and acknowledgements, and the movement of data. A connection
 * is one block's, with each peer; its message c of this call lies in slot c mod depth and its flag says {epoch, c + 1}, which only grows. */
#ifndef FIFO_CUH
#define FIFO_CUH

#include "call.cuh"

enum { IN_FLIGHT = 4 }; /* vectors that a thread loads before it stores the first */

/* Warps of a block that work together. */
struct warp_group {
	uint32_t thread, threads; /* this thread's place, of how many */
	uint32_t barrier; /* their own */
};

__device__ static inline warp_group whole_block(void)
{
	return { threadIdx.x, blockDim.x, 0 };
}

__device__ static inline void warp_group_sync(const warp_group &w)
{
	sync_warps(w.barrier, w.threads);
}

__device__ static inline bool warp_group_agrees(const warp_group &w, bool good)
{
	return sync_warps_and(w.barrier, w.threads, good);
}

struct connection {
	uint64_t epoch; /* in every flag */
	uint32_t number, channels; /* this block's, of how many */
	uint32_t ring;
};

__device__ static inline uint64_t flag_value(const connection &conn, uint64_t message)
{
	return call_word(conn.epoch, message + 1);
}

/* Where word i of N is, of so many bytes each: in host memory, where polls of one line come one after the other, those of neighbouring blocks lie in different lines. */
template <uint32_t N, uint32_t BYTES> __device__ static inline uint32_t polled_at(const codelet_args &a, uint32_t i)
{
	constexpr uint32_t in_line = CODELET_LINE / BYTES, lines = N / in_line;
	static_assert(N % in_line == 0, "whole lines");
	return a.one_polls ? i % lines * in_line + i / lines : i;
}

__device__ static inline uint64_t *flag_at(const codelet_args &a, uint64_t area, const connection &conn, int window, int peer)
{
	const uint32_t at = polled_at<CODELET_MAX_BLOCKS, sizeof(uint64_t)>(a, conn.number);
	return (uint64_t *)(window_of(a, window) + area) + ((uint64_t)conn.ring * (uint32_t)a.ranks + (uint32_t)peer) * CODELET_MAX_BLOCKS + at;
}

/* Set by the sender in the receiver's window. */
__device__ static inline uint64_t *flag_of(const codelet_args &a, const connection &conn, int sender, int receiver)
{
	return flag_at(a, a.flags, conn, receiver, sender);
}

/* Set by the receiver in the sender's window. */
__device__ static inline uint64_t *ack_of(const codelet_args &a, const connection &conn, int sender, int receiver)
{
	return flag_at(a, a.acks, conn, sender, receiver);
}

/* The same slots are granted to sends (grants.cuh): every call leaves them empty. */
__device__ static inline unsigned char *slot_of(const codelet_args &a, const connection &conn, int sender, int receiver, uint64_t message)
{
	return slots_of(a, sender, receiver) +
	       (((uint64_t)(conn.ring == CODELET_SECOND) * conn.channels + conn.number) * a.depth + message % a.depth) * a.slot_bytes;
}

/* In a rank's registered receive buffer. */
__device__ static inline unsigned char *recv_address(const codelet_args &a, int rank, uint64_t at)
{
	return a.peers[rank] + a.peers_at + at;
}

/* One thread: waits until ready(), which orders what it saw before what follows. False if the call has failed. */
template <class Ready> __device__ static inline bool wait_ready(const codelet_args &a, connection *conn, int peer, Ready ready)
{
	return wait_until<one_thread>(a, conn->epoch, conn->ring != CODELET_PAIRS, ready, [&] { return peer; });
}

/* The same for a flag that comes as far as value. */
__device__ static inline bool wait_flag(const codelet_args &a, connection *conn, const uint64_t *flag, uint64_t value, int peer)
{
	return wait_ready(a, conn, peer, [&] { return sync_load_acquire(flag) >= value; });
}

/* All lanes of a warp: all ranks are known to make this call, and may be stored to. Headers in host memory are looked at by the first block, for all. */
__device__ static inline bool warp_wait_headers(const codelet_args &a, uint64_t epoch)
{
	const bool follows = a.one_polls && blockIdx.x;
	auto arrived = [&] { return follows ? sync_load_relaxed(&a.state->agreed) >= epoch : headers_arrived(a, epoch); };
	const bool good = wait_until<one_warp>(a, epoch, true, arrived, [&] { return rank_without_header(a, epoch); });
	sync_fence();
	__syncwarp(); /* each lane has seen its ranks' headers, and goes on, or says so, for all */
	if (good && a.one_polls && !follows)
		sync_store_relaxed(&a.state->agreed, epoch);
	return good;
}

/* The same for a warp group, whose first warp waits for all. */
__device__ static inline bool wait_headers(const codelet_args &a, const warp_group &w, connection *conn)
{
	return warp_group_agrees(w, w.thread >= 32 || warp_wait_headers(a, conn->epoch));
}

/* ---- Data: all threads of a warp group -------------------------------------------------------------------- */

/* Vectors between aligned places, of which a thread loads N before it stores the first; also: a second target, or NULL. */
template <uint32_t N>
__device__ static inline void copy_vectors(const warp_group &w, unsigned char *to, unsigned char *also, const unsigned char *from, uint64_t bytes)
{
	const vector *source = (const vector *)from;
	const uint32_t vectors = (uint32_t)(bytes / 16);
	for (uint32_t first = w.thread; first < vectors; first += N * w.threads) {
		vector v[N];
#pragma unroll
		for (uint32_t u = 0; u < N; u++)
			if (first + u * w.threads < vectors)
				v[u] = __ldcg(source + first + u * w.threads);
#pragma unroll
		for (uint32_t u = 0; u < N; u++)
			if (first + u * w.threads < vectors)
				((vector *)to)[first + u * w.threads] = v[u];
#pragma unroll
		for (uint32_t u = 0; also && u < N; u++)
			if (first + u * w.threads < vectors)
				((vector *)also)[first + u * w.threads] = v[u];
	}
}

/* Any addresses. A slot may be written up to the next multiple of 16 bytes: then whole is set. */
template <uint32_t N = IN_FLIGHT>
__device__ static inline void copy(const warp_group &w, unsigned char *to, const unsigned char *from, uint64_t bytes, bool whole)
{
	uint64_t at = 0;
	if (!(((uintptr_t)to | (uintptr_t)from) & 15)) {
		at = bytes / 16 * 16;
		copy_vectors<N>(w, to, nullptr, from, at);
	}
	for (at += w.thread * 16; at < bytes; at += w.threads * 16) {
		unsigned n = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		store_user<true>(to + at, load_user<true>(from + at, n), whole ? 16 : n);
	}
}

/* To a second place too, unless that is NULL: in one pass where all is aligned. */
template <uint32_t N = IN_FLIGHT>
__device__ static inline void copy_also(const warp_group &w, unsigned char *to, bool whole, unsigned char *also, const unsigned char *from,
					uint64_t bytes)
{
	if ((((uintptr_t)to | (uintptr_t)also | (uintptr_t)from | bytes) & 15) == 0) {
		copy_vectors<N>(w, to, also, from, bytes);
		return;
	}
	copy<N>(w, to, from, bytes, whole);
	if (also)
		copy<N>(w, also, from, bytes, false);
}

/* ---- Cuts ------------------------------------------------------------------------------------------------ */

struct range {
	uint64_t at, bytes;
};

/* Piece i of n of so many bytes, in whole units. */
__device__ static inline range cut(uint64_t bytes, uint64_t unit, uint32_t n, uint32_t i)
{
	uint64_t units = (bytes + unit - 1) / unit, each = units / n, more = units % n;
	uint64_t first = (i * each + (i < more ? i : more)) * unit, last = first + (each + (i < more)) * unit;
	first = first < bytes ? first : bytes;
	last = last < bytes ? last : bytes;
	return { first, last - first };
}

/* Messages of each of n channels' pieces: as many as the largest needs, and 1 at least. */
__device__ static inline uint64_t messages_of(uint64_t bytes, uint32_t n, uint64_t slot_bytes)
{
	uint64_t largest = cut(bytes, CODELET_LINE, n, 0).bytes;
	return largest > slot_bytes ? (largest + slot_bytes - 1) / slot_bytes : 1;
}

/* Message c of a channel's piece. */
__device__ static inline range message(range piece, uint64_t slot_bytes, uint64_t c)
{
	uint64_t first = c * slot_bytes < piece.bytes ? c * slot_bytes : piece.bytes;
	uint64_t left = piece.bytes - first;
	return { piece.at + first, left < slot_bytes ? left : slot_bytes };
}

/* ---- One peer ------------------------------------------------------------------------------------------- */

/* The warp group's first thread waits for all. */
__device__ static inline bool wait_one(const codelet_args &a, const warp_group &w, connection *conn, const uint64_t *flag, uint64_t message, int peer)
{
	return warp_group_agrees(w, w.thread || wait_flag(a, conn, flag, flag_value(*conn, message), peer));
}

/* After all loads and stores of the warp group. */
__device__ static inline void signal_one(const warp_group &w, const connection &conn, uint64_t *flag, uint64_t message)
{
	warp_group_sync(w);
	if (w.thread == 0)
		sync_store_release(flag, flag_value(conn, message));
}

#endif
