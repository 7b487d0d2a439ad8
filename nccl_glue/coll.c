/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's calls: their checks, and what Corale is asked for. */
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>

#include "base/collectives.h"
#include "call/runner.h"
#include "door.h"
#include "export.h"
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

static corale_op op_of(ncclRedOp_t op)
{
	if (op < ncclNumOps)
		return (corale_op)ops[op];
	return (int)op > INT_MAX - OWN_OPS ? -1 : (corale_op)op + OWN_OPS;
}

enum { OP_DESTROY = CORALE_NUM_COLLS };

/* What is wrong with the arguments alone; a call in a group says so at once, as NCCL's. */
static ncclResult_t check(const struct door_call *c, ncclDataType_t type, ncclRedOp_t op)
{
	const struct record *r = &c->call.record;
	if (c->is_op_destroy)
		return ncclSuccess;
	const int is_pair = call_is_pair(&c->call);
	if ((unsigned)type >= ncclNumTypes)
		return door_refuse(ncclInvalidArgument, "nccl%s: %d is no data type (0 to %d)", c->name,
				   (int)type, ncclNumTypes - 1);
	if (coll_folds(r->coll) && (int)op < 0)
		return door_refuse(ncclInvalidArgument, "nccl%s: %d is no operator", c->name, (int)op);
	if ((is_pair || coll_is_rooted(r->coll)) && (r->root < 0 || r->root >= c->comm->size))
		return door_refuse(ncclInvalidArgument, "nccl%s: %s %d is not in 0 .. %d", c->name,
				   is_pair ? "peer" : "root", r->root, c->comm->size - 1);
	if (r->count > SIZE_MAX / 8 / (size_t)c->comm->size) /* of any type */
		return door_refuse(ncclInvalidArgument, "nccl%s: %zu elements are more than memory can have",
				   c->name, (size_t)r->count);
	return ncclSuccess;
}

/* NCCL compares bytes, not types, of what is only moved. */
static void translate(struct door_call *c, ncclDataType_t type, ncclRedOp_t op)
{
	struct record *r = &c->call.record;
	const int folds = c->is_op_destroy || coll_folds(r->coll);
	if (folds)
		r->op = op_of(op);
	r->type = folds ? (corale_type)types[type] : CORALE_UINT8;
	r->count *= folds ? 1 : corale_type_bytes((corale_type)types[type]);
	c->stream = c->comm->device->is_gpu ? c->stream : NULL;
}

static void log_call(const struct door_call *c, ncclDataType_t type, ncclRedOp_t op)
{
	door_log(DOOR_LOG_COLL,
		 "%s: opCount %" PRIx64
		 " sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p "
		 "[nranks=%d] stream %p",
		 c->name, c->comm->calls, c->call.send, c->call.recv, (size_t)c->call.record.count, (int)type,
		 (int)op, c->call.record.root, (void *)c->comm, c->comm->size, (void *)c->stream);
}

/* Without being one of Corale's calls, as which others may make it. */
static void tell_refused(const struct door_call *c)
{
	const struct record *r = &c->call.record;
	char why[DOOR_ERROR_BYTES];
	door_copy_error(why);
	if (!c->is_op_destroy && (!door_is_empty(c) || door_grouping()))
		refuse_door_call(c->comm->core, r->coll, r->root, door_grouping(), why);
}

/* Of calls without an operator. */
static const ncclRedOp_t no_op = (ncclRedOp_t)0;

/* Checks, then makes the call or appends it to this thread's group. root: or peer; 0 where it has none. */
static ncclResult_t call(const char *name, int coll, const void *send, void *recv, size_t count,
			 ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct door_call c = { .name = name,
			       .comm = comm,
			       .stream = stream,
			       .is_op_destroy = coll == OP_DESTROY,
			       .call = {
				   .record = { .coll = (corale_coll)coll, .count = count, .root = root },
				   .send = send,
				   .recv = recv } };
	ncclResult_t result = door_enter(comm, name);
	if (result != ncclSuccess)
		return door_group_fail(result);
	result = check(&c, type, op);
	const int is_wrong = result != ncclSuccess;
	if (!is_wrong) {
		log_call(&c, type, op);
		translate(&c, type, op);
		comm->calls++;
		result = door_grouping() ? door_group_call(&c) : door_result(comm, door_issue(&c));
	}
	if (result != ncclSuccess && (is_wrong || door_grouping()))
		tell_refused(&c);
	door_leave(comm);
	return door_group_fail(result);
}

/* ---- Collectives, each also with hints for one call. The communicator's configuration decides how a call runs, so hints are checked and have no effect. */

/* Once a process, because a program gives the same hints to every call. */
static void log_hints(const char *name)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;
	if (!atomic_flag_test_and_set(&logged))
		door_log(DOOR_LOG_TUNING,
			 "nccl%sConfig: ncclCollConfig_t's hints (CTAs, CTAPolicy, algSelection, options) "
			 "have no effect on single calls; give CTAs and CTAPolicy to ncclCommInitRankConfig",
			 name);
}

