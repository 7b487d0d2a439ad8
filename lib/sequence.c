#include "sequence.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose.h"
#include "drive.h"
#include "gpu.h"
#include "log.h"
#include "status.h"

/* ---- Signatures ------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u; /* Fibonacci hashing; the shift carries high bits down */
	return hash ^ hash >> 29;
}

/* What must agree: for v-forms without the counts, which only the two ends of an edge know. */
static uint64_t call_hash(const struct call *call)
{
	int op = op_kind(call->op);
	uint64_t hash = mix((uint64_t)call->coll + 1, (uint64_t)call->type << 8 | (uint64_t)op);
	hash = mix(hash, call->coll == CORALE_ALL_TO_ALL_V ? 0 : call->count);
	hash = mix(hash, (uint64_t)call->root);
	return call->target ? mix(hash, call->target) : hash;
}

/* The collectives' signatures are chained, so that a difference is found by the next call at the latest. */
uint64_t sequence_signature(struct comm *comm, const struct call *call)
{
	comm->number++;
	comm->chain_before = comm->chain;
	comm->chain = mix(comm->chain, call_hash(call));
	uint64_t signature = comm->chain << 32 | (comm->number & 0xffffffff);
	diagnose_record(comm, call, comm->number, signature);
	return signature;
}

void sequence_undo(struct comm *comm)
{
	comm->number--;
	comm->chain = comm->chain_before;
}

/* Sends and receives count per ordered pair; their elements travel as the edge. */
static uint64_t pair_signature(struct comm *comm, const struct call *call)
{
	uint64_t *calls = call->coll == CORALE_SEND ? comm->sends : comm->recvs;
	uint64_t number = ++calls[call->root];
	return mix(0x70326b, (uint64_t)call->type) << 32 | (number & 0xffffffff);
}

/* ---- Execution --------------------------------------------------------------------- */

static void bind(struct comm *comm, const struct call *call, const struct plan *plan, uint64_t signature,
		 struct host_binding *binding)
{
	memset(binding, 0, sizeof *binding);
	binding->send = call->send;
	binding->recv = call->recv;
	binding->signature = signature;
	binding->spec.type = call->type;
	binding->spec.wire = plan->wire_type;
	binding->spec.ranks = comm->size;
	binding->spec.op = op_kind(call->op);
	memcpy(binding->spec.scalar, &call->scalar, sizeof call->scalar);
}

static int start_run(struct comm *comm, const struct call *call, uint64_t signature, struct host_run *run)
{
	const struct plan *plan = call->plan ? &call->plan->plan : NULL;
	struct plan_key key = planner_key(call->coll, call->count, call->type, call->op);
	int ret = plan ? 0 : comm_plan(comm, &key, &plan);
	if (ret)
		return ret;
	struct plan_env env;
	struct host_binding binding;
	plan_env_init(&env, plan, &comm->topo->map, comm->rank, call->root, call->count);
	env.send_counts = call->send_counts;
	env.send_displs = call->send_displs;
	env.recv_counts = call->recv_counts;
	env.recv_displs = call->recv_displs;
	bind(comm, call, plan, signature, &binding);
	return host_run_init(run, &comm->engine, plan, &env, &binding);
}

/* The only rank of a communicator talks to nobody. */
static int execute_alone(struct comm *comm, const struct call *call)
{
	static const struct plan none;
	size_t bytes = corale_type_bytes(call->type);
	struct host_binding b;
	bind(comm, call, &none, 0, &b);
	b.spec.wire = call->type;
	const unsigned char *from = call->send;
	unsigned char *to = call->recv;
	size_t count = call->count;
	if (call->coll == CORALE_ALL_TO_ALL_V) {
		from += call->send_displs[0] * bytes;
		to += call->recv_displs[0] * bytes;
		count = call->send_counts[0];
	}
	if (coll_folds(call->coll))
		reduce_fold(&b.spec, to, 0, &(struct reduce_input){ from, REDUCE_SEND }, 1, count, 1);
	else if (count && from != to)
		memmove(to, from, count * bytes);
	return 0;
}

