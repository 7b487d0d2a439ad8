/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine as text: "node:512 gpu:8 nvlink:390 rail:50". */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corale.h"
#include "plan/machine/rates.h"
#include "plan/machine/topo_rails.h"

enum { MAX_RANKS = 1 << 22 };

/* Rates inside a node. */
enum rate { NODE_GBS, NODE_US, BUS_GBS, RATES };

struct key {
	const char *name;
	enum rate rate;
	int of_gpus; /* only a machine of GPUs has it */
	int may_be_0;
};

static const struct key keys[] = { { "nvlink", NODE_GBS, 1, 1 },
				   { "memory", NODE_GBS, 0, 0 },
				   { "nvlink_us", NODE_US, 0, 0 },
				   { "memory_us", NODE_US, 0, 0 },
				   { "bus", BUS_GBS, 1, 0 } };
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

struct machine {
	int nodes, listed; /* listed: node:[8,8,4] */
	int *sizes; /* of each node where they are listed */
	long ranks; /* their sum */
	int per_node; /* gpu or rank; 0: not said */
	int gpu;
	double rates[RATES]; /* below 0: not said */
	struct topo_rails rails;
	unsigned given; /* bit of each thing said so far: of a rate its number, then: */
};
enum { GIVEN_NODES = RATES, GIVEN_PER_NODE };

static int read_count(struct topo_reader *in, int *out)
{
	char *end;
	long value = strtol(in->at, &end, 10);
	if (*in->at < '0' || *in->at > '9' || value < 1 || value > MAX_RANKS)
		return topo_refuse(in, "expected a number from 1 to %d", MAX_RANKS);
	in->at = end;
	*out = (int)value;
	return 0;
}

static int read_node_list(struct topo_reader *in, struct machine *machine)
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
			return topo_refuse(in, "more than %d ranks", MAX_RANKS);
	} while (*in->at == ',');
	if (*in->at != ']')
		return topo_refuse(in, "expected ',' or ']' in the list of node sizes");
	in->at++;
	return 0;
}

static int key_is(const char *key, size_t length, const char *name)
{
	return strlen(name) == length && !memcmp(key, name, length);
}

static int read_word(struct topo_reader *in, struct machine *machine)
{
	const char *key = in->at;
	size_t length = strcspn(key, ": \t");
	if (key[length] != ':')
		return topo_refuse(in, "expected key:value");
	in->at += length + 1;
	if (key_is(key, length, "node")) {
		if (topo_give(in, &machine->given, GIVEN_NODES))
			return CORALE_EINVAL;
		return *in->at == '[' ? read_node_list(in, machine) : read_count(in, &machine->nodes);
	}
	if (key_is(key, length, "gpu") || key_is(key, length, "rank")) {
		machine->gpu |= *key == 'g';
		return topo_give(in, &machine->given, GIVEN_PER_NODE) ? CORALE_EINVAL
								      : read_count(in, &machine->per_node);
	}
	for (const struct key *k = keys; k < keys + KEYS; k++) {
		if (!key_is(key, length, k->name))
			continue;
		machine->gpu |= k->of_gpus;
		return topo_give(in, &machine->given, (int)k->rate)
			   ? CORALE_EINVAL
			   : topo_read_rate(in, k->may_be_0, &machine->rates[k->rate]);
	}
	if (topo_find_rail(key, length) >= 0)
		return topo_read_rail(in, topo_find_rail(key, length), &machine->rails);
	in->at = key;
	return topo_refuse(
	    in, "unknown key; known: node gpu rank nvlink memory bus rail nvlink_us memory_us rail_us "
		"rail_send_us rail_recv_us rail_gap_us rail_core");
}

static int read_machine(struct topo_reader *in, struct machine *machine)
{
	while (topo_next_word(in)) {
		int ret = read_word(in, machine);
		ret = ret ? ret : topo_end_word(in);
		if (ret)
			return ret;
	}
	if (machine->listed && machine->per_node)
		return topo_refuse(in, "gpu or rank beside a list of node sizes");
	if ((machine->rates[NODE_GBS] == 0) != (machine->rates[BUS_GBS] > 0))
		return topo_refuse(in, "nvlink:0 and bus stand together, where GPUs can't reach each other");
	if (!machine->listed &&
	    (long)machine->nodes * (machine->per_node ? machine->per_node : 1) > MAX_RANKS)
		return topo_refuse(in, "more than %d ranks", MAX_RANKS);
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
	topo_set_rails(topo, &machine->rails);
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

int machine_parse_with(const char *text, const struct rates_links *hosts, const struct rates *gpus,
		       struct topo **out, char *error, size_t error_bytes)
{
	struct machine machine = new_machine();
	struct topo_reader in = { text, text, error, error_bytes };
	int ret = read_machine(&in, &machine);
	if (!ret) {
		ret = create(&machine, hosts, gpus, out);
		if (ret)
			snprintf(error, error_bytes, "machine \"%s\": out of memory", text);
	}
	free(machine.sizes);
	return ret;
}

int machine_parse(const char *text, struct topo **out, char *error, size_t error_bytes)
{
	return machine_parse_with(text, rates_of_hosts(), rates_of_default_gpu(), out, error, error_bytes);
}
