#include "ucx_held.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct ucx_held *ucx_held_make(const struct ucx_wire *wire, void *data, size_t bytes,
			       const ucp_am_recv_param_t *param)
{
	struct ucx_held *held = calloc(1, sizeof(*held));
	if (!held)
		goto lose;
	held->wire = *wire;
	held->bytes = bytes;
	held->from_ucx = bytes && (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA);
	if (held->from_ucx) {
		held->data = data;
	} else if (bytes) {
		if (!(held->data = malloc(bytes)))
			goto lose;
		memcpy(held->data, data, bytes);
	}
	return held;
lose:
	free(held);
	log_error(CORALE_ENOMEM, (int)wire->to,
		  "transport ucx: lost a message of rank %u: no memory for %zu bytes", wire->from, bytes);
	return NULL;
}

void ucx_held_insert(struct ucx_queue *queue, struct ucx_held *before, struct ucx_held *held)
{
	struct ucx_held **at = before ? &before->next : &queue->head;
	held->next = *at;
	*at = held;
	if (!held->next)
		queue->last = held;
	queue->bytes += held->bytes;
	queue->count++;
}

struct ucx_held *ucx_held_take(struct ucx_queue *queue, struct ucx_held *before)
{
	struct ucx_held **at = before ? &before->next : &queue->head, *held = *at;
	*at = held->next;
	held->next = NULL;
	if (queue->last == held)
		queue->last = before;
	queue->bytes -= held->bytes;
	queue->count--;
	return held;
}

void ucx_held_free(ucp_worker_h ucp, struct ucx_held *held)
{
	if (held && held->from_ucx)
		ucp_am_data_release(ucp, held->data);
	else if (held)
		free(held->data);
	free(held);
}

void ucx_held_free_all(ucp_worker_h ucp, struct ucx_queue *queue)
{
	while (queue->head)
		ucx_held_free(ucp, ucx_held_take(queue, NULL));
}
