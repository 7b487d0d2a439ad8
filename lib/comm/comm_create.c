/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm_create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm_doors.h"
#include "gpu.h"
#include "base/descriptor.h"
#include "base/float_env.h"
#include "base/log.h"
#include "base/process.h"
#include "transport_rows.h"
#include "tuning_file.h"
#include "health/watch.h"

enum { GPU_HOST_SLOT_BYTES = 4 << 10, MOST_SECONDS = 1000000000 /* as CORALE_TIMEOUT: in ns they fit */ };

_Static_assert(SETTINGS_CTA_ZERO == CORALE_CTA_POLICY_ZERO - CORALE_CTA_POLICY_AUTO,
	       "the setting has the configuration's policies but the first");

/* Also for host communicators, which make nothing of it: so that a wrong or different value is never passed over. */
static int merge_cta_policy(struct comm *comm, int policy)
{
	if (policy < CORALE_CTA_POLICY_DEFAULT || policy > CORALE_CTA_POLICY_ZERO)
		return log_error(CORALE_EINVAL, comm->rank,
				 "corale_config: cta_policy %d; give a CORALE_CTA_POLICY_*", policy);
	if (policy != CORALE_CTA_POLICY_DEFAULT)
		comm->settings.cta_policy = policy - CORALE_CTA_POLICY_AUTO;
	return 0;
}

/* The configuration's values replace the environment's. */
static int merge_config(struct comm *comm, const corale_config *config)
{
	const struct settings *process;
	int ret = settings_get(&process);
	if (ret)
		return ret;
	comm->settings = *process;
	comm->timeout_name = "CORALE_TIMEOUT";
	if (!config)
		return 0;
	if (config->size < sizeof config->size + sizeof config->timeout_seconds || config->size > 4096)
		return log_error(
		    CORALE_EINVAL, comm->rank,
		    "corale_config.size is %zu, not sizeof(corale_config): call corale_config_init first",
		    config->size);
	corale_config c;
	corale_config_init(&c);
	memcpy(&c, config, config->size < sizeof c ? config->size : sizeof c);
	if (c.device < CORALE_DEVICE_DEFAULT || c.device > CORALE_DEVICE_CUDA || c.max_channels < 0)
		return log_error(CORALE_EINVAL, comm->rank,
				 "corale_config: device %d and max_channels %d; give a CORALE_DEVICE_* and a "
				 "number from 0",
				 c.device, c.max_channels);
	comm->wants_gpu = c.device == CORALE_DEVICE_CUDA;
	if (comm->wants_gpu) { /* the host engine carries control messages alone */
		comm->settings.max_channels = 1;
		if (comm->settings.slot_bytes > GPU_HOST_SLOT_BYTES)
			comm->settings.slot_bytes = GPU_HOST_SLOT_BYTES;
	}
	if (!(c.timeout_seconds <= MOST_SECONDS)) /* also NaN */
		return log_error(CORALE_EINVAL, comm->rank,
				 "corale_config: timeout_seconds %g; give seconds up to %d, 0 for "
				 "CORALE_TIMEOUT, or -1 for no deadline",
				 c.timeout_seconds, MOST_SECONDS);
	if (c.timeout_seconds) {
		comm->settings.timeout = c.timeout_seconds < 0 ? 0 : c.timeout_seconds;
		comm->timeout_name =
		    comm->traits.timeout_name ? comm->traits.timeout_name : "timeout_seconds";
	}
	if (c.memory_cap)
		comm->settings.memory_cap = c.memory_cap;
	if (c.max_channels)
		*(comm->wants_gpu ? &comm->settings.max_ctas : &comm->settings.max_channels) = c.max_channels;
	return merge_cta_policy(comm, c.cta_policy);
}

/* Before the ranks compare settings. */
static void merge_traits(struct comm *comm)
{
	struct settings *s = &comm->settings;
	if (comm->traits.gpu_window)
		s->gpu_window = comm->traits.gpu_window;
	if (comm->traits.pinned_memory)
		s->pinned_memory = comm->traits.pinned_memory;
	if (!comm->traits.in_order)
		return;
	s->reproducible = 1;
	if (settings_is_offered(s, "CORALE_PROTO"))
		snprintf(s->proto, sizeof s->proto, "auto");
}

/* Hosts and processes of ranks on several nodes, for log lines. */
static int name_peers(struct comm *comm, const struct hello *hellos)
{
	if (comm->topo->map.nodes == 1 || comm->peers)
		return 0;
	comm->peers = calloc((size_t)comm->size, sizeof *comm->peers);
	for (int r = 0; comm->peers && r < comm->size; r++) {
		comm->peers[r].pid = (int)hellos[r].pid;
		comm->peers[r].has_pid = hellos[r].pids && hellos[r].pids == hellos[comm->rank].pids;
		memcpy(comm->peers[r].host, hellos[r].name, sizeof comm->peers[r].host);
	}
	return comm->peers
		   ? 0
		   : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks' names", comm->size);
}

