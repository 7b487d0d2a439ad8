/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each codelet must send what the plan sends that it stands for: between every two ranks the same bytes, each once, none
 * besides. What codelets send is read from the stores of the kernels and copies on emulated GPUs (recorded.h), what plans send
 * from the messages of the host engine's step executor (planned.h). How a vector is cut into messages may differ, and does.
 * And no row may pass with another plan: its plan with a slip in any step that sends must send something else.
 * TAP: a row of the table a line. Usage: packets_test [SEED [WORD]]: only rows whose name holds WORD. TEST_THIN (test/helpers/thin.h) in the
 * environment: less of all, without a WORD half of the rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collectives.h"
#include "base/log.h"
#include "base/collectives.h"
#include "planned.h"
#include "recorded.h"
#include "script.h"
#include "test/helpers/thin.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { KIB = 1024, MOST_RANKS = 8 };

/* A codelet and what it stands for. */
struct tried {
	const struct codelet *codelet;
	corale_coll coll;
	const char *algo; /* the plan's */
	int most_ranks, blocks;
	size_t window_kib;
	const size_t *counts; /* END behind the last */
	int scratch, registered; /* through scratch; into registered memory: then counts are bytes */
	int least_ranks, least_pieces; /* 0: as any row has */
	int forced; /* enum plan_protocol that CORALE_PROTO names, or 0 */
	int interleaved; /* in messages: the plan's parts are other ones, so another rank may be sent a byte first */
};

/* ---- The table ---------------------------------------------------------------------------------------------------- */

enum { END = -1 };

static const size_t few[] = { 0, 1, 3, 30, 61, 500, 1029, END }, many[] = { 0, 1, 33, 5003, 12000, END },
		    in_pieces[] = { 5000, 12001, END };
/* Of the blocks of three to five ranks, in bytes. */
static const size_t blocks_in_pieces[] = { 8200, 19999, END };
/* Into registered memory: whole vectors alone, because smaller stores are not recorded. */
static const size_t vectors[] = { 16, 4800, 12000, 70400, END },
		    even_vectors[] = { 4800, 70400, END }; /* halves too */

/* Copies through scratch: in several rounds, too. */
static const size_t copied[] = { 1, 5000, 30001, END };
/* Parts of copies begin at other places than the plan's, but for such vectors of two to four ranks. */
static const size_t parts_alike[] = { 6144, 24576, 61440, END };

