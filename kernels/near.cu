/*
 * Exchanges of packets among few ranks, one vector a thread and trip: the latency of small calls. The host has made every address,
 * and the signature travels in the lines, so that a call is: load, store to each peer, look until all is here,
 * fold, store. The exchange fits into 32 registers: its small blocks find room beside a kernel that fills the GPU.
 * Recipe: one-shot and two-shot push kernels of GPU inference engines; the sentinel is the "poison" and "Lamport" idea of
 * NCCL and TensorRT-LLM with a NaN word instead of a zero.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "packet.cuh"

enum { OTHERS = CODELET_NEAR - 1 };

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
			got[j] = sync_load_packet(a.near_ranks.in[j] + box.at);
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if ((box.wanted >> j & 1) && !Form::ready(got[j], box.i, box.epoch, box.tag))
			lacking |= 1u << j;
	return lacking;
}

/* Waits for packets and leaves their places empty. */
template <class Form>
__device__ static __forceinline__ bool take(const codelet_args &a, uint64_t epoch, const inbox &box, vector got[OTHERS])
{
	if (!await(a, epoch, [&] { return look<Form>(a, box, got); }, [&](int j) { return j + (j >= a.rank); }))
		return false;
#pragma unroll
	for (int j = 0; Form::RESTORED && j < OTHERS; j++)
		if (box.wanted >> j & 1)
			sync_store_packet((void *)(a.near_ranks.in[j] + box.at), make_uint4(EMPTY, EMPTY, EMPTY, EMPTY));
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
	for (int r = 1; r < CODELET_NEAR; r++)
		if (r < a.ranks)
			sum.add(in_order(a, r, mine, got), op);
	return sum.finish(op, a.ranks);
}

template <int TYPE> __device__ static __forceinline__ vector scaled(const codelet_args &a, int op, vector v)
{
	return op == CORALE_NUM_OPS ? vector_premultiply<TYPE>(v, a.scalar) : v;
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
	const uint32_t tag = a.tag;
	inbox box = { (uint64_t)i * 16 + (epoch & 1 ? a.near_ranks.half : 0), i, (uint32_t)epoch, tag, 0 };
	mine = scaled<TYPE>(a, op, mine);
	if (i < slots && (sends || i < 8)) {
#pragma unroll
		for (int k = 0; k < OTHERS; k++) {
			if (k + 1 >= a.ranks)
				break;
			vector v = EACH ? scaled<TYPE>(a, op, load_few(send + peer_after(a, k + 1) * a.send_block, n)) : mine;
			sync_store_packet(a.near_ranks.out[k] + box.at, lines::pack<TYPE>(v, i, box.epoch, tag));
		}
	}
	if (i < slots)
		box.wanted = a.root < 0 || i < 8 ? (1u << (a.ranks - 1)) - 1 : sends ? 0 : 1u << codelet_index(a.root, a.rank);
	call_end(a, epoch);
	vector got[OTHERS];
	if (!take<lines>(a, epoch, box, got))
		return;
	unsigned char *recv = a.recv + at;
	if (FOLDS)
		store_few(recv, fold<TYPE>(a, op, mine, got), n);
#pragma unroll
	for (int r = 0; !FOLDS && r < CODELET_NEAR; r++)
		if (a.root < 0 ? r < a.ranks : r == a.root)
			store_few(recv + (uint32_t)r * a.recv_block, in_order(a, r, mine, got), n);
}

/* ---- Two exchanges --------------------------------------------------------------------------------------- */

__device__ static __forceinline__ uint32_t part_bytes(const codelet_args &a, int part)
{
	return a.near_ranks.part_at[part + 1] - a.near_ranks.part_at[part];
}

/* The other ranks that pass on packet i of their parts, one bit each. */
template <class Form> __device__ static __forceinline__ unsigned passing(const codelet_args &a, uint32_t i)
{
	unsigned ranks = 0;
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if (j + 1 < a.ranks && travels<Form>(i, part_bytes(a, j + (j >= a.rank))))
			ranks |= 1u << j;
	return ranks;
}

