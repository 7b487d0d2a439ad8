/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may call MPI, and when. */
#include "mpi_link.h"

int mpi_may_call(const struct mpi_transport *t)
{
	return t->level >= MPI_THREAD_SERIALIZED || pthread_equal(t->opener, pthread_self());
}

/* Communicators may be used by several threads at once; MPI may not, below MPI_THREAD_MULTIPLE. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

void mpi_lock(struct mpi_transport *t)
{
	pthread_mutex_lock(&t->lock);
	if (t->level < MPI_THREAD_MULTIPLE)
		pthread_mutex_lock(&one_at_a_time);
}

int mpi_try_lock(struct mpi_transport *t)
{
	int busy = pthread_mutex_trylock(&t->lock);
	if (busy || t->level == MPI_THREAD_MULTIPLE)
		return busy;
	busy = pthread_mutex_trylock(&one_at_a_time);
	if (busy)
		pthread_mutex_unlock(&t->lock);
	return busy;
}

void mpi_unlock(struct mpi_transport *t)
{
	if (t->level < MPI_THREAD_MULTIPLE)
		pthread_mutex_unlock(&one_at_a_time);
	pthread_mutex_unlock(&t->lock);
}

int mpi_enter(void)
{
	int level;
	MPI_Query_thread(&level);
	if (level < MPI_THREAD_MULTIPLE)
		pthread_mutex_lock(&one_at_a_time);
	return level;
}

void mpi_leave(int level)
{
	if (level < MPI_THREAD_MULTIPLE)
		pthread_mutex_unlock(&one_at_a_time);
}
