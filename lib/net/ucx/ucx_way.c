/* The ways in which an announced payload travels once its recv is there: active message, tag, put. */
#include "ucx_message.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* Payload of a CTS for a put; the packed key follows. */
struct target {
	uint64_t address;
};

/*
 * UCX unpacks a key without knowing its length: a map of 64 memory domains and a byte of length for each lead it through at
 * most 16.1 KiB. In a copy with zeros behind it a key that was cut off, or lies, leads nowhere else.
 */
enum { KEY_ROOM = 24 << 10 };

static void fail_op(struct ucx_op *op, const char *what, ucs_status_t status)
{
	int code =
	    log_error(ucx_code(status), op->comm->params.rank, "transport ucx: %s for %zu bytes, rank %d: %s",
		      what, op->bytes, op->peer, ucs_status_string(status));
	ucx_op_finish(op, code);
}

static void received(struct ucx_op *op, void *request, ucs_status_t status, size_t bytes)
{
	int code = ucx_code(status);

	op->receiving = NULL;
	if (request)
		ucp_request_free(request);
	if (status == UCS_OK && bytes != op->bytes)
		code = log_error(CORALE_ETRANSPORT, op->comm ? op->comm->params.rank : -1,
				 "transport ucx: %zu bytes came for a message of %zu from rank %d", bytes,
				 op->bytes, op->peer);
	ucx_op_finish(op, code);
	ucx_op_released(op);
}

static void tag_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *op)
{
	received(op, request, status, status == UCS_OK ? info->length : 0);
}

static void am_received(void *request, ucs_status_t status, size_t bytes, void *op)
{
	received(op, request, status, bytes);
}

static void post_tag(struct ucx_op *op)
{
	ucp_tag_recv_info_t info = { .length = 0 };
	ucp_request_param_t param = { .op_attr_mask =
					  UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
					  UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_RECV_INFO,
				      .recv_info.tag_info = &info,
				      .cb.recv = tag_received,
				      .user_data = op,
				      .memory_type = UCS_MEMORY_TYPE_HOST };
	op->in_ucx++;
	void *request =
	    ucp_tag_recv_nbx(op->comm->worker->ucp, op->buf, op->bytes, op->id, UINT64_MAX, &param);
	if (UCS_PTR_IS_PTR(request))
		op->receiving = request;
	else
		received(op, NULL, UCS_PTR_STATUS(request), info.length);
}

/* Makes the payload of a CTS: where and with which key to put. */
static ucs_status_t make_target(struct ucx_op *op, size_t *bytes)
{
	ucp_context_h context = op->comm->worker->context;
	ucp_mem_map_params_t params = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
						      UCP_MEM_MAP_PARAM_FIELD_LENGTH |
						      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
					.address = op->buf,
					.length = op->bytes,
					.memory_type = UCS_MEMORY_TYPE_HOST };
	struct target target = { (uintptr_t)op->buf };
	void *key;
	size_t key_bytes;

	ucs_status_t status = ucp_mem_map(context, &params, &op->memory);
	if (status == UCS_OK)
		status = ucp_rkey_pack(context, op->memory, &key, &key_bytes);
	if (status != UCS_OK)
		return status;
	int fits = sizeof(target) + key_bytes <= UCX_TARGET_BYTES;
	unsigned char *extra = fits ? malloc(sizeof(target) + key_bytes) : NULL;
	if (extra) {
		memcpy(extra, &target, sizeof(target));
		memcpy(extra + sizeof(target), key, key_bytes);
		*bytes = sizeof(target) + key_bytes;
		op->extra = extra;
	}
	ucp_rkey_buffer_release(key);
	if (!fits)
		return UCS_ERR_EXCEEDS_LIMIT;
	return extra ? UCS_OK : UCS_ERR_NO_MEMORY;
}

static void cts_sent(void *request, ucs_status_t status, void *arg)
{
	struct ucx_op *op = arg;
	if (request)
		ucp_request_free(request);
	if (status != UCS_OK && op->id && !op->receiving)
		ucx_op_finish(op, ucx_code(status));
	ucx_op_released(op);
}

size_t ucx_way_least(const struct ucx_wire *cts)
{
	return cts->way == UCX_WAY_PUT ? sizeof(struct target) + 1 : 0;
}

void ucx_way_ask(struct ucx_op *op, const struct ucx_wire *rts)
{
	struct ucx_wire *wire = ucx_op_wire(op, 0, UCX_CTS);
	size_t extra_bytes = 0;
	int ret;

	wire->send_id = rts->send_id;
	wire->way = rts->way;
	if (rts->bytes > op->bytes) {
		wire->way = UCX_WAY_REFUSED;
		op->in_ucx++;
		ucx_op_send(op, 0, UCP_AM_SEND_FLAG_EAGER, NULL, 0, NULL);
		ucx_op_finish(op, CORALE_EMISMATCH);
		ucx_op_released(op);
		return;
	}
	op->moving = 1;
	op->bytes = rts->bytes;
	if ((ret = ucx_op_publish(op))) {
		ucx_op_finish(op, ret);
		return;
	}
	wire->recv_id = op->id;
	if (rts->way == UCX_WAY_PUT) {
		ucs_status_t status = make_target(op, &extra_bytes);
		if (status != UCS_OK) {
			fail_op(op, "cannot register the buffer", status);
			return;
		}
	}
	wire->bytes = extra_bytes;
	op->in_ucx++; /* the op may not end before its CTS is on the way */
	if (rts->way == UCX_WAY_TAG)
		post_tag(op);
	ucx_op_send(op, 0, UCP_AM_SEND_FLAG_EAGER, op->extra, extra_bytes, cts_sent);
	ucx_op_released(op);
}

