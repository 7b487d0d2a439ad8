#include "ucx_loop.h"

#include "ucx_endpoint.h"

void ucx_loop_abandon(struct ucx_worker *w)
{
	if (!w->loop || w->loop_failed)
		return;
	w->loop_failed = 1;
	w->failures++;
	w->nudge = 1;
}

/* Within ucp_worker_progress: the adapter has failed. */
static void on_error(void *worker, ucp_ep_h ep, ucs_status_t status)
{
	(void)ep, (void)status;
	ucx_loop_abandon(worker);
}

ucs_status_t ucx_loop_open(struct ucx_worker *w)
{
	const ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
						       UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
						       UCP_EP_PARAM_FIELD_ERR_HANDLER,
					 .address = w->address,
					 .err_mode = UCP_ERR_HANDLING_MODE_PEER,
					 .err_handler = { .cb = on_error, .arg = w } };
	return w->loop ? UCS_OK : ucp_ep_create(w->ucp, &params, &w->loop);
}

void ucx_loop_reap(struct ucx_worker *w)
{
	if (!w->loop_failed)
		return;
	ucx_endpoint_force_close(w->loop);
	w->loop = NULL;
	w->loop_failed = 0;
}
