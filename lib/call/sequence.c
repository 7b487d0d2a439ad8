#include "sequence.h"

#include <string.h>

#include "arena.h"
#include "health/diagnose.h"
#include "execute.h"
#include "base/log.h"
#include "base/collectives.h"
#include "base/status.h"

/* ---- Signatures ------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u; /* Fibonacci hashing; the shift carries high bits down */
	return hash ^ hash >> 29;
}

/* What must agree: for v-forms without the counts, which only the two ends of an edge know. */
static uint64_t call_hash(const struct call *call)
{
	int op = op_kind(call->record.op);
	uint64_t hash = mix((uint64_t)call->record.coll + 1, (uint64_t)call->record.type << 8 | (uint64_t)op);
	hash = mix(hash, coll_is_uneven(call->record.coll) ? 0 : call->record.count);
	hash = mix(hash, (uint64_t)call->record.root);
	return call->record.target ? mix(hash, call->record.target) : hash;
}

/* The collectives' signatures are chained, so that a difference is found by the next call at the latest. */
uint64_t sequence_signature(struct comm *comm, const struct call *call)
{
	comm->number++;
	comm->chain = mix(comm->chain, call_hash(call));
	uint64_t signature = comm->chain << 32 | (comm->number & 0xffffffff);
	diagnose_record(comm, &call->record, comm->number, signature);
	return signature;
}

int sequence_mismatch(struct comm *comm, const struct call *call)
{
	if (!call_is_pair(call))
		sequence_signature(comm, call);
	return diagnose_mismatch(comm, &call->record, NULL);
}

uint64_t sequence_pair_signature(struct comm *comm, const struct call *call)
{
	uint64_t *calls = call->record.coll == CORALE_SEND ? comm->sends : comm->recvs;
	uint64_t number = ++calls[call->record.root];
	return mix(0x70326b, (uint64_t)call->record.type) << 32 | (number & 0xffffffff);
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
	together_let_go(j->calls, j->ncalls);
}

/* Of a manual communicator: calls that wait on another stream come first. */
static void drain_manual(struct comm *comm, const struct corale_stream *next)
{
	struct ticket t = { comm, comm->issued };
	if (!poll_ticket(&t) && comm->last_stream != next)
		stream_drain(comm->last_stream);
}

/* One job on a stream: its own thread runs it. */
static int submit_job(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream)
{
	struct sequence_job *j = stream_take(stream, sizeof *j + together_copy_bytes(comm, calls, n));
	if (!j)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a call on a stream");
	*j = (struct sequence_job){ .job = { .run = run_job, .destroy = destroy_job },
				    .comm = comm,
				    .number = comm->issued,
				    .ncalls = n,
				    .calls = together_copy(j + 1, comm, calls, n) };
	int ret = stream_submit(stream, &j->job);
	comm->issued += !ret; /* a call that was not started leaves no gap */
	return ret;
}

int sequence_host(struct comm *comm, const struct call *calls, int n, struct corale_stream *stream)
{
	if (stream && comm->manual)
		return sequence_group(&(struct together_part){ comm, calls, call_is_pair(calls) ? n : 0, n },
				      1, stream);
	if (comm->manual)
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
}

/* The calls start when those before them have ended. */
static void issue_parts(const struct together_part *parts, int n, struct corale_stream *stream)
{
	for (int i = 0; i < n; i++) {
		parts[i].comm->last_stream = stream ? stream : parts[i].comm->last_stream;
		parts[i].comm->issued++;
	}
}

static int drain_all(const struct together_part *parts, int n, const struct corale_stream *stream)
{
	int manual = 0;
	for (int i = 0; i < n; i++) {
		if (parts[i].comm->manual)
			drain_manual(parts[i].comm, stream);
		manual |= parts[i].comm->manual;
	}
	return manual;
}

int sequence_group(const struct together_part *parts, int n, struct corale_stream *stream)
{
	const struct comm *first = parts->comm;
	const struct arena_mark mark = arena_mark();
	const int manual = drain_all(parts, n, stream);
	const size_t bytes = ALIGN_ROUND(sizeof(struct together_job)) + together_bytes(parts, n);
	struct together_job *j = stream ? stream_take(stream, bytes) : arena_take(bytes);
	if (!j)
		return log_error(CORALE_ENOMEM, first->rank, "no memory for a group on %d communicators", n);
	*j = (struct together_job){
		.job = { .run = run_group, .poll = poll_group, .destroy = destroy_group, .manual = manual },
		.together = together_create((char *)j + ALIGN_ROUND(sizeof *j), parts, n),
		.policy = { .spin_ns = first->policy.spin_ns, .sleep_ns = first->policy.sleep_ns }
	};
	int ret = stream ? stream_submit(stream, &j->job) : 0;
	if (!ret)
		issue_parts(parts, n, stream);
	if (!stream) {
		ret = run_group(&j->job);
		destroy_group(&j->job);
		arena_release(mark);
	}
	return ret;
}

void sequence_finish(struct comm *comm)
{
	struct ticket t = { comm, comm->issued };
	if (comm->manual)
		drain_manual(comm, NULL);
	wait_until(&no_deadline, poll_ticket, &t);
}
