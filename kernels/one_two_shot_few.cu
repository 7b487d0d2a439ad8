/*
 * One-shot and two-shot among few ranks, by packets, one vector a thread and trip: the latency of small calls. The host has made every
 * address, and the signature travels in the lines, so that a call is: load, store to each peer, wait until all packets have arrived,
 * fold, store. The exchange fits into 32 registers: its small blocks find room beside a kernel that fills the GPU.
 * Recipe: one-shot and two-shot push kernels of GPU inference engines; the sentinel is the "poison" and "Lamport" idea of
 * NCCL and TensorRT-LLM with a NaN word instead of a zero.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "packet.cuh"

enum { OTHERS = CODELET_FEW_RANKS - 1 };

/* The packets at one place of the inboxes, by the other ranks' order. */
struct inbox {
	uint64_t at;
	uint32_t i, epoch, tag;
	unsigned wanted; /* of the other ranks, one bit each */
};

template <class Form> __device__ static __forceinline__ unsigned look(const codelet_args &a, const inbox &box, vector got[OTHERS])
{
	unsigned lacking = 0;
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if (box.wanted >> j & 1)
			got[j] = sync_load_packet(a.few_ranks.in[j] + box.at);
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if ((box.wanted >> j & 1) && !Form::ready(got[j], box.i, box.epoch, box.tag))
			lacking |= 1u << j;
	return lacking;
}

/* Waits for packets and leaves their places empty. call: the epoch of the headers, from which peers know it. */
template <class Form>
__device__ static __forceinline__ bool take(const codelet_args &a, uint64_t call, const inbox &box, vector got[OTHERS], hearing<Form> *heard)
{
	auto rank_of = [&](int j) { return heard->is_header(j) ? lane_rank(a, call) : j + (j >= a.rank); };
	if (!await(a, call, [&] { return look<Form>(a, box, got) | heard->missing(a, call); }, rank_of))
		return false;
#pragma unroll
	for (int j = 0; Form::RESTORED && j < OTHERS; j++)
		if (box.wanted >> j & 1)
			sync_store_packet((void *)(a.few_ranks.in[j] + box.at), make_uint4(EMPTY, EMPTY, EMPTY, EMPTY));
	return true;
}

/* The vector of the rank at a place in the ranks' order. */
__device__ static __forceinline__ vector in_order(const codelet_args &a, int r, vector mine, const vector got[OTHERS])
{
	vector before = r ? got[r - 1] : mine, after = r < OTHERS ? got[r] : mine;
	return r < a.rank ? after : r == a.rank ? mine : before;
}

template <int TYPE>
__device__ static __forceinline__ vector fold(const codelet_args &a, int op, vector mine, const vector got[OTHERS])
{
	vector_sum<TYPE> sum;
	sum.start(in_order(a, 0, mine, got));
#pragma unroll
	for (int r = 1; r < CODELET_FEW_RANKS; r++)
		if (r < a.ranks)
			sum.add(in_order(a, r, mine, got), op);
	return sum.finish(op, a.ranks);
}

template <int TYPE> __device__ static __forceinline__ vector scaled(const codelet_args &a, int op, vector v)
{
	return op == CORALE_NUM_OPS ? premultiply<TYPE>(a, v) : v;
}

/* ---- One exchange ---------------------------------------------------------------------------------------- */

/* EACH: a block of the send buffer for each rank. A rank that has nothing to send sends empty lines in the first packets' place:
 * every rank must hear of every other one. */