/* Every rank folds its part and sends the result on. */
template <class Form, int TYPE> __device__ static __forceinline__ bool fold_and_pass(const codelet_args &a, const int op, uint64_t epoch,
										     uint32_t i)
{
	const uint64_t at = (uint64_t)i * 16 + (epoch & 1 ? a.near_ranks.half : 0), gathered = a.area_bytes / 2;
	const uint32_t tag = a.tag, mine_bytes = part_bytes(a, a.rank);
	const unsigned char *send = a.send + Form::at(i);
	unsigned char *recv = a.recv + Form::at(i);
	vector own[CODELET_NEAR]; /* of the part of rank + k */
#pragma unroll
	for (int k = 0; k < CODELET_NEAR; k++) {
		int part = peer_after(a, k);
		if (k < a.ranks)
			own[k] = load_words(send + a.near_ranks.part_at[part], filled<Form>(i, part_bytes(a, part)));
	}
#pragma unroll
	for (int k = 1; k < CODELET_NEAR; k++)
		if (k < a.ranks && travels<Form>(i, part_bytes(a, peer_after(a, k))))
			sync_store_packet(a.near_ranks.out[k - 1] + at,
					  Form::template pack<TYPE>(scaled<TYPE>(a, op, own[k]), i, (uint32_t)epoch, tag));
	const bool wanted = travels<Form>(i, mine_bytes);
	inbox box = { at, i, (uint32_t)epoch, tag, wanted ? (1u << (a.ranks - 1)) - 1 : 0 };
	vector got[OTHERS];
	if (!take<Form>(a, epoch, box, got))
		return false;
	vector out = fold<TYPE>(a, op, scaled<TYPE>(a, op, own[0]), got), packet = Form::template pack<TYPE>(out, i, (uint32_t)epoch, tag);
#pragma unroll
	for (int k = 1; k < CODELET_NEAR; k++)
		if (wanted && k < a.ranks)
			sync_store_packet(a.near_ranks.out[k - 1] + at + gathered, packet);
	store_words(recv + a.near_ranks.part_at[a.rank], out, filled<Form>(i, mine_bytes));
	box.at += gathered;
	box.wanted = passing<Form>(a, i);
	if (!take<Form>(a, epoch, box, got))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++) {
		int part = j + (j >= a.rank);
		if (j + 1 < a.ranks)
			store_words(recv + a.near_ranks.part_at[part], got[j], filled<Form>(i, part_bytes(a, part)));
	}
	return true;
}

/* Every rank passes on what the root deals it, to the root only as much as tells it that the rank was here. */
__device__ static __forceinline__ bool deal_and_pass(const codelet_args &a, uint64_t epoch, uint32_t i)
{
	const uint64_t at = (uint64_t)i * 16 + (epoch & 1 ? a.near_ranks.half : 0), gathered = a.area_bytes / 2;
	const bool deals = a.rank == a.root, passes = travels<lines>(i, part_bytes(a, a.rank));
	const unsigned char *send = a.send + lines::at(i);
	unsigned char *recv = a.recv + lines::at(i);
	vector mine = make_uint4(0, 0, 0, 0), got[OTHERS];
#pragma unroll
	for (int k = 0; deals && k < CODELET_NEAR; k++) {
		int part = peer_after(a, k);
		if (k >= a.ranks || !travels<lines>(i, part_bytes(a, part)))
			continue;
		vector v = load_user<true>(send + a.near_ranks.part_at[part], filled<lines>(i, part_bytes(a, part)));
		if (a.recv != a.send)
			store_user<true>(recv + a.near_ranks.part_at[part], v, filled<lines>(i, part_bytes(a, part)));
		mine = k ? mine : v;
		if (k)
			sync_store_packet(a.near_ranks.out[k ? k - 1 : 0] + at, lines::pack<CORALE_UINT8>(v, i, (uint32_t)epoch, a.tag));
	}
	inbox box = { at, i, (uint32_t)epoch, a.tag, !deals && passes ? 1u << codelet_index(a.root, a.rank) : 0 };
	if (!take<lines>(a, epoch, box, got))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if (box.wanted >> j & 1)
			mine = got[j];
#pragma unroll
	for (int k = 1; k < CODELET_NEAR; k++)
		if (passes && k < a.ranks && (i < 8 || peer_after(a, k) != a.root))
			sync_store_packet(a.near_ranks.out[k - 1] + at + gathered,
					  lines::pack<CORALE_UINT8>(mine, i, (uint32_t)epoch, a.tag));
	if (!deals)
		store_user<true>(recv + a.near_ranks.part_at[a.rank], mine, filled<lines>(i, part_bytes(a, a.rank)));
	box.at += gathered;
	box.wanted = !deals || i < 8 ? passing<lines>(a, i) : 0;
	if (!take<lines>(a, epoch, box, got))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++) {
		int part = j + (j >= a.rank);
		if (!deals && (box.wanted >> j & 1))
			store_user<true>(recv + a.near_ranks.part_at[part], got[j], filled<lines>(i, part_bytes(a, part)));
	}
	return true;
}

