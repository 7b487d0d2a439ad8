/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proxies: what carries messages between GPUs of several nodes. Each rank's main thread takes the place of its kernels. Over MPI,
 * or with CORALE_TRANSPORT=ucx over UCX; there with TEST_GPU_SLOTS=1 through slots that no CPU may touch.
 * shapes: 2:0 3:0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/slot_front.h"
#include "net/link.h"
#include "mpi_world.h"
#include "test/helpers/ranks.h"
#include "ranks_proxy.h"
#include "transport_mpi.h"
#include "net/ucx/transport_ucx.h"

enum { DEADLINE_S = 60, CLOSE_S = 12, LATE_TRIES = 7 };

static const double late_s =
    0.05; /* half of the time that a proxy sleeps when it believes that nobody needs it */

static struct transport_mpi_row over_mpi;
static const struct transport_row *row; /* of the transport: this one, or UCX's */
static int (*progress)(struct transport *);
static const struct settings *settings;
static int wrong, in_gpu;
static _Atomic long looks; /* of all proxies, at the transport */

static const struct remote_slots slots = { PROXY_WORLD_SLOT, 4 };

void proxy_world_expect(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "# rank %d: %s\n", rank, what);
		wrong++;
	}
}

void proxy_world_give_up(const char *what)
{
	fprintf(stderr, "# rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A rank may close its side while messages of its peers are under way, or awaited. */
static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	if (strcmp(reason, transport_peer_left))
		proxy_world_give_up(reason);
}

static int count_looks(struct transport *t)
{
	looks++;
	return progress(t);
}

/* ---- A communicator ---------------------------------------------------------------------------------------- */

static void open_transport(struct proxy_world *w)
{
	static const unsigned char needed[PROXY_WORLD_RANKS] = { 1, 1, 1, 1 };
	const struct transport_params p = { .rank = rank,
					    .size = size,
					    .comm_id = w->id,
					    .needed = needed,
					    .settings = settings,
					    .gpu_slots = in_gpu,
					    .slots = { .depth = 8, .bytes = 4096, .cap = SIZE_MAX },
					    .on_control = mpi_world_no_control,
					    .on_failure = on_failure };
	static struct transport_ops counting;
	const corale_bootstrap bootstrap = { rank, size, NULL, mpi_world_allgather };
	char why_not[512] = "no transport";
	if (!row->probe(row, 1, why_not, sizeof why_not) ||
	    transport_open(row, &p, &bootstrap, &w->params.rails[0]))
		proxy_world_give_up(why_not);
	counting = *w->params.rails[0]->ops;
	progress = counting.progress;
	counting.progress = count_looks;
	w->params.rails[0]->ops = &counting;
}

/* Slots lie in memory that stands for a GPU's, of which a kernel has a mapping of its own. */
static void put_slots_in_gpu(struct proxy_world *w)
{
	char why[LINK_WHY_BYTES] = "no memory that stands for a GPU's";
	if (fake_gpu_memory_map(&w->gpu, w->params.bytes) ||
	    link_map(w->params.rails[0], w->gpu.address, w->gpu.bytes, 1, &w->params.slabs[0], why,
		     sizeof why))
		proxy_world_give_up(why);
	remote_set_data(&w->params.remote, w->gpu.address);
	remote_set_data(&w->remote, w->gpu.readable);
}

/* Nothing went through the pinned ones instead. */
static int are_pinned_slots_unused(const struct proxy_world *w)
{
	struct remote pinned = w->remote;
	remote_set_data(&pinned, pinned.memory);
	int unused = 1;
	for (int i = 0; i < size - 1; i++)
		for (uint32_t index = 0; index < REMOTE_CONNECTIONS; index++)
			for (int d = REMOTE_OUT; d <= REMOTE_IN; d++) {
				const unsigned char *data =
				    remote_data_at(&pinned, index, w->connections[i][index].offsets[d], 0);
				for (size_t b = 0; b < (size_t)slots.depth * slots.bytes; b++)
					unused &= !data[b];
			}
	return unused;
}

struct proxy_world *proxy_world_open(void)
{
	static uint64_t id = 1;
	struct proxy_world *w = calloc(1, sizeof *w);
	struct remote remote = { .slots = { slots, slots, slots }, .peers = size - 1 };
	const size_t bytes =
	    REMOTE_LINE + (size_t)(size - 1) * 2 * REMOTE_CONNECTIONS * remote_end_bytes(&slots);
	remote.memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	if (!w || !remote.memory)
		proxy_world_give_up("no memory");
	memset(remote.memory, 0, bytes);
	w->id = id++;
	w->rank = rank;
	w->size = size;
	w->in_gpu = in_gpu;
	for (int i = 0; i < size - 1; i++)
		w->peers[i] = i + (i >= rank);
	w->params = (struct proxy_params){
		.nrails = 1, .remote = remote, .bytes = bytes, .ranks = w->peers, .rank = rank
	};
	remote_set_data(&w->params.remote, remote.memory);
	w->remote = w->params.remote;
	open_transport(w);
	if (in_gpu)
		put_slots_in_gpu(w);
	if (proxy_open(&w->params, &w->proxy))
		proxy_world_give_up("no proxy");
	for (int i = 0; i < size - 1; i++)
		for (uint32_t index = 0; index < REMOTE_CONNECTIONS; index++)
			for (int d = REMOTE_OUT; d <= REMOTE_IN; d++)
				if (proxy_open_end(w->proxy, i, (enum remote_direction)d, index,
						   &w->connections[i][index].offsets[d]))
					proxy_world_give_up("no connection");
	return w;
}

void proxy_world_close(struct proxy_world *w, int64_t timeout_ns)
{
	const struct link_ops *links = w->params.rails[0]->ops->links;
	proxy_stop(w->proxy, timeout_ns);
	transport_close(w->params.rails[0]);
	if (proxy_free(w->proxy)) {
		proxy_world_expect(!in_gpu || are_pinned_slots_unused(w),
				   "a message went through a pinned slot");
		if (in_gpu) {
			links->unmap(w->params.slabs[0]);
			fake_gpu_memory_unmap(&w->gpu);
		}
		free(w->params.remote.memory);
	}
	free(w);
}

/* A call is under way from here to its end: its proxy is awake. */
void proxy_world_begin(struct proxy_world *w)
{
	proxy_expect(w->proxy);
	remote_progress_of(&w->params.remote)->begun++;
}

void proxy_world_end(struct proxy_world *w)
{
	struct remote_progress *calls = remote_progress_of(&w->params.remote);
	__atomic_store_n(&calls->ended, calls->ended + 1, __ATOMIC_RELEASE);
}

/* ---- Messages: size and bytes are known to both ends -------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
	return x ^ x >> 32;
}

static uint64_t seed_of(const struct proxy_world *w, int from, int to, uint32_t index, uint64_t n)
{
	return mix(w->id << 40 ^ (uint64_t)from << 36 ^ (uint64_t)to << 32 ^ (uint64_t)index << 24 ^ n);
}

static size_t size_of(uint64_t seed)
{
	const uint64_t most[] = { 16, 5000, PROXY_WORLD_SLOT, PROXY_WORLD_SLOT };
	return seed % 11 ? (size_t)(seed >> 8) % (most[seed % 4] + 1) : PROXY_WORLD_SLOT;
}

static unsigned char byte_of(uint64_t seed, size_t i)
{
	return (unsigned char)(seed >> i % 56) ^ (unsigned char)(i * 31 >> 3);
}

int proxy_world_post(struct proxy_world *w, int i, uint32_t index, size_t bytes, int is_few)
{
	const struct remote *r = &w->remote;
	const remote_offset offset = w->connections[i][index].offsets[REMOTE_OUT];
	struct remote_words *words = remote_words_at(r, offset);
	const uint64_t n = w->connections[i][index].sent, seed = seed_of(w, rank, w->peers[i], index, n);
	if (n >= __atomic_load_n(&words->free, __ATOMIC_ACQUIRE) + slots.depth)
		return 0;
	unsigned char few[REMOTE_FEW_BYTES];
	unsigned char *data = is_few ? few : remote_data_at(r, index, offset, n);
	for (size_t b = 0; b < bytes; b++)
		data[b] = byte_of(seed, b);
	const struct remote_header header = {
		.number = n + 1, .signature = seed, .typed_bytes = ~seed, .bytes = bytes
	};
	if (is_few)
		slot_front_write(remote_header_at(r, offset, &slots, n), &header, few);
	else
		*remote_header_at(r, offset, &slots, n) = header;
	w->through_slots += !is_few;
	__atomic_store_n(&words->posted, ++w->connections[i][index].sent, __ATOMIC_RELEASE);
	return 1;
}

int proxy_world_take(struct proxy_world *w, int i, uint32_t index, size_t bytes)
{
	const struct remote *r = &w->remote;
	const uint64_t n = w->connections[i][index].taken, seed = seed_of(w, w->peers[i], rank, index, n);
	const remote_offset offset = w->connections[i][index].offsets[REMOTE_IN];
	const unsigned char *data = remote_data_at(r, index, offset, n);
	unsigned char few[REMOTE_FEW_BYTES];
	struct remote_header header;
	const enum front_form form =
	    slot_front_read(remote_header_at(r, offset, &slots, n), n + 1, &header, few);
	size_t bad = 0;
	if (form == FRONT_NOTHING)
		return 0;
	proxy_world_expect(header.signature == seed && header.typed_bytes == ~seed,
			   "a header of another message");
	proxy_world_expect(header.bytes == bytes, "another size");
	if (form == FRONT_INLINE && in_gpu) /* they need not be in the slot */
		data = few;
	proxy_world_expect(form == FRONT_HEADER || (bytes <= REMOTE_FEW_BYTES && !memcmp(few, data, bytes)),
			   "other few bytes");
	for (size_t b = 0; header.bytes == bytes && b < bytes; b++)
		bad += data[b] != byte_of(seed, b);
	proxy_world_expect(!bad, "other bytes");
	__atomic_store_n(&remote_words_at(r, offset)->taken, ++w->connections[i][index].taken,
			 __ATOMIC_RELEASE);
	return 1;
}

