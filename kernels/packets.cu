/*
 * One exchange, or two, of packets that carry their own readiness. A thread sends a vector to every peer, then waits
 * for its own packets only, so no barrier is needed anywhere.
 * Recipe: one-shot and two-shot push kernels of GPU inference engines; the sentinel is the "poison" and "Lamport" idea of
 * NCCL and TensorRT-LLM with a NaN word instead of a zero.
 */
#include <cuda_runtime.h>

#include "call.cuh"
#include "launch.cuh"

enum { BATCH = 4 }; /* packets that a thread waits for at a time */

static constexpr uint32_t EMPTY = 0xffffffff;

/* 16 bytes of data; ready when no word is EMPTY. */
struct words {
	static constexpr bool RESTORED = true;
	__device__ static uint32_t slots(uint32_t bytes)
	{
		return (bytes + 15) / 16;
	}
	__device__ static uint32_t at(uint32_t i)
	{
		return i * 16;
	}
	__device__ static uint32_t first_of(uint32_t i)
	{
		return i;
	}
	__device__ static uint32_t most(uint32_t i)
	{
		return 16;
	}
	template <int TYPE> __device__ static vector pack(vector v, uint32_t i, uint64_t epoch)
	{
		return vector_hide<TYPE>(v);
	}
	__device__ static bool ready(vector v, uint32_t i, uint64_t epoch)
	{
		return v.x != EMPTY && v.y != EMPTY && v.z != EMPTY && v.w != EMPTY;
	}
};

/* Eight lanes make a line of 128 bytes that arrives whole; the last 8 bytes are the epoch. */
struct lines {
	static constexpr bool RESTORED = false;
	__device__ static uint32_t slots(uint32_t bytes)
	{
		return (bytes + CODELET_LINE_DATA - 1) / CODELET_LINE_DATA * 8;
	}
	__device__ static uint32_t at(uint32_t i)
	{
		return i / 8 * CODELET_LINE_DATA + i % 8 * 16;
	}
	__device__ static uint32_t first_of(uint32_t i)
	{
		return i - i % 8; /* a line travels whole */
	}
	__device__ static uint32_t most(uint32_t i)
	{
		return i % 8 == 7 ? 8 : 16;
	}
	template <int TYPE> __device__ static vector pack(vector v, uint32_t i, uint64_t epoch)
	{
		return i % 8 == 7 ? make_uint4(v.x, v.y, (uint32_t)epoch, (uint32_t)(epoch >> 32)) : v;
	}
	__device__ static bool ready(vector v, uint32_t i, uint64_t epoch)
	{
		return i % 8 != 7 || (v.z == (uint32_t)epoch && v.w == (uint32_t)(epoch >> 32));
	}
};

/* How much of packet i the vector of so many bytes fills. */
template <class Form> __device__ static uint32_t filled(uint32_t i, uint32_t bytes)
{
	uint32_t at = Form::at(i), left = at < bytes ? bytes - at : 0;
	return left < Form::most(i) ? left : Form::most(i);
}

/* Whether packet i of the vector is sent at all. */
template <class Form> __device__ static bool travels(uint32_t i, uint32_t bytes)
{
	return Form::at(Form::first_of(i)) < bytes;
}

