/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What runs each call is what chosen.table says: all collectives, on hosts and GPUs, from one element to 8 GiB, over the machines
 * below. A line of the table is "collectives kinds: row to SIZE; row to SIZE; ..." with the exact sizes at which the row changes;
 * collectives and kinds that choose alike share it, and the first line is the hash of all choices. A difference is told with machine, collective,
 * sizes, the row that was and the row that is; of a machine with a hash, "print all" shows the lines: compare those of two builds.
 *
 * If a choice is meant to change: make test/plan/chosen_test && test/plan/chosen_test print >chosen.table, in the build directory, replaces
 * test/plan/chosen.table of the sources; its diff belongs to the commit.
 */
#include <inttypes.h>

#include "test/helpers/unit.h"
#include "base/collectives.h"
#include "base/log.h"
#include "chosen.h"

enum { ROW_BYTES = 64, MOST_RUNS = 200, MOST_KINDS = 12, ELEMENT = 4 };
#define MOST_BYTES ((size_t)8 << 30)

static const struct chosen_machine machines[] = {
	{ .text = "rank:4" },
	{ .text = "node:2 rank:1" },
	{ .text = "node:2 rank:4" },
	{ .text = "node:16 rank:8" },
	{ .text = "node:[4,4,3,1] memory:10" },
	{ .text = "gpu:4", .gpu = "NVIDIA H200" },
	{ .text = "gpu:8", .gpu = "NVIDIA H200" },
	{ .text = "gpu:4", .gpu = "NVIDIA H200", .settings = { "CORALE_CTA_POLICY=zero" } },
	{ .text = "gpu:4", .gpu = "NVIDIA H200", .settings = { "CORALE_PROTO=LL" } },
	{ .text = "node:2 gpu:8", .gpu = "NVIDIA H200" },
	{ .text = "node:16 gpu:8", .gpu = "NVIDIA H200" },
	{ .text = "node:[8,8,4,2] nvlink:390 rail:50", .gpu = "NVIDIA H200" },
};

/* Of these, which resemble one above, the table has the hash of the choices. */
static const struct chosen_machine hashed[] = {
	{ .text = "rank:2" },
	{ .text = "rank:8" },
	{ .text = "rank:4", .settings = { "CORALE_REPRODUCIBLE=1" } },
	{ .text = "rank:4", .settings = { "CORALE_MAX_CHANNELS=4" } },
	{ .text = "node:4 rank:4" },
	{ .text = "node:16 rank:1" },
	{ .text = "gpu:2", .gpu = "NVIDIA H200" },
	{ .text = "gpu:2", .gpu = "NVIDIA H100 80GB HBM3" },
	{ .text = "gpu:4", .gpu = "NVIDIA H100 80GB HBM3" },
	{ .text = "gpu:8", .gpu = "NVIDIA H100 80GB HBM3" },
	{ .text = "gpu:2", .gpu = "unknown" },
	{ .text = "gpu:4", .gpu = "unknown" },
	{ .text = "gpu:8", .gpu = "unknown" },
	{ .text = "gpu:4", .gpu = "NVIDIA H200", .settings = { "CORALE_CTA_POLICY=efficient" } },
	{ .text = "gpu:4", .gpu = "NVIDIA H200", .settings = { "CORALE_GPU_WINDOW=16M" } },
	{ .text = "node:2 gpu:1", .gpu = "NVIDIA H200" },
	{ .text = "node:4 gpu:4", .gpu = "NVIDIA H200" },
	{ .text = "node:16 gpu:1", .gpu = "NVIDIA H200" },
};

/* Types, and memory of calls on the GPUs of one node. Types of four bytes, so that all kinds have the same sizes. */
struct kind {
	const char *name;
	corale_type type;
	int memory;
};

