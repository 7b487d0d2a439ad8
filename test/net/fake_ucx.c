/* SPDX-License-Identifier: BSD-3-Clause */
/* UCX as a list of what was asked of it, so that tests play the peers. */
#include "fake_ucx.h"

#include <stdlib.h>
#include <string.h>

#include "net/ucx/ucx_comm.h"

enum { KEPT_SENT = 64, KEY_BYTES = 24 };

enum request_kind { SEND, RECV_TAG, RECV_AM, FLUSH, READ };

struct fake_request {
	struct fake_request *next;
	enum request_kind kind;
	ucp_ep_h ep; /* NULL: a receive */
	void *buf, *data; /* data: what a receive by active message was told of */
	size_t bytes;
	uint64_t tag;
	int cancelled;
	ucp_request_param_t param;
};

struct fake_ep {
	int closed;
};

static struct fake_request *pending;
static struct fake_sent sent[KEPT_SENT];
static unsigned sends, kept;
static int sends_at_once, reads_held;

unsigned fake_ucx_minor = 13;
const char *fake_ucx_info = "", *fake_ucx_lanes = "# lane[0]: 0:fake/net0.0 md[0] -> md[0]\n";
int fake_ucx_unmapped_early;

void fake_ucx_reset(int at_once)
{
	sends = 0;
	sends_at_once = at_once;
}

void fake_ucx_send_at_once(int at_once)
{
	sends_at_once = at_once;
}

void fake_ucx_hold_reads(int held)
{
	reads_held = held;
}

unsigned fake_ucx_reads(void)
{
	unsigned n = 0;
	for (const struct fake_request *r = pending; r; r = r->next)
		n += r->kind == READ;
	return n;
}

unsigned fake_ucx_count(void)
{
	return sends;
}

const struct fake_sent *fake_ucx_sent(unsigned number)
{
	return &sent[number % KEPT_SENT];
}

unsigned fake_ucx_kept(void)
{
	return kept;
}

int fake_ucx_holds(const void *buf)
{
	for (const struct fake_request *r = pending; r; r = r->next)
		if (buf && r->buf == buf)
			return 1;
	return 0;
}

static struct fake_request *add(enum request_kind kind, ucp_ep_h ep, const void *buf, size_t bytes,
				const ucp_request_param_t *param)
{
	struct fake_request *r = calloc(1, sizeof(*r)), **at = &pending;
	if (!r)
		abort();
	*r = (struct fake_request){
		.kind = kind, .ep = ep, .buf = (void *)buf, .bytes = bytes, .param = *param
	};
	while (*at)
		at = &(*at)->next;
	*at = r;
	return r;
}

static void call_back(struct fake_request *r, ucs_status_t status, size_t bytes)
{
	void *arg = r->param.user_data;
	ucp_tag_recv_info_t info = { .sender_tag = r->tag, .length = bytes };
	if (r->kind == RECV_TAG)
		r->param.cb.recv(r, status, &info, arg);
	else if (r->kind == RECV_AM)
		r->param.cb.recv_am(r, status, bytes, arg);
	else if (r->param.cb.send)
		r->param.cb.send(r, status, arg);
}

/* Reads a buffer as a network would, so that one that was freed is found. */
static unsigned sum_of(const unsigned char *buf, size_t bytes)
{
	unsigned sum = 0;
	for (size_t i = 0; i < bytes; i++)
		sum += buf[i];
	return sum;
}

static void complete(struct fake_request **at, size_t bytes)
{
	static volatile unsigned sink;
	struct fake_request *r = *at;
	ucs_status_t status =
	    r->cancelled || (r->ep && ((struct fake_ep *)r->ep)->closed) ? UCS_ERR_CANCELED : UCS_OK;

	*at = r->next;
	if (status == UCS_OK && (r->kind == RECV_TAG || r->kind == RECV_AM)) {
		if (bytes > r->bytes)
			status = UCS_ERR_MESSAGE_TRUNCATED;
		else if (bytes)
			memset(r->buf, 0x5a, bytes);
	} else if (status == UCS_OK && r->kind == SEND) {
		sink += sum_of(r->buf, r->bytes);
	}
	free(r->data);
	call_back(r, status, bytes);
}

int fake_ucx_deliver_tag(uint64_t tag, size_t bytes)
{
	for (struct fake_request **at = &pending; *at; at = &(*at)->next) {
		if ((*at)->kind != RECV_TAG || (*at)->cancelled || (tag && (*at)->tag != tag))
			continue;
		complete(at, bytes);
		return 1;
	}
	return 0;
}

void fake_ucx_cancel_all(void)
{
	while (pending) {
		pending->cancelled = 1;
		complete(&pending, 0);
	}
}

ucs_status_t fake_ucx_deliver(struct ucx_worker *w, const struct ucx_wire *wire, size_t header_bytes,
			      const void *data, size_t bytes, uint64_t attr)
{
	static struct fake_ep sender;
	const ucp_am_recv_param_t param = { .recv_attr = attr, .reply_ep = (ucp_ep_h)&sender };
	size_t told = attr & UCP_AM_RECV_ATTR_FLAG_RNDV ? 1 : bytes; /* a descriptor, not the payload */
	unsigned char *copy = malloc(told ? told : 1), *header = malloc(header_bytes ? header_bytes : 1);
	if (!copy || !header)
		abort();
	memset(header, 0, header_bytes);
	memcpy(header, wire, header_bytes < sizeof(*wire) ? header_bytes : sizeof(*wire));
	if (told && data)
		memcpy(copy, data, told);
	else
		memset(copy, 0xa5, told);
	kept++;
	ucs_status_t status = ucx_message_arrive(w, header, header_bytes, copy, bytes, &param);
	free(header);
	if (status == UCS_INPROGRESS && attr)
		return status;
	kept--;
	free(copy);
	return status;
}

