/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of a peer's slots, which each of its endpoints unpacks for itself. */
#include "ucx_link.h"

#include <stdlib.h>
#include <string.h>

/*
 * UCX unpacks a key without knowing its length. Its map of 64 memory domains and a byte of length for each reach 16.1 KiB at most. Copying the key in front of
 * so many zeros keeps UCX within the copy, even if the key is cut off or forged.
 */
static ucs_status_t unpack_key(struct ucx_link *l)
{
	enum { KEY_ROOM = 24 << 10 };
	ucp_ep_h ep = l->p->endpoint->data;
	ucp_rkey_h key;
	unsigned char *room = calloc(1, KEY_ROOM);
	if (!room)
		return UCS_ERR_NO_MEMORY;
	memcpy(room, l->packed, l->packed_bytes);
	const ucs_status_t status = ucp_ep_rkey_unpack(ep, room, &key);
	free(room);
	if (status != UCS_OK)
		return status;
	if (l->key) /* nothing was put with it: small messages are not */
		ucp_rkey_destroy(l->key);
	l->key = key;
	l->key_ep = ep;
	return UCS_OK;
}

int ucx_link_enlarge(struct ucx_link *l)
{
	struct ucx_comm *c = l->comm;
	struct ucx_endpoint *e = l->p->endpoint;
	const int ret = ucx_endpoint_data(e, ucx_comm_address(c, l->base.peer)->worker, c->params.rank);
	if (ret || !l->key || l->key_ep == e->data)
		return ret;
	const ucs_status_t status = unpack_key(l);
	return status == UCS_OK ? 0 : ucx_failed("the key of a peer's slots", c->params.rank, status);
}

ucs_status_t ucx_link_keep_key(struct ucx_link *l, const void *key, size_t bytes)
{
	l->packed = malloc(bytes);
	if (!l->packed)
		return UCS_ERR_NO_MEMORY;
	memcpy(l->packed, key, bytes);
	l->packed_bytes = bytes;
	const ucs_status_t status = unpack_key(l);
	if (status == UCS_OK)
		return UCS_OK;
	free(l->packed);
	l->packed = NULL;
	return status;
}
