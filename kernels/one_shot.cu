/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-shot by packets that carry their own readiness. A thread sends a vector to every peer, then waits for its own packets only, so no
 * barrier is needed anywhere: for any number of ranks, any address and any size, and among few ranks one vector a thread and trip, for the
 * latency of small calls. Among few ranks the signature travels in the lines, so that a call is: load, store to each peer, wait until all
 * packets have arrived, fold, store. That fits into 32 registers: its small blocks find room beside a kernel that fills the GPU.
 * Recipe: one-shot push kernels of GPU inference engines.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "shots.cuh"

/* ---- Any number of ranks ----------------------------------------------------------------------------------- */

/* One exchange of a piece of each block, in lines. packets: packets that travel, be they empty. */
template <int TYPE, bool UNALIGNED, bool FOLDS>
__device__ static bool exchange_piece(const codelet_args &a, const packet_call<lines, TYPE, UNALIGNED> &p, uint64_t offset, uint32_t bytes,
				      uint32_t packets)
{
	const uint32_t end = whole_warps(packets);
	const bool sends = a.root < 0 || a.root == a.rank;
	const unsigned char *send = a.send + offset, *mine = send + (uint64_t)a.rank * a.send_block;
	unsigned char *recv = a.recv + offset, *own = recv + (uint64_t)a.rank * a.recv_block;
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x) {
		vector v = p.own(mine, i, sends ? bytes : 0);
#pragma unroll 1
		for (int k = 1; i < packets && (sends || i < 8) && k < a.ranks; k++) {
			int to = peer_after(a, k);
			p.push(to, 0, i, a.send_block ? p.own(send + (uint64_t)to * a.send_block, i, bytes) : v);
		}
		if (FOLDS) {
			vector out;
			if (!p.fold(i < packets, i, v, &out))
				return false;
			store_user<UNALIGNED>(recv + lines::at(i), out, filled<lines>(i, bytes));
		} else {
			if (!p.collect(i < packets, i, recv, bytes))
				return false;
			if (sends && own != mine)
				store_user<UNALIGNED>(own + lines::at(i), v, filled<lines>(i, bytes));
		}
	}
	return true;
}

template <int TYPE, bool UNALIGNED, bool FOLDS> __device__ static void exchange(const codelet_args &a)
{
	sync_previous_kernel();
	packet_call<lines, TYPE, UNALIGNED> p(a);
	const uint32_t packets = lines::packets(a.piece ? a.piece : 1);
	run_pieces<lines, true, true>(a, p.first_epoch, true, [&](uint32_t c) {
		const uint64_t at = (uint64_t)c * a.piece, left = a.bytes - at;
		p.epoch = p.first_epoch + c;
		return exchange_piece<TYPE, UNALIGNED, FOLDS>(a, p, at, left < a.piece ? (uint32_t)left : a.piece, packets);
	});
}

/* ---- Few ranks, one packet a thread ------------------------------------------------------------------------- */

/* EACH: there may be a block of the send buffer for each rank. A rank that has nothing to send sends empty lines in the first packets' place:
 * every rank needs a signal of every other one. */
