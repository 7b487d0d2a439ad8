/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of NCCL that Corale does not offer. Programs link all of them and call few, so each exists, says what to do instead, and
 * those that cannot fail answer as a library without the feature. */
#include <stdatomic.h>

#include "door.h"
#include "export.h"

/* The text reaches the log once a process, because a program may try in a loop. ncclGetLastError has it each time. */
static ncclResult_t not_offered(atomic_flag *logged, const char *text)
{
	if (!atomic_flag_test_and_set(logged))
		return door_refuse(ncclInvalidUsage, "%s", text);
	door_keep_error(text);
	return ncclInvalidUsage;
}

/* Defines a function that is refused whatever its parameters. */
#define REFUSE(name, parameters, feature, instead)                                                           \
	DOOR_EXPORT(name);                                                                                   \
	ncclResult_t p##name parameters                                                                      \
	{                                                                                                    \
		static atomic_flag logged = ATOMIC_FLAG_INIT;                                                \
		return not_offered(&logged, #name ": Corale does not offer " feature "; " instead);          \
	}

#define SUSPENDING "the release of a communicator's GPU memory while it is idle"
#define DESTROY_IT "destroy the communicator and make it anew when it is needed"
REFUSE(ncclCommSuspend, (ncclComm_t comm, int flags), SUSPENDING, DESTROY_IT)
REFUSE(ncclCommResume, (ncclComm_t comm), SUSPENDING, DESTROY_IT)

#define GROWING "communicators that grow"
#define MAKE_ANEW "make a communicator of all ranks by ncclGetUniqueId and ncclCommInitRank"
REFUSE(ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId *id), GROWING, MAKE_ANEW)
REFUSE(ncclCommGrow,
       (ncclComm_t comm, int nRanks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
	ncclConfig_t *config),
       GROWING, MAKE_ANEW)

#define ONE_SIDED "one-sided operations"
#define USE_SEND "use ncclSend and ncclRecv, between ncclGroupStart and ncclGroupEnd"
REFUSE(ncclPutSignal,
       (const void *localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
	size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream),
       ONE_SIDED, USE_SEND)
REFUSE(ncclSignal, (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream),
       ONE_SIDED, USE_SEND)
REFUSE(ncclWaitSignal, (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream),
       ONE_SIDED, USE_SEND)

#define REFUSE_DEVICE(name, parameters)                                                                      \
	REFUSE(name, parameters, "NCCL's interface for kernels of the program",                              \
	       "call collectives from the host (ncclCommQueryProperties says deviceApiSupport = false)")
REFUSE_DEVICE(ncclDevCommCreate,
	      (ncclComm_t comm, const ncclDevCommRequirements_t *reqs, ncclDevComm_t *outDevComm))
REFUSE_DEVICE(ncclLsaBarrierCreateRequirement,
	      (ncclTeam_t team, int nBarriers, ncclLsaBarrierHandle_t *outHandle,
	       ncclDevResourceRequirements_t *outReq))
REFUSE_DEVICE(ncclGinBarrierCreateRequirement,
	      (ncclComm_t comm, ncclTeam_t team, int nBarriers, ncclGinBarrierHandle_t *outHandle,
	       ncclDevResourceRequirements_t *outReq))
REFUSE_DEVICE(ncclGinOutboxCreateRequirement, (int nBlocks, int size_log2, ncclGinOutboxHandle_t *outHandle,
					       ncclDevResourceRequirements_t *outReq))
REFUSE_DEVICE(ncclGinInboxA2ACreateRequirement,
	      (ncclTeam_t peers, int nBlocks, int size_log2, ncclGinInboxA2AHandle_t *outHandle,
	       ncclDevResourceRequirements_t *outReq))
REFUSE_DEVICE(ncclLLA2ACreateRequirement,
	      (int nBlocks, int nSlots, ncclLLA2AHandle_t *outHandle, ncclDevResourceRequirements_t *outReq))

#define REFUSE_WINDOW(name, parameters)                                                                      \
	REFUSE(name, parameters, "windows",                                                                  \
	       "ncclCommWindowRegister gives NULL, so use the buffer itself in collectives")
REFUSE_WINDOW(ncclGetLsaMultimemDevicePointer, (ncclWindow_t window, size_t offset, void **outPtr))
REFUSE_WINDOW(ncclGetMultimemDevicePointer,
	      (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void **outPtr))