static const struct tried rows[] = {
	{ &one_shot_codelet, CORALE_ALL_REDUCE, "oneshot", 8, 8, 1024, .counts = few },
	{ &one_shot_codelet, CORALE_REDUCE_SCATTER, "oneshot", 8, 8, 1024, .counts = few },
	{ &one_shot_codelet, CORALE_ALL_GATHER, "oneshot", 8, 8, 1024, .counts = few },
	{ &one_shot_codelet, CORALE_ALL_TO_ALL, "pairwise", 8, 8, 1024, .counts = few },
	{ &one_shot_codelet, CORALE_BROADCAST, "flat", 8, 8, 1024, .counts = few },
	{ &one_shot_codelet, CORALE_REDUCE_SCATTER, "oneshot", 5, 1, 320, .counts = blocks_in_pieces,
	  .least_ranks = 3, .least_pieces = 2 },
	{ &one_shot_codelet, CORALE_ALL_GATHER, "oneshot", 5, 1, 320, .counts = blocks_in_pieces,
	  .least_ranks = 3, .least_pieces = 2 },
	{ &one_shot_codelet, CORALE_ALL_TO_ALL, "pairwise", 5, 1, 320, .counts = blocks_in_pieces,
	  .least_ranks = 3, .least_pieces = 2 },
	{ &two_shot_codelet, CORALE_ALL_REDUCE, "twoshot", 8, 8, 1024, .counts = few },
	{ &two_shot_codelet, CORALE_ALL_REDUCE, "twoshot", 3, 1, 256, .counts = in_pieces },
	{ &two_shot_codelet, CORALE_BROADCAST, "scatterallgather", 4, 8, 512, .counts = few },
	{ &two_shot_codelet, CORALE_BROADCAST, "scatterallgather", 3, 1, 256, .counts = in_pieces },
	{ &fifo_codelet, CORALE_ALL_GATHER, "oneshot", 4, 2, 224, .counts = many },
	{ &fifo_codelet, CORALE_ALL_TO_ALL, "pairwise", 4, 2, 224, .counts = many },
	{ &fifo_codelet, CORALE_ALL_TO_ALL_V, "pairwise", 4, 8, 224, .counts = many },
	{ NULL, CORALE_ALL_TO_ALL_V, "p2p", 3, 8, 224, .counts = few },
	{ NULL, CORALE_ALL_TO_ALL_V, "p2p", 4, 8, 224, .counts = many },
	/* Blocks at multiples of a vector alone go straight, so some of each rank. */
	{ NULL, CORALE_ALL_TO_ALL_V, "p2p", 4, 8, 224, .counts = even_vectors, .registered = 1 },
	{ &fifo_codelet, CORALE_ALL_TO_ALL_V, "pairwise", 4, 2, 224, .counts = many, .forced = PLAN_BULK },
	{ NULL, CORALE_ALL_TO_ALL_V, "p2p", 4, 2, 224, .counts = many, .forced = PLAN_BULK },
	{ NULL, CORALE_ALL_TO_ALL_V, "p2p", 4, 2, 224, .counts = even_vectors, .registered = 1,
	  .forced = PLAN_BULK },
	{ &fifo_codelet, CORALE_BROADCAST, "scatterallgather", 4, 2, 160, .counts = many, .interleaved = 1 },
	{ &fifo_codelet, CORALE_ALL_GATHER, "oneshot", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &fifo_codelet, CORALE_ALL_TO_ALL, "pairwise", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &fifo_codelet, CORALE_ALL_GATHER, "oneshot", 4, 2, 160, .counts = vectors, .registered = 1 },
	{ &fifo_codelet, CORALE_ALL_TO_ALL, "pairwise", 4, 2, 160, .counts = vectors, .registered = 1 },
	{ &fifo_codelet, CORALE_BROADCAST, "scatterallgather", 4, 2, 160, .counts = vectors, .registered = 1,
	  .interleaved = 1 },
	{ &bulk_codelet, CORALE_REDUCE_SCATTER, "oneshot", 4, 2, 224, .counts = many },
	{ &bulk_codelet, CORALE_ALL_GATHER, "oneshot", 4, 2, 224, .counts = many },
	{ &bulk_codelet, CORALE_ALL_TO_ALL, "pairwise", 4, 2, 224, .counts = many },
	{ &bulk_codelet, CORALE_ALL_REDUCE, "twoshot", 4, 2, 224, .counts = many },
	{ &bulk_codelet, CORALE_REDUCE_SCATTER, "oneshot", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &bulk_codelet, CORALE_ALL_GATHER, "oneshot", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &bulk_codelet, CORALE_ALL_TO_ALL, "pairwise", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &bulk_codelet, CORALE_ALL_REDUCE, "twoshot", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &bulk_codelet, CORALE_ALL_REDUCE, "twoshot", 8, 1, 256, .counts = few, .least_ranks = 5 },
	{ &bulk_codelet, CORALE_BROADCAST, "scatterallgather", 4, 2, 224, .counts = many },
	{ &chain_codelet, CORALE_BROADCAST, "chain", 4, 2, 224, .counts = many },
	{ &chain_codelet, CORALE_BROADCAST, "chain", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &chain_codelet, CORALE_BROADCAST, "chain", 4, 2, 160, .counts = vectors, .registered = 1 },
	{ &bulk_codelet, CORALE_REDUCE, "oneshot", 2, 2, 224, .counts = many },
	{ &bulk_codelet, CORALE_REDUCE, "twoshot", 4, 2, 224, .counts = many, .least_ranks = 3 },
	{ &bulk_codelet, CORALE_GATHER, "flat", 4, 2, 224, .counts = many },
	{ &bulk_codelet, CORALE_SCATTER, "flat", 4, 2, 224, .counts = many },
	{ &bulk_codelet, CORALE_BROADCAST, "scatterallgather", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &bulk_codelet, CORALE_REDUCE, "twoshot", 3, 1, 160, .counts = many, .scratch = 1,
	  .least_ranks = 3 },
	{ &bulk_codelet, CORALE_GATHER, "flat", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &bulk_codelet, CORALE_SCATTER, "flat", 3, 1, 160, .counts = many, .scratch = 1 },
	{ &bulk_codelet, CORALE_ALL_GATHER, "oneshot", 4, 2, 160, .counts = vectors, .registered = 1 },
	{ &bulk_codelet, CORALE_ALL_TO_ALL, "pairwise", 4, 2, 160, .counts = vectors, .registered = 1 },
	{ &bulk_codelet, CORALE_BROADCAST, "scatterallgather", 4, 2, 160, .counts = vectors,
	  .registered = 1 },
	{ &bulk_codelet, CORALE_ALL_REDUCE, "twoshot", 4, 2, 160, .counts = vectors, .registered = 1 },
	{ &bulk_codelet, CORALE_ALL_REDUCE, "twoshot", 3, 1, 160, .counts = vectors, .scratch = 1,
	  .registered = 1 },
	{ &copies_codelet, CORALE_ALL_GATHER, "oneshot", 4, 2, 160, .counts = copied, .scratch = 1 },
	{ &copies_codelet, CORALE_ALL_GATHER, "oneshot", 4, 2, 160, .counts = copied, .registered = 1 },
	{ &copies_codelet, CORALE_ALL_TO_ALL, "pairwise", 4, 2, 160, .counts = copied, .scratch = 1 },
	{ &copies_codelet, CORALE_ALL_TO_ALL, "pairwise", 4, 2, 160, .counts = copied, .registered = 1 },
	{ &copies_codelet, CORALE_REDUCE_SCATTER, "ce", 4, 2, 160, .counts = copied, .scratch = 1 },
	{ &copies_codelet, CORALE_ALL_REDUCE, "ce", 4, 2, 160, .counts = parts_alike, .scratch = 1 },
	{ &copies_codelet, CORALE_ALL_REDUCE, "ce", 4, 2, 160, .counts = parts_alike, .scratch = 1,
	  .registered = 1 },
	{ &copies_codelet, CORALE_BROADCAST, "chain", 4, 2, 160, .counts = copied, .scratch = 1 },
	{ &copies_codelet, CORALE_BROADCAST, "chain", 4, 2, 160, .counts = copied, .registered = 1 },
};

