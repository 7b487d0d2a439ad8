/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuning.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "corale.h"

static const char first_line[] = "# corale-tuning 1";
static const char *const sections[] = { "host.", "network.", "gpu." };

struct field {
	const char *name; /* with its section */
	enum tuning_section section;
	size_t offset; /* in struct rates_links; of TUNING_GPU in struct rates */
	double least, most;
};

#define LINKS(section, kind, member, ...)                                                                    \
	{                                                                                                    \
		section #member, kind, offsetof(struct rates_links, member), __VA_ARGS__                     \
	}
#define GPU_LINKS(member, ...)                                                                               \
	{                                                                                                    \
		"gpu." #member, TUNING_GPU, offsetof(struct rates, links.member), __VA_ARGS__                \
	}
#define GPU(member, ...)                                                                                     \
	{                                                                                                    \
		"gpu." #member, TUNING_GPU, offsetof(struct rates, member), __VA_ARGS__                      \
	}
#define BLOCK(name, kind)                                                                                    \
	{                                                                                                    \
		"gpu.block_gbs." name, TUNING_GPU, offsetof(struct rates, block_gbs[kind]), RATE             \
	}
/* Bounds. A rate divides, so it is never 0. */
#define TIME_NS 0, 1e9
#define TIME_US 0, 1e6
#define RATE 1e-3, 1e6

static const struct field fields[] = {
	LINKS("host.", TUNING_HOST, node_ns, TIME_NS),
	LINKS("host.", TUNING_HOST, node_gbs, RATE),
	LINKS("host.", TUNING_HOST, reduce_gbs, RATE),
	LINKS("host.", TUNING_HOST, step_ns, TIME_NS),
	LINKS("host.", TUNING_HOST, turn_ns, TIME_NS),
	LINKS("network.", TUNING_NETWORK, rail_ns, TIME_NS),
	LINKS("network.", TUNING_NETWORK, rail_gbs, RATE),
	LINKS("network.", TUNING_NETWORK, send_ns, TIME_NS),
	LINKS("network.", TUNING_NETWORK, recv_ns, TIME_NS),
	LINKS("network.", TUNING_NETWORK, net_gbs, 0, 1e6), /* 0: the adapter moves the bytes */
	GPU_LINKS(node_ns, TIME_NS),
	GPU_LINKS(node_gbs, RATE),
	GPU_LINKS(proxy_ns, TIME_NS),
	GPU_LINKS(reduce_gbs, RATE),
	GPU_LINKS(step_ns, TIME_NS),
	GPU_LINKS(fused_step_ns, TIME_NS),
	GPU(link_gbs, RATE),
	GPU(memory_gbs, RATE),
	GPU(step_us, TIME_US),
	GPU(hop_us, TIME_US),
	GPU(chunk_us, TIME_US),
	GPU(pieces_us, TIME_US),
	GPU(last_bytes, 0, 1e12),
	BLOCK("folding", RATES_FOLDING),
	BLOCK("folding_blocks", RATES_FOLDING_BLOCKS),
	BLOCK("moving", RATES_MOVING),
	BLOCK("moving_blocks", RATES_MOVING_BLOCKS),
	BLOCK("scattering", RATES_SCATTERING),
	BLOCK("passing", RATES_PASSING),
	BLOCK("team_folding", RATES_TEAM_FOLDING),
	BLOCK("team_moving", RATES_TEAM_MOVING),
	BLOCK("pair_folding", RATES_PAIR_FOLDING),
	BLOCK("pair_moving", RATES_PAIR_MOVING),
	BLOCK("read_folding", RATES_READ_FOLDING),
	BLOCK("read_moving", RATES_READ_MOVING),
};
enum { FIELDS = sizeof(fields) / sizeof(*fields) };
_Static_assert((int)FIELDS <= (int)TUNING_MOST, "a bit of given and a value for each rate");

/* ---- Rates by number -------------------------------------------------------------------------------------- */

int tuning_count(void)
{
	return FIELDS;
}

const char *tuning_name(int i)
{
	return fields[i].name;
}

int tuning_find(const char *name)
{
	for (int i = 0; i < FIELDS; i++)
		if (!strcmp(fields[i].name, name))
			return i;
	return -1;
}

int tuning_has(const struct tuning *tuning, int i)
{
	return tuning->given >> i & 1;
}

int tuning_has_section(const struct tuning *tuning, enum tuning_section section)
{
	for (int i = 0; i < FIELDS; i++)
		if (fields[i].section == section && tuning_has(tuning, i))
			return 1;
	return 0;
}

double tuning_built_in(int i, const struct rates *gpus)
{
	const void *of = fields[i].section == TUNING_GPU ? (const void *)gpus : rates_of_hosts();
	return *(const double *)((const char *)of + fields[i].offset);
}

static int in_range(const struct field *field, double value)
{
	return value >= field->least && value <= field->most;
}

void tuning_set(struct tuning *tuning, int i, double value)
{
	char text[40];
	value = value < fields[i].least ? fields[i].least : value;
	value = value > fields[i].most ? fields[i].most : value;
	text_format(text, sizeof(text), "%.3g", value);
	tuning->value[i] = text_number(text, &(char *){ NULL });
	tuning->given |= UINT64_C(1) << i;
}

uint64_t tuning_hash(const struct tuning *tuning)
{
	uint64_t hash = hash_start;
	for (int i = 0; i < FIELDS; i++) {
		if (!tuning_has(tuning, i))
			continue;
		hash = hash_bytes(hash, fields[i].name, strlen(fields[i].name));
		hash = hash_bytes(hash, &tuning->value[i], sizeof(tuning->value[i]));
	}
	return tuning->given ? hash : 0;
}

