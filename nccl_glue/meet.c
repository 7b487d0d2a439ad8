/* Ranks meet to make a communicator: one all-gather, which ends when it can't succeed any more. */
#include "base/wait.h"
#include "corale.h"
#include "door.h"

static int give_up(struct door_meeting *m, int code, const char *text)
{
	m->boot->ops->give_up(m->boot, code, text);
	return code;
}

static int aborted(struct door_meeting *m, const char *what)
{
	const struct door_job *job = m->job;
	char text[160];
	snprintf(text, sizeof text, "nccl%s: %s of this rank was aborted meanwhile", job->call, what);
	return give_up(m, log_error(CORALE_EABORTED, job->comm ? job->comm->rank : job->rank, "%s", text),
		       text);
}

/* What has ended the parent since the job began, if no communicator can be made of its ranks then. */
static int parent_error(const struct door_job *job)
{
	if (job->parent_error || atomic_load(&job->comm->state) == DOOR_REVOKED)
		return 0;
	const int error = corale_comm_async_error(job->comm->core);
	return job->kind == DOOR_SPLIT || error == CORALE_EMISMATCH ? error : 0;
}

/* If a rank of the parent is missing here and can't come: all that are missing, a bit each. Else 0. */
static uint64_t find_missing(struct door_meeting *m)
{
	uint64_t all = 0;
	for (int i = 0; i < m->n; i++)
		all |= (uint64_t)1 << m->ranks[i];
	const uint64_t suspects = comm_cannot_come(m->job->comm->core, all);
	if (suspects != m->suspects)
		m->since_ns = wait_now_ns();
	m->suspects = suspects;
	const uint64_t absent = suspects ? m->boot->ops->absent(m->boot, m->since_ns) : 0;
	uint64_t missing = 0;
	for (int i = 0; i < m->n; i++)
		if (absent >> i & 1)
			missing |= (uint64_t)1 << m->ranks[i];
	return missing & suspects ? missing : 0;
}

/* 0, or why the meeting is over before all have come. */
static int look(struct door_meeting *m)
{
	const struct door_job *job = m->job;
	if (job->made && atomic_load(&job->made->state) == DOOR_ENDED)
		return aborted(m, "the communicator");
	if (!job->comm)
		return 0;
	if (atomic_load(&job->comm->state) == DOOR_ENDED)
		return aborted(m, "the parent");
	char call[48];
	snprintf(call, sizeof call, "nccl%s", job->call);
	const uint64_t missing = find_missing(m);
	const int why = missing ? comm_explain_absence(job->comm->core, missing, call) : 0;
	if (why)
		return give_up(m, why, log_last_error());
	const int error = parent_error(job);
	if (!error)
		return 0;
	if (error == CORALE_EMISMATCH)
		comm_explain_mismatch(job->comm->core, call);
	return give_up(m,
		       log_error(error, job->comm->rank, "%s: the communicator has failed meanwhile: %s",
				 call,
				 comm_error(job->comm->core) ? corale_comm_last_error(job->comm->core)
							     : corale_strerror(error)),
		       log_last_error());
}

int door_meet(struct door_meeting *m, const void *in, size_t bytes, void *out)
{
	const struct boot_ops *ops = m->boot->ops;
	int ret = ops->start(m->boot, in, bytes, out);
	while (!ret && !(ret = look(m)))
		ret = ops->poll(m->boot); /* sleeps itself */
	return ret > 0 ? 0 : ret;
}