template <int TYPE, bool FOLDS, bool EACH> __device__ static __forceinline__ void exchange_few(const codelet_args &a, const int op)
{
	sync_previous_kernel();
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, bytes = (uint32_t)a.bytes, packets = lines::packets(bytes ? bytes : 1);
	const bool sends = a.root < 0 || a.root == a.rank;
	const uint32_t n = filled<lines>(i, bytes), at = lines::at(i);
	const unsigned char *send = a.send + at;
	vector mine = load_few(send + (EACH ? (uint32_t)a.rank * a.send_block : 0), sends ? n : 0);
	const uint64_t epoch = call_epoch(a);
	const uint32_t tag = a.tag, aborted = call_aborted(a);
	few_inbox box = { i * 16 + (epoch & 1 ? a.few_ranks.half : 0), i, (uint32_t)epoch ^ aborted, tag, 0 };
	mine = scaled<TYPE>(a, op, mine);
	if (i < packets && (sends || i < 8)) {
#pragma unroll
		for (int k = 0; k < OTHERS; k++) {
			if (k + 1 >= a.ranks)
				break;
			vector v = EACH && (FOLDS || a.send_block) ? scaled<TYPE>(a, op, load_few(send + peer_after(a, k + 1) * a.send_block, n)) : mine;
			sync_store_packet(a.few_ranks.out[k] + box.at, lines::pack<TYPE>(v, i, (uint32_t)epoch, tag));
		}
	}
	if (i < packets)
		box.wanted = a.root < 0 || i < 8 ? (1u << (a.ranks - 1)) - 1 : sends ? 0 : 1u << codelet_index(a.root, a.rank);
	call_end<false>(a, epoch);
	vector got[OTHERS];
	header_wait<lines> headers;
	if (!take<lines>(a, epoch, box, got, &headers))
		return;
	unsigned char *recv = a.recv + at;
	if (FOLDS)
		store_few(recv, fold<TYPE>(a, op, mine, got), n);
#pragma unroll
	for (int r = 0; !FOLDS && r < CODELET_FEW_RANKS; r++)
		if (a.root < 0 ? r < a.ranks : r == a.root)
			store_few(recv + (uint32_t)r * a.recv_block, in_order(a, r, mine, got), n);
	call_count_warp(a);
}

/* ---- Few ranks, many packets -------------------------------------------------------------------------------- */

/* Beside the form for any number of ranks, which takes 24 to 31 % longer for 1 MB among 2 ranks of one H200, 4 to 10 % among 4. */

/* A piece of each block. */
struct block_piece {
	uint64_t first_epoch; /* the first piece's */
	uint32_t epoch; /* its low bits */
	uint64_t at; /* in a block */
	uint32_t bytes, aborted;
};

/* The same for packet i of a piece. is_sent: it travels, be it empty. No rank is a root. */
template <int TYPE, bool FOLDS, bool EACH>
__device__ static __forceinline__ bool exchange_packet(const codelet_args &a, const int op, const block_piece &p, uint32_t i, bool is_sent)
{
	const uint32_t n = is_sent ? filled<lines>(i, p.bytes) : 0, tag = a.tag;
	const unsigned char *send = a.send + p.at + lines::at(i);
	unsigned char *recv = a.recv + p.at + lines::at(i);
	few_inbox box = { i * 16 + (p.epoch & 1 ? a.few_ranks.half : 0), i, p.epoch ^ p.aborted, tag,
		      is_sent ? (1u << (a.ranks - 1)) - 1 : 0 };
	vector got[OTHERS], mine = scaled<TYPE>(a, op, load_words(send + (EACH ? (uint32_t)a.rank * a.send_block : 0), n));
#pragma unroll
	for (int k = 0; k < OTHERS; k++) {
		if (k + 1 >= a.ranks || !is_sent)
			break;
		vector v = EACH ? scaled<TYPE>(a, op, load_words(send + peer_after(a, k + 1) * a.send_block, n)) : mine;
		sync_store_packet(a.few_ranks.out[k] + box.at, lines::pack<TYPE>(v, i, p.epoch, tag));
	}
	header_wait<lines> headers;
	if (!take<lines>(a, p.first_epoch, box, got, &headers))
		return false;
	if (FOLDS)
		store_words(recv, fold<TYPE>(a, op, mine, got), n);
#pragma unroll
	for (int r = 0; !FOLDS && r < CODELET_FEW_RANKS; r++)
		if (r < a.ranks)
			store_words(recv + (uint32_t)r * a.recv_block, in_order(a, r, mine, got), n);
	return true;
}

template <int TYPE, bool FOLDS, bool EACH> __device__ static __forceinline__ void exchange_pieces(const codelet_args &a, const int op)
{
	sync_previous_kernel();
	const uint64_t first_epoch = call_epoch(a);
	const uint32_t aborted = call_aborted(a);
	const uint32_t packets = lines::packets(a.piece), end = whole_warps(packets);
	run_pieces<lines, true, false>(a, first_epoch, true, [&](uint32_t c) {
		const uint64_t at = (uint64_t)c * a.piece, left = a.bytes - at;
		const block_piece p = { first_epoch, (uint32_t)first_epoch + c, at, left < a.piece ? (uint32_t)left : a.piece, aborted };
		for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x)
			if (!exchange_packet<TYPE, FOLDS, EACH>(a, op, p, i, i < packets))
				return false;
		return true;
	});
}

