/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts ranks as processes, reaps those that die, and ends those that hang. */
#define _GNU_SOURCE
#include "cuda_children.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct cuda_children *cuda_children_create(int n)
{
	struct cuda_children *c =
	    mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED || n > CUDA_CHILDREN_MOST)
		return NULL;
	c->n = n;
	return c;
}

/* ---- The parent ---- */

static void begin(struct cuda_children *c)
{
	for (int i = 0; i < c->n; i++)
		atomic_store(&c->dead[i], 0);
	for (int g = 0; g < CUDA_CHILDREN_GROUPS; g++)
		memset(c->exchanges[g].round, 0, sizeof(c->exchanges[g].round));
}

static void run_child(struct cuda_children *c, int rank,
		      int (*body)(struct cuda_children *, int rank, void *), void *arg, int log_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(log_fd, STDERR_FILENO);
	int ret = body(c, rank, arg);
	fflush(NULL);
	_exit(ret);
}

/* Reaps whoever has ended; how many are left. */
static int reap(struct cuda_children *c, int *bad)
{
	int left = 0, status;
	for (int i = 0; i < c->n; i++) {
		if (atomic_load(&c->dead[i]))
			continue;
		if (waitpid(c->pids[i], &status, WNOHANG) != c->pids[i]) {
			left++;
			continue;
		}
		atomic_store(&c->dead[i], 1);
		*bad += !WIFEXITED(status) || WEXITSTATUS(status);
	}
	return left;
}

static void end(struct cuda_children *c)
{
	int ignored = 0;
	for (int i = 0; i < c->n; i++)
		if (!atomic_load(&c->dead[i]))
			kill(c->pids[i], SIGKILL);
	while (reap(c, &ignored))
		clock_sleep_s(0.001);
}

int cuda_children_run(struct cuda_children *c, int (*body)(struct cuda_children *, int rank, void *),
		      void *arg, double stall_s, int log_fd)
{
	int bad = 0, seen = atomic_load(&c->progress);
	double since = clock_s();
	begin(c);
	fflush(NULL);
	for (int i = 0; i < c->n; i++) {
		pid_t pid = fork(); /* c is shared: only the parent writes it down */
		if (pid == 0)
			run_child(c, i, body, arg, log_fd);
		if (pid < 0)
			abort();
		c->pids[i] = pid;
	}
	while (reap(c, &bad)) {
		int now = atomic_load(&c->progress);
		if (now != seen) {
			seen = now;
			since = clock_s();
		}
		if (clock_s() > since + stall_s) {
			end(c);
			return -1;
		}
		clock_sleep_s(0.001);
	}
	return bad;
}

/* ---- The children ---- */

void cuda_group_join(struct cuda_group *group, struct cuda_children *children, int number, int child,
		     int rank, int size)
{
	*group = (struct cuda_group){ children, number, rank, size, 0 };
	children->exchanges[number].child[rank] = child;
}

/* Member rank has come to a round. */
static int await(const struct cuda_group *group, int rank, int round, double end)
{
	struct cuda_exchange *x = &group->children->exchanges[group->number];
	while (atomic_load(&x->round[rank]) < round) {
		if (clock_s() > end || atomic_load(&group->children->dead[x->child[rank]]))
			return -1;
		clock_sleep_s(50e-6);
	}
	return 0;
}

int cuda_group_allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct cuda_group *group = ctx;
	struct cuda_exchange *x = &group->children->exchanges[group->number];
	double end = clock_s() + CUDA_CHILDREN_WAIT_S;
	int round = ++group->round;
	if (bytes > CUDA_CHILDREN_SLOT) {
		fprintf(stderr, "the test's all-gather takes at most %d bytes, not %zu\n", CUDA_CHILDREN_SLOT,
			bytes);
		return -1;
	}
	memcpy(x->data[round % 2][group->rank], in, bytes);
	atomic_store(&x->round[group->rank], round);
	for (int r = 0; r < group->size; r++) {
		if (await(group, r, round, end))
			return -1;
		memcpy((unsigned char *)out + (size_t)r * bytes, x->data[round % 2][r], bytes);
	}
	return 0;
}

int cuda_group_meet(struct cuda_group *group)
{
	return cuda_group_largest(group, 0) < 0 ? -1 : 0;
}

int cuda_group_largest(struct cuda_group *group, int value)
{
	int all[CUDA_CHILDREN_MOST], largest = value;
	if (cuda_group_allgather(group, &value, sizeof(value), all))
		return -1;
	for (int r = 0; r < group->size; r++)
		largest = all[r] > largest ? all[r] : largest;
	return largest;
}
