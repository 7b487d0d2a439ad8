/* Lists of choices: where the chosen row changes over the bytes of a call. */
#include "choices.h"

#include <stdio.h>

#include "base/collectives.h"
#include "base/status.h"

enum {
	LOG_SAMPLES =
	    4, /* of an octave: rows with a codelet are asked at so many sizes, and where they change between two */
	LARGEST = 36 /* a power of 2: sizes beyond are chosen like it */
};

/* ---- Rows with a codelet ---------------------------------------------------------------------------------- */

struct asked {
	const struct plan_node *node;
	struct plan_call call;
};

static const struct row *ask(struct asked *a, uint64_t bytes)
{
	a->call.bytes = bytes;
	return planner_codelet(a->node, &a->call);
}

/* Between two sizes with different rows: the last one that has the first one's. */
static uint64_t last_of(struct asked *a, const struct row *row, uint64_t from, uint64_t to)
{
	while (from + 1 < to) {
		const uint64_t middle = from + (to - from) / 2;
		*(ask(a, middle) == row ? &from : &to) = middle;
	}
	return from;
}

/* One more choice; where there is no room for it, the last one holds on. */
static void append(struct choices *out, struct row_choice next)
{
	const int n = out->n;
	if (n && out->best[n - 1].row == next.row && out->best[n - 1].channels == next.channels &&
	    out->best[n - 1].chunk_bytes == next.chunk_bytes) {
		out->best[n - 1].up_to = next.up_to;
		return;
	}
	if (n < CHOICES_MOST)
		out->best[out->n++] = next;
	else
		out->best[n - 1].up_to = next.up_to;
}

/* The i-th size that is asked, from 0 on; each octave has as many. */
static uint64_t sample(int i)
{
	const int octave = i >> LOG_SAMPLES, step = i & ((1 << LOG_SAMPLES) - 1);
	const uint64_t base = (uint64_t)1 << octave;
	return i < 0 ? 0 : base + ((base * (uint64_t)step) >> LOG_SAMPLES);
}

void choices_of_codelets(const struct plan_node *node, corale_coll coll, int words, int memory,
			 struct choices *out)
{
	struct asked a = { node, { .coll = coll, .words = words, .memory = memory } };
	uint64_t at = 0;
	const struct row *row = ask(&a, at);
	out->n = 0;
	for (int i = 0; i <= LARGEST << LOG_SAMPLES; i++) {
		const uint64_t next = sample(i);
		const struct row *last = ask(&a, next);
		while (row != last) { /* rows may change twice between two samples */
			at = last_of(&a, row, at, next);
			append(out, (struct row_choice){ .up_to = at, .row = row });
			row = ask(&a, ++at);
		}
		at = next;
	}
	append(out, (struct row_choice){ .up_to = UINT64_MAX, .row = row });
}

/* ---- All rows --------------------------------------------------------------------------------------------- */

/* Size classes from one that holds `from` bytes to `up_to`, by rows without a codelet. */
static int add_classes(const struct planner *planner, corale_coll coll, corale_type type, uint64_t from,
		       uint64_t up_to, struct choices *out, char *error, size_t error_bytes)
{
	const size_t element = corale_type_bytes(type);
	struct plan plan;
	int rows;
	for (int power = 0; power <= LARGEST; power++) {
		const uint64_t most = power < LARGEST ? (uint64_t)1 << power : UINT64_MAX;
		if (most < from || (power && (uint64_t)1 << (power - 1) >= up_to))
			continue;
		const struct plan_key key =
		    planner_key(coll, ((size_t)1 << power) / element, type, CORALE_SUM);
		const int ret = planner_plan(planner, &key, NULL, &plan, error, error_bytes);
		if (ret)
			return ret;
		append(out, (struct row_choice){ .up_to = most < up_to ? most : up_to,
						 .row = row_table(&rows) + plan.algo,
						 .chunk_bytes = plan.chunk_bytes,
						 .channels = plan.channels });
	}
	return 0;
}

int choices_of(const struct planner *planner, corale_coll coll, corale_type type, int memory,
	       struct choices *out, char *error, size_t error_bytes)
{
	struct choices codelets = { 1, { { .up_to = UINT64_MAX } } };
	uint64_t from = 0;
	int ret = 0;
	if (planner->node)
		choices_of_codelets(planner->node, coll, plan_in_words(type), memory, &codelets);
	out->n = 0;
	for (int i = 0; !ret && i < codelets.n; i++) {
		const struct row_choice *c = &codelets.best[i];
		if (c->row)
			append(out, *c);
		else
			ret = add_classes(planner, coll, type, from, c->up_to, out, error, error_bytes);
		from = c->up_to + 1;
	}
	return ret;
}

/* ---- In words --------------------------------------------------------------------------------------------- */

/* As it is said: 512, 128K, 4M, 2G; what is no multiple to a tenth. */
static void print_bytes(uint64_t bytes, char *text, size_t room)
{
	static const char *const units[] = { "", "K", "M", "G" };
	int unit = 0;
	double value = (double)bytes;
	for (; value >= 1024 && unit < 3; unit++)
		value /= 1024;
	snprintf(text, room, "%.*f%s", value > (double)(uint64_t)value ? 1 : 0, value, units[unit]);
}

static int print_row(const struct row_choice *c, char *buf, size_t room)
{
	if (!c->row)
		return snprintf(buf, room, "lowered");
	if (c->row->codelet)
		return snprintf(buf, room, "%s %s", plan_codelet_name(c->row->codelet),
				plan_protocol_name(c->row->protocol));
	return snprintf(buf, room, "%s, %d channel%s, chunks of %u", c->row->name, c->channels,
			c->channels == 1 ? "" : "s", c->chunk_bytes);
}

size_t choices_print(const struct choices *choices, char *buf, size_t bytes)
{
	size_t used = 0;
	for (int i = 0; i < choices->n; i++) {
		const int last = i == choices->n - 1;
		char to[32], row[96];
		print_bytes(choices->best[i].up_to, to, sizeof to);
		print_row(&choices->best[i], row, sizeof row);
		const int room = used < bytes;
		used += (size_t)snprintf(room ? buf + used : NULL, room ? bytes - used : 0, "%s%s%s%s",
					 last && i ? "then " : "", row, last ? "" : " to ", last ? "" : to);
		if (!last)
			used += (size_t)snprintf(used < bytes ? buf + used : NULL,
						 used < bytes ? bytes - used : 0, "; ");
	}
	return used;
}
