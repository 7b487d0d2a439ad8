/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers that peers may map. On the host a message by reference already reads any memory of a peer, so that these
 * calls only make the memory and keep the collective discipline; ranks of a GPU engine map each other's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "comm_create.h"
#include "base/log.h"
#include "call/runner.h"
#include "base/status.h"
#include "health/unmap.h"

enum { MEM_ALIGN = 4096, MEM_NO_REGION = -1 };

/* What ranks compare: that all of them make the same kind of call, and that all succeeded. */
struct mem_vote {
	int32_t kind, status;
	uint64_t target; /* of the call that scratch is made for: part of the signature */
	int32_t shared; /* this rank's memory can be mapped, or all of it was */
	int32_t number; /* of the registration to be given up */
	int32_t by_fd; /* peers need a descriptor, which goes to those who listen by these names */
	unsigned char handle[ENGINE_HANDLE_BYTES];
	char name[FDPASS_NAME_BYTES];
};

enum mem_kind { MEM_ALLOC = 1, MEM_FREE, MEM_REGISTER, MEM_DEREGISTER, MEM_SCRATCH };

struct registration {
	struct registration *next; /* of this communicator */
	void *buffer;
	int allocated; /* by corale_mem_alloc */
	int region; /* of the GPU engine, or MEM_NO_REGION */
	int number; /* the same on all ranks, as they register in one order */
};

static const char *const kind_names[] = { "",
					  "corale_mem_alloc",
					  "corale_mem_free",
					  "corale_mem_register",
					  "corale_mem_deregister",
					  "scratch for large calls" };

/* ---- Agreement ------------------------------------------------------------------------------------------- */

/* Collective: the same error on every rank when one failed. */
static int exchange(struct comm *comm, const struct mem_vote *mine, struct mem_vote *all)
{
	const char *name = kind_names[mine->kind];
	struct call call = { .record.coll = CORALE_ALL_GATHER,
			     .send = mine,
			     .recv = all,
			     .record.count = sizeof *mine,
			     .record.type = CORALE_UINT8,
			     .record.target = mine->target };
	int ret = runner_call(comm, &call, 1, NULL);
	for (int r = 0; !ret && r < comm->size; r++) {
		if (all[r].kind != mine->kind)
			ret = log_error(CORALE_EMISMATCH, comm->rank, "%s: rank %d called %s", name, r,
					all[r].kind >= MEM_ALLOC && all[r].kind <= MEM_SCRATCH
					    ? kind_names[all[r].kind]
					    : "something else");
		else if (all[r].status)
			ret = r == comm->rank ? mine->status
					      : log_error(code_of_peer(all[r].status), comm->rank,
							  "%s failed on rank %d: %s", name, r,
							  corale_strerror(all[r].status));
	}
	for (int r = 1; !ret && r < comm->size; r++)
		if (all[r].number != all[0].number)
			ret = log_error(
			    CORALE_EINVAL, comm->rank,
			    "%s: rank %d gives up another registration than rank 0; all ranks give up the "
			    "same one, in the order in which they were made",
			    name, r);
	return ret;
}

static struct mem_vote *votes(struct comm *comm, enum mem_kind kind)
{
	struct mem_vote *all = calloc((size_t)comm->size, sizeof *all);
	if (!all)
		log_error(CORALE_ENOMEM, comm->rank, "%s: no memory for %d ranks", kind_names[kind],
			  comm->size);
	return all;
}

static int agree(struct comm *comm, struct mem_vote mine)
{
	struct mem_vote *all = votes(comm, mine.kind);
	const int ret = all ? exchange(comm, &mine, all) : CORALE_ENOMEM;
	free(all);
	return ret;
}

static int all_shared(const struct comm *comm, const struct mem_vote *all)
{
	int shared = 1;
	for (int r = 0; r < comm->size; r++)
		shared = shared && all[r].shared;
	return shared;
}

/* ---- Peers' memory --------------------------------------------------------------------------------------- */

/* This rank's part of sharing a buffer. */
struct sharing {
	struct mem_vote mine, *all;
	struct fdpass *pass;
	int fd;
};

static void share(struct comm *comm, struct sharing *s, void *buffer, size_t bytes)
{
	if (s->mine.status || !comm->gpu || comm->size == 1 || comm->proxy)
		return;
	s->mine.shared = !engine_memory.share(comm->gpu, buffer, bytes, s->mine.handle, &s->fd) &&
			 !fdpass_listen(&s->pass, s->mine.name);
	s->mine.by_fd = s->fd >= 0;
}

/* Where one rank's memory needs a descriptor: those of all ranks. */
static int pass_fds(struct comm *comm, const struct sharing *s, int **fds)
{
	int any = 0;
	for (int r = 0; r < comm->size; r++)
		any |= s->all[r].by_fd;
	return any ? gpu_pass_fds(comm, s->pass, s->all->name, sizeof *s->all, &s->fd, 1, fds) : 0;
}