/* One rank's side of a call. TYPE of moves: uint8. ODD: see load_user. */
template <class Form, int TYPE, bool ODD> struct packets {
	const codelet_args &a;
	uint64_t epoch, start;
	bool heard; /* all headers */

	/* Packet i of this rank's own data, the scalar applied. */
	__device__ vector own(const unsigned char *from, uint32_t i, uint32_t bytes) const
	{
		vector v = load_user<ODD>(from + Form::at(i), filled<Form>(i, bytes));
		return a.op == CORALE_NUM_OPS ? vector_premultiply<TYPE>(v, a.scalar) : v;
	}

	__device__ void push(int to, uint32_t offset, uint32_t i, vector v) const
	{
		store_shared(packets_of(a, a.rank, to, epoch & 1) + offset + i * 16, Form::template pack<TYPE>(v, i, epoch));
	}

	/* Which of the ranks first .. first + BATCH - 1 send to me. */
	__device__ unsigned senders(int first) const
	{
		unsigned mask = 0;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (first + k < a.ranks && first + k != a.rank && (a.root < 0 || a.root == first + k))
				mask |= 1u << k;
		return mask;
	}

	__device__ unsigned char *slot(unsigned char *inbox, int r) const
	{
		return inbox + codelet_index(r, a.rank) * a.area_bytes;
	}

	/*
	 * Waits, the whole warp together, for packet i of ranks first .. first + BATCH - 1 (wanted: one bit each) and for
	 * all headers. False if the call has failed. The loads of a turn overlap; what is used is what the last one loaded.
	 */
	__device__ bool take(int first, unsigned wanted, uint32_t offset, uint32_t i, vector got[BATCH])
	{
		unsigned char *inbox = packets_of(a, 0, 1, epoch & 1) + (int64_t)(a.rank - 1) * (int64_t)a.stride + offset + i * 16;
		for (uint32_t spins = 1;; spins++) {
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (wanted >> k & 1)
					got[k] = load_shared(slot(inbox, first + k));
			bool ready = heard || headers_heard(a, epoch);
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (wanted >> k & 1)
					ready = ready && Form::ready(got[k], i, epoch);
			if (__all_sync(~0u, ready))
				break;
			if (spins % CALL_SPINS_PER_LOOK || !__any_sync(~0u, call_look(a, spins, &start, epoch, true)))
				continue;
			if (threadIdx.x % 32 == 0)
				call_explain(a, first, epoch, true);
			return false;
		}
		heard = true;
#pragma unroll
		for (int k = 0; Form::RESTORED && k < BATCH; k++)
			if (wanted >> k & 1)
				*(vector *)slot(inbox, first + k) = make_uint4(EMPTY, EMPTY, EMPTY, EMPTY);
		return true;
	}

	/* Folds packet i of all ranks in their order. */
	__device__ bool fold(bool wanted, uint32_t i, vector mine, vector *out)
	{
		vector_sum<TYPE> sum;
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			if (!take(first, wanted ? senders(first) : 0, 0, i, got))
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

	/* Writes packet i of all ranks that send, to blocks of the receive buffer. */
	__device__ bool collect(bool wanted, uint32_t i)
	{
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			unsigned from = wanted ? senders(first) : 0;
			if (!take(first, from, 0, i, got))
				return false;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (from >> k & 1)
					store_user<ODD>(a.recv + (uint64_t)(first + k) * a.recv_block + Form::at(i), got[k],
							filled<Form>(i, (uint32_t)a.bytes));
		}
		return true;
	}
};

/* One exchange. */
template <class Form, int TYPE, bool ODD, bool FOLDS> __device__ static void exchange(const codelet_args &a)
{
	call_wait_for_previous();
	packets<Form, TYPE, ODD> p = { a, 0, 0, false };
	const uint32_t bytes = (uint32_t)a.bytes, slots = Form::slots(bytes), end = slots < 32 ? 32 : (slots + 31) / 32 * 32;
	const bool sends = a.root < 0 || a.root == a.rank;
	const unsigned char *mine = a.send + (uint64_t)a.rank * a.send_block;
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	vector v = p.own(mine, i, sends ? bytes : 0); /* on its way while the epoch is */
	p.epoch = call_epoch(a);
	send_headers(a, p.epoch);
	for (;;) {
		for (int k = 1; i < slots && sends && k < a.ranks; k++) {
			int to = peer_after(a, k);
			p.push(to, 0, i, a.send_block ? p.own(a.send + (uint64_t)to * a.send_block, i, bytes) : v);
		}
		if (FOLDS) {
			vector out;
			if (!p.fold(i < slots, i, v, &out))
				return;
			store_user<ODD>(a.recv + Form::at(i), out, filled<Form>(i, bytes));
		} else {
			unsigned char *to = a.recv + (uint64_t)a.rank * a.recv_block;
			if (!p.collect(i < slots, i))
				return;
			if (sends && to != mine)
				store_user<ODD>(to + Form::at(i), v, filled<Form>(i, bytes));
		}
		i += gridDim.x * blockDim.x;
		if (i >= end)
			break;
		v = p.own(mine, i, sends ? bytes : 0);
	}
	call_end(a, p.epoch);
}

