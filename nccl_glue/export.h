/* SPDX-License-Identifier: BSD-3-Clause */
/* Exported names. The file that defines pncclX says DOOR_EXPORT(ncclX); once, before the definition: ncclX becomes a weak alias, which
 * a profiler may replace by a function that calls pncclX. Inside the library nobody calls an exported name. */
#ifndef DOOR_EXPORT_H
#define DOOR_EXPORT_H

#include "nccl_device_host.h"

#define DOOR_EXPORT(name)                                                                                    \
	extern __typeof__(p##name) p##name __attribute__((visibility("default")));                           \
	extern __typeof__(name) name __attribute__((weak, alias("p" #name), visibility("default")))

#endif