/* With everybody's handles: maps them all, on all ranks or on none. */
static int attach(struct comm *comm, struct sharing *s, void *buffer, int *region)
{
	int made = MEM_NO_REGION, *fds = NULL, ret = pass_fds(comm, s, &fds);
	if (ret) { /* ranks that wait for this one's descriptors find that it does not listen */
		fdpass_close(s->pass);
		s->pass = NULL;
	}
	if (!ret)
		ret = engine_memory.attach(comm->gpu, s->all->handle, sizeof *s->all, fds, buffer, &made);
	comm_close_fds(comm, 1, fds);
	s->mine.shared = !ret;
	s->mine.status = ret == CORALE_EPEER ? ret : 0; /* others: the memory is used like any other */
	ret = exchange(comm, &s->mine, s->all);
	if (s->mine.shared && (ret || !all_shared(comm, s->all)))
		engine_memory.detach(comm->gpu, made, 0);
	else if (s->mine.shared)
		*region = made;
	return ret;
}

/* Agrees on a buffer's status, and maps it everywhere if every rank's can be; *region says which it became. */
static int agree_shared(struct comm *comm, struct mem_vote mine, void *buffer, size_t bytes, int *region)
{
	struct sharing s = { .mine = mine, .all = votes(comm, mine.kind), .fd = -1 };
	if (!s.all)
		return CORALE_ENOMEM;
	share(comm, &s, buffer, bytes);
	int ret = exchange(comm, &s.mine, s.all);
	*region = MEM_NO_REGION;
	if (!ret && all_shared(comm, s.all))
		ret = attach(comm, &s, buffer, region);
	fdpass_close(s.pass);
	if (s.fd >= 0)
		close(s.fd);
	free(s.all);
	return ret;
}

/* ---- Registrations --------------------------------------------------------------------------------------- */

static struct registration *keep(struct comm *comm, struct registration *made, struct registration values)
{
	*made = values;
	made->number = ++comm->registered;
	made->next = comm->registrations;
	comm->registrations = made;
	return made;
}

static struct registration **find_handle(struct comm *comm, const void *handle)
{
	struct registration **at = &comm->registrations;
	while (*at && (*at != handle || (*at)->allocated))
		at = &(*at)->next;
	return at;
}

static struct registration **find_allocation(struct comm *comm, const void *buffer)
{
	struct registration **at = &comm->registrations;
	while (*at && ((*at)->buffer != buffer || !(*at)->allocated))
		at = &(*at)->next;
	return at;
}

/* Peers' memory is no longer mapped here. */
static void forget(struct comm *comm, struct registration **at)
{
	struct registration *r = *at;
	if (r->region != MEM_NO_REGION)
		engine_memory.detach(comm->gpu, r->region, 1);
	*at = r->next;
	free(r);
}

int mem_is_shared(const struct comm *comm)
{
	const struct registration *r = comm->registrations;
	while (r && r->region == MEM_NO_REGION)
		r = r->next;
	return r != NULL;
}

void mem_close(struct comm *comm)
{
	while (comm->registrations) {
		struct registration *r = comm->registrations;
		comm->registrations = r->next;
		if (r->allocated && r->buffer)
			mem_keep_outlived(comm, r->buffer);
		free(r);
	}
}

/* ---- The calls ------------------------------------------------------------------------------------------- */

static int allocate(struct comm *comm, size_t bytes, void **made)
{
	if (comm->gpu)
		return engine_memory.alloc(comm->gpu, bytes ? bytes : 1, made);
	if (!posix_memalign(made, MEM_ALIGN, bytes ? bytes : 1))
		return 0;
	return log_error(CORALE_ENOMEM, comm->rank, "corale_mem_alloc: no memory for %zu bytes", bytes);
}

static void release(struct comm *comm, void *buffer, int used)
{
	if (comm->gpu && buffer)
		engine_memory.free(comm->gpu, buffer, used);
	else
		free(buffer);
}

static int alloc(struct comm *comm, size_t bytes, void **buffer)
{
	void *made = NULL;
	struct registration *entry = malloc(sizeof *entry);
	int region = MEM_NO_REGION,
	    status = entry ? 0 : log_error(CORALE_ENOMEM, comm->rank, "corale_mem_alloc: no memory");
	if (!status && !buffer)
		status = log_error(CORALE_EINVAL, comm->rank, "corale_mem_alloc: no place for the buffer");
	if (!status)
		status = allocate(comm, bytes, &made);
	int ret = agree_shared(comm, (struct mem_vote){ .kind = MEM_ALLOC, .status = status }, made, bytes,
			       &region);
	if (ret) {
		release(comm, made, 0);
		free(entry);
		comm_keep_error(comm);
		return ret;
	}
	keep(comm, entry, (struct registration){ .buffer = made, .allocated = 1, .region = region });
	*buffer = made;
	return 0;
}

