/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes one call on GPU buffers and checks each element, the guard bytes, and what must stay as it was. */
#include "cuda_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "test/helpers/any_call.h"
#include "test/helpers/reference_type.h"

enum { SCALAR_BYTES = 8, STAGING = 8 << 20, GUARD_BYTE = 0x5a, POISON_BYTE = 0xa5, MOST_GAP = 3 };
/* of a case's two buffers */
enum { GUARDS = 2 * (2 * CUDA_CASE_GUARD + CUDA_CASE_SHIFTS * 8 + CUDA_MEMORY_ALIGNMENT) };

/* ---- Where cases run ---- */

int cuda_bench_open(struct cuda_world *world, struct cuda_bench *bench, uint64_t seed)
{
	memset(bench, 0, sizeof(*bench));
	bench->world = world;
	if (cuda_pools_open(world, &bench->pools, seed))
		return -1;
	if (!cuda_world_good(world, cudaMallocHost((void **)&bench->staging, 2 * STAGING),
			     "cudaMallocHost") ||
	    !cuda_world_good(world, cudaStreamCreateWithFlags(&bench->work, cudaStreamNonBlocking),
			     "cudaStreamCreate"))
		return -1;
	return 0;
}

int cuda_bench_memory(struct cuda_bench *bench, unsigned int kinds, size_t bytes)
{
	int bad = 0;
	for (int kind = 0; kind < CUDA_MEMORY_KINDS; kind++)
		if (kinds & 1u << kind)
			bad |= cuda_arena_open(bench->world, &bench->arenas[kind],
					       (enum cuda_memory_kind)kind, bench->comm, bytes);
	return cuda_world_largest(bad != 0) ? -1 : 0;
}

void cuda_bench_free(struct cuda_bench *bench)
{
	for (int kind = 0; kind < CUDA_MEMORY_KINDS; kind++)
		cuda_arena_close(bench->world, &bench->arenas[kind]);
}

void cuda_bench_reset(struct cuda_bench *bench)
{
	for (int kind = 0; kind < CUDA_MEMORY_KINDS; kind++)
		bench->arenas[kind].used = bench->arenas[kind].kept;
}

void cuda_bench_keep(struct cuda_bench *bench)
{
	for (int kind = 0; kind < CUDA_MEMORY_KINDS; kind++)
		bench->arenas[kind].kept = bench->arenas[kind].used;
}

void cuda_bench_forget(struct cuda_bench *bench)
{
	for (int kind = 0; kind < CUDA_MEMORY_KINDS; kind++)
		bench->arenas[kind].used = bench->arenas[kind].kept = 0;
}

void cuda_bench_close(struct cuda_bench *bench)
{
	cudaStreamDestroy(bench->work);
	cudaFreeHost(bench->staging);
	cuda_pools_close(&bench->pools);
}

/* ---- What a case is ---- */

static int reduces(const struct cuda_case *c)
{
	return c->call == CORALE_ALL_REDUCE || c->call == CORALE_REDUCE_SCATTER ||
	       c->call == CORALE_REDUCE_SCATTER_V || c->call == CORALE_REDUCE;
}

static int is_v(const struct cuda_case *c)
{
	return c->call == CORALE_ALL_GATHER_V || c->call == CORALE_GATHER_V || c->call == CORALE_SCATTER_V;
}

/* Only the root has a receive buffer, or a send buffer, and only it can be in place. */
static int is_one_sided(const struct cuda_case *c)
{
	return c->call == CORALE_REDUCE || c->call == CORALE_GATHER || c->call == CORALE_SCATTER;
}

static int has_place(const struct cuda_case *c)
{
	return (reduces(c) && c->call != CORALE_REDUCE_SCATTER_V) || is_one_sided(c) ||
	       c->call == CORALE_ALL_GATHER || c->call == CORALE_ALL_TO_ALL || c->call == CORALE_BROADCAST;
}

