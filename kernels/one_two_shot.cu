/*
 * One-shot and two-shot by packets that carry their own readiness, for any number of ranks, any address and any size. A thread
 * sends a vector to every peer, then waits for its own packets only, so no barrier is needed anywhere. one_two_shot_few.cu has the same for few
 * ranks.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "packet.cuh"

enum { BATCH = 4 }; /* packets that a thread waits for at a time */

/* The packets at one place of the inboxes of ranks first, first + 1, ... */
struct inbox {
	unsigned char *at; /* of the lowest other rank */
	uint32_t i, epoch;
	unsigned wanted; /* one bit each */
	int first;
};

__device__ static __forceinline__ unsigned char *slot(const codelet_args &a, const inbox &box, int k)
{
	return box.at + (uint64_t)codelet_index(box.first + k, a.rank) * a.area_bytes;
}

/* One rank's side of a call. TYPE of moves: uint8. ODD: see load_user. */
template <class Form, int TYPE, bool ODD> struct packets {
	const codelet_args &a;
	const uint64_t call; /* the epoch of the headers, from which peers know it */
	uint64_t epoch;
	const uint32_t over;
	mutable hearing<Form> heard;

	__device__ packets(const codelet_args &args) : a(args), call(call_epoch(args)), epoch(call), over(call_over(args))
	{
	}

	/* Packet i of this rank's own data, the scalar applied. */
	__device__ vector own(const unsigned char *from, uint32_t i, uint32_t bytes) const
	{
		vector v = load_user<ODD>(from + Form::at(i), filled<Form>(i, bytes));
		return a.op == CORALE_NUM_OPS ? premultiply<TYPE>(a, v) : v;
	}

	__device__ void push(int to, uint32_t offset, uint32_t i, vector v) const
	{
		sync_store_packet(packets_of(a, a.rank, to, epoch & 1) + offset + i * 16,
				  Form::template pack<TYPE>(v, i, (uint32_t)epoch, a.tag));
	}

	/* Which of the ranks first .. first + BATCH - 1 send me packet i. All send the first ones, be they empty. */
	__device__ unsigned senders(int first, uint32_t i) const
	{
		unsigned mask = 0;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (first + k < a.ranks && first + k != a.rank && (a.root < 0 || i < 8 || a.root == first + k))
				mask |= 1u << k;
		return mask;
	}

	/* Loads all wanted packets at once; those that are not ready. */
	__device__ __forceinline__ unsigned look(const inbox &box, vector got[BATCH]) const
	{
		unsigned lacking = over != 0;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (box.wanted >> k & 1)
				got[k] = sync_load_packet(slot(a, box, k));
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if ((box.wanted >> k & 1) && !Form::ready(got[k], box.i, box.epoch, a.tag))
				lacking |= 1u << k;
		return lacking;
	}

	__device__ __forceinline__ bool take(int first, unsigned wanted, uint32_t offset, uint32_t i, vector got[BATCH]) const
	{
		inbox box = { inbox_of(a, epoch & 1) + offset + i * 16, i, (uint32_t)epoch, wanted, first };
		auto rank_of = [&](int k) { return heard.is_header(k) ? lane_rank<true>(a, call) : first + k; };
		if (!await(a, call, [&] { return look(box, got) | heard.missing(a, call); }, rank_of))
			return false;
#pragma unroll
		for (int k = 0; Form::RESTORED && k < BATCH; k++)
			if (wanted >> k & 1)
				sync_store_packet(slot(a, box, k), make_uint4(EMPTY, EMPTY, EMPTY, EMPTY));
		return true;
	}

	/* Folds packet i of all ranks in their order. */
	__device__ bool fold(bool wanted, uint32_t i, vector mine, vector *out) const
	{
		vector_sum<TYPE> sum;
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			if (!take(first, wanted ? senders(first, i) : 0, 0, i, got))
				return false;
#pragma unroll
			for (int k = 0; k < BATCH; k++) {
				if (first + k >= a.ranks)
					break;
				vector v = first + k == a.rank ? mine : got[k];
				if (k == 0 && first == 0)
					sum.start(v);
				else
					sum.add(v, a.op);
			}
		}
		*out = sum.finish(a.op, a.ranks);
		return true;
	}

	/* Writes packet i of all ranks that send, of which `bytes` are wanted, to their blocks of the receive buffer. */
	__device__ bool collect(bool wanted, uint32_t i, unsigned char *recv, uint32_t bytes) const
	{
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			unsigned from = wanted ? senders(first, i) : 0;
			if (!take(first, from, 0, i, got))
				return false;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if ((from >> k & 1) && (a.root < 0 || a.root == first + k))
					store_user<ODD>(recv + (uint64_t)(first + k) * a.recv_block + Form::at(i), got[k],
							filled<Form>(i, bytes));
		}
		return true;
	}
};