int corale_mem_alloc(corale_comm *handle, size_t bytes, void **buffer)
{
	struct comm *comm = comm_enter(handle, kind_names[MEM_ALLOC]);
	const int ret = comm ? alloc(comm, bytes, buffer) : CORALE_EINVAL;
	comm_leave(handle);
	return ret;
}

int mem_make_scratch(struct comm *comm, const struct call *for_call)
{
	struct mem_vote mine = { .kind = MEM_SCRATCH, .target = for_call->record.target };
	size_t bytes = engine_memory.scratch_bytes(comm->gpu) * (size_t)(comm->size - 1);
	void *made = NULL;
	int region = MEM_NO_REGION, ret = 0;
	if (bytes) { /* or on no rank */
		int lacks = allocate(comm, bytes, &made);
		ret = agree_shared(comm, mine, made, lacks ? 0 : bytes, &region);
	}
	comm->scratch = region == MEM_NO_REGION ? COMM_SCRATCH_NONE : COMM_SCRATCH_MADE;
	if (region != MEM_NO_REGION) {
		engine_memory.keep_scratch(comm->gpu, made, region);
		engine_cuda.describe(comm->gpu, &comm->machine);
	} else {
		comm->machine.scratch_bytes = 0;
		release(comm, made, 0);
	}
	return ret;
}

/*
 * Gives up a registration (NULL: none; status says whether that is a mistake): all ranks the same one, or none does. Two agreements: before,
 * so that a mistake loses nothing; and after, when no peer maps the memory any more. What a failed communicator can't agree on is
 * given up in any case.
 */
static int give_up(struct comm *comm, enum mem_kind kind, struct registration **at, int status)
{
	int ret = agree(
	    comm, (struct mem_vote){ .kind = kind, .status = status, .number = *at ? (*at)->number : 0 });
	if (*at && (!ret || atomic_load(&comm->error))) {
		void *allocated = (*at)->allocated ? (*at)->buffer : NULL;
		int shared = (*at)->region != MEM_NO_REGION;
		forget(comm, at);
		ret = ret ? ret : agree(comm, (struct mem_vote){ .kind = kind });
		if (!ret || !shared || unmap_wait(comm))
			release(comm, allocated, 1);
	}
	if (ret)
		comm_keep_error(comm);
	return ret;
}

static int free_memory(struct comm *comm, void *buffer)
{
	struct registration **at = find_allocation(comm, buffer);
	int status =
	    *at || !buffer
		? 0
		: log_error(CORALE_EINVAL, comm->rank,
			    "corale_mem_free: %p is no memory from corale_mem_alloc of this communicator",
			    buffer);
	return give_up(comm, MEM_FREE, at, status);
}

int corale_mem_free(corale_comm *handle, void *buffer)
{
	if (mem_free_outlived(handle, buffer))
		return 0;
	struct comm *comm = comm_enter(handle, kind_names[MEM_FREE]);
	const int ret = comm ? free_memory(comm, buffer) : CORALE_EINVAL;
	comm_leave(handle);
	return ret;
}

static int register_memory(struct comm *comm, void *buffer, size_t bytes, void **out)
{
	struct registration *made = malloc(sizeof *made);
	int region = MEM_NO_REGION,
	    status = made ? 0 : log_error(CORALE_ENOMEM, comm->rank, "corale_mem_register: no memory");
	if (!status && (!out || (!buffer && bytes)))
		status = log_error(CORALE_EINVAL, comm->rank,
				   "corale_mem_register: no buffer, or no place for the handle");
	int ret = agree_shared(comm, (struct mem_vote){ .kind = MEM_REGISTER, .status = status }, buffer,
			       bytes, &region);
	if (ret) {
		free(made);
		comm_keep_error(comm);
		return ret;
	}
	*out = keep(comm, made, (struct registration){ .buffer = buffer, .region = region });
	if (comm->gpu && bytes) /* calls that read it where it lies need not wait for their third */
		engine_memory.publish(comm->gpu, buffer, bytes);
	return 0;
}

int corale_mem_register(corale_comm *handle, void *buffer, size_t bytes, void **out)
{
	struct comm *comm = comm_enter(handle, kind_names[MEM_REGISTER]);
	const int ret = comm ? register_memory(comm, buffer, bytes, out) : CORALE_EINVAL;
	comm_leave(handle);
	return ret;
}

static int deregister(struct comm *comm, void *handle_of_buffer)
{
	struct registration **at = find_handle(comm, handle_of_buffer);
	int status =
	    *at ? 0 : log_error(CORALE_EINVAL, comm->rank, "corale_mem_deregister: that is no registration");
	return give_up(comm, MEM_DEREGISTER, at, status);
}

int corale_mem_deregister(corale_comm *handle, void *handle_of_buffer)
{
	struct comm *comm = comm_enter(handle, kind_names[MEM_DEREGISTER]);
	const int ret = comm ? deregister(comm, handle_of_buffer) : CORALE_EINVAL;
	comm_leave(handle);
	return ret;
}
