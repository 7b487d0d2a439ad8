/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL beside us in the same processes. Where nodes are several parts of one host (CORALE_NODE_SIZE), NCCL is told so, too, and takes
 * its sockets between them. How many threads and sockets it has there is read from the environment once, so each such setting has
 * a copy of the library.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "perf_nccl_library.h"

enum {
	WINDOW_SYMMETRIC = 1,
	POLICY_ZERO = 2,
	CONFIG_VERSION = 22809,
	SOCKETS_FIRST =
	    PERF_NCCL_SOCKETS, /* communicators from here on: 1, 2, 4 threads by as many sockets each */
	SOCKETS_EACH = 3,
	COMMS = SOCKETS_FIRST + SOCKETS_EACH * SOCKETS_EACH
};
static const unsigned config_magic = 0xcafebeef; /* NCCL refuses a configuration without it */

struct perf_nccl {
	struct nccl_library *library; /* of the modes but sockets */
	struct nccl_comm comms[COMMS];
	struct perf_pair plain, windowed; /* buffers; NULL, or the job's own */
};

static int can_any(const struct perf_job *job)
{
	for (int i = 0; i < job->options->ncolls; i++)
		if (nccl_run_of(job->nccl->library, perf_coll_number(job->options->colls[i])))
			return 1;
	return 0;
}

/* ---- Coming up ------------------------------------------------------------------------------- */

static const char *explain(const struct perf_job *job, int code)
{
	return job->nccl->library->error_string(code);
}

static void *make_comm(struct perf_job *job, const struct nccl_library *nccl, int policy)
{
	struct nccl_config config = {
		.size = sizeof(config), .magic = config_magic, .version = CONFIG_VERSION, .cta_policy = policy
	};
	int *unset[] = { &config.blocking,          &config.cluster_size,  &config.min_ctas,
			 &config.max_ctas,          &config.share_split,   &config.traffic_class,
			 &config.in_network,        &config.share_shrunk,  &config.multicast_ctas,
			 &config.channels_per_peer, &config.nvlink_centric };
	struct nccl_id id;
	void *comm = NULL;
	for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
		*unset[i] = INT_MIN;
	if (job->rank == 0)
		nccl_must(job, nccl, nccl->get_unique_id(&id), "ncclGetUniqueId");
	MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, job->mpi);
	if (policy)
		nccl_must(job, nccl, nccl->init_rank_config(&comm, job->size, id, job->rank, &config),
			  "ncclCommInitRankConfig");
	else
		nccl_must(job, nccl, nccl->init_rank(&comm, job->size, id, job->rank), "ncclCommInitRank");
	return comm;
}

static int wants(const struct perf_job *job, int mode)
{
	return job->options->nccl_modes >> mode & 1;
}

static void set_number(const char *name, int value)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* Of the ranks of one host each node is a host to NCCL, which then neither maps memory nor uses NVLink between them. */
static void tell_nodes(const struct perf_job *job)
{
	char id[32];
	snprintf(id, sizeof(id), "corale-node-%d", job->node);
	if (job->nodes < 2 || job->local_size < job->size)
		return;
	setenv("NCCL_HOSTID", id, 0);
	setenv("NCCL_NET", "Socket", 0);
}

static void name_comms(struct perf_nccl *nccl)
{
	for (int i = 0; i < COMMS; i++)
		snprintf(nccl->comms[i].name, sizeof(nccl->comms[i].name), "NCCL %s",
			 perf_nccl_mode_name(i < SOCKETS_FIRST ? i : PERF_NCCL_SOCKETS));
}

/* Buffers that Corale allocated are not given to NCCL. */
static void make_plain(struct perf_job *job)
{
	struct perf_nccl *nccl = job->nccl;
	if (job->options->registration != PERF_ALLOCATED)
		return;
	nccl->plain.send = job->device->allocate(job->room);
	nccl->plain.recv = job->device->allocate(job->room);
}

/* NCCL connects, and reads its settings, in the first calls: one of each collective, never in a graph. */
static void connect(const struct perf_job *job, struct nccl_comm *n)
{
	const struct perf_call call = { .job = job,
					.send = n->pair.send,
					.recv = n->pair.recv,
					.count = 1,
					.type = CORALE_INT8,
					.peer = n };
	for (int i = 0; i < job->options->ncolls; i++) {
		int (*run)(const struct perf_call *) =
		    nccl_run_of(job->nccl->library, perf_coll_number(job->options->colls[i]));
		if (run)
			nccl_must(job, n->library, run(&call), "connecting");
	}
	if (job->device->complete(job))
		perf_die("connecting NCCL", CORALE_ESYSTEM);
}

static void open_plain(struct perf_job *job, struct nccl_comm *n, struct nccl_library *library)
{
	n->library = library;
	n->comm = make_comm(job, library, 0);
	n->pair = job->nccl->plain.send ? job->nccl->plain : job->pair;
	connect(job, n);
}

static void open_sockets(struct perf_job *job)
{
	for (int i = 0; i < SOCKETS_EACH * SOCKETS_EACH; i++) {
		struct nccl_comm *n = &job->nccl->comms[SOCKETS_FIRST + i];
		const int threads = 1 << i / SOCKETS_EACH, sockets = 1 << i % SOCKETS_EACH;
		set_number("NCCL_SOCKET_NTHREADS", threads);
		set_number("NCCL_NSOCKS_PERTHREAD", sockets);
		open_plain(job, n, nccl_library_open(job, 1));
		snprintf(n->name, sizeof(n->name), "NCCL sockets %dx%d", threads, sockets);
	}
}

