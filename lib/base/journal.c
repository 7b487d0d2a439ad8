/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal.h"

#include <string.h>

void journal_write(struct journal_entry *journal, uint64_t n, uint64_t key, uint64_t first,
		   const struct record *record)
{
	struct journal_entry *e = &journal[key % n];
	uint64_t words[JOURNAL_WORDS];
	memcpy(words, record, sizeof words);
	atomic_store_explicit(&e->key, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&e->first, first, memory_order_relaxed);
	for (int i = 0; i < JOURNAL_WORDS; i++)
		atomic_store_explicit(&e->words[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&e->key, key, memory_order_release);
}

uint64_t journal_read(struct journal_entry *journal, uint64_t n, uint64_t key, struct record *record)
{
	struct journal_entry *e = &journal[key % n];
	uint64_t words[JOURNAL_WORDS];
	const uint64_t before = atomic_load_explicit(&e->key, memory_order_acquire),
		       first = atomic_load_explicit(&e->first, memory_order_relaxed);
	for (int i = 0; i < JOURNAL_WORDS; i++)
		words[i] = atomic_load_explicit(&e->words[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	memcpy(record, words, sizeof words);
	return key && before == key && atomic_load_explicit(&e->key, memory_order_relaxed) == key ? first : 0;
}
