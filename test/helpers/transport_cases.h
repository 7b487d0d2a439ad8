/* SPDX-License-Identifier: BSD-3-Clause */
/* What every transport must do, as bodies that all ranks run together: threads, or processes under mpirun. */
#ifndef TRANSPORT_CASES_H
#define TRANSPORT_CASES_H

#include "net/link.h"

struct cases_rank {
	const struct transport_ops *ops; /* of t */
	struct transport *t;
	int rank, size;
	struct transport_slots slots; /* cases_slots, as the transport was opened with */
	_Atomic size_t used; /* bytes of slots */
	void (*barrier)(struct cases_rank *me);
	void *world; /* the caller's */
	_Atomic int controls, control_sum, failures, failed_peer;
};

/* Cases 0 .. cases_count() - 1, by name; the ranks that each needs, 0: any number. */
int cases_count(void);
const char *cases_name(int i);
int cases_ranks(int i);
/* Runs one on an open transport; aborts the process if something is wrong. The body may close t and clear it. */
void cases_run(int i, struct cases_rank *me);

/* What links are to have, counted in me. */
struct transport_slots cases_slots(struct cases_rank *me);
/* For transport_params; ctx is a struct cases_rank. */
void cases_on_control(void *ctx, int peer, const void *message, size_t bytes);
void cases_on_failure(void *ctx, int peer, int code, const char *reason);

#endif
