/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point of the MPI door: device buffers at one end or both, byte for byte as MPI alone has it on host memory. Device memory is that of
 * test/fake_device, which faults when the door or MPI touches it.
 * With an argument: the threads alone, for the thread sanitizer. peer: all but the threads, as CORALE_MPI_PEER takes no MPI_THREAD_MULTIPLE (test/pmpi/pmpi_peer.sh).
 * shapes: 2:0 4:0
 */
#include "pmpi_p2p.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/fake_device/fake_device.h"

int rank, size;
MPI_Status *no_statuses = MPI_STATUSES_IGNORE;
static int number, failed;
static uint64_t seed;

int right(void)
{
	return (rank + 1) % size;
}

int left(void)
{
	return (rank + size - 1) % size;
}

int below(int n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int)((seed >> 33) % (uint64_t)n);
}

void note(struct run *r, int value)
{
	if (r->n < NOTES)
		r->notes[r->n++] = value;
}

void note_status(struct run *r, const MPI_Status *status, MPI_Datatype type)
{
	int count;
	PMPI_Get_count(status, type, &count);
	note(r, count);
	note(r, status->MPI_SOURCE);
	note(r, status->MPI_TAG);
}

void poke(struct run *r, int buffer, size_t at, int value)
{
	*((char *)fake_device_reach(r->b[buffer]) + at) = (char)value;
}

int peek(struct run *r, int buffer, size_t at)
{
	return *((char *)fake_device_reach(r->b[buffer]) + at);
}

void report(const char *name, int ok)
{
	int all;
	PMPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	failed |= !all;
	number++;
	if (rank == 0) {
		printf("%s %d - %s\n", all ? "ok" : "not ok", number, name);
		fflush(stdout);
	}
}

/* ---- Both ways ----------------------------------------------------------------------------------------- */

#define BY_DOOR(name) .name = MPI_##name,
#define BY_MPI(name) .name = PMPI_##name,
static const struct calls by_door = { CALLS(BY_DOOR) }, by_mpi = { CALLS(BY_MPI) };

enum memory { DEVICE, DEVICE_ON_EVEN, DEVICE_ON_ODD, MIXED, HOST, MEMORIES };
static const char *const memory_names[] = { "device", "device on even ranks", "device on odd ranks",
					    "device and host", "host" };

static int is_device(enum memory memory, int buffer)
{
	switch (memory) {
	case DEVICE:
		return 1;
	case DEVICE_ON_EVEN:
		return rank % 2 == 0;
	case DEVICE_ON_ODD:
		return rank % 2;
	case MIXED:
		return (rank + buffer) % 2;
	default:
		return 0;
	}
}

static void fill(char *buffer, int which)
{
	char *data = fake_device_reach(buffer);
	for (size_t i = 0; i < BUFFER_BYTES; i++)
		data[i] = (char)((i * 2654435761u >> 7) + (size_t)(31 * rank + 7 * which));
}

static void make_run(struct run *r, const struct calls *mpi, MPI_Comm comm, enum memory memory)
{
	*r = (struct run){ .mpi = mpi, .comm = comm };
	for (int i = 0; i < BUFFERS; i++) {
		r->b[i] = is_device(memory, i) ? fake_device_alloc((rank + i) % FAKE_DEVICES, BUFFER_BYTES)
					       : malloc(BUFFER_BYTES);
		fill(r->b[i], i);
	}
}

static void end_run(struct run *r)
{
	for (int i = 0; i < BUFFERS; i++)
		if (fake_device_ordinal(r->b[i]) >= 0)
			fake_device_free(r->b[i]);
		else
			free(r->b[i]);
}

static int same(const struct run *door, const struct run *plain)
{
	for (int i = 0; i < BUFFERS; i++) {
		const char *a = fake_device_reach(door->b[i]), *b = plain->b[i];
		for (size_t k = 0; k < BUFFER_BYTES; k++)
			if (a[k] != b[k]) {
				fprintf(stderr, "# rank %d: buffer %d differs at byte %zu: %d, not %d\n",
					rank, i, k, a[k], b[k]);
				return 0;
			}
	}
	for (int i = 0; i < door->n || i < plain->n; i++)
		if (door->n != plain->n || door->notes[i] != plain->notes[i]) {
			fprintf(stderr, "# rank %d: note %d of %d differs: %d, not %d of %d\n", rank, i,
				door->n, door->notes[i], plain->notes[i], plain->n);
			return 0;
		}
	return 1;
}

static int run_both(const struct scene *scene, MPI_Comm comm, enum memory memory, int number_of_seed)
{
	struct run door, plain;
	make_run(&door, &by_door, comm, memory);
	make_run(&plain, &by_mpi, comm, HOST);
	seed = (uint64_t)number_of_seed;
	scene->run(&door);
	seed = (uint64_t)number_of_seed;
	scene->run(&plain);
	const int ok = same(&door, &plain);
	end_run(&door);
	end_run(&plain);
	return ok;
}

static void run_scenes(const struct scene *scenes, MPI_Comm comm, int seeds, enum memory memories)
{
	char name[160];
	for (const struct scene *s = scenes; s->name; s++)
		for (enum memory memory = 0; memory < memories; memory++) {
			int ok = 1;
			for (int i = 0; i < seeds; i++)
				ok &= run_both(s, comm, memory, i);
			snprintf(name, sizeof(name), "%s, %s memory", s->name, memory_names[memory]);
			report(name, ok);
		}
}

int main(int argc, char **argv)
{
	static char attached[1 << 22];
	MPI_Comm comm;
	const int is_peer = argc > 1 && !strcmp(argv[1], "peer");
	int level;
	MPI_Init_thread(&argc, &argv, is_peer ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	PMPI_Buffer_attach(attached, sizeof(attached));
	if (argc == 1 || is_peer) {
		const enum memory memories = is_peer ? DEVICE_ON_ODD : MEMORIES;
		run_scenes(blocking_scenes, comm, 1, memories);
		run_scenes(request_scenes, comm, 1, memories);
		run_scenes(type_scenes, comm, 1, memories);
		run_scenes(random_scenes, comm, is_peer ? 4 : 8, memories);
	}
	if (argc == 1) {
		refused_cases();
		short_row_cases();
		pinned_memory_cases();
	}
	if (is_peer)
		report("memory was exported", !size || fake_device_exports() > 0);
	else
		thread_cases(level);
	void *detached;
	int bytes;
	PMPI_Buffer_detach(&detached, &bytes);
	report("messages of devices were copied", fake_device_copied_rows() > 0);
	MPI_Comm_free(&comm);
	if (rank == 0)
		printf("1..%d\n", number);
	fflush(stdout);
	MPI_Finalize();
	if (fake_device_pinned())
		fprintf(stderr, "# rank %d: %zu bytes stay pinned\n", rank, fake_device_pinned());
	return failed || fake_device_pinned();
}
