/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory, and what programs register: a list, and on GPUs it is shared with the node's ranks at once, as large calls do with any buffer after a while. */
#include <stdlib.h>

#include "door.h"
#include "export.h"

struct door_buffer {
	struct door_buffer *next;
};

DOOR_EXPORT(ncclMemAlloc);
ncclResult_t pncclMemAlloc(void **memory, size_t bytes)
{
	const ncclResult_t refused = door_refuse_forked("MemAlloc");
	if (refused != ncclSuccess)
		return refused;
	const struct door_device *device = door_device_find();
	if (!memory)
		return door_refuse(ncclInvalidArgument, "ncclMemAlloc: no place for the memory");
	const int ret = device ? device->alloc(bytes, memory) : CORALE_ENOTSUP;
	const ncclResult_t result = door_logged_error(ret);
	return ret == CORALE_ENOMEM && device->is_gpu ? ncclUnhandledCudaError : result;
}

DOOR_EXPORT(ncclMemFree);
ncclResult_t pncclMemFree(void *memory)
{
	const ncclResult_t refused = door_refuse_forked("MemFree");
	if (refused != ncclSuccess)
		return refused;
	const struct door_device *device = door_device_find();
	return door_logged_error(device ? device->free(memory) : CORALE_ENOTSUP);
}

/* ---- Registration: from any thread, also while another one makes a call or captures -------------------------------- */

DOOR_EXPORT(ncclCommRegister);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
	ncclResult_t result = door_enter_any(comm, "CommRegister");
	if (result != ncclSuccess)
		return result;
	struct door_buffer *b = handle ? malloc(sizeof *b) : NULL;
	if (b) {
		pthread_mutex_lock(&comm->lock);
		b->next = comm->buffers;
		comm->buffers = b;
		pthread_mutex_unlock(&comm->lock);
		*handle = b;
		comm_publish(comm->core, buffer, bytes);
	} else {
		result = door_refuse(handle ? ncclSystemError : ncclInvalidArgument,
				     "ncclCommRegister: no %s for the handle", handle ? "memory" : "place");
	}
	door_leave(comm);
	return result;
}

static struct door_buffer *take_out(ncclComm_t comm, const void *handle)
{
	pthread_mutex_lock(&comm->lock);
	struct door_buffer **at = &comm->buffers;
	while (*at && *at != handle)
		at = &(*at)->next;
	struct door_buffer *found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&comm->lock);
	return found;
}

DOOR_EXPORT(ncclCommDeregister);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
	ncclResult_t result = door_enter_any(comm, "CommDeregister");
	if (result != ncclSuccess)
		return result;
	struct door_buffer *found = take_out(comm, handle);
	if (!found)
		result =
		    door_refuse(ncclInvalidArgument,
				"ncclCommDeregister: %p was not registered with this communicator", handle);
	free(found);
	door_leave(comm);
	return result;
}

void door_forget_buffers(ncclComm_t comm)
{
	while (comm->buffers)
		free(take_out(comm, comm->buffers));
}

/* ---- Windows: none, said as NCCL says it where they are not supported ------------------------------------------------ */

DOOR_EXPORT(ncclCommWindowRegister);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window,
				     int flags)
{
	ncclResult_t result = door_enter_any(comm, "CommWindowRegister");
	if (result != ncclSuccess)
		return result;
	if (window)
		*window = NULL;
	else
		result = door_refuse(ncclInvalidArgument, "ncclCommWindowRegister: no place for the window");
	door_leave(comm);
	return result;
}

DOOR_EXPORT(ncclCommWindowDeregister);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	if (!window)
		return ncclSuccess;
	return door_refuse(ncclInvalidArgument, "ncclCommWindowDeregister: %p: this library makes no windows",
			   (void *)window);
}
