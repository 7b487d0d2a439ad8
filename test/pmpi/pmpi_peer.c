/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs of messages by peer copies (CORALE_MPI_PEER): sends and receives of all kinds between 2 to 4 ranks, some of device memory, which faults when
 * the door or MPI touches it. Every byte, count, source, tag and error is compared with what MPI's rules of order say, and a buffer is overwritten when its send is
 * complete. The seed also draws the settings, among them a rank that takes no headers.
 * Usage: pmpi_peer SEED ROUNDS [plain]   plain: all memory is the host's
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmpi_peer.h"

enum { COMMS = 4, TAGS = 3, MOST = 64, GAP = 0x5a, OVERWRITTEN = 0x77 };

static int rank, size, seed, the_round, failed, truncates, is_plain;
static uint64_t state;
static MPI_Comm comms[COMMS], ring; /* ring: of exchanges */
static int members[COMMS][4], member_n[COMMS],
    my_place[COMMS]; /* ranks of MPI_COMM_WORLD; place: -1 for none */

/* Alike on all ranks. */
static int below(int n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (int)((state >> 33) % (uint64_t)n);
}

/* How a receiver names its messages on a communicator, in a round: then none takes another one's. */
enum style { EXACT, ANY_TAG, ANY_SOURCE, ANY, STYLES };
enum how { EARLY, PERSISTENT, RECV, PROBE, MPROBE, IMPROBE, HOWS };

struct message {
	int comm, from, to, tag; /* places in the communicator */
	int bytes, room; /* room: of the receive, less than bytes where it is truncated */
	int send, how, send_kind, receive_kind, send_memory, receive_memory;
};
static struct message messages[MOST];
static int n;

/* ---- Data: packed bytes in a buffer of a kind of type ------------------------------------------------- */

enum kind { BYTES, EVERY_OTHER, TWO_BLOCKS, KINDS };

static size_t place_of(int kind, int bytes, int i)
{
	if (kind == EVERY_OTHER)
		return 2 * (size_t)i;
	if (kind == TWO_BLOCKS)
		return (size_t)i + (i < bytes / 2 ? 3 : 8);
	return (size_t)i;
}

static size_t span(int bytes)
{
	return 2 * (size_t)bytes + 64;
}

/* One element, or bytes of them. */
static MPI_Datatype make_type(int kind, int bytes, int *count)
{
	MPI_Datatype type = MPI_BYTE;
	*count = bytes;
	if (kind == EVERY_OTHER)
		MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &type);
	if (kind == TWO_BLOCKS) {
		const int lengths[] = { bytes / 2, bytes - bytes / 2 };
		const MPI_Aint at[] = { 3, 8 + bytes / 2 };
		MPI_Type_create_hindexed(2, lengths, at, MPI_BYTE, &type);
	}
	if (kind != BYTES) {
		MPI_Type_commit(&type);
		*count = 1;
	}
	return type;
}

static void free_type(MPI_Datatype type)
{
	if (type != MPI_BYTE)
		MPI_Type_free(&type);
}

static char *allocate(int memory, int bytes, int value)
{
	char *buffer =
	    !is_plain && memory < FAKE_DEVICES ? fake_device_alloc(memory, span(bytes)) : malloc(span(bytes));
	put(buffer, span(bytes), value);
	return buffer;
}

static void release(char *buffer)
{
	if (fake_device_ordinal(buffer) >= 0)
		fake_device_free(buffer);
	else
		free(buffer);
}

static char byte_of(int message, int i)
{
	return (char)(i * 7 + message * 31 + the_round * 131 + i / 251);
}

static void fill(char *buffer, int m)
{
	char *data = get(buffer, span(messages[m].bytes));
	for (int i = 0; i < messages[m].bytes; i++)
		data[place_of(messages[m].send_kind, messages[m].bytes, i)] = byte_of(m, i);
	fake_device_copy(buffer, data, span(messages[m].bytes));
	free(data);
}