template <int TYPE, bool FOLDS, bool EACH> __device__ static __forceinline__ void exchange(const codelet_args &a, const int op)
{
	sync_previous_kernel();
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, bytes = (uint32_t)a.bytes, slots = lines::slots(bytes ? bytes : 1);
	const bool sends = a.root < 0 || a.root == a.rank;
	const uint32_t n = filled<lines>(i, bytes), at = lines::at(i);
	const unsigned char *send = a.send + at;
	vector mine = load_few(send + (EACH ? (uint32_t)a.rank * a.send_block : 0), sends ? n : 0);
	const uint64_t epoch = call_epoch(a);
	const uint32_t tag = a.tag, over = call_over(a);
	inbox box = { (uint64_t)i * 16 + (epoch & 1 ? a.few_ranks.half : 0), i, (uint32_t)epoch ^ over, tag, 0 };
	mine = scaled<TYPE>(a, op, mine);
	if (i < slots && (sends || i < 8)) {
#pragma unroll
		for (int k = 0; k < OTHERS; k++) {
			if (k + 1 >= a.ranks)
				break;
			vector v = EACH ? scaled<TYPE>(a, op, load_few(send + peer_after(a, k + 1) * a.send_block, n)) : mine;
			sync_store_packet(a.few_ranks.out[k] + box.at, lines::pack<TYPE>(v, i, (uint32_t)epoch, tag));
		}
	}
	if (i < slots)
		box.wanted = a.root < 0 || i < 8 ? (1u << (a.ranks - 1)) - 1 : sends ? 0 : 1u << codelet_index(a.root, a.rank);
	call_end<false>(a, epoch);
	vector got[OTHERS];
	hearing<lines> heard;
	if (!take<lines>(a, epoch, box, got, &heard))
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

/* ---- One exchange of many packets ------------------------------------------------------------------------- */

/* A piece of each block. */
struct block_piece {
	uint64_t call, epoch; /* call: the first piece's */
	uint64_t at; /* in a block */
	uint32_t bytes, over;
};

/* The same for packet i of a piece. goes: it travels, be it empty. No rank is a root. */
template <int TYPE, bool FOLDS, bool EACH>
__device__ static __forceinline__ bool exchange_packet(const codelet_args &a, const int op, const block_piece &p, uint32_t i, bool goes)
{
	const uint32_t n = goes ? filled<lines>(i, p.bytes) : 0, tag = a.tag;
	const unsigned char *send = a.send + p.at + lines::at(i);
	unsigned char *recv = a.recv + p.at + lines::at(i);
	inbox box = { (uint64_t)i * 16 + (p.epoch & 1 ? a.few_ranks.half : 0), i, (uint32_t)p.epoch ^ p.over, tag,
		      goes ? (1u << (a.ranks - 1)) - 1 : 0 };
	vector got[OTHERS], mine = scaled<TYPE>(a, op, load_words(send + (EACH ? (uint32_t)a.rank * a.send_block : 0), n));
#pragma unroll
	for (int k = 0; k < OTHERS; k++) {
		if (k + 1 >= a.ranks || !goes)
			break;
		vector v = EACH ? scaled<TYPE>(a, op, load_words(send + peer_after(a, k + 1) * a.send_block, n)) : mine;
		sync_store_packet(a.few_ranks.out[k] + box.at, lines::pack<TYPE>(v, i, (uint32_t)p.epoch, tag));
	}
	hearing<lines> heard;
	if (!take<lines>(a, p.call, box, got, &heard))
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
	const uint64_t call = call_epoch(a);
	const uint32_t over = call_over(a);
	const uint32_t slots = lines::slots(a.piece), end = whole_warps(slots);
	run_pieces<lines, true, false>(a, call, true, [&](uint32_t c) {
		const uint64_t at = (uint64_t)c * a.piece, left = a.bytes - at;
		const block_piece p = { call, call + c, at, left < a.piece ? (uint32_t)left : a.piece, over };
		for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x)
			if (!exchange_packet<TYPE, FOLDS, EACH>(a, op, p, i, i < slots))
				return false;
		return true;
	});
}

/* ---- Two exchanges --------------------------------------------------------------------------------------- */

/* One piece of a vector. */
struct part_piece {
	uint64_t call, epoch; /* call: the first piece's */
	const unsigned char *send;
	unsigned char *recv;
	const uint32_t *at; /* where each rank's part begins, and the end */
	uint32_t packets; /* of every part, where there are several pieces; else 0 */
};

