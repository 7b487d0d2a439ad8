/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages of other nodes. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "control_messages.h"
#include "diagnose.h"
#include "presence.h"
#include "stall.h"

/* Several rails may have messages of a rank at a time. */
static void keep_message(struct comm *comm, const struct control *c)
{
	struct comm_peer *peer = &comm->peers[c->rank];
	pthread_mutex_lock(&comm->error_lock);
	if (c->kind == KIND_TEXT)
		memcpy(peer->texts[c->how], c->text, WINDOW_REASON);
	for (int i = COMM_PEER_CALLS - 1; c->kind != KIND_TEXT && i >= 0; i--) {
		const struct record *r = &c->records[i];
		if (r->number && !diagnose_has_called(comm, c->rank, r->number))
			journal_write(peer->calls, COMM_PEER_CALLS, r->number, r->number, r);
	}
	pthread_mutex_unlock(&comm->error_lock);
}

/* Ranks become indices and codes the texts of errors, so neither is taken as it comes. */
static int is_sound(const struct comm *comm, const struct control *c, int peer)
{
	int code = 0;
	if (c->kind == KIND_ABORT || c->kind == KIND_REPLY)
		code = c->code < 0 && c->code >= CORALE_EINTERNAL && c->how >= 0 &&
		       c->how <= 1 + WINDOW_REVOKED && (c->at || c->kind == KIND_REPLY);
	else if (c->kind == KIND_ANSWER)
		code = c->code >= STALL_HOST && c->code <= STALL_RUNNING;
	else if (c->kind == KIND_LEFT)
		code = c->code > WINDOW_PRESENT && c->code <= WINDOW_REVOKED;
	else
		code = (c->kind == KIND_CALLS || c->kind == KIND_ASK ||
			(c->kind == KIND_TEXT && c->how >= 0 && c->how < WINDOW_TEXTS)) &&
		       !c->code;
	return code && c->rank == peer && c->culprit >= 0 && c->culprit < comm->size;
}

static void hear_of_leaving(struct comm *comm, int peer, enum window_left how)
{
	char text[COMM_ERROR_BYTES], name[160];
	presence_told(comm, peer, how);
	if (how != WINDOW_EXITED || comm->traits.leaves_quietly || diagnose_peers(comm))
		return;
	presence_print_rank(comm, peer, name, sizeof name);
	snprintf(text, sizeof text, "%s has called exit() without corale_comm_destroy", name);
	comm_fail_by(comm, CORALE_EPEER, peer, text);
}

/* To a peer that this rank had not met when it left. */
static void answer_gone(struct comm *comm, int peer)
{
	const int how = presence_how(comm, comm->rank) - 1;
	if (how > WINDOW_PRESENT)
		control_send(comm, KIND_LEFT, how, comm->rank, peer);
}

static void answer(struct comm *comm, int peer)
{
	const struct window_control *control = comm_control(comm, comm->rank);
	const uint64_t waits = control ? atomic_load(&control->waits) : 0;
	control_send_records(comm,
			     (struct control){ .kind = KIND_ANSWER,
					       .code = stall_own_state(comm),
					       .culprit = comm->rank,
					       .rank = comm->rank,
					       .at = waits && window_wait_rank(waits) == peer ? waits : 0 },
			     peer);
}

void diagnose_control(void *ctx, int peer, const void *message, size_t bytes)
{
	struct comm *comm = ctx;
	struct control c;
	if (bytes == sizeof c)
		memcpy(&c, message, sizeof c);
	if (bytes != sizeof c || !is_sound(comm, &c, peer)) {
		if (!atomic_fetch_add(&comm->watch.damaged, 1))
			log_line(LOG_WARN, comm->rank,
				 "a control message of %zu bytes of rank %d is damaged, or no rank of this "
				 "communicator sent it: it is dropped; see docs/security.md",
				 bytes, peer);
		return;
	}
	keep_message(comm, &c);
	if (c.kind == KIND_ASK || c.kind == KIND_CALLS)
		answer_gone(comm, peer);
	if (c.kind == KIND_ASK)
		answer(comm, peer);
	if (c.kind == KIND_ANSWER) {
		atomic_store(&comm->peers[peer].waits, c.at);
		stall_answered(comm, peer, (enum stall_state)c.code);
	}
	if (c.kind == KIND_LEFT)
		hear_of_leaving(comm, peer, (enum window_left)c.code);
	if (c.kind != KIND_ABORT)
		return;
	control_signal_node(comm, &(struct ending){ c.code, c.culprit, c.how, c.at });
	control_send(comm, KIND_REPLY, c.code, comm->rank, peer);
}
