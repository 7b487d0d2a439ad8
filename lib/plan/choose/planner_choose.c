/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a row, the only one. Of the rows with a codelet the fastest by the rates of its kernel; where none can run the call, and on hosts, of
 * the others the fastest by a walk of its plan, and among those about as fast the one that keeps ranks least busy.
 */
#include <math.h>
#include <stdio.h>

#include "planner_room.h"
#include "plan/lower.h"
#include "planner.h"
#include "base/collectives.h"

/* ---- Rows without a codelet -------------------------------------------------------------------------------- */

enum { MOST_OFFERS = 32, NONE = -1 }; /* rows of a collective; no row */

/* A row's plan serves the call at this cost. */
struct offer {
	const struct planner *by;
	int row, channels;
	uint32_t chunk_bytes;
	struct plan_cost cost;
};

struct offers {
	struct offer list[MOST_OFFERS];
	int n;
	double least_ns;
	int uncertain; /* the costs of some that can't be chosen first are less than right */
};

/* The order of rows is that of preference: a later one must be better by more than the model's noise. What takes so much longer than another one is
 * neither the fastest nor among the least busy: more than about_as_fast / clearly_less. */
static const double clearly_less = 0.95, about_as_fast = 1.1, never_chosen = 1.2;

/* Which rows count: those that CORALE_ALGO names, or those that it does not exclude; perhaps none that ignores nodes; the spare ones, or the others. */
struct selection {
	int named, by_nodes, spare;
};

static int is_selected(const struct planner *planner, const struct selection *s, corale_coll coll, int row)
{
	const struct row *algo = row_table(&(int){ 0 }) + row;
	if (algo->coll != coll || algo->codelet || (s->by_nodes && algo->traits & ROW_FLAT) ||
	    (algo->traits & ROW_SPARE ? 1 : 0) != s->spare)
		return 0;
	return s->named ? planner_algo_allows(planner->algo, row)
			: !planner_algo_excludes(planner->algo, row);
}

/* Appends a row's offer, if it has one; costs of most_ns and more need not be right. 0, or an error. */
static int add_offer(const struct planner *planner, const struct plan_key *key, int row, double most_ns,
		     struct offers *offers, char *error, size_t error_bytes)
{
	const struct planner *by = planner_by_room(planner, key, row);
	struct plan plan;
	struct plan_cost cost;
	const int ret = by ? planner_build_priced(by, key, row, most_ns, &plan, &cost) : CORALE_ENOTSUP;
	if (ret == CORALE_ENOTSUP)
		return 0;
	if (ret) {
		snprintf(error, error_bytes, "%s: algorithm %s made a broken plan",
			 corale_coll_name((corale_coll)key->coll), row_table(&(int){ 0 })[row].name);
		return ret;
	}
	offers->list[offers->n++] = (struct offer){ by, row, plan.channels, plan.chunk_bytes, cost };
	offers->least_ns = cost.ns < offers->least_ns ? cost.ns : offers->least_ns;
	offers->uncertain |= cost.ns >= most_ns;
	return 0;
}

/* The offers of all rows that count, in the table's order. all: the costs of all of them, not only of those that may be chosen. 0, or an error. */
static int collect(const struct planner *planner, const struct plan_key *key, const struct selection *s,
		   int all, struct offers *offers, char *error, size_t error_bytes)
{
	int rows, ret = 0;
	row_table(&rows);
	offers->n = offers->uncertain = 0;
	offers->least_ns = INFINITY;
	for (int row = 0; row < rows && offers->n < MOST_OFFERS && !ret; row++)
		if (is_selected(planner, s, (corale_coll)key->coll, row))
			ret = add_offer(planner, key, row, all ? INFINITY : offers->least_ns * never_chosen,
					offers, error, error_bytes);
	return ret;
}

static int fastest(const struct offer *offers, int n)
{
	int best = 0;
	for (int i = 1; i < n; i++)
		if (offers[i].cost.ns < offers[best].cost.ns * clearly_less)
			best = i;
	return best;
}

/* Ranks leave a rooted call one after the other, so many calls in a row are as fast as the busiest rank: of those about as fast the least busy. */
static int least_busy(const struct offer *offers, int n)
{
	const int first = fastest(offers, n);
	const double most_ns = offers[first].cost.ns * about_as_fast;
	int best = first;
	for (int i = 0; i < n; i++)
		if (offers[i].cost.ns <= most_ns &&
		    offers[i].cost.busy_ns < offers[best].cost.busy_ns * clearly_less)
			best = i;
	return best;
}

