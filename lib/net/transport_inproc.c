/* Ranks that are threads of one process: links are rings that both ends use (link_inproc.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "transport_inproc.h"

struct inproc {
	struct transport base;
	struct transport_params params;
	struct hub *hub;
};

/* What the ranks tell each other when they open. */
struct card {
	uint64_t process; /* process_number() */
	long pid;
	struct hub *hub; /* rank 0's */
	int ready;
};

static struct inproc *of(const struct transport *t)
{
	return (struct inproc *)t;
}

struct hub *transport_inproc_hub(struct transport *t)
{
	return of(t)->hub;
}

static int available(const struct settings *settings, char *why_not, size_t bytes)
{
	(void)settings, (void)why_not, (void)bytes;
	return 1;
}

/* Checks what all ranks said; every rank sees the same cards and so comes to the same answer. */
static int check_cards(const struct transport_params *params, const struct card *cards)
{
	for (int r = 0; r < params->size; r++) {
		if (cards[r].process != cards[0].process)
			return log_error(
			    CORALE_ENOTSUP, params->rank,
			    "transport inproc: rank %d is in process %ld and rank 0 in process %ld; all must "
			    "be threads of one process",
			    r, cards[r].pid, cards[0].pid);
		if (!cards[r].ready)
			return log_error(CORALE_ENOMEM, params->rank,
					 "transport inproc: rank %d has no memory", r);
	}
	return 0;
}

static int open_inproc(const struct transport_ops *ops, const struct transport_params *params,
		       struct transport **out)
{
	struct card mine = { .process = process_number(), .pid = getpid() };
	struct card *cards = calloc((size_t)params->size, sizeof(*cards));
	if (!cards)
		return log_error(CORALE_ENOMEM, params->rank, "transport inproc: no memory for %d ranks",
				 params->size);
	struct inproc *t = calloc(1, sizeof(*t));
	if (params->rank == 0)
		mine.hub = hub_create(params->size);
	mine.ready = t && (params->rank || mine.hub);
	int ret = params->allgather(params->allgather_ctx, &mine, sizeof(mine), cards);
	if (!ret)
		ret = check_cards(params, cards);
	if (ret)
		goto free_own;
	t->base.ops = ops;
	t->params = *params;
	t->hub = cards[0].hub;
	free(cards);
	*out = &t->base;
	return 0;
free_own:
	hub_destroy(mine.hub);
	free(t);
	free(cards);
	return ret;
}

static void report_lost(struct inproc *t, const unsigned char *lost)
{
	for (int r = 0; r < t->params.size; r++)
		if (lost[r])
			t->params.on_failure(t->params.handler_ctx, r, CORALE_EPEER, transport_peer_left);
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
	if (lost)
		report_lost(t, lost);
	free(lost);
	return moved;
}

static int control(struct transport *base, int peer, const void *message, size_t bytes)
{
	struct inproc *t = of(base);
	if (peer < 0 || peer >= t->params.size)
		return log_error(CORALE_EINVAL, t->params.rank,
				 "transport inproc: peer %d; expected one below %d", peer, t->params.size);
	if (bytes > TRANSPORT_CONTROL_BYTES)
		return log_error(CORALE_EINVAL, t->params.rank,
				 "transport inproc: a control message of %zu bytes; at most %d", bytes,
				 TRANSPORT_CONTROL_BYTES);
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

static int threaded(const struct transport *t)
{
	(void)t;
	return 0;
}

static void describe(const struct transport *t, int peer, char *buf, size_t bytes)
{
	(void)t;
	snprintf(buf, bytes, "memory of this process, to rank %d", peer);
}

static void close_inproc(struct transport *base)
{
	if (!base)
		return;
	hub_leave(of(base)->hub, of(base)->params.rank);
	free(base);
}

const struct transport_ops transport_inproc = {
	.name = "inproc",
	.available = available,
	.open = open_inproc,
	.links = &link_inproc,
	.progress = progress,
	.control = control,
	.fail = fail,
	.threaded = threaded,
	.describe = describe,
	.close = close_inproc,
};
