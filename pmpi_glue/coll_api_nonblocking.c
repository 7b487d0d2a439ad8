/* MPI's non-blocking collectives. MPI_Ibarrier has no buffers. */
#include "coll_fill.h"
#include "door.h"

#define COUNT int
#define DISPL int
#define WDISPL MPI_Aint
#define WITH_REQUEST(...) (__VA_ARGS__, MPI_Request * request)
#define COLLECTIVE(NAME, Name, name, parameters, arguments, fill)                                            \
	PMPI_ENTRY(MPI_I##name, WITH_REQUEST parameters, WITH_REQUEST_ARGUMENT arguments)                    \
	{                                                                                                    \
		if (!pmpi.device || comm == MPI_COMM_NULL)                                                   \
			return PMPI_I##name WITH_REQUEST_ARGUMENT arguments;                                 \
		struct coll_call call = {                                                                    \
			.function = PMPI_##NAME, .comm = comm, .op = MPI_OP_NULL, .request = request         \
		};                                                                                           \
		fill;                                                                                        \
		return coll_run(&call);                                                                      \
	}
#define WITH_REQUEST_ARGUMENT(...) (__VA_ARGS__, request)
#include "coll_api.def"
