#include "gpu_group.h"

#include <mpi.h>
#include <string.h>
#include <unistd.h>

#include "corale.h"
#include "host/fdpass.h"

static const double WAIT_S = 60;

/* Maps everybody's window everywhere. */
static int connect_windows(struct gpu_group *g)
{
	struct fdpass *pass;
	static char names[GPU_GROUP_MOST_RANKS][FDPASS_NAME_BYTES],
	    others[GPU_GROUP_MOST_RANKS][FDPASS_NAME_BYTES];
	int ids[GPU_GROUP_MOST_RANKS], received[GPU_GROUP_MOST_RANKS], fds[GPU_GROUP_MOST_RANKS], mine, n = 0;
	int ret = device_cuda.window_fd(g->device, &mine);
	if (ret || fdpass_listen(&pass, names[g->rank]))
		return ret ? ret : CORALE_ESYSTEM;
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, names, FDPASS_NAME_BYTES, MPI_BYTE, MPI_COMM_WORLD);
	for (int r = 0; r < g->ranks; r++) {
		if (r == g->rank)
			continue;
		memcpy(others[n], names[r], FDPASS_NAME_BYTES);
		ids[n++] = r;
	}
	ret = fdpass_exchange(pass, n, (const char(*)[FDPASS_NAME_BYTES])others, ids, g->rank, 42, &mine, 1,
			      received, WAIT_S);
	fdpass_close(pass);
	close(mine);
	if (ret)
		return ret;
	for (int i = 0; i < n; i++)
		fds[ids[i]] = received[i];
	ret = device_cuda.connect(g->device, fds);
	for (int i = 0; i < n; i++)
		close(received[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	return ret;
}

int gpu_group_open(struct gpu_group *g, const struct gpu_shape *shape, double timeout_s)
{
	uint64_t nodes[GPU_GROUP_MOST_RANKS];
	int peer_of[GPU_GROUP_MOST_RANKS];
	memset(g, 0, sizeof(*g));
	MPI_Comm_rank(MPI_COMM_WORLD, &g->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &g->ranks);
	g->shape = shape;
	for (int r = 0; r < g->ranks; r++) {
		nodes[r] = shape->node_size ? (uint64_t)(r / shape->node_size) : 0;
		peer_of[r] = r;
	}
	struct settings settings = { .slots = shape->slots,
				     .max_channels = shape->channels,
				     .slot_bytes = shape->slot_bytes,
				     .chunk_bytes = shape->chunk_bytes };
	if (topo_create(g->ranks, nodes, &g->topo))
		return -1;
	planner_init(&g->planner, g->topo, &settings);
	struct device_params params = { .map = &g->topo->map,
					.rank = g->rank,
					.peer_of = peer_of,
					.peers = g->ranks,
					.ordinal = g->rank % device_cuda.count(),
					.channels = shape->channels,
					.slots = shape->slots,
					.slot_bytes = shape->slot_bytes,
					.timeout_s = timeout_s };
	int ret = device_cuda.open(&params, &g->device);
	if (!ret)
		ret = device_cuda.stream_create(g->device, &g->stream);
	return ret ? ret : connect_windows(g);
}

void gpu_group_close(struct gpu_group *g)
{
	MPI_Barrier(MPI_COMM_WORLD);
	device_cuda.stream_destroy(g->device, g->stream);
	device_cuda.close(g->device);
	topo_destroy(g->topo);
}

int gpu_group_build(const struct gpu_group *g, corale_coll coll, const char *algo, size_t count,
		    struct plan *plan)
{
	struct plan_key key = planner_key(coll, count, CORALE_FLOAT32, CORALE_SUM);
	int rows;
	const struct algo *table = algo_table(&rows);
	for (int row = 0; row < rows; row++)
		if (table[row].coll == coll && !strcmp(table[row].name, algo))
			return planner_build(&g->planner, &key, row, plan);
	return CORALE_ENOTSUP;
}
