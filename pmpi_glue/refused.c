/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of MPI that the door does not stage: windows, files, packing, partitioned messages and attached buffers. With a device buffer MPI would crash in them;
 * here they call the error handler of the window, file or communicator with MPI_ERR_BUFFER.
 */
#include "base/log.h"
#include "corale.h"
#include "door.h"
#include "refused.h"
#include "staging.h"

static int is_device(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	struct pmpi_staged s;
	const int found = pmpi_stage_find(&s, buffer, count, type);
	pmpi_stage_end(&s);
	return found;
}

static void say(const char *function, const void *buffer)
{
	log_error(CORALE_EINVAL, pmpi.rank,
		  "%s: the buffer %p is in device memory, which the MPI beneath can't use and the door does "
		  "not stage in this function: copy it to host memory and pass that",
		  function, buffer);
}

int pmpi_refuse_for_comm(const char *function, const void *buffer, MPI_Comm comm)
{
	say(function, buffer);
	PMPI_Comm_call_errhandler(comm, MPI_ERR_BUFFER);
	return MPI_ERR_BUFFER;
}

int pmpi_refuse_for_window(const char *function, const void *buffer, MPI_Win window)
{
	say(function, buffer);
	PMPI_Win_call_errhandler(window, MPI_ERR_BUFFER);
	return MPI_ERR_BUFFER;
}

int pmpi_refuse_for_file(const char *function, const void *buffer, MPI_File file)
{
	say(function, buffer);
	PMPI_File_call_errhandler(file, MPI_ERR_BUFFER);
	return MPI_ERR_BUFFER;
}

const void *pmpi_refused_buffer(struct used a, struct used b)
{
	if (!pmpi.device)
		return NULL;
	return is_device(a.buffer, a.count, a.type)   ? a.buffer
	       : is_device(b.buffer, b.count, b.type) ? b.buffer
						      : NULL;
}

/* MPI's function, unless one of two buffers is a device's. */
#define DEFINE(handle, name, parameters, arguments, used, other, of)                                         \
	PMPI_ENTRY(MPI(name), parameters, arguments)                                                         \
	{                                                                                                    \
		const void *device = pmpi_refused_buffer(used, other);                                       \
		if (device)                                                                                  \
			return pmpi_refuse_for_##handle(TEXT(MPI(name)), device, of);                        \
		return PMPI(name) arguments;                                                                 \
	}
#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(name) #name
#define SINGLE(name) MPI_##name
#define P_SINGLE(name) PMPI_##name

/* ---- Without counts, or with counts of one type only --------------------------------------------------- */

#define MPI(name) SINGLE(name)
#define PMPI(name) P_SINGLE(name)

DEFINE(window, Win_attach, (MPI_Win window, void *base, MPI_Aint bytes), (window, base, bytes),
       USED(base, bytes, MPI_BYTE), NO_OTHER, window)
DEFINE(window, Fetch_and_op,
       (const void *origin, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op,
	MPI_Win window),
       (origin, result, type, rank, at, op, window), USED(origin, op == MPI_NO_OP ? 0 : 1, type),
       USED(result, 1, type), window)
DEFINE(window, Compare_and_swap,
       (const void *origin, const void *compare, void *result, MPI_Datatype type, int rank, MPI_Aint at,
	MPI_Win window),
       (origin, compare, result, type, rank, at, window),
       USED(is_device(compare, 1, type) ? compare : origin, 1, type), USED(result, 1, type), window)
DEFINE(comm, Pack_external,
       (const char representation[], const void *in, int count, MPI_Datatype type, void *out, MPI_Aint bytes,
	MPI_Aint *position),
       (representation, in, count, type, out, bytes, position), USED(in, count, type),
       USED(out, bytes, MPI_BYTE), MPI_COMM_WORLD)
DEFINE(comm, Unpack_external,
       (const char representation[], const void *in, MPI_Aint bytes, MPI_Aint *position, void *out, int count,
	MPI_Datatype type),
       (representation, in, bytes, position, out, count, type), USED(in, bytes, MPI_BYTE),
       USED(out, count, type), MPI_COMM_WORLD)

/* A window is made by all ranks together, so one that can't takes part first, without memory: no rank waits for it. */
PMPI_ENTRY(MPI_Win_create,
	   (void *base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *window),
	   (base, bytes, unit, info, comm, window))
{
	if (!is_device(base, bytes, MPI_BYTE))
		return PMPI_Win_create(base, bytes, unit, info, comm, window);
	const int ret = PMPI_Win_create(NULL, 0, unit, info, comm, window);
	return ret ? ret : pmpi_refuse_for_comm("MPI_Win_create", base, comm);
}

#undef MPI
#undef PMPI

/* ---- With counts --------------------------------------------------------------------------------------- */

#define COUNT int
#define BYTES int
#define MPI(name) SINGLE(name)
#define PMPI(name) P_SINGLE(name)
#include "refused.def"

#if MPI_VERSION >= 4
#undef COUNT
#undef BYTES
#undef MPI
#undef PMPI
#define COUNT MPI_Count
#define BYTES MPI_Count
#define MPI(name) MPI_##name##_c
#define PMPI(name) PMPI_##name##_c
#include "refused.def"
#endif

/* ---- Partitioned messages, which MPI 4 offers ---------------------------------------------------------- */

#if PMPI_HAS_MPI4
#undef MPI
#undef PMPI
#define MPI(name) SINGLE(name)
#define PMPI(name) P_SINGLE(name)
DEFINE(comm, Psend_init,
       (const void *buffer, int parts, MPI_Count count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	MPI_Info info, MPI_Request *request),
       (buffer, parts, count, type, to, tag, comm, info, request), USED(buffer, parts *count, type), NO_OTHER,
       comm)
DEFINE(comm, Precv_init,
       (void *buffer, int parts, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	MPI_Info info, MPI_Request *request),
       (buffer, parts, count, type, from, tag, comm, info, request), USED(buffer, parts *count, type),
       NO_OTHER, comm)
#endif
