/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	size_t at; /* in struct nvml */
} functions[] = {
	{ "nvmlInit_v2", offsetof(struct nvml, init) },
	{ "nvmlShutdown", offsetof(struct nvml, shutdown) },
	{ "nvmlDeviceGetHandleByPciBusId_v2", offsetof(struct nvml, find) },
	{ "nvmlDeviceGetP2PStatus", offsetof(struct nvml, status) },
	{ "nvmlDeviceGetMaxPcieLinkGeneration", offsetof(struct nvml, generation) },
	{ "nvmlDeviceGetMaxPcieLinkWidth", offsetof(struct nvml, width) },
};

static int find_functions(void *library, struct nvml *n)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		void *function = dlsym(library, functions[i].name);
		if (!function)
			return 0;
		memcpy((char *)n + functions[i].at, &function, sizeof(function));
	}
	return 1;
}

void nvml_open(struct nvml *n)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW); /* it stays open, as the driver's does */
	if (!library || !find_functions(library, n) || n->init())
		memset(n, 0, sizeof(*n));
}

void nvml_close(struct nvml *n)
{
	if (n->shutdown)
		n->shutdown();
}

/* 1: it works; 0: it does not; -1: the library doesn't know. */
static int works(const struct nvml *n, void *from, void *to, enum nvml_p2p of)
{
	int status = NVML_STATUS_UNKNOWN;
	if (n->status(from, to, of, &status) || status == NVML_STATUS_UNKNOWN)
		return -1;
	return status == NVML_STATUS_OK;
}

static enum engine_link ask(const struct nvml *n, const char *from, const char *to)
{
	void *a, *b;
	if (!n->find || n->find(from, &a) || n->find(to, &b))
		return ENGINE_UNKNOWN_LINK;
	const int nvlink = works(n, a, b, NVML_NVLINK);
	if (nvlink)
		return nvlink > 0 ? ENGINE_NVLINK : ENGINE_UNKNOWN_LINK;
	const int reads = works(n, a, b, NVML_READ), writes = works(n, a, b, NVML_WRITE);
	if (!reads || !writes)
		return ENGINE_NO_LINK;
	return reads > 0 && writes > 0 ? ENGINE_PEER : ENGINE_UNKNOWN_LINK;
}

enum engine_link nvml_link(const struct nvml *n, const char *from, const char *to, enum engine_link cuda)
{
	if (!strcmp(from, to)) /* of one GPU the library says that it has no links to itself */
		return ENGINE_NVLINK;
	if (cuda == ENGINE_NO_LINK)
		return cuda;
	const enum engine_link link = ask(n, from, to);
	if (link == ENGINE_UNKNOWN_LINK)
		return cuda;
	if (link == ENGINE_NO_LINK && cuda != ENGINE_UNKNOWN_LINK)
		return ENGINE_PEER;
	return link;
}

int nvml_bus_gbs(const struct nvml *n, const char *pci)
{
	enum { FIFTH = 5, LANES = 16 }; /* of which RATES_BUS_GBS were measured */
	unsigned generation = 0, width = 0;
	void *device;
	if (!n->find || n->find(pci, &device) || n->generation(device, &generation) ||
	    n->width(device, &width) || generation < 1 || generation > 2 * FIFTH)
		return 0;
	const double gbs = RATES_BUS_GBS * (double)width / LANES * (double)(1u << generation) / (1u << FIFTH);
	return gbs < 1 ? 1 : (int)gbs;
}
