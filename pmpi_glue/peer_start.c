/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks take headers of which: those of a host whose processes have passed each other their tables. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "base/settings.h"
#include "door.h"
#include "health/watch.h"
#include "host/fdpass.h"
#include "host/liveness.h"
#include "peer.h"
#include "request.h"

struct pmpi_peer_state pmpi_peer;

/* What each rank tells all. */
struct hello {
	int can, node;
	uint64_t cookie; /* rank 0's is used */
	char name[FDPASS_NAME_BYTES];
};

/* MPICH 5.0.2 forgets that a persistent request is complete when MPI_Request_get_status has said so; a receive that a header may come to is looked at. */
static int forgets_requests(void)
{
	enum { TAG = 1 };
	char sent = 0, byte;
	MPI_Request request;
	MPI_Status status = { .MPI_SOURCE = MPI_ANY_SOURCE };
	int is_there = 0;
	if (PMPI_Recv_init(&byte, 1, MPI_BYTE, 0, TAG, pmpi.quiet, &request))
		return 1;
	PMPI_Start(&request);
	PMPI_Send(&sent, 1, MPI_BYTE, 0, TAG, pmpi.quiet);
	while (!is_there && !PMPI_Request_get_status(request, &is_there, MPI_STATUS_IGNORE))
		;
	PMPI_Wait(&request, &status);
	PMPI_Request_free(&request);
	return status.MPI_SOURCE != 0;
}

/* Why this rank takes no headers; NULL: it may. */
static const char *why_not(void)
{
	if (!pmpi.on || !pmpi.device || !pmpi.device->export_memory)
		return "other processes can't map its device's memory";
	return forgets_requests() ? "this MPI forgets that a persistent request is complete once it was asked"
				  : NULL;
}

/* The lowest rank of the node, and CORALE_NODE_SIZE's part of it. */
static int find_node(int *node)
{
	const struct settings *settings;
	MPI_Comm host;
	int error = PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	if (error)
		return error;
	error = PMPI_Allreduce(&pmpi.rank, node, 1, MPI_INT, MPI_MIN, host);
	PMPI_Comm_free(&host);
	if (!error && !settings_get(&settings) && settings->node_size)
		*node = pmpi.rank / settings->node_size * settings->node_size;
	return error;
}

/* The tables of the other ranks of this node that can, and the pages that tell of their ends; 0: all are mapped. */
static int open_tables(struct fdpass *pass, const struct hello *all, int fd)
{
	enum { FDS = 2 };
	const int mine[FDS] = { fd, liveness_fd() };
	int *ids = malloc((1 + FDS) * (size_t)pmpi.size * sizeof(int)), *fds = ids + pmpi.size, n = 0,
	    ret = -1;
	char(*names)[FDPASS_NAME_BYTES] = malloc((size_t)pmpi.size * sizeof *names);
	for (int i = 0; ids && names && i < pmpi.size; i++)
		if (i != pmpi.rank && all[i].can && all[i].node == all[pmpi.rank].node) {
			memcpy(names[n], all[i].name, sizeof *names);
			ids[n++] = i;
		}
	if (ids && names)
		ret = fdpass_exchange(pass, n, (const char(*)[FDPASS_NAME_BYTES])names, ids, pmpi.rank,
				      all[0].cookie, mine, FDS, fds, 60);
	for (int i = 0; !ret && i < n; i++)
		ret = peer_table_open(ids[i], fds + FDS * i);
	free(ids);
	free(names);
	return ret;
}

/* Ranks that have mapped all tables of their node take headers of each other. */
static int agree(const struct hello *all, int is_open)
{
	int *opened = malloc((size_t)pmpi.size * sizeof(int)), any = 0;
	pmpi_peer.takes = calloc((size_t)pmpi.size, sizeof(int));
	is_open = is_open && opened && pmpi_peer.takes;
	int error = opened ? PMPI_Allgather(&is_open, 1, MPI_INT, opened, 1, MPI_INT, MPI_COMM_WORLD)
			   : MPI_ERR_NO_MEM;
	for (int i = 0; !error && is_open && i < pmpi.size; i++)
		pmpi_peer.takes[i] = opened[i] && all[i].node == all[pmpi.rank].node;
	for (int i = 0; !error && i < pmpi.size; i++)
		any |= opened[i];
	free(opened);
	pmpi_peer.on = any;
	if (!error && any)
		error = pmpi_peer_agree(MPI_COMM_WORLD, 1);
	return error || !any ? error : pmpi_peer_agree(MPI_COMM_SELF, 2);
}

static void take_settings(void)
{
	const struct settings *settings;
	if (settings_get(&settings))
		return;
	pmpi_peer.least = settings->mpi_peer_least;
	pmpi_peer.eager = settings->mpi_peer_eager > PEER_HEADER ? settings->mpi_peer_eager : PEER_HEADER;
	pmpi_peer.wait_ns = (int64_t)(1000 * settings->mpi_peer_wait_us);
}

int pmpi_peer_start(int wanted)
{
	struct hello mine = { .cookie = process_number() };
	struct hello *all = NULL;
	struct fdpass *pass = NULL;
	int fd = -1, error;
	const char *reason = wanted ? why_not() : NULL;
	if (reason)
		log_line(LOG_INFO, pmpi.rank, "no messages by peer copies: %s", reason);
	take_settings();
	error = find_node(&mine.node);
	if (!error && wanted && !reason && !watch_start(pmpi.rank) && (fd = peer_table_create()) >= 0)
		mine.can = !fdpass_listen(&pass, mine.name);
	if (!error)
		all = malloc((size_t)pmpi.size * sizeof *all);
	if (!all)
		return error ? error : MPI_ERR_NO_MEM;
	error = PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
	if (!error)
		error = agree(all, mine.can && !open_tables(pass, all, fd));
	fdpass_close(pass);
	free(all);
	return error;
}

/* Messages to receives that the program has freed end here, and so do its freed sends: when all ranks have come, none waits for another one. */
void pmpi_peer_end(void)
{
	MPI_Request all_are_here;
	int is_done = 0;
	if (!pmpi_peer.on)
		return;
	if (PMPI_Ibarrier(MPI_COMM_WORLD, &all_are_here))
		return;
	while (!is_done && !PMPI_Test(&all_are_here, &is_done, MPI_STATUS_IGNORE)) {
		pmpi_peer_progress();
		pmpi_requests_progress();
	}
	log_line(
	    LOG_INFO, pmpi.rank,
	    "messages by peer copies: %ld sent, %ld of them copied by this rank, %ld within the GPU; %ld "
	    "received",
	    pmpi_peer.by_header, pmpi_peer.buffered, pmpi_peer.pooled, pmpi_peer.pulled);
	peer_pool_end();
	pmpi_peer.on = 0;
}
