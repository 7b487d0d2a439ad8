#include "sequence.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose.h"
#include "execute.h"
#include "gpu.h"
#include "base/log.h"
#include "base/collectives.h"
#include "base/status.h"
#include "together.h"

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
	hash = mix(hash, coll_is_uneven(call->coll) ? 0 : call->count);
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

int sequence_mismatch(struct comm *comm, const struct call *call)
{
	if (!call_is_pair(call))
		sequence_signature(comm, call);
	return diagnose_mismatch(comm, call, NULL);
}

void sequence_undo(struct comm *comm)
{
	comm->number--;
	comm->chain = comm->chain_before;
}

uint64_t sequence_pair_signature(struct comm *comm, const struct call *call)
{
	uint64_t *calls = call->coll == CORALE_SEND ? comm->sends : comm->recvs;
	uint64_t number = ++calls[call->root];
	return mix(0x70326b, (uint64_t)call->type) << 32 | (number & 0xffffffff);
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

static const struct wait_policy no_deadline = { 0 };

/* Executes when all earlier calls are complete; those have deadlines of their own. */
static int execute_ticket(struct comm *comm, uint64_t number, const struct call *calls, int n)
{
	struct ticket t = { comm, number };
	wait_until(&no_deadline, poll_ticket, &t);
	int ret = execute_calls(comm, calls, n);
	atomic_store_explicit(&comm->completed, number + 1, memory_order_release);
	return ret;
}

struct sequence_job {
	struct job job;
	struct comm *comm;
	uint64_t number;
	int ncalls;
	struct call *calls;
};

static int run_job(struct job *job)
{
	struct sequence_job *j = (struct sequence_job *)job;
	return execute_ticket(j->comm, j->number, j->calls, j->ncalls);
}

static void destroy_job(struct job *job)
{
	struct sequence_job *j = (struct sequence_job *)job;
	together_free_calls(j->calls, j->ncalls);
	free(j);
}

/* Calls that only the user's thread may run, and that wait on another stream, come first. */
static void drain_manual(struct comm *comm, const struct corale_stream *next)
{
	struct ticket t = { comm, comm->issued };
	if (comm->manual && !poll_ticket(&t) && comm->last_stream != next)
		stream_drain(comm->last_stream);
}

/* One job on a stream: its own thread runs it. */
static int submit_job(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream)
{
	struct sequence_job *j = malloc(sizeof *j);
	if (!j)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a call on a stream");
	*j = (struct sequence_job){ .job = { .run = run_job, .destroy = destroy_job },
				    .comm = comm,
				    .number = comm->issued,
				    .ncalls = n,
				    .calls = together_copy(comm, calls, n) };
	if (!j->calls) {
		free(j);
		return CORALE_ENOMEM;
	}
	int ret = stream_submit(stream, &j->job);
	comm->issued += !ret; /* a call that was not started leaves no gap */
	return ret;
}

int sequence_host(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream)
{
	if (stream && comm->manual)
		return sequence_group(&(struct sequence_part){ comm, calls, call_is_pair(calls) ? n : 0, n },
				      1, stream);
	drain_manual(comm, stream);
	return stream ? submit_job(comm, calls, n, stream) : execute_ticket(comm, comm->issued++, calls, n);
}

/* ---- Groups ------------------------------------------------------------------------ */

struct together_job {
	struct job job;
	struct together *together;
	struct wait_policy policy;
};

static int poll_together(void *together)
{
	return together_poll(together);
}

static int poll_group(struct job *job)
{
	return together_poll(((struct together_job *)job)->together);
}

static int run_group(struct job *job)
{
	struct together_job *j = (struct together_job *)job;
	wait_until(&j->policy, poll_together, j->together);
	return together_result(j->together);
}

static void destroy_group(struct job *job)
{
	together_destroy(((struct together_job *)job)->together);
	free(job);
}

static struct together *take_parts(const struct sequence_part *parts, int n)
{
	struct together_part *taken = calloc((size_t)n, sizeof *taken);
	if (!taken) {
		log_error(CORALE_ENOMEM, parts->comm->rank, "no memory for a group on %d communicators", n);
		return NULL;
	}
	struct together *t = NULL;
	for (int i = 0; i < n; i++) {
		const struct sequence_part *p = &parts[i];
		struct call *calls = together_copy(p->comm, p->calls, p->ncalls);
		if (!calls) {
			while (i--)
				together_free_calls(taken[i].calls, taken[i].ncalls);
			goto free_taken;
		}
		taken[i] = (struct together_part){ p->comm, p->comm->issued, calls, p->npairs, p->ncalls };
	}
	t = together_create(taken, n);
free_taken:
	free(taken);
	return t;
}

int sequence_group(const struct sequence_part *parts, int n, struct corale_stream *stream)
{
	const struct comm *first = parts->comm;
	int ret = 0, manual = 0;
	for (int i = 0; i < n; i++) {
		drain_manual(parts[i].comm, stream);
		manual |= parts[i].comm->manual;
	}
	struct together_job *j = calloc(1, sizeof *j);
	struct together *together = j ? take_parts(parts, n) : NULL;
	if (!together) {
		free(j);
		return CORALE_ENOMEM;
	}
	*j = (struct together_job){
		.job = { .run = run_group, .poll = poll_group, .destroy = destroy_group, .manual = manual },
		.together = together,
		.policy = { .spin_ns = first->policy.spin_ns, .sleep_ns = first->policy.sleep_ns }
	};
	if (stream)
		ret = stream_submit(stream, &j->job);
	for (int i = 0; !ret && i < n; i++) {
		parts[i].comm->last_stream = stream ? stream : parts[i].comm->last_stream;
		parts[i].comm->issued++;
	}
	if (!stream) {
		ret = run_group(&j->job);
		destroy_group(&j->job);
	}
	return ret;
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
