/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "ucx_worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/process.h"
#include "ucx_devices.h"
#include "ucx_comm.h"

/* Without descriptors UCX ends the process by an assertion. It opens 15 with two network interfaces, and files for a moment. */
enum { DEFAULT_SPIN_NS = 20000, WORKER_DESCRIPTORS = 32, SHARED_BYTES = 5 << 20 };

/*
 * The process's workers, one for each rail, kind of slots, list of devices, and with shared memory or without: connections and a thread are too expensive for each communicator to have its own.
 * A worker stays until the process ends, asleep while there is no communicator. Destroying it while a peer is still connecting makes UCX 1.13 abort, and
 * later communicators find their connections made.
 */
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ucx_worker *process_workers[UCX_WORKERS];
static int workers;

static int make_worker(struct ucx_worker *w, int rank)
{
	ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				       .thread_mode = UCS_THREAD_MODE_SERIALIZED };
	ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
							 UCP_AM_HANDLER_PARAM_FIELD_CB |
							 UCP_AM_HANDLER_PARAM_FIELD_ARG,
					   .id = 0,
					   .cb = ucx_message_arrive,
					   .arg = w };
	ucs_status_t status = ucp_worker_create(w->context, &params, &w->ucp);
	if (status != UCS_OK)
		return ucx_failed("ucp_worker_create", rank, status);
	status = ucp_worker_set_am_recv_handler(w->ucp, &handler);
	if (status == UCS_OK)
		status = ucp_worker_get_efd(w->ucp, &w->event_fd);
	if (status == UCS_OK)
		status = ucp_worker_get_address(w->ucp, &w->address, &w->address_bytes);
	if (status != UCS_OK) {
		ucp_worker_destroy(w->ucp);
		return ucx_failed("worker", rank, status);
	}
	return 0;
}

/* A worker without a context; NULL: no memory. */
static struct ucx_worker *new_worker(const struct transport_params *params, const char *devices)
{
	struct ucx_worker *w = calloc(1, sizeof(*w));
	char *wanted = strdup(devices);
	if (!w || !wanted) {
		free(w);
		free(wanted);
		return NULL;
	}
	pthread_mutex_init(&w->lock, NULL);
	w->wanted = wanted;
	w->rail = params->rail;
	w->gpu_slots = params->gpu_slots;
	w->shares_memory = params->shares_memory;
	w->spin_ns =
	    params->settings->spin_us < 0 ? DEFAULT_SPIN_NS : (int64_t)(params->settings->spin_us * 1000);
	if (getrandom(&w->uid, sizeof(w->uid), 0) != sizeof(w->uid))
		w->uid = (uintptr_t)w;
	return w;
}

static int open_worker(struct ucx_worker *w, const struct transport_params *params, int shares_memory)
{
	const struct ucx_context_params context = { .rank = params->rank,
						    .settings = params->settings,
						    .devices = w->wanted,
						    .shares_memory = shares_memory,
						    .gpu_slots = w->gpu_slots };
	int ret = ucx_context_open(&context, &w->context);
	if (ret)
		return ret;
	ret = make_worker(w, params->rank);
	if (ret)
		ucp_cleanup(w->context);
	return ret;
}

/* Without this room UCX 1.13 opens no worker; 1.18 opens one without shared memory, and says nothing of it. */
static int has_room(void)
{
	const char *folder = secure_getenv("UCX_POSIX_DIR");
	struct statvfs files;
	return secure_getenv("UCX_TLS") || statvfs(folder ? folder : "/dev/shm", &files) ||
	       files.f_bavail >= SHARED_BYTES / (files.f_frsize ? files.f_frsize : 1);
}

/* Containers may have too little of /dev/shm. */
static int open_with_less(struct ucx_worker *w, const struct transport_params *params)
{
	const int may_share = w->shares_memory && has_room();
	int ret = may_share == w->shares_memory ? open_worker(w, params, may_share) : CORALE_ENOMEM;
	w->has_memory = !ret && may_share;
	if (!ret || !w->shares_memory)
		return ret;
	ret = open_worker(w, params, 0);
	if (!ret)
		log_line(LOG_WARN, params->rank,
			 "transport ucx: as UCX could not make shared memory, messages to ranks of other "
			 "nodes on this host go over the network: give /dev/shm more room (docker run "
			 "--shm-size)");
	return ret;
}

