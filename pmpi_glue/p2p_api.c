/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends of device buffers, receives into them and exchanges: blocking, by requests and persistent; and how they are counted. */
#include "door.h"
#include "peer.h"
#include "request.h"
#include "statistics.h"

/* Behind a call that MPI has run as the program made it, and that returned ret. */
static int passed(enum pmpi_function function, MPI_Count count, MPI_Datatype type, double begin, int ret)
{
	MPI_Count size = 0;
	if (function != PMPI_SEND)
		pmpi_requests_progress();
	if (!pmpi.counts)
		return ret;
	if (type != MPI_DATATYPE_NULL)
		PMPI_Type_size_x(type, &size);
	pmpi_statistics_count(function, PMPI_IS_PASSED, PMPI_HOST_MEMORY, (size_t)size * (size_t)count,
			      begin);
	return ret;
}

void pmpi_p2p_count(enum pmpi_function function, int is_routed, size_t bytes, double begin)
{
	if (pmpi.counts)
		pmpi_statistics_count(function, is_routed ? PMPI_IS_ROUTED : PMPI_IS_STAGED,
				      is_routed ? PMPI_NO_REASON : PMPI_NO_ROUTE, bytes, begin);
}

/* The last arguments: as what the call is counted if it is MPI's. */
#define ENTRY_OF(name, parameters, arguments, done, ...)                                                     \
	PMPI_ENTRY(MPI_##name, parameters, arguments)                                                        \
	{                                                                                                    \
		const double begin = pmpi_statistics_begin();                                                \
		const int ret = done;                                                                        \
		return ret == PMPI_NOT_OURS ? passed(__VA_ARGS__, begin, PMPI_##name arguments) : ret;       \
	}

#define COUNT int
#define ENTRY(name, parameters, arguments, as, done) ENTRY_OF(name, parameters, arguments, done, as)
#include "p2p_api.def"

#if MPI_VERSION >= 4
#undef COUNT
#undef ENTRY
#define COUNT MPI_Count
#define ENTRY(name, parameters, arguments, as, done) ENTRY_OF(name##_c, parameters, arguments, done, as)
#include "p2p_api.def"
#endif
