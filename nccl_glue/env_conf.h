/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's files of variables: KEY=VALUE lines. */
#ifndef DOOR_ENV_CONF_H
#define DOOR_ENV_CONF_H

#include <stddef.h>

/* "NAME=value" texts of all files, in the order of the files. */
struct door_conf {
	char **entries; /* NULL if there is none */
	size_t n;
};

/* Adds the entries of a file whose names begin with NCCL_; other lines are passed over: comments (#), and variables that this library must
 * not set for the process. 0; an errno value: nothing was read (EINVAL: it is no regular file). */
int door_conf_read(struct door_conf *conf, const char *path);

/* Value of the first entry of that name, NULL if there is none. */
const char *door_conf_find(const struct door_conf *conf, const char *name);

#endif
