/* The part of launch.h that copy engines have: of launch.c alone. Pure. */
#ifndef LAUNCH_COPIES_H
#define LAUNCH_COPIES_H

#include "launch.h"

void launch_copies(struct launch *launch);

#endif
