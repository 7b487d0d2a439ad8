/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs of MPI: collectives of random kinds, types, roots, operators and communicators, each rank's buffers in host or device memory, in place or not.
 * What each rank receives goes to its file, so that runs with and without the MPI door can be compared byte for byte. Numbers are small integers, whose
 * sums are exact in any order.
 * Usage: pmpi_random SEED CALLS FILE MEMORY; FILE.RANK is written; MEMORY: host, or mixed (buffers of the fake device that is loaded in front).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST = 3000,
	GUARD = 32,
	COMMS = 3,
	DEVICES = 3
}; /* elements of a block; bytes behind a buffer; communicators beside MPI_COMM_WORLD; FAKE_DEVICES */

/* Two sequences: one that all ranks draw alike, one that differs from rank to rank. */
static struct draw {
	uint64_t state;
} shared, own;

static unsigned draw(struct draw *from, unsigned below)
{
	from->state = from->state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((from->state >> 33) % below);
}

/* ---- Memory */

static void *(*device_alloc)(int, size_t);
static void (*device_free)(void *), (*device_copy)(void *, const void *, size_t);

static void find_device(void)
{
	*(void **)&device_alloc = dlsym(RTLD_DEFAULT, "fake_device_alloc");
	*(void **)&device_free = dlsym(RTLD_DEFAULT, "fake_device_free");
	*(void **)&device_copy = dlsym(RTLD_DEFAULT, "fake_device_copy");
	if (!device_alloc) {
		fprintf(stderr, "pmpi_random: no fake device is loaded\n");
		exit(2);
	}
}

struct buffer {
	char *at, *image; /* what MPI gets; its content, in host memory */
	size_t bytes;
	int is_device;
};

static void fill_image(char *image, size_t bytes, MPI_Datatype type)
{
	for (size_t i = 0; i < bytes / 4; i++)
		((int *)image)[i] = (int)draw(&own, 5);
	if (type == MPI_DOUBLE)
		for (size_t i = 0; i < bytes / 8; i++)
			((double *)image)[i] = draw(&own, 5);
	if (type == MPI_FLOAT)
		for (size_t i = 0; i < bytes / 4; i++)
			((float *)image)[i] = (float)draw(&own, 5);
}

/* The draws are the same where all memory is the host's. */
static struct buffer buffer_make(size_t bytes, MPI_Datatype type, int device)
{
	const int ordinal = (int)draw(&own, DEVICES);
	struct buffer b = { .bytes = bytes + GUARD };
	b.is_device = (int)draw(&own, 4) < device && device_alloc;
	b.image = calloc(1, b.bytes);
	fill_image(b.image, b.bytes, type);
	b.at = b.is_device ? device_alloc(ordinal, b.bytes) : malloc(b.bytes);
	if (b.is_device)
		device_copy(b.at, b.image, b.bytes);
	else
		memcpy(b.at, b.image, b.bytes);
	return b;
}

static void buffer_end(struct buffer *b, FILE *to)
{
	if (b->is_device)
		device_copy(b->image, b->at, b->bytes);
	else
		memcpy(b->image, b->at, b->bytes);
	if (to)
		fwrite(b->image, 1, b->bytes, to);
	if (b->is_device)
		device_free(b->at);
	else
		free(b->at);
	free(b->image);
}

/* ---- Calls */

enum kind {
	BARRIER,
	BCAST,
	REDUCE,
	ALLREDUCE,
	SCAN,
	EXSCAN,
	REDUCE_SCATTER_BLOCK,
	REDUCE_SCATTER,
	ALLGATHER,
	ALLGATHERV,
	GATHER,
	GATHERV,
	SCATTER,
	SCATTERV,
	ALLTOALL,
	ALLTOALLV,
	ALLTOALLW,
	KINDS
};

struct call {
	enum kind kind;
	MPI_Comm comm;
	int rank, size, root, count, in_place;
	MPI_Datatype type, sent, received; /* the element's; what this rank calls it */
	int sent_count, received_count; /* in these, of `count` elements */
	MPI_Op op;
	int counts[64], displs[64], byte_displs[64]; /* of blocks of each rank, alike on all ranks */
	int total; /* of counts, which are all 0 at times */
	int by_pair[64], pair_displs[64]; /* what this rank sends to each one, which is what it gets */
	MPI_Datatype types[64];
	struct buffer send, recv;
	int is_waited_for; /* by a request */
	MPI_Request request;
};

/* The elements of a call may have another type on one rank: two in a row, where their number is even. */
static void draw_types(struct call *c)
{
	const int pairs = c->count % 2 == 0 && draw(&own, 3) == 0;
	c->sent = c->received = c->type;
	c->sent_count = c->received_count = c->count;
	if (!pairs)
		return;
	MPI_Type_contiguous(2, c->type, &c->received);
	MPI_Type_commit(&c->received);
	c->received_count = c->count / 2;
}