/* Both window modes share their buffers, not their communicators. */
static void open_window(struct perf_job *job, int mode)
{
	struct perf_nccl *nccl = job->nccl;
	struct nccl_comm *n = &nccl->comms[mode];
	unsigned char *bufs[2] = { nccl->windowed.send, nccl->windowed.recv };
	n->library = nccl->library;
	n->comm = make_comm(job, n->library, mode == PERF_NCCL_ZERO ? POLICY_ZERO : 0);
	n->pair = nccl->windowed;
	for (int i = 0; i < 2; i++)
		nccl_must(job, n->library,
			  n->library->window_register(n->comm, bufs[i], job->room, &n->windows[i],
						      WINDOW_SYMMETRIC),
			  "ncclCommWindowRegister");
	if (!n->windows[0] && job->rank == 0)
		printf("# NCCL makes no symmetric windows here: its mode %s uses its own allocator's buffers "
		       "only\n",
		       perf_nccl_mode_name(mode));
}

static void open_windows(struct perf_job *job)
{
	const struct nccl_library *library = job->nccl->library;
	void *bufs[2];
	if (!library->window_register || (wants(job, PERF_NCCL_ZERO) && library->version < 22800))
		nccl_refuse(job, perf_nccl_version(job), " has no symmetric windows, or no zero-CTA policy");
	for (int i = 0; i < 2; i++)
		nccl_must(job, library, library->mem_alloc(&bufs[i], job->room), "ncclMemAlloc");
	job->nccl->windowed = (struct perf_pair){ bufs[0], bufs[1] };
	for (int mode = PERF_NCCL_WINDOW; mode <= PERF_NCCL_ZERO; mode++)
		if (wants(job, mode))
			open_window(job, mode);
}

void perf_nccl_open(struct perf_job *job)
{
	struct perf_nccl *nccl = calloc(1, sizeof(*nccl));
	if (!nccl)
		perf_die("opening NCCL", CORALE_ENOMEM);
	job->nccl = nccl;
	tell_nodes(job);
	name_comms(nccl);
	nccl->library = nccl_library_open(job, 0);
	if (!can_any(job)) /* nothing to be compared */
		return;
	make_plain(job);
	if (wants(job, PERF_NCCL_STOCK))
		open_plain(job, &nccl->comms[PERF_NCCL_STOCK], nccl->library);
	if (wants(job, PERF_NCCL_WINDOW) || wants(job, PERF_NCCL_ZERO))
		open_windows(job);
	if (wants(job, PERF_NCCL_SOCKETS))
		open_sockets(job);
}

void perf_nccl_close(struct perf_job *job)
{
	struct perf_nccl *nccl = job->nccl;
	if (!nccl)
		return;
	for (int i = 0; i < COMMS; i++) {
		struct nccl_comm *n = &nccl->comms[i];
		for (int w = 0; w < 2; w++)
			if (n->windows[w])
				n->library->window_deregister(n->comm, n->windows[w]);
		if (n->comm)
			n->library->comm_destroy(n->comm);
		if (n->comm && n->library != nccl->library)
			nccl_library_close(n->library);
	}
	if (nccl->windowed.send) {
		nccl->library->mem_free(nccl->windowed.send);
		nccl->library->mem_free(nccl->windowed.recv);
	}
	if (nccl->plain.send) {
		job->device->release(nccl->plain.send, job->room);
		job->device->release(nccl->plain.recv, job->room);
	}
	nccl_library_close(nccl->library);
	free(nccl);
	job->nccl = NULL;
}

const char *perf_nccl_version(const struct perf_job *job)
{
	static char text[32];
	int version = job->nccl->library->version;
	snprintf(text, sizeof(text), "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
	return text;
}

int perf_nccl_can(const struct perf_call *call, const char **why_not)
{
	return nccl_can(call->job->nccl->library, call, why_not);
}

const char *perf_nccl_mode_name(int mode)
{
	const char *const names[PERF_NCCL_MODES] = { "stock", "window", "zero", "sockets" };
	return mode < PERF_NCCL_MODES ? names[mode] : "";
}

int perf_nccl_ways(const struct perf_call *call, int in_place, struct perf_way *ways)
{
	struct perf_nccl *nccl = call->job->nccl;
	int n = 0;
	_Static_assert(1 + (int)COMMS <= (int)PERF_MAX_WAYS, "ours and NCCL's");
	for (int i = 0; i < COMMS; i++) {
		struct nccl_comm *comm = &nccl->comms[i];
		if (!comm->comm)
			continue;
		ways[n] = (struct perf_way){ .name = comm->name,
					     .slot = i < SOCKETS_FIRST ? i : PERF_NCCL_SOCKETS,
					     .pair = &comm->pair,
					     .call = *call,
					     .run = nccl_run_of(nccl->library, call->job->coll),
					     .explain = explain };
		ways[n].call.peer = comm;
		perf_place(&ways[n++].call, &comm->pair, in_place);
	}
	return n;
}
