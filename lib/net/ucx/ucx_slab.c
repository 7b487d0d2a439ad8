#include "ucx_slab.h"

#include <stdio.h>
#include <stdlib.h>

/* A packed key of so few bytes is of no memory domain: UCX has mapped the memory and registered nothing. */
enum { KEY_WITHOUT_DOMAIN = 9 };

/* Where the caller reads why a slab was refused. */
struct reason {
	char *text;
	size_t bytes;
};

static int refuse(const struct ucx_worker *w, size_t bytes, const char *step, const struct reason *why)
{
	char facts[256];
	ucx_gpudirect_print(&w->gpudirect, facts, sizeof(facts));
	snprintf(why->text, why->bytes, "%zu bytes of a GPU's memory over %s: %s; GPUDirect RDMA %s: %s",
		 bytes, w->devices, step, facts, ucx_gpudirect_advice(&w->gpudirect));
	return CORALE_ENOTSUP;
}

static int refuse_status(const struct ucx_worker *w, size_t bytes, const char *step, ucs_status_t status,
			 const struct reason *why)
{
	char text[128];
	snprintf(text, sizeof(text), "%s: %s", step, ucs_status_string(status));
	return refuse(w, bytes, text, why);
}

/* Within ucp_worker_progress: the adapter has failed, and UCX ends the reads with errors. */
static void on_loop_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	struct ucx_worker *w = arg;
	(void)ep, (void)status;
	w->loop_failed = 1;
	w->failures++;
}

/* An endpoint of the worker to itself: only the adapter's own transport can read what it has registered. */
static ucs_status_t open_loop(struct ucx_worker *w)
{
	const ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
						       UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
						       UCP_EP_PARAM_FIELD_ERR_HANDLER,
					 .address = w->address,
					 .err_mode = UCP_ERR_HANDLING_MODE_PEER,
					 .err_handler = { .cb = on_loop_error, .arg = w } };
	return w->loop ? UCS_OK : ucp_ep_create(w->ucp, &params, &w->loop);
}

void ucx_slab_reap_loop(struct ucx_worker *w)
{
	if (!w->loop_failed)
		return;
	ucx_endpoint_force_close(w->loop);
	w->loop = NULL;
	w->loop_failed = 0;
}

static ucs_status_t unpack_over_loop(struct ucx_worker *w, const void *key, ucp_rkey_h *out)
{
	const ucs_status_t status = open_loop(w);
	return status == UCS_OK ? ucp_ep_rkey_unpack(w->loop, key, out) : status;
}

static int map(struct ucx_worker *w, void *at, size_t bytes, struct link_slab *s, const struct reason *why)
{
	const ucp_mem_map_params_t params = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
							    UCP_MEM_MAP_PARAM_FIELD_LENGTH |
							    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
					      .address = at,
					      .length = bytes,
					      .memory_type = UCS_MEMORY_TYPE_CUDA };
	void *key;
	size_t key_bytes;
	ucs_status_t status = ucp_mem_map(w->context, &params, &s->memory);
	if (status != UCS_OK)
		return refuse_status(w, bytes, "it cannot be registered", status, why);
	status = ucp_rkey_pack(w->context, s->memory, &key, &key_bytes);
	if (status != UCS_OK)
		return refuse_status(w, bytes, "it has no key", status, why);
	const int is_registered = key_bytes > KEY_WITHOUT_DOMAIN;
	status = is_registered ? unpack_over_loop(w, key, &s->key) : UCS_OK;
	ucp_rkey_buffer_release(key);
	if (!is_registered)
		return refuse(w, bytes, "UCX has mapped it and registered it with no adapter", why);
	return status == UCS_OK ? 0 : refuse_status(w, bytes, "the adapter cannot read it back", status, why);
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
	const struct reason why = { why_not, why_bytes };
	struct link_slab *s = calloc(1, sizeof(*s));
	if (!s) {
		snprintf(why_not, why_bytes, "no memory");
		return CORALE_ENOMEM;
	}
	*s = (struct link_slab){ .worker = w, .reads_back = reads_back };
	ucx_lock(w);
	const int ret = w->gpu_slots
			    ? map(w, at, bytes, s, &why)
			    : refuse(w, bytes, "this transport was opened for slots in host memory", &why);
	if (ret)
		unmap(s);
	else
		*out = s;
	ucx_unlock(w);
	return ret;
}

void ucx_slab_unmap(struct link_slab *s)
{
	struct ucx_worker *w = s->worker;
	ucx_lock(w);
	unmap(s);
	ucx_unlock(w);
}

void *ucx_slab_read(const struct link_slab *s, const void *from, size_t bytes, void *to,
		    const ucp_request_param_t *param)
{
	if (!s->worker->loop)
		return UCS_STATUS_PTR(UCS_ERR_NOT_CONNECTED);
	return ucp_get_nbx(s->worker->loop, to, bytes, (uintptr_t)from, s->key, param);
}