static void choose_waits(struct comm *comm)
{
	int shared_cores = comm->topo->cores_per_rank_x16 < 16;
	double spin_us = comm->settings.spin_us;
	comm->policy.spin_ns = spin_us < 0 ? (shared_cores ? 0 : 2000) : (int64_t)(spin_us * 1e3);
	comm->policy.timeout_ns = (int64_t)(comm->settings.timeout * 1e9);
}

static int choose_channels(struct comm *comm)
{
	int wanted = comm->settings.max_channels, by_cores = comm->topo->cores_per_rank_x16 / 32;
	int channels = wanted ? wanted : by_cores < 1 ? 1 : by_cores > 4 ? 4 : by_cores;
	int most = TRANSPORT_MAX_LINKS / PLAN_MAX_QUEUES;
	return comm->manual || channels < 1 ? 1 : channels > most ? most : channels;
}

/* Which ranks are a node. The same on all ranks. */
static int map_ranks(struct comm *comm, const struct hello *hellos)
{
	topo_destroy(comm->topo);
	comm->topo = NULL;
	int ret = hello_topology(hellos, comm->size, &comm->settings, &comm->topo);
	if (!ret)
		comm_use_tuning(comm);
	return ret;
}

static void place_engine(struct comm *comm)
{
	struct host_engine *e = &comm->engine;
	e->rank = comm->rank;
	e->map = comm->topo->map;
	e->settings = &comm->settings;
	e->local = e->map.local_of[comm->rank];
	e->locals = plan_group_size(&e->map, PLAN_NODE, comm->rank);
	e->channels = choose_channels(comm);
	comm->settings.max_channels = e->channels;
}

/* Ranks that can't share memory show it by trying: then the map is made anew. */
static int open_windows(struct comm *comm, struct hello *hellos, int status)
{
	int ret;
	place_engine(comm);
	while ((ret = comm_open_windows(comm, hellos, status)) == COMM_APART) {
		comm_close_windows(comm);
		ret = map_ranks(comm, hellos);
		ret = comm_agree(comm, ret ? ret : name_peers(comm, hellos), "name its peers");
		if (ret)
			return ret;
		place_engine(comm);
		status = 0;
	}
	return ret;
}

/* Everything that needs several ranks. *met: what this rank alone has met, which the next exchange tells all. */
static int open_engine(struct comm *comm, struct hello *hellos, int *met)
{
	int ret = open_windows(comm, hellos, *met);
	ret = ret ? ret : comm_open_transport(comm, hellos);
	if (ret)
		return ret;
	*met = host_engine_open(&comm->engine);
	if (comm->topo->map.nodes == 1)
		return 0;
	ret = comm_agree(comm, *met, "open the host engine"); /* by which ranks time messages */
	return ret ? ret : comm_find_rates(comm, hellos);
}

/* A rank that asks to be apart is so at once, unless its GPU may share host memory instead. */
static void set_access(const struct comm *comm, struct hello *mine)
{
	const int is_asked = comm->traits.apart || (comm->wants_gpu && !comm->settings.p2p);
	mine->gpu = comm->wants_gpu;
	mine->no_access = comm->wants_gpu && is_asked;
	mine->host_window = comm->wants_gpu && comm->settings.host_window && !comm->traits.shares_nothing;
	if (is_asked && !mine->host_window)
		hello_set_apart(mine, HELLO_ASKED, mine->token);
}

/* What this rank finds by itself: its settings, and whether it can use them. */
static int prepare(struct comm *comm, const corale_config *config)
{
	char error[256];
	int ret = merge_config(comm, config);
	merge_traits(comm);
	if (!ret && planner_check_algo(comm->settings.algo, error, sizeof error))
		ret = log_error(CORALE_ESETTING, comm->rank, "CORALE_ALGO: %s", error);
	ret = ret ? ret : transport_check_wanted(&comm->settings, comm->rank);
	ret = ret ? ret : comm_check_rates(comm);
	return ret ? ret : tuning_load(&comm->settings, comm->rank, &comm->tuning);
}

/* The ranks learn of each other. status: what this rank has met so far, which all others learn. */
static int meet(struct comm *comm, int status, struct hello **hellos)
{
	const corale_bootstrap *b = &comm->bootstrap;
	struct hello mine;
	hello_init(&mine, b, &comm->settings, comm->traits.host_id, status);
	set_access(comm, &mine);
	if (!comm->traits.shares_nothing && comm->settings.node_size <= 0)
		hello_offer_memory(&mine);
	if (!status && comm->wants_gpu && comm->size > 1 && engine_process.identify)
		engine_process.identify(&mine.id);
	mine.tuning = tuning_hash(&comm->tuning);
	if (!status)
		hello_probe(&mine, &comm->settings, comm->transport_row);
	const int ret = hello_exchange(b, &mine, hellos);
	return ret ? ret : hello_compare(b, *hellos, &comm->settings);
}

