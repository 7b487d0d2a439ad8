/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the reference that complex products and pairs need. */
#ifndef REFERENCE_WIDE_H
#define REFERENCE_WIDE_H

#include "reference.h"

/* Complex types and pairs. */
int reference_is_wide(corale_type type);

/* As reference_fill and reference_check_fold, of pairs and of products of complex numbers. */
void reference_wide_fill(const struct reference *ref, int rank, size_t first, size_t count, void *buf);
size_t reference_wide_check(const struct reference *ref, size_t first, size_t count, const void *buf,
			    struct reference_fault *fault);

#endif
