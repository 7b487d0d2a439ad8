/* A machine as text: "node:512 gpu:8 nvlink:390 rail:50". */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corale.h"
#include "rates.h"
#include "topo.h"

enum { MAX_RANKS = 1 << 22 };

struct machine {
	int nodes, listed; /* listed: node:[8,8,4] */
	int *sizes; /* of each node where they are listed */
	long ranks; /* their sum */
	int per_node; /* gpu or rank; 0: not said */
	int gpu;
	double node_bytes_per_ns, rail_bytes_per_ns, node_us, rail_us; /* 0: not said */
};

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

static int read_count(struct reader *in, int *out)
{
	char *end;
	long value = strtol(in->at, &end, 10);
	if (end == in->at || value < 1 || value > MAX_RANKS)
		return refuse(in, "expected a number from 1 to %d", MAX_RANKS);
	in->at = end;
	*out = (int)value;
	return 0;
}

static int read_positive(struct reader *in, double *out)
{
	char *end;
	double value = strtod(in->at, &end);
	if (end == in->at || !(value > 0) || value > 1e9)
		return refuse(in, "expected a positive number");
	in->at = end;
	*out = value;
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

static int read_word(struct reader *in, struct machine *machine)
{
	const char *key = in->at;
	size_t length = strcspn(key, ": \t");
	if (key[length] != ':')
		return refuse(in, "expected key:value");
	in->at += length + 1;
	if (key_is(key, length, "node"))
		return *in->at == '[' ? read_node_list(in, machine) : read_count(in, &machine->nodes);
	if (key_is(key, length, "gpu") || key_is(key, length, "rank")) {
		machine->gpu = *key == 'g';
		return read_count(in, &machine->per_node);
	}
	if (key_is(key, length, "nvlink") || key_is(key, length, "memory")) {
		machine->gpu |= *key == 'n';
		return read_positive(in, &machine->node_bytes_per_ns);
	}
	if (key_is(key, length, "nvlink_us") || key_is(key, length, "memory_us"))
		return read_positive(in, &machine->node_us);
	if (key_is(key, length, "rail"))
		return read_positive(in, &machine->rail_bytes_per_ns);
	if (key_is(key, length, "rail_us"))
		return read_positive(in, &machine->rail_us);
	in->at = key;
	return refuse(in, "unknown key; known: node gpu rank nvlink memory rail nvlink_us memory_us rail_us");
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
	if (!machine->listed &&
	    (long)machine->nodes * (machine->per_node ? machine->per_node : 1) > MAX_RANKS)
		return refuse(in, "more than %d ranks", MAX_RANKS);
	return 0;
}

static void set_links(struct topo *topo, const struct machine *machine)
{
	if (machine->gpu)
		topo_set_gpus(topo, rates_of_default_gpu());
	if (machine->node_bytes_per_ns > 0)
		topo->node.bytes_per_ns = machine->node_bytes_per_ns;
	if (machine->rail_bytes_per_ns > 0)
		topo->rail.bytes_per_ns = machine->rail_bytes_per_ns;
	if (machine->node_us > 0)
		topo->node.latency_ns = machine->node_us * 1000;
	if (machine->rail_us > 0)
		topo->rail.latency_ns = machine->rail_us * 1000;
}

static int create(const struct machine *machine, struct topo **out)
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
	set_links(topo, machine);
	*out = topo;
	return 0;
}

int topo_parse(const char *text, struct topo **out, char *error, size_t error_bytes)
{
	struct machine machine = { .nodes = 1 };
	struct reader in = { text, text, error, error_bytes };
	int ret = read_machine(&in, &machine);
	if (!ret) {
		ret = create(&machine, out);
		if (ret)
			snprintf(error, error_bytes, "machine \"%s\": out of memory", text);
	}
	free(machine.sizes);
	return ret;
}
