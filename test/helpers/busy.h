/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of time that tests set: where more threads want to run than there are processors, everything takes so many times longer. */
#ifndef BUSY_H
#define BUSY_H

#include <stdlib.h>
#include <unistd.h>

/* How many times: 1 on a machine that has nothing else to do. */
static inline double busy_times(void)
{
	double load = 0;
	const double processors = (double)sysconf(_SC_NPROCESSORS_ONLN);
	return getloadavg(&load, 1) == 1 && processors > 0 && load > processors ? load / processors : 1;
}

#endif
