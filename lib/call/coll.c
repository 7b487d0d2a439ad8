/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "health/diagnose.h"
#include "base/log.h"
#include "gpu_call.h"
#include "group.h"
#include "runner.h"
#include "signature.h"
#include "base/collectives.h"
#include "base/types.h"

/* The names of a set of operators. */
static const char *names_of(unsigned ops, char *text, size_t bytes)
{
	size_t at = 0;
	text[0] = 0;
	for (int op = 0; op <= CORALE_NUM_OPS && at < bytes; op++)
		if (ops >> op & 1)
			at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "",
					       corale_op_name(op));
	return text;
}

static int check_type_has(struct comm *comm, const struct call *call)
{
	const struct record *r = &call->record;
	char names[256];
	if (!type_has_op(r->type, r->op))
		return log_error(CORALE_EINVAL, comm->rank, "%s: %s has no operator %s; it has %s",
				 coll_table[r->coll].name, corale_type_name(r->type), corale_op_name(r->op),
				 names_of(type_rows[r->type].ops, names, sizeof names));
	return 0;
}

static int check_op(struct comm *comm, struct call *call)
{
	const char *name = coll_table[call->record.coll].name;
	if (call->record.op >= 0 && call->record.op < CORALE_NUM_OPS)
		return coll_folds(call->record.coll) ? check_type_has(comm, call) : 0;
	const struct comm_premul *premul = comm_premul_of(comm, call->record.op);
	if (!premul)
		return comm_refuse_op(comm, name, call->record.op);
	if (premul->type != call->record.type)
		return log_error(CORALE_EINVAL, comm->rank,
				 "%s: the premultiplied sum was created for %s, the call is of %s", name,
				 corale_type_name(premul->type), corale_type_name(call->record.type));
	memcpy(&call->scalar, premul->scalar, sizeof call->scalar);
	call->scalar_at = premul->scalar_at;
	return 0;
}

static int overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
	return x < y + b_bytes && y < x + a_bytes;
}

/* Open MPI's value of MPI_IN_PLACE is 1, MPICH's is -1: no buffer is there. */
static int check_in_place(struct comm *comm, const struct call *call)
{
	const void *const buffers[] = { call->send, call->recv };
	for (int i = 0; i < 2; i++)
		if (buffers[i] && (uintptr_t)buffers[i] + 1 <= 2)
			return log_error(
			    CORALE_EINVAL, comm->rank,
			    "%s: the %s buffer is %p: this is MPI_IN_PLACE, which Corale does not know: pass "
			    "send == recv, or the place in the other buffer that corale.h names",
			    coll_table[call->record.coll].name, i ? "recv" : "send", buffers[i]);
	return 0;
}

/* NULL buffers, and buffers that overlap without being in place. */
static int check_buffers(struct comm *comm, const struct call *call)
{
	const struct collective *c = &coll_table[call->record.coll];
	const int is_root = comm->rank == call->record.root, coll = call->record.coll;
	const size_t block = call->record.count * corale_type_bytes(call->record.type);
	const size_t send = c->root_sends && !is_root ? 0 : block * coll_blocks(c->send, comm->size);
	const size_t recv = c->root_receives && !is_root ? 0 : block * coll_blocks(c->recv, comm->size);
	if ((send && !call->send) || (recv && !call->recv))
		return log_error(CORALE_EINVAL, comm->rank, "%s: the %s buffer is NULL", c->name,
				 recv && !call->recv ? "recv" : "send");
	if (!send || !recv || !overlap(call->send, send, call->recv, recv))
		return 0;
	const char *s = call->send, *r = call->recv;
	if (s == r && coll_folds_to_front(coll))
		return 0;
	if (s + coll_send_own(coll, comm->rank) * block == r + coll_recv_own(coll, comm->rank) * block)
		return 0;
	return log_error(CORALE_EINVAL, comm->rank, "%s: send and recv overlap but are not in place",
			 c->name);
}

static int check_uneven(struct comm *comm, struct call *call)
{
	const int ret = uneven_check_buffers(comm, call);
	return ret || !comm->gpu ? ret : uneven_as_edges(comm, call);
}

