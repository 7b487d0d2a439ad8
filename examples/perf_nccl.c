/*
 * NCCL beside us in the same processes: opened at run time, so that nothing needs it, through the few of its
 * functions that are declared here. It is closed to the rest of the program (RTLD_LOCAL).
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

enum { WINDOW_SYMMETRIC = 1, POLICY_ZERO = 2, CONFIG_VERSION = 22809, FLOAT8_SINCE = 22400 };
static const unsigned config_magic = 0xcafebeef; /* NCCL refuses a configuration without it */

struct nccl_id {
	char bytes[128];
};

/* A communicator's configuration as of NCCL 2.28; a later one takes it, too. INT_MIN and NULL: not set. */
struct nccl_config {
	size_t size;
	unsigned magic, version;
	int blocking, cluster_size, min_ctas, max_ctas;
	const char *network;
	int share_split, traffic_class;
	const char *name;
	int in_network, cta_policy, share_shrunk, multicast_ctas, channels_per_peer, nvlink_centric;
};

struct perf_nccl {
	void *library;
	int version;
	int (*run)(const struct perf_call *call);
	void *comms[PERF_NCCL_MODES]; /* NULL: mode not wanted */
	struct perf_pair pairs[PERF_NCCL_MODES];
	void *windows[PERF_NCCL_MODES][2];
	int owns_plain; /* the stock mode has buffers of its own */

	const char *(*error_string)(int code);
	int (*get_version)(int *version);
	int (*get_unique_id)(struct nccl_id *id);
	int (*init_rank)(void **comm, int ranks, struct nccl_id id, int rank);
	int (*init_rank_config)(void **comm, int ranks, struct nccl_id id, int rank, struct nccl_config *);
	int (*comm_destroy)(void *comm);
	int (*mem_alloc)(void **buf, size_t bytes);
	int (*mem_free)(void *buf);
	int (*window_register)(void *comm, void *buf, size_t bytes, void **window, int flags);
	int (*window_deregister)(void *comm, void *window);
	int (*group_start)(void);
	int (*group_end)(void);
	int (*all_reduce)(const void *, void *, size_t, int type, int op, void *comm, void *stream);
	int (*reduce_scatter)(const void *, void *, size_t, int type, int op, void *comm, void *stream);
	int (*reduce)(const void *, void *, size_t, int type, int op, int root, void *comm, void *stream);
	int (*gather)(const void *, void *, size_t, int type, int root, void *comm, void *stream);
	int (*scatter)(const void *, void *, size_t, int type, int root, void *comm, void *stream);
	int (*all_gather)(const void *, void *, size_t, int type, void *comm, void *stream);
	int (*broadcast)(const void *, void *, size_t, int type, int root, void *comm, void *stream);
	int (*all_to_all)(const void *, void *, size_t, int type, void *comm, void *stream);
	int (*send)(const void *, size_t, int type, int peer, void *comm, void *stream);
	int (*recv)(void *, size_t, int type, int peer, void *comm, void *stream);
};

#define SYMBOL(name, member, since)                                                                          \
	{                                                                                                    \
		name, offsetof(struct perf_nccl, member), since                                              \
	}
static const struct {
	const char *name;
	size_t offset;
	int since; /* the version from which NCCL has it; 0: all that we know */
} symbols[] = {
	SYMBOL("ncclGetErrorString", error_string, 0),
	SYMBOL("ncclGetVersion", get_version, 0),
	SYMBOL("ncclGetUniqueId", get_unique_id, 0),
	SYMBOL("ncclCommInitRank", init_rank, 0),
	SYMBOL("ncclCommInitRankConfig", init_rank_config, 21400),
	SYMBOL("ncclCommDestroy", comm_destroy, 0),
	SYMBOL("ncclMemAlloc", mem_alloc, 21900),
	SYMBOL("ncclMemFree", mem_free, 21900),
	SYMBOL("ncclCommWindowRegister", window_register, 22700),
	SYMBOL("ncclCommWindowDeregister", window_deregister, 22700),
	SYMBOL("ncclGroupStart", group_start, 0),
	SYMBOL("ncclGroupEnd", group_end, 0),
	SYMBOL("ncclAllReduce", all_reduce, 0),
	SYMBOL("ncclReduceScatter", reduce_scatter, 0),
	SYMBOL("ncclAllGather", all_gather, 0),
	SYMBOL("ncclBroadcast", broadcast, 0),
	SYMBOL("ncclAlltoAll", all_to_all, 22800),
	SYMBOL("ncclReduce", reduce, 0),
	SYMBOL("ncclGather", gather, 22800),
	SYMBOL("ncclScatter", scatter, 22800),
	SYMBOL("ncclSend", send, 0),
	SYMBOL("ncclRecv", recv, 0),
};

