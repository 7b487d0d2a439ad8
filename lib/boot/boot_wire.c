/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_wire.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "corale.h"

static const char magic[8] = { 'C', 'R', 'L', 'N', 'C', 'C', 'L', '1' };

/* Offsets of the fields of an id; bytes in between are zero. */
enum {
	ID_VERSION = 8,
	ID_FLAGS = 12,
	ID_ADDRESS = 16,
	ID_PROCESS = 40,
	ID_NAME = 48,
	ID_KEY = 64,
	ID_HOST = 96
};

enum { ADDRESS_BYTES = 20 };

static void put_address(unsigned char *to, const struct boot_address *a)
{
	frame_put(to, a->family, 2);
	frame_put(to + 2, a->port, 2);
	memcpy(to + 4, a->ip, 16);
}

static int get_address(const unsigned char *from, struct boot_address *a)
{
	a->family = (uint16_t)frame_get(from, 2);
	a->port = (uint16_t)frame_get(from + 2, 2);
	memcpy(a->ip, from + 4, 16);
	return boot_address_is_valid(a) && a->port;
}

void boot_id_encode(const struct boot_id *id, unsigned char out[BOOT_ID_BYTES])
{
	memset(out, 0, BOOT_ID_BYTES);
	memcpy(out, magic, sizeof(magic));
	frame_put(out + ID_VERSION, BOOT_PROTOCOL, 4);
	frame_put(out + ID_FLAGS, id->flags, 4);
	put_address(out + ID_ADDRESS, &id->address);
	frame_put(out + ID_PROCESS, id->process, 8);
	frame_put(out + ID_NAME, id->name, 8);
	memcpy(out + ID_KEY, id->key, BOOT_KEY_BYTES);
	memcpy(out + ID_HOST, id->host, strnlen(id->host, BOOT_ID_HOST_BYTES - 1));
}

uint32_t boot_id_version(const unsigned char in[BOOT_ID_BYTES])
{
	return (uint32_t)frame_get(in + ID_VERSION, 4);
}

static int is_zero(const unsigned char *from, const unsigned char *to)
{
	while (from < to)
		if (*from++)
			return 0;
	return 1;
}

enum boot_id_fault boot_id_decode(const unsigned char in[BOOT_ID_BYTES], struct boot_id *id)
{
	if (memcmp(in, magic, sizeof(magic)) != 0)
		return BOOT_ID_OTHER_LIBRARY;
	if (boot_id_version(in) != BOOT_PROTOCOL)
		return BOOT_ID_OTHER_VERSION;
	id->flags = (uint32_t)frame_get(in + ID_FLAGS, 4);
	id->process = frame_get(in + ID_PROCESS, 8);
	id->name = frame_get(in + ID_NAME, 8);
	memcpy(id->key, in + ID_KEY, BOOT_KEY_BYTES);
	memcpy(id->host, in + ID_HOST, BOOT_ID_HOST_BYTES);
	size_t host_bytes = strnlen(id->host, BOOT_ID_HOST_BYTES);
	int is_good = get_address(in + ID_ADDRESS, &id->address) && id->flags <= BOOT_ID_CHILD &&
		      is_zero(in + ID_ADDRESS + ADDRESS_BYTES, in + ID_PROCESS) &&
		      is_zero(in + ID_NAME + 8, in + ID_KEY) && host_bytes < BOOT_ID_HOST_BYTES &&
		      is_zero(in + ID_HOST + host_bytes, in + BOOT_ID_BYTES);
	return is_good ? BOOT_ID_GOOD : BOOT_ID_DAMAGED;
}

/* Every use of a key has its own word. */
static void start_mac(struct hmac *h, const unsigned char key[BOOT_KEY_BYTES], const char *word)
{
	hmac_start(h, key, BOOT_KEY_BYTES);
	hmac_add(h, word, strlen(word) + 1);
}

static void add_number(struct hmac *h, uint64_t value, int bytes)
{
	unsigned char number[8];
	frame_put(number, value, bytes);
	hmac_add(h, number, (size_t)bytes);
}