/* Another rank has failed, and corale_comm_async_error has reported it: the call ends here, too. */
static void end_told(struct comm *comm, const struct call *call)
{
	int code = diagnose_peers(comm), is_idle = comm->issued == atomic_load(&comm->completed);
	if (atomic_load(&comm->error))
		return;
	if (code == CORALE_EMISMATCH && is_idle)
		signature_mismatch(comm, call);
	else if (code == CORALE_EMISMATCH) /* calls before this one end themselves */
		diagnose_mismatch(comm, &call->record, NULL);
	else
		diagnose_end(comm, &call->record, code);
}

/* Of a communicator that has failed; 0: the call may find out itself. */
static int refuse_failed(struct comm *comm, const struct call *call)
{
	if (atomic_load(&comm->error_reported))
		end_told(comm, call);
	if (atomic_load(&comm->error))
		return log_error(CORALE_ECOMM, comm->rank, "%s: the communicator failed earlier: %s",
				 coll_table[call->record.coll].name, comm->failure);
	return 0;
}

int coll_check_shape(struct comm *comm, struct call *call)
{
	const struct record *r = &call->record;
	const struct collective *c = &coll_table[r->coll];
	size_t total;
	if ((int)r->type < 0 || r->type >= CORALE_NUM_TYPES)
		return log_error(CORALE_EINVAL, comm->rank, "%s: %d is no type", c->name, (int)r->type);
	if (r->root < 0 || r->root >= comm->size)
		return log_error(CORALE_EINVAL, comm->rank, "%s: %s %d is not in 0 .. %d", c->name,
				 c->pair ? "peer" : "root", r->root, comm->size - 1);
	int ret = check_op(comm, call);
	if (ret)
		return ret;
	if (coll_is_uneven(r->coll))
		return uneven_check_counts(comm, call);
	if (__builtin_mul_overflow(r->count, corale_type_bytes(r->type) * (size_t)comm->size, &total) ||
	    total > PTRDIFF_MAX)
		return log_error(CORALE_EINVAL, comm->rank, "%s: count %zu of %s times %d ranks overflows",
				 c->name, r->count, corale_type_name(r->type), comm->size);
	return 0;
}

int coll_submit(corale_comm *handle, struct call *call, void *stream)
{
	const struct collective *c = &coll_table[call->record.coll];
	struct comm *comm = comm_enter(handle, c->name);
	int ret = comm ? 0 : CORALE_EINVAL, appended, is_grouped = 0;
	if (!ret &&
	    (atomic_load_explicit(&comm->error_reported, memory_order_relaxed) || atomic_load(&comm->error)))
		ret = refuse_failed(comm, call);
	if (!ret && stream && !comm->gpu)
		ret = stream_check(stream, c->name);
	if (!ret && !call->plan)
		ret = coll_check_shape(comm, call);
	if (!ret)
		ret = check_in_place(comm, call);
	if (!ret)
		ret =
		    coll_is_uneven(call->record.coll) ? check_uneven(comm, call) : check_buffers(comm, call);
	if ((is_grouped = group_append(comm, call, stream, ret, &appended)))
		ret = appended;
	else if (!ret && c->pair && call->record.root == comm->rank)
		ret = log_error(CORALE_EINVAL, comm->rank, "%s to oneself needs a group with its counterpart",
				c->name);
	else if (!ret && !comm->gpu)
		ret = runner_call(comm, call, 1, stream);
	else if (!ret)
		ret = gpu_call(comm, call, 1, 0, stream);
	if (comm && ret)
		comm_keep_error(comm);
	if (comm && ret && !is_grouped)
		refuse_call(comm, call, stream, log_last_error());
	comm_leave(handle);
	return ret;
}

static struct call call_of(corale_coll coll, const void *send, void *recv, size_t count, corale_type type,
			   corale_op op, int root)
{
	return (
	    struct call){ .record = { .coll = coll, .count = count, .type = type, .op = op, .root = root },
			  .send = send,
			  .recv = recv };
}

int corale_all_reduce(const void *send, void *recv, size_t count, corale_type type, corale_op op,
		      corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_ALL_REDUCE, send, recv, count, type, op, 0);
	return coll_submit(comm, &call, stream);
}

