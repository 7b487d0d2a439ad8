/* SPDX-License-Identifier: BSD-3-Clause */
/* --help and --version of the small programs. */
#ifndef ABOUT_H
#define ABOUT_H

#include <stdio.h>
#include <string.h>

#include "corale.h"

/* 1: the program was asked about itself alone, and the answer is printed. */
static inline int about(int argc, char **argv, const char *usage)
{
	const int version = corale_version();
	if (argc != 2 || (strcmp(argv[1], "--help") && strcmp(argv[1], "--version")))
		return 0;
	if (!strcmp(argv[1], "--help"))
		puts(usage);
	else
		printf("corale %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
	return 1;
}

#endif