/* ---- One call of all ranks ----------------------------------------------------------------------------------------- */

enum alignment { ALIGNED, ODD, MIXED /* from rank to rank */ };

struct trial {
	struct world world;
	struct world_params params;
	struct test_call calls[MOST_RANKS]; /* by rank: only addresses differ */
	struct started started[MOST_RANKS];
	int errors[MOST_RANKS];
	int slips; /* the plan's slips are tried, too */
};

static uint64_t test_seed;
static int test_thin; /* TEST_THIN is in the environment: less of all, for slow sanitizers */
enum { THIN_BLOCKS = 2 /* at most: to the thread sanitizer every fiber is a thread */ };

/* An all_to_all_v as a group of sends and receives. */
static int start_group(struct world *w, const struct started *s)
{
	struct call messages[2 * MOST_RANKS];
	const size_t element = corale_type_bytes(s->call->type);
	int n = 0;
	for (int r = 0; r < s->ranks; r++) {
		unsigned char *from = s->send + s->send_displs[r] * element,
			      *to = s->recv + s->recv_displs[r] * element;
		messages[n] = world_send(r, from, s->send_counts[r] * element, CORALE_INT8);
		if (r == s->rank) {
			messages[n].recv = to;
			n += s->send_counts[r] != 0;
			continue;
		}
		messages[++n] = world_receive(r, to, s->recv_counts[r] * element, CORALE_INT8);
		if (s->call->place)
			messages[n].record.target =
			    (uint64_t)1 << ENGINE_TARGET_SHIFT | (uint64_t)(to - w->registered[s->rank]);
		n++;
	}
	return engine_run_messages(&w->engines[s->rank], messages, n, NULL);
}

