/* SPDX-License-Identifier: BSD-3-Clause */
// A C++11 program outside the tree: the headers compile and names link.
#ifdef WITH_MPI
#include <corale_mpi.h>
#else
#include <corale.h>
#endif

int main()
{
	corale_config config;
	corale_config_init(&config);
	return corale_version() == CORALE_VERSION && config.size == sizeof(config) ? 0 : 1;
}
