/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether an action can go on: its messages are there, and are those of this call; there is room for what it sends. */
#include "host_engine.h"

#include <string.h>

#include "base/log.h"

static int check_message(struct host_run *run, const struct host_channel *ch, const struct plan_action *a,
			 int peer, uint64_t signature, uint64_t edge, size_t bytes, size_t expected_bytes)
{
	uint64_t expected = host_edge(ch, a);
	if (signature == run->binding.signature && edge == expected)
		return bytes == expected_bytes
			   ? 1
			   : log_error(CORALE_EINTERNAL, run->engine->rank,
				       "a message of rank %d has %zu bytes where the plan of this rank has "
				       "%zu: ranks made different plans, which is a bug: please report it",
				       peer, bytes, expected_bytes);
	if (!atomic_exchange(&run->mismatch.found, 1)) {
		run->mismatch.peer = peer;
		run->mismatch.expected = run->binding.signature;
		run->mismatch.got = signature;
		run->mismatch.expected_edge = expected;
		run->mismatch.got_edge = edge;
	}
	return CORALE_EMISMATCH;
}

/* A message that only lands in a local span may be received there. */
static void *landing(const struct host_run *run, const struct host_channel *ch, const struct plan_action *a)
{
	size_t offset;
	int copies = plan_span_run(&ch->env, a, &a->dst, 0, &offset) == a->count && a->op == PLAN_MOVE &&
		     a->from != PLAN_ALL && !a->src.space && a->dst.space == PLAN_RECV &&
		     !(a->flags & PLAN_REDUCE);
	return copies ? (unsigned char *)run->binding.recv + a->dst.offset * run->type_bytes : NULL;
}

static int remote_ready(struct host_run *run, struct host_channel *ch, const struct plan_action *a, int rank,
			size_t expected_bytes)
{
	struct link *link = host_link(run->engine, rank, ch->env.channel, a->from_queue);
	if (!link)
		return host_no_link(run->engine, rank);
	link->landing = landing(run, ch, a);
	link->landing_bytes = expected_bytes;
	int ret = link_ready(link);
	if (ret < 0)
		return log_error(ret, run->engine->rank, "a message of rank %d did not come: %s", rank,
				 corale_strerror(ret));
	if (!ret)
		return 0;
	const struct link_message *message = link_next(link);
	uint64_t fields[2]; /* as send_remote wrote them: signature, edge */
	memcpy(fields, message->header, sizeof fields);
	return check_message(run, ch, a, rank, fields[0], fields[1], message->bytes, expected_bytes);
}

/* 1 when the next message of rank is there and is what this call expects, 0 when it is not there. */
static int message_ready(struct host_run *run, struct host_channel *ch, const struct plan_action *a, int rank)
{
	struct host_engine *e = run->engine;
	size_t bytes = host_message_bytes(run, a);
	if (rank == e->rank) {
		const uint64_t *t = host_token(run->engine, ch->env.channel, a->from_queue);
		return t[0] > t[1];
	}
	if (!host_is_local(e, rank))
		return remote_ready(run, ch, a, rank, bytes);
	struct host_in *in = host_in(e, e->map.local_of[rank], run->plan->queues[a->from_queue].all,
				     ch->env.channel, a->from_queue);
	const struct window_header *header = host_in_ready(in);
	if (!header)
		return 0;
	const int ret =
	    check_message(run, ch, a, rank, header->signature, header->edge, window_bytes(header), bytes);
	return ret == 1 && host_lend_asks(e, e->map.local_of[rank], in, header) ? 0 : ret;
}

int host_sources_ready(struct host_run *run, struct host_channel *ch, struct host_program *p)
{
	const struct plan_action *a = &p->action;
	if (a->from == PLAN_NONE)
		return 1;
	if (a->from != PLAN_ALL)
		return message_ready(run, ch, a, a->from);
	for (int n = host_group_size(run->engine, a->from_group); p->scan < n; p->scan++) {
		int rank = host_member(run->engine, a, a->from_group, p->scan);
		int ret = rank == run->engine->rank ? 1 : message_ready(run, ch, a, rank);
		if (ret <= 0)
			return ret;
	}
	return 1;
}

/* Room for one more message to a remote rank: the link's slots, whatever the plan's depth. */
static int remote_free(struct host_run *run, struct host_channel *ch, const struct plan_action *a, int rank)
{
	struct link *link = host_link(run->engine, rank, ch->env.channel, a->to_queue);
	if (!link)
		return host_no_link(run->engine, rank);
	int ret = link_room(link);
	return ret >= 0 ? ret
			: log_error(ret, run->engine->rank, "a message to rank %d can't leave: %s", rank,
				    corale_strerror(ret));
}

/* Room for one more header in a queue of our window; host_move looks for a slot, if the message needs one. A call with larger
 * or smaller payloads than the last one's starts when those are read: their readers need nothing of this call to get there. */
int host_out_room(struct host_out *out, size_t stride, int depth)
{
	if (stride && out->stride != stride) {
		if (!host_out_free(out, 1))
			return 0;
		out->stride = stride;
	}
	return host_out_free(out, depth);
}

int host_targets_free(struct host_run *run, struct host_channel *ch, const struct plan_action *a)
{
	struct host_engine *e = run->engine;
	if (a->to == PLAN_NONE)
		return 1;
	const struct plan_queue *queue = &run->plan->queues[a->to_queue];
	int depth =
	    queue->sync == PLAN_PARITY ? WINDOW_HEADERS : queue->depth; /* parity: the window's room is all */
	if (a->to == e->rank) {
		const uint64_t *t = host_token(run->engine, ch->env.channel, a->to_queue);
		return t[0] - t[1] < (uint64_t)depth;
	}
	if (a->to != PLAN_ALL && !host_is_local(e, a->to))
		return remote_free(run, ch, a, a->to);
	int d = a->to == PLAN_ALL ? e->locals : e->map.local_of[a->to];
	if (host_sends_to_local(e, a) &&
	    !host_out_room(host_out(e, d, ch->env.channel, a->to_queue), run->stride, depth))
		return 0;
	for (int i = 0, n = host_group_size(run->engine, a->to_group);
	     e->transport && a->to == PLAN_ALL && i < n; i++) {
		int rank = host_member(run->engine, a, a->to_group, i);
		int ret = host_is_local(e, rank) ? 1 : remote_free(run, ch, a, rank);
		if (ret <= 0)
			return ret;
	}
	return 1;
}
