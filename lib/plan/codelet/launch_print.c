/* Launches in words, and what they send. */
#include <stdarg.h>
#include <stdio.h>

#include "base/collectives.h"
#include "plan/plan_eval.h"
#include "launch.h"

/* ---- Bytes to a peer ------------------------------------------------------------------------------------- */

/* Parts of a vector, the first two of which are the largest: rank 0 sends rank 1 that one's part, then its own. */
static uint64_t two_parts(const struct launch *l)
{
	uint64_t sum = 0;
	for (uint64_t at = 0; at < l->bytes; at += l->piece) {
		uint64_t left = l->bytes - at, piece = left < l->piece ? left : l->piece;
		size_t first, second, n = (size_t)l->machine->ranks;
		sum += plan_cut(piece, PLAN_UNIT_BYTES, n, 0, &first);
		sum += plan_cut(piece, PLAN_UNIT_BYTES, n, 1, &second);
	}
	return sum;
}

/* The parts of a broadcast that the second rank behind the root has, or the first: it passes them on to all others. */
static uint64_t scattered_part(const struct launch *l)
{
	uint64_t sum = 0;
	for (uint64_t at = 0; at < l->bytes; at += l->piece) {
		uint64_t left = l->bytes - at, piece = left < l->piece ? left : l->piece;
		size_t begin;
		sum += plan_cut(piece, PLAN_UNIT_BYTES, (size_t)l->machine->ranks - 1, 0, &begin);
	}
	return sum;
}

/* A broadcast's messages: a block's go to its warp groups in turn, and a warp group's to the other ranks. */
static uint64_t broadcast_messages(const struct launch *l)
{
	const size_t others = (size_t)l->machine->ranks - 1, blocks = (size_t)l->grid.blocks;
	uint64_t most = 0;
	for (size_t rank = 0; rank < others; rank++) {
		uint64_t sum = 0;
		for (size_t block = 0; block < blocks; block++) {
			size_t begin, bytes = plan_cut(l->bytes, LAUNCH_LINE, blocks, block, &begin);
			for (size_t at = 0, i = 0; at < bytes; at += l->message, i++) {
				size_t left = bytes - at,
				       group = block * LAUNCH_WARP_GROUPS + i % LAUNCH_WARP_GROUPS;
				if ((group + i / LAUNCH_WARP_GROUPS) % others == rank)
					sum += left < l->message ? left : l->message;
			}
		}
		most = sum > most ? sum : most;
	}
	return most;
}

uint64_t launch_to_peer(const struct launch *l)
{
	if (l->machine->ranks == 1 || !coll_has_data(l->coll))
		return 0;
	switch (l->kernel) {
	case KERNEL_TWO_SHOT_FEW:
	case KERNEL_TWO_SHOT:
		return coll_is_rooted(l->coll) ? scattered_part(l) : two_parts(l);
	case KERNEL_SCATTER_ALLGATHER:
		return broadcast_messages(l);
	case KERNEL_DIRECT:
		return two_parts(l);
	case KERNEL_FIFO_REDUCE:
		return l->coll == CORALE_ALL_REDUCE ? two_parts(l) : l->bytes;
	case KERNEL_COPIES:
		if (l->coll == CORALE_ALL_REDUCE &&
		    2 * launch_copied_part(l->bytes, l->machine->ranks) < l->bytes)
			return 2 * launch_copied_part(l->bytes, l->machine->ranks);
		return l->bytes;
	default:
		return l->bytes;
	}
}

/* ---- In words ------------------------------------------------------------------------------------------ */

struct text {
	char *buf;
	size_t bytes, length;
};

__attribute__((format(printf, 2, 3))) static void print(struct text *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int room = t->length < t->bytes;
	int n = vsnprintf(room ? t->buf + t->length : NULL, room ? t->bytes - t->length : 0, format, args);
	va_end(args);
	t->length += n > 0 ? (size_t)n : 0;
}

static const char *const kernels[KERNELS] = {
	"one_shot_few", "one_shot_few_long", "two_shot_few",      "one_shot", "two_shot", "fifo_reduce",
	"direct",       "fifo_moves",        "scatter_allgather", "p2p",      "copies",   "lowered"
};

static void print_pieces(struct text *t, const struct launch *l)
{
	print(t, ", %llu %s%s of %llu bytes", (unsigned long long)l->pieces,
	      l->kernel == KERNEL_COPIES ? "round" : "piece", l->pieces == 1 ? "" : "s",
	      (unsigned long long)l->piece);
}

size_t launch_print(const struct launch *l, char *buf, size_t bytes)
{
	struct text t = { buf, bytes, 0 };
	if (l->plan) {
		const int blocks = l->plan->nprograms * l->plan->channels;
		print(&t, "kernel %s, %d block%s, chunks of %u bytes", kernels[KERNEL_LOWERED], blocks,
		      blocks == 1 ? "" : "s", l->plan->chunk_bytes);
		return t.length;
	}
	print(&t, "kernel %s, %d block%s of %d threads", kernels[l->kernel], l->grid.blocks,
	      l->grid.blocks == 1 ? "" : "s", l->grid.threads);
	print_pieces(&t, l);
	if (l->message && l->kernel == KERNEL_COPIES)
		print(&t, ", chunks of %llu bytes", (unsigned long long)l->message);
	else if (l->message)
		print(&t, ", messages of %llu bytes, %u in flight", (unsigned long long)l->message, l->depth);
	print(&t, ", up to %llu bytes to a peer", (unsigned long long)launch_to_peer(l));
	return t.length;
}
