/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of codelets. */
#include "codelet.h"

const struct codelet *const codelet_list[CODELETS] = {
	&lowered_codelet,           &one_shot_codelet, &two_shot_codelet, &fifo_codelet, &direct_codelet,
	&scatter_allgather_codelet, &p2p_codelet,      &copies_codelet,   &bulk_codelet, &chain_codelet
};
