/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine as text: "node:512 gpu:8 nvlink:390 rail:50". */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corale.h"
#include "rates.h"
#include "topo.h"
#include "base/text.h"

enum { MAX_RANKS = 1 << 22 };

/* Numbers of a machine's links, by their keys' place in `keys`. */
enum rate { NODE_GBS, NODE_US, RAIL_GBS, RAIL_US, SEND_US, RECV_US, GAP_US, CORE_GBS, BUS_GBS, RATES };

struct key {
	const char *name;
	enum rate rate;
	int of_gpus; /* only a machine of GPUs has it */
	int may_be_0;
};

static const struct key keys[] = { { "nvlink", NODE_GBS, 1, 1 },      { "memory", NODE_GBS, 0, 0 },
				   { "nvlink_us", NODE_US, 0, 0 },    { "memory_us", NODE_US, 0, 0 },
				   { "rail", RAIL_GBS, 0, 0 },        { "rail_us", RAIL_US, 0, 0 },
				   { "rail_send_us", SEND_US, 0, 1 }, { "rail_recv_us", RECV_US, 0, 1 },
				   { "rail_gap_us", GAP_US, 0, 1 },   { "rail_core", CORE_GBS, 0, 1 },
				   { "bus", BUS_GBS, 1, 0 } };
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

struct machine {
	int nodes, listed; /* listed: node:[8,8,4] */
	int *sizes; /* of each node where they are listed */
	long ranks; /* their sum */
	int per_node; /* gpu or rank; 0: not said */
	int gpu;
	double rates[RATES]; /* below 0: not said */
	unsigned given; /* bit of each thing said so far: of a rate its number, then: */
};
enum { GIVEN_NODES = RATES, GIVEN_PER_NODE };

struct reader {
	const char *text, *at;
	char *error;
	size_t error_bytes;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct reader *in, const char *format, ...)
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

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int read_count(struct reader *in, int *out)
{
	char *end;
	long value = strtol(in->at, &end, 10);
	if (!is_digit(*in->at) || value < 1 || value > MAX_RANKS)
		return refuse(in, "expected a number from 1 to %d", MAX_RANKS);
	in->at = end;
	*out = (int)value;
	return 0;
}

static int read_rate(struct reader *in, const struct key *key, double *rates)
{
	char *end;
	double value = text_number(in->at, &end);
	const int is_decimal = is_digit(*in->at) && end <= in->at + strspn(in->at, "0123456789.eE+-"),
		  in_range = value >= 1e-6 && value <= 1e9;
	if (!is_decimal || !(in_range || (value == 0 && key->may_be_0)))
		return refuse(in, "expected %sa number from 1e-6 to 1e9", key->may_be_0 ? "0 or " : "");
	in->at = end;
	rates[key->rate] = value;
	return 0;
}

static int read_node_list(struct reader *in, struct machine *machine)
{
	machine->listed = 1;
	machine->nodes = 0;
	do {
		in->at++; /* '[' or ',' */
		int size = 0, ret = read_count(in, &size);
		if (ret)
			return ret;
		int *sizes = realloc(machine->sizes, (size_t)(machine->nodes + 1) * sizeof(int));
		if (!sizes)
			return CORALE_ENOMEM;
		machine->sizes = sizes;
		sizes[machine->nodes++] = size;
		machine->ranks += size;
		if (machine->ranks > MAX_RANKS)
			return refuse(in, "more than %d ranks", MAX_RANKS);
	} while (*in->at == ',');
	if (*in->at != ']')
		return refuse(in, "expected ',' or ']' in the list of node sizes");
	in->at++;
	return 0;
}

static int key_is(const char *key, size_t length, const char *name)
{
	return strlen(name) == length && !memcmp(key, name, length);
}

/* Of two values one would be ignored: gpu and rank are the same number, nvlink and memory the same rate. */
static int give(struct reader *in, struct machine *machine, int what)
{
	const unsigned bit = 1u << what;
	if (machine->given & bit)
		return refuse(in, "given twice: expected one value each of node, of gpu or rank, of nvlink "
				  "or memory, and of every other rate");
	machine->given |= bit;
	return 0;
}

static int read_word(struct reader *in, struct machine *machine)
{
	const char *key = in->at;
	size_t length = strcspn(key, ": \t");
	if (key[length] != ':')
		return refuse(in, "expected key:value");
	in->at += length + 1;
	if (key_is(key, length, "node")) {
		if (give(in, machine, GIVEN_NODES))
			return CORALE_EINVAL;
		return *in->at == '[' ? read_node_list(in, machine) : read_count(in, &machine->nodes);
	}
	if (key_is(key, length, "gpu") || key_is(key, length, "rank")) {
		machine->gpu |= *key == 'g';
		return give(in, machine, GIVEN_PER_NODE) ? CORALE_EINVAL : read_count(in, &machine->per_node);
	}
	for (const struct key *k = keys; k < keys + KEYS; k++) {
		if (!key_is(key, length, k->name))
			continue;
		machine->gpu |= k->of_gpus;
		return give(in, machine, (int)k->rate) ? CORALE_EINVAL : read_rate(in, k, machine->rates);
	}
	in->at = key;
	return refuse(in,
		      "unknown key; known: node gpu rank nvlink memory bus rail nvlink_us memory_us rail_us "
		      "rail_send_us rail_recv_us rail_gap_us rail_core");
}

