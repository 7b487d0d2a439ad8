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
#include "request.h"

/* Messages of MPI_Mprobe that are headers. */
static struct matched {
	MPI_Message message;
	struct pmpi_comm *headers; /* it is one of its users */
	MPI_Comm comm;
	int slot;
	struct matched *next;
} * first;

/*
 * MPI_Iprobe, with the lock, so that no receive is posted meanwhile. *slot: of a header; -1: none. *flag is 0 also if a receive may have the oldest slot, and it is not
 * known yet: then the message is seen later.
 */
static int meet(const struct pmpi_comm *headers, int from, int tag, MPI_Comm comm, int *flag, int *slot,
		MPI_Status *status)
{
	const int ret = PMPI_Iprobe(from, tag, comm, flag, status);
	const int owner = ret || !*flag ? -1 : pmpi_peer_owner(headers, status);
	*slot = -1;
	if (owner < 0)
		return ret;
	*flag = pmpi_peer_claim_matched(headers, status);
	*slot = peer_slot_oldest(owner, headers->headers_id, status->MPI_TAG);
	return ret;
}

/* Takes a message that was met out of MPI's hands. */
static int keep(struct pmpi_comm *headers, MPI_Comm comm, int number, MPI_Message *message,
		MPI_Status *status)
{
	struct matched *m = malloc(sizeof *m);
	int flag;
	if (!m)
		return log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a message that is probed");
	const int ret = PMPI_Improbe(status->MPI_SOURCE, status->MPI_TAG, comm, &flag, message, status);
	if (ret || number < 0) {
		free(m);
		return ret;
	}
	peer_slot(headers->world[status->MPI_SOURCE], (uint32_t)number)->is_claimed = 1;
	*m = (struct matched){ *message, pmpi_comm_share(headers), comm, number, first };
	first = m;
	return MPI_SUCCESS;
}

/* All probes. flag: NULL: it waits; message: NULL: the message stays with MPI. PMPI_NOT_OURS: no header can come. */
static int probe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	struct pmpi_comm *headers = pmpi_peer_watched(from, comm);
	MPI_Status own;
	int is_there, slot, ret, turn = 0;
	if (!headers)
		return PMPI_NOT_OURS;
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	for (;; pmpi_go_on(&turn)) {
		pmpi_lock();
		ret = meet(headers, from, tag, comm, &is_there, &slot, status);
		if (!ret && is_there && message)
			ret = keep(headers, comm, slot, message, status);
		if (!ret && is_there && slot >= 0) {
			PMPI_Status_set_cancelled(status, 0); /* undefined behind MPICH's probe */
			PMPI_Status_set_elements_x(
			    status, MPI_BYTE,
			    (MPI_Count)peer_slot(headers->world[status->MPI_SOURCE], (uint32_t)slot)->bytes);
		}
		pmpi_unlock();
		if (ret || is_there || flag)
			break;
	}
	if (flag)
		*flag = is_there;
	pmpi_peer_finish();
	return ret < 0 ? pmpi_fail(comm) : ret;
}

struct pmpi_comm *pmpi_matched_take(MPI_Message message, MPI_Comm *comm, int *slot)
{
	struct pmpi_comm *headers = NULL;
	pmpi_lock();
	struct matched **link = &first, *m;
	while (*link && (*link)->message != message)
		link = &(*link)->next;
	if ((m = *link)) {
		*comm = m->comm;
		headers = m->headers;
		*slot = m->slot;
		*link = m->next;
	}
	pmpi_unlock();
	free(m);
	return headers;
}

/* ---- Functions of MPI ---------------------------------------------------------------------------------- */

/* its_flag, its_message: as probe has them. */
#define PROBE(name, parameters, arguments, its_flag, its_message)                                            \
	PMPI_ENTRY(MPI_##name, parameters, arguments)                                                        \
	{                                                                                                    \
		const int ret = probe(from, tag, comm, its_flag, its_message, status);                       \
		return ret == PMPI_NOT_OURS ? PMPI_##name arguments : ret;                                   \
	}
PROBE(Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), (from, tag, comm, status), NULL, NULL)
PROBE(Iprobe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status),
      (from, tag, comm, flag, status), flag, NULL)
PROBE(Mprobe, (int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
      (from, tag, comm, message, status), NULL, message)
PROBE(Improbe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
      (from, tag, comm, flag, message, status), flag, message)
