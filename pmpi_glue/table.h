/* Counts of calls by function, and by what became of them, for the table that MPI_Finalize prints with CORALE_DEBUG=info. */
#ifndef PMPI_TABLE_H
#define PMPI_TABLE_H

#include "functions.h"

enum pmpi_outcome { PMPI_IS_ROUTED, PMPI_IS_STAGED, PMPI_IS_PASSED, PMPI_OUTCOMES };

/* Around a call. Free where nothing is counted. Any thread. */
double pmpi_table_begin(void);
void pmpi_table_end(enum pmpi_function function, enum pmpi_outcome outcome, double begin);

/* This rank's table, to the log. */
void pmpi_table_print(void);

#endif
