/* Ranks as threads of one process: the bootstrap. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "state/comm.h"
#include "base/log.h"

struct corale_inproc {
	int size;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int arrived, left; /* of the all-gather under way */
	unsigned round;
	unsigned char *data;
	size_t bytes;
	int failed;
};

struct inproc_rank {
	struct corale_inproc *group;
	int rank;
};

int corale_inproc_create(int n, corale_inproc **out)
{
	if (n < 1 || !out)
		return log_error(CORALE_EINVAL, -1, "corale_inproc_create: %d ranks", n);
	corale_inproc *g = calloc(1, sizeof *g);
	if (!g)
		return log_error(CORALE_ENOMEM, -1, "no memory for a group of %d threads", n);
	g->size = n;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->changed, NULL);
	*out = g;
	return 0;
}

void corale_inproc_destroy(corale_inproc *g)
{
	if (!g)
		return;
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	free(g->data);
	free(g);
}

/* The last to arrive opens the round's result; the last to leave closes it for the next round. */
static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct inproc_rank *me = ctx;
	corale_inproc *g = me->group;
	pthread_mutex_lock(&g->lock);
	while (g->left)
		pthread_cond_wait(&g->changed, &g->lock);
	if (!g->arrived) {
		free(g->data);
		g->data = malloc(bytes * (size_t)g->size);
		g->bytes = bytes;
		g->failed = !g->data;
	}
	g->failed |= bytes != g->bytes;
	if (!g->failed)
		memcpy(g->data + bytes * (size_t)me->rank, in, bytes);
	unsigned round = g->round;
	if (++g->arrived == g->size) {
		g->left = g->size;
		g->round++;
		pthread_cond_broadcast(&g->changed);
	}
	while (g->round == round)
		pthread_cond_wait(&g->changed, &g->lock);
	int failed = g->failed;
	if (!failed)
		memcpy(out, g->data, bytes * (size_t)g->size);
	if (!--g->left) {
		g->arrived = 0;
		pthread_cond_broadcast(&g->changed);
	}
	pthread_mutex_unlock(&g->lock);
	return failed;
}

int corale_comm_create_inproc(corale_inproc *group, int rank, const corale_config *config, corale_comm **comm)
{
	if (!group || rank < 0 || rank >= group->size)
		return log_error(CORALE_EINVAL, rank,
				 "corale_comm_create_inproc: no group, or rank %d is not in it", rank);
	struct inproc_rank *me = malloc(sizeof *me);
	if (!me)
		return log_error(CORALE_ENOMEM, rank, "no memory for rank %d", rank);
	*me = (struct inproc_rank){ group, rank };
	corale_bootstrap bootstrap = { rank, group->size, me, allgather };
	return corale_private_comm_create(&bootstrap, config, NULL, NULL, free, me, comm);
}
