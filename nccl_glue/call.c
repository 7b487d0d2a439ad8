/* SPDX-License-Identifier: BSD-3-Clause */
/* One call: its checks, and what Corale is asked for. */
#include "door.h"

#include <inttypes.h>
#include <limits.h>

#include "base/collectives.h"
#include "call/coll.h"
#include "call/refuse.h"
#include "log.h"

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
	if (c->coll == DOOR_OP_DESTROY)
		return ncclSuccess;
	const int is_pair = coll_is_pair(c->coll);
	if ((int)c->type < 0 || c->type >= ncclNumTypes)
		return door_refuse(ncclInvalidArgument, "nccl%s: %d is no data type (0 to %d)", c->name,
				   (int)c->type, ncclNumTypes - 1);
	if (coll_folds(c->coll) && (int)c->op < 0)
		return door_refuse(ncclInvalidArgument, "nccl%s: %d is no operator", c->name, (int)c->op);
	if ((is_pair || coll_is_rooted(c->coll)) && (c->root < 0 || c->root >= c->comm->size))
		return door_refuse(ncclInvalidArgument, "nccl%s: %s %d is not in 0 .. %d", c->name,
				   is_pair ? "peer" : "root", c->root, c->comm->size - 1);
	if (c->count > SIZE_MAX / 8 / (size_t)c->comm->size) /* of any type */
		return door_refuse(ncclInvalidArgument, "nccl%s: %zu elements are more than memory can have",
				   c->name, c->count);
	return ncclSuccess;
}

/* As NCCL: without data nothing is sent, but by a pair. */
static int is_empty(const struct door_call *c)
{
	return !c->count && !coll_is_pair(c->coll);
}

/* NCCL compares bytes, not types, of what is only moved. */
int door_issue(const struct door_call *c)
{
	void *stream = c->comm->device->is_gpu ? c->stream : NULL;
	if (c->coll == DOOR_OP_DESTROY)
		return corale_op_destroy(op_of(c->op), c->comm->core);
	if (is_empty(c))
		return 0;
	const corale_type type = (corale_type)types[c->type];
	const int folds = coll_folds(c->coll);
	struct call call = { .record = { .coll = (corale_coll)c->coll,
					 .count = folds ? c->count : c->count * corale_type_bytes(type),
					 .type = folds ? type : CORALE_UINT8,
					 .op = folds ? op_of(c->op) : 0,
					 .root = c->root },
			     .send = c->send,
			     .recv = c->recv };
	return coll_submit(c->comm->core, &call, stream);
}

static void log_call(const struct door_call *c)
{
	door_log(DOOR_LOG_COLL,
		 "%s: opCount %" PRIx64
		 " sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p "
		 "[nranks=%d] stream %p",
		 c->name, c->comm->calls, c->send, c->recv, c->count, (int)c->type, (int)c->op, c->root,
		 (void *)c->comm, c->comm->size, (void *)c->stream);
}

/* Without being one of Corale's calls, as which others may make it. */
static void tell_refused(const struct door_call *c)
{
	char why[DOOR_ERROR_BYTES];
	door_copy_error(why);
	if (c->coll != DOOR_OP_DESTROY && (!is_empty(c) || door_grouping()))
		refuse_door_call(c->comm->core, (corale_coll)c->coll, c->root, door_grouping(), why);
}

ncclResult_t door_call(const struct door_call *call)
{
	ncclResult_t result = door_enter(call->comm, call->name);
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