/* ---- What UCX would do ---- */

void ucp_am_data_release(ucp_worker_h worker, void *data)
{
	kept--;
	free(data);
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data, void *buf, size_t bytes,
				      const ucp_request_param_t *param)
{
	struct fake_request *r = add(RECV_AM, NULL, buf, bytes, param);
	r->data = data;
	kept--;
	return r;
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buf, size_t bytes, ucp_tag_t tag, ucp_tag_t mask,
				  const ucp_request_param_t *param)
{
	struct fake_request *r = add(RECV_TAG, NULL, buf, bytes, param);
	r->tag = tag;
	return r;
}

static ucs_status_ptr_t post(enum request_kind kind, ucp_ep_h ep, const void *buf, size_t bytes,
			     const ucp_request_param_t *param)
{
	if (((struct fake_ep *)ep)->closed)
		return UCS_STATUS_PTR(UCS_ERR_CONNECTION_RESET);
	return sends_at_once && kind != READ ? NULL : add(kind, ep, buf, bytes, param);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_bytes,
				 const void *buf, size_t bytes, const ucp_request_param_t *param)
{
	struct fake_sent *s = &sent[sends++ % KEPT_SENT];
	if (header_bytes != sizeof(s->wire))
		abort();
	memcpy(&s->wire, header, sizeof(s->wire));
	s->bytes = bytes;
	if (bytes)
		memcpy(s->payload, buf, bytes < sizeof(s->payload) ? bytes : sizeof(s->payload));
	return post(SEND, ep, buf, bytes, param);
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *buf, size_t bytes, ucp_tag_t tag,
				  const ucp_request_param_t *param)
{
	return post(SEND, ep, buf, bytes, param);
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buf, size_t bytes, uint64_t address, ucp_rkey_h key,
			     const ucp_request_param_t *param)
{
	if (*(ucp_ep_h *)(void *)key != ep)
		abort(); /* a key serves the endpoint that unpacked it */
	return post(SEND, ep, buf, bytes, param);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buf, size_t bytes, uint64_t address, ucp_rkey_h key,
			     const ucp_request_param_t *param)
{
	return post(READ, ep, buf, bytes, param);
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
	return post(FLUSH, ep, NULL, 0, param);
}

void ucp_request_cancel(ucp_worker_h worker, void *request)
{
	((struct fake_request *)request)->cancelled = 1;
}

void ucp_request_free(void *request)
{
	free(request);
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
	for (struct fake_request **at = &pending; *at; at = &(*at)->next) {
		const struct fake_request *r = *at;
		if (!r->cancelled && (r->kind == RECV_TAG ||
				      (r->kind == READ && reads_held && !((struct fake_ep *)r->ep)->closed)))
			continue;
		complete(at, (*at)->bytes);
		return 1;
	}
	return 0;
}

ucs_status_t ucp_worker_arm(ucp_worker_h worker)
{
	return UCS_OK;
}

ucs_status_t ucp_worker_signal(ucp_worker_h worker)
{
	return UCS_OK;
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep)
{
	struct fake_ep *e = calloc(1, sizeof(*e));
	if (!e)
		return UCS_ERR_NO_MEMORY;
	*ep = (ucp_ep_h)e;
	return UCS_OK;
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
	((struct fake_ep *)ep)->closed = 1;
	return NULL;
}

void ucp_ep_print_info(ucp_ep_h ep, FILE *stream)
{
	fputs(fake_ucx_lanes, stream);
}

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
	*major = 1;
	*minor = fake_ucx_minor;
	*release = 0;
}

void ucp_context_print_info(ucp_context_h context, FILE *stream)
{
	fputs(fake_ucx_info, stream);
}

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memory)
{
	*memory = malloc(1);
	return UCS_OK;
}

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memory)
{
	fake_ucx_unmapped_early |= fake_ucx_reads() > 0;
	free(memory);
	return UCS_OK;
}

ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h memory, void **key, size_t *bytes)
{
	*bytes = KEY_BYTES;
	unsigned char *bytes_of = calloc(1, KEY_BYTES);
	if (!bytes_of)
		abort();
	bytes_of[0] = 1; /* it is of memory domain 0 */
	*key = bytes_of;
	return UCS_OK;
}

void ucp_rkey_buffer_release(void *key)
{
	free(key);
}

/* UCX is not told the length either: it reads what it expects. */
ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *packed, ucp_rkey_h *key)
{
	ucp_ep_h *of = sum_of(packed, KEY_BYTES) > 1 ? NULL : malloc(sizeof(ep));
	if (!of)
		return UCS_ERR_INVALID_PARAM;
	*of = ep;
	*key = (ucp_rkey_h)of;
	return UCS_OK;
}

void ucp_rkey_destroy(ucp_rkey_h key)
{
	free(key);
}

const char *ucs_status_string(ucs_status_t status)
{
	return status == UCS_OK ? "success" : "an error that the test made";
}