static int execute_collective(struct comm *comm, const struct call *call)
{
	if (comm->size == 1)
		return execute_alone(comm, call);
	struct host_run run;
	int ret = start_run(comm, call, sequence_signature(comm, call), &run);
	if (ret)
		return diagnose_end(comm, call, ret);
	ret = drive_runs(comm, &run, NULL, 1, call);
	host_run_free(&run);
	return ret;
}

int sequence_next_own(const struct comm *comm, const struct call *calls, int n, int i, corale_coll coll)
{
	while (i < n && (calls[i].coll != coll || calls[i].root != comm->rank))
		i++;
	return i;
}

int sequence_check_own(const struct comm *comm, const struct call *calls, int n)
{
	for (int s = 0, r = 0;; s++, r++) {
		s = sequence_next_own(comm, calls, n, s, CORALE_SEND);
		r = sequence_next_own(comm, calls, n, r, CORALE_RECV);
		if (s == n && r == n)
			return 0;
		if (s == n || r == n)
			return log_error(CORALE_EINVAL, comm->rank, "a %s oneself has no %s in its group",
					 r == n ? "send to" : "receive from", r == n ? "receive" : "send");
		if (calls[r].count != calls[s].count || calls[r].type != calls[s].type)
			return log_error(CORALE_EMISMATCH, comm->rank,
					 "send to oneself: %zu elements of %s sent, %zu of %s "
					 "expected",
					 calls[s].count, corale_type_name(calls[s].type), calls[r].count,
					 corale_type_name(calls[r].type));
	}
}

static int execute_own(struct comm *comm, const struct call *calls, int n)
{
	int ret = sequence_check_own(comm, calls, n);
	for (int s = 0, r = 0; !ret; s++, r++) {
		s = sequence_next_own(comm, calls, n, s, CORALE_SEND);
		r = sequence_next_own(comm, calls, n, r, CORALE_RECV);
		if (s == n)
			break;
		if (calls[s].count && calls[r].recv != calls[s].send)
			memmove(calls[r].recv, calls[s].send,
				calls[s].count * corale_type_bytes(calls[s].type));
	}
	return ret;
}

static int previous_of_pair(const struct call *calls, int i)
{
	for (int p = i - 1; p >= 0; p--)
		if (calls[p].coll == calls[i].coll && calls[p].root == calls[i].root)
			return p;
	return -1;
}

/* All sends and receives of a group at once; those of one ordered pair in their order. */
static int execute_pairs(struct comm *comm, const struct call *calls, int n)
{
	int ret = execute_own(comm, calls, n), started = 0;
	struct host_run *runs = calloc((size_t)n, sizeof *runs);
	struct call *others = calloc((size_t)n, sizeof *others);
	int *after = calloc((size_t)n, sizeof *after);
	if (!ret && (!runs || !others || !after))
		ret =
		    log_error(CORALE_ENOMEM, comm->rank, "no memory for a group of %d sends and receives", n);
	for (int i = 0; !ret && i < n; i++) {
		if (calls[i].root == comm->rank)
			continue;
		others[started] = calls[i];
		after[started] = previous_of_pair(others, started);
		ret = start_run(comm, &calls[i], pair_signature(comm, &calls[i]), &runs[started]);
		started += !ret;
	}
	if (!ret && started)
		ret = drive_runs(comm, runs, after, started, others);
	for (int i = 0; i < started; i++)
		host_run_free(&runs[i]);
	free(runs);
	free(others);
	free(after);
	return ret;
}

static int execute(struct comm *comm, const struct call *calls, int n)
{
	int ret = diagnose_peers(comm);
	if (atomic_load(&comm->error))
		return CORALE_ECOMM;
	if (ret == CORALE_EMISMATCH)
		return diagnose_mismatch(comm, calls, NULL);
	if (ret)
		return diagnose_end(comm, calls, ret);
	if (calls[0].coll == CORALE_SEND || calls[0].coll == CORALE_RECV)
		return execute_pairs(comm, calls, n);
	return execute_collective(comm, calls);
}

