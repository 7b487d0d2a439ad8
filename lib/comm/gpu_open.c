/* SPDX-License-Identifier: BSD-3-Clause */
/* How the engine of a CUDA communicator comes up: the same GPU windows everywhere, passed as descriptors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm_create.h"
#include "host/fdpass.h"
#include "gpu.h"
#include "call/gpu_call.h"
#include "gpu_blocks.h"
#include "base/log.h"
#include "net/gpu_planners.h"
#include "base/process.h"
#include "health/gpu_health.h"
#include "health/unmap.h"

/* As settings say; 0: all of the GPU. */
static int most_blocks(const struct comm *comm)
{
	const struct settings *s = &comm->settings;
	const struct plan_blocks_asked asked = { .given = s->max_ctas,
						 .usual = comm->traits.usual_blocks,
						 .least = comm->traits.least_blocks,
						 .efficient = s->cta_policy == SETTINGS_CTA_EFFICIENT,
						 .in_host = comm->host_window };
	return plan_most_blocks(&asked);
}

static int open_engine(struct comm *comm)
{
	char why_not[256] = "";
	if (!engine_process.available(why_not, sizeof why_not))
		return log_error(CORALE_ENOTSUP, comm->rank,
				 "a CUDA communicator: no GPU can be used here: %s", why_not);
	const struct settings *s = &comm->settings;
	const struct plan_map *map = &comm->topo->map;
	struct engine_params params = { .rank = map->local_of[comm->rank],
					.ranks = plan_group_size(map, PLAN_NODE, comm->rank),
					.most_ranks = map->max_node_size,
					.least_ranks = gpu_planners_least_node(map),
					.world_rank = comm->rank,
					.world_ranks = comm->size,
					.window_bytes = comm->host_window ? s->host_window : s->gpu_window,
					.host_window = comm->host_window,
					.memory_cap = s->memory_cap,
					.max_blocks = most_blocks(comm),
					.timeout_s = s->timeout,
					.nodes = map->nodes,
					.pinned_bytes = s->pinned_memory,
					.holds = comm->traits.holds };
	comm->gpu_journal = gpu_journal_create();
	if (!comm->gpu_journal)
		return log_error(CORALE_ENOMEM, comm->rank,
				 "a CUDA communicator: no memory to note its calls");
	return engine_cuda.open(&params, &comm->gpu);
}

static int exchange_windows(struct comm *comm, const struct gpu_hello *all, struct fdpass *pass,
			    const int mine[ENGINE_FDS])
{
	int *fds = NULL, ret = gpu_pass_fds(comm, pass, all->name, sizeof *all, mine, ENGINE_FDS, &fds);
	if (!ret)
		ret = engine_cuda.connect(comm->gpu, fds, gpu_hello_all_export(all, comm->size));
	comm_close_fds(comm, ENGINE_FDS, fds);
	return ret;
}

/* Calls of the ranks of one node may read buffers where they lie. */
static int wants_zero_copy(const struct comm *comm)
{
	return comm->settings.zero_copy && comm->topo->map.nodes == 1 && !comm->words_only &&
	       comm->size <= LAUNCH_ZERO_COPY_RANKS;
}

/* Ranks that share a GPU wait for each other's time slices. Once a process. */
static void log_shared(const struct comm *comm, const struct gpu_hello *all)
{
	static _Atomic int said;
	for (int r = 0; r < comm->size; r++)
		if (r != comm->rank && gpu_hello_on_one_gpu(&all[r], &all[comm->rank])) {
			log_once(&said, LOG_WARN, comm->rank,
				 "ranks %d and %d are on one GPU: it works, but they wait for each other's "
				 "time slices",
				 r, comm->rank);
			return;
		}
}

/*
 * A kernel that waits at the head of a hardware channel holds up everything behind it, and all streams of a process share few channels on
 * a GPU (8, under MPS 2). A call by copy engines enqueues waiting kernels on three streams, so those of several ranks of one process can
 * fill the channels while the copies that would end the waits are behind them. Ranks of several processes have channels of their own, also
 * under MPS, and each rank's waits end by what other ranks enqueue.
 */
