/* SPDX-License-Identifier: BSD-3-Clause */
/* The one table of NCCL's variables. docs/nccl-variables.md prints it; test/nccl/nccl_env_test.c compares them. */
#ifndef DOOR_ENV_TABLE_H
#define DOOR_ENV_TABLE_H

enum door_env_class {
	DOOR_ENV_HONOURED, /* means what it means to NCCL */
	DOOR_ENV_MAPPED, /* becomes a setting of Corale */
	DOOR_ENV_NOT_NEEDED, /* results are the same without it: it tunes, or names what is not used here */
	DOOR_ENV_LOST, /* changes what a program of NCCL sees, and not here */
	DOOR_ENV_NOT_NCCLS /* belongs to PyTorch, nccl-tests, a build or an image */
};

struct door_env_row {
	const char *name; /* a last '*' stands for any end of a name */
	enum door_env_class class;
	const char *here; /* what happens here, one sentence */
	const char *harmless; /* LOST: with this value nothing is lost; NULL: there is none */
};

extern const struct door_env_row
    door_env_rows[]; /* those that are not NCCL's come last; behind them one without a name */

/* The row of a variable, NULL if it has none. */
const struct door_env_row *door_env_find(const char *name);

/* A class as people read it. */
const char *door_env_class_name(enum door_env_class class);

#endif
