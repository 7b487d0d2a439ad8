#define _GNU_SOURCE
#include "exporter_board.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "corale.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/process.h"

static const uint64_t board_magic = 0x647262656c61726f, board_version = 1;

_Static_assert(offsetof(struct board, magic) == BOARD_PAGE, "the rest is mapped read-only");

static int init_held(pthread_mutex_t *held)
{
	pthread_mutexattr_t attr;
	int error = pthread_mutexattr_init(&attr);
	if (error)
		return error;
	error = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	error = error ? error : pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	error = error ? error : pthread_mutex_init(held, &attr);
	pthread_mutexattr_destroy(&attr);
	return error;
}

static int map(int fd, int is_peers, int rank, struct board **out)
{
	struct board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b == MAP_FAILED)
		return log_error(CORALE_ENOMEM, rank, "mapping a board of %zu bytes failed: %s", sizeof *b,
				 strerror(errno));
	madvise(b, sizeof *b, MADV_DONTFORK);
	if (is_peers)
		mprotect((unsigned char *)b + BOARD_PAGE, sizeof *b - BOARD_PAGE, PROT_READ);
	*out = b;
	return 0;
}

int board_create(int rank, int *fd, struct board **out)
{
	const char *failed_at;
	*fd = descriptor_memory("corale-board", sizeof **out, &failed_at);
	if (*fd < 0)
		return log_error(errno == ENOMEM || errno == ENOSPC ? CORALE_ENOMEM : CORALE_ESYSTEM, rank,
				 "making a board of %zu bytes failed: %s: %s", sizeof **out, failed_at,
				 strerror(errno));
	int ret = map(*fd, 0, rank, out), error = 0;
	if (ret)
		return ret;
	struct board *b = *out;
	error = init_held(&b->held);
	while (!error && !b->instance)
		error = process_random(&b->instance, sizeof b->instance);
	b->bytes = sizeof *b;
	b->process = process_number();
	b->version = board_version;
	b->magic = board_magic;
	return error ? log_error(CORALE_ESYSTEM, rank, "making a board failed: %s", strerror(error)) : 0;
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
	static struct board none;
	struct board *b = &none;
	const int ret = is_sealed(fd) ? map(fd, 1, rank, &b) : 0;
	*out = b;
	if (ret)
		return ret;
	if (b->magic == board_magic && b->version == board_version && b->bytes == sizeof *b && b->instance)
		return 0;
	log_error(CORALE_EPEER, rank,
		  "the board of a process of this node is no sealed shared memory of %zu bytes, or it begins "
		  "with %#llx, "
		  "version %llu, %llu bytes; expected %#llx, %llu: start all ranks with the same library, "
		  "and look for "
		  "stray stores in that process",
		  sizeof *b, (unsigned long long)b->magic, (unsigned long long)b->version,
		  (unsigned long long)b->bytes, (unsigned long long)board_magic,
		  (unsigned long long)board_version);
	if (b != &none)
		board_unmap(b);
	return CORALE_EPEER;
}

void board_unmap(struct board *b)
{
	if (b)
		munmap(b, sizeof *b);
}

void board_hold(struct board *b)
{
	if (pthread_mutex_lock(&b->held) == EOWNERDEAD) /* a peer died while it looked */
		pthread_mutex_consistent(&b->held);
	atomic_store(&b->gone, 0);
}

void board_leave(struct board *b)
{
	atomic_store(&b->gone, 1);
	pthread_mutex_unlock(&b->held);
}

/* glibc leaves a mutex that is not recoverable locked, so the peer that finds it without its owner says so. */
int board_is_gone(struct board *b)
{
	if (atomic_load(&b->gone))
		return 1;
	const int error = pthread_mutex_trylock(&b->held);
	if (error == EOWNERDEAD)
		atomic_store(&b->gone, 1);
	if (!error || error == EOWNERDEAD)
		pthread_mutex_unlock(&b->held);
	return error && error != EBUSY; /* 0: the thread has not begun */
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
