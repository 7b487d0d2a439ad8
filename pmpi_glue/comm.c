/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/comm_doors.h"
#include "door.h"
#include "request.h"

/* All communicators that were seen, so that MPI_Finalize can end their cores, newest first: alike on all ranks. */
static struct registry {
	pthread_mutex_t lock;
	struct pmpi_comm *first;
	int keyval;
	_Atomic int cores; /* made, or being made */
	_Atomic int
	    lost; /* cores in a row that were freed before they had earned their making; MOST_LOST at most */
	_Atomic unsigned generation; /* of the handles that threads remember */
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER, .keyval = MPI_KEYVAL_INVALID };

/* ---- What a core has earned: its making takes as long as some hundred calls (8 ms on hosts, 100 on GPUs), or some large ones */

enum { ENOUGH_CALLS = 256, ENOUGH_BYTES = 16 << 20, MOST_LOST = 3 };

static void judge(const struct pmpi_comm *comm)
{
	if (comm->calls >= ENOUGH_CALLS || comm->bytes >= ENOUGH_BYTES)
		registry.lost = 0;
	else if (registry.lost < MOST_LOST)
		registry.lost++;
}

/* Behind 2 calls (CORALE_MPI_AFTER); 8, 32, 128 where earlier cores have earned nothing. */
static int is_due(const struct pmpi_comm *comm)
{
	return comm->calls > (unsigned)pmpi.calls_before << 2 * registry.lost;
}

/* ---- An end */

static void close_core(struct pmpi_comm *comm)
{
	int before = -1;
	if (comm->state != PMPI_CORE_READY)
		return;
	comm->state = PMPI_CORE_NEVER;
	const int is_entered = !pmpi_enter(comm->ordinal, &before);
	corale_comm_destroy(comm->core);
	comm->core = NULL;
	if (comm->stream)
		pmpi.device->stream_destroy(comm->stream);
	if (is_entered)
		pmpi_leave(before);
	registry.cores--;
}

/* The attribute's removal, in MPI_Comm_free: MPI still knows the communicator. Behind MPI_Finalize there is no core left. */
static int on_free(MPI_Comm handle, int keyval, void *value, void *extra)
{
	struct pmpi_comm *comm = value;
	(void)handle, (void)keyval, (void)extra;
	if (comm->state == PMPI_CORE_READY)
		judge(comm);
	close_core(comm);
	pthread_mutex_lock(&registry.lock);
	struct pmpi_comm **link = &registry.first;
	while (*link && *link != comm)
		link = &(*link)->next;
	if (*link)
		*link = comm->next;
	registry.generation++;
	pthread_mutex_unlock(&registry.lock);
	pmpi_comm_put(comm);
	return MPI_SUCCESS;
}

int pmpi_comms_start(void)
{
	return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &registry.keyval, NULL);
}

void pmpi_comms_end(void)
{
	for (struct pmpi_comm *comm = registry.first; comm; comm = comm->next)
		close_core(comm);
}

/* ---- What is known of a communicator */

static void find_world(struct pmpi_comm *comm)
{
	int *ranks = (int *)comm->arrays;
	MPI_Group group;
	if (comm->is_inter || PMPI_Comm_group(comm->comm, &group))
		return;
	for (int i = 0; i < comm->size; i++)
		ranks[i] = i;
	PMPI_Group_translate_ranks(group, comm->size, ranks, pmpi.world, comm->world);
	PMPI_Group_free(&group);
	comm->is_of_world = 1;
	for (int i = 0; i < comm->size; i++)
		comm->is_of_world &= comm->world[i] != MPI_UNDEFINED;
}

struct pmpi_comm *pmpi_comm_share(struct pmpi_comm *comm)
{
	pmpi_lock();
	if (comm)
		comm->users++;
	pmpi_unlock();
	return comm;
}

void pmpi_comm_put(struct pmpi_comm *comm)
{
	pmpi_lock();
	const int is_last = comm && !--comm->users;
	pmpi_unlock();
	if (is_last)
		free(comm);
}

static struct pmpi_comm *make(MPI_Comm handle)
{
	int size;
	PMPI_Comm_size(handle, &size);
	const size_t per_rank = 4 * sizeof(size_t) + sizeof(int);
	struct pmpi_comm *comm = calloc(1, sizeof *comm + per_rank * (size_t)size);
	if (!comm)
		return NULL;
	comm->comm = handle;
	comm->size = size;
	comm->users = 1;
	comm->arrays = (size_t *)(comm + 1);
	comm->world = (int *)(comm->arrays + 4 * size);
	comm->until_next_try = (unsigned)pmpi.calls_before;
	PMPI_Comm_test_inter(handle, &comm->is_inter);
	PMPI_Comm_rank(handle, &comm->rank);
	comm->peers = comm->size;
	if (comm->is_inter)
		PMPI_Comm_remote_size(handle, &comm->peers);
	find_world(comm);
	if (PMPI_Comm_set_attr(handle, registry.keyval, comm)) {
		free(comm);
		return NULL;
	}
	pthread_mutex_lock(&registry.lock);
	comm->next = registry.first;
	registry.first = comm;
	pthread_mutex_unlock(&registry.lock);
	return comm;
}

