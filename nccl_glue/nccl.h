/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NCCL interface as Corale's libnccl.so.2 offers it: names, values and layouts are those of NCCL 2.32.3 on 64-bit Linux, so
 * that programs built with either header run with either library. docs/nccl.md lists per function what is real, what is mapped
 * and what is refused. A refused function returns ncclInvalidUsage, and ncclGetLastError says what to do instead.
 *
 * Every function exists twice: ncclX, a weak name that a profiler may replace, and pncclX, which does the work.
 *
 * The header says version 2.28.9, which programs test to choose features. To build for another version, define NCCL_VERSION_CODE
 * before it. Programs that find 2.28.0 or later may include nccl_device.h, NCCL's interface for kernels of the program, which Corale
 * does not have: NVIDIA's goes with this header; where there is none, say 22709 (2.27.9). Its host side is in nccl_device_host.h.
 */
#ifndef NCCL_H_
#define NCCL_H_

/* Programs rely on this header for CUDA's, so it takes them where the compiler finds them. With CORALE_NCCL_NO_CUDA it never
 * does: streams and events are pointers to the types that CUDA declares too. */
#if defined(__has_include) && !defined(CORALE_NCCL_NO_CUDA)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#if defined(__cplusplus) && defined(CUDART_VERSION) && CUDART_VERSION >= 11080
#include <cuda_fp8.h>
#endif
#endif
#endif

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Version */

#define NCCL_VERSION(X, Y, Z)                                                                                \
	((X) > 2 || ((X) == 2 && (Y) > 8) ? (X)*10000 + (Y)*100 + (Z) : (X)*1000 + (Y)*100 + (Z))
#ifndef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE 22809
#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#else
#ifndef NCCL_MAJOR
#define NCCL_MAJOR (NCCL_VERSION_CODE / 10000)
#define NCCL_MINOR (NCCL_VERSION_CODE / 100 % 100)
#define NCCL_PATCH (NCCL_VERSION_CODE % 100)
#endif
#endif
#define NCCL_SUFFIX ""
/* The version whose structs are below. The initializers say it, because Corale and NCCL read a struct by its version. */
#define NCCL_STRUCTS_VERSION 23203

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Handles */

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct ncclParamHandle *ncclParamHandle_t;
#define NCCL_COMM_NULL NULL

/* Names a set of ranks that is to become a communicator: made by one process, given to all. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* ---- Results, types, operators */

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1, /* CUDA reported an error, or GPU memory is exhausted */
	ncclSystemError = 2, /* a system call failed, or host memory is exhausted */
	ncclInternalError = 3, /* a bug in Corale: please report it */
	ncclInvalidArgument = 4, /* an argument is wrong; nothing was started */
	ncclInvalidUsage = 5, /* not offered, or ranks made different calls */
	ncclRemoteError = 6, /* a rank died, left or aborted, or a deadline passed */
	ncclInProgress = 7, /* Corale never returns it: functions return when they are done */
	ncclTimeout = 8, /* Corale never returns it */
	ncclNumResults = 9
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclChar = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclInt = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclHalf = 6,
	ncclFloat32 = 7,
	ncclFloat = 7,
	ncclFloat64 = 8,
	ncclDouble = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12
} ncclDataType_t;

/* Operators of ncclRedOpCreatePreMulSum have values from ncclNumOps on. */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,
	ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

/* Where a premultiplier is: in memory that the GPU reads during the call, or in host memory that is read at once. */
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

typedef enum {
	ncclStatGpuMemSuspend = 0, /* bytes that ncclCommSuspend would free: always 0 */
	ncclStatGpuMemSuspended = 1, /* 1 while suspended: always 0 */
	ncclStatGpuMemPersist = 2, /* bytes that stay until the communicator is destroyed */
	ncclStatGpuMemTotal = 3, /* the sum */
	/* Corale's own: bytes of pinned host memory for messages between nodes; 0 on one node. Not in the sum. NCCL refuses the number. */
	coraleStatPinnedMem = 256
} ncclCommMemStat_t;

/* ---- Configuration of a communicator */

