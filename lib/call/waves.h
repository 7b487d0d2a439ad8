/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waves of sends and receives. An engine of GPUs starts a limited number of a rank's sends and receives at a time, and a group may have any
 * number: so they start in waves, one behind the other. Both ends of a message put it at the same place of one order of all messages of
 * the communicator: by how many of the same pair and direction come before it, then by the distance from sender to receiver. A wave takes
 * the next ones of this order, and never divides those of equal place, which are a send and a receive of each rank. Then no wave
 * waits for a later one: of all messages that have not ended, the first in the order has both of its ends in waves that have started. Ranks
 * of one thread share their waves, because a thread that waits for the end of a wave waits for all of them.
 */
#ifndef WAVES_H
#define WAVES_H

#include <stddef.h>
#include <stdint.h>

/* A send or receive of a rank. */
struct wave_call {
	int rank, peer, receives;
	uint32_t order; /* in which it was made */
	uint32_t wave; /* the result */
	uint32_t before, distance; /* its place */
};

/* Sorts the calls of some ranks of one communicator by wave: `most` of a rank in each. used: room for a word a rank. The number of waves. */
uint32_t waves_cut(struct wave_call *calls, size_t n, int size, uint32_t most, uint32_t *used);

#endif