/* Elements of the larger buffer and of both together. */
static size_t elements(const struct cuda_case *c, size_t ranks)
{
	switch (c->call) {
	case CORALE_ALL_GATHER:
	case CORALE_REDUCE_SCATTER:
		return (ranks + !c->in_place) * c->count;
	case CORALE_GATHER:
	case CORALE_SCATTER:
		return (ranks + 1) * c->count;
	case CORALE_REDUCE:
		return 2 * c->count;
	case CORALE_ALL_TO_ALL:
		return 2 * ranks * c->count;
	case CORALE_ALL_TO_ALL_V:
	case CORALE_ALL_GATHER_V:
	case CORALE_REDUCE_SCATTER_V:
	case CORALE_GATHER_V:
	case CORALE_SCATTER_V:
	case CUDA_CASE_EXCHANGE:
		return 2 * ranks * (c->count + 1 + MOST_GAP);
	case CORALE_BARRIER:
		return 0;
	default:
		return c->in_place ? c->count : 2 * c->count;
	}
}

int cuda_case_possible(const struct cuda_case *c, int ranks, size_t bytes)
{
	if (c->in_place && !has_place(c))
		return 0;
	if (reduces(c) && !type_has_op(c->type, c->op))
		return 0;
	if (!reduces(c) && (c->op != CORALE_SUM || c->data != REFERENCE_EXACT))
		return 0;
	if (c->call == CORALE_BARRIER && (c->count || c->type))
		return 0;
	return elements(c, (size_t)ranks) * corale_type_bytes(c->type) + GUARDS <= bytes;
}

static const char *call_name(int call)
{
	switch (call) {
	case CUDA_CASE_RING:
		return "ring";
	case CUDA_CASE_EXCHANGE:
		return "exchange";
	case CUDA_CASE_PAIRS:
		return "pairs";
	default:
		return corale_coll_name((corale_coll)call);
	}
}

void cuda_case_name(const struct cuda_case *c, char *text, size_t bytes)
{
	static const char *const data[] = { " exact", " random", " special" };
	snprintf(text, bytes, "%s %s%s%s%s, count %zu, root %d, %s%s, %s to %s memory, seed %llu",
		 call_name(c->call), corale_type_name(c->type), reduces(c) ? " " : "",
		 reduces(c) ? corale_op_name(c->op) : "", reduces(c) ? data[c->data] : "", c->count, c->root,
		 c->in_place ? "in place" : "apart", c->misaligned ? " misaligned" : "",
		 cuda_memory_name(c->send_kind), cuda_memory_name(c->recv_kind), (unsigned long long)c->seed);
}

/* ---- Shapes of buffers ---- */

static void add(struct cuda_layout *layout, size_t gap, size_t count, int source, size_t first)
{
	layout->pieces[layout->n++] = (struct cuda_piece){ layout->elements + gap, count, first, source };
	layout->elements += gap + count;
}

/* What goes from one rank to another where every pair, or every rank, has its own count. */
static size_t edge(const struct cuda_case *c, int from, int to)
{
	from = c->call == CORALE_SCATTER_V || c->call == CORALE_REDUCE_SCATTER_V
		   ? 0
		   : from; /* a block of one rank, or the same of each */
	to = c->call == CORALE_ALL_GATHER_V || c->call == CORALE_GATHER_V ? 0 : to;
	uint64_t number = cuda_world_hash(c->seed, (uint64_t)from * CUDA_POOL_MOST_RANKS + (uint64_t)to);
	switch (number % 5) {
	case 0:
		return 0;
	case 1:
		return c->count / 2;
	case 2:
		return c->count;
	case 3:
		return c->count + 1;
	default:
		return number / 5 % (c->count + 1);
	}
}

/* Elements between what goes to different ranks; 0: the same goes to all. */
static size_t far_of(const struct cuda_case *c)
{
	return c->call == CORALE_ALL_GATHER_V || c->call == CORALE_GATHER_V ? 0 : 2 * c->count + 2;
}

