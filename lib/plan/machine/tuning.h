/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rates as a file: what corale-tune has measured on a class of machines, in place of the built-in rates (rates.h). Pure: a text in, values out.
 *
 *	# corale-tuning 1
 *	# Any other comment.
 *	host.node_ns 142
 *	network.rail_gbs 12.5
 *
 * The first line names the format. Each other line is empty, a comment, or a section, a point, the name of a member of rates_links or rates, and a number.
 * The unit is the end of the name: ns, us, bytes, or gbs for GB/s (bytes per ns). A rate that the file does not name stays built-in.
 */
#ifndef TUNING_H
#define TUNING_H

#include <stddef.h>
#include <stdint.h>

#include "rates.h"

enum tuning_section {
	TUNING_HOST, /* inside a node; of rates_links of hosts */
	TUNING_NETWORK, /* between nodes; of rates_links of hosts */
	TUNING_GPU, /* of the rates of the GPUs' class */
	TUNING_SECTIONS
};

enum {
	TUNING_MOST = 64, /* rates; one bit each in given */
	TUNING_LINE = 200, /* characters of a line at most */
	TUNING_ERROR = 700, /* room for what is wrong with a text */
	TUNING_TEXT = 4096 /* room for what tuning_print writes */
};

struct tuning {
	uint64_t given; /* bit i: the text names rate i */
	double value[TUNING_MOST];
};

/* 0; CORALE_ESETTING: error (TUNING_ERROR bytes) says in which line, what was found and what was expected, and out is unchanged. */
int tuning_parse(const char *text, size_t bytes, struct tuning *out, char *error);
/* A text that tuning_parse reads again. Returns the length it needs, like snprintf. */
size_t tuning_print(const struct tuning *tuning, char *buf, size_t bytes);
/* Of the rates, whatever the text's comments and order; 0: the text names none. */
uint64_t tuning_hash(const struct tuning *tuning);

/* The rates that the tuning names, over those that are there. Of hosts the section TUNING_NETWORK is apart. */
void tuning_apply_links(const struct tuning *tuning, enum tuning_section section, struct rates_links *links);
void tuning_apply_gpus(const struct tuning *tuning, struct rates *rates);

/* For what writes and prints tunings. Rates have the numbers 0 to tuning_count() - 1. */
int tuning_count(void);
const char *tuning_name(int i);
/* By its name; -1: no rate has it. */
int tuning_find(const char *name);
int tuning_has(const struct tuning *tuning, int i);
int tuning_has_section(const struct tuning *tuning, enum tuning_section section);
/* What holds where no file names rate i. */
double tuning_built_in(int i, const struct rates *gpus);
/* To three digits, within what tuning_parse accepts. */
void tuning_set(struct tuning *tuning, int i, double value);

#endif