static const struct kind host_kinds[] = { { "float32", CORALE_FLOAT32, 0 } };
static const struct kind gpu_kinds[] = {
	{ "float32", CORALE_FLOAT32, CHOSEN_STAGING },
	{ "float32-unstaged", CORALE_FLOAT32, 0 },
	{ "float32-registered", CORALE_FLOAT32, CHOSEN_STAGING | CHOSEN_REGISTERED },
	{ "float32-exported", CORALE_FLOAT32, CHOSEN_STAGING | CHOSEN_REGISTERED | CHOSEN_EXPORTED },
	{ "float32-exported-unstaged", CORALE_FLOAT32, CHOSEN_REGISTERED | CHOSEN_EXPORTED },
	{ "int32", CORALE_INT32, CHOSEN_STAGING },
	{ "int32-unstaged", CORALE_INT32, 0 },
	{ "int32-registered", CORALE_INT32, CHOSEN_STAGING | CHOSEN_REGISTERED },
	{ "int32-exported", CORALE_INT32, CHOSEN_STAGING | CHOSEN_REGISTERED | CHOSEN_EXPORTED },
	{ "int32-exported-unstaged", CORALE_INT32, CHOSEN_REGISTERED | CHOSEN_EXPORTED },
};

static const struct kind *kinds_of(const struct chosen_machine *m, int *count)
{
	const int nodes = strstr(m->text, "node:") != NULL;
	*count = m->gpu && !nodes ? (int)(sizeof gpu_kinds / sizeof *gpu_kinds) : 1;
	return m->gpu && !nodes ? gpu_kinds : host_kinds;
}

/* ---- Runs: sizes that one row serves ---------------------------------------------------------------------- */

struct run {
	size_t to; /* its largest size; 0: of a call without data */
	char row[ROW_BYTES];
};

struct runs {
	int n;
	struct run run[MOST_RUNS];
};

static void add_run(struct runs *runs, size_t to, const char *row)
{
	if (runs->n && !strcmp(runs->run[runs->n - 1].row, row)) {
		runs->run[runs->n - 1].to = to;
		return;
	}
	assert_true(runs->n < MOST_RUNS);
	runs->run[runs->n].to = to;
	snprintf(runs->run[runs->n++].row, ROW_BYTES, "%s", row);
}

/* The largest size up to which the row of `from` serves, where `to` has another one. */
static size_t find_last(struct chosen *chosen, struct chosen_call call, size_t from, size_t to)
{
	char first[ROW_BYTES], row[ROW_BYTES];
	call.bytes = from;
	chosen_row(chosen, &call, first, sizeof first);
	while (to - from > ELEMENT) {
		call.bytes = (from + (to - from) / 2) / ELEMENT * ELEMENT;
		chosen_row(chosen, &call, row, sizeof row);
		*(strcmp(row, first) ? &to : &from) = call.bytes;
	}
	return from;
}

/* Four sizes an octave; between two that differ the exact size. */
static void find_runs(struct chosen *chosen, struct chosen_call call, struct runs *runs)
{
	char row[ROW_BYTES];
	size_t before = 0;
	runs->n = 0;
	for (size_t octave = ELEMENT; octave <= MOST_BYTES; octave *= 2)
		for (size_t quarter = 4; quarter < 8; quarter++) {
			const size_t bytes = octave / 4 * quarter / ELEMENT * ELEMENT;
			if (bytes == before || bytes > MOST_BYTES)
				continue;
			call.bytes = bytes;
			chosen_row(chosen, &call, row, sizeof row);
			if (runs->n && strcmp(row, runs->run[runs->n - 1].row))
				runs->run[runs->n - 1].to = find_last(chosen, call, before, bytes);
			add_run(runs, bytes, row);
			before = bytes;
		}
}

/* ---- The table -------------------------------------------------------------------------------------------- */

struct text {
	size_t n;
	char at[256 << 10];
};

static __attribute__((format(printf, 2, 3))) void add(struct text *text, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	text->n += (size_t)vsnprintf(text->at + text->n, sizeof text->at - text->n, format, list);
	va_end(list);
	assert_true(text->n < sizeof text->at);
}

static void add_runs(struct text *text, const struct runs *runs)
{
	for (int i = 0; i < runs->n; i++) {
		const struct run *run = &runs->run[i];
		size_t size = run->to;
		int unit = 0;
		for (; unit < 3 && size && size % 1024 == 0; unit++)
			size /= 1024;
		add(text, "%s %s", i ? ";" : "", run->row);
		if (run->to)
			add(text, " to %zu%.1s", size, "\0KMG" + unit);
	}
	add(text, "\n");
}

static void name_machine(const struct chosen_machine *m, char name[200])
{
	size_t n = (size_t)snprintf(name, 200, "[%s", m->text);
	if (m->gpu)
		n += (size_t)snprintf(name + n, 200 - n, ", %s", m->gpu);
	for (const char *const *s = m->settings; *s; s++)
		n += (size_t)snprintf(name + n, 200 - n, ", %s", *s);
	snprintf(name + n, 200 - n, "]\n");
}