/* Of a size that its bytes follow from, too. */
static int try_post(struct proxy_world *w, int i, uint32_t index)
{
	const uint64_t seed = seed_of(w, rank, w->peers[i], index, w->connections[i][index].sent);
	const size_t bytes = size_of(seed);
	return proxy_world_post(w, i, index, bytes, in_gpu && bytes <= REMOTE_FEW_BYTES && seed >> 60 & 1);
}

static int try_take(struct proxy_world *w, int i, uint32_t index)
{
	return proxy_world_take(
	    w, i, index, size_of(seed_of(w, w->peers[i], rank, index, w->connections[i][index].taken)));
}

/* Posts and takes so many messages more on each connection, in all worlds at once. */
static void exchange(struct proxy_world **worlds, int n, uint64_t each)
{
	const double start = MPI_Wtime();
	long left = 2 * (long)each * n * (size - 1) * REMOTE_CONNECTIONS;
	uint64_t until[8];
	for (int k = 0; k < n; k++) {
		until[k] = worlds[k]->connections[0][0].sent + each;
		proxy_world_begin(worlds[k]);
	}
	while (left) {
		long before = left;
		for (int k = 0; k < n; k++)
			for (int i = 0; i < size - 1; i++)
				for (uint32_t index = 0; index < REMOTE_CONNECTIONS; index++) {
					const struct proxy_connection_end *at =
					    &worlds[k]->connections[i][index];
					left -= at->taken < until[k] && try_take(worlds[k], i, index);
					left -= at->sent < until[k] && try_post(worlds[k], i, index);
				}
		if (left == before)
			usleep(50);
		if (MPI_Wtime() - start > DEADLINE_S)
			proxy_world_give_up("messages do not come");
	}
	for (int k = 0; k < n; k++)
		proxy_world_end(worlds[k]);
}

