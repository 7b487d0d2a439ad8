/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi_thread.h"

#include <mpi.h>
#include <stdio.h>

/* Open MPI's and MPICH's, where this MPI has it; not all have a header for it. */
extern int MPIX_Query_cuda_support(void) __attribute__((weak));

static const char *level_name(int level)
{
	return level == MPI_THREAD_MULTIPLE     ? "MPI_THREAD_MULTIPLE"
	       : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
	       : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
						: "MPI_THREAD_SINGLE";
}

/* A switch of this MPI's that is there, and off. */
static int is_off(const char *name)
{
	unsigned char value[64] = { 0 };
	MPI_T_cvar_handle handle;
	int index, count, on = 0;
	if (MPI_T_cvar_get_index(name, &index) || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count))
		return 0;
	if (count == 1 && !MPI_T_cvar_read(handle, value))
		for (size_t i = 0; i < sizeof(int); i++) /* a bool's other bytes stay 0 */
			on |= value[i];
	else
		on = 1;
	MPI_T_cvar_handle_free(&handle);
	return !on;
}

/* What MPIX_Query_cuda_support says may be how MPI was built alone. */
int mpi_thread_calls_cuda(void)
{
	int level, off;
	if (!MPIX_Query_cuda_support || !MPIX_Query_cuda_support())
		return 0;
	if (MPI_T_init_thread(MPI_THREAD_SERIALIZED, &level))
		return 1;
	off = is_off("opal_cuda_support") || is_off("MPIR_CVAR_ENABLE_GPU");
	MPI_T_finalize();
	return !off;
}

int mpi_thread_check(int level, int calls_cuda, char *why_not, size_t bytes)
{
	if (level < MPI_THREAD_MULTIPLE)
		snprintf(why_not, bytes,
			 "MPI gave %s, and a thread of Corale's calls it beside the program's: "
			 "MPI_THREAD_MULTIPLE is needed; ask MPI_Init_thread for it, or build with UCX and "
			 "leave CORALE_TRANSPORT to it",
			 level_name(level));
	else if (calls_cuda)
		snprintf(why_not, bytes,
			 "this MPI asks CUDA about each message's memory, so the thread that moves messages "
			 "would wait for a kernel that waits for its messages; switch that off (Open MPI 4: "
			 "OMPI_MCA_opal_cuda_support=0, 5: OMPI_MCA_accelerator=null, MPICH: "
			 "MPIR_CVAR_ENABLE_GPU=0), or build with UCX and leave CORALE_TRANSPORT to it");
	return level == MPI_THREAD_MULTIPLE && !calls_cuda;
}