uint64_t boot_name_of_key(const unsigned char key[BOOT_KEY_BYTES])
{
	struct hmac h;
	unsigned char mac[HMAC_BYTES];
	start_mac(&h, key, "name");
	hmac_end(&h, mac);
	return frame_get(mac, 8);
}

void boot_child_key(const unsigned char parent[BOOT_KEY_BYTES], const int *ranks, int n, uint64_t tag,
		    unsigned char key[BOOT_KEY_BYTES])
{
	struct hmac h;
	start_mac(&h, parent, "child");
	add_number(&h, tag, 8);
	add_number(&h, (uint32_t)n, 4);
	for (int i = 0; i < n; i++)
		add_number(&h, (uint32_t)ranks[i], 4);
	hmac_end(&h, key);
}

void boot_feed_key(const unsigned char group[BOOT_KEY_BYTES], const unsigned char nonce[BOOT_NONCE_BYTES],
		   int rank, unsigned char key[BOOT_KEY_BYTES])
{
	struct hmac h;
	start_mac(&h, group, "feed");
	hmac_add(&h, nonce, BOOT_NONCE_BYTES);
	add_number(&h, (uint32_t)rank, 4);
	hmac_end(&h, key);
}

void boot_peer_fill(struct boot_peer *peer)
{
	memset(peer, 0, sizeof(*peer));
	peer->process = process_number();
	peer->pid = getpid();
	if (gethostname(peer->host, sizeof(peer->host) - 1) || !peer->host[0])
		memcpy(peer->host, "?", 2);
}

void boot_peer_encode(const struct boot_peer *peer, unsigned char out[BOOT_PEER_BYTES])
{
	put_address(out, &peer->listener);
	frame_put(out + 20, peer->process, 8);
	frame_put(out + 28, (uint64_t)peer->pid, 8);
	memcpy(out + 36, peer->host, BOOT_HOST_BYTES);
}

int boot_peer_decode(const unsigned char in[BOOT_PEER_BYTES], struct boot_peer *peer)
{
	peer->process = frame_get(in + 20, 8);
	peer->pid = (int64_t)frame_get(in + 28, 8);
	memcpy(peer->host, in + 36, BOOT_HOST_BYTES);
	return get_address(in, &peer->listener) && peer->pid > 0 && peer->host[BOOT_HOST_BYTES - 1] == '\0';
}

void boot_hello_encode(const struct boot_hello *hello, unsigned char out[BOOT_HELLO_BYTES])
{
	unsigned char *to = out + BOOT_HELLO_PREFIX_BYTES;
	memcpy(out, magic, sizeof(magic));
	frame_put(out + 8, hello->version, 4);
	frame_put(to, 0, 4);
	frame_put(to + 4, hello->process, 8);
	frame_put(to + 12, hello->name, 8);
	frame_put(to + 20, (uint32_t)hello->rank, 4);
	frame_put(to + 24, (uint32_t)hello->size, 4);
	boot_peer_encode(&hello->peer, to + 28);
	memcpy(to + 28 + BOOT_PEER_BYTES, hello->nonce, BOOT_NONCE_BYTES);
}

uint32_t boot_hello_version(const unsigned char *in, size_t bytes)
{
	if (bytes < BOOT_HELLO_PREFIX_BYTES || memcmp(in, magic, sizeof(magic)) != 0)
		return 0;
	return (uint32_t)frame_get(in + 8, 4);
}

int boot_hello_decode(const unsigned char *in, size_t bytes, struct boot_hello *hello)
{
	const unsigned char *from = in + BOOT_HELLO_PREFIX_BYTES;
	hello->version = boot_hello_version(in, bytes);
	if (hello->version != BOOT_PROTOCOL || bytes != BOOT_HELLO_BYTES || frame_get(from, 4) != 0)
		return 0;
	hello->process = frame_get(from + 4, 8);
	hello->name = frame_get(from + 12, 8);
	hello->rank = (int32_t)frame_get(from + 20, 4);
	hello->size = (int32_t)frame_get(from + 24, 4);
	memcpy(hello->nonce, from + 28 + BOOT_PEER_BYTES, BOOT_NONCE_BYTES);
	return boot_peer_decode(from + 28, &hello->peer);
}

