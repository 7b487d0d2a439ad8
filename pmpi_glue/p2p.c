/* SPDX-License-Identifier: BSD-3-Clause */
#include "p2p.h"

#include "door.h"
#include "request.h"
#include "statistics.h"

int pmpi_p2p_passed(enum pmpi_function function, MPI_Count count, MPI_Datatype type, double begin, int ret)
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
