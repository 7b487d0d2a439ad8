/*
 * Each fused codelet must send what the plan sends that it stands for: between every two ranks the same bytes, each once,
 * none besides. What codelets send is read from the stores of the kernels on emulated GPUs (recorded.h), what plans send from
 * the messages of the host engine's step executor (planned.h). How a vector is cut into messages may differ, and does.
 * TAP: a row of the table a line. Usage: packets_test [SEED [WORD]]: only rows whose name holds WORD. TEST_THIN in the
 * environment: less of all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/collectives.h"
#include "planned.h"
#include "recorded.h"
#include "script.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { KIB = 1024, MOST_RANKS = 6 };

typedef void shape(struct traffic *t, const struct started *ranks, struct piece piece);

/* A codelet and what it stands for. */
struct row {
	enum plan_codelet codelet;
	corale_coll coll;
	const char
	    *algo; /* the plan's; NULL: it lacks something (plan_way.h): then sends says what is sent */
	int most_ranks, blocks;
	size_t window_kib;
	const size_t *counts; /* END behind the last */
	int scratch, registered; /* through scratch; into registered memory: then counts are bytes */
	int least_ranks, least_pieces; /* 0: as any row has */
	shape *sends;
};

/* ---- What the planner has no algorithm for ----------------------------------------------------------------------- */

