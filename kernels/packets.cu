/*
 * One exchange, or two, of packets that carry their own readiness. A thread sends a vector to every peer, then waits
 * for its own packets only, so no barrier is needed anywhere.
 * Recipe: one-shot and two-shot push kernels of GPU inference engines; the sentinel is NCCL's "poison" and TensorRT-LLM's
 * "Lamport" idea with a NaN word instead of a zero.
 */
#include <cuda_runtime.h>

#include "call.cuh"
#include "launch.cuh"

enum { BATCH = 4 }; /* packets that a thread waits for at a time */

static constexpr uint32_t EMPTY = 0xffffffff;

/* 16 bytes of data; ready when no word is EMPTY. */
struct words {
	static constexpr bool RESTORED = true;
	__device__ static uint64_t slots(uint64_t bytes)
	{
		return (bytes + 15) / 16;
	}
	__device__ static uint64_t at(uint64_t i)
	{
		return i * 16;
	}
	__device__ static uint64_t first_of(uint64_t i)
	{
		return i;
	}
	__device__ static unsigned most(uint64_t i)
	{
		return 16;
	}
	template <int TYPE> __device__ static vector pack(vector v, uint64_t i, uint64_t epoch)
	{
		return vector_hide<TYPE>(v);
	}
	__device__ static bool ready(vector v, uint64_t i, uint64_t epoch)
	{
		return v.x != EMPTY && v.y != EMPTY && v.z != EMPTY && v.w != EMPTY;
	}
};

/* Eight lanes make a line of 128 bytes that arrives whole; the last 8 bytes are the epoch. */
struct lines {
	static constexpr bool RESTORED = false;
	__device__ static uint64_t slots(uint64_t bytes)
	{
		return (bytes + CODELET_LINE_DATA - 1) / CODELET_LINE_DATA * 8;
	}
	__device__ static uint64_t at(uint64_t i)
	{
		return i / 8 * CODELET_LINE_DATA + i % 8 * 16;
	}
	__device__ static uint64_t first_of(uint64_t i)
	{
		return i - i % 8; /* a line travels whole */
	}
	__device__ static unsigned most(uint64_t i)
	{
		return i % 8 == 7 ? 8 : 16;
	}
	template <int TYPE> __device__ static vector pack(vector v, uint64_t i, uint64_t epoch)
	{
		return i % 8 == 7 ? make_uint4(v.x, v.y, (uint32_t)epoch, (uint32_t)(epoch >> 32)) : v;
	}
	__device__ static bool ready(vector v, uint64_t i, uint64_t epoch)
	{
		return i % 8 != 7 || (v.z == (uint32_t)epoch && v.w == (uint32_t)(epoch >> 32));
	}
};

/* What lasts through one thread's part of a call. */
struct thread_call {
	uint64_t epoch, start;
	bool heard; /* all headers */
};

/* How much of packet i the vector of so many bytes fills. */
template <class Form> __device__ static unsigned filled(uint64_t i, uint64_t bytes)
{
	uint64_t at = Form::at(i);
	uint64_t left = at < bytes ? bytes - at : 0;
	return left < Form::most(i) ? (unsigned)left : Form::most(i);
}

/* Whether packet i of the vector is sent at all. */
template <class Form> __device__ static bool travels(uint64_t i, uint64_t bytes)
{
	return Form::at(Form::first_of(i)) < bytes;
}

/* Packet i of a rank's own data, the scalar applied. */
template <class Form, int TYPE>
__device__ static vector own(const codelet_args &a, const unsigned char *from, uint64_t i, uint64_t bytes)
{
	unsigned n = filled<Form>(i, bytes);
	vector v = n ? load_user(from + Form::at(i), n) : make_uint4(0, 0, 0, 0);
	return a.op == CORALE_NUM_OPS ? vector_premultiply<TYPE>(v, a.scalar) : v;
}

template <class Form, int TYPE>
__device__ static void push(const codelet_args &a, int to, uint64_t offset, uint64_t i, vector v, uint64_t epoch)
{
	unsigned char *slot = packets_of(a, a.rank, to, epoch & 1) + offset + i * 16;
	store_shared(slot, Form::template pack<TYPE>(v, i, epoch));
}

/*
 * Waits, the whole warp together, for packet i of ranks first .. first + BATCH - 1 (wanted: one bit each) and for all
 * headers. False if the call has failed. The loads of a turn overlap; what is used is what the last turn loaded.
 */