/* Both exchanges: every rank folds its part and sends the result on. Parts are cut as in plans. */
template <class Form, int TYPE, bool ODD> __device__ static void two_shot(const codelet_args &a)
{
	call_wait_for_previous();
	packets<Form, TYPE, ODD> p = { a, call_epoch(a), 0, false };
	send_headers(a, p.epoch);
	const uint32_t bytes = (uint32_t)a.bytes, n = (uint32_t)a.ranks, units = (bytes + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES,
		       each = units / n, more = units % n;
	const uint32_t slots = Form::slots((each + (more > 0)) * PLAN_UNIT_BYTES), end = slots < 32 ? 32 : (slots + 31) / 32 * 32;
	const uint32_t gathered = (uint32_t)(a.area_bytes / 2); /* the second exchange's half of a sender's packets */
	auto begin = [&](uint32_t part) {
		uint32_t at = (part * each + (part < more ? part : more)) * PLAN_UNIT_BYTES;
		return at < bytes ? at : bytes;
	};
	auto length = [&](uint32_t part) { return begin(part + 1) - begin(part); };
	const uint32_t at = begin((uint32_t)a.rank), mine = length((uint32_t)a.rank);
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x) {
		for (int k = 1; k < a.ranks; k++) {
			uint32_t to = (uint32_t)peer_after(a, k);
			if (travels<Form>(i, length(to)))
				p.push((int)to, 0, i, p.own(a.send + begin(to), i, length(to)));
		}
		const bool wanted = travels<Form>(i, mine);
		vector out;
		if (!p.fold(wanted, i, p.own(a.send + at, i, mine), &out))
			return;
		for (int k = 1; wanted && k < a.ranks; k++)
			p.push(peer_after(a, k), gathered, i, out);
		store_user<ODD>(a.recv + at + Form::at(i), out, filled<Form>(i, mine));
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			unsigned from = 0;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (first + k < a.ranks && first + k != a.rank && travels<Form>(i, length((uint32_t)(first + k))))
					from |= 1u << k;
			if (!p.take(first, from, gathered, i, got))
				return;
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (from >> k & 1)
					store_user<ODD>(a.recv + begin((uint32_t)(first + k)) + Form::at(i), got[k],
							filled<Form>(i, length((uint32_t)(first + k))));
		}
	}
	call_end(a, p.epoch);
}

/*
 * One exchange among at most BATCH ranks, one vector a thread, blocks of one warp: the same packets in few registers, so that
 * the blocks find room beside a kernel that fills the GPU. What this rank sends takes its own place among what came.
 */
template <class Form, int TYPE, bool FOLDS> __device__ static void exchange_once(const codelet_args &a)
{
	__shared__ uint64_t start;
	call_wait_for_previous();
	packets<Form, TYPE, false> p = { a, 0, 0, false };
	const uint32_t i = blockIdx.x * 32 + threadIdx.x, bytes = (uint32_t)a.bytes;
	const bool in = i < Form::slots(bytes);
	vector got[BATCH];
	{
		const bool sends = a.root < 0 || a.root == a.rank;
		vector v = p.own(a.send + (uint64_t)a.rank * a.send_block, i, sends ? bytes : 0);
		p.epoch = call_epoch(a);
		start = 0;
		send_headers(a, p.epoch);
		for (int k = 1; in && sends && k < a.ranks; k++) {
			int to = peer_after(a, k);
			if (a.send_block) /* a vector for each */
				p.push(to, 0, i, p.own(a.send + (uint64_t)to * a.send_block, i, bytes));
			else
				p.push(to, 0, i, v);
		}
#pragma unroll
		for (int r = 0; r < BATCH; r++)
			got[r] = v;
	}
	unsigned char *inbox = packets_of(a, 0, 1, p.epoch & 1) + (int64_t)(a.rank - 1) * (int64_t)a.stride + i * 16;
	for (uint32_t spins = 1;; spins++) {
		bool ready = true;
#pragma unroll
		for (int r = 0; r < BATCH; r++)
			if (in && r < a.ranks && r != a.rank && (a.root < 0 || a.root == r))
				got[r] = load_shared(p.slot(inbox, r));
		ready = headers_heard(a, p.epoch);
#pragma unroll
		for (int r = 0; r < BATCH; r++)
			if (in && r < a.ranks && r != a.rank && (a.root < 0 || a.root == r))
				ready = ready && Form::ready(got[r], i, p.epoch);
		if (__all_sync(~0u, ready))
			break;
		if (spins % CALL_SPINS_PER_LOOK || !__any_sync(~0u, call_look(a, spins, &start, p.epoch, true)))
			continue;
		if (threadIdx.x == 0)
			call_explain(a, a.rank, p.epoch, true);
		return;
	}
	vector_sum<TYPE> sum;
#pragma unroll
	for (int r = 0; r < BATCH; r++) {
		if (r >= a.ranks)
			break;
		if (Form::RESTORED && in && r != a.rank)
			*(vector *)p.slot(inbox, r) = make_uint4(EMPTY, EMPTY, EMPTY, EMPTY);
		if (FOLDS && r == 0)
			sum.start(got[r]);
		else if (FOLDS)
			sum.add(got[r], a.op);
		else if (a.root < 0 || a.root == r)
			store_words(a.recv + (uint64_t)r * a.recv_block + Form::at(i), got[r], filled<Form>(i, bytes));
	}
	if (FOLDS)
		store_words(a.recv + Form::at(i), sum.finish(a.op, a.ranks), filled<Form>(i, bytes));
	call_end(a, p.epoch);
}

/* ---- Kernels -------------------------------------------------------------------------------------------- */

