/*
 * Messages through slots, folded or moved, by few blocks with many warps: what fifo runs, for calls from about 1 MB on. Protocol BULK. No GPU has measured it, so it runs what
 * CORALE_PROTO=BULK asks for, and is never chosen by its time.
 */
#include "cut.h"

#include "base/collectives.h"

enum {
	MOST_BYTES = 32 << 10, /* of a message */
	LEAST_BYTES = 4 << 10, /* of one that a warp loads at once */
	MOST_DEPTH = 48, /* messages in flight of a block: some for each warp that sends */
	SENDERS = LAUNCH_BULK_THREADS / 32 / 4 /* warps, at least */
};

/* A vector in parts, by two exchanges; else blocks, by one. */
static int has_parts(corale_coll coll)
{
	return coll == CORALE_ALL_REDUCE || coll == CORALE_BROADCAST || coll == CORALE_REDUCE;
}

/* Ranks that own a part, all but a root; 1: all data are blocks. */
static uint64_t owners(corale_coll coll, int ranks)
{
	return has_parts(coll) && ranks > 1 ? (uint64_t)(ranks - coll_is_rooted(coll)) : 1;
}

/* A block's room for one exchange with one peer. */
static uint64_t room_of(const struct gpu_machine *machine, uint64_t room, corale_coll coll)
{
	return room / ((uint64_t)machine->max_blocks * (has_parts(coll) ? 2 : 1));
}

static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)call;
	return machine->forced == (int)row->protocol &&
	       (uint32_t)machine->max_blocks <= machine->bulk_slots &&
	       room_of(machine, machine->slots_bytes, row->coll) >= LAUNCH_LINE;
}

static struct codelet_rate rate(const struct row *row, int ranks)
{
	return fifo_codelet.rate(row, ranks);
}

static double sent(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	return has_parts(row->coll) ? codelet_sent_in_parts(row, machine, bytes)
				    : codelet_sent_to_all(row, machine, bytes);
}

/* Of a rooted call one part. */
static uint64_t to_peer(const struct launch *l)
{
	size_t begin;
	if (l->coll == CORALE_ALL_REDUCE)
		return launch_two_parts(l);
	return plan_cut(l->bytes, PLAN_UNIT_BYTES, owners(l->coll, l->machine->ranks), 0, &begin);
}

/* So long that each warp that sends has one, of a call that is not longer than that. */
static uint64_t message_of(const struct launch *l)
{
	const uint64_t parts = owners(l->coll, l->machine->ranks),
		       each = l->bytes / (parts * (uint64_t)l->machine->max_blocks * SENDERS) + 1;
	return each < LEAST_BYTES  ? LEAST_BYTES
	       : each < MOST_BYTES ? plan_round(each, LAUNCH_LINE)
				   : MOST_BYTES;
}

static void cut(struct launch *l)
{
	const uint64_t room = room_of(l->machine, slots_room(l), l->coll), most = message_of(l);
	uint64_t depth = l->machine->bulk_slots / (uint32_t)l->machine->max_blocks;
	depth = depth < MOST_DEPTH ? depth : MOST_DEPTH;
	if (room / depth < LEAST_BYTES)
		depth = room < LEAST_BYTES ? 1 : room / LEAST_BYTES;
	l->variant = l->coll == CORALE_BROADCAST ? BULK_BROADCAST
		     : coll_folds(l->coll)       ? BULK_REDUCE
						 : BULK_MOVES;
	l->grid.threads = LAUNCH_BULK_THREADS;
	l->depth = (uint32_t)depth;
	l->message = slots_bytes(room, 1, 1, l->depth, most);
}

static size_t print(const struct launch *l, char *buf, size_t bytes)
{
	static const char *const kernels[] = { [BULK_REDUCE] = "bulk_reduce",
					       [BULK_MOVES] = "bulk_moves",
					       [BULK_BROADCAST] = "bulk_broadcast" };
	return launch_print_kernel(l, kernels[l->variant], buf, bytes);
}

const struct codelet bulk_codelet = { "bulk",     8,       PLAN_SM, can,
				      codelet_us, rate,    sent,    codelet_one_piece,
				      cut,        to_peer, print };
