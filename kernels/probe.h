/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that show whether a network reaches a GPU's memory: a kernel of the receiving GPU waits for each as kernels of calls do, by a word in
 * pinned memory, and then compares all of its bytes. Compiles as C and as CUDA.
 */
#ifndef PROBE_H
#define PROBE_H

#include <stdint.h>

#include "plan/plan_eval.h"

enum {
	PROBE_MESSAGES = 3, /* of a slot, of 4 KiB and of 8 bytes, */
	PROBE_LONG =
	    2, /* the last one when all ranks have seen the first two: its bytes are always read back, which would bring late ones of others */
	PROBE_SLOT_BYTES = 64 << 10,
	PROBE_DEPTH = 4, /* slots: each message has one of its own */
	PROBE_AREA = PROBE_DEPTH * PROBE_SLOT_BYTES,
	PROBE_POISON = 0xa5,
	PROBE_THREADS = 256
};

#define PROBE_STOP UINT64_MAX

/* Of one sender, in pinned memory: two lines. */
struct probe_words {
	uint64_t arrived; /* messages; by the host. PROBE_STOP: no more will be looked at */
	uint64_t seed; /* of their bytes; by the host, before the launch */
	uint64_t pad[14];
	uint64_t begun; /* 1: the kernel runs */
	uint64_t checked; /* messages that it has looked at */
	uint64_t wrong; /* a bit each: not all of its bytes were those that were sent */
	uint64_t more_pad[13];
};

/* A launch has a block for each sender. */
struct probe_args {
	const unsigned char *slots; /* PROBE_AREA of each sender */
	struct probe_words *words;
	uint64_t timeout_ns; /* without a message */
};

PLAN_FN uint64_t probe_bytes(int message)
{
	return message == 0 ? (uint64_t)PROBE_SLOT_BYTES : message == 1 ? 4096 : 8;
}

/* Eight bytes of a message. */
PLAN_FN uint64_t probe_word(uint64_t seed, int message, uint64_t i)
{
	const uint64_t x = (seed ^ (uint64_t)message << 56 ^ i) * 0x9e3779b97f4a7c15u;
	return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
}

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or a cudaError_t. */
int codelets_probe(const struct probe_args *args, int senders, void *stream);
int codelets_load_probe(void);

#ifdef __cplusplus
}
#endif

#endif
