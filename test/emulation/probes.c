/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel that looks at a network's first messages: what it says of those that are whole, of late ones, and of none. */
#include <stdio.h>
#include <string.h>

#include "emulation_test.h"
#include "gpu.h"
#include "kernels/probe.h"

enum { SENDERS = 2, LATE = 1 /* of the first sender */ };

struct probing {
	unsigned char slots[SENDERS * PROBE_AREA];
	struct probe_words words[SENDERS];
	int stops; /* before the last message */
};

static void put(struct probing *p, int sender, int message, size_t from, size_t to)
{
	unsigned char *slot = p->slots + (size_t)sender * PROBE_AREA + (size_t)message * PROBE_SLOT_BYTES;
	for (size_t i = from; i < to; i++)
		((uint64_t *)(void *)slot)[i] = probe_word(p->words[sender].seed, message, i);
}

/* The second half of a late message is never there, as far as the kernel can tell. */
static void send(struct probing *p, int sender, int message)
{
	const size_t words = probe_bytes(message) / 8;
	put(p, sender, message, 0, sender == 0 && message == LATE ? words / 2 : words);
	gpu_pause(gpu_random(200));
	__atomic_store_n(&p->words[sender].arrived, (uint64_t)message + 1, __ATOMIC_RELEASE);
}

static void network(int rank, void *arg)
{
	struct probing *p = arg;
	const struct probe_args args = { p->slots, p->words, UINT64_MAX };
	codelets_probe(&args, SENDERS, GPU_STREAM(0));
	for (int m = 0; m < PROBE_MESSAGES - p->stops; m++)
		for (int s = 0; s < SENDERS; s++)
			send(p, s, m);
	for (int s = 0; p->stops && s < SENDERS; s++) {
		while (__atomic_load_n(&p->words[s].checked, __ATOMIC_ACQUIRE) < PROBE_MESSAGES - 1)
			gpu_pause(10);
		__atomic_store_n(&p->words[s].arrived, PROBE_STOP, __ATOMIC_RELEASE);
	}
	gpu_synchronize();
}

static int run_probe(int stops)
{
	static struct probing p;
	memset(&p, 0, sizeof p);
	memset(p.slots, PROBE_POISON, sizeof p.slots);
	p.stops = stops;
	gpu_forget();
	for (int s = 0; s < SENDERS; s++)
		p.words[s].seed = test_seed + (uint64_t)s;
	if (gpu_run(1, network, &p, test_seed))
		return -1;
	int faults = 0;
	for (int s = 0; s < SENDERS; s++)
		faults += !p.words[s].begun || p.words[s].checked != (uint64_t)(PROBE_MESSAGES - stops) ||
			  p.words[s].wrong != (s == 0 ? 1u << LATE : 0);
	if (faults)
		printf("# probes, %d not sent: %d senders' messages are not told as they were\n", stops,
		       faults);
	return faults;
}

int test_probes(void)
{
	int faults = run_probe(0);
	return faults ? faults : run_probe(1);
}
