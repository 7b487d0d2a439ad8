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
	template <int TYPE> __device__ static vector pack(vector v, uint32_t i, uint32_t epoch, uint32_t signature)
	{
		return vector_hide<TYPE>(v);
	}
	__device__ static bool ready(vector v, uint32_t i, uint32_t epoch, uint32_t signature)
	{
		return v.x != EMPTY && v.y != EMPTY && v.z != EMPTY && v.w != EMPTY;
	}
};

/* Eight lanes make a line of 128 bytes that arrives whole; the last 8 bytes are epoch and signature. */
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
	template <int TYPE> __device__ static vector pack(vector v, uint32_t i, uint32_t epoch, uint32_t signature)
	{
		return i % 8 == 7 ? make_uint4(v.x, v.y, epoch, signature) : v;
	}
	__device__ static bool ready(vector v, uint32_t i, uint32_t epoch, uint32_t signature)
	{
		return i % 8 != 7 || (v.z == epoch && v.w == signature);
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

/* What a thread needs to look for packets. */
struct watch {
	unsigned char *inbox; /* packet i of the lowest other rank */
	uint32_t i, epoch, tag;
	unsigned wanted; /* ranks first .. first + BATCH - 1, one bit each */
	int first;
	bool heard; /* all headers, or they are not needed */
};

__device__ static __forceinline__ unsigned char *slot(const codelet_args &a, const watch &w, int k)
{
	return w.inbox + codelet_index(w.first + k, a.rank) * (uint32_t)a.area_bytes;
}

/* Loads all wanted packets at once; whether all are ready. */
template <class Form> __device__ static __forceinline__ bool look(const codelet_args &a, const watch &w, vector got[BATCH])
{
	bool ready = true;
#pragma unroll
	for (int k = 0; k < BATCH; k++)
		if (w.wanted >> k & 1)
			got[k] = sync_load_packet(slot(a, w, k));
	if (!w.heard)
		ready = headers_heard(a, w.epoch);
#pragma unroll
	for (int k = 0; k < BATCH; k++)
		if (w.wanted >> k & 1)
			ready = ready && Form::ready(got[k], w.i, w.epoch, w.tag);
	return ready;
}

/* A wait that lasts, out of the way of those that don't. False if the call has failed. */
template <class Form> __device__ static __noinline__ bool persist(const codelet_args &a, watch w)
{
	vector got[BATCH];
	uint64_t start = 0;
	for (uint32_t spins = 1; !__all_sync(~0u, look<Form>(a, w, got)); spins++) {
		if (spins % CALL_SPINS_PER_LOOK || !__any_sync(~0u, call_look(a, spins, &start, w.epoch, true)))
			continue;
		if (threadIdx.x % 32 == 0)
			call_explain(a, w.first, w.epoch, true);
		return false;
	}
	return true;
}

/* Waits, the whole warp together. What is used is what the last turn loaded. */
template <class Form> __device__ static __forceinline__ bool take(const codelet_args &a, const watch &w, vector got[BATCH])
{
	for (uint32_t spins = 0; !__all_sync(~0u, look<Form>(a, w, got)); spins++)
		if (__builtin_expect(spins == CALL_SPINS_PER_LOOK, 0)) {
			if (!persist<Form>(a, w))
				return false;
			spins = 0;
		}
#pragma unroll
	for (int k = 0; Form::RESTORED && k < BATCH; k++)
		if (w.wanted >> k & 1)
			*(vector *)slot(a, w, k) = make_uint4(EMPTY, EMPTY, EMPTY, EMPTY);
	return true;
}

/* One rank's side of a call. TYPE of moves: uint8. ODD: see load_user. */
template <class Form, int TYPE, bool ODD> struct packets {
	const codelet_args &a;
	uint32_t epoch, tag; /* tag: of the call, in lines */
	bool heard; /* all headers; lines need none */

	__device__ packets(const codelet_args &args) : a(args), epoch(0), tag(call_tag(args)), heard(!Form::RESTORED)
	{
	}

	/* Packet i of this rank's own data, the scalar applied. */
	__device__ vector own(const unsigned char *from, uint32_t i, uint32_t bytes) const
	{
		vector v = load_user<ODD>(from + Form::at(i), filled<Form>(i, bytes));
		return a.op == CORALE_NUM_OPS ? vector_premultiply<TYPE>(v, a.scalar) : v;
	}

	__device__ void push(int to, uint32_t offset, uint32_t i, vector v) const
	{
		sync_store_packet(packets_of(a, a.rank, to, epoch & 1) + offset + i * 16, Form::template pack<TYPE>(v, i, epoch, tag));
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

	__device__ bool take(int first, unsigned wanted, uint32_t offset, uint32_t i, vector got[BATCH])
	{
		watch w = { inbox_of(a, epoch & 1) + offset + i * 16, i, epoch, tag, wanted, first, heard };
		heard = true;
		return ::take<Form>(a, w, got);
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

__device__ static __noinline__ bool hear_headers(const codelet_args &a, uint64_t epoch)
{
	uint64_t start = 0;
	for (uint32_t spins = 1; !__all_sync(~0u, headers_heard(a, epoch)); spins++) {
		if (spins % CALL_SPINS_PER_LOOK || !__any_sync(~0u, call_look(a, spins, &start, epoch, true)))
			continue;
		if (threadIdx.x == 0)
			call_explain(a, a.rank, epoch, true);
		return false;
	}
	return true;
}

/* Where data alone does not tell that every rank has made the call, one warp waits for all headers. */
__device__ static bool hear_silent(const codelet_args &a, uint64_t epoch)
{
	return (a.root < 0 && a.bytes) || blockIdx.x || threadIdx.x >= 32 || hear_headers(a, epoch);
}

/* One exchange, in lines. */
template <int TYPE, bool ODD, bool FOLDS> __device__ static void exchange(const codelet_args &a)
{
	sync_previous_kernel();
	packets<lines, TYPE, ODD> p(a);
	const uint32_t bytes = (uint32_t)a.bytes, slots = lines::slots(bytes), end = (slots + 31) / 32 * 32;
	const bool sends = a.root < 0 || a.root == a.rank;
	const unsigned char *mine = a.send + (uint64_t)a.rank * a.send_block;
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	vector v = p.own(mine, i, sends ? bytes : 0); /* on its way while the epoch is */
	const uint64_t epoch = call_epoch(a);
	p.epoch = (uint32_t)epoch;
	send_headers(a, epoch);
	for (bool first = true; i < end; i += gridDim.x * blockDim.x, first = false) {
		v = first ? v : p.own(mine, i, sends ? bytes : 0);
#pragma unroll 1
		for (int k = 1; i < slots && sends && k < a.ranks; k++) {
			int to = peer_after(a, k);
			p.push(to, 0, i, a.send_block ? p.own(a.send + (uint64_t)to * a.send_block, i, bytes) : v);
		}
		if (FOLDS) {
			vector out;
			if (!p.fold(i < slots, i, v, &out))
				return;
			store_user<ODD>(a.recv + lines::at(i), out, filled<lines>(i, bytes));
		} else {
			unsigned char *to = a.recv + (uint64_t)a.rank * a.recv_block;
			if (!p.collect(i < slots, i))
				return;
			if (sends && to != mine)
				store_user<ODD>(to + lines::at(i), v, filled<lines>(i, bytes));
		}
	}
	if (hear_silent(a, epoch))
		call_end(a, epoch);
}

/* Both exchanges: every rank folds its part and sends the result on. Parts are cut as in plans. */
template <class Form, int TYPE, bool ODD> __device__ static void two_shot(const codelet_args &a)
{
	sync_previous_kernel();
	packets<Form, TYPE, ODD> p(a);
	const uint64_t epoch = call_epoch(a);
	p.epoch = (uint32_t)epoch;
	send_headers(a, epoch);
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
	call_end(a, epoch);
}

/*
 * One exchange among at most BATCH ranks, one vector a thread, blocks of one warp: the same packets in few registers and
 * instructions, so that the blocks find room beside a kernel that fills the GPU and are done soon on an idle one.
 */
template <int TYPE, bool FOLDS> __device__ static __forceinline__ void exchange_once(const codelet_args &a, const int op)
{
	sync_previous_kernel();
	packets<lines, TYPE, false> p(a);
	const uint32_t i = blockIdx.x * 32 + threadIdx.x, bytes = (uint32_t)a.bytes, n = filled<lines>(i, bytes);
	const bool in = i < lines::slots(bytes), sends = a.root < 0 || a.root == a.rank;
	vector mine = load_few(a.send + (uint64_t)a.rank * a.send_block + lines::at(i), sends ? n : 0);
	if (op == CORALE_NUM_OPS)
		mine = vector_premultiply<TYPE>(mine, a.scalar);
	const uint64_t epoch = call_epoch(a);
	p.epoch = (uint32_t)epoch;
#pragma unroll 1
	for (int k = 1; in && sends && k < a.ranks; k++) {
		int to = peer_after(a, k);
		vector v = mine;
		if (a.send_block) { /* a vector for each */
			v = load_few(a.send + (uint64_t)to * a.send_block + lines::at(i), n);
			if (op == CORALE_NUM_OPS)
				v = vector_premultiply<TYPE>(v, a.scalar);
		}
		p.push(to, 0, i, v);
	}
	send_headers(a, epoch);
	vector got[BATCH];
	if (!p.take(0, in ? p.senders(0) : 0, 0, i, got))
		return;
	vector_sum<TYPE> sum;
#pragma unroll
	for (int r = 0; r < BATCH; r++) {
		if (r >= a.ranks)
			break;
		vector v = r == a.rank ? mine : got[r];
		if (FOLDS && r == 0)
			sum.start(v);
		else if (FOLDS)
			sum.add(v, op);
		else if (a.root < 0 || a.root == r)
			store_few(a.recv + (uint64_t)r * a.recv_block + lines::at(i), v, n);
	}
	if (FOLDS)
		store_few(a.recv + lines::at(i), sum.finish(op, a.ranks), n);
	if (hear_silent(a, epoch))
		call_end(a, epoch);
}

/* ---- Kernels -------------------------------------------------------------------------------------------- */

/* What carries the two-shot folds of a type. Moves keep every bit, so they travel in lines. */
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
	exchange<TYPE, ODD, true>(a);
}

template <int TYPE, bool SUMS> __global__ LEAN void one_shot_lean(const __grid_constant__ codelet_args a)
{
	exchange_once<TYPE, true>(a, SUMS ? CORALE_SUM : a.op);
}

template <int TYPE, bool ODD> __global__ __launch_bounds__(CODELET_THREADS) void two_shots(const __grid_constant__ codelet_args a)
{
	two_shot<fold_form<TYPE>, TYPE, ODD>(a);
}

template <bool ODD> __global__ __launch_bounds__(CODELET_THREADS) void moves(const __grid_constant__ codelet_args a)
{
	exchange<CORALE_UINT8, ODD, false>(a);
}

__global__ LEAN void moves_lean(const __grid_constant__ codelet_args a)
{
	exchange_once<CORALE_UINT8, false>(a, CORALE_SUM);
}

typedef void (*kernel)(codelet_args);

struct fold_row {
	kernel lean[2], one_shot[2], two_shot[2]; /* lean: any operator, sums; others: by ODD */
};

#define ROW(type)                                                                                                      \
	{                                                                                                              \
		{ one_shot_lean<type, false>, one_shot_lean<type, true> }, { one_shot<type, false>, one_shot<type, true> },                                  \
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
	kernel k = is_lean(args, shape) ? (folding ? folds[type].lean[args->op == CORALE_SUM] : moves_lean)
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
			error = error ? error : load((const void *)row.lean[odd]);
		}
	}
	return error;
}