/* ---- Calls --------------------------------------------------------------------------------- */

static int type_of(corale_type type)
{
	const int types[CORALE_NUM_TYPES] = { 0, 1, 2, 3, 4, 5, 6, 9, 7, 8, 10, 11 };
	return types[type];
}

static int op_of(corale_op op)
{
	const int ops[CORALE_NUM_OPS] = { 0, 1, 3, 2, 4 };
	return ops[op];
}

static int all_reduce(const struct perf_call *c)
{
	return c->job->nccl->all_reduce(c->send, c->recv, c->count, type_of(c->type), op_of(c->op), c->peer,
					c->job->stream);
}

static int reduce_scatter(const struct perf_call *c)
{
	return c->job->nccl->reduce_scatter(c->send, c->recv, c->count, type_of(c->type), op_of(c->op),
					    c->peer, c->job->stream);
}

static int all_gather(const struct perf_call *c)
{
	return c->job->nccl->all_gather(c->send, c->recv, c->count, type_of(c->type), c->peer,
					c->job->stream);
}

static int broadcast(const struct perf_call *c)
{
	return c->job->nccl->broadcast(c->send, c->recv, c->count, type_of(c->type), c->root, c->peer,
				       c->job->stream);
}

static int reduce(const struct perf_call *c)
{
	return c->job->nccl->reduce(c->send, c->recv, c->count, type_of(c->type), op_of(c->op), c->root,
				    c->peer, c->job->stream);
}

static int gather(const struct perf_call *c)
{
	return c->job->nccl->gather(c->send, c->recv, c->count, type_of(c->type), c->root, c->peer,
				    c->job->stream);
}

static int scatter(const struct perf_call *c)
{
	return c->job->nccl->scatter(c->send, c->recv, c->count, type_of(c->type), c->root, c->peer,
				     c->job->stream);
}

/* A part to one rank, a part from one; for the use inside a group. */
static int exchange(const struct perf_call *c, int to, size_t send_at, int from, size_t recv_at)
{
	const struct perf_nccl *nccl = c->job->nccl;
	size_t bytes = corale_type_bytes(c->type);
	int type = type_of(c->type);
	int ret =
	    nccl->send((const char *)c->send + send_at * bytes, c->count, type, to, c->peer, c->job->stream);
	int other =
	    nccl->recv((char *)c->recv + recv_at * bytes, c->count, type, from, c->peer, c->job->stream);
	return ret ? ret : other;
}

static int all_to_all(const struct perf_call *c)
{
	const struct perf_nccl *nccl = c->job->nccl;
	int ret = 0;
	if (nccl->all_to_all)
		return nccl->all_to_all(c->send, c->recv, c->count, type_of(c->type), c->peer,
					c->job->stream);
	nccl->group_start();
	for (int r = 0; !ret && r < c->job->size; r++)
		ret = exchange(c, r, c->count * (size_t)r, r, c->count * (size_t)r);
	int end = nccl->group_end();
	return ret ? ret : end;
}

static int sendrecv(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	job->nccl->group_start();
	int ret = exchange(c, (job->rank + 1) % job->size, 0, (job->rank + job->size - 1) % job->size, 0);
	int end = job->nccl->group_end();
	return ret ? ret : end;
}

