/* SPDX-License-Identifier: BSD-3-Clause */
/* Premultiplied sums: operators that belong to one communicator. */
#include <stdint.h>
#include <string.h>

#include "state/comm.h"
#include "base/log.h"
#include "base/types.h"

enum { MOST_NUMBERS = 1 << 22 /* an operator is a positive int */ };

static int check(const struct comm *comm, const char *name, const void *scalar, corale_type type, int on_gpu,
		 const corale_op *op)
{
	if (!scalar || !op || (int)type < 0 || type >= CORALE_NUM_TYPES)
		return log_error(CORALE_EINVAL, comm->rank,
				 "%s: a scalar, a type and a place for the operator are needed (type %d)",
				 name, (int)type);
	if (!type_has_op(type, CORALE_NUM_OPS))
		return log_error(CORALE_EINVAL, comm->rank, "%s: %s has no premultiplied sum", name,
				 corale_type_name(type));
	if (on_gpu && !comm->gpu)
		return log_error(CORALE_EINVAL, comm->rank,
				 "%s: the communicator is of hosts, which read no memory of a GPU: use "
				 "corale_op_create_premul_sum",
				 name);
	if (on_gpu && (uintptr_t)scalar % corale_type_bytes(type))
		return log_error(CORALE_EINVAL, comm->rank,
				 "%s: the scalar at %p is not aligned to the %zu bytes of %s", name, scalar,
				 corale_type_bytes(type), corale_type_name(type));
	return 0;
}

static int add(struct comm *comm, const struct comm_premul *made, corale_op *op)
{
	static _Atomic unsigned
	    made_before; /* in this process: no two operators of communicators are equal */
	for (int i = 0; i < COMM_MAX_PREMUL; i++) {
		if (comm->premul[i].op)
			continue;
		const unsigned number = atomic_fetch_add(&made_before, 1) % MOST_NUMBERS;
		struct comm_premul *p = &comm->premul[i];
		*op = CORALE_NUM_OPS + (int)number * COMM_MAX_PREMUL + i;
		p->type = made->type;
		p->scalar_at = made->scalar_at;
		memcpy(p->scalar, made->scalar, sizeof p->scalar);
		atomic_store(&p->op, *op);
		return 0;
	}
	return log_error(CORALE_ENOMEM, comm->rank,
			 "a communicator has at most %d premultiplied sums at a time", COMM_MAX_PREMUL);
}

/* Each call checks the memory of a scalar on the GPU (engine_cuda.admit). */
static int create(struct comm *comm, const char *name, const void *scalar, corale_type type, int on_gpu,
		  corale_op *op)
{
	struct comm_premul made = { .type = type, .scalar_at = on_gpu ? scalar : NULL };
	int ret = comm ? check(comm, name, scalar, type, on_gpu, op) : CORALE_EINVAL;
	if (!ret && !on_gpu)
		memcpy(made.scalar, scalar, corale_type_bytes(type));
	ret = ret ? ret : add(comm, &made, op);
	if (comm && ret)
		comm_keep_error(comm);
	return ret;
}

int corale_op_create_premul_sum(const void *scalar, corale_type type, corale_comm *comm, corale_op *op)
{
	const char *name = "corale_op_create_premul_sum";
	return create(comm_get(comm, name), name, scalar, type, 0, op);
}

int corale_op_create_premul_sum_device(const void *scalar, corale_type type, corale_comm *comm, corale_op *op)
{
	const char *name = "corale_op_create_premul_sum_device";
	return create(comm_get(comm, name), name, scalar, type, 1, op);
}

int corale_op_destroy(corale_op op, corale_comm *handle)
{
	struct comm *comm = comm_get(handle, "corale_op_destroy");
	if (!comm)
		return CORALE_EINVAL;
	struct comm_premul *premul = comm_premul_of(comm, op);
	if (!premul) {
		comm_refuse_op(comm, "corale_op_destroy", op);
		comm_keep_error(comm);
		return CORALE_EINVAL;
	}
	atomic_store(&premul->op, 0);
	return 0;
}
