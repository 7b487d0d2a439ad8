/* SPDX-License-Identifier: BSD-3-Clause */
/* Any collective, for tests that call many: each takes what it needs of these. */
#ifndef ANY_CALL_H
#define ANY_CALL_H

#include "corale.h"

struct any_call {
	corale_coll coll;
	size_t count; /* of a block or vector; of gather_v and scatter_v this rank's own */
	corale_type type;
	corale_op op;
	int root;
	const void *send;
	void *recv;
	const size_t *send_counts, *send_displs, *recv_counts, *recv_displs; /* of v-forms */
	corale_comm *comm;
	void *stream;
};

/* What corale_COLL returns; a number without a collective: a barrier. */
int any_call(const struct any_call *c);

#endif
