/* In the place of info_ucx.c where UCX was not there at build time, or is opened by a module (packaging/wheel/make_wheel.py). */
#include <stdio.h>

#include "info_net.h"

#ifndef NO_UCX
#define NO_UCX "this build has no UCX"
#endif

void info_ucx_look(struct info_ucx *out)
{
	*out = (struct info_ucx){ .is_there = 0 };
	snprintf(out->facts, sizeof(out->facts), "none: " NO_UCX);
	snprintf(out->advice, sizeof(out->advice), "install a UCX with verbs and configure --with-ucx");
}

int info_ucx_open(const char *device, int gpu_slots, char *why_not, size_t bytes)
{
	(void)device, (void)gpu_slots;
	snprintf(why_not, bytes, "%s", NO_UCX);
	return -1;
}
