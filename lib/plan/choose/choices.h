/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choices of a machine as lists: which row runs calls of up to so many bytes. The list of a collective, kind of type and class of memory is a
 * pure function of machine, rates and settings: a call's row is looked up here, and its launch is cut from it (plan/codelet/launch.h).
 */
#ifndef CHOICES_H
#define CHOICES_H

#include "base/types.h"
#include "planner.h"

struct row_choice {
	uint64_t up_to; /* bytes of a block or vector; of the last one UINT64_MAX */
	const struct row *row; /* NULL: none can run them; of choices_of_codelets: none with a codelet */
	uint32_t chunk_bytes; /* without a codelet: how its plan is cut; of size classes, powers of 2 */
	uint8_t channels;
	uint8_t single_channel; /* between nodes: by the connections of such plans */
};

enum { CHOICES_MOST = 16 };

struct choices {
	int n;
	struct row_choice best[CHOICES_MOST];
};

/* Kinds of types, which choose alike: by the bytes of an element, and whether their folds travel in words. */
enum { CHOICES_KINDS = 10 };
_Static_assert(CHOICES_KINDS == 2 * (4 + 1) && TYPE_MOST_BYTES == 1 << 4,
	       "a kind for each width, in words or not");

static inline int choices_kind(corale_type type)
{
	return __builtin_ctz((unsigned)corale_type_bytes(type)) << 1 | type_in_words(type);
}

/* Of the rows with a codelet. memory: of enum plan_memory. */
void choices_of_codelets(const struct gpu_machine *machine, corale_coll coll, int words, int memory,
			 struct choices *out);

/* Of all rows, for the kind of a type: what calls look their rows up in. CORALE_ENOTSUP (nothing applies to any size; error says why),
 * CORALE_EINTERNAL. */
int choices_of(const struct planner *planner, corale_coll coll, corale_type type, int memory,
	       struct choices *out, char *error, size_t error_bytes);

/* The plan of a choice without a codelet. */
int choices_build(const struct planner *planner, const struct row_choice *choice, const struct plan_key *key,
		  struct plan *out);

static inline const struct row_choice *choices_find(const struct choices *choices, uint64_t bytes)
{
	const struct row_choice *c = choices->best;
	while (bytes > c->up_to)
		c++;
	return c;
}

/* Words: "one_shot LL128 to 128K, two_shot SENTINEL to 4M, then chain, 4 channels"; returns the length it needs, like snprintf. */
size_t choices_print(const struct choices *choices, char *buf, size_t bytes);

/* Hashes by which ranks compare what they choose by, and what they choose. Pure. */

/* Machine, rates and settings, all that the choice of a row looks at. */
uint64_t choices_hash_inputs(const struct planner *planner);

/* The rows that run calls of a few sizes of every collective. Some ms on large machines. */
uint64_t choices_hash_sample(const struct planner *planner);

#endif
