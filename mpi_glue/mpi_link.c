/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A packet travels for each message: its header, and a payload that is small. A larger payload follows it as a message of
 * MPI's own, and lands in the slot, or where its user awaits it. One packet of a link is asked for at a time: that of the awaited
 * message, and behind a long one the next, while behind a short one none is, which every look at the network would have to pass.
 */
#include "mpi_held.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static struct mpi_link *of(struct link *l)
{
	return (struct mpi_link *)l;
}

static int code_of(const struct mpi_link *l)
{
	const int failure = atomic_load_explicit(&l->transport->failure, memory_order_relaxed);
	return failure ? failure : atomic_load_explicit(&l->lost, memory_order_relaxed);
}

/* 0, or CORALE_EPEER: the peer has closed its side, and takes no message, or has sent all that it ever will. */
static int find_left(const struct mpi_link *l, int sends)
{
	struct mpi_transport *t = l->transport;
	struct mpi_peer *p = &t->peers[l->base.peer];
	const uint64_t *ends = atomic_load_explicit(&p->ends, memory_order_acquire);
	if (!ends || (!sends && link_taken(&l->base) < ends[l->base.index]))
		return 0;
	if (!atomic_exchange(&p->reported, 1))
		atomic_store(&t->left, 1 + l->base.peer);
	return CORALE_EPEER;
}

void mpi_link_ends(const struct mpi_transport *t, int peer, uint64_t *ends)
{
	memset(ends, 0, TRANSPORT_MAX_LINKS * sizeof(*ends));
	for (const struct mpi_link *l = t->peers[peer].links; l; l = l->next)
		ends[l->base.index] = l->base.posted;
}

static int check_thread(const struct mpi_link *l)
{
	return mpi_may_call(l->transport)
		   ? 0
		   : log_error(CORALE_ENOTSUP, l->params.rank,
			       "transport mpi: this thread has not made the communicator, and MPI has a "
			       "thread level below MPI_THREAD_SERIALIZED: ask MPI_Init_thread for that, or "
			       "make all calls from one thread");
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	struct mpi_link *l = calloc(1, sizeof(*l));
	if (!l)
		return log_error(CORALE_ENOMEM, params->rank, "no memory for a link to rank %d",
				 params->peer);
	link_init(&l->base, &mpi_link_ops, params);
	l->base.direct = 1;
	l->transport = (struct mpi_transport *)t;
	l->params = *params;
	mpi_lock(l->transport);
	struct mpi_link **links = &l->transport->peers[params->peer].links;
	l->next = *links;
	*links = l;
	mpi_unlock(l->transport);
	*out = &l->base;
	return 0;
}

/* Asks for the awaited message, if nothing is asked for, and looks whether it is there. */
static int ask_and_look(struct mpi_link *l)
{
	int ret = check_thread(l);
	if (ret)
		return ret;
	mpi_lock(l->transport);
	if (!l->transport->failure) {
		const int awaited = l->opened == link_taken(&l->base);
		ret = awaited || !l->base.landing
			  ? mpi_link_ask(l, awaited ? l->base.landing : NULL, l->base.landing_bytes)
			  : 0;
		mpi_link_advance(l->transport);
	}
	mpi_unlock(l->transport);
	return ret;
}

/* Memory of one direction; NULL: there is none, as was logged. *slots: the user's, or ours; *others: what else a slot has. */
static struct mpi_op *make(struct mpi_link *l, int sends, int *depth, unsigned char **slots, void **others)
{
	const struct link_memory *memory = l->params.memory;
	const size_t n =
	    (size_t)(*depth = memory ? memory->depth : link_reserve(l->params.slots, l->params.rank));
	struct mpi_op *ops = calloc(n, sizeof(*ops));
	*slots = memory ? (sends ? memory->out : memory->in) : malloc(n * l->base.slot_bytes);
	*others = sends ? malloc(n * sizeof(*l->packets)) : calloc(n, sizeof(*l->base.in));
	for (size_t i = 0; ops && i < n; i++)
		ops[i] = (struct mpi_op){ .requests = { MPI_REQUEST_NULL, MPI_REQUEST_NULL },
					  .peer = l->base.peer,
					  .link = l,
					  .sends = sends };
	if (ops && *slots && *others)
		return ops;
	free(ops);
	free(*others);
	if (!memory) {
		free(*slots);
		*slots = NULL;
		link_unreserve(l->params.slots, *depth);
	}
	log_error(CORALE_ENOMEM, l->params.rank, "no memory for %d slots of %zu bytes to rank %d", *depth,
		  l->base.slot_bytes, l->base.peer);
	return NULL;
}

