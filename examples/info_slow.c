/* SPDX-License-Identifier: BSD-3-Clause */
/* The last section of corale-info --net: what is slow or off on this machine, and why. */
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include "info.h"
#include "info_net.h"

static const char sysfs[] = "/sys";

/* How many sentences were printed. */
struct report {
	const struct info_net *net;
	int n;
};

static void __attribute__((format(printf, 2, 3))) say(struct report *report, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	printf("  - ");
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
	report->n++;
}

static int uses(const struct adapters_choice *choice, const char *device)
{
	for (int r = 0; r < choice->rails; r++)
		if (!strcmp(choice->device[r], device))
			return 1;
	return 0;
}

/* By what GPUs do with their adapters: the sentence, one for all GPUs of a path. */
static void say_path(struct report *report, enum adapters_path path, const char *sentence)
{
	const struct info_net *net = report->net;
	int first = -1, n = 0;
	for (int i = 0; i < net->ngpus; i++) {
		if (!net->gpu[i].choice.rails || net->gpu[i].choice.path != path)
			continue;
		first = n++ ? first : i;
	}
	if (n == 1)
		say(report, "GPU %s %s", net->gpu[first].pci, sentence);
	else if (n)
		say(report, "GPU %s and %d more: each %s", net->gpu[first].pci, n - 1, sentence);
}

static void say_paths(struct report *report)
{
	const int before = report->n;
	say_path(report, ADAPTERS_SYS,
		 "has no adapter on its NUMA node (SYS). GPUDirect is off: messages go through pinned host "
		 "memory.");
	say_path(report, ADAPTERS_PHB,
		 "reaches its adapter through a host bridge (PHB). Many processors forward such traffic "
		 "slowly, so "
		 "GPUDirect has to prove faster than pinned host memory.");
	say_path(
	    report, ADAPTERS_UNKNOWN,
	    "has a path to its adapter that the PCI tree doesn't show, so adapters are dealt out by number. "
	    "CORALE_TOPO_FILE takes the tree of the real machine (lstopo --of xml).");
	if (info_system_is_virtual("/proc") == 1 && report->n > before)
		say(report, "This is a virtual machine: the tree may not be the real one.");
}

static void say_shared(struct report *report)
{
	const struct info_net *net = report->net;
	for (int p = 0; p < net->adapters->nports; p++) {
		char device[ADAPTERS_DEVICE_BYTES];
		int n = 0;
		snprintf(device, sizeof(device), "%s:%d", net->adapters->port[p].name,
			 net->adapters->port[p].number);
		for (int i = 0; i < net->ngpus; i++)
			n += uses(&net->gpu[i].choice, device);
		if (n > 1)
			say(report, "%s carries the messages of %d GPUs, which share its rate.", device, n);
	}
}

static void say_ports(struct report *report)
{
	const struct adapters *adapters = report->net->adapters;
	const char *layer = NULL;
	int counts = 0, is_mixed = 0;
	for (int p = 0; p < adapters->nports; p++) {
		const struct adapters_port *port = &adapters->port[p];
		if (port->use == ADAPTERS_NOT_ACTIVE)
			say(report,
			    "%s:%d is not active: no cable, no switch or subnet manager, or it is down.",
			    port->name, port->number);
		if (port->use == ADAPTERS_SLOW)
			say(report,
			    "%s:%d is less than half as fast as the fastest port and isn't used: if it "
			    "should be "
			    "faster, look at its cable; NCCL_IB_HCA or CORALE_NET_DEVICES can name it.",
			    port->name, port->number);
		if (port->use != ADAPTERS_COUNTS)
			continue;
		counts++;
		is_mixed |= layer && port->layer[0] && strcmp(layer, port->layer);
		layer = port->layer[0] ? port->layer : layer;
	}
	if (!counts)
		say(report,
		    "No RDMA adapter: %s. Messages between nodes go over tcp, copied by the processors' "
		    "cores.",
		    adapters->none);
	if (is_mixed)
		say(report, "InfiniBand and Ethernet ports count alike, and can't reach each other: name "
			    "those of one "
			    "network by NCCL_IB_HCA or CORALE_NET_DEVICES.");
}

static int is_used(const struct info_net *net, int port, const char *device)
{
	for (int i = 0; i < net->ngpus; i++)
		if (uses(&net->gpu[i].choice, device))
			return 1;
	return !net->ngpus && net->adapters->port[port].use == ADAPTERS_COUNTS;
}

