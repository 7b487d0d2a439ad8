/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "ucx_link.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"

/*
 * Bytes of a worker's slots in large pages, at most. A large page is filled with zeros whole, so slots in them take all their memory at the first message,
 * and slots of a program's tenth communicator seldom carry another one.
 */
enum { LARGE_PAGES = 64 << 20 };

/* Slots of a closed communicator. */
struct ucx_retired {
	struct ucx_retired *next;
	uint64_t comm_id;
	int to, from;
	struct ucx_slots slots;
	struct ucx_slots *receives; /* the link's, while UCX still fills them; or NULL */
};

int ucx_slots_make(struct ucx_slots *s, const struct ucx_comm *c, int peer, const struct link_memory *user,
		   int sends, size_t bytes)
{
	struct ucx_slots made = { .bytes = bytes, .given = user != NULL };
	if (user)
		made.user = *user;
	if (user)
		made.at = sends ? user->out : user->in;
	else /* not counted by the kernel until it is used */
		made.at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (user && user->slab) {
		made.memory = user->slab->memory;
		*s = made;
		return 0;
	}
	if (!made.at || made.at == MAP_FAILED)
		return log_error(CORALE_ENOMEM, c->params.rank,
				 "transport ucx: no memory for %zu bytes of slots for rank %d", bytes, peer);
	const ucp_mem_map_params_t params = ucx_map_params(made.at, bytes, UCS_MEMORY_TYPE_HOST);
	const ucs_status_t status = ucp_mem_map(c->worker->context, &params, &made.memory);
	if (status == UCS_OK) {
		*s = made;
		return 0;
	}
	if (!user)
		munmap(made.at, bytes);
	return log_error(ucx_code(status), c->params.rank,
			 "transport ucx: cannot register %zu bytes of slots for rank %d: %s", bytes, peer,
			 ucs_status_string(status));
}

void ucx_slots_enlarge(struct ucx_worker *w, struct ucx_slots *s)
{
	if (s->large || s->given || w->large_bytes + s->bytes > LARGE_PAGES)
		return;
	s->large = 1;
	w->large_bytes += s->bytes;
	madvise(s->at, s->bytes, MADV_HUGEPAGE);
}

static void forget_large(struct ucx_worker *w, struct ucx_slots *s)
{
	if (s->large)
		w->large_bytes -= s->bytes;
	s->large = 0;
}

void ucx_slots_free(struct ucx_worker *w, struct ucx_slots *s)
{
	if (s->retired)
		s->retired->receives = NULL;
	s->retired = NULL;
	if (!s->at)
		return;
	if (!s->user.slab)
		ucp_mem_unmap(w->context, s->memory);
	if (!s->given)
		munmap(s->at, s->bytes);
	else if (s->user.release)
		s->user.release(s->user.ctx);
	s->at = NULL;
	forget_large(w, s);
}

void ucx_slots_retire(const struct ucx_comm *c, int peer, struct ucx_slots *s, int receives)
{
	struct ucx_retired *retired = malloc(sizeof(*retired));
	const struct ucx_slots slots = *s;
	s->at = NULL;
	if (!slots.given)
		madvise(slots.at, slots.bytes, MADV_DONTNEED);
	if (!retired)
		return; /* the addresses stay taken */
	*retired = (struct ucx_retired){ c->worker->retired, c->params.comm_id, c->params.rank, peer, slots,
					 receives ? s : NULL };
	forget_large(c->worker, &retired->slots); /* it has no pages */
	s->retired = receives ? retired : NULL;
	c->worker->retired = retired;
}

void ucx_slots_free_retired(struct ucx_worker *w, const struct ucx_wire *bye)
{
	for (struct ucx_retired **at = &w->retired, *retired; (retired = *at);) {
		if (bye && (retired->comm_id != bye->comm_id || retired->from != (int)bye->from ||
			    retired->to != (int)bye->to || bye->number != 1)) {
			at = &retired->next;
			continue;
		}
		*at = retired->next;
		if (retired->receives) /* the link frees them: data come by another connection than a BYE */
			*retired->receives = retired->slots;
		else
			ucx_slots_free(w, &retired->slots);
		free(retired);
	}
}
