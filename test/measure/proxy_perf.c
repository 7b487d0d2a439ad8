/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What proxies carry between two ranks without any GPU: the limit of calls between nodes of GPUs. Each rank's main thread takes the place
 * of its kernels: it posts messages in the slots of several channels at once and takes those that come; nobody copies what is in them but
 * the network. us: half a round trip of one message; GB/s: of each rank, while both send.
 *
 *   mpirun --bind-to none -n 2 proxy_perf [-t ucx|mpi] [-r RAILS] [-c CHANNELS] [-z SLOT_BYTES] [-b BYTES] [-e BYTES] [-f FACTOR] [-s SECONDS]
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/wait.h"
#include "net/ucx/transport_ucx.h"
#include "net/slot_front.h"
#include "net/proxy.h"
#include "mpi_world.h"
#include "transport_mpi.h"

struct options {
	const char *transport;
	int rails, channels, depth;
	size_t slot, least, most, factor;
	double seconds;
};

static struct remote remote;
static remote_offset offsets[REMOTE_CHANNELS][2]; /* by enum remote_direction */
static uint64_t sent[REMOTE_CHANNELS], taken[REMOTE_CHANNELS];

static void fail(const char *what)
{
	fprintf(stderr, "proxy_perf: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	fail(reason);
}

/* ---- What a kernel does ------------------------------------------------------------------------------------ */

static int try_post(int channel, size_t bytes)
{
	const struct remote_slots *slots = &remote.slots[REMOTE_OF_PLANS];
	const remote_offset offset = offsets[channel][REMOTE_OUT];
	struct remote_words *words = remote_words_at(&remote, offset);
	const uint64_t n = sent[channel];
	if (n >= __atomic_load_n(&words->free, __ATOMIC_ACQUIRE) + slots->depth)
		return 0;
	unsigned char *data = remote_data_at(&remote, remote_index((uint32_t)channel, 0), offset, n);
	if (bytes >= sizeof n)
		memcpy(data + bytes - sizeof n, &n, sizeof n);
	*remote_header_at(&remote, offset, slots, n) =
	    (struct remote_header){ .number = n + 1, .bytes = bytes };
	__atomic_store_n(&words->posted, ++sent[channel], __ATOMIC_RELEASE);
	return 1;
}

static int try_take(int channel, size_t bytes)
{
	const struct remote_slots *slots = &remote.slots[REMOTE_OF_PLANS];
	const remote_offset offset = offsets[channel][REMOTE_IN];
	const uint64_t n = taken[channel];
	const void *front = remote_header_at(&remote, offset, slots, n);
	unsigned char few[REMOTE_FEW_BYTES];
	struct remote_header header;
	uint64_t stamp = n;
	if (slot_front_read(front, n + 1, &header, few) == FRONT_NOTHING)
		return 0;
	if (bytes >= sizeof n)
		memcpy(&stamp,
		       remote_data_at(&remote, remote_index((uint32_t)channel, 0), offset, n) + bytes -
			   sizeof n,
		       sizeof n);
	if (header.bytes != bytes || stamp != n)
		fail("a message is not the one that was sent");
	__atomic_store_n(&remote_words_at(&remote, offset)->taken, ++taken[channel], __ATOMIC_RELEASE);
	return 1;
}

/* ---- Times ------------------------------------------------------------------------------------------------- */

/* A channel's share of a call, cut as kernels cut it. */
struct share {
	size_t bytes, slot;
	long pieces;
};

static struct share share_of(const struct options *o, size_t bytes)
{
	const size_t share = bytes / (size_t)o->channels;
	return (struct share){ share, o->slot, (long)((share + o->slot - 1) / o->slot) };
}

static size_t piece_of(const struct share *s, uint64_t number)
{
	const size_t at = (size_t)(number % (uint64_t)s->pieces) * s->slot;
	return s->bytes - at < s->slot ? s->bytes - at : s->slot;
}

/* Both ranks send so many shares on each channel; seconds. */
static double stream(const struct proxy *proxy, int channels, const struct share *share, long rounds)
{
	const uint64_t each = (uint64_t)(rounds * share->pieces);
	uint64_t begin_sent[REMOTE_CHANNELS], begin_taken[REMOTE_CHANNELS],
	    to_post = each * (uint64_t)channels, to_take = to_post;
	memcpy(begin_sent, sent, sizeof sent);
	memcpy(begin_taken, taken, sizeof taken);
	MPI_Barrier(MPI_COMM_WORLD);
	const double start = MPI_Wtime();
	while (to_post || to_take) {
		const uint64_t before = to_post + to_take;
		for (int c = 0; c < channels; c++) {
			const uint64_t in = taken[c] - begin_taken[c], out = sent[c] - begin_sent[c];
			to_take -= (uint64_t)(in < each && try_take(c, piece_of(share, in)));
			to_post -= (uint64_t)(out < each && try_post(c, piece_of(share, out)));
		}
		if (to_post + to_take == before)
			sched_yield();
		if (proxy_lost(proxy) >= 0 || MPI_Wtime() - start > 60)
			fail("messages do not come");
	}
	return MPI_Wtime() - start;
}

static double bounce(int rank, size_t bytes, int count)
{
	MPI_Barrier(MPI_COMM_WORLD);
	const double start = MPI_Wtime();
	for (int half = 0; half < 2 * count; half++)
		while (!(half % 2 == rank ? try_post(0, bytes) : try_take(0, bytes)))
			;
	return MPI_Wtime() - start;
}

static void run(const struct options *o, const struct proxy *proxy, int rank)
{
	for (size_t bytes = o->least; bytes <= o->most; bytes *= o->factor) {
		const struct share share = share_of(o, bytes);
		double us = 0, seconds = 1;
		long rounds = 0;
		if (bytes <= o->slot) {
			bounce(rank, bytes, 10);
			us = bounce(rank, bytes, 1000) / 2000 * 1e6;
		}
		if (share.bytes) {
			rounds = (long)(o->seconds / stream(proxy, o->channels, &share, 1)) + 1;
			MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
			seconds = stream(proxy, o->channels, &share, rounds);
		}
		if (rank == 0)
			printf("  %12zu %10.2f %10.3f\n", bytes, us,
			       (double)share.bytes * o->channels * (double)rounds / seconds / 1e9);
		fflush(stdout);
	}
}

/* ---- Coming up --------------------------------------------------------------------------------------------- */

static struct proxy *open_proxy(const struct options *o, const struct settings *settings, int rank,
				struct proxy_params *params)
{
	static const unsigned char needed[2] = { 1, 1 };
	static struct transport_mpi_row over_mpi;
	static int peer;
	const struct transport_row *row = strcmp(o->transport, "mpi") ? &transport_ucx : &over_mpi.row;
	const corale_bootstrap bootstrap = { rank, 2, NULL, mpi_world_allgather };
	char why_not[512] = "no transport";
	struct proxy *proxy;
	over_mpi = transport_mpi(MPI_COMM_WORLD, NULL);
	peer = !rank;
	remote = (struct remote){ .slots = { [REMOTE_OF_PLANS] = { (uint32_t)o->slot, (uint32_t)o->depth } },
				  .peers = 1 };
	const size_t bytes =
	    REMOTE_LINE + (size_t)o->channels * 2 * remote_end_bytes(&remote.slots[REMOTE_OF_PLANS]);
	remote.memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	if (!remote.memory)
		fail("no memory");
	memset(remote.memory, 0, bytes);
	remote_set_data(&remote, remote.memory);
	*params = (struct proxy_params){
		.nrails = o->rails, .remote = remote, .bytes = bytes, .ranks = &peer, .rank = rank
	};
	for (int rail = 0; rail < o->rails; rail++) {
		const struct transport_params p = {
			.rank = rank,
			.size = 2,
			.comm_id = 1 + (uint64_t)rail,
			.rail = rail,
			.needed = needed,
			.settings = settings,
			.slots = { .depth = 8, .bytes = settings->slot_bytes, .cap = SIZE_MAX },
			.on_control = mpi_world_no_control,
			.on_failure = on_failure
		};
		if (!row->probe(row, 1, why_not, sizeof why_not) ||
		    transport_open(row, &p, &bootstrap, &params->rails[rail]))
			fail(why_not);
	}
	if (proxy_open(params, &proxy))
		fail("no proxy");
	for (int c = 0; c < o->channels; c++)
		for (int d = REMOTE_OUT; d <= REMOTE_IN; d++)
			if (proxy_open_end(proxy, 0, (enum remote_direction)d, remote_index((uint32_t)c, 0),
					   &offsets[c][d]))
				fail("no connection");
	proxy_unexpect(proxy, 1); /* it is awake as if graphs were replayed */
	return proxy;
}

static int parse(int argc, char **argv, struct options *o)
{
	for (int c; (c = getopt(argc, argv, "t:r:c:d:z:b:e:f:s:")) != -1;) {
		size_t value = strtoull(optarg ? optarg : "0", NULL, 0);
		switch (c) {
		case 't':
			o->transport = optarg;
			break;
		case 'r':
			o->rails = (int)value;
			break;
		case 'c':
			o->channels = (int)value;
			break;
		case 'd':
			o->depth = (int)value;
			break;
		case 'z':
			o->slot = value;
			break;
		case 'b':
			o->least = value;
			break;
		case 'e':
			o->most = value;
			break;
		case 'f':
			o->factor = value;
			break;
		case 's':
			o->seconds = atof(optarg);
			break;
		default:
			return -1;
		}
	}
	return o->rails >= 1 && o->rails <= TRANSPORT_RAILS && o->channels >= 1 &&
		       o->channels <= REMOTE_CHANNELS && o->depth >= 1 && !(o->depth & (o->depth - 1)) &&
		       o->slot && o->least && o->factor > 1
		   ? 0
		   : -1;
}

int main(int argc, char **argv)
{
	static const char usage[] =
	    "usage: mpirun --bind-to none -n 2 proxy_perf [-t ucx|mpi] [-r RAILS] [-c CHANNELS] [-d DEPTH] "
	    "[-z SLOT_BYTES] [-b BYTES] [-e BYTES] [-f FACTOR] [-s SECONDS]";
	struct options o = { "ucx", 1, REMOTE_CHANNELS, 4, 204 << 10, 8, 64 << 20, 4, 0.3 };
	struct proxy_params params;
	const struct settings *settings;
	int rank, size, level, good = !parse(argc, argv, &o);

	MPI_Init_thread(&argc, &argv, strcmp(o.transport, "mpi") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
			&level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!good || size != 2 || settings_get(&settings))
		fail(usage);
	struct proxy *proxy = open_proxy(&o, settings, rank, &params);
	if (rank == 0)
		printf("# %s, %d rails, %d channels, slots of %zu bytes\n# %12s %10s %10s\n", o.transport,
		       o.rails, o.channels, o.slot, "bytes", "us", "GB/s");
	run(&o, proxy, rank);
	MPI_Barrier(MPI_COMM_WORLD);
	proxy_stop(proxy, 1000000000);
	for (int rail = 0; rail < o.rails; rail++)
		transport_close(params.rails[rail]);
	if (proxy_free(proxy))
		free(remote.memory);
	MPI_Finalize();
	return 0;
}