/* By the attribute, which costs as much as some short messages. */
static struct pmpi_comm *__attribute__((noinline)) find_or_make(MPI_Comm handle)
{
	struct pmpi_comm *comm = NULL;
	int is_found = 0;
	if (PMPI_Comm_get_attr(handle, registry.keyval, &comm, &is_found))
		return NULL;
	return is_found ? comm : make(handle);
}

struct pmpi_comm *pmpi_comm_find(MPI_Comm handle)
{
	static __thread struct {
		MPI_Comm handle;
		struct pmpi_comm *comm;
		unsigned generation;
	} last __attribute__((tls_model("initial-exec")));
	const unsigned generation = registry.generation;
	if (last.comm && last.handle == handle && last.generation == generation)
		return last.comm;
	last.handle = handle;
	last.comm = find_or_make(handle);
	last.generation = generation;
	return last.comm;
}

/* ---- Corale's communicator */

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct pmpi_comm *comm = ctx;
	return PMPI_Allgather(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, comm->comm)
		   ? CORALE_ETRANSPORT
		   : 0;
}

static int create(struct pmpi_comm *comm)
{
	const corale_bootstrap bootstrap = { comm->rank, comm->size, comm, allgather };
	const struct comm_traits traits = { .leaves_quietly = 1 };
	corale_config config;
	corale_config_init(&config);
	config.timeout_seconds = getenv("CORALE_TIMEOUT") ? 0 : -1; /* MPI's calls have no deadline */
	config.device = pmpi.device ? pmpi.device->corale_device : CORALE_DEVICE_HOST;
	return corale_private_comm_create(&bootstrap, &config, NULL, &traits, NULL, NULL, &comm->core);
}

static int create_on_device(struct pmpi_comm *comm)
{
	int before = -1;
	int ret = pmpi_enter(comm->ordinal, &before);
	if (ret)
		return ret;
	ret = create(comm);
	if (!ret && pmpi.device && pmpi.device->corale_device == CORALE_DEVICE_CUDA)
		ret = pmpi.device->stream_create(&comm->stream);
	pmpi_leave(before);
	return ret;
}

static int has_all(MPI_Comm comm, int mine, int *all)
{
	return PMPI_Allreduce(&mine, all, 1, MPI_INT, MPI_MIN, comm);
}

static int open_core(struct pmpi_comm *comm)
{
	const int has_room = registry.cores++ < pmpi.most_comms;
	static _Atomic int said_room, said_failed;
	int all = 0, ret = 0;
	int error = has_all(comm->comm, has_room, &all);
	if (!error && all) {
		ret = create_on_device(comm);
		error = has_all(comm->comm, !ret, &all);
		if (!all)
			log_once(&said_failed, LOG_WARN, pmpi.rank,
				 "the MPI door has no communicator of Corale for one of %d ranks, so its "
				 "calls are MPI's, by way of host memory; the line above says why",
				 comm->size);
	} else if (!error) {
		log_once(&said_room, LOG_WARN, pmpi.rank,
			 "the MPI door has %d communicators of Corale already, so calls of a further one are "
			 "MPI's, by way of host memory; raise CORALE_MPI_COMMS, or free communicators",
			 pmpi.most_comms);
	}
	if (!error && all) {
		comm->state = PMPI_CORE_READY;
		return MPI_SUCCESS;
	}
	comm->state = PMPI_CORE_NEVER;
	if (comm->core)
		corale_comm_destroy(comm->core);
	comm->core = NULL;
	registry.cores--;
	return error;
}

int pmpi_comm_open(struct pmpi_comm *comm, int ordinal, size_t bytes)
{
	int all = 0, error;
	comm->calls++;
	comm->bytes += bytes;
	if (comm->state != PMPI_CORE_NONE || comm->until_next_try-- > 0)
		return MPI_SUCCESS;
	comm->ordinal = !pmpi.device ? 0 : ordinal >= 0 ? ordinal : pmpi.device->in_use();
	error = has_all(comm->comm, comm->ordinal >= 0 && is_due(comm), &all);
	if (!error && all)
		return open_core(comm);
	comm->until_next_try = 1u << (comm->tries < 8 ? comm->tries++ : 8);
	return error;
}

int pmpi_comm_wait(const struct pmpi_comm *comm)
{
	if (!comm->stream) /* the call has ended with its own status; what others do since is the next call's */
		return 0;
	const int ret = pmpi_wait(comm->stream);
	return ret ? ret : corale_comm_async_error(comm->core);
}

int pmpi_comm_vote(struct pmpi_comm *comm, int mine, int *any)
{
	int before = -1;
	if (comm->state != PMPI_CORE_READY)
		return PMPI_Allreduce(&mine, any, 1, MPI_INT, MPI_MAX, comm->comm);
	int ret = pmpi_enter(comm->ordinal, &before);
	if (ret)
		return pmpi_fail(comm->comm);
	ret = corale_all_reduce(&mine, any, 1, CORALE_INT32, CORALE_MAX, comm->core, comm->stream);
	if (!ret)
		ret = pmpi_comm_wait(comm);
	pmpi_leave(before);
	return ret ? pmpi_fail(comm->comm) : MPI_SUCCESS;
}
