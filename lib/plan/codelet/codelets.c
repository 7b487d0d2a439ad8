/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of codelets. */
#include "codelet.h"

#define CODELET(name) &name##_codelet,
const struct codelet *const codelet_list[CODELETS] = {
#include "codelets.def"
};
