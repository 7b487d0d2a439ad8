/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's calls. */
#include "door.h"
#include "export.h"

/* root: 0 where a call has none. */
static ncclResult_t call(const char *name, corale_coll coll, const void *send, void *recv, size_t count,
			 ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct door_call made = { .name = name,
				  .comm = comm,
				  .stream = stream,
				  .call = { .record = { .coll = coll, .count = count, .root = root },
					    .send = send,
					    .recv = recv } };
	return door_call(&made, type, op);
}

/* What has no operator. root: or peer. */
static ncclResult_t move(const char *name, corale_coll coll, const void *send, void *recv, size_t count,
			 ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
	return call(name, coll, send, recv, count, type, (ncclRedOp_t)0, root, comm, stream);
}

DOOR_EXPORT(ncclAllReduce);
ncclResult_t pncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
			    ncclComm_t comm, cudaStream_t stream)
{
	return call("AllReduce", CORALE_ALL_REDUCE, send, recv, count, type, op, 0, comm, stream);
}

DOOR_EXPORT(ncclReduce);
ncclResult_t pncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
			 int root, ncclComm_t comm, cudaStream_t stream)
{
	return call("Reduce", CORALE_REDUCE, send, recv, count, type, op, root, comm, stream);
}

DOOR_EXPORT(ncclReduceScatter);
ncclResult_t pncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
				ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return call("ReduceScatter", CORALE_REDUCE_SCATTER, send, recv, count, type, op, 0, comm, stream);
}

DOOR_EXPORT(ncclAllGather);
ncclResult_t pncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
			    cudaStream_t stream)
{
	return move("AllGather", CORALE_ALL_GATHER, send, recv, count, type, 0, comm, stream);
}

DOOR_EXPORT(ncclBroadcast);
ncclResult_t pncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
			    ncclComm_t comm, cudaStream_t stream)
{
	return move("Broadcast", CORALE_BROADCAST, send, recv, count, type, root, comm, stream);
}

DOOR_EXPORT(ncclBcast);
ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
			cudaStream_t stream)
{
	return pncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

DOOR_EXPORT(ncclAlltoAll);
ncclResult_t pncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
			   cudaStream_t stream)
{
	return move("AlltoAll", CORALE_ALL_TO_ALL, send, recv, count, type, 0, comm, stream);
}

DOOR_EXPORT(ncclGather);
ncclResult_t pncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
			 ncclComm_t comm, cudaStream_t stream)
{
	return move("Gather", CORALE_GATHER, send, recv, count, type, root, comm, stream);
}

DOOR_EXPORT(ncclScatter);
ncclResult_t pncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
			  ncclComm_t comm, cudaStream_t stream)
{
	return move("Scatter", CORALE_SCATTER, send, recv, count, type, root, comm, stream);
}

DOOR_EXPORT(ncclSend);
ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		       cudaStream_t stream)
{
	return move("Send", CORALE_SEND, send, NULL, count, type, peer, comm, stream);
}

DOOR_EXPORT(ncclRecv);
ncclResult_t pncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		       cudaStream_t stream)
{
	return move("Recv", CORALE_RECV, NULL, recv, count, type, peer, comm, stream);
}

/* ---- Operators */

/* On hosts, which are for tests, all scalars are read now. */
DOOR_EXPORT(ncclRedOpCreatePreMulSum);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
				       ncclScalarResidence_t residence, ncclComm_t comm)
{
	corale_type corale;
	corale_op made;
	ncclResult_t result = door_enter(comm, "RedOpCreatePreMulSum");
	if (result != ncclSuccess)
		return result;
	if (!op || !scalar || !door_type(type, &corale))
		result = door_refuse(ncclInvalidArgument,
				     "ncclRedOpCreatePreMulSum: a place for the operator, a scalar and a "
				     "data type are needed (type %d)",
				     (int)type);
	else if (residence == ncclScalarDevice && comm->device->is_gpu)
		result =
		    door_result(comm, corale_op_create_premul_sum_device(scalar, corale, comm->core, &made));
	else
		result = door_result(comm, corale_op_create_premul_sum(scalar, corale, comm->core, &made));
	if (result == ncclSuccess)
		*op = door_premul(made);
	door_leave(comm);
	return result;
}

DOOR_EXPORT(ncclRedOpDestroy);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	struct door_call made = { .name = "RedOpDestroy", .comm = comm, .is_op_destroy = 1 };
	return door_call(&made, (ncclDataType_t)0, op);
}
