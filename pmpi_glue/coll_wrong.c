/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that are wrong in what MPI looks at before it touches a buffer: MPI says of them what it says without the door, where Corale's refusal would end its
 * communicator. They count in no vote, so a rank that makes its call again, right this time, meets the others' calls.
 */
#include "coll.h"
#include "door.h"

/* What one MPI refuses and the other one runs is handed over only where the program's own refuses it: the other ranks' right calls may be routed. */
enum mpi { OPEN_MPI_ALONE = 1, MPICH_ALONE = 2, BOTH = 3 };
#ifdef OPEN_MPI
static const enum mpi this_mpi = OPEN_MPI_ALONE;
#else
static const enum mpi this_mpi = MPICH_ALONE;
#endif

enum ranks { NOWHERE = 0, AT_ROOT = 1, AT_LEAVES = 2, EVERYWHERE = 3 };
enum form { ONE, EACH, ARRAYS }; /* EACH: a block of each rank, of one count */

/* From the checks of Open MPI 4.1.4 and 5.0.7 (ompi/mpi/c) and MPICH 4.0.2 (src/binding/c/coll). */
static const struct rule {
	struct side_rule {
		enum ranks at, in_place; /* where MPI looks at the side, and where it may be MPI_IN_PLACE */
		enum form form;
		enum mpi commits; /* who refuses types that are not committed */
	} send, recv;
	enum mpi one_memory; /* who refuses the same memory for both sides */
	int is_rooted, has_op;
} rules[PMPI_ROUTED] = {
	/* clang-format off */
	[PMPI_BCAST] = { { 0 }, { EVERYWHERE, NOWHERE, ONE, BOTH }, 0, 1, 0 },
	[PMPI_REDUCE] = { { EVERYWHERE, AT_ROOT, ONE, 0 }, { AT_ROOT, NOWHERE, ONE, 0 }, BOTH, 1, 1 },
	[PMPI_ALLREDUCE] = { { EVERYWHERE, EVERYWHERE, ONE, 0 }, { EVERYWHERE, NOWHERE, ONE, 0 }, BOTH, 0, 1 },
	[PMPI_REDUCE_SCATTER_BLOCK] = { { EVERYWHERE, EVERYWHERE, ONE, 0 }, { EVERYWHERE, NOWHERE, ONE, 0 }, MPICH_ALONE, 0, 1 },
	[PMPI_REDUCE_SCATTER] = { { EVERYWHERE, EVERYWHERE, ONE, 0 }, { EVERYWHERE, NOWHERE, ONE, 0 }, MPICH_ALONE, 0, 1 },
	[PMPI_ALLGATHER] = { { EVERYWHERE, EVERYWHERE, ONE, BOTH }, { EVERYWHERE, NOWHERE, EACH, MPICH_ALONE }, MPICH_ALONE, 0, 0 },
	[PMPI_ALLGATHERV] = { { EVERYWHERE, EVERYWHERE, ONE, BOTH }, { EVERYWHERE, NOWHERE, ARRAYS, MPICH_ALONE }, MPICH_ALONE, 0, 0 },
	[PMPI_GATHER] = { { EVERYWHERE, AT_ROOT, ONE, BOTH }, { AT_ROOT, NOWHERE, EACH, MPICH_ALONE }, MPICH_ALONE, 1, 0 },
	[PMPI_GATHERV] = { { EVERYWHERE, AT_ROOT, ONE, BOTH }, { AT_ROOT, NOWHERE, ARRAYS, MPICH_ALONE }, MPICH_ALONE, 1, 0 },
	[PMPI_SCATTER] = { { AT_ROOT, NOWHERE, EACH, MPICH_ALONE }, { EVERYWHERE, AT_ROOT, ONE, MPICH_ALONE }, MPICH_ALONE, 1, 0 },
	[PMPI_SCATTERV] = { { AT_ROOT, NOWHERE, ARRAYS, BOTH }, { EVERYWHERE, AT_ROOT, ONE, MPICH_ALONE }, MPICH_ALONE, 1, 0 },
	[PMPI_ALLTOALL] = { { EVERYWHERE, EVERYWHERE, EACH, BOTH }, { EVERYWHERE, NOWHERE, EACH, BOTH }, MPICH_ALONE, 0, 0 },
	[PMPI_ALLTOALLV] = { { EVERYWHERE, EVERYWHERE, ARRAYS, BOTH }, { EVERYWHERE, NOWHERE, ARRAYS, BOTH }, MPICH_ALONE, 0, 0 },
	/* clang-format on */
};

/* ---- A side */

/* MPI has no such question: a send to nobody asks it. Predefined types that were used are known. */
static int is_uncommitted(MPI_Datatype type)
{
	const char element = 0;
	return !pmpi_type_is_named(type) && PMPI_Send(&element, 1, type, MPI_PROC_NULL, 0, pmpi.quiet);
}

