/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of MPI that the door counts. Those below PMPI_ROUTED Corale runs. */
#ifndef PMPI_FUNCTIONS_H
#define PMPI_FUNCTIONS_H

#define COLLECTIVE(enumerator, ...) PMPI_##enumerator,
enum pmpi_function {
	PMPI_BARRIER,
#include "collectives.def"
	PMPI_REDUCE_LOCAL,
	PMPI_SEND,
	PMPI_RECV,
	PMPI_EXCHANGE,
	PMPI_FUNCTIONS
};
#undef COLLECTIVE

enum { PMPI_ROUTED = PMPI_ALLTOALLV + 1 };

const char *pmpi_function_name(enum pmpi_function function);

#endif
