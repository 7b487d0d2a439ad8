/* How the GPUs of a CUDA communicator reach each other, and by which protocols small messages may travel. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm_create.h"
#include "gpu.h"
#include "plan/codelet/row.h"

/* The slowest link from a rank's GPU to another GPU of its node. */
struct worst {
	int32_t link; /* enum engine_link */
	int32_t peer;
};

static int find_worst(const struct comm *comm, const struct engine_identity *ids, size_t stride,
		      struct worst *out)
{
	const int n = comm->engine.locals;
	struct engine_identity *local = calloc((size_t)n, sizeof *local);
	enum engine_link *links = calloc((size_t)n, sizeof *links);
	int ret = local && links ? 0 : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", n);
	*out = (struct worst){ ENGINE_NVLINK, comm->rank };
	for (int p = 0; !ret && p < n; p++)
		memcpy(&local[p], (const char *)ids + stride * (size_t)gpu_rank_at(comm, p), sizeof *local);
	if (!ret)
		engine_cuda.links(comm->gpu, local, n, links);
	for (int p = 0; !ret && p < n; p++)
		if ((int)links[p] < out->link)
			*out = (struct worst){ (int32_t)links[p], gpu_rank_at(comm, p) };
	free(local);
	free(links);
	return ret;
}

static int check(const struct comm *comm, struct worst w)
{
	if (w.link != ENGINE_NO_LINK)
		return 0;
	return log_error(
	    CORALE_ENOTSUP, comm->rank,
	    "a CUDA communicator: the GPUs of ranks %d and %d can't reach each other's memory (no peer "
	    "access): use host memory (CORALE_DEVICE_HOST)",
	    comm->rank, w.peer);
}

/* By one rank for all; the warning once a process. */
static void log_links(const struct comm *comm, int rank, struct worst w)
{
	static _Atomic int said;
	static const char how[] =
	    "small messages go by words of 8 bytes (LL), longer ones through slots (FIFO)";
	if (comm->rank)
		return;
	if (w.link == ENGINE_UNKNOWN_LINK)
		log_once(&said, LOG_WARN, comm->rank,
			 "whether there is NVLink between the GPUs of ranks %d and %d can't be told: %s, "
			 "which may be slower than need be; let the processes load libnvidia-ml.so.1 (in "
			 "containers: "
			 "NVIDIA_DRIVER_CAPABILITIES=compute,utility), or see all GPUs of their node",
			 rank, w.peer, how);
	else if (w.link == ENGINE_PEER)
		log_line(LOG_INFO, comm->rank, "the GPUs of ranks %d and %d have no NVLink between them: %s",
			 rank, w.peer, how);
	else if (plan_words_forced(&comm->settings))
		log_line(LOG_INFO, comm->rank, "CORALE_PROTO=LL: %s", how);
}

/* One such pair on any node is enough, as all ranks choose alike. */
int gpu_share_links(struct comm *comm, const struct engine_identity *ids, size_t stride, int *words_only)
{
	struct worst mine;
	int rank = 0, ret = find_worst(comm, ids, stride, &mine);
	ret = ret ? ret : check(comm, mine);
	struct worst *all = comm_gather(comm, &ret, "reach its peers' GPUs", &mine, sizeof mine);
	if (!all)
		return ret;
	for (int r = 1; r < comm->size; r++)
		rank = all[r].link < all[rank].link ? r : rank;
	*words_only = all[rank].link != ENGINE_NVLINK || plan_words_forced(&comm->settings);
	log_links(comm, rank, all[rank]);
	free(all);
	return 0;
}
