/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges, and runs: memory of cuMemCreate that a buffer lies in, of one piece or of several that are mapped side by side (PyTorch's expandable segments). Its board names a
 * run's bytes alone. A peer asks the owner for descriptors (exporter_mail.c), some at a time, until it has mapped all pieces side by side. The owner holds the
 * pieces' handles, makes descriptors when it is asked and closes them when they are sent, the peer closes them when they are imported, so none stays open.
 */
#include "exporter_state.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/wait.h"

enum { MAILS = 64 /* that are looked at in a row */ };
static const int64_t again_ns = 20000000, most_ns = 3000000000; /* without an answer; for a run */

/* ---- Of this process ---- */

struct piece {
	unsigned long long id;
	CUdeviceptr at;
	size_t bytes;
};

static unsigned long long id_at(const struct exporter *x, CUdeviceptr at)
{
	unsigned long long id = 0;
	const CUresult error = x->driver->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
	return error == CUDA_SUCCESS ? id : 0;
}

static int find_piece(const struct exporter *x, CUdeviceptr at, struct piece *p)
{
	return (p->id = id_at(x, at)) != 0 &&
	       x->driver->address_range(&p->at, &p->bytes, at) == CUDA_SUCCESS && at - p->at < p->bytes;
}

/* The id of several pieces is a number with the highest bit, which no id of the driver's has. */
static enum exporter_reason run_of(const struct exporter *x, CUdeviceptr at, size_t bytes,
				   struct export_range *r)
{
	const unsigned long long odd = 0x9e3779b97f4a7c15u, high = 1ull << 63;
	struct piece p;
	if (!find_piece(x, at, &p))
		return REASON_UNKNOWN;
	*r = (struct export_range){ .id = p.id, .at = p.at, .bytes = p.bytes, .is_run = 1 };
	while (bytes > r->bytes - (size_t)(at - r->at)) {
		if (!find_piece(x, r->at + r->bytes, &p) || p.at != r->at + r->bytes)
			return REASON_SHORT;
		r->id = (r->id * odd + p.id) | high;
		r->bytes += p.bytes;
	}
	return REASON_NONE;
}

/* Of memory of cuMemCreate the driver says only which addresses were reserved, and no handle of the runtime's. */
enum exporter_reason exporter_range(const struct exporter *x, CUdeviceptr at, size_t bytes,
				    struct export_range *r)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_BUFFER_ID,
					     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
					     CU_POINTER_ATTRIBUTE_RANGE_SIZE,
					     CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
					     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE };
	unsigned long long types = 0;
	int is_legacy = 0;
	*r = (struct export_range){ .id = 0 };
	void *values[] = { &r->id, &r->at, &r->bytes, &types, &is_legacy };
	if (x->driver->pointer_attributes(5, attributes, values, at) != CUDA_SUCCESS || !r->id || !r->bytes)
		return REASON_UNKNOWN;
	if (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && !is_legacy)
		return run_of(x, at, bytes, r);
	return at - r->at > r->bytes || bytes > r->bytes - (size_t)(at - r->at) ? REASON_SHORT : REASON_NONE;
}

int exporter_has(const struct exporter *x, const struct export_range *range)
{
	struct export_range now;
	return exporter_range(x, range->at, range->bytes, &now) == REASON_NONE && now.id == range->id;
}

/* Closed on exec: a program that a rank starts holds no memory of the GPU. */
static int export_piece(const struct exporter *x, CUmemGenericAllocationHandle handle)
{
	int fd = -1;
	if (x->driver->export_handle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) !=
	    CUDA_SUCCESS)
		return -1;
	return descriptor_adopt(fd);
}

void exporter_drop_run(const struct exporter *x, struct export_run *run)
{
	for (uint32_t i = 0; run && i < run->pieces; i++)
		x->driver->release(run->piece[i].handle);
	free(run);
}

