/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's variables: environment first, then the file of NCCL_CONF_FILE (~/.nccl.conf where that is unset), then /etc/nccl.conf.
 * env_table.c says of each what happens here. A malformed value never fails a program: it is logged at INFO and not used.
 */
#ifndef DOOR_ENV_H
#define DOOR_ENV_H

struct settings;

/* Before all else of this library, any thread, any number of times: offers Corale's settings what NCCL's variables say, opens the log,
 * reads the settings, and reports the variables. device: the calling thread's GPU, for log lines (NULL: 0); of the first call.
 * 0 or CORALE_ESETTING, which is logged: a CORALE_* variable is malformed. */
int door_env_open(int (*device)(void), const struct settings **out);

/* Value of a variable, NULL if it is unset or empty. A program with more rights than who started it reads /etc/nccl.conf only. */
const char *door_env(const char *name);

/* The names of NCCL's own variables that the table has: 0 .. door_env_count() - 1. */
int door_env_count(void);
const char *door_env_name(int i);

/* A whole number, decimal or hexadecimal (0x). otherwise: where the variable is unset, or is no number from least to most, which is
 * logged once at INFO. */
long door_env_number(const char *name, long otherwise, long least, long most);

/* Blocks of a kernel: the lower one of NCCL_MAX_CTAS and NCCL_MAX_NCHANNELS, the higher one of NCCL_MIN_CTAS and
 * NCCL_MIN_NCHANNELS; 0: neither is set. */
int door_env_max_ctas(void);
int door_env_min_ctas(void);

/* Once a process, and by door_env_open: one WARN line that names the variables that NCCL honours and this library does not; INFO lines for
 * the other ones that are set. */
void door_env_report(void);

#endif