ucs_status_t ucx_way_data(struct ucx_op *op, void *data, size_t bytes, const ucp_am_recv_param_t *param)
{
	if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
		memcpy(op->buf, data, bytes);
		ucx_op_finish(op, 0);
		return UCS_OK;
	}
	size_t got = 0;
	ucp_request_param_t receive = { .op_attr_mask =
					    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
					    UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_RECV_INFO,
					.recv_info.length = &got,
					.cb.recv_am = am_received,
					.user_data = op,
					.memory_type = UCS_MEMORY_TYPE_HOST };
	op->in_ucx++;
	void *request = ucp_am_recv_data_nbx(op->comm->worker->ucp, data, op->buf, bytes, &receive);
	if (UCS_PTR_IS_PTR(request))
		op->receiving = request;
	else
		received(op, NULL, UCS_PTR_STATUS(request), got);
	return UCS_INPROGRESS;
}

static void payload_sent(void *request, ucs_status_t status, void *arg)
{
	struct ucx_op *op = arg;
	if (request)
		ucp_request_free(request);
	ucx_op_finish(op, ucx_code(status));
	ucx_op_released(op);
}

static void send_tag(struct ucx_op *op, uint64_t tag)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
						      UCP_OP_ATTR_FIELD_USER_DATA |
						      UCP_OP_ATTR_FIELD_MEMORY_TYPE,
				      .cb.send = payload_sent,
				      .user_data = op,
				      .memory_type = UCS_MEMORY_TYPE_HOST };
	struct ucx_endpoint *e = op->comm->peers[op->peer]->endpoint;
	void *request = UCS_STATUS_PTR(UCS_ERR_ENDPOINT_TIMEOUT);

	op->in_ucx++;
	if (!e->failed)
		request = ucp_tag_send_nbx(e->ep, op->buf, op->bytes, tag, &param);
	if (UCS_PTR_IS_PTR(request))
		op->comm->worker->nudge = 1;
	else
		payload_sent(NULL, UCS_PTR_STATUS(request), op);
}

/* The put is complete at the peer: says so, and is done. */
static void put_flushed(void *request, ucs_status_t status, void *arg)
{
	struct ucx_op *op = arg;
	if (request)
		ucp_request_free(request);
	if (status == UCS_OK && op->comm && op->id)
		ucx_op_send(op, 1, UCP_AM_SEND_FLAG_EAGER, NULL, 0, NULL);
	ucx_op_finish(op, ucx_code(status));
	ucx_op_released(op);
}

static void put_sent(void *request, ucs_status_t status, void *op)
{
	(void)status; /* the flush behind it tells */
	ucp_request_free(request);
	ucx_op_released(op);
}

ucs_status_t ucx_way_unpack(ucp_ep_h ep, const void *key, size_t bytes, ucp_rkey_h *out)
{
	union {
		uint64_t align;
		unsigned char bytes[KEY_ROOM];
	} room;

	memset(&room, 0, sizeof(room));
	memcpy(room.bytes, key, bytes);
	return ucp_ep_rkey_unpack(ep, room.bytes, out);
}

static void send_put(struct ucx_op *op, const void *where, size_t bytes)
{
	struct ucx_endpoint *e = op->comm->peers[op->peer]->endpoint;
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
						      UCP_OP_ATTR_FIELD_USER_DATA |
						      UCP_OP_ATTR_FIELD_MEMORY_TYPE,
				      .cb.send = put_sent,
				      .user_data = op,
				      .memory_type = UCS_MEMORY_TYPE_HOST };
	struct target target;
	ucs_status_t status = e->failed ? UCS_ERR_ENDPOINT_TIMEOUT : UCS_OK;

	if (status == UCS_OK) {
		memcpy(&target, where, sizeof(target));
		status = ucx_way_unpack(e->ep, (const char *)where + sizeof(target), bytes - sizeof(target),
					&op->key);
	}
	if (status != UCS_OK) {
		fail_op(op, "cannot use the peer's key", status);
		return;
	}
	void *request = ucp_put_nbx(e->ep, op->buf, op->bytes, target.address, op->key, &param);
	if (UCS_PTR_IS_ERR(request)) {
		fail_op(op, "cannot put", UCS_PTR_STATUS(request));
		return;
	}
	op->in_ucx += (request != NULL) + 1;
	param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_MEMORY_TYPE;
	param.cb.send = put_flushed;
	request = ucp_ep_flush_nbx(e->ep, &param);
	if (UCS_PTR_IS_PTR(request))
		op->comm->worker->nudge = 1;
	else
		put_flushed(NULL, UCS_PTR_STATUS(request), op);
}

void ucx_way_answer(struct ucx_op *op, const struct ucx_wire *cts, const void *where)
{
	if (cts->way == UCX_WAY_REFUSED) {
		ucx_op_finish(op, 0); /* the receiver knows that the sizes differ; the buffer is free */
		return;
	}
	op->moving = 1;
	struct ucx_wire *wire = ucx_op_wire(op, 1, cts->way == UCX_WAY_PUT ? UCX_FIN : UCX_DATA);
	wire->recv_id = cts->recv_id;
	wire->bytes = op->bytes;
	if (cts->way == UCX_WAY_TAG)
		send_tag(op, cts->recv_id);
	else if (cts->way == UCX_WAY_PUT)
		send_put(op, where, (size_t)cts->bytes);
	else
		ucx_op_send(op, 1, UCP_AM_SEND_FLAG_RNDV, op->buf, op->bytes, payload_sent);
}
