/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 against FIPS 180-4's examples, HMAC-SHA256 against RFC 4231's. */
#include "test/helpers/unit.h"
#include "boot/hmac.h"

static void to_text(const unsigned char digest[HMAC_BYTES], char text[2 * HMAC_BYTES + 1])
{
	for (int i = 0; i < HMAC_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void check_sha256(const char *data, size_t times, size_t piece, const char *expected)
{
	struct sha256 s;
	unsigned char digest[HMAC_BYTES];
	char text[2 * HMAC_BYTES + 1];
	size_t length = strlen(data);
	sha256_start(&s);
	for (size_t i = 0; i < times; i++)
		for (size_t at = 0; at < length; at += piece)
			sha256_add(&s, data + at, length - at < piece ? length - at : piece);
	sha256_end(&s, digest);
	to_text(digest, text);
	assert_string_equal(text, expected);
}

UNIT_TEST(test_sha256)
{
	const char *long_text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	for (size_t piece = 1; piece < 60; piece += 7) {
		check_sha256("", 1, piece,
			     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
		check_sha256("abc", 1, piece,
			     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
		check_sha256(long_text, 1, piece,
			     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	}
	check_sha256("aaaaaaaaaa", 100000, 10,
		     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

struct vector {
	unsigned char key_byte; /* repeated, or counted up from 1 if 0 */
	const char *key; /* instead of key_byte */
	size_t key_bytes;
	unsigned char data_byte;
	const char *data; /* instead of data_byte */
	size_t data_bytes;
	size_t compared; /* case 5 is truncated */
	const char *expected;
};

static const struct vector vectors[] = {
	{ 0x0b, NULL, 20, 0, "Hi There", 8, 32,
	  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
	{ 0, "Jefe", 4, 0, "what do ya want for nothing?", 28, 32,
	  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
	{ 0xaa, NULL, 20, 0xdd, NULL, 50, 32,
	  "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
	{ 0, NULL, 25, 0xcd, NULL, 50, 32,
	  "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
	{ 0x0c, NULL, 20, 0, "Test With Truncation", 20, 16, "a3b6167473100ee06e0c796c2955552b" },
	{ 0xaa, NULL, 131, 0, "Test Using Larger Than Block-Size Key - Hash Key First", 54, 32,
	  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
	{ 0xaa, NULL, 131, 0,
	  "This is a test using a larger than block-size key and a larger than block-size data. The key "
	  "needs to be "
	  "hashed before being used by the HMAC algorithm.",
	  152, 32, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
};

UNIT_TEST(test_hmac)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		unsigned char key[256], data[256], mac[HMAC_BYTES];
		char text[2 * HMAC_BYTES + 1];
		struct hmac h;
		for (size_t k = 0; k < v->key_bytes; k++)
			key[k] = v->key        ? (unsigned char)v->key[k]
				 : v->key_byte ? v->key_byte
					       : (unsigned char)(k + 1);
		for (size_t k = 0; k < v->data_bytes; k++)
			data[k] = v->data ? (unsigned char)v->data[k] : v->data_byte;
		hmac_start(&h, key, v->key_bytes);
		hmac_add(&h, data, v->data_bytes / 2);
		hmac_add(&h, data + v->data_bytes / 2, v->data_bytes - v->data_bytes / 2);
		hmac_end(&h, mac);
		to_text(mac, text);
		text[2 * v->compared] = '\0';
		assert_string_equal(text, v->expected);
	}
}

UNIT_TEST(test_equal)
{
	unsigned char a[HMAC_BYTES] = { 1, 2, 3 }, b[HMAC_BYTES] = { 1, 2, 3 };
	assert_true(hmac_equal(a, b, sizeof(a)));
	for (size_t i = 0; i < sizeof(a); i++) {
		b[i] ^= 0x80;
		assert_false(hmac_equal(a, b, sizeof(a)));
		b[i] ^= 0x80;
	}
}
