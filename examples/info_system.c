/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "info_net.h"

static void path_of(char path[512], const char *sysfs, uint64_t pci, const char *file)
{
	char id[ADAPTERS_PCI_BYTES];
	adapters_print_pci(pci, id);
	snprintf(path, 512, "%s/bus/pci/devices/%s/%s", sysfs, id, file);
}

/* The type of a group's domain is "DMA" or "DMA-FQ" where addresses are translated, "identity" where they pass. */
int info_system_translates(const char *sysfs, uint64_t pci)
{
	char path[512], type[32] = "";
	path_of(path, sysfs, pci, "vendor");
	if (access(path, F_OK))
		return -1;
	path_of(path, sysfs, pci, "iommu_group");
	if (access(path, F_OK))
		return 0;
	path_of(path, sysfs, pci, "iommu_group/type");
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	const int is_read = fgets(type, sizeof(type), file) != NULL;
	fclose(file);
	return is_read ? !strncmp(type, "DMA", 3) : -1;
}

static unsigned word_at(const unsigned char *config, size_t at)
{
	return config[at] | (unsigned)config[at + 1] << 8;
}

/* The list of extended capabilities begins at 0x100: id, then, in the upper 12 bits, where the next one is. ACS has its control word at 6, with
 * P2P Request Redirect as bit 2. */
int info_system_redirects(const char *sysfs, uint64_t pci)
{
	enum { CAPABILITIES = 0x100, ACS = 0x0d, CONTROL = 6, REQUEST_REDIRECT = 4 };
	unsigned char config[4096];
	char path[512];
	path_of(path, sysfs, pci, "config");
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	const size_t bytes = fread(config, 1, sizeof(config), file);
	fclose(file);
	if (bytes < CAPABILITIES + 4)
		return -1;
	size_t at = CAPABILITIES;
	for (int n = 0; n < 64 && at >= CAPABILITIES && at + CONTROL + 2 <= bytes; n++) {
		if (word_at(config, at) == ACS)
			return (word_at(config, at + CONTROL) & REQUEST_REDIRECT) != 0;
		at = word_at(config, at + 2) >> 4;
	}
	return 0;
}

/* 1: a line of the file has the text; -1: there is no file. */
static int file_has(const char *folder, const char *name, const char *text)
{
	char path[512], line[4096];
	int found = 0;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, text) != NULL;
	fclose(file);
	return found;
}

int info_system_has_open_driver(const char *proc)
{
	return file_has(proc, "driver/nvidia/version", "Open Kernel Module");
}

int info_system_is_virtual(const char *proc)
{
	return file_has(proc, "cpuinfo", " hypervisor");
}