/* ---- Over the rates that are there ------------------------------------------------------------------------ */

static void apply(const struct tuning *tuning, enum tuning_section section, void *rates)
{
	for (int i = 0; i < FIELDS; i++)
		if (fields[i].section == section && tuning_has(tuning, i))
			*(double *)((char *)rates + fields[i].offset) = tuning->value[i];
}

void tuning_apply_links(const struct tuning *tuning, enum tuning_section section, struct rates_links *links)
{
	apply(tuning, section, links);
}

void tuning_apply_gpus(const struct tuning *tuning, struct rates *rates)
{
	apply(tuning, TUNING_GPU, rates);
}

/* ---- From a text ------------------------------------------------------------------------------------------ */

struct reader {
	int number; /* of the line */
	char line[TUNING_LINE + 1];
	char *error;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct reader *in, const char *expected, ...)
{
	char reason[TUNING_ERROR / 2];
	va_list args;
	va_start(args, expected);
	text_format_args(reason, sizeof(reason), expected, args);
	va_end(args);
	snprintf(in->error, TUNING_ERROR, "line %d: found \"%s\", expected %s", in->number, in->line, reason);
	return CORALE_ESETTING;
}

/* The next line without its end, trailing blanks and a carriage return; *text moves behind it. */
static int read_line(struct reader *in, const char **text, size_t *bytes)
{
	const char *end = memchr(*text, '\n', *bytes);
	size_t length = end ? (size_t)(end - *text) : *bytes;
	const char *line = *text;
	in->number++;
	*text += length + (end != NULL);
	*bytes -= length + (end != NULL);
	while (length && (line[length - 1] == ' ' || line[length - 1] == '\t' || line[length - 1] == '\r'))
		length--;
	const size_t kept = length < TUNING_LINE ? length : TUNING_LINE;
	memcpy(in->line, line, kept);
	in->line[kept] = '\0';
	if (kept < length)
		return refuse(in, "a line of at most %d characters", TUNING_LINE);
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)line[i] < ' ' && line[i] != '\t')
			return refuse(in, "text without control characters (character %zu)", i + 1);
	return 0;
}

static size_t list_names(enum tuning_section section, char *buf, size_t bytes)
{
	size_t n = 0;
	for (int i = 0; i < FIELDS && n < bytes; i++)
		if (fields[i].section == section)
			n += (size_t)snprintf(buf + n, bytes - n, " %s", fields[i].name);
	return n;
}

static int refuse_name(const struct reader *in)
{
	char names[TUNING_ERROR / 2] = "";
	for (int s = 0; s < TUNING_SECTIONS; s++) {
		if (strncmp(in->line, sections[s], strlen(sections[s])))
			continue;
		list_names((enum tuning_section)s, names, sizeof(names));
		return refuse(in, "one of%s", names);
	}
	return refuse(in, "a rate's name, which begins with host., network. or gpu., and a number");
}

/* Decimal, finite. The C library's reader takes more. */
static int read_number(const char *text, double *value)
{
	char *end;
	if (!(*text >= '0' && *text <= '9') || strspn(text, "0123456789.eE+-") != strlen(text))
		return CORALE_ESETTING;
	*value = text_number(text, &end);
	return *end ? CORALE_ESETTING : 0;
}

static int read_rate(const struct reader *in, struct tuning *out)
{
	char name[TUNING_LINE + 1];
	const size_t length = strcspn(in->line, " \t");
	const char *number = in->line + length + strspn(in->line + length, " \t");
	double value;
	memcpy(name, in->line, length);
	name[length] = '\0';
	const int i = tuning_find(name);
	if (i < 0)
		return refuse_name(in);
	if (tuning_has(out, i))
		return refuse(in, "each rate once");
	if (read_number(number, &value) || !in_range(&fields[i], value))
		return refuse(in, "%s and a number from %g to %g", name, fields[i].least, fields[i].most);
	out->value[i] = value;
	out->given |= UINT64_C(1) << i;
	return 0;
}

int tuning_parse(const char *text, size_t bytes, struct tuning *out, char *error)
{
	struct reader in = { .error = error };
	struct tuning read = { 0 };
	int ret = read_line(&in, &text, &bytes);
	if (!ret && strcmp(in.line, first_line))
		ret = refuse(&in, "\"%s\"", first_line);
	while (!ret && bytes) {
		ret = read_line(&in, &text, &bytes);
		if (!ret && in.line[0] && in.line[0] != '#')
			ret = read_rate(&in, &read);
	}
	if (!ret)
		*out = read;
	return ret;
}

/* ---- To a text -------------------------------------------------------------------------------------------- */

/* 15 digits: every decimal number of so many is read as the same value again. */
size_t tuning_print(const struct tuning *tuning, char *buf, size_t bytes)
{
	size_t n = (size_t)snprintf(
	    buf, bytes, "%s\n# Units: ns and us are times, gbs is GB/s (bytes per ns), bytes are bytes.\n",
	    first_line);
	for (int i = 0; i < FIELDS; i++)
		if (tuning_has(tuning, i))
			n += (size_t)text_format(n < bytes ? buf + n : NULL, n < bytes ? bytes - n : 0,
						 "%s %.15g\n", fields[i].name, tuning->value[i]);
	return n;
}