static void wrong(const char *what, int m, int is, int expected)
{
	if (failed++ < 5)
		fprintf(stderr,
			"# seed %d, round %d, rank %d: %s of message %d (%d bytes, communicator %d, %d to "
			"%d, tag %d, how "
			"%d, send %d): %d, not %d\n",
			seed, the_round, rank, what, m, messages[m].bytes, messages[m].comm, messages[m].from,
			messages[m].to, messages[m].tag, messages[m].how, messages[m].send, is, expected);
}

/* ---- The program of a round, alike on all ranks --------------------------------------------------------- */

static int draw_bytes(void)
{
	switch (below(6)) {
	case 0:
		return 3;
	case 1:
		return below(8);
	case 2:
		return below(2000);
	case 3:
		return 60000 + below(12000);
	default:
		return below(200);
	}
}

static enum style styles[COMMS][4]; /* of receivers */
static int has_blocking; /* then all receives are there before the first send */

/* The oldest message of these that no receive has had: receives come in the order in which they were posted. */
static int expected(int comm, int from, int to, int tag, const int *had)
{
	for (int i = 0; i < n; i++)
		if (!had[i] && messages[i].comm == comm && messages[i].from == from && messages[i].to == to &&
		    messages[i].tag == tag)
			return i;
	return -1;
}

static size_t least; /* as drawn */
static int off, node;

/* Open MPI 4.1's own truncated messages may come without an error, or end the program: only those by header are truncated. */
static int is_header(const struct message *m)
{
	const int from = members[m->comm][m->from], to = members[m->comm][m->to];
	if (m->comm == COMMS - 1 || from == off || to == off || (node && from / node != to / node) ||
	    is_plain)
		return 0;
	return m->bytes == 3 || (m->send_memory < FAKE_DEVICES && (size_t)m->bytes >= least);
}

/* The room of receives that name their message: they are posted in the order of messages, the early ones first. */
static void draw_rooms(void)
{
	int had[MOST] = { 0 };
	for (int late = 0; late < 2; late++)
		for (int i = 0; i < n; i++) {
			struct message *m = &messages[i];
			if ((m->how > PERSISTENT) != late)
				continue;
			const int match = expected(m->comm, m->from, m->to, m->tag, had);
			const int bytes = messages[match].bytes;
			had[match] = 1;
			m->room = bytes + below(2) * below(20);
			if (truncates && bytes && below(4) == 0 && is_header(&messages[match]))
				m->room = below(bytes);
			if (m->room > 2000)
				m->receive_kind = BYTES;
		}
}

static void draw(void)
{
	n = 4 + below(MOST - 4);
	has_blocking = below(3) == 0;
	for (int c = 0; c < COMMS; c++)
		for (int i = 0; i < 4; i++)
			styles[c][i] = (enum style)below(STYLES);
	for (int i = 0; i < n; i++) {
		struct message *m = &messages[i];
		do
			m->comm = below(COMMS);
		while (!member_n[m->comm]);
		m->from = below(member_n[m->comm]);
		m->to = below(member_n[m->comm]);
		m->tag = below(TAGS);
		m->bytes = draw_bytes();
		m->send = below(5);
		m->how = has_blocking ? below(2) : below(HOWS);
		m->send_kind = m->bytes > 2000 ? BYTES : below(KINDS);
		m->receive_kind = below(KINDS);
		m->send_memory = below(FAKE_DEVICES + 2);
		m->receive_memory = below(FAKE_DEVICES + 2);
	}
	draw_rooms();
}

/* ---- Receives ------------------------------------------------------------------------------------------- */

struct receive {
	char *buffer;
	MPI_Datatype type;
	int message; /* that it was made for */
	int room, kind;
	MPI_Status status;
	int error;
};
static struct receive receives[MOST];
static int received_n;