/* FNV-1a. */
#define HASH_START 0xcbf29ce484222325u

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

static int is_word(const char *text, const char *word)
{
	return !strncmp(text, word, strlen(word)) && strchr(" :", text[strlen(word)]);
}

static int has_word(const char *at, const char *end, const char *word)
{
	for (; at < end; at += 1 + strcspn(at, " :"))
		if (is_word(at, word))
			return 1;
	return 0;
}

/* The text of a table's runs for a collective and a kind; NULL: it has none. */
static const char *find_line(const char *table, const char *machine, const char *coll, const char *kind)
{
	const char *at = strstr(table, machine);
	for (at = at ? strchr(at, '\n') : NULL; at && at[1] && at[1] != '['; at = strchr(at, '\n')) {
		const char *end = strchr(++at, ':');
		if (end && has_word(at, end, coll) && (has_word(at, end, kind) || has_word(at, end, "any")))
			return end + 1;
	}
	return NULL;
}

static void read_runs(const char *text, struct runs *runs)
{
	static const char units[] = "KMG";
	runs->n = 0;
	while (*text && *text != '\n') {
		char run[ROW_BYTES + 32], unit = 0;
		const int length = (int)strcspn(text, ";\n");
		snprintf(run, sizeof run, "%.*s", length, text + 1);
		run[length > 0 ? length - 1 : 0] = 0;
		size_t to = 0;
		char *size = strstr(run, " to ");
		if (size && sscanf(size, " to %zu%c", &to, &unit) == 2 && strchr(units, unit))
			to <<= 10 * (strchr(units, unit) - units + 1);
		if (size)
			*size = 0;
		add_run(runs, to, run);
		text += length + (text[length] == ';');
	}
}

/* How many ranges of sizes have another row. */
static int tell_differences(const char *call, const struct runs *was, const struct runs *is)
{
	int differences = 0;
	size_t from = 0;
	for (int i = 0, k = 0; i < was->n && k < is->n;) {
		const struct run *a = &was->run[i], *b = &is->run[k];
		const size_t to = a->to < b->to ? a->to : b->to;
		if (strcmp(a->row, b->row)) {
			print_error("%s, %zu to %zu bytes: was %s, is %s\n", call, from, to, a->row, b->row);
			differences++;
		}
		from = to + ELEMENT;
		i += a->to == to;
		k += b->to == to;
	}
	return differences;
}

/* ---- All choices ------------------------------------------------------------------------------------------ */

struct all {
	const char *golden; /* NULL: nothing to compare with */
	struct text text;
	uint64_t hash;
	int differences;
};

static void compare(struct all *all, const char *machine, const char *coll, const char *kind,
		    const struct runs *is)
{
	static struct runs was;
	char call[300];
	const char *line = find_line(all->golden, machine, coll, kind);
	snprintf(call, sizeof call, "%.*s %s %s", (int)strlen(machine) - 1, machine, coll, kind);
	if (!line) {
		print_error("%s: the table has no such line\n", call);
		all->differences++;
		return;
	}
	read_runs(line, &was);
	all->differences += tell_differences(call, &was, is);
}

/* Kinds with the same runs share a line, which lacks its collective here. */
static void add_lines(struct text *text, const struct kind *kinds, int n, const struct text *lines)
{
	int is_done[MOST_KINDS] = { 0 };
	for (int i = 0; i < n; i++) {
		int alike = 0;
		for (int k = i; k < n; k++)
			alike += !strcmp(lines[i].at, lines[k].at);
		if (is_done[i])
			continue;
		if (alike == n)
			add(text, " any");
		for (int k = i; k < n; k++)
			if (!strcmp(lines[i].at, lines[k].at)) {
				is_done[k] = 1;
				if (alike < n)
					add(text, " %s", kinds[k].name);
			}
		add(text, ":%s", lines[i].at);
	}
}

