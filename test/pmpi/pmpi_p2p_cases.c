/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that refuse device buffers, types of many short rows, pinned memory, and threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/fake_device/fake_device.h"
#include "pmpi_p2p.h"

static int is_refused(int error)
{
	int error_class = MPI_SUCCESS;
	MPI_Error_class(error, &error_class);
	return error_class == MPI_ERR_BUFFER;
}

static int refuses_windows(MPI_Comm comm, char *device, char *host)
{
	MPI_Win window = MPI_WIN_NULL;
	int ok = is_refused(MPI_Win_create(device, 1000, 1, MPI_INFO_NULL, comm, &window));
	if (window != MPI_WIN_NULL)
		MPI_Win_free(&window);
	MPI_Win_create(host, 1000, 1, MPI_INFO_NULL, comm, &window);
	MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
	MPI_Win_fence(0, window);
	ok &= is_refused(MPI_Put(device, 10, MPI_INT, right(), 0, 10, MPI_INT, window));
	ok &= is_refused(MPI_Get(device, 10, MPI_INT, right(), 0, 10, MPI_INT, window));
	ok &= is_refused(MPI_Accumulate(device, 10, MPI_INT, right(), 0, 10, MPI_INT, MPI_SUM, window));
	ok &= is_refused(MPI_Get_accumulate(host, 1, MPI_INT, device, 1, MPI_INT, right(), 0, 1, MPI_INT,
					    MPI_SUM, window));
	ok &= is_refused(MPI_Fetch_and_op(host, device, MPI_INT, right(), 0, MPI_SUM, window));
	ok &= is_refused(MPI_Compare_and_swap(host, device, host, MPI_INT, right(), 0, window));
	ok &= !MPI_Put(host, 10, MPI_INT, right(), 0, 10, MPI_INT, window);
	MPI_Win_fence(0, window);
	MPI_Win_free(&window);
	return ok;
}

static int refuses_files(char *device, char *host)
{
	char path[] = "/tmp/corale-pmpi-XXXXXX";
	MPI_File file;
	MPI_Request request;
	const int fd = mkstemp(path);
	close(fd);
	if (MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file))
		return 0;
	int ok = is_refused(MPI_File_write(file, device, 10, MPI_INT, MPI_STATUS_IGNORE));
	ok &= is_refused(MPI_File_read_at(file, 0, device, 10, MPI_INT, MPI_STATUS_IGNORE));
	ok &= is_refused(MPI_File_iwrite(file, device, 10, MPI_INT, &request));
	ok &= is_refused(MPI_File_write_all_begin(file, device, 10, MPI_INT));
	ok &= !MPI_File_write(file, host, 10, MPI_INT, MPI_STATUS_IGNORE);
	MPI_File_close(&file);
	unlink(path);
	return ok;
}

static int refuses_packing(MPI_Comm comm, char *device, char *host)
{
	int at = 0;
	int ok = is_refused(MPI_Pack(device, 10, MPI_INT, host, 1000, &at, comm));
	ok &= is_refused(MPI_Pack(host, 10, MPI_INT, device, 1000, &at, comm));
	ok &= is_refused(MPI_Unpack(host, 1000, &at, device, 10, MPI_INT, comm));
	ok &= !MPI_Pack(host, 10, MPI_INT, host + 500, 500, &at, comm) && at == 40;
	return ok;
}

void refused_cases(void)
{
	char *device = fake_device_alloc(0, 1000), *host = calloc(1, 1000);
	MPI_Comm comm;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	report("windows refuse device memory", refuses_windows(comm, device, host));
	report("files refuse device memory", refuses_files(device, host));
	report("packing refuses device memory", refuses_packing(comm, device, host));
	MPI_Comm_free(&comm);
	fake_device_free(device);
	free(host);
}

/* ---- Types of many short rows: few copies, and no byte between the rows ---------------------------------- */

enum { ROWS = 200000, ROOM = ROWS * 40 };

/* Rows of one to three ints at distances that do not repeat; doubles at equal ones. */
static MPI_Datatype short_rows(int is_regular)
{
	static int lengths[ROWS], at[ROWS];
	MPI_Datatype type;
	for (int i = 0; i < ROWS; i++) {
		lengths[i] = 1 + i % 3;
		at[i] = 8 * i + (i * 7 + i / 5) % 4;
	}
	if (is_regular)
		MPI_Type_vector(ROWS, 1, 5, MPI_DOUBLE, &type);
	else
		MPI_Type_indexed(ROWS, lengths, at, MPI_INT, &type);
	MPI_Type_commit(&type);
	return type;
}

static void fill(char *in, char *out)
{
	for (int i = 0; i < ROOM; i++) {
		in[i] = (char)(i * 31 + rank);
		out[i] = 99;
	}
}

