/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of MPI that the door counts, and has routes for. */
#ifndef PMPI_FUNCTIONS_H
#define PMPI_FUNCTIONS_H

#define FUNCTION(enumerator, name) PMPI_##enumerator,
enum pmpi_function {
#include "functions.def"
	PMPI_FUNCTIONS
};
#undef FUNCTION

enum { PMPI_ROUTED = PMPI_ALLTOALLV + 1 }; /* how many of them Corale runs */

const char *pmpi_function_name(enum pmpi_function function);

#endif
