/* SPDX-License-Identifier: BSD-3-Clause */
/* Which GPU is the current one, and how it reaches others: before there is an engine. */
#include "engine_cuda.h"

#include <string.h>

#include "nvml.h"

static int find_uuid(const struct cuda_driver *driver, int ordinal, unsigned char uuid[ENGINE_UUID_BYTES])
{
	CUdevice device;
	CUuuid found;
	if (driver->device(&device, ordinal) != CUDA_SUCCESS ||
	    driver->device_uuid(&found, device) != CUDA_SUCCESS)
		return CORALE_EDEVICE;
	memcpy(uuid, found.bytes, ENGINE_UUID_BYTES);
	return 0;
}

/* The driver, and the current GPU's ordinal; 0: none can be used, which engine_open says. */
static int find_current(struct cuda_driver *driver, int *ordinal)
{
	char why_not[256];
	return cuda_available(why_not, sizeof why_not) && cuda_load_driver(driver, why_not, sizeof why_not) &&
	       cudaGetDevice(ordinal) == cudaSuccess;
}

void engine_identify(struct engine_identity *out)
{
	struct cuda_driver driver;
	int ordinal;
	memset(out, 0, sizeof *out);
	if (find_current(&driver, &ordinal) && !find_uuid(&driver, ordinal, out->uuid))
		cudaDeviceGetPCIBusId(out->pci, sizeof out->pci, ordinal);
}

static enum engine_link seen_link(const struct cuda_driver *driver, int ordinal,
				  const unsigned char uuid[ENGINE_UUID_BYTES])
{
	const int count = cuda_count();
	for (int i = 0; i < count; i++) {
		unsigned char found[ENGINE_UUID_BYTES];
		if (i != ordinal && !find_uuid(driver, i, found) && !memcmp(found, uuid, sizeof found))
			return cuda_link(ordinal, i);
	}
	return ENGINE_UNKNOWN_LINK;
}

void engine_links(const struct engine_identity *gpus, int n, enum engine_link *out)
{
	struct cuda_driver driver;
	struct engine_identity own;
	struct nvml nvml = { 0 };
	int ordinal = -1, asked = 0;
	engine_identify(&own);
	const int usable = find_current(&driver, &ordinal);
	for (int i = 0; i < n; i++) {
		out[i] = usable ? ENGINE_NVLINK : ENGINE_UNKNOWN_LINK;
		if (!usable || !memcmp(gpus[i].uuid, own.uuid, ENGINE_UUID_BYTES))
			continue;
		if (!asked++)
			nvml_open(&nvml);
		out[i] = nvml_link(&nvml, own.pci, gpus[i].pci, seen_link(&driver, ordinal, gpus[i].uuid));
	}
	nvml_close(&nvml);
}