/* One exchange of a piece of each block, in lines. slots: packets that travel, be they empty. */
template <int TYPE, bool ODD, bool FOLDS>
__device__ static bool exchange_piece(const codelet_args &a, const packets<lines, TYPE, ODD> &p, uint64_t offset, uint32_t bytes,
				      uint32_t slots)
{
	const uint32_t end = whole_warps(slots);
	const bool sends = a.root < 0 || a.root == a.rank;
	const unsigned char *send = a.send + offset, *mine = send + (uint64_t)a.rank * a.send_block;
	unsigned char *recv = a.recv + offset, *own = recv + (uint64_t)a.rank * a.recv_block;
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x) {
		vector v = p.own(mine, i, sends ? bytes : 0);
#pragma unroll 1
		for (int k = 1; i < slots && (sends || i < 8) && k < a.ranks; k++) {
			int to = peer_after(a, k);
			p.push(to, 0, i, a.send_block ? p.own(send + (uint64_t)to * a.send_block, i, bytes) : v);
		}
		if (FOLDS) {
			vector out;
			if (!p.fold(i < slots, i, v, &out))
				return false;
			store_user<ODD>(recv + lines::at(i), out, filled<lines>(i, bytes));
		} else {
			if (!p.collect(i < slots, i, recv, bytes))
				return false;
			if (sends && own != mine)
				store_user<ODD>(own + lines::at(i), v, filled<lines>(i, bytes));
		}
	}
	return true;
}

template <int TYPE, bool ODD, bool FOLDS> __device__ static void exchange(const codelet_args &a)
{
	sync_previous_kernel();
	packets<lines, TYPE, ODD> p(a);
	const uint32_t slots = lines::slots(a.piece ? a.piece : 1);
	run_pieces<lines, true, true>(a, p.call, true, [&](uint32_t c) {
		const uint64_t at = (uint64_t)c * a.piece, left = a.bytes - at;
		p.epoch = p.call + c;
		return exchange_piece<TYPE, ODD, FOLDS>(a, p, at, left < a.piece ? (uint32_t)left : a.piece, slots);
	});
}

/* Both exchanges of one piece: every rank folds its part and sends the result on. Parts are cut as in plans; each: as in one_two_shot_few.cu. */
template <class Form, int TYPE, bool ODD>
__device__ static bool pass_piece(const codelet_args &a, const packets<Form, TYPE, ODD> &p, uint64_t offset, uint32_t bytes, uint32_t slots,
				  uint32_t each)
{
	const uint32_t n = (uint32_t)a.ranks, end = whole_warps(slots);
	const uint32_t gathered = a.area_bytes / 2; /* the second exchange's half of a sender's packets */
	const unsigned char *send = a.send + offset;
	unsigned char *recv = a.recv + offset;
	auto begin = [&](uint32_t part) { return codelet_part(bytes, n, part); };
	auto length = [&](uint32_t part) { return begin(part + 1) - begin(part); };
	auto goes = [&](uint32_t i, uint32_t part) { return each ? i < each : travels<Form>(i, length(part)); };
	const uint32_t at = begin((uint32_t)a.rank), mine = length((uint32_t)a.rank);
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x) {
		for (int k = 1; k < a.ranks; k++) {
			uint32_t to = (uint32_t)peer_after(a, k);
			if (goes(i, to))
				p.push((int)to, 0, i, p.own(send + begin(to), i, length(to)));
		}
		const bool wanted = goes(i, (uint32_t)a.rank);
		vector out;
		if (!p.fold(wanted, i, p.own(send + at, i, mine), &out))
			return false;
		for (int k = 1; wanted && k < a.ranks; k++)
			p.push(peer_after(a, k), gathered, i, out);
		store_user<ODD>(recv + at + Form::at(i), out, filled<Form>(i, mine));
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			unsigned from = 0;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (first + k < a.ranks && first + k != a.rank && goes(i, (uint32_t)(first + k)))
					from |= 1u << k;
			if (!p.take(first, from, gathered, i, got))
				return false;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (from >> k & 1)
					store_user<ODD>(recv + begin((uint32_t)(first + k)) + Form::at(i), got[k],
							filled<Form>(i, length((uint32_t)(first + k))));
		}
	}
	return true;
}

