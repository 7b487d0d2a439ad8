/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What fused kernels send: each store into another rank's memory, from the place where it lands back to the exchange, the
 * pair of ranks and the place in their vector.
 *
 * Not data, and so not added, but checked as far as said here:
 *   headers       their lines must be their sender's; so are the byte counts of edges in them
 *   flags, acks   not seen: words of 8 bytes, in places of their own
 *   grants        must be their receiver's
 *   lines         epoch and tag must be the call's; what a line has beyond its data must be zeros, and lines without
 *                 data may be only the first one of a message ("every rank hears of every other one"), but in launches
 *                 of several pieces, where all must be sent; so must words
 *   words         a word of all ones that was hidden is put back; what the last packet has beyond its data is left out
 *   empty words   that the owner of a window stores into it when it has taken a packet out
 *   slots         what the last vector of a message has beyond its data is left out
 *   passed on     what the root of a broadcast in packets gets of the part that it dealt, to hear of everybody: must be that, and
 *                 in a launch of one piece its first line alone
 *   scratch       which part of it copy engines store into: results say whether that was right
 */
#ifndef RECORDED_H
#define RECORDED_H

#include "calls.h"
#include "planned.h"
#include "traffic.h"

/* Keeps what is stored into windows, registered memory and scratch of a world from now on; of calls by copies not windows. */
void recorded_begin(const struct world *world, int copies);

enum { RECORDED_PIECES = 64 };

/* The pieces in which rank 0 has run the calls, of one launch or several; 0: none, or ranks differ in them. */
int recorded_pieces(const struct started *ranks, struct piece pieces[RECORDED_PIECES]);

/* Adds what all ranks' kernels have sent since; planned: what they should have sent, to know hidden words by. Returns the
 * number of stores that belong nowhere; the first are printed. */
int recorded_read(const struct world *world, const struct started *ranks, uint64_t first_epoch,
		  const struct traffic *planned, struct traffic *seen);

/* The same of calls by copy engines: what they copy, and that nothing else stores into memory of other ranks. */
int recorded_copies(const struct world *world, const struct started *ranks, struct traffic *seen);

/* Forgets all. */
void recorded_end(void);

#endif
