/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA adapters of a machine, their paths to its GPUs, and which of them a rank's GPU uses.
 *
 * The rule of adapters_choose, from what all ranks of a node know alike:
 * 1. Ports count that are active and that CORALE_NET_DEVICES, else NCCL_IB_HCA, names. Where neither is set, ports of less than half the
 *    rate of the fastest one don't count: a network for management beside the one for data.
 * 2. A GPU's ports are those of its best path, in the order of NCCL (src/graph/topo.h): PIX, PXB, PHB, then unknown, then SYS.
 * 3. GPUs with the same ports and path share them, GPUs and ports in the order of their PCI ids: of n ports, GPU k of g takes those from
 *    k n/g up to (k+1) n/g, or port k n/g where there are more GPUs than ports. So 8 GPUs and 8 ports make pairs, 8 GPUs and 4 ports two
 *    GPUs a port, and one GPU beside two ports has two rails. In virtual machines that hide the switches neighbours by number, which
 *    mostly share a switch, come together.
 * The result doesn't depend on the order of ranks; ranks on one GPU use the same ports. NCCL deals out ports by channel in much the same way
 * (ncclTopoGetLocalNet); unlike it, this library never sends through a GPU nearer to the port (PXN).
 * Cost: a walk of two chains of bridges for each pair of GPU and port: 40 us for 8 GPUs and 10 ports, 160 us for 72 ranks on them. Reading the
 * machine takes 13 ms on a small one, once a process.
 *
 * GPUDirect: through one switch or several (PIX, PXB) data flow at the speed of the link, as NCCL assumes by default. Host bridges (PHB)
 * forward peer traffic at speeds that differ widely between processors, and between sockets (SYS) slowly everywhere.
 */
#ifndef ADAPTERS_H
#define ADAPTERS_H

#include <stddef.h>
#include <stdint.h>

enum {
	ADAPTERS_PORTS = 64, /* a set of ports is a word of bits */
	ADAPTERS_RAILS = 8,
	ADAPTERS_NAME_BYTES = 32,
	ADAPTERS_DEVICE_BYTES = 40, /* "mlx5_0:1" */
	ADAPTERS_PCI_BYTES = 24 /* "0000:1b:00.0" */
};

/* Between a GPU and an adapter. */
enum adapters_path {
	ADAPTERS_PIX, /* one switch */
	ADAPTERS_PXB, /* several switches, no host bridge */
	ADAPTERS_PHB, /* a host bridge, or several of one NUMA node */
	ADAPTERS_SYS, /* between NUMA nodes */
	ADAPTERS_UNKNOWN /* one of the two is not in the PCI tree */
};

/* Whether a port counts, or why it doesn't. */
enum adapters_use { ADAPTERS_COUNTS, ADAPTERS_NOT_NAMED, ADAPTERS_NOT_ACTIVE, ADAPTERS_SLOW };

struct adapters_port {
	char name[ADAPTERS_NAME_BYTES]; /* of the adapter */
	char layer[16]; /* "InfiniBand", "Ethernet"; "": not known */
	int number;
	int is_active;
	int gbits; /* a second; 0: not known */
	int object; /* the adapter in the PCI tree; -1: it is not there */
	enum adapters_use use;
};

enum adapters_kind { ADAPTERS_DEVICE, ADAPTERS_BRIDGE, ADAPTERS_HOST_BRIDGE };

/* A device or bridge of the PCI tree. */
struct adapters_object {
	uint64_t id; /* adapters_parse_pci's; a host bridge: 0 */
	uint64_t nodes; /* NUMA nodes of its host bridge, a bit each; 0: not known */
	int above; /* the bridge; -1: none */
	enum adapters_kind kind;
	int is_gpu; /* of NVIDIA */
};