template <class Form, int TYPE> __device__ static __forceinline__ void two_shot(const codelet_args &a, const int op)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	const uint32_t slots = Form::slots(part_bytes(a, 0)), end = slots < 32 ? 32 : (slots + 31) / 32 * 32;
	const bool headers = Form::RESTORED || !part_bytes(a, a.ranks - 1); /* data does not tell that all are here */
	if (headers)
		send_headers(a, epoch);
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x)
		if (!fold_and_pass<Form, TYPE>(a, op, epoch, i))
			return;
	if (!headers || await_headers(a, epoch))
		call_end(a, epoch);
}

/* ---- Kernels --------------------------------------------------------------------------------------------- */

#define LEAN __launch_bounds__(CODELET_THREADS, 4) /* at most 32 registers */

template <int TYPE, bool SUMS> __global__ LEAN void near_reduce(const __grid_constant__ codelet_args a)
{
	exchange<TYPE, true, false>(a, SUMS ? CORALE_SUM : a.op);
}

template <int TYPE> __global__ LEAN void near_scatter(const __grid_constant__ codelet_args a)
{
	exchange<TYPE, true, true>(a, a.op);
}

template <bool EACH> __global__ LEAN void near_moves(const __grid_constant__ codelet_args a)
{
	exchange<CORALE_UINT8, false, EACH>(a, CORALE_SUM);
}

template <int TYPE, bool SUMS> __global__ __launch_bounds__(CODELET_THREADS) void near_two_shot(const __grid_constant__ codelet_args a)
{
	two_shot<fold_form<TYPE>, TYPE>(a, SUMS ? CORALE_SUM : a.op);
}

__global__ __launch_bounds__(CODELET_THREADS) void near_broadcast(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	const int first = a.root == 0, last = a.ranks - 1 - (a.root == a.ranks - 1); /* the root has no part */
	const uint32_t slots = lines::slots(part_bytes(a, first)), end = slots < 32 ? 32 : (slots + 31) / 32 * 32;
	const bool headers = !part_bytes(a, last);
	if (headers)
		send_headers(a, epoch);
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x)
		if (!deal_and_pass(a, epoch, i))
			return;
	if (!headers || await_headers(a, epoch))
		call_end(a, epoch);
}

typedef void (*kernel)(codelet_args);

struct near_row { /* [1]: sums alone */
	kernel reduce[2], scatter, two_shot[2];
};

#define ROW(type)                                                                                          \
	{                                                                                                  \
		{ near_reduce<type, false>, near_reduce<type, true> }, near_scatter<type>,                 \
		    { near_two_shot<type, false>, near_two_shot<type, true> },                             \
	}
static const near_row rows[CORALE_NUM_TYPES] = {
	ROW(CORALE_INT8),    ROW(CORALE_UINT8),   ROW(CORALE_INT32),	    ROW(CORALE_UINT32),
	ROW(CORALE_INT64),   ROW(CORALE_UINT64),  ROW(CORALE_FLOAT16),	    ROW(CORALE_BFLOAT16),
	ROW(CORALE_FLOAT32), ROW(CORALE_FLOAT64), ROW(CORALE_FLOAT8_E4M3), ROW(CORALE_FLOAT8_E5M2),
};
#undef ROW
static const kernel moves[2] = { near_moves<false>, near_moves<true> };

int codelets_near(const codelet_args *args, codelet_shape shape, int type, int folding, void *stream)
{
	const int each = args->send_block != 0;
	kernel k = !folding ? moves[each] : each ? rows[type].scatter : rows[type].reduce[args->op == CORALE_SUM];
	return launch((const void *)k, shape, args, stream);
}

int codelets_near_two_shot(const codelet_args *args, codelet_shape shape, int type, void *stream)
{
	kernel k = args->root >= 0 ? near_broadcast : rows[type].two_shot[args->op == CORALE_SUM];
	return launch((const void *)k, shape, args, stream);
}

int codelets_load_near(void)
{
	int error = load((const void *)near_broadcast);
	for (int i = 0; i < 2; i++) {
		error = error ? error : load((const void *)moves[i]);
		for (const near_row &row : rows) {
			error = error ? error : load((const void *)row.reduce[i]);
			error = error ? error : load((const void *)row.two_shot[i]);
			error = error ? error : load((const void *)row.scatter);
		}
	}
	return error;
}
