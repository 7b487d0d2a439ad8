#define _GNU_SOURCE
#include "ucx_worker.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/process.h"
#include "ucx_devices.h"
#include "ucx_end.h"
#include "ucx_message.h"

enum { DEFAULT_SPIN_NS = 20000 };

/*
 * Those of the process, one a rail: connections and a thread are too dear for every communicator to have its own. Once made
 * one stays, asleep when there is no communicator, until the process ends: a worker that is destroyed while a peer
 * is still connecting to it makes UCX 1.13 abort, and communicators that come later find their connections made.
 */
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ucx_worker *process_workers[TRANSPORT_RAILS];

static int failed(const char *what, int rank, ucs_status_t status)
{
	return log_error(ucx_code(status), rank, "transport ucx: %s: %s", what, ucs_status_string(status));
}

/*
 * Segments of tcp: UCX's own are so small that what is copied through them costs a system call or two for every 8 KB. Sizes
 * of socket buffers are left to the kernel: it grows them as far as a connection needs, and what is set is cut by
 * net.core.wmem_max. UCX would warn of names that no transport takes, and until 1.16 knows them without "TCP_".
 */
static ucs_status_t set_segments(ucp_config_t *config, const char *devices)
{
	static const struct {
		const char *variable, *value;
	} sizes[] = { { "UCX_TCP_TX_SEG_SIZE", "64k" }, { "UCX_TCP_RX_SEG_SIZE", "256k" } };
	unsigned major, minor, release;
	ucs_status_t status = UCS_OK;
	ucp_get_version(&major, &minor, &release);
	for (size_t i = 0; i < 2 && ucx_devices_have_tcp(devices) && status == UCS_OK; i++) {
		const char *name = sizes[i].variable + strlen("UCX_");
		if (major == 1 && minor <= 16)
			name += strlen("TCP_");
		if (!secure_getenv(sizes[i].variable))
			status = ucp_config_modify(config, name, sizes[i].value);
	}
	return status;
}

/*
 * Slots in GPUs' memory. Without a list that names no CUDA, UCX asks for the allocation around a GPU's address, and maps nothing where it
 * knows none. A read that may pass earlier writes says nothing of them. Of UCX before 1.16 the CPU copies small puts, whatever memory they are
 * from. UCX warns of names that are not its version's.
 */
static ucs_status_t set_gpu_slots(ucp_config_t *config)
{
	static const struct {
		const char *name, *value;
		unsigned first, last; /* minor versions that know it */
	} values[] = { { "MEMTYPE_REG_WHOLE_ALLOC_TYPES", "rocm", 0, UINT_MAX },
		       { "PCI_RELAXED_ORDERING", "n", 0, 16 },
		       { "IB_PCI_RELAXED_ORDERING", "n", 17, UINT_MAX },
		       { "MAX_RMA_RAILS", "1", 16, UINT_MAX },
		       { "ZCOPY_THRESH", "0", 0, 15 } };
	unsigned major, minor, release;
	ucs_status_t status = UCS_OK;
	ucp_get_version(&major, &minor, &release);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]) && status == UCS_OK; i++)
		if (minor >= values[i].first && minor <= values[i].last)
			status = ucp_config_modify(config, values[i].name, values[i].value);
	return status;
}

struct context_opening {
	const ucp_config_t *config;
	ucp_context_h context;
	ucs_status_t status;
};

static void *init_context(void *arg)
{
	struct context_opening *o = arg;
	const ucp_params_t features = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
					.features = UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_RMA |
						    UCP_FEATURE_WAKEUP,
					.name = "corale" };
	o->status = ucp_init(&features, o->config, &o->context);
	return NULL;
}

/*
 * In a thread of its own, which has no current CUDA context: a UCX that has CUDA opens it whatever UCX_TLS says, and would set
 * CU_CTX_SYNC_MEMOPS on the program's context. That waits for the program's kernels, and makes its copies synchronous.
 */
static int init_apart(const ucp_config_t *config, int rank, ucp_context_h *out)
{
	struct context_opening o = { .config = config };
	pthread_t thread;
	const int error = process_thread(&thread, init_context, &o);
	if (error)
		return log_error(CORALE_ESYSTEM, rank, "transport ucx: pthread_create: %s", strerror(error));
	pthread_join(thread, NULL);
	*out = o.context;
	return o.status == UCS_OK ? 0 : failed("ucp_init", rank, o.status);
}