void boot_prove(const unsigned char key[BOOT_KEY_BYTES], const unsigned char challenge[BOOT_NONCE_BYTES],
		const unsigned char hello[BOOT_HELLO_BYTES], const unsigned char *maker,
		unsigned char mac[HMAC_BYTES])
{
	struct hmac h;
	start_mac(&h, key, maker ? "answer" : "hello");
	hmac_add(&h, challenge, BOOT_NONCE_BYTES);
	hmac_add(&h, hello, BOOT_HELLO_BYTES); /* the rank's nonce is its end */
	if (maker)
		hmac_add(&h, maker, BOOT_PEER_BYTES);
	hmac_end(&h, mac);
}

struct frame *boot_hello_frame(const struct boot_hello *h, const unsigned char key[BOOT_KEY_BYTES],
			       const unsigned char challenge[BOOT_NONCE_BYTES],
			       unsigned char hello[BOOT_HELLO_BYTES])
{
	struct frame *f = frame_new(BOOT_HELLO, 0, BOOT_PROOF_BYTES);
	boot_hello_encode(h, hello);
	if (!f)
		return NULL;
	memcpy(frame_payload(f), hello, BOOT_HELLO_BYTES);
	boot_prove(key, challenge, hello, NULL, frame_payload(f) + BOOT_HELLO_BYTES);
	return f;
}

struct frame *boot_accept_frame(const struct boot_peer *maker, const unsigned char key[BOOT_KEY_BYTES],
				const unsigned char challenge[BOOT_NONCE_BYTES],
				const unsigned char hello[BOOT_HELLO_BYTES])
{
	struct frame *f = frame_new(BOOT_ACCEPT, 0, BOOT_ACCEPT_BYTES);
	if (!f)
		return NULL;
	unsigned char *to = frame_payload(f);
	boot_peer_encode(maker, to);
	boot_prove(key, challenge, hello, to, to + BOOT_PEER_BYTES);
	return f;
}

int boot_accept_is_good(const unsigned char in[BOOT_ACCEPT_BYTES], const unsigned char key[BOOT_KEY_BYTES],
			const unsigned char challenge[BOOT_NONCE_BYTES],
			const unsigned char hello[BOOT_HELLO_BYTES])
{
	unsigned char mac[HMAC_BYTES];
	boot_prove(key, challenge, hello, in, mac);
	return hmac_equal(mac, in + BOOT_PEER_BYTES, HMAC_BYTES);
}

struct frame *boot_challenge(const unsigned char nonce[BOOT_NONCE_BYTES])
{
	struct frame *f = frame_new(BOOT_CHALLENGE, 0, BOOT_CHALLENGE_BYTES);
	if (!f)
		return NULL;
	unsigned char *to = frame_payload(f);
	memcpy(to, magic, sizeof(magic));
	frame_put(to + 8, BOOT_PROTOCOL, 4);
	memcpy(to + 12, nonce, BOOT_NONCE_BYTES);
	return f;
}

int boot_challenge_decode(const unsigned char *in, size_t bytes, unsigned char nonce[BOOT_NONCE_BYTES])
{
	if (bytes != BOOT_CHALLENGE_BYTES || memcmp(in, magic, sizeof(magic)) != 0)
		return 0;
	memcpy(nonce, in + 12, BOOT_NONCE_BYTES);
	return 1;
}

struct frame *boot_reason_frame(enum boot_kind kind, const struct boot_reason *reason)
{
	size_t length = strnlen(reason->text, BOOT_TEXT_BYTES - 1);
	struct frame *f = frame_new(kind, 0, 8 + length);
	if (!f)
		return NULL;
	unsigned char *to = frame_payload(f);
	frame_put(to, (uint32_t)reason->code, 4);
	frame_put(to + 4, (uint32_t)reason->what, 4);
	memcpy(to + 8, reason->text, length);
	return f;
}

