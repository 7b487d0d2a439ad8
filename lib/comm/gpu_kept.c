/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_kept.h"

#include <pthread.h>
#include <stdlib.h>

#include "gpu_direct.h"
#include "net/proxy.h"

struct entry {
	struct entry *next;
	struct gpu_kept kept;
	struct engine_kept *memory; /* that the engine has given up */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *first;

/* 1: no peer writes there any more; then the memory is all that is left. */
static int is_through(struct gpu_kept *k)
{
	if (k->proxy && !proxy_free(k->proxy))
		return 0;
	k->proxy = NULL;
	if (k->direct && !gpu_direct_free(k->direct))
		return 0;
	k->direct = NULL;
	return 1;
}

static void sweep(void)
{
	pthread_mutex_lock(&lock);
	for (struct entry **at = &first, *e; (e = *at);) {
		if (!is_through(&e->kept)) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		engine_cuda.free_kept(e->memory);
		free(e);
	}
	pthread_mutex_unlock(&lock);
}

void gpu_keep(struct gpu_kept kept, struct engine *engine, int slab_alone)
{
	if (!slab_alone)
		sweep();
	if (is_through(&kept)) {
		if (slab_alone)
			engine_cuda.free_kept(engine_cuda.keep(engine, 1));
		return; /* the rest is freed with the engine */
	}
	struct engine_kept *memory = engine_cuda.keep(engine, slab_alone);
	struct entry *e = malloc(sizeof *e);
	if (!e) /* it is kept for ever */
		return;
	*e = (struct entry){ NULL, kept, memory };
	pthread_mutex_lock(&lock);
	e->next = first;
	first = e;
	pthread_mutex_unlock(&lock);
}
