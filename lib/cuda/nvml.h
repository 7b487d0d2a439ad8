/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How GPUs of this machine reach each other, by their PCI bus ids, those that this process does not see too: as the driver's management
 * library (NVML) has it, which is looked up at run time, as not every container has it. Any thread.
 */
#ifndef NVML_H
#define NVML_H

#include "engine.h"

/* What is used of the library; each function is 0 or an error. All zero: it is not here. */
struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*find)(const char *pci, void **device);
	int (*status)(void *from, void *to, int of, int *status); /* of: enum nvml_p2p */
	int (*generation)(void *device, unsigned *generation); /* of PCIe, at most, and lanes */
	int (*width)(void *device, unsigned *width);
};

/* nvmlGpuP2PCapsIndex_t of nvml.h; the status of what works is 0. */
enum nvml_p2p { NVML_READ, NVML_WRITE, NVML_NVLINK, NVML_STATUS_OK = 0, NVML_STATUS_UNKNOWN = 6 };

/* Waits for the driver to look at all GPUs, unless the process uses the library already. */
void nvml_open(struct nvml *nvml);
void nvml_close(struct nvml *nvml);

/*
 * How one GPU reaches another one. cuda: what CUDA says of the two; ENGINE_UNKNOWN_LINK: this process does not see both. Whether there is
 * access CUDA knows better, where it sees both; whether it is over NVLink, the library, where it knows both.
 */
enum engine_link nvml_link(const struct nvml *nvml, const char *from, const char *to, enum engine_link cuda);

/* GB/s each way between a GPU and host memory, by its PCIe's generation and width; 0: not known. */
int nvml_bus_gbs(const struct nvml *nvml, const char *pci);

#endif