static void play(int rank, void *arg)
{
	struct trial *t = arg;
	const struct test_call *c = &t->calls[rank];
	struct started *s = &t->started[rank];
	if (!c->codelet) {
		call_fill(s, &t->world, rank, c);
		t->errors[rank] = start_group(&t->world, s);
	} else {
		t->errors[rank] = call_start(s, &t->world, rank, c, call_signature(c));
	}
	gpu_synchronize();
}

/* Bytes of a block or vector, the largest if they differ. */
static size_t block_bytes(const struct trial *t)
{
	const struct test_call *c = &t->calls[0];
	size_t count = c->count;
	for (int s = 0; c->coll == CORALE_ALL_TO_ALL_V && s < t->params.ranks; s++)
		for (int r = 0; r < t->params.ranks; r++)
			if (t->started[s].send_counts[r] > count)
				count = t->started[s].send_counts[r];
	return count * corale_type_bytes(c->type);
}

static int read_pieces(const struct tried *row, const struct trial *t, struct piece pieces[RECORDED_PIECES])
{
	if (row->codelet != &copies_codelet)
		return recorded_pieces(t->started, pieces);
	pieces[0] = (struct piece){ 0, block_bytes(t) };
	return 1;
}

/* slip: as for planned_run. */
static int plan_traffic(const struct tried *row, const struct trial *t, const struct slip *slip,
			struct traffic *planned)
{
	struct piece pieces[RECORDED_PIECES];
	int n = read_pieces(row, t, pieces), faults = n == 0 || n < row->least_pieces;
	if (faults)
		printf("# the ranks have run the call in %d pieces; at least %d are planned\n", n,
		       row->least_pieces);
	for (int i = 0; !faults && i < n; i++)
		faults = !row->codelet ? planned_p2p(t->started, slip, planned)
				       : planned_run(t->started, row->algo, pieces[i], slip, planned);
	if (!faults && row->interleaved)
		traffic_forget_owners(planned, t->calls[0].root);
	return faults;
}

static int read_traffic(const struct tried *row, const struct trial *t, const struct traffic *planned,
			struct traffic *seen)
{
	int faults = row->codelet == &copies_codelet
			 ? recorded_copies(&t->world, t->started, seen)
			 : recorded_read(&t->world, t->started, t->params.first_epoch, planned, seen);
	if (!faults && row->interleaved)
		traffic_forget_owners(seen, t->calls[0].root);
	return faults;
}

/* 1: the plan with that slip sends what was seen. -1: there is no such slip. */
static int is_missed(const struct tried *row, const struct trial *t, const struct slip *slip,
		     const struct traffic *seen)
{
	struct traffic *planned = traffic_new(t->params.ranks, block_bytes(t));
	int ret = plan_traffic(row, t, slip, planned);
	int missed = ret == PLANNED_NO_SLIP ? -1 : !ret && traffic_equal(planned, seen);
	traffic_free(planned);
	return missed;
}

/* Every slip in the plan must be seen, and there must be some. */
static int try_slips(const struct tried *row, const struct trial *t, const struct traffic *seen)
{
	static const char *const names[SLIP_KINDS] = { "is dropped", "goes to the next peer",
						       "takes the next part" };
	int faults = 0, tried = 0;
	log_level = LOG_NONE; /* their runs complain */
	for (struct slip slip = { 0 }; slip.step < PLAN_MAX_STEPS; slip.step++)
		for (int kind = 0; kind < SLIP_KINDS; kind++) {
			slip.kind = (enum slip_kind)kind;
			int missed = is_missed(row, t, &slip, seen);
			tried += missed >= 0;
			faults += missed > 0;
			if (missed > 0)
				printf("# the plan's step %d %s, and nothing differs\n", slip.step,
				       names[kind]);
		}
	log_level = LOG_ERROR;
	printf("# %d slips in the plan were tried\n", tried);
	return faults + !tried;
}
/* ---- The launch that is planned -------------------------------------------------------------------------------------- */