static void exchange_rows(const char *name, MPI_Datatype type, char *device[2], char *host[2], size_t most)
{
	char text[160];
	fill(fake_device_reach(device[0]), fake_device_reach(device[1]));
	fill(host[0], host[1]);
	const size_t before = fake_device_copies();
	MPI_Sendrecv(device[0], 1, type, right(), 0, device[1], 1, type, left(), 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	const size_t copies = fake_device_copies() - before;
	PMPI_Sendrecv(host[0], 1, type, right(), 0, host[1], 1, type, left(), 0, MPI_COMM_WORLD,
		      MPI_STATUS_IGNORE);
	snprintf(text, sizeof text, "%s: at most %zu copies for %d rows at both ends", name, most, ROWS);
	report(text, copies <= most && !memcmp(fake_device_reach(device[1]), host[1], ROOM));
}

/* A staged collective copies in what it reads, and out what it writes. */
static void broadcast_rows(const char *name, MPI_Datatype type, char *device[2], char *host[2], size_t most)
{
	char text[160];
	MPI_Request request;
	fill(fake_device_reach(device[1]), fake_device_reach(device[0]));
	fill(host[1], host[0]);
	const size_t before = fake_device_copies();
	MPI_Ibcast(device[1], 1, type, 0, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	const size_t copies = fake_device_copies() - before;
	PMPI_Bcast(host[1], 1, type, 0, MPI_COMM_WORLD);
	snprintf(text, sizeof text, "%s: at most %zu copies in a collective", name, most);
	report(text, copies <= most && !memcmp(fake_device_reach(device[1]), host[1], ROOM));
}

void short_row_cases(void)
{
	static const char *const names[] = { "a type of irregular short rows", "a column" };
	char *device[2], *host[2];
	for (int i = 0; i < 2; i++) {
		device[i] = fake_device_alloc(i, ROOM);
		host[i] = malloc(ROOM);
	}
	for (int is_regular = 0; is_regular < 2; is_regular++) {
		MPI_Datatype type = short_rows(is_regular);
		exchange_rows(names[is_regular], type, device, host, is_regular ? 2 : 50);
		broadcast_rows(names[is_regular], type, device, host, is_regular ? 1 : 25);
		MPI_Type_free(&type);
	}
	for (int i = 0; i < 2; i++) {
		fake_device_free(device[i]);
		free(host[i]);
	}
}

/* ---- Pinned memory is kept ----------------------------------------------------------------------------- */

/* Messages of rank 0 to itself, of sizes that are no powers of two. */
static size_t pins_of(char *in, char *out)
{
	const size_t before = fake_device_pins();
	for (long bytes = 1000; bytes <= 90000000; bytes *= 44)
		MPI_Sendrecv(in, (int)bytes, MPI_BYTE, 0, 0, out, (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_SELF,
			     MPI_STATUS_IGNORE);
	return fake_device_pins() - before;
}

void pinned_memory_cases(void)
{
	int ok = 1;
	if (rank == 0) {
		char *in = fake_device_alloc(0, 90000000), *out = fake_device_alloc(1, 90000000);
		pins_of(in, out);
		ok = fake_device_pins() > 0 && pins_of(in, out) == 0;
		ok &= fake_device_pinned() < 400000000;
		fake_device_free(in);
		fake_device_free(out);
	}
	report("messages of 1 KB to 85 MB pin memory once", ok);
}

/* ---- Threads: each with a communicator of its own ------------------------------------------------------- */

enum { THREADS = 4, TURNS = 60, INTS = 5000 };

struct thread {
	pthread_t id;
	MPI_Comm comm;
	int number, ok;
};

static int turn_of(struct thread *t, int turn, char *in, char *out)
{
	const int n = 1 + (turn * 97 + t->number * 31) % INTS, value = turn * THREADS + t->number;
	int *data = fake_device_reach(in), *got = fake_device_reach(out), index;
	MPI_Request requests[2];
	MPI_Status statuses[2];
	for (int i = 0; i < n; i++)
		data[i] = value + rank;
	MPI_Irecv(out, n, MPI_INT, left(), turn, t->comm, &requests[0]);
	MPI_Isend(in, n, MPI_INT, right(), turn, t->comm, &requests[1]);
	if (turn % 2) {
		MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
		MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
	} else
		MPI_Waitall(2, requests, statuses);
	for (int i = 0; i < n; i++)
		if (got[i] != value + left())
			return 0;
	return 1;
}

static void *exchange(void *arg)
{
	struct thread *t = arg;
	char *in = fake_device_alloc(t->number % FAKE_DEVICES, INTS * sizeof(int)),
	     *out = fake_device_alloc(0, INTS * sizeof(int));
	t->ok = 1;
	for (int turn = 0; turn < TURNS; turn++)
		t->ok &= turn_of(t, turn, in, out);
	fake_device_free(in);
	fake_device_free(out);
	return NULL;
}

void thread_cases(int level)
{
	struct thread threads[THREADS];
	int ok = 1;
	if (level < MPI_THREAD_MULTIPLE) {
		report("threads # SKIP MPI has no MPI_THREAD_MULTIPLE", 1);
		return;
	}
	for (int i = 0; i < THREADS; i++) {
		threads[i].number = i;
		MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i].id, NULL, exchange, &threads[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i].id, NULL);
		ok &= threads[i].ok;
		MPI_Comm_free(&threads[i].comm);
	}
	report("threads exchange device buffers", ok);
}