static void draw_counts(struct call *c)
{
	int at = 0;
	const unsigned most = draw(&shared, 4) ? (unsigned)(c->count / c->size + 2) : 1;
	for (int i = 0; i < c->size; i++) {
		c->counts[i] = (int)draw(&shared, most);
		c->total += c->counts[i];
		c->displs[i] = at;
		at += c->counts[i] + (int)draw(&shared, 3);
	}
	for (int i = 0; i < c->size; i++) {
		const int low = i < c->rank ? i : c->rank, high = i < c->rank ? c->rank : i;
		c->by_pair[i] = (low * 7 + high * 3 + c->count) % (int)most;
		c->pair_displs[i] = i ? c->pair_displs[i - 1] + c->by_pair[i - 1] + 1 : 0;
		c->types[i] = c->type;
	}
}

static struct call draw_call(MPI_Comm comm)
{
	static const unsigned sizes[] = { 4, 16, 200, MOST };
	const MPI_Datatype types[] = { MPI_INT, MPI_DOUBLE, MPI_FLOAT, MPI_INT };
	const MPI_Op all_ops[] = { MPI_SUM, MPI_MAX, MPI_MIN, MPI_SUM };
	struct call c = { .kind = (enum kind)draw(&shared, KINDS), .comm = comm };
	MPI_Comm_rank(comm, &c.rank);
	MPI_Comm_size(comm, &c.size);
	c.type = types[draw(&shared, 4)];
	c.op = all_ops[draw(&shared, 4)];
	if (c.type == MPI_INT && draw(&shared, 3) == 0)
		c.op = draw(&shared, 2) ? MPI_BOR : MPI_LAND;
	c.root = (int)draw(&shared, (unsigned)c.size);
	c.count = 1 + (int)draw(&shared, sizes[draw(&shared, 4)]);
	c.in_place = draw(&shared, 3) == 0;
	c.is_waited_for = draw(&shared, 4) == 0;
	draw_counts(&c);
	return c;
}

static const void *from(const struct call *c, int in_place)
{
	return in_place ? MPI_IN_PLACE : (const void *)c->send.at;
}

/* Programs pass NULL for what is empty. */
static void *unless_empty(void *buffer, int count)
{
	return count ? buffer : NULL;
}