/* Whatever may come to a wildcard fits. */
static void make_receive(struct receive *r, int i, int *count)
{
	const struct message *m = &messages[i];
	const int is_wild = styles[m->comm][m->to] != EXACT;
	r->message = i;
	r->room = is_wild ? 72000 : m->room;
	r->kind = is_wild ? BYTES : m->receive_kind;
	r->buffer = allocate(m->receive_memory, r->room, GAP);
	r->type = make_type(r->kind, r->room, count);
	r->error = MPI_SUCCESS;
}

static void names(const struct message *m, int *from, int *tag)
{
	const enum style style = styles[m->comm][m->to];
	*from = style == ANY || style == ANY_SOURCE ? MPI_ANY_SOURCE : m->from;
	*tag = style == ANY || style == ANY_TAG ? MPI_ANY_TAG : m->tag;
}

static void check_data(const struct receive *r, int m, int bytes)
{
	char *data = get(r->buffer, span(r->room));
	int i = 0;
	for (size_t at = 0; at < span(r->room); at++) {
		const int is_data = i < r->room && place_of(r->kind, r->room, i) == at;
		const char value = is_data && i < bytes ? byte_of(m, i) : (char)GAP;
		if (data[at] != value) {
			wrong("byte", m, (unsigned char)data[at], (unsigned char)value);
			break;
		}
		i += is_data;
	}
	free(data);
}

