/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/free_list.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"

enum { KEPT_BYTES = 256 << 10 /* of jobs that have ended */ };

struct stream {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a job came, one ended, or the stream ends */
	struct job *first, *last;
	struct free_list spare; /* of jobs */
	int busy, ending, has_thread;
	_Atomic int held; /* calls in open groups */
	int error; /* first one since the last synchronize */
	pthread_t thread;
};

struct corale_stream {
	struct stream *stream; /* NULL once destroyed */
};

static struct handles handles = { .lock = PTHREAD_MUTEX_INITIALIZER };

int stream_check(const corale_stream *handle, const char *call)
{
	if (handles_has(&handles, handle) && handle->stream)
		return 0;
	return log_error(
	    CORALE_EINVAL, -1, "%s: %p is %s: pass one of corale_stream_create%s", call, (const void *)handle,
	    handles_has(&handles, handle) ? "a stream that was destroyed" : "no stream of host memory",
	    handle ? ", or NULL for a call that blocks" : "");
}

int corale_stream_create(corale_stream **out)
{
	if (process_refuses("corale_stream_create"))
		return CORALE_ENOTSUP;
	if (!out)
		return log_error(CORALE_EINVAL, -1, "corale_stream_create: no place for the stream");
	struct stream *s = calloc(1, sizeof *s);
	corale_stream *handle = s ? handles_make(&handles) : NULL;
	if (!handle) {
		free(s);
		return log_error(CORALE_ENOMEM, -1, "no memory for a stream");
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->spare.most = KEPT_BYTES;
	handle->stream = s;
	*out = handle;
	return 0;
}

/* Runs the first job; the lock is held on entry and on return, but not while it runs. */
static void run_first(struct stream *s)
{
	struct job *job = s->first;
	s->first = job->next;
	s->last = s->first ? s->last : NULL;
	s->busy = 1;
	pthread_mutex_unlock(&s->lock);
	int ret = job->run(job);
	job->destroy(job);
	pthread_mutex_lock(&s->lock);
	free_list_give(&s->spare, job);
	s->busy = 0;
	s->error = s->error ? s->error : ret;
	pthread_cond_broadcast(&s->changed);
}

static void *work(void *arg)
{
	struct stream *s = arg;
	pthread_mutex_lock(&s->lock);
	while (!s->ending || s->first) {
		if (s->first && !s->first->manual && !s->busy)
			run_first(s);
		else
			pthread_cond_wait(&s->changed, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

void *stream_take(corale_stream *handle, size_t bytes)
{
	struct stream *s = handle->stream;
	pthread_mutex_lock(&s->lock);
	void *memory = free_list_take(&s->spare, bytes);
	pthread_mutex_unlock(&s->lock);
	return memory;
}

int stream_submit(corale_stream *handle, struct job *job)
{
	struct stream *s = handle->stream;
	int ret = 0;
	job->next = NULL;
	pthread_mutex_lock(&s->lock);
	if (!job->manual && !s->has_thread) {
		ret = process_thread(&s->thread, work, s);
		s->has_thread = !ret;
		if (ret)
			ret = log_error(CORALE_ESYSTEM, -1, "no thread for a stream: %s", strerror(ret));
	}
	if (!ret) {
		if (s->last)
			s->last->next = job;
		else
			s->first = job;
		s->last = job;
		pthread_cond_broadcast(&s->changed);
	} else {
		job->destroy(job);
		free_list_give(&s->spare, job);
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

/* Returns when no job is left; the lock is held on entry and on return. */
static void finish_jobs(struct stream *s)
{
	while (s->first || s->busy) {
		if (s->first && s->first->manual && !s->busy)
			run_first(s);
		else
			wait_changed(&s->changed, &s->lock, INT64_MAX);
	}
}

void stream_drain(corale_stream *handle)
{
	struct stream *s = handle->stream;
	pthread_mutex_lock(&s->lock);
	finish_jobs(s);
	pthread_mutex_unlock(&s->lock);
}

int corale_stream_synchronize(corale_stream *handle)
{
	if (process_refuses("corale_stream_synchronize"))
		return CORALE_ENOTSUP;
	if (stream_check(handle, "corale_stream_synchronize"))
		return CORALE_EINVAL;
	struct stream *s = handle->stream;
	pthread_mutex_lock(&s->lock);
	finish_jobs(s);
	int ret = s->error;
	s->error = 0;
	pthread_mutex_unlock(&s->lock);
	return ret;
}

/* Moves a job that only the user's threads may move, unless another one is at it. */
static void step_manual(struct stream *s)
{
	struct job *job = s->first;
	if (!job || !job->manual || s->busy)
		return;
	s->busy = 1;
	pthread_mutex_unlock(&s->lock);
	int ended = job->poll(job);
	pthread_mutex_lock(&s->lock);
	s->busy = 0;
	if (ended)
		run_first(s);
	else
		pthread_cond_broadcast(&s->changed);
}

int corale_stream_query(corale_stream *handle)
{
	if (process_refuses("corale_stream_query"))
		return CORALE_ENOTSUP;
	if (stream_check(handle, "corale_stream_query"))
		return CORALE_EINVAL;
	struct stream *s = handle->stream;
	pthread_mutex_lock(&s->lock);
	step_manual(s);
	int ret = s->error ? s->error : s->first || s->busy ? CORALE_INPROGRESS : 0;
	pthread_mutex_unlock(&s->lock);
	return ret;
}

void stream_hold(corale_stream *handle, int calls)
{
	struct stream *s = handle->stream;
	atomic_fetch_add(&s->held, calls);
}

void corale_stream_destroy(corale_stream *handle)
{
	if (!handle || process_refuses("corale_stream_destroy") ||
	    stream_check(handle, "corale_stream_destroy"))
		return;
	struct stream *s = handle->stream;
	if (atomic_load(&s->held)) {
		log_error(CORALE_EINVAL, -1,
			  "corale_stream_destroy: an open group has %d calls on the stream, which stays: end "
			  "the group first (corale_group_end)",
			  atomic_load(&s->held));
		return;
	}
	corale_stream_synchronize(handle);
	handle->stream = NULL;
	pthread_mutex_lock(&s->lock);
	s->ending = 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (s->has_thread)
		pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free_list_close(&s->spare);
	free(s);
}