static int fits_known(struct planner_fits *known, const struct plan *plan, const struct plan_map *map)
{
	const uint64_t hash = plan_hash_steps(plan);
	for (int i = 0; i < known->n; i++)
		if (known->known[i].plan == hash)
			return known->known[i].fits;
	const int does = lower_fits(plan, map);
	if (known->n < (int)(sizeof known->known / sizeof *known->known))
		known->known[known->n++] = (struct planner_fit){ hash, does };
	return does;
}

/* Between nodes lists are as long as there are ranks; those of few ranks fit always. */
static int fits(const struct planner *planner, const struct plan *plan, struct planner_fits *known)
{
	const struct plan_map *map = &planner->topo->map;
	return known->assumed || !planner->most_channels || map->ranks <= LOWERED_MOST_RANKS ||
	       fits_known(known, plan, map);
}

static int best_of(const struct planner *planner, const struct plan_key *key, const struct offers *offers)
{
	return coll_is_rooted(key->coll) && planner->topo->map.nodes > 1 ? least_busy(offers->list, offers->n)
									 : fastest(offers->list, offers->n);
}

/* The best offer whose plan fits: 1 if there is one, 0, or an error. Only where the best of all does not fit do the costs of all matter. */
static int choose_among(const struct planner *planner, const struct plan_key *key, const struct selection *s,
			struct planner_fits *known, struct plan *out, char *error, size_t error_bytes)
{
	struct offers offers;
	int ret = collect(planner, key, s, 0, &offers, error, error_bytes);
	while (!ret && offers.n > 0) {
		int best = best_of(planner, key, &offers);
		const struct offer *offer = &offers.list[best];
		planner_build_cut(offer->by, key, offer->row, offer->channels, offer->chunk_bytes, out);
		if (fits(planner, out, known))
			return 1;
		if (offers.uncertain) {
			ret = collect(planner, key, s, 1, &offers, error, error_bytes);
			best = ret ? 0 : best_of(planner, key, &offers);
		}
		for (offers.n--; best < offers.n; best++)
			offers.list[best] = offers.list[best + 1];
	}
	return ret;
}

static int choose_or_spare(const struct planner *planner, const struct plan_key *key,
			   const struct selection *s, struct planner_fits *known, struct plan *out,
			   char *error, size_t error_bytes)
{
	const struct selection spare = { s->named, s->by_nodes, 1 };
	const int found = choose_among(planner, key, s, known, out, error, error_bytes);
	return found ? found : choose_among(planner, key, &spare, known, out, error, error_bytes);
}

static int lacks_room(const struct planner *planner, corale_coll coll)
{
	int rows, lacks = 0;
	const struct row *table = row_table(&rows);
	for (int row = 0; planner->room && row < rows; row++)
		lacks |= table[row].coll == coll && planner->room->wanted[row] && !planner->room->of[row];
	return lacks;
}

/* What may help where nothing applies. */
static const char *advice(const struct planner *planner, corale_coll coll)
{
	if (lacks_room(planner, coll))
		return ", or no pinned memory is left for its connections: raise CORALE_PINNED_MEMORY on all "
		       "ranks";
	if (planner->gpus && planner->reproducible && coll_folds(coll) &&
	    planner->topo->map.ranks > PLANNER_MOST_AT_ONCE)
		return ": on GPUs of more than 1024 ranks none sums in rank order; sum on hosts, or unset "
		       "CORALE_REPRODUCIBLE on all ranks";
	return "";
}

/* What CORALE_ALGO names may not apply to this call or machine: then anything that it does not exclude does. */
int planner_plan_plain(const struct planner *planner, const struct plan_key *key, struct planner_fits *known,
		       struct plan *plan, char *error, size_t error_bytes)
{
	static const struct selection by_nodes = { 1, 1, 0 }, named = { 1, 0, 0 }, others = { 0, 0, 0 };
	int found = 0;
	if (planner_of(planner, key)->by_nodes && !*planner->algo)
		found = choose_or_spare(planner, key, &by_nodes, known, plan, error, error_bytes);
	if (!found)
		found = choose_or_spare(planner, key, &named, known, plan, error, error_bytes);
	if (!found)
		found = choose_or_spare(planner, key, &others, known, plan, error, error_bytes);
	if (found)
		return found < 0 ? found : 0;
	snprintf(error, error_bytes, "%s on %d ranks, %d nodes: no algorithm applies (CORALE_ALGO=%s%s)%s",
		 corale_coll_name((corale_coll)key->coll), planner->topo->map.ranks, planner->topo->map.nodes,
		 planner->algo, planner->reproducible ? ", CORALE_REPRODUCIBLE=1" : "",
		 advice(planner, (corale_coll)key->coll));
	return CORALE_ENOTSUP;
}

