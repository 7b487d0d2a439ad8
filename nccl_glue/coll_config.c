/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's collectives with hints for one call. The communicator's configuration decides how a call runs, so hints are checked and have no
 * effect. */
#include <stdatomic.h>

#include "door.h"
#include "export.h"
#include "log.h"

static int has_hint(const struct door_coll_config *config)
{
	return config->min_ctas || config->max_ctas || config->cta_policy >= 0 || config->algorithm[0] ||
	       config->options;
}

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
	else if (has_hint(&config))
		log_hints(call);
	return door_group_fail(result);
}

DOOR_EXPORT(ncclAllReduceConfig);
ncclResult_t pncclAllReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
				  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
				  const ncclCollConfig_t *config)
{
	const ncclResult_t result = check("AllReduce", config);
	return result == ncclSuccess ? pncclAllReduce(send, recv, count, type, op, comm, stream) : result;
}

DOOR_EXPORT(ncclReduceConfig);
ncclResult_t pncclReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
			       ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
			       const ncclCollConfig_t *config)
{
	const ncclResult_t result = check("Reduce", config);
	return result == ncclSuccess ? pncclReduce(send, recv, count, type, op, root, comm, stream) : result;
}

DOOR_EXPORT(ncclReduceScatterConfig);
ncclResult_t pncclReduceScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
				      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
				      const ncclCollConfig_t *config)
{
	const ncclResult_t result = check("ReduceScatter", config);
	return result == ncclSuccess ? pncclReduceScatter(send, recv, count, type, op, comm, stream) : result;
}

DOOR_EXPORT(ncclAllGatherConfig);
ncclResult_t pncclAllGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
				  ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
	const ncclResult_t result = check("AllGather", config);
	return result == ncclSuccess ? pncclAllGather(send, recv, count, type, comm, stream) : result;
}

DOOR_EXPORT(ncclBroadcastConfig);
ncclResult_t pncclBroadcastConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
				  ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
	const ncclResult_t result = check("Broadcast", config);
	return result == ncclSuccess ? pncclBroadcast(send, recv, count, type, root, comm, stream) : result;
}

DOOR_EXPORT(ncclAlltoAllConfig);
ncclResult_t pncclAlltoAllConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
				 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
	const ncclResult_t result = check("AlltoAll", config);
	return result == ncclSuccess ? pncclAlltoAll(send, recv, count, type, comm, stream) : result;
}

DOOR_EXPORT(ncclGatherConfig);
ncclResult_t pncclGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
			       ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
	const ncclResult_t result = check("Gather", config);
	return result == ncclSuccess ? pncclGather(send, recv, count, type, root, comm, stream) : result;
}

DOOR_EXPORT(ncclScatterConfig);
ncclResult_t pncclScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
				ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
	const ncclResult_t result = check("Scatter", config);
	return result == ncclSuccess ? pncclScatter(send, recv, count, type, root, comm, stream) : result;
}