/* Blocks from all ranks, or to all, with gaps in between. */
static void lay_edges(const struct cuda_case *c, int me, int ranks, int sending, struct cuda_layout *layout,
		      size_t *counts, size_t *displs)
{
	const size_t far = far_of(c);
	for (int r = 0; r < ranks; r++) {
		size_t gap = cuda_world_hash(c->seed + 7, (uint64_t)(r * 2 + sending)) % (MOST_GAP + 1);
		counts[r] = sending ? edge(c, me, r) : edge(c, r, me);
		displs[r] = layout->elements + gap;
		add(layout, gap, counts[r], sending ? me : r, far * (size_t)(sending ? r : me));
	}
}

static int partner_of(int me, int ranks)
{
	return (me ^ 1) < ranks ? me ^ 1 : -1;
}

static int root_of(const struct cuda_case *c, int ranks)
{
	return c->root % ranks;
}

static void lay_inputs(struct cuda_run *run, int me, int ranks)
{
	const struct cuda_case *c = &run->c;
	struct cuda_layout *in = &run->inputs;
	size_t n = (size_t)ranks;
	int sent_by_root =
	    c->call == CORALE_BROADCAST || c->call == CORALE_SCATTER || c->call == CORALE_SCATTER_V;
	if (c->call == CORALE_BARRIER || (sent_by_root && me != root_of(c, ranks)) ||
	    (c->call == CUDA_CASE_PAIRS && partner_of(me, ranks) < 0))
		return;
	if (c->call == CORALE_ALL_TO_ALL_V || c->call == CORALE_SCATTER_V ||
	    c->call == CORALE_REDUCE_SCATTER_V || c->call == CUDA_CASE_EXCHANGE)
		lay_edges(c, me, ranks, 1, in, run->counts[0], run->counts[1]);
	else if (is_v(c))
		add(in, 0, edge(c, me, me), me, 0);
	else if (c->call == CORALE_ALL_TO_ALL || c->call == CORALE_REDUCE_SCATTER ||
		 c->call == CORALE_SCATTER)
		add(in, 0, n * c->count, me, 0);
	else if ((c->call == CORALE_ALL_GATHER || c->call == CORALE_GATHER) && c->in_place)
		add(in, (size_t)me * c->count, c->count, me, 0);
	else
		add(in, 0, c->count, me, 0);
}

static void lay_blocks(const struct cuda_case *c, int ranks, size_t first, struct cuda_layout *out)
{
	for (int r = 0; r < ranks; r++)
		add(out, 0, c->count, r, first);
}

static void lay_outputs(struct cuda_run *run, int me, int ranks)
{
	const struct cuda_case *c = &run->c;
	struct cuda_layout *out = &run->outputs;
	size_t mine = (size_t)me * c->count, n = (size_t)ranks;
	int source = CUDA_PIECE_FOLD, is_root = me == root_of(c, ranks);
	switch (c->call) {
	case CORALE_BARRIER:
		return;
	case CORALE_REDUCE:
		if (is_root)
			break;
		return;
	case CORALE_GATHER:
		if (is_root)
			lay_blocks(c, ranks, 0, out);
		return;
	case CORALE_ALL_GATHER:
		lay_blocks(c, ranks, 0, out);
		return;
	case CORALE_ALL_TO_ALL:
		lay_blocks(c, ranks, mine, out);
		return;
	case CORALE_GATHER_V:
		if (!is_root)
			return;
		lay_edges(c, me, ranks, 0, out, run->counts[2], run->counts[3]);
		return;
	case CORALE_ALL_TO_ALL_V:
	case CORALE_ALL_GATHER_V:
	case CUDA_CASE_EXCHANGE:
		lay_edges(c, me, ranks, 0, out, run->counts[2], run->counts[3]);
		return;
	case CORALE_SCATTER_V:
	case CORALE_REDUCE_SCATTER_V:
		if (c->call == CORALE_SCATTER_V)
			source = root_of(c, ranks);
		add(out, 0, edge(c, me, me), source, far_of(c) * (size_t)me);
		return;
	case CORALE_REDUCE_SCATTER:
	case CORALE_SCATTER:
		if (c->call == CORALE_SCATTER)
			source = root_of(c, ranks);
		if (c->in_place)
			add(out, 0, mine, CUDA_PIECE_ANY, 0);
		add(out, 0, c->count, source, mine);
		if (c->in_place)
			add(out, 0, n * c->count - mine - c->count, CUDA_PIECE_ANY, 0);
		return;
	case CORALE_BROADCAST:
		source = root_of(c, ranks);
		break;
	case CUDA_CASE_RING:
		source = (me + ranks - root_of(c, ranks)) % ranks;
		break;
	case CUDA_CASE_PAIRS:
		source = partner_of(me, ranks);
		if (source < 0)
			return;
		break;
	default:
		break;
	}
	add(out, 0, c->count, source, 0);
}

