/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "perf_nccl_library.h"

enum { FLOAT8_SINCE = 22400 };

static int type_of(corale_type type)
{
	static const corale_type types[] = {
		/* in the order of NCCL's */
		CORALE_INT8,    CORALE_UINT8,    CORALE_INT32,       CORALE_UINT32,
		CORALE_INT64,   CORALE_UINT64,   CORALE_FLOAT16,     CORALE_FLOAT32,
		CORALE_FLOAT64, CORALE_BFLOAT16, CORALE_FLOAT8_E4M3, CORALE_FLOAT8_E5M2,
	};
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (types[i] == type)
			return (int)i;
	return -1; /* NCCL has none */
}

static int op_of(corale_op op)
{
	const int ops[CORALE_NUM_OPS] = { 0, 1, 3, 2, 4 };
	return ops[op];
}

static int all_reduce(const struct perf_call *c)
{
	const struct nccl_comm *n = c->peer;
	return n->library->all_reduce(c->send, c->recv, c->count, type_of(c->type), op_of(c->op), n->comm,
				      c->job->stream);
}

static int reduce_scatter(const struct perf_call *c)
{
	const struct nccl_comm *n = c->peer;
	return n->library->reduce_scatter(c->send, c->recv, c->count, type_of(c->type), op_of(c->op), n->comm,
					  c->job->stream);
}

static int all_gather(const struct perf_call *c)
{
	const struct nccl_comm *n = c->peer;
	return n->library->all_gather(c->send, c->recv, c->count, type_of(c->type), n->comm, c->job->stream);
}

static int broadcast(const struct perf_call *c)
{
	const struct nccl_comm *n = c->peer;
	return n->library->broadcast(c->send, c->recv, c->count, type_of(c->type), c->root, n->comm,
				     c->job->stream);
}

static int reduce(const struct perf_call *c)
{
	const struct nccl_comm *n = c->peer;
	return n->library->reduce(c->send, c->recv, c->count, type_of(c->type), op_of(c->op), c->root,
				  n->comm, c->job->stream);
}

static int gather(const struct perf_call *c)
{
	const struct nccl_comm *n = c->peer;
	return n->library->gather(c->send, c->recv, c->count, type_of(c->type), c->root, n->comm,
				  c->job->stream);
}

static int scatter(const struct perf_call *c)
{
	const struct nccl_comm *n = c->peer;
	return n->library->scatter(c->send, c->recv, c->count, type_of(c->type), c->root, n->comm,
				   c->job->stream);
}

/* A part to one rank, a part from one; for the use inside a group. */
static int exchange(const struct perf_call *c, int to, size_t send_at, int from, size_t recv_at)
{
	const struct nccl_comm *n = c->peer;
	const struct nccl_library *nccl = n->library;
	size_t bytes = corale_type_bytes(c->type);
	int type = type_of(c->type);
	int ret =
	    nccl->send((const char *)c->send + send_at * bytes, c->count, type, to, n->comm, c->job->stream);
	int other =
	    nccl->recv((char *)c->recv + recv_at * bytes, c->count, type, from, n->comm, c->job->stream);
	return ret ? ret : other;
}

static int all_to_all(const struct perf_call *c)
{
	const struct nccl_comm *n = c->peer;
	const struct nccl_library *nccl = n->library;
	int ret = 0;
	if (nccl->all_to_all)
		return nccl->all_to_all(c->send, c->recv, c->count, type_of(c->type), n->comm,
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
	const struct nccl_library *nccl = ((const struct nccl_comm *)c->peer)->library;
	nccl->group_start();
	int ret = exchange(c, (job->rank + 1) % job->size, 0, (job->rank + job->size - 1) % job->size, 0);
	int end = nccl->group_end();
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

int (*nccl_run_of(const struct nccl_library *library, const struct perf_coll *coll))(const struct perf_call *)
{
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		if (strcmp(runs[i].coll, coll->name))
			continue;
		if ((runs[i].run == gather && !library->gather) ||
		    (runs[i].run == scatter && !library->scatter))
			return NULL;
		return runs[i].run;
	}
	return NULL;
}

int nccl_can(const struct nccl_library *library, const struct perf_call *call, const char **why_not)
{
	int is_float8 = call->type == CORALE_FLOAT8_E4M3 || call->type == CORALE_FLOAT8_E5M2;
	if (!nccl_run_of(library, call->job->coll))
		*why_not = "NCCL has no such collective";
	else if (call->job->coll->has_op && call->op >= CORALE_NUM_OPS)
		*why_not = "premultiplied sums are compared with nothing";
	else if (type_of(call->type) < 0 || (is_float8 && library->version < FLOAT8_SINCE))
		*why_not = "this NCCL has no such type";
	else
		return 1;
	return 0;
}