REFUSE_WINDOW(ncclGetLsaDevicePointer, (ncclWindow_t window, size_t offset, int lsaRank, void **outPtr))
REFUSE_WINDOW(ncclGetPeerDevicePointer, (ncclWindow_t window, size_t offset, int peer, void **outPtr))
REFUSE_WINDOW(ncclGetMultimemDeviceLeInfo,
	      (ncclWindow_t window, size_t offset, ncclCftLeId *leId, size_t *leOffset))
REFUSE_WINDOW(ncclGetCftDeviceLeInfo, (ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam,
				       ncclCftLeId *leId, size_t *leOffset))
REFUSE_WINDOW(ncclGetPeerDeviceLeInfo,
	      (ncclWindow_t window, size_t offset, int peerWorld, ncclCftLeId *leId, size_t *leOffset))

static ncclResult_t refuse_encryption(const ncclEncryptionConfig_t *config)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;

	if (config->mode == NCCL_ENCRYPTION_MODE_PSK)
		return not_offered(&logged, "ncclSetEncryption: Corale does not encrypt its sockets: they "
					    "carry no data of collectives, and ranks prove themselves by a "
					    "key in the unique id; leave the mode NCCL_ENCRYPTION_MODE_NONE");
	return door_refuse(
	    ncclInvalidArgument,
	    "ncclSetEncryption: mode %d is none of NCCL's: it must be NCCL_ENCRYPTION_MODE_NONE",
	    config->mode);
}

DOOR_EXPORT(ncclSetEncryption);
ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t *config)
{
	if (!config)
		return door_refuse(ncclInvalidArgument, "ncclSetEncryption: config is NULL");
	if (config->size < sizeof(*config) || config->magic != NCCL_API_MAGIC)
		return door_refuse(
		    ncclInvalidArgument,
		    "ncclSetEncryption: set config to NCCL_ENCRYPTION_CONFIG_INITIALIZER first");
	return config->mode == NCCL_ENCRYPTION_MODE_NONE ? ncclSuccess : refuse_encryption(config);
}

/* No window is ever made, so each has no pointer: as NCCL answers where windows are not supported. */
DOOR_EXPORT(ncclWinGetUserPtr);
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr)
{
	if (!outUserPtr)
		return door_refuse(ncclInvalidArgument, "ncclWinGetUserPtr: outUserPtr is NULL");
	*outUserPtr = NULL;
	return ncclSuccess;
}

/* None was made, so there is nothing to destroy. */
DOOR_EXPORT(ncclDevCommDestroy);
ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *devComm)
{
	return ncclSuccess;
}

DOOR_EXPORT(ncclLLA2ACalcSlots);
int pncclLLA2ACalcSlots(int maxElts, int maxEltSize)
{
	return 0;
}

/* The log is set up once: it cannot be set up anew while threads write to it. */
DOOR_EXPORT(ncclResetDebugInit);
void pncclResetDebugInit(void)
{
}

/* NCCL exports it without declaring it. */
void ncclResetDebugInitInternal(void) __attribute__((visibility("default")));
void ncclResetDebugInitInternal(void)
{
}

/* This rank alone: no kernel of the program reaches a peer's memory. */
static const ncclTeam_t alone = { 1, 0, 1 };

DOOR_EXPORT(ncclTeamWorld);
ncclTeam_t pncclTeamWorld(ncclComm_t comm)
{
	ncclTeam_t world = alone;

	if (!door_comm_shape(comm, &world.rank, &world.nRanks))
		return alone;
	return world;
}

#define ALONE(name, parameters)                                                                              \
	DOOR_EXPORT(name);                                                                                   \
	ncclTeam_t p##name parameters                                                                        \
	{                                                                                                    \
		return alone;                                                                                \
	}
ALONE(ncclTeamRail, (ncclComm_t comm))
ALONE(ncclTeamLsa, (ncclComm_t comm))
ALONE(ncclTeamCft, (ncclComm_t comm, ncclCftTeamMode_t mode))
ALONE(ncclTeamCftMultimem, (ncclComm_t comm))

/* A rank of team, counted from this rank, which is in every team. */
DOOR_EXPORT(ncclTeamRankToWorld);
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
	int own = 0, nranks;

	door_comm_shape(comm, &own, &nranks);
	return own + (rank - team.rank) * team.stride;
}

DOOR_EXPORT(ncclTeamRankToLsa);
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
	return alone.rank + (rank - team.rank) * team.stride;
}