static const struct {
	const char *coll;
	int (*run)(const struct perf_call *call);
} runs[] = {
	{ "all_reduce", all_reduce }, { "reduce_scatter", reduce_scatter },
	{ "all_gather", all_gather }, { "broadcast", broadcast },
	{ "all_to_all", all_to_all }, { "sendrecv", sendrecv },
	{ "reduce", reduce },         { "gather", gather },
	{ "scatter", scatter },
};

/* ---- Coming up ------------------------------------------------------------------------------- */

static const char *explain(const struct perf_job *job, int code)
{
	return job->nccl->error_string(code);
}

static void must(const struct perf_job *job, int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "rank %d: %s: %s\n", job->rank, what, explain(job, code));
	MPI_Abort(job->mpi, 1);
}

static void refuse(const struct perf_job *job, const char *what, const char *why)
{
	fprintf(stderr, "rank %d: --vs-nccl %s: %s%s\n", job->rank, job->options->vs_nccl, what, why);
	MPI_Abort(job->mpi, 1);
}

static void load(struct perf_job *job, struct perf_nccl *nccl)
{
	if (!(nccl->library = dlopen(job->options->vs_nccl, RTLD_NOW | RTLD_LOCAL)))
		refuse(job, "", dlerror());
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(nccl->library, symbols[i].name);
		if (!symbol && !symbols[i].since)
			refuse(job, "it has no ", symbols[i].name);
		memcpy((char *)nccl + symbols[i].offset, &symbol, sizeof(symbol));
	}
	must(job, nccl->get_version(&nccl->version), "ncclGetVersion");
}

static void *make_comm(struct perf_job *job, int policy)
{
	struct perf_nccl *nccl = job->nccl;
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
		must(job, nccl->get_unique_id(&id), "ncclGetUniqueId");
	MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, job->mpi);
	if (policy)
		must(job, nccl->init_rank_config(&comm, job->size, id, job->rank, &config),
		     "ncclCommInitRankConfig");
	else
		must(job, nccl->init_rank(&comm, job->size, id, job->rank), "ncclCommInitRank");
	return comm;
}

static int wants(const struct perf_job *job, int mode)
{
	return job->options->nccl_modes >> mode & 1;
}

static void open_plain(struct perf_job *job)
{
	struct perf_nccl *nccl = job->nccl;
	nccl->comms[PERF_NCCL_STOCK] = make_comm(job, 0);
	nccl->pairs[PERF_NCCL_STOCK] = job->pair;
	nccl->owns_plain = job->options->registration == PERF_ALLOCATED;
	if (!nccl->owns_plain)
		return;
	nccl->pairs[PERF_NCCL_STOCK].send = job->device->allocate(job->room);
	nccl->pairs[PERF_NCCL_STOCK].recv = job->device->allocate(job->room);
}

/* Both window modes share their buffers, not their communicators. */
static void open_window(struct perf_job *job, int mode, const struct perf_pair *pair)
{
	struct perf_nccl *nccl = job->nccl;
	unsigned char *bufs[2] = { pair->send, pair->recv };
	nccl->comms[mode] = make_comm(job, mode == PERF_NCCL_ZERO ? POLICY_ZERO : 0);
	nccl->pairs[mode] = *pair;
	for (int i = 0; i < 2; i++)
		must(job,
		     nccl->window_register(nccl->comms[mode], bufs[i], job->room, &nccl->windows[mode][i],
					   WINDOW_SYMMETRIC),
		     "ncclCommWindowRegister");
	if (!nccl->windows[mode][0] && job->rank == 0)
		printf("# NCCL makes no symmetric windows here: its mode %s uses its own allocator's buffers "
		       "only\n",
		       perf_nccl_mode_name(mode));
}

static void open_windows(struct perf_job *job)
{
	struct perf_nccl *nccl = job->nccl;
	struct perf_pair pair;
	void *bufs[2];
	if (!nccl->window_register || (wants(job, PERF_NCCL_ZERO) && nccl->version < 22800))
		refuse(job, perf_nccl_version(job), " has no symmetric windows, or no zero-CTA policy");
	for (int i = 0; i < 2; i++)
		must(job, nccl->mem_alloc(&bufs[i], job->room), "ncclMemAlloc");
	pair = (struct perf_pair){ bufs[0], bufs[1] };
	for (int mode = PERF_NCCL_WINDOW; mode <= PERF_NCCL_ZERO; mode++)
		if (wants(job, mode))
			open_window(job, mode, &pair);
}