/* ---- Rows with a codelet ---------------------------------------------------------------------------------- */

/* Of the rows of a protocol (0: of any) the one of least modelled time. */
static const struct row *least_of(const struct gpu_machine *machine, int protocol,
				  const struct plan_call *call)
{
	const struct row *best = NULL, *row = NULL;
	double best_us = 0;
	while ((row = row_next_codelet(call->coll, row))) {
		if (protocol && !row_is_by(row, protocol))
			continue;
		const double us = row_us(row, machine, call);
		if (us < 0 || (best && us >= best_us))
			continue;
		best = row;
		best_us = us;
	}
	return best;
}

const struct row *planner_codelet(const struct gpu_machine *machine, const struct plan_call *call)
{
	const int copies =
	    machine->zero_ctas && coll_moves(call->coll) && call->memory & PLAN_MEMORY_REGISTERED;
	const struct row *best = NULL;
	if (machine->forced || copies)
		best = least_of(machine, machine->forced ? machine->forced : PLAN_COPIED, call);
	return best ? best : least_of(machine, 0, call);
}

/* ---- Both ------------------------------------------------------------------------------------------------- */

/* Walks and measured rates of codelets are not further apart (test/plan/codelet_test.c), so a lowered plan must be better by more. */
static const double walk_apart = 2.5;

static int may_lower(const struct gpu_machine *machine)
{
	return !machine->forced && !machine->zero_ctas && machine->ranks > 1 &&
	       machine->ranks <= machine->rates->measured_ranks;
}

/* The row that may be lowered instead of a codelet over nodes; NONE. */
static int beside_codelet(const struct planner *planner, corale_coll coll)
{
	int rows;
	const struct row *table = row_table(&rows);
	for (int row = 0; row < rows; row++)
		if (table[row].coll == coll && table[row].traits & ROW_BESIDE_CODELET &&
		    planner_algo_allows(planner->algo, row))
			return row;
	return NONE;
}

/* Over nodes both are walked alike. */
static int lowers_over_nodes(const struct planner *planner, const struct plan_key *key, const struct row *row,
			     const struct plan_call *call, struct planner_fits *known, struct plan *out)
{
	const int refused = planner->machine->refused[call->coll] >> row->codelet->index & 1,
		  other = planner->machine->forced ? NONE : beside_codelet(planner, call->coll);
	const struct planner *by = other == NONE ? NULL : planner_by_room(planner, key, other);
	struct plan_cost cost;
	struct plan codelet;
	if (!by || planner_build_priced(by, key, other, INFINITY, out, &cost) || !fits(planner, out, known))
		return 0;
	return refused || planner_build_codelet(planner, key, row, call, &codelet) ||
	       cost.ns < cost_of_plan(planner->topo, &codelet,
				      call->bytes / corale_type_bytes((corale_type)key->type));
}

int planner_lowers(const struct planner *planner, const struct plan_key *key, const struct row *row,
		   const struct plan_call *call, struct planner_fits *fits, struct plan *out, char *error,
		   size_t error_bytes)
{
	const struct topo *topo = planner->topo;
	const size_t count = call->bytes / corale_type_bytes((corale_type)key->type);
	if (planner->machine->over_nodes)
		return lowers_over_nodes(planner, key, row, call, fits, out);
	if (!may_lower(planner->machine) || planner_build_codelet(planner, key, row, call, out))
		return 0;
	const double rated = row_us(row, planner->machine, call) * 1e3,
		     walked = cost_of_plan(topo, out, count) / walk_apart,
		     most = rated < walked ? rated : walked;
	if (cost_lower_bound(topo, call->coll, call->bytes) >= most)
		return 0;
	const int ret = planner_plan_plain(planner, key, fits, out, error, error_bytes);
	if (ret)
		return ret == CORALE_ENOTSUP ? 0 : ret;
	return cost_of_plan(topo, out, count) < most;
}
