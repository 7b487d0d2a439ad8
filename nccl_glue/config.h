/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs pass by struct: read by size and version, because each version of NCCL has added fields at the end, twice into bytes
 * that had been padding. */
#ifndef DOOR_CONFIG_H
#define DOOR_CONFIG_H

#include "nccl.h"

enum { DOOR_NAME_BYTES = 128, DOOR_MAX_CTAS = 64 };

/* A field's bit in struct door_config. */
#define DOOR_FIELD_BIT(offset) (1u << ((offset)-offsetof(ncclConfig_t, blocking)) / sizeof(int))

struct door_config {
	int blocking; /* 0 or 1 */
	int min_ctas, max_ctas; /* 1 to DOOR_MAX_CTAS; 0: not given */
	int cta_policy; /* NCCL_CTA_POLICY_DEFAULT, _EFFICIENCY or _ZERO: never two */
	unsigned ignored; /* the fields that were given and have no effect */
	char name[DOOR_NAME_BYTES]; /* the communicator's, "" if none; cut if too long */
};

/* Reads given (NULL: nothing is set) into out. ncclInvalidArgument where NCCL refuses too: then why has the reason, for the caller to
 * report, and out is as before. */
ncclResult_t door_config_read(const ncclConfig_t *given, struct door_config *out, char *why, size_t bytes);

/* Writes the names of the fields in config->ignored, separated by commas, and returns how many they are. */
int door_config_ignored(const struct door_config *config, char *text, size_t bytes);

/* Of one call: whether hints are given, which say how the communicator is to run it, and an event for its launch, or NULL. */
struct door_coll_config {
	bool has_hint;
	cudaEvent_t launched;
};

/* Like door_config_read. */
ncclResult_t door_coll_config_read(const ncclCollConfig_t *given, struct door_coll_config *out, char *why,
				   size_t bytes);

#endif
