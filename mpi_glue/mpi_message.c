#include "mpi_message.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { PIECE_BYTES = 1 << 30 };

enum stage { ASKED, PACKET, PAYLOAD };

/* In the order of the calls, which is that of the lanes. */
struct mpi_op {
	struct mpi_op *next;
	struct transport_request *request; /* NULL: a control message */
	int peer, lane, tag, sends;
	enum stage stage;
	unsigned char *buf;
	size_t bytes; /* to send, or room to receive */
	int status;
	int came, error; /* of a recv: MPI has done with its packet, so */
	void *excess; /* takes a payload that is too large for buf */
	int pieces;
	MPI_Request *running; /* the pieces, then a send's packet */
	struct mpi_packet packet;
};

static int mpi_failure(const struct mpi_transport *t, int peer, int error)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;
	MPI_Error_string(error, text, &length);
	return log_error(CORALE_EPEER, t->params.rank,
			 "transport mpi: a message to or from rank %d failed: %s", peer, text);
}

static void free_op(struct mpi_op *op)
{
	free(op->excess);
	free(op->running);
	free(op);
}

/* Ends an op that is out of the list. */
static void finish(struct mpi_op *op, int status)
{
	if (op->request) {
		op->request->status = status;
		atomic_store_explicit(&op->request->done, 1, memory_order_release);
	}
	free_op(op);
}