static void refuse_copies(struct comm *comm, const struct gpu_hello *all)
{
	const int rank = gpu_hello_find_beside(all, comm->size);
	if (rank >= 0 || comm->host_window) /* there they would need memory of peers */
		gpu_machine_refuse(&comm->machine, &copies_codelet);
	if (rank >= 0 && !comm->rank)
		log_line(
		    LOG_INFO, comm->rank,
		    "copy engines run no call of this communicator: rank %d and another rank of its process "
		    "are on one GPU, where calls that wait would fill the process's hardware channels",
		    rank);
}

/* The first rank whose GPU is of another class than rank 0's; -1: none. */
static int find_other(const struct comm *comm, const struct gpu_hello *all)
{
	for (int r = 1; r < comm->size; r++)
		if (rates_of_gpu(all[r].gpu) != rates_of_gpu(all->gpu))
			return r;
	return -1;
}

/* The first rank whose GPU no class knows; -1: all are known. */
static int find_unknown(const struct comm *comm, const struct gpu_hello *all)
{
	for (int r = 0; r < comm->size; r++)
		if (!rates_are_known(rates_of_gpu(all[r].gpu)))
			return r;
	return -1;
}

/* By one rank, once a process. */
static void log_rates(const struct comm *comm, const struct rates *rates, const struct gpu_hello *all)
{
	static _Atomic int said_kinds, said_unknown;
	const int unknown = find_unknown(comm, all), other = find_other(comm, all);
	if (comm->rank || rates_are_known(rates))
		return;
	if (unknown < 0)
		log_once(&said_kinds, LOG_WARN, comm->rank,
			 "the ranks' GPUs are of several kinds (rank 0: %s, rank %d: %s): conservative rates "
			 "choose how calls run, so results are right, but calls may take longer than they "
			 "need to; CORALE_PROTO and CORALE_ALGO force others",
			 all->gpu, other, all[other].gpu);
	else
		log_once(&said_unknown, LOG_WARN, comm->rank,
			 "nobody has measured how fast a GPU like rank %d's is (%s): conservative rates "
			 "choose how calls run, so results are right, but calls may take longer than they "
			 "need to; CORALE_PROTO and CORALE_ALGO force others",
			 unknown, all[unknown].gpu);
}

/*
 * Ranks make scratch in their first large call, which waits on the host for all of them. One thread may drive several ranks of its process:
 * it would wait for itself.
 */
static void choose_scratch(struct comm *comm, const struct gpu_hello *all)
{
	const int asked = gpu_hello_find_no_scratch(all, comm->size),
		  together = gpu_hello_find_process(all, comm->size);
	if (asked < 0 && together < 0 && !comm->host_window)
		return;
	comm->scratch = COMM_SCRATCH_NONE;
	if (comm->rank || comm->host_window)
		return;
	if (asked >= 0)
		log_line(LOG_INFO, comm->rank, "no scratch for large calls: rank %d was created without",
			 asked);
	else
		log_line(LOG_INFO, comm->rank,
			 "no scratch for large calls: rank %d and another rank are in one process, and one "
			 "thread may drive both, which must not wait on the host for itself",
			 together);
}

/* Blocks that ranks can have: the least and most of any; the first rank that has no more because of other communicators on its GPU, -1: there is
 * none. */
struct shares {
	int least, most, cut;
};

static struct shares find_shares(const struct gpu_hello *all, int ranks)
{
	struct shares s = { gpu_hello_share(all, ranks, 0), gpu_hello_share(all, ranks, 0), -1 };
	for (int r = 1; r < ranks; r++) {
		const int share = gpu_hello_share(all, ranks, r);
		s.least = share < s.least ? share : s.least;
		s.most = share > s.most ? share : s.most;
	}
	for (int r = 0; r < ranks && s.cut < 0; r++)
		if (all[r].offered < all[r].max_blocks && gpu_hello_share(all, ranks, r) == s.least)
			s.cut = r;
	return s;
}

/* Multiprocessors that a rank may hold however few blocks it has: half a one for messages to and from each rank, or a block for each program of a plan over
 * nodes. */
static int least_held(const struct plan_map *map)
{
	enum { PROGRAMS = 3 };
	const int least = map->max_node_size;
	return map->nodes > 1 && least < PROGRAMS ? PROGRAMS : least;
}

