/* SPDX-License-Identifier: BSD-3-Clause */
#include "init_log.h"

#include <inttypes.h>
#include <stdio.h>

#include "log.h"

void init_log_line(const struct ncclComm *comm, const struct door_job *job, const char *state)
{
	static const char *const calls[] = {
		[DOOR_INIT] = "InitRank", [DOOR_SPLIT] = "Split", [DOOR_SHRINK] = "Shrink"
	};
	char of[160];
	uint64_t id = job->tag;
	for (size_t i = 0; i < sizeof job->id.internal; i++) /* FNV-1a: the id itself is secret */
		id = (id ^ (unsigned char)job->id.internal[i]) * 0x100000001b3u;
	if (job->kind == DOOR_INIT)
		snprintf(of, sizeof of, "commId 0x%" PRIx64, id);
	else
		snprintf(of, sizeof of, "parent %p splitCount %d color %d key %d", (void *)job->comm,
			 (int)(job->tag / 4), job->color, job->key);
	door_log(DOOR_LOG_INIT,
		 "ncclComm%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %" PRIx64 " %s - Init %s",
		 calls[job->kind], (const void *)comm, comm->rank, comm->size, comm->ordinal, comm->ordinal,
		 (uint64_t)comm->device->bus_id(comm->ordinal), of, state);
}

void init_log_start(const struct ncclComm *comm, const struct door_job *job, int version)
{
	char ignored[512];
	if (comm->rank == 0)
		door_log_version(version, comm->device->version());
	if (!door_log_wants(DOOR_LOG_INIT))
		return;
	init_log_line(comm, job, "START");
	if (door_config_ignored(&job->config, ignored, sizeof ignored))
		door_log(DOOR_LOG_INIT, "Corale: rank %d: without effect in ncclConfig_t: %s", comm->rank,
			 ignored);
}

/* In NCCL's words: what carries messages between nodes, and whether they go through GPUs' memory. */
static const char *net_path(const struct comm *core, int peer)
{
	if (core->engine.transport->shares_memory && core->peers[peer].shares_memory)
		return "SHM/UCX";
	if (!core->engine.transport->rdma)
		return "NET/Socket/0";
	return core->direct ? "NET/IB/0/GDRDMA" : "NET/IB/0";
}

/* Memory of the same process, memory of another process's GPU, host memory that processes share; or a network. */
static const char *path_of(const struct ncclComm *comm, const struct init_place *places, int peer)
{
	const struct init_place *here = &places[comm->rank], *there = &places[peer];
	const struct comm *core = atomic_load(&comm->core->comm);
	const struct plan_map *map = &core->topo->map;
	if (map->node_of[comm->rank] != map->node_of[peer])
		return net_path(core, peer);
	if (!comm->device->is_gpu || core->host_window)
		return "SHM/direct/direct";
	return here->process == there->process ? "P2P/direct pointer" : "P2P/CUMEM";
}

void init_log_complete(const struct ncclComm *comm, const struct door_job *job,
		       const struct init_place *places)
{
	const struct comm *core = atomic_load(&comm->core->comm);
	const struct transport *transport = core->engine.transport;
	door_log(DOOR_LOG_INIT | DOOR_LOG_NET, "Using network %s",
		 !transport        ? "none (all ranks are on one node)"
		 : transport->rdma ? "IB"
				   : "Socket");
	if (!door_log_wants(DOOR_LOG_INIT | DOOR_LOG_P2P))
		return;
	for (int r = 0; r < comm->size; r++)
		if (r != comm->rank)
			door_log(DOOR_LOG_INIT | DOOR_LOG_P2P, "Channel 00/0 : %d[%d] -> %d[%d] via %s",
				 comm->rank, comm->ordinal, r, (int)places[r].ordinal,
				 path_of(comm, places, r));
	init_log_line(comm, job, "COMPLETE");
}