static ncclResult_t check_hints(const char *name, const ncclCollConfig_t *given)
{
	struct door_coll_config config;
	char why[256];
	ncclResult_t result = door_coll_config_read(given, &config, why, sizeof why);
	if (result != ncclSuccess)
		result = door_refuse(result, "nccl%sConfig: %s", name, why);
	else if (config.launched)
		result = door_refuse(ncclInvalidUsage,
				     "nccl%sConfig: Corale does not offer ncclCollConfig_t's "
				     "launchCompletionEvent; call cudaEventRecord after the call",
				     name);
	else if (config.has_hint)
		log_hints(name);
	return door_group_fail(result);
}

#define WITH(...) __VA_ARGS__,
#define WITHOUT
/* ncclX, and ncclXConfig, which does the same unless the hints are wrong. parameters, arguments: those that not all have. */
#define COLLECTIVE(X, coll, parameters, arguments, op, root)                                                 \
	DOOR_EXPORT(nccl##X);                                                                                \
	ncclResult_t pnccl##X(const void *send, void *recv, size_t count, ncclDataType_t type,               \
			      parameters ncclComm_t comm, cudaStream_t stream)                               \
	{                                                                                                    \
		return call(#X, coll, send, recv, count, type, op, root, comm, stream);                      \
	}                                                                                                    \
	DOOR_EXPORT(nccl##X##Config);                                                                        \
	ncclResult_t pnccl##X##Config(const void *send, void *recv, size_t count, ncclDataType_t type,       \
				      parameters ncclComm_t comm, cudaStream_t stream,                       \
				      const ncclCollConfig_t *config)                                        \
	{                                                                                                    \
		const ncclResult_t result = check_hints(#X, config);                                         \
		if (result != ncclSuccess)                                                                   \
			return result;                                                                       \
		return pnccl##X(send, recv, count, type, arguments comm, stream);                            \
	}
COLLECTIVE(AllReduce, CORALE_ALL_REDUCE, WITH(ncclRedOp_t op), WITH(op), op, 0)
COLLECTIVE(Reduce, CORALE_REDUCE, WITH(ncclRedOp_t op, int root), WITH(op, root), op, root)
COLLECTIVE(ReduceScatter, CORALE_REDUCE_SCATTER, WITH(ncclRedOp_t op), WITH(op), op, 0)
COLLECTIVE(AllGather, CORALE_ALL_GATHER, WITHOUT, WITHOUT, no_op, 0)
COLLECTIVE(Broadcast, CORALE_BROADCAST, WITH(int root), WITH(root), no_op, root)
COLLECTIVE(AlltoAll, CORALE_ALL_TO_ALL, WITHOUT, WITHOUT, no_op, 0)
COLLECTIVE(Gather, CORALE_GATHER, WITH(int root), WITH(root), no_op, root)
COLLECTIVE(Scatter, CORALE_SCATTER, WITH(int root), WITH(root), no_op, root)

DOOR_EXPORT(ncclBcast);
ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
			cudaStream_t stream)
{
	return pncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

DOOR_EXPORT(ncclSend);
ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		       cudaStream_t stream)
{
	return call("Send", CORALE_SEND, send, NULL, count, type, no_op, peer, comm, stream);
}

DOOR_EXPORT(ncclRecv);
ncclResult_t pncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		       cudaStream_t stream)
{
	return call("Recv", CORALE_RECV, NULL, recv, count, type, no_op, peer, comm, stream);
}

/* ---- Operators */

/* On hosts, which are for tests, all scalars are read now. */
DOOR_EXPORT(ncclRedOpCreatePreMulSum);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
				       ncclScalarResidence_t residence, ncclComm_t comm)
{
	corale_op made;
	ncclResult_t result = door_enter(comm, "RedOpCreatePreMulSum");
	if (result != ncclSuccess)
		return result;
	if (!op || !scalar || (unsigned)type >= ncclNumTypes)
		result = door_refuse(ncclInvalidArgument,
				     "ncclRedOpCreatePreMulSum: a place for the operator, a scalar and a "
				     "data type are needed (type %d)",
				     (int)type);
	else if (residence == ncclScalarDevice && comm->device->is_gpu)
		result = door_result(comm, corale_op_create_premul_sum_device(
					       scalar, (corale_type)types[type], comm->core, &made));
	else
		result = door_result(
		    comm, corale_op_create_premul_sum(scalar, (corale_type)types[type], comm->core, &made));
	if (result == ncclSuccess)
		*op = (ncclRedOp_t)(made - OWN_OPS);
	door_leave(comm);
	return result;
}

DOOR_EXPORT(ncclRedOpDestroy);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	return call("RedOpDestroy", OP_DESTROY, NULL, NULL, 0, (ncclDataType_t)0, op, 0, comm, NULL);
}