static int open_in(struct link *base)
{
	struct mpi_link *l = of(base);
	const int code = code_of(l);
	void *messages;
	if (code)
		return code;
	if (!(l->ins = make(l, 0, &base->in_depth, &l->slots, &messages)))
		return CORALE_ENOMEM;
	base->in = messages;
	base->in_open = 1;
	return ask_and_look(l);
}

static int open_out(struct link *base)
{
	struct mpi_link *l = of(base);
	const int code = code_of(l);
	void *packets;
	if (code)
		return code;
	if (!(l->outs = make(l, 1, &base->out_depth, &base->out, &packets)))
		return CORALE_ENOMEM;
	l->packets = packets;
	base->out_open = 1;
	atomic_store_explicit(&base->limit, (uint64_t)base->out_depth, memory_order_relaxed);
	return 0;
}

/* Gives MPI the packet, and a payload that is too large for it. Under the lock. */
static int start(struct mpi_link *l, struct mpi_op *op, const struct mpi_packet *packet, const void *payload)
{
	struct mpi_transport *t = l->transport;
	const int bytes = (int)packet->bytes, small = bytes <= MPI_LINK_INLINE_BYTES,
		  head = (int)(sizeof(*packet) - MPI_LINK_INLINE_BYTES), rank = t->peers[l->base.peer].rank,
		  tag = mpi_link_tag_to(l, l->base.peer);
	int error =
	    MPI_Isend(packet, head + (small ? bytes : 0), MPI_BYTE, rank, tag, t->comm, &op->requests[0]);
	if (error)
		return mpi_link_failed(l, error);
	l->base.posted++;
	mpi_link_hold(&t->held, op);
	if (!small)
		error = MPI_Isend(payload, bytes, MPI_BYTE, rank, tag + 1, t->comm, &op->requests[1]);
	if (error)
		return mpi_link_failed(l, error);
	mpi_link_advance(t);
	return 0;
}

static int post(struct link *base, const void *header, const void *data, size_t bytes)
{
	struct mpi_link *l = of(base);
	const uint64_t i = base->posted % (uint64_t)base->out_depth;
	struct mpi_packet *packet = &l->packets[i];
	const void *payload = data ? data : link_slot(base);
	int ret = check_thread(l);
	if (ret)
		return ret;
	packet->bytes = bytes;
	memcpy(packet->header, header, sizeof(packet->header));
	if (bytes && bytes <= MPI_LINK_INLINE_BYTES)
		memcpy(packet->payload, payload, bytes);
	mpi_lock(l->transport);
	ret = code_of(l);
	ret = ret ? ret : find_left(l, 1);
	l->outs[i].borrows = data && bytes > MPI_LINK_INLINE_BYTES;
	if (!ret)
		ret = start(l, &l->outs[i], packet, payload);
	mpi_unlock(l->transport);
	return ret;
}

static int poll_link(struct link *base, int sends)
{
	struct mpi_link *l = of(base);
	const uint64_t ready = atomic_load_explicit(&base->arrived, memory_order_acquire) - link_taken(base);
	int ret = 0;
	if (sends ? base->posted >= atomic_load_explicit(&base->limit, memory_order_acquire) : !ready)
		ret = code_of(l) ? code_of(l) : find_left(l, sends);
	if (ret || sends || ready == (uint64_t)base->in_depth ||
	    atomic_load_explicit(&l->asked, memory_order_relaxed))
		return ret;
	return ask_and_look(l);
}

/* Behind a long message the next one is asked for before its user comes for it. */
static int release(struct link *base)
{
	struct mpi_link *l = of(base);
	const int is_long = link_next(base)->bytes > MPI_LINK_INLINE_BYTES;
	atomic_store_explicit(&base->taken, link_taken(base) + 1, memory_order_relaxed);
	return is_long && !base->landing && !atomic_load_explicit(&l->asked, memory_order_relaxed)
		   ? ask_and_look(l)
		   : 0;
}

static int is_sent(struct link *base)
{
	return of(base)->abandoned || atomic_load_explicit(&base->limit, memory_order_acquire) ==
					  base->posted + (uint64_t)base->out_depth;
}

static void free_link(struct link *base)
{
	struct mpi_link *l = of(base);
	const struct link_memory *memory = l->params.memory;
	if (l->abandoned)
		return;
	for (int i = 0; memory && memory->release && i < base->in_open + base->out_open; i++)
		memory->release(memory->ctx);
	if (!memory) {
		free(l->slots);
		free(base->out);
	}
	free(base->in);
	free(l->ins);
	free(l->outs);
	free(l->packets);
	free(l);
}

const struct link_ops mpi_link_ops = {
	.open = open_link,
	.open_in = open_in,
	.open_out = open_out,
	.post = post,
	.release = release,
	.poll = poll_link,
	.sent = is_sent,
	.free = free_link,
};
