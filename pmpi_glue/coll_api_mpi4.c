/* Big counts and persistent collectives, where MPI has them. */
#include "coll_fill.h"
#include "door.h"

#if PMPI_HAS_MPI4

/* clang-format off */
#define WITH_REQUEST(...) (__VA_ARGS__, MPI_Request *request)
#define WITH_REQUEST_ARGUMENT(...) (__VA_ARGS__, request)
#define WITH_INFO(...) (__VA_ARGS__, MPI_Info info, MPI_Request *request)
#define WITH_INFO_ARGUMENT(...) (__VA_ARGS__, info, request)
/* clang-format on */

/* DEFINE(function, parameters, what turns the door by, arguments, members of the record, fill) */
#define DEFINE(function, parameters, is_off, arguments, fill, ...)                                           \
	PMPI_ENTRY(M##function, parameters, arguments)                                                       \
	{                                                                                                    \
		if (is_off || comm == MPI_COMM_NULL)                                                         \
			return PM##function arguments;                                                       \
		struct coll_call call = { .comm = comm, .op = MPI_OP_NULL, __VA_ARGS__ };                    \
		fill;                                                                                        \
		return coll_run(&call);                                                                      \
	}

#define WDISPL MPI_Aint
#define COUNT int
#define DISPL int
#define COLLECTIVE(NAME, Name, name, parameters, arguments, fill)                                            \
	DEFINE(PI_##Name##_init, WITH_INFO parameters, !pmpi.device, WITH_INFO_ARGUMENT arguments, fill,     \
	       .function = PMPI_##NAME, .request = request, .info = info, .is_persistent = 1)
#include "coll_api.def"
#undef COLLECTIVE
#undef COUNT
#undef DISPL

#if MPI_VERSION >= 4
#define COUNT MPI_Count
#define DISPL MPI_Aint
#define COLLECTIVE(NAME, Name, name, parameters, arguments, fill)                                            \
	DEFINE(PI_##Name##_c, parameters, !pmpi.on, arguments, fill, .function = PMPI_##NAME, .is_big = 1)   \
	DEFINE(PI_I##name##_c, WITH_REQUEST parameters, !pmpi.device, WITH_REQUEST_ARGUMENT arguments, fill, \
	       .function = PMPI_##NAME, .request = request, .is_big = 1)                                     \
	DEFINE(PI_##Name##_init_c, WITH_INFO parameters, !pmpi.device, WITH_INFO_ARGUMENT arguments, fill,   \
	       .function = PMPI_##NAME, .request = request, .info = info, .is_persistent = 1, .is_big = 1)
#include "coll_api.def"
#endif

#endif