/* What carries the folds of a type. Moves keep every bit, so they travel in lines. */
template <int TYPE, bool HIDES> struct form_of {
	typedef lines form;
};
template <int TYPE> struct form_of<TYPE, true> {
	typedef words form;
};
template <int TYPE> using fold_form = typename form_of<TYPE, vector_hides<TYPE>()>::form;

enum { LEAN_THREADS = 32 };
#define LEAN __launch_bounds__(64, 32) /* at most 32 registers */

template <int TYPE, bool ODD> __global__ __launch_bounds__(CODELET_THREADS) void one_shot(const __grid_constant__ codelet_args a)
{
	exchange<fold_form<TYPE>, TYPE, ODD, true>(a);
}

template <int TYPE>
__global__ LEAN void one_shot_lean(const __grid_constant__ codelet_args a)
{
	exchange_once<fold_form<TYPE>, TYPE, true>(a);
}

template <int TYPE, bool ODD> __global__ __launch_bounds__(CODELET_THREADS) void two_shots(const __grid_constant__ codelet_args a)
{
	two_shot<fold_form<TYPE>, TYPE, ODD>(a);
}

template <bool ODD> __global__ __launch_bounds__(CODELET_THREADS) void moves(const __grid_constant__ codelet_args a)
{
	exchange<lines, CORALE_UINT8, ODD, false>(a);
}

__global__ LEAN void moves_lean(const __grid_constant__ codelet_args a)
{
	exchange_once<lines, CORALE_UINT8, false>(a);
}

typedef void (*kernel)(codelet_args);

struct fold_row {
	kernel lean, one_shot[2], two_shot[2]; /* by ODD */
};

#define ROW(type)                                                                                                      \
	{                                                                                                              \
		one_shot_lean<type>, { one_shot<type, false>, one_shot<type, true> },                                  \
		    { two_shots<type, false>, two_shots<type, true> },                                                 \
	}
static const fold_row folds[CORALE_NUM_TYPES] = {
	ROW(CORALE_INT8),    ROW(CORALE_UINT8),    ROW(CORALE_INT32),   ROW(CORALE_UINT32),
	ROW(CORALE_INT64),   ROW(CORALE_UINT64),   ROW(CORALE_FLOAT16), ROW(CORALE_BFLOAT16),
	ROW(CORALE_FLOAT32), ROW(CORALE_FLOAT64), ROW(CORALE_FLOAT8_E4M3), ROW(CORALE_FLOAT8_E5M2),
};
#undef ROW
static const kernel copies[2] = { moves<false>, moves<true> };

static const int in_words[CORALE_NUM_TYPES] = {
	[CORALE_INT8] = 0,    [CORALE_UINT8] = 0,    [CORALE_INT32] = 0,   [CORALE_UINT32] = 0,  [CORALE_INT64] = 0,
	[CORALE_UINT64] = 0,  [CORALE_FLOAT16] = 1,  [CORALE_BFLOAT16] = 1, [CORALE_FLOAT32] = 1, [CORALE_FLOAT64] = 0,
	[CORALE_FLOAT8_E4M3] = 1, [CORALE_FLOAT8_E5M2] = 1,
};

int codelets_words(int type)
{
	return in_words[type];
}

static int is_odd(const codelet_args *a)
{
	return (((uintptr_t)a->send | (uintptr_t)a->recv | a->bytes | a->send_block | a->recv_block) & 3) != 0;
}

/* The lean kernel's conditions; a shape that asks for it has one vector a thread. */
static int is_lean(const codelet_args *a, codelet_shape shape)
{
	return shape.threads == LEAN_THREADS && a->ranks <= BATCH && !is_odd(a);
}

int codelets_packets(const codelet_args *args, codelet_shape shape, int type, int folding, void *stream)
{
	int odd = is_odd(args);
	kernel k = is_lean(args, shape) ? (folding ? folds[type].lean : moves_lean)
		   : folding		? folds[type].one_shot[odd]
					: copies[odd];
	return launch((const void *)k, shape, args, stream);
}

int codelets_two_shot(const codelet_args *args, codelet_shape shape, int type, void *stream)
{
	return launch((const void *)folds[type].two_shot[is_odd(args)], shape, args, stream);
}

int codelets_load_packets(void)
{
	int error = load((const void *)moves_lean);
	for (int odd = 0; odd < 2; odd++) {
		error = error ? error : load((const void *)copies[odd]);
		for (const fold_row &row : folds) {
			error = error ? error : load((const void *)row.one_shot[odd]);
			error = error ? error : load((const void *)row.two_shot[odd]);
		}
	}
	for (const fold_row &row : folds)
		error = error ? error : load((const void *)row.lean);
	return error;
}
