/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a communicator, in order or not: every wait has a deadline, and UCX releases the user's buffers. */
#include "ucx_link.h"

#include "base/log.h"
#include "base/wait.h"

/* Deadlines of a failed communicator: for messages to lost peers, then to all others, then for UCX to give them up. */
static const struct wait_policy lost_policy = { .spin_ns = 20000, .timeout_ns = 20 * 1000 * 1000 };
static const struct wait_policy grace_policy = { .spin_ns = 20000, .timeout_ns = 250 * 1000 * 1000 };
static const struct wait_policy last_policy = { .spin_ns = 20000, .timeout_ns = 1000 * 1000 * 1000 };
/*
 * For what peers have yet to receive or to answer, all waits together: after a failure, and in a process that exits; and where all goes in order: a process
 * that ends while a peer still connects to it, without a core for seconds, ends that peer by an assertion of UCX.
 */
static const int64_t SOON_NS = 1000000000ll, IN_ORDER_NS = 10 * 1000000000ll, DRAIN_NS = 2 * 1000000000ll;
static const int64_t FLUSH_NS = 100000000; /* of it, for the last of these waits, at least */

static int wait_until_ns(int64_t until_ns, int (*poll)(void *arg), void *arg)
{
	const int64_t left = until_ns - wait_now_ns();
	return wait_until(&(struct wait_policy){ .spin_ns = 20000, .timeout_ns = left > 0 ? left : 1 }, poll,
			  arg);
}

/* ---- What is under way ---- */

static int poll_drained(void *arg)
{
	struct ucx_comm *c = arg;
	int left = 0;
	ucx_try_progress(c->worker);
	ucx_lock(c->worker);
	for (int r = 0; r < c->params.size && !left; r++)
		left = c->peers[r] && !c->peers[r]->endpoint->failed &&
		       (!ucx_link_all_sent(c->peers[r]) || !ucx_link_all_read(c->peers[r]));
	ucx_unlock(c->worker);
	return !left;
}

/* Waits for all messages under way: 1 if all have arrived. */
static int drain(struct ucx_comm *c, int64_t until_ns)
{
	if (wait_until_ns(until_ns, poll_drained, c) <= 0)
		return 0;
	ucx_lock(
	    c->worker); /* a put whose request is complete may not be there yet; all other messages are */
	for (int r = 0; r < c->params.size; r++)
		if (c->peers[r] && c->peers[r]->endpoint->has_put)
			ucx_endpoint_flush(c->peers[r]->endpoint, c->peers[r]->endpoint->data);
	ucx_unlock(c->worker);
	return wait_until_ns(until_ns, poll_drained, c) > 0;
}

static int poll_flushed(void *arg)
{
	struct ucx_worker *w = arg;
	int left = 0;

	ucx_try_progress(w);
	ucx_lock(w);
	for (struct ucx_endpoint *e = w->endpoints; e; e = e->next)
		left += (e->flushing || e->pings) && !e->failed;
	ucx_unlock(w);
	return !left;
}

/*
 * Until all that was sent on an endpoint is read. Not by UCX's flush where cores carry messages: over tcp it asks the peer, and UCX (1.13 to 1.22) ends the
 * process by an assertion where the answer is read after the connection has failed, by what was sent behind the question to a peer that has ended.
 */
static void flush(struct ucx_endpoint *e, ucp_ep_h ep)
{
	const struct ucx_wire ping = { .kind = UCX_PING, .number = e->uid };
	if (e->class->rdma)
		ucx_endpoint_flush(e, ep);
	else if (!e->failed && !e->mute)
		e->pings += !ucx_comm_tell(e->worker, ep, &ping);
}

void ucx_end_flush(struct ucx_worker *w, int in_order, int64_t until_ns)
{
	ucx_lock(w);
	for (struct ucx_endpoint *e = w->endpoints; e; e = e->next) {
		if (e->flushing || e->pings)
			continue;
		flush(e, e->ep);
		if (e->data != e->ep)
			flush(e, e->data);
	}
	ucx_unlock(w);
	const int64_t soonest = wait_now_ns() + FLUSH_NS;
	if (wait_until_ns(until_ns > soonest ? until_ns : soonest, poll_flushed, w) > 0)
		return;
	int given_up = 0;
	ucx_lock(w);
	for (struct ucx_endpoint *e = w->endpoints; e; e = e->next)
		if ((e->flushing || e->pings) && !e->failed) {
			ucx_endpoint_abandon(e, CORALE_EPEER, "the peer does not take what was sent");
			given_up++;
		}
	ucx_unlock(w);
	log_line(in_order ? LOG_WARN : LOG_INFO, -1,
		 "transport ucx: at the end of the last communicator %d processes of other nodes have not "
		 "read what was sent to them: they are stopped, or the way to them is cut",
		 given_up);
}