/* ---- Cases -------------------------------------------------------------------------------------------------- */

static void all_connections(void)
{
	struct proxy_world *w = proxy_world_open();
	exchange(&w, 1, 40);
	proxy_world_expect(proxy_lost(w->proxy) < 0, "a rank is lost");
	MPI_Barrier(MPI_COMM_WORLD); /* a rank that has closed its side is lost to the others */
	if (rank == 0)
		usleep(300000);
	proxy_world_close(w, 1000000000);
}

static void several_at_once(void)
{
	struct proxy_world *worlds[] = { proxy_world_open(), proxy_world_open(), proxy_world_open() };
	exchange(worlds, 3, 8);
	proxy_world_close(worlds[1], 1000000000);
	exchange((struct proxy_world *[]){ worlds[2], worlds[0] }, 2, 8);
	proxy_world_close(worlds[0], 1000000000);
	proxy_world_close(worlds[2], 1000000000);
}

/* Ranks end a communicator in which messages are under way, and nobody takes them; another goes on. */
static void end_in_the_middle(void)
{
	struct proxy_world *ends = proxy_world_open(), *stays = proxy_world_open();
	exchange((struct proxy_world *[]){ ends, stays }, 2, 4);
	proxy_world_begin(ends);
	for (int i = 0; i < size - 1; i++)
		for (uint32_t index = (uint32_t)rank; index < REMOTE_CONNECTIONS; index += 2)
			while (try_post(ends, i, index))
				;
	usleep(20000 * (unsigned)rank);
	const double start = MPI_Wtime();
	proxy_world_close(ends, 1);
	proxy_world_expect(MPI_Wtime() - start < CLOSE_S, "it took long to close");
	exchange(&stays, 1, 8);
	struct proxy_world *later = proxy_world_open();
	exchange((struct proxy_world *[]){ later, stays }, 2, 4);
	proxy_world_close(stays, 1000000000);
	proxy_world_close(later, 1000000000);
}

