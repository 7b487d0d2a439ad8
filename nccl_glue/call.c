/* SPDX-License-Identifier: BSD-3-Clause */
/* One call: its checks, and what Corale is asked for. */
#include "door.h"

#include <limits.h>

#include "call/coll.h"
#include "call/refuse.h"
#include "log.h"

struct coll_row {
	const char *name;
	uint8_t coll; /* a corale_coll */
	uint8_t folds, has_root;
};

static const struct coll_row rows[DOOR_COLLS] = {
	[DOOR_ALL_REDUCE] = { "AllReduce", CORALE_ALL_REDUCE, 1, 0 },
	[DOOR_REDUCE] = { "Reduce", CORALE_REDUCE, 1, 1 },
	[DOOR_REDUCE_SCATTER] = { "ReduceScatter", CORALE_REDUCE_SCATTER, 1, 0 },
	[DOOR_ALL_GATHER] = { "AllGather", CORALE_ALL_GATHER, 0, 0 },
	[DOOR_BROADCAST] = { "Broadcast", CORALE_BROADCAST, 0, 1 },
	[DOOR_ALL_TO_ALL] = { "AlltoAll", CORALE_ALL_TO_ALL, 0, 0 },
	[DOOR_GATHER] = { "Gather", CORALE_GATHER, 0, 1 },
	[DOOR_SCATTER] = { "Scatter", CORALE_SCATTER, 0, 1 },
	[DOOR_SEND] = { "Send", CORALE_SEND, 0, 1 },
	[DOOR_RECV] = { "Recv", CORALE_RECV, 0, 1 },
	[DOOR_OP_DESTROY] = { "RedOpDestroy", 0, 0, 0 },
};

/* NCCL and Corale number types and operators differently. */
static const uint8_t types[ncclNumTypes] = {
	[ncclInt8] = CORALE_INT8,
	[ncclUint8] = CORALE_UINT8,
	[ncclInt32] = CORALE_INT32,
	[ncclUint32] = CORALE_UINT32,
	[ncclInt64] = CORALE_INT64,
	[ncclUint64] = CORALE_UINT64,
	[ncclFloat16] = CORALE_FLOAT16,
	[ncclFloat32] = CORALE_FLOAT32,
	[ncclFloat64] = CORALE_FLOAT64,
	[ncclBfloat16] = CORALE_BFLOAT16,
	[ncclFloat8e4m3] = CORALE_FLOAT8_E4M3,
	[ncclFloat8e5m2] = CORALE_FLOAT8_E5M2,
};
static const uint8_t ops[ncclNumOps] = {
	[ncclSum] = CORALE_SUM, [ncclProd] = CORALE_PROD, [ncclMax] = CORALE_MAX,
	[ncclMin] = CORALE_MIN, [ncclAvg] = CORALE_AVG,
};

/* Premultiplied sums are numbered from the built-in operators on, of which Corale has more. */
enum { OWN_OPS = (int)CORALE_NUM_OPS - (int)ncclNumOps };
_Static_assert(OWN_OPS >= 0, "an operator of Corale's becomes one of NCCL's");

int door_type(ncclDataType_t type, corale_type *out)
{
	if ((int)type < 0 || type >= ncclNumTypes)
		return 0;
	*out = (corale_type)types[type];
	return 1;
}

static corale_op op_of(ncclRedOp_t op)
{
	if (op < ncclNumOps)
		return (corale_op)ops[op];
	return (int)op > INT_MAX - OWN_OPS ? -1 : (corale_op)op + OWN_OPS;
}

ncclRedOp_t door_premul(corale_op op)
{
	return (ncclRedOp_t)(op - OWN_OPS);
}

/* What is wrong with the arguments alone; a call in a group says so at once, as NCCL's. */
static ncclResult_t check(const struct door_call *c)
{
	const struct coll_row *row = &rows[c->coll];
	if ((int)c->type < 0 || c->type >= ncclNumTypes)
		return door_refuse(ncclInvalidArgument, "nccl%s: %d is no data type (0 to %d)", row->name,
				   (int)c->type, ncclNumTypes - 1);
	if (row->folds && (int)c->op < 0)
		return door_refuse(ncclInvalidArgument, "nccl%s: %d is no operator", row->name, (int)c->op);
	if (row->has_root && (c->root < 0 || c->root >= c->comm->size))
		return door_refuse(ncclInvalidArgument, "nccl%s: %s %d is not in 0 .. %d", row->name,
				   door_is_pair(c) ? "peer" : "root", c->root, c->comm->size - 1);
	if (c->count > SIZE_MAX / 8 / (size_t)c->comm->size) /* of any type */
		return door_refuse(ncclInvalidArgument, "nccl%s: %zu elements are more than memory can have",
				   row->name, c->count);
	return ncclSuccess;
}

/* NCCL compares bytes, not types, of what is only moved. */
static size_t bytes_of(const struct door_call *c)
{
	return c->count * corale_type_bytes((corale_type)types[c->type]);
}

int door_issue(const struct door_call *c)
{
	const struct coll_row *row = &rows[c->coll];
	void *stream = c->comm->device->is_gpu ? c->stream : NULL;
	if (c->coll == DOOR_OP_DESTROY)
		return corale_op_destroy(op_of(c->op), c->comm->core);
	if (!c->count && !door_is_pair(c))
		return 0; /* as NCCL: nothing is sent */
	struct call call = { .record = { .coll = (corale_coll)row->coll,
					 .count = row->folds ? c->count : bytes_of(c),
					 .type = row->folds ? (corale_type)types[c->type] : CORALE_UINT8,
					 .op = row->folds ? op_of(c->op) : 0,
					 .root = c->root },
			     .send = c->send,
			     .recv = c->recv };
	return coll_submit(c->comm->core, &call, stream);
}

static void log_call(const struct door_call *c)
{
	if (!door_log_wants(DOOR_LOG_COLL))
		return;
	const struct door_log_call line = { .name = rows[c->coll].name,
					    .op_count = c->comm->calls,
					    .send = c->send,
					    .recv = c->recv,
					    .count = c->count,
					    .datatype = (int)c->type,
					    .op = (int)c->op,
					    .root = c->root,
					    .comm = c->comm,
					    .nranks = c->comm->size,
					    .stream = c->stream };
	door_log_call(&line);
}

/* Without being one of Corale's calls, as which others may make it. */
static void tell_refused(const struct door_call *c)
{
	char why[DOOR_ERROR_BYTES];
	door_copy_error(why);
	if (c->coll != DOOR_OP_DESTROY && (c->count || door_is_pair(c) || door_grouping()))
		refuse_door_call(c->comm->core, (corale_coll)rows[c->coll].coll, c->root, door_grouping(),
				 why);
}

ncclResult_t door_call(const struct door_call *call)
{
	ncclResult_t result = door_enter(call->comm, rows[call->coll].name);
	if (result != ncclSuccess)
		return door_group_fail(result);
	result = check(call);
	const int is_wrong = result != ncclSuccess;
	if (!is_wrong) {
		log_call(call);
		call->comm->calls++;
		result = door_grouping() ? door_group_call(call) : door_result(call->comm, door_issue(call));
	}
	if (result != ncclSuccess && (is_wrong || door_grouping()))
		tell_refused(call);
	door_leave(call->comm);
	return door_group_fail(result);
}
