/*
 * Entries of Fortran for Open MPI, whose bindings call PMPI_ functions and so would pass the door by; those of MPICH call MPI_ functions. `use mpi_f08`
 * calls ompi_NAME_f, too. Arguments are pointers; integers of Fortran are C's int.
 */
#ifndef PMPI_FORTRAN_H
#define PMPI_FORTRAN_H

#include <mpi.h>

#include "door.h"

/* Addresses that stand for MPI_IN_PLACE and MPI_BOTTOM. */
extern int mpi_fortran_in_place_ __attribute__((weak)), mpi_fortran_bottom_ __attribute__((weak));

static inline void *fortran_address(void *p)
{
	if (p == &mpi_fortran_in_place_)
		return MPI_IN_PLACE;
	return p == &mpi_fortran_bottom_ ? MPI_BOTTOM : p;
}

/* Addresses that stand for MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE. */
#ifdef OPEN_MPI
extern int mpi_fortran_status_ignore_[] __attribute__((weak)),
    mpi_fortran_statuses_ignore_[] __attribute__((weak));

static inline int fortran_status_is_ignored(const int *status)
{
	return status == MPI_F_STATUS_IGNORE || status == mpi_fortran_status_ignore_;
}

static inline int fortran_statuses_are_ignored(const int *statuses)
{
	return statuses == MPI_F_STATUSES_IGNORE || statuses == mpi_fortran_statuses_ignore_;
}
#else
static inline int fortran_status_is_ignored(const int *status)
{
	return (const void *)status == MPI_F08_STATUS_IGNORE;
}

static inline int fortran_statuses_are_ignored(const int *statuses)
{
	return (const void *)statuses == MPI_F08_STATUSES_IGNORE;
}
#endif

/* What a call of C has found goes to Fortran; ret is passed on. */
static inline int fortran_give_status(int ret, const MPI_Status *found, int *status)
{
	if (!fortran_status_is_ignored(status))
		PMPI_Status_c2f(found, status);
	return ret;
}

#define F_TYPE(type) PMPI_Type_f2c(*(type))
#define F_OP(op) PMPI_Op_f2c(*(op))
#define F_COMM(comm) PMPI_Comm_f2c(*(comm))

/* FORTRAN_ENTRY(name, NAME, parameters without ierr, call): the function in all spellings. */
#define FORTRAN_PARAMETERS(...) (__VA_ARGS__, int *ierr)
#define FORTRAN_ALIAS(name, alias_name, parameters)                                                          \
	PMPI_EXPORT void alias_name parameters __attribute__((alias("ompi_" #name "_"                        \
								    "f")));
#define FORTRAN_SPELLINGS(name, NAME, parameters)                                                            \
	FORTRAN_ALIAS(name, mpi_##name, parameters)                                                          \
	FORTRAN_ALIAS(name, mpi_##name##_, parameters)                                                       \
	FORTRAN_ALIAS(name, mpi_##name##__, parameters)                                                      \
	FORTRAN_ALIAS(name, MPI_##NAME, parameters)
#define FORTRAN_ALIASES(name, NAME, parameters) FORTRAN_SPELLINGS(name, NAME, FORTRAN_PARAMETERS parameters)
#define FORTRAN_ENTRY(name, NAME, parameters, call)                                                          \
	PMPI_EXPORT void ompi_##name##_f FORTRAN_PARAMETERS parameters;                                      \
	void ompi_##name##_f FORTRAN_PARAMETERS parameters                                                   \
	{                                                                                                    \
		const int error = (call);                                                                    \
		if (ierr)                                                                                    \
			*ierr = error;                                                                       \
	}                                                                                                    \
	FORTRAN_ALIASES(name, NAME, parameters)

#endif