template <class Form>
__device__ static bool take(const codelet_args &a, thread_call *c, int first, unsigned wanted, uint64_t offset,
			    uint64_t i, vector got[BATCH])
{
	const uint32_t half = c->epoch & 1;
	for (uint32_t spins = 1;; spins++) {
		bool ready = true;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (wanted >> k & 1)
				got[k] = load_shared(packets_of(a, first + k, a.rank, half) + offset + i * 16);
		int heard = c->heard ? 1 : headers_heard(a, c->epoch);
		if (__any_sync(~0u, heard < 0))
			return false;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (wanted >> k & 1)
				ready = ready && Form::ready(got[k], i, c->epoch);
		c->heard = __all_sync(~0u, heard);
		if (__all_sync(~0u, ready) && c->heard)
			break;
		if (spins % CALL_SPINS_PER_LOOK == 0) {
			bool stop = threadIdx.x % 32 == 0 && call_stop(a, spins, &c->start, first, c->epoch);
			if (__any_sync(~0u, stop))
				return false;
		}
	}
	if (Form::RESTORED) {
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (wanted >> k & 1)
				*(vector *)(packets_of(a, first + k, a.rank, half) + offset + i * 16) =
				    make_uint4(EMPTY, EMPTY, EMPTY, EMPTY);
	}
	return true;
}

/* Which of the ranks first .. first + BATCH - 1 send to me. */
__device__ static unsigned senders(const codelet_args &a, int first)
{
	unsigned mask = 0;
#pragma unroll
	for (int k = 0; k < BATCH; k++) {
		int r = first + k;
		if (r < a.ranks && r != a.rank && (a.root < 0 || a.root == r))
			mask |= 1u << k;
	}
	return mask;
}

