/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A list of wrong calls, each argument of each collective wrong in each way, on the root, on another rank and on all: what MPI says of each goes to a file, so that
 * runs with and without the MPI door can be compared. A rank whose call was refused makes it again, right; so its communicator goes on.
 * Usage: pmpi_wrong FILE MEMORY; FILE.RANK is written; MEMORY: host, or device (buffers of the fake device that is loaded in front).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000, MOST_RANKS = 8 }; /* elements of a block */

static void *(*device_alloc)(int, size_t);
static void (*device_copy)(void *, const void *, size_t);
static int rank, size;
static MPI_Comm comm;
static MPI_Datatype uncommitted;
static int *in, *out;

struct arguments {
	void *send, *recv;
	int ns, nr; /* of one block */
	int *cs, *ds, *cr, *dr;
	MPI_Datatype ts, tr;
	MPI_Op op;
	int root;
	int counts_sent[MOST_RANKS], counts_received[MOST_RANKS], displs[MOST_RANKS];
};

enum {
	SENDS_ONE = 1,
	SENDS_EACH = 2,
	SENDS_ARRAY = 4,
	RECEIVES_ONE = 8,
	RECEIVES_EACH = 16,
	RECEIVES_ARRAY = 32,
	REDUCES = 64,
	HAS_ROOT = 128,
	RECEIVES_AT_ROOT = 256,
	SENDS_AT_ROOT = 512
};

#define FUNCTION(name, ...)                                                                                  \
	static int run_##name(const struct arguments *a)                                                     \
	{                                                                                                    \
		return MPI_##name(__VA_ARGS__, comm);                                                        \
	}
/* clang-format off */
FUNCTION(Bcast, a->recv, a->nr, a->tr, a->root)
FUNCTION(Reduce, a->send, a->recv, a->ns, a->ts, a->op, a->root)
FUNCTION(Allreduce, a->send, a->recv, a->ns, a->ts, a->op)
FUNCTION(Reduce_scatter_block, a->send, a->recv, a->ns, a->ts, a->op)
FUNCTION(Reduce_scatter, a->send, a->recv, a->cr, a->ts, a->op)
FUNCTION(Allgather, a->send, a->ns, a->ts, a->recv, a->nr, a->tr)
FUNCTION(Allgatherv, a->send, a->ns, a->ts, a->recv, a->cr, a->dr, a->tr)
FUNCTION(Gather, a->send, a->ns, a->ts, a->recv, a->nr, a->tr, a->root)
FUNCTION(Gatherv, a->send, a->ns, a->ts, a->recv, a->cr, a->dr, a->tr, a->root)
FUNCTION(Scatter, a->send, a->ns, a->ts, a->recv, a->nr, a->tr, a->root)
FUNCTION(Scatterv, a->send, a->cs, a->ds, a->ts, a->recv, a->nr, a->tr, a->root)
FUNCTION(Alltoall, a->send, a->ns, a->ts, a->recv, a->nr, a->tr)
FUNCTION(Alltoallv, a->send, a->cs, a->ds, a->ts, a->recv, a->cr, a->dr, a->tr)

