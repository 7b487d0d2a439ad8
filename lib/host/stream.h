/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host streams: jobs that run in order beside the caller, on a thread that is made with the first job, or, for jobs
 * that only the user's thread may run, inside synchronize and query.
 */
#ifndef STREAM_H
#define STREAM_H

#include "corale.h"

struct job {
	/* Runs the job to its end and returns its result. */
	int (*run)(struct job *job);
	/* Of manual jobs: a step of it; 1 when it has ended, then run only returns its result. */
	int (*poll)(struct job *job);
	void (*destroy)(struct job *job); /* but not of its memory */
	int manual; /* only for the user's thread */
	struct job *next;
};

/* 0, or CORALE_EINVAL, logged with the name of the call: it is no stream, or was destroyed. The functions below expect one. */
int stream_check(const struct corale_stream *stream, const char *call);

/* Memory for a job of so many bytes, aligned for any type and a cache line, to be submitted: the stream has it back when the job has ended,
 * and keeps it for later jobs. NULL: no memory; nothing is logged. */
void *stream_take(struct corale_stream *stream, size_t bytes);

/* Appends; the stream owns the job from now on, also on failure (CORALE_ENOMEM, CORALE_ESYSTEM). */
int stream_submit(struct corale_stream *stream, struct job *job);

/* So many calls more, or fewer, of open groups will be on the stream, which can't be destroyed until there are none. */
void stream_hold(struct corale_stream *stream, int calls);

/* Waits until all jobs are done; their errors stay for corale_stream_synchronize. */
void stream_drain(struct corale_stream *stream);

#endif
