/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of options: their words, and how they are read. parse_*: 0, or -1 if the text is malformed. */
#ifndef PERF_VALUES_H
#define PERF_VALUES_H

#include "perf.h"

/* The words that an option takes, by number; perf_op_name and perf_library_name are others. */
const char *type_name(int type);
const char *device_name(int i);
const char *product_name(int i);

int parse_size(const char *text, size_t *out);
int parse_int(const char *text, int least, int *out);
/* A list with commas, or "all", of names that name() gives for 0 .. n - 1. */
int parse_list(char *text, const char *(*name)(int), int n, int *out, int *count);
int parse_factor(const char *text, double *out);
int parse_device(const char *text, int *cuda);
int parse_modes(char *text, int *bits);
int parse_library(const char *text, enum perf_library *library);

#endif
