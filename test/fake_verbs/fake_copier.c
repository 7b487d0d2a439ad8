/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of test/fake_verbs' adapters that reaches a real GPU's memory, in a process of its own: ranks' kernels then see bytes that no part of their own process has moved.
 *   fake_copier SOCKET [--rate G]     copies for adapters whose FAKE_VERBS_COPIER is SOCKET, until it is killed. Each adapter sends at most G GB/s
 *                                     (10^9 bytes; 0, the default: as fast as the GPU copies)
 *   fake_copier SOCKET --measure BYTES [--depth N] [--seconds S]
 *                                     prints the GB/s of such a process: N copies of BYTES at a time (4), for S seconds (2)
 * GPUs have the same numbers here as in the adapters' processes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_copier.h"

static int read_options(int argc, char **argv, struct copier_options *o)
{
	*o = (struct copier_options){ .depth = 4, .seconds = 2 };
	if (argc < 2)
		return 0;
	o->path = argv[1];
	for (int i = 2; i + 1 < argc; i += 2) {
		const double value = atof(argv[i + 1]);
		if (!strcmp(argv[i], "--rate"))
			o->rate = value;
		else if (!strcmp(argv[i], "--measure"))
			o->bytes = (size_t)value;
		else if (!strcmp(argv[i], "--depth"))
			o->depth = (int)value;
		else if (!strcmp(argv[i], "--seconds"))
			o->seconds = value;
		else
			return 0;
	}
	return argc % 2 == 0;
}

int main(int argc, char **argv)
{
	struct copier_options options;
	if (!read_options(argc, argv, &options)) {
		fprintf(stderr,
			"usage: fake_copier SOCKET [--rate G | --measure BYTES [--depth N] [--seconds S]]\n");
		return 2;
	}
	return options.bytes ? copier_measure(&options) : copier_serve(&options);
}
