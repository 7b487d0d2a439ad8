/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel that copies pieces: every byte of them, whatever their addresses, widths and pitches, and no other byte. */
#include <stdio.h>
#include <string.h>

#include "emulation_test.h"
#include "gpu.h"
#include "kernels/pieces.h"

enum { MOST = 600, BYTES = 1 << 20 };

struct copying {
	unsigned char from[BYTES], to[BYTES], expected[BYTES];
	struct piece pieces[MOST];
	size_t n, parts;
};

/* One row of 0 to 3 bytes up to 64 of 64, aligned to 1 to 16 bytes. */
static struct piece random_piece(struct copying *c, size_t *from, size_t *to)
{
	const size_t unit = (size_t)1 << gpu_random(5), width = unit * gpu_random(4),
		     rows = 1 + (gpu_random(3) ? 0 : gpu_random(64));
	const size_t from_pitch = width + unit * gpu_random(3), to_pitch = width + unit * gpu_random(3);
	*from = (*from + unit) / unit * unit;
	*to = (*to + unit) / unit * unit;
	const struct piece piece = { c->to + *to, to_pitch, c->from + *from, from_pitch, width, rows };
	*from += from_pitch * rows;
	*to += to_pitch * rows;
	return piece;
}

static void host(int rank, void *arg)
{
	struct copying *c = arg;
	const struct pieces_args args = { c->pieces, c->n, c->parts };
	codelets_copy_pieces(&args, GPU_STREAM(0));
	gpu_synchronize();
}

static void make(struct copying *c)
{
	size_t from = 0, to = 0;
	for (size_t i = 0; i < BYTES; i++)
		c->from[i] = (unsigned char)gpu_random(256);
	memset(c->to, 0xee, BYTES);
	memset(c->expected, 0xee, BYTES);
	for (size_t i = 0; i < c->n; i++) {
		const struct piece p = c->pieces[i] = random_piece(c, &from, &to);
		for (size_t row = 0; row < p.rows; row++)
			memcpy(c->expected + ((unsigned char *)p.to - c->to) + row * p.to_pitch,
			       (const unsigned char *)p.from + row * p.from_pitch, p.width);
	}
}

int test_pieces(void)
{
	static struct copying c;
	const size_t sizes[] = { 1, 9, 37, MOST }, parts[] = { 8, 3, 64, 1 };
	for (int i = 0; i < (test_thin ? 2 : 4); i++) { /* sanitizers have no room for all threads */
		c.n = sizes[i];
		c.parts = parts[i];
		make(&c);
		if (gpu_run(1, host, &c, test_seed))
			return -1;
		if (memcmp(c.to, c.expected, BYTES)) {
			printf("# %zu pieces in %zu parts: bytes are wrong\n", c.n, c.parts);
			return 1;
		}
	}
	return 0;
}