static const struct function {
	const char *name;
	int (*run)(const struct arguments *a);
	int form;
} functions[] = {
	{ "Bcast", run_Bcast, RECEIVES_ONE | HAS_ROOT },
	{ "Reduce", run_Reduce, SENDS_ONE | REDUCES | HAS_ROOT | RECEIVES_AT_ROOT },
	{ "Allreduce", run_Allreduce, SENDS_ONE | REDUCES },
	{ "Reduce_scatter_block", run_Reduce_scatter_block, SENDS_EACH | REDUCES },
	{ "Reduce_scatter", run_Reduce_scatter, RECEIVES_ARRAY | REDUCES },
	{ "Allgather", run_Allgather, SENDS_ONE | RECEIVES_EACH },
	{ "Allgatherv", run_Allgatherv, SENDS_ONE | RECEIVES_ARRAY },
	{ "Gather", run_Gather, SENDS_ONE | RECEIVES_EACH | HAS_ROOT | RECEIVES_AT_ROOT },
	{ "Gatherv", run_Gatherv, SENDS_ONE | RECEIVES_ARRAY | HAS_ROOT | RECEIVES_AT_ROOT },
	{ "Scatter", run_Scatter, SENDS_EACH | RECEIVES_ONE | HAS_ROOT | SENDS_AT_ROOT },
	{ "Scatterv", run_Scatterv, SENDS_ARRAY | RECEIVES_ONE | HAS_ROOT | SENDS_AT_ROOT },
	{ "Alltoall", run_Alltoall, SENDS_EACH | RECEIVES_EACH },
	{ "Alltoallv", run_Alltoallv, SENDS_ARRAY | RECEIVES_ARRAY },
};
/* clang-format on */

static void make_right(struct arguments *a)
{
	*a = (struct arguments){ .send = in,
				 .recv = out,
				 .ns = N,
				 .nr = N,
				 .cs = a->counts_sent,
				 .ds = a->displs,
				 .cr = a->counts_received,
				 .dr = a->displs,
				 .ts = MPI_INT,
				 .tr = MPI_INT,
				 .op = MPI_SUM };
	for (int i = 0; i < size; i++) {
		a->counts_sent[i] = a->counts_received[i] = N;
		a->displs[i] = N * i;
	}
}

/* ---- Ways to be wrong. MPI alone runs, or dies of, those that its column leaves out. */

enum way {
	SEND_COUNT,
	RECV_COUNT,
	SEND_COUNTS_NULL,
	RECV_COUNTS_NULL,
	SEND_DISPLS_NULL,
	RECV_DISPLS_NULL,
	SEND_TYPE_NULL,
	RECV_TYPE_NULL,
	SEND_UNCOMMITTED,
	RECV_UNCOMMITTED,
	SEND_IN_PLACE,
	RECV_IN_PLACE,
	OP_NULL,
	OP_OF_OTHERS,
	ROOT_NEGATIVE,
	ROOT_LARGE,
	SEND_NULL,
	RECV_NULL,
	ONE_MEMORY,
	TWO_LENGTHS,
	WAYS
};
static const char *const ways[WAYS] = { "send count < 0",
					"receive count < 0",
					"send counts NULL",
					"receive counts NULL",
					"send displacements NULL",
					"receive displacements NULL",
					"send type null",
					"receive type null",
					"send type not committed",
					"receive type not committed",
					"send in place",
					"receive in place",
					"operator null",
					"operator of other types",
					"root < 0",
					"root too large",
					"send NULL",
					"receive NULL",
					"one memory",
					"two lengths" };

#ifdef OPEN_MPI
enum { IS_OPEN_MPI = 1 };
#else
enum { IS_OPEN_MPI = 0 };
#endif

/* Whether the function has the argument. */
static int has(const struct function *f, enum way way)
{
	const int sends = f->form & (SENDS_ONE | SENDS_EACH | SENDS_ARRAY),
		  receives = f->form & (RECEIVES_ONE | RECEIVES_EACH | RECEIVES_ARRAY);
	const int reduces = f->form & REDUCES;
	switch (way) {
	case SEND_COUNTS_NULL:
	case SEND_DISPLS_NULL:
		return f->form & SENDS_ARRAY;
	case RECV_COUNTS_NULL:
		return f->form & RECEIVES_ARRAY;
	case RECV_DISPLS_NULL:
		return (f->form & RECEIVES_ARRAY) && !reduces;
	case SEND_TYPE_NULL:
	case SEND_UNCOMMITTED:
		return sends || reduces;
	case SEND_COUNT:
		return sends;
	case RECV_TYPE_NULL:
	case RECV_UNCOMMITTED:
		return receives && !reduces;
	case RECV_COUNT:
		return receives;
	case SEND_IN_PLACE:
		return (f->form & HAS_ROOT) && (sends || reduces); /* elsewhere it is right */
	case SEND_NULL:
		return sends || reduces;
	case OP_NULL:
	case OP_OF_OTHERS:
		return reduces;
	case ROOT_NEGATIVE:
	case ROOT_LARGE:
		return f->form & HAS_ROOT;
	case ONE_MEMORY:
		return sends || reduces;
	case TWO_LENGTHS:
		return sends && receives && !(f->form & (SENDS_ONE | RECEIVES_ONE));
	default:
		return 1;
	}
}

