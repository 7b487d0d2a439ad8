/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of corale_mem_alloc that outlives its communicator. */
#include <pthread.h>
#include <stdlib.h>

#include "comm_create.h"

struct outlived {
	struct outlived *next;
	const corale_comm *comm;
	void *buffer;
	int on_gpu;
};

static pthread_mutex_t outlived_lock = PTHREAD_MUTEX_INITIALIZER;
static struct outlived *outlived;

void mem_keep_outlived(const struct comm *comm, void *buffer)
{
	struct outlived *o = malloc(sizeof *o);
	if (!o)
		return;
	pthread_mutex_lock(&outlived_lock);
	*o = (struct outlived){ outlived, comm->handle, buffer, comm->wants_gpu };
	outlived = o;
	pthread_mutex_unlock(&outlived_lock);
}

int mem_free_outlived(const corale_comm *comm, void *buffer)
{
	pthread_mutex_lock(&outlived_lock);
	struct outlived **at = &outlived;
	while (*at && ((*at)->comm != comm || (*at)->buffer != buffer))
		at = &(*at)->next;
	struct outlived *o = *at;
	if (o)
		*at = o->next;
	pthread_mutex_unlock(&outlived_lock);
	if (!o)
		return 0;
	if (o->on_gpu)
		engine_memory.free(NULL, buffer, 0);
	else
		free(buffer);
	free(o);
	return 1;
}
