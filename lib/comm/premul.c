/* Premultiplied sums: operators that belong to one communicator. */
#include <string.h>

#include "state/comm.h"
#include "base/log.h"

int corale_op_create_premul_sum(const void *scalar, corale_type type, corale_comm *handle, corale_op *op)
{
	struct comm *comm = comm_get(handle, "corale_op_create_premul_sum");
	if (!comm)
		return CORALE_EINVAL;
	if (!scalar || !op || (int)type < 0 || type >= CORALE_NUM_TYPES)
		return log_error(CORALE_EINVAL, comm->rank,
				 "corale_op_create_premul_sum: a scalar, a type and a place for the "
				 "operator are needed (type %d)",
				 (int)type);
	for (int i = 0; i < COMM_MAX_PREMUL; i++) {
		struct comm_premul *premul = &comm->premul[i];
		if (premul->used)
			continue;
		premul->used = 1;
		premul->type = type;
		memcpy(premul->scalar, scalar, corale_type_bytes(type));
		*op = CORALE_NUM_OPS + i;
		return 0;
	}
	return log_error(CORALE_ENOMEM, comm->rank,
			 "a communicator has at most %d premultiplied sums at a time", COMM_MAX_PREMUL);
}

int corale_op_destroy(corale_op op, corale_comm *handle)
{
	struct comm *comm = comm_get(handle, "corale_op_destroy");
	int i = op - CORALE_NUM_OPS;
	if (!comm)
		return CORALE_EINVAL;
	if (i < 0 || i >= COMM_MAX_PREMUL || !comm->premul[i].used)
		return log_error(CORALE_EINVAL, comm->rank,
				 "corale_op_destroy: %d is no operator of this communicator", op);
	memset(&comm->premul[i], 0, sizeof comm->premul[i]);
	return 0;
}
