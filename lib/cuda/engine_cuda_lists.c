/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of lowered plans in memory of the GPU. */
#include "engine_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static size_t list_bytes(const struct lowered *l)
{
	return plan_round((size_t)l->nops * sizeof *l->ops + (size_t)l->npeers * sizeof *l->peers +
			      CODELET_MAX_RANKS * sizeof(int16_t),
			  64);
}

/* Of arrays that may be empty, and then NULL. */
static int same_bytes(const void *a, const void *b, size_t bytes)
{
	return !bytes || !memcmp(a, b, bytes);
}

static int is_same(const struct lowered *a, const struct lowered *b)
{
	return a->nprograms == b->nprograms && a->nops == b->nops && a->npeers == b->npeers &&
	       same_bytes(a->first, b->first, sizeof a->first) &&
	       same_bytes(a->ops, b->ops, (size_t)a->nops * sizeof *a->ops) &&
	       same_bytes(a->peers, b->peers, (size_t)a->npeers * sizeof *a->peers);
}

/* Ranks of other nodes in a list, each once, at most so many as kernels count; how many there are. */
static int find_far(const struct engine *e, const struct lowered *l, int16_t *far_peers)
{
	int n = 0;
	for (int i = 0; i < l->npeers && e->ranks + n <= CODELET_MAX_RANKS; i++) {
		const int16_t peer = (int16_t)(l->peers[i].rank - e->ranks);
		int k = 0;
		while (k < n && far_peers[k] != peer)
			k++;
		if (peer >= 0 && k == n)
			far_peers[n++] = peer;
	}
	return n;
}

static int check_list(const struct engine *e, const struct lowered *l, int nfar)
{
	if (e->ranks + nfar > CODELET_MAX_RANKS)
		return log_error(CORALE_ENOTSUP, e->world_rank,
				 "a plan in which a rank talks to more than %d ranks of other nodes",
				 CODELET_MAX_RANKS - e->ranks);
	if (l->npeers > CODELET_LOWERED_PEERS)
		return log_error(CORALE_ENOTSUP, e->world_rank, "a plan with %d peers: at most %d on a GPU",
				 l->npeers, CODELET_LOWERED_PEERS);
	for (int p = 0; p < l->nprograms; p++)
		if (l->first[p + 1] - l->first[p] > CODELET_LOWERED_OPS)
			return log_error(CORALE_ENOTSUP, e->world_rank,
					 "a plan of %d operations a program: at most %d on a GPU",
					 l->first[p + 1] - l->first[p], CODELET_LOWERED_OPS);
	return 0;
}

static int make_room(struct engine *e, size_t bytes)
{
	struct engine_lists *lists = &e->lists;
	if (lists->used + bytes > lists->bytes)
		return log_error(CORALE_ENOMEM, e->world_rank,
				 "no room for another plan on the GPU: %zu of %zu bytes are used",
				 lists->used, lists->bytes);
	if (lists->n < lists->room)
		return 0;
	int room = lists->room ? 2 * lists->room : 32;
	struct engine_list *list = realloc(lists->list, (size_t)room * sizeof *list);
	if (!list)
		return log_error(CORALE_ENOMEM, e->world_rank, "no memory for %d plans", room);
	lists->list = list;
	lists->room = room;
	return 0;
}

/* Kernels number the ranks of other nodes by the list. */
static void number_peers(const struct engine *e, const int16_t *far_peers, struct lowered_peer *peers, int n)
{
	for (int i = 0; i < n; i++) {
		int16_t k = 0;
		while (peers[i].rank >= e->ranks && far_peers[k] != peers[i].rank - e->ranks)
			k++;
		if (peers[i].rank >= e->ranks)
			peers[i].rank = (int16_t)(e->ranks + k);
	}
}

static int put_list(struct engine *e, const struct lowered *l, const int16_t *far_peers, int nfar,
		    unsigned char *to)
{
	const size_t bytes = list_bytes(l), ops = (size_t)l->nops * sizeof *l->ops;
	unsigned char *copy = calloc(1, bytes + 1);
	if (!copy)
		return log_error(CORALE_ENOMEM, e->world_rank, "no memory for a plan");
	if (l->nops)
		memcpy(copy, l->ops, ops);
	if (l->npeers) {
		struct lowered_peer *peers = (struct lowered_peer *)(void *)(copy + ops);
		memcpy(peers, l->peers, (size_t)l->npeers * sizeof *l->peers);
		number_peers(e, far_peers, peers, l->npeers);
		memcpy(peers + l->npeers, far_peers, (size_t)nfar * sizeof *far_peers);
	}
	int ret = engine_put(e, to, copy, bytes);
	free(copy);
	return ret;
}

int engine_add_list(struct engine *e, struct lowered *l, int *index)
{
	struct engine_lists *lists = &e->lists;
	for (*index = 0; *index < lists->n; ++*index)
		if (is_same(&lists->list[*index].host, l)) {
			lowered_free(l);
			return 0;
		}
	int16_t far_peers[CODELET_MAX_RANKS + 1];
	const int nfar = find_far(e, l, far_peers);
	int ret = check_list(e, l, nfar);
	ret = ret ? ret : make_room(e, list_bytes(l));
	ret = ret ? ret : put_list(e, l, far_peers, nfar, lists->memory + lists->used);
	if (ret) {
		lowered_free(l);
		return ret;
	}
	lists->list[lists->n++] =
	    (struct engine_list){ .host = *l,
				  .memory = lists->memory + lists->used,
				  .nfar = nfar,
				  .receives_from_all = lowered_receives_from_all(l, e->rank, e->ranks) };
	for (int i = 0; i < nfar && i < CODELET_FEW_FAR; i++)
		lists->list[lists->n - 1].few_far[i] = far_peers[i];
	lists->used += list_bytes(l);
	return 0;
}

/* The lists of all rows that are lowered have room, from each root; of very many ranks, those that programs use. */
int engine_open_lists(struct engine *e)
{
	enum { PEERS = 4, MORE = 33, MOST_BYTES = 32 << 20 };
	int rows, n = 0;
	const struct row *table = row_table(&rows);
	for (int i = 0; i < rows; i++)
		n += !table[i].codelet && !(table[i].traits & ROW_ON_HOSTS);
	const size_t ranks = (size_t)e->world_ranks,
		     all = (size_t)n * ranks * (PEERS * ranks + MORE) * sizeof(struct lowered_op) / 2,
		     bytes = all < MOST_BYTES ? all : MOST_BYTES;
	const int ret = engine_malloc(e, bytes, (void **)&e->lists.memory);
	e->lists.bytes = ret ? 0 : bytes;
	return ret;
}

void engine_close_lists(struct engine *e)
{
	for (int i = 0; i < e->lists.n; i++)
		lowered_free(&e->lists.list[i].host);
	free(e->lists.list);
	engine_mfree(e, e->lists.memory, e->lists.bytes);
}