static void check(const struct receive *r, int *had)
{
	const struct message *made = &messages[r->message];
	const int is_exact = styles[made->comm][made->to] == EXACT;
	const int from = is_exact ? made->from : r->status.MPI_SOURCE;
	const int tag = is_exact ? made->tag : r->status.MPI_TAG;
	const int m = expected(made->comm, from, made->to, tag, had);
	int count = -1, class = r->error;
	if (m < 0) {
		wrong("source of a receive", r->message, from, made->from);
		return;
	}
	had[m] = 1;
	if (r->error)
		MPI_Error_class(r->error, &class);
	if (class != (messages[m].bytes > r->room ? MPI_ERR_TRUNCATE : MPI_SUCCESS))
		wrong("error", m, class, messages[m].bytes > r->room ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
	if (messages[m].bytes > r->room)
		return;
	if (r->status.MPI_SOURCE != messages[m].from || r->status.MPI_TAG != messages[m].tag)
		wrong("source or tag", m, r->status.MPI_SOURCE, messages[m].from);
	MPI_Get_count(&r->status, MPI_BYTE, &count);
	if (count != messages[m].bytes)
		wrong("count", m, count, messages[m].bytes);
	check_data(r, m, messages[m].bytes);
}

/* ---- Requests, and all ways to complete them ------------------------------------------------------------ */

struct operation {
	int receive; /* of receives; -1: a send */
	int message;
	char *buffer; /* of a send */
	int is_persistent, is_complete;
};
static MPI_Request requests[2 * MOST];
static struct operation operations[2 * MOST];
static int request_n;

static void add(MPI_Request request, struct operation operation)
{
	requests[request_n] = request;
	operations[request_n++] = operation;
}

static void completed(int i, const MPI_Status *status, int error)
{
	struct operation *o = &operations[i];
	if (o->is_complete)
		wrong("second completion", o->message, i, 0);
	o->is_complete = 1;
	if (o->receive >= 0) {
		receives[o->receive].status = *status;
		receives[o->receive].error = error;
	} else {
		if (error)
			wrong("error of a send", o->message, error, 0);
		put(o->buffer, span(messages[o->message].bytes), OVERWRITTEN);
	}
}

static void complete_one(int way)
{
	MPI_Status status;
	int i, flag = 1, error;
	if (way == 0) {
		error = MPI_Waitany(request_n, requests, &i, &status);
	} else {
		flag = 0;
		do
			error = MPI_Testany(request_n, requests, &i, &flag, &status);
		while (!flag && !error);
	}
	if (i != MPI_UNDEFINED)
		completed(i, &status, error);
}

static void complete_some(int waits)
{
	static MPI_Status statuses[2 * MOST];
	static int indices[2 * MOST];
	int found;
	const int ret = (waits ? MPI_Waitsome : MPI_Testsome)(request_n, requests, &found, indices, statuses);
	for (int k = 0; found != MPI_UNDEFINED && k < found; k++)
		completed(indices[k], &statuses[k],
			  ret == MPI_ERR_IN_STATUS ? statuses[k].MPI_ERROR : MPI_SUCCESS);
}

static void complete_all(int waits)
{
	static MPI_Status statuses[2 * MOST];
	int flag = waits, ret;
	if (waits) {
		ret = MPI_Waitall(request_n, requests, statuses);
	} else {
		do
			ret = MPI_Testall(request_n, requests, &flag, statuses);
		while (!flag && !ret);
	}
	/* After an error MPI may return before the others are complete. */
	for (int i = 0; i < request_n; i++)
		if (!operations[i].is_complete &&
		    (ret != MPI_ERR_IN_STATUS || statuses[i].MPI_ERROR != MPI_ERR_PENDING))
			completed(i, &statuses[i],
				  ret == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : MPI_SUCCESS);
}

static void complete_each(int way)
{
	MPI_Status status;
	for (int k = 0; k < request_n; k++) {
		const int i = way ? request_n - 1 - k : k;
		int flag = 0, error = MPI_SUCCESS;
		if (operations[i].is_complete)
			continue;
		if (way == 1) {
			while (!flag && !error)
				error = MPI_Test(&requests[i], &flag, &status);
		} else {
			if (way == 2)
				MPI_Request_get_status(requests[i], &flag, &status);
			error = MPI_Wait(&requests[i], &status);
		}
		completed(i, &status, error);
	}
}

static int complete_n(void)
{
	int found = 0;
	for (int i = 0; i < request_n; i++)
		found += operations[i].is_complete;
	return found;
}

/* By a rank's own choice. */
static void complete(int way)
{
	while (complete_n() < request_n)
		switch (way) {
		case 0:
		case 1:
			complete_one(way);
			break;
		case 2:
		case 3:
			complete_some(way == 2);
			break;
		case 4:
		case 5:
			complete_all(way == 4);
			break;
		default:
			complete_each(way - 6);
		}
	for (int i = 0; i < request_n; i++)
		if (operations[i].is_persistent)
			MPI_Request_free(&requests[i]);
}

/* ---- A round -------------------------------------------------------------------------------------------- */

static void post(int i)
{
	const struct message *m = &messages[i];
	struct receive *r = &receives[received_n];
	MPI_Request request;
	int from, tag, count;
	make_receive(r, i, &count);
	names(m, &from, &tag);
	if (m->how == PERSISTENT) {
		MPI_Recv_init(r->buffer, count, r->type, from, tag, comms[m->comm], &request);
		MPI_Start(&request);
	} else {
		MPI_Irecv(r->buffer, count, r->type, from, tag, comms[m->comm], &request);
	}
	add(request, (struct operation){
			 .receive = received_n++, .message = i, .is_persistent = m->how == PERSISTENT });
}

static void check_probe(const struct message *m, const MPI_Status *status, int counted)
{
	int count;
	MPI_Get_count(status, MPI_BYTE, &count);
	if (count != counted)
		wrong("count of a probe", (int)(m - messages), counted, count);
}

/* Receives behind the sends: the message is there, or on its way. */
static void receive_late(int i)
{
	const struct message *m = &messages[i];
	struct receive *r = &receives[received_n++];
	const MPI_Comm comm = comms[m->comm];
	MPI_Message message;
	MPI_Status probed;
	int from, tag, count, flag = 0, probed_count;
	make_receive(r, i, &count);
	names(m, &from, &tag);
	if (m->how == RECV) {
		r->error = MPI_Recv(r->buffer, count, r->type, from, tag, comm, &r->status);
	} else if (m->how == PROBE) {
		while (!flag && i % 2)
			MPI_Iprobe(from, tag, comm, &flag, &probed);
		if (!flag)
			MPI_Probe(from, tag, comm, &probed);
		MPI_Get_count(&probed, MPI_BYTE, &probed_count);
		r->error =
		    MPI_Recv(r->buffer, count, r->type, probed.MPI_SOURCE, probed.MPI_TAG, comm, &r->status);
		if (!r->error)
			check_probe(m, &r->status, probed_count);
	} else {
		while (!flag && m->how == IMPROBE)
			MPI_Improbe(from, tag, comm, &flag, &message, &probed);
		if (!flag)
			MPI_Mprobe(from, tag, comm, &message, &probed);
		MPI_Get_count(&probed, MPI_BYTE, &probed_count);
		if (m->how == IMPROBE) {
			MPI_Request request;
			MPI_Imrecv(r->buffer, count, r->type, &message, &request);
			r->error = MPI_Wait(&request, &r->status);
		} else {
			r->error = MPI_Mrecv(r->buffer, count, r->type, &message, &r->status);
		}
		if (!r->error)
			check_probe(m, &r->status, probed_count);
	}
}

static void send_blocking(int i, char *buffer, int count, MPI_Datatype type)
{
	const struct message *m = &messages[i];
	__typeof__(&MPI_Send) const sends[] = { MPI_Send, MPI_Ssend, MPI_Rsend, MPI_Bsend, MPI_Send };
	if (sends[m->send](buffer, count, type, m->to, m->tag, comms[m->comm]))
		wrong("error of a send", i, 1, 0);
	put(buffer, span(m->bytes), OVERWRITTEN);
}

static void send(int i, char *buffer)
{
	const struct message *m = &messages[i];
	__typeof__(&MPI_Isend)
	    const sends[] = { MPI_Isend, MPI_Issend, MPI_Isend, MPI_Ibsend, MPI_Send_init };
	MPI_Request request;
	int count;
	const MPI_Datatype type = make_type(m->send_kind, m->bytes, &count);
	if (has_blocking && i % 2) {
		send_blocking(i, buffer, count, type);
	} else {
		sends[m->send](buffer, count, type, m->to, m->tag, comms[m->comm], &request);
		if (m->send == 4)
			MPI_Start(&request);
		add(request,
		    (struct operation){
			.receive = -1, .message = i, .buffer = buffer, .is_persistent = m->send == 4 });
	}
	free_type(type);
}

/* A message to the right, one from the left, of this rank's own sizes. */
static void exchange(int turn)
{
	const int bytes = draw_bytes(), memory = below(FAKE_DEVICES + 1), right = (rank + 1) % size;
	const int left = (rank + size - 1) % size;
	char *in = allocate(memory, bytes, rank), *out = allocate((memory + 1) % 4, bytes, GAP);
	MPI_Status status;
	int count;
	if (turn % 2)
		MPI_Sendrecv(in, bytes, MPI_BYTE, right, 9, out, bytes, MPI_BYTE, left, 9, ring, &status);
	else
		MPI_Sendrecv_replace(in, bytes, MPI_BYTE, right, 9, left, 9, ring, &status);
	char *data = get(turn % 2 ? out : in, (size_t)bytes);
	MPI_Get_count(&status, MPI_BYTE, &count);
	for (int i = 0; i < bytes; i++)
		if (data[i] != (char)left || count != bytes) {
			fprintf(stderr, "# seed %d, round %d, rank %d: an exchange of %d bytes is wrong\n",
				seed, the_round, rank, bytes);
			failed++;
			break;
		}
	free(data);
	release(in);
	release(out);
}

static void run_round(void)
{
	static char *sent[MOST];
	int had[MOST] = { 0 };
	draw();
	request_n = received_n = 0;
	for (int i = 0; i < n; i++)
		if (messages[i].to == my_place[messages[i].comm] && messages[i].how <= PERSISTENT)
			post(i);
	if (has_blocking)
		MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < n; i++) {
		sent[i] = NULL;
		if (messages[i].from != my_place[messages[i].comm])
			continue;
		sent[i] = allocate(messages[i].send_memory, messages[i].bytes, GAP);
		fill(sent[i], i);
		send(i, sent[i]);
	}
	for (int i = 0; i < n; i++)
		if (messages[i].to == my_place[messages[i].comm] && messages[i].how > PERSISTENT)
			receive_late(i);
	complete((seed + the_round * 5 + rank * 3) % 9);
	for (int i = 0; i < received_n; i++) {
		check(&receives[i], had);
		free_type(receives[i].type);
		release(receives[i].buffer);
	}
	for (int i = 0; i < n; i++)
		if (sent[i])
			release(sent[i]);
	exchange(the_round);
	MPI_Barrier(MPI_COMM_WORLD); /* no wildcard takes a message of the next round */
}

