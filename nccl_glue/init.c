/* SPDX-License-Identifier: BSD-3-Clause */
/* How communicators come up: from an id, or all of a process's at once. From a parent: child.c. */
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/process.h"
#include "base/settings.h"
#include "boot/boot_tcp.h"
#include "base/interfaces.h"
#include "comm/gpu_blocks.h"
#include "door.h"
#include "env.h"
#include "export.h"
#include "init.h"
#include "init_log.h"
#include "log.h"

_Static_assert(sizeof(ncclUniqueId) == BOOT_ID_BYTES, "an id is the bootstrap's");

static struct boot_options boot_options(const struct settings *settings)
{
	const char *family = door_env("NCCL_SOCKET_FAMILY");
	return (struct boot_options){ .ifname = door_env("NCCL_SOCKET_IFNAME"),
				      .family = family ? interface_family(family) : 0,
				      .address = door_env("NCCL_COMM_ID"),
				      .timeout_s = settings->nccl_init_timeout > 0
						       ? settings->nccl_init_timeout
						       : 1e9 /* never: 32 years */ };
}

DOOR_EXPORT(ncclGetUniqueId);
ncclResult_t pncclGetUniqueId(ncclUniqueId *id)
{
	const ncclResult_t refused = door_refuse_forked("GetUniqueId");
	const struct settings *settings;
	if (refused != ncclSuccess)
		return refused;
	if (!id)
		return door_refuse(ncclInvalidArgument, "ncclGetUniqueId: no place for the id");
	int ret = door_settings(&settings);
	if (!ret) {
		const struct boot_options options = boot_options(settings);
		descriptors_raise_limit();
		ret = boot_id_create(&options, (unsigned char *)id->internal);
	}
	return door_logged_error(ret);
}

/* Whether another NCCL may succeed where Corale did not: not where the program, or a variable of Corale's, is wrong. */
static int another_may_succeed(int code)
{
	return code != CORALE_EINVAL && code != CORALE_EMISMATCH && code != CORALE_ESETTING &&
	       code != CORALE_EABORTED;
}

/* The cause is logged. Keeps it for ncclGetLastError, with how to run the program all the same. */
ncclResult_t door_init_failed(const struct door_job *job, int code, const char *cause)
{
	static const char without[] = "to run this program with NVIDIA's NCCL, start it without corale-run";
	char text[DOOR_ERROR_BYTES];
	if (!job->comm && another_may_succeed(code)) {
		snprintf(text, sizeof text, "%s; %s", cause, without);
		door_keep_error(text);
		log_line(LOG_WARN, job->rank, "no communicator was made; %s", without);
	} else {
		door_keep_error(cause);
	}
	return door_error_of(code);
}

/* ---- From a bootstrap to a communicator ---------------------------------------------------------------------- */

static int gather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct ncclComm *comm = ctx;
	struct door_meeting *m = comm->meeting;
	if (!m)
		return boot_allgather(comm->boot, in, bytes, out);
	int ret = door_meet(m, in, bytes, out);
	if (ret && !m->failure[0]) /* what follows from it is logged later, and says less */
		snprintf(m->failure, sizeof m->failure, "%s", log_last_error());
	return ret;
}

static int gather_alone(void *boot, const void *in, size_t bytes, void *out)
{
	memcpy(out, in, bytes);
	return 0;
}

static int policy_of(const struct door_config *config)
{
	static const int policies[] = { CORALE_CTA_POLICY_DEFAULT, CORALE_CTA_POLICY_EFFICIENT,
					CORALE_CTA_POLICY_ZERO };
	return policies[config->cta_policy & 3 ? (config->cta_policy & 1 ? 1 : 2) : 0];
}

static int is_disabled(const char *variable)
{
	return door_env_number(variable, 0, 0, 1) == 1;
}

/* A program has dozens of communicators, most of them of few ranks: slots need less memory then. */
static size_t pinned_memory(int ranks, const struct settings *settings)
{
	const size_t each = (size_t)1 << 20, least = 16 * each, bytes = (size_t)ranks * each;
	if (settings->nccl_pinned)
		return settings->nccl_pinned;
	if (bytes > settings->pinned_memory)
		return settings->pinned_memory;
	return bytes > least ? bytes : least;
}

