/* Buffers that peers may map. On the host a message by reference already reads any memory of a peer, so that these
 * calls only make the memory and keep the collective discipline; a GPU engine exchanges mappings here. */
#include <stdlib.h>

#include "coll.h"
#include "log.h"
#include "sequence.h"

enum { MEM_ALIGN = 4096, MEM_MAGIC = 0x4d454d31 };

/* What ranks compare: that all of them make the same kind of call, and that all succeeded. */
struct mem_vote {
	int32_t kind, status;
};

enum mem_kind { MEM_ALLOC = 1, MEM_FREE, MEM_REGISTER, MEM_DEREGISTER };

struct registration {
	uint32_t magic;
	void *buffer;
	size_t bytes;
};

static const char *const kind_names[] = { "", "corale_mem_alloc", "corale_mem_free", "corale_mem_register",
					  "corale_mem_deregister" };

/* Collective: the same error on every rank when one failed. */
static int agree(struct comm *comm, enum mem_kind kind, int status)
{
	struct mem_vote mine = { (int32_t)kind, status }, *all = calloc((size_t)comm->size, sizeof *all);
	if (!all)
		return log_error(CORALE_ENOMEM, comm->rank, "%s: no memory for %d ranks", kind_names[kind],
				 comm->size);
	struct call call = { .coll = CORALE_ALL_GATHER,
			     .send = &mine,
			     .recv = all,
			     .count = sizeof mine,
			     .type = CORALE_UINT8 };
	int ret = sequence_host(comm, &call, 1, NULL);
	for (int r = 0; !ret && r < comm->size; r++) {
		if (all[r].kind != mine.kind)
			ret = log_error(CORALE_EMISMATCH, comm->rank, "%s: rank %d called %s",
					kind_names[kind], r,
					all[r].kind >= MEM_ALLOC && all[r].kind <= MEM_DEREGISTER
					    ? kind_names[all[r].kind]
					    : "something else");
		else if (all[r].status)
			ret = r == comm->rank
				  ? status
				  : log_error(all[r].status, comm->rank, "%s failed on rank %d: %s",
					      kind_names[kind], r, corale_strerror(all[r].status));
	}
	free(all);
	return ret;
}

static int allocate(struct comm *comm, size_t bytes, void **made)
{
	if (comm->gpu)
		return engine_cuda.alloc(comm->gpu, bytes ? bytes : 1, made);
	if (!posix_memalign(made, MEM_ALIGN, bytes ? bytes : 1))
		return 0;
	return log_error(CORALE_ENOMEM, comm->rank, "corale_mem_alloc: no memory for %zu bytes", bytes);
}

static void release(struct comm *comm, void *buffer)
{
	if (comm->gpu && buffer)
		engine_cuda.free(comm->gpu, buffer);
	else
		free(buffer);
}

int corale_mem_alloc(corale_comm *handle, size_t bytes, void **buffer)
{
	struct comm *comm = comm_get(handle, kind_names[MEM_ALLOC]);
	if (!comm)
		return CORALE_EINVAL;
	void *made = NULL;
	int status =
	    buffer ? 0 : log_error(CORALE_EINVAL, comm->rank, "corale_mem_alloc: no place for the buffer");
	if (!status)
		status = allocate(comm, bytes, &made);
	int ret = agree(comm, MEM_ALLOC, status);
	if (ret)
		release(comm, made);
	else
		*buffer = made;
	return ret;
}

int corale_mem_free(corale_comm *handle, void *buffer)
{
	struct comm *comm = comm_get(handle, kind_names[MEM_FREE]);
	if (!comm)
		return CORALE_EINVAL;
	int ret = agree(comm, MEM_FREE, 0);
	release(comm, buffer); /* also after a failure: nobody reads it any more */
	return ret;
}

int corale_mem_register(corale_comm *handle, void *buffer, size_t bytes, void **out)
{
	struct comm *comm = comm_get(handle, kind_names[MEM_REGISTER]);
	if (!comm)
		return CORALE_EINVAL;
	struct registration *made = malloc(sizeof *made);
	int status = made ? 0 : log_error(CORALE_ENOMEM, comm->rank, "corale_mem_register: no memory");
	if (!status && (!out || (!buffer && bytes)))
		status = log_error(CORALE_EINVAL, comm->rank,
				   "corale_mem_register: no buffer, or no place for the handle");
	int ret = agree(comm, MEM_REGISTER, status);
	if (ret) {
		free(made);
		return ret;
	}
	*made = (struct registration){ MEM_MAGIC, buffer, bytes };
	*out = made;
	return 0;
}

int corale_mem_deregister(corale_comm *handle, void *handle_of_buffer)
{
	struct comm *comm = comm_get(handle, kind_names[MEM_DEREGISTER]);
	if (!comm)
		return CORALE_EINVAL;
	struct registration *made = handle_of_buffer;
	int valid = made && made->magic == MEM_MAGIC;
	int status =
	    valid ? 0
		  : log_error(CORALE_EINVAL, comm->rank, "corale_mem_deregister: that is no registration");
	int ret = agree(comm, MEM_DEREGISTER, status);
	if (valid) {
		made->magic = 0;
		free(made);
	}
	return ret;
}
