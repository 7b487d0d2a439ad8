/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_comm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "ucx_devices.h"

/* Of both directions, while they are made. */
enum { CONNECTION_DESCRIPTORS = 4 };

int ucx_code(ucs_status_t status)
{
	switch (status) {
	case UCS_OK:
		return 0;
	case UCS_ERR_NO_MEMORY:
		return CORALE_ENOMEM;
	case UCS_ERR_MESSAGE_TRUNCATED:
		return CORALE_EMISMATCH;
	case UCS_ERR_CANCELED:
	case UCS_ERR_CONNECTION_RESET:
	case UCS_ERR_ENDPOINT_TIMEOUT:
	case UCS_ERR_NOT_CONNECTED:
	case UCS_ERR_REJECTED:
	case UCS_ERR_UNREACHABLE:
		return CORALE_EPEER;
	default:
		return CORALE_ETRANSPORT;
	}
}

int ucx_failed(const char *what, int rank, ucs_status_t status)
{
	return log_error(ucx_code(status), rank, "transport ucx: %s: %s", what, ucs_status_string(status));
}

unsigned ucx_minor(void)
{
	unsigned major, minor, release;
	ucp_get_version(&major, &minor, &release);
	return major > 1 ? UINT_MAX : minor;
}

/* A lane that only keeps the connection alive, or has made it, carries no message. */
static int carries_messages(const char *line)
{
	return strstr(line, " am") || strstr(line, " rma") || strstr(line, " tag") ||
	       (!strstr(line, " keepalive") && !strstr(line, " wireup"));
}

/* Appends the transport and device of a line like "lane[0]:  1:tcp/eth0.0 md[1] ... rma_bw#0 am", of each lane: two on one device are two paths. */
static void add_lane(char *lanes, size_t bytes, const char *line)
{
	char name[64];
	const char *at = strstr(line, "lane[");
	if (!at || sscanf(at, "lane[%*d]: %*d:%63[^. ]", name) != 1 || !carries_messages(at))
		return;
	size_t used = strlen(lanes);
	snprintf(lanes + used, bytes - used, "%s%s", used ? "+" : "", name);
}

/* UCX 1.13 has no query for an endpoint's lanes, but prints them for people. */
static void describe_lanes(ucp_ep_h ep, char *lanes, size_t bytes)
{
	char *text = NULL, *rest, *line;
	size_t text_bytes;
	FILE *stream = open_memstream(&text, &text_bytes);

	lanes[0] = '\0';
	if (stream) {
		ucp_ep_print_info(ep, stream);
		fclose(stream);
		for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
			add_lane(lanes, bytes, line);
	}
	free(text);
	if (!lanes[0])
		snprintf(lanes, bytes, "unknown lanes");
}

/* One path of a kind that keeps order: an active message and a put before it travel on the same connection. */
static int keeps_order(const char *lanes)
{
	return (!strncmp(lanes, "tcp/", strlen("tcp/")) || !strncmp(lanes, "rc_", strlen("rc_"))) &&
	       !strchr(lanes, '+');
}

/* One of the names between '+' begins as those of an RDMA adapter's connections do. */
static int has_rdma(const char *lanes)
{
	for (const char *name = lanes; name; name = strchr(name, '+')) {
		name += *name == '+';
		if (ucx_devices_is_rdma(name))
			return 1;
	}
	return 0;
}

/* Some lane is of shared memory. */
static int shares_memory(const char *lanes)
{
	return strstr(lanes, "sysv/") || strstr(lanes, "posix/") || strstr(lanes, "cma/");
}

/*
 * Over tcp UCX below 1.16, whose older protocols use no put of tcp's, sends a put as active messages, each of which the receiver answers from within
 * UCX's handler. Where the sender has died it can't, and UCX ends the receiver's process ("Fatal: unexpected error: Endpoint timeout"); over several
 * interfaces the answers of 1.13 also crash while connections are made. Shared memory does likewise where it is not UCX's own, and cma needs none.
 */
static int emulates_put(const char *lanes)
{
	if (shares_memory(lanes))
		return 1;
	for (const char *name = lanes; name; name = strchr(name, '+')) {
		name += *name == '+';
		if (strncmp(name, "tcp/", strlen("tcp/")))
			return 0;
	}
	return ucx_minor() < 16;
}

static struct ucx_class *find_class(struct ucx_worker *w, ucp_ep_h ep)
{
	char lanes[sizeof(((struct ucx_class *)0)->lanes)];
	describe_lanes(ep, lanes, sizeof(lanes));
	for (struct ucx_class *class = w->classes; class; class = class->next)
		if (!strcmp(class->lanes, lanes))
			return class;
	struct ucx_class *class = calloc(1, sizeof(*class));
	if (class) {
		memcpy(class->lanes, lanes, sizeof(lanes));
		class->rdma = has_rdma(lanes);
		class->ordered = keeps_order(lanes);
		class->emulates_put = emulates_put(lanes);
		class->next = w->classes;
		w->classes = class;
	}
	return class;
}

void ucx_endpoint_lost(struct ucx_endpoint *e, ucs_status_t status)
{
	char reason[sizeof(e->reason)];
	snprintf(reason, sizeof(reason), "the connection over %.40s failed: %.40s", e->class->lanes,
		 ucs_status_string(status));
	ucx_endpoint_abandon(e, CORALE_EPEER, reason);
}

/* Within ucp_worker_progress: only notes what happened. */
static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)ep;
	ucx_endpoint_lost(arg, status);
}

static ucs_status_t create(struct ucx_worker *w, const void *address, ucp_err_handling_mode_t mode,
			   ucp_err_handler_cb_t on_failure, void *arg, ucp_ep_h *ep)
{
	const ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
						       UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
						       UCP_EP_PARAM_FIELD_ERR_HANDLER,
					 .address = address,
					 .err_mode = mode,
					 .err_handler = { .cb = on_failure, .arg = arg } };
	return ucp_ep_create(w->ucp, &params, ep);
}