/* ---- Kernels -------------------------------------------------------------------------------------------- */

/* Of any address: what that costs aligned calls is a test a packet, and no register. Moves lose 4 to 8 % by it (6 ranks of one H200, 24 B to 128 KB). Of integers at most 96 registers. */
template <int TYPE> __global__ __launch_bounds__(vector_is_float<TYPE> ? CODELET_THREADS : 640) void one_shot(const __grid_constant__ codelet_args a)
{
	exchange<TYPE, true, true>(a);
}

template <bool UNALIGNED> __global__ __launch_bounds__(CODELET_THREADS) void one_shot_moves(const __grid_constant__ codelet_args a)
{
	exchange<CORALE_UINT8, UNALIGNED, false>(a);
}

/* SUMS: of sums of vectors, the smallest calls, for which the operator and blocks are left out: 0.16 us of 1.8 to 2.4 (2 H200). */
template <int TYPE, bool SUMS> __global__ LEAN void one_shot_few(const __grid_constant__ codelet_args a)
{
	exchange_few<TYPE, true, !SUMS>(a, SUMS ? CORALE_SUM : a.op);
}

__global__ LEAN void one_shot_few_moves(const __grid_constant__ codelet_args a)
{
	exchange_few<CORALE_UINT8, false, true>(a, CORALE_SUM);
}

template <int TYPE> __global__ MODEST void one_shot_few_long_scatter(const __grid_constant__ codelet_args a)
{
	exchange_pieces<TYPE, true, true>(a, a.op);
}

template <bool EACH> __global__ MODEST void one_shot_few_long_moves(const __grid_constant__ codelet_args a)
{
	exchange_pieces<CORALE_UINT8, false, EACH>(a, CORALE_SUM);
}

typedef void (*kernel)(codelet_args);

/* Named apart from the rows of two_shot.cu: std::array of both would have functions of one name, where they are not inlined. */
struct one_shot_row {
	kernel any, few[2]; /* [1]: sums of vectors alone */
	kernel few_long_scatter;
};

static constexpr auto folds = vector_table_of<one_shot_row>([](auto type) {
	constexpr int TYPE = type.value;
	return one_shot_row{ one_shot<TYPE>,
			     { one_shot_few<TYPE, false>, one_shot_few<TYPE, !vector_shares_kernels<TYPE>> },
			     one_shot_few_long_scatter<TYPE> };
});
static const kernel moves[2] = { one_shot_moves<false>, one_shot_moves<true> }; /* by UNALIGNED; the other by EACH */
static const kernel few_long_moves[2] = { one_shot_few_long_moves<false>, one_shot_few_long_moves<true> };

int codelets_one_shot(const codelet_args *args, struct grid grid, int type, int folding, void *stream)
{
	return launch((const void *)(folding ? folds[type].any : moves[codelet_is_unaligned(args)]), grid, args, stream);
}

int codelets_one_shot_few(const codelet_args *args, struct grid grid, int type, int folding, void *stream)
{
	const kernel k = folding ? folds[type].few[!args->send_block && args->op == CORALE_SUM] : one_shot_few_moves;
	return launch((const void *)k, grid, args, stream);
}

int codelets_one_shot_few_long(const codelet_args *args, struct grid grid, int type, int folding, void *stream)
{
	const kernel k = folding ? folds[type].few_long_scatter : few_long_moves[args->send_block != 0];
	return launch((const void *)k, grid, args, stream);
}

int codelets_load_one_shot(void)
{
	int error = load_lean((const void *)one_shot_few_moves);
	for (int i = 0; i < 2; i++) {
		error = error ? error : load((const void *)moves[i]);
		error = error ? error : load((const void *)few_long_moves[i]);
	}
	for (const one_shot_row &row : folds) {
		error = error ? error : load((const void *)row.any);
		error = error ? error : load_lean((const void *)row.few[0]);
		error = error ? error : load_lean((const void *)row.few[1]);
		error = error ? error : load((const void *)row.few_long_scatter);
	}
	return error;
}
