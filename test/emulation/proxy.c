/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/net/proxy.c and slot_front.c as one of the fibers: others go on where it tells them something. */
#define _GNU_SOURCE /* as it has, before the first header */
#include "gpu.h"

#define __atomic_store_n(word, value, order)                                                                 \
	(gpu_maybe(2), __atomic_store_n(word, value, order), gpu_maybe(2))

#include "net/proxy.h"
#include "../../lib/net/slot_front.c"

static int open_end(struct proxy *p, int peer, enum remote_direction direction, uint32_t number,
		    remote_offset *offset);
#define proxy_open_end open_end
#include "../../lib/net/proxy.c"

#undef proxy_open_end
#include "nodes.h"

/* Where messages lie in a slab whoever takes the pinned slots for theirs finds poison. */
int proxy_open_end(struct proxy *p, int peer, enum remote_direction direction, uint32_t number,
		   remote_offset *offset)
{
	const struct remote *r = &p->params.remote;
	const struct remote_slots *slots = remote_slots_of(r, number);
	const int ret = open_end(p, peer, direction, number, offset);
	if (!ret && remote_slots_are_apart(r, number))
		memset(nodes_pinned_slots(r, *offset, slots), NODES_POISON,
		       (size_t)slots->depth * slots->bytes);
	return ret;
}