/* ---- Buffers ---- */

/* Whether peers may map it, so that all ranks must pass the same offset. */
static int mapped(enum cuda_memory_kind kind)
{
	return kind == CUDA_MEMORY_LIBRARY || kind == CUDA_MEMORY_REGISTERED;
}

/* Room for the largest buffers that any rank has of this case, so that the next ones begin at equal offsets, too. */
static void level(struct cuda_bench *bench, const struct cuda_case *c, enum cuda_memory_kind kind,
		  size_t before)
{
	struct cuda_arena *arena = &bench->arenas[kind];
	size_t most = elements(c, (size_t)bench->world->size) * corale_type_bytes(c->type) + GUARDS;
	if (mapped(kind) && arena->used < before + most)
		arena->used = before + most < arena->bytes ? before + most : arena->bytes;
}

static int take(struct cuda_bench *bench, const struct cuda_case *c, enum cuda_memory_kind kind, size_t count,
		uint64_t salt, struct cuda_buffer *buffer)
{
	int rank = mapped(kind) ? 0 : bench->world->rank; /* every rank's lies at the same offset */
	uint64_t number = cuda_world_hash(c->seed + salt, (uint64_t)rank);
	size_t element = corale_type_bytes(c->type);
	buffer->kind = kind;
	buffer->bytes = count * element;
	buffer->lead = CUDA_CASE_GUARD + (c->misaligned ? number % CUDA_CASE_SHIFTS * element : 0);
	buffer->region =
	    cuda_arena_take(&bench->arenas[kind], buffer->lead + buffer->bytes + CUDA_CASE_GUARD);
	if (buffer->region)
		return 0;
	cuda_world_fault(bench->world, "the test has no room for %zu bytes of %s memory", buffer->bytes,
			 cuda_memory_name(kind));
	return CORALE_ENOMEM;
}

static int take_buffers(struct cuda_bench *bench, struct cuda_run *run)
{
	const struct cuda_case *c = &run->c;
	size_t in = run->inputs.elements, out = run->outputs.elements;
	size_t send_used = bench->arenas[c->send_kind].used, recv_used = bench->arenas[c->recv_kind].used;
	int ret = take(bench, c, c->recv_kind, c->in_place && in > out ? in : out, 1, &run->recv);
	if (!ret && !c->in_place)
		ret = take(bench, c, c->send_kind, in, 2, &run->send);
	level(bench, c, c->send_kind, send_used);
	level(bench, c, c->recv_kind, recv_used);
	return ret;
}

static cudaError_t transfer(struct cuda_bench *bench, enum cuda_memory_kind kind, void *to, const void *from,
			    size_t bytes)
{
	if (cuda_memory_on_host(kind)) {
		memcpy(to, from, bytes);
		return cudaSuccess;
	}
	cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, bench->work);
	return error == cudaSuccess ? cudaStreamSynchronize(bench->work) : error;
}

