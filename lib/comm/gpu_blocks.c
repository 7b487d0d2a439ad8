#include "gpu_blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct entry {
	struct entry *next;
	const void *owner;
	struct gpu_blocks of;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static _Atomic(const char *) variables = "CORALE_MAX_CTAS";

static int on_gpu(const struct entry *e, const struct gpu_blocks *b)
{
	return !memcmp(e->of.gpu, b->gpu, ENGINE_UUID_BYTES);
}

/* An entry behind this one is of the same communicator and GPU. */
static int is_repeated(const struct entry *e)
{
	for (const struct entry *other = e->next; other; other = other->next)
		if (other->of.comm == e->of.comm && on_gpu(other, &e->of))
			return 1;
	return 0;
}

/* With the lock held. */
static struct gpu_blocks_sum sum_on(const struct gpu_blocks *b)
{
	struct gpu_blocks_sum sum = { 0, 0, 0 };
	for (const struct entry *e = entries; e; e = e->next) {
		if (!on_gpu(e, b) || is_repeated(e))
			continue;
		sum.comms++;
		sum.ranks += e->of.ranks;
		sum.blocks += e->of.ranks * e->of.blocks;
	}
	return sum;
}

int gpu_blocks_exceed(const struct gpu_blocks_sum *sum, int processors)
{
	return sum->comms > 1 && sum->blocks > processors;
}

static void log_excess(int rank, const struct gpu_blocks *b, const struct gpu_blocks_sum *sum)
{
	static _Atomic int warned, informed;
	const int fit = b->processors / sum->ranks;
	log_once(
	    b->given ? &warned : &informed, b->given ? LOG_WARN : LOG_INFO, rank,
	    "%d communicators have %d ranks on this GPU, whose kernels may wait in %d blocks, and it has %d "
	    "multiprocessors: calls of several communicators that run at one time, on several streams, may "
	    "wait for each other for ever. Give all of them fewer blocks (%s: at most %d; this one has "
	    "%d), or make their calls on one stream",
	    sum->comms, sum->ranks, sum->blocks, b->processors, atomic_load(&variables), fit < 1 ? 1 : fit,
	    b->blocks);
}

struct gpu_blocks_sum gpu_blocks_add(const void *owner, int rank, const struct gpu_blocks *blocks)
{
	struct entry *made = malloc(sizeof *made);
	struct gpu_blocks_sum sum = { 0, 0, 0 };
	if (!made) /* then it is not counted: nothing else depends on it */
		return sum;
	pthread_mutex_lock(&lock);
	*made = (struct entry){ entries, owner, *blocks };
	entries = made;
	sum = sum_on(blocks);
	pthread_mutex_unlock(&lock);
	if (gpu_blocks_exceed(&sum, blocks->processors))
		log_excess(rank, blocks, &sum);
	return sum;
}

void gpu_blocks_remove(const void *owner)
{
	pthread_mutex_lock(&lock);
	struct entry **at = &entries, *found;
	while (*at && (*at)->owner != owner)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&lock);
	free(found);
}

void gpu_blocks_name_variables(const char *names)
{
	atomic_store(&variables, names);
}
