/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A packet travels for each message: its header, and a payload that is small. A larger payload follows it as a message of
 * MPI's own, and lands in the slot, or where its user awaits it. One packet of a link is asked for at a time: that of the awaited
 * message, and behind a long one the next, while behind a short one none is, which every look at the network would have to pass.
 */
#include "mpi_link.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "mpi_retire.h"

struct mpi_link {
	struct link base;
	struct mpi_transport *transport;
	struct mpi_link *next; /* to the same peer */
	struct link_params params;
	_Atomic int lost; /* 0, or why nothing comes or goes any more */
	_Atomic int abandoned; /* MPI was left with something of it */
	/* sending */
	struct mpi_op *outs;
	struct mpi_packet *packets;
	uint64_t reaped; /* messages that MPI has let go of */
	/* receiving */
	struct mpi_op *ins;
	unsigned char *slots;
	_Atomic int asked; /* for a packet */
	uint64_t opened; /* messages whose packets came */
	void *landing; /* of the message that was asked for, if it has so many bytes; NULL: its slot */
	size_t landing_bytes;
	struct mpi_packet packet;
};

static struct mpi_link *of(struct link *l)
{
	return (struct mpi_link *)l;
}

/* ---- Who may call MPI ---- */

int mpi_may_call(const struct mpi_transport *t)
{
	return t->level >= MPI_THREAD_SERIALIZED || pthread_equal(t->opener, pthread_self());
}

/* Communicators may be used by several threads at once; MPI may not, below MPI_THREAD_MULTIPLE. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

void mpi_lock(struct mpi_transport *t)
{
	pthread_mutex_lock(&t->lock);
	if (t->level < MPI_THREAD_MULTIPLE)
		pthread_mutex_lock(&one_at_a_time);
}

int mpi_try_lock(struct mpi_transport *t)
{
	int busy = pthread_mutex_trylock(&t->lock);
	if (busy || t->level == MPI_THREAD_MULTIPLE)
		return busy;
	busy = pthread_mutex_trylock(&one_at_a_time);
	if (busy)
		pthread_mutex_unlock(&t->lock);
	return busy;
}

void mpi_unlock(struct mpi_transport *t)
{
	if (t->level < MPI_THREAD_MULTIPLE)
		pthread_mutex_unlock(&one_at_a_time);
	pthread_mutex_unlock(&t->lock);
}

int mpi_enter(void)
{
	int level;
	MPI_Query_thread(&level);
	if (level < MPI_THREAD_MULTIPLE)
		pthread_mutex_lock(&one_at_a_time);
	return level;
}

void mpi_leave(int level)
{
	if (level < MPI_THREAD_MULTIPLE)
		pthread_mutex_unlock(&one_at_a_time);
}

/* ---- Failures ---- */

static int lose(struct mpi_link *l, int code)
{
	struct mpi_transport *t = l->transport;
	atomic_store_explicit(&l->lost, code, memory_order_relaxed);
	t->lost = 1 + l->base.peer;
	t->lost_code = code;
	return code;
}

static int mpi_failed(struct mpi_link *l, int error)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;
	MPI_Error_string(error, text, &length);
	return lose(l,
		    log_error(CORALE_EPEER, l->params.rank,
			      "transport mpi: a message to or from rank %d failed: %s", l->base.peer, text));
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

/* ---- What MPI holds: under the lock ---- */

static void hold(struct mpi_op_list *list, struct mpi_op *op)
{
	op->next = NULL;
	*list->end = op;
	list->end = &op->next;
}

/* Of a packet to a rank, its own too; that of its payload is the next one. */
static int tag_to(const struct mpi_link *l, int rank)
{
	return l->transport->peers[rank].first_tag + 2 * l->base.index;
}

/* A message has left: those behind it that had left before count now. */
static void reap(struct mpi_link *l)
{
	const uint64_t depth = (uint64_t)l->base.out_depth;
	for (; l->reaped < l->base.posted && l->outs[l->reaped % depth].complete; l->reaped++)
		l->outs[l->reaped % depth].complete = 0;
	atomic_store_explicit(&l->base.limit, l->reaped + depth, memory_order_release);
}

static void publish(struct mpi_link *l)
{
	const uint64_t depth = (uint64_t)l->base.in_depth;
	uint64_t arrived = atomic_load_explicit(&l->base.arrived, memory_order_relaxed);
	for (; arrived < l->opened && l->ins[arrived % depth].complete; arrived++)
		l->ins[arrived % depth].complete = 0;
	atomic_store_explicit(&l->base.arrived, arrived, memory_order_release);
}

