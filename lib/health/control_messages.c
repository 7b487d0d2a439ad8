/* SPDX-License-Identifier: BSD-3-Clause */
#include "control_messages.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "diagnose.h"
#include "net/transport.h"

_Static_assert(sizeof(struct control) <= TRANSPORT_CONTROL_BYTES, "a control message has room");

/* The call before the code, as who sees the code reads both. */
static void set_abort(struct window_control *control, const struct ending *end)
{
	uint64_t none = 0, at = atomic_load(&control->abort_at);
	while ((!at || end->at < at) && !atomic_compare_exchange_weak(&control->abort_at, &at, end->at))
		;
	atomic_compare_exchange_strong(&control->abort, &none,
				       (uint64_t)end->how << 48 | (uint64_t)(uint32_t)-end->code << 32 |
					   (uint32_t)(end->culprit + 1));
}

void control_signal_node(const struct comm *comm, const struct ending *end)
{
	const struct host_engine *e = &comm->engine;
	for (int q = 0; e->windows && q < e->locals; q++)
		set_abort(e->windows[q], end);
}

uint64_t control_abort_word(const struct comm *comm)
{
	struct window_control *control = comm_control(comm, comm->rank);
	return control ? atomic_load(&control->abort) : 0;
}

struct ending control_read_ending(const struct comm *comm, uint64_t word)
{
	const long code = -(long)(word >> 32 & 0xffff), culprit = (long)(word & 0xffffffff) - 1,
		   how = (long)(word >> 48);
	if (code_of_peer(code) != code || culprit < 0 || culprit >= comm->size || how > 1 + WINDOW_REVOKED)
		return (struct ending){ CORALE_EINTERNAL, NOBODY, 0, EVERYWHERE };
	return (struct ending){ (int)code, (int)culprit, (int)how, EVERYWHERE };
}

void control_send_records(struct comm *comm, struct control c, int peer)
{
	uint64_t last = atomic_load(&comm->number);
	for (uint64_t i = 0; i < COMM_PEER_CALLS && i < last; i++)
		c.records[i] = records_get(comm, comm->rank, last - i);
	struct transport *t = comm->engine.transport;
	if (t) /* not where it is being opened, and a peer that has failed behind that says so */
		transport_control(t, peer, &c, sizeof c);
}

void control_send(struct comm *comm, int kind, int code, int culprit, int peer)
{
	control_send_records(
	    comm, (struct control){ .kind = kind, .code = code, .culprit = culprit, .rank = comm->rank },
	    peer);
}

void control_send_abort(struct comm *comm, const struct ending *end, int peer)
{
	control_send_records(comm,
			     (struct control){ .kind = KIND_ABORT,
					       .code = end->code,
					       .culprit = end->culprit,
					       .rank = comm->rank,
					       .how = end->how,
					       .at = end->at },
			     peer);
}

void diagnose_ask(struct comm *comm, int rank)
{
	control_send(comm, KIND_ASK, 0, comm->rank, rank);
}

void diagnose_send_calls(struct comm *comm, int rank)
{
	control_send(comm, KIND_CALLS, 0, comm->rank, rank);
}

/* Text in words, as other processes may read it meanwhile. */
void control_publish_text(struct comm *comm, enum window_text which, const char *text)
{
	struct window_control *control = comm_control(comm, comm->rank);
	uint64_t words[WINDOW_REASON / 8] = { 0 };
	snprintf((char *)words, sizeof words, "%s", text);
	for (size_t i = 0; control && i < sizeof words / sizeof *words; i++)
		atomic_store_explicit(&control->texts[which][i], words[i], memory_order_relaxed);
}

/* 1 if the rank has said why. Any process of the node may have written it: it is text that ends, no more. */
int control_read_text(struct comm *comm, enum window_text which, int rank, char *buf)
{
	struct window_control *control = comm_control(comm, rank);
	uint64_t words[WINDOW_REASON / 8] = { 0 };
	if (control) {
		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			words[i] = atomic_load_explicit(&control->texts[which][i], memory_order_relaxed);
		memcpy(buf, words, WINDOW_REASON);
	} else {
		pthread_mutex_lock(&comm->error_lock);
		memcpy(buf, comm->peers[rank].texts[which], WINDOW_REASON);
		pthread_mutex_unlock(&comm->error_lock);
	}
	buf[WINDOW_REASON - 1] = 0;
	return buf[0] != 0;
}

void control_send_text(struct comm *comm, enum window_text which, int peer)
{
	struct control c = { .kind = KIND_TEXT, .how = which, .culprit = comm->rank, .rank = comm->rank };
	char text[WINDOW_REASON];
	if (!control_read_text(comm, which, comm->rank, text))
		return;
	memcpy(c.text, text, sizeof c.text);
	transport_control(comm->engine.transport, peer, &c, sizeof c);
}

void diagnose_refuse(struct comm *comm, uint64_t number, const char *why)
{
	char text[WINDOW_REASON];
	snprintf(text, sizeof text, "%llu %s", (unsigned long long)number, why);
	control_publish_text(comm, WINDOW_REFUSED, text);
}

void diagnose_send_refusal(struct comm *comm)
{
	const struct host_engine *e = &comm->engine;
	for (int r = 0; e->transport && r < comm->size; r++)
		if (!host_is_local(e, r)) {
			control_send_text(comm, WINDOW_REFUSED, r);
			diagnose_send_calls(comm, r);
		}
	transport_progress(e->transport); /* which may have no thread */
}
