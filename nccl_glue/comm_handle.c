/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles, and what programs ask of a communicator. */
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "door.h"
#include "export.h"

static void keep(struct ncclComm *comm)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct ncclComm *all;
	pthread_mutex_lock(&lock);
	comm->next = all;
	all = comm;
	pthread_mutex_unlock(&lock);
}

struct ncclComm *door_create(int rank, int size, int ordinal, const struct door_config *config)
{
	struct ncclComm *comm = calloc(1, sizeof *comm);
	if (!comm) {
		door_refuse(ncclSystemError, "no memory for a communicator");
		return NULL;
	}
	comm->magic = DOOR_MAGIC;
	comm->rank = rank;
	comm->size = size;
	comm->ordinal = ordinal;
	comm->device = door_device_find();
	comm->config = *config;
	comm->state = DOOR_MAKING;
	comm->made = ncclInProgress;
	comm->users = 1;
	pthread_mutex_init(&comm->lock, NULL);
	keep(comm);
	return comm;
}

int door_made(struct ncclComm *comm, ncclResult_t *result)
{
	int state = DOOR_MAKING;
	const int first = atomic_compare_exchange_strong(&comm->state, &state,
							 *result == ncclSuccess ? DOOR_READY : DOOR_ENDED);
	if (!first && *result == ncclSuccess) {
		comm_quit(comm->core); /* whoever aborted it could not yet */
		*result = ncclRemoteError;
	}
	atomic_store(&comm->made, (int)*result);
	door_leave(comm);
	return first && *result != ncclSuccess;
}

static int is_comm(ncclComm_t comm)
{
	return comm && comm->magic == DOOR_MAGIC;
}

static const char *ended(ncclComm_t comm)
{
	return atomic_load(&comm->made) == ncclSuccess ? "destroyed or aborted"
						       : "never made, as that failed or was aborted";
}

ncclResult_t door_refuse_comm(ncclComm_t comm, int state, const char *call)
{
	if (!is_comm(comm))
		return door_refuse(ncclInvalidArgument, "nccl%s: %p is no communicator", call, (void *)comm);
	if (state == DOOR_MAKING)
		return door_refuse(ncclInvalidArgument,
				   "nccl%s: communicator %p is not yet made: wait until its function has "
				   "returned, or abort it",
				   call, (void *)comm);
	return door_refuse(state == DOOR_ENDED ? ncclInvalidArgument : ncclInvalidUsage,
			   "nccl%s: rank %d's communicator %p was %s", call, comm->rank, (void *)comm,
			   state == DOOR_ENDED       ? ended(comm)
			   : state == DOOR_FINALIZED ? "finalized: it can only be destroyed"
						     : "revoked: it can only be split, shrunk or destroyed");
}

/* States up to `most` are allowed. */
static ncclResult_t enter(ncclComm_t comm, const char *call, int most)
{
	if (!is_comm(comm))
		return door_refuse_comm(comm, 0, call);
	if (process_is_forked())
		return door_refuse_forked(call);
	int state = atomic_load(&comm->state);
	if (state > most) /* not counted: threads that ask again and again would keep the end waiting */
		return door_refuse_comm(comm, state, call);
	atomic_fetch_add(&comm->users, 1);
	state = atomic_load(&comm->state);
	if (state <= most)
		return ncclSuccess;
	door_leave(comm);
	return door_refuse_comm(comm, state, call);
}

ncclResult_t door_enter(ncclComm_t comm, const char *call)
{
	return enter(comm, call, DOOR_READY);
}

ncclResult_t door_enter_any(ncclComm_t comm, const char *call)
{
	return enter(comm, call, DOOR_REVOKED);
}

void door_leave(ncclComm_t comm)
{
	atomic_fetch_sub(&comm->users, 1);
}

/* A communicator that has failed says why: the code that ended it, and its text. */
ncclResult_t door_result(ncclComm_t comm, int code)
{
	if (!code)
		return ncclSuccess;
	const int ended = comm->core ? comm_error(comm->core) : 0;
	door_keep_error(ended ? corale_comm_last_error(comm->core) : log_last_error());
	return door_error_of(ended ? ended : code);
}

bool door_comm_shape(ncclComm_t comm, int *rank, int *nranks)
{
	if (!is_comm(comm) || atomic_load(&comm->made) != ncclSuccess)
		return false;
	*rank = comm->rank;
	*nranks = comm->size;
	return true;
}

/* ---- Questions --------------------------------------------------------------------------------------------- */

