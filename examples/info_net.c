/* SPDX-License-Identifier: BSD-3-Clause */
/* corale-info --net: GPUs, RDMA adapters, the paths between them, what each GPU uses, and what GPUDirect has to go by. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "corale.h"
#include "cuda/engine.h"
#include "info.h"
#include "info_net.h"

/* ---- GPUs: those that this process sees, and others of the PCI tree ---- */

static struct info_gpu *find_gpu(struct info_net *net, uint64_t id)
{
	uint64_t other;
	for (int i = 0; i < net->ngpus; i++)
		if (!adapters_parse_pci(net->gpu[i].pci, &other) && other == id)
			return &net->gpu[i];
	return NULL;
}

static void add_gpu(struct info_net *net, uint64_t id, const char *name)
{
	struct info_gpu *gpu = find_gpu(net, id);
	if (!gpu && net->ngpus < INFO_GPUS) {
		gpu = &net->gpu[net->ngpus++];
		adapters_print_pci(id, gpu->pci);
	}
	if (gpu && name)
		snprintf(gpu->name, sizeof(gpu->name), "%s", name);
}

static int by_pci(const void *a, const void *b)
{
	uint64_t x = 0, y = 0;
	adapters_parse_pci(((const struct info_gpu *)a)->pci, &x);
	adapters_parse_pci(((const struct info_gpu *)b)->pci, &y);
	return x < y ? -1 : x > y;
}

static int count_visible(void)
{
	char why_not[256];
	return engine_process.available(why_not, sizeof(why_not)) ? engine_process.count() : 0;
}

static void find_gpus(struct info_net *net)
{
	const int visible = count_visible();
	struct engine_gpu gpu;
	uint64_t id;
	for (int i = 0; i < net->adapters->nobjects; i++)
		if (net->adapters->object[i].is_gpu)
			add_gpu(net, net->adapters->object[i].id, NULL);
	for (int i = 0; i < visible; i++)
		if (!engine_process.gpu(i, &gpu) && !adapters_parse_pci(gpu.pci, &id))
			add_gpu(net, id, gpu.name);
	qsort(net->gpu, (size_t)net->ngpus, sizeof(*net->gpu), by_pci);
}

static void choose(struct info_net *net)
{
	const char *gpus[INFO_GPUS];
	for (int i = 0; i < net->ngpus; i++)
		gpus[i] = net->gpu[i].pci;
	for (int i = 0; i < net->ngpus; i++)
		adapters_choose(net->adapters, gpus, net->ngpus, i, &net->gpu[i].choice);
}

/* ---- Sections ---- */

static const char *use_of(const struct adapters_port *port)
{
	static const char *const uses[] = { "active",
					    "not used: CORALE_NET_DEVICES or NCCL_IB_HCA leaves it out",
					    "not used: not active",
					    "not used: less than half as fast as others" };
	return uses[port->use];
}

static void print_adapters(const struct info_net *net)
{
	const struct adapters *adapters = net->adapters;
	heading("RDMA adapters");
	line("PCI tree", adapters->tree);
	for (int p = 0; p < adapters->nports; p++) {
		const struct adapters_port *port = &adapters->port[p];
		char name[64], text[160], pci[ADAPTERS_PCI_BYTES] = "not known", rate[32] = "";
		if (port->object >= 0)
			adapters_print_pci(adapters->object[port->object].id, pci);
		if (port->gbits)
			snprintf(rate, sizeof(rate), ", %d Gb/s", port->gbits);
		snprintf(name, sizeof(name), "%s:%d", port->name, port->number);
		snprintf(text, sizeof(text), "PCI %s%s%s%s; %s", pci, port->layer[0] ? ", " : "", port->layer,
			 rate, use_of(port));
		line(name, text);
	}
	if (!adapters->nports)
		line("none", adapters->none);
}

static void print_gpus(const struct info_net *net)
{
	char why_not[256];
	heading("GPUs");
	for (int i = 0; i < net->ngpus; i++)
		line(net->gpu[i].pci, net->gpu[i].name[0]
					  ? net->gpu[i].name
					  : "of the PCI tree; CUDA doesn't show it to this process");
	if (!net->ngpus)
		line("none", engine_process.available(why_not, sizeof(why_not))
				 ? "CUDA shows none, nor does the PCI tree"
				 : why_not);
}

/* A row a GPU, a column a port that counts. */
static void print_paths(const struct info_net *net)
{
	const struct adapters *adapters = net->adapters;
	heading("Paths: PIX one switch, PXB several, PHB a host bridge, SYS between NUMA nodes");
	printf("  %-14s", "");
	for (int p = 0; p < adapters->nports; p++)
		if (adapters->port[p].use == ADAPTERS_COUNTS)
			printf(" %8s:%d", adapters->port[p].name, adapters->port[p].number);
	for (int i = 0; i < net->ngpus; i++) {
		printf("\n  %-14s", net->gpu[i].pci);
		for (int p = 0; p < adapters->nports; p++)
			if (adapters->port[p].use == ADAPTERS_COUNTS)
				printf(" %10s",
				       adapters_path_name(adapters_path(adapters, net->gpu[i].pci, p)));
	}
	printf("\n");
}

