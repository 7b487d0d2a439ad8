/* MPI's functions, by a call's record: blocking and non-blocking ones. */
#include "coll.h"

#define COUNT(side) ((int)call->side.count)
#define COUNTS(array) ((const int *)(array))
#define DISPLS(array) ((const int *)(array))
#define AINT_DISPLS(array) ((const MPI_Aint *)(array))

static int blocking(const struct coll_call *call)
{
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return PMPI_##Name(__VA_ARGS__);
	switch (call->function) {
	case PMPI_BARRIER:
		return PMPI_Barrier(call->comm);
#include "coll_mpi.def"
	default:
		return MPI_ERR_INTERN;
	}
#undef CASE
}

static int non_blocking(const struct coll_call *call)
{
#define CASE(f, Name, name, ...)                                                                             \
	case PMPI_##f:                                                                                       \
		return PMPI_I##name(__VA_ARGS__, call->request);
	switch (call->function) {
#include "coll_mpi.def"
	default:
		return MPI_ERR_INTERN;
	}
#undef CASE
}

int coll_mpi(const struct coll_call *call)
{
	return call->request ? non_blocking(call) : blocking(call);
}
