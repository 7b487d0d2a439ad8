/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbers that a training run begins with, the same on any device and whatever the number of ranks: each is made
 * from its index alone.
 */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TRAIN_DATA __host__ __device__ static inline
#else
#define TRAIN_DATA static inline
#endif

enum { TRAIN_LATENT = 16, TRAIN_SAMPLES_SEED = 1, TRAIN_PARAMETERS_SEED = 2 };

/* Mixes all bits of a number into all others; a bijection. */
TRAIN_DATA uint64_t train_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

/* In [-1, 1): 24 bits, so that it is exact. */
TRAIN_DATA float train_number(uint32_t seed, uint64_t index)
{
	uint64_t bits = train_mix(train_mix(index + 1) ^ (uint64_t)seed << 40) >> 40;
	return (float)bits * (2.0f / 16777216.0f) - 1.0f;
}

/* A sample is 16 hidden numbers: each of its elements is one of them, each element of the target a product of two. */
TRAIN_DATA float train_hidden(size_t sample, int which)
{
	return train_number(TRAIN_SAMPLES_SEED,
			    (uint64_t)sample * TRAIN_LATENT + (unsigned)which % TRAIN_LATENT);
}

TRAIN_DATA float train_input(size_t sample, int column)
{
	return train_hidden(sample, column);
}

TRAIN_DATA float train_target(size_t sample, int column)
{
	float a = train_hidden(sample, column), b = train_hidden(sample, column + 1 + column / TRAIN_LATENT);
	return 0.5f * a + a * b;
}

#endif