/* at: 0: what the kernel reads; 1: what is copied there on the call's stream. */
static int set_scalar(struct cuda_bench *bench, const struct cuda_run *run, int at,
		      const unsigned char scalar[SCALAR_BYTES])
{
	memcpy(bench->staging, scalar, SCALAR_BYTES);
	return cuda_world_good(bench->world,
			       transfer(bench, CUDA_MEMORY_DEVICE, run->scalars + at * SCALAR_BYTES,
					bench->staging, SCALAR_BYTES),
			       "copying a scalar")
		   ? 0
		   : CORALE_EDEVICE;
}

/* In every other case its scalar is in memory of the GPU, wrong until a copy on the call's stream. */
static int make_premultiplied(struct cuda_bench *bench, struct cuda_run *run)
{
	const unsigned char *scalar = run->pool->scalars[bench->world->rank];
	if (run->c.seed / 2 % 2)
		run->scalars = cuda_arena_take(&bench->arenas[CUDA_MEMORY_DEVICE], 2 * SCALAR_BYTES);
	if (!run->scalars)
		return corale_op_create_premul_sum(scalar, run->c.type, bench->comm, &run->op);
	return set_scalar(bench, run, 1, scalar)
		   ? CORALE_EDEVICE
		   : corale_op_create_premul_sum_device(run->scalars, run->c.type, bench->comm, &run->op);
}

int cuda_run_open(struct cuda_bench *bench, const struct cuda_case *c, int with_plan, struct cuda_run *run)
{
	struct cuda_world *world = bench->world;
	memset(run, 0, sizeof(*run));
	run->c = *c;
	run->c.in_place = c->in_place && (!is_one_sided(c) || world->rank == root_of(c, world->size));
	run->op = c->op;
	lay_inputs(run, world->rank, world->size);
	lay_outputs(run, world->rank, world->size);
	run->pool = cuda_pool_get(&bench->pools, c->type, reduces(c) ? c->op : REFERENCE_COPY, c->data,
				  elements(c, (size_t)world->size));
	if (!run->pool) {
		cuda_world_fault(world, "the test has too many runs in flight");
		return CORALE_ENOMEM;
	}
	int ret = take_buffers(bench, run);
	if (!ret && reduces(c) && c->op == CORALE_NUM_OPS)
		ret = make_premultiplied(bench, run);
	if (!ret && with_plan)
		ret = corale_plan_create((corale_coll)c->call, c->count, c->type, run->op,
					 root_of(c, world->size), bench->comm, &run->plan);
	if (ret) {
		cuda_world_ok(world, ret, bench->comm, "opening a case");
		cuda_run_close(bench, run);
	}
	return ret;
}

void cuda_run_close(struct cuda_bench *bench, struct cuda_run *run)
{
	corale_plan_destroy(run->plan);
	if (run->op >= CORALE_NUM_OPS)
		corale_op_destroy(run->op, bench->comm);
	if (run->pool)
		cuda_pool_put(run->pool);
	memset(run, 0, sizeof(*run));
}

/* ---- Images of buffers: what they hold before the call, or should hold after it ---- */

static const unsigned char *source_of(const struct cuda_run *run, const struct cuda_piece *piece)
{
	return piece->source == CUDA_PIECE_FOLD ? run->pool->fold : run->pool->contributions[piece->source];
}

/* Elements [from, from + count) of a piece. */
static void paint_elements(const struct cuda_run *run, const struct cuda_piece *piece, size_t from,
			   size_t count, unsigned char *out)
{
	const unsigned char *source = source_of(run, piece);
	size_t period = run->pool->period, element = run->pool->element;
	size_t at = (run->start + piece->first + from) % period;
	for (size_t done = 0, n; done < count; done += n, at = 0) {
		n = count - done < period - at ? count - done : period - at;
		memcpy(out + done * element, source + at * element, n * element);
	}
}

