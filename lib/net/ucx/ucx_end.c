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

/* Messages in the user's memory that UCX refers to. Under the lock. */
static int borrowed(const struct ucx_comm *c)
{
	int n = 0;
	for (int r = 0; r < c->params.size; r++)
		n += c->peers[r] ? ucx_link_borrowed(c->peers[r]) : 0;
	return n;
}

static int poll_given_back(void *arg)
{
	struct ucx_comm *c = arg;
	ucx_help(c->worker);
	ucx_lock(c->worker);
	int left = borrowed(c);
	ucx_unlock(c->worker);
	return !left;
}

/* Connections that keep a message busy do not work: a link is cut or the peer is stuck. */
static void abandon_endpoints(struct ucx_comm *c)
{
	ucx_lock(c->worker);
	for (int r = 0; r < c->params.size; r++)
		if (c->peers[r] && ucx_link_borrowed(c->peers[r]))
			ucx_endpoint_abandon(c->peers[r]->endpoint, CORALE_EPEER,
					     "a message to the peer was stuck when its communicator failed");
	ucx_unlock(c->worker);
}

void ucx_end_fail(struct ucx_comm *c, int code)
{
	ucx_lock(c->worker);
	if (!c->failure)
		c->failure = code;
	ucx_link_fail(c, c->failure);
	ucx_unlock(c->worker);
	if (wait_until(&grace_policy, poll_given_back, c) > 0)
		return;
	abandon_endpoints(c);
	if (wait_until(&last_policy, poll_given_back, c) > 0)
		return;
	ucx_lock(c->worker);
	int left = borrowed(c);
	ucx_unlock(c->worker);
	if (left)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: gave up %d messages that their peers do not take; UCX may yet read "
			 "their buffers",
			 left);
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
	ucx_link_free_all(c);
	ucx_unlock(w);
}

void ucx_end_close(struct ucx_comm *c)
{
	static const struct wait_policy forever = { .spin_ns = 20000, .timeout_ns = 0 };

	const int failed = c->failure;
	if (!ucx_link_drain(c, failed ? last_policy.timeout_ns : drain_policy.timeout_ns) && !failed)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: closed with messages that no peer has received");
	ucx_end_fail(c, CORALE_EABORTED);
	wait_until(&last_policy, poll_heard, c);
	say_goodbye(c);
	wait_until(&forever, poll_undispatched, c);
	unregister(c);
}
