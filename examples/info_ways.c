/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages between two processes take each way: through a slot in shared memory, by a copy at each end, or by one copy of the kernel's. */
#define _GNU_SOURCE
#include "info.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/wait.h"

enum { MOST = 1 << 20, ROUNDS = 15, LIFE_S = 10 };

/* Shared by both processes. */
struct shared {
	_Atomic int asked, answered; /* messages */
	size_t bytes;
	int64_t wrote_ns;
	unsigned char slot[MOST];
};

/* The sender, until it is killed. */
static void serve(struct shared *s, const unsigned char *from)
{
	alarm(LIFE_S); /* should the parent not live to end this */
	for (;;) {
		const int next = atomic_load(&s->answered) + 1;
		while (atomic_load(&s->asked) != next)
			sched_yield();
		const int64_t start = wait_now_ns();
		memcpy(s->slot, from, s->bytes);
		s->wrote_ns = wait_now_ns() - start;
		atomic_store(&s->answered, next);
	}
}

/* Both copies of one message; < 0: the sender does not answer. */
static int64_t by_slot(struct shared *s, unsigned char *to, size_t bytes)
{
	const int64_t until = wait_now_ns() + 1000000000;
	s->bytes = bytes;
	const int next = atomic_fetch_add(&s->asked, 1) + 1;
	while (atomic_load(&s->answered) != next && wait_now_ns() < until)
		sched_yield();
	if (atomic_load(&s->answered) != next)
		return -1;
	const int64_t start = wait_now_ns();
	memcpy(to, s->slot, bytes);
	return s->wrote_ns + wait_now_ns() - start;
}

static int64_t by_reference(pid_t sender, const unsigned char *from, unsigned char *to, size_t bytes)
{
	const struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)from, bytes };
	const int64_t start = wait_now_ns();
	if (process_vm_readv(sender, &local, 1, &remote, 1, 0) != (ssize_t)bytes)
		return -1;
	return wait_now_ns() - start;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* Medians of one size as text; what can't be measured is left out. */
static void measure(pid_t sender, struct shared *s, const unsigned char *from, unsigned char *to,
		    size_t bytes, char *text, size_t room)
{
	int64_t slot[ROUNDS], reference[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		slot[i] = by_slot(s, to, bytes);
		reference[i] = by_reference(sender, from, to, bytes);
	}
	qsort(slot, ROUNDS, sizeof *slot, compare);
	qsort(reference, ROUNDS, sizeof *reference, compare);
	int used = snprintf(text, room, "%zu KB:", bytes >> 10);
	if (slot[0] >= 0)
		used += snprintf(text + used, room - (size_t)used, " %.1f us through a slot",
				 (double)slot[ROUNDS / 2] / 1e3);
	if (reference[0] >= 0)
		snprintf(text + used, room - (size_t)used, "%s %.1f us by reference", slot[0] >= 0 ? "," : "",
			 (double)reference[ROUNDS / 2] / 1e3);
}

void info_ways(void)
{
	static const size_t sizes[] = { 4 << 10, 64 << 10, MOST };
	struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char *from = malloc(MOST), *to = malloc(MOST);
	char text[160];
	pid_t sender = -1;
	if (s == MAP_FAILED || !from || !to)
		goto end;
	memset(s, 1, sizeof *s); /* pages are made outside the measurement */
	memset(to, 1, MOST);
	atomic_store(&s->asked, 0);
	atomic_store(&s->answered, 0);
	sender = fork();
	if (!sender) {
		memset(from, 2, MOST);
		serve(s, from);
	}
	for (int i = 0; sender > 0 && i < 3; i++) {
		measure(sender, s, from, to, sizes[i], text, sizeof text);
		line(i ? "" : "  messages, just now", text);
	}
	if (sender > 0) {
		kill(sender, SIGKILL);
		waitpid(sender, NULL, 0);
	}
end:
	if (s != MAP_FAILED)
		munmap(s, sizeof *s);
	free(from);
	free(to);
}
