/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls the function of a collective by its number. */
#include "test/helpers/any_call.h"

int any_call(const struct any_call *c)
{
	switch (c->coll) {
	case CORALE_ALL_REDUCE:
		return corale_all_reduce(c->send, c->recv, c->count, c->type, c->op, c->comm, c->stream);
	case CORALE_ALL_GATHER:
		return corale_all_gather(c->send, c->recv, c->count, c->type, c->comm, c->stream);
	case CORALE_REDUCE_SCATTER:
		return corale_reduce_scatter(c->send, c->recv, c->count, c->type, c->op, c->comm, c->stream);
	case CORALE_BROADCAST:
		return corale_broadcast(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream);
	case CORALE_REDUCE:
		return corale_reduce(c->send, c->recv, c->count, c->type, c->op, c->root, c->comm, c->stream);
	case CORALE_GATHER:
		return corale_gather(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream);
	case CORALE_SCATTER:
		return corale_scatter(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream);
	case CORALE_ALL_TO_ALL:
		return corale_all_to_all(c->send, c->recv, c->count, c->type, c->comm, c->stream);
	case CORALE_ALL_TO_ALL_V:
		return corale_all_to_all_v(c->send, c->send_counts, c->send_displs, c->recv, c->recv_counts,
					   c->recv_displs, c->type, c->comm, c->stream);
	case CORALE_ALL_GATHER_V:
		return corale_all_gather_v(c->send, c->recv, c->recv_counts, c->recv_displs, c->type, c->comm,
					   c->stream);
	case CORALE_REDUCE_SCATTER_V:
		return corale_reduce_scatter_v(c->send, c->send_counts, c->send_displs, c->recv, c->type,
					       c->op, c->comm, c->stream);
	case CORALE_GATHER_V:
		return corale_gather_v(c->send, c->count, c->recv, c->recv_counts, c->recv_displs, c->type,
				       c->root, c->comm, c->stream);
	case CORALE_SCATTER_V:
		return corale_scatter_v(c->send, c->send_counts, c->send_displs, c->recv, c->count, c->type,
					c->root, c->comm, c->stream);
	default:
		return corale_barrier(c->comm, c->stream);
	}
}