int boot_reason_decode(const unsigned char *in, size_t bytes, struct boot_reason *reason)
{
	if (bytes < 8 || bytes - 8 >= BOOT_TEXT_BYTES)
		return 0;
	reason->code = (int32_t)frame_get(in, 4);
	reason->what = (int32_t)frame_get(in + 4, 4);
	memcpy(reason->text, in + 8, bytes - 8);
	reason->text[bytes - 8] = '\0';
	return 1;
}

/* ---- MISSING: {how many ranks, then first and last of each range} */

void boot_missing_add(struct boot_missing *missing, int rank)
{
	const int n = missing->nranges;
	missing->ranks++;
	if (n && missing->ranges[n - 1].last == rank - 1)
		missing->ranges[n - 1].last = rank;
	else if (n < BOOT_RANGES)
		missing->ranges[missing->nranges++] = (struct boot_range){ rank, rank };
}

int boot_missing_has(const struct boot_missing *missing, int rank)
{
	for (int i = 0; i < missing->nranges; i++)
		if (missing->ranges[i].first <= rank && rank <= missing->ranges[i].last)
			return 1;
	return 0;
}

const char *boot_missing_text(const struct boot_missing *missing, char *text, size_t bytes)
{
	size_t at = 0;
	int left = missing->ranks;
	text[0] = '\0';
	for (int i = 0; i < missing->nranges && at + 40 < bytes; i++) { /* room for what follows */
		const struct boot_range *r = &missing->ranges[i];
		const char *between = r->last - r->first > 1 ? " to " : ", ";
		at += (size_t)snprintf(text + at, bytes - at, "%s%d", at ? ", " : "", r->first);
		if (r->last > r->first)
			at += (size_t)snprintf(text + at, bytes - at, "%s%d", between, r->last);
		left -= r->last - r->first + 1;
	}
	if (left)
		snprintf(text + at, bytes - at, " and %d more", left);
	return text;
}

struct frame *boot_missing_frame(uint64_t number, const struct boot_missing *missing)
{
	struct frame *f = frame_new(BOOT_MISSING, number, 4 + 8 * (size_t)missing->nranges);
	if (!f)
		return NULL;
	unsigned char *to = frame_payload(f);
	frame_put(to, (uint32_t)missing->ranks, 4);
	for (int i = 0; i < missing->nranges; i++) {
		frame_put(to + 4 + 8 * i, (uint32_t)missing->ranges[i].first, 4);
		frame_put(to + 8 + 8 * i, (uint32_t)missing->ranges[i].last, 4);
	}
	return f;
}

int boot_missing_decode(const unsigned char *in, size_t bytes, int size, struct boot_missing *missing)
{
	int listed = 0, above = -1;
	if (bytes < 4 || bytes > 4 + 8 * BOOT_RANGES || (bytes - 4) % 8)
		return 0;
	missing->ranks = (int32_t)frame_get(in, 4);
	missing->nranges = (int)((bytes - 4) / 8);
	for (int i = 0; i < missing->nranges; i++) {
		struct boot_range *r = &missing->ranges[i];
		r->first = (int32_t)frame_get(in + 4 + 8 * i, 4);
		r->last = (int32_t)frame_get(in + 8 + 8 * i, 4);
		if (r->first <= above || r->last < r->first || r->last >= size)
			return 0;
		above = r->last;
		listed += r->last - r->first + 1;
	}
	return missing->ranks >= listed && missing->ranks <= size;
}

int boot_random(void *to, size_t bytes)
{
	const int error = process_random(to, bytes);
	return error
		   ? log_error(CORALE_ESYSTEM, -1,
			       "bootstrap: the kernel gives no random bytes (getrandom): %s", strerror(error))
		   : 0;
}