int corale_all_gather(const void *send, void *recv, size_t count, corale_type type, corale_comm *comm,
		      void *stream)
{
	struct call call = call_of(CORALE_ALL_GATHER, send, recv, count, type, 0, 0);
	return coll_submit(comm, &call, stream);
}

int corale_reduce_scatter(const void *send, void *recv, size_t count, corale_type type, corale_op op,
			  corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_REDUCE_SCATTER, send, recv, count, type, op, 0);
	return coll_submit(comm, &call, stream);
}

int corale_broadcast(const void *send, void *recv, size_t count, corale_type type, int root,
		     corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_BROADCAST, send, recv, count, type, 0, root);
	return coll_submit(comm, &call, stream);
}

int corale_reduce(const void *send, void *recv, size_t count, corale_type type, corale_op op, int root,
		  corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_REDUCE, send, recv, count, type, op, root);
	return coll_submit(comm, &call, stream);
}

int corale_gather(const void *send, void *recv, size_t count, corale_type type, int root, corale_comm *comm,
		  void *stream)
{
	struct call call = call_of(CORALE_GATHER, send, recv, count, type, 0, root);
	return coll_submit(comm, &call, stream);
}

int corale_scatter(const void *send, void *recv, size_t count, corale_type type, int root, corale_comm *comm,
		   void *stream)
{
	struct call call = call_of(CORALE_SCATTER, send, recv, count, type, 0, root);
	return coll_submit(comm, &call, stream);
}

int corale_all_to_all(const void *send, void *recv, size_t count, corale_type type, corale_comm *comm,
		      void *stream)
{
	struct call call = call_of(CORALE_ALL_TO_ALL, send, recv, count, type, 0, 0);
	return coll_submit(comm, &call, stream);
}

int corale_send(const void *send, size_t count, corale_type type, int peer, corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_SEND, send, NULL, count, type, 0, peer);
	return coll_submit(comm, &call, stream);
}

int corale_recv(void *recv, size_t count, corale_type type, int peer, corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_RECV, NULL, recv, count, type, 0, peer);
	return coll_submit(comm, &call, stream);
}

int corale_barrier(corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_BARRIER, NULL, NULL, 0, 0, 0, 0);
	return coll_submit(comm, &call, stream);
}

int corale_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_displs, void *recv,
			const size_t *recv_counts, const size_t *recv_displs, corale_type type,
			corale_comm *comm, void *stream)
{
	struct call call = { .record.coll = CORALE_ALL_TO_ALL_V,
			     .send = send,
			     .recv = recv,
			     .record.type = type,
			     .send_counts = send_counts,
			     .send_displs = send_displs,
			     .recv_counts = recv_counts,
			     .recv_displs = recv_displs };
	return coll_submit(comm, &call, stream);
}

int corale_all_gather_v(const void *send, void *recv, const size_t *counts, const size_t *displs,
			corale_type type, corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_ALL_GATHER_V, send, recv, 0, type, 0, 0);
	call.recv_counts = counts;
	call.recv_displs = displs;
	return coll_submit(comm, &call, stream);
}

int corale_reduce_scatter_v(const void *send, const size_t *counts, const size_t *displs, void *recv,
			    corale_type type, corale_op op, corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_REDUCE_SCATTER_V, send, recv, 0, type, op, 0);
	call.send_counts = counts;
	call.send_displs = displs;
	return coll_submit(comm, &call, stream);
}

int corale_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
		    const size_t *recv_displs, corale_type type, int root, corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_GATHER_V, send, recv, 0, type, 0, root);
	call.own = send_count;
	call.recv_counts = recv_counts;
	call.recv_displs = recv_displs;
	return coll_submit(comm, &call, stream);
}

int corale_scatter_v(const void *send, const size_t *send_counts, const size_t *send_displs, void *recv,
		     size_t recv_count, corale_type type, int root, corale_comm *comm, void *stream)
{
	struct call call = call_of(CORALE_SCATTER_V, send, recv, 0, type, 0, root);
	call.own = recv_count;
	call.send_counts = send_counts;
	call.send_displs = send_displs;
	return coll_submit(comm, &call, stream);
}
