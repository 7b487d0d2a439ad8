/* MPI's blocking collectives. */
#include "coll_fill.h"
#include "door.h"

#define COUNT int
#define DISPL int
#define WDISPL MPI_Aint
#define COLLECTIVE(NAME, Name, name, parameters, arguments, fill)                                            \
	PMPI_EXPORT int MPI_##Name parameters                                                                \
	{                                                                                                    \
		if (!pmpi.on || comm == MPI_COMM_NULL)                                                       \
			return PMPI_##Name arguments;                                                        \
		struct coll_call call = { .function = PMPI_##NAME, .comm = comm, .op = MPI_OP_NULL };        \
		fill;                                                                                        \
		return coll_run(&call);                                                                      \
	}
#include "coll_api.def"

PMPI_EXPORT int MPI_Barrier(MPI_Comm comm)
{
	if (!pmpi.on || comm == MPI_COMM_NULL)
		return PMPI_Barrier(comm);
	return coll_run(&(struct coll_call){ .function = PMPI_BARRIER, .comm = comm });
}