/* A communicator on a rank's GPU as gpu_blocks.h counts it: all ranks of this process there, before the ranks agree. */
static struct gpu_blocks asked_blocks(const struct comm *comm, const struct gpu_hello *all)
{
	const struct engine_own_gpu *gpu = engine_cuda.own_gpu(comm->gpu);
	struct gpu_blocks asked = { .comm = comm->id,
				    .processors = gpu->processors,
				    .wish = all[comm->rank].max_blocks,
				    .least = least_held(&comm->topo->map) *
					     gpu_hello_beside(all, comm->size, comm->rank) };
	memcpy(asked.gpu, gpu->id.uuid, sizeof asked.gpu);
	return asked;
}

/* What other communicators leave each rank, into all[]. What the ranks agree on then counts from here on until gpu_close. */
static int claim_blocks(struct comm *comm, struct gpu_hello *all, struct shares *shares)
{
	const struct gpu_blocks asked = asked_blocks(comm, all);
	const int beside = gpu_hello_beside(all, comm->size, comm->rank);
	struct gpu_blocks_sum others = { 0, 0 };
	int32_t mine = 0;
	int ret = gpu_blocks_claim(comm, comm->rank, &asked, &mine, &others);
	int32_t *offered = comm_gather(comm, &ret, "count the blocks of its GPU", &mine, sizeof mine);
	for (int r = 0; !ret && r < comm->size; r++)
		all[r].offered = offered[r];
	free(offered);
	if (ret)
		return ret;
	*shares = find_shares(all, comm->size);
	const int held = shares->least * beside;
	const struct gpu_blocks_sum sum = gpu_blocks_settle(comm, held > asked.least ? held : asked.least);
	if (comm->rank == shares->cut)
		gpu_blocks_log_cut(comm->rank, all[comm->rank].id.pci, &asked, &others,
				   shares->least * beside);
	gpu_blocks_log_excess(comm->rank, all[comm->rank].id.pci, &asked, &sum);
	return 0;
}

/* Both ends of a message cut it by the least number of blocks, and choose by the same rates. */
static int share_machine(struct comm *comm, const struct gpu_hello *all, const struct shares *shares)
{
	/* of all ranks: GPUs of several classes are none that is known */
	const struct rates *rates = rates_of_gpu(find_other(comm, all) < 0 ? all->gpu : NULL);
	if (shares->least < 1)
		return log_error(CORALE_ENOTSUP, comm->rank,
				 "a CUDA communicator: more ranks of one process are on a GPU than its "
				 "kernels may have blocks, so they can't wait for each other side by side: "
				 "use fewer ranks a GPU, a process each, or a larger CORALE_MAX_CTAS");
	comm->rates = *rates;
	tuning_apply_gpus(&comm->tuning, &comm->rates);
	if (comm->host_window)
		comm->rates =
		    rates_with_bus(&comm->rates, rates->name, gpu_hello_slowest_bus(all, comm->size));
	engine_cuda.share_machine(comm->gpu, shares->least, &comm->rates, comm->words_only,
				  (int)plan_protocol_forced(comm->settings.proto));
	refuse_copies(comm, all);
	choose_scratch(comm, all);
	log_rates(comm, rates, all);
	if (shares->least < shares->most)
		log_line(LOG_INFO, comm->rank,
			 "the ranks' GPUs run %d to %d blocks: all kernels have at most %d", shares->least,
			 shares->most, shares->least);
	return 0;
}

static struct gpu_hello hello_of(struct comm *comm)
{
	const struct engine_own_gpu *own = engine_cuda.own_gpu(comm->gpu);
	struct gpu_hello mine = { .id = own->id,
				  .processors = own->processors,
				  .process = process_number(),
				  .bus_gbs = own->bus_gbs,
				  .untried = !gpu_peers_are_tried(),
				  .no_scratch = comm->traits.no_scratch && !comm->traits.scratch };
	engine_cuda.describe(comm->gpu, &comm->machine);
	mine.max_blocks = comm->machine.max_blocks;
	snprintf(mine.gpu, sizeof mine.gpu, "%s", own->name);
	return mine;
}

