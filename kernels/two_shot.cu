/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-shot by packets that carry their own readiness: every rank folds its part of a piece and sends the result on. For any number of ranks,
 * any address and any size; and among few ranks, one vector a thread and trip. A broadcast among few ranks has the same two exchanges: the
 * root sends every other rank a part, which that rank passes on.
 * Recipe: two-shot push kernels of GPU inference engines; the sentinel is the "poison" and "Lamport" idea of NCCL and TensorRT-LLM with a
 * NaN word instead of a zero.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "shots.cuh"

/* ---- Any number of ranks ----------------------------------------------------------------------------------- */

/* Both exchanges of one piece: every rank folds its part and sends the result on. Parts are cut as in plans; each: as packets of a part_piece. */
template <class Form, int TYPE, bool UNALIGNED>
__device__ static bool pass_piece(const codelet_args &a, const packet_call<Form, TYPE, UNALIGNED> &p, uint64_t offset, uint32_t bytes, uint32_t packets,
				  uint32_t each)
{
	const uint32_t n = (uint32_t)a.ranks, end = whole_warps(packets);
	const uint32_t gathered = a.area_bytes / 2; /* the second exchange's half of a sender's packets */
	const unsigned char *send = a.send + offset;
	unsigned char *recv = a.recv + offset;
	auto begin = [&](uint32_t part) { return codelet_part(bytes, n, part); };
	auto length = [&](uint32_t part) { return begin(part + 1) - begin(part); };
	auto is_sent = [&](uint32_t i, uint32_t part) { return each ? i < each : travels<Form>(i, length(part)); };
	const uint32_t at = begin((uint32_t)a.rank), mine = length((uint32_t)a.rank);
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x) {
		for (int k = 1; k < a.ranks; k++) {
			uint32_t to = (uint32_t)peer_after(a, k);
			if (is_sent(i, to))
				p.push((int)to, 0, i, p.own(send + begin(to), i, length(to)));
		}
		const bool wanted = is_sent(i, (uint32_t)a.rank);
		vector out;
		if (!p.fold(wanted, i, p.own(send + at, i, mine), &out))
			return false;
		for (int k = 1; wanted && k < a.ranks; k++)
			p.push(peer_after(a, k), gathered, i, out);
		store_user<UNALIGNED>(recv + at + Form::at(i), out, filled<Form>(i, mine));
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			unsigned from = 0;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (first + k < a.ranks && first + k != a.rank && is_sent(i, (uint32_t)(first + k)))
					from |= 1u << k;
			if (!p.take(first, from, gathered, i, got))
				return false;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (from >> k & 1)
					store_user<UNALIGNED>(recv + begin((uint32_t)(first + k)) + Form::at(i), got[k],
							filled<Form>(i, length((uint32_t)(first + k))));
		}
	}
	return true;
}

template <class Form, int TYPE, bool UNALIGNED> __device__ static void run_two_shot(const codelet_args &a)
{
	sync_previous_kernel();
	packet_call<Form, TYPE, UNALIGNED> p(a);
	const uint32_t n = (uint32_t)a.ranks, packets = Form::packets(codelet_part(a.piece, n, 1));
	run_pieces<Form, true, true>(a, p.first_epoch, codelet_part(a.piece, n, n - 1) != a.piece, [&](uint32_t c) {
		const uint64_t at = (uint64_t)c * a.piece, left = a.bytes - at;
		p.epoch = p.first_epoch + c;
		return pass_piece(a, p, at, left < a.piece ? (uint32_t)left : a.piece, packets, a.pieces > 1 ? packets : 0);
	});
}

/* ---- Few ranks --------------------------------------------------------------------------------------------- */