/* Without error handling UCX would never report that a peer died, and could not be made to release buffers. */
static ucs_status_t connect_to(struct ucx_endpoint *e, const void *address, ucp_err_handling_mode_t mode,
			       ucp_ep_h *ep)
{
	descriptors_hold_standard();
	atomic_store_explicit(&e->worker->connects, 1, memory_order_relaxed);
	return create(e->worker, address, mode, on_error, e, ep);
}

static void closed(void *request, ucs_status_t status, void *arg)
{
	(void)status, (void)arg;
	ucp_request_free(request);
}

static void force_close(ucp_ep_h ep)
{
	const ucp_request_param_t param = { .op_attr_mask =
						UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK,
					    .flags = UCP_EP_CLOSE_FLAG_FORCE,
					    .cb.send = closed };
	ucp_ep_close_nbx(ep, &param);
}

int ucx_endpoint_get(struct ucx_worker *w, uint64_t uid, const void *address, int rank,
		     struct ucx_endpoint **out)
{
	for (struct ucx_endpoint *e = w->endpoints; e; e = e->next) {
		if (e->uid == uid && !e->failed) { /* where one failed a new communicator may try again */
			*out = e;
			return 0;
		}
	}
	if (descriptors_need(CONNECTION_DESCRIPTORS, rank, "a connection of UCX"))
		return CORALE_ESYSTEM;
	struct ucx_endpoint *e = calloc(1, sizeof(*e));
	if (!e)
		return log_error(CORALE_ENOMEM, rank, "transport ucx: no memory for a connection");
	e->worker = w;
	e->uid = uid;
	ucs_status_t status = connect_to(e, address, UCP_ERR_HANDLING_MODE_PEER, &e->ep);
	if (status == UCS_OK && !(e->class = find_class(w, e->ep))) {
		status = UCS_ERR_NO_MEMORY;
		force_close(e->ep);
	}
	if (status != UCS_OK) {
		free(e);
		return log_error(ucx_code(status), rank,
				 "transport ucx: cannot connect: %s; has the other process ended, or do "
				 "CORALE_NET_DEVICES and UCX_TLS leave no network that both share?",
				 ucs_status_string(status));
	}
	e->data = e->ep;
	e->next = w->endpoints;
	w->endpoints = e;
	w->nudge = 1;
	*out = e;
	return 0;
}

int ucx_endpoint_data(struct ucx_endpoint *e, const void *address, int rank)
{
	ucp_ep_h data;
	/* A queue pair that fails without error handling makes UCX end the process; with it an adapter puts from user memory all the same. */
	if (e->data != e->ep || e->failed || e->class->rdma)
		return 0;
	if (descriptors_need(CONNECTION_DESCRIPTORS, rank, "a connection of UCX"))
		return CORALE_ESYSTEM;
	const ucs_status_t status = connect_to(e, address, UCP_ERR_HANDLING_MODE_NONE, &data);
	if (status != UCS_OK)
		return ucx_failed("cannot make a second connection, for data", rank, status);
	struct ucx_class *class = find_class(e->worker, data);
	if (class)
		e->class = class;
	e->data = data;
	e->worker->nudge = 1;
	return 0;
}

void ucx_endpoint_close(struct ucx_endpoint *e)
{
	e->closed = 1;
	force_close(e->ep);
}

void ucx_endpoint_abandon(struct ucx_endpoint *e, int code, const char *reason)
{
	if (e->failed)
		return;
	e->failed = code;
	snprintf(e->reason, sizeof(e->reason), "%s", reason);
	e->worker->failures++;
	e->worker->nudge = 1;
}

static void flushed(void *request, ucs_status_t status, void *arg)
{
	struct ucx_endpoint *e = arg;
	(void)status;
	e->flushing--;
	if (request)
		ucp_request_free(request);
}

void ucx_endpoint_flush(struct ucx_endpoint *e, ucp_ep_h ep)
{
	const ucp_request_param_t param = ucx_request(flushed, e);
	if (!ep || e->failed)
		return;
	e->flushing++;
	void *request = ucp_ep_flush_nbx(ep, &param);
	if (!ucx_goes_on(e->worker, request))
		flushed(NULL, UCS_PTR_STATUS(request), e);
}

void ucx_endpoint_answered(struct ucx_worker *w, uint64_t uid, int is_last)
{
	for (struct ucx_endpoint *e = w->endpoints; e; e = e->next)
		if (e->uid == uid && !e->failed) {
			e->pings = is_last || !e->pings ? 0 : e->pings - 1;
			e->mute |= is_last;
			return;
		}
}

/* ---- A worker's endpoint to itself ---- */

void ucx_endpoint_abandon_loop(struct ucx_worker *w)
{
	if (!w->loop || w->loop_failed)
		return;
	w->loop_failed = 1;
	w->failures++;
	w->nudge = 1;
}

/* Within ucp_worker_progress: the adapter has failed. */
static void on_loop_error(void *worker, ucp_ep_h ep, ucs_status_t status)
{
	(void)ep, (void)status;
	ucx_endpoint_abandon_loop(worker);
}

ucs_status_t ucx_endpoint_open_loop(struct ucx_worker *w)
{
	return w->loop ? UCS_OK
		       : create(w, w->address, UCP_ERR_HANDLING_MODE_PEER, on_loop_error, w, &w->loop);
}

void ucx_endpoint_reap_loop(struct ucx_worker *w)
{
	if (!w->loop_failed)
		return;
	force_close(w->loop);
	w->loop = NULL;
	w->loop_failed = 0;
}
