/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "ucx_context.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/interfaces.h"
#include "base/log.h"
#include "base/process.h"
#include "ucx_devices.h"
#include "ucx_worker.h"

/* The last minor version whose puts do not use a handle of registered memory. */
enum { NEEDS_CACHE = 13 };

/*
 * Slots in GPUs' memory. Without a list that names no CUDA, UCX asks for the allocation around a GPU's address, and maps nothing where it
 * knows none. A read that may pass earlier writes says nothing of them. UCX 1.16 to 1.18 reads nothing back over an endpoint that handles
 * errors, unless by the protocols that earlier versions have alone. Of those the CPU copies small puts, whatever memory they are from. Copies by
 * streams or by hosts, where no adapter's way is found, are forbidden: they would wait for kernels. UCX 1.13 registers the source of each put
 * anew, which costs a millisecond, unless its cache of registrations has the slab. UCX says nothing of names that are not its
 * version's, so that decides.
 */
static ucs_status_t set_gpu_slots(ucp_config_t *config)
{
	static const struct {
		const char *name, *value;
		unsigned first, last; /* minor versions that know it */
	} values[] = { { "MEMTYPE_REG_WHOLE_ALLOC_TYPES", "rocm", 0, UINT_MAX },
		       { "REG_METHODS", "rcache", 0, NEEDS_CACHE },
		       { "PCI_RELAXED_ORDERING", "n", 0, 16 },
		       { "IB_PCI_RELAXED_ORDERING", "n", 17, UINT_MAX },
		       { "MAX_RMA_RAILS", "1", 16, UINT_MAX },
		       { "PROTO_ENABLE", "n", 16, 18 },
		       { "PROTO_EMULATION_ENABLE", "n", 21, UINT_MAX },
		       { "RNDV_FRAG_MEM_TYPES", "host", 21, UINT_MAX },
		       { "ZCOPY_THRESH", "0", 0, 18 } };
	const unsigned minor = ucx_minor();
	ucs_status_t status = UCS_OK;
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
static int init_apart(const ucp_config_t *config, int rank, ucp_context_h *out, ucs_status_t *status)
{
	struct context_opening o = { .config = config };
	pthread_t thread;
	const int error = process_thread(&thread, init_context, &o);
	if (error)
		return log_error(CORALE_ESYSTEM, rank, "transport ucx: pthread_create: %s", strerror(error));
	pthread_join(thread, NULL);
	*out = o.context;
	*status = o.status;
	return 0;
}

/* Why a context cannot be used for slots in GPUs' memory. */
static int refuse_gpu_slots(const struct ucx_context_params *p, const char *devices)
{
	const char *transports = secure_getenv("UCX_TLS");
	return log_error(
	    CORALE_ENOTSUP, p->rank,
	    "transport ucx: slots in a GPU's memory need an RDMA adapter, and UCX %s opens none of its "
	    "transports rc, dc and srd with NET_DEVICES=%s and UCX_TLS=%s; ucx_info -d lists what it has%s",
	    ucp_get_version_string(), devices[0] ? devices : "all", transports ? transports : "not set",
	    ucx_minor() > NEEDS_CACHE ? ""
				      : "; UCX 1.13 also needs its cache of registrations: take a newer UCX, "
					"or under Open MPI set OMPI_MCA_memory=^patcher");
}

/* UCX says "No such device" alone. */
static int refuse_devices(const struct ucx_context_params *p, const char *devices)
{
	char names[256] = "";
	struct ifaddrs *all = NULL;
	const int listed = !getifaddrs(&all), others = listed && interface_choose(all, "^=lo", 0);
	if (listed)
		interface_names(all, names, sizeof(names));
	freeifaddrs(all);
	return log_error(ucx_code(UCS_ERR_NO_DEVICE), p->rank,
			 "transport ucx: %s; UCX %s finds none that it can use with NET_DEVICES=%s; "
			 "interfaces with addresses: %s",
			 others ? "there is no such network device"
				: "no network interface has an address that leads to other hosts",
			 ucp_get_version_string(), devices[0] ? devices : "all", names[0] ? names : "none");
}

static int init(const struct ucx_context_params *p, const char *devices, const ucp_config_t *config,
		ucp_context_h *out)
{
	ucs_status_t status = UCS_OK;
	const int ret = init_apart(config, p->rank, out, &status);
	if (ret || status == UCS_OK)
		return ret;
	if (status != UCS_ERR_NO_DEVICE)
		return ucx_failed("ucp_init", p->rank, status);
	return p->gpu_slots ? refuse_gpu_slots(p, devices) : refuse_devices(p, devices);
}

static ucs_status_t configure(const struct ucx_context_params *p, const struct ucx_network *network,
			      enum ucx_cuda cuda, ucp_config_t *config)
{
	char transports[256];
	ucs_status_t status = ucx_network_apply(network, p->settings, p->rank, config);
	ucx_devices_transports(secure_getenv("UCX_TLS"), p->gpu_slots, p->shares_memory, network->kind, cuda,
			       transports, sizeof(transports));
	if (status == UCS_OK && transports[0])
		status = ucp_config_modify(config, "TLS", transports);
	if (status != UCS_OK)
		return status;
	return p->gpu_slots ? set_gpu_slots(config) : ucx_network_apply_tcp(network, p->settings, config);
}

static int open_context(const struct ucx_context_params *p, const struct ucx_network *network,
			enum ucx_cuda cuda, ucp_context_h *out)
{
	ucp_config_t *config;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return ucx_failed("ucp_config_read", p->rank, status);
	status = configure(p, network, cuda, config);
	const int ret = status == UCS_OK ? init(p, network->devices, config, out)
					 : ucx_failed("ucp_config_modify", p->rank, status);
	ucp_config_release(config);
	return ret;
}

/* What a context should have of CUDA in place of the one that was opened; UCX_ANY_CUDA: that may stay. */
static enum ucx_cuda correct(const struct ucx_context_params *p, ucp_context_h context)
{
	struct ucx_gpudirect g;
	const int calls_cuda = ucx_devices_call_cuda(context);
	if (!p->gpu_slots)
		return calls_cuda ? UCX_NO_CUDA : UCX_ANY_CUDA;
	ucx_gpudirect_look(context, &g);
	if (g.mode != UCX_GPUDIRECT_DMABUF || !ucx_devices_have_rdma(context))
		return calls_cuda ? UCX_NO_CUDA : UCX_ANY_CUDA;
	if (ucx_devices_export_dmabuf(context))
		return UCX_ANY_CUDA;
	return secure_getenv("UCX_TLS") ? (calls_cuda ? UCX_NO_CUDA : UCX_ANY_CUDA) : UCX_CUDA_COPY;
}

/* tcp over docker0, and nothing else: hosts have docker0 with the same address, and a rank would find itself there in place of its peer. */
static void warn_of_docker(const struct ucx_context_params *p, const struct ucx_network *network,
			   ucp_context_h context)
{
	static _Atomic int said;
	char devices[256];
	ucx_devices_list(context, devices, sizeof(devices));
	if (network->docker[0] && ucx_devices_are_tcp(devices))
		log_once(&said, LOG_WARN, p->rank,
			 "messages between nodes go over %s, the only network interface but lo: other hosts "
			 "with Docker have one of the same address, so their ranks can't be reached; "
			 "NCCL_SOCKET_IFNAME or CORALE_NET_DEVICES names another",
			 network->docker);
}

int ucx_context_open(const struct ucx_context_params *p, ucp_context_h *out)
{
	struct ucx_network network;
	descriptors_hold_standard();
	ucx_log_take();
	int ret = ucx_network_read(p->settings, p->devices, p->rank, &network);
	if (!ret)
		ret = open_context(p, &network, UCX_ANY_CUDA, out);
	const enum ucx_cuda cuda = ret ? UCX_ANY_CUDA : correct(p, *out);
	if (cuda != UCX_ANY_CUDA) {
		ucp_cleanup(*out);
		ret = open_context(p, &network, cuda, out);
	}
	if (ret)
		return ret;
	warn_of_docker(p, &network, *out);
	if (!p->gpu_slots || ucx_devices_have_rdma(*out))
		return 0;
	ucp_cleanup(*out);
	return refuse_gpu_slots(p, network.devices);
}
