#include "plans.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "plan/planner_algo.h"

struct plans_slot {
	uint32_t key; /* the plan_key's bytes */
	struct plans_entry *entry; /* NULL: free */
};

static uint32_t key_word(const struct plan_key *key)
{
	uint32_t word;
	_Static_assert(sizeof *key == sizeof word, "a plan's key is one word");
	memcpy(&word, key, sizeof word);
	return word;
}

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

static int make(const struct plans *p, int rank, const struct plan_key *key, struct plans_entry **out)
{
	char error[256];
	struct plans_entry *entry = calloc(1, sizeof *entry);
	if (!entry)
		return log_error(CORALE_ENOMEM, rank, "no memory for a plan");
	int ret = planner_plan(&p->planner, key, NULL, &entry->plan, error, sizeof error);
	if (ret) {
		free(entry);
		return log_error(ret, rank, "no plan for %s of %s: %s",
				 corale_coll_name((corale_coll)key->coll),
				 corale_type_name((corale_type)key->type), error);
	}
	log_line(LOG_INFO, rank, "%s%s, up to %g bytes: %s, chunks of %u bytes, %d channels",
		 corale_coll_name((corale_coll)key->coll), p->planner.gpus ? " on GPUs, lowered" : "",
		 (double)((size_t)1 << key->size_class), row_table(&(int){ 0 })[entry->plan.algo].name,
		 entry->plan.chunk_bytes, entry->plan.channels);
	if (!planner_algo_allows(p->planner.algo, entry->plan.algo))
		log_line(LOG_INFO, rank, "%s: what CORALE_ALGO=%s names can't run it here",
			 corale_coll_name((corale_coll)key->coll), p->planner.algo);
	*out = entry;
	return 0;
}

int plans_find(struct plans *p, int rank, const struct plan_key *key, struct plans_entry **out)
{
	uint32_t word = key_word(key);
	if (p->nslots && (*out = find_slot(p->slots, p->nslots, word)->entry))
		return 0;
	int ret = 2 * (p->count + 1) > p->nslots ? grow(p, rank) : 0;
	ret = ret ? ret : make(p, rank, key, out);
	if (ret)
		return ret;
	*find_slot(p->slots, p->nslots, word) = (struct plans_slot){ word, *out };
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

/* By one rank, once a list. */
static void tell_forced(const struct plans *p, int rank, const struct plan_call *call,
			const struct choices *list)
{
	const int forced = p->planner.node->forced, registered = call->memory & PLAN_MEMORY_REGISTERED;
	char text[CHOICES_TEXT];
	if (rank || !forced || p->planner.node->over_nodes || runs_all(list, forced))
		return;
	choices_print(list, text, sizeof text);
	log_line(LOG_WARN, rank,
		 "%s of %s on GPUs, %s memory: CORALE_PROTO=%s can't run all of its calls; they run by: %s",
		 corale_coll_name(call->coll), call->words ? "floats of up to 4 bytes" : "other types",
		 registered ? "registered" : "plain", plan_protocol_name((enum plan_protocol)forced), text);
}

const struct choices *plans_codelets(struct plans *p, int rank, const struct plan_call *call)
{
	struct choices **list = &p->codelets[call->coll][call->words != 0][call->memory];
	if (*list)
		return *list;
	*list = malloc(sizeof **list);
	if (!*list) {
		log_error(CORALE_ENOMEM, rank, "no memory for the choices of %s",
			  corale_coll_name(call->coll));
		return NULL;
	}
	choices_of_codelets(p->planner.node, call->coll, call->words, call->memory, *list);
	tell_forced(p, rank, call, *list);
	return *list;
}

static void free_choices(struct plans *p)
{
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		for (int words = 0; words < 2; words++)
			for (int memory = 0; memory < PLAN_MEMORY_CLASSES; memory++)
				free(p->codelets[coll][words][memory]);
}

void plans_free(struct plans *p)
{
	free_choices(p);
	for (size_t i = 0; i < p->nslots; i++) {
		if (p->slots[i].entry)
			free(p->slots[i].entry->lists);
		free(p->slots[i].entry);
	}
	free(p->slots);
}

size_t plans_bytes(const struct plans *p)
{
	return p->nslots * sizeof *p->slots + p->count * sizeof(struct plans_entry);
}