static int create_core(struct ncclComm *comm, const struct settings *settings, int in_order)
{
	corale_config config;
	corale_config_init(&config);
	config.timeout_seconds = settings->nccl_timeout > 0 ? settings->nccl_timeout : -1;
	config.device = comm->device->is_gpu ? CORALE_DEVICE_CUDA : CORALE_DEVICE_HOST;
	config.cta_policy = policy_of(&comm->config);
	if (settings->nccl_scratch)
		config.memory_cap = settings->nccl_window + settings->nccl_scratch;
	if (comm->device->is_gpu)
		config.max_channels = door_max_blocks(&comm->config, in_order);
	const struct comm_traits traits = { .holds = 1,
					    .usual_blocks = DOOR_BLOCKS,
					    .least_blocks = door_least_blocks(&comm->config),
					    .no_scratch = 1,
					    .scratch = settings->nccl_scratch,
					    .leaves_quietly = 1,
					    .timeout_name = "CORALE_NCCL_TIMEOUT",
					    .creation_timeout = settings->nccl_init_timeout,
					    .apart = is_disabled(comm->device->is_gpu ? "NCCL_P2P_DISABLE"
										      : "NCCL_SHM_DISABLE"),
					    .shares_nothing = is_disabled("NCCL_SHM_DISABLE"),
					    .host_id = door_env("NCCL_HOSTID"),
					    .in_order = in_order,
					    .gpu_window = settings->nccl_window,
					    .pinned_memory = pinned_memory(comm->size, settings) };
	const corale_bootstrap bootstrap = { comm->rank, comm->size, comm,
					     comm->boot ? gather : gather_alone };
	return corale_private_comm_create(&bootstrap, &config, NULL, &traits, NULL, NULL, &comm->core);
}

/* Where every rank is, and whether its variables pin sums. */
static int gather_places(struct ncclComm *comm, struct init_place *all)
{
	const struct init_place mine = { process_number(), comm->ordinal, door_fixes_order(&comm->config) };
	*all = mine;
	return comm->boot ? gather(comm, &mine, sizeof mine, all) : 0;
}

/* 1 if the variables of all ranks pin sums. Some do: one rank names two that differ. */
static int agree_pins(const struct ncclComm *comm, const struct init_place *places)
{
	int pinned = -1, other = -1;
	for (int r = 0; r < comm->size; r++)
		*(places[r].pins ? &pinned : &other) = r;
	if (comm->rank || pinned < 0)
		return other < 0;
	if (other >= 0)
		log_line(LOG_WARN, comm->rank,
			 "rank %d pins one channel, NCCL_PROTO=Simple and one NCCL_ALGO, rank %d does not: "
			 "sums of this communicator may depend on size and offset; set the variables equally "
			 "on all ranks",
			 pinned, other);
	else
		door_log(DOOR_LOG_INIT | DOOR_LOG_TUNING | DOOR_LOG_ENV,
			 "Corale: one channel, NCCL_PROTO=Simple and one NCCL_ALGO are pinned: sums are made "
			 "in rank order (CORALE_REPRODUCIBLE), whatever their size and offset; blocks and "
			 "protocols stay the planner's choice");
	return other < 0;
}

/* The core, and what the log says of it. */
static int bring_up(struct ncclComm *comm, const struct door_job *job, const struct settings *settings)
{
	struct init_place *places = malloc((size_t)comm->size * sizeof *places);
	if (!places)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", comm->size);
	init_log_start(comm, job, settings->nccl_version);
	int ret = gather_places(comm, places);
	ret = ret ? ret : create_core(comm, settings, agree_pins(comm, places));
	if (!ret) {
		comm->id = atomic_load(&comm->core->comm)->id;
		init_log_complete(comm, job, places);
	}
	free(places);
	return ret;
}

/* The bootstrap becomes the communicator's. */
ncclResult_t door_init_create(struct door_job *job, struct boot *boot, const struct door_members *m)
{
	const struct settings *settings;
	struct ncclComm *comm = job->made;
	struct door_meeting meeting = { .job = job, .boot = boot, .ranks = m->ranks, .n = m->n };
	int ret = comm->device ? door_settings(&settings) : CORALE_ENOTSUP;
	gpu_blocks_name_variables("CORALE_MAX_CTAS or NCCL_MAX_CTAS");
	comm->rank = m->mine;
	comm->size = m->n;
	comm->boot = boot;
	comm->meeting = &meeting;
	if (!ret)
		ret = bring_up(comm, job, settings);
	comm->meeting = NULL;
	if (ret && boot) /* other ranks may not have failed */
		boot_give_up(boot, ret, meeting.failure[0] ? meeting.failure : log_last_error());
	if (!ret && boot)
		boot_rest(boot);
	return ret ? door_init_failed(job, ret, meeting.failure[0] ? meeting.failure : log_last_error())
		   : ncclSuccess;
}

void door_tell_failed(const struct door_job *job)
{
	if (job->kind == DOOR_INIT && !process_is_forked())
		boot_tcp_tell((const unsigned char *)job->id.internal, job->rank, job->size,
			      log_last_error());
}

void door_job_init(struct door_job *job)
{
	const struct settings *settings;
	struct boot *boot = NULL;
	int ret = door_settings(&settings);
	descriptors_raise_limit(); /* as NCCL does */
	if (ret)
		door_tell_failed(job);
	if (!ret && job->size > 1) {
		const struct boot_options options = boot_options(settings);
		ret = boot_tcp_open((const unsigned char *)job->id.internal, job->rank, job->size, &options,
				    &boot);
	}
	const struct door_members all = { .n = job->size, .mine = job->rank };
	job->result = ret ? door_init_failed(job, ret, log_last_error()) : door_init_create(job, boot, &all);
}