/* Whether MPI alone looks at it there, or the argument means nothing there. */
static int is_looked_at(const struct function *f, enum way way, int at_root)
{
	const int is_scatter = f->form & SENDS_AT_ROOT, reduces = f->form & REDUCES;
	const int is_leaf = (f->form & HAS_ROOT) && !at_root;
	switch (way) {
	case SEND_NULL:
	case RECV_NULL:
		return !IS_OPEN_MPI;
	case SEND_COUNT:
		return IS_OPEN_MPI ? strcmp(f->name, "Scatter") || !at_root : !reduces;
	case RECV_COUNT:
		return !IS_OPEN_MPI || strcmp(f->name, "Allgatherv");
	case SEND_TYPE_NULL:
	case SEND_UNCOMMITTED:
		return !IS_OPEN_MPI || strcmp(f->name, "Scatter") || !at_root;
	case RECV_UNCOMMITTED:
		return !IS_OPEN_MPI || !strncmp(f->name, "Alltoall", 8) || !strcmp(f->name, "Bcast");
	case SEND_COUNTS_NULL:
	case RECV_COUNTS_NULL:
	case SEND_DISPLS_NULL:
	case RECV_DISPLS_NULL:
		return IS_OPEN_MPI && (strcmp(f->name, "Allgatherv") || way == RECV_DISPLS_NULL);
	case SEND_IN_PLACE: /* at a Gather's root it is right, at a Scatter's leaves it means nothing */
		return is_scatter || !is_leaf || IS_OPEN_MPI;
	case RECV_IN_PLACE:
		if (!IS_OPEN_MPI && !strcmp(f->name, "Bcast"))
			return 0;
		return is_scatter ? is_leaf && IS_OPEN_MPI : 1;
	case ONE_MEMORY:
		return IS_OPEN_MPI ? !strcmp(f->name, "Allreduce") || !strcmp(f->name, "Reduce")
				   : !is_leaf && strcmp(f->name, "Alltoallv");
	case TWO_LENGTHS:
		return IS_OPEN_MPI;
	default:
		return 1;
	}
}

static void make_wrong(struct arguments *a, const struct function *f, enum way way)
{
	const int in_out = f->form & RECEIVES_EACH || f->form & RECEIVES_ARRAY,
		  out_in = f->form & (SENDS_EACH | SENDS_ARRAY);
	switch (way) {
	case SEND_COUNT:
		a->ns = a->counts_sent[1] = -1;
		break;
	case RECV_COUNT:
		a->nr = a->counts_received[1] = -1;
		break;
	case SEND_COUNTS_NULL:
		a->cs = NULL;
		break;
	case RECV_COUNTS_NULL:
		a->cr = NULL;
		break;
	case SEND_DISPLS_NULL:
		a->ds = NULL;
		break;
	case RECV_DISPLS_NULL:
		a->dr = NULL;
		break;
	case SEND_TYPE_NULL:
		a->ts = MPI_DATATYPE_NULL;
		break;
	case RECV_TYPE_NULL:
		a->tr = MPI_DATATYPE_NULL;
		break;
	case SEND_UNCOMMITTED:
		a->ts = uncommitted;
		break;
	case RECV_UNCOMMITTED:
		a->tr = uncommitted;
		break;
	case SEND_IN_PLACE:
		a->send = MPI_IN_PLACE;
		break;
	case RECV_IN_PLACE:
		a->recv = MPI_IN_PLACE;
		break;
	case OP_NULL:
		a->op = MPI_OP_NULL;
		break;
	case OP_OF_OTHERS:
		a->op = MPI_MAXLOC;
		break;
	case ROOT_NEGATIVE:
		a->root = -9;
		break;
	case ROOT_LARGE:
		a->root = size;
		break;
	case SEND_NULL:
		a->send = NULL;
		break;
	case RECV_NULL:
		a->recv = NULL;
		break;
	case ONE_MEMORY: /* a rank's own block is at its place in the other buffer */
		a->send = (f->form & REDUCES) || out_in ? (void *)out : out + (in_out ? N * rank : 0);
		a->recv = (f->form & REDUCES) || !out_in || in_out ? (void *)out : out + N * rank;
		break;
	default:
		a->ns = a->counts_sent[rank] = N - 1;
	}
}

