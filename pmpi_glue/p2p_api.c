/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends of device buffers, receives into them and exchanges: blocking, by requests and persistent. */
#include "door.h"
#include "p2p.h"
#include "peer.h"
#include "statistics.h"

#define COUNT int
#define MPI(name) MPI_##name
#define PMPI(name) PMPI_##name
#include "p2p_api.def"

#if MPI_VERSION >= 4
#undef COUNT
#undef MPI
#undef PMPI
#define COUNT MPI_Count
#define MPI(name) MPI_##name##_c
#define PMPI(name) PMPI_##name##_c
#include "p2p_api.def"
#endif
