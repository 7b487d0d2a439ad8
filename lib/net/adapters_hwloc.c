/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PCI tree and the adapters in it, by hwloc. I/O objects have no depth in hwloc's tree (hwloc_get_common_ancestor_obj must not be given
 * any): their chains of parents are taken over as they are.
 */
#include <hwloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "corale.h"
#include "adapters.h"
#include "base/log.h"

enum { NVIDIA = 0x10de, DISPLAY = 0x03 }; /* vendor, class */

#if HWLOC_API_VERSION >= 0x00020100
enum { WHOLE_MACHINE = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED };
#else
enum { WHOLE_MACHINE = HWLOC_TOPOLOGY_FLAG_WHOLE_SYSTEM };
#endif

/* hwloc's plug-ins for accelerators would start CUDA, NVML or OpenCL in the user's process. */
static void keep_out_plugins(hwloc_topology_t topology)
{
#if HWLOC_API_VERSION >= 0x00020100
	static const char *const names[] = { "cuda", "nvml", "opencl", "gl", "rsmi", "levelzero" };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, names[i]);
#else
	(void)topology;
#endif
}

/* Ranks of a node may each be confined to some of its cores: all see the tree of the whole machine. */
static int load(hwloc_topology_t topology, const char *file)
{
	keep_out_plugins(topology);
	if (file && hwloc_topology_set_xml(topology, file))
		return -1;
	if (hwloc_topology_set_flags(topology, WHOLE_MACHINE) ||
	    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL))
		return -1;
	return hwloc_topology_load(topology);
}

static uint64_t id_of(const struct hwloc_pcidev_attr_s *pci)
{
	return (uint64_t)pci->domain << 16 | (unsigned)pci->bus << 8 | (unsigned)pci->dev << 3 | pci->func;
}

static int is_host_bridge(hwloc_obj_t object)
{
	return object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI;
}

static uint64_t nodes_of(hwloc_topology_t topology, hwloc_obj_t object)
{
	const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, object);
	uint64_t nodes = 0;
	for (int i = 0; place && place->nodeset && i < 64; i++)
		nodes |= (uint64_t)(hwloc_bitmap_isset(place->nodeset, (unsigned)i) != 0) << i;
	return nodes;
}

static struct adapters_object describe(hwloc_topology_t topology, hwloc_obj_t object)
{
	struct adapters_object out = { .nodes = nodes_of(topology, object), .above = -1 };
	if (object->type == HWLOC_OBJ_PCI_DEVICE) {
		out.id = id_of(&object->attr->pcidev);
		out.is_gpu =
		    object->attr->pcidev.vendor_id == NVIDIA && object->attr->pcidev.class_id >> 8 == DISPLAY;
	} else {
		out.kind = is_host_bridge(object) ? ADAPTERS_HOST_BRIDGE : ADAPTERS_BRIDGE;
		out.id = is_host_bridge(object) ? 0 : id_of(&object->attr->bridge.upstream.pci);
	}
	return out;
}

/* An object of hwloc keeps its index, plus 1, as userdata. */
static int index_of(hwloc_obj_t object)
{
	return (int)(intptr_t)object->userdata - 1;
}

static int is_pci(hwloc_obj_t object)
{
	return object && (object->type == HWLOC_OBJ_PCI_DEVICE || object->type == HWLOC_OBJ_BRIDGE);
}

/* Adds an object and all above it, from below. */
static int add_chain(struct adapters *adapters, hwloc_topology_t topology, hwloc_obj_t object)
{
	int below = -1, index = -1, ret = 0;
	for (; !ret && is_pci(object) && index < 0; object = object->parent) {
		index = index_of(object);
		if (index < 0) {
			const struct adapters_object described = describe(topology, object);
			int added;
			ret = adapters_add_object(adapters, &described, &added);
			if (ret)
				break;
			object->userdata = (void *)(intptr_t)(added + 1);
			if (below >= 0)
				adapters->object[below].above = added;
			below = added;
		} else if (below >= 0) {
			adapters->object[below].above = index;
		}
	}
	return ret;
}

/* hwloc keeps what the kernel's files said of ports: "Port1State" is "4". Returns how many ports it has added. */
static int add_ports_of_tree(struct adapters *adapters, const struct adapters_port *like, hwloc_obj_t object)
{
	int n = 0;
	for (int number = 1; number <= 8; number++) {
		struct adapters_port port = *like;
		char name[32];
		snprintf(name, sizeof(name), "Port%dState", number);
		const char *state = hwloc_obj_get_info_by_name(object, name);
		if (!state)
			continue;
		port.number = number;
		port.is_active = atoi(state) == 4;
		port.use = port.is_active ? ADAPTERS_COUNTS : ADAPTERS_NOT_ACTIVE;
		adapters_add_port(adapters, &port);
		n++;
	}
	return n;
}

static void add_adapter(struct adapters *adapters, const struct adapters_source *source, hwloc_obj_t object)
{
	hwloc_obj_t device = object->parent;
	while (device && device->type == HWLOC_OBJ_OS_DEVICE)
		device = device->parent;
	struct adapters_port port = { .number = 1,
				      .is_active = 1,
				      .object = is_pci(device) ? index_of(device) : -1 };
	snprintf(port.name, sizeof(port.name), "%s", object->name ? object->name : "");
	if (source->ports && adapters_add_ports(adapters, source->ports, port.name, port.object))
		return;
	if (!add_ports_of_tree(adapters, &port, object))
		adapters_add_port(adapters, &port);
}

/* Until hwloc 3 a device has one type, from then on a set of them: an adapter may be a network interface too. */
static int is_adapter(hwloc_obj_t device)
{
#if HWLOC_API_VERSION >= 0x00030000
	return (device->attr->osdev.types & HWLOC_OBJ_OSDEV_OPENFABRICS) != 0;
#else
	return device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
#endif
}

static int take_over(struct adapters *adapters, const struct adapters_source *source,
		     hwloc_topology_t topology)
{
	int ret = 0;
	for (hwloc_obj_t device = NULL; !ret && (device = hwloc_get_next_pcidev(topology, device));)
		ret = add_chain(adapters, topology, device);
	for (hwloc_obj_t device = NULL; !ret && (device = hwloc_get_next_osdev(topology, device));)
		if (is_adapter(device))
			add_adapter(adapters, source, device);
	snprintf(adapters->tree, sizeof(adapters->tree), "%s%s", source->tree ? source->tree : "this machine",
		 adapters->nobjects ? "" : ": it shows no PCI devices");
	return ret;
}

int adapters_read_tree(const struct adapters_source *source, struct adapters *adapters)
{
	hwloc_topology_t topology;
	int ret = 0;
	if (hwloc_topology_init(&topology))
		return CORALE_ENOMEM;
	if (!load(topology, source->tree))
		ret = take_over(adapters, source, topology);
	else if (source->tree)
		ret = log_error(CORALE_ESETTING, -1,
				"CORALE_TOPO_FILE=%s can't be read as a machine: expected a file that "
				"\"lstopo --of xml\" has written; correct or unset it",
				source->tree);
	else
		snprintf(adapters->tree, sizeof(adapters->tree), "none: hwloc can't read this machine");
	hwloc_topology_destroy(topology);
	return ret;
}