/* Part p of the ranks' but the root's. */
static struct piece dealt_part(struct piece all, int ranks, int root, int p)
{
	size_t units = (all.bytes + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES, parts = (size_t)ranks - 1,
	       i = (size_t)(p - (p > root)), more = units % parts;
	size_t begin = (units / parts * i + (i < more ? i : more)) * PLAN_UNIT_BYTES;
	size_t end = begin + (units / parts + (i < more)) * PLAN_UNIT_BYTES;
	begin = begin < all.bytes ? begin : all.bytes;
	end = end < all.bytes ? end : all.bytes;
	return (struct piece){ all.at + begin, end - begin };
}

/* The root deals every other rank a part, who passes it on to all others; of a vector in one piece they only tell the root that
 * they are here: by the part's first line. */
static void sends_dealt(struct traffic *t, const struct started *ranks, struct piece all)
{
	int n = ranks[0].ranks, root = ranks[0].call->root;
	int several = all.bytes < ranks[0].call->count * corale_type_bytes(ranks[0].call->type);
	for (int p = 0; p < n; p++) {
		struct piece part = dealt_part(all, n, root, p);
		const unsigned char *data = ranks[root].send + part.at;
		if (p == root)
			continue;
		traffic_add(t, 0, root, p, part.at, data, part.bytes);
		for (int to = 0; to < n; to++) {
			size_t line = part.bytes < CODELET_LINE_DATA ? part.bytes : CODELET_LINE_DATA;
			if (to != p)
				traffic_add(t, 1, p, to, part.at, data,
					    to == root && !several ? line : part.bytes);
		}
	}
}

/* The same message by message: a block's go to its crews in turn, and a crew's to the other ranks. */
static void sends_dealt_messages(struct traffic *t, const struct started *ranks, struct piece all)
{
	size_t launches;
	const struct gpu_launched *l = gpu_launches(&launches);
	const struct codelet_args *a = l->args;
	const unsigned char *data = ranks[a->root].send;
	int n = a->ranks;
	for (unsigned block = 0; block < l->blocks; block++) {
		size_t begin, bytes = plan_cut(all.bytes, CODELET_LINE, l->blocks, block, &begin);
		for (size_t at = 0, i = 0; at < bytes; at += a->slot_bytes, i++) {
			size_t left = bytes - at, crew = block * CODELET_CREWS + i % CODELET_CREWS,
			       first = begin + at;
			int whose = (a->root + 1 + (int)((crew + i / CODELET_CREWS) % (size_t)(n - 1))) % n;
			left = left < a->slot_bytes ? left : a->slot_bytes;
			traffic_add(t, 0, a->root, whose, first, data + first, left);
			for (int to = 0; to < n; to++)
				if (to != a->root && to != whose)
					traffic_add(t, 0, whose, to, first, data + first, left);
		}
	}
}

/* ---- The table ---------------------------------------------------------------------------------------------------- */

enum { END = -1 };

static const size_t few[] = { 0, 1, 3, 30, 61, 500, 1029, END }, many[] = { 0, 1, 33, 5003, 12000, END },
		    in_pieces[] = { 5000, 12001, END };
/* Of the blocks of three to five ranks, in bytes. */
static const size_t blocks_in_pieces[] = { 8200, 19999, END };
/* Into registered memory: whole vectors alone, because smaller stores are not recorded. */
static const size_t vectors[] = { 16, 4800, 12000, 70400, END },
		    even_vectors[] = { 4800, 70400, END }; /* halves too */

static const struct row rows[] = {
	{ CODELET_PACKETS, CORALE_ALL_REDUCE, "oneshot", 6, 8, 1024, .counts = few },
	{ CODELET_PACKETS, CORALE_REDUCE_SCATTER, "oneshot", 6, 8, 1024, .counts = few },
	{ CODELET_PACKETS, CORALE_ALL_GATHER, "oneshot", 6, 8, 1024, .counts = few },
	{ CODELET_PACKETS, CORALE_ALL_TO_ALL, "pairwise", 6, 8, 1024, .counts = few },
	{ CODELET_PACKETS, CORALE_BROADCAST, "flat", 6, 8, 1024, .counts = few },
	{ CODELET_PACKETS, CORALE_REDUCE_SCATTER, "oneshot", 5, 1, 320, .counts = blocks_in_pieces,
	  .least_ranks = 3, .least_pieces = 2 },
	{ CODELET_PACKETS, CORALE_ALL_GATHER, "oneshot", 5, 1, 320, .counts = blocks_in_pieces,
	  .least_ranks = 3, .least_pieces = 2 },
	{ CODELET_PACKETS, CORALE_ALL_TO_ALL, "pairwise", 5, 1, 320, .counts = blocks_in_pieces,
	  .least_ranks = 3, .least_pieces = 2 },
	{ CODELET_TWO_SHOT, CORALE_ALL_REDUCE, "twoshot", 6, 8, 1024, .counts = few },
	{ CODELET_TWO_SHOT, CORALE_ALL_REDUCE, "twoshot", 3, 1, 256, .counts = in_pieces },
	{ CODELET_TWO_SHOT, CORALE_BROADCAST, NULL, 4, 8, 512, .counts = few, .sends = sends_dealt },
	{ CODELET_TWO_SHOT, CORALE_BROADCAST, NULL, 3, 1, 256, .counts = in_pieces, .sends = sends_dealt },
	{ CODELET_SLOTS, CORALE_REDUCE_SCATTER, "oneshot", 4, 2, 224, .counts = many },
	{ CODELET_SLOTS, CORALE_ALL_GATHER, "oneshot", 4, 2, 224, .counts = many },
	{ CODELET_SLOTS, CORALE_ALL_TO_ALL, "pairwise", 4, 2, 224, .counts = many },
	{ CODELET_SLOTS, CORALE_ALL_TO_ALL_V, "pairwise", 4, 8, 224, .counts = many },
	{ CODELET_NONE, CORALE_ALL_TO_ALL_V, "edge", 3, 8, 224, .counts = few },
	{ CODELET_NONE, CORALE_ALL_TO_ALL_V, "edge", 4, 8, 224, .counts = many },
	/* Blocks at multiples of a vector alone go straight, so some of each rank. */
	{ CODELET_NONE, CORALE_ALL_TO_ALL_V, "edge", 4, 8, 224, .counts = even_vectors, .registered = 1 },
	{ CODELET_SLOTS, CORALE_BROADCAST, NULL, 4, 2, 160, .counts = many, .sends = sends_dealt_messages },
	{ CODELET_SLOTS_TWO_SHOT, CORALE_ALL_REDUCE, "twoshot", 4, 2, 224, .counts = many },
	{ CODELET_SLOTS, CORALE_REDUCE_SCATTER, "oneshot", 3, 1, 160, .counts = many, .scratch = 1 },
	{ CODELET_SLOTS, CORALE_ALL_GATHER, "oneshot", 3, 1, 160, .counts = many, .scratch = 1 },
	{ CODELET_SLOTS, CORALE_ALL_TO_ALL, "pairwise", 3, 1, 160, .counts = many, .scratch = 1 },
	{ CODELET_SLOTS_TWO_SHOT, CORALE_ALL_REDUCE, "twoshot", 3, 1, 160, .counts = many, .scratch = 1 },
	{ CODELET_SLOTS, CORALE_ALL_GATHER, "oneshot", 4, 2, 160, .counts = vectors, .registered = 1 },
	{ CODELET_SLOTS, CORALE_ALL_TO_ALL, "pairwise", 4, 2, 160, .counts = vectors, .registered = 1 },
	{ CODELET_SLOTS, CORALE_BROADCAST, NULL, 4, 2, 160, .counts = vectors, .registered = 1,
	  .sends = sends_dealt_messages },
	{ CODELET_SLOTS_TWO_SHOT, CORALE_ALL_REDUCE, "twoshot", 4, 2, 160, .counts = vectors,
	  .registered = 1 },
	{ CODELET_SLOTS_TWO_SHOT, CORALE_ALL_REDUCE, "twoshot", 3, 1, 160, .counts = vectors, .scratch = 1,
	  .registered = 1 },
};

/* ---- One call of all ranks ----------------------------------------------------------------------------------------- */

enum alignment { ALIGNED, ODD, MIXED /* from rank to rank */ };

struct trial {
	struct world world;
	struct world_params params;
	struct call calls[MOST_RANKS]; /* by rank: only addresses differ */
	struct started started[MOST_RANKS];
	int errors[MOST_RANKS];
};

static uint64_t test_seed = 1;
static int test_thin; /* TEST_THIN is in the environment: less of all, for slow sanitizers */
enum { THIN_BLOCKS = 2 /* at most: to the thread sanitizer every fiber is a thread */ };

/* An all_to_all_v as a group of sends and receives. */
static int start_group(struct world *w, const struct started *s)
{
	struct engine_message messages[2 * MOST_RANKS];
	size_t element = corale_type_bytes(s->call->type);
	int n = 0;
	for (int r = 0; r < s->ranks; r++) {
		unsigned char *from = s->send + s->send_displs[r] * element,
			      *to = s->recv + s->recv_displs[r] * element;
		size_t bytes = s->send_counts[r] * element;
		struct engine_message send = { .data = from, .bytes = bytes, .peer = r, .sending = 1 },
				      own = { .data = to, .from = from, .bytes = bytes, .peer = r };
		if (r != s->rank)
			messages[n++] = send;
		else if (bytes)
			messages[n++] = own;
		if (r == s->rank)
			continue;
		messages[n] =
		    (struct engine_message){ .data = to, .bytes = s->recv_counts[r] * element, .peer = r };
		if (s->call->place)
			messages[n].target =
			    (uint64_t)1 << ENGINE_TARGET_SHIFT | (uint64_t)(to - w->registered[s->rank]);
		n++;
	}
	return engine_run_messages(&w->engines[s->rank], messages, n, NULL);
}

static void play(int rank, void *arg)
{
	struct trial *t = arg;
	const struct call *c = &t->calls[rank];
	struct started *s = &t->started[rank];
	if (c->codelet == CODELET_NONE) {
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
	const struct call *c = &t->calls[0];
	size_t count = c->count;
	for (int s = 0; c->coll == CORALE_ALL_TO_ALL_V && s < t->params.ranks; s++)
		for (int r = 0; r < t->params.ranks; r++)
			if (t->started[s].send_counts[r] > count)
				count = t->started[s].send_counts[r];
	return count * corale_type_bytes(c->type);
}

static int plan_traffic(const struct row *row, const struct trial *t, struct traffic *planned)
{
	struct piece pieces[RECORDED_PIECES];
	int n = recorded_pieces(t->started, pieces), faults = n == 0 || n < row->least_pieces;
	if (faults)
		printf("# the ranks have run the call in %d pieces; at least %d are planned\n", n,
		       row->least_pieces);
	for (int i = 0; !faults && i < n; i++) {
		if (row->codelet == CODELET_NONE)
			faults = planned_edges(t->started, planned);
		else if (row->algo)
			faults = planned_run(t->started, row->algo, pieces[i], planned);
		else
			row->sends(planned, t->started, pieces[i]);
	}
	return faults;
}

/* ---- The shape that is planned --------------------------------------------------------------------------------------- */

/* What corale-plan says of a rank's launch. */
static void plan_launch(const struct row *row, const struct trial *t, const struct codelet_args *a,
			const struct plan_node *node, struct plan_launch *launch, struct plan_shape *planned)
{
	const struct call *c = &t->calls[0];
	*launch = (struct plan_launch){ .node = node,
					.codelet = row->codelet,
					.coll = row->coll,
					.bytes = c->count * corale_type_bytes(c->type),
					.words = plan_in_words(c->type),
					.odd = codelet_is_odd(a),
					.direct = row->registered,
					.scratch = row->scratch };
	plan_shape(launch, planned);
}

static int differs(const char *what, uint64_t launched, uint64_t planned)
{
	if (launched != planned)
		printf("# %s: launched %llu, planned %llu\n", what, (unsigned long long)launched,
		       (unsigned long long)planned);
	return launched != planned;
}

static int compare_launch(const struct gpu_launched *l, const struct plan_shape *s)
{
	const struct codelet_args *a = l->args;
	int packets = s->kernel <= KERNEL_TWO_SHOT,
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

/* Each rank's launch and the bytes between two ranks are those of the shape. Counts of edges differ: no shape says all of them. */
static int compare_shapes(const struct row *row, const struct trial *t, const struct traffic *seen)
{
	size_t n;
	const struct gpu_launched *l = gpu_launches(&n);
	struct plan_launch launch;
	struct plan_shape planned;
	int faults = 0;
	if (coll_is_uneven(row->coll))
		return 0;
	for (size_t i = 0; i < n; i++) {
		struct plan_node node = { 0 };
		engine_describe(&t->world.engines[l[i].rank], &node);
		plan_launch(row, t, l[i].args, &node, &launch, &planned);
		faults |= compare_launch(&l[i], &planned);
		if (i == 0)
			faults |= differs("bytes to a peer", most_sent(seen),
					  plan_shape_to_peer(&launch, &planned));
	}
	return faults;
}

/* ---- All of a call ---------------------------------------------------------------------------------------------------- */

static int compare(const struct row *row, const struct trial *t)
{
	struct traffic *planned = traffic_new(t->params.ranks, block_bytes(t));
	struct traffic *seen = traffic_new(t->params.ranks, block_bytes(t));
	int faults = plan_traffic(row, t, planned);
	if (!faults)
		faults = recorded_read(&t->world, t->started, t->params.first_epoch, planned, seen);
	if (!faults)
		faults = traffic_compare(seen, planned);
	if (!faults)
		faults = compare_shapes(row, t, seen);
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
	const struct call *c = &t->calls[0];
	printf(
	    "# that was %s by %s of %zu %s on %d ranks, op %d, root %d, addresses of rank 0 and 1: %u, %u\n",
	    corale_coll_name(c->coll), plan_codelet_name(c->codelet), c->count, corale_type_name(c->type),
	    t->params.ranks, c->op, c->root, c->send_shift, t->calls[1].send_shift);
}

static int run_trial(const struct row *row, struct trial *t)
{
	if (world_open(&t->world, &t->params))
		abort();
	recorded_begin(&t->world);
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
static const corale_type types[] = { CORALE_FLOAT32, CORALE_INT32,       CORALE_BFLOAT16,
				     CORALE_INT8,    CORALE_FLOAT8_E4M3, CORALE_FLOAT64 };

static int counts_bytes(const struct row *row)
{
	return row->registered || row->counts == blocks_in_pieces;
}

static struct call make_call(const struct row *row, int ranks, size_t turn, size_t count)
{
	int folds = row->coll == CORALE_ALL_REDUCE || row->coll == CORALE_REDUCE_SCATTER;
	corale_type type = types[turn % COUNT(types)];
	return (struct call){ .codelet = row->codelet,
			      .coll = row->coll,
			      .type = type,
			      .op = folds && turn / COUNT(types) % 2 ? CORALE_MAX : CORALE_SUM,
			      .count = counts_bytes(row) ? count / corale_type_bytes(type) : count,
			      .root = (int)(turn % (size_t)ranks),
			      .scratch = row->scratch,
			      .place = row->registered ? 128 : 0,
			      .seed = test_seed * 10000 + turn };
}

static int run_call(const struct row *row, int ranks, enum alignment alignment, struct call c)
{
	struct trial *t = calloc(1, sizeof(*t));
	if (!t)
		abort();
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

/* All alignments by each type in turn. */
static int run_count(const struct row *row, int ranks, size_t count, size_t *turn)
{
	int first = test_thin && !row->registered ? MIXED : ALIGNED, last = row->registered ? ALIGNED : MIXED;
	size_t turns = test_thin ? 1 : COUNT(types);
	int faults = 0;
	for (int a = first; a <= last; a++)
		for (size_t i = 0; !faults && i < turns; i++)
			faults =
			    run_call(row, ranks, (enum alignment)a, make_call(row, ranks, (*turn)++, count));
	return faults;
}

static int run_row(const struct row *row)
{
	int faults = 0, most = test_thin && row->most_ranks > 3 ? 3 : row->most_ranks;
	int least = row->least_ranks ? row->least_ranks : 2;
	size_t turn = 0;
	for (int ranks = least; !faults && ranks <= most; ranks++)
		for (size_t i = 0; !faults && row->counts[i] != (size_t)END; i++)
			faults = run_count(row, ranks, row->counts[i], &turn);
	return faults;
}

static void name_row(const struct row *row, char *name, size_t bytes)
{
	int pieces = row->counts == in_pieces || row->counts == blocks_in_pieces;
	const char *in = pieces ? " in pieces" : row->scratch ? " in scratch" : "";
	const char *into = row->registered ? " into registered memory" : "";
	const char *algo = row->algo ? row->algo : "said here";
	if (row->codelet)
		snprintf(name, bytes, "%s of %s%s%s as %s", corale_coll_name(row->coll),
			 plan_codelet_name(row->codelet), in, into, algo);
	else
		snprintf(name, bytes, "%s sends and receives%s as %s", row->counts == few ? "small" : "large",
			 into, algo);
}

/* The table of ways names the same plan, or says what it lacks. Groups of sends and receives are edges. */
static int check_way(const struct row *row)
{
	int n, found = row->codelet == CODELET_NONE;
	const struct plan_way *ways = plan_ways(row->coll, &n);
	for (int i = 0; i < n; i++) {
		if (ways[i].codelet != row->codelet)
			continue;
		found |=
		    row->algo ? !ways[i].lacks && !strcmp(ways[i].algo, row->algo) : ways[i].lacks != NULL;
		if (!row->algo && ways[i].lacks)
			printf("# %s of %s, plan %s: %s\n", corale_coll_name(row->coll),
			       plan_protocol_name(ways[i].protocol), ways[i].algo, ways[i].lacks);
	}
	if (!found)
		printf("# the table of ways says something else\n");
	return !found;
}

int main(int argc, char **argv)
{
	const char *word = argc > 2 ? argv[2] : "";
	char name[120];
	int number = 0, failed = 0;
	test_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	test_thin = getenv("TEST_THIN") != NULL;
	log_open(LOG_ERROR, NULL);
	for (size_t i = 0; i < COUNT(rows); i++) {
		name_row(&rows[i], name, sizeof(name));
		if (!strstr(name, word))
			continue;
		int faults = run_row(&rows[i]);
		faults |= check_way(&rows[i]);
		failed |= faults != 0;
		if (script_report(name, ++number, faults))
			return 1;
	}
	printf("1..%d\n", number);
	return failed;
}