/* Where the first message from rank 0 to rank 1 is as large as can be. */
static uint32_t find_large(const struct proxy_world *w)
{
	uint32_t index = 0;
	while (index < REMOTE_CONNECTIONS - 1 && size_of(seed_of(w, 0, 1, index, 0)) < PROXY_WORLD_SLOT)
		index++;
	return index;
}

/* A call of rank 0 has ended when rank 1 comes for its large message: seconds until that is there. */
static double wait_for_late(void)
{
	struct proxy_world *w = proxy_world_open();
	const uint32_t index = find_large(w);
	double start = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	usleep(10000); /* all proxies sleep */
	if (rank == 0) {
		proxy_world_begin(w);
		try_post(w, 0, index);
		usleep(5000);
		proxy_world_end(w);
	}
	usleep(30000);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank != 1)
		usleep(200000); /* a thread within MPI would help */
	if (rank == 1) {
		proxy_world_begin(w);
		for (start = MPI_Wtime(); !try_take(w, 0, index);) {
			usleep(100);
			if (MPI_Wtime() - start > DEADLINE_S)
				proxy_world_give_up("a message does not come");
		}
		start = MPI_Wtime() - start;
		proxy_world_end(w);
	}
	proxy_world_close(w, 1000000000);
	return start;
}

static void ended_calls(void)
{
	int late = 0;
	for (int i = 0; i < LATE_TRIES; i++)
		late += wait_for_late() > late_s;
	proxy_world_expect(late <= LATE_TRIES / 2, "what a call had posted before its end comes late");
}

/* No proxy moves the transport once the last communicator is closed, or the process has begun to exit. */
static void no_call_afterwards(void)
{
	struct proxy_world *w = proxy_world_open();
	exchange(&w, 1, 4);
	proxy_world_close(w, 1000000000);
	long before = looks;
	usleep(150000);
	proxy_world_expect(looks == before, "a look at the transport after the last communicator was closed");
	w = proxy_world_open();
	proxy_world_begin(w);
	exchange(&w, 1, 4);
	MPI_Barrier(MPI_COMM_WORLD);
	proxy_exiting();
	before = looks;
	usleep(150000);
	proxy_world_expect(looks == before, "a look at the transport while the process exits");
	proxy_world_close(w, 1);
}

static void lists(void)
{
	ranks_proxy_lists(settings);
}

static void run(const char *name, void (*test)(void))
{
	wrong = 0;
	test();
	ranks_report(name, wrong);
}

int main(int argc, char **argv)
{
	/* Open MPI's shared memory: large messages need their sender, as they do over a network. */
	setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
	/* A proxy's pass calls MPI for each message under way. If MPI yielded in each call, as test/run/launcher-env.sh says, each would wait
	 * until the other programs of a busy machine had used their time. */
	setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1);
	const int level = ranks_open(&argc, &argv, MPI_THREAD_MULTIPLE);
	if (size < 2 || size > PROXY_WORLD_RANKS || settings_get(&settings))
		MPI_Abort(MPI_COMM_WORLD, 1);
	over_mpi = transport_mpi(MPI_COMM_WORLD, NULL);
	row = strcmp(settings->transport, "ucx") ? &over_mpi.row : &transport_ucx;
	in_gpu = getenv("TEST_GPU_SLOTS") != NULL;
	if (level < MPI_THREAD_MULTIPLE) {
		if (rank == 0)
			printf("1..0 # SKIP this MPI has no MPI_THREAD_MULTIPLE\n");
		return MPI_Finalize();
	}
	run("messages of all sizes on all connections", all_connections);
	run("several communicators at once", several_at_once);
	run("the end in the middle", end_in_the_middle);
	run("the messages of all rows' lists", lists);
	if (!getenv(
		"TEST_UNTIMED")) /* of when a proxy looks, not of what carries its messages: an adapter in user space takes as long itself */
		run("calls that have ended", ended_calls);
	run("no look at the transport afterwards", no_call_afterwards);
	return ranks_close();
}