/* Starts the pieces of a payload; op->running has room for them and one more. */
static int start_pieces(struct mpi_transport *t, struct mpi_op *op, unsigned char *buf, size_t bytes)
{
	int error = MPI_SUCCESS, rank = t->ranks[op->peer], tag = op->tag + 1;

	op->pieces = (int)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
	MPI_Request *running = realloc(op->running, sizeof(MPI_Request) * ((size_t)op->pieces + 1));
	if (!running)
		return MPI_ERR_NO_MEM;
	op->running = running;
	running[op->pieces] = running[0];
	for (int i = 0; i < op->pieces; i++)
		running[i] = MPI_REQUEST_NULL;
	for (int i = 0; i < op->pieces && !error; i++) {
		size_t at = (size_t)i * PIECE_BYTES;
		int n = (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
		if (op->sends)
			error = MPI_Isend(buf + at, n, MPI_BYTE, rank, tag, t->comm, &running[i]);
		else
			error = MPI_Irecv(buf + at, n, MPI_BYTE, rank, tag, t->comm, &running[i]);
	}
	return error;
}

/* Room for one more awaited packet. */
static int make_room(struct mpi_awaited *a)
{
	const size_t room = 2 * (size_t)a->room + 8;
	if (a->count < a->room)
		return 0;
	MPI_Request *requests = realloc(a->requests, room * sizeof(*requests));
	a->requests = requests ? requests : a->requests;
	struct mpi_op **ops = realloc(a->ops, room * sizeof(*ops));
	a->ops = ops ? ops : a->ops;
	if (!requests || !ops)
		return MPI_ERR_NO_MEM;
	a->room = (int)room;
	return 0;
}

static int await_packet(struct mpi_transport *t, struct mpi_op *op)
{
	struct mpi_awaited *a = &t->awaited;
	int error = make_room(a);
	if (!error)
		error = MPI_Irecv(&op->packet, sizeof(op->packet), MPI_BYTE, t->ranks[op->peer], op->tag,
				  t->comm, &a->requests[a->count]);
	if (!error)
		a->ops[a->count++] = op;
	return error;
}

/* MPI has done with an awaited packet. */
static void forget_packet(struct mpi_awaited *a, int i)
{
	a->count--;
	a->requests[i] = a->requests[a->count];
	a->ops[i] = a->ops[a->count];
}

/* Marks the recvs whose packets are there: one look at all of them, as a proxy awaits one on each lane of each peer. */
static void look_for_packets(struct mpi_awaited *a)
{
	int there = 1, i, error;
	while (a->count && there) {
		error = MPI_Testany(a->count, a->requests, &i, &there, MPI_STATUS_IGNORE);
		if (!there || i == MPI_UNDEFINED)
			return;
		a->ops[i]->came = 1;
		a->ops[i]->error = error;
		forget_packet(a, i);
	}
}

/* Gives MPI the packet, and with a send its payload. */
static int start(struct mpi_transport *t, struct mpi_op *op)
{
	const size_t bytes = op->sends && op->bytes <= MPI_MESSAGE_INLINE_BYTES ? op->bytes : 0,
		     head = sizeof(op->packet) - MPI_MESSAGE_INLINE_BYTES;
	int rank = t->ranks[op->peer], error;

	op->stage = PACKET;
	if (!op->sends)
		return await_packet(t, op);
	if (bytes && op->request)
		memcpy(op->packet.payload, op->buf, bytes);
	error = MPI_Isend(&op->packet, (int)(head + bytes), MPI_BYTE, rank, op->tag, t->comm, op->running);
	if (error || op->bytes <= MPI_MESSAGE_INLINE_BYTES)
		return error;
	op->stage = PAYLOAD;
	return start_pieces(t, op, op->buf, op->bytes);
}

/* The packet of a recv is there. 1: the message is complete, 0: its payload follows, < 0: an error. */
static int open_packet(struct mpi_transport *t, struct mpi_op *op, int *error)
{
	size_t bytes = op->packet.bytes;
	unsigned char *buf = op->buf;

	op->request->bytes = bytes;
	memcpy(op->request->header, op->packet.header, TRANSPORT_HEADER_BYTES);
	op->status = bytes > op->bytes ? CORALE_EMISMATCH : 0;
	if (bytes <= MPI_MESSAGE_INLINE_BYTES) {
		if (!op->status && bytes)
			memcpy(buf, op->packet.payload, bytes);
		return 1;
	}
	if (op->status && !(buf = op->excess = malloc(bytes)))
		return log_error(CORALE_ENOMEM, t->params.rank, "transport mpi: no memory to drop %zu bytes",
				 bytes);
	op->stage = PAYLOAD;
	*error = start_pieces(t, op, buf, bytes);
	return *error ? mpi_failure(t, op->peer, *error) : 0;
}

/* Moves one op. 1: complete, 0: not yet, < 0: a code. */
static int advance(struct mpi_transport *t, struct mpi_op *op)
{
	unsigned *waiting = &t->waiting[op->peer * TRANSPORT_MAX_LANES + op->lane];
	int error = op->error, there = op->came;

	if (op->stage == ASKED)
		error = start(t, op);
	if (!error && (op->sends || op->stage == PAYLOAD))
		error = MPI_Testall(op->pieces + 1, op->running, &there, MPI_STATUSES_IGNORE);
	if (error)
		return mpi_failure(t, op->peer, error);
	if (op->sends || op->stage == PAYLOAD)
		return there;
	/* Payloads of a lane are told apart by their order only, so recvs take theirs in turn. */
	if (!there || *waiting == t->pass) {
		*waiting = t->pass;
		return 0;
	}
	return open_packet(t, op, &error);
}

int mpi_message_advance(struct mpi_transport *t)
{
	int moved = 0;

	t->pass++;
	look_for_packets(&t->awaited);
	for (struct mpi_op **at = &t->head, *op; (op = *at);) {
		int ret = advance(t, op);
		if (!ret) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		if (!*at)
			t->end = at;
		if (ret < 0 && ret != CORALE_ENOMEM)
			t->lost = 1 + op->peer;
		finish(op, ret < 0 ? ret : op->status);
		moved = 1;
	}
	return moved;
}

static struct mpi_op *make_op(struct mpi_transport *t, size_t bytes)
{
	struct mpi_op *op = calloc(1, sizeof(*op));
	if (op && (op->running = malloc(sizeof(MPI_Request)))) {
		op->running[0] = MPI_REQUEST_NULL;
		return op;
	}
	free(op);
	log_error(CORALE_ENOMEM, t->params.rank, "transport mpi: no memory for a message of %zu bytes",
		  bytes);
	return NULL;
}

int mpi_message_add(struct mpi_transport *t, int peer, int lane, int sends, const void *header, void *buf,
		    size_t bytes, struct transport_request *request)
{
	struct mpi_op *op = make_op(t, bytes);
	if (!op)
		return CORALE_ENOMEM;
	op->request = request;
	op->peer = peer;
	op->lane = lane;
	op->tag = t->first_tag + (request ? 2 * lane : MPI_MESSAGE_CONTROL_TAG);
	op->sends = sends;
	op->buf = buf;
	op->bytes = bytes;
	if (sends) {
		op->packet.bytes = bytes;
		if (header)
			memcpy(op->packet.header, header, TRANSPORT_HEADER_BYTES);
	}
	if (!request) { /* its packet is a copy, so it waits for no one */
		memcpy(op->packet.payload, buf, bytes);
		op->buf = op->packet.payload;
	}
	*t->end = op;
	t->end = &op->next;
	return 0;
}

/* Takes a recv back from MPI, unless its packet is on its way. */
static void take_back(struct mpi_awaited *a, struct mpi_op *op)
{
	int i = 0, done = 0;
	while (i < a->count && a->ops[i] != op)
		i++;
	if (i == a->count) /* it came */
		return;
	MPI_Cancel(&a->requests[i]);
	if (MPI_Test(&a->requests[i], &done, MPI_STATUS_IGNORE) || !done)
		return;
	forget_packet(a, i);
	op->stage = ASKED;
}

void mpi_message_cancel(struct mpi_transport *t, int code, int may_call_mpi)
{
	for (struct mpi_op **at = &t->head, *op; (op = *at);) {
		int control = !op->request;
		if (op->stage == PACKET && !op->sends && may_call_mpi)
			take_back(&t->awaited, op);
		if (control || op->stage != ASKED) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		if (!*at)
			t->end = at;
		finish(op, code);
	}
}

int mpi_message_abandon(struct mpi_transport *t, int code)
{
	int count = 0;
	for (struct mpi_op *op = t->head, *next; op; op = next) {
		next = op->next;
		count++;
		if (op->request) {
			op->request->status = code;
			op->request->held = 1;
			atomic_store_explicit(&op->request->done, 1, memory_order_release);
		} /* MPI still has the op's packet and pieces, so their memory is left to it */
	}
	t->head = NULL;
	t->end = &t->head;
	t->awaited.count = 0;
	return count;
}
