#include "collectives.h"

const struct collective coll_table[CORALE_NUM_COLLS] = {
	[CORALE_ALL_REDUCE] = { "all_reduce", COLL_ONE, COLL_ONE, .folds = 1 },
	[CORALE_ALL_GATHER] = { "all_gather", COLL_ONE, COLL_EACH },
	[CORALE_REDUCE_SCATTER] = { "reduce_scatter", COLL_EACH, COLL_ONE, .folds = 1 },
	[CORALE_BROADCAST] = { "broadcast", COLL_ONE, COLL_ONE, .rooted = 1, .root_sends = 1 },
	[CORALE_ALL_TO_ALL] = { "all_to_all", COLL_EACH, COLL_EACH },
	[CORALE_ALL_TO_ALL_V] = { "all_to_all_v", COLL_UNEVEN, COLL_UNEVEN },
	[CORALE_SEND] = { "send", COLL_ONE, COLL_NONE, .pair = 1 },
	[CORALE_RECV] = { "recv", COLL_NONE, COLL_ONE, .pair = 1 },
	[CORALE_BARRIER] = { "barrier", COLL_NONE, COLL_NONE },
	[CORALE_REDUCE] = { "reduce", COLL_ONE, COLL_ONE, .folds = 1, .rooted = 1, .root_receives = 1 },
	[CORALE_GATHER] = { "gather", COLL_ONE, COLL_EACH, .rooted = 1, .root_receives = 1 },
	[CORALE_SCATTER] = { "scatter", COLL_EACH, COLL_ONE, .rooted = 1, .root_sends = 1 },
};

static size_t blocks(uint8_t kind, int ranks)
{
	return kind == COLL_EACH ? (size_t)ranks : kind == COLL_ONE;
}

size_t coll_send_blocks(int coll, int ranks, int rank, int root)
{
	const struct collective *c = &coll_table[coll];
	return c->root_sends && rank != root ? 0 : blocks(c->send, ranks);
}

size_t coll_recv_blocks(int coll, int ranks, int rank, int root)
{
	const struct collective *c = &coll_table[coll];
	return c->root_receives && rank != root ? 0 : blocks(c->recv, ranks);
}

size_t coll_send_own(int coll, int rank)
{
	return coll_table[coll].send == COLL_EACH && coll_table[coll].recv == COLL_ONE ? (size_t)rank : 0;
}

size_t coll_recv_own(int coll, int rank)
{
	return coll_table[coll].recv == COLL_EACH && coll_table[coll].send == COLL_ONE ? (size_t)rank : 0;
}

int coll_can_be_in_place(int coll)
{
	return coll_table[coll].send != COLL_EACH || coll_table[coll].recv != COLL_EACH;
}
