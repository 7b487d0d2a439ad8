/* SPDX-License-Identifier: BSD-3-Clause */
#include "plans.h"

#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/log.h"

struct plans_slot {
	uint32_t key; /* the plan_key's bytes */
	struct plans_entry *entry; /* NULL: free */
};

static struct plans_slot *find_slot(struct plans_slot *table, size_t slots, uint32_t key)
{
	size_t i = (key * 0x9e3779b1u) & (slots - 1);
	while (table[i].entry && table[i].key != key)
		i = (i + 1) & (slots - 1);
	return &table[i];
}

/* Keeps the table at most half full. */
static int grow(struct plans *p, int rank)
{
	size_t slots = p->nslots ? 2 * p->nslots : 64;
	struct plans_slot *table = calloc(slots, sizeof *table);
	if (!table)
		return log_error(CORALE_ENOMEM, rank, "no memory for %zu plans", slots / 2);
	for (size_t i = 0; i < p->nslots; i++)
		if (p->slots[i].entry)
			*find_slot(table, slots, p->slots[i].key) = p->slots[i];
	free(p->slots);
	p->slots = table;
	p->nslots = slots;
	return 0;
}

/* Rows without a codelet have as much room for their connections as was counted. */
static struct planner planner_with_room(const struct plans *p)
{
	struct planner planner = p->planner;
	planner.room = p->choices && p->choices->has_room ? &p->choices->room : NULL;
	return planner;
}

/* By rows without a codelet; says why none runs calls of the key. */
static int make_plain(const struct plans *p, int rank, const struct plan_key *key, struct plan *out)
{
	char error[512] = "";
	struct planner_fits fits = { 0 };
	const struct planner planner = planner_with_room(p);
	const int ret = planner_plan_plain(&planner, key, &fits, out, error, sizeof error);
	return ret ? log_error(ret, rank, "no plan for %s of %s: %s",
			       corale_coll_name((corale_coll)key->coll),
			       corale_type_name((corale_type)key->type), error)
		   : 0;
}

static int is_single_channel(const struct plans *p, const struct plan *plan)
{
	const struct planner planner = planner_with_room(p);
	return planner.single && planner_by_room(&planner, &plan->key, plan->algo) == planner.single;
}

/* Without the cache, which one thread alone may use. choice NULL: as hosts choose. */
static int make(struct plans *p, int rank, const struct plan_key *key, const struct row_choice *choice,
		struct plan *out)
{
	const corale_coll coll = (corale_coll)key->coll;
	const struct choices *list;
	if (!choice && p->planner.gpus)
		return make_plain(p, rank, key, out);
	int ret = choice ? 0 : plans_choices(p, rank, coll, (corale_type)key->type, 0, &list);
	if (ret)
		return ret;
	choice = choice ? choice : choices_find(list, (uint64_t)1 << key->size_class);
	if (!choice->row)
		return make_plain(p, rank, key, out);
	ret = choices_build(&p->planner, choice, key, out);
	return ret ? log_error(ret, rank, "%s by %s: its plan can't be made", corale_coll_name(coll),
			       choice->row->name)
		   : 0;
}

/* Costs are compared in the default floating-point environment, so that all ranks choose alike. */
static int make_alike(struct plans *p, int rank, const struct plan_key *key, const struct row_choice *choice,
		      struct plan *out)
{
	const float_env env = float_env_default();
	const int ret = make(p, rank, key, choice, out);
	float_env_restore(env);
	return ret;
}

int plans_make(struct plans *p, int rank, const struct plan_key *key, struct plan *out)
{
	return make_alike(p, rank, key, NULL, out);
}

static const char *algorithm_of(const struct plan *plan)
{
	return row_table(&(int){ 0 })[plan->algo].name;
}

