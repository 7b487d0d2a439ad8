/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "exporter_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "corale.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/process.h"

static const uint64_t board_magic = 0x647262656c61726f, board_version = 3;

static int map(int fd, int access, int rank, struct board **out)
{
	*out = mmap(NULL, sizeof **out, access, MAP_SHARED, fd, 0);
	if (*out == MAP_FAILED)
		return log_error(CORALE_ENOMEM, rank, "mapping a board of %zu bytes failed: %s", sizeof **out,
				 strerror(errno));
	madvise(*out, sizeof **out, MADV_DONTFORK);
	return 0;
}

int board_create(int rank, int *fd, struct board **out)
{
	static _Atomic uint64_t boards;
	const char *failed_at;
	struct board *b;
	*fd = descriptor_memory("corale-board", sizeof *b, &failed_at);
	if (*fd < 0)
		return log_error(errno == ENOMEM || errno == ENOSPC ? CORALE_ENOMEM : CORALE_ESYSTEM, rank,
				 "making a board of %zu bytes failed: %s: %s", sizeof *b, failed_at,
				 strerror(errno));
	const int ret = map(*fd, PROT_READ | PROT_WRITE, rank, &b);
	if (ret)
		return ret;
	b->instance = process_number() + atomic_fetch_add(&boards, 1) * 0x9e3779b97f4a7c15u;
	b->bytes = sizeof *b;
	b->process = process_number();
	b->version = board_version;
	b->magic = board_magic;
	*out = b;
	return 0;
}

/* Pages that are taken away end the next access by SIGBUS. */
static int is_sealed(int fd)
{
	struct stat file;
	const int seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &file) &&
	       file.st_size >= (off_t)sizeof(struct board);
}

int board_map(int fd, int rank, struct board **out)
{
	unsigned long long head[] = { 0, 0, 0 };
	const int sealed = is_sealed(fd), ret = sealed ? map(fd, PROT_READ, rank, out) : 0;
	if (ret)
		return ret;
	if (sealed)
		memcpy(head, *out, sizeof head);
	if (head[0] == board_magic && head[1] == board_version && head[2] == sizeof **out)
		return 0;
	if (sealed)
		board_unmap(*out);
	return log_error(CORALE_EPEER, rank,
			 "the board of a process of this node begins with %#llx, version %llu, %llu bytes "
			 "(0: it is no sealed shared "
			 "memory of that size); expected %#llx, %llu, %zu: start all ranks with the same "
			 "library, and look for stray "
			 "stores in that process",
			 head[0], head[1], head[2], (unsigned long long)board_magic,
			 (unsigned long long)board_version, sizeof **out);
}

void board_unmap(struct board *b)
{
	if (b)
		munmap(b, sizeof *b);
}

void board_publish(struct board *b, uint64_t number, const void *handle)
{
	struct board_entry *e = &b->entries[number % EXPORTS_ROOM];
	uint64_t words[BOARD_HANDLE_WORDS];
	memcpy(words, handle, sizeof words);
	atomic_store(&e->number, 0);
	atomic_store(&e->is_dead, 0);
	for (int i = 0; i < BOARD_HANDLE_WORDS; i++)
		atomic_store(&e->handle[i], words[i]);
	atomic_store(&e->number, number);
	atomic_store(&b->published, number);
}

int board_has(const struct board *b, uint64_t number)
{
	const struct board_entry *e = &b->entries[number % EXPORTS_ROOM];
	return !atomic_load(&e->is_dead) && atomic_load(&e->number) == number;
}

int board_read(const struct board *b, uint64_t number, void *handle)
{
	uint64_t words[BOARD_HANDLE_WORDS];
	if (!board_has(b, number))
		return 0;
	for (int i = 0; i < BOARD_HANDLE_WORDS; i++)
		words[i] = atomic_load(&b->entries[number % EXPORTS_ROOM].handle[i]);
	memcpy(handle, words, sizeof words);
	return board_has(b, number);
}

/* An entry that is being written, 0, is followed by a higher `published`. */
int board_is_damaged(const struct board *b, uint64_t published, uint64_t seen)
{
	const uint64_t most = (uint64_t)1 << 40;
	const uint64_t number = atomic_load(&b->entries[published % EXPORTS_ROOM].number);
	const int fits =
	    !published || !number || (number >= published && (number - published) % EXPORTS_ROOM == 0);
	return b->magic != board_magic || published < seen || published > most || !fits;
}