/* 1: the run has one piece more. A piece is what has one id; a driver that means another range by address_range is not believed. */
static int hold_piece(const struct exporter *x, struct export_run *run, CUdeviceptr at)
{
	struct piece p;
	int ordinal = -1;
	CUmemGenericAllocationHandle *handle = &run->piece[run->pieces].handle;
	x->driver->pointer_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
	if (ordinal != x->ordinal || !find_piece(x, at, &p) || id_at(x, at + p.bytes - 1) != p.id ||
	    x->driver->retain(handle, (void *)(uintptr_t)at) != CUDA_SUCCESS)
		return 0;
	run->piece[run->pieces++].bytes = p.bytes;
	const int fd = export_piece(x, *handle);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

struct export_run *exporter_hold_run(const struct exporter *x, const struct export_range *r)
{
	size_t room = 0, held = 0;
	struct export_run *run = NULL;
	while (held < r->bytes) {
		if (!run || run->pieces == room) {
			room += MAIL_PIECES;
			struct export_run *more = realloc(run, sizeof *run + room * sizeof *run->piece);
			if (!more)
				break;
			more->pieces = run ? more->pieces : 0;
			run = more;
		}
		if (!hold_piece(x, run, r->at + held))
			break;
		held += run->piece[run->pieces - 1].bytes;
	}
	if (held == r->bytes)
		return run;
	exporter_drop_run(x, run);
	return NULL;
}

static void close_all(const int *fds, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		close(fds[i]);
}

/* Pieces of a run, from m->first on. */
static void send_pieces(const struct exporter *x, const struct export_run *run, struct mail *m)
{
	const uint64_t to = m->from;
	int fds[MAIL_PIECES];
	m->from = x->board->instance;
	for (uint32_t i = m->first; i < run->pieces && m->pieces < MAIL_PIECES; i++, m->pieces++) {
		if ((fds[m->pieces] = export_piece(x, run->piece[i].handle)) < 0)
			break;
		m->bytes[m->pieces] = run->piece[i].bytes;
	}
	if (m->pieces)
		mail_send(to, m, fds);
	close_all(fds, m->pieces);
}

/* ---- Of a peer ---- */

void exporter_unmap_run(const struct exporter *x, CUdeviceptr at, size_t mapped, size_t bytes)
{
	struct piece p;
	for (size_t done = 0; done < mapped; done += p.bytes) {
		if (x->driver->address_range(&p.at, &p.bytes, at + done) != CUDA_SUCCESS ||
		    p.at != at + done || p.bytes > mapped - done)
			p.bytes = mapped - done;
		x->driver->unmap(at + done, p.bytes);
	}
	x->driver->unreserve(at, bytes);
}

void exporter_end_arrival(const struct exporter *x, struct export_peer *p)
{
	if (p->arrival.at)
		exporter_unmap_run(x, p->arrival.at, p->arrival.mapped, p->arrival.bytes);
	p->arrival = (struct export_arrival){ .number = 0 };
}

/* Not all drivers offer access for reading alone. */
static int give_access(const struct exporter *x, const struct export_arrival *a)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, x->ordinal },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READ };
	if (x->driver->set_access(a->at, a->bytes, &access, 1) == CUDA_SUCCESS)
		return 1;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return x->driver->set_access(a->at, a->bytes, &access, 1) == CUDA_SUCCESS;
}

static void ask(struct exporter *x, struct export_peer *p, int64_t now)
{
	const struct mail m = { x->board->instance, p->arrival.number, p->arrival.pieces, 0, { 0 } };
	mail_send(p->board->instance, &m, NULL);
	p->arrival.asked_ns = now;
	pthread_mutex_lock(&x->lock);
	exporter_wake(x); /* it looks often then */
	pthread_mutex_unlock(&x->lock);
}

int exporter_receive_run(struct exporter *x, struct export_peer *p, uint64_t number, size_t bytes, void **at,
			 const char **why)
{
	struct export_arrival *a = &p->arrival;
	const int64_t now = wait_now_ns();
	if (a->number != number) {
		exporter_end_arrival(x, p);
		*a = (struct export_arrival){ .number = number, .bytes = bytes, .began_ns = now };
	}
	if (a->mapped == a->bytes && give_access(x, a)) {
		*at = (void *)(uintptr_t)a->at;
		a->number = a->at = 0;
	} else if (a->mapped == a->bytes || a->has_failed) {
		*why = "CUDA does not map what its descriptors stand for";
	} else if (now - a->began_ns > most_ns) {
		*why = "its descriptors have not come (is the limit of open files too low?)";
	} else {
		if (now - a->asked_ns > again_ns)
			ask(x, p, now);
		return 0;
	}
	exporter_end_arrival(x, p);
	return 1;
}

/* The mapping keeps the memory, not the handle. */
static int map_piece(const struct exporter *x, struct export_arrival *a, int fd, size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	if (!bytes || bytes > a->bytes - a->mapped ||
	    (!a->at && x->driver->reserve(&a->at, a->bytes, 0, 0, 0) != CUDA_SUCCESS) ||
	    x->driver->import_handle(&handle, (void *)(uintptr_t)fd,
				     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS)
		return 0;
	const int is_mapped = x->driver->map(a->at + a->mapped, bytes, 0, handle, 0) == CUDA_SUCCESS;
	x->driver->release(handle);
	a->mapped += is_mapped ? bytes : 0;
	a->pieces++;
	return is_mapped;
}

/* Late answers come twice. */
static void map_pieces(const struct exporter *x, struct export_arrival *a, const struct mail *m,
		       const int *fds)
{
	if (m->number != a->number || m->first != a->pieces)
		return;
	for (uint32_t i = 0; i < m->pieces && !a->has_failed; i++)
		a->has_failed = !map_piece(x, a, fds[i], m->bytes[i]);
	a->asked_ns = 0; /* for more, at once */
}

/* ---- */

static int take(struct exporter *x, struct mail *m, const int *fds)
{
	int slot;
	pthread_mutex_lock(&x->lock);
	struct export_peer *p = exporter_find_peer(x, m->from, &slot);
	const struct export e = x->own[m->number % EXPORTS_ROOM];
	pthread_mutex_unlock(&x->lock);
	if (p && m->pieces)
		map_pieces(x, &p->arrival, m, fds);
	else if (p && e.number == m->number && e.run)
		send_pieces(x, e.run, m);
	return p != NULL;
}

int exporter_take_mail(struct exporter *x)
{
	struct mail m;
	int fds[MAIL_PIECES], got, takes = 0;
	for (int i = 0; i < MAILS && !atomic_load(&x->stops); i++) {
		if ((got = mail_receive(x->mail_fd, &m, fds)) < 0)
			break;
		const uint32_t came = got ? m.pieces : 0;
		takes |= got && take(x, &m, fds);
		close_all(fds, came);
	}
	return takes;
}