/* "mlx5_0:1,mlx5_1:1  PIX: through one PCIe switch" */
static void print_choice(const char *name, const struct adapters_choice *choice)
{
	static const char *const gpudirect[] = { "too far for GPUDirect",
						 "GPUDirect only if it proves faster",
						 "near enough for GPUDirect" };
	char text[1024];
	int at = 0;
	for (int r = 0; r < choice->rails; r++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%s", r ? "," : "", choice->device[r]);
	snprintf(text + at, sizeof(text) - (size_t)at, "%s%s%s%s", at ? "; " : "none: ", choice->reason,
		 at ? "; " : "", at ? gpudirect[choice->gpudirect] : "");
	line(name, text);
}

static void print_choices(const struct info_net *net)
{
	heading("Adapter of each GPU, with a rank on each");
	for (int i = 0; i < net->ngpus; i++)
		print_choice(net->gpu[i].pci, &net->gpu[i].choice);
}

/* GPUs of the ranks that see one. */
static void print_ranks(const struct info_net *net)
{
	const char *gpus[INFO_RANKS];
	struct adapters_choice choice;
	char name[64];
	int n = 0, before = 0;
	if (!net->nranks)
		return;
	for (int i = 0; i < net->nranks; i++)
		if (net->rank[i].gpu[0])
			gpus[n++] = net->rank[i].gpu;
	heading("Ranks of this host, each on the GPU that it sees, by local rank");
	for (int i = 0; i < net->nranks; i++) {
		const struct info_rank *rank = &net->rank[i];
		snprintf(name, sizeof(name), "rank %d %s", rank->rank, rank->gpu);
		if (!rank->is_there)
			snprintf(name, sizeof(name), "local rank %d", i);
		if (!rank->is_there)
			line(name, "has said nothing: is it in another network namespace?");
		else if (!rank->gpu[0])
			line(name, "sees no GPU");
		else
			adapters_choose(net->adapters, gpus, n, before++, &choice),
			    print_choice(name, &choice);
	}
}

static void print_gpudirect(const struct info_net *net)
{
	static const char *const drivers[] = { "proprietary kernel modules (no dmabuf)",
					       "open kernel modules" };
	const int driver = info_system_has_open_driver("/proc");
	struct utsname system;
	heading("GPUDirect RDMA");
	line("UCX", net->ucx.facts);
	line("NVIDIA's driver", driver < 0 ? "not loaded" : drivers[driver]);
	line("kernel", uname(&system) ? "not known" : system.release);
	for (int i = 0; i < settings_count(); i++) {
		const char *name = settings_row(i)->name;
		char value[300];
		if (strncmp(name, "CORALE_GPUDIRECT", strlen("CORALE_GPUDIRECT")))
			continue;
		settings_value(net->settings, i, value, sizeof(value));
		line(name, value);
	}
}

static void print(struct info_net *net)
{
	choose(net);
	info_ucx_look(&net->ucx);
	print_adapters(net);
	print_gpus(net);
	if (net->ngpus && net->adapters->nports)
		print_paths(net);
	if (net->ngpus)
		print_choices(net);
	print_ranks(net);
	info_transports(net->settings);
	print_gpudirect(net);
	info_slow_print(net);
}

/* 1: another rank of this host prints. */
static int gather_ranks(struct info_net *net)
{
	struct info_rank self;
	struct engine_gpu gpu;
	uint64_t id;
	const int visible = count_visible();
	int locals;
	if (!info_ranks_find(&self, &locals))
		return 0;
	self.adapters = adapters_key(net->adapters);
	if (visible && !engine_process.gpu(self.local % visible, &gpu) && !adapters_parse_pci(gpu.pci, &id))
		adapters_print_pci(id, self.gpu);
	info_ranks_gather(&self, locals, net->rank);
	net->nranks = locals;
	return self.local > 0;
}

int info_net(void)
{
	struct info_net *net = calloc(1, sizeof(*net));
	struct utsname system;
	int ret = net ? settings_get(&net->settings) : CORALE_ENOMEM;
	if (!ret)
		ret = adapters_machine(&net->adapters);
	if (!ret && !gather_ranks(net)) {
		printf("Network of host %s\n", uname(&system) ? "" : system.nodename);
		find_gpus(net);
		print(net);
	}
	free(net);
	return ret ? 1 : 0;
}
