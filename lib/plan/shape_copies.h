/* The part of shape.h that copy engines have: of shape.c alone. Pure. */
#ifndef SHAPE_COPIES_H
#define SHAPE_COPIES_H

#include "shape.h"

void shape_copies(const struct plan_launch *launch, struct plan_shape *shape);

#endif