/* ---- The functions ------------------------------------------------------------------------------------------- */

ncclResult_t door_read_config(const char *call, const ncclConfig_t *given, struct door_config *out)
{
	char why[256];
	const ncclResult_t result = door_config_read(given, out, why, sizeof why);
	return result == ncclSuccess ? result : door_refuse(result, "nccl%s: %s", call, why);
}

static ncclResult_t init(const char *call, ncclComm_t *out, int size, const ncclUniqueId *id, int rank,
			 const ncclConfig_t *config)
{
	struct door_job job = { .kind = DOOR_INIT, .call = call, .out = out, .rank = rank, .size = size };
	ncclResult_t result = door_refuse_forked(call);
	if (result == ncclSuccess && (!out || !id || size < 1 || rank < 0 || rank >= size))
		result = door_refuse(ncclInvalidArgument,
				     "nccl%s: rank %d of %d; expected a place for the communicator, an id "
				     "and 0 <= rank < ranks",
				     call, rank, size);
	if (result == ncclSuccess)
		result = door_read_config(call, config, &job.config);
	const struct door_device *device = result == ncclSuccess ? door_device_find() : NULL;
	if (result == ncclSuccess)
		job.id = *id;
	if (result == ncclSuccess && (!device || device->current(&job.ordinal))) {
		result = door_refuse(device ? ncclUnhandledCudaError : ncclInvalidUsage, "nccl%s: %s", call,
				     log_last_error());
		door_tell_failed(&job);
	}
	if (result == ncclSuccess)
		return door_job_submit(&job);
	return door_group_fail(result);
}

DOOR_EXPORT(ncclCommInitRank);
ncclResult_t pncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
	return init("CommInitRank", comm, size, &id, rank, NULL);
}

DOOR_EXPORT(ncclCommInitRankConfig);
ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
				     ncclConfig_t *config)
{
	return init("CommInitRankConfig", comm, size, &id, rank, config);
}

DOOR_EXPORT(ncclCommInitRankScalable);
ncclResult_t pncclCommInitRankScalable(ncclComm_t *comm, int size, int rank, int ids, ncclUniqueId *id,
				       ncclConfig_t *config)
{
	return init("CommInitRankScalable", comm, size, ids < 1 ? NULL : id, rank, config);
}

static ncclResult_t check_all(const ncclComm_t *out, int n, const struct door_device *device,
			      const int *ordinals)
{
	int gpus = 0;
	if (!out || n < 1)
		return door_refuse(
		    ncclInvalidArgument,
		    "ncclCommInitAll: %d ranks; expected 1 at least, and a place for their communicators", n);
	if (!device || device->count(&gpus))
		return door_refuse(device ? ncclUnhandledCudaError : ncclInvalidUsage, "ncclCommInitAll: %s",
				   log_last_error());
	for (int i = 0; device->is_gpu && i < n; i++)
		if ((ordinals ? ordinals[i] : i) < 0 || (ordinals ? ordinals[i] : i) >= gpus)
			return door_refuse(ncclInvalidArgument,
					   "ncclCommInitAll: rank %d on GPU %d; this process sees %d", i,
					   ordinals ? ordinals[i] : i, gpus);
	return ncclSuccess;
}

/* The ranks meet like those of other processes, by an id that this call makes. */
DOOR_EXPORT(ncclCommInitAll);
ncclResult_t pncclCommInitAll(ncclComm_t *out, int n, const int *ordinals)
{
	ncclUniqueId id;
	ncclResult_t result = door_refuse_forked("CommInitAll");
	if (result == ncclSuccess)
		result = check_all(out, n, door_device_find(), ordinals);
	struct door_job *jobs = NULL;
	if (result == ncclSuccess)
		result = pncclGetUniqueId(&id);
	if (result == ncclSuccess && !(jobs = calloc((size_t)n, sizeof *jobs)))
		result = door_refuse(ncclSystemError, "ncclCommInitAll: no memory for %d ranks", n);
	for (int i = 0; result == ncclSuccess && i < n; i++) {
		jobs[i] = (struct door_job){ .kind = DOOR_INIT,
					     .call = "CommInitAll",
					     .out = &out[i],
					     .rank = i,
					     .size = n,
					     .id = id,
					     .ordinal = ordinals ? ordinals[i] : i };
		out[i] = NULL;
		result = door_read_config("CommInitAll", NULL, &jobs[i].config);
	}
	int ready = 0;
	while (result == ncclSuccess && ready < n)
		if ((result = door_job_prepare(&jobs[ready])) == ncclSuccess)
			ready++;
	if (result == ncclSuccess)
		result = door_jobs_run(jobs, n);
	else
		door_jobs_drop(jobs, ready);
	free(jobs);
	return result;
}
