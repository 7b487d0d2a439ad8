/* SPDX-License-Identifier: BSD-3-Clause */
/* The rule of adapters.h. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "adapters.h"

/* Ports of a GPU's best path, a bit each. */
struct nearest {
	uint64_t ports;
	enum adapters_path path;
};

/* The cost of a path. One that isn't known counts as a host bridge's, but not before one that is. */
static int cost_of(enum adapters_path path)
{
	static const int costs[] = { [ADAPTERS_PIX] = 0,
				     [ADAPTERS_PXB] = 1,
				     [ADAPTERS_PHB] = 2,
				     [ADAPTERS_UNKNOWN] = 3,
				     [ADAPTERS_SYS] = 4 };
	return costs[path];
}

static struct nearest find_nearest(const struct adapters *adapters, const char *gpu)
{
	struct nearest nearest = { 0, ADAPTERS_SYS };
	for (int p = 0; p < adapters->nports; p++) {
		const enum adapters_path path = adapters_path(adapters, gpu, p);
		if (adapters->port[p].use != ADAPTERS_COUNTS || cost_of(path) > cost_of(nearest.path))
			continue;
		if (path != nearest.path)
			nearest = (struct nearest){ 0, path };
		nearest.ports |= UINT64_C(1) << p;
	}
	return nearest;
}

/* Like strcmp, by the numbers that the texts stand for; those that are no PCI id come last. */
static int compare_gpus(const char *a, const char *b)
{
	uint64_t x = UINT64_MAX, y = UINT64_MAX;
	const int is_known = !adapters_parse_pci(a, &x) + !adapters_parse_pci(b, &y);
	return x != y ? (x < y ? -1 : 1) : is_known ? 0 : strcasecmp(a, b);
}

static int came_before(const char *const *gpus, int i)
{
	for (int j = 0; j < i; j++)
		if (!compare_gpus(gpus[j], gpus[i]))
			return 1;
	return 0;
}

/* GPUs that share the ports of GPU i, itself included, and how many of them precede it. */
struct sharers {
	int gpus, before;
};

static struct sharers count_sharers(const struct adapters *adapters, const char *const *gpus, int ngpus,
				    int i, struct nearest nearest)
{
	struct sharers sharers = { 0, 0 };
	for (int j = 0; j < ngpus; j++) {
		if (came_before(gpus, j))
			continue;
		const struct nearest other = find_nearest(adapters, gpus[j]);
		if (other.ports != nearest.ports || other.path != nearest.path)
			continue;
		sharers.gpus++;
		sharers.before += compare_gpus(gpus[j], gpus[i]) < 0;
	}
	return sharers;
}

/* Rails first .. last - 1 of the ports in the set. */
static void assign(struct adapters_choice *choice, const struct adapters *adapters, uint64_t ports, int first,
		   int last)
{
	for (int p = 0, n = 0; p < adapters->nports; p++) {
		if (!(ports >> p & 1))
			continue;
		if (n >= first && n < last && choice->rails < ADAPTERS_RAILS)
			snprintf(choice->device[choice->rails++], ADAPTERS_DEVICE_BYTES, "%s:%d",
				 adapters->port[p].name, adapters->port[p].number);
		n++;
	}
}

static void explain(struct adapters_choice *choice, int ports, const struct sharers *sharers)
{
	int at = snprintf(choice->reason, sizeof(choice->reason), "%s: %s", adapters_path_name(choice->path),
			  adapters_path_text(choice->path));
	if (ports > 1 || sharers->gpus > 1)
		snprintf(choice->reason + at, sizeof(choice->reason) - (size_t)at,
			 "; %d port%s equally near, for %d GPU%s", ports, ports > 1 ? "s are" : " is",
			 sharers->gpus, sharers->gpus > 1 ? "s" : "");
}

void adapters_choose(const struct adapters *adapters, const char *const *gpus, int ngpus, int i,
		     struct adapters_choice *choice)
{
	static const enum adapters_gpudirect by_path[] = { [ADAPTERS_PIX] = ADAPTERS_GPUDIRECT_ON,
							   [ADAPTERS_PXB] = ADAPTERS_GPUDIRECT_ON,
							   [ADAPTERS_PHB] = ADAPTERS_GPUDIRECT_IF_MEASURED,
							   [ADAPTERS_SYS] = ADAPTERS_GPUDIRECT_OFF,
							   [ADAPTERS_UNKNOWN] =
							       ADAPTERS_GPUDIRECT_IF_MEASURED };
	const struct nearest nearest = find_nearest(adapters, gpus[i]);
	const int ports = __builtin_popcountll(nearest.ports);

	*choice = (struct adapters_choice){ .path = nearest.path };
	if (!ports) {
		choice->path = ADAPTERS_UNKNOWN;
		snprintf(choice->reason, sizeof(choice->reason), "%s", adapters->none);
		return;
	}
	const struct sharers sharers = count_sharers(adapters, gpus, ngpus, i, nearest);
	const int first = sharers.before * ports / sharers.gpus,
		  next = (sharers.before + 1) * ports / sharers.gpus;
	assign(choice, adapters, nearest.ports, first, next > first ? next : first + 1);
	choice->gpudirect = by_path[nearest.path];
	explain(choice, ports, &sharers);
}
