/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of ports, and paths in the PCI tree. */
#define _GNU_SOURCE
#include "adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corale.h"
#include "base/hash.h"

int adapters_parse_pci(const char *text, uint64_t *id)
{
	const size_t length = strlen(text);
	char with_domain[64];
	unsigned domain = 0, bus = 0, device = 0, function = 0;
	int used = -1, end = -1;
	if (length > 32 || strspn(text, "0123456789abcdefABCDEF:.") < length)
		return CORALE_EINVAL;
	const char *colon = strchr(text, ':');
	snprintf(with_domain, sizeof(with_domain), "%s%s", colon && strchr(colon + 1, ':') ? "" : "0:", text);
	sscanf(with_domain, "%8x:%2x:%2x%n.%1x%n", &domain, &bus, &device, &used, &function, &end);
	used = end < 0 ? used : end;
	if (used < 0 || with_domain[used] || device > 31 || function > 7)
		return CORALE_EINVAL;
	*id = (uint64_t)domain << 16 | bus << 8 | device << 3 | function;
	return 0;
}

void adapters_print_pci(uint64_t id, char text[ADAPTERS_PCI_BYTES])
{
	snprintf(text, ADAPTERS_PCI_BYTES, "%04x:%02x:%02x.%x", (unsigned)(id >> 16),
		 (unsigned)(id >> 8) & 255, (unsigned)id >> 3 & 31, (unsigned)id & 7);
}

int adapters_add_object(struct adapters *adapters, const struct adapters_object *object, int *index)
{
	if (adapters->nobjects == adapters->room) {
		const int room = adapters->room ? 2 * adapters->room : 64;
		struct adapters_object *more =
		    realloc(adapters->object, (size_t)room * sizeof(*adapters->object));
		if (!more)
			return CORALE_ENOMEM;
		adapters->object = more;
		adapters->room = room;
	}
	*index = adapters->nobjects++;
	adapters->object[*index] = *object;
	return 0;
}

static int comes_before(const struct adapters *adapters, const struct adapters_port *a,
			const struct adapters_port *b)
{
	const uint64_t x = a->object < 0 ? UINT64_MAX : adapters->object[a->object].id,
		       y = b->object < 0 ? UINT64_MAX : adapters->object[b->object].id;
	const int names = strverscmp(a->name, b->name);
	if (x != y)
		return x < y;
	return names ? names < 0 : a->number < b->number;
}

void adapters_add_port(struct adapters *adapters, const struct adapters_port *port)
{
	int at = adapters->nports;
	if (at == ADAPTERS_PORTS)
		return;
	for (; at && comes_before(adapters, port, &adapters->port[at - 1]); at--)
		adapters->port[at] = adapters->port[at - 1];
	adapters->port[at] = *port;
	adapters->nports++;
}

void adapters_free(struct adapters *adapters)
{
	if (adapters)
		free(adapters->object);
	free(adapters);
}

size_t adapters_list(const struct adapters *adapters, char *text, size_t bytes)
{
	size_t at = 0;
	if (bytes)
		text[0] = '\0';
	for (int p = 0; p < adapters->nports; p++) {
		const struct adapters_port *port = &adapters->port[p];
		if (port->use == ADAPTERS_COUNTS)
			at += (size_t)snprintf(at < bytes ? text + at : NULL, at < bytes ? bytes - at : 0,
					       "%s%s:%d", at ? "," : "", port->name, port->number);
	}
	return at;
}

uint64_t adapters_key(const struct adapters *adapters)
{
	uint64_t key = hash_start;
	for (int p = 0; p < adapters->nports; p++) {
		const struct adapters_port *port = &adapters->port[p];
		const int numbers[] = { port->number, port->object };
		if (port->use != ADAPTERS_COUNTS)
			continue;
		key = hash_bytes(key, port->name, strlen(port->name) + 1);
		key = hash_bytes(key, numbers, sizeof(numbers));
	}
	for (int i = 0; i < adapters->nobjects; i++) {
		const struct adapters_object *object = &adapters->object[i];
		const uint64_t numbers[] = { object->id, object->nodes, (uint64_t)object->above,
					     object->kind };
		key = hash_bytes(key, numbers, sizeof(numbers));
	}
	return key;
}

/* ---- Paths ---- */

/* The lowest object above both, counting the bridges on the way up from each; -1: none. */
static int find_common(const struct adapters *adapters, int a, int b, int bridges[2])
{
	bridges[0] = 0;
	for (int x = a; x >= 0; x = adapters->object[x].above) {
		bridges[1] = 0;
		for (int y = b; y >= 0; y = adapters->object[y].above) {
			if (x == y)
				return x;
			bridges[1] += adapters->object[y].kind != ADAPTERS_DEVICE;
		}
		bridges[0] += adapters->object[x].kind != ADAPTERS_DEVICE;
	}
	return -1;
}

/* A switch is two bridges on the way down: its port to the host and one of its ports to devices. Below the first one of a common switch a
 * device has the second one, and two more for each further switch. */
static enum adapters_path path_between(const struct adapters *adapters, int a, int b)
{
	int bridges[2];
	const int common = find_common(adapters, a, b, bridges);
	if (common >= 0 && adapters->object[common].kind != ADAPTERS_HOST_BRIDGE)
		return bridges[0] <= 1 && bridges[1] <= 1 ? ADAPTERS_PIX : ADAPTERS_PXB;
	const uint64_t x = adapters->object[a].nodes, y = adapters->object[b].nodes;
	if (common >= 0 || !x || !y || x & y)
		return ADAPTERS_PHB;
	return ADAPTERS_SYS;
}

/* -1: it isn't in the tree. */
static int find_device(const struct adapters *adapters, const char *pci)
{
	uint64_t id;
	if (adapters_parse_pci(pci, &id))
		return -1;
	for (int i = 0; i < adapters->nobjects; i++)
		if (adapters->object[i].kind == ADAPTERS_DEVICE && adapters->object[i].id == id)
			return i;
	return -1;
}

enum adapters_path adapters_path(const struct adapters *adapters, const char *gpu, int port)
{
	const int device = find_device(adapters, gpu), object = adapters->port[port].object;
	return device < 0 || object < 0 ? ADAPTERS_UNKNOWN : path_between(adapters, device, object);
}

/* Bridges from an object up to common, which is not one of them. */
static int add_bridges(const struct adapters *adapters, int object, int common, uint64_t *out, int most)
{
	int n = 0;
	for (int i = adapters->object[object].above; i >= 0 && i != common; i = adapters->object[i].above)
		if (n < most)
			out[n++] = adapters->object[i].id;
	return n;
}

int adapters_switch_ports(const struct adapters *adapters, const char *gpu, int port, uint64_t *out, int most)
{
	const enum adapters_path path = adapters_path(adapters, gpu, port);
	int bridges[2];
	if (path != ADAPTERS_PIX && path != ADAPTERS_PXB)
		return 0;
	const int device = find_device(adapters, gpu), object = adapters->port[port].object,
		  common = find_common(adapters, device, object, bridges),
		  n = add_bridges(adapters, device, common, out, most);
	return n + add_bridges(adapters, object, common, out + n, most - n);
}

const char *adapters_path_name(enum adapters_path path)
{
	static const char *const names[] = { "PIX", "PXB", "PHB", "SYS", "unknown" };
	return names[path];
}

const char *adapters_path_text(enum adapters_path path)
{
	static const char *const texts[] = { "through one PCIe switch", "through several PCIe switches",
					     "through a host bridge", "between NUMA nodes",
					     "by a path that the PCI tree doesn't show" };
	return texts[path];
}
