/* Ranks that are threads of one process: links are rings that both ends use (link_inproc.c). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "transport_inproc.h"

static const struct transport_ops ops;

static struct inproc *of(const struct transport *t)
{
	return (struct inproc *)t;
}

/* The ranks of this process reach each other. */
static uint64_t probe(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	(void)row, (void)gpus, (void)why_not, (void)bytes;
	return process_number();
}

static int open_inproc(const struct transport_row *row, const struct transport_params *params,
		       struct transport **out)
{
	struct inproc *t = calloc(1, sizeof(*t));
	(void)row;
	if (t && params->rank == 0)
		t->made = hub_create(params->size);
	if (!t || (params->rank == 0 && !t->made)) {
		free(t);
		return log_error(CORALE_ENOMEM, params->rank, "transport inproc: no memory for %d ranks",
				 params->size);
	}
	t->base = (struct transport){ .ops = &ops, .address = &t->made, .address_bytes = sizeof(t->made) };
	t->params = *params;
	*out = &t->base;
	return 0;
}

static int connect_inproc(struct transport *t)
{
	memcpy(&of(t)->hub, transport_address(t, 0), sizeof(of(t)->hub));
	return 0;
}

static int progress(struct transport *base)
{
	struct inproc *t = of(base);
	struct hub_note *notes, *next;
	unsigned char *lost;
	int moved = hub_take(t->hub, t->params.rank, &notes, &lost);

	for (; notes; notes = next) {
		next = notes->next;
		t->params.on_control(t->params.handler_ctx, notes->from, notes->message, notes->bytes);
		free(notes);
	}
	for (int r = 0; lost && r < t->params.size; r++)
		if (lost[r])
			t->params.on_failure(t->params.handler_ctx, r, CORALE_EPEER, transport_peer_left);
	free(lost);
	return moved;
}

static int control(struct transport *base, int peer, const void *message, size_t bytes)
{
	struct inproc *t = of(base);
	struct hub_note *note = calloc(1, sizeof(*note));
	if (!note)
		return log_error(CORALE_ENOMEM, t->params.rank,
				 "transport inproc: no memory for a control message");
	note->from = t->params.rank;
	note->bytes = bytes;
	memcpy(note->message, message, bytes);
	hub_put(t->hub, peer, note);
	return 0;
}

static void fail(struct transport *t, int code)
{
	hub_fail(of(t)->hub, of(t)->params.rank, code);
}

static void close_inproc(struct transport *base)
{
	struct inproc *t = of(base);

	if (t->hub)
		hub_leave(t->hub, t->params.rank);
	else
		hub_destroy(t->made);
	free(t);
}

static const struct transport_ops ops = {
	.mover = TRANSPORT_BY_ANY_THREAD,
	.connect = connect_inproc,
	.links = &link_inproc,
	.progress = progress,
	.control = control,
	.fail = fail,
	.close = close_inproc,
};

const struct transport_row transport_inproc = { .name = "inproc", .probe = probe, .open = open_inproc };
