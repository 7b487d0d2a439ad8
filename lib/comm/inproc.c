/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as threads of one process: the bootstrap. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm_doors.h"
#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"

enum { MOST_SECONDS = 1000000000 }; /* beyond, the creation is refused */

struct round {
	unsigned char *data; /* of all ranks */
	size_t bytes; /* of a rank, as the first has them */
	int failed; /* 0, or a code */
};

struct corale_inproc {
	int size;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned number; /* of the all-gather under way, */
	int arrived; /* the ranks that have come to it, */
	unsigned char *here; /* [rank]: 1 for each of them */
	struct round rounds[2]; /* it, and the one before, whose result may still be copied */
	int given_up; /* 1 + the rank that has waited too long: ranks no longer agree on which all-gather is the next */
};

struct inproc_rank {
	struct corale_inproc *group;
	int rank;
	double timeout; /* seconds; 0: none */
	const char *timeout_name; /* the setting that gave it */
};

int corale_inproc_create(int n, corale_inproc **out)
{
	if (process_refuses("corale_inproc_create"))
		return CORALE_ENOTSUP;
	if (n < 1 || !out)
		return log_error(CORALE_EINVAL, -1, "corale_inproc_create: %d ranks", n);
	corale_inproc *g = calloc(1, sizeof *g);
	unsigned char *here = calloc((size_t)n, 1);
	if (!g || !here) {
		free(g);
		free(here);
		return log_error(CORALE_ENOMEM, -1, "no memory for a group of %d threads", n);
	}
	g->size = n;
	g->here = here;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->changed, NULL);
	*out = g;
	return 0;
}

void corale_inproc_destroy(corale_inproc *g)
{
	if (!g || process_refuses("corale_inproc_destroy"))
		return;
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	free(g->rounds[0].data);
	free(g->rounds[1].data);
	free(g->here);
	free(g);
}

/* This rank's part; the last to come opens the result. Under the lock. */
static void put(struct inproc_rank *me, struct round *r, const void *in, size_t bytes)
{
	corale_inproc *g = me->group;
	if (!g->arrived) {
		free(r->data);
		*r = (struct round){ malloc(bytes * (size_t)g->size), bytes, 0 };
		r->failed = r->data ? 0 : CORALE_ENOMEM;
	}
	if (bytes != r->bytes)
		r->failed = CORALE_EMISMATCH;
	if (!r->failed)
		memcpy(r->data + bytes * (size_t)me->rank, in, bytes);
	g->here[me->rank] = 1;
	if (++g->arrived < g->size)
		return;
	g->arrived = 0;
	memset(g->here, 0, (size_t)g->size);
	g->number++;
	pthread_cond_broadcast(&g->changed);
}

/* "rank 1, 2" for those that have not come. Under the lock. */
static void print_missing(const corale_inproc *g, char *text, size_t bytes)
{
	enum { SHOWN = 8 };
	size_t n = 0;
	int missing = 0;
	text[0] = 0;
	for (int r = 0; r < g->size; r++) {
		if (g->here[r] || missing++ >= SHOWN)
			continue;
		n += (size_t)snprintf(text + n, bytes - n, "%s%d", missing > 1 ? ", " : "rank ", r);
	}
	if (missing > SHOWN)
		snprintf(text + n, bytes - n, " and %d more", missing - SHOWN);
}

/* CORALE_ETIMEDOUT. Under the lock. */
static int give_up(struct inproc_rank *me)
{
	corale_inproc *g = me->group;
	char missing[160];
	if (!g->given_up) {
		print_missing(g, missing, sizeof missing);
		g->given_up = 1 + me->rank;
		pthread_cond_broadcast(&g->changed);
		return log_error(CORALE_ETIMEDOUT, me->rank,
				 "%s of this group of %d threads did not come within %g s (%s); make a new "
				 "group, as this one is of no more use",
				 missing, g->size, me->timeout, me->timeout_name);
	}
	return log_error(CORALE_ETIMEDOUT, me->rank,
			 "rank %d of this group of %d threads has waited too long for others, as its own "
			 "line says; make a new group, as this one is of no more use",
			 g->given_up - 1, g->size);
}

/* Until all have come to the all-gather of that number; 0 or CORALE_ETIMEDOUT. Threads may be many more than cores, so they sleep instead
 * of polling (base/wait.h). Under the lock. */
static int wait_for_all(struct inproc_rank *me, unsigned number)
{
	corale_inproc *g = me->group;
	const int64_t until = me->timeout > 0 ? wait_now_ns() + (int64_t)(me->timeout * 1e9) : INT64_MAX;
	while (g->number == number && !g->given_up && wait_now_ns() < until)
		wait_changed(&g->changed, &g->lock, until);
	return g->number == number ? give_up(me) : 0;
}

static int report(const struct inproc_rank *me, const struct round *r, size_t bytes)
{
	return log_error(r->failed, me->rank,
			 r->failed == CORALE_ENOMEM
			     ? "no memory to gather %zu bytes of each of %d threads"
			     : "gathering %zu bytes of each of %d threads: another thread has another number "
			       "of bytes; do all ranks create, split and register in the same order?",
			 bytes, me->group->size);
}

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct inproc_rank *me = ctx;
	corale_inproc *g = me->group;
	pthread_mutex_lock(&g->lock);
	const unsigned number = g->number;
	struct round *r = &g->rounds[number % 2];
	int ret = g->given_up ? give_up(me) : 0;
	if (!ret) {
		put(me, r, in, bytes);
		ret = wait_for_all(me, number);
	}
	if (!ret && r->failed)
		ret = report(me, r, bytes);
	if (!ret)
		memcpy(out, r->data, bytes * (size_t)g->size);
	pthread_mutex_unlock(&g->lock);
	return ret;
}

/* As the calls of the communicator (comm_create.c), which checks the values. */
static void choose_timeout(struct inproc_rank *me, const corale_config *config)
{
	const struct settings *settings;
	double given = 0;
	if (config && config->size >= offsetof(corale_config, timeout_seconds) + sizeof given)
		given = config->timeout_seconds;
	me->timeout_name = given ? "timeout_seconds" : "CORALE_TIMEOUT";
	me->timeout = given;
	if (!given && !settings_get(&settings))
		me->timeout = settings->timeout;
	if (!(me->timeout > 0 && me->timeout <= MOST_SECONDS))
		me->timeout = 0;
}

int corale_comm_create_inproc(corale_inproc *group, int rank, const corale_config *config, corale_comm **comm)
{
	if (process_refuses("corale_comm_create_inproc"))
		return CORALE_ENOTSUP;
	if (!group || rank < 0 || rank >= group->size)
		return log_error(CORALE_EINVAL, rank,
				 "corale_comm_create_inproc: no group, or rank %d is not in it", rank);
	struct inproc_rank *me = malloc(sizeof *me);
	if (!me)
		return log_error(CORALE_ENOMEM, rank, "no memory for rank %d", rank);
	*me = (struct inproc_rank){ .group = group, .rank = rank };
	choose_timeout(me, config);
	corale_bootstrap bootstrap = { rank, group->size, me, allgather };
	return corale_private_comm_create(&bootstrap, config, NULL, NULL, free, me, comm);
}
