/* SPDX-License-Identifier: BSD-3-Clause */
/* What NCCL's values become in Corale's settings. Pure: texts in, texts out. */
#ifndef DOOR_ENV_MAP_H
#define DOOR_ENV_MAP_H

/* A variable whose value becomes that of a setting. */
struct door_mapping {
	const char *name; /* "NCCL_PROTO" */
	const char *setting; /* "CORALE_PROTO"; NULL: map says only why a value has no effect */
	/* NULL: the value is kept, if it is a number within these bounds, or there is no refusal. */
	const char *(*map)(const char *value, const char **why);
	long least, most;
	const char *refusal;
};

/* The setting's value, NULL for none; *why: why a value has no effect, unchanged if it needs none. */
const char *door_map(const struct door_mapping *mapping, const char *value, const char **why);

extern const struct door_mapping door_mappings[]; /* the last one has no name */

/* 1 if a value (NULL: none) of NCCL_ALGO leaves all_reduce Tree or Ring alone, of NCCL_PROTO Simple alone. */
int door_map_pins_algorithm(const char *value);
int door_map_pins_simple(const char *value);

#endif
