/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "ucx_devices.h"

/*
 * 1 if an adapter has registered the memory of a packed key. UCX also maps memory that it does not register, or only with cuda_copy, which would copy.
 * A key begins with the bits of the memory domains that registered it; with none it is shorter than these.
 */
static int has_adapter(const struct ucx_worker *w, const void *key, size_t bytes)
{
	enum { KEY_WITHOUT_DOMAIN = 9 };
	uint64_t domains;
	memcpy(&domains, key, sizeof(domains));
	return bytes > KEY_WITHOUT_DOMAIN && (domains & ucx_devices_domains(w->context, "ib"));
}

/* A slab that is to be made. */
struct request {
	struct ucx_worker *worker;
	void *at;
	size_t bytes;
	char *why_not; /* for the caller, if it is refused */
	size_t why_bytes;
};

static int refuse(const struct request *r, const char *step, ucs_status_t status)
{
	const struct ucx_gpudirect *g = &r->worker->gpudirect;
	char facts[256];
	ucx_gpudirect_print(g, facts, sizeof(facts));
	snprintf(r->why_not, r->why_bytes,
		 "%zu bytes of a GPU's memory over %s: %s%s%s; GPUDirect RDMA %s: %s", r->bytes,
		 r->worker->devices, step, status == UCS_OK ? "" : ": ",
		 status == UCS_OK ? "" : ucs_status_string(status), facts, ucx_gpudirect_advice(g));
	return CORALE_ENOTSUP;
}

static ucs_status_t unpack_over_loop(struct ucx_worker *w, const void *key, ucp_rkey_h *out)
{
	const ucs_status_t status = ucx_endpoint_open_loop(w);
	return status == UCS_OK ? ucp_ep_rkey_unpack(w->loop, key, out) : status;
}

static int map(const struct request *r, struct link_slab *s)
{
	struct ucx_worker *w = r->worker;
	const ucp_mem_map_params_t params = ucx_map_params(r->at, r->bytes, UCS_MEMORY_TYPE_CUDA);
	void *key;
	size_t key_bytes;
	ucs_status_t status = ucp_mem_map(w->context, &params, &s->memory);
	if (status != UCS_OK)
		return refuse(r, "it cannot be registered", status);
	status = ucp_rkey_pack(w->context, s->memory, &key, &key_bytes);
	if (status != UCS_OK)
		return refuse(r, "it has no key", status);
	const int is_registered = has_adapter(w, key, key_bytes);
	status = is_registered ? unpack_over_loop(w, key, &s->key) : UCS_OK;
	ucp_rkey_buffer_release(key);
	if (!is_registered)
		return refuse(r, "UCX has mapped it and registered it with no adapter", UCS_OK);
	return status == UCS_OK ? 0 : refuse(r, "the adapter cannot read it back", status);
}

static void unmap(struct link_slab *s)
{
	if (s->key)
		ucp_rkey_destroy(s->key);
	if (s->memory)
		ucp_mem_unmap(s->worker->context, s->memory);
	free(s);
}

int ucx_slab_map(struct transport *t, void *at, size_t bytes, int reads_back, struct link_slab **out,
		 char *why_not, size_t why_bytes)
{
	struct ucx_worker *w = ((struct ucx_comm *)t)->worker;
	const struct request r = { w, at, bytes, why_not, why_bytes };
	struct link_slab *s = calloc(1, sizeof(*s));
	if (!s) {
		snprintf(why_not, why_bytes, "no memory");
		return CORALE_ENOMEM;
	}
	*s = (struct link_slab){ .worker = w, .reads_back = reads_back };
	ucx_lock(w);
	const int ret = w->gpu_slots
			    ? map(&r, s)
			    : refuse(&r, "this transport was opened for slots in host memory", UCS_OK);
	if (ret)
		unmap(s);
	else
		*out = s;
	ucx_unlock(w);
	return ret;
}

static int poll_read(void *arg)
{
	struct link_slab *s = arg;
	ucx_try_progress(s->worker);
	ucx_lock(s->worker);
	const int is_read = !s->reads;
	ucx_unlock(s->worker);
	return is_read;
}

/* 1 if the adapter reads nothing of it any more: within a second, or after the loopback was given up. */
static int wait_for_reads(struct link_slab *s)
{
	static const struct wait_policy policy = { .spin_ns = 20000, .timeout_ns = 1000 * 1000 * 1000 };
	if (wait_until(&policy, poll_read, s) > 0)
		return 1;
	ucx_lock(s->worker);
	ucx_endpoint_abandon_loop(s->worker);
	ucx_unlock(s->worker);
	return wait_until(&policy, poll_read, s) > 0;
}

void ucx_slab_unmap(struct link_slab *s)
{
	struct ucx_worker *w = s->worker;
	if (!wait_for_reads(s)) {
		log_line(LOG_WARN, -1,
			 "transport ucx: the adapter does not end its reads of a GPU's memory, which stays "
			 "registered");
		return;
	}
	ucx_lock(w);
	unmap(s);
	ucx_unlock(w);
}

void *ucx_slab_read(struct link_slab *s, const void *from, size_t bytes, void *to,
		    const ucp_request_param_t *param)
{
	if (!s->worker->loop)
		return UCS_STATUS_PTR(UCS_ERR_NOT_CONNECTED);
	void *request = ucp_get_nbx(s->worker->loop, to, bytes, (uintptr_t)from, s->key, param);
	s->reads += UCS_PTR_IS_PTR(request);
	return request;
}
