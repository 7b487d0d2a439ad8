#include "ucx_op.h"

#include <stdlib.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"

struct ucx_op *ucx_op_new(struct ucx_comm *c, int peer, int lane, struct transport_request *request)
{
	struct ucx_worker *w = c->worker;
	struct ucx_op *op = w->free_ops;
	if (op)
		w->free_ops = op->next;
	else
		op = malloc(sizeof(*op));
	if (!op) {
		log_error(CORALE_ENOMEM, c->params.rank,
			  "transport ucx: no memory for a message to or from rank %d", peer);
		return NULL;
	}
	memset(op, 0, sizeof(*op));
	op->comm = c;
	op->peer = peer;
	op->lane = lane;
	op->request = request;
	op->older = c->ops;
	if (c->ops)
		c->ops->newer = op;
	c->ops = op;
	return op;
}

static int grow(struct ucx_ids *ids)
{
	uint32_t size = ids->size ? 2 * ids->size : 64;
	struct ucx_op **ops = realloc(ids->ops, size * sizeof(struct ucx_op *));
	if (ops)
		ids->ops = ops;
	uint32_t *generations = realloc(ids->generations, size * sizeof(uint32_t));
	if (generations)
		ids->generations = generations;
	uint32_t *spare = realloc(ids->spare, size * sizeof(uint32_t));
	if (spare)
		ids->spare = spare;
	if (!ops || !generations || !spare)
		return CORALE_ENOMEM;
	for (uint32_t i = ids->size; i < size; i++) {
		ids->ops[i] = NULL;
		ids->generations[i] = 0;
		ids->spare[ids->spares++] = i;
	}
	ids->size = size;
	return 0;
}

/* A generation that tells nothing of others, and is not the index's last one, which late messages still name. */
static int draw(struct ucx_ids *ids, uint32_t last, uint32_t *generation)
{
	do {
		if (!ids->randoms && getrandom(ids->random, sizeof(ids->random), 0) != sizeof(ids->random))
			return errno ? errno : EIO;
		if (!ids->randoms)
			ids->randoms = sizeof(ids->random) / sizeof(ids->random[0]);
		*generation = ids->random[--ids->randoms];
	} while (!*generation || *generation == last);
	return 0;
}

int ucx_op_publish(struct ucx_op *op)
{
	struct ucx_ids *ids = &op->comm->worker->ids;
	if (!ids->spares && grow(ids))
		return log_error(CORALE_ENOMEM, op->comm->params.rank,
				 "transport ucx: no memory for %u messages", 2 * ids->size);
	uint32_t i = ids->spare[ids->spares - 1];
	int error = draw(ids, ids->generations[i], &ids->generations[i]);
	if (error)
		return log_error(CORALE_ESYSTEM, op->comm->params.rank, "transport ucx: getrandom: %s",
				 strerror(error));
	ids->spares--;
	ids->ops[i] = op;
	op->id = (uint64_t)ids->generations[i] << 32 | i;
	return 0;
}

static void withdraw(struct ucx_worker *w, struct ucx_op *op)
{
	if (!op->id)
		return;
	uint32_t i = (uint32_t)op->id;
	w->ids.ops[i] = NULL;
	w->ids.spare[w->ids.spares++] = i;
	op->id = 0;
}

struct ucx_op *ucx_op_find(struct ucx_worker *w, uint64_t id)
{
	uint32_t i = (uint32_t)id;
	struct ucx_op *op = i < w->ids.size ? w->ids.ops[i] : NULL;
	return op && op->id == id ? op : NULL;
}

/* Frees what no one refers to any more. */
static void retire(struct ucx_op *op)
{
	struct ucx_comm *c = op->comm;
	if (op->in_ucx || op->request || op->id)
		return;
	free(op->extra);
	if (!c) { /* its communicator is closed; so may the worker be */
		free(op);
		return;
	}
	if (op->older)
		op->older->newer = op->newer;
	if (op->newer)
		op->newer->older = op->older;
	else
		c->ops = op->older;
	op->next = c->worker->free_ops;
	c->worker->free_ops = op;
}

void ucx_op_finish(struct ucx_op *op, int status)
{
	struct transport_request *request = op->request;

	if (op->key)
		ucp_rkey_destroy(op->key);
	op->key = NULL;
	if (op->comm) {
		if (op->memory)
			ucp_mem_unmap(op->comm->worker->context, op->memory);
		op->memory = NULL;
		withdraw(op->comm->worker, op);
	}
	op->request = NULL;
	if (request) {
		if (status && op->comm && op->comm->failure)
			status = op->comm->failure;
		request->status = status;
		atomic_store_explicit(&request->done, 1, memory_order_release);
	}
	retire(op);
}

void ucx_op_released(struct ucx_op *op)
{
	op->in_ucx--;
	retire(op);
}

void ucx_op_free_all(struct ucx_worker *w)
{
	for (struct ucx_op *op = w->free_ops, *next; op; op = next) {
		next = op->next;
		free(op);
	}
	w->free_ops = NULL;
	free(w->ids.ops);
	free(w->ids.generations);
	free(w->ids.spare);
	memset(&w->ids, 0, sizeof(w->ids));
}

struct ucx_wire *ucx_op_wire(struct ucx_op *op, int which, enum ucx_kind kind)
{
	struct ucx_wire *wire = &op->wire[which];
	memset(wire, 0, sizeof(*wire));
	wire->comm_id = op->comm->params.comm_id;
	wire->from = (uint32_t)op->comm->params.rank;
	wire->to = (uint32_t)op->peer;
	wire->lane = (uint16_t)op->lane;
	wire->sequence = op->sequence;
	wire->kind = (uint8_t)kind;
	return wire;
}

/* For messages whose sending ends nothing. */
static void let_go(void *request, ucs_status_t status, void *op)
{
	if (request)
		ucp_request_free(request);
	ucx_op_released(op);
}

int ucx_op_send(struct ucx_op *op, int which, unsigned flags, const void *buf, size_t bytes,
		ucp_send_nbx_callback_t done)
{
	struct ucx_worker *w = op->comm->worker;
	struct ucx_endpoint *e = op->comm->peers[op->peer]->endpoint;
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
						      UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
						      UCP_OP_ATTR_FIELD_MEMORY_TYPE,
				      .flags = flags,
				      .cb.send = done ? done : let_go,
				      .user_data = op,
				      .memory_type = UCS_MEMORY_TYPE_HOST };
	void *request = UCS_STATUS_PTR(UCS_ERR_ENDPOINT_TIMEOUT);
	op->in_ucx++;
	if (!e->failed)
		request =
		    ucp_am_send_nbx(e->ep, 0, &op->wire[which], sizeof(op->wire[which]), buf, bytes, &param);
	if (!UCS_PTR_IS_PTR(request))
		param.cb.send(NULL, UCS_PTR_STATUS(request), op);
	else
		w->nudge = 1;
	return UCS_PTR_IS_ERR(request) ? ucx_code(UCS_PTR_STATUS(request)) : 0;
}