__device__ static __forceinline__ uint32_t part_bytes(const part_piece &p, int part)
{
	return p.at[part + 1] - p.at[part];
}

/* Whether packet i of a part is sent. With several pieces every packet is sent, even an empty one: its arrival acknowledges the slot of the
 * piece before, which the piece after this one overwrites. */
template <class Form> __device__ static __forceinline__ bool goes(const codelet_args &a, const part_piece &p, uint32_t i, int part)
{
	return part != a.root && (p.packets ? i < p.packets : travels<Form>(i, part_bytes(p, part)));
}

template <class Form> __device__ static __forceinline__ unsigned held(const part_piece &p, uint32_t i, int part)
{
	return filled<Form>(i, part_bytes(p, part));
}

/* The other ranks that pass on packet i of their parts, one bit each. */
template <class Form> __device__ static __forceinline__ unsigned passing(const codelet_args &a, const part_piece &p, uint32_t i)
{
	unsigned ranks = 0;
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if (j + 1 < a.ranks && goes<Form>(a, p, i, j + (j >= a.rank)))
			ranks |= 1u << j;
	return ranks;
}

__device__ static __forceinline__ uint64_t place_of(const codelet_args &a, const part_piece &p, uint32_t i)
{
	return (uint64_t)i * 16 + (p.epoch & 1 ? a.few_ranks.half : 0);
}

/* Every rank folds its part and sends the result on. */
template <class Form, int TYPE> __device__ static __forceinline__ bool fold_and_pass(const codelet_args &a, const int op,
										     const part_piece &p, uint32_t i, hearing<Form> *heard)
{
	const uint64_t at = place_of(a, p, i), gathered = a.area_bytes / 2;
	const uint32_t tag = a.tag, epoch = (uint32_t)p.epoch;
	const unsigned char *send = p.send + Form::at(i);
	unsigned char *recv = p.recv + Form::at(i);
	vector own[CODELET_FEW_RANKS]; /* of the part of rank + k */
#pragma unroll
	for (int k = 0; k < CODELET_FEW_RANKS; k++) {
		int part = peer_after(a, k);
		if (k < a.ranks)
			own[k] = load_words(send + p.at[part], held<Form>(p, i, part));
	}
#pragma unroll
	for (int k = 1; k < CODELET_FEW_RANKS; k++)
		if (k < a.ranks && goes<Form>(a, p, i, peer_after(a, k)))
			sync_store_packet(a.few_ranks.out[k - 1] + at,
					  Form::template pack<TYPE>(scaled<TYPE>(a, op, own[k]), i, epoch, tag));
	const bool wanted = goes<Form>(a, p, i, a.rank);
	inbox box = { at, i, epoch, tag, wanted ? (1u << (a.ranks - 1)) - 1 : 0 };
	vector got[OTHERS];
	if (!take<Form>(a, p.call, box, got, heard))
		return false;
	vector out = fold<TYPE>(a, op, scaled<TYPE>(a, op, own[0]), got), packet = Form::template pack<TYPE>(out, i, epoch, tag);
#pragma unroll
	for (int k = 1; k < CODELET_FEW_RANKS; k++)
		if (wanted && k < a.ranks)
			sync_store_packet(a.few_ranks.out[k - 1] + at + gathered, packet);
	store_words(recv + p.at[a.rank], out, held<Form>(p, i, a.rank));
	box.at += gathered;
	box.wanted = passing<Form>(a, p, i);
	if (!take<Form>(a, p.call, box, got, heard))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++) {
		int part = j + (j >= a.rank);
		if (j + 1 < a.ranks)
			store_words(recv + p.at[part], got[j], held<Form>(p, i, part));
	}
	return true;
}

