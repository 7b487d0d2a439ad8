/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct entry {
	struct entry *next;
	const void *owner;
	struct gpu_blocks asked;
	struct gpu_blocks_sum others; /* when the first rank of its communicator asked */
	int offered, blocks;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static _Atomic(const char *) variables = "CORALE_MAX_CTAS";

int gpu_blocks_room(int processors)
{
	return processors - processors / 32;
}

/* Multiprocessors for communicators that may still come, where so many have been made: for each as many as it needs at least; where eight do not fit
 * anyway, half of what is left. */
static int kept_back(const struct gpu_blocks *asked, int comms, int left)
{
	const int later = comms < GPU_BLOCKS_COMMS ? GPU_BLOCKS_COMMS - comms : 0;
	return GPU_BLOCKS_COMMS * asked->least <= gpu_blocks_room(asked->processors) ? later * asked->least
										     : left / 2;
}

int gpu_blocks_offer(const struct gpu_blocks *asked, const struct gpu_blocks_sum *others)
{
	const int wish = asked->wish, room = gpu_blocks_room(asked->processors), left = room - others->blocks;
	int most = left - kept_back(asked, others->comms + 1, left);
	if (wish >= room) /* no limit */
		return wish;
	most = most > asked->least ? most : asked->least;
	most = most > 1 ? most : 1;
	return wish < most ? wish : most;
}

static int is_on(const struct entry *e, const struct gpu_blocks *b)
{
	return !memcmp(e->asked.gpu, b->gpu, ENGINE_UUID_BYTES);
}

/* An entry of this communicator on this GPU, from one on; NULL: there is none. */
static struct entry *find_alike(struct entry *from, const struct gpu_blocks *b)
{
	while (from && !(from->asked.comm == b->comm && is_on(from, b)))
		from = from->next;
	return from;
}

/* The most of a communicator's ranks, whose last entry this is. */
static int blocks_of(const struct entry *last)
{
	int most = last->blocks;
	for (struct entry *e = entries; (e = find_alike(e, &last->asked)); e = e->next)
		most = e->blocks > most ? e->blocks : most;
	return most;
}

/* With the lock held. */
static struct gpu_blocks_sum sum_on(const struct gpu_blocks *b)
{
	struct gpu_blocks_sum sum = { 0, 0 };
	for (const struct entry *e = entries; e; e = e->next) {
		if (!is_on(e, b) || find_alike(e->next, &e->asked))
			continue;
		sum.comms++;
		sum.blocks += blocks_of(e);
	}
	return sum;
}

/* With the lock held. */
static struct entry **find_owner(const void *owner)
{
	struct entry **at = &entries;
	while (*at && (*at)->owner != owner)
		at = &(*at)->next;
	return at;
}

int gpu_blocks_claim(const void *owner, int rank, const struct gpu_blocks *asked, int *offered,
		     struct gpu_blocks_sum *others)
{
	struct entry *made = malloc(sizeof *made);
	if (!made)
		return log_error(CORALE_ENOMEM, rank, "a CUDA communicator: no memory to count its blocks");
	pthread_mutex_lock(&lock);
	*made = (struct entry){ .next = entries, .owner = owner, .asked = *asked };
	const struct entry *alike = find_alike(entries, asked);
	made->others = alike ? alike->others : sum_on(asked);
	made->offered = alike ? alike->offered : gpu_blocks_offer(asked, &made->others);
	made->blocks = made->offered > asked->least ? made->offered : asked->least;
	*offered = made->offered;
	*others = made->others;
	entries = made;
	pthread_mutex_unlock(&lock);
	return 0;
}

struct gpu_blocks_sum gpu_blocks_settle(const void *owner, int blocks)
{
	struct gpu_blocks_sum sum = { 0, 0 };
	pthread_mutex_lock(&lock);
	struct entry *found = *find_owner(owner);
	if (found) {
		found->blocks = blocks;
		sum = sum_on(&found->asked);
	}
	pthread_mutex_unlock(&lock);
	return sum;
}

void gpu_blocks_release(const void *owner)
{
	pthread_mutex_lock(&lock);
	struct entry **at = find_owner(owner), *found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&lock);
	free(found);
}

void gpu_blocks_name_variables(const char *names)
{
	atomic_store(&variables, names);
}

/* The most that so many communicators can have alike; 0: they do not fit. */
static int alike(const struct gpu_blocks *asked, int comms)
{
	const int room = gpu_blocks_room(asked->processors),
		  each = (room - kept_back(asked, comms, 2 * room / (comms + 1))) / comms;
	return each > asked->least ? each : room / comms >= asked->least ? asked->least : 0;
}

void gpu_blocks_log_cut(int rank, const char *gpu, const struct gpu_blocks *asked,
			const struct gpu_blocks_sum *others, int blocks)
{
	static _Atomic int warned, informed;
	const int each = alike(asked, others->comms + 1);
	if (!others->comms)
		log_once(&informed, LOG_INFO, rank,
			 "kernels have at most %d blocks instead of %d on rank %d's GPU %s, so that %d "
			 "communicators have room",
			 blocks, asked->wish, rank, gpu, GPU_BLOCKS_COMMS);
	else
		log_once(&warned, LOG_WARN, rank,
			 "a communicator has at most %d blocks instead of %d on rank %d's GPU %s: the other "
			 "%d of the process hold %d of %d multiprocessors, and calls of all must find room "
			 "side by side. Its large calls take longer. %s=%d before the first one is created "
			 "gives all %d as many",
			 blocks, asked->wish, rank, gpu, others->comms, others->blocks, asked->processors,
			 atomic_load(&variables), each > 0 ? each : 1, others->comms + 1);
}

void gpu_blocks_log_excess(int rank, const char *gpu, const struct gpu_blocks *asked,
			   const struct gpu_blocks_sum *sum)
{
	static _Atomic int warned;
	const int room = gpu_blocks_room(asked->processors), each = alike(asked, sum->comms);
	char limit[128] = "Create fewer";
	if (sum->comms < 2 || sum->blocks <= room)
		return;
	if (each)
		snprintf(limit, sizeof limit, "Set %s=%d before the first one is created",
			 atomic_load(&variables), each);
	log_once(&warned, LOG_WARN, rank,
		 "%d communicators hold %d blocks on rank %d's GPU %s, which has room for %d: calls of "
		 "several of them that run at one time, on several streams, may wait for each other for "
		 "ever. %s, or make their calls on one stream",
		 sum->comms, sum->blocks, rank, gpu, room, limit);
}
