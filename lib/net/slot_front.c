/* SPDX-License-Identifier: BSD-3-Clause */
#include "slot_front.h"

#include <string.h>

/* The data of word k; returns 0 if it has not arrived. */
static int read_word(const uint64_t *words, uint32_t k, uint64_t number, uint32_t *data)
{
	const uint64_t word = __atomic_load_n(&words[k], __ATOMIC_ACQUIRE);
	*data = (uint32_t)word;
	return word >> 32 == remote_flag(number);
}

static int read_inline(const void *front, uint64_t number, struct remote_header *header, unsigned char *data)
{
	uint64_t head[REMOTE_DATA / 2] = { 0 };
	uint32_t word;
	for (uint32_t k = 0; k < REMOTE_DATA; k++) {
		if (!read_word(front, k, number, &word))
			return 0;
		head[k / 2] |= (uint64_t)word << k % 2 * 32;
	}
	const uint32_t bytes = (uint32_t)head[REMOTE_BYTES / 2];
	*header =
	    (struct remote_header){ number, head[REMOTE_SIGNATURE / 2], head[REMOTE_TYPED_BYTES / 2], bytes };
	for (uint32_t at = 0; at < bytes; at += 4) {
		if (!read_word(front, (uint32_t)REMOTE_DATA + at / 4, number, &word))
			return 0;
		memcpy(data + at, &word, bytes - at < 4 ? bytes - at : 4);
	}
	return 1;
}

/* Headers are read and written word by word, because kernels do not order the inline message that they take before the slot that they fill next. */
enum front_form slot_front_read(const void *front, uint64_t number, struct remote_header *header,
				unsigned char *data)
{
	const struct remote_header *there = front;
	if (__atomic_load_n(&there->number, __ATOMIC_ACQUIRE) != number)
		return read_inline(front, number, header, data) ? FRONT_INLINE : FRONT_NOTHING;
	*header = (struct remote_header){ number, __atomic_load_n(&there->signature, __ATOMIC_RELAXED),
					  __atomic_load_n(&there->typed_bytes, __ATOMIC_RELAXED),
					  __atomic_load_n(&there->bytes, __ATOMIC_RELAXED) };
	return FRONT_HEADER;
}

static void write_word(uint64_t *words, uint32_t k, uint64_t number, uint32_t data)
{
	__atomic_store_n(&words[k], (uint64_t)remote_flag(number) << 32 | data, __ATOMIC_RELEASE);
}

/* Writes the first word last, because a kernel that waits for it alone then loads the data from the slot. */
static void write_inline(void *front, const struct remote_header *header, const unsigned char *data)
{
	const uint64_t head[] = { header->signature, header->typed_bytes, header->bytes };
	for (uint32_t at = 0; at < header->bytes; at += 4) {
		uint32_t word = 0;
		memcpy(&word, data + at, header->bytes - at < 4 ? header->bytes - at : 4);
		write_word(front, (uint32_t)REMOTE_DATA + at / 4, header->number, word);
	}
	for (uint32_t k = REMOTE_DATA; k--;)
		write_word(front, k, header->number, (uint32_t)(head[k / 2] >> k % 2 * 32));
}

/* A kernel that waits for the number reads the signature beside it. */
static void write_header(struct remote_header *to, const struct remote_header *header)
{
	__atomic_store_n(&to->signature, header->signature, __ATOMIC_RELAXED);
	__atomic_store_n(&to->typed_bytes, header->typed_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&to->bytes, header->bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&to->number, header->number, __ATOMIC_RELEASE);
}

void slot_front_write(void *front, const struct remote_header *header, const unsigned char *data)
{
	if (header->bytes <= REMOTE_FEW_BYTES)
		write_inline(front, header, data);
	else
		write_header(front, header);
}
