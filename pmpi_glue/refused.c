/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of MPI that the door does not stage: windows, files, packing, partitioned messages and attached buffers. With a device buffer MPI would crash in them;
 * here they call the error handler of the window, file or communicator with MPI_ERR_BUFFER.
 */
#include "base/log.h"
#include "corale.h"
#include "door.h"
#include "staging.h"

/* A buffer of a call. */
struct used {
	const void *buffer;
	MPI_Count count;
	MPI_Datatype type;
};
#define USED(buffer, count, type) ((struct used){ buffer, count, type })
#define NO_OTHER USED(NULL, 0, MPI_BYTE)

/* That of both which is in device memory; NULL: neither. */
static const void *find_device(struct used a, struct used b)
{
	if (!pmpi.device)
		return NULL;
	return pmpi_is_device(a.buffer, a.count, a.type)   ? a.buffer
	       : pmpi_is_device(b.buffer, b.count, b.type) ? b.buffer
							   : NULL;
}

/* Returns the error for the handler. */
static int say(const char *function, const void *buffer)
{
	log_error(CORALE_EINVAL, pmpi.rank,
		  "%s: the buffer %p is in device memory, which the MPI beneath can't use and the door does "
		  "not stage in this function: copy it to host memory and pass that",
		  function, buffer);
	return MPI_ERR_BUFFER;
}

/* MPI's function, unless one of two buffers is a device's. Handle: Comm, Win or File. */
#define REFUSE(Handle, name, parameters, arguments, used, other, of)                                         \
	PMPI_ENTRY(MPI_##name, parameters, arguments)                                                        \
	{                                                                                                    \
		const void *device = find_device(used, other);                                               \
		if (!device)                                                                                 \
			return PMPI_##name arguments;                                                        \
		PMPI_##Handle##_call_errhandler(of, say("MPI_" #name, device));                              \
		return MPI_ERR_BUFFER;                                                                       \
	}

/* ---- Without counts, or with counts of one type only --------------------------------------------------- */

REFUSE(Win, Win_attach, (MPI_Win window, void *base, MPI_Aint bytes), (window, base, bytes),
       USED(base, bytes, MPI_BYTE), NO_OTHER, window)
REFUSE(Win, Fetch_and_op,
       (const void *origin, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op,
	MPI_Win window),
       (origin, result, type, rank, at, op, window), USED(origin, op == MPI_NO_OP ? 0 : 1, type),
       USED(result, 1, type), window)
REFUSE(Win, Compare_and_swap,
       (const void *origin, const void *compare, void *result, MPI_Datatype type, int rank, MPI_Aint at,
	MPI_Win window),
       (origin, compare, result, type, rank, at, window),
       USED(pmpi_is_device(compare, 1, type) ? compare : origin, 1, type), USED(result, 1, type), window)
REFUSE(Comm, Pack_external,
       (const char representation[], const void *in, int count, MPI_Datatype type, void *out, MPI_Aint bytes,
	MPI_Aint *position),
       (representation, in, count, type, out, bytes, position), USED(in, count, type),
       USED(out, bytes, MPI_BYTE), MPI_COMM_WORLD)
REFUSE(Comm, Unpack_external,
       (const char representation[], const void *in, MPI_Aint bytes, MPI_Aint *position, void *out, int count,
	MPI_Datatype type),
       (representation, in, bytes, position, out, count, type), USED(in, bytes, MPI_BYTE),
       USED(out, count, type), MPI_COMM_WORLD)

/* A window is made by all ranks together, so one that can't takes part first, without memory: no rank waits for it. */
PMPI_ENTRY(MPI_Win_create,
	   (void *base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *window),
	   (base, bytes, unit, info, comm, window))
{
	if (!pmpi_is_device(base, bytes, MPI_BYTE))
		return PMPI_Win_create(base, bytes, unit, info, comm, window);
	const int ret = PMPI_Win_create(NULL, 0, unit, info, comm, window);
	if (ret)
		return ret;
	PMPI_Comm_call_errhandler(comm, say("MPI_Win_create", base));
	return MPI_ERR_BUFFER;
}

/* ---- Partitioned messages, which MPI 4 offers ---------------------------------------------------------- */

#if PMPI_HAS_MPI4
REFUSE(Comm, Psend_init,
       (const void *buffer, int parts, MPI_Count count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	MPI_Info info, MPI_Request *request),
       (buffer, parts, count, type, to, tag, comm, info, request), USED(buffer, parts *count, type), NO_OTHER,
       comm)
REFUSE(Comm, Precv_init,
       (void *buffer, int parts, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	MPI_Info info, MPI_Request *request),
       (buffer, parts, count, type, from, tag, comm, info, request), USED(buffer, parts *count, type),
       NO_OTHER, comm)
#endif

/* ---- With counts --------------------------------------------------------------------------------------- */

#define COUNT int
#define BYTES int
#define DEFINE(Handle, name, ...) REFUSE(Handle, name, __VA_ARGS__)
#include "refused.def"

#if MPI_VERSION >= 4
#undef COUNT
#undef BYTES
#undef DEFINE
#define COUNT MPI_Count
#define BYTES MPI_Count
#define DEFINE(Handle, name, ...) REFUSE(Handle, name##_c, __VA_ARGS__)
#include "refused.def"
#endif