static int read_machine(struct reader *in, struct machine *machine)
{
	for (;;) {
		in->at += strspn(in->at, " \t");
		if (!*in->at)
			break;
		int ret = read_word(in, machine);
		if (ret)
			return ret;
		if (*in->at && *in->at != ' ' && *in->at != '\t')
			return refuse(in, "expected a space");
	}
	if (machine->listed && machine->per_node)
		return refuse(in, "gpu or rank beside a list of node sizes");
	if ((machine->rates[NODE_GBS] == 0) != (machine->rates[BUS_GBS] > 0))
		return refuse(in, "nvlink:0 and bus stand together, where GPUs can't reach each other");
	if (!machine->listed &&
	    (long)machine->nodes * (machine->per_node ? machine->per_node : 1) > MAX_RANKS)
		return refuse(in, "more than %d ranks", MAX_RANKS);
	return 0;
}

static void set_rate(double *out, double value, double unit)
{
	if (value >= 0)
		*out = value * unit;
}

static void set_links(struct topo *topo, const struct machine *machine)
{
	const double *rates = machine->rates;
	set_rate(&topo->bus_gbs, rates[BUS_GBS], 1);
	if (rates[NODE_GBS] > 0)
		topo->node.bytes_per_ns = rates[NODE_GBS];
	set_rate(&topo->node.latency_ns, rates[NODE_US], 1000);
	set_rate(&topo->rail.bytes_per_ns, rates[RAIL_GBS], 1);
	set_rate(&topo->rail.latency_ns, rates[RAIL_US], 1000);
	set_rate(&topo->rail.send_ns, rates[SEND_US], 1000);
	set_rate(&topo->rail.recv_ns, rates[RECV_US], 1000);
	set_rate(&topo->rail.gap_ns, rates[GAP_US], 1000);
	set_rate(&topo->net_bytes_per_ns, rates[CORE_GBS], 1);
}

static int create(const struct machine *machine, const struct rates_links *hosts, const struct rates *gpus,
		  struct topo **out)
{
	int ranks = 0, per_node = machine->per_node ? machine->per_node : 1;
	for (int b = 0; b < machine->nodes; b++)
		ranks += machine->listed ? machine->sizes[b] : per_node;
	uint64_t *node_id = malloc((size_t)ranks * sizeof(*node_id));
	if (!node_id)
		return CORALE_ENOMEM;
	for (int b = 0, r = 0; b < machine->nodes; b++)
		for (int i = 0; i < (machine->listed ? machine->sizes[b] : per_node); i++)
			node_id[r++] = (uint64_t)b;
	struct topo *topo;
	int ret = topo_create(ranks, node_id, &topo);
	free(node_id);
	if (ret)
		return ret;
	if (machine->rates[BUS_GBS] > 0) {
		const struct rates in_host = rates_with_bus(gpus, gpus->name, machine->rates[BUS_GBS]);
		topo_set_gpus(topo, &in_host);
	} else if (machine->gpu)
		topo_set_gpus(topo, gpus);
	else
		topo_set_hosts(topo, hosts);
	set_links(topo, machine);
	*out = topo;
	return 0;
}

static struct machine new_machine(void)
{
	struct machine machine = { .nodes = 1 };
	for (int i = 0; i < RATES; i++)
		machine.rates[i] = -1;
	return machine;
}

/* Only keys that begin with "rail". */
static int are_rails(struct reader *in)
{
	for (const char *at = in->text; *(at += strspn(at, " \t")); at += strcspn(at, " \t")) {
		if (!strncmp(at, "rail", 4))
			continue;
		in->at = at;
		return refuse(in, "expected a rate between nodes: rail rail_us rail_send_us rail_recv_us "
				  "rail_gap_us rail_core");
	}
	return 0;
}

int topo_parse_rails(const char *text, struct topo *topo, char *error, size_t error_bytes)
{
	struct machine machine = new_machine();
	struct reader in = { text, text, error, error_bytes };
	int ret = are_rails(&in);
	in.at = text;
	ret = ret ? ret : read_machine(&in, &machine);
	if (!ret && topo)
		set_links(topo, &machine);
	free(machine.sizes);
	return ret;
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

int topo_parse_with(const char *text, const struct rates_links *hosts, const struct rates *gpus,
		    struct topo **out, char *error, size_t error_bytes)
{
	struct machine machine = new_machine();
	struct reader in = { text, text, error, error_bytes };
	int ret = read_machine(&in, &machine);
	if (!ret) {
		ret = create(&machine, hosts, gpus, out);
		if (ret)
			snprintf(error, error_bytes, "machine \"%s\": out of memory", text);
	}
	free(machine.sizes);
	return ret;
}

int topo_parse(const char *text, struct topo **out, char *error, size_t error_bytes)
{
	return topo_parse_with(text, rates_of_hosts(), rates_of_default_gpu(), out, error, error_bytes);
}
