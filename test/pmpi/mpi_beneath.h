/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the MPI beneath the MPI door, which has MPI_X and PMPI_X itself: BENEATH(Allreduce)(...). MPI_Comm_rank is in no door. */
#ifndef TEST_MPI_BENEATH_H
#define TEST_MPI_BENEATH_H

#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>

static inline void *mpi_beneath(const char *name)
{
	Dl_info info;
	void *mpi = dladdr(dlsym(RTLD_DEFAULT, "MPI_Comm_rank"), &info)
			? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
			: NULL;
	void *found = mpi ? dlsym(mpi, name) : NULL;
	return found ? found : (abort(), NULL);
}

#define BENEATH(name)                                                                                        \
	({                                                                                                   \
		static __typeof__(&PMPI_##name) found;                                                       \
		found ? found : (found = (__typeof__(found))mpi_beneath("PMPI_" #name));                     \
	})

#endif
