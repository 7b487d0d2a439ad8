/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What runs a call, for the test of all choices (chosen_test.c). Nothing else in that test knows the library's choosers: where
 * they change, chosen.c does.
 */
#ifndef CHOSEN_H
#define CHOSEN_H

#include <stddef.h>

#include "corale.h"

/* A machine, and the settings that all its ranks have. */
struct chosen_machine {
	const char *text; /* as corale-plan takes it; of GPUs: "gpu:" or "nvlink:" */
	const char *gpu; /* the name by which rates know the GPUs; NULL: hosts */
	const char *settings[3]; /* "NAME=value", up to the first NULL */
};

/* Memory of a call on the GPUs of one node, or-ed. */
enum chosen_memory { CHOSEN_STAGING = 1, CHOSEN_REGISTERED = 2, CHOSEN_EXPORTED = 4 };

struct chosen_call {
	corale_coll coll;
	corale_type type;
	size_t bytes; /* of a block or vector */
	int memory; /* enum chosen_memory */
};

struct chosen;
struct chosen *chosen_open(const struct chosen_machine *machine);
void chosen_close(struct chosen *chosen);
/* The row that runs a call with root 0, and what of it differs from size to size, as a text without ',' and ';'. */
void chosen_row(struct chosen *chosen, const struct chosen_call *call, char *text, size_t bytes);

#endif
