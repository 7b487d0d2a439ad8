/* SPDX-License-Identifier: BSD-3-Clause */
/* Big counts and persistent collectives, where MPI has them. */
#include "coll_fill.h"

#if PMPI_HAS_MPI4

/* clang-format off */
#define WITH_INFO(...) (__VA_ARGS__, MPI_Info info, MPI_Request *request)
#define WITH_INFO_ARGUMENT(...) (__VA_ARGS__, info, request)
/* clang-format on */

#define WDISPL MPI_Aint
#define COUNT int
#define DISPL int
#define COLLECTIVE(NAME, Name, name, parameters, arguments, fill)                                            \
	COLL_ENTRY(PI_##Name##_init, WITH_INFO parameters, !pmpi.device, WITH_INFO_ARGUMENT arguments, fill, \
		   .function = PMPI_##NAME, .request = request, .info = info, .is_persistent = 1)
#include "coll_api.def"
#undef COLLECTIVE
#undef COUNT
#undef DISPL

#if MPI_VERSION >= 4
#define COUNT MPI_Count
#define DISPL MPI_Aint
#define COLLECTIVE(NAME, Name, name, parameters, arguments, fill)                                            \
	COLL_ENTRY(PI_##Name##_c, parameters, !pmpi.on, arguments, fill, .function = PMPI_##NAME,            \
		   .is_big = 1)                                                                              \
	COLL_ENTRY(PI_I##name##_c, WITH_REQUEST parameters, !pmpi.device, WITH_REQUEST_ARGUMENT arguments,   \
		   fill, .function = PMPI_##NAME, .request = request, .is_big = 1)                           \
	COLL_ENTRY(PI_##Name##_init_c, WITH_INFO parameters, !pmpi.device, WITH_INFO_ARGUMENT arguments,     \
		   fill, .function = PMPI_##NAME, .request = request, .info = info, .is_persistent = 1,      \
		   .is_big = 1)
#include "coll_api.def"
#endif

#endif
