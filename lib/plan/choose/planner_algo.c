/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grammar of CORALE_ALGO: items separated by commas, each [collective:][^]algorithm. An item without a
 * collective speaks of all that have the algorithm. "hier" stands for hier_ring, hier_doubling and so on as well.
 * Plain items leave only what they name; items with ^ take away what they name.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "planner.h"

struct item {
	const char *coll, *name;
	size_t coll_length, name_length; /* coll_length 0: any */
	int negative;
};

/* The item at *text, which moves past it; 0 at the end. */
static int next_item(const char **text, struct item *item)
{
	const char *at = *text + strspn(*text, ", \t");
	if (!*at)
		return 0;
	size_t length = strcspn(at, ", \t"), colon = strcspn(at, ":");
	memset(item, 0, sizeof(*item));
	*text = at + length;
	if (colon < length) {
		item->coll = at;
		item->coll_length = colon;
		at += colon + 1;
		length -= colon + 1;
	}
	item->negative = length && *at == '^';
	item->name = at + item->negative;
	item->name_length = length - (size_t)item->negative;
	return 1;
}

/* Equal but for case and underscores: "allreduce" is all_reduce. */
static int coll_is(const struct item *item, corale_coll coll)
{
	const char *want = corale_coll_name(coll);
	size_t i = 0;
	if (!item->coll_length)
		return 1;
	for (; *want; want++) {
		if (*want == '_' && (i == item->coll_length || item->coll[i] != '_'))
			continue;
		if (i == item->coll_length || tolower((unsigned char)item->coll[i]) != *want)
			return 0;
		i++;
	}
	return i == item->coll_length;
}

static int names(const struct item *item, const struct row *algo)
{
	return coll_is(item, algo->coll) && !strncmp(algo->name, item->name, item->name_length) &&
	       (!algo->name[item->name_length] || algo->name[item->name_length] == '_');
}

static int names_some_row_of(const struct item *item, corale_coll coll)
{
	int rows;
	const struct row *algo = row_table(&rows);
	for (int i = 0; i < rows; i++)
		if (algo[i].coll == coll && names(item, &algo[i]))
			return 1;
	return 0;
}

int planner_algo_allows(const char *text, int row)
{
	const struct row *algo = row_table(&(int){ 0 }) + row;
	int wanted = 0, named = 0;
	struct item item;
	for (const char *at = text; next_item(&at, &item);)
		if (!item.negative && names_some_row_of(&item, algo->coll)) {
			wanted = 1;
			named |= names(&item, algo);
		}
	/* no other row runs calls of one rank */
	return !strcmp(algo->name, "local") || ((!wanted || named) && !planner_algo_excludes(text, row));
}

int planner_algo_excludes(const char *text, int row)
{
	const struct row *algo = row_table(&(int){ 0 }) + row;
	struct item item;
	while (next_item(&text, &item))
		if (item.negative && names(&item, algo) && strcmp(algo->name, "local"))
			return 1;
	return 0;
}

static int knows_coll(const struct item *item)
{
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		if (coll_is(item, (corale_coll)coll))
			return 1;
	return 0;
}

/* What is known instead: the new name of an algorithm that has another one now, or all names of the collective. */
static void list_names(const struct item *item, char *list, size_t bytes)
{
	static const char *const renamed[][2] = { { "dealt", "scatterallgather" }, { "edge", "p2p" } };
	int rows;
	const struct row *algo = row_table(&rows);
	size_t length = (size_t)snprintf(list, bytes, "; known:");
	for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
		if (item->name_length == strlen(renamed[i][0]) &&
		    !strncmp(item->name, renamed[i][0], item->name_length)) {
			snprintf(list, bytes, ": it is called %s now", renamed[i][1]);
			return;
		}
	for (int i = 0; i < rows && length < bytes; i++) {
		int seen = !coll_is(item, algo[i].coll);
		for (int j = 0; j < i; j++)
			seen |= coll_is(item, algo[j].coll) && !strcmp(algo[i].name, algo[j].name);
		if (!seen)
			length += (size_t)snprintf(list + length, bytes - length, " %s", algo[i].name);
	}
}

int planner_check_algo(const char *text, char *error, size_t error_bytes)
{
	struct item item;
	char list[256];
	const char *at = text;
	while (next_item(&at, &item)) {
		int known = 0;
		if (!knows_coll(&item)) {
			snprintf(error, error_bytes, "\"%.*s\" is no collective", (int)item.coll_length,
				 item.coll);
			return CORALE_ESETTING;
		}
		for (int coll = 0; coll < CORALE_NUM_COLLS && item.name_length; coll++)
			known |= names_some_row_of(&item, (corale_coll)coll);
		if (!known) {
			list_names(&item, list, sizeof(list));
			snprintf(error, error_bytes, "\"%.*s\" is no algorithm%s", (int)item.name_length,
				 item.name, list);
			return CORALE_ESETTING;
		}
	}
	return 0;
}
