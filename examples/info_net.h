/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of corale-info --net. */
#ifndef INFO_NET_H
#define INFO_NET_H

#include "net/adapters.h"

enum { INFO_GPUS = 64, INFO_RANKS = 64 };

/* A GPU of this machine. */
struct info_gpu {
	char pci[ADAPTERS_PCI_BYTES];
	char name[64]; /* "": this process doesn't see it */
	struct adapters_choice choice; /* with a rank on each GPU */
};

/* A rank of this host, under a launcher. */
struct info_rank {
	int rank, local;
	int is_there; /* it has answered */
	uint64_t adapters; /* adapters_key */
	char gpu[ADAPTERS_PCI_BYTES]; /* that it sees, in turn by local rank; "": none */
};

/* What UCX could do for GPUDirect. */
struct info_ucx {
	int is_there; /* in this build */
	int can_register; /* memory of GPUs, as far as can be known without one */
	char facts[320]; /* mode, files, versions */
	char advice[320];
};

struct info_net {
	const struct settings *settings;
	const struct adapters *adapters;
	int ngpus, nranks;
	struct info_gpu gpu[INFO_GPUS];
	struct info_rank rank[INFO_RANKS]; /* by local rank; none without a launcher */
	struct info_ucx ucx;
};

/* ---- info_ranks.c ---- */

/* What the launcher says of this process; 0: there is none. */
int info_ranks_find(struct info_rank *self, int *locals);
/* Sends self to the first local rank; the first one receives from the others, for some seconds at most. */
void info_ranks_gather(const struct info_rank *self, int locals, struct info_rank *ranks);

/* ---- info_ucx.c, info_noucx.c ---- */

void info_ucx_look(struct info_ucx *out);
/* 0, or why UCX can't open the device, alone or for memory of GPUs. */
int info_ucx_open(const char *device, int gpu_slots, char *why_not, size_t bytes);

/* ---- info_system.c: files of the kernel under sysfs ("/sys"); -1: not known ---- */

/* 1: the IOMMU translates what the device reads and writes. */
int info_system_translates(const char *sysfs, uint64_t pci);
/* 1: the switch port sends requests between devices to the root complex (ACS). Only root can see it. */
int info_system_redirects(const char *sysfs, uint64_t pci);
/* 1: NVIDIA's driver has open kernel modules; proc: "/proc". */
int info_system_has_open_driver(const char *proc);
/* 1: a virtual machine. */
int info_system_is_virtual(const char *proc);

/* ---- info_slow.c ---- */

/* A section: what is slow or off, and why, a sentence each. */
void info_slow_print(const struct info_net *net);

#endif