/* One sentence for all devices: they mostly lack the same. */
static void say_devices(struct report *report)
{
	const struct info_net *net = report->net;
	char first[ADAPTERS_DEVICE_BYTES], why_not[480], again[480];
	int n = 0;
	for (int p = 0; net->ucx.is_there && p < net->adapters->nports; p++) {
		char device[ADAPTERS_DEVICE_BYTES];
		snprintf(device, sizeof(device), "%s:%d", net->adapters->port[p].name,
			 net->adapters->port[p].number);
		if (!is_used(net, p, device) ||
		    !info_ucx_open(device, 1, n ? again : why_not, sizeof(why_not)))
			continue;
		if (!n++)
			snprintf(first, sizeof(first), "%s", device);
	}
	if (n == 1)
		say(report, "UCX can't open %s for RDMA: %s.", first, why_not);
	else if (n)
		say(report, "UCX can't open %s and %d more for RDMA: %s.", first, n - 1, why_not);
}

static void say_registration(struct report *report)
{
	const struct info_ucx *ucx = &report->net->ucx;
	struct rlimit locked;
	if (!ucx->can_register)
		say(report,
		    "UCX can't register a GPU's memory, so messages of GPUs go through pinned host memory: "
		    "%s.",
		    ucx->advice);
	if (!getrlimit(RLIMIT_MEMLOCK, &locked) && locked.rlim_cur != RLIM_INFINITY &&
	    locked.rlim_cur < (rlim_t)256 << 20)
		say(report,
		    "ulimit -l is %llu KiB: adapters may not be able to register memory. Raise it, also for "
		    "jobs of "
		    "the launcher.",
		    (unsigned long long)locked.rlim_cur >> 10);
}

/* ---- Peer traffic of GPUs and the adapters that they use ---- */

static int find_port(const struct adapters *adapters, const char *device)
{
	for (int p = 0; p < adapters->nports; p++) {
		char name[ADAPTERS_DEVICE_BYTES];
		snprintf(name, sizeof(name), "%s:%d", adapters->port[p].name, adapters->port[p].number);
		if (!strcmp(name, device))
			return p;
	}
	return -1;
}

static void count_redirecting(const struct info_net *net, const struct info_gpu *gpu, int port,
			      int *redirecting, int *hidden)
{
	uint64_t bridges[32];
	const int n = adapters_switch_ports(net->adapters, gpu->pci, port, bridges, 32);
	for (int b = 0; b < n; b++) {
		const int redirects = info_system_redirects(sysfs, bridges[b]);
		*redirecting += redirects == 1;
		*hidden += redirects < 0;
	}
}

static void say_peer_traffic(struct report *report)
{
	const struct info_net *net = report->net;
	int translated = 0, redirecting = 0, hidden = 0;
	for (int i = 0; i < net->ngpus; i++) {
		const struct info_gpu *gpu = &net->gpu[i];
		uint64_t id;
		for (int r = 0; r < gpu->choice.rails; r++)
			count_redirecting(net, gpu, find_port(net->adapters, gpu->choice.device[r]),
					  &redirecting, &hidden);
		translated += !adapters_parse_pci(gpu->pci, &id) && info_system_translates(sysfs, id) == 1;
	}
	if (translated)
		say(report,
		    "The IOMMU translates addresses of %d GPU%s: traffic between adapters and GPUs may be "
		    "slow or fail. "
		    "On bare metal boot with iommu=pt.",
		    translated, translated > 1 ? "s" : "");
	if (redirecting)
		say(report,
		    "ACS sends traffic between GPUs and their adapters to the root complex, at %d switch "
		    "port%s: slow, or "
		    "hanging. On bare metal switch it off (setpci, or the BIOS).",
		    redirecting, redirecting > 1 ? "s" : "");
	if (hidden)
		say(report,
		    "Whether ACS is on at %d switch port%s only root can see: sudo corale-info --net.",
		    hidden, hidden > 1 ? "s" : "");
}

static void say_ranks(struct report *report)
{
	const struct info_net *net = report->net;
	for (int i = 1; i < net->nranks; i++)
		if (net->rank[i].is_there && net->rank[i].adapters != net->rank[0].adapters)
			say(report,
			    "Rank %d sees other adapters or another PCI tree than rank %d: ranks of a host "
			    "must see the same.",
			    net->rank[i].rank, net->rank[0].rank);
}

void info_slow_print(const struct info_net *net)
{
	struct report report = { .net = net };
	heading("What is slow or off, and why");
	say_ranks(&report);
	say_ports(&report);
	say_paths(&report);
	say_shared(&report);
	say_devices(&report);
	say_registration(&report);
	say_peer_traffic(&report);
	if (!report.n)
		printf("  nothing that this machine shows\n");
}
