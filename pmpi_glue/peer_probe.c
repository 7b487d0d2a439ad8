/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes. The header stays with MPI, and its slot is found without it: MPI gives messages of one source, communicator and tag out in their order, so a probe has met the
 * oldest slot that no receive has, whether the program has waited for that or not.
 */
#include <stdlib.h>

#include "base/log.h"
#include "corale.h"
#include "door.h"
#include "peer.h"

/* Messages of MPI_Mprobe that are headers. */
static struct matched {
	MPI_Message message;
	struct pmpi_group *group;
	MPI_Comm comm;
	int slot;
	struct matched *next;
} * first;

static int find_slot(const struct pmpi_group *group, MPI_Status *status)
{
	const int owner = pmpi_peer_owner(group, status);
	if (owner < 0)
		return -1;
	pmpi_peer_claim_matched(group);
	const int number = peer_slot_oldest(owner, group->id, status->MPI_TAG, PEER_MATCHED);
	if (number < 0)
		return -1;
	PMPI_Status_set_cancelled(status, 0); /* undefined behind MPICH's probe */
	PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)peer_slot(owner, (uint32_t)number)->bytes);
	return number;
}

static int keep(MPI_Comm comm, MPI_Message message, MPI_Status *status)
{
	struct pmpi_group *group = pmpi_group_of(comm);
	const int number = find_slot(group, status);
	if (number < 0)
		return MPI_SUCCESS;
	struct matched *m = malloc(sizeof *m);
	if (!m) {
		log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a message that was probed");
		return pmpi_fail(comm);
	}
	peer_slot(group->ranks[status->MPI_SOURCE], (uint32_t)number)->claim = PEER_PROBED;
	group->users++;
	*m = (struct matched){ message, group, comm, number, first };
	first = m;
	return MPI_SUCCESS;
}

static int take(MPI_Message message, struct matched *out)
{
	struct matched **link = &first, *m;
	while (*link && (*link)->message != message)
		link = &(*link)->next;
	if (!(m = *link))
		return 0;
	*out = *m;
	*link = m->next;
	free(m);
	return 1;
}

/* 0: no header; MPI's. The receive takes the header alone. */
static int begin(struct pmpi_receiving *r, void *buffer, MPI_Count count, MPI_Datatype type,
		 MPI_Message message)
{
	struct matched m;
	if (!first || !take(message, &m))
		return 0;
	const int is_begun = pmpi_receiving_begin(r, buffer, count, type, m.group, m.comm);
	pmpi_group_put(m.group);
	if (!is_begun)
		return 0;
	if (r->pinned)
		pmpi_unpinned(r->buffer, r->pinned);
	if (r->is_own)
		free(r->buffer);
	r->pinned = 0;
	r->is_own = 0;
	r->buffer = r->header;
	r->slot = m.slot;
	return 1;
}

int pmpi_peer_Mrecv(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Message *message,
		    MPI_Status *status, int *ret)
{
	struct pmpi_receiving r;
	MPI_Status own;
	if (!begin(&r, buffer, count, type, *message))
		return 0;
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	*ret = PMPI_Mrecv(r.header, PEER_HEADER, MPI_BYTE, message, status);
	*ret = pmpi_receiving_ended(&r, status, *ret);
	return 1;
}

int pmpi_peer_Imrecv(void *buffer, MPI_Count count, MPI_Datatype type, MPI_Message *message,
		     MPI_Request *request, int *ret)
{
	struct pmpi_receiving *r = malloc(sizeof *r);
	if (!r || !begin(r, buffer, count, type, *message)) {
		free(r);
		return 0;
	}
	const int error = PMPI_Imrecv(r->header, PEER_HEADER, MPI_BYTE, message, request);
	if (!error)
		r->request = *request;
	*ret = pmpi_receiving_keep(r, 0, error);
	return 1;
}

/* ---- Functions of MPI ---------------------------------------------------------------------------------- */

PMPI_ENTRY(MPI_Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), (from, tag, comm, status))
{
	MPI_Status own;
	if (!pmpi_peer_watches(from, comm))
		return PMPI_Probe(from, tag, comm, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	const int ret = PMPI_Probe(from, tag, comm, status);
	if (!ret)
		find_slot(pmpi_group_of(comm), status);
	return ret;
}

PMPI_ENTRY(MPI_Iprobe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status),
	   (from, tag, comm, flag, status))
{
	MPI_Status own;
	if (!pmpi_peer_watches(from, comm))
		return PMPI_Iprobe(from, tag, comm, flag, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	const int ret = PMPI_Iprobe(from, tag, comm, flag, status);
	if (!ret && *flag)
		find_slot(pmpi_group_of(comm), status);
	return ret;
}

PMPI_ENTRY(MPI_Mprobe, (int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
	   (from, tag, comm, message, status))
{
	MPI_Status own;
	if (!pmpi_peer_watches(from, comm))
		return PMPI_Mprobe(from, tag, comm, message, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	const int ret = PMPI_Mprobe(from, tag, comm, message, status);
	return ret ? ret : keep(comm, *message, status);
}

PMPI_ENTRY(MPI_Improbe,
	   (int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
	   (from, tag, comm, flag, message, status))
{
	MPI_Status own;
	if (!pmpi_peer_watches(from, comm))
		return PMPI_Improbe(from, tag, comm, flag, message, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	const int ret = PMPI_Improbe(from, tag, comm, flag, message, status);
	return ret || !*flag ? ret : keep(comm, *message, status);
}
