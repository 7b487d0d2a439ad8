/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of MPI that the door counts: collectives and, behind PMPI_COLLECTIVES, messages. */
#ifndef PMPI_FUNCTIONS_H
#define PMPI_FUNCTIONS_H

#define COLLECTIVE(enumerator, ...) PMPI_##enumerator,
enum pmpi_function {
	PMPI_BARRIER,
#include "collectives.def"
	PMPI_REDUCE_LOCAL,
	PMPI_COLLECTIVES,
	PMPI_SEND = PMPI_COLLECTIVES,
	PMPI_RECV,
	PMPI_EXCHANGE,
	PMPI_FUNCTIONS
};
#undef COLLECTIVE

const char *pmpi_function_name(enum pmpi_function function);

#endif