/* What corale-plan says of a rank's launch. */
static struct launch plan_launch(const struct tried *row, const struct trial *t,
				 const struct gpu_launched *launched)
{
	const struct test_call *c = &t->calls[0];
	struct launch l = { .machine = &t->world.engines[launched->rank].machine,
			    .codelet = codelet_of_kind(row->codelet, row->coll),
			    .coll = row->coll,
			    .bytes = c->count * corale_type_bytes(c->type),
			    .words = type_in_words(c->type) != 0,
			    .unaligned =
				codelet_is_unaligned(launched->args) ? PLAN_UNALIGNED : PLAN_ALIGNED_16,
			    .direct = row->registered != 0,
			    .scratch = row->scratch != 0 };
	launch_cut(&l);
	return l;
}

static int differs(const char *what, uint64_t launched, uint64_t planned)
{
	if (launched != planned)
		printf("# %s: launched %llu, planned %llu\n", what, (unsigned long long)launched,
		       (unsigned long long)planned);
	return launched != planned;
}

static int compare_launch(const struct gpu_launched *l, const struct launch *s)
{
	const struct codelet_args *a = l->args;
	int packets = s->codelet == &one_shot_codelet || s->codelet == &two_shot_codelet,
	    faults = differs("blocks", l->blocks, (uint64_t)s->grid.blocks) |
		     differs("threads", l->threads, (uint64_t)s->grid.threads);
	if (packets)
		return faults | differs("bytes of a piece", a->piece, s->piece) |
		       differs("pieces", a->pieces, s->pieces);
	return faults | differs("bytes of a message", a->slot_bytes, s->message) |
	       differs("messages in flight", a->depth, s->depth);
}

static size_t most_sent(const struct traffic *seen)
{
	size_t most = 0;
	for (int from = 0; from < seen->ranks; from++)
		for (int to = 0; to < seen->ranks; to++) {
			size_t bytes = traffic_sent(seen, from, to);
			most = bytes > most ? bytes : most;
		}
	return most;
}

/* Each rank's launch and the bytes between two ranks are those that are planned. Counts of edges differ: no plan says all of them. */
static int compare_launches(const struct tried *row, const struct trial *t, const struct traffic *seen)
{
	size_t n;
	const struct gpu_launched *l = gpu_launches(&n);
	int faults = 0;
	if (coll_is_uneven(row->coll) || row->codelet == &copies_codelet) /* copies: their kernels are many */
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct launch planned = plan_launch(row, t, &l[i]);
		faults |= compare_launch(&l[i], &planned);
		if (i == 0 && !row->interleaved) /* of which seen has forgotten who sent what */
			faults |= differs("bytes to a peer", most_sent(seen), launch_to_peer(&planned));
	}
	return faults;
}

/* ---- All of a call ---------------------------------------------------------------------------------------------------- */

static int compare(const struct tried *row, const struct trial *t)
{
	struct traffic *planned = traffic_new(t->params.ranks, block_bytes(t));
	struct traffic *seen = traffic_new(t->params.ranks, block_bytes(t));
	int faults = plan_traffic(row, t, NULL, planned);
	if (!faults)
		faults = read_traffic(row, t, planned, seen);
	if (!faults)
		faults = traffic_compare(seen, planned);
	if (!faults)
		faults = compare_launches(row, t, seen);
	if (!faults && t->slips)
		faults = try_slips(row, t, seen);
	traffic_free(planned);
	traffic_free(seen);
	return faults;
}

static int finish(struct trial *t)
{
	int faults = 0;
	for (int r = 0; r < t->params.ranks; r++) {
		faults += script_print_failure(&t->world.engines[r]) || t->errors[r];
		faults += call_finish(&t->started[r]);
	}
	return faults;
}

