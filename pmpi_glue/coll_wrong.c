/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that are wrong in what MPI looks at before it touches a buffer: MPI says of them what it says without the door, where Corale's refusal would end its
 * communicator. They count in no vote, so a rank that makes its call again, right this time, meets the others' calls.
 */
#include "coll.h"
#include "door.h"

#ifdef OPEN_MPI
static const enum coll_mpi this_mpi = COLL_OPEN_MPI;
#else
static const enum coll_mpi this_mpi = COLL_MPICH;
#endif

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
	if (this_mpi != COLL_MPICH || side->buffer || coll_count(call, side, block) <= 0 ||
	    (side->displs && coll_displ(call, side, block)))
		return 0;
	PMPI_Type_get_true_extent(side->type, &from, &extent);
	return !from && extent > 0;
}

static int is_wrong_side(const struct coll_call *call, const struct coll_side *side,
			 const struct coll_side_kind *rule, enum coll_where here, int size)
{
	const int n = rule->form == SIDE_ARRAYS ? size : 1;
	if (!(rule->at & here))
		return 0;
	if (side->buffer == MPI_IN_PLACE)
		return !(rule->in_place & here);
	if ((rule->form == SIDE_ARRAYS && (!side->counts || !side->displs)) ||
	    side->type == MPI_DATATYPE_NULL || ((rule->commits & this_mpi) && is_uncommitted(side->type)))
		return 1;
	for (int i = 0; i < n; i++)
		if (coll_count(call, side, i) < 0 || is_null(call, side, i))
			return 1;
	return 0;
}

/* ---- Both sides */

/* Where this rank's own block is. */
static const char *own_block(const struct coll_call *call, const struct coll_side *side, enum coll_form form,
			     int rank)
{
	const MPI_Aint at = form == SIDE_EACH     ? rank * (MPI_Aint)side->count
			    : form == SIDE_ARRAYS ? coll_displ(call, side, rank)
						  : 0;
	return (const char *)side->buffer + at * (MPI_Aint)coll_type_bytes(side->type);
}

static int is_one_memory(const struct coll_call *call, const struct coll_kind *rule, int rank)
{
	const struct coll_side *send = &call->send, *recv = &call->recv;
	const int least = this_mpi == COLL_OPEN_MPI && call->function == PMPI_ALLREDUCE;
	if (rule->has_op)
		return send->buffer == recv->buffer && send->count > least &&
		       (this_mpi == COLL_MPICH || recv->buffer);
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

static int are_wrong_together(const struct coll_call *call, const struct coll_kind *rule,
			      enum coll_where here, int rank)
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
	for (int i = 0; call->recv.results && i < size; i++)
		if (coll_count_at(call, call->recv.results, i) < 0)
			return 1;
	return coll_kind(call)->recv.form == SIDE_RESULTS && !call->recv.results;
}

/* Of calls that are staged, too: their types are decoded. */
static int has_no_type(const struct coll_call *call, const struct coll_side *side)
{
	const int n = side->types ? side->blocks : side->blocks > 0;
	for (int i = 0; i < n; i++)
		if (coll_type(side, i) == MPI_DATATYPE_NULL && coll_count(call, side, i) > 0)
			return 1;
	return 0;
}

int coll_is_wrong(const struct coll_call *call)
{
	if (call->function == PMPI_BARRIER)
		return 0;
	const struct coll_kind *rule = coll_kind(call);
	const struct pmpi_comm *comm = rule->is_run ? pmpi_comm_find(call->comm) : NULL;
	if (!comm || comm->is_inter)
		return has_no_type(call, &call->send) || has_no_type(call, &call->recv);
	if ((rule->has_op && call->op == MPI_OP_NULL) || has_wrong_counts(call, comm->size) ||
	    (rule->is_rooted && (call->root < 0 || call->root >= comm->size)))
		return 1;
	const enum coll_where here = !rule->is_rooted           ? COLL_EVERYWHERE
				     : call->root == comm->rank ? COLL_AT_ROOT
								: COLL_AT_LEAVES;
	return is_wrong_side(call, &call->send, &rule->send, here, comm->size) ||
	       is_wrong_side(call, &call->recv, &rule->recv, here, comm->size) ||
	       are_wrong_together(call, rule, here, comm->rank);
}