#define CALL(Name, name, ...)                                                                                \
	(c->is_waited_for                                                                                    \
	     ? (MPI_I##name(__VA_ARGS__, &c->request), MPI_Wait(&c->request, MPI_STATUS_IGNORE))             \
	     : MPI_##Name(__VA_ARGS__))

static void reduce(struct call *c)
{
	const int at_root = c->rank == c->root;
	switch (c->kind) {
	case REDUCE:
		CALL(Reduce, reduce, from(c, c->in_place && at_root), c->recv.at, c->count, c->type, c->op,
		     c->root, c->comm);
		break;
	case ALLREDUCE:
		CALL(Allreduce, allreduce, from(c, c->in_place), c->recv.at, c->count, c->type, c->op,
		     c->comm);
		break;
	case SCAN:
		CALL(Scan, scan, from(c, c->in_place), c->recv.at, c->count, c->type, c->op, c->comm);
		break;
	case EXSCAN:
		CALL(Exscan, exscan, from(c, 0), c->recv.at, c->count, c->type, c->op, c->comm);
		break;
	case REDUCE_SCATTER_BLOCK:
		CALL(Reduce_scatter_block, reduce_scatter_block, from(c, c->in_place), c->recv.at, c->count,
		     c->type, c->op, c->comm);
		break;
	default:
		CALL(Reduce_scatter, reduce_scatter, from(c, c->in_place), c->recv.at, c->counts, c->type,
		     c->op, c->comm);
	}
}

static void move(struct call *c)
{
	const int at_root = c->rank == c->root;
	switch (c->kind) {
	case BARRIER:
		MPI_Barrier(c->comm);
		break;
	case BCAST:
		CALL(Bcast, bcast, c->recv.at, c->received_count, c->received, c->root, c->comm);
		break;
	case ALLGATHER:
		CALL(Allgather, allgather, from(c, c->in_place), c->sent_count, c->sent, c->recv.at,
		     c->received_count, c->received, c->comm);
		break;
	case ALLGATHERV:
		CALL(Allgatherv, allgatherv, from(c, c->in_place), c->counts[c->rank], c->type, c->recv.at,
		     c->counts, c->displs, c->type, c->comm);
		break;
	case GATHER:
		CALL(Gather, gather, from(c, c->in_place && at_root), c->sent_count, c->sent, c->recv.at,
		     c->received_count, c->received, c->root, c->comm);
		break;
	case GATHERV:
		CALL(Gatherv, gatherv,
		     c->in_place && at_root ? MPI_IN_PLACE : unless_empty(c->send.at, c->counts[c->rank]),
		     c->counts[c->rank], c->type, unless_empty(c->recv.at, c->total), c->counts, c->displs,
		     c->type, c->root, c->comm);
		break;
	case SCATTER:
		CALL(Scatter, scatter, c->send.at, c->sent_count, c->sent,
		     c->in_place && at_root ? MPI_IN_PLACE : (void *)c->recv.at, c->received_count,
		     c->received, c->root, c->comm);
		break;
	case SCATTERV:
		CALL(Scatterv, scatterv, unless_empty(c->send.at, c->total), c->counts, c->displs, c->type,
		     c->in_place && at_root ? MPI_IN_PLACE : unless_empty(c->recv.at, c->counts[c->rank]),
		     c->counts[c->rank], c->type, c->root, c->comm);
		break;
	case ALLTOALL:
		CALL(Alltoall, alltoall, from(c, c->in_place), c->sent_count, c->sent, c->recv.at,
		     c->received_count, c->received, c->comm);
		break;
	case ALLTOALLV:
		CALL(Alltoallv, alltoallv, from(c, c->in_place), c->by_pair, c->pair_displs, c->type,
		     c->recv.at, c->by_pair, c->pair_displs, c->type, c->comm);
		break;
	default:
		for (int i = 0; i < c->size; i++)
			c->byte_displs[i] = 8 * c->pair_displs[i];
		CALL(Alltoallw, alltoallw, c->send.at, c->by_pair, c->byte_displs, c->types, c->recv.at,
		     c->by_pair, c->byte_displs, c->types, c->comm);
	}
}

static void run_call(struct call *c, int device, FILE *to)
{
	const size_t bytes = 8 * (size_t)(c->count + 8) * (size_t)c->size;
	draw_types(c);
	c->send = buffer_make(bytes, c->type, device);
	c->recv = buffer_make(bytes, c->type, device);
	if (c->kind >= REDUCE && c->kind <= REDUCE_SCATTER)
		reduce(c);
	else
		move(c);
	fprintf(to, "call %d count %d size %d\n", c->kind, c->count, c->size);
	buffer_end(&c->send, NULL);
	/* Of a rank without a block MPI may use the whole buffer as scratch, and Open MPI does. */
	buffer_end(&c->recv, c->kind == REDUCE_SCATTER && c->in_place && !c->counts[c->rank] ? NULL : to);
	if (c->received != c->type)
		MPI_Type_free(&c->received);
}

/* ---- Communicators come and go */

static void change_comm(MPI_Comm *comm, int rank)
{
	const int how = (int)draw(&shared, 3), colors = 1 + (int)draw(&shared, 3),
		  turn = (int)draw(&shared, 7);
	if (*comm != MPI_COMM_NULL)
		MPI_Comm_free(comm);
	if (how == 0)
		MPI_Comm_dup(MPI_COMM_WORLD, comm);
	else
		MPI_Comm_split(MPI_COMM_WORLD, (rank + turn) % colors, how == 1 ? rank : -rank, comm);
}

int main(int argc, char **argv)
{
	MPI_Comm comms[COMMS];
	char path[512];
	int rank;
	if (argc != 5)
		return 2;
	const int calls = atoi(argv[2]), is_mixed = !strcmp(argv[4], "mixed");
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	shared.state = strtoull(argv[1], NULL, 10) * 2 + 1;
	own.state = shared.state * 977 + (uint64_t)rank;
	if (is_mixed)
		find_device();
	snprintf(path, sizeof path, "%s.%d", argv[3], rank);
	FILE *to = fopen(path, "w");
	if (!to)
		return 2;
	for (int i = 0; i < COMMS; i++)
		comms[i] = MPI_COMM_NULL;
	for (int i = 0; i < calls; i++) {
		const unsigned at = draw(&shared, COMMS + 1);
		const int device = (int)draw(
		    &shared, 5); /* of a call's buffers as many quarters are a device's; all, at times */
		if (at < COMMS && (comms[at] == MPI_COMM_NULL || draw(&shared, 12) == 0))
			change_comm(&comms[at], rank);
		MPI_Comm comm = at < COMMS ? comms[at] : MPI_COMM_WORLD;
		/* Split communicators draw alike, as all ranks do; what they draw by their size is kept apart. */
		const struct draw before = shared;
		struct call c = draw_call(comm);
		run_call(&c, device, to);
		shared = before;
		draw(&shared, 2);
	}
	for (int i = 0; i < COMMS; i++)
		if (comms[i] != MPI_COMM_NULL)
			MPI_Comm_free(&comms[i]);
	fclose(to);
	MPI_Finalize();
	return 0;
}
