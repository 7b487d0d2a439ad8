/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_doors.h"
#include "corale_mpi.h"
#include "base/log.h"
#include "base/process.h"
#include "mpi_retire.h"
#include "transport_mpi.h"

/* What a communicator keeps of MPI: its own duplicate of the user's communicator. */
struct context {
	MPI_Comm duplicate;
	int rank, size;
	_Atomic unsigned char *partners; /* the transport's */
	struct transport_mpi_row transport;
	struct context *next;
};

/* The living communicators of this process, so that MPI_Finalize can end those that the user forgot. */
static struct registry {
	pthread_mutex_t lock;
	struct context *first;
	int keyval; /* of the attribute on MPI_COMM_SELF whose removal tells us of MPI_Finalize */
	int attached;
	int level_reported;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER, .keyval = MPI_KEYVAL_INVALID };

/* MPI_Finalize waits for as long at most until other ranks have destroyed their communicators, so that nothing that was sent is left. */
static const double goodbye_seconds = 2;

static int mpi_failure(int rank, const char *call, int error)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;
	MPI_Error_string(error, text, &length);
	return log_error(CORALE_ETRANSPORT, rank, "%s failed: %s", call, text);
}

/* MPI counts in int, so blocks beyond 1 GiB travel in pieces by way of a buffer. */
static int gather_pieces(struct context *context, const char *in, size_t bytes, char *out)
{
	const size_t piece = (size_t)1 << 30;
	char *all = malloc(piece * (size_t)context->size);
	if (!all)
		return log_error(CORALE_ENOMEM, context->rank, "no memory to gather %zu bytes from %d ranks",
				 bytes, context->size);
	int error = MPI_SUCCESS;
	for (size_t done = 0, n; done < bytes && !error; done += n) {
		n = bytes - done < piece ? bytes - done : piece;
		error = MPI_Allgather(in + done, (int)n, MPI_BYTE, all, (int)n, MPI_BYTE, context->duplicate);
		for (size_t r = 0; r < (size_t)context->size && !error; r++)
			memcpy(out + r * bytes + done, all + r * n, n);
	}
	free(all);
	return error ? mpi_failure(context->rank, "MPI_Allgather", error) : 0;
}

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct context *context = ctx;
	if (bytes > INT_MAX)
		return gather_pieces(context, in, bytes, out);
	int error = MPI_Allgather(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, context->duplicate);
	return error ? mpi_failure(context->rank, "MPI_Allgather", error) : 0;
}

static void context_free(struct context *context)
{
	mpi_retire(context->duplicate, context->rank, context->partners);
	free(context);
}

/* The communicator's last act. */
static void on_destroy(void *ctx)
{
	struct context *context = ctx;
	pthread_mutex_lock(&registry.lock);
	struct context **link = &registry.first;
	while (*link && *link != context)
		link = &(*link)->next;
	if (*link)
		*link = context->next;
	pthread_mutex_unlock(&registry.lock);
	context_free(context);
}

/*
 * Runs first thing in MPI_Finalize, while MPI still works; the oldest goes first, which is the same order on all ranks,
 * and with it what was split from it.
 */
static int on_finalize(MPI_Comm self, int keyval, void *value, void *extra)
{
	(void)self, (void)keyval, (void)value, (void)extra;
	for (;;) {
		pthread_mutex_lock(&registry.lock);
		struct context *context = registry.first;
		pthread_mutex_unlock(&registry.lock);
		if (!context)
			break;
		log_line(LOG_WARN, context->rank,
			 "a communicator of %d ranks, or one split from it, was still there at MPI_Finalize "
			 "and is freed now; call corale_comm_destroy before MPI_Finalize",
			 context->size);
		corale_private_comm_destroy_all(context); /* the last one takes the context out */
	}
	for (const double deadline = MPI_Wtime() + goodbye_seconds;
	     mpi_retired_advance() && MPI_Wtime() < deadline;)
		sched_yield();
	return MPI_SUCCESS;
}