/* One piece of a vector. */
struct part_piece {
	uint64_t first_epoch, epoch; /* first_epoch: the first piece's */
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
template <class Form> __device__ static __forceinline__ bool is_sent(const codelet_args &a, const part_piece &p, uint32_t i, int part)
{
	return part != a.root && (p.packets ? i < p.packets : travels<Form>(i, part_bytes(p, part)));
}

template <class Form> __device__ static __forceinline__ unsigned part_fill(const part_piece &p, uint32_t i, int part)
{
	return filled<Form>(i, part_bytes(p, part));
}

/* The other ranks that pass on packet i of their parts, one bit each. */
template <class Form> __device__ static __forceinline__ unsigned part_senders(const codelet_args &a, const part_piece &p, uint32_t i)
{
	unsigned ranks = 0;
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if (j + 1 < a.ranks && is_sent<Form>(a, p, i, j + (j >= a.rank)))
			ranks |= 1u << j;
	return ranks;
}

__device__ static __forceinline__ uint64_t packet_offset(const codelet_args &a, const part_piece &p, uint32_t i)
{
	return (uint64_t)i * 16 + (p.epoch & 1 ? a.few_ranks.half : 0);
}

/* Every rank folds its part and sends the result on. */
template <class Form, int TYPE> __device__ static __forceinline__ bool fold_and_pass(const codelet_args &a, const int op,
										     const part_piece &p, uint32_t i, header_wait<Form> *headers)
{
	const uint64_t at = packet_offset(a, p, i), gathered = a.area_bytes / 2;
	const uint32_t tag = a.tag, epoch = (uint32_t)p.epoch;
	const unsigned char *send = p.send + Form::at(i);
	unsigned char *recv = p.recv + Form::at(i);
	vector own[CODELET_FEW_RANKS]; /* of the part of rank + k */
#pragma unroll
	for (int k = 0; k < CODELET_FEW_RANKS; k++) {
		int part = peer_after(a, k);
		if (k < a.ranks)
			own[k] = load_words(send + p.at[part], part_fill<Form>(p, i, part));
	}
#pragma unroll
	for (int k = 1; k < CODELET_FEW_RANKS; k++)
		if (k < a.ranks && is_sent<Form>(a, p, i, peer_after(a, k)))
			sync_store_packet(a.few_ranks.out[k - 1] + at,
					  Form::template pack<TYPE>(scaled<TYPE>(a, op, own[k]), i, epoch, tag));
	const bool wanted = is_sent<Form>(a, p, i, a.rank);
	few_inbox box = { at, i, epoch, tag, wanted ? (1u << (a.ranks - 1)) - 1 : 0 };
	vector got[OTHERS];
	if (!take<Form>(a, p.first_epoch, box, got, headers))
		return false;
	vector out = fold<TYPE>(a, op, scaled<TYPE>(a, op, own[0]), got), packet = Form::template pack<TYPE>(out, i, epoch, tag);
#pragma unroll
	for (int k = 1; k < CODELET_FEW_RANKS; k++)
		if (wanted && k < a.ranks)
			sync_store_packet(a.few_ranks.out[k - 1] + at + gathered, packet);
	store_words(recv + p.at[a.rank], out, part_fill<Form>(p, i, a.rank));
	box.at += gathered;
	box.wanted = part_senders<Form>(a, p, i);
	if (!take<Form>(a, p.first_epoch, box, got, headers))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++) {
		int part = j + (j >= a.rank);
		if (j + 1 < a.ranks)
			store_words(recv + p.at[part], got[j], part_fill<Form>(p, i, part));
	}
	return true;
}

/* Every rank passes on the part that the root sends it. Of a vector in one piece the root gets no more than a line, as a signal. */
__device__ static __forceinline__ bool deal_and_pass(const codelet_args &a, const part_piece &p, uint32_t i, header_wait<lines> *headers)
{
	const uint64_t at = packet_offset(a, p, i), gathered = a.area_bytes / 2;
	const uint32_t epoch = (uint32_t)p.epoch;
	const bool deals = a.rank == a.root, passes = is_sent<lines>(a, p, i, a.rank), to_root = p.packets || i < 8;
	vector mine = make_uint4(0, 0, 0, 0), got[OTHERS];
#pragma unroll
	for (int k = 1; deals && k < CODELET_FEW_RANKS; k++) {
		int part = peer_after(a, k);
		if (k >= a.ranks || !is_sent<lines>(a, p, i, part))
			continue;
		const uint32_t from = p.at[part] + lines::at(i);
		vector v = load_user<true>(p.send + from, part_fill<lines>(p, i, part));
		if (p.recv != p.send)
			store_user<true>(p.recv + from, v, part_fill<lines>(p, i, part));
		sync_store_packet(a.few_ranks.out[k - 1] + at, lines::pack<CORALE_UINT8>(v, i, epoch, a.tag));
	}
	few_inbox box = { at, i, epoch, a.tag, passes ? 1u << codelet_index(a.root, a.rank) : 0 };
	if (!take<lines>(a, p.first_epoch, box, got, headers))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++)
		if (box.wanted >> j & 1)
			mine = got[j];
