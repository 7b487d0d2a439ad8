/* How a communicator ends, in order or not: every wait has a deadline, and UCX lets go of the user's buffers. */
#include "ucx_end.h"

#include "base/log.h"
#include "ucx_link.h"
#include "ucx_message.h"
#include "base/wait.h"

/* What a failed communicator waits for messages that are under way, then for UCX to give them up. */
static const struct wait_policy grace_policy = { .spin_ns = 20000, .timeout_ns = 250 * 1000 * 1000 };
static const struct wait_policy last_policy = { .spin_ns = 20000, .timeout_ns = 1000 * 1000 * 1000 };
static const struct wait_policy drain_policy = { .spin_ns = 20000, .timeout_ns = 2000 * 1000 * 1000l };

/* 1 if no request of the communicator (sends_only: no send) is pending. Under the lock. */
static int is_quiet(const struct ucx_comm *c, int sends_only)
{
	for (const struct ucx_op *op = c->ops; op; op = op->older)
		if (op->request && (op->sends || !sends_only))
			return 0;
	return 1;
}

static int borrows(const struct ucx_comm *c)
{
	int n = 0;
	for (int r = 0; r < c->params.size; r++)
		n += c->peers[r] ? ucx_link_borrowed(c->peers[r]) : 0;
	return n;
}

static int poll_quiet(struct ucx_comm *c, int sends_only)
{
	ucx_help(c->worker);
	ucx_lock(c->worker);
	int quiet = is_quiet(c, sends_only) && !borrows(c);
	ucx_unlock(c->worker);
	return quiet;
}

static int poll_all_quiet(void *c)
{
	return poll_quiet(c, 0);
}

static int poll_sends_quiet(void *c)
{
	return poll_quiet(c, 1);
}

/* Connections that keep a request busy do not work: a link is cut or the peer is stuck. */
static void abandon_endpoints(struct ucx_comm *c)
{
	ucx_lock(c->worker);
	for (struct ucx_op *op = c->ops; op; op = op->older)
		if (op->request)
			ucx_endpoint_abandon(
			    c->peers[op->peer]->endpoint, CORALE_EPEER,
			    "a message to or from the peer was stuck when its communicator failed");
	for (int r = 0; r < c->params.size; r++)
		if (c->peers[r] && ucx_link_borrowed(c->peers[r]))
			ucx_endpoint_abandon(c->peers[r]->endpoint, CORALE_EPEER,
					     "a message to the peer was stuck when its communicator failed");
	ucx_unlock(c->worker);
}

static void finish_rest(struct ucx_comm *c, int code)
{
	int rest = 0;
	ucx_lock(c->worker);
	const int read = borrows(c);
	for (struct ucx_op *op = c->ops, *older; op; op = older) {
		older = op->older;
		if (!op->request)
			continue;
		rest++;
		op->request->held = 1;
		ucx_op_finish(op, code);
	}
	ucx_unlock(c->worker);
	if (rest)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: gave up %d messages that UCX still holds; their buffers may yet be "
			 "written",
			 rest);
	if (read)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: gave up %d messages that their peers do not take; UCX may yet read "
			 "their buffers",
			 read);
}

void ucx_end_fail(struct ucx_comm *c, int code)
{
	struct ucx_worker *w = c->worker;

	ucx_lock(w);
	if (!c->failure)
		c->failure = code;
	ucx_link_fail(c, c->failure);
	ucx_comm_drop(c, -1, c->failure);
	for (int r = 0; r < c->params.size; r++)
		for (int i = 0; c->peers[r] && i < TRANSPORT_MAX_LANES; i++)
			ucx_held_free_all(w->ucp, &c->peers[r]->lanes[i].held);
	ucx_unlock(w);
	if (wait_until(&grace_policy, poll_all_quiet, c) > 0)
		return;
	abandon_endpoints(c);
	if (wait_until(&last_policy, poll_all_quiet, c) <= 0)
		finish_rest(c, code);
}

/* 1 if every peer that was greeted has answered: a peer that is still connecting must not find us gone. */
static int poll_heard(void *arg)
{
	struct ucx_comm *c = arg;
	int all = 1;

	ucx_help(c->worker);
	ucx_lock(c->worker);
	for (int r = 0; r < c->params.size; r++)
		all &= !c->peers[r] || c->peers[r]->state != UCX_PEER_FINE || c->peers[r]->heard;
	ucx_unlock(c->worker);
	return all;
}

static void say_goodbye(struct ucx_comm *c)
{
	ucx_lock(c->worker);
	for (int r = 0; r < c->params.size; r++)
		if (c->peers[r] && c->peers[r]->state != UCX_PEER_LOST)
			ucx_link_say_bye(c, r);
	ucx_unlock(c->worker);
}

/* 1 once no thread is inside c's handlers. */
static int poll_undispatched(void *arg)
{
	struct ucx_comm *c = arg;
	ucx_lock(c->worker);
	int free_of_threads = !c->dispatching;
	if (free_of_threads)
		c->dispatching = 1; /* and none enters any more */
	ucx_unlock(c->worker);
	return free_of_threads;
}

/* Nothing in the worker refers to c afterwards. */
static void unregister(struct ucx_comm *c)
{
	struct ucx_worker *w = c->worker;

	ucx_lock(w);
	struct ucx_comm **at = &w->comms;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	w->closed[w->closes++ % (sizeof(w->closed) / sizeof(w->closed[0]))] = c->params.comm_id;
	for (struct ucx_op *op = c->ops, *older; op; op = older) {
		older = op->older;
		if (op->id)
			ucx_op_finish(op, CORALE_EABORTED);
	}
	for (struct ucx_op *op = c->ops; op; op = op->older)
		op->comm = NULL;
	ucx_link_free_all(c);
	ucx_unlock(w);
}

void ucx_end_close(struct ucx_comm *c)
{
	static const struct wait_policy forever = { .spin_ns = 20000, .timeout_ns = 0 };

	if (!c->failure && wait_until(&drain_policy, poll_sends_quiet, c) <= 0)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: closed with sends that no peer has received");
	ucx_link_drain(c, c->failure ? last_policy.timeout_ns : drain_policy.timeout_ns);
	ucx_end_fail(c, CORALE_EABORTED);
	wait_until(&last_policy, poll_heard, c);
	say_goodbye(c);
	wait_until(&forever, poll_undispatched, c);
	unregister(c);
}
