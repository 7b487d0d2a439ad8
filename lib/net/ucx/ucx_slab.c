#include "ucx_slab.h"

#include <stdlib.h>

#include "base/log.h"

/* A packed key of so few bytes is of no memory domain: UCX has mapped the memory and registered nothing. */
enum { KEY_WITHOUT_DOMAIN = 9 };

static int refuse(const struct ucx_comm *c, size_t bytes, const char *step, ucs_status_t status)
{
	return log_error(CORALE_ENOTSUP, c->params.rank,
			 "transport ucx: %zu bytes of a GPU's memory for slots, over %s: %s: %s; GPUDirect "
			 "RDMA needs an RDMA adapter, the kernel module "
			 "nvidia-peermem, and memory that can be mapped for it",
			 bytes, c->worker->devices, step,
			 status == UCS_OK ? "UCX has registered it with no adapter"
					  : ucs_status_string(status));
}

/* An endpoint of the worker to itself: only the adapter's own transport can read what it has registered. */
static ucs_status_t open_loop(struct ucx_worker *w)
{
	const ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
					 .address = w->address };
	return w->loop ? UCS_OK : ucp_ep_create(w->ucp, &params, &w->loop);
}

static int map(struct ucx_comm *c, void *at, size_t bytes, struct link_slab *s)
{
	struct ucx_worker *w = c->worker;
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
		return refuse(c, bytes, "it cannot be registered", status);
	status = ucp_rkey_pack(w->context, s->memory, &key, &key_bytes);
	if (status != UCS_OK)
		return refuse(c, bytes, "it has no key", status);
	status = key_bytes > KEY_WITHOUT_DOMAIN ? open_loop(w) : UCS_ERR_UNSUPPORTED;
	if (status == UCS_OK)
		status = ucp_ep_rkey_unpack(w->loop, key, &s->key);
	ucp_rkey_buffer_release(key);
	if (key_bytes <= KEY_WITHOUT_DOMAIN)
		return refuse(c, bytes, "it has no adapter's key", UCS_OK);
	return status == UCS_OK ? 0 : refuse(c, bytes, "the adapter cannot read it back", status);
}

static void unmap(struct link_slab *s)
{
	if (s->key)
		ucp_rkey_destroy(s->key);
	if (s->memory)
		ucp_mem_unmap(s->worker->context, s->memory);
	free(s);
}

int ucx_slab_map(struct transport *t, void *at, size_t bytes, int reads_back, struct link_slab **out)
{
	struct ucx_comm *c = (struct ucx_comm *)t;
	struct link_slab *s = calloc(1, sizeof(*s));
	if (!s)
		return log_error(CORALE_ENOMEM, c->params.rank, "transport ucx: no memory");
	*s = (struct link_slab){ .worker = c->worker, .reads_back = reads_back };
	ucx_lock(c->worker);
	int ret =
	    c->worker->gpu_slots
		? map(c, at, bytes, s)
		: log_error(
		      CORALE_ENOTSUP, c->params.rank,
		      "transport ucx: %zu bytes of a GPU's memory for slots: the rail's context was made "
		      "for slots in host memory, by this process's first communicator",
		      bytes);
	if (ret)
		unmap(s);
	else
		*out = s;
	ucx_unlock(c->worker);
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
	return ucp_get_nbx(s->worker->loop, to, bytes, (uintptr_t)from, s->key, param);
}