/* ---- Tickets ----------------------------------------------------------------------- */

struct ticket {
	struct comm *comm;
	uint64_t number;
};

static int poll_ticket(void *arg)
{
	struct ticket *t = arg;
	return atomic_load_explicit(&t->comm->completed, memory_order_acquire) == t->number;
}

static const struct wait_policy no_deadline = { 0, 0, 0 };

/* Executes when all earlier calls are complete; those have deadlines of their own. */
static int execute_ticket(struct comm *comm, uint64_t number, const struct call *calls, int n)
{
	struct ticket t = { comm, number };
	wait_until(&no_deadline, poll_ticket, &t);
	int ret = execute(comm, calls, n);
	atomic_store_explicit(&comm->completed, number + 1, memory_order_release);
	return ret;
}

struct sequence_job {
	struct job job;
	struct comm *comm;
	uint64_t number;
	int ncalls;
	struct call calls[]; /* then the count arrays of an all_to_all_v */
};

static int run_job(struct job *job)
{
	struct sequence_job *j = (struct sequence_job *)job;
	return execute_ticket(j->comm, j->number, j->calls, j->ncalls);
}

static void destroy_job(struct job *job)
{
	struct sequence_job *j = (struct sequence_job *)job;
	for (int i = 0; i < j->ncalls; i++)
		call_let_go(&j->calls[i]);
	free(j);
}

static struct sequence_job *make_job(struct comm *comm, const struct call *calls, int n)
{
	size_t arrays = calls[0].send_counts ? 4 * (size_t)comm->size * sizeof(size_t) : 0;
	struct sequence_job *j = calloc(1, sizeof *j + (size_t)n * sizeof *calls + arrays);
	if (!j)
		return NULL;
	j->job = (struct job){ .run = run_job, .destroy = destroy_job, .manual = comm->manual };
	j->comm = comm;
	j->ncalls = n;
	memcpy(j->calls, calls, (size_t)n * sizeof *calls);
	for (int i = 0; i < n; i++)
		call_keep(&calls[i]);
	if (arrays) {
		const size_t **fields[] = { &j->calls[0].send_counts, &j->calls[0].send_displs,
					    &j->calls[0].recv_counts, &j->calls[0].recv_displs };
		size_t *copy = (size_t *)(void *)(j->calls + n);
		for (int i = 0; i < 4; i++, copy += comm->size) {
			memcpy(copy, *fields[i], (size_t)comm->size * sizeof *copy);
			*fields[i] = copy;
		}
	}
	return j;
}

/* Calls that only the user's thread may run, and that wait on another stream, come first. */
static void drain_manual(struct comm *comm, const struct corale_stream *next)
{
	struct ticket t = { comm, comm->issued };
	if (comm->manual && !poll_ticket(&t) && comm->last_stream != next)
		corale_stream_synchronize(comm->last_stream);
}

int sequence_host(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream)
{
	if (!stream) {
		drain_manual(comm, NULL);
		return execute_ticket(comm, comm->issued++, calls, n);
	}
	struct sequence_job *j = make_job(comm, calls, n);
	if (!j)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a call on a stream");
	drain_manual(comm, stream);
	comm->last_stream = stream;
	j->number = comm->issued++;
	return stream_submit(stream, &j->job);
}

int sequence_join(struct comm *comm, struct corale_stream *before, struct corale_stream *after)
{
	if (comm->gpu)
		return engine_cuda.join(comm->gpu, before, after);
	return log_error(CORALE_ENOTSUP, comm->rank,
			 "sends and receives of one communicator and group are on several host streams: put "
			 "them on one");
}

int sequence_submit(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream)
{
	return comm->gpu ? gpu_submit(comm, calls, n, stream) : sequence_host(comm, calls, n, stream);
}

void sequence_finish(struct comm *comm)
{
	struct ticket t = { comm, comm->issued };
	drain_manual(comm, NULL);
	wait_until(&no_deadline, poll_ticket, &t);
}
