/* One call: its checks, and what Corale is asked for. */
#include "door.h"

#include <limits.h>

#include "log.h"

struct coll_row {
	const char *name;
	uint8_t folds, has_root, moves_each; /* moves_each: a buffer has a block for each rank */
};

static const struct coll_row rows[DOOR_COLLS] = {
	[DOOR_ALL_REDUCE] = { "AllReduce", 1, 0, 0 },
	[DOOR_REDUCE] = { "Reduce", 1, 1, 0 },
	[DOOR_REDUCE_SCATTER] = { "ReduceScatter", 1, 0, 1 },
	[DOOR_ALL_GATHER] = { "AllGather", 0, 0, 1 },
	[DOOR_BROADCAST] = { "Broadcast", 0, 1, 0 },
	[DOOR_ALL_TO_ALL] = { "AlltoAll", 0, 0, 1 },
	[DOOR_GATHER] = { "Gather", 0, 1, 1 },
	[DOOR_SCATTER] = { "Scatter", 0, 1, 1 },
	[DOOR_SEND] = { "Send", 0, 1, 0 },
	[DOOR_RECV] = { "Recv", 0, 1, 0 },
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
	corale_comm *core = c->comm->core;
	const corale_type type = (corale_type)types[c->type];
	void *stream = c->comm->device->is_gpu ? c->stream : NULL;
	if (!c->count && !door_is_pair(c) && c->coll != DOOR_OP_DESTROY)
		return 0; /* as NCCL: nothing is sent */
	switch (c->coll) {
	case DOOR_ALL_REDUCE:
		return corale_all_reduce(c->send, c->recv, c->count, type, op_of(c->op), core, stream);
	case DOOR_REDUCE:
		return corale_reduce(c->send, c->recv, c->count, type, op_of(c->op), c->root, core, stream);
	case DOOR_REDUCE_SCATTER:
		return corale_reduce_scatter(c->send, c->recv, c->count, type, op_of(c->op), core, stream);
	case DOOR_ALL_GATHER:
		return corale_all_gather(c->send, c->recv, bytes_of(c), CORALE_UINT8, core, stream);
	case DOOR_BROADCAST:
		return corale_broadcast(c->send, c->recv, bytes_of(c), CORALE_UINT8, c->root, core, stream);
	case DOOR_ALL_TO_ALL:
		return corale_all_to_all(c->send, c->recv, bytes_of(c), CORALE_UINT8, core, stream);
	case DOOR_GATHER:
		return corale_gather(c->send, c->recv, bytes_of(c), CORALE_UINT8, c->root, core, stream);
	case DOOR_SCATTER:
		return corale_scatter(c->send, c->recv, bytes_of(c), CORALE_UINT8, c->root, core, stream);
	case DOOR_SEND:
		return corale_send(c->send, bytes_of(c), CORALE_UINT8, c->root, core, stream);
	case DOOR_RECV:
		return corale_recv(c->recv, bytes_of(c), CORALE_UINT8, c->root, core, stream);
	case DOOR_OP_DESTROY:
		return corale_op_destroy(op_of(c->op), core);
	default:
		return CORALE_EINTERNAL;
	}
}

/* A send or receive to oneself needs its counterpart in a group, else Corale refuses it by name. */
static ncclResult_t issue_alone(const struct door_call *call)
{
	return door_result(call->comm, door_issue(call));
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

ncclResult_t door_call(const struct door_call *call)
{
	ncclResult_t result = door_enter(call->comm, rows[call->coll].name);
	if (result != ncclSuccess)
		return door_group_refuse_ended(call->comm, result);
	result = check(call);
	if (result == ncclSuccess) {
		log_call(call);
		call->comm->calls++;
		result = door_grouping() ? door_group_call(call) : issue_alone(call);
	}
	door_leave(call->comm);
	return door_group_fail(result);
}
