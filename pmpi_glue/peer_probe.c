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
#include "statistics.h"

/* Messages of MPI_Mprobe that are headers. */
static struct matched {
	MPI_Message message;
	struct pmpi_group *group;
	MPI_Comm comm;
	int slot;
	struct matched *next;
} * first;

/*
 * MPI_Iprobe, with the lock, so that no receive is posted meanwhile. *slot: of a header; -1: none. *flag is 0 also if a receive may have the oldest slot, and it is not
 * known yet: then the message is seen later.
 */
static int meet(int from, int tag, MPI_Comm comm, int *flag, int *slot, MPI_Status *status)
{
	const struct pmpi_group *group = pmpi_group_of(comm);
	const int ret = PMPI_Iprobe(from, tag, comm, flag, status);
	const int owner = ret || !*flag ? -1 : pmpi_peer_owner(group, status);
	*slot = -1;
	if (owner < 0)
		return ret;
	*flag = pmpi_peer_claim_matched(group, status);
	*slot = peer_slot_oldest(owner, group->id, status->MPI_TAG);
	return ret;
}

/* Takes a message that was met out of MPI's hands. */
static int keep(MPI_Comm comm, int number, MPI_Message *message, MPI_Status *status)
{
	struct pmpi_group *group = pmpi_group_of(comm);
	struct matched *m = malloc(sizeof *m);
	int flag;
	if (!m)
		return log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a message that is probed");
	const int ret = PMPI_Improbe(status->MPI_SOURCE, status->MPI_TAG, comm, &flag, message, status);
	if (ret || number < 0) {
		free(m);
		return ret;
	}
	peer_slot(group->ranks[status->MPI_SOURCE], (uint32_t)number)->is_claimed = 1;
	group->users++;
	*m = (struct matched){ *message, group, comm, number, first };
	first = m;
	return MPI_SUCCESS;
}

static void set_length(MPI_Status *status, size_t bytes)
{
	PMPI_Status_set_cancelled(status, 0); /* undefined behind MPICH's probe */
	PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)bytes);
}

/* All probes. flag: NULL: it waits; message: NULL: the message stays with MPI. */
static int probe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	MPI_Status own;
	int is_there, slot, ret, turn = 0;
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	for (;; pmpi_go_on(&turn)) {
		pmpi_lock();
		ret = meet(from, tag, comm, &is_there, &slot, status);
		if (!ret && is_there && message)
			ret = keep(comm, slot, message, status);
		if (!ret && is_there && slot >= 0)
			set_length(
			    status,
			    peer_slot(pmpi_peer_owner(pmpi_group_of(comm), status), (uint32_t)slot)->bytes);
		pmpi_unlock();
		if (ret || is_there || flag)
			break;
	}
	if (flag)
		*flag = is_there;
	pmpi_peer_finish();
	return ret < 0 ? pmpi_fail(comm) : ret;
}

static int find(MPI_Message message, struct matched *out)
{
	struct matched **link = &first, *m;
	pmpi_lock();
	while (*link && (*link)->message != message)
		link = &(*link)->next;
	m = *link;
	if (m) {
		*out = *m;
		*link = m->next;
	}
	pmpi_unlock();
	free(m);
	return m != NULL;
}

/* Begins a receive, of a header that alone. 0: it is MPI's. CORALE_ENOMEM, logged. */
static int take(const struct pmpi_incoming *in, MPI_Message message, struct pmpi_receiving *r)
{
	struct matched m = { .comm = MPI_COMM_WORLD, .slot = -1 };
	struct pmpi_buffer s;
	if (message == MPI_MESSAGE_NO_PROC || !pmpi_buffer_find(&s, in->buffer, in->count, in->type))
		return 0;
	if (!find(message, &m) && s.ordinal < 0) {
		pmpi_buffer_end(&s);
		return 0;
	}
	const int failed = pmpi_receiving_begin(r, &s, m.group, m.comm);
	pmpi_group_put(m.group);
	if (failed)
		return failed;
	r->slot = m.slot;
	if (m.slot < 0)
		return 1;
	r->buffer = r->header;
	pmpi_bytes_end(&r->as);
	r->as = pmpi_bytes_begin(PEER_HEADER);
	return 1;
}

/* A message that was probed and is no header belongs to no communicator that can be asked: errors are MPI_COMM_WORLD's. */
int pmpi_mrecv(const struct pmpi_incoming *in, MPI_Message *message, MPI_Status *status)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_receiving r;
	MPI_Status own;
	const int is_ours = take(in, *message, &r);
	if (is_ours < 0)
		return pmpi_fail(MPI_COMM_WORLD);
	if (!is_ours)
		return pmpi_recv_passed(
		    in, begin,
		    PMPI_ANY_COUNT(Mrecv)(in->buffer, (pmpi_count)in->count, in->type, message, status));
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	const int ret = PMPI_ANY_COUNT(Mrecv)(r.buffer, r.as.count, r.as.type, message, status);
	return pmpi_receiving_wait(&r, status, ret, begin);
}

int pmpi_imrecv(const struct pmpi_incoming *in, MPI_Message *message, MPI_Request *request)
{
	const double begin = pmpi_statistics_begin();
	struct pmpi_receiving *r = malloc(sizeof *r);
	const int is_ours = r ? take(in, *message, r)
			      : log_error(CORALE_ENOMEM, pmpi.rank, "no memory for a request of a message");
	if (is_ours <= 0)
		free(r);
	if (is_ours < 0)
		return pmpi_fail(MPI_COMM_WORLD);
	if (!is_ours)
		return pmpi_recv_passed(
		    in, begin,
		    PMPI_ANY_COUNT(Imrecv)(in->buffer, (pmpi_count)in->count, in->type, message, request));
	const int error = PMPI_ANY_COUNT(Imrecv)(r->buffer, r->as.count, r->as.type, message, request);
	if (!error) {
		r->request = *request;
		pmpi_receiving_posted(r);
	}
	pmpi_p2p_count(PMPI_RECV, r->slot >= 0, r->s.bytes, begin);
	return pmpi_receiving_keep(r, 0, error);
}

/* ---- Functions of MPI ---------------------------------------------------------------------------------- */

/* flag: NULL: it waits; message: NULL: the message stays with MPI. */
static int plain(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	if (message)
		return flag ? PMPI_Improbe(from, tag, comm, flag, message, status)
			    : PMPI_Mprobe(from, tag, comm, message, status);
	return flag ? PMPI_Iprobe(from, tag, comm, flag, status) : PMPI_Probe(from, tag, comm, status);
}

/* What all four are. */
static int run(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	return (pmpi_peer_watches(from, comm) ? probe : plain)(from, tag, comm, flag, message, status);
}

PMPI_ENTRY(MPI_Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), (from, tag, comm, status))
{
	return run(from, tag, comm, NULL, NULL, status);
}

PMPI_ENTRY(MPI_Iprobe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status),
	   (from, tag, comm, flag, status))
{
	return run(from, tag, comm, flag, NULL, status);
}

PMPI_ENTRY(MPI_Mprobe, (int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
	   (from, tag, comm, message, status))
{
	return run(from, tag, comm, NULL, message, status);
}

PMPI_ENTRY(MPI_Improbe,
	   (int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
	   (from, tag, comm, flag, message, status))
{
	return run(from, tag, comm, flag, message, status);
}
