/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates between nodes as text: "rail_us:2.4 rail:12.5". */
#include "topo_rails.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "corale.h"
#include "base/text.h"

static const struct rail {
	const char *name;
	size_t offset; /* in struct topo */
	double unit;
	int may_be_0;
} rails[TOPO_RAILS] = {
	{ "rail", offsetof(struct topo, rail.bytes_per_ns), 1, 0 },
	{ "rail_us", offsetof(struct topo, rail.latency_ns), 1000, 0 },
	{ "rail_send_us", offsetof(struct topo, rail.send_ns), 1000, 1 },
	{ "rail_recv_us", offsetof(struct topo, rail.recv_ns), 1000, 1 },
	{ "rail_gap_us", offsetof(struct topo, rail.gap_ns), 1000, 1 },
	{ "rail_core", offsetof(struct topo, net_bytes_per_ns), 1, 1 },
};

int topo_refuse(const struct topo_reader *in, const char *format, ...)
{
	char reason[160];
	va_list args;
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	snprintf(in->error, in->error_bytes, "machine \"%s\", character %d: %s", in->text,
		 (int)(in->at - in->text) + 1, reason);
	return CORALE_EINVAL;
}

int topo_give(const struct topo_reader *in, unsigned *given, int what)
{
	if (*given >> what & 1)
		return topo_refuse(in, "given twice: expected one value each of node, of gpu or rank, of "
				       "nvlink or memory, and of every other rate");
	*given |= 1u << what;
	return 0;
}

int topo_read_rate(struct topo_reader *in, int may_be_0, double *out)
{
	char *end;
	double value = text_number(in->at, &end);
	const int is_decimal =
		      *in->at >= '0' && *in->at <= '9' && end <= in->at + strspn(in->at, "0123456789.eE+-"),
		  in_range = value >= 1e-6 && value <= 1e9;
	if (!is_decimal || !(in_range || (value == 0 && may_be_0)))
		return topo_refuse(in, "expected %sa number from 1e-6 to 1e9", may_be_0 ? "0 or " : "");
	in->at = end;
	*out = value;
	return 0;
}

int topo_find_rail(const char *name, size_t length)
{
	for (int i = 0; i < TOPO_RAILS; i++)
		if (strlen(rails[i].name) == length && !memcmp(name, rails[i].name, length))
			return i;
	return -1;
}

int topo_read_rail(struct topo_reader *in, int i, struct topo_rails *out)
{
	const int ret = topo_give(in, &out->given, i);
	return ret ? ret : topo_read_rate(in, rails[i].may_be_0, &out->value[i]);
}

void topo_set_rails(struct topo *topo, const struct topo_rails *read)
{
	for (int i = 0; i < TOPO_RAILS; i++)
		if (read->given >> i & 1)
			*(double *)((char *)topo + rails[i].offset) = read->value[i] * rails[i].unit;
}

int topo_next_word(struct topo_reader *in)
{
	in->at += strspn(in->at, " \t");
	return *in->at != 0;
}

int topo_end_word(const struct topo_reader *in)
{
	return *in->at && *in->at != ' ' && *in->at != '\t' ? topo_refuse(in, "expected a space") : 0;
}

int topo_parse_rails(const char *text, struct topo *topo, char *error, size_t error_bytes)
{
	struct topo_reader in = { text, text, error, error_bytes };
	struct topo_rails read = { 0 };
	while (topo_next_word(&in)) {
		const size_t length = strcspn(in.at, ": \t");
		const int i = in.at[length] == ':' ? topo_find_rail(in.at, length) : -1;
		if (i < 0)
			return topo_refuse(&in, "expected a rate between nodes: rail rail_us rail_send_us "
						"rail_recv_us rail_gap_us rail_core");
		in.at += length + 1;
		if (topo_read_rail(&in, i, &read) || topo_end_word(&in))
			return CORALE_EINVAL;
	}
	if (topo)
		topo_set_rails(topo, &read);
	return 0;
}

size_t topo_print_rails(const struct topo *topo, char *buf, size_t bytes)
{
	const struct topo_link *rail = &topo->rail;
	int n = text_format(
	    buf, bytes,
	    "rail_us:%.3g rail_send_us:%.3g rail_recv_us:%.3g rail_gap_us:%.3g rail:%.3g rail_core:%.3g",
	    rail->latency_ns / 1000, rail->send_ns / 1000, rail->recv_ns / 1000, rail->gap_ns / 1000,
	    rail->bytes_per_ns, topo->net_bytes_per_ns);
	return n > 0 ? (size_t)n : 0;
}
