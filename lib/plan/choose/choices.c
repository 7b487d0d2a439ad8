/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of choices: where the chosen row changes over the bytes of a call. */
#include "choices.h"
#include "planner_room.h"

#include <stdio.h>

#include "base/collectives.h"
#include "base/text.h"

enum {
	LOG_SAMPLES =
	    4, /* of an octave: rows with a codelet are asked at so many sizes, and where they change between two */
	LARGEST = 36, /* a power of 2: sizes beyond are chosen like it */
	/* Size classes of rows without a codelet: each one is asked from here to there, elsewhere one in so many, and those between two that differ. */
	EACH_FROM = 12,
	EACH_TO = 26,
	STEP = 4
};

/* ---- Rows with a codelet ---------------------------------------------------------------------------------- */

struct asked {
	const struct gpu_machine *machine;
	struct plan_call call;
};

static const struct row *ask(struct asked *a, uint64_t bytes)
{
	a->call.bytes = bytes;
	return planner_codelet(a->machine, &a->call);
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

static int is_alike(const struct row_choice *a, const struct row_choice *b)
{
	return a->row == b->row && a->channels == b->channels && a->chunk_bytes == b->chunk_bytes &&
	       a->single_channel == b->single_channel;
}

/* One more choice; where there is no room for it, the last one holds on. */
static void append(struct choices *out, struct row_choice next)
{
	const int n = out->n;
	if (n && is_alike(&out->best[n - 1], &next)) {
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

void choices_of_codelets(const struct gpu_machine *machine, corale_coll coll, int words, int memory,
			 struct choices *out)
{
	struct asked a = { machine, { .coll = coll, .words = words, .memory = memory } };
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

/* What size classes are asked for: calls of one collective and type, and what is known of its rows' lists. */
struct classes {
	const struct planner *planner;
	corale_coll coll;
	corale_type type;
	struct planner_fits fits;
	char *error;
	size_t error_bytes;
};

/* The choice of a size class, a power of 2; a row of NULL: nothing applies. */
static int choose_class(struct classes *c, int power, struct row_choice *out)
{
	const size_t count = ((size_t)1 << power) / corale_type_bytes(c->type);
	const struct plan_key key = planner_key(c->coll, count, c->type, CORALE_SUM);
	struct plan plan;
	const int ret = planner_plan_plain(c->planner, &key, &c->fits, &plan, c->error, c->error_bytes);
	*out = (struct row_choice){ .up_to = power < LARGEST ? (uint64_t)1 << power : UINT64_MAX };
	if (ret)
		return ret == CORALE_ENOTSUP ? 0 : ret;
	out->row = row_table(&(int){ 0 }) + plan.algo;
	out->chunk_bytes = plan.chunk_bytes;
	out->channels = plan.channels;
	out->single_channel =
	    c->planner->single && planner_by_room(c->planner, &key, plan.algo) == c->planner->single;
	return 0;
}

/* The size class of bytes: of 0 and 1 the first one. */
static int power_of(uint64_t bytes)
{
	const int power = bytes > 1 ? 64 - __builtin_clzll(bytes - 1) : 0;
	return power < LARGEST ? power : LARGEST;
}

/* Choices of the classes behind one, up to another one; where these two are alike so are those between. */
static int add_between(struct classes *c, int from, const struct row_choice *first, int to,
		       const struct row_choice *last, uint64_t most, struct choices *out)
{
	struct row_choice middle;
	if (to - from == 1 || is_alike(first, last)) {
		struct row_choice next = *last;
		next.up_to = next.up_to < most ? next.up_to : most;
		append(out, next);
		return 0;
	}
	const int half = from + (to - from) / 2;
	int ret = choose_class(c, half, &middle);
	ret = ret ? ret : add_between(c, from, first, half, &middle, most, out);
	return ret ? ret : add_between(c, half, &middle, to, last, most, out);
}

/* Size classes from one that holds `from` bytes to `up_to`, by rows without a codelet: where rows and chunks change each is asked, else every few. */
static int add_classes(struct classes *c, uint64_t from, uint64_t up_to, struct choices *out)
{
	const int begin = power_of(from), end = power_of(up_to);
	struct row_choice before, next;
	int ret = choose_class(c, begin, &before);
	next = before;
	next.up_to = next.up_to < up_to ? next.up_to : up_to;
	if (!ret)
		append(out, next);
	for (int at = begin; !ret && at < end;) {
		const int next_at = at + (at < EACH_FROM || at >= EACH_TO ? STEP : 1),
			  to = next_at < end ? next_at : end;
		ret = choose_class(c, to, &next);
		ret = ret ? ret : add_between(c, at, &before, to, &next, up_to, out);
		before = next;
		at = to;
	}
	return ret;
}

/* A row with a codelet, but in the size classes in which a lowered plan is sure to be faster. */
static int add_codelet(struct classes *c, int memory, uint64_t from, const struct row_choice *codelet,
		       struct choices *out)
{
	const int end = power_of(codelet->up_to);
	for (int power = power_of(from); power <= end; power++) {
		const uint64_t most = (uint64_t)1 << power;
		const struct plan_call call = { c->coll, most < codelet->up_to ? most : codelet->up_to,
						type_in_words(c->type), memory, PLAN_ALIGNED_16 };
		const struct plan_key key =
		    planner_key(c->coll, call.bytes / corale_type_bytes(c->type), c->type, CORALE_SUM);
		struct row_choice next = *codelet;
		struct plan plan;
		const int lowers = planner_lowers(c->planner, &key, codelet->row, &call, &c->fits, &plan,
						  c->error, c->error_bytes);
		if (lowers < 0)
			return lowers;
		if (lowers)
			next = (struct row_choice){ .row = row_table(&(int){ 0 }) + plan.algo,
						    .chunk_bytes = plan.chunk_bytes,
						    .channels = plan.channels };
		next.up_to = power < end ? call.bytes : codelet->up_to;
		append(out, next);
	}
	return 0;
}

int choices_of(const struct planner *planner, corale_coll coll, corale_type type, int memory,
	       struct choices *out, char *error, size_t error_bytes)
{
	struct choices codelets = { 1, { { .up_to = UINT64_MAX } } };
	struct classes classes = {
		.planner = planner, .coll = coll, .type = type, .error = error, .error_bytes = error_bytes
	};
	const int sized = coll_has_count(coll);
	uint64_t from = 0;
	int ret = 0;
	if (planner->machine)
		choices_of_codelets(planner->machine, coll, type_in_words(type), memory, &codelets);
	out->n = 0;
	for (int i = 0; !ret && i < codelets.n; i++) {
		const struct row_choice *c = &codelets.best[i];
		if (c->row && !sized)
			append(out, *c);
		else if (c->row)
			ret = add_codelet(&classes, memory, from, c, out);
		else
			ret = add_classes(&classes, from, sized ? c->up_to : from, out);
		from = c->up_to + 1;
	}
	out->best[out->n ? out->n - 1 : 0].up_to = UINT64_MAX;
	return ret ? ret : out->n == 1 && !out->best[0].row ? CORALE_ENOTSUP : 0;
}

int choices_build(const struct planner *planner, const struct row_choice *choice, const struct plan_key *key,
		  struct plan *out)
{
	const int row = (int)(choice->row - row_table(&(int){ 0 }));
	return planner_build_cut(choice->single_channel ? planner->single : planner, key, row,
				 choice->channels, choice->chunk_bytes, out);
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
	text_format(text, room, "%.*f%s", value > (double)(uint64_t)value ? 1 : 0, value, units[unit]);
}

static int print_row(const struct row_choice *c, char *buf, size_t room)
{
	if (!c->row)
		return snprintf(buf, room, "none");
	if (c->row->codelet)
		return snprintf(buf, room, "%s %s", c->row->codelet->name,
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
