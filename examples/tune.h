/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of corale-tune. */
#ifndef TUNE_H
#define TUNE_H

#include <mpi.h>

#include "plan/machine/tuning.h"
#include "state/comm.h"

/* Two ranks of a node that measure together; both call each function at about the same time. */
struct tune_pair {
	MPI_Comm comm; /* of the two; MPI_COMM_NULL: this rank is none of them */
	int leads;
	double seconds; /* of one measurement */
};

/* Each returns 0 or a CORALE_E* code, logged; out is that of the rank that leads. */
int tune_latency(const struct tune_pair *pair, struct tuning *out); /* host.node_ns */
int tune_bytes(const struct tune_pair *pair, struct tuning *out); /* host.node_gbs, host.reduce_gbs */
int tune_step(const struct tune_pair *pair, struct tuning *out); /* host.step_ns, by the three before */

/* network.*: what the communicator has measured at its creation. */
void tune_network(const struct comm *comm, struct tuning *out);

#endif
