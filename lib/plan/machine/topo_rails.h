/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the words of a machine's text, of which a setting has those between nodes, and corale-plan all. */
#ifndef TOPO_RAILS_H
#define TOPO_RAILS_H

#include "topo.h"

enum { TOPO_RAILS = 6 };

struct topo_reader {
	const char *text, *at;
	char *error;
	size_t error_bytes;
};

/* Rates between nodes that a text has named. */
struct topo_rails {
	double value[TOPO_RAILS];
	unsigned given; /* a bit each */
};

/* CORALE_EINVAL, with the reason and where in the text. */
__attribute__((format(printf, 2, 3))) int topo_refuse(const struct topo_reader *in, const char *format, ...);
/* Sets bit `what`; refuses the text if it was set. */
int topo_give(const struct topo_reader *in, unsigned *given, int what);
int topo_next_word(struct topo_reader *in); /* whether there is one */
int topo_end_word(const struct topo_reader *in);
int topo_read_rate(struct topo_reader *in, int may_be_0, double *out);
int topo_find_rail(const char *name, size_t length); /* its number; -1: none has this name */
int topo_read_rail(struct topo_reader *in, int i, struct topo_rails *out);
void topo_set_rails(struct topo *topo, const struct topo_rails *read);

#endif