/* Bytes [from, to) of a region into out; what may be anything is taken from any. Both ends are whole elements. */
static void paint(const struct cuda_run *run, const struct cuda_buffer *buffer,
		  const struct cuda_layout *layout, size_t from, size_t to, const unsigned char *any,
		  unsigned char *out)
{
	size_t element = run->pool->element, end = buffer->lead + buffer->bytes;
	size_t low = from > buffer->lead ? from : buffer->lead, high = to < end ? to : end;
	low = low < to ? low : to; /* [low, high) is of the buffer */
	high = high > low ? high : low;
	memset(out, GUARD_BYTE, low - from);
	memset(out + (high - from), GUARD_BYTE, to - high);
	for (int i = 0; i < layout->n; i++) {
		const struct cuda_piece *piece = &layout->pieces[i];
		size_t first = buffer->lead + piece->at * element, last = first + piece->count * element;
		size_t a = first > low ? first : low, b = last < high ? last : high;
		if (a >= b)
			continue;
		memset(out + (low - from), POISON_BYTE, a - low); /* the gap before it */
		if (piece->source == CUDA_PIECE_ANY)
			memcpy(out + (a - from), any + (a - from), b - a);
		else
			paint_elements(run, piece, (a - first) / element, (b - a) / element,
				       out + (a - from));
		low = b;
	}
	memset(out + (low - from), POISON_BYTE, high - low);
}

/* ---- Filling and checking ---- */

static int fill(struct cuda_bench *bench, struct cuda_run *run, const struct cuda_buffer *buffer,
		const struct cuda_layout *layout)
{
	size_t bytes = buffer->lead + buffer->bytes + CUDA_CASE_GUARD;
	for (size_t from = 0; from < bytes; from += STAGING) {
		size_t to = from + STAGING < bytes ? from + STAGING : bytes;
		paint(run, buffer, layout, from, to, NULL, bench->staging);
		if (!cuda_world_good(
			bench->world,
			transfer(bench, buffer->kind, buffer->region + from, bench->staging, to - from),
			"copying inputs"))
			return -1;
	}
	return 0;
}

int cuda_run_fill(struct cuda_bench *bench, struct cuda_run *run, int turn)
{
	static const struct cuda_layout nothing;
	static const unsigned char wrong[SCALAR_BYTES] = { 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55 };
	run->start = cuda_world_hash(run->c.seed, 1000 + (uint64_t)turn) % run->pool->period;
	if (run->scalars && set_scalar(bench, run, 0, wrong))
		return -1;
	if (run->c.in_place)
		return fill(bench, run, &run->recv, &run->inputs);
	int ret = fill(bench, run, &run->send, &run->inputs);
	return ret ? ret : fill(bench, run, &run->recv, &nothing);
}

static void describe(const struct cuda_run *run, const unsigned char *element, char *text, size_t bytes)
{
	uint64_t raw = 0;
	double real;
	memcpy(&raw, element, run->pool->element);
	if (!reduces(&run->c) || !reference_type(run->c.type)->digits) {
		snprintf(text, bytes, "0x%llx", (unsigned long long)raw);
		return;
	}
	reference_decode(run->c.type, element, 1, &real);
	snprintf(text, bytes, "0x%llx = %.17g", (unsigned long long)raw, real);
}

/* A wrong byte outside of the buffer, in words. at: from the buffer's start. */
static void explain_guard(const struct cuda_buffer *buffer, const char *name, ptrdiff_t at,
			  const unsigned char *got, const unsigned char *expected, char *text, size_t bytes)
{
	while (*got == *expected) {
		got++;
		expected++;
		at++;
	}
	ptrdiff_t behind = at - (ptrdiff_t)buffer->bytes;
	snprintf(text, bytes, "%td bytes %s the %s: got 0x%02x, expected 0x%02x", at < 0 ? -at : behind + 1,
		 at < 0 ? "before" : "behind", name, *got, *expected);
}

