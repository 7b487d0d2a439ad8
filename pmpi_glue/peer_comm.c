/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators on which headers go. An id that all ranks have agreed on tells the slots of one communicator from those of another. */
#include "door.h"
#include "peer.h"

/* Of this rank's next communicator. No rank offers an id twice, so the largest offer is of one communicator alone, whatever others threads make. */
static _Atomic uint64_t next_id = 16;

int pmpi_peer_agree(MPI_Comm handle, uint64_t id)
{
	int is_inter = 0, ret = MPI_SUCCESS;
	if (!pmpi_peer.on || handle == MPI_COMM_NULL || PMPI_Comm_test_inter(handle, &is_inter) || is_inter)
		return MPI_SUCCESS;
	struct pmpi_comm *comm = pmpi_comm_find(handle);
	if (comm && !comm->is_of_world)
		return MPI_SUCCESS; /* alike on all ranks; others may lack memory */
	const uint64_t mine[2] = { next_id++ * (uint64_t)pmpi.size + (uint64_t)pmpi.rank, !comm };
	uint64_t all[2] = { id, 0 };
	if (!id)
		ret = PMPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_MAX, handle);
	if (!ret && comm && !all[1])
		comm->headers_id = all[0];
	return ret;
}

/* ---- Where all ranks of a communicator make it together */

#define MAKES(name, parameters, arguments)                                                                   \
	PMPI_ENTRY(MPI_##name, parameters, arguments)                                                        \
	{                                                                                                    \
		const int ret = PMPI_##name arguments;                                                       \
		return ret ? ret : pmpi_peer_agree(*made, 0);                                                \
	}
MAKES(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made))
MAKES(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
MAKES(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made))
MAKES(Comm_split_type, (MPI_Comm comm, int kind, int key, MPI_Info info, MPI_Comm *made),
      (comm, kind, key, info, made))
MAKES(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))
MAKES(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), (comm, group, tag, made))
MAKES(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made))
MAKES(Cart_create, (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder, MPI_Comm *made),
      (comm, n, dims, periods, reorder, made))
MAKES(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made), (comm, remain, made))
MAKES(Graph_create, (MPI_Comm comm, int n, const int index[], const int edges[], int reorder, MPI_Comm *made),
      (comm, n, index, edges, reorder, made))
MAKES(Dist_graph_create,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int targets[],
       const int weights[], MPI_Info info, int reorder, MPI_Comm *made),
      (comm, n, sources, degrees, targets, weights, info, reorder, made))
MAKES(Dist_graph_create_adjacent,
      (MPI_Comm comm, int in, const int sources[], const int in_weights[], int out, const int targets[],
       const int out_weights[], MPI_Info info, int reorder, MPI_Comm *made),
      (comm, in, sources, in_weights, out, targets, out_weights, info, reorder, made))