static int start(const struct transport_params *params, const char *devices, struct ucx_worker **out)
{
	struct ucx_worker *w = new_worker(params, devices);
	if (!w)
		return log_error(CORALE_ENOMEM, params->rank, "transport ucx: no memory");
	int ret = open_with_less(w, params);
	if (ret)
		goto free_worker;
	ucx_devices_list(w->context, w->devices, sizeof(w->devices));
	w->rdma = ucx_devices_have_rdma(w->context);
	ucx_gpudirect_look(w->context, &w->gpudirect);
	if ((ret = ucx_thread_start(w)))
		goto destroy_worker;
	*out = w;
	return 0;
destroy_worker:
	ucp_worker_release_address(w->ucp, w->address);
	ucp_worker_destroy(w->ucp);
	ucp_cleanup(w->context);
free_worker:
	pthread_mutex_destroy(&w->lock);
	free(w->wanted);
	free(w);
	return ret;
}

static void note_exit(void)
{
	for (int i = 0; i < workers; i++)
		atomic_store(&process_workers[i]->exits, 1);
}

/*
 * Behind the library's end, by the priority, and before UCX's own code is torn down. The threads live so long because older exit handlers of the program may
 * use communicators, and peers wait for answers meanwhile. A forked child has none.
 */
__attribute__((destructor(101))) static void stop_at_end(void)
{
	for (int i = 0; i < workers && !process_is_forked(); i++)
		ucx_end_worker(process_workers[i]);
}

static struct ucx_worker *find_worker(const struct transport_params *params, const char *devices)
{
	for (int i = 0; i < workers; i++) {
		struct ucx_worker *w = process_workers[i];
		if (w->rail == params->rail && w->gpu_slots == params->gpu_slots &&
		    w->shares_memory == params->shares_memory && !strcmp(w->wanted, devices))
			return w;
	}
	return NULL;
}

/* Under the process's lock. */
static int add_worker(const struct transport_params *params, const char *devices, struct ucx_worker **out)
{
	static int registered;
	if (workers == UCX_WORKERS)
		return log_error(CORALE_ENOTSUP, params->rank,
				 "transport ucx: no context for rail %d over %s: this process has %d "
				 "already, of other rails and devices, which stay until it ends; use the "
				 "same CORALE_NET_DEVICES for all communicators",
				 params->rail, devices[0] ? devices : "the devices chosen by default",
				 workers);
	if (descriptors_need(WORKER_DESCRIPTORS, params->rank, "UCX's start"))
		return CORALE_ESYSTEM;
	struct ucx_descriptors *before = ucx_descriptors_before();
	const int ret = start(params, devices, out);
	if (ret) {
		free(before);
		return ret;
	}
	process_workers[workers++] = *out;
	ucx_descriptors_add(before, *out);
	process_started();
	if (!registered)
		registered = !atexit(note_exit);
	return 0;
}

int ucx_worker_acquire(const struct transport_params *params, struct ucx_worker **out)
{
	const char *devices =
	    params->devices && params->devices[0] ? params->devices : params->settings->net_devices;
	int ret = 0;
	pthread_mutex_lock(&process_lock);
	struct ucx_worker *w = find_worker(params, devices);
	if (!w)
		ret = add_worker(params, devices, &w);
	if (!ret) {
		w->users++;
		*out = w;
	}
	pthread_mutex_unlock(&process_lock);
	return ret;
}

static int open_for_people(const struct settings *settings, ucp_context_h *out)
{
	const struct ucx_context_params params = { .rank = -1,
						   .settings = settings,
						   .devices = settings->net_devices };
	return ucx_context_open(&params, out);
}

int ucx_worker_devices(const struct settings *settings, char *text, size_t bytes)
{
	ucp_context_h context;
	int ret = open_for_people(settings, &context);
	if (ret)
		return ret;
	ucx_devices_list(context, text, bytes);
	ucp_cleanup(context);
	return 0;
}

int ucx_worker_gpudirect(const struct settings *settings, char *text, size_t bytes)
{
	struct ucx_gpudirect g;
	ucp_context_h context;
	int ret = open_for_people(settings, &context);
	if (ret)
		return ret;
	ucx_gpudirect_look(context, &g);
	ucx_gpudirect_print(&g, text, bytes);
	ucp_cleanup(context);
	return 0;
}

void ucx_worker_release(struct ucx_worker *w, int in_order, int64_t until_ns)
{
	pthread_mutex_lock(&process_lock);
	if (--w->users == 0)
		ucx_end_flush(w, in_order, until_ns);
	pthread_mutex_unlock(&process_lock);
}