/* The first difference, in words. offset: of the element in the region. */
static void explain(const struct cuda_run *run, const struct cuda_buffer *buffer, size_t offset,
		    const unsigned char *got, const unsigned char *expected, char *text, size_t bytes)
{
	const char *name = buffer == &run->send ? "send buffer" : run->c.in_place ? "buffer" : "recv buffer";
	ptrdiff_t at = (ptrdiff_t)offset - (ptrdiff_t)buffer->lead;
	char words[2][60];
	if (at < 0 || (size_t)at >= buffer->bytes) {
		explain_guard(buffer, name, at, got, expected, text, bytes);
		return;
	}
	describe(run, got, words[0], sizeof(words[0]));
	describe(run, expected, words[1], sizeof(words[1]));
	snprintf(text, bytes, "%s, element %zu of %zu: got %s, expected %s", name,
		 (size_t)at / run->pool->element, buffer->bytes / run->pool->element, words[0], words[1]);
}

/* Wrong elements between two images of a part of a region; the first one in words. */
static size_t count_wrong(const struct cuda_run *run, const struct cuda_buffer *buffer, size_t from,
			  size_t bytes, const unsigned char *got, const unsigned char *expected, char *text,
			  size_t text_bytes)
{
	size_t wrong = 0, element = run->pool->element;
	for (size_t at = 0; at < bytes; at += element) {
		size_t n = bytes - at < element ? bytes - at : element;
		if (!memcmp(got + at, expected + at, n))
			continue;
		if (!wrong++ && !*text)
			explain(run, buffer, from + at, got + at, expected + at, text, text_bytes);
	}
	return wrong;
}

/* Wrong elements of a region. */
static size_t check(struct cuda_bench *bench, const struct cuda_run *run, const struct cuda_buffer *buffer,
		    const struct cuda_layout *layout, char *text, size_t text_bytes)
{
	size_t bytes = buffer->lead + buffer->bytes + CUDA_CASE_GUARD, wrong = 0;
	unsigned char *got = bench->staging, *expected = bench->staging + STAGING;
	for (size_t from = 0; from < bytes; from += STAGING) {
		size_t to = from + STAGING < bytes ? from + STAGING : bytes;
		if (transfer(bench, buffer->kind, got, buffer->region + from, to - from) != cudaSuccess) {
			snprintf(text, text_bytes, "copying results: %s",
				 cudaGetErrorString(cudaGetLastError()));
			return 1;
		}
		paint(run, buffer, layout, from, to, got, expected);
		if (memcmp(got, expected, to - from))
			wrong += count_wrong(run, buffer, from, to - from, got, expected, text, text_bytes);
	}
	return wrong;
}

int cuda_run_check(struct cuda_bench *bench, struct cuda_run *run)
{
	char text[300] = "", name[300];
	size_t wrong = check(bench, run, &run->recv, &run->outputs, text, sizeof(text));
	if (!run->c.in_place)
		wrong += check(bench, run, &run->send, &run->inputs, text, sizeof(text));
	if (!wrong)
		return 0;
	cuda_case_name(&run->c, name, sizeof(name));
	cuda_world_fault(bench->world, "%s: %zu wrong; %s", name, wrong, text);
	return 1;
}

/* ---- Calls ---- */

static int exchange(struct cuda_bench *bench, struct cuda_run *run, const unsigned char *send,
		    unsigned char *recv, cudaStream_t stream)
{
	int me = bench->world->rank, ranks = bench->world->size;
	size_t element = run->pool->element;
	corale_group_begin();
	for (int k = 0; k < ranks; k++) {
		int to = (me + k) % ranks, from = (me + 2 * k + 1) % ranks; /* in no particular order */
		if (ranks % 2 == 0)
			from = (me + ranks - k) % ranks;
		corale_send(send + run->counts[1][to] * element, run->counts[0][to], run->c.type, to,
			    bench->comm, stream);
		corale_recv(recv + run->counts[3][from] * element, run->counts[2][from], run->c.type, from,
			    bench->comm, stream);
	}
	return corale_group_end();
}