static int make_counts(struct comm *comm)
{
	comm->sends = calloc((size_t)comm->size, sizeof *comm->sends);
	comm->recvs = calloc((size_t)comm->size, sizeof *comm->recvs);
	return comm->sends && comm->recvs
		   ? 0
		   : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks' counts", comm->size);
}

/* Nodes, engines and choices, once the ranks know each other. */
static int open_comm(struct comm *comm, struct hello *hellos)
{
	comm->id = hellos[0].token ? hellos[0].token : 1;
	int ret =
	    comm->wants_gpu && comm->size > 1 && engine_process.links ? gpu_find_links(comm, hellos) : 0;
	ret = ret ? ret : map_ranks(comm, hellos);
	if (ret)
		return ret;
	int met = make_counts(comm);
	met = met ? met : name_peers(comm, hellos);
	choose_waits(comm);
	if (comm->size > 1)
		ret = open_engine(comm, hellos, &met);
	if (!ret && comm->wants_gpu)
		ret = gpu_open(comm, &met);
	if (ret)
		return ret;
	planner_init(&comm->plans.planner, comm->topo, &comm->settings);
	ret = comm_compare_choices(comm, met);
	return ret || !comm->gpu ? ret : gpu_make_scratch(comm);
}

static int create(struct comm *comm, const corale_config *config, const struct comm_traits *traits,
		  int status)
{
	struct hello *hellos = NULL;
	descriptors_hold_standard();
	if (traits)
		comm->traits = *traits;
	status = status ? status : prepare(comm, config);
	process_started(); /* also where the creation fails: threads stay */
	int ret = meet(comm, status, &hellos);
	ret = ret ? ret : open_comm(comm, hellos);
	if (!ret)
		log_line(LOG_INFO, comm->rank,
			 "communicator of %d ranks on %d nodes, %d channels, windows of %zu bytes reserved",
			 comm->size, comm->topo->map.nodes, comm->engine.channels, comm->engine.layout.bytes);
	free(hellos);
	return ret;
}

static void begin(struct comm *comm, const corale_bootstrap *bootstrap, const struct transport_row *transport,
		  struct comm_origin *origin)
{
	memset(comm, 0, sizeof *comm);
	comm->bootstrap = exchanges_check(&comm->exchanges, bootstrap);
	comm->rank = bootstrap->rank;
	comm->size = bootstrap->size;
	comm->transport_row = transport;
	comm->origin = origin;
	pthread_mutex_init(&comm->error_lock, NULL);
}

int corale_private_comm_create(const corale_bootstrap *bootstrap, const corale_config *config,
			       const struct transport_row *transport, const struct comm_traits *traits,
			       void (*on_destroy)(void *), void *on_destroy_ctx, corale_comm **out)
{
	struct comm *comm = NULL;
	struct comm_origin *origin = NULL;
	int ret = 0;
	if (!bootstrap || !bootstrap->allgather || bootstrap->size < 1 || bootstrap->rank < 0 ||
	    bootstrap->rank >= bootstrap->size)
		ret = log_error(
		    CORALE_EINVAL, -1,
		    "corale_comm_create: a bootstrap with 0 <= rank < size and an all-gather is needed");
	else if (process_refuses("corale_comm_create"))
		ret = CORALE_ENOTSUP;
	else if (!(comm = calloc(1, sizeof *comm)) || !(origin = calloc(1, sizeof *origin)))
		ret = log_error(CORALE_ENOMEM, bootstrap->rank, "no memory for a communicator");
	if (ret) {
		free(comm);
		if (on_destroy)
			on_destroy(on_destroy_ctx);
		return ret;
	}
	*origin = (struct comm_origin){ 1, on_destroy, on_destroy_ctx };
	begin(comm, bootstrap, transport, origin);
	int status = out ? 0
			 : log_error(CORALE_EINVAL, comm->rank,
				     "corale_comm_create: no place for the communicator (comm is NULL)");
	const float_env env = float_env_default(); /* all ranks choose alike */
	while ((ret = create(comm, config, traits, status)) == COMM_AGAIN) {
		comm_close(comm);
		begin(comm, bootstrap, transport, origin);
	}
	float_env_restore(env);
	if (!ret)
		ret = comm_handle_create(comm);
	if (ret) {
		comm_free(comm);
		return ret;
	}
	if (comm->size > 1)
		watch_add(comm);
	*out = comm->handle;
	return 0;
}

int corale_comm_create(const corale_bootstrap *bootstrap, const corale_config *config, corale_comm **comm)
{
	return corale_private_comm_create(bootstrap, config, NULL, NULL, NULL, NULL, comm);
}