template <class Form, int TYPE, bool ODD> __device__ static void run_two_shot(const codelet_args &a)
{
	sync_previous_kernel();
	packets<Form, TYPE, ODD> p(a);
	const uint32_t n = (uint32_t)a.ranks, slots = Form::slots(codelet_part(a.piece, n, 1));
	run_pieces<Form, true, true>(a, p.call, codelet_part(a.piece, n, n - 1) != a.piece, [&](uint32_t c) {
		const uint64_t at = (uint64_t)c * a.piece, left = a.bytes - at;
		p.epoch = p.call + c;
		return pass_piece(a, p, at, left < a.piece ? (uint32_t)left : a.piece, slots, a.pieces > 1 ? slots : 0);
	});
}

/* ---- Kernels -------------------------------------------------------------------------------------------- */

template <int TYPE, bool ODD> __global__ __launch_bounds__(CODELET_THREADS) void one_shot(const __grid_constant__ codelet_args a)
{
	exchange<TYPE, ODD, true>(a);
}

template <int TYPE, bool ODD> __global__ __launch_bounds__(CODELET_THREADS) void two_shot(const __grid_constant__ codelet_args a)
{
	run_two_shot<fold_form<TYPE>, TYPE, ODD>(a);
}

template <bool ODD> __global__ __launch_bounds__(CODELET_THREADS) void one_shot_moves(const __grid_constant__ codelet_args a)
{
	exchange<CORALE_UINT8, ODD, false>(a);
}

typedef void (*kernel)(codelet_args);

struct fold_row {
	kernel one_shot[2], two_shot[2]; /* by ODD */
};

static constexpr auto folds = vector_table_of<fold_row>([](auto type) {
	constexpr int TYPE = type.value;
	constexpr bool ODD = vector_shares_kernels<TYPE>; /* else: of even addresses */
	return fold_row{ { one_shot<TYPE, ODD>, one_shot<TYPE, true> }, { two_shot<TYPE, ODD>, two_shot<TYPE, true> } };
});
static const kernel copies[2] = { one_shot_moves<false>, one_shot_moves<true> };

int codelets_one_shot(const codelet_args *args, struct grid grid, int type, int folding, void *stream)
{
	int odd = codelet_is_odd(args);
	return launch((const void *)(folding ? folds[type].one_shot[odd] : copies[odd]), grid, args, stream);
}

int codelets_two_shot(const codelet_args *args, struct grid grid, int type, void *stream)
{
	return launch((const void *)folds[type].two_shot[codelet_is_odd(args)], grid, args, stream);
}

int codelets_load_one_two_shot(void)
{
	int error = 0;
	for (int odd = 0; odd < 2; odd++) {
		error = error ? error : load((const void *)copies[odd]);
		for (const fold_row &row : folds) {
			error = error ? error : load((const void *)row.one_shot[odd]);
			error = error ? error : load((const void *)row.two_shot[odd]);
		}
	}
	return error;
}