static int ring(struct cuda_bench *bench, struct cuda_run *run, const void *send, void *recv,
		cudaStream_t stream)
{
	const struct cuda_case *c = &run->c;
	int me = bench->world->rank, ranks = bench->world->size, distance = root_of(c, ranks);
	corale_group_begin();
	corale_send(send, c->count, c->type, (me + distance) % ranks, bench->comm, stream);
	corale_recv(recv, c->count, c->type, (me + ranks - distance) % ranks, bench->comm, stream);
	return corale_group_end();
}

static int pairs(struct cuda_bench *bench, struct cuda_run *run, const void *send, void *recv,
		 cudaStream_t stream)
{
	const struct cuda_case *c = &run->c;
	int me = bench->world->rank, partner = partner_of(me, bench->world->size), ret = 0;
	if (partner < 0)
		return 0;
	if (me < partner)
		ret = corale_send(send, c->count, c->type, partner, bench->comm, stream);
	if (!ret)
		ret = corale_recv(recv, c->count, c->type, partner, bench->comm, stream);
	if (!ret && me > partner)
		ret = corale_send(send, c->count, c->type, partner, bench->comm, stream);
	return ret;
}

static int call(struct cuda_bench *bench, struct cuda_run *run, const void *send, void *recv,
		cudaStream_t stream)
{
	const struct cuda_case *c = &run->c;
	const int me = bench->world->rank;
	const int is_v = c->call == CORALE_GATHER_V || c->call == CORALE_SCATTER_V;
	if (c->call == CUDA_CASE_EXCHANGE)
		return exchange(bench, run, send, recv, stream);
	if (c->call == CUDA_CASE_RING)
		return ring(bench, run, send, recv, stream);
	if (c->call == CUDA_CASE_PAIRS)
		return pairs(bench, run, send, recv, stream);
	return any_call(&(struct any_call){ .coll = (corale_coll)c->call,
					    .count = !is_v                        ? c->count
						     : c->call == CORALE_GATHER_V ? edge(c, me, 0)
										  : edge(c, 0, me),
					    .type = c->type,
					    .op = run->op,
					    .root = root_of(c, bench->world->size),
					    .send = send,
					    .recv = recv,
					    .send_counts = run->counts[0],
					    .send_displs = run->counts[1],
					    .recv_counts = run->counts[2],
					    .recv_displs = run->counts[3],
					    .comm = bench->comm,
					    .stream = stream });
}

int cuda_run_issue(struct cuda_bench *bench, struct cuda_run *run, cudaStream_t stream)
{
	const struct cuda_case *c = &run->c;
	size_t mine = (size_t)bench->world->rank * c->count * run->pool->element;
	unsigned char *recv = run->recv.region + run->recv.lead, *send = recv;
	if (!c->in_place)
		send = run->send.region + run->send.lead;
	else if (c->call == CORALE_ALL_GATHER || c->call == CORALE_GATHER)
		send += mine;
	else if (c->call == CORALE_REDUCE_SCATTER || c->call == CORALE_SCATTER)
		recv += mine;
	if (bench->world->rank != root_of(c, bench->world->size) && !c->in_place && c->seed % 2) {
		if (c->call == CORALE_BROADCAST || c->call == CORALE_SCATTER || c->call == CORALE_SCATTER_V)
			send = NULL; /* only the root's is read, */
		if (c->call == CORALE_REDUCE || c->call == CORALE_GATHER || c->call == CORALE_GATHER_V)
			recv = NULL; /* or written */
	}
	if (run->scalars && cudaMemcpyAsync(run->scalars, run->scalars + SCALAR_BYTES, SCALAR_BYTES,
					    cudaMemcpyDeviceToDevice, stream) != cudaSuccess)
		return CORALE_EDEVICE;
	if (run->plan)
		return corale_plan_run(run->plan, send, recv, stream);
	return call(bench, run, send, recv, stream);
}