#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_SPLIT_NOCOLOR (-1)

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01 /* fewest blocks: leaves the SMs to other kernels */
#define NCCL_CTA_POLICY_ZERO 0x02 /* copy engines where they can do the call */

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /* the parent's calls in flight are ended first */
#define NCCL_REVOKE_DEFAULT 0x00

/* Without effect here, as is rmaEagerInit below. */
typedef enum {
	ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
	ncclHostCftEnable = 1,
	ncclHostCftDisable = 2,
	ncclHostCftFallback = 3
} ncclHostCftMode_t;
typedef enum {
	ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
	ncclNvlsHostModeEnable = 0,
	ncclNvlsHostModeDisableTransport = 1,
	ncclNvlsHostModeDisableSymmetricMultimem = 2,
	ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* Begin with NCCL_CONFIG_INITIALIZER. A field that is not set (NCCL_CONFIG_UNDEF_*) takes its default. Strings are copied during
 * the call. Fields without a comment are accepted and have no effect; NCCL_DEBUG=INFO names those that were set. */
typedef struct ncclConfig_t {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking; /* 0 or 1; without effect: functions return when they are done */
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs; /* most blocks of a kernel */
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName; /* names the communicator in messages */
	int collnetEnable;
	int CTAPolicy; /* NCCL_CTA_POLICY_* */
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer;
	int nvlinkCentricSched;
	int graphUsageMode;
	int numRmaCtx;
	int maxP2pPeers;
	int graphStreamOrdering;
	int launchOrderImplicit;
	int numRmaSig;
	int rmaEagerInit;
	int hostCftMode;
	int nvlsHostMode;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                              \
	{                                                                                                    \
		sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_STRUCTS_VERSION, /* size, magic, version */       \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* blocking, cgaClusterSize */             \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* minCTAs, maxCTAs */                     \
		    NCCL_CONFIG_UNDEF_PTR, /* netName */                                                     \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* splitShare, trafficClass */             \
		    NCCL_CONFIG_UNDEF_PTR, /* commName */                                                    \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* collnetEnable, CTAPolicy */             \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* shrinkShare, nvlsCTAs */                \
		    NCCL_CONFIG_UNDEF_INT,                                                                   \
		    NCCL_CONFIG_UNDEF_INT, /* nChannelsPerNetPeer, nvlinkCentricSched */                     \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* graphUsageMode, numRmaCtx */            \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* maxP2pPeers, graphStreamOrdering */     \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* launchOrderImplicit, numRmaSig */       \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* rmaEagerInit, hostCftMode */            \
		    NCCL_CONFIG_UNDEF_INT /* nvlsHostMode */                                                 \
	}

/* ---- Configuration of a call */

/* An option of one library, in a list that ends with NULL. A library ignores options with another's vendorId. */
typedef struct ncclConfigExt {
	struct ncclConfigExt *next;
	struct {
		int vendorId;
		int optionId;
	} key;
	union {
		int i;
		const char *s;
		void *raw;
	} val;
} ncclConfigExt_t;

/* Begin with NCCL_COLLCONFIG_INITIALIZER; equal on all ranks. Corale takes the hints it can use and ignores the others. */
typedef struct ncclCollConfig_t {
	size_t size;
	unsigned int magic;
	unsigned int version;
	ncclConfigExt_t *ext;
	int minCTAs;
	int maxCTAs;
	int nvlsCTAs;
	int cgaClusterSize;
	const char *algSelection;
	int forceAlgSelection;
	int CTAPolicy;
	uint64_t userProfilerTag;
	cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                                          \
	{                                                                                                    \
		sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_STRUCTS_VERSION, /* size, magic, version */   \
		    NCCL_CONFIG_UNDEF_PTR, /* ext */                                                         \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* minCTAs, maxCTAs */                     \
		    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs, cgaClusterSize */             \
		    NCCL_CONFIG_UNDEF_PTR, 1, /* algSelection, forceAlgSelection */                          \
		    NCCL_CONFIG_UNDEF_INT, 0, /* CTAPolicy, userProfilerTag */                               \
		    NCCL_CONFIG_UNDEF_PTR /* launchCompletionEvent */                                        \
	}

/* Of ncclGroupSimulateEnd, which is refused; begins with NCCL_SIM_INFO_INITIALIZER. */
typedef struct ncclSimInfo_t {
	size_t size;
	unsigned int magic;
	unsigned int version;
	float estimatedTime; /* microseconds */
} ncclSimInfo_t;
#define NCCL_SIM_INFO_MAGIC 0x74685283
#define NCCL_SIM_INFO_INITIALIZER                                                                            \
	{                                                                                                    \
		sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_STRUCTS_VERSION, NCCL_UNDEF_FLOAT           \
	}

/* ---- Encryption of NCCL's TCP sockets: only 'none' is accepted */

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;
typedef struct ncclEncryptionConfig_t {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int mode;
	const char *psk;
} ncclEncryptionConfig_t;
#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                                   \
	{                                                                                                    \
		sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_STRUCTS_VERSION,                        \
		    NCCL_ENCRYPTION_MODE_NONE, NCCL_CONFIG_UNDEF_PTR                                         \
	}

/* ---- Windows and one-sided operations: no window is ever made, the operations are refused */

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_SUSPEND_MEM 0x01

typedef struct {
	int opCnt;
	int peer;
	int sigIdx;
	int ctx;
} ncclWaitSignalDesc_t;

/* ---- Functions */

/* Declares ncclX and pncclX. */
#define NCCL_DECLARE(type, name, arguments)                                                                  \
	type name arguments;                                                                                 \
	type p##name arguments

/* NCCL's version: 22809, or what CORALE_NCCL_VERSION says. */
NCCL_DECLARE(ncclResult_t, ncclGetVersion, (int *version));
NCCL_DECLARE(const char *, ncclGetErrorString, (ncclResult_t result));
/* The text of the last error of the process; comm may be NULL. */
NCCL_DECLARE(const char *, ncclGetLastError, (ncclComm_t comm));
/* Nothing is done: the log is set up once. */
NCCL_DECLARE(void, ncclResetDebugInit, (void));

/* Communicators. The process that makes the id listens on a port until the communicators of the id are made. */
NCCL_DECLARE(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId));
NCCL_DECLARE(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
NCCL_DECLARE(ncclResult_t, ncclCommInitRankConfig,
	     (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config));
/* Only the first id is used; the others must be equal on all ranks. */
NCCL_DECLARE(ncclResult_t, ncclCommInitRankScalable,
	     (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds,
	      ncclConfig_t *config));
/* Makes all ranks in this process, rank i on GPU devlist[i] (NULL: GPU i). */
NCCL_DECLARE(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int *devlist));
NCCL_DECLARE(ncclResult_t, ncclCommSplit,
	     (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclCommShrink,
	     (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
	      ncclConfig_t *config, int shrinkFlags));
NCCL_DECLARE(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId *uniqueId));
NCCL_DECLARE(ncclResult_t, ncclCommGrow,
	     (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank, ncclComm_t *newcomm,
	      ncclConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));
NCCL_DECLARE(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));
/* From any thread. An idle communicator's other ranks are not disturbed; calls in flight that wait for this rank end with
 * ncclRemoteError there. */
NCCL_DECLARE(ncclResult_t, ncclCommAbort, (ncclComm_t comm));
NCCL_DECLARE(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));
NCCL_DECLARE(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError));
NCCL_DECLARE(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count));
NCCL_DECLARE(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device));
NCCL_DECLARE(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank));
NCCL_DECLARE(ncclResult_t, ncclCommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value));
/* Refused: a communicator keeps its memory. */
NCCL_DECLARE(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags));
NCCL_DECLARE(ncclResult_t, ncclCommResume, (ncclComm_t comm));
/* NONE is accepted, PSK refused. */
NCCL_DECLARE(ncclResult_t, ncclSetEncryption, (const ncclEncryptionConfig_t *config));

