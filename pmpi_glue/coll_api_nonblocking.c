/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's non-blocking collectives. MPI_Ibarrier has no buffers. */
#include "coll_fill.h"

#define COUNT int
#define DISPL int
#define WDISPL MPI_Aint
#define COLLECTIVE(NAME, Name, name, parameters, arguments, fill)                                            \
	COLL_ENTRY(PI_I##name, WITH_REQUEST parameters, !pmpi.device, WITH_REQUEST_ARGUMENT arguments, fill, \
		   .function = PMPI_##NAME, .request = request)
#include "coll_api.def"