/* Every rank passes on the part that the root sends it. Of a vector in one piece the root gets no more than a line, as a signal. */
__device__ static __forceinline__ bool deal_and_pass(const codelet_args &a, const part_piece &p, uint32_t i, hearing<lines> *heard)
{
	const uint64_t at = place_of(a, p, i), gathered = a.area_bytes / 2;
	const uint32_t epoch = (uint32_t)p.epoch;
	const bool deals = a.rank == a.root, passes = goes<lines>(a, p, i, a.rank), tells = p.packets || i < 8;
	vector mine = make_uint4(0, 0, 0, 0), got[OTHERS];
#pragma unroll
	for (int k = 1; deals && k < CODELET_FEW_RANKS; k++) {
		int part = peer_after(a, k);
		if (k >= a.ranks || !goes<lines>(a, p, i, part))
			continue;
		const uint32_t from = p.at[part] + lines::at(i);
		vector v = load_user<true>(p.send + from, held<lines>(p, i, part));
		if (p.recv != p.send)
			store_user<true>(p.recv + from, v, held<lines>(p, i, part));
		sync_store_packet(a.few_ranks.out[k - 1] + at, lines::pack<CORALE_UINT8>(v, i, epoch, a.tag));
	}
	inbox box = { at, i, epoch, a.tag, passes ? 1u << codelet_index(a.root, a.rank) : 0 };
	if (!take<lines>(a, p.call, box, got, heard))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if (box.wanted >> j & 1)
			mine = got[j];
#pragma unroll
	for (int k = 1; k < CODELET_FEW_RANKS; k++)
		if (passes && k < a.ranks && (tells || peer_after(a, k) != a.root))
			sync_store_packet(a.few_ranks.out[k - 1] + at + gathered, lines::pack<CORALE_UINT8>(mine, i, epoch, a.tag));
	if (!deals)
		store_user<true>(p.recv + p.at[a.rank] + lines::at(i), mine, held<lines>(p, i, a.rank));
	box.at += gathered;
	box.wanted = !deals || tells ? passing<lines>(a, p, i) : 0;
	if (!take<lines>(a, p.call, box, got, heard))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++) {
		int part = j + (j >= a.rank);
		if (!deals && (box.wanted >> j & 1))
			store_user<true>(p.recv + p.at[part] + lines::at(i), got[j], held<lines>(p, i, part));
	}
	return true;
}

/* Calls run(piece, i, heard) for this thread's packets of all pieces. most, least: the ranks that have most and least of a piece. SEVERAL: there
 * may be several, which costs the latency of one. */
template <class Form, bool SEVERAL, class Run>
__device__ static __forceinline__ void two_shot(const codelet_args &a, int most, int least, Run run)
{
	sync_previous_kernel();
	const codelet_few_ranks &n = a.few_ranks;
	const uint64_t call = call_epoch(a);
	hearing<Form> heard;
	const uint32_t slots = Form::slots(n.part_at[most + 1] - n.part_at[most]), end = whole_warps(slots);
	run_pieces<Form, SEVERAL, false>(a, call, n.part_at[least + 1] != n.part_at[least], [&](uint32_t c) {
		const uint64_t at = (uint64_t)c * a.piece;
		const part_piece p = { call, call + c, a.send + at, a.recv + at, SEVERAL && c + 1 == a.pieces ? n.last_at : n.part_at,
				       SEVERAL && a.pieces > 1 ? slots : 0 };
		for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x)
			if (!run(p, i, &heard))
				return false;
		return true;
	});
}

/* ---- Kernels --------------------------------------------------------------------------------------------- */

#define LEAN __launch_bounds__(CODELET_THREADS, 4) /* at most 32 registers */
#define MODEST __launch_bounds__(1024) /* at most 64: while a block waits, others find room on its SM */

template <int TYPE, bool SUMS> __global__ LEAN void one_shot_few(const __grid_constant__ codelet_args a)
{
	exchange<TYPE, true, false>(a, SUMS ? CORALE_SUM : a.op);
}

template <int TYPE> __global__ LEAN void one_shot_few_scatter(const __grid_constant__ codelet_args a)
{
	exchange<TYPE, true, true>(a, a.op);
}

template <bool EACH> __global__ LEAN void one_shot_few_moves(const __grid_constant__ codelet_args a)
{
	exchange<CORALE_UINT8, false, EACH>(a, CORALE_SUM);
}