/* Memory. */
NCCL_DECLARE(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size));
NCCL_DECLARE(ncclResult_t, ncclMemFree, (void *ptr));
/* Registration succeeds and changes nothing: any buffer may be used in any call. */
NCCL_DECLARE(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle));
NCCL_DECLARE(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle));
/* Succeeds with *win = NULL, as NCCL does where windows are not supported. */
NCCL_DECLARE(ncclResult_t, ncclCommWindowRegister,
	     (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags));
NCCL_DECLARE(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));
NCCL_DECLARE(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void **outUserPtr));

/* Operators that multiply each contribution by a scalar before it is added. */
NCCL_DECLARE(ncclResult_t, ncclRedOpCreatePreMulSum,
	     (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
	      ncclComm_t comm));
NCCL_DECLARE(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

/* Calls between ncclGroupStart and ncclGroupEnd start together. */
NCCL_DECLARE(ncclResult_t, ncclGroupStart, (void));
NCCL_DECLARE(ncclResult_t, ncclGroupEnd, (void));
/* Refused: the group is dropped, and no time is estimated. */
NCCL_DECLARE(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo));

/* Collectives. They return when the call is on the stream. */
NCCL_DECLARE(ncclResult_t, ncclAllReduce,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
	      ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclReduce,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
	      int root, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclReduceScatter,
	     (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
	      ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclAllGather,
	     (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
	      ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclBroadcast,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	      ncclComm_t comm, cudaStream_t stream));
/* ncclBroadcast in place. */
NCCL_DECLARE(ncclResult_t, ncclBcast,
	     (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	      cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclAlltoAll,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
	      cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclGather,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	      ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclScatter,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	      ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclSend,
	     (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	      cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclRecv,
	     (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	      cudaStream_t stream));

/* Collectives with hints for this call; config NULL: none. */
NCCL_DECLARE(ncclResult_t, ncclAllReduceConfig,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
	      ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclReduceConfig,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
	      int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclReduceScatterConfig,
	     (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
	      ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclAllGatherConfig,
	     (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
	      ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclBroadcastConfig,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	      ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclAlltoAllConfig,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
	      cudaStream_t stream, const ncclCollConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclGatherConfig,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	      ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config));
NCCL_DECLARE(ncclResult_t, ncclScatterConfig,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	      ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config));

/* One-sided operations: refused. Use ncclSend and ncclRecv. */
NCCL_DECLARE(ncclResult_t, ncclPutSignal,
	     (const void *localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
	      size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
	      cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclSignal,
	     (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ncclWaitSignal,
	     (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream));

/* NCCL_* variables as Corale sees them, by name. Strings stay valid until the calling thread's next call of the same function. */
NCCL_DECLARE(ncclResult_t, ncclParamBind, (ncclParamHandle_t * out, const char *key));
NCCL_DECLARE(ncclResult_t, ncclParamGetI8, (ncclParamHandle_t h, int8_t *out));
NCCL_DECLARE(ncclResult_t, ncclParamGetI16, (ncclParamHandle_t h, int16_t *out));
NCCL_DECLARE(ncclResult_t, ncclParamGetI32, (ncclParamHandle_t h, int32_t *out));
NCCL_DECLARE(ncclResult_t, ncclParamGetI64, (ncclParamHandle_t h, int64_t *out));
NCCL_DECLARE(ncclResult_t, ncclParamGetU8, (ncclParamHandle_t h, uint8_t *out));
NCCL_DECLARE(ncclResult_t, ncclParamGetU16, (ncclParamHandle_t h, uint16_t *out));
NCCL_DECLARE(ncclResult_t, ncclParamGetU32, (ncclParamHandle_t h, uint32_t *out));
NCCL_DECLARE(ncclResult_t, ncclParamGetU64, (ncclParamHandle_t h, uint64_t *out));
NCCL_DECLARE(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t h, const char **out));
NCCL_DECLARE(ncclResult_t, ncclParamGet, (ncclParamHandle_t h, void *out, int maxLen, int *len));
NCCL_DECLARE(ncclResult_t, ncclParamGetParameter, (const char *key, const char **value, int *valueLen));
NCCL_DECLARE(ncclResult_t, ncclParamGetAllParameterKeys, (const char ***table, int *tableLen));
NCCL_DECLARE(void, ncclParamDumpAll, (void));

#undef NCCL_DECLARE
#ifdef __cplusplus
}
#endif

#endif