struct adapters {
	int nports, nobjects, room;
	struct adapters_port port[ADAPTERS_PORTS]; /* by PCI id, then name, then number */
	struct adapters_object *object;
	char tree[288]; /* where the PCI tree is from, or why there is none, for people */
	char none[320]; /* why no port counts */
};

struct adapters_source {
	const char *tree; /* a file of hwloc; NULL: this machine */
	const char *ports; /* "/sys/class/infiniband"; NULL: what the tree says of ports */
};

enum adapters_gpudirect { ADAPTERS_GPUDIRECT_OFF, ADAPTERS_GPUDIRECT_IF_MEASURED, ADAPTERS_GPUDIRECT_ON };

struct adapters_choice {
	int rails; /* 0: no adapter, and reason says why */
	char device[ADAPTERS_RAILS]
		   [ADAPTERS_DEVICE_BYTES]; /* of each rail, as UCX's NET_DEVICES has it: "mlx5_0:1" */
	enum adapters_path path; /* the same to all of them */
	enum adapters_gpudirect gpudirect; /* by the path alone */
	char reason[384]; /* for people */
};

/* The adapters of this machine by the process's settings, read by the first call of the process. 0 or CORALE_ESETTING, logged once,
 * CORALE_ENOMEM. Any thread. */
int adapters_machine(const struct adapters **out);

/* gpus: PCI ids ("0000:1b:00.0") of the GPUs of all ranks of the node, equal ones too, in any order; i: whose. Pure. */
void adapters_choose(const struct adapters *adapters, const char *const *gpus, int ngpus, int i,
		     struct adapters_choice *choice);

/* Equal on two ranks of a node if and, but for chance, only if they choose alike: containers may show them different adapters. */
uint64_t adapters_key(const struct adapters *adapters);

enum adapters_path adapters_path(const struct adapters *adapters, const char *gpu, int port);
/* Ports of switches that data between the two pass if they pass no host bridge: PCI ids into out, at most most; returns how many. */
int adapters_switch_ports(const struct adapters *adapters, const char *gpu, int port, uint64_t *out,
			  int most);
const char *adapters_path_name(enum adapters_path path); /* "PIX" */
const char *adapters_path_text(enum adapters_path path); /* "one PCIe switch" */

/* The ports that count as UCX's list of devices, "mlx5_0:1,mlx5_1:1"; returns its length, like snprintf. */
size_t adapters_list(const struct adapters *adapters, char *text, size_t bytes);

/* [domain:]bus:device[.function], of either case and any width; 0, or CORALE_EINVAL. */
int adapters_parse_pci(const char *text, uint64_t *id);
void adapters_print_pci(uint64_t id, char text[ADAPTERS_PCI_BYTES]);

/* ---- The parts of adapters_machine ---- */

/* All ports count that are active. 0, CORALE_ENOMEM, or CORALE_ESETTING, logged: the file can't be used. */
int adapters_read(const struct adapters_source *source, struct adapters **out);
/* Sets which ports count; "" is a setting that is unset. 0, or CORALE_ESETTING, logged. */
int adapters_select(struct adapters *adapters, const char *net_devices, const char *ib_hca);
void adapters_free(struct adapters *adapters); /* NULL is allowed */

/* By what reads them. object: -1, or an index; 0, or CORALE_ENOMEM. A port without room is left out. */
void adapters_add_port(struct adapters *adapters, const struct adapters_port *port);
int adapters_add_object(struct adapters *adapters, const struct adapters_object *object, int *index);
/* The ports of an adapter by the files in folder/name; returns how many it has added. */
int adapters_add_ports(struct adapters *adapters, const char *folder, const char *name, int object);

/* The adapters of the folder source->ports. */
void adapters_read_files(const struct adapters_source *source, struct adapters *adapters);
/* The PCI tree and the adapters in it (adapters_hwloc.c, or by a module adapters_module.c), or the adapters alone (adapters_none.c). */
int adapters_read_tree(const struct adapters_source *source, struct adapters *adapters);

#endif