/* ---- Failure ---- */

/*
 * Messages in the user's memory that UCX refers to: to peers that are there, and to those that are lost. UCX says that a peer is lost when its
 * process has closed its connections, by its end, or has answered nothing for tens of seconds: it takes nothing any more, but the connection for data
 * does not say so, and keeps its messages.
 */
struct borrowed {
	int kept, lost;
};

static struct borrowed borrowed(const struct ucx_comm *c)
{
	struct borrowed b = { 0, 0 };
	ucx_lock(c->worker);
	for (int r = 0; r < c->params.size; r++)
		if (c->peers[r])
			*(c->peers[r]->state == UCX_PEER_LOST ? &b.lost : &b.kept) +=
			    ucx_link_borrowed(c->peers[r]);
	ucx_unlock(c->worker);
	return b;
}

static int poll_given_back(void *arg)
{
	struct ucx_comm *c = arg;
	ucx_try_progress(c->worker);
	const struct borrowed b = borrowed(c);
	return !b.kept && !b.lost;
}

static int poll_kept(void *arg)
{
	struct ucx_comm *c = arg;
	ucx_try_progress(c->worker);
	return !borrowed(c).kept;
}

/* Closes connections that still hold a message: a cable is cut or the peer is stuck. */
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
	ucx_comm_fail(c, code);
	ucx_unlock(c->worker);
	if (wait_until(&lost_policy, poll_given_back, c) > 0)
		return;
	if (wait_until(&grace_policy, poll_kept, c) <= 0) {
		abandon_endpoints(c);
		wait_until(&last_policy, poll_given_back, c);
	}
	const struct borrowed b = borrowed(c);
	if (b.kept + b.lost)
		log_line(b.kept ? LOG_WARN : LOG_INFO, c->params.rank,
			 "transport ucx: gave up %d messages that their peers do not take, %d of them to "
			 "peers that are lost; UCX may yet read their buffers",
			 b.kept + b.lost, b.lost);
}

/* ---- The end in order ---- */

/* 1 if every greeted peer has answered: this rank must not leave while a peer is still connecting. */
static int poll_answered(void *arg)
{
	struct ucx_comm *c = arg;
	int all = 1;

	ucx_try_progress(c->worker);
	ucx_lock(c->worker);
	for (int r = 0; r < c->params.size; r++)
		all &= !c->peers[r] || c->peers[r]->state != UCX_PEER_FINE || c->peers[r]->has_answered;
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

void ucx_end_leave(struct ucx_comm *c, int64_t until_ns)
{
	if (!c->failure)
		drain(c, until_ns - FLUSH_NS);
	say_goodbye(c);
	ucx_end_flush(c->worker, 0, until_ns);
}

void ucx_end_worker(struct ucx_worker *w)
{
	ucx_thread_stop(w);
	ucx_lock(w);
	for (struct ucx_endpoint *e = w->endpoints; e; e = e->next)
		if (!e->failed && !e->mute)
			ucx_comm_tell(w, e->ep, &(struct ucx_wire){ .kind = UCX_MUTE, .number = w->uid });
	ucx_unlock(w);
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

	const int failed = c->failure, hurries = failed || c->worker->exits;
	const int64_t now_ns = wait_now_ns();
	c->until_ns = now_ns + (hurries ? SOON_NS : IN_ORDER_NS);
	const int64_t until_ns = c->until_ns - FLUSH_NS;
	if (!drain(c, hurries ? until_ns : now_ns + DRAIN_NS) && !failed)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: closed with messages that no peer has received");
	ucx_end_fail(c, CORALE_EABORTED);
	const int answered = wait_until_ns(until_ns, poll_answered, c) > 0;
	if (!answered && !hurries)
		log_line(LOG_WARN, c->params.rank,
			 "transport ucx: closed although a rank of another node has not answered for %d s: "
			 "it is stopped, or the way to it is cut",
			 (int)(IN_ORDER_NS / 1000000000));
	c->in_order = answered && !hurries;
	say_goodbye(c);
	wait_until(&forever, poll_undispatched, c);
	unregister(c);
}