template <int TYPE> __global__ MODEST void one_shot_few_long_scatter(const __grid_constant__ codelet_args a)
{
	exchange_pieces<TYPE, true, true>(a, a.op);
}

template <bool EACH> __global__ MODEST void one_shot_few_long_moves(const __grid_constant__ codelet_args a)
{
	exchange_pieces<CORALE_UINT8, false, EACH>(a, CORALE_SUM);
}

template <int TYPE, bool SUMS, bool SEVERAL>
__global__ MODEST void two_shot_few(const __grid_constant__ codelet_args a)
{
	typedef fold_form<TYPE> form;
	two_shot<form, SEVERAL>(a, 0, a.ranks - 1, [&](const part_piece &p, uint32_t i, hearing<form> *heard) {
		return fold_and_pass<form, TYPE>(a, SUMS ? CORALE_SUM : a.op, p, i, heard);
	});
}

/* The root has no part. */
__global__ MODEST void scatter_allgather_few(const __grid_constant__ codelet_args a)
{
	two_shot<lines, true>(a, a.root == 0, a.ranks - 1 - (a.root == a.ranks - 1),
			      [&](const part_piece &p, uint32_t i, hearing<lines> *heard) { return deal_and_pass(a, p, i, heard); });
}

typedef void (*kernel)(codelet_args);

struct few_row { /* [1]: sums alone; [1][0]: in one piece */
	kernel reduce[2], scatter, long_scatter, two_shot[2][2];
};

static constexpr auto rows = vector_table_of<few_row>([](auto type) {
	constexpr int TYPE = type.value;
	constexpr bool SUMS = !vector_shares_kernels<TYPE>, SEVERAL = !SUMS;
	return few_row{ { one_shot_few<TYPE, false>, one_shot_few<TYPE, SUMS> },
			one_shot_few_scatter<TYPE>,
			one_shot_few_long_scatter<TYPE>,
			{ { two_shot_few<TYPE, false, true>, two_shot_few<TYPE, false, true> },
			  { two_shot_few<TYPE, SUMS, SEVERAL>, two_shot_few<TYPE, SUMS, true> } } };
});
static const kernel moves[2] = { one_shot_few_moves<false>, one_shot_few_moves<true> };
static const kernel long_moves[2] = { one_shot_few_long_moves<false>, one_shot_few_long_moves<true> };

int codelets_one_shot_few(const codelet_args *args, struct grid grid, int type, int folding, void *stream)
{
	const int each = args->send_block != 0;
	kernel k = !folding ? moves[each] : each ? rows[type].scatter : rows[type].reduce[args->op == CORALE_SUM];
	return launch((const void *)k, grid, args, stream);
}

int codelets_one_shot_few_long(const codelet_args *args, struct grid grid, int type, int folding, void *stream)
{
	kernel k = folding ? rows[type].long_scatter : long_moves[args->send_block != 0];
	return launch((const void *)k, grid, args, stream);
}

int codelets_two_shot_few(const codelet_args *args, struct grid grid, int type, void *stream)
{
	kernel k = args->root >= 0 ? scatter_allgather_few : rows[type].two_shot[args->op == CORALE_SUM][args->pieces > 1];
	return launch((const void *)k, grid, args, stream);
}

int codelets_load_one_two_shot_few(void)
{
	int error = load((const void *)scatter_allgather_few);
	for (int i = 0; i < 2; i++) {
		error = error ? error : load_lean((const void *)moves[i]);
		error = error ? error : load((const void *)long_moves[i]);
		for (const few_row &row : rows) {
			error = error ? error : load_lean((const void *)row.reduce[i]);
			error = error ? error : load((const void *)row.two_shot[i][0]);
			error = error ? error : load((const void *)row.two_shot[i][1]);
			error = error ? error : load_lean((const void *)row.scatter);
			error = error ? error : load((const void *)row.long_scatter);
		}
	}
	return error;
}
