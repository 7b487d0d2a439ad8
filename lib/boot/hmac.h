/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104). No allocation, no failure. */
#ifndef HMAC_H
#define HMAC_H

#include <stddef.h>
#include <stdint.h>

enum { HMAC_BYTES = 32 };

struct sha256 {
	uint32_t state[8];
	uint64_t bytes;
	unsigned char block[64];
};

void sha256_start(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t bytes);
void sha256_end(struct sha256 *s, unsigned char digest[HMAC_BYTES]);

struct hmac {
	struct sha256 inner, outer;
};

void hmac_start(struct hmac *h, const void *key, size_t bytes);
void hmac_add(struct hmac *h, const void *data, size_t bytes);
void hmac_end(struct hmac *h, unsigned char mac[HMAC_BYTES]);

/* 1 if both are equal. The time it takes does not depend on where they differ. */
int hmac_equal(const unsigned char *a, const unsigned char *b, size_t bytes);

#endif