/* ret: how this rank has opened its own. */
static int connect_engines(struct comm *comm, int ret)
{
	struct gpu_hello mine = { 0 };
	struct shares shares;
	struct fdpass *pass = NULL;
	int fds[ENGINE_FDS] = { -1, -1 };
	if (!ret) {
		ret = engine_cuda.window_fds(comm->gpu, wants_zero_copy(comm), fds);
		mine = hello_of(comm);
		mine.exports = fds[ENGINE_BOARD_FD] >= 0;
	}
	if (!ret)
		ret = fdpass_listen(&pass, mine.name);
	struct gpu_hello *all =
	    comm_gather(comm, &ret, "open a GPU and share its window", &mine, sizeof mine);
	ret = ret ? ret : claim_blocks(comm, all, &shares);
	ret = ret ? ret : share_machine(comm, all, &shares);
	if (!ret) {
		ret = exchange_windows(comm, all, pass, fds);
		if (ret) { /* ranks that wait for this one's descriptors find that it does not listen */
			fdpass_close(pass);
			pass = NULL;
		}
		ret = comm_agree(comm, ret, "map its peers' GPU windows");
		ret = ret ? ret : gpu_try_peers(comm, all);
	}
	if (!ret)
		log_shared(comm, all);
	fdpass_close(pass);
	if (fds[ENGINE_WINDOW_FD] >= 0)
		close(fds[ENGINE_WINDOW_FD]);
	free(all);
	return ret;
}

/* ret: how this rank has opened its engine. */
static int open_all(struct comm *comm, int ret, int *met)
{
	if (comm->size > 1)
		ret = connect_engines(comm, ret);
	if (!ret && comm->topo->map.nodes > 1)
		ret = gpu_remote_open(comm);
	if (ret)
		return ret;
	engine_cuda.describe(comm->gpu, &comm->machine);
	if (comm->scratch == COMM_SCRATCH_OPEN && comm->size > 1 && comm->topo->map.nodes == 1)
		/* Choices made before the first large call and behind it must be the same: one rank's log may ask for them early. */
		comm->machine.scratch_bytes = engine_memory.scratch_bytes(comm->gpu);
	comm->make_scratch = mem_make_scratch;
	comm->trace = trace_open();
	gpu_machine_settings(&comm->machine, &comm->topo->map, &comm->settings);
	*met = gpu_plans_open(comm);
	log_line(LOG_INFO, comm->rank,
		 "GPU engine of %d ranks, %zu bytes of its memory, at most %d blocks a kernel", comm->size,
		 engine_memory.memory(comm->gpu), comm->machine.max_blocks);
	if (!*met)
		comm_log_choices(comm);
	return 0;
}

int gpu_open(struct comm *comm, int *met)
{
	int entered = 0, mode = 0, ret = *met ? *met : gpu_indices_open(comm);
	ret = ret ? ret : gpu_waits_open(comm);
	ret = ret ? ret : open_engine(comm);
	if (comm->gpu) {
		entered = engine_cuda.enter(comm->gpu);
		mode =
		    engine_process
			.spare_captures(); /* UCX, too, may call CUDA when it opens devices and registers memory */
	}
	ret = open_all(comm, ret, met);
	if (comm->gpu) {
		engine_process.end_spare(mode);
		engine_cuda.leave(comm->gpu, entered);
	}
	return ret;
}

int gpu_make_scratch(struct comm *comm)
{
	if (!comm->traits.no_scratch || !comm->traits.scratch || comm->scratch != COMM_SCRATCH_OPEN)
		return 0;
	const int ret = comm->size > 1 && !comm->proxy
			    ? mem_make_scratch(comm, &(struct call){ .record.coll = CORALE_NUM_COLLS })
			    : 0;
	if (!ret && comm->scratch == COMM_SCRATCH_OPEN)
		comm->scratch = COMM_SCRATCH_NONE;
	return ret;
}

void gpu_finish(struct comm *comm)
{
	gpu_failure(comm);
	engine_cuda.finish(comm->gpu);
	gpu_failure(comm);
	if (mem_is_shared(comm))
		unmap_wait(comm);
}

void gpu_close(struct comm *comm)
{
	free(comm->gpu_journal);
	comm->gpu_journal = NULL;
	gpu_remote_close(comm);
	free(comm->gpu_index);
	free(comm->gpu_rank);
	free(comm->gpu_waits);
	comm->gpu_waits = NULL;
	if (!comm->gpu)
		return;
	unmap_finish(comm);
	engine_cuda.close(comm->gpu);
	gpu_blocks_release(comm); /* its kernels have ended */
	unmap_answer_all(comm);
	gpu_plans_close(comm);
	trace_close(comm->trace);
	comm->gpu = NULL;
}
