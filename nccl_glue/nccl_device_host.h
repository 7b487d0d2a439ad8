/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host side of NCCL's interface for kernels of the program, which Corale refuses: so most of its structs are not laid out here.
 * A header of its own, because programs that use the interface include NVIDIA's nccl_device.h, which declares the same.
 */
#ifndef CORALE_NCCL_DEVICE_HOST_H
#define CORALE_NCCL_DEVICE_HOST_H

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
	NCCL_GIN_CONNECTION_NONE,
	NCCL_GIN_CONNECTION_FULL,
	NCCL_GIN_CONNECTION_RAIL,
	NCCL_GIN_CONNECTION_CUSTOM_STRIDE
} ncclGinConnectionType_t;
typedef enum {
	NCCL_GIN_TYPE_NONE = 0,
	NCCL_GIN_TYPE_PROXY = 2,
	NCCL_GIN_TYPE_GDAKI = 3,
	NCCL_GIN_TYPE_GPI = 4,
	NCCL_GIN_TYPE_EFA_GDA = 5,
	NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;
typedef enum { NCCL_CFT_TEAM_FLAT, NCCL_CFT_TEAM_HIER_MULTIMEM, NCCL_CFT_TEAM_HIER_LSA } ncclCftTeamMode_t;
typedef enum { NCCL_CFT_NONE = 0, NCCL_CFT = 1, NCCL_CFT_MULTIMEM = 2 } ncclCftCap_t;

typedef struct ncclTeam {
	int nRanks, rank, stride;
} ncclTeam_t;
typedef struct ncclMultimemHandle {
	void *mcBasePtr;
} ncclMultimemHandle_t;
typedef uint32_t ncclCftLeId;
typedef ncclCftLeId ncclCftLeId_t;
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle_t;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle_t;

/* Begin with NCCL_COMM_PROPERTIES_INITIALIZER. Everything that ends in Support is false here. */
typedef struct ncclCommProperties {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int rank;
	int nRanks;
	int cudaDev;
	int nvmlDev;
	bool deviceApiSupport;
	bool multimemSupport;
	ncclGinType_t ginType;
	int nLsaTeams;
	bool hostRmaSupport;
	ncclGinType_t railedGinType;
	uint64_t commHash;
	int ginMinStride;
	ncclGinConnectionType_t ginConnectionType;
	bool ginSupport[64];
	size_t devCommRuntimeVersionSize;
	bool cftSupport;
	bool cftMulticastSupport;
	bool cftCountedSupport;
} ncclCommProperties_t;
#define NCCL_COMM_PROPERTIES_INITIALIZER                                                                     \
	{                                                                                                    \
		sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_STRUCTS_VERSION                           \
	}

/* Declares ncclX and pncclX. */
#define NCCL_DECLARE(type, name, arguments)                                                                  \
	type name arguments;                                                                                 \
	type p##name arguments

/* Succeeds: rank and device, and no support for anything. */
NCCL_DECLARE(ncclResult_t, ncclCommQueryProperties, (ncclComm_t comm, ncclCommProperties_t *props));
/* Refused. */
NCCL_DECLARE(ncclResult_t, ncclDevCommCreate,
	     (ncclComm_t comm, const ncclDevCommRequirements_t *reqs, ncclDevComm_t *outDevComm));
/* Succeeds: there is none. */
NCCL_DECLARE(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const ncclDevComm_t *devComm));
/* Refused, from here to ncclLLA2ACreateRequirement. */
NCCL_DECLARE(ncclResult_t, ncclGetLsaMultimemDevicePointer,
	     (ncclWindow_t window, size_t offset, void **outPtr));
NCCL_DECLARE(ncclResult_t, ncclGetMultimemDevicePointer,
	     (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void **outPtr));
NCCL_DECLARE(ncclResult_t, ncclGetLsaDevicePointer,
	     (ncclWindow_t window, size_t offset, int lsaRank, void **outPtr));
NCCL_DECLARE(ncclResult_t, ncclGetPeerDevicePointer,
	     (ncclWindow_t window, size_t offset, int peer, void **outPtr));
NCCL_DECLARE(ncclResult_t, ncclGetMultimemDeviceLeInfo,
	     (ncclWindow_t window, size_t offset, ncclCftLeId *leId, size_t *leOffset));
NCCL_DECLARE(ncclResult_t, ncclGetCftDeviceLeInfo,
	     (ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam, ncclCftLeId *leId,
	      size_t *leOffset));
NCCL_DECLARE(ncclResult_t, ncclGetPeerDeviceLeInfo,
	     (ncclWindow_t window, size_t offset, int peerWorld, ncclCftLeId *leId, size_t *leOffset));
NCCL_DECLARE(ncclResult_t, ncclLsaBarrierCreateRequirement,
	     (ncclTeam_t team, int nBarriers, ncclLsaBarrierHandle_t *outHandle,
	      ncclDevResourceRequirements_t *outReq));
NCCL_DECLARE(ncclResult_t, ncclGinBarrierCreateRequirement,
	     (ncclComm_t comm, ncclTeam_t team, int nBarriers, ncclGinBarrierHandle_t *outHandle,
	      ncclDevResourceRequirements_t *outReq));
NCCL_DECLARE(ncclResult_t, ncclGinOutboxCreateRequirement,
	     (int nBlocks, int size_log2, ncclGinOutboxHandle_t *outHandle,
	      ncclDevResourceRequirements_t *outReq));
NCCL_DECLARE(ncclResult_t, ncclGinInboxA2ACreateRequirement,
	     (ncclTeam_t peers, int nBlocks, int size_log2, ncclGinInboxA2AHandle_t *outHandle,
	      ncclDevResourceRequirements_t *outReq));
NCCL_DECLARE(ncclResult_t, ncclLLA2ACreateRequirement,
	     (int nBlocks, int nSlots, ncclLLA2AHandle_t *outHandle, ncclDevResourceRequirements_t *outReq));
/* 0. */
NCCL_DECLARE(int, ncclLLA2ACalcSlots, (int maxElts, int maxEltSize));
/* All ranks for World; for every other team this rank alone, because no memory is shared for kernels. */
NCCL_DECLARE(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm));
NCCL_DECLARE(ncclTeam_t, ncclTeamRail, (ncclComm_t comm));
NCCL_DECLARE(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm));
NCCL_DECLARE(ncclTeam_t, ncclTeamCft, (ncclComm_t comm, ncclCftTeamMode_t mode));
NCCL_DECLARE(ncclTeam_t, ncclTeamCftMultimem, (ncclComm_t comm));
NCCL_DECLARE(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank));
NCCL_DECLARE(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank));

#undef NCCL_DECLARE
#ifdef __cplusplus
}
#endif

#endif
