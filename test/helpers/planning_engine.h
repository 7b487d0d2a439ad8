/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine of CUDA communicators that plan and run nothing: lists of lowered plans go at once. */
#ifndef PLANNING_ENGINE_H
#define PLANNING_ENGINE_H

#include "cuda/engine.h"

extern struct remote planning_remote; /* the shape of its connections, which a test sets */

#endif