/* Nothing is read of a communicator that is being made: another thread writes it. */
static ncclResult_t answer(ncclComm_t comm, const char *call, int *out, const int *value)
{
	const int state = is_comm(comm) ? atomic_load(&comm->state) : DOOR_ENDED;
	if (state >= DOOR_MAKING)
		return door_refuse_comm(comm, state, call);
	if (!out)
		return door_refuse(ncclInvalidArgument, "nccl%s: no place for the answer", call);
	*out = *value;
	return ncclSuccess;
}

DOOR_EXPORT(ncclCommCount);
ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
	return answer(comm, "CommCount", count, comm ? &comm->size : NULL);
}

DOOR_EXPORT(ncclCommCuDevice);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
	return answer(comm, "CommCuDevice", device, comm ? &comm->ordinal : NULL);
}

DOOR_EXPORT(ncclCommUserRank);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
	return answer(comm, "CommUserRank", rank, comm ? &comm->rank : NULL);
}

static void keep_once(ncclComm_t comm)
{
	if (!atomic_exchange(&comm->kept_error, 1))
		door_keep_error(corale_comm_last_error(comm->core));
}

/* Programs ask thousands of times: two loads, and two additions that keep core while it is looked at. The watch thread finds failures. */
DOOR_EXPORT(ncclCommGetAsyncError);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
	const int made = is_comm(comm) ? atomic_load(&comm->made) : ncclSuccess, fails = made != ncclSuccess;
	ncclResult_t result = fails && out ? ncclSuccess : enter(comm, "CommGetAsyncError", DOOR_REVOKED);
	if (fails && out)
		*out = (ncclResult_t)made;
	if (fails || result != ncclSuccess)
		return result;
	const int error = comm_error(comm->core);
	if (error)
		keep_once(comm);
	if (out)
		*out = door_error_of(error);
	else
		result = door_refuse(ncclInvalidArgument, "ncclCommGetAsyncError: no place for the answer");
	door_leave(comm);
	return result;
}

static bool is_statistic(ncclCommMemStat_t stat)
{
	return ((int)stat >= 0 && stat <= ncclStatGpuMemTotal) || stat == coraleStatPinnedMem;
}

DOOR_EXPORT(ncclCommMemStats);
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
	ncclResult_t result = door_enter_any(comm, "CommMemStats");
	if (result != ncclSuccess)
		return result;
	if (!value || !is_statistic(stat))
		result = door_refuse(
		    ncclInvalidArgument,
		    "ncclCommMemStats: statistic %d, expected 0 to %d or %d and a place for the value",
		    (int)stat, (int)ncclStatGpuMemTotal, (int)coraleStatPinnedMem);
	else if (stat == coraleStatPinnedMem)
		*value = comm_pinned_memory(comm->core);
	else
		*value = stat == ncclStatGpuMemPersist || stat == ncclStatGpuMemTotal
			     ? comm_device_memory(comm->core)
			     : 0;
	door_leave(comm);
	return result;
}

/* A program was built with a shorter or longer struct: what both know is filled. */
DOOR_EXPORT(ncclCommQueryProperties);
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *out)
{
	ncclResult_t result = door_enter_any(comm, "CommQueryProperties");
	if (result != ncclSuccess)
		return result;
	if (!out || out->magic != NCCL_API_MAGIC || out->size < offsetof(ncclCommProperties_t, rank)) {
		result = door_refuse(ncclInvalidArgument,
				     "ncclCommQueryProperties: begin with NCCL_COMM_PROPERTIES_INITIALIZER");
	} else {
		const ncclCommProperties_t known = { .size = out->size,
						     .magic = out->magic,
						     .version = out->version,
						     .rank = comm->rank,
						     .nRanks = comm->size,
						     .cudaDev = comm->ordinal,
						     .nvmlDev = comm->ordinal,
						     .ginType = NCCL_GIN_TYPE_NONE,
						     .railedGinType = NCCL_GIN_TYPE_NONE };
		memcpy(out, &known, out->size < sizeof known ? out->size : sizeof known);
	}
	door_leave(comm);
	return result;
}

DOOR_EXPORT(ncclGetVersion);
ncclResult_t pncclGetVersion(int *version)
{
	const struct settings *settings;
	if (!version)
		return door_refuse(ncclInvalidArgument, "ncclGetVersion: no place for the version");
	*version = door_settings(&settings) ? NCCL_VERSION_CODE : (int)settings->nccl_version;
	return ncclSuccess;
}
