/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUs in one thread of this process, enough of them to run the fused kernels: every CUDA thread is a fiber, and so is the host
 * program of every rank. Who goes on at each point where memory of others is read or written is drawn at random, from a
 * seed, so a run that failed can be repeated.
 *
 * Under ThreadSanitizer every fiber is a thread of its own, and switching from one to another orders nothing: what it
 * knows of order is what the kernels' barriers, fences and ends of kernels make. Scheduling is compiled without it.
 *
 * Memory. A packet that is stored or loaded with relaxed accesses falls apart into units: 4 bytes, or what gpu_whole says of
 * the memory. Lines of 128 bytes are whole when 8 neighbouring threads of a warp access them together, in one instruction.
 * Order is made by the fences in front of and behind an access, as PTX has it; an end of a kernel is such a
 * fence for all of its threads, so what a packet carries without any is the order of whole kernels.
 *
 * Streams. A rank has some, whose kernels follow each other in any order and run beside each other but where events order them.
 * While several are in use, kernels start late at times. Half of the ranks have one channel for all streams, as a GPU has where a program
 * has more streams than channels: there a kernel that may not start yet holds up all that are launched behind it.
 */
#ifndef GPU_H
#define GPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_MAX_HOSTS = 24, GPU_STREAMS = 3, GPU_WARP = 32, GPU_LINE_LANES = 8, GPU_BARRIERS = 16 };

/* ---- For the test ---------------------------------------------------------------------------------------- */

/*
 * Runs host(rank, arg) for each rank until all have returned and their kernels have ended. 0, or -1 with a line on stdout:
 * nobody can go on, or there was no end.
 */
int gpu_run(int hosts, void (*host)(int rank, void *arg), void *arg, uint64_t seed);

/* Accesses of packets from begin on are of units of so many bytes: 4, 8 or 128. Until gpu_forget. */
void gpu_whole(const void *begin, size_t bytes, unsigned unit);
void gpu_forget(void);

/* From now on a word from begin on that two warps of a block load with acquire fails the run. Until gpu_forget. */
void gpu_one_polls(const void *begin, size_t bytes);

/* By a host: waits until the kernels of its first stream have ended; lets others go on for some turns; a random number. */
void gpu_synchronize(void);
void gpu_pause(unsigned turns);
unsigned gpu_random(unsigned below);

/* Places at which another fiber could go on, since the start of the program. */
uint64_t gpu_turns(void);

/* ---- For a test that looks at what kernels store: between two runs ---------------------------------------- */

/* From now on vectors and packets that kernels store from begin on are kept, and all launches. */
void gpu_record(const void *begin, size_t bytes);

/* In the order of all ranks' launches. */
struct gpu_launched {
	int rank;
	unsigned blocks, threads;
	void *args; /* a copy of the kernel's */
	size_t bytes; /* of them */
};

struct gpu_store {
	unsigned char *to;
	size_t launch;
	unsigned char value[16];
};

const struct gpu_launched *gpu_launches(size_t *n);
const struct gpu_store *gpu_stores(size_t *n);

/* Forgets them and keeps no more. */
void gpu_record_end(void);

/* ---- For kernels ----------------------------------------------------------------------------------------- */

/* Enqueues a kernel on a stream of the calling host, GPU_STREAM(i), of which 0 is NULL: run(kernel, copy of the arguments) in every
 * thread. It runs with most_threads, where it asks for more. */
#define GPU_STREAM(i) ((void *)(uintptr_t)(i))
typedef void gpu_runner(const void *kernel, const void *args);
void gpu_launch(gpu_runner *run, const void *kernel, const void *args, size_t bytes, unsigned blocks,
		unsigned threads, unsigned most_threads, void *stream);

/* What a stream has so far; what is launched on another one from now on comes after that. All zeros: nothing. */
struct gpu_event {
	uint64_t launches[GPU_STREAMS]; /* of that stream, and what it still waits for */
};

void gpu_mark(struct gpu_event *event, void *stream);
void gpu_await(void *stream, const struct gpu_event *event);

unsigned gpu_thread(void);
unsigned gpu_threads(void);
unsigned gpu_block(void);
unsigned gpu_blocks(void);

/* The block's shared memory, of the first caller's size; filled with what nobody has stored. */
void *gpu_shared(size_t bytes);

/* A barrier of so many threads of a block (0: all); whether all of them said good. */
int gpu_barrier(unsigned number, unsigned threads, int good);
/* Meetings of the lanes of a mask: who said yes, one bit each; lane source's value; nothing but order. */
uint32_t gpu_ballot(uint32_t mask, int yes);
uint64_t gpu_shuffle(uint32_t mask, uint64_t value, unsigned source);
void gpu_warp_barrier(uint32_t mask);

/* Another fiber may go on here: surely, or once in so many times. */
void gpu_yield(void);
void gpu_maybe(unsigned once_in);

/* A vector or packet goes to memory, which may be recorded. */
extern int gpu_recording;
void gpu_stored(const void *to, const void *value);

/* Nanoseconds that have passed, a thousand a turn. */
uint64_t gpu_now(void);

/* What gpu_whole said of an address. */
unsigned gpu_unit(const void *address);
void gpu_polls(const void *word); /* loads it with acquire */

/*
 * Meets the other 7 lanes of a line of 128 bytes. If all access the same line, runs access(operand) of each as one instruction,
 * each in the name of its lane; else gives 0.
 */
int gpu_together(const void *address, void (*access)(void *operand), void *operand);

/* Waits for the end of the kernel before; a kernel may start earlier. */
void gpu_previous_kernel(void);

/* ---- Order, for ThreadSanitizer alone -------------------------------------------------------------------- */

/* After a relaxed load: the next fence of this thread, or the end of this kernel, orders what was released to the word. */
void gpu_loaded(const void *word);
/* After an acquiring load, or that of a header: stores that depend on it come later, though PTX has no such order without a fence. */
void gpu_depended(const void *word);
/* Before a relaxed store: what it releases. Just behind a fence all that came before; else what came before this kernel. */
void gpu_carried(const void *word);
void gpu_fence(void);

#ifdef __cplusplus
}
#endif

#endif