static void finish(struct mpi_op *op)
{
	op->complete = 1;
	if (!op->link)
		free(op);
	else if (op->sends)
		reap(op->link);
	else
		publish(op->link);
}

/* 1 if MPI has let go of it. */
static int is_over(struct mpi_op *op)
{
	int there = 0, error = MPI_Testall(2, op->requests, &there, MPI_STATUSES_IGNORE);
	if (error && op->link)
		mpi_failed(op->link, error);
	else if (there)
		finish(op);
	return error || there;
}

/* ---- Receiving: under the lock ---- */

/* Room for one more awaited packet. */
static int make_room(struct mpi_awaited *a)
{
	const size_t room = 2 * (size_t)a->room + 8;
	if (a->count < a->room)
		return 0;
	MPI_Request *requests = realloc(a->requests, room * sizeof(*requests));
	a->requests = requests ? requests : a->requests;
	struct mpi_link **links = realloc(a->links, room * sizeof(*links));
	a->links = links ? links : a->links;
	if (!requests || !links)
		return MPI_ERR_NO_MEM;
	a->room = (int)room;
	return 0;
}

/* Asks for the next message, if its slot is free. landing: where it may land, if it has so many bytes; or NULL. */
static int ask(struct mpi_link *l, void *landing, size_t landing_bytes)
{
	struct mpi_transport *t = l->transport;
	struct mpi_awaited *a = &t->awaited;
	if (l->asked || l->opened >= link_taken(&l->base) + (uint64_t)l->base.in_depth)
		return 0;
	int error = make_room(a);
	if (!error)
		error = MPI_Irecv(&l->packet, sizeof(l->packet), MPI_BYTE, t->peers[l->base.peer].rank,
				  tag_to(l, l->params.rank), t->comm, &a->requests[a->count]);
	if (error)
		return mpi_failed(l, error);
	a->links[a->count++] = l;
	l->landing = landing;
	l->landing_bytes = landing_bytes;
	atomic_store_explicit(&l->asked, 1, memory_order_relaxed);
	return 0;
}

static int too_long(struct mpi_link *l)
{
	return lose(l, log_error(CORALE_ETRANSPORT, l->params.rank,
				 "transport mpi: rank %d sent a message of %llu bytes on link %d, whose "
				 "slots have %zu: refused; do all ranks run the same build?",
				 l->base.peer, (unsigned long long)l->packet.bytes, l->base.index,
				 l->base.slot_bytes));
}

/* A packet is there: completes its message, or begins to receive the payload that follows. */
static int open_packet(struct mpi_link *l)
{
	struct mpi_transport *t = l->transport;
	const uint64_t i = l->opened % (uint64_t)l->base.in_depth;
	const size_t bytes = l->packet.bytes;
	struct link_message *m = &l->base.in[i];
	struct mpi_op *op = &l->ins[i];
	const int lands = l->landing && bytes == l->landing_bytes && !t->failure;
	if (bytes > l->base.slot_bytes)
		return too_long(l);
	memcpy(m->header, l->packet.header, sizeof(m->header));
	m->bytes = bytes;
	m->data = lands ? l->landing : l->slots + i * l->base.slot_bytes;
	l->opened++;
	if (bytes <= MPI_LINK_INLINE_BYTES) {
		if (bytes)
			memcpy(m->data, l->packet.payload, bytes);
		finish(op);
		return 0;
	}
	op->borrows = lands;
	const int error = MPI_Irecv(m->data, (int)bytes, MPI_BYTE, t->peers[l->base.peer].rank,
				    tag_to(l, l->params.rank) + 1, t->comm, &op->requests[1]);
	if (error)
		return mpi_failed(l, error);
	hold(&t->held, op);
	return lands || t->failure ? 0 : ask(l, NULL, 0);
}

/* MPI has done with an awaited packet. */
static struct mpi_link *forget(struct mpi_awaited *a, int i)
{
	struct mpi_link *l = a->links[i];
	a->count--;
	a->requests[i] = a->requests[a->count];
	a->links[i] = a->links[a->count];
	atomic_store_explicit(&l->asked, 0, memory_order_relaxed);
	return l;
}