/* ---- Running */

static void put(int *to, int value)
{
	static int image[N * MOST_RANKS];
	for (int i = 0; i < N * size; i++)
		image[i] = value + i;
	device_copy(to, image, sizeof(int) * (size_t)(N * size));
}

static long sum_of(const int *from)
{
	static int image[N * MOST_RANKS];
	long sum = 0;
	device_copy(image, from, sizeof(int) * (size_t)(N * size));
	for (int i = 0; i < N * size; i++)
		sum += (long)image[i] * (i % 7 + 1);
	return sum;
}

static void run(FILE *file, const struct function *f, enum way way, int wrong_rank)
{
	struct arguments a;
	int error = MPI_SUCCESS, class, again = MPI_SUCCESS;
	make_right(&a);
	put(in, rank + 1);
	put(out, -1);
	if (wrong_rank < 0 || wrong_rank == rank) {
		make_wrong(&a, f, way);
		error = f->run(&a);
	}
	MPI_Error_class(error, &class);
	if (error || (wrong_rank >= 0 && wrong_rank != rank)) {
		make_right(&a);
		again = f->run(&a);
	}
	fprintf(file, "%s, %s, rank %d: %d then %d, sum %ld\n", f->name, ways[way], wrong_rank, class, again,
		sum_of(out));
	fflush(file);
}

static void plain_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static void open_memory(int is_device)
{
	device_copy = plain_copy;
	in = malloc(sizeof(int) * N * MOST_RANKS);
	out = malloc(sizeof(int) * N * MOST_RANKS);
	if (!is_device)
		return;
	*(void **)&device_alloc = dlsym(RTLD_DEFAULT, "fake_device_alloc");
	*(void **)&device_copy = dlsym(RTLD_DEFAULT, "fake_device_copy");
	in = device_alloc(0, sizeof(int) * N * MOST_RANKS);
	out = device_alloc(0, sizeof(int) * N * MOST_RANKS);
}

int main(int argc, char **argv)
{
	char name[4096];
	if (argc != 3)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	open_memory(!strcmp(argv[2], "device"));
	snprintf(name, sizeof name, "%s.%d", argv[1], rank);
	FILE *file = fopen(name, "w");
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* Open MPI calls it for some */
	MPI_Type_contiguous(1, MPI_INT, &uncommitted);
	for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
		for (int way = 0; way < WAYS; way++)
			for (int wrong = -1; wrong < 2; wrong++)
				if (has(&functions[f], way) &&
				    (wrong > 0 || is_looked_at(&functions[f], way, 1)) &&
				    (!wrong || is_looked_at(&functions[f], way, 0)))
					run(file, &functions[f], way, wrong);
	fclose(file);
	MPI_Type_free(&uncommitted);
	MPI_Comm_free(&comm);
	MPI_Finalize();
	return 0;
}