/* Collectives with the same lines share them. */
static void add_colls(struct text *text, const struct text *blocks)
{
	for (int i = 0; i < CORALE_NUM_COLLS; i++) {
		int is_first = blocks[i].n > 0;
		for (int k = 0; k < i; k++)
			is_first = is_first && strcmp(blocks[i].at, blocks[k].at);
		for (const char *line = blocks[i].at; is_first && *line; line = strchr(line, '\n') + 1) {
			for (int k = i; k < CORALE_NUM_COLLS; k++)
				if (!strcmp(blocks[i].at, blocks[k].at))
					add(text, "%s%s", k > i ? " " : "", corale_coll_name((corale_coll)k));
			add(text, "%.*s\n", (int)strcspn(line, "\n"), line);
		}
	}
}

static void add_coll(struct all *all, struct chosen *chosen, const struct chosen_machine *m, corale_coll coll,
		     struct text *block)
{
	static struct runs runs;
	static struct text lines[MOST_KINDS];
	char machine[200], row[ROW_BYTES];
	int n;
	const struct kind *kinds = kinds_of(m, &n);
	const char *name = corale_coll_name(coll);
	name_machine(m, machine);
	for (int i = 0; i < n; i++) {
		struct chosen_call call = { coll, kinds[i].type, 0, kinds[i].memory };
		runs.n = 0;
		if (coll_has_count(coll)) {
			find_runs(chosen, call, &runs);
		} else {
			chosen_row(chosen, &call, row, sizeof row);
			add_run(&runs, 0, row);
		}
		lines[i].n = 0;
		add_runs(&lines[i], &runs);
		all->hash = hash_text(hash_text(hash_text(all->hash, machine), name), kinds[i].name);
		all->hash = hash_text(all->hash, lines[i].at);
		if (all->golden)
			compare(all, machine, name, kinds[i].name, &runs);
	}
	add_lines(block, kinds, n, lines);
}

static void make_machine(struct all *all, const struct chosen_machine *m)
{
	static struct text blocks[CORALE_NUM_COLLS];
	struct chosen *chosen = chosen_open(m);
	char machine[200];
	name_machine(m, machine);
	add(&all->text, "%s", machine);
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++) {
		blocks[coll].n = blocks[coll].at[0] = 0;
		if (!coll_is_pair(coll))
			add_coll(all, chosen, m, (corale_coll)coll, &blocks[coll]);
	}
	add_colls(&all->text, blocks);
	chosen_close(chosen);
}

static void make_hash(struct all *all, const struct chosen_machine *m)
{
	static struct all one;
	char text[256];
	one = (struct all){ .hash = HASH_START };
	make_machine(&one, m);
	name_machine(m, text);
	snprintf(text + strlen(text), 32, "%016" PRIx64 "\n", one.hash);
	add(&all->text, "%s", text);
	all->hash = hash_text(all->hash, text);
	if (all->golden && !strstr(all->golden, text)) {
		print_error("choices changed, now: %s", text);
		all->differences++;
	}
}

static void make_all(struct all *all, int in_full)
{
	all->hash = HASH_START;
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
		make_machine(all, &machines[i]);
	for (size_t i = 0; i < sizeof hashed / sizeof *hashed; i++)
		(in_full ? make_machine : make_hash)(all, &hashed[i]);
}

static void read_golden(struct text *golden)
{
	const char *top = getenv("top_srcdir");
	char path[1024];
	snprintf(path, sizeof path, "%s/test/plan/chosen.table", top ? top : "..");
	FILE *file = fopen(path, "r");
	if (!file)
		fail_msg("%s can't be read", path);
	golden->n = fread(golden->at, 1, sizeof golden->at - 1, file);
	golden->at[golden->n] = 0;
	fclose(file);
}

UNIT_TEST(test_all)
{
	static struct text golden;
	static struct all all;
	char hash[17];
	read_golden(&golden);
	all.golden = golden.at;
	make_all(&all, 0);
	snprintf(hash, sizeof hash, "%016" PRIx64, all.hash);
	if (!all.differences && strncmp(golden.at, hash, 16))
		fail_msg("no choice changed, but the table's hash is not %s: print it anew", hash);
	if (all.differences)
		fail_msg("%d choices changed; if they are meant to: test/plan/chosen_test print >TABLE",
			 all.differences);
}

int main(int argc, char **argv)
{
	static struct all all;
	log_open(LOG_ERROR, "/dev/null"); /* of calls that are refused */
	if (argc < 2 || strcmp(argv[1], "print"))
		return unit_run(NULL, NULL);
	make_all(&all, argc > 2 && !strcmp(argv[2], "all"));
	printf("%016" PRIx64 "\n%s", all.hash, all.text.at);
	return 0;
}