/* NULL is MPI_BOTTOM, right where the type has absolute addresses. Open MPI does not look. */
static int is_null(const struct coll_call *call, const struct coll_side *side, int block)
{
	MPI_Aint from, extent;
	if (this_mpi != MPICH_ALONE || side->buffer || coll_count(call, side, block) <= 0 ||
	    (side->displs && coll_displ(call, side, block)))
		return 0;
	PMPI_Type_get_true_extent(side->type, &from, &extent);
	return !from && extent > 0;
}

static int is_wrong_side(const struct coll_call *call, const struct coll_side *side,
			 const struct side_rule *rule, enum ranks here, int size)
{
	const int n = rule->form == ARRAYS ? size : 1;
	if (!(rule->at & here))
		return 0;
	if (side->buffer == MPI_IN_PLACE)
		return !(rule->in_place & here);
	if ((rule->form == ARRAYS && (!side->counts || !side->displs)) || side->type == MPI_DATATYPE_NULL ||
	    ((rule->commits & this_mpi) && is_uncommitted(side->type)))
		return 1;
	for (int i = 0; i < n; i++)
		if (coll_count(call, side, i) < 0 || is_null(call, side, i))
			return 1;
	return 0;
}

/* ---- Both sides */

/* Where this rank's own block is. */
static const char *own_block(const struct coll_call *call, const struct coll_side *side, enum form form,
			     int rank)
{
	const MPI_Aint at = form == EACH     ? rank * (MPI_Aint)side->count
			    : form == ARRAYS ? coll_displ(call, side, rank)
					     : 0;
	return (const char *)side->buffer + at * (MPI_Aint)coll_type_bytes(side->type);
}

static int is_one_memory(const struct coll_call *call, const struct rule *rule, int rank)
{
	const struct coll_side *send = &call->send, *recv = &call->recv;
	const int least = this_mpi == OPEN_MPI_ALONE && call->function == PMPI_ALLREDUCE;
	if (rule->has_op)
		return send->buffer == recv->buffer && send->count > least &&
		       (this_mpi == MPICH_ALONE || recv->buffer);
	if (send->type != recv->type || coll_count(call, send, rank) != coll_count(call, recv, rank) ||
	    !coll_count(call, send, rank) ||
	    (call->function == PMPI_ALLTOALLV && send->counts != recv->counts))
		return 0;
	return own_block(call, send, rule->send.form, rank) == own_block(call, recv, rule->recv.form, rank);
}

/* A rank sends itself what it receives from itself. */
static int has_two_lengths(const struct coll_call *call, int rank)
{
	const struct coll_side *send = &call->send, *recv = &call->recv;
	if (call->function != PMPI_ALLTOALL && call->function != PMPI_ALLTOALLV)
		return 0;
	const MPI_Count in = coll_count(call, send, rank), out = coll_count(call, recv, rank);
	return send->type == recv->type
		   ? in != out
		   : (size_t)in * coll_type_bytes(send->type) != (size_t)out * coll_type_bytes(recv->type);
}

static int are_wrong_together(const struct coll_call *call, const struct rule *rule, enum ranks here,
			      int rank)
{
	if (call->send.buffer == MPI_IN_PLACE || call->recv.buffer == MPI_IN_PLACE ||
	    !(rule->send.at & rule->recv.at & here))
		return 0;
	return has_two_lengths(call, rank) ||
	       ((rule->one_memory & this_mpi) && is_one_memory(call, rule, rank));
}

/* ---- The call */

static int has_wrong_counts(const struct coll_call *call, int size)
{
	int is_wrong = call->function == PMPI_REDUCE_SCATTER && !call->counts;
	for (int i = 0; call->counts && i < size && !is_wrong; i++)
		is_wrong = coll_result_count(call, i) < 0;
	return is_wrong;
}

/* Of calls that are staged, too: their types are decoded. */
static int has_no_type(const struct coll_call *call, const struct coll_side *side)
{
	const int n = side->types ? side->blocks : side->blocks > 0;
	int is_wrong = 0;
	for (int i = 0; i < n && !is_wrong; i++)
		is_wrong = coll_type(side, i) == MPI_DATATYPE_NULL && coll_count(call, side, i) > 0;
	return is_wrong;
}

int coll_is_wrong(const struct coll_call *call)
{
	if (call->function == PMPI_BARRIER)
		return 0;
	const struct pmpi_comm *comm = (int)call->function < PMPI_ROUTED ? pmpi_comm_find(call->comm) : NULL;
	if (!comm || comm->is_inter)
		return has_no_type(call, &call->send) || has_no_type(call, &call->recv);
	const struct rule *rule = &rules[call->function];
	if ((rule->has_op && call->op == MPI_OP_NULL) || has_wrong_counts(call, comm->size) ||
	    (rule->is_rooted && (call->root < 0 || call->root >= comm->size)))
		return 1;
	const enum ranks here = !rule->is_rooted           ? EVERYWHERE
				: call->root == comm->rank ? AT_ROOT
							   : AT_LEAVES;
	return is_wrong_side(call, &call->send, &rule->send, here, comm->size) ||
	       is_wrong_side(call, &call->recv, &rule->recv, here, comm->size) ||
	       are_wrong_together(call, rule, here, comm->rank);
}