static void print_call(const struct trial *t)
{
	const struct test_call *c = &t->calls[0];
	printf(
	    "# that was %s by %s of %zu %s on %d ranks, op %d, root %d, addresses of rank 0 and 1: %u, %u\n",
	    corale_coll_name(c->coll), codelet_kind_name(c->codelet), c->count, corale_type_name(c->type),
	    t->params.ranks, c->op, c->root, c->send_shift, t->calls[1].send_shift);
}

static int run_trial(const struct tried *row, struct trial *t)
{
	world_forced = row->forced;
	if (world_open(&t->world, &t->params))
		abort();
	recorded_begin(&t->world, row->codelet == &copies_codelet);
	if (gpu_run(t->params.ranks, play, t, t->calls[0].seed)) {
		print_call(t);
		return -1;
	}
	int faults = compare(row, t);
	recorded_end();
	faults += finish(t);
	if (faults)
		print_call(t);
	world_close(&t->world);
	return faults;
}

/* ---- All calls of a row --------------------------------------------------------------------------------------------- */

/* Of every width that travels in a way of its own. */
static const corale_type types[] = { CORALE_FLOAT32,     CORALE_INT32,   CORALE_BFLOAT16, CORALE_INT8,
				     CORALE_FLOAT8_E4M3, CORALE_FLOAT64, CORALE_INT16 };

static int counts_bytes(const struct tried *row)
{
	return row->registered || row->codelet == &copies_codelet || row->counts == blocks_in_pieces;
}

static struct test_call make_call(const struct tried *row, int ranks, size_t turn, size_t count)
{
	int folds = row->coll == CORALE_ALL_REDUCE || row->coll == CORALE_REDUCE_SCATTER;
	corale_type type = types[turn % COUNT(types)];
	return (struct test_call){ .codelet = row->codelet,
				   .coll = row->coll,
				   .type = type,
				   .op = folds && turn / COUNT(types) % 2 ? CORALE_MAX : CORALE_SUM,
				   .count = counts_bytes(row) ? count / corale_type_bytes(type) : count,
				   .root = (int)(turn % (size_t)ranks),
				   .scratch = row->scratch,
				   .place = row->registered ? 128 : 0,
				   .seed = test_seed * 10000 + turn };
}

static int run_call(const struct tried *row, int ranks, enum alignment alignment, int slips,
		    struct test_call c)
{
	struct trial *t = calloc(1, sizeof(*t));
	if (!t)
		abort();
	t->slips = slips;
	t->params = (struct world_params){ .ranks = ranks,
					   .max_blocks = test_thin && row->blocks > THIN_BLOCKS ? THIN_BLOCKS
												: row->blocks,
					   .window_bytes = row->window_kib * KIB,
					   .first_epoch = c.seed / COUNT(types) % 2,
					   .scratch_chunk = row->scratch ? 8 * KIB : 0 };
	for (int r = 0; r < ranks; r++) {
		t->calls[r] = c;
		t->calls[r].send_shift = alignment == ODD || (alignment == MIXED && r % 2) ? 1 : 0;
	}
	if (row->registered)
		t->params.registered_bytes = 128 + call_room(&c, ranks);
	int faults = run_trial(row, t);
	free(t);
	return faults;
}

/* All alignments by each type in turn; of three calls TEST_DRAW takes one. */
static int run_count(const struct tried *row, int ranks, size_t count, size_t *turn)
{
	int first = test_thin && !row->registered ? MIXED : ALIGNED, last = row->registered ? ALIGNED : MIXED;
	size_t turns = test_thin ? 1 : COUNT(types);
	int faults = 0;
	for (int a = first; a <= last; a++)
		for (size_t i = 0; !faults && i < turns; i++, (*turn)++)
			if (first == last || thin_takes(*turn, 3))
				faults = run_call(row, ranks, (enum alignment)a, 0,
						  make_call(row, ranks, *turn, count));
	return faults;
}

/* The row's largest call on a few ranks, of which one that is not rank 0 is the root. */
static int run_slips(const struct tried *row)
{
	const int ranks = row->most_ranks < 3 ? row->most_ranks : 3;
	size_t last = 0;
	while (row->counts[last + 1] != (size_t)END)
		last++;
	return run_call(row, ranks, ALIGNED, 1, make_call(row, ranks, 1, row->counts[last]));
}