static int open_context(const struct settings *settings, int rank, int gpu_slots, int no_cuda,
			ucp_context_h *out)
{
	const char *devices = settings->net_devices;
	char transports[256];
	ucp_config_t *config;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return failed("ucp_config_read", rank, status);
	if (devices[0])
		status = ucp_config_modify(config, "NET_DEVICES", devices);
	ucx_devices_transports(secure_getenv("UCX_TLS"), no_cuda, transports, sizeof(transports));
	if (status == UCS_OK && transports[0])
		status = ucp_config_modify(config, "TLS", transports);
	if (status == UCS_OK)
		status = set_segments(config, devices);
	if (status == UCS_OK && gpu_slots)
		status = set_gpu_slots(config);
	const int ret =
	    status == UCS_OK ? init_apart(config, rank, out) : failed("ucp_config_modify", rank, status);
	ucp_config_release(config);
	return ret;
}

static int make_context(const struct settings *settings, int rank, int gpu_slots, ucp_context_h *out)
{
	int ret = open_context(settings, rank, gpu_slots, 0, out);
	if (ret || !ucx_devices_call_cuda(*out))
		return ret;
	ucp_cleanup(*out);
	return open_context(settings, rank, gpu_slots, 1, out);
}

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
		return failed("ucp_worker_create", rank, status);
	status = ucp_worker_set_am_recv_handler(w->ucp, &handler);
	if (status == UCS_OK)
		status = ucp_worker_get_efd(w->ucp, &w->event_fd);
	if (status == UCS_OK)
		status = ucp_worker_get_address(w->ucp, &w->address, &w->address_bytes);
	if (status != UCS_OK) {
		ucp_worker_destroy(w->ucp);
		return failed("worker", rank, status);
	}
	return 0;
}

static int start(const struct transport_params *params, struct ucx_worker **out)
{
	struct ucx_worker *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return log_error(CORALE_ENOMEM, params->rank, "transport ucx: no memory");
	pthread_mutex_init(&w->lock, NULL);
	w->spin_ns =
	    params->settings->spin_us < 0 ? DEFAULT_SPIN_NS : (int64_t)(params->settings->spin_us * 1000);
	w->gpu_slots = params->gpu_slots;
	if (getrandom(&w->uid, sizeof(w->uid), 0) != sizeof(w->uid))
		w->uid = (uintptr_t)w;
	if ((ret = make_context(params->settings, params->rank, params->gpu_slots, &w->context)))
		goto free_worker;
	if ((ret = make_worker(w, params->rank)))
		goto free_context;
	ucx_devices_list(w->context, w->devices, sizeof(w->devices));
	if ((ret = ucx_thread_start(w)))
		goto destroy_worker;
	*out = w;
	return 0;
destroy_worker:
	ucp_worker_release_address(w->ucp, w->address);
	ucp_worker_destroy(w->ucp);
free_context:
	ucp_cleanup(w->context);
free_worker:
	pthread_mutex_destroy(&w->lock);
	free(w);
	return ret;
}

/* Before UCX's own code is torn down; nobody waits for the worker any more. */
static void stop_at_exit(void)
{
	for (int rail = 0; rail < TRANSPORT_RAILS; rail++)
		if (process_workers[rail])
			ucx_thread_stop(process_workers[rail]);
}

int ucx_worker_acquire(const struct transport_params *params, struct ucx_worker **out)
{
	static int registered;
	struct ucx_worker **w = &process_workers[params->rail];
	int ret = 0;

	pthread_mutex_lock(&process_lock);
	if (!*w)
		ret = start(params, w);
	if (!ret && !registered)
		registered = !atexit(stop_at_exit);
	if (!ret) {
		(*w)->users++;
		*out = *w;
	}
	pthread_mutex_unlock(&process_lock);
	return ret;
}

int ucx_worker_devices(const struct settings *settings, char *text, size_t bytes)
{
	ucp_context_h context;
	int ret = make_context(settings, -1, 0, &context);
	if (ret)
		return ret;
	ucx_devices_list(context, text, bytes);
	ucp_cleanup(context);
	return 0;
}

void ucx_worker_release(struct ucx_worker *w)
{
	pthread_mutex_lock(&process_lock);
	if (--w->users == 0)
		ucx_end_flush(w);
	pthread_mutex_unlock(&process_lock);
}
