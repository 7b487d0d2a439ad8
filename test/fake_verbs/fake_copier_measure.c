/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate of a process that copies, asked as an adapter asks it. */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "fake_copier.h"
#include "copier.h"
#include "wire.h"

enum { FROM = 1, TO };

/* This program stands for an adapter whose number no other one has. */
uint16_t fake_wire_lid(void)
{
	return (uint16_t)(0x8000 | getpid());
}

static void offer(uint32_t key, size_t bytes)
{
	struct copier_memory memory;
	copier_memory_make(0, bytes, &memory);
	copier_check(!fake_copier_has((void *)memory.at), "asking for the kind of memory");
	copier_check(fake_copier_register(key, 0, (void *)memory.at, memory.bytes), "registering memory");
}

int copier_measure(const struct copier_options *o)
{
	const size_t all = o->bytes * (size_t)o->depth;
	uint64_t copies = 0;
	copier_check(cudaFree(NULL), "using a GPU");
	if (!fake_copier_is_used()) {
		fprintf(stderr, "fake_copier: set FAKE_VERBS_COPIER=%s, too\n", o->path);
		return 2;
	}
	offer(FROM, all);
	offer(TO, all);
	const double begin = clock_s();
	double now = begin;
	for (uint64_t last = 0; now < begin + o->seconds; now = clock_s()) {
		const uint64_t at = copies % (uint64_t)o->depth * o->bytes;
		const struct copier_place to = { fake_wire_lid(), TO, at };
		if (copies >= (uint64_t)o->depth)
			fake_copier_wait(last - (uint64_t)o->depth + 1);
		last = fake_copier_begin(FROM, at, to, o->bytes);
		copies++;
	}
	printf("%zu bytes, %d at a time: %.1f GB/s\n", o->bytes, o->depth,
	       (double)copies * (double)o->bytes / (now - begin) * 1e-9);
	return 0;
}
