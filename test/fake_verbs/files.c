/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that programs look for: /dev/null stands for the device's, and for those of nvidia-peermem. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"

static const char *stand_in(const char *path)
{
	static const char device[] = "/dev/infiniband/uverbs0";
	static const char *const peermem[] = { "/sys/kernel/mm/memory_peers/nv_mem/version",
					       "/sys/module/nvidia_peermem/version",
					       "/sys/module/nv_peer_mem/version" };
	for (size_t i = 0; i < sizeof(peermem) / sizeof(*peermem); i++)
		if (!strcmp(path, peermem[i]))
			return fake_faults.peermem ? "/dev/null" : "/nowhere/peermem";
	return strcmp(path, device) ? path : "/dev/null";
}

int access(const char *path, int mode)
{
	int (*next)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");
	return next(stand_in(path), mode);
}

int stat(const char *restrict path, struct stat *restrict status)
{
	int (*next)(const char *, struct stat *) =
	    (int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");
	return next(stand_in(path), status);
}
