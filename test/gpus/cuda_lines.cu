/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do lines of 128 bytes arrive whole? Eight lanes of a warp store 120 bytes of data and an 8-byte flag with one
 * instruction into another GPU's memory; eight lanes there load the line with one instruction until they see the flag,
 * and the data of that very load must be the flag's. That is what packets with one flag a line rely on.
 *
 * Usage: test/gpus/cuda_lines [--lines N] [--seconds S] [--gpus G] [--racing] [--halves]
 * N (default 1e9): in all, over all ordered pairs of GPUs at once. S (default 60): the kernels' own deadline.
 * --racing: the writers do not wait for the readers, so a load meets stores in flight; what is torn then is told but is
 * no failure, for nothing relies on it.
 * --halves: a control. Each line goes out in two stores, the flag first: torn lines must be seen.
 * One process; needs peer access. With one GPU the pair is that GPU with itself.
 */
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/sync.cuh"

namespace
{

enum {
	SKIPPED = 77,
	MOST_GPUS = 16,
	THREADS = 256,
	WARPS = THREADS / 32,
	LINE = 128,
	LANES = 8, /* of a line */
	STEP = 32 / LANES * LINE, /* bytes that a warp stores at once */
	DEPTH = 16, /* steps that a writer is ahead of its reader at most */
	ACK_EVERY = 4, /* steps */
	MOST_BLOCKS = 16, /* of one direction of a pair */
	LOOK_EVERY = 4096 /* polls between two looks at the clock */
};

/* What one warp found; of readers. */
struct findings {
	unsigned long long lines, torn;
	uint32_t step, line, lane, word, got, expected; /* of the first torn line */
	uint32_t timed_out;
};

/* One direction of a pair of GPUs, as both ends see it. */
struct direction {
	unsigned char *lines; /* on the reader's GPU: DEPTH steps of each warp */
	uint64_t *acks; /* on the writer's GPU: one word of each warp */
	findings *found; /* on the reader's GPU, one of each warp */
	uint32_t salt;
};

/* What one GPU does: each group of blocks is one end of one direction. */
struct job {
	direction ends[2 * MOST_GPUS];
	int writes[2 * MOST_GPUS], n, blocks; /* blocks: of each end */
	uint64_t steps, limit_ns;
	int racing, halves;
};

__device__ uint64_t load_ack(const uint64_t *word)
{
	uint64_t value;
	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

__device__ void store_ack(uint64_t *word, uint64_t value)
{
	asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

__device__ uint32_t scramble(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* A lane's part of the line with that flag. Every word depends on the flag, on the line and on the lane. */
__device__ uint4 part_of(uint64_t flag, uint32_t salt)
{
	uint32_t lane = threadIdx.x % 32, seed = (uint32_t)flag * 0x9e3779b1u + salt + lane * 4;
	uint4 v = { scramble(seed), scramble(seed + 1), scramble(seed + 2), scramble(seed + 3) };
	if (lane % LANES == LANES - 1) {
		v.z = (uint32_t)flag;
		v.w = (uint32_t)(flag >> 32);
	}
	return v;
}

/* The flag that the last lane of each line has loaded. */
__device__ uint64_t flag_in(uint4 v)
{
	int last = (int)(threadIdx.x % 32) | (LANES - 1);
	uint32_t low = __shfl_sync(~0u, v.z, last), high = __shfl_sync(~0u, v.w, last);
	return (uint64_t)high << 32 | low;
}

__device__ bool is_late(uint32_t *polls, uint64_t end)
{
	bool late = ++*polls % LOOK_EVERY == 0 && sync_now_ns() > end;
	return __any_sync(~0u, late);
}

__device__ uint32_t first_wrong_word(uint4 got, uint4 expected, uint32_t values[2])
{
	const uint32_t g[4] = { got.x, got.y, got.z, got.w }, e[4] = { expected.x, expected.y, expected.z, expected.w };
	for (uint32_t i = 0; i < 4; i++)
		if (g[i] != e[i]) {
			values[0] = g[i];
			values[1] = e[i];
			return i;
		}
	return 4;
}

/* Counts the torn lines of one load; all lanes of the warp come here. watched: lines whose flag is one to judge. */
__device__ void judge(findings *f, uint4 got, uint64_t flag, uint32_t salt, bool watched)
{
	uint32_t lane = threadIdx.x % 32, values[2] = { 0, 0 }, line = lane / LANES;
	uint32_t word = first_wrong_word(got, part_of(flag, salt), values);
	uint32_t wrong = __ballot_sync(~0u, watched && word < 4);
	if (!wrong)
		return;
	uint32_t torn = 0;
	for (uint32_t i = 0; i < 32 / LANES; i++)
		torn += (wrong >> i * LANES & ((1u << LANES) - 1)) != 0;
	uint32_t first = __ffs((int)wrong) - 1;
	bool tells = lane == first && f->torn == 0;
	if (tells) {
		f->step = (uint32_t)flag;
		f->line = line;
		f->lane = lane % LANES;
		f->word = word;
		f->got = values[0];
		f->expected = values[1];
	}
	__syncwarp();
	if (lane == 0)
		f->torn += torn;
	__syncwarp();
}

__device__ void send_line(const job &job, void *to, uint4 v)
{
	if (!job.halves) {
		sync_store_packet(to, v);
		return;
	}
	bool flag_half = threadIdx.x % LANES >= LANES / 2;
	if (flag_half)
		sync_store_packet(to, v);
	__nanosleep(200);
	__syncwarp();
	if (!flag_half)
		sync_store_packet(to, v);
}

__device__ void write_lines(const job &job, const direction &d, uint32_t warp, uint64_t end)
{
	unsigned char *ring = d.lines + (uint64_t)warp * DEPTH * STEP + threadIdx.x % 32 * 16;
	uint32_t salt = d.salt + warp * 977, polls = 0;
	for (uint64_t step = 0; step < job.steps; step++) {
		uint64_t slot = job.racing ? 0 : step % DEPTH;
		while (!job.racing && !__all_sync(~0u, step < load_ack(&d.acks[warp]) + DEPTH))
			if (is_late(&polls, end))
				return;
		uint32_t pause = scramble(salt ^ (uint32_t)step);
		if (pause % 64 == 0) /* so that the ends meet in all kinds of moments */
			__nanosleep(pause >> 8 & 511);
		__syncwarp();
		send_line(job, ring + slot * STEP, part_of(step + 1, salt));
	}
}

/* Each line in its turn. */
__device__ void read_lines(const job &job, const direction &d, uint32_t warp, uint64_t end)
{
	const unsigned char *ring = d.lines + (uint64_t)warp * DEPTH * STEP + threadIdx.x % 32 * 16;
	uint32_t salt = d.salt + warp * 977, polls = 0;
	findings *f = &d.found[warp];
	for (uint64_t step = 0; step < job.steps; step++) {
		uint4 got = sync_load_packet(ring + step % DEPTH * STEP);
		for (;;) {
			uint64_t flag = flag_in(got);
			judge(f, got, step + 1, salt, flag == step + 1);
			if (__all_sync(~0u, flag == step + 1))
				break;
			if (is_late(&polls, end)) {
				f->timed_out = 1;
				return;
			}
			got = sync_load_packet(ring + step % DEPTH * STEP);
		}
		if (step % ACK_EVERY == ACK_EVERY - 1 && threadIdx.x % 32 == 0)
			store_ack(&d.acks[warp], step + 1);
		__syncwarp();
	}
	if (threadIdx.x % 32 == 0)
		f->lines = job.steps * (32 / LANES);
}

/* Whatever is there now, over and over, until the last one is. */
__device__ void read_racing(const job &job, const direction &d, uint32_t warp, uint64_t end)
{
	const unsigned char *at = d.lines + (uint64_t)warp * DEPTH * STEP + threadIdx.x % 32 * 16;
	uint32_t salt = d.salt + warp * 977, polls = 0;
	findings *f = &d.found[warp];
	uint64_t flag = 0, lines = 0;
	while (!__all_sync(~0u, flag == job.steps)) {
		uint4 got = sync_load_packet(at);
		flag = flag_in(got);
		judge(f, got, flag, salt, flag != 0);
		lines += 32 / LANES;
		if (is_late(&polls, end)) {
			f->timed_out = 1;
			break;
		}
	}
	if (threadIdx.x % 32 == 0)
		f->lines = lines;
}

__global__ void __launch_bounds__(THREADS) exchange(const __grid_constant__ job job)
{
	const uint32_t i = blockIdx.x / (uint32_t)job.blocks, block = blockIdx.x % (uint32_t)job.blocks;
	const uint32_t warp = block * WARPS + threadIdx.x / 32;
	uint64_t end = sync_now_ns() + job.limit_ns;
	if (job.writes[i])
		write_lines(job, job.ends[i], warp, end);
	else if (job.racing)
		read_racing(job, job.ends[i], warp, end);
	else
		read_lines(job, job.ends[i], warp, end);
}

/* ---- The host's side ---- */

struct options {
	double lines, seconds;
	int gpus, racing, halves;
};

struct pair {
	int from, to;
	direction d;
};

struct test {
	options o;
	int n, npairs, blocks;
	pair pairs[MOST_GPUS * MOST_GPUS];
	job jobs[MOST_GPUS];
	cudaStream_t streams[MOST_GPUS];
};

void require(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	printf("FAIL cuda_lines: %s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

void *allocate(int gpu, size_t bytes)
{
	void *memory;
	require(cudaSetDevice(gpu), "cudaSetDevice");
	require(cudaMalloc(&memory, bytes), "cudaMalloc");
	require(cudaMemset(memory, 0, bytes), "cudaMemset");
	return memory;
}

void open_peers(const test *t)
{
	for (int i = 0; i < t->n; i++)
		for (int k = 0; k < t->n; k++) {
			int can = 0;
			if (i == k)
				continue;
			require(cudaDeviceCanAccessPeer(&can, i, k), "cudaDeviceCanAccessPeer");
			if (!can) {
				printf("SKIP cuda_lines: no CUDA peer access from GPU %d to GPU %d\n", i, k);
				exit(SKIPPED);
			}
			require(cudaSetDevice(i), "cudaSetDevice");
			require(cudaDeviceEnablePeerAccess(k, 0), "cudaDeviceEnablePeerAccess");
		}
}

void add_pair(test *t, int from, int to)
{
	size_t warps = (size_t)t->blocks * WARPS;
	pair *p = &t->pairs[t->npairs++];
	p->from = from;
	p->to = to;
	p->d.lines = (unsigned char *)allocate(to, warps * DEPTH * STEP);
	p->d.acks = (uint64_t *)allocate(from, warps * sizeof(uint64_t));
	p->d.found = (findings *)allocate(to, warps * sizeof(findings));
	p->d.salt = (uint32_t)t->npairs * 7919u;
}

void add_end(test *t, int gpu, const direction *d, int writes)
{
	job *j = &t->jobs[gpu];
	j->writes[j->n] = writes;
	j->ends[j->n++] = *d;
}

/* All blocks of a GPU must be resident at a time. */
void plan(test *t)
{
	int ends = t->n > 1 ? 2 * (t->n - 1) : 2, processors;
	require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
	t->blocks = processors / ends < MOST_BLOCKS ? processors / ends : MOST_BLOCKS;
	for (int i = 0; i < t->n; i++)
		for (int k = 0; k < t->n; k++)
			if (i != k || t->n == 1)
				add_pair(t, i, k);
	double warps = (double)t->npairs * t->blocks * WARPS;
	for (int i = 0; i < t->n; i++) {
		t->jobs[i].blocks = t->blocks;
		t->jobs[i].racing = t->o.racing;
		t->jobs[i].halves = t->o.halves;
		t->jobs[i].limit_ns = (uint64_t)(t->o.seconds * 1e9);
		t->jobs[i].steps = (uint64_t)(t->o.lines / (32 / LANES) / warps) + 1;
	}
	for (int p = 0; p < t->npairs; p++) {
		add_end(t, t->pairs[p].from, &t->pairs[p].d, 1);
		add_end(t, t->pairs[p].to, &t->pairs[p].d, 0);
	}
}

double now()
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double run(test *t)
{
	for (int i = 0; i < t->n; i++) {
		require(cudaSetDevice(i), "cudaSetDevice");
		require(cudaStreamCreateWithFlags(&t->streams[i], cudaStreamNonBlocking), "cudaStreamCreate");
		cudaFuncAttributes loaded; /* from here on: a kernel that spins would keep others from being loaded */
		require(cudaFuncGetAttributes(&loaded, exchange), "loading the kernel");
		require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	}
	double begin = now();
	for (int i = 0; i < t->n; i++) {
		require(cudaSetDevice(i), "cudaSetDevice");
		exchange<<<t->jobs[i].n * t->blocks, THREADS, 0, t->streams[i]>>>(t->jobs[i]);
		require(cudaGetLastError(), "launching");
	}
	for (int i = 0; i < t->n; i++)
		while (cudaStreamQuery(t->streams[i]) == cudaErrorNotReady)
			if (now() > begin + t->o.seconds + 20) {
				printf("FAIL cuda_lines: GPU %d does not become idle\n", i);
				fflush(stdout);
				_Exit(1);
			}
	return now() - begin;
}

/* Adds what one direction found; tells of its first torn line. */
void collect(test *t, const pair *p, findings *sum)
{
	int warps = t->blocks * WARPS;
	findings *f = (findings *)malloc((size_t)warps * sizeof(*f));
	require(cudaMemcpy(f, p->d.found, (size_t)warps * sizeof(*f), cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (int i = 0; i < warps; i++) {
		if (f[i].torn && !sum->torn)
			printf("%s GPU %d to %d, warp %d, step %u, line %u, lane %u, word %u: got 0x%08x, expected "
			       "0x%08x\n",
			       t->o.racing || t->o.halves ? "torn:" : "FAULT", p->from, p->to, i, f[i].step, f[i].line, f[i].lane,
			       f[i].word, f[i].got, f[i].expected);
		sum->lines += f[i].lines;
		sum->torn += f[i].torn;
		sum->timed_out += f[i].timed_out;
	}
	free(f);
}

int report(test *t, double seconds)
{
	findings sum;
	memset(&sum, 0, sizeof(sum));
	for (int p = 0; p < t->npairs; p++)
		collect(t, &t->pairs[p], &sum);
	double wanted = (double)t->jobs[0].steps * (32 / LANES) * t->npairs * t->blocks * WARPS;
	int missing = !t->o.racing && (double)sum.lines != wanted;
	int bad = sum.timed_out || missing || (sum.torn && !t->o.racing) ? 1 : 0;
	if (t->o.halves)
		bad = sum.torn == 0;
	printf("%s cuda_lines%s%s: %.3e lines read of %.3e written, %llu torn, %d pairs of %d GPUs, %.2e lines/s, %.2f s%s\n",
	       bad ? "FAIL" : "PASS", t->o.racing ? " --racing (torn ones are no failure)" : "",
	       t->o.halves ? " --halves (torn ones must be seen)" : "", (double)sum.lines, wanted, sum.torn, t->npairs,
	       t->n, (double)sum.lines / seconds, seconds,
	       sum.timed_out ? "; TIMED OUT: --seconds, or a line never came" : "");
	return bad;
}

int read_options(options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--racing"))
			o->racing = 1;
		else if (!strcmp(argv[i], "--halves"))
			o->halves = 1;
		else if (i + 1 == argc)
			return -1;
		else if (!strcmp(argv[i], "--lines"))
			o->lines = atof(argv[++i]);
		else if (!strcmp(argv[i], "--seconds"))
			o->seconds = atof(argv[++i]);
		else if (!strcmp(argv[i], "--gpus"))
			o->gpus = atoi(argv[++i]);
		else
			return -1;
	}
	return 0;
}

}

int main(int argc, char **argv)
{
	static test t;
	t.o.lines = 1e9;
	t.o.seconds = 60;
	if (read_options(&t.o, argc, argv)) {
		fprintf(stderr, "usage: %s [--lines N] [--seconds S] [--gpus G] [--racing] [--halves]\n", argv[0]);
		return 2;
	}
	cudaError_t error = cudaGetDeviceCount(&t.n);
	if (error != cudaSuccess || t.n == 0) {
		printf("SKIP cuda_lines: no CUDA: %s\n", error == cudaSuccess ? "no GPU" : cudaGetErrorString(error));
		return SKIPPED;
	}
	if (t.o.gpus && t.o.gpus < t.n)
		t.n = t.o.gpus;
	if (t.n > MOST_GPUS)
		t.n = MOST_GPUS;
	open_peers(&t);
	plan(&t);
	double seconds = run(&t);
	return report(&t, seconds);
}