void perf_nccl_open(struct perf_job *job)
{
	struct perf_nccl *nccl = calloc(1, sizeof(*nccl));
	if (!nccl)
		perf_die("opening NCCL", CORALE_ENOMEM);
	job->nccl = nccl;
	load(job, nccl);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		if (strcmp(runs[i].coll, job->coll->name) == 0)
			nccl->run = runs[i].run;
	if ((nccl->run == gather && !nccl->gather) || (nccl->run == scatter && !nccl->scatter))
		nccl->run = NULL; /* this NCCL has no such collective */
	if (!nccl->run) /* nothing to be compared */
		return;
	if (wants(job, PERF_NCCL_STOCK))
		open_plain(job);
	if (wants(job, PERF_NCCL_WINDOW) || wants(job, PERF_NCCL_ZERO))
		open_windows(job);
}

void perf_nccl_close(struct perf_job *job)
{
	struct perf_nccl *nccl = job->nccl;
	struct perf_pair owned = { NULL, NULL };
	if (!nccl)
		return;
	for (int mode = 0; mode < PERF_NCCL_MODES; mode++) {
		for (int i = 0; i < 2; i++)
			if (nccl->windows[mode][i])
				nccl->window_deregister(nccl->comms[mode], nccl->windows[mode][i]);
		if (mode != PERF_NCCL_STOCK && nccl->comms[mode])
			owned = nccl->pairs[mode];
		if (nccl->comms[mode])
			nccl->comm_destroy(nccl->comms[mode]);
	}
	if (owned.send) {
		nccl->mem_free(owned.send);
		nccl->mem_free(owned.recv);
	}
	if (nccl->owns_plain) {
		job->device->release(nccl->pairs[PERF_NCCL_STOCK].send, job->room);
		job->device->release(nccl->pairs[PERF_NCCL_STOCK].recv, job->room);
	}
	free(nccl); /* its library stays open: threads of it may still be ending */
	job->nccl = NULL;
}

const char *perf_nccl_version(const struct perf_job *job)
{
	static char text[32];
	int version = job->nccl->version;
	snprintf(text, sizeof(text), "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
	return text;
}

int perf_nccl_can(const struct perf_call *call, const char **why_not)
{
	const struct perf_nccl *nccl = call->job->nccl;
	int is_float8 = call->type == CORALE_FLOAT8_E4M3 || call->type == CORALE_FLOAT8_E5M2;
	if (!nccl->run)
		*why_not = "NCCL has no such collective";
	else if (call->job->coll->has_op && call->op >= CORALE_NUM_OPS)
		*why_not = "premultiplied sums are compared with nothing";
	else if (is_float8 && nccl->version < FLOAT8_SINCE)
		*why_not = "this NCCL has no such type";
	else
		return 1;
	return 0;
}

const char *perf_nccl_mode_name(int mode)
{
	const char *const names[PERF_NCCL_MODES] = { "stock", "window", "zero" };
	return mode < PERF_NCCL_MODES ? names[mode] : "";
}

int perf_nccl_ways(const struct perf_call *call, int in_place, struct perf_way *ways)
{
	static const char *const names[PERF_NCCL_MODES] = { "NCCL stock", "NCCL window", "NCCL zero" };
	const struct perf_nccl *nccl = call->job->nccl;
	int n = 0;
	for (int mode = 0; mode < PERF_NCCL_MODES; mode++) {
		if (!nccl->comms[mode])
			continue;
		ways[n] = (struct perf_way){
			.name = names[mode], .slot = mode, .call = *call, .run = nccl->run, .explain = explain
		};
		ways[n].call.peer = nccl->comms[mode];
		perf_place(&ways[n++].call, &nccl->pairs[mode], in_place);
	}
	return n;
}
