/* SPDX-License-Identifier: BSD-3-Clause */
#include "hmac.h"

#include <string.h>

static const uint32_t round_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t rotate(uint32_t x, int bits)
{
	return x >> bits | x << (32 - bits);
}

static void expand(uint32_t w[64], const unsigned char block[64])
{
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
		uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
}

/* s[0 .. 7] are a to h of the standard. */
static void compress(uint32_t state[8], const unsigned char block[64])
{
	uint32_t w[64], s[8];
	expand(w, block);
	memcpy(s, state, sizeof(s));
	for (int i = 0; i < 64; i++) {
		uint32_t sum1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
		uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
		uint32_t t1 = s[7] + sum1 + choice + round_constants[i] + w[i];
		uint32_t sum0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
		uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
		memmove(s + 1, s, 7 * sizeof(s[0]));
		s[4] += t1;
		s[0] = t1 + sum0 + majority;
	}
	for (int i = 0; i < 8; i++)
		state[i] += s[i];
}

void sha256_start(struct sha256 *s)
{
	static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	memcpy(s->state, first, sizeof(first));
	s->bytes = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t bytes)
{
	const unsigned char *from = data;
	while (bytes) {
		size_t at = s->bytes % 64, n = 64 - at < bytes ? 64 - at : bytes;
		memcpy(s->block + at, from, n);
		s->bytes += n;
		from += n;
		bytes -= n;
		if (s->bytes % 64 == 0)
			compress(s->state, s->block);
	}
}

void sha256_end(struct sha256 *s, unsigned char digest[HMAC_BYTES])
{
	static const unsigned char padding[64] = { 0x80 };
	unsigned char length[8];
	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)(s->bytes * 8 >> (56 - 8 * i));
	size_t at = s->bytes % 64;
	sha256_add(s, padding, at < 56 ? 56 - at : 120 - at);
	sha256_add(s, length, sizeof(length));
	for (int i = 0; i < HMAC_BYTES; i++)
		digest[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void hmac_start(struct hmac *h, const void *key, size_t bytes)
{
	unsigned char pad[64] = { 0 };
	if (bytes > sizeof(pad)) {
		sha256_start(&h->inner);
		sha256_add(&h->inner, key, bytes);
		sha256_end(&h->inner, pad);
	} else {
		memcpy(pad, key, bytes);
	}
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36;
	sha256_start(&h->inner);
	sha256_add(&h->inner, pad, sizeof(pad));
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36 ^ 0x5c;
	sha256_start(&h->outer);
	sha256_add(&h->outer, pad, sizeof(pad));
}

void hmac_add(struct hmac *h, const void *data, size_t bytes)
{
	sha256_add(&h->inner, data, bytes);
}

void hmac_end(struct hmac *h, unsigned char mac[HMAC_BYTES])
{
	unsigned char digest[HMAC_BYTES];
	sha256_end(&h->inner, digest);
	sha256_add(&h->outer, digest, sizeof(digest));
	sha256_end(&h->outer, mac);
}

int hmac_equal(const unsigned char *a, const unsigned char *b, size_t bytes)
{
	unsigned char differs = 0;
	for (size_t i = 0; i < bytes; i++)
		differs |= a[i] ^ b[i];
	return differs == 0;
}