/* ---- Begin and end -------------------------------------------------------------------------------------- */

static int rank_by_launcher(void)
{
	const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK" };
	for (int i = 0; i < 3; i++)
		if (getenv(names[i]))
			return atoi(getenv(names[i]));
	return 0;
}

static void draw_settings(void)
{
	const char *const leasts[] = { "4", "4", "100", "65536" }, *const eager[] = { "0", "0", "1000",
										      "64K" };
	const char *const waits[] = { "0", "50", "1000000" }, *const nodes[] = { "0", "0", "2" };
	off = below(12); /* a rank that takes no headers, if there is one */
	const char *drawn = leasts[below(4)], *nodes_of = nodes[below(3)];
	least = (size_t)atoi(drawn);
	node = atoi(nodes_of);
	setenv("CORALE_MPI_PEER", rank_by_launcher() == off ? "no" : "yes", 1);
	setenv("CORALE_MPI_PEER_LEAST", drawn, 1);
	setenv("CORALE_MPI_PEER_EAGER", eager[below(4)], 1);
	setenv("CORALE_MPI_PEER_WAIT_US", waits[below(3)], 1);
	setenv("CORALE_NODE_SIZE", nodes_of, 1);
	truncates = below(2);
}

static void note_members(int c)
{
	int mine[4] = { -1, -1, -1, -1 };
	my_place[c] = -1;
	if (comms[c] != MPI_COMM_NULL) {
		MPI_Comm_set_errhandler(comms[c], MPI_ERRORS_RETURN);
		MPI_Comm_rank(comms[c], &my_place[c]);
		mine[my_place[c]] = rank;
	}
	MPI_Allreduce(mine, members[c], 4, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	for (member_n[c] = 0; member_n[c] < 4 && members[c][member_n[c]] >= 0; member_n[c]++)
		;
}

static void make_comms(void)
{
	MPI_Request request;
	comms[0] = MPI_COMM_WORLD;
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
	MPI_Comm_dup(MPI_COMM_WORLD, &ring);
	MPI_Comm_split(comms[1], below(size) == rank && size > 2 ? MPI_UNDEFINED : 0, -rank, &comms[2]);
	MPI_Comm_idup(MPI_COMM_WORLD, &comms[3], &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (int c = 0; c < COMMS; c++)
		note_members(c);
}

int main(int argc, char **argv)
{
	const int rounds = argc > 2 ? atoi(argv[2]) : 10;
	static char attached[8 << 20];
	void *detached;
	int bytes, all;
	seed = argc > 1 ? atoi(argv[1]) : 1;
	state = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
	is_plain = argc > 3;
	draw_settings();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	make_comms();
	MPI_Buffer_attach(attached, sizeof attached);
	for (the_round = 0; the_round < rounds && !failed; the_round++)
		run_round();
	MPI_Buffer_detach(&detached, &bytes);
	MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_free(&ring);
	for (int c = 1; c < COMMS; c++)
		if (comms[c] != MPI_COMM_NULL)
			MPI_Comm_free(&comms[c]);
	MPI_Finalize();
	return all != 0;
}