/* Folds packet i of all ranks in their order. */
template <class Form, int TYPE>
__device__ static bool fold(const codelet_args &a, thread_call *c, bool wanted, uint64_t offset, uint64_t i, vector mine,
			    vector *out)
{
	vector_sum<TYPE> sum;
	for (int first = 0; first < a.ranks; first += BATCH) {
		vector got[BATCH];
		if (!take<Form>(a, c, first, wanted ? senders(a, first) : 0, offset, i, got))
			return false;
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			int r = first + k;
			if (r >= a.ranks)
				break;
			vector v = r == a.rank ? mine : got[k];
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
template <class Form>
__device__ static bool collect(const codelet_args &a, thread_call *c, uint64_t slots, uint64_t offset, uint64_t i,
			       uint64_t bytes)
{
	for (int first = 0; first < a.ranks; first += BATCH) {
		vector got[BATCH];
		unsigned wanted = i < slots ? senders(a, first) : 0, n = filled<Form>(i, bytes);
		if (!take<Form>(a, c, first, wanted, offset, i, got))
			return false;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (wanted >> k & 1 && n)
				store_user(a.recv + (uint64_t)(first + k) * a.recv_block + Form::at(i), got[k], n);
	}
	return true;
}

/* One exchange. TYPE of moves: uint8. */
template <class Form, int TYPE, bool FOLDS> __device__ static void exchange(const codelet_args &a)
{
	call_wait_for_previous();
	thread_call c = { call_epoch(a), 0, false };
	send_headers(a, c.epoch);
	const uint64_t slots = Form::slots(a.bytes), end = slots < 32 ? 32 : codelet_round(slots, 32);
	const bool sends = a.root < 0 || a.root == a.rank;
	const unsigned char *mine = a.send + (uint64_t)a.rank * a.send_block;
	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x) {
		vector v = make_uint4(0, 0, 0, 0);
		if (i < slots && sends) {
			v = own<Form, TYPE>(a, mine, i, a.bytes);
			for (int k = 1; k < a.ranks; k++) {
				int to = peer_after(a, k);
				vector out = a.send_block ? own<Form, TYPE>(a, a.send + (uint64_t)to * a.send_block, i, a.bytes) : v;
				push<Form, TYPE>(a, to, 0, i, out, c.epoch);
			}
		}
		unsigned n = i < slots ? filled<Form>(i, a.bytes) : 0;
		if (FOLDS) {
			vector out;
			if (!fold<Form, TYPE>(a, &c, i < slots, 0, i, v, &out))
				return;
			if (n)
				store_user(a.recv + Form::at(i), out, n);
		} else {
			if (!collect<Form>(a, &c, slots, 0, i, a.bytes))
				return;
			unsigned char *to = a.recv + (uint64_t)a.rank * a.recv_block;
			if (n && sends && to != mine)
				store_user(to + Form::at(i), v, n);
		}
	}
	call_end(a, c.epoch);
}

/* Both exchanges: every rank folds its part and sends the result on. Parts are cut as in plans. */
template <class Form, int TYPE> __device__ static void two_shot(const codelet_args &a)
{
	call_wait_for_previous();
	thread_call c = { call_epoch(a), 0, false };
	send_headers(a, c.epoch);
	const uint64_t units = (a.bytes + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES, each = units / (uint64_t)a.ranks,
		       more = units % (uint64_t)a.ranks;
	const uint64_t slots = Form::slots((each + (more > 0)) * PLAN_UNIT_BYTES), end = slots < 32 ? 32 : codelet_round(slots, 32);
	const uint64_t gathered = a.area_bytes / 2; /* the second exchange's half of a sender's packets */
	auto begin = [&](int part) {
		uint64_t p = (uint64_t)part, at = (p * each + (p < more ? p : more)) * PLAN_UNIT_BYTES;
		return at < a.bytes ? at : a.bytes;
	};
	auto length = [&](int part) { return begin(part + 1) - begin(part); };
	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x) {
		for (int k = 1; k < a.ranks; k++) {
			int to = peer_after(a, k);
			if (travels<Form>(i, length(to)))
				push<Form, TYPE>(a, to, 0, i, own<Form, TYPE>(a, a.send + begin(to), i, length(to)), c.epoch);
		}
		const uint64_t at = begin(a.rank);
		const bool wanted = travels<Form>(i, length(a.rank));
		const unsigned n = filled<Form>(i, length(a.rank));
		vector out;
		if (!fold<Form, TYPE>(a, &c, wanted, 0, i, own<Form, TYPE>(a, a.send + at, i, length(a.rank)), &out))
			return;
		for (int k = 1; wanted && k < a.ranks; k++)
			push<Form, TYPE>(a, peer_after(a, k), gathered, i, out, c.epoch);
		if (n)
			store_user(a.recv + at + Form::at(i), out, n);
		for (int first = 0; first < a.ranks; first += BATCH) {
			vector got[BATCH];
			unsigned mask = 0;
#pragma unroll
			for (int k = 0; k < BATCH; k++) {
				int r = first + k;
				if (r < a.ranks && r != a.rank && travels<Form>(i, length(r)))
					mask |= 1u << k;
			}
			if (!take<Form>(a, &c, first, mask, gathered, i, got))
				return;
#pragma unroll
			for (int k = 0; k < BATCH; k++) {
				int r = first + k;
				unsigned m = mask >> k & 1 ? filled<Form>(i, length(r)) : 0;
				if (m)
					store_user(a.recv + begin(r) + Form::at(i), got[k], m);
			}
		}
	}
	call_end(a, c.epoch);
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

enum { LEAN_THREADS = 96, LEAN_BLOCKS = 21 }; /* at most 32 registers: such blocks find room beside a busy kernel */

template <int TYPE> __global__ __launch_bounds__(1024) void one_shot(const __grid_constant__ codelet_args a)
{
	exchange<fold_form<TYPE>, TYPE, true>(a);
}

template <int TYPE>
__global__ __launch_bounds__(LEAN_THREADS, LEAN_BLOCKS) void one_shot_lean(const __grid_constant__ codelet_args a)
{
	exchange<fold_form<TYPE>, TYPE, true>(a);
}

template <int TYPE> __global__ __launch_bounds__(1024) void two_shots(const __grid_constant__ codelet_args a)
{
	two_shot<fold_form<TYPE>, TYPE>(a);
}

__global__ __launch_bounds__(1024) void moves(const __grid_constant__ codelet_args a)
{
	exchange<lines, CORALE_UINT8, false>(a);
}

__global__ __launch_bounds__(LEAN_THREADS, LEAN_BLOCKS) void moves_lean(const __grid_constant__ codelet_args a)
{
	exchange<lines, CORALE_UINT8, false>(a);
}

typedef void (*kernel)(codelet_args);

struct type_row {
	kernel one_shot, one_shot_lean, two_shots;
	int words;
};

#define ROW(type) { one_shot<type>, one_shot_lean<type>, two_shots<type>, vector_hides<type>() }
static const type_row rows[CORALE_NUM_TYPES] = {
	ROW(CORALE_INT8),    ROW(CORALE_UINT8),    ROW(CORALE_INT32),   ROW(CORALE_UINT32),
	ROW(CORALE_INT64),   ROW(CORALE_UINT64),   ROW(CORALE_FLOAT16), ROW(CORALE_BFLOAT16),
	ROW(CORALE_FLOAT32), ROW(CORALE_FLOAT64), ROW(CORALE_FLOAT8_E4M3), ROW(CORALE_FLOAT8_E5M2),
};
#undef ROW

int codelets_words(int type)
{
	return rows[type].words;
}

int codelets_packets(const codelet_args *args, codelet_shape shape, int type, int folds, void *stream)
{
	bool lean = shape.threads <= LEAN_THREADS;
	kernel k = !folds ? (lean ? moves_lean : moves) : lean ? rows[type].one_shot_lean : rows[type].one_shot;
	return launch((const void *)k, shape, args, stream);
}

int codelets_two_shot(const codelet_args *args, codelet_shape shape, int type, void *stream)
{
	return launch((const void *)rows[type].two_shots, shape, args, stream);
}

int codelets_load_packets(void)
{
	int error = load((const void *)moves);
	error = error ? error : load((const void *)moves_lean);
	for (const type_row &row : rows) {
		error = error ? error : load((const void *)row.one_shot);
		error = error ? error : load((const void *)row.one_shot_lean);
		error = error ? error : load((const void *)row.two_shots);
	}
	return error;
}
