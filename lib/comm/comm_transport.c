/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transport carries messages between nodes, and the opening of it. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm_create.h"
#include "health/diagnose.h"
#include "transport_rows.h"

/* Why two ranks can't share memory. */
static const char *why_apart(const struct hello *a, const struct hello *b)
{
	static const char *const on_one_host[] = {
		[HELLO_TOGETHER] = "on one host, which CORALE_NODE_SIZE divides into nodes",
		[HELLO_ASKED] = "on one host, where each is to be a node of its own (NCCL_P2P_DISABLE or "
				"CORALE_P2P=no, or NCCL_SHM_DISABLE in host memory)",
		[HELLO_NO_ACCESS] =
		    "on one host, where GPUs can't reach each other's memory (no peer access)",
		[HELLO_NO_DESCRIPTORS] =
		    "on one host, where ranks can't pass each other descriptors of memory"
	};
	if (a->host == b->host)
		return on_one_host[(a->apart ? a->apart : b->apart) & 3];
	if (a->machine && a->machine == b->machine)
		return "on one machine, in containers that share no network namespace or have different host "
		       "names, so they can't pass each other descriptors of memory";
	return "on different hosts";
}

/* Why a transport does not carry messages of all ranks. */
static void print_why_not(const struct comm *comm, const struct hello *hellos,
			  const struct transport_row *row, char *text, size_t bytes)
{
	const uint64_t reach = hello_reach(&hellos[0], row->name);
	int r = 1;
	if (!row->probe(row, comm->wants_gpu, text, bytes))
		return;
	while (r < comm->size - 1 && hello_reach(&hellos[r], row->name) == reach)
		r++;
	snprintf(text, bytes,
		 "it does not connect rank 0 (host %s) and rank %d (host %s); if one lacks it, its own line "
		 "says why",
		 hellos[0].name, r, hellos[r].name);
}

/* Names a rank of another node, and why no transport leads there. */
static int refuse_nodes(const struct comm *comm, const struct hello *hellos)
{
	const struct plan_map *map = &comm->topo->map;
	const struct transport_row *row;
	char text[COMM_ERROR_BYTES] = "", why_not[COMM_ERROR_BYTES / 2];
	int other = 1;
	while (other < comm->size - 1 && map->node_of[other] == map->node_of[0])
		other++;
	for (int i = 0; (row = transport_row_at(i, comm->transport_row)); i++) {
		if (!transport_is_wanted(&comm->settings, row))
			continue;
		print_why_not(comm, hellos, row, why_not, sizeof why_not);
		snprintf(text + strlen(text), sizeof text - strlen(text), "; transport %s can't be used: %s",
			 row->name, why_not);
	}
	return log_error(CORALE_ENOTSUP, comm->rank, "rank 0 (host %s) and rank %d (host %s) are %s%s",
			 hellos[0].name, other, hellos[other].name, why_apart(&hellos[0], &hellos[other]),
			 text);
}

/* The first transport in rank 0's order over which every rank reaches it. */
int comm_choose_transport(const struct comm *comm, const struct hello *hellos,
			  const struct transport_row **out)
{
	for (int i = 0; i < TRANSPORT_ROWS; i++) {
		const struct hello_transport *first = &hellos[0].transports[i];
		const struct transport_row *row;
		int all = first->reach != 0;
		for (int r = 1; all && r < comm->size; r++)
			all = hello_reach(&hellos[r], first->name) == first->reach;
		for (int k = 0; all && (row = transport_row_at(k, comm->transport_row)); k++)
			if (!strncmp(row->name, first->name, TRANSPORT_NAME_BYTES)) {
				*out = row;
				return 0;
			}
	}
	return refuse_nodes(comm, hellos);
}

int comm_open_rail(struct comm *comm, const struct transport_row *row, const struct comm_rail *rail,
		   struct transport **out)
{
	unsigned char *needed = calloc((size_t)comm->size, 1);
	if (!needed)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", comm->size);
	for (int r = 0; r < comm->size; r++)
		needed[r] = !host_is_local(&comm->engine, r);
	const struct transport_params params = {
		.rank = comm->rank,
		.size = comm->size,
		.comm_id = comm->id +
			   (uint64_t)rail->number * 0x9e3779b97f4a7c15u, /* far from other communicators' */
		.rail = rail->number,
		.shares_memory = comm->shares_memory && !rail->gpu_slots,
		.gpu_slots = rail->gpu_slots != NULL,
		.devices = rail->devices,
		.needed = needed,
		.settings = &comm->settings,
		.slots = rail->gpu_slots ? *rail->gpu_slots : comm->engine.slots,
		.on_control = diagnose_control,
		.on_failure = rail->on_failure ? rail->on_failure : diagnose_failure,
		.handler_ctx = comm
	};
	int ret = transport_open(row, &params, &comm->bootstrap, out);
	free(needed);
	return ret;
}

/* Ranks of a host that can't be one node may share memory by the transport all the same. They have one user: the first shows for all. */
static int shares_memory(const struct comm *comm, const struct hello *hellos)
{
	const struct hello *mine = &hellos[comm->rank];
	int first = -1;
	for (int r = 0; mine->memory && r < comm->size; r++) {
		comm->peers[r].shares_memory =
		    hellos[r].memory == mine->memory && !host_is_local(&comm->engine, r);
		first = first < 0 && comm->peers[r].shares_memory ? r : first;
	}
	return first >= 0 && hello_reads_memory(mine, &hellos[first]);
}

int comm_open_transport(struct comm *comm, const struct hello *hellos)
{
	const struct transport_row *row;
	if (comm->topo->map.nodes == 1)
		return 0;
	host_engine_slots(&comm->engine);
	comm->shares_memory = shares_memory(comm, hellos);
	int ret = comm_choose_transport(comm, hellos, &row);
	if (!ret)
		ret = comm_open_rail(comm, row, &(struct comm_rail){ 0 }, &comm->engine.transport);
	if (ret)
		return ret;
	comm->manual = comm->engine.transport->ops->progress_by == TRANSPORT_CALLERS;
	comm->policy.sleep_ns = comm->manual ? 20000 : 0; /* nobody else moves the transport meanwhile */
	log_line(LOG_INFO, comm->rank, "%d nodes, transport %s", comm->topo->map.nodes, row->name);
	return 0;
}
