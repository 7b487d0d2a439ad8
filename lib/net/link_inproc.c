/* Links among threads of one process: both ends use the receiver's slots, so filling one is sending. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport_inproc.h"

struct inproc_link {
	struct link base;
	struct hub *hub;
	struct link_params params;
	struct hub_ring *out, *in;
};

static struct inproc_link *of(struct link *l)
{
	return (struct inproc_link *)l;
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	struct inproc_link *l = calloc(1, sizeof *l);
	if (!l)
		return CORALE_ENOMEM;
	l->base.ops = &link_inproc;
	l->base.peer = params->peer;
	l->base.lane = params->lane;
	l->base.slot_bytes = params->memory ? params->memory->bytes : params->slots->bytes;
	l->hub = ((struct inproc *)t)->hub;
	l->params = *params;
	*out = &l->base;
	return 0;
}

static int no_memory(const struct inproc_link *l)
{
	return log_error(CORALE_ENOMEM, l->params.rank, "no memory for slots of %zu bytes to rank %d",
			 l->base.slot_bytes, l->base.peer);
}

static int open_in(struct link *base)
{
	struct inproc_link *l = of(base);
	l->in = hub_ring(l->hub, base->peer, l->params.rank, &l->params);
	if (!l->in)
		return no_memory(l);
	base->in = l->in->messages;
	base->in_depth = l->in->depth;
	base->in_open = 1;
	return 0;
}

/* Where the receiver brings its own memory, its slots are there when it has opened its end. */
static int open_out(struct link *base)
{
	struct inproc_link *l = of(base);
	l->out = hub_ring(l->hub, l->params.rank, base->peer, &l->params);
	if (!l->out)
		return base->lane < l->params.slots->lanes ? no_memory(l) : 0;
	if (l->out->bytes != base->slot_bytes)
		return log_error(CORALE_EMISMATCH, l->params.rank,
				 "transport inproc: slots of %zu bytes where rank %d has %zu",
				 base->slot_bytes, base->peer, l->out->bytes);
	base->out = l->params.memory ? l->params.memory->out : l->out->messages[0].data;
	base->out_depth = l->out->depth;
	base->out_open = 1;
	atomic_store_explicit(&base->limit, (uint64_t)l->out->depth, memory_order_relaxed);
	return 0;
}

static int post(struct link *base, const void *header, const void *data, size_t bytes)
{
	struct inproc_link *l = of(base);
	struct link_message *m = &l->out->messages[base->posted % (uint64_t)base->out_depth];
	const unsigned char *from = data ? data : link_slot(base);
	int ret = hub_failure(l->hub, l->params.rank);
	if (ret)
		return ret;
	memcpy(m->header, header, sizeof m->header);
	m->bytes = bytes;
	if (from != m->data && bytes)
		memcpy(m->data, from, bytes);
	atomic_store_explicit(&l->out->arrived, ++base->posted, memory_order_release);
	return 0;
}

static int release(struct link *base)
{
	const uint64_t taken = link_taken(base) + 1;
	atomic_store_explicit(&base->taken, taken, memory_order_relaxed);
	atomic_store_explicit(&of(base)->in->taken, taken, memory_order_release);
	return 0;
}

static int poll_link(struct link *base, int sends)
{
	struct inproc_link *l = of(base);
	const int lost = hub_lost(l->hub, l->params.rank, base->peer);
	int moved;
	if (sends) {
		const uint64_t limit =
		    atomic_load_explicit(&l->out->taken, memory_order_acquire) + (uint64_t)base->out_depth;
		atomic_store_explicit(&base->limit, limit, memory_order_relaxed);
		moved = base->posted < limit;
	} else {
		const uint64_t arrived = atomic_load_explicit(&l->in->arrived, memory_order_acquire);
		atomic_store_explicit(&base->arrived, arrived, memory_order_relaxed);
		moved = arrived > link_taken(base);
	}
	if (moved || !lost)
		return 0;
	if (lost == CORALE_EPEER)
		hub_report(l->hub, l->params.rank, base->peer);
	return lost;
}

static void free_link(struct link *base)
{
	const struct link_memory *memory = of(base)->params.memory;
	if (memory && memory->release && base->out_open)
		memory->release(memory->ctx);
	free(base);
}

const struct link_ops link_inproc = {
	.open = open_link,
	.open_in = open_in,
	.open_out = open_out,
	.post = post,
	.release = release,
	.poll = poll_link,
	.free = free_link,
};