/* Opens the packets that are there: one look at all of them, as a proxy awaits one on each link of each peer. */
static int open_packets(struct mpi_awaited *a)
{
	int moved = 0, there = 1, i, error;
	while (a->count && there) {
		error = MPI_Testany(a->count, a->requests, &i, &there, MPI_STATUS_IGNORE);
		if (!there || i == MPI_UNDEFINED)
			return moved;
		struct mpi_link *l = forget(a, i);
		if (error)
			mpi_failed(l, error);
		else
			open_packet(l);
		moved = 1;
	}
	return moved;
}

/* ---- All links: under the lock ---- */

/* Control messages that came while no thread could call MPI. */
static void start_notes(struct mpi_transport *t)
{
	const size_t head = sizeof(struct mpi_packet) - MPI_LINK_INLINE_BYTES;
	for (struct mpi_op *op; (op = t->notes.first);) {
		t->notes.first = op->next;
		if (MPI_Isend(op->packet, (int)(head + op->packet->bytes), MPI_BYTE, t->peers[op->peer].rank,
			      t->peers[op->peer].first_tag + MPI_LINK_CONTROL_TAG, t->comm, &op->requests[0]))
			t->lost = 1 + op->peer, t->lost_code = CORALE_EPEER;
		hold(&t->held, op);
	}
	t->notes.end = &t->notes.first;
}

int mpi_link_advance(struct mpi_transport *t)
{
	int moved = open_packets(&t->awaited);
	start_notes(t);
	for (struct mpi_op **at = &t->held.first, *op; (op = *at);) {
		struct mpi_op *next = op->next;
		if (!is_over(op)) {
			at = &op->next;
			continue;
		}
		*at = next;
		if (!next)
			t->held.end = at;
		moved = 1;
	}
	return moved;
}

void mpi_link_cancel(struct mpi_transport *t)
{
	struct mpi_awaited *a = &t->awaited;
	for (int i = a->count - 1; i >= 0; i--) {
		MPI_Status status;
		int done = 0, cancelled = 0;
		MPI_Cancel(&a->requests[i]);
		if (MPI_Test(&a->requests[i], &done, &status) || !done)
			continue;
		MPI_Test_cancelled(&status, &cancelled);
		struct mpi_link *l = forget(a, i);
		if (!cancelled)
			open_packet(l);
	}
}

/* MPI keeps messages to or from a peer. */
static void abandon(struct mpi_transport *t, int peer)
{
	if (t->partners)
		atomic_store(&t->partners[t->peers[peer].rank], MPI_PARTNER_ABANDONED);
}

static void abandon_link(struct mpi_link *l)
{
	l->abandoned = 1;
	abandon(l->transport, l->base.peer);
}

static int is_abandoned(const struct mpi_transport *t, int peer)
{
	return t->partners && atomic_load(&t->partners[t->peers[peer].rank]) == MPI_PARTNER_ABANDONED;
}

int mpi_link_left(const struct mpi_transport *t, int borrowed)
{
	int left = 0;
	for (const struct mpi_op *op = t->held.first; op; op = op->next)
		left += borrowed ? op->borrows : !is_abandoned(t, op->peer);
	return borrowed ? left : left + (t->notes.first != NULL) + t->awaited.count;
}

int mpi_link_abandon(struct mpi_transport *t)
{
	int count = t->awaited.count;
	for (int i = 0; i < t->awaited.count; i++)
		abandon_link(t->awaited.links[i]);
	for (struct mpi_op *op = t->held.first; op; op = op->next, count++)
		if (op->link)
			abandon_link(op->link);
		else
			abandon(t, op->peer);
	for (struct mpi_op *op = t->notes.first, *next; op; op = next, count++) {
		next = op->next;
		free(op);
	}
	t->held = (struct mpi_op_list){ NULL, &t->held.first };
	t->notes = (struct mpi_op_list){ NULL, &t->notes.first };
	t->awaited.count = 0;
	return count;
}

/* ---- Doors ---- */

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
			  ? ask(l, awaited ? l->base.landing : NULL, l->base.landing_bytes)
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
		  tag = tag_to(l, l->base.peer);
	int error =
	    MPI_Isend(packet, head + (small ? bytes : 0), MPI_BYTE, rank, tag, t->comm, &op->requests[0]);
	if (error)
		return mpi_failed(l, error);
	l->base.posted++;
	hold(&t->held, op);
	if (!small)
		error = MPI_Isend(payload, bytes, MPI_BYTE, rank, tag + 1, t->comm, &op->requests[1]);
	if (error)
		return mpi_failed(l, error);
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