#pragma unroll
	for (int k = 1; k < CODELET_FEW_RANKS; k++)
		if (passes && k < a.ranks && (to_root || peer_after(a, k) != a.root))
			sync_store_packet(a.few_ranks.out[k - 1] + at + gathered, lines::pack<CORALE_UINT8>(mine, i, epoch, a.tag));
	if (!deals)
		store_user<true>(p.recv + p.at[a.rank] + lines::at(i), mine, part_fill<lines>(p, i, a.rank));
	box.at += gathered;
	box.wanted = !deals || to_root ? part_senders<lines>(a, p, i) : 0;
	if (!take<lines>(a, p.first_epoch, box, got, headers))
		return false;
#pragma unroll
	for (int j = 0; j < OTHERS; j++) {
		int part = j + (j >= a.rank);
		if (!deals && (box.wanted >> j & 1))
			store_user<true>(p.recv + p.at[part] + lines::at(i), got[j], part_fill<lines>(p, i, part));
	}
	return true;
}

/* Calls run(piece, i, headers) for this thread's packets of all pieces. most, least: the ranks that have most and least of a piece. SEVERAL: there
 * may be several, which costs the latency of one. */
template <class Form, bool SEVERAL, class Run>
__device__ static __forceinline__ void run_two_shot_few(const codelet_args &a, int most, int least, Run run)
{
	sync_previous_kernel();
	const codelet_few_ranks &n = a.few_ranks;
	const uint64_t first_epoch = call_epoch(a);
	header_wait<Form> headers;
	const uint32_t packets = Form::packets(n.part_at[most + 1] - n.part_at[most]), end = whole_warps(packets);
	run_pieces<Form, SEVERAL, false>(a, first_epoch, n.part_at[least + 1] != n.part_at[least], [&](uint32_t c) {
		const uint64_t at = (uint64_t)c * a.piece;
		const part_piece p = { first_epoch, first_epoch + c, a.send + at, a.recv + at, SEVERAL && c + 1 == a.pieces ? n.last_at : n.part_at,
				       SEVERAL && a.pieces > 1 ? packets : 0 };
		for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x)
			if (!run(p, i, &headers))
				return false;
		return true;
	});
}

/* ---- Kernels -------------------------------------------------------------------------------------------- */

/* Of any address: what that costs aligned calls is a test a packet, and one register of two types. */
template <int TYPE> __global__ __launch_bounds__(CODELET_THREADS) void two_shot(const __grid_constant__ codelet_args a)
{
	run_two_shot<fold_form<TYPE>, TYPE, true>(a);
}

/* SUMS: of sums in one piece, the smallest calls, for which the operator and further pieces are left out: 0.35 us of 4.7 to 16 (2 H200). */
template <int TYPE, bool SUMS>
__global__ MODEST void two_shot_few(const __grid_constant__ codelet_args a)
{
	typedef fold_form<TYPE> form;
	run_two_shot_few<form, !SUMS>(a, 0, a.ranks - 1, [&](const part_piece &p, uint32_t i, header_wait<form> *headers) {
		return fold_and_pass<form, TYPE>(a, SUMS ? CORALE_SUM : a.op, p, i, headers);
	});
}

/* The root has no part. */
__global__ MODEST void scatter_allgather_few(const __grid_constant__ codelet_args a)
{
	run_two_shot_few<lines, true>(a, a.root == 0, a.ranks - 1 - (a.root == a.ranks - 1),
			      [&](const part_piece &p, uint32_t i, header_wait<lines> *headers) { return deal_and_pass(a, p, i, headers); });
}

typedef void (*kernel)(codelet_args);

struct two_shot_row {
	kernel any, few[2]; /* [1]: sums in one piece */
};

static constexpr auto folds = vector_table_of<two_shot_row>([](auto type) {
	constexpr int TYPE = type.value;
	return two_shot_row{ two_shot<TYPE>, { two_shot_few<TYPE, false>, two_shot_few<TYPE, !vector_shares_kernels<TYPE>> } };
});

int codelets_two_shot(const codelet_args *args, struct grid grid, int type, void *stream)
{
	return launch((const void *)folds[type].any, grid, args, stream);
}

int codelets_two_shot_few(const codelet_args *args, struct grid grid, int type, void *stream)
{
	const kernel k = args->root >= 0 ? scatter_allgather_few : folds[type].few[args->op == CORALE_SUM && args->pieces <= 1];
	return launch((const void *)k, grid, args, stream);
}

int codelets_load_two_shot(void)
{
	int error = load((const void *)scatter_allgather_few);
	for (const two_shot_row &row : folds) {
		error = error ? error : load((const void *)row.any);
		error = error ? error : load_all(row.few);
	}
	return error;
}