/* By one rank, once a collective. */
static void warn_of_algo(struct plans *p, int rank, const struct plan *plan)
{
	const uint32_t coll = UINT32_C(1) << plan->key.coll;
	if (rank || p->warned & coll || planner_algo_allows(p->planner.algo, plan->algo))
		return;
	p->warned |= coll;
	log_line(LOG_WARN, rank,
		 "%s%s: CORALE_ALGO=%s can't run all of its calls; those of up to %g bytes run by: %s",
		 corale_coll_name((corale_coll)plan->key.coll), p->planner.gpus ? " on GPUs, lowered" : "",
		 p->planner.algo, (double)((size_t)1 << plan->key.size_class), algorithm_of(plan));
}

static void log_plan(struct plans *p, int rank, const struct plan *plan)
{
	log_line(LOG_INFO, rank, "%s%s, up to %g bytes: %s, chunks of %u bytes, %d channels",
		 corale_coll_name((corale_coll)plan->key.coll), p->planner.gpus ? " on GPUs, lowered" : "",
		 (double)((size_t)1 << plan->key.size_class), algorithm_of(plan), plan->chunk_bytes,
		 plan->channels);
	warn_of_algo(p, rank, plan);
}

int plans_find(struct plans *p, int rank, const struct plan_key *key, const struct row_choice *choice,
	       struct plans_entry **out)
{
	uint32_t word;
	_Static_assert(sizeof *key == sizeof word, "a plan's key is one word");
	memcpy(&word, key, sizeof word);
	if (p->nslots && (*out = find_slot(p->slots, p->nslots, word)->entry))
		return 0;
	int ret = 2 * (p->count + 1) > p->nslots ? grow(p, rank) : 0;
	struct plans_entry *entry = ret ? NULL : calloc(1, sizeof *entry);
	if (!entry)
		return ret ? ret : log_error(CORALE_ENOMEM, rank, "no memory for a plan");
	ret = make_alike(p, rank, key, choice, &entry->plan);
	if (ret) {
		free(entry);
		return ret;
	}
	entry->single_channel = choice ? choice->single_channel : is_single_channel(p, &entry->plan);
	log_plan(p, rank, &entry->plan);
	*find_slot(p->slots, p->nslots, word) = (struct plans_slot){ word, entry };
	*out = entry;
	p->count++;
	return 0;
}

enum { CHOICES_TEXT = 512 };

static int runs_all(const struct choices *list, int protocol)
{
	int all = 1;
	for (int i = 0; i < list->n; i++)
		all &= list->best[i].row && (int)list->best[i].row->protocol == protocol;
	return all;
}

void plans_log_forced(const struct plans *p, int rank, corale_coll coll, corale_type type, int memory,
		      const struct choices *list)
{
	const int forced = p->planner.machine ? p->planner.machine->forced : 0;
	char text[CHOICES_TEXT];
	if (rank || !forced || forced == PLAN_LL || runs_all(list, forced))
		return;
	choices_print(list, text, sizeof text);
	log_line(LOG_WARN, rank,
		 "%s of %s on GPUs, %s memory: CORALE_PROTO=%s can't run all of its calls; they run by: %s",
		 corale_coll_name(coll), type_in_words(type) ? "floats of up to 4 bytes" : "other types",
		 memory & PLAN_MEMORY_REGISTERED ? "registered" : "plain",
		 plan_protocol_name((enum plan_protocol)forced), text);
}

int plans_make_choices(struct plans *p, int rank, corale_coll coll, corale_type type, int memory,
		       const struct choices **out)
{
	if (!p->choices && !(p->choices = machine_choices_open(&p->planner)))
		return log_error(CORALE_ENOMEM, rank, "no memory for the choices of a machine");
	const float_env env = float_env_default();
	const int ret = machine_choices_make(p->choices, &p->planner, rank, coll, type, memory, out);
	float_env_restore(env);
	return ret;
}

void plans_free(struct plans *p)
{
	machine_choices_close(p->choices);
	for (size_t i = 0; i < p->nslots; i++) {
		if (p->slots[i].entry) {
			free(p->slots[i].entry->lists);
			free(p->slots[i].entry->fast);
		}
		free(p->slots[i].entry);
	}
	free(p->slots);
}

size_t plans_bytes(const struct plans *p)
{
	return p->nslots * sizeof *p->slots + p->count * sizeof(struct plans_entry);
}
