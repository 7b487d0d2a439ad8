/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of info_ucx.c where UCX was not there at build time, or is opened by a module (packaging/wheel/make_wheel.py). */
#include <stdio.h>

#include "info_net.h"

#ifdef UCX_BY_MODULE
static const char ucx[] = "opened by corale_ucx.so: what it can do is said of the transport";
enum { CAN_REGISTER = 1 }; /* nothing is said against it here */
#else
static const char ucx[] = "none: this build has no UCX";
enum { CAN_REGISTER = 0 };
#endif

void info_ucx_look(struct info_ucx *out)
{
	*out = (struct info_ucx){ .is_there = 0, .can_register = CAN_REGISTER };
	snprintf(out->facts, sizeof(out->facts), "%s", ucx);
	snprintf(out->advice, sizeof(out->advice), "install a UCX with verbs and configure --with-ucx");
}

int info_ucx_open(const char *device, int gpu_slots, char *why_not, size_t bytes)
{
	(void)device, (void)gpu_slots;
	snprintf(why_not, bytes, "%s", ucx);
	return -1;
}