static int run_row(const struct tried *row)
{
	int faults = 0, most = test_thin && row->most_ranks > 3 ? 3 : row->most_ranks;
	int least = row->least_ranks ? row->least_ranks : 2;
	size_t turn = 0;
	for (int ranks = least; !faults && ranks <= most; ranks += ranks == 6 ? 2 : 1)
		for (size_t i = 0; !faults && row->counts[i] != (size_t)END; i++)
			faults = run_count(row, ranks, row->counts[i], &turn);
	return faults || test_thin ? faults : run_slips(row);
}

static void name_row(const struct tried *row, char *name, size_t bytes)
{
	int pieces = row->counts == in_pieces || row->counts == blocks_in_pieces;
	const char *in = pieces ? " in pieces" : row->scratch ? " in scratch" : "";
	const char *into = row->registered ? " into registered memory" : "";
	const char *by_teams = row->forced == PLAN_BULK ? " by teams" : "";
	if (row->codelet)
		snprintf(name, bytes, "%s of %s%s%s%s as %s", corale_coll_name(row->coll),
			 codelet_kind_name(row->codelet), in, into, by_teams, row->algo);
	else
		snprintf(name, bytes, "%s sends and receives%s%s as %s",
			 row->counts == few ? "small" : "large", into, by_teams, row->algo);
}

/* ---- What has no row --------------------------------------------------------------------------------------------------- */

static int has_row(const struct codelet *codelet, corale_coll coll)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].codelet == codelet && rows[i].coll == coll)
			return 1;
	return 0;
}

static int runs(const struct codelet *codelet, corale_coll coll)
{
	int found = 0; /* pairs: as groups, which are rows of no codelet */
	for (const struct row *row = NULL; !coll_is_pair(coll) && (row = row_next_codelet(coll, row));)
		found |= codelet_kind(row) == codelet && !(row->traits & ROW_OVER_NODES);
	return found;
}

/* Says what is not compared; the number of codelets that should be. */
static int find_missing_rows(void)
{
	int missing = 0;
	printf("# not compared: several messages of one pair in a group, of which no plan tells\n");
	for (int i = 0; i < CODELETS * CORALE_NUM_COLLS; i++) {
		const struct codelet *codelet = codelet_list[i / CORALE_NUM_COLLS];
		corale_coll coll = (corale_coll)(i % CORALE_NUM_COLLS);
		if (!runs(codelet, coll) || has_row(codelet, coll))
			continue;
		int has_data = coll_has_data(coll);
		printf("# %s: %s of %s\n", has_data ? "no row" : "not compared, it sends no data",
		       corale_coll_name(coll), codelet_kind_name(codelet));
		missing += has_data;
	}
	return missing;
}

/* The table of rows names the same plan. Groups of sends and receives are edges. */
static int check_algo(const struct tried *row)
{
	int found = !row->codelet;
	for (const struct row *r = NULL; (r = row_next_codelet(row->coll, r));)
		found |= codelet_kind(r) == row->codelet && !strcmp(r->name, row->algo);
	if (!found)
		printf("# the table of rows says something else\n");
	return !found;
}

int main(int argc, char **argv)
{
	const char *word = argc > 2 ? argv[2] : "";
	char name[120];
	int number = 0, failed = 0;
	test_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : thin_seed();
	test_thin = thin_step() > 1;
	log_open(LOG_ERROR, NULL);
	for (size_t i = 0; i < COUNT(rows); i++) {
		name_row(&rows[i], name, sizeof(name));
		if (*word ? !strstr(name, word) : !thin_takes_case(i))
			continue;
		int faults = run_row(&rows[i]);
		faults |= check_algo(&rows[i]);
		failed |= faults != 0;
		if (script_report(name, ++number, faults))
			return 1;
	}
	if (!*word && script_report("a row for each codelet", ++number, find_missing_rows()))
		return 1;
	printf("1..%d\n", number);
	return failed;
}
