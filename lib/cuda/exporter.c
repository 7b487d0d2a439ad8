/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "exporter_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"

enum { CLOSE_MS = 200, EXIT_MS = 1000, MS = 1000000 };

/* Of the process. The lock comes before that of an exporter. */
static struct {
	pthread_mutex_t lock;
	struct exporter *first;
	int handles_exit, exits;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct cuda_device device_of(const struct exporter *x)
{
	return (struct cuda_device){ x->driver, x->rank, x->ordinal };
}

/* ---- It comes up and goes down ---- */

static int fill_tables(struct exporter *x)
{
	struct export_tables *empty = calloc(1, sizeof *empty);
	if (!empty)
		return log_error(CORALE_ENOMEM, x->rank, "no memory for %zu bytes of tables", sizeof *empty);
	empty->self.opened = UINT64_MAX;
	const int ret = exporter_put(x, x->tables, empty, sizeof *empty);
	free(empty);
	return ret;
}

static void destroy(struct exporter *x)
{
	if (!all.exits && x->stream)
		cudaStreamDestroy(x->stream);
	if (!all.exits && x->tables)
		cuda_memory_free(device_of(x), x->tables, x->bytes);
	for (int i = 0; i < BOARD_PEERS; i++) { /* some are left where the exporter stops */
		board_unmap(x->peers[i] ? x->peers[i]->board : NULL);
		free(x->peers[i]);
	}
	for (int i = 0; i < EXPORTS_ROOM; i++)
		exporter_drop_run(x, all.exits ? NULL : x->own[i].run);
	board_unmap(x->board);
	if (x->fd >= 0)
		close(x->fd);
	if (x->mail_fd >= 0)
		close(x->mail_fd);
	pthread_mutex_destroy(&x->lock);
	pthread_mutex_destroy(&x->calls_lock);
	pthread_cond_destroy(&x->changed);
	free(x);
}

static int create(struct cuda_device device, CUcontext context, struct exporter **out)
{
	struct exporter *x = calloc(1, sizeof *x);
	if (!x)
		return log_error(CORALE_ENOMEM, device.rank, "no memory for the exports of GPU %d",
				 device.ordinal);
	x->functions = *device.driver;
	x->driver = &x->functions;
	x->context = context;
	x->ordinal = device.ordinal;
	x->rank = device.rank;
	x->bytes = sizeof *x->tables;
	x->mail_fd = -1;
	pthread_mutex_init(&x->lock, NULL);
	pthread_mutex_init(&x->calls_lock, NULL);
	pthread_cond_init(&x->changed, NULL);
	const int mode = engine_spare_captures();
	int ret = board_create(x->rank, &x->fd, &x->board);
	if (!ret)
		x->board->context = (uint64_t)(uintptr_t)context;
	if (!ret && (x->mail_fd = mail_open(x->board->instance)) < 0)
		ret = log_error(CORALE_ESYSTEM, x->rank,
				"no local socket for descriptors of GPU memory: %s; allow it, or set "
				"CORALE_ZERO_COPY=no",
				strerror(errno));
	if (!ret)
		ret = cuda_report(x->rank, x->ordinal,
				  cudaStreamCreateWithPriority(&x->stream, cudaStreamNonBlocking, 0),
				  "making a stream");
	ret = ret ? ret : cuda_memory_alloc(device_of(x), 0, &x->bytes, (void **)&x->tables);
	ret = ret ? ret : fill_tables(x);
	x->stops = all.exits;
	if (ret)
		destroy(x);
	engine_end_spare(mode);
	*out = x;
	return ret;
}

/* Wakes the threads, and waits for their end. Under the lock. */
static void await_end(struct exporter *x, int ms)
{
	struct timespec until;
	int error = 0;
	clock_gettime(CLOCK_MONOTONIC, &until);
	const int64_t ns = until.tv_nsec + INT64_C(1) * ms * MS;
	until.tv_sec += ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	exporter_wake(x);
	while (x->workers && !error)
		error = pthread_cond_clockwait(&x->changed, &x->lock, CLOCK_MONOTONIC, &until);
}

/* From here on the driver may go. A thread that waits for a kernel in it can't be waited for. */
static void at_exit(void)
{
	if (process_is_forked())
		return;
	pthread_mutex_lock(&all.lock);
	all.exits = 1;
	for (struct exporter *x = all.first; x; x = x->next) {
		atomic_store(&x->stops, 1);
		pthread_mutex_lock(&x->lock);
		await_end(x, EXIT_MS);
		pthread_mutex_unlock(&x->lock);
	}
	pthread_mutex_unlock(&all.lock);
}

int exporter_open(const struct cuda_driver *driver, int ordinal, int rank, struct exporter **out)
{
	const struct cuda_device device = { driver, rank, ordinal };
	CUcontext context = NULL;
	int ret = cuda_report_driver(device, driver->current_context(&context), "asking for the context");
	if (ret)
		return ret;
	pthread_mutex_lock(&all.lock);
	if (!all.handles_exit) /* later than what CUDA has for exit, so it comes before */
		all.handles_exit = !atexit(at_exit);
	struct exporter *x = all.first;
	while (x && (x->ordinal != ordinal || x->context != context || (x->stops && !all.exits)))
		x = x->next;
	if (!x && !(ret = create(device, context, &x))) {
		x->next = all.first;
		all.first = x;
	}
	if (!ret) {
		pthread_mutex_lock(&x->lock);
		x->users++;
		pthread_mutex_unlock(&x->lock);
		*out = x;
	}
	pthread_mutex_unlock(&all.lock);
	return ret;
}

static void end(struct exporter *x)
{
	struct exporter **at = &all.first;
	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	destroy(x);
}

/* One whose thread still waits for a close is kept for the next exporter_open. */
void exporter_close(struct exporter *x)
{
	if (!x || process_is_forked())
		return;
	pthread_mutex_lock(&all.lock);
	pthread_mutex_lock(&x->lock);
	if (!--x->users)
		await_end(x, CLOSE_MS);
	const int ends = !x->users && !x->workers;
	pthread_mutex_unlock(&x->lock);
	if (ends)
		end(x);
	pthread_mutex_unlock(&all.lock);
}

/* ---- Calls beside a close ---- */

void exporter_add_user(struct exporter *x, struct exporter_user *user)
{
	pthread_mutex_lock(&x->calls_lock);
	user->next = x->callers;
	x->callers = user;
	pthread_mutex_unlock(&x->calls_lock);
}

void exporter_remove_user(struct exporter *x, const struct exporter_user *user)
{
	pthread_mutex_lock(&x->calls_lock);
	struct exporter_user **at = &x->callers;
	while (*at && *at != user)
		at = &(*at)->next;
	if (*at)
		*at = user->next;
	pthread_mutex_unlock(&x->calls_lock);
}

int exporter_closes(const struct exporter *x)
{
	return atomic_load(&x->closes);
}

/* ---- Peers ---- */

int exporter_start(struct exporter *x)
{
	pthread_t thread;
	if (x->workers || atomic_load(&x->stops))
		return 0;
	const int error = process_thread(&thread, exporter_work, x);
	if (error)
		return log_error(
		    CORALE_ESYSTEM, x->rank,
		    "no thread to map the memory of other processes: %s; raise the limit of threads (ulimit "
		    "-u, the container's pids limit), or set CORALE_ZERO_COPY=no",
		    strerror(error));
	pthread_detach(thread);
	x->workers = 1;
	return 0;
}

/* The peer has its board then. */
static int add_peer(struct exporter *x, struct board *board, int slot)
{
	struct export_peer *p = slot < BOARD_PEERS ? calloc(1, sizeof *p) : NULL;
	if (!p)
		return log_error(
		    CORALE_ENOMEM, x->rank,
		    "no room for another process of the node, whose memory GPU %d is to map: at most %d",
		    x->ordinal, BOARD_PEERS);
	const int ret = exporter_start(x);
	if (ret) {
		free(p);
		return ret;
	}
	p->slot = slot;
	p->board = board;
	atomic_store(&x->board->owners[slot], board->instance);
	x->peers[slot] = p;
	exporter_wake(x);
	return 0;
}

/*
 * Another GPU of this process: memory of cudaMalloc there is used by its pointer. Access is enabled here and not by the thread, as the driver may wait for
 * kernels then.
 */
static int reaches(struct exporter *x, const struct board *board)
{
	CUcontext before;
	CUresult error = x->driver->push_context(x->context);
	if (error == CUDA_SUCCESS) {
		const int mode = engine_spare_captures();
		error = x->driver->enable_peer((CUcontext)(uintptr_t)board->context, 0);
		engine_end_spare(mode);
		x->driver->pop_context(&before);
	}
	if (error == CUDA_SUCCESS || error == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		return 1;
	if (exporter_says(x, REASON_OWN_PROCESS))
		log_line(LOG_INFO, x->rank,
			 "large calls with another GPU of this process go through slots: enabling peer "
			 "access failed by error %d of the driver",
			 (int)error);
	return 0;
}

int exporter_attach(struct exporter *x, int fd, const struct exports **table)
{
	struct board *board = NULL;
	struct export_peer *p = NULL;
	int slot, ret = board_map(fd, x->rank, &board);
	if (ret)
		return ret;
	const int is_own = board->instance == x->board->instance,
		  is_reached = is_own || board->process != x->board->process || reaches(x, board);
	pthread_mutex_lock(&x->lock);
	if (is_own || !is_reached)
		*table = is_own ? &x->tables->self : &x->tables->none;
	else if ((p = exporter_find_peer(x, board->instance, &slot)) || !(ret = add_peer(x, board, slot))) {
		p = p ? p : x->peers[slot];
		p->users++;
		*table = &x->tables->peers[p->slot];
	}
	pthread_mutex_unlock(&x->lock);
	if (!p || p->board != board)
		board_unmap(board);
	return ret;
}

void exporter_detach(struct exporter *x, const struct exports *table)
{
	if (!table || table == &x->tables->self || table == &x->tables->none || process_is_forked())
		return;
	pthread_mutex_lock(&x->lock);
	if (!--x->peers[table - x->tables->peers]->users)
		exporter_wake(x);
	pthread_mutex_unlock(&x->lock);
}

/* ---- Facts ---- */

int exporter_fd(const struct exporter *x)
{
	return x->fd;
}

const struct exports_own *exporter_own(struct exporter *x)
{
	if (!atomic_load_explicit(&x->is_called, memory_order_relaxed)) {
		atomic_store(&x->is_called, 1);
		if (atomic_load(&x->sleeps)) {
			pthread_mutex_lock(&x->lock);
			exporter_wake(x);
			pthread_mutex_unlock(&x->lock);
		}
	}
	return &x->tables->own;
}

void exporter_note_capture(struct exporter *x)
{
	atomic_store(&x->captures, 1);
}

size_t exporter_bytes(const struct exporter *x)
{
	return x->bytes;
}