/* With the registry's lock held. */
static int watch_finalize(int rank)
{
	if (registry.attached)
		return 0;
	int error = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &registry.keyval, NULL);
	if (error)
		return mpi_failure(rank, "MPI_Comm_create_keyval", error);
	error = MPI_Comm_set_attr(MPI_COMM_SELF, registry.keyval, &registry);
	if (error)
		return mpi_failure(rank, "MPI_Comm_set_attr", error);
	registry.attached = 1;
	return 0;
}

/* Once a process, by rank 0 of the first communicator; with the registry's lock held. */
static void report_thread_level(int rank)
{
	int level = MPI_THREAD_SINGLE;
	if (registry.level_reported || rank)
		return;
	registry.level_reported = 1;
	MPI_Query_thread(&level);
	if (level < MPI_THREAD_MULTIPLE)
		log_line(LOG_INFO, rank,
			 "MPI has a thread level below MPI_THREAD_MULTIPLE: where MPI itself is the "
			 "transport, calls on streams advance inside corale_stream_synchronize and "
			 "corale_stream_query only%s",
			 level < MPI_THREAD_SERIALIZED
			     ? ", and all calls come from the thread that made the communicator"
			     : "");
}

static int check_mpi(MPI_Comm mpi_comm)
{
	int initialized = 0, finalized = 0, inter = 0;
	MPI_Initialized(&initialized);
	MPI_Finalized(&finalized);
	if (!initialized || finalized)
		return log_error(CORALE_EINVAL, -1, "corale_comm_create_mpi: %s",
				 finalized ? "MPI is finalized already" : "call MPI_Init_thread first");
	if (mpi_comm == MPI_COMM_NULL)
		return log_error(CORALE_EINVAL, -1, "corale_comm_create_mpi: mpi_comm is MPI_COMM_NULL");
	MPI_Comm_test_inter(mpi_comm, &inter);
	if (inter)
		return log_error(CORALE_EINVAL, -1,
				 "corale_comm_create_mpi: mpi_comm is an intercommunicator; merge it first "
				 "(MPI_Intercomm_merge)");
	return 0;
}

static int context_create(MPI_Comm mpi_comm, struct context **out)
{
	struct context *context = calloc(1, sizeof(*context));
	int size;
	MPI_Comm_size(mpi_comm, &size);
	_Atomic unsigned char *partners = calloc((size_t)size, sizeof(*partners));
	if (!context || !partners) {
		free(context);
		free(partners);
		return log_error(CORALE_ENOMEM, -1, "no memory for a communicator");
	}
	mpi_retired_advance(); /* so that MPI has their contexts again */
	int error = MPI_Comm_dup(mpi_comm, &context->duplicate);
	if (error) {
		free(context);
		free(partners);
		return mpi_failure(-1, "MPI_Comm_dup", error);
	}
	MPI_Comm_set_errhandler(context->duplicate, MPI_ERRORS_RETURN);
	MPI_Comm_rank(context->duplicate, &context->rank);
	context->size = size;
	context->partners = partners;
	context->transport = transport_mpi(context->duplicate, partners);
	*out = context;
	return 0;
}

int corale_comm_create_mpi(MPI_Comm mpi_comm, const corale_config *config, corale_comm **comm)
{
	struct context *context = NULL;
	int ret = process_refuses("corale_comm_create_mpi") ? CORALE_ENOTSUP : check_mpi(mpi_comm);
	if (!ret)
		ret = context_create(mpi_comm, &context);
	if (ret)
		return ret;
	pthread_mutex_lock(&registry.lock);
	report_thread_level(context->rank);
	ret = watch_finalize(context->rank);
	pthread_mutex_unlock(&registry.lock);
	if (ret) {
		context_free(context);
		return ret;
	}
	const corale_bootstrap bootstrap = { context->rank, context->size, context, allgather };
	corale_comm *created;
	ret = corale_private_comm_create(&bootstrap, config, &context->transport.row, NULL, on_destroy,
					 context, comm ? &created : NULL); /* which all ranks must learn */
	if (ret) /* on_destroy has been called */
		return ret;
	*comm = created;
	pthread_mutex_lock(&registry.lock);
	struct context **link = &registry.first;
	while (*link)
		link = &(*link)->next;
	*link = context;
	pthread_mutex_unlock(&registry.lock);
	return 0;
}
