/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's collectives with hints for one call. The communicator's configuration decides how a call runs, so hints are checked and have no
 * effect. */
#include <stdatomic.h>

#include "door.h"
#include "export.h"
#include "log.h"

/* Once a process, because a program gives the same hints to every call. */
static void log_hints(const char *call)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;
	if (!atomic_flag_test_and_set(&logged))
		door_log(DOOR_LOG_TUNING,
			 "nccl%sConfig: ncclCollConfig_t's hints (CTAs, CTAPolicy, algSelection, options) "
			 "have no effect on single calls; give CTAs and CTAPolicy to ncclCommInitRankConfig",
			 call);
}

static ncclResult_t check(const char *call, const ncclCollConfig_t *given)
{
	struct door_coll_config config;
	char why[256];
	ncclResult_t result = door_coll_config_read(given, &config, why, sizeof why);
	if (result != ncclSuccess)
		result = door_refuse(result, "nccl%sConfig: %s", call, why);
	else if (config.launched)
		result = door_refuse(ncclInvalidUsage,
				     "nccl%sConfig: Corale does not offer ncclCollConfig_t's "
				     "launchCompletionEvent; call cudaEventRecord after the call",
				     call);
	else if (config.has_hint)
		log_hints(call);
	return door_group_fail(result);
}

/* clang-format off */
#define PARAMETERS(...) (__VA_ARGS__, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
#define ARGUMENTS(...) (__VA_ARGS__, comm, stream)
/* clang-format on */

/* ncclXConfig: X, as pncclX, unless the hints are wrong. parameters, arguments: without those that all calls have. */
#define COLL_WITH_CONFIG(X, parameters, arguments)                                                           \
	DOOR_EXPORT(nccl##X##Config);                                                                        \
	ncclResult_t pnccl##X##Config PARAMETERS parameters                                                  \
	{                                                                                                    \
		const ncclResult_t result = check(#X, config);                                               \
		return result == ncclSuccess ? pnccl##X ARGUMENTS arguments : result;                        \
	}

COLL_WITH_CONFIG(AllReduce, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op),
		 (send, recv, count, type, op))
COLL_WITH_CONFIG(Reduce,
		 (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root),
		 (send, recv, count, type, op, root))
COLL_WITH_CONFIG(ReduceScatter,
		 (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op),
		 (send, recv, count, type, op))
COLL_WITH_CONFIG(AllGather, (const void *send, void *recv, size_t count, ncclDataType_t type),
		 (send, recv, count, type))
COLL_WITH_CONFIG(Broadcast, (const void *send, void *recv, size_t count, ncclDataType_t type, int root),
		 (send, recv, count, type, root))
COLL_WITH_CONFIG(AlltoAll, (const void *send, void *recv, size_t count, ncclDataType_t type),
		 (send, recv, count, type))
COLL_WITH_CONFIG(Gather, (const void *send, void *recv, size_t count, ncclDataType_t type, int root),
		 (send, recv, count, type, root))
COLL_WITH_CONFIG(Scatter, (const void *send, void *recv, size_t count, ncclDataType_t type, int root),
		 (send, recv, count, type, root))
